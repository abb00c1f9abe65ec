"""What is inside a model, also one that is broken or hostile."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from explorer.formats import Severity
from explorer.qt.library.contents import is_text_file, read_contents, read_text
from explorer.qt.library.rows import RowKind
from explorer.stores.entries import Entry, Place, StoreKind
from explorer.stores.library import read_stores
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.safetensors_writer import tensors_bytes


def entry_of(kind: StoreKind, root: Path) -> Entry:
    (store,) = read_stores([Place(kind, root)])
    (entry,) = store.entries
    return entry


def test_a_model_whose_blobs_are_broken_still_lists_its_layers(tmp_path: Path) -> None:
    store = OllamaStore(tmp_path / "models")
    missing, short = store.layer("model", b"GGUF"), store.layer("license", "text")
    store.blob_path(missing).unlink()
    store.blob_path(short).write_text("longer text")
    fifo = store.layer("system", "x")
    store.blob_path(fifo).unlink()
    os.mkfifo(store.blob_path(fifo))
    evil = {"mediaType": missing["mediaType"], "digest": "sha256:../../secret", "size": 1}
    store.manifest([missing, short, fifo, evil])
    rows = read_contents(StoreKind.OLLAMA, entry_of(StoreKind.OLLAMA, store.models))
    assert rows[0].kind is RowKind.NOTE
    assert rows[0].problems[0].severity is Severity.ERROR
    whats = [row.problems[0].what for row in rows[1:]]
    assert "missing" in whats[0]
    assert "11 bytes, the manifest says 4" in whats[1]
    assert "pipe" in whats[2]
    assert "not a SHA-256" in whats[3]
    assert [row.text for row in rows[1:]] == [False, True, False, False]


def test_a_folder_lists_weights_and_side_files(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(
        tensors_bytes([("model.layers.0.a.weight", "F32", [4]), ("head.weight", "F32", [4])])
    )
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "README.md").write_text("hello")
    (tmp_path.parent / "secret.txt").write_text("secret")
    (tmp_path / "leads_out.txt").symlink_to(tmp_path.parent / "secret.txt")
    rows = read_contents(StoreKind.FOLDER, entry_of(StoreKind.FOLDER, tmp_path))
    assert [(row.title, row.text) for row in rows] == [
        *(("model.safetensors", False), ("config.json", True), ("leads_out.txt", False)),
        ("README.md", True),
    ]
    assert "out of the store" in rows[2].problems[0].what
    pages = rows[0].pages
    assert pages is not None
    below = pages.make(0, pages.count)
    assert [(row.kind, row.title) for row in below] == [
        (RowKind.TENSOR, "head.weight"),
        (RowKind.GROUP, "model.layers, layer 0"),
    ]


def test_a_file_that_is_no_model_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"nothing")
    (row,) = read_contents(StoreKind.FOLDER, entry_of(StoreKind.FOLDER, tmp_path))
    assert row.kind is RowKind.NOTE
    assert row.problems


def test_a_model_that_must_not_be_opened_is_not(tmp_path: Path) -> None:
    entry = Entry("x", tmp_path / "gone", None, 0, None)
    (row,) = read_contents(StoreKind.FOLDER, entry)
    assert row.kind is RowKind.NOTE


def test_giving_up_stops_the_reading(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def check() -> None:
        raise StoppedError

    store = OllamaStore(tmp_path / "models")
    store.manifest([store.tensor("a", [("a", "F32", [4])])])
    with pytest.raises(StoppedError):
        read_contents(StoreKind.OLLAMA, entry_of(StoreKind.OLLAMA, store.models), check)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'{"b": [1, "\xc3\xa4"]}', '{\n  "b": [\n    1,\n    "ä"\n  ]\n}'),
        (b"{{ .Prompt }}", "{{ .Prompt }}"),
        (b"[1, 2", "[1, 2"),
        (b"caf\xe9", "caf\udce9"),
        (b'[{"role": "user", "content": "a"}, {"role": 1, "content": "b"}]', "user:\na\n\n1:\nb"),
        (b"", ""),
    ],
)
def test_texts(tmp_path: Path, content: bytes, text: str) -> None:
    (tmp_path / "text").write_bytes(content)
    assert read_text(tmp_path / "text") == text


def test_a_long_text_is_cut_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"x" * 1_000_000)
    text = read_text(tmp_path / "text")
    assert len(text) < 300_000
    assert text.endswith("131,072 of 1,000,000 bytes are shown")


def test_json_that_grows_when_it_is_laid_out_stays_as_it_is(tmp_path: Path) -> None:
    content = "[" * 100 + json.dumps([0] * 20_000) + "]" * 100
    (tmp_path / "text").write_text(content)
    assert read_text(tmp_path / "text") == content


def test_files_that_are_texts_are_known_by_their_names() -> None:
    names = ["LICENSE", "license.txt", "config.json", "chat.jinja", "x.safetensors", "x.bin"]
    assert [is_text_file(Path(name)) for name in names] == [True] * 4 + [False] * 2
