"""The list of blobs: each once, with every model that uses it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt

from explorer.stores.entries import Place, StoreKind
from explorer.stores.library import read_stores
from tests.helpers.ollama_store import OllamaStore
from tests.qt.library.conftest import Panel, gguf_bytes


def _cells(panel: Panel) -> list[list[str]]:
    model = panel.view.blobs.model
    return [
        [str(model.index(row, column).data()) for column in range(model.columnCount())]
        for row in range(model.rowCount())
    ]


def _show(panel: Panel) -> None:
    panel.view.lists.setCurrentWidget(panel.view.blobs)
    panel.settle()


def test_each_blob_is_there_once_with_all_its_models(panel: Panel, store: OllamaStore) -> None:
    _show(panel)
    files = panel.view.blobs.files
    rows = {files[at].blob.digest: row for at, row in enumerate(_cells(panel))}
    (found,) = read_stores([Place(StoreKind.OLLAMA, store.models)])
    assert len(rows) == len(_cells(panel)) == len(found.blobs) + 1
    for blob in found.blobs:
        assert rows[blob.digest][1] == ", ".join(blob.used_by)
        assert rows[blob.digest][6] == str(len(blob.used_by))
    states = [row[5] for row in rows.values()]
    assert states.count("⚠ unused") == 1
    assert states.count("⚠ unfinished download") == 1
    assert "2 unused files: removing them frees 1016 B" in panel.view.total.text()


def test_the_filter_finds_orphans_and_users(panel: Panel) -> None:
    _show(panel)
    panel.type("unused")
    assert [row[2] for row in _cells(panel)] == ["16 B"]
    panel.type("beta")
    assert all("beta:latest" in row[1] for row in _cells(panel))
    panel.type("")
    assert len(_cells(panel)) > 3


def test_a_single_file_is_spoken_of_as_one(panel: Panel) -> None:
    _show(panel)
    panel.type("unused")
    panel.view.blobs.table.selectRow(0)
    text = panel.view.total.text()
    assert text == "1 file selected: 16 B on disk   ·   removing it frees 16 B"


def test_the_filter_says_what_it_finds_in_the_list_that_is_shown(panel: Panel) -> None:
    bar = panel.view.bar
    assert "fits:yes" in bar.edit.placeholderText()
    assert bar.status.text() == "3 models"
    assert "models" not in panel.view.total.text()  # it is said once
    _show(panel)
    assert "unused" in bar.edit.placeholderText()
    assert bar.status.text() == f"{len(panel.view.blobs.files)} files"
    assert "fits:" not in bar.edit.placeholderText() + bar.edit.toolTip()
    panel.type("unused")
    assert bar.status.text() == f"1 of {len(panel.view.blobs.files)} files"
    panel.view.lists.setCurrentWidget(panel.tree)
    assert "fits:yes" in bar.edit.placeholderText()


def test_enter_goes_to_the_model_of_a_blob_and_opens_an_orphan(panel: Panel) -> None:
    _show(panel)
    table = panel.view.blobs.table
    panel.type("beta shared")
    table.setCurrentIndex(panel.view.blobs.model.index(0, 0))
    assert "Used by 3" in panel.view.pane.about
    panel.press(Qt.Key.Key_Return)
    assert panel.view.lists.currentWidget() is panel.tree
    assert panel.tree.currentIndex().data() == "latest"  # of alpha, which the filter hid
    _show(panel)
    panel.type("unused")
    table.setCurrentIndex(panel.view.blobs.model.index(0, 0))
    panel.press(Qt.Key.Key_Return)
    assert panel.opened[0].read_bytes() == b"nobody uses this"
    panel.type("unfinished")
    table.setCurrentIndex(panel.view.blobs.model.index(0, 0))
    panel.press(Qt.Key.Key_Return)
    assert "is not complete" in str(panel.failures[0])


def test_reading_again_keeps_the_selection(panel: Panel, store: OllamaStore) -> None:
    _show(panel)
    table = panel.view.blobs.table
    table.selectRow(3)
    before = [file.blob.path for file in panel.view.blobs.selected_files()]
    assert panel.view.total.text().startswith("1 file selected: ")
    store.blob(b"one more that nobody uses")
    count = len(_cells(panel))
    panel.press(Qt.Key.Key_F5)
    assert len(_cells(panel)) == count + 1
    assert [file.blob.path for file in panel.view.blobs.selected_files()] == before


def test_blobs_say_what_they_are_and_orphans_come_first(
    make_panel: Callable[..., Panel], store: OllamaStore
) -> None:
    store.blob(gguf_bytes("forgotten"))
    store.blob(b"{{ .System }} {{ .Prompt }}" * 20)
    store.blob(b"MIT License\n\nCopyright")
    panel = make_panel(Place(StoreKind.OLLAMA, store.models))
    _show(panel)
    what = [row[0] for row in _cells(panel)]
    assert set(what[:2]) == {"Model (GGUF): forgotten, llama, Q8_0", "Part of a download"}
    assert set(what[2:5]) == {"Template", "License", "System prompt"}
    used = panel.view.blobs.files[5:]
    assert all(file.blob.used_by for file in used)
    sizes = [file.blob.nbytes for file in used]
    assert sizes == sorted(sizes, reverse=True)
    assert {"Model (GGUF)", "License", "Parameters", "Messages"} <= {file.part for file in used}
