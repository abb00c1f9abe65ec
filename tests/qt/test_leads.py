"""Context menus lead on: from a tensor or a model to the pages that show it, wherever one is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QAction, QClipboard
from PySide6.QtWidgets import QAbstractItemView, QFileDialog, QLabel, QMenu
from pytestqt.qtbot import QtBot

from explorer.present.panels import PANELS
from explorer.qt.main_window import MainWindow
from explorer.qt.quick_open import QuickOpen
from explorer.qt.references import Rounding
from explorer.qt.widgets.plot import ThemedPlot
from tests.helpers.window import wait_idle
from tests.qt.walk.access import LEAD, open_menu, plain, repeated

# the offscreen platform has no window manager that could do these for a menu
pytestmark = pytest.mark.qt_log_ignore(
    "^This plugin does not support (raise|grabbing|propagateSizeHints)"
)


def entry(menu: QMenu, title: str) -> QAction:
    """Return an entry of a menu by its title."""
    titles = {plain(action.text()): action for action in menu.actions() if action.text()}
    assert title in titles, titles.keys()
    return titles[title]


def titles_below(menu: QMenu, title: str) -> list[str]:
    """Return the titles in a submenu."""
    above = entry(menu, title)
    below = above.menu()
    assert isinstance(below, QMenu)
    return [plain(action.text()) for action in below.actions()]


def choose(menu: QMenu, title: str, below: str = "") -> None:
    """Choose an entry, or one of its submenu."""
    chosen = entry(menu, title)
    if below:
        further = chosen.menu()
        assert isinstance(further, QMenu)
        entry(further, below).trigger()
    else:
        chosen.trigger()
    menu.close()


def right_click(qtbot: QtBot, view: QAbstractItemView, row: int) -> QMenu:
    """Open the menu of a row of a list: the press selects it, as the right button does."""
    model = view.model()
    assert model is not None
    place = view.visualRect(model.index(row, 0)).center()
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.RightButton, pos=place)
    return open_menu(qtbot, view.viewport(), place)


def test_a_tensor_of_the_table_leads_to_weights_errors_and_bytes(
    qtbot: QtBot, window: MainWindow
) -> None:
    panels = window.panels
    for title, page in (
        ("Weights of a tensor", "weights"),
        ("Errors of a tensor", "errors"),
        (PANELS["survey"].title, "survey"),
        ("Raw bytes", "raw"),
        ("Planner", "planner"),
    ):
        panels.show_page("tensors")
        choose(right_click(qtbot, panels.tensors.widget.table, 3), "Show in", title)
        assert panels.page == page
        assert list(panels.selection.rows) == [3]
        wait_idle(qtbot, window)


def test_pictures_lead_on_and_not_to_where_one_is(qtbot: QtBot, window: MainWindow) -> None:
    panels = window.panels
    panels.show_page("weights")
    wait_idle(qtbot, window)
    plot = next(each for each in panels.weights.findChildren(ThemedPlot) if each.isVisible())
    menu = open_menu(qtbot, plot.viewport())
    assert [plain(each.text()) for each in menu.actions()][-3:] == LEAD
    assert "Weights of a tensor" not in titles_below(menu, "Show in")
    choose(menu, "Show in", "Errors of a tensor")
    assert panels.page == "errors"
    wait_idle(qtbot, window)


def test_the_menu_of_a_model_leads_to_its_pages(qtbot: QtBot, window: MainWindow) -> None:
    window.panels.selection.select_tensors([3])
    window.panels.show_page("weights")
    wait_idle(qtbot, window)
    menu = right_click(qtbot, window.open_models.tree, 0)
    assert {"Overview", "Metadata", PANELS["survey"].title} <= {*titles_below(menu, "Show in")}
    choose(menu, "Show in", "Overview")
    assert window.panels.page == "overview"


def double_click(qtbot: QtBot, view: QAbstractItemView, index: QModelIndex) -> None:
    view.scrollTo(index)
    place = view.visualRect(index).center()
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    qtbot.mouseDClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_double_clicks_lead_on(qtbot: QtBot, window: MainWindow) -> None:
    panels, tree = window.panels, window.open_models
    document = window.documents[0]
    panels.show_page("overview")
    tree.reveal_tensor(document, 3)
    double_click(qtbot, tree.tree, tree.tree.currentIndex())
    assert (panels.page, list(panels.selection.rows)) == ("weights", [3])
    wait_idle(qtbot, window)
    tree.reveal_key(document, document.model.metadata.entries[1].key)
    double_click(qtbot, tree.tree, tree.tree.currentIndex())
    assert (panels.page, panels.selection.key) == ("metadata", 1)
    table = panels.metadata.widget.list.table
    double_click(qtbot, table, table.model().index(0, 0))
    assert (panels.page, panels.selection.key) == ("raw", 0)
    panels.show_page("tensors")
    table = panels.tensors.widget.table
    double_click(qtbot, table, table.model().index(2, 0))
    assert (panels.page, list(panels.selection.rows)) == ("weights", [2])
    wait_idle(qtbot, window)
    panels.references.choose(Rounding("Q4_0"))
    panels.show_page("tensors")
    double_click(qtbot, table, table.model().index(1, 0))
    assert (panels.page, list(panels.selection.rows)) == ("errors", [1])
    wait_idle(qtbot, window)


def test_layers_of_the_planner_lead_to_their_tensors(qtbot: QtBot, window: MainWindow) -> None:
    panels = window.panels
    panels.show_page("planner")
    planner = panels.planner.widget
    qtbot.waitUntil(lambda: planner.body is not None and planner.state.machine is not None)
    wait_idle(qtbot, window)
    assert planner.body is not None
    strip = planner.body.picture.strip
    place = strip.layer_area(1).center().toPoint()
    menu = open_menu(qtbot, strip, place)
    assert [plain(each.text()) for each in menu.actions()][-3:] == LEAD
    menu.close()
    qtbot.mouseClick(strip, Qt.MouseButton.RightButton, pos=place)
    assert panels.selection.layer == 1  # a menu is of what is there
    qtbot.mouseDClick(strip, Qt.MouseButton.LeftButton, pos=place)
    assert panels.page == "tensors"
    assert panels.selection.layer == 1
    panels.show_page("planner")
    strip.setFocus()
    qtbot.keyClick(strip, Qt.Key.Key_Return)
    assert panels.page == "tensors"
    wait_idle(qtbot, window)


def test_a_menu_compares_with_another_open_model(
    qtbot: QtBot, window: MainWindow, small_path: Path
) -> None:
    demo = window.documents[0]
    window.open_paths([small_path])
    qtbot.waitUntil(lambda: len(window.documents) == 2)
    window.panels.show_page("overview")
    tree = window.open_models.tree
    choose(right_click(qtbot, tree, 1), "Compare with", demo.title)
    assert window.panels.page == "compare"
    assert window.panels.references.chosen is demo
    wait_idle(qtbot, window)


def test_the_file_manager_shows_the_file_of_the_tensor(
    qtbot: QtBot, window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Path] = []

    def reveal(path: Path, _folder: Path) -> bool:
        shown.append(path)
        return True

    monkeypatch.setattr("explorer.qt.library.commands.reveal", reveal)
    window.panels.show_page("tensors")
    choose(right_click(qtbot, window.panels.tensors.widget.table, 0), "Show in file manager")
    qtbot.waitUntil(lambda: bool(shown))
    assert shown == [window.documents[0].path]
    wait_idle(qtbot, window)


def test_the_menu_save_makes_a_report_of_the_model(
    qtbot: QtBot, window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "model.html"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(target), ""))
    window.panels.show_page("overview")
    menu = window.top.save.menu()
    window.actions_.save_shown.trigger()  # Ctrl+E
    assert menu.isVisible()
    report = entry(menu, "Report of the model…")
    assert menu.activeAction() is report  # which Enter takes: the page has nothing else to save
    report.trigger()
    menu.close()
    qtbot.waitUntil(window.bottom.notice.isVisible)
    assert window.bottom.notice.label.text() == f"✓ Saved {target}"
    page = target.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "output_norm.weight" in page
    assert window.panels.page == "overview"  # success moves nothing


def test_the_menu_save_is_shown_where_there_is_nothing_to_save(
    qtbot: QtBot, window: MainWindow
) -> None:
    window.close_document(window.documents[0])
    wait_idle(qtbot, window)
    menu = window.top.save.menu()
    window.actions_.save_shown.trigger()
    assert menu.actions()[0].text() == "This page has nothing to save"
    assert menu.activeAction() is None
    menu.close()
    wait_idle(qtbot, window)


def test_pages_without_a_model_lead_to_the_start_page(
    qtbot: QtBot, make_window: Callable[..., MainWindow]
) -> None:
    window = make_window()
    panels = window.panels
    for page in ("weights", "errors", "survey"):
        panels.show_page(page)
        wait_idle(qtbot, window)
        state = getattr(panels, page).widget.state
        assert state.heading.text() == PANELS[page].title
        assert state.button.isVisible()
        qtbot.mouseClick(state.button, Qt.MouseButton.LeftButton)
        assert panels.page == "overview"
    wait_idle(qtbot, window)


def test_tables_without_a_model_say_what_would_be_there(
    qtbot: QtBot, make_window: Callable[..., MainWindow]
) -> None:
    window = make_window()
    for page in ("metadata", "tensors", "vocabulary", "raw"):
        window.panels.show_page(page)
        wait_idle(qtbot, window)
        labels = getattr(window.panels, page).widget.findChildren(QLabel)
        shown = [label.text() for label in labels if label.isVisible()]
        assert [text for text in shown if text.startswith("Open a model to see its ")], page


def test_what_was_saved_is_said_in_the_status_bar_and_shown_in_its_folder(
    qtbot: QtBot, window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, shown = tmp_path / "table.csv", list[Path]()
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(target), ""))

    def reveal(path: Path, _folder: Path) -> bool:
        shown.append(path)
        return True

    monkeypatch.setattr("explorer.qt.library.commands.reveal", reveal)
    window.panels.show_page("tensors")
    before = window.panels.geometry()
    window.panels.tensors.widget.table.export_action.trigger()
    notice = window.bottom.notice
    qtbot.waitUntil(notice.isVisible)
    assert notice.label.text() == f"✓ Saved {target}"
    assert window.panels.page == "tensors"  # success moves nothing
    assert window.panels.geometry() == before
    qtbot.mouseClick(notice.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: shown == [target])
    wait_idle(qtbot, window)


def test_what_was_copied_is_said_in_the_status_bar(
    qtbot: QtBot, window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    # without a display Qt says that nobody owns the clipboard
    monkeypatch.setattr(QClipboard, "ownsClipboard", lambda _clipboard: True)
    notice = window.bottom.notice
    assert not notice.isVisible()
    window.actions_.copy_path.trigger()
    qtbot.waitUntil(notice.isVisible)
    assert notice.label.text() == "✓ Copied"
    assert not notice.button.isVisible()
    window.panels.show_page("weights")
    wait_idle(qtbot, window)
    plot = next(each for each in window.panels.weights.findChildren(ThemedPlot) if each.isVisible())
    window.activateWindow()
    plot.setFocus()
    keys = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    qtbot.keyClick(plot, Qt.Key.Key_C, keys)
    qtbot.waitUntil(lambda: notice.label.text() == "✓ Picture copied")


def test_errors_begin_with_the_worst_tensor_that_a_survey_found(
    qtbot: QtBot, window: MainWindow
) -> None:
    panels = window.panels
    panels.references.choose(Rounding("Q4_0"))
    panels.show_page("error_map")
    wait_idle(qtbot, window)
    session = panels.comparing
    assert session is not None
    session.start()
    wait_idle(qtbot, window)
    assert not panels.selection.rows
    comparison = session.comparison
    assert comparison is not None
    errors = comparison.errors.relative_rmse
    panels.show_page("errors")
    (row,) = panels.selection.rows
    assert errors[row] == np.nanmax(errors) > 0
    wait_idle(qtbot, window)


def test_usual_questions_take_four_steps_at_most(
    qtbot: QtBot, window: MainWindow, small_path: Path
) -> None:
    panels, demo = window.panels, window.documents[0]
    panels.show_page("overview")
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    control, alt = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.AltModifier
    qtbot.keyClick(window, Qt.Key.Key_K, control)  # what did it lose in a tensor: Ctrl+K,
    dialog = window.findChildren(QuickOpen)[-1]
    qtbot.keyClicks(dialog.edit, "1.ffn_down errors")  # words,
    with qtbot.waitSignal(dialog.finished):
        qtbot.keyClick(dialog.edit, Qt.Key.Key_Return)  # Enter; see `test_references`, too
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    assert panels.page == "errors"
    assert window.shell.head.title.text() == "blk.1.ffn_down.weight"
    wait_idle(qtbot, window)
    qtbot.keyClick(window, Qt.Key.Key_1, alt)  # which models fit: one key
    assert panels.page == "library"
    window.open_paths([small_path])
    qtbot.waitUntil(lambda: len(window.documents) == 2)
    qtbot.keyClick(window, Qt.Key.Key_6, control)  # compare the two open models: one key
    assert panels.page == "compare"
    assert panels.references.chosen is demo
    wait_idle(qtbot, window)
    panels.show_page("planner")
    qtbot.keyClick(window, Qt.Key.Key_K, control)
    dialog = window.findChildren(QuickOpen)[-1]
    qtbot.keyClicks(dialog.edit, "layer 0")
    with qtbot.waitSignal(dialog.finished):
        qtbot.keyClick(dialog.edit, Qt.Key.Key_Return)
    assert panels.page == "error_layers"  # not the planner, which only says where the layer is
    wait_idle(qtbot, window)
    window.resize(960, 540)
    panels.show_page("error_map")
    wait_idle(qtbot, window)
    shown = panels.error_map.widget.part
    for each in (shown.save, shown.readout):  # no scrolling for them
        assert each.visibleRegion().boundingRect() == each.rect()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    qtbot.keyClick(window, Qt.Key.Key_K, control)  # add a projector: Ctrl+K, words, Enter, Enter
    dialog = window.findChildren(QuickOpen)[-1]
    qtbot.keyClicks(dialog.edit, "add a projector")
    with qtbot.waitSignal(dialog.finished):
        qtbot.keyClick(dialog.edit, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: panels.page == "planner")
    wait_idle(qtbot, window)
    body = panels.planner.widget.body
    assert body is not None
    qtbot.waitUntil(lambda: not body.attachments.add_file.visibleRegion().isEmpty())
    window.activateWindow()
    qtbot.waitUntil(lambda: window.focusWidget() is body.attachments.add_file)


def test_no_menu_has_a_key_twice(qtbot: QtBot, window: MainWindow) -> None:
    """In the frame: those of pages are asked by the walk."""
    top = window.top
    for action in top.menus.actions():
        assert list(repeated(action.menu(), action.text())) == []
    for button in (top.save, top.appearance):
        button.menu().aboutToShow.emit()
        assert list(repeated(button.menu(), button.text())) == []
    menu = right_click(qtbot, window.open_models.tree, 0)
    assert list(repeated(menu, "tree")) == []
    menu.close()
    wait_idle(qtbot, window)
