"""A model whose every text is an attack, in every view: shown as text, and nothing more."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QAbstractItemModel, QAbstractListModel, QModelIndex, Qt
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QFileDialog,
    QGraphicsScene,
    QGraphicsTextItem,
    QGraphicsView,
    QInputDialog,
    QLabel,
    QMenu,
    QPushButton,
    QTextEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow, RecentMenu
from explorer.qt.widgets import saving
from explorer.qt.widgets.table_view import TableView
from tests.helpers.everywhere import dialogs, everywhere, named, settle
from tests.helpers.hostile import HostileModels, write_hostile_models
from tests.helpers.seen_texts import texts_of
from tests.helpers.spreadsheet import is_formula

_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_MANY_LINES = frozenset({"label", "tip", "document", "description"})
_WITH_MNEMONICS = frozenset({"button", "tab", "command", "title"})
_MARKUP = re.compile(r"[^<\n]*<(b|img|script|a|td)\b", re.IGNORECASE)
_MOST_ROWS = 60
_WIDEST = 1600  # a window with such a widget would need gigabytes for its picture
_TIPS = (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.StatusTipRole, Qt.ItemDataRole.WhatsThisRole)

_SPOKEN = (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.AccessibleDescriptionRole)

# the offscreen platform, at a menu that a button opens
pytestmark = pytest.mark.qt_log_ignore("^This plugin does not support", extend=True)


@pytest.fixture(scope="session")
def hostile_models(tmp_path_factory: pytest.TempPathFactory) -> HostileModels:
    """Models whose every text is an attack; for reading only."""
    return write_hostile_models(tmp_path_factory.mktemp("hostile") / "models")


def acts_as_rich_text(text: str) -> bool:
    """Tell whether Qt would take a text for HTML: its rule looks at the first tag of a line.

    Source: qtbase/src/gui/text/qtextdocument.cpp, `Qt::mightBeRichText`, which Python cannot call.
    """
    return bool(_MARKUP.match(text))


def faults_of(widget: QWidget) -> Iterator[str]:
    """Yield what is wrong with the texts of one widget."""
    if widget.styleSheet():
        yield "has a style sheet"
    if widget.minimumSizeHint().width() > _WIDEST:
        yield f"makes the window {widget.minimumSizeHint().width()} pixels wide"
    for seen in texts_of(widget):
        text = seen.text if seen.kind in _MANY_LINES else seen.text.replace("\n", "\x0c")
        if _ACTING.search(text):
            yield f"{seen.kind} acts: {seen.text[:80]!r}"
        if seen.kind == "tip" and acts_as_rich_text(text):
            yield f"tip is rich text: {seen.text[:80]!r}"
        if seen.kind in _WITH_MNEMONICS and re.search("(?<!&)&x", text):
            yield f"{seen.kind} has a mnemonic: {seen.text[:80]!r}"
    if isinstance(widget, QLabel) and widget.textFormat() is not Qt.TextFormat.PlainText:
        if acts_as_rich_text(widget.text()):
            yield f"label is rich text: {widget.text()[:80]!r}"
    elif isinstance(widget, QAbstractItemView) and widget.model() is not None:
        yield from _faults_of_items(widget.model(), widget.rootIndex())
    elif isinstance(widget, QTextEdit) and "\ufffc" in widget.toPlainText():
        yield "shows an image"
    elif isinstance(widget, QGraphicsView) and widget.scene() is not None:
        yield from _faults_of_scene(widget)


def _faults_of_items(model: QAbstractItemModel, parent: QModelIndex) -> Iterator[str]:
    for row in range(min(model.rowCount(parent), _MOST_ROWS)):
        columns = 1 if isinstance(model, QAbstractListModel) else model.columnCount(parent)
        for column in range(columns):
            index = model.index(row, column, parent)
            shown = index.data(Qt.ItemDataRole.DisplayRole)
            if isinstance(shown, str) and _ACTING.search(shown.replace("\n", "\x0c")):
                yield f"cell acts: {shown[:80]!r}"
            for role in _TIPS:
                tip = index.data(role)
                if isinstance(tip, str) and (acts_as_rich_text(tip) or _ACTING.search(tip)):
                    yield f"tip of a cell: {tip[:80]!r}"
            for role in _SPOKEN:
                told = index.data(role)
                if isinstance(told, str) and _ACTING.search(told):
                    yield f"spoken text acts: {told[:80]!r}"
        first = model.index(row, 0, parent)
        if model.rowCount(first) and not parent.parent().isValid():
            yield from _faults_of_items(model, first)


def _faults_of_scene(view: QGraphicsView) -> Iterator[str]:
    for item in view.scene().items():
        if isinstance(item, QGraphicsTextItem):
            text = item.toPlainText()
            made_of_html = "\ufffc" in text or ("bold" in text and "<b" not in text)
            if made_of_html or _ACTING.search(text):
                yield f"a text of a plot: {text[:80]!r}"


def faults(top: QWidget) -> list[str]:
    """Return what is wrong with what a widget and all in it show."""
    widgets = [top, *top.findChildren(QWidget)]
    return [
        f"{named(widget)[:120]}: {fault}"
        for widget in widgets
        if widget.isVisible() or isinstance(widget, QMenu)
        for fault in faults_of(widget)
    ]


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answer every dialog of the system; return the names that were suggested for files."""
    suggested: list[str] = []

    def save(_parent: object, title: str, name: str, kinds: str, *_: object) -> tuple[str, str]:
        assert not _ACTING.search(title + kinds)
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
        assert len(list(faults_of(label))) == 1
        label.setTextFormat(Qt.TextFormat.PlainText)
        assert len(list(faults_of(label))) == (text != attack)
    button = QPushButton("&amp; &x", top)
    button.setToolTip(f"some words {attack}")
    button.setStyleSheet("color: red")
    assert len(list(faults_of(button))) == 3
    button = QPushButton("&&amp; &&x", top)
    button.setToolTip("&lt;b&gt;")
    assert list(faults_of(button)) == []
    items = QTreeWidget(top)
    items.addTopLevelItem(QTreeWidgetItem(["two\nlines"]))
    assert len(list(faults_of(items))) == 2  # as a cell, and as what is seen of it
    scene = QGraphicsView(QGraphicsScene(top), top)
    scene.scene().addItem(text := QGraphicsTextItem())
    text.setHtml(attack)
    assert len(list(faults_of(scene))) == 1
    text.setPlainText(attack)
    assert list(faults_of(scene)) == []


_KINDS = (
    pytest.param("gguf", marks=pytest.mark.slow),
    pytest.param("llama"),
    pytest.param("safetensors", marks=pytest.mark.slow),
    pytest.param("manifest", marks=pytest.mark.slow),
)


@pytest.mark.parametrize("kind", _KINDS)
def test_every_view_shows_it_as_text(
    qtbot: QtBot, make_window: Callable[..., MainWindow], hostile_models: HostileModels, kind: str
) -> None:
    window = open_hostile(qtbot, make_window, getattr(hostile_models, kind))
    window.settings.library_folders = [hostile_models.folder, hostile_models.store]
    hostile = [row for row, name in enumerate(_names(window)) if "<" in name or "\x1b" in name]
    assert window.current is not None
    longest = max(range(len(_names(window))), key=lambda row: len(_names(window)[row]))
    shown = []
    for row in (hostile[0], longest):
        window.reveal_tensor(window.current, row)
        for name, _widget in everywhere(qtbot, window):
            shown.append(name)
            assert faults(window) == [], name
            assert window.width() < _WIDEST
    assert len(shown) >= window.panels.count()
    assert not _ACTING.search(window.windowTitle())
    for name, dialog in dialogs(qtbot, window):
        assert faults(dialog) == [], name


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
        assert faults(window) == []


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
    assert faults(window) == []
    window.message_bar.messages[-1].copy.click()
    assert not _ACTING.search(QGuiApplication.clipboard().text())


@pytest.mark.parametrize("kind", _KINDS[:3])
def test_what_leaves_the_window_is_harmless(
    *,
    qtbot: QtBot,
    make_window: Callable[..., MainWindow],
    hostile_models: HostileModels,
    kind: str,
    answers: list[str],
    tmp_path: Path,
) -> None:
    """Each table copied and saved; each button that asks for a file, pressed."""
    window = open_hostile(qtbot, make_window, getattr(hostile_models, kind))
    copied = 0
    for _name, _widget in everywhere(qtbot, window):
        for table in window.panels.currentWidget().findChildren(TableView):
            if table.isVisible() and table.model().rowCount():
                table.selectAll()
                for copy in (table.copy_rows, table.copy_cell, table.copy_json):
                    QGuiApplication.clipboard().clear()
                    copy()
                    text = QGuiApplication.clipboard().text()
                    assert not _ACTING.search(text), (_name, copy)
                    copied += bool(text)
                table.ask_export()
        for button in window.panels.currentWidget().findChildren(QAbstractButton):
            if button.isVisible() and button.isEnabled() and button.text().endswith("…"):
                button.click()
        settle(qtbot, window)
        _close_dialogs(window)
    assert copied >= 6
    assert len(answers) >= 2
    for name in answers:
        assert Path(name).name == name
        assert not _ACTING.search(name)
        assert not set(name) & set('<>:"|?*\\/'), name
    _look_at_files(tmp_path / "saved")
    names = {path.name for path in (tmp_path / "saved").iterdir()}
    assert names <= set(answers)


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
            assert not _ACTING.search(text)
