"""The panel follows what changes on disk, and leaves selection, branches and place as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt

from explorer.qt.library.nodes import LibraryColumn
from explorer.stores.entries import Place, StoreKind
from tests.helpers.ollama_store import OllamaStore
from tests.qt.library.conftest import Panel, gguf_bytes

COLUMN = LibraryColumn
BASE = "registry.ollama.ai/library"


def test_reading_again_leaves_everything_in_place(panel: Panel) -> None:
    panel.find("Ollama", "alpha", "latest", "Model", "blk, layer 1")
    layer = panel.find("Ollama", "alpha", "latest", "Model", "blk, layer 1")
    panel.tree.expand(layer)
    panel.click(panel.find("Ollama", "alpha", "latest", "Model", "blk, layer 1", "ffn_norm"))
    resets: list[int] = []
    panel.model.modelReset.connect(lambda: resets.append(1))
    panel.model.rowsRemoved.connect(lambda *_: resets.append(2))
    panel.press(Qt.Key.Key_F5)
    assert resets == []
    assert panel.tree.currentIndex().data() == "ffn_norm.weight"
    assert panel.tree.isExpanded(panel.find("Ollama", "alpha", "latest"))


def test_a_new_model_and_a_deleted_blob_are_noticed(panel: Panel, store: OllamaStore) -> None:
    panel.click(panel.find("Ollama", "beta"))
    store.manifest([store.layer("model", gguf_bytes("gamma"))], f"{BASE}/gamma/latest")
    panel.qtbot.waitUntil(lambda: "gamma:latest" in panel.titles(panel.model.index(0, 0)))
    panel.settle()
    assert panel.cell(panel.find("Ollama", "gamma"), COLUMN.ARCHITECTURE) == "llama"
    assert panel.tree.currentIndex().data() == "beta:latest"
    beta = panel.find("Ollama", "beta", "Model")
    node = panel.model.node(beta)
    assert node is not None
    assert node.row.path is not None
    node.row.path.unlink()
    beta = panel.find("Ollama", "beta")
    panel.qtbot.waitUntil(lambda: "missing" in panel.cell(beta, COLUMN.NOTE))
    panel.settle()
    assert panel.tree.currentIndex().data() == "✘ beta:latest"
    assert "✘" in panel.cell(beta, COLUMN.NOTE)
    # the open branch was read anew, and says the same
    part = panel.find("Ollama", "beta", "Model")
    assert "missing" in panel.cell(part, COLUMN.NOTE)


def test_a_second_tag_takes_the_selection_with_it(panel: Panel, store: OllamaStore) -> None:
    panel.click(panel.find("Ollama", "beta"))
    store.manifest([store.layer("model", gguf_bytes("b2"))], f"{BASE}/beta/tiny")
    panel.press(Qt.Key.Key_F5)
    assert panel.titles(panel.find("Ollama", "beta")) == ["latest", "tiny"]
    assert panel.tree.currentIndex().data() == "latest"
    assert panel.tree.currentIndex().parent().data() == "beta"


def test_rows_that_come_above_do_not_move_what_is_in_sight(
    make_panel: Callable[..., Panel], store: OllamaStore
) -> None:
    layer = store.layer("model", gguf_bytes("many"))
    for number in range(80):
        store.manifest([layer], f"{BASE}/m{number:02}/latest")
    panel = make_panel(Place(StoreKind.OLLAMA, store.models))
    panel.tree.scrollTo(panel.find("Ollama", "m60"), panel.tree.ScrollHint.PositionAtTop)
    top = panel.tree.indexAt(panel.tree.viewport().rect().topLeft()).data()
    for number in range(5):
        store.manifest([layer], f"{BASE}/aa{number}/latest")
    panel.press(Qt.Key.Key_F5)
    assert "aa0:latest" in panel.titles(panel.find("Ollama"))
    assert panel.tree.indexAt(panel.tree.viewport().rect().topLeft()).data() == top


def test_a_great_change_keeps_what_stays(
    make_panel: Callable[..., Panel], store: OllamaStore
) -> None:
    layer = store.layer("model", gguf_bytes("many"))
    paths = [store.manifest([layer], f"{BASE}/m{number:03}/latest") for number in range(90)]
    panel = make_panel(Place(StoreKind.OLLAMA, store.models))
    panel.click(panel.find("Ollama", "m051"))
    panel.find("Ollama", "m051", "Model")
    resets: list[int] = []
    panel.model.modelReset.connect(lambda: resets.append(1))
    for path in paths[::2]:
        path.unlink()
    panel.press(Qt.Key.Key_F5)
    assert resets  # 45 scattered rows are not taken out one by one
    assert panel.tree.currentIndex().data() == "m051:latest"
    assert panel.tree.isExpanded(panel.find("Ollama", "m051"))
    assert len(panel.titles(panel.find("Ollama"))) == 49


def test_a_store_that_vanishes_says_so(panel: Panel, store: OllamaStore) -> None:
    store.models.rename(store.models.with_name("elsewhere"))
    panel.press(Qt.Key.Key_F5)
    assert "✘ the folder does not exist" in panel.cell(panel.find("Ollama"), COLUMN.NOTE)


def test_the_number_of_watched_folders_is_bounded(
    make_panel: Callable[..., Panel], store: OllamaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explorer.qt.library.rows.MOST_WATCHED", 8)
    layer = store.layer("model", gguf_bytes("many"))
    for number in range(20):
        store.manifest([layer], f"{BASE}/m{number}/latest")
    panel = make_panel(Place(StoreKind.OLLAMA, store.models))
    watched = {Path(folder) for folder in panel.view.watch.folders}
    assert len(watched) == 8
    assert {store.models, store.blobs, store.manifests} <= watched


def test_a_panel_that_sorts_by_size_puts_what_is_new_in_its_place(
    make_panel: Callable[..., Panel], tmp_path: Path
) -> None:
    for name, layers in (("a", 2), ("b", 40), ("c", 20)):
        (tmp_path / f"{name}.gguf").write_bytes(gguf_bytes(name, layers=layers))
    panel = make_panel(Place(StoreKind.FOLDER, tmp_path))
    panel.tree.header().setSortIndicator(COLUMN.BYTES, Qt.SortOrder.DescendingOrder)
    (tmp_path / "d.gguf").write_bytes(gguf_bytes("d", layers=30))
    (tmp_path / "a.gguf").write_bytes(gguf_bytes("a", layers=60))
    panel.press(Qt.Key.Key_F5)
    assert panel.titles(panel.find("Folder")) == ["a.gguf", "b.gguf", "d.gguf", "c.gguf"]


def test_a_change_during_a_scan_is_not_missed(panel: Panel, store: OllamaStore) -> None:
    panel.view.rescan()
    assert panel.view.scanner.busy
    panel.view.watch.changed.emit()  # as the timer does
    with panel.qtbot.waitSignal(panel.view.scanned):  # this scan
        pass
    with panel.qtbot.waitSignal(panel.view.scanned):  # and one more, after a while
        pass
    panel.settle()
    assert not panel.view.scanner.busy
