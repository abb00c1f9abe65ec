"""A monkey at the window: it does whatever a person could, in an order that a seed decides.

It knows no panel by name. What it finds on the screen it clicks, drags, types into and closes, so
that what is built later is tried without anybody thinking of it.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import TypeVar
from unittest.mock import patch

from PySide6.QtCore import QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QAction, QContextMenuEvent, QDesktopServices, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QAbstractSlider,
    QApplication,
    QComboBox,
    QDialog,
    QDoubleSpinBox,
    QFileDialog,
    QHeaderView,
    QInputDialog,
    QLineEdit,
    QMenu,
    QMessageBox,
    QScrollBar,
    QSpinBox,
    QTabBar,
    QWidget,
)
from shiboken6 import isValid

from explorer.qt import addresses
from explorer.qt.main_window import MainWindow
from explorer.qt.settings import Settings
from explorer.qt.widgets import saving
from tests.helpers.descendants import descendants

Widget = TypeVar("Widget", bound=QWidget)

_MOST_MODELS = 4
_TOLD = 6
_RESCUE_MS = 150
_TEXTS = (
    *("attn", "blk.1", "type:Q4_K", "size>1000", "a b", "0", "-1", "1e9", "0x10", "ff ff", "nan"),
    *("<b>%n {0}", "=cmd|x", "(", "[", "*", "\\", "'", "é模", "token:5", "", "", ""),
)
_KEYS = (
    *(Qt.Key.Key_Tab, Qt.Key.Key_Tab, Qt.Key.Key_Backtab, Qt.Key.Key_Down, Qt.Key.Key_Up),
    *(Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_PageDown, Qt.Key.Key_PageUp, Qt.Key.Key_Home),
    *(Qt.Key.Key_End, Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Escape, Qt.Key.Key_Plus),
    *(Qt.Key.Key_Minus, Qt.Key.Key_0, Qt.Key.Key_G, Qt.Key.Key_N, Qt.Key.Key_Delete),
)
_NO_KEYS = Qt.KeyboardModifier.NoModifier
_MODIFIERS = (
    *(_NO_KEYS, _NO_KEYS, _NO_KEYS),
    Qt.KeyboardModifier.ControlModifier,
    Qt.KeyboardModifier.ShiftModifier,
)
_ADDRESSES = ("http://127.0.0.1:9/model.gguf", "https://127.0.0.1:9/é/model.safetensors")
_BUTTONS = (Qt.MouseButton.LeftButton, Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton)
_ENDS_THE_PROGRAM = frozenset({"quit"})


class Monkey:
    """Does random things to a window.

    Args:
        window: The window.
        seed: Decides what is done; what work in the background has given by then, it does not.
        models: What may be opened; some of them may not be models.

    Attributes:
        done: What was done last, for a report; all of an hour's takes megabytes.
        kinds: How often each kind of thing was done.
    """

    def __init__(self, window: MainWindow, seed: int, models: Sequence[Path]) -> None:
        self.window = window
        self.done: deque[str] = deque(maxlen=_TOLD)
        self.kinds: Counter[str] = Counter()
        self._chance = Random(seed)
        self._models = models
        self._remembered: list[QAction] = []
        self._rescue = QTimer(window)  # a button's menu has an event loop of its own
        self._rescue.setInterval(_RESCUE_MS)
        self._rescue.timeout.connect(_close_popups)
        self._actions: list[tuple[Callable[[], str], int]] = [
            (self._open, 4),
            (self._close, 2),
            (self._show_panel, 8),
            (self._show_page, 8),
            (self._select_row, 14),
            (self._sort, 3),
            (self._type_text, 8),
            (self._choose, 8),
            (self._choose_reference, 3),
            (self._click, 10),
            (self._slide, 6),
            (self._spin, 4),
            (self._drag, 12),
            (self._wheel, 6),
            (self._open_menu, 6),
            (self._hidden_menu, 3),
            (self._other_program, 1),
            (self._press_keys, 12),
            (self._command, 5),
            (self._quick_open, 3),
            (self._resize, 3),
            (self._cancel, 4),
            (self._wait, 6),
        ]

    def act(self) -> None:
        """Do one thing, and let the window answer."""
        actions, weights = zip(*self._actions, strict=True)
        (action,) = self._chance.choices(actions, weights)
        self.do(action.__name__.lstrip("_"), action)
        if self._chance.random() < 0.7:
            self.close_dialogs()

    def do(self, name: str, action: Callable[[], str]) -> None:
        """Do a certain thing, and let the window answer.

        Args:
            name: What to call it.
            action: Does it; returns what it did it to.
        """
        self.done.append(name)
        self.kinds[name] += 1
        self._rescue.start()
        try:
            told = action()
        finally:
            self._rescue.stop()
        self.done[-1] += f" {told}" if told else ""
        QApplication.processEvents()

    def close_dialogs(self) -> None:
        """Close menus and dialogs that are open."""
        _close_popups()
        for widget in QApplication.topLevelWidgets():
            if widget is not self.window and widget.isVisible() and isinstance(widget, QDialog):
                widget.reject()
        QApplication.processEvents()

    def wait(self, seconds: float) -> None:
        """Let the window work until nothing runs in the background, or for some time."""
        end = time.monotonic() + seconds
        while self.window.runner.jobs and time.monotonic() < end:
            QApplication.processEvents()
            time.sleep(0.002)

    # What there is

    def _shown(self, kind: type[Widget]) -> list[Widget]:
        """Return the widgets of a kind that one can reach: those of a dialog, if one is open."""
        top = QApplication.activeModalWidget() or self.window
        return [one for one in descendants(top, kind, shown=True) if can_be_reached(one)]

    def commands(self) -> list[QAction]:
        """Return the commands of the window that can be chosen, but those that end it."""
        return [
            one
            for one in self.window.actions()
            if one.isEnabled() and one.objectName() not in _ENDS_THE_PROGRAM
        ]

    def _one(self, kind: type[Widget]) -> Widget | None:
        widgets = self._shown(kind)
        return self._chance.choice(widgets) if widgets else None

    # What is done

    def _open(self) -> str:
        path = self._chance.choice(self._models)
        if len(self.window.documents) < _MOST_MODELS:
            self.window.open_paths([path])
        return path.name[:40]

    def _close(self) -> str:
        if not self.window.documents:
            return ""
        document = self._chance.choice(self.window.documents)
        self.window.close_document(document)
        return document.title[:40]

    def _show_panel(self) -> str:
        panels = self.window.panels
        panels.setCurrentIndex(self._chance.randrange(panels.count()))
        return panels.panel.title

    def _show_page(self) -> str:
        tabs = self._one(QTabBar)
        if tabs is None or not tabs.count():
            return ""
        tabs.setCurrentIndex(self._chance.randrange(tabs.count()))
        return tabs.tabText(tabs.currentIndex())

    def _select_row(self) -> str:
        view = self._one(QAbstractItemView)
        model = None if view is None else view.model()
        if view is None or model is None:
            return ""
        parent = view.rootIndex()
        for _ in range(self._chance.randrange(3)):  # down into a tree
            rows = model.rowCount(parent)
            below = model.index(self._chance.randrange(rows), 0, parent) if rows else parent
            if not model.rowCount(below):
                break
            parent = below
        rows = model.rowCount(parent)
        if not rows:
            return type(view).__name__
        row = self._chance.randrange(rows)
        view.setCurrentIndex(model.index(row, 0, parent))
        if self._chance.random() < 0.1:
            view.selectAll()
        if self._chance.random() < 0.2:
            view.doubleClicked.emit(view.currentIndex())
            view.activated.emit(view.currentIndex())
        return f"{type(view).__name__} {row}"

    def _sort(self) -> str:
        header = self._one(QHeaderView)
        if header is None or not header.count():
            return ""
        section = self._chance.randrange(header.count())
        place = QPoint(header.sectionViewportPosition(section) + 5, header.height() // 2)
        QTest.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, _NO_KEYS, place)
        return str(section)

    def _type_text(self) -> str:
        edit = self._one(QLineEdit)
        if edit is None or edit.isReadOnly():
            return ""
        text = self._chance.choice(_TEXTS)
        edit.setFocus()
        edit.selectAll()
        QTest.keyClick(edit, Qt.Key.Key_Delete)
        _type(edit, text)
        if self._chance.random() < 0.6:
            QTest.keyClick(edit, Qt.Key.Key_Return)
        return f"{edit.accessibleName()} {text!r}"

    def _choose(self) -> str:
        box = self._one(QComboBox)
        if box is None or not box.count():
            return ""
        place = self._chance.randrange(box.count())
        box.setCurrentIndex(place)
        box.activated.emit(place)
        return f"{box.accessibleName()} {place}"

    def _choose_reference(self) -> str:
        references = self.window.panels.references
        documents = [None, *self.window.documents]
        references.choose(self._chance.choice(documents))
        return ""

    def _click(self) -> str:
        button = self._one(QAbstractButton)
        if button is None:
            return ""
        text = button.text() or button.accessibleName()
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
        return text

    def _slide(self) -> str:
        sliders = [one for one in self._shown(QAbstractSlider) if not isinstance(one, QScrollBar)]
        sliders = sliders or self._shown(QAbstractSlider)
        if not sliders:
            return ""
        slider = self._chance.choice(sliders)
        value = self._chance.randint(slider.minimum(), max(slider.minimum(), slider.maximum()))
        slider.setSliderDown(True)
        slider.setSliderPosition(value)
        slider.setSliderDown(False)
        return f"{slider.accessibleName()} {value}"

    def _spin(self) -> str:
        box = self._one(QSpinBox) or self._one(QDoubleSpinBox)
        if box is None:
            return ""
        share = self._chance.choice((0.0, 0.01, 0.5, 1.0))
        value = box.minimum() + share * (box.maximum() - box.minimum())
        box.setValue(int(value) if isinstance(box, QSpinBox) else value)
        return f"{box.accessibleName()} {value}"

    def _place(self, widget: QWidget) -> QPoint:
        chance = self._chance
        width, height = max(1, widget.width()), max(1, widget.height())  # a drag may shrink it
        return QPoint(chance.randrange(width), chance.randrange(height))

    def _target(self) -> QWidget | None:
        """Return something to point at: what scrolls is pointed at inside."""
        kind = self._chance.choice((QAbstractScrollArea, QAbstractScrollArea, QWidget))
        widget = self._one(kind)
        return widget.viewport() if isinstance(widget, QAbstractScrollArea) else widget

    def _drag(self) -> str:
        widget = self._target()
        if widget is None or widget.height() < 1 or isinstance(widget, MainWindow):
            return ""
        button = self._chance.choice(_BUTTONS)
        keys = self._chance.choice(_MODIFIERS)
        start = self._place(widget)
        steps: list[Callable[[], object]] = [
            lambda: QTest.mouseMove(widget, start),
            lambda: QTest.mousePress(widget, button, keys, start),
        ]
        for _ in range(self._chance.randrange(4)):
            steps += [
                lambda: QTest.mouseMove(widget, self._place(widget)),
                QApplication.processEvents,
            ]
        steps.append(lambda: QTest.mouseRelease(widget, button, keys, self._place(widget)))
        if self._chance.random() < 0.1:
            left = Qt.MouseButton.LeftButton
            steps.append(lambda: QTest.mouseDClick(widget, left, keys, start))
        name = type(widget.parent() or widget).__name__
        for step in steps:
            if not isValid(widget):  # each step lets the window work, and a page may be replaced
                break
            step()
        return name

    def _wheel(self) -> str:
        widget = self._target()
        if widget is None or widget.height() < 1:
            return ""
        place = QPointF(self._place(widget))
        turn = QPoint(0, self._chance.choice((-240, -120, 120, 240)))
        keys = self._chance.choice(_MODIFIERS)
        event = QWheelEvent(
            place,
            QPointF(widget.mapToGlobal(place.toPoint())),
            QPoint(),
            turn,
            Qt.MouseButton.NoButton,
            keys,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(widget, event)
        return type(widget.parent() or widget).__name__

    def _open_menu(self) -> str:
        widget = self._target()
        if widget is None or widget.height() < 1:
            return ""
        place = self._place(widget)
        reason = QContextMenuEvent.Reason.Mouse
        QApplication.sendEvent(
            widget, QContextMenuEvent(reason, place, widget.mapToGlobal(place), _NO_KEYS)
        )
        menu = QApplication.activePopupWidget()
        if not isinstance(menu, QMenu):
            return ""
        actions = [one for one in menu.actions() if one.isEnabled() and not one.isSeparator()]
        if not actions or self._chance.random() < 0.2:
            menu.close()
            return "closed"
        action = self._chance.choice(actions)
        text = action.text()
        if action.menu() is None:
            action.trigger()
        menu.close()
        return text

    def _hidden_menu(self) -> str:
        """Choose from a menu that is not shown, maybe what it held long ago."""
        menus = [one for one in descendants(self.window, QMenu) if not one.isVisible()]
        if menus and self._chance.random() < 0.5:
            menu = self._chance.choice(menus)
            menu.aboutToShow.emit()  # most are filled then
            self._remembered = list(menu.actions())
        ends = _ENDS_THE_PROGRAM
        found = [
            one
            for one in self._remembered
            if isValid(one)
            and one.isEnabled()
            and one.menu() is None
            and one.objectName() not in ends
        ]
        if not found:
            return ""
        action = self._chance.choice(found)
        text = action.text()
        action.trigger()
        return text

    def _other_program(self) -> str:
        """Change the settings as another program does that runs at the same time."""
        other = Settings(self.window.settings._file)
        other.begin_session(anew=self._chance.random() < 0.5)
        path = self._chance.choice(self._models)
        other.add_recent(path)
        other.session = [path]
        other.write()
        if self._chance.random() < 0.5:
            other.end_session()
        return path.name[:40]

    def close_meanwhile(self) -> None:
        """Close a model now and then while a dialog asks for something."""
        if self._chance.random() < 0.3:
            self._close()

    def _press_keys(self) -> str:
        pressed = []
        for _ in range(self._chance.randint(1, 6)):
            widget = QApplication.focusWidget() or self.window
            key = self._chance.choice(_KEYS)
            QTest.keyClick(widget, key, self._chance.choice(_MODIFIERS))
            pressed.append(key.name)
        return " ".join(pressed)

    def _command(self) -> str:
        actions = self.commands()
        if not actions:
            return ""
        action = self._chance.choice(actions)
        action.trigger()
        return action.objectName()

    def _quick_open(self) -> str:
        self.window.show_quick_open()
        dialog = QApplication.activeModalWidget() or QApplication.activeWindow()
        edit = None if dialog is None else dialog.findChild(QLineEdit)
        if dialog is None or edit is None or dialog is self.window:
            return ""
        text = self._chance.choice(_TEXTS)
        _type(edit, text)
        self.wait(0.2)
        for _ in range(self._chance.randrange(4)):
            QTest.keyClick(edit, Qt.Key.Key_Down)
        # without a word the list begins with commands, and one of them ends the program
        QTest.keyClick(edit, Qt.Key.Key_Return if text else Qt.Key.Key_Escape)
        return repr(text)

    def _resize(self) -> str:
        width, height = self._chance.randint(300, 2000), self._chance.randint(200, 1400)
        self.window.resize(width, height)
        return f"{width} × {height}"

    def _cancel(self) -> str:
        count = len(self.window.runner.jobs)
        self.window.runner.cancel_all()
        return str(count)

    def _wait(self) -> str:
        self.wait(self._chance.choice((0.0, 0.05, 0.5, 2.0)))
        return f"{len(self.window.runner.jobs)} left"


def can_be_reached(widget: QWidget) -> bool:
    """Return whether a person could use a widget now."""
    return widget.isVisible() and widget.isEnabled() and widget.width() > 2


def _close_popups() -> None:
    """Close menus and lists that are open, the uppermost first."""
    for _ in range(5):
        popup = QApplication.activePopupWidget()
        if popup is None:
            return
        popup.close()


def _type(edit: QLineEdit, text: str) -> None:
    """Type a text, or paste it where `QTest` knows no keys for it and would end the process."""
    if text.isascii():
        QTest.keyClicks(edit, text)
    else:
        edit.insert(text)


def _run(dialog: QDialog, answer: Callable[[], object]) -> int:
    """Run a dialog as it runs for a person, who answers when it is shown."""
    QTimer.singleShot(0, dialog, answer)
    return QDialog.exec(dialog)


@contextmanager
def harmless_surroundings(
    folder: Path, chance: Random, meanwhile: Callable[[], object]
) -> Iterator[None]:
    """Answer the dialogs of the system from a folder of the test's own; start no program.

    Args:
        folder: Where files are saved.
        chance: Decides the answers.
        meanwhile: Called while a dialog waits for its answer.
    """
    folder.mkdir(exist_ok=True)

    def save(*arguments: object, **_: object) -> tuple[str, str]:
        meanwhile()
        name = str(arguments[2]) if len(arguments) > 2 else "file.csv"
        if chance.random() < 0.3:
            return "", ""
        return str(folder / Path(name).name), str(arguments[3]).split(";;")[0]

    def answer_address(dialog: addresses.AddressDialog) -> int:
        """Type an address, of a server that this computer does not have, or what is none."""
        meanwhile()
        dialog.edit.setText(chance.choice((*_TEXTS, *_ADDRESSES)))
        button = dialog.open_button
        if not button.isEnabled() or chance.random() < 0.3:
            return _run(dialog, dialog.reject)
        return _run(dialog, button.click)

    class Answered(QMessageBox):  # of addresses only: others would start programs
        def exec(self) -> int:
            meanwhile()
            return _run(self, chance.choice(self.buttons()).click)

    def may_replace(*_: object) -> bool:
        meanwhile()
        return chance.random() < 0.5

    def name_it(*_: object, **__: object) -> tuple[str, bool]:
        meanwhile()
        return "a name", chance.random() < 0.5

    with ExitStack() as stack:
        for owner, name, answer in (
            (QFileDialog, "getSaveFileName", save),
            (QFileDialog, "getOpenFileName", lambda *_, **__: ("", "")),
            (QFileDialog, "getOpenFileNames", lambda *_, **__: ([], "")),
            (QFileDialog, "getExistingDirectory", lambda *_, **__: ""),
            (saving, "may_replace", may_replace),
            (addresses.AddressDialog, "exec", answer_address),
            (addresses, "QMessageBox", Answered),
            (QInputDialog, "getText", name_it),
            (QDesktopServices, "openUrl", lambda *_: True),
        ):
            stack.enter_context(patch.object(owner, name, answer))
        yield
