"""Plain folders, LM Studio's and llama.cpp's: which files make a model, and what is in the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from explorer.stores import folders
from explorer.stores.entries import Place, Store, StoreKind
from explorer.stores.library import read_stores
from tests.helpers.closed_folders import close_folder
from tests.helpers.safetensors_writer import tensors_bytes

WEIGHTS = tensors_bytes([("a", "F32", [4])])


def scan(root: Path, kind: StoreKind = StoreKind.FOLDER) -> Store:
    (store,) = read_stores([Place(kind, root)])
    return store


def put(root: Path, *names: str, content: bytes = b"GGUF") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def listed(store: Store) -> dict[str, tuple[str | None, str, int]]:
    """Return format, path from the root, and problems of each entry."""
    return {
        entry.name: (entry.format, os.path.relpath(entry.path, store.root), len(entry.problems))
        for entry in store.entries
    }


def test_models_of_every_kind(tmp_path: Path) -> None:
    put(tmp_path, "a.gguf", "deep/er/b.GGUF", "deep/mmproj-b.gguf", "notes.txt", ".hidden.gguf")
    put(tmp_path, "split/c-00001-of-00003.gguf", "split/c-00003-of-00003.gguf")
    put(tmp_path, "hf/model.safetensors", content=WEIGHTS)
    put(tmp_path, "hf/config.json", content=b"{}")
    put(tmp_path, "sharded/model-00001-of-00002.safetensors", content=WEIGHTS)
    put(tmp_path, "sharded/model.safetensors.index.json", content=b"{}")
    put(tmp_path, "both/model.safetensors", content=WEIGHTS)
    put(tmp_path, "both/config.json", content=b"{}")
    put(tmp_path, "both/q8.gguf")
    put(tmp_path, "loras/x.safetensors", "loras/y.safetensors", content=WEIGHTS)
    put(tmp_path, "bare/m-00001-of-00002.safetensors", content=WEIGHTS)
    put(tmp_path, "bare/m-00002-of-00002.safetensors", content=WEIGHTS)
    put(tmp_path, ".git/d.gguf", "deep/e.gguf.part")
    store = scan(tmp_path)
    assert listed(store) == {
        "a.gguf": ("gguf", "a.gguf", 0),
        "bare/m-00001-of-00002.safetensors": ("safetensors", "bare", 0),
        "both": ("safetensors", "both/config.json", 0),  # the folder itself would be ambiguous
        "both/q8.gguf": ("gguf", "both/q8.gguf", 0),
        "deep/mmproj-b.gguf": ("gguf", "deep/mmproj-b.gguf", 0),
        "deep/er/b.GGUF": ("gguf", "deep/er/b.GGUF", 0),
        "hf": ("safetensors", "hf", 0),
        "loras/x.safetensors": ("safetensors", "loras/x.safetensors", 0),
        "loras/y.safetensors": ("safetensors", "loras/y.safetensors", 0),
        "sharded": ("safetensors", "sharded", 0),
        "split/c-00001-of-00003.gguf": ("gguf", "split/c-00001-of-00003.gguf", 1),
    }
    sizes = {entry.name: entry.nbytes for entry in store.entries}
    assert sizes["split/c-00001-of-00003.gguf"] == 8
    assert sizes["hf"] == len(WEIGHTS) + 2
    assert [partial.path.name for partial in store.partials] == ["e.gguf.part"]
    assert store.problems == ()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_what_is_in_the_way(tmp_path: Path) -> None:
    put(tmp_path, "good.gguf")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "self.gguf").symlink_to("self.gguf")
    (tmp_path / "gone.gguf").symlink_to("nowhere")
    put(tmp_path, "a\u202eb\n.gguf")
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "device.gguf").symlink_to("/dev/zero")
    store = scan(tmp_path)
    what = {e.name: "; ".join(problem.what for problem in e.problems) for e in store.entries}
    assert what["good.gguf"] == ""
    assert "cannot be looked at" in what["self.gguf"]
    assert "not there" in what["gone.gguf"]
    assert "cannot be seen" in what["a\u202eb\n.gguf"]
    assert "pipe" in what["pipe.gguf"]
    assert "device" in what["device.gguf"]
    assert ["listed already" in problem.what for problem in store.problems] == [True]


def test_an_unreadable_folder_is_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "open/a.gguf", "closed/b.gguf")
    close_folder(monkeypatch, tmp_path / "closed")
    store = scan(tmp_path)
    assert listed(store) == {
        "open/a.gguf": ("gguf", "open/a.gguf", 0),
        "closed": (None, "closed", 1),
    }
    assert "permission denied" in store.entries[1].problems[0].what


def test_links_to_other_disks_are_followed(tmp_path: Path) -> None:
    put(tmp_path / "disk", "b.gguf")
    put(tmp_path / "models", "a.gguf")
    (tmp_path / "models" / "more").symlink_to(tmp_path / "disk")
    assert list(listed(scan(tmp_path / "models"))) == ["a.gguf", "more/b.gguf"]


def test_lm_studio(tmp_path: Path) -> None:
    put(tmp_path, "publisher/repo/x-Q4_K_M.gguf")
    put(tmp_path, "mlx-community/y-4bit/model.safetensors", content=WEIGHTS)
    put(tmp_path, "mlx-community/y-4bit/config.json", content=b"{}")
    store = scan(tmp_path, StoreKind.LMSTUDIO)
    assert store.kind is StoreKind.LMSTUDIO
    assert list(listed(store)) == ["mlx-community/y-4bit", "publisher/repo/x-Q4_K_M.gguf"]


def test_llama_cpp_flat_and_as_a_hub_cache(tmp_path: Path) -> None:
    put(tmp_path, "org_repo_x-Q4_K_M.gguf", "org_repo_x-Q4_K_M.gguf.json")
    put(tmp_path, "manifest=org=repo=latest.json", "rpc/0123.gguf", "new.gguf.downloadInProgress")
    put(tmp_path, f"models--org--repo/snapshots/{'a' * 40}/y.gguf")
    store = scan(tmp_path, StoreKind.LLAMA_CPP)
    assert list(listed(store)) == ["org_repo_x-Q4_K_M.gguf", "org/repo/y.gguf"]
    assert [partial.path.name for partial in store.partials] == ["new.gguf.downloadInProgress"]
    assert store.kind is StoreKind.LLAMA_CPP
    assert store.nbytes == 8


def test_a_folder_without_end_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_MAX_FILES", 2)
    put(tmp_path, "many/a.gguf", "many/b.gguf", "many/c.gguf", "d.gguf")
    store = scan(tmp_path)
    assert list(listed(store)) == ["d.gguf", "many"]
    assert "more than 2 files" in store.entries[1].problems[0].what
