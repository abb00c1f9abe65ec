"""Stores that change while they are read: downloads come and go, and nothing else is hidden.

The whole campaign: `python -m tests.stores.test_churn 300`.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from explorer.errors import SourceError
from explorer.stores import folders, huggingface, library, ollama
from explorer.stores.entries import Entry, Place, Store, StoreKind
from explorer.stores.library import read_details, read_stores
from tests.helpers.safetensors_writer import tensors_bytes
from tests.helpers.small_gguf import SmallGguf

_GGUF = SmallGguf(keys=[("general.architecture", "llama")]).write()
_WEIGHTS = tensors_bytes([("a", "F32", [4])])
_COMMIT = "c" * 40
_GONE = "was removed while the store was read"

Contents = dict[str, "bytes | Path"]
"""Files of a folder by their place in it; a path is what a link leads to."""


def _ollama(name: str, weights: bytes) -> Contents:
    digest = hashlib.sha256(weights).hexdigest()
    layer = {
        "mediaType": "application/vnd.ollama.image.model",
        "digest": f"sha256:{digest}",
        "size": len(weights),
    }
    return {
        f"blobs/sha256-{digest}": weights,
        f"manifests/registry.ollama.ai/{name}": json.dumps({"layers": [layer]}).encode(),
    }


def _hub(repository: str) -> Contents:
    folder = f"models--{repository}"
    up = Path("../../blobs")
    return {
        f"{folder}/blobs/e1": _WEIGHTS,
        f"{folder}/blobs/e2": b'{"model_type": "llama"}',
        f"{folder}/snapshots/{_COMMIT}/model.safetensors": up / "e1",
        f"{folder}/snapshots/{_COMMIT}/config.json": up / "e2",
        f"{folder}/refs/main": _COMMIT.encode(),
    }


_STABLE: dict[StoreKind, Contents] = {
    StoreKind.OLLAMA: _ollama("library/stable/latest", _GGUF),
    StoreKind.HUGGINGFACE: _hub("org--stable"),
    StoreKind.LMSTUDIO: {"org/stable/stable.gguf": _GGUF},
    StoreKind.LLAMA_CPP: {"stable.gguf": _GGUF, **_hub("org--stable")},
    StoreKind.FOLDER: {"stable.gguf": _GGUF},
}
_PASSING: dict[StoreKind, Contents] = {
    StoreKind.OLLAMA: {
        **_ollama("library/gone/latest", _GGUF + bytes(1)),
        **_ollama("someone/other/latest", _GGUF + bytes(2)),
        f"blobs/sha256-{'d' * 64}-partial": b"1",
    },
    StoreKind.HUGGINGFACE: {**_hub("org--gone"), "models--org--gone/blobs/e3.incomplete": b"1"},
    StoreKind.LMSTUDIO: {"org/gone/gone.gguf": _GGUF, "other/gone/gone.gguf": _GGUF},
    StoreKind.LLAMA_CPP: {"gone.gguf": _GGUF, "new.gguf.downloadInProgress": b"1"},
    StoreKind.FOLDER: {
        "gone.gguf": _GGUF,
        "link.gguf": Path("stable.gguf"),
        "new.gguf.part": b"1",
        "deep/er/gone.gguf": _GGUF,
        **{f"split/s-0000{number}-of-00003.gguf": _GGUF for number in (1, 2, 3)},
        "hf/model.safetensors": _WEIGHTS,
        "hf/config.json": b"{}",
    },
}


def _put(root: Path, contents: Contents) -> None:
    for name, content in contents.items():
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                path.symlink_to(content)
            else:
                path.write_bytes(content)
        except FileExistsError:
            pass  # it came in another way


def _make_stores(root: Path) -> list[Place]:
    places = [Place(kind, root / kind) for kind in _STABLE]
    for place in places:
        _put(place.root, _STABLE[place.kind])
    return places


def _churn(root: Path, stop: Callable[[], bool], seed: int = 0) -> int:
    """Let files and folders come and go until told to stop; return how many did."""
    chance = random.Random(seed)
    everything = [
        (root / kind, name, content)
        for kind, contents in _PASSING.items()
        for name, content in contents.items()
    ]
    changes = 0
    while not stop():
        base, name, content = chance.choice(everything)
        path = base / name
        if not os.path.lexists(path):
            _put(base, {name: content})
        elif chance.random() < 0.2 and not _holds_stable(base, path.parent):
            shutil.rmtree(path.parent, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        changes += 1
    return changes


def _holds_stable(base: Path, folder: Path) -> bool:
    kind = StoreKind(base.name)
    return any((base / name).is_relative_to(folder) for name in _STABLE[kind])


def _check(found: Sequence[Store], places: list[Place]) -> Iterator[str]:
    """Check one scan; yield the texts of its problems."""
    assert [store.kind for store in found] == [place.kind for place in places]
    for store in found:
        stable = [entry for entry in store.entries if "stable" in entry.name]
        assert len(stable) == (2 if store.kind is StoreKind.LLAMA_CPP else 1), store
        assert [entry.problems for entry in stable] == [()] * len(stable)
        for entry in store.entries:
            yield from (problem.what for problem in entry.problems)
            read_details(entry)
        yield from (problem.what for problem in store.problems)


def _scans(places: list[Place], count: int) -> Counter[str]:
    """Scan many times; return the problems, and how often each was met."""
    problems: Counter[str] = Counter()
    for _ in range(count):
        problems.update(_check(read_stores(places), places))
    for what in problems:
        assert "no such file" not in what, what
        assert "not be read to its end" not in what, what
    return problems


@pytest.mark.slow
def test_another_program_that_changes_stores_during_300_scans() -> None:
    assert campaign(300)[_GONE] > 0


def campaign(count: int) -> Counter[str]:
    """Scan while another process changes the stores; return the problems met."""
    with tempfile.TemporaryDirectory() as folder:
        places = _make_stores(Path(folder))
        command = [sys.executable, "-m", "tests.stores.test_churn", "change", folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as changer:
            try:
                problems = _scans(places, count)
            finally:
                changer.communicate()  # closes its input, which ends it
        assert changer.returncode == 0
    for what in list(problems):
        if _GONE in what:
            problems[_GONE] += problems.pop(what)
    return problems


def _change_until_input_ends(folder: Path) -> None:
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    _churn(folder, ended.is_set, time.time_ns())


@pytest.mark.parametrize("kind", _STABLE, ids=str)
def test_what_goes_between_listing_and_looking_is_left_out_with_a_note(
    kind: StoreKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = _make_stores(tmp_path)
    root = tmp_path / kind
    _put(root, _PASSING[kind])
    listed: list[str] = []

    def list_folder(folder: Path) -> list[os.DirEntry[str]]:
        """List a folder, and remove in it what is not of the stable model."""
        children = really_list(folder)
        if folder.is_relative_to(root):
            for child in children:
                path = Path(child.path)
                if not _holds_stable(root, path):
                    listed.append(child.path)
                    if path.is_dir() and not path.is_symlink():
                        shutil.rmtree(path)
                    else:
                        path.unlink()
        return children

    really_list = folders.list_folder
    for module in (folders, huggingface, ollama):
        monkeypatch.setattr(module, "list_folder", list_folder)
    found = read_stores(places)
    assert listed
    problems = list(_check(found, places))
    assert problems
    assert all(_GONE in what for what in problems)
    (store,) = [store for store in found if store.kind is kind]
    noted = {problem.where for problem in store.problems}
    assert noted <= set(listed)
    assert [e.name for e in store.entries if "stable" not in e.name] == []
    monkeypatch.undo()
    assert list(_check(read_stores(places), places)) == []  # the next scan has no note


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), SourceError("was cut")])
def test_a_fault_of_one_store_hides_no_other(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(scan: folders.Scan) -> Iterator[Entry]:
        yield next(huggingface.hub_models(scan))
        raise error

    places = _make_stores(tmp_path)
    monkeypatch.setitem(library._FINDERS, StoreKind.HUGGINGFACE, fail)
    found = read_stores(places)
    list(_check(found, places))
    (problem,) = found[1].problems
    assert "could not be read to its end: " in problem.what
    assert problem.where == str(tmp_path / "huggingface")


if __name__ == "__main__":
    if sys.argv[1] == "change":
        _change_until_input_ends(Path(sys.argv[2]))
    else:
        for what, times in campaign(int(sys.argv[1])).most_common():
            print(f"{times:8,}  {what}")  # noqa: T201 - the table of docs/security.md
