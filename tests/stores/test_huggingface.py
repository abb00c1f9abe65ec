"""The hub's cache: snapshots of links, shared blobs, unfinished downloads, hostile links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from explorer.formats import open_model
from explorer.stores.entries import Place, Store, StoreKind
from explorer.stores.library import read_details, read_stores
from tests.helpers.safetensors_writer import tensors_bytes
from tests.helpers.small_gguf import SmallGguf

OLD, NEW = "a" * 40, "b" * 40


class Cache:
    """A hub cache with one repository."""

    def __init__(self, root: Path, repository: str = "models--org--name") -> None:
        self.root = root
        self.folder = root / repository
        (self.folder / "blobs").mkdir(parents=True)
        (self.folder / "refs").mkdir()

    def ref(self, branch: str, commit: str) -> None:
        path = self.folder / "refs" / branch
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(commit)

    def add(self, commit: str, name: str, etag: str, content: bytes) -> Path:
        """Put a blob and a link to it; return the link."""
        (self.folder / "blobs" / etag).write_bytes(content)
        path = self.folder / "snapshots" / commit / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(self.folder / "blobs" / etag, path.parent))
        return path


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "hub")


def scan(root: Path) -> Store:
    (store,) = read_stores([Place(StoreKind.HUGGINGFACE, root)])
    return store


WEIGHTS = tensors_bytes([("a", "F32", [4])])


def test_the_main_snapshot_comes_first_and_others_are_revisions(cache: Cache) -> None:
    cache.ref("main", NEW + "\n")
    cache.ref("refs/pr/1", OLD)
    for commit, etag in ((OLD, "e1"), (NEW, "e2")):
        cache.add(commit, "model.safetensors", etag, WEIGHTS)
        cache.add(commit, "config.json", "shared", b'{"model_type": "llama"}')
    (cache.root / ".locks").mkdir()
    (cache.root / "datasets--org--name").mkdir()
    store = scan(cache.root)
    assert [entry.name for entry in store.entries] == ["org/name", "org/name@refs/pr/1"]
    first = store.entries[0]
    assert (first.format, first.problems) == ("safetensors", ())
    assert first.path == cache.folder / "snapshots" / NEW
    assert first.nbytes == len(WEIGHTS) + 23
    assert read_details(first).architecture == "llama"
    users = {blob.digest: blob.used_by for blob in store.blobs}
    assert users == {
        "e1": ("org/name@refs/pr/1",),
        "e2": ("org/name",),
        "shared": ("org/name", "org/name@refs/pr/1"),
    }
    assert store.nbytes == 2 * len(WEIGHTS) + 23


def test_gguf_files_of_a_repository_are_models_of_their_own(cache: Cache) -> None:
    cache.ref("main", NEW)
    for name in ("x-Q4_K_M.gguf", "x-Q8_0.gguf", "sub/y-00001-of-00002.gguf"):
        cache.add(NEW, name, name.replace("/", "-"), b"GGUF")
    entries = {entry.name: entry for entry in scan(cache.root).entries}
    assert list(entries) == [
        *("org/name/x-Q4_K_M.gguf", "org/name/x-Q8_0.gguf", "org/name/sub/y-00001-of-00002.gguf")
    ]
    (problem,) = entries["org/name/sub/y-00001-of-00002.gguf"].problems
    assert problem.what == "1 of 2 shards are missing: number 2"


def test_each_gguf_file_of_a_repository_has_its_own_blob(cache: Cache) -> None:
    """So that one sees which of twenty blobs is which quantization."""
    cache.ref("main", NEW)
    cache.add(NEW, "README.md", "readme", b"text")
    for name in ("x-Q4_K_M.gguf", "x-Q8_0.gguf"):
        cache.add(NEW, name, f"etag-{name}", b"GGUF")
    users = {blob.digest: blob.used_by for blob in scan(cache.root).blobs}
    assert users == {
        "etag-x-Q4_K_M.gguf": ("org/name/x-Q4_K_M.gguf",),
        "etag-x-Q8_0.gguf": ("org/name/x-Q8_0.gguf",),
        "readme": ("org/name/x-Q4_K_M.gguf",),
    }


def test_an_unfinished_download(cache: Cache) -> None:
    cache.add(NEW, "config.json", "c", b"{}")
    link = cache.add(NEW, "model.safetensors", "w", b"")
    (cache.folder / "blobs" / "w").rename(cache.folder / "blobs" / "w.incomplete")
    assert not link.exists()
    store = scan(cache.root)
    (entry,) = store.entries
    assert "may not have finished" in entry.problems[0].what
    assert [partial.path.name for partial in store.partials] == ["w.incomplete"]


def test_files_instead_of_links(cache: Cache) -> None:
    """As on Windows without the right to make links."""
    snapshot = cache.folder / "snapshots" / NEW
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(WEIGHTS)
    (cache.folder / "blobs").rmdir()
    store = scan(cache.root)
    assert [(entry.name, entry.nbytes) for entry in store.entries] == [
        ("org/name/model.safetensors", len(WEIGHTS))
    ]
    assert (store.blobs, store.problems, store.nbytes) == ((), (), len(WEIGHTS))


def test_a_repository_without_organisation(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "hub", "models--gpt2")
    cache.add(NEW, "model.safetensors", "w", WEIGHTS)
    cache.add(NEW, "config.json", "c", b"{}")
    assert [entry.name for entry in scan(cache.root).entries] == ["gpt2"]


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../../secret", "/dev/zero"])
def test_links_out_of_the_cache_are_marked_and_not_opened(
    cache: Cache, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache.root.parent / "secret").write_bytes(WEIGHTS)
    cache.add(NEW, "good.gguf", "w", b"GGUF")
    bad = cache.folder / "snapshots" / NEW / "bad.safetensors"
    bad.symlink_to(target)
    store = scan(cache.root)
    opened: list[str] = []
    monkeypatch.setattr(os, "open", lambda path, *rest: opened.append(os.fspath(path)))
    entries = {entry.name: entry for entry in store.entries}
    entry = entries["org/name/bad.safetensors"]
    assert "link out of the store" in entry.problems[0].what
    assert entry.format is None
    read_details(entry)
    assert opened == []
    assert entries["org/name/good.gguf"].problems == ()


def test_loops_pipes_and_broken_references(cache: Cache) -> None:
    cache.add(NEW, "model.gguf", "w", b"GGUF")
    snapshot = cache.folder / "snapshots" / NEW
    (snapshot / "up").symlink_to("..")
    (snapshot / "self.gguf").symlink_to("self.gguf")
    (cache.folder / "refs" / "loop").symlink_to("loop")
    (cache.folder / "refs" / "main").write_bytes(b"\xff" * 99)
    if hasattr(os, "mkfifo"):
        os.mkfifo(cache.folder / "refs" / "pipe")
        os.mkfifo(cache.folder / "blobs" / "pipe")
    store = scan(cache.root)
    problems = {entry.name: len(entry.problems) for entry in store.entries}
    assert problems["org/name/model.gguf"] == 0
    assert problems["org/name/self.gguf"] == 1


def test_what_is_no_cache(tmp_path: Path) -> None:
    assert "cannot be read" in scan(tmp_path / "none").problems[0].what
    assert scan(tmp_path).entries == ()


def test_a_shard_that_leads_out_of_the_cache_is_not_opened_with_the_others(cache: Cache) -> None:
    def shard(number: int) -> bytes:
        keys = [("split.no", number), ("split.count", 2), ("split.tensors.count", 2)]
        return SmallGguf(keys=keys, tensors=[(f"t{number}", (2,), 0, 0)], data=bytes(8)).write()

    first = cache.add(NEW, "m-00001-of-00002.gguf", "w", shard(0))
    outside = cache.root.parent / "secret.gguf"
    outside.write_bytes(shard(1))
    first.with_name("m-00002-of-00002.gguf").symlink_to(outside)
    with open_model(first) as model:
        assert list(model.tensors) == ["t0"]
        assert any("link out of the cache" in problem.what for problem in model.problems)
