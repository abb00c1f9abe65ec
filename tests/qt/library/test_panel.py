"""The panel of downloaded models, used with mouse and keys."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QItemSelectionModel, QPoint, Qt
from PySide6.QtWidgets import QApplication, QLabel, QMenu, QMessageBox
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from explorer.planner import Device, Host
from explorer.present.fits import Target, version_at
from explorer.qt.library import commands, readers
from explorer.qt.library.commands import FreeDialog
from explorer.qt.library.nodes import LibraryColumn
from explorer.qt.library.panel import LibraryView
from explorer.qt.settings import Settings
from explorer.qt.widgets.table_model import ItemRole
from explorer.stores.entries import Place, StoreKind
from explorer.stores.library import read_stores
from explorer.text import bytes_text
from tests.helpers.elided import elided
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.services import RecordingServices
from tests.helpers.sparse_models import Shape
from tests.helpers.window import copied, unsafe_characters
from tests.qt.library.conftest import Panel, gguf_bytes

COLUMN = LibraryColumn
KEY = Qt.Key
CTRL = Qt.KeyboardModifier.ControlModifier
CTRL_SHIFT = CTRL | Qt.KeyboardModifier.ShiftModifier


def test_stores_models_and_tags_are_listed_with_what_they_are(panel: Panel) -> None:
    store = panel.find("Ollama")
    assert panel.titles(store) == ["alpha", "beta:latest", "Unused files", "Unfinished downloads"]
    assert panel.cell(store, COLUMN.NOTE).startswith("3 models, ⚠ 1 unused file (16 B)")
    beta = panel.find("Ollama", "beta")
    texts = [panel.cell(beta, column) for column in COLUMN][:4]
    assert texts == ["beta:latest", "qwen2", "20", "Q8_0"]
    family = panel.find("Ollama", "alpha")
    assert panel.titles(family) == ["latest", "small"]
    assert panel.cell(family, COLUMN.ARCHITECTURE) == "llama"  # both are
    assert "shared with other models" in panel.cell(
        panel.find("Ollama", "alpha", "small"), COLUMN.NOTE
    )


def test_all_models_of_a_small_store_are_seen_at_once(panel: Panel) -> None:
    store = panel.model.index(0, 0)
    family = panel.model.index(panel.titles(store).index("alpha"), 0, store)
    assert panel.tree.isExpanded(family)
    for tag in range(panel.model.rowCount(family)):
        shown = panel.tree.visualRect(panel.model.index(tag, COLUMN.FITS, family))
        assert panel.tree.viewport().rect().contains(shown)


def test_the_total_of_a_selection_counts_what_is_shared_once(
    panel: Panel, store: OllamaStore
) -> None:
    (found,) = read_stores([Place(StoreKind.OLLAMA, store.models)])
    panel.click(panel.find("Ollama", "alpha", "latest"))
    assert panel.view.total.text().startswith("1 model selected: ")
    panel.click(panel.find("Ollama", "alpha", "small"), add=True)
    panel.click(panel.find("Ollama", "beta"), add=True)
    union = sum(blob.nbytes for blob in found.blobs if blob.used_by)
    apart = sum(entry.nbytes for entry in found.entries)
    text = f"3 models selected: {bytes_text(union)} on disk"
    assert (
        panel.view.total.text()
        == f"{text} ({bytes_text(apart - union)} that they share counted once)"
    )


def test_open_opens_every_selected_model(panel: Panel) -> None:
    panel.click(panel.find("Ollama", "alpha", "latest"))
    panel.click(panel.find("Ollama", "beta"), add=True)
    panel.view.commands.open.trigger()
    assert [path.parent.name for path in panel.opened] == ["alpha", "beta"]


def test_open_asks_before_it_opens_many(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(_parent: object, _title: str, question: str) -> QMessageBox.StandardButton:
        asked.append(question)
        return QMessageBox.StandardButton.No

    monkeypatch.setattr(commands, "_MOST_UNASKED", 1)
    monkeypatch.setattr(QMessageBox, "question", refuse)
    panel.click(panel.find("Ollama", "alpha", "latest"))
    panel.click(panel.find("Ollama", "beta"), add=True)
    panel.view.commands.open.trigger()
    assert asked == ["Open 2 models?"]
    assert panel.opened == []


def test_a_model_opens_into_layers_groups_and_tensors(panel: Panel) -> None:
    latest = panel.find("Ollama", "alpha", "latest")
    panel.find("Ollama", "alpha", "latest", "Model")
    assert panel.titles(latest) == [
        *("Model (GGUF)", "License", "Template", "System prompt", "Parameters", "Messages")
    ]
    layer = panel.find("Ollama", "alpha", "latest", "Model", "blk, layer 1")
    assert panel.cell(layer, COLUMN.NOTE) == "2 tensors"
    panel.tree.expand(layer)
    assert panel.titles(layer) == ["attn_norm.weight", "ffn_norm.weight"]
    panel.click(panel.find("Ollama", "alpha", "latest", "Model", "blk, layer 1", "ffn_norm"))
    assert panel.view.pane.heading.text() == "blk.1.ffn_norm.weight   ·   alpha:latest"
    name = copied(panel.qtbot, lambda: panel.press(KEY.Key_C, CTRL))
    assert name == "blk.1.ffn_norm.weight"
    tensor = panel.find("Ollama", "alpha", "latest", "Model", "output_norm")
    assert [panel.cell(tensor, c) for c in (COLUMN.QUANTIZATION, COLUMN.BYTES, COLUMN.NOTE)] == [
        *("F32", "16 B", "4")
    ]


def test_the_texts_of_a_model_are_read_as_plain_text(panel: Panel) -> None:
    expected = {
        "Template": "{{ .Prompt }}",
        "System": "You are <b>terse</b>.",
        "License": "Do what you like.\n",
        "Parameters": '{\n  "temperature": 0.5,\n  "stop": [\n    "a",\n    "b"\n  ]\n}',
        "Messages": "user:\nHello",
    }
    for title, text in expected.items():
        panel.click(panel.find("Ollama", "alpha", "latest", title))
        assert panel.view.pane.shows_text
        assert panel.view.pane.text.text.toPlainText() == text
        assert "alpha:latest" in panel.view.pane.heading.text()
    panel.click(panel.find("Ollama", "beta"))
    assert not panel.view.pane.shows_text
    assert panel.view.pane.text.text.toPlainText() == ""
    assert "qwen2" in panel.view.pane.about


def test_enter_and_double_click_open_the_model_of_a_row(panel: Panel, store: OllamaStore) -> None:
    manifest = store.manifests / "registry.ollama.ai/library/alpha/latest"
    panel.click(panel.find("Ollama", "alpha", "latest"))
    panel.press(KEY.Key_Return)
    assert panel.opened == [manifest]
    template = panel.find("Ollama", "alpha", "latest", "Template")
    panel.click(template)
    panel.press(KEY.Key_Return)
    assert panel.opened == [manifest, manifest]
    beta = panel.find("Ollama", "beta")
    panel.tree.scrollTo(beta)
    place = panel.tree.visualRect(beta).center()
    panel.click(beta)
    panel.qtbot.mouseDClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert panel.opened[2:] == [store.manifests / "registry.ollama.ai/library/beta/latest"]
    family = panel.find("Ollama", "alpha")
    panel.click(family)
    was_open = panel.tree.isExpanded(family)
    panel.press(KEY.Key_Return)  # there is nothing to open: the branch closes
    assert panel.tree.isExpanded(family) != was_open
    assert len(panel.opened) == 3


def test_what_cannot_be_opened_says_why(
    make_panel: Callable[..., Panel], store: OllamaStore
) -> None:
    place = "registry.ollama.ai/library/cloud/latest"
    store.manifest([], place, config={"remote_host": "https://ollama.com"})
    panel = make_panel(Place(StoreKind.OLLAMA, store.models))
    cloud = panel.find("Ollama", "cloud")
    assert "⚠ has no weights here" in panel.cell(cloud, COLUMN.NOTE)
    panel.click(cloud)
    panel.press(KEY.Key_Return)
    assert panel.opened == []
    assert "has no weights here" in str(panel.failures[0])


def test_the_filter_counts_a_single_model_in_the_singular(
    make_panel: Callable[..., Panel], tmp_path: Path
) -> None:
    (tmp_path / "one.gguf").write_bytes(gguf_bytes("llama"))
    panel = make_panel(Place(StoreKind.FOLDER, tmp_path))
    panel.type("qwen")
    assert panel.view.bar.status.text() == "0 of 1 model"


def test_the_filter_keeps_models_by_words_and_digests(panel: Panel, store: OllamaStore) -> None:
    panel.type("qwen2 lat")
    assert panel.titles(panel.find("Ollama")) == ["beta:latest"]
    assert panel.view.bar.status.text() == "1 of 3 models"
    digest = next(
        blob.digest
        for blob in read_stores([Place(StoreKind.OLLAMA, store.models)])[0].blobs
        if len(blob.used_by) == 2
    )
    panel.type(digest.removeprefix("sha256-")[:12])
    assert panel.titles(panel.find("Ollama")) == ["alpha"]
    assert panel.titles(panel.find("Ollama", "alpha")) == ["latest", "small"]
    panel.type("small")
    panel.find("Ollama", "alpha", "small")
    assert panel.titles(panel.find("Ollama", "alpha")) == ["small"]
    panel.type("nothing like it")
    assert panel.titles() == []
    panel.qtbot.keyClick(panel.view.bar.edit, KEY.Key_Escape)
    panel.settle()
    assert len(panel.titles(panel.find("Ollama"))) == 4


def test_the_filter_leaves_open_and_selected_what_it_keeps(panel: Panel) -> None:
    small = panel.find("Ollama", "alpha", "small")
    panel.click(small)
    panel.type("alpha")
    assert panel.tree.currentIndex().data() == "small"
    assert panel.tree.isExpanded(panel.find("Ollama", "alpha"))
    assert [node.row.title for node in panel.view.tree.selected_nodes()] == ["small"]


def test_columns_sort_both_ways_and_what_is_unknown_comes_last(
    make_panel: Callable[..., Panel], tmp_path: Path
) -> None:
    for name, layers in (("b", 9), ("a", 1), ("c10", 5), ("c2", 3)):
        (tmp_path / f"{name}.gguf").write_bytes(gguf_bytes(name, layers=layers))
    (tmp_path / "broken.gguf").write_bytes(b"no model")
    panel = make_panel(Place(StoreKind.FOLDER, tmp_path))
    root = panel.find("Folder")
    assert [title[:-5] for title in panel.titles(root)] == ["a", "b", "✘ broken", "c2", "c10"]
    header = panel.tree.header()
    for order, expected in (
        (Qt.SortOrder.DescendingOrder, ["b", "c10", "c2", "a", "✘ broken"]),
        (Qt.SortOrder.AscendingOrder, ["a", "c2", "c10", "b", "✘ broken"]),
    ):
        panel.click(panel.find("Folder", "c2"))
        header.setSortIndicator(COLUMN.PARAMETERS, order)
        assert [title[:-5] for title in panel.titles(panel.find("Folder"))] == expected
        assert panel.tree.currentIndex().data() == "c2.gguf"
    broken = panel.find("Folder", "broken")
    assert panel.cell(broken, COLUMN.NOTE).startswith("✘ ")


def test_names_paths_digests_and_commands_are_copied(panel: Panel, store: OllamaStore) -> None:
    manifest = store.manifests / "registry.ollama.ai/library/beta/latest"
    panel.click(panel.find("Ollama", "beta"))
    qtbot, press = panel.qtbot, panel.press
    assert copied(qtbot, lambda: press(KEY.Key_C, CTRL)) == "beta:latest"
    assert copied(qtbot, lambda: press(KEY.Key_P, CTRL_SHIFT)) == str(manifest)
    assert copied(qtbot, lambda: press(KEY.Key_R, CTRL_SHIFT)) == "ollama run beta:latest"
    layer = panel.find("Ollama", "beta", "License")
    panel.click(layer)
    digest = copied(qtbot, lambda: press(KEY.Key_D, CTRL_SHIFT))
    assert (store.blobs / digest.replace(":", "-")).read_text() == "Do what you like.\n"


def test_the_menu_offers_what_applies(panel: Panel) -> None:
    def texts() -> list[str]:
        menu = panel.view.commands.menu()
        found = [action.text().replace("&", "") for action in menu.actions() if action.text()]
        menu.deleteLater()
        return found

    panel.click(panel.find("Ollama", "beta"))
    assert texts() == [
        *(
            "Open",
            "Which quant should I take?",
            "Show in file manager",
            "Copy name",
            "Copy path",
            "Copy “ollama run …”",
        ),
        *("Copy the command that removes it", "Sort by"),
    ]
    panel.click(panel.find("Ollama", "Unused", "sha256"))
    assert texts() == [
        *("Open", "Show in file manager", "Copy name", "Copy path", "Copy digest"),
        *("Copy the command that removes it", "Sort by"),
    ]
    panel.click(panel.find("Ollama"))
    assert texts() == ["Show in file manager", "Copy name", "Copy path", "Sort by"]


def test_no_letter_of_the_menu_stands_for_two(panel: Panel) -> None:
    for row in (("Ollama",), ("Ollama", "beta"), ("Ollama", "beta", "License")):
        panel.click(panel.find(*row))
        menu = panel.view.commands.menu()
        texts = [action.text().partition("&")[2][:1].lower() for action in menu.actions()]
        letters = [letter for letter in texts if letter]
        assert len(set(letters)) == len(letters), letters
        menu.deleteLater()


def test_a_model_opens_in_any_page_and_two_are_compared(panel: Panel, store: OllamaStore) -> None:
    view, base = panel.view, store.manifests / "registry.ollama.ai/library"
    view.commands.pages = {"weights": "Weights", "planner": "Planner"}
    panel.click(panel.find("Ollama", "beta"))
    assert not view.compare_button.isVisible()
    menu = view.commands.menu()
    branch = next(action for action in menu.actions() if action.text() == "Open &in")
    pages = branch.menu()
    assert isinstance(pages, QMenu)
    next(action for action in pages.actions() if action.text() == "Planner").trigger()
    menu.deleteLater()
    assert panel.app.calls("open") == [(base / "beta/latest", "planner")]
    panel.click(panel.find("Ollama", "alpha", "small"), add=True)
    assert view.compare_button.isVisible()
    panel.qtbot.mouseClick(view.compare_button, Qt.MouseButton.LeftButton)
    (compared,) = panel.app.calls("compare")
    assert set(compared) == {base / "beta/latest", base / "alpha/small"}


def test_a_file_is_shown_in_the_file_manager(panel: Panel, store: OllamaStore, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    shown: list[tuple[Path, Path]] = []
    monkeypatch.setattr(
        "explorer.qt.library.commands.reveal",
        lambda path, folder: shown.append((path, folder)) or len(shown) == 1,
    )
    panel.click(panel.find("Ollama", "Unused", "sha256"))
    panel.press(KEY.Key_E, CTRL_SHIFT)
    ((path, folder),) = shown
    assert path.read_bytes() == b"nobody uses this"
    assert folder == store.blobs
    panel.press(KEY.Key_E, CTRL_SHIFT)
    assert "no file manager" in str(panel.failures[0])


def test_an_orphan_opens_by_itself_and_is_explained(panel: Panel) -> None:
    orphan = panel.find("Ollama", "Unused", "sha256")
    assert panel.cell(orphan, COLUMN.NOTE) == "⚠ unused"
    panel.click(orphan)
    panel.press(KEY.Key_Return)
    assert panel.opened[0].read_bytes() == b"nobody uses this"
    partial = panel.find("Ollama", "Unfinished", "partial")
    assert panel.cell(partial, COLUMN.BYTES) == "1000 B"
    assert "⚠ unfinished" in panel.cell(partial, COLUMN.NOTE)


def test_a_scan_that_is_stopped_leaves_what_it_found(
    make_panel: Callable[..., Panel], store: OllamaStore, app: RecordingServices
) -> None:
    panel = make_panel(Place(StoreKind.OLLAMA, store.models), wait=False)
    panel.qtbot.mouseClick(panel.view.scan_button, Qt.MouseButton.LeftButton)
    assert not panel.view.scanner.busy
    assert panel.view.scan_button.text() == "Rescan"
    panel.settle()
    assert panel.titles() == []
    panel.press(KEY.Key_F5)
    assert len(panel.titles(panel.find("Ollama"))) == 4
    panel.view.rescan()
    for job in app.runner.jobs:  # as the button of the status bar does
        job.cancel()
    panel.settle()
    assert len(panel.titles(panel.find("Ollama"))) == 4
    assert panel.view.scan_button.text() == "Rescan"


def test_reading_inside_a_model_can_be_stopped_and_begun_again(
    panel: Panel, app: RecordingServices
) -> None:
    beta = panel.find("Ollama", "beta")
    panel.tree.expand(beta)
    assert panel.titles(beta) == ["reading…"]
    for job in app.runner.jobs:
        job.cancel()
    panel.settle()
    assert panel.titles(beta) == []
    assert not panel.tree.isExpanded(beta)
    panel.tree.expand(beta)
    panel.settle()
    assert panel.titles(beta) == ["Model (GGUF)", "License"]


def test_closing_in_the_middle_of_a_scan_is_harmless(
    qtbot: QtBot, store: OllamaStore, app: RecordingServices, settings: Settings
) -> None:
    places = [Place(StoreKind.OLLAMA, store.models)]
    view = LibraryView(app, settings, places=lambda: places)
    view.rescan()
    assert app.runner.jobs
    view.deleteLater()
    qtbot.waitUntil(lambda: not app.runner.jobs)
    qtbot.waitUntil(lambda: not isValid(view))


def test_nothing_downloaded_offers_the_demo_and_a_folder(
    make_panel: Callable[..., Panel], tmp_path: Path, settings: Settings, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    counts: list[int] = []
    panel = make_panel(wait=False)
    panel.view.scanned.connect(counts.append)
    panel.settle()
    assert counts == [0]
    assert panel.view.page.state.isVisible()
    panel.qtbot.mouseClick(panel.view.page.state.button, Qt.MouseButton.LeftButton)
    assert panel.app.calls("open_demo") == [()]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "own.gguf").write_bytes(gguf_bytes("own"))
    monkeypatch.setattr(
        "explorer.qt.widgets.asking.QFileDialog.getExistingDirectory",
        lambda *_: str(tmp_path / "mine"),
    )
    panel.qtbot.mouseClick(panel.view.add_button, Qt.MouseButton.LeftButton)
    panel.settle()
    assert not panel.view.page.state.isVisible()
    assert panel.titles(panel.find("Folder")) == ["own.gguf"]
    assert settings.library_folders == [tmp_path / "mine"]
    panel.click(panel.find("Folder"))
    menu = panel.view.commands.menu()
    (remove,) = (action for action in menu.actions() if "Remove" in action.text().replace("&", ""))
    remove.trigger()
    menu.deleteLater()
    panel.settle()
    assert settings.library_folders == []
    assert panel.view.page.state.isVisible()
    assert (tmp_path / "mine" / "own.gguf").exists()


def test_a_store_that_may_not_be_read_says_what_to_do(
    make_panel: Callable[..., Panel], store: OllamaStore, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    from tests.helpers.closed_folders import close_folder

    close_folder(monkeypatch, store.models)
    panel = make_panel(Place(StoreKind.OLLAMA, store.models))
    row = panel.find("Ollama")
    assert "✘" in panel.cell(row, COLUMN.NOTE)
    panel.click(row)
    text = panel.view.pane.about
    assert "permission denied" in text
    assert "usermod -aG ollama" in text
    assert not panel.view.page.state.isVisible()


def test_names_that_act_on_a_display_are_plain_text(
    make_panel: Callable[..., Panel], tmp_path: Path
) -> None:
    name = "<b>bold\n\u202egnp.gguf"
    (tmp_path / name).write_bytes(gguf_bytes("<i>x</i>", "<u>arch</u>\u202e"))
    panel = make_panel(Place(StoreKind.FOLDER, tmp_path))
    row = panel.find("Folder", "bold")
    for column in COLUMN:
        assert not unsafe_characters(panel.cell(row, column))
        tip = row.siblingAtColumn(column).data(Qt.ItemDataRole.ToolTipRole) or ""
        assert "<b>" not in tip
        assert not unsafe_characters(tip)
    assert panel.cell(row, COLUMN.NAME) == r"⚠ <b>bold\n\u202egnp.gguf"
    assert "cannot be seen" in panel.cell(row, COLUMN.NOTE)
    panel.click(row)
    pane = panel.view.pane
    assert r"/<b>bold\n\u202egnp.gguf" in pane.about
    for label in (*pane.findChildren(QLabel), panel.view.total):
        assert label.textFormat() == Qt.TextFormat.PlainText
        assert "\u202e" not in label.text()
    # what is pasted into a terminal is run up to a line end
    text = copied(panel.qtbot, lambda: panel.press(KEY.Key_C, CTRL))
    assert text == r"<b>bold\n\u202egnp.gguf"


def test_many_tensors_come_in_pages(make_panel: Callable[..., Panel], tmp_path: Path) -> None:
    from tests.helpers.gguf_writer import GgufFile, TensorSpec

    tensors = [TensorSpec(f"t{number}", (1,), data=bytes(4)) for number in range(700)]
    GgufFile(keys=[("general.architecture", 8, "x")], tensors=tensors).write(tmp_path / "m.gguf")
    panel = make_panel(Place(StoreKind.FOLDER, tmp_path))
    part = panel.find("Folder", "m.gguf", "m.gguf")
    panel.tree.expand(part)
    first = panel.model.rowCount(part)
    assert 256 <= first < 700

    def all_are_there() -> bool:
        panel.tree.scrollToBottom()
        return panel.model.rowCount(part) == 700

    panel.qtbot.waitUntil(all_are_there)
    assert panel.titles(part)[-1] == "t699"


def test_the_keyboard_goes_from_the_filter_into_the_list(panel: Panel) -> None:
    panel.view.focus_search()
    assert QApplication.focusWidget() is panel.view.bar.edit
    panel.qtbot.keyClick(panel.view.bar.edit, KEY.Key_Down)
    assert panel.tree.hasFocus()
    assert panel.tree.currentIndex().isValid()


def test_widths_of_columns_are_remembered(
    panel: Panel, make_panel: Callable[..., Panel], store: OllamaStore
) -> None:
    panel.tree.setColumnWidth(COLUMN.BYTES, 123)
    panel.view.save_layout()
    again = make_panel(Place(StoreKind.OLLAMA, store.models))
    assert again.tree.columnWidth(COLUMN.BYTES) == 123


def test_select_all_of_everything_is_the_sum_of_the_disk(panel: Panel, store: OllamaStore) -> None:
    panel.find("Ollama", "alpha", "latest", "Model")  # rows inside count nothing on top
    panel.tree.selectAll()
    flags = QItemSelectionModel.SelectionFlag
    panel.tree.selectionModel().select(panel.find("Ollama"), flags.Select | flags.Rows)
    every = sum(file.stat().st_size for file in store.blobs.iterdir())
    assert f"3 models selected: {bytes_text(every)} on disk" in panel.view.total.text()


def test_the_list_of_blobs_is_exported(panel: Panel, tmp_path: Path) -> None:
    panel.view.blobs.table.export(tmp_path / "blobs.csv")
    panel.qtbot.waitUntil(lambda: panel.app.written == [str(tmp_path / "blobs.csv")])
    lines = (tmp_path / "blobs.csv").read_text().splitlines()
    assert len(lines) == panel.view.blobs.model.rowCount() + 1
    (shared,) = (line for line in lines if "alpha:latest; alpha:small; beta:latest" in line)
    digest = shared.rsplit(",", 1)[1]
    assert digest.startswith("sha256-")
    assert len(digest) == 71


# Which models fit


@pytest.fixture
def sized(tmp_path: Path) -> Place:
    """A folder with a small model, one of some 4 GiB, and a file that cannot be planned."""
    folder = tmp_path / "sized"
    folder.mkdir()
    Shape().write(folder / "eight.gguf")
    Shape(blocks=4, width=512, feed_forward=1024, heads=8, kv_heads=2).write(folder / "four.gguf")
    (folder / "other.gguf").write_bytes(gguf_bytes("other"))
    return Place(StoreKind.FOLDER, folder)


def _target(gib: float, *, host: int = 64) -> Target:
    device = Device("0", "CUDA", int(gib * (1 << 30)), name="NVIDIA L4")
    return Target((device,), Host(host << 30))


def test_models_say_how_they_fit_the_machine_that_is_planned_for(
    make_panel: Callable[..., Panel], sized: Place
) -> None:
    panel = make_panel(sized)
    panel.view.plan_for(_target(3.5))
    panel.settle()
    texts = {
        name: [
            panel.cell(panel.find("Folder", name), column)
            for column in (COLUMN.FITS, COLUMN.CONTEXT)
        ]
        for name in ("eight", "four", "other")
    }
    expected = {
        name: version_at(sized.root / f"{name}.gguf", _target(3.5)).fit
        for name in ("eight", "four")
    }
    assert texts == {
        "eight": [expected["eight"].state, expected["eight"].context_text],
        "four": ["Fits", "131,072"],
        "other": ["No plan", ""],
    }
    assert texts["eight"][0].endswith(" of 33 layers")
    index = panel.find("Folder", "eight").siblingAtColumn(COLUMN.FITS)
    assert expected["eight"].sentence in index.data(Qt.ItemDataRole.ToolTipRole)
    panel.view.plan_for(_target(24))
    panel.settle()
    assert panel.cell(panel.find("Folder", "eight"), COLUMN.FITS) == "Fits"


def test_the_filter_and_the_order_know_how_models_fit(
    make_panel: Callable[..., Panel], sized: Place
) -> None:
    panel = make_panel(sized)
    panel.view.plan_for(_target(3.5))
    panel.settle()

    def shown() -> list[str]:
        return panel.titles(panel.find("Folder"))

    for words, names in {
        "fits:yes": ["four"],
        "fits:part": ["eight"],
        "FITS:partly gguf": ["eight"],
        "fits:": ["eight", "four"],
    }.items():
        panel.type(words)
        assert [name.split(".")[0] for name in shown()] == names, words
    panel.type("fits:no")
    assert panel.titles() == []
    panel.type("")
    header = panel.view.tree.header()
    header.setSortIndicator(COLUMN.FITS, Qt.SortOrder.AscendingOrder)
    assert [name.split(".")[0][-5:] for name in shown()] == ["eight", "four", "other"]
    header.setSortIndicator(COLUMN.CONTEXT, Qt.SortOrder.DescendingOrder)
    assert [name.split(".")[0][-5:] for name in shown()] == ["eight", "four", "other"]
    longest = [panel.cell(panel.find("Folder", one), COLUMN.CONTEXT) for one in ("eight", "four")]
    assert " layers" in longest[0]  # main memory holds the rest
    assert " layers" not in longest[1]
    panel.type("fits:yes")
    panel.view.plan_for(_target(24))  # the list follows when all are worked out
    panel.settle()
    assert len(shown()) == 2


def test_without_a_planner_this_machine_is_asked(
    make_panel: Callable[..., Panel], sized: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = Target((), Host(64 << 30))
    monkeypatch.setattr(readers, "this_target", lambda: none)
    panel = make_panel(sized)
    assert panel.cell(panel.find("Folder", "four"), COLUMN.FITS) == "Fits, on the CPU"
    assert not panel.failures


# How it looks


@pytest.fixture
def downloads(tmp_path: Path) -> Place:
    """A folder as LM Studio keeps it: publisher, repository, file; one file is cut short."""
    small = Shape(blocks=4, width=512, feed_forward=1024, heads=8, kv_heads=2)
    for publisher, name in (
        ("bartowski", "Meta-Llama-3.1-8B-Instruct"),
        ("unsloth", "Qwen3-30B-A3B-Thinking"),
        ("someone", "Broken-7B"),
    ):
        folder = tmp_path / "models" / publisher / f"{name}-GGUF"
        folder.mkdir(parents=True)
        small.write(folder / f"{name}-Q4_K_M.gguf")
    path = tmp_path / "models/someone/Broken-7B-GGUF/Broken-7B-Q4_K_M.gguf"
    path.write_bytes(path.read_bytes()[:200_000])
    return Place(StoreKind.LMSTUDIO, tmp_path / "models")


def test_nothing_is_elided_in_a_usual_window(
    make_panel: Callable[..., Panel], downloads: Place
) -> None:
    panel = make_panel(downloads)
    panel.view.plan_for(_target(24))
    panel.view.resize(1150, 700)  # of 1,280 with the rail
    panel.settle()
    assert elided(panel.tree) == []
    header = panel.tree.header()
    assert header.length() == panel.tree.viewport().width()
    panel.view.resize(600, 480)  # figures are scrolled to, the name is read
    panel.settle()
    assert header.length() > panel.tree.viewport().width()
    assert header.sectionSize(COLUMN.NAME) > 150
    panel.view.resize(1150, 700)
    panel.settle()
    assert header.length() == panel.tree.viewport().width()
    assert elided(panel.tree) == []


def test_a_name_stands_before_its_publisher_and_a_damaged_model_has_a_mark(
    make_panel: Callable[..., Panel], downloads: Place
) -> None:
    panel = make_panel(downloads)
    parts = {
        name: panel.find("LM Studio", name).data(ItemRole.PARTS)
        for name in ("Meta-Llama", "Qwen3", "Broken")
    }
    assert (parts["Meta-Llama"].text, parts["Meta-Llama"].muted) == (
        *("Meta-Llama-3.1-8B-Instruct-Q4_K_M", "bartowski"),
    )
    assert [parts[name].mark for name in ("Qwen3", "Broken")] == ["", "✘"]
    kind = panel.find("LM Studio", "Qwen3").siblingAtColumn(COLUMN.QUANTIZATION)
    assert kind.data() == "Q4_K"
    assert kind.data(ItemRole.PARTS).swatch is not None


def test_details_stand_below_and_in_a_wide_window_beside(panel: Panel) -> None:
    assert panel.view.pane.heading.text() == "Select a row to read about it."
    panel.click(panel.find("Ollama", "beta"))
    assert panel.view.pane.isVisible()
    assert panel.view.pane.y() > panel.view.lists.y()
    panel.view.resize(1400, 700)
    panel.settle()
    assert panel.view.pane.y() == panel.view.lists.y()
    assert panel.view.pane.x() > panel.view.lists.x()


def test_a_double_click_opens_the_row_under_it_wherever_it_is(
    make_panel: Callable[..., Panel], tmp_path: Path
) -> None:
    for number in range(40):
        (tmp_path / f"m{number:02}.gguf").write_bytes(gguf_bytes("llama"))
    panel = make_panel(Place(StoreKind.FOLDER, tmp_path))
    below = panel.tree.viewport().rect().bottomLeft() + QPoint(60, -12)
    name = panel.tree.indexAt(below).data()
    viewport, left = panel.tree.viewport(), Qt.MouseButton.LeftButton
    panel.qtbot.mouseClick(viewport, left, pos=below)
    panel.settle()  # details may come, and must not move what is under the pointer
    panel.qtbot.mouseDClick(viewport, left, pos=below)
    assert [path.name for path in panel.opened] == [name]


def test_numbers_filter_models(make_panel: Callable[..., Panel], sized: Place) -> None:
    panel = make_panel(sized)
    panel.view.plan_for(_target(24))
    panel.settle()
    for words, names in {
        "size>1G": ["eight.gguf"],
        "size<1g gguf": ["four.gguf", "other.gguf"],
        "context>100k": ["eight.gguf", "four.gguf"],
        "params>=1B": ["eight.gguf"],
        "params>": ["eight.gguf", "four.gguf", "other.gguf"],  # still being typed
    }.items():
        panel.type(words)
        shown = [title.removeprefix("⚠ ") for title in panel.titles(panel.find("Folder"))]
        assert shown == names, words


def test_words_of_the_filter_that_cannot_be_used_are_named(
    make_panel: Callable[..., Panel], sized: Place
) -> None:
    panel = make_panel(sized)
    panel.type("size>foo context>")
    note = panel.view.bar.note
    assert note.text() == (
        "'size>foo' is left out: there is no such number. Write it like size<10G. "
        "'context>' still needs a value, like context>32k."
    )
    panel.view.lists.setCurrentWidget(panel.view.blobs)  # where it is a word like others
    assert not note.isVisible()
    panel.view.lists.setCurrentWidget(panel.tree)
    panel.type("fits:maybe")
    assert note.text() == ("'fits:maybe' is left out: it can be fits:yes, fits:partly or fits:no.")
    assert len(panel.titles(panel.find("Folder"))) == 3
    panel.type("")
    assert not note.isVisible()


def test_a_filter_that_hides_everything_is_named_and_cleared(panel: Panel) -> None:
    view = panel.view
    panel.type("270m70b")
    assert view.page.state.isVisible()
    assert view.page.state.heading.text() == "Nothing matches “270m70b”."
    panel.qtbot.mouseClick(view.page.state.button, Qt.MouseButton.LeftButton)
    panel.qtbot.waitUntil(lambda: view.tree.isVisible() and not view.bar.text)
    view.lists.setCurrentWidget(view.blobs)
    panel.type("270m70b")
    assert view.page.state.isVisible()
    view.free_space()
    panel.qtbot.waitUntil(view.blobs.isVisible)


def test_the_commands_that_remove_what_is_nobodys_are_shown_and_copied(
    panel: Panel, store: OllamaStore
) -> None:
    assert "2 unused files: removing them frees 1016 B" in panel.view.total.text()
    assert panel.view.free_button.text() == "F&ree 1016 B…"  # as soon as it is said
    before = sorted(store.blobs.iterdir())
    panel.qtbot.mouseClick(panel.view.free_button, Qt.MouseButton.LeftButton)
    (dialog,) = panel.view.findChildren(FreeDialog)
    lines = copied(panel.qtbot, dialog.copy.click).splitlines()
    assert len(lines) == 2
    assert dialog.text.text.toPlainText().splitlines() == lines
    assert dialog.lost.isHidden()  # there were no copies
    dialog.reject()
    assert sorted(store.blobs.iterdir()) == before  # the program itself removes nothing
    for line in lines:
        subprocess.run(line, shell=True, check=True)
    gone = set(before) - set(store.blobs.iterdir())
    assert {file.name[:14] for file in gone} == {"sha256-9999999", _digest(b"nobody uses this")}
    panel.click(panel.find("Ollama", "beta"))
    remove = panel.view.commands.copy_remove
    assert copied(panel.qtbot, remove.trigger) == "ollama rm beta:latest"


def _digest(content: bytes) -> str:
    return f"sha256-{hashlib.sha256(content).hexdigest()}"[:14]


def test_a_narrow_list_comes_to_rest(make_panel: Callable[..., Panel], downloads: Place) -> None:
    """Columns that are out of sight must not ask for room again and again."""
    panel = make_panel(downloads)
    panel.view.resize(820, 480)
    panel.settle()
    resized: list[int] = []
    panel.tree.header().sectionResized.connect(lambda *_: resized.append(1))
    panel.qtbot.wait(50)
    assert resized == []


def test_a_narrow_list_keeps_the_answers_in_sight(panel: Panel) -> None:
    own = (COLUMN.ARCHITECTURE, COLUMN.USED)
    for width, hidden in ((1100, False), (840, True), (1100, False)):
        panel.view.resize(width, 600)
        panel.settle()
        panel.view.save_layout()  # as every few seconds
        assert [panel.tree.isColumnHidden(column) for column in own] == [hidden, hidden]
        assert not panel.tree.isColumnHidden(COLUMN.FITS)
    panel.tree.column_layout.show_column(COLUMN.USED, on=False)  # as the user chose
    for width in (840, 1100):
        panel.view.resize(width, 600)
        panel.settle()
    assert [panel.tree.isColumnHidden(column) for column in own] == [False, True]


def test_bars_say_how_large_models_are_beside_the_largest(panel: Panel) -> None:
    column, names = COLUMN.BYTES, (("alpha", "latest"), ("alpha", "small"), ("beta",))
    cells = [panel.find("Ollama", *name).siblingAtColumn(column) for name in names]
    sizes, bars = ([cell.data(role) for cell in cells] for role in (ItemRole.RAW, ItemRole.BAR))
    assert bars == [size / max(sizes) for size in sizes]
    assert panel.find("Ollama").siblingAtColumn(column).data(ItemRole.BAR) is None
