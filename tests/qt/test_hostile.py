"""A model whose every text is an attack, in every view: shown as text, and nothing more."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import (
    QAbstractButton,
    QFileDialog,
    QGraphicsScene,
    QGraphicsTextItem,
    QGraphicsView,
    QInputDialog,
    QLabel,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow, RecentMenu
from explorer.qt.widgets import saving
from explorer.qt.widgets.table_view import TableView
from tests.helpers.everywhere import settle
from tests.helpers.hostile import HostileModels, write_hostile_models
from tests.helpers.spreadsheet import is_formula
from tests.helpers.watch import watching
from tests.qt.walk.texts import (
    ACTING,
    WIDEST,
    acts_as_rich_text,
    explanations_are_ours,
    text_faults,
    texts_stay_texts,
)
from tests.qt.walk.walking import Check, Place, walk

# the offscreen platform, at a menu that a button opens
pytestmark = pytest.mark.qt_log_ignore("^This plugin does not support", extend=True)


@pytest.fixture(scope="session")
def hostile_models(tmp_path_factory: pytest.TempPathFactory) -> HostileModels:
    """Models whose every text is an attack; for reading only."""
    return write_hostile_models(tmp_path_factory.mktemp("hostile") / "models")


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answer every dialog of the system; return the names that were suggested for files."""
    suggested: list[str] = []

    def save(_parent: object, title: str, name: str, kinds: str, *_: object) -> tuple[str, str]:
        assert not ACTING.search(title + kinds)
        folder, name = os.path.split(name)
        assert folder in {"", str(tmp_path / "saved")}  # where the last file was
        suggested.append(name)
        return str(tmp_path / "saved" / name), kinds.split(";;", maxsplit=1)[0]

    monkeypatch.setattr(QFileDialog, "getSaveFileName", save)
    monkeypatch.setattr(saving, "may_replace", lambda *_: True)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_, **__: ("", ""))
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_, **__: ([], ""))
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_, **__: "")
    monkeypatch.setattr(QInputDialog, "getText", lambda *_, **__: ("", False))
    (tmp_path / "saved").mkdir()
    return suggested


def _faults(window: MainWindow) -> list[str]:
    """Return what is wrong with what a window and all in it show."""
    parts = [each for each in (window, *window.findChildren(QWidget)) if each.isVisible()]
    return [fault for part in parts for fault in text_faults(part)]


def open_hostile(
    qtbot: QtBot, make_window: Callable[..., MainWindow], path: Path, *others: Path
) -> MainWindow:
    """Open a hostile model, select the hostile tensor that is first, and compare with another."""
    window = make_window(*others, path)
    document = window.documents[-1]
    window.reveal_model(document)
    window.reveal_tensor(document, 0)
    settle(qtbot, window)
    return window


def test_the_checks_find_what_they_should(qtbot: QtBot) -> None:
    top = QWidget()
    qtbot.addWidget(top)
    attack = "<b>bold</b><img src=x>"
    for text in (attack, "\x1b[31m", "turned \u202e round"):
        label = QLabel(text, top)
        assert len(list(text_faults(label))) == 1
        label.setTextFormat(Qt.TextFormat.PlainText)
        assert len(list(text_faults(label))) == (text != attack)
    button = QPushButton("&amp; &x", top)
    button.setToolTip(f"some words {attack}")
    button.setStyleSheet("color: red")
    assert len(list(text_faults(button))) == 3
    button = QPushButton("&&amp; &&x", top)
    button.setToolTip("&lt;b&gt;")
    assert list(text_faults(button)) == []
    items = QTreeWidget(top)
    items.addTopLevelItem(QTreeWidgetItem(["two\nlines"]))
    assert len(list(text_faults(items))) == 2  # as a cell, and as what is seen of it
    scene = QGraphicsView(QGraphicsScene(top), top)
    scene.scene().addItem(text := QGraphicsTextItem())
    text.setHtml(attack)
    assert len(list(text_faults(scene))) == 1
    text.setPlainText(attack)
    assert list(text_faults(scene)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gguf", "llama", "safetensors", "manifest"])
def test_every_view_shows_it_as_text_and_all_that_leaves_the_window_is_harmless(
    *,
    qtbot: QtBot,
    make_window: Callable[..., MainWindow],
    hostile_models: HostileModels,
    kind: str,
    answers: list[str],
    no_programs_of_qt: None,
    tmp_path: Path,
) -> None:
    """Each table is copied and saved, each button pressed that asks for a file.

    No view connects, starts a program, or writes where models lie.
    """
    with watching(hostile_models.folder) as watch:
        window = open_hostile(qtbot, make_window, getattr(hostile_models, kind))
        window.settings.library_folders = [hostile_models.folder, hostile_models.store]
        names = _names(window)
        hostile = next(row for row, name in enumerate(names) if "<" in name or "\x1b" in name)
        longest = max(range(len(names)), key=lambda row: len(names[row]))
        checks: dict[Check, int] = {texts_stay_texts: 1_000, explanations_are_ours: 100}
        assert window.current is not None
        window.reveal_tensor(window.current, longest)
        walk(qtbot, window, checks)
        assert window.width() < WIDEST
        assert not ACTING.search(window.windowTitle())
        window.reveal_tensor(window.current, hostile)
        walk(qtbot, window, {**checks, what_leaves_is_harmless: 6})
        assert watch.found() == {}
    assert len(answers) >= 2
    for name in answers:
        assert Path(name).name == name
        assert not ACTING.search(name)
        assert not set(name) & set('<>:"|?*\\/'), name
    _look_at_files(tmp_path / "saved")
    assert {path.name for path in (tmp_path / "saved").iterdir()} <= set(answers)


def what_leaves_is_harmless(place: Place) -> Iterator[str]:
    """Copies and saves each table, and presses each button that asks for a file."""
    if not place.is_page:
        return
    for table in place.widgets:
        if isinstance(table, TableView) and table.model().rowCount():
            table.selectAll()
            for copy in (table.copy_rows, table.copy_cell, table.copy_json):
                QGuiApplication.clipboard().clear()
                copy()
                text = QGuiApplication.clipboard().text()
                yield f"{copy} copies {text[:80]!r}" if ACTING.search(text) else ""
            table.ask_export()
    for button in place.widgets:
        asks = isinstance(button, QAbstractButton) and button.text().endswith("…")
        if asks and button.isVisible() and button.isEnabled():
            button.click()
    settle(place.qtbot, place.window)
    _close_dialogs(place.window)


def _names(window: MainWindow) -> list[str]:
    assert window.current is not None
    return list(window.current.model.tensors.columns.names)


def test_comparing_shows_it_as_text(
    qtbot: QtBot, make_window: Callable[..., MainWindow], hostile_models: HostileModels
) -> None:
    window = open_hostile(
        qtbot,
        make_window,
        hostile_models.manifest,
        hostile_models.llama,
        hostile_models.safetensors,
    )
    panels = window.panels
    panels.references.choose(window.documents[0])
    settle(qtbot, window)
    for panel in (panels.errors, panels.survey, panels.planner, panels.weights):
        panels.setCurrentWidget(panel)
        settle(qtbot, window)
        assert _faults(window) == []


def test_menus_and_messages_show_it_as_text(
    qtbot: QtBot, make_window: Callable[..., MainWindow], hostile_models: HostileModels
) -> None:
    window = open_hostile(qtbot, make_window, hostile_models.safetensors, hostile_models.gguf)
    recent = window.findChild(RecentMenu)
    assert recent is not None
    recent.aboutToShow.emit()
    texts = [action.text() for action in recent.actions()]
    assert any("img" in text or "%n" in text for text in texts)
    assert not any(re.search("(?<!&)&(&&)*x", text) for text in texts)
    window.open_paths([hostile_models.folder / "<b>bold</b> \x1b[31m {0} %n.gguf"])
    qtbot.waitUntil(window.message_bar.isVisible)
    settle(qtbot, window)
    assert _faults(window) == []
    window.message_bar.messages[-1].copy.click()
    assert not ACTING.search(QGuiApplication.clipboard().text())


def _close_dialogs(window: MainWindow) -> None:
    for widget in QGuiApplication.instance().topLevelWidgets():  # type: ignore[union-attr]
        if widget is not window and widget.isVisible():
            widget.close()


def _look_at_files(folder: Path) -> None:
    for path in folder.glob("*.csv"):
        with open(path, encoding="utf-8", newline="") as file:
            assert not [cell for row in csv.reader(file) for cell in row if is_formula(cell)]
    for path in folder.glob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))
    for path in folder.glob("*.svg"):
        picture = path.read_text(encoding="utf-8")
        assert not re.search(r"<(script|img|foreignObject)\b", picture)


def test_actions_hold_nothing_of_a_model(
    qtbot: QtBot, make_window: Callable[..., MainWindow], hostile_models: HostileModels
) -> None:
    window = open_hostile(qtbot, make_window, hostile_models.llama)
    for action in window.findChildren(QAction):
        for text in (action.toolTip(), action.statusTip(), action.whatsThis()):
            assert not acts_as_rich_text(text)
            assert not ACTING.search(text)
