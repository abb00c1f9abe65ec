"""The library: models and stores in order, cancelling, details on demand, digests, and speed."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from explorer.stores.entries import Entry, Place, Store, StoreKind
from explorer.stores.library import read_details, read_stores, scan
from explorer.stores.ollama import digest_fault, manifest_blobs
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.safetensors_writer import write_tensors
from tests.helpers.small_gguf import SmallGguf


class Cancelled(Exception):
    pass


@pytest.fixture
def two_stores(tmp_path: Path) -> list[Place]:
    store = OllamaStore(tmp_path / "models")
    gguf = SmallGguf(keys=[("general.architecture", "llama")]).write()
    for tag in ("a", "b"):
        store.manifest([store.layer("model", gguf)], f"registry.ollama.ai/library/m/{tag}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.gguf").write_bytes(gguf)
    return [Place(StoreKind.OLLAMA, store.models), Place(StoreKind.FOLDER, tmp_path / "folder")]


def test_models_and_stores_come_one_by_one(two_stores: list[Place]) -> None:
    events = list(scan(two_stores))
    assert [type(found) for _, found in events] == [Entry, Entry, Store, Entry, Store]
    assert [place for place, _ in events] == [*[two_stores[0]] * 3, *[two_stores[1]] * 2]
    found = [found.name for _, found in events if isinstance(found, Entry)]
    assert found == ["m:a", "m:b", "x.gguf"]
    kinds = [store.kind for store in read_stores(two_stores)]
    assert kinds == [StoreKind.OLLAMA, StoreKind.FOLDER]


def test_listing_opens_no_model(two_stores: list[Place], monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    really_open = os.open

    def spy(path: str | Path, *rest: int) -> int:
        opened.append(os.path.basename(path))
        return really_open(path, *rest)

    monkeypatch.setattr(os, "open", spy)
    stores = read_stores(two_stores)
    assert opened == ["a", "b"]  # the manifests
    opened.clear()
    for store in stores:
        for entry in store.entries:
            assert read_details(entry).architecture == "llama"
    assert {name for name in opened if not name.startswith("sha256-")} == {"a", "b", "x.gguf"}


def read_all(events: Iterable[tuple[Place, object]], seen: list[object]) -> None:
    for _, event in events:  # not extend, which keeps nothing of what came before an error
        seen.append(event)


def test_a_scan_can_be_given_up(two_stores: list[Place]) -> None:
    seen: list[object] = []

    def check() -> None:
        if any(isinstance(found, Store) for found in seen):
            raise Cancelled

    with pytest.raises(Cancelled):
        read_all(scan(two_stores, check), seen)
    assert [type(found) for found in seen] == [Entry, Entry, Store]


def test_details_can_be_given_up(two_stores: list[Place]) -> None:
    def check() -> None:
        raise Cancelled

    entry = read_stores(two_stores)[0].entries[0]
    with pytest.raises(Cancelled):
        read_details(entry, check)


def test_details_of_tensor_blobs_can_be_given_up_between_blobs(tmp_path: Path) -> None:
    store = OllamaStore(tmp_path / "models")
    store.manifest([store.tensor(name, [(name, "F32", [1])]) for name in "abcd"])
    (entry,) = read_stores([Place(StoreKind.OLLAMA, store.models)])[0].entries
    calls = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        read_details(entry, check)


def test_details_of_a_checkpoint_say_which_models_are_in_it(tmp_path: Path) -> None:
    names = ("model.diffusion_model.img_in.weight", "vae.decoder.conv_in.weight")
    write_tensors(
        tmp_path / "a.safetensors", *((name, "F32", [64 >> i, 4]) for i, name in enumerate(names))
    )
    (store,) = read_stores([Place(StoreKind.FOLDER, tmp_path)])
    assert read_details(store.entries[0]).architecture == "diffusion model, VAE"


def test_details_of_a_broken_model_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"junk")
    (entry,) = read_stores([Place(StoreKind.FOLDER, tmp_path)])[0].entries
    details = read_details(entry)
    assert details.parameters is None
    assert len(details.problems) == 1


def test_details_say_what_llama_cpp_refuses(tmp_path: Path) -> None:
    keys = [("general.architecture", "llama")]
    (tmp_path / "fine.gguf").write_bytes(SmallGguf(keys=keys).write())
    (tmp_path / "old.gguf").write_bytes(SmallGguf(1, keys=keys).write())
    (store,) = read_stores([Place(StoreKind.FOLDER, tmp_path)])
    fine, old = map(read_details, store.entries)
    assert (fine.problems, fine.refusals) == ((), ())
    assert old.problems == ()  # it can be read here
    assert [problem.where for problem in old.refusals] == ["llama.cpp"]


def test_digests(tmp_path: Path) -> None:
    content = b"x" * 3_000_000
    path = tmp_path / "blob"
    path.write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    sha1 = hashlib.sha1(b"blob 3000000\0" + content).hexdigest()
    read: list[int] = []
    for name in (f"sha256-{sha256}", f"sha256:{sha256}", sha256, sha1):
        assert digest_fault(path, name, read.append) is None
    assert sum(read) == 4 * len(content)
    wrong = digest_fault(path, "sha256-" + "0" * 64)
    assert wrong is not None
    assert sha256 in wrong
    assert "not a digest" in (digest_fault(path, "readme") or "")
    assert "does not exist" in (digest_fault(tmp_path / "none", sha256) or "")

    def check() -> None:
        if len(read) > 5:
            raise Cancelled

    with pytest.raises(Cancelled):
        digest_fault(path, sha256, read.append, check)


def test_blobs_of_a_manifest(tmp_path: Path) -> None:
    store = OllamaStore(tmp_path / "models")
    here, gone = store.layer("model", b"a"), store.layer("license", b"b")
    store.blob_path(gone).unlink()
    path = store.manifest([here, here, gone], config={})
    assert [title for title, _, _ in manifest_blobs(path)] == ["model layer", "config layer"]


def _notes_reading(folder: Path) -> bool:
    """Return whether the disk notes when a file of ours is read, once a day or each time."""
    file = folder / "noted"
    file.write_bytes(b"x")
    os.utime(file, (1_000_000_000, 1_000_000_001))
    file.read_bytes()
    return file.stat().st_atime != 1_000_000_000


def test_models_say_when_others_used_them_last(tmp_path: Path) -> None:
    """What we read ourselves does not count: else all that was ever listed would be used today."""
    if sys.platform != "linux" or not _notes_reading(tmp_path):
        pytest.skip("this disk does not note when files are read")
    folder, store = tmp_path / "models", OllamaStore(tmp_path / "ollama")
    folder.mkdir()
    file = folder / "own.gguf"
    file.write_bytes(SmallGguf(keys=[("general.architecture", "llama")]).write())
    layer = store.layer("model", file.read_bytes())
    store.manifest([layer, store.layer("template", "{{ .Prompt }}")])
    for path, used in ((file, 1_000_000_000), (store.blob_path(layer), 1_100_000_000)):
        os.utime(path, (used, used + 1))  # older than the change, so that any reading is noted
    places = [Place(StoreKind.FOLDER, folder), Place(StoreKind.OLLAMA, store.models)]
    expected = [1_000_000_000, 1_100_000_000]
    for _ in range(2):
        entries = [entry for store in read_stores(places) for entry in store.entries]
        assert [entry.used for entry in entries] == expected
        assert [read_details(entry).architecture for entry in entries] == ["llama"] * 2
    file.read_bytes()  # as another program does
    (again,) = read_stores(places[:1])[0].entries
    assert again.used is not None
    assert again.used > 1_700_000_000
    assert again == entries[0]  # what is known of it stays known
