"""The Ollama store: the golden one as a tree, and hostile ones made here."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.formats import Severity
from explorer.stores.entries import Entry, Place, Store, StoreKind
from explorer.stores.library import read_details, read_stores
from tests.helpers.closed_folders import close_folder
from tests.helpers.json_values import JSON
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.small_gguf import SmallGguf

GGUF = SmallGguf(keys=[("general.architecture", "llama")]).write()


@pytest.fixture
def ollama(tmp_path: Path) -> OllamaStore:
    return OllamaStore(tmp_path / "models")


def scan(root: Path) -> Store:
    (store,) = read_stores([Place(StoreKind.OLLAMA, root)])
    return store


def problem_texts(entry: Entry) -> str:
    return "; ".join(problem.what for problem in entry.problems)


@pytest.mark.parametrize("folder", ["ollama_store", "ollama_store/models"])
def test_the_golden_store(shared_data: Path, folder: str) -> None:
    store = scan(shared_data / folder)
    assert {entry.name: entry.format for entry in store.entries} == {
        "hf.co/some-org/Tiny-Classic-GGUF:Q8_0": "gguf",
        "someuser/my-tiny:v1.2": "gguf",
        "tinyclassic:latest": "gguf",
        "tinyclassic:q8_0": "gguf",
        "tinydense:int4": "ollama",
        "tinymoe:latest": "ollama",
    }
    assert (store.problems, store.partials) == ((), ())
    assert all(entry.problems == () and entry.modified for entry in store.entries)
    blobs = list((shared_data / "ollama_store" / "models" / "blobs").iterdir())
    assert {blob.digest for blob in store.blobs} == {path.name for path in blobs}
    assert store.nbytes == sum(path.stat().st_size for path in blobs)
    assert all(blob.used_by for blob in store.blobs)
    gguf = next(blob for blob in store.blobs if blob.nbytes == 46_592)
    assert len(gguf.used_by) == 4
    classic = next(entry for entry in store.entries if entry.name == "tinyclassic:latest")
    assert classic.nbytes == 46_592 + 82 + 40 + 26 + 70 + 71 + 261


def test_the_golden_store_in_detail(shared_data: Path) -> None:
    store = scan(shared_data / "ollama_store")
    details = {entry.name: read_details(entry) for entry in store.entries}
    dense, moe = details["tinydense:int4"], details["tinymoe:latest"]
    assert (dense.architecture, dense.parameters, dense.file_type) == ("qwen2", 361_216, "int4")
    assert (moe.architecture, moe.parameters) == ("glm4_moe_lite", 443_456)
    assert details["tinyclassic:q8_0"].file_type == "Q8_0"
    assert not any(known.problems for known in details.values())


def test_blobs_shared_orphaned_and_unfinished(ollama: OllamaStore) -> None:
    weights, license_text = ollama.layer("model", GGUF), ollama.layer("license", "free")
    ollama.manifest([weights, license_text, license_text], "registry.ollama.ai/library/a/latest")
    ollama.manifest([weights], "registry.ollama.ai/library/a/copy")
    orphan = ollama.blob(b"orphan")
    (ollama.blobs / f"sha256-{'0' * 64}-partial").write_bytes(b"12345")
    (ollama.blobs / f"sha256-{'0' * 64}-partial-0").write_bytes(b"{}")
    (ollama.blobs / "readme").write_bytes(b"no blob")
    store = scan(ollama.models)
    users = {f"sha256:{blob.digest[7:]}": blob.used_by for blob in store.blobs}
    assert users == {
        weights["digest"]: ("a:copy", "a:latest"),
        license_text["digest"]: ("a:latest",),
        orphan["digest"]: (),
    }
    assert store.nbytes == len(GGUF) + 4 + 6
    sizes = {entry.name: entry.nbytes for entry in store.entries}
    assert sizes == {"a:latest": len(GGUF) + 4, "a:copy": len(GGUF)}
    assert sorted(partial.nbytes for partial in store.partials) == [2, 5]


def test_blobs_named_as_in_old_stores(ollama: OllamaStore) -> None:
    layer = ollama.layer("model", GGUF)
    path = ollama.blob_path(layer)
    path.rename(path.with_name(path.name.replace("-", ":")))
    ollama.manifest([layer])
    (entry,) = scan(ollama.models).entries
    assert (entry.problems, entry.nbytes) == ((), len(GGUF))
    assert read_details(entry).architecture == "llama"


def break_json(store: OllamaStore, place: str) -> None:
    store.raw_manifest(b"{", place)


def make_list(store: OllamaStore, place: str) -> None:
    store.raw_manifest(b"[1, 2]", place)


def make_huge(store: OllamaStore, place: str) -> None:
    os.truncate(store.raw_manifest(b"{", place), 1 << 30)


def make_pipe(store: OllamaStore, place: str) -> None:
    (store.manifests / place).parent.mkdir(parents=True)
    os.mkfifo(store.manifests / place)


def make_folder(store: OllamaStore, place: str) -> None:
    (store.manifests / place).mkdir(parents=True)


def link_to(target: str) -> Callable[[OllamaStore, str], None]:
    def make(store: OllamaStore, place: str) -> None:
        path = store.manifests / place
        path.parent.mkdir(parents=True)
        path.symlink_to(target)

    return make


def remove_blob(store: OllamaStore, place: str) -> None:
    layer = store.layer("model", b"removed")
    store.blob_path(layer).unlink()
    store.manifest([layer], place)


def cut_blob(store: OllamaStore, place: str) -> None:
    layer = store.layer("model", b"to be cut")
    os.truncate(store.blob_path(layer), 3)
    store.manifest([layer], place)


def climb(store: OllamaStore, place: str) -> None:
    digest = "sha256:../../../../../../etc/passwd"
    store.manifest([{**store.layer("model", b"x"), "digest": digest}], place)


def link_blob_out(store: OllamaStore, place: str) -> None:
    layer = store.layer("model", b"linked")
    store.blob_path(layer).unlink()
    store.blob_path(layer).symlink_to("/etc/passwd")
    store.manifest([layer], place)


def blob_pipe(store: OllamaStore, place: str) -> None:
    layer = store.layer("model", b"pipe")
    store.blob_path(layer).unlink()
    os.mkfifo(store.blob_path(layer))
    store.manifest([layer], place)


def be_remote(store: OllamaStore, place: str) -> None:
    store.manifest(None, place, config={"remote_host": "https://ollama.com:443"})


HOSTILE = {
    break_json: "broken JSON",
    make_list: "not a manifest",
    make_huge: "1073741824 bytes",
    make_pipe: "pipe",
    make_folder: "folder",
    link_to("/dev/zero"): "link out of the store",
    link_to("bad"): "",  # to itself: the system's own words
    link_to("/nowhere/at/all"): "link out of the store",
    remove_blob: "missing",
    cut_blob: "3 bytes, the manifest says 9",
    climb: "not a SHA-256",
    link_blob_out: "link out of the store",
    blob_pipe: "pipe",
    be_remote: "no weights here",
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize(("make", "what"), HOSTILE.items())
def test_a_hostile_model_is_marked_and_all_else_is_listed(
    ollama: OllamaStore,
    make: Callable[[OllamaStore, str], None],
    what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ollama.manifest([ollama.layer("model", GGUF)], "registry.ollama.ai/library/good/latest")
    make(ollama, "registry.ollama.ai/library/hostile/bad")
    opened = spy_on_open(monkeypatch)
    store = scan(ollama.models)
    details = {entry.name: read_details(entry) for entry in store.entries}
    good, bad = sorted(store.entries, key=lambda entry: entry.name)
    assert (good.name, bad.name) == ("good:latest", "hostile:bad")
    assert good.problems == ()
    assert details["good:latest"].architecture == "llama"
    assert bad.problems
    assert what in problem_texts(bad)
    assert details["hostile:bad"].architecture is None
    inside = os.path.realpath(ollama.models)
    assert all(os.path.realpath(path).startswith(inside) for path in opened)


def spy_on_open(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note every file that is opened from now on."""
    opened: list[str] = []
    really_open = os.open

    def spy(path: str | Path, *rest: int) -> int:
        opened.append(os.fspath(path))
        return really_open(path, *rest)

    monkeypatch.setattr(os, "open", spy)
    return opened


@pytest.mark.parametrize("tag", ["a\nb", "a\u202eb", "-x", "x" * 200])
def test_names_that_deceive_are_marked(ollama: OllamaStore, tag: str) -> None:
    ollama.manifest([ollama.layer("model", GGUF)], f"registry.ollama.ai/library/m/{tag}")
    (entry,) = scan(ollama.models).entries
    assert entry.name == f"m:{tag}"
    assert "not a name that Ollama accepts" in problem_texts(entry)
    assert ("cannot be seen" in problem_texts(entry)) == (tag[1] in "\n\u202e")


def test_only_the_fourth_level_holds_manifests(ollama: OllamaStore) -> None:
    for place in ("one", "h/two", "h/n/three", "h/n/m/four/five", "h/n/m/.DS_Store"):
        ollama.raw_manifest(b"{}", place)
    assert [entry.path.name for entry in scan(ollama.models).entries] == ["four"]


def test_a_folder_of_manifests_that_is_a_link_is_not_followed(
    ollama: OllamaStore, tmp_path: Path
) -> None:
    (tmp_path / "outside" / "n" / "m").mkdir(parents=True)
    (ollama.manifests / "host").symlink_to(tmp_path / "outside")
    (entry,) = scan(ollama.models).entries
    assert (entry.name, problem_texts(entry)) == (
        "host",
        "is a link out of the store. It is not followed",
    )


@pytest.fixture
def two_models(ollama: OllamaStore) -> OllamaStore:
    for namespace in ("one", "two"):
        ollama.manifest([ollama.layer("model", GGUF)], f"host/{namespace}/m/t")
    return ollama


def test_a_closed_namespace(two_models: OllamaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    close_folder(monkeypatch, two_models.manifests / "host" / "one")
    closed, other = scan(two_models.models).entries
    assert (closed.name, other.name) == ("host/one", "host/two/m:t")
    assert "permission denied" in problem_texts(closed)
    assert other.problems == ()


def test_closed_blobs_are_not_called_missing(
    two_models: OllamaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_folder(monkeypatch, two_models.blobs)
    store = scan(two_models.models)
    assert ["permission denied" in problem.what for problem in store.problems] == [True]
    assert [entry.problems for entry in store.entries] == [(), ()]


def test_a_closed_store_is_not_called_empty(
    two_models: OllamaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service's store belongs to the user `ollama`."""
    close_folder(monkeypatch, two_models.models)
    store = scan(two_models.models)
    assert store.entries == ()
    assert store.problems
    assert all(problem.severity is Severity.ERROR for problem in store.problems)
    assert all("permission denied" in problem.what for problem in store.problems)


def test_an_empty_store_has_no_problem(ollama: OllamaStore, tmp_path: Path) -> None:
    ollama.manifests.rmdir()
    ollama.blobs.rmdir()
    assert scan(ollama.models).problems == ()
    assert "does not exist" in scan(tmp_path / "none").problems[0].what


LAYER = st.fixed_dictionaries(
    {"mediaType": st.text() | JSON, "digest": JSON, "size": JSON, "name": JSON}
)


@given(
    value=JSON
    | st.fixed_dictionaries(
        {"layers": JSON | st.lists(LAYER | JSON, max_size=4)}, optional={"config": JSON | LAYER}
    )
)
def test_any_json_is_an_entry(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    store = OllamaStore(tmp_path_factory.mktemp("any") / "models")
    store.raw_manifest(json.dumps(value).encode(), "h/n/m/t")
    (entry,) = scan(store.models).entries
    assert entry.name == "h/n/m:t"
    assert entry.problems  # whatever it says, there is no blob for it
    read_details(entry)
