"""Headers that were read before: nothing is opened again, and no change is missed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from explorer.parallel import never
from explorer.private_folder import PrivateFolder
from explorer.stores import known
from explorer.stores.entries import Entry, Place, Store, StoreKind
from explorer.stores.known import known_headers
from explorer.stores.library import Details, read_details, scan
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.safetensors_writer import safetensors_bytes
from tests.helpers.small_gguf import SmallGguf


def _gguf(architecture: str) -> bytes:
    return SmallGguf(keys=[("general.architecture", architecture)]).write()


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take files that were just written for old ones."""
    monkeypatch.setattr(known, "_SETTLED_S", -1e9)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    found: list[Entry] = []

    def read(entry: Entry, check: Callable[[], object] = never) -> Details:
        found.append(entry)
        return _read_header(entry, check)

    monkeypatch.setattr(known, "read_header", read)
    return found


_read_header = known.read_header


@pytest.fixture
def entries(tmp_path: Path) -> list[Entry]:
    store = OllamaStore(tmp_path / "models")
    store.manifest([store.layer("model", _gguf("llama"))], "registry.ollama.ai/library/m/a")
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "x.gguf").write_bytes(_gguf("gemma"))
    folder = plain / "hub"
    folder.mkdir()
    header = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    (folder / "model.safetensors").write_bytes(safetensors_bytes(header, bytes(8)))
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen"}))
    places = [Place(StoreKind.OLLAMA, store.models), Place(StoreKind.FOLDER, plain)]
    return [found for _, found in scan(places) if not isinstance(found, Store)]


def _details(entries: list[Entry], folder: PrivateFolder) -> list[Details]:
    with known_headers(folder) as read:
        return [read(entry, never) for entry in entries]


@pytest.fixture
def folder(tmp_path: Path) -> PrivateFolder:
    return PrivateFolder("library", root=tmp_path / "cache")


def test_the_second_look_opens_no_model(
    entries: list[Entry], folder: PrivateFolder, opened: list[Entry]
) -> None:
    expected = list(map(read_details, entries))
    assert {one.architecture for one in expected} == {"llama", "gemma", "qwen"}
    assert _details(entries, folder) == expected
    assert opened == entries
    opened.clear()
    assert _details(entries, folder) == expected
    assert opened == []


def test_a_changed_file_is_read_again_though_size_and_time_are_the_same(
    entries: list[Entry], folder: PrivateFolder, opened: list[Entry]
) -> None:
    _details(entries, folder)
    opened.clear()
    changed = [entry for entry in entries if entry.name == "x.gguf"]
    (path,) = (entry.path for entry in changed)
    before = path.stat()
    path.write_bytes(_gguf("llama"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert _details(changed, folder)[0].architecture == "llama"
    assert opened == changed


def test_what_lies_beside_the_weights_counts(
    entries: list[Entry], folder: PrivateFolder, opened: list[Entry]
) -> None:
    _details(entries, folder)
    opened.clear()
    (model,) = (entry for entry in entries if entry.format == "safetensors")
    place = model.path if model.path.is_dir() else model.path.parent
    (place / "config.json").write_text(json.dumps({"model_type": "gemm"}))
    assert _details([model], folder)[0].architecture == "gemm"
    assert opened == [model]


def test_what_was_not_opened_or_just_changed_is_read_again(
    entries: list[Entry],
    folder: PrivateFolder,
    opened: list[Entry],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (entry,) = (entry for entry in entries if entry.name == "x.gguf")
    whole = entry.path.read_bytes()
    entry.path.write_bytes(whole[:20])
    assert _details([entry], folder)[0].problems
    assert _details([entry], folder)[0].problems
    assert opened == [entry] * 2
    entry.path.write_bytes(whole)
    monkeypatch.setattr(known, "_SETTLED_S", 1e9)
    opened.clear()
    assert _details([entry], folder) == _details([entry], folder)
    assert opened == [entry] * 2


@pytest.mark.parametrize(
    "spoiled", [{}, {"facts": [1, 2, 3, 4]}, {"facts": ["a", "b", None, None]}, {"facts": None}]
)
def test_an_odd_record_is_a_miss(
    spoiled: dict[str, object], entries: list[Entry], folder: PrivateFolder, opened: list[Entry]
) -> None:
    expected = _details(entries, folder)
    content = folder.read("headers.json", 1 << 20)
    assert content is not None
    record = json.loads(content)
    for one in record["models"].values():
        one.pop("facts")
        one.update(spoiled)
    folder.write("headers.json", json.dumps(record).encode())
    opened.clear()
    assert _details(entries, folder) == expected
    assert opened == entries


def test_nothing_is_kept_without_a_folder_and_nothing_fails(
    entries: list[Entry], tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("no folder")
    folder = PrivateFolder("library", root=tmp_path / "cache")
    assert _details(entries, folder) == list(map(read_details, entries))
    shutil.rmtree(tmp_path / "plain")
    assert any(one.problems for one in _details(entries, folder))
