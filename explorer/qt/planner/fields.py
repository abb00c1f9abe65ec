"""Parts of the planner: fields that take tokens and sizes as people say them, layouts.

A field changes by the wheel only while it has the focus, so that one can scroll past it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from PySide6 import QtGui, QtWidgets
from PySide6.QtCore import (
    QEvent,
    QMargins,
    QObject,
    QPoint,
    QRect,
    QSignalBlocker,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from explorer.errors import PlanError
from explorer.planner.devices import parse_context, parse_memory
from explorer.present.curves import Stops
from explorer.present.plan import size_text
from explorer.qt.theme import Space, warning_colour
from explorer.qt.widgets.controls import MOST_VISIBLE
from explorer.qt.widgets.labels import SELECTABLE, plain_label
from explorer.qt.widgets.painting import plain_tip
from explorer.text import integer_text, plain_text, sentence

_MOST_TOKENS: Final = 1 << 30
_SAID_MS: Final = 60_000


def _say_below(field: QWidget, words: str) -> None:
    """Say of what is typed into a field what it means, in a tip, so that nothing moves."""
    place = field.mapToGlobal(QPoint(0, field.height()))
    QtWidgets.QToolTip.showText(place, plain_tip(words), field, QRect(), _SAID_MS)
    field.setAccessibleDescription(words)


def _refusal(problem: str, shown: str) -> str:
    """Return why what is typed cannot be, and what holds meanwhile."""
    return f"{sentence(problem)}. Until then {f'{shown} stays' if shown else 'nothing changes'}."


class CalmSpinBox(QtWidgets.QSpinBox):
    """A number; one that cannot be changes nothing, and it says why.

    Ctrl+Z undoes typing only while something is typed; after that it undoes settings, as everywhere
    in the panel.
    """

    def __init__(self, parent: QWidget, least: int, most: int) -> None:
        super().__init__(parent)
        self.setRange(least, most)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setKeyboardTracking(False)
        self.setAccelerated(True)
        self.lineEdit().textEdited.connect(self._explain)

    def show_value(self, value: int) -> None:
        """Show a value, or the largest possible; emit nothing."""
        value = min(value, self.maximum())
        if self.value() != value:  # else what is being typed would go
            with QSignalBlocker(self):
                self.setValue(value)

    def problem(self, text: str) -> str:
        """Return why a text cannot be taken."""
        least, most = integer_text(self.minimum()), integer_text(self.maximum())
        return f"{plain_text(text)!r} is not a number from {least} to {most}"

    def _explain(self, text: str) -> None:
        refused = text and not self.hasAcceptableInput()
        shown = f"{self.textFromValue(self.value())}{self.suffix()}"
        _say_below(self, _refusal(self.problem(text), shown) if refused else "")

    # Qt

    def event(self, event: QEvent) -> bool:
        special = self.value() == self.minimum() and self.text() == self.specialValueText()
        is_typing = self.text() != self.textFromValue(self.value()) and not special
        if _leaves_undo_alone(event, is_typing):
            event.ignore()
            return False
        return super().event(event)

    def wheelEvent(self, event: QtGui.QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


class CalmComboBox(QtWidgets.QComboBox):
    """A list of choices."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMaxVisibleItems(MOST_VISIBLE)

    def offer(self, choices: Mapping[str, object]) -> bool:
        """Offer values by their texts, and emit nothing; return whether they are others."""
        if [self.itemData(row) for row in range(self.count())] == list(choices.values()):
            return False
        with QSignalBlocker(self):
            self.clear()
            for text, value in choices.items():
                self.addItem(text, value)
        return True

    def show_value(self, value: object) -> None:
        """Show the choice of a value; emit nothing."""
        with QSignalBlocker(self):
            self.setCurrentIndex(self.findData(value))

    # Qt

    def sizeHint(self) -> QSize:
        return super().sizeHint().grownBy(QMargins(0, 0, 2 * Space.NEAR, 0))  # see below

    def initStyleOption(self, option: QtWidgets.QStyleOptionComboBox) -> None:
        super().initStyleOption(option)
        part = QtWidgets.QStyle.SubControl.SC_ComboBoxEditField
        box = QtWidgets.QStyle.ComplexControl.CC_ComboBox
        room = self.style().subControlRect(box, option, part, self).width() - Space.NEAR
        elide = Qt.TextElideMode.ElideRight  # Qt cuts a long name through a letter
        option.currentText = self.fontMetrics().elidedText(self.currentText(), elide, room)

    def wheelEvent(self, event: QtGui.QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


class TokenSpinBox(CalmSpinBox):
    """A number of tokens: takes ``32k`` and ``1M``, and steps along `stops`."""

    def __init__(self, stops: Stops, parent: QWidget) -> None:
        super().__init__(parent, 1, _MOST_TOKENS)
        self.stops = stops

    # Qt

    def problem(self, text: str) -> str:
        try:
            parse_context(text)
        except PlanError as error:
            return str(error)
        return super().problem(text)

    def textFromValue(self, value: int) -> str:
        return integer_text(value)

    def valueFromText(self, text: str) -> int:
        return _tokens(text) or self.value()

    def validate(self, text: str, position: int) -> object:
        state = QtGui.QValidator.State
        right = state.Acceptable if _tokens(text) is not None else state.Intermediate
        return right, text, position

    def stepBy(self, steps: int) -> None:
        self.setValue(self.stops.step(self.value(), steps))
        self.selectAll()


class SizeEdit(QtWidgets.QLineEdit):
    """An amount of memory: takes ``32``, ``32 GB`` or ``512 MiB``, and says below what it means.

    What is not a size changes nothing: the last value comes back. Another `parse` and `write`
    make it a field of something else, such as a bandwidth.

    Signals:
        size_chosen: The user typed a size in bytes, or emptied the field (None).
    """

    size_chosen = Signal(object)

    def __init__(
        self,
        parent: QWidget,
        parse: Callable[[str], int] = parse_memory,
        write: Callable[[int], str] = size_text,
    ) -> None:
        super().__init__(parent)
        self._parse, self._write = parse, write
        self._shown = ""
        self.editingFinished.connect(self._take)
        self.textEdited.connect(self._explain)

    def show_size(self, nbytes: int | None) -> None:
        """Show a size, or nothing."""
        self._shown = "" if nbytes is None else self._write(nbytes)
        if not (self.hasFocus() and self.isModified()):
            self.setText(self._shown)

    def _explain(self, text: str) -> None:
        """Say what is meant so far, in a tip, so that nothing moves."""
        try:
            words = f"= {self._write(self._parse(text))}" if text.strip() else ""
        except PlanError as error:
            words = _refusal(str(error), self._shown)
        _say_below(self, words)

    def _take(self) -> None:
        text, shown = self.text(), self._shown
        if text == shown:
            return
        try:
            nbytes = self._parse(text) if text.strip() else None
        except PlanError:
            self.setText(shown)  # the tip says why, and stays
            return
        _say_below(self, "")
        self.setModified(False)
        self.size_chosen.emit(nbytes)

    # Qt

    def event(self, event: QEvent) -> bool:
        if _leaves_undo_alone(event, self.text() != self._shown):
            event.ignore()
            return False
        return super().event(event)

    def keyPressEvent(self, event: QtGui.QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text() != self._shown:
            self.setText(self._shown)
        else:
            super().keyPressEvent(event)


def _leaves_undo_alone(event: QEvent, is_typing: bool) -> bool:
    """Return whether a field is asked for Ctrl+Z with nothing of its own to undo."""
    if is_typing or event.type() != QEvent.Type.ShortcutOverride:
        return False
    key = QtGui.QKeySequence.StandardKey
    return isinstance(event, QtGui.QKeyEvent) and (
        event.matches(key.Undo) or event.matches(key.Redo)
    )


def _tokens(text: str) -> int | None:
    """Return the tokens that a text means, or None if it means none in range."""
    try:
        tokens = parse_context(text)
    except PlanError:
        return None
    return tokens if 1 <= tokens <= _MOST_TOKENS else None


class ScrolledArea(QtWidgets.QScrollArea):
    """Scrolls a widget up and down, and is as wide as it at least, up to `most` pixels.

    Attributes:
        is_whole: Whether it asks for the height of the widget, to scroll nothing.
    """

    def __init__(self, most: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._most = most
        self.is_whole = False

    # Qt

    def minimumSizeHint(self) -> QSize:
        hint = super().minimumSizeHint()
        inner = self.widget()
        if inner is None:
            return hint
        wanted = inner.minimumSizeHint().width() + self.verticalScrollBar().sizeHint().width()
        height = inner.sizeHint().height() if self.is_whole else hint.height()
        return QSize(max(hint.width(), min(wanted, self._most)), height)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().eventFilter(watched, event)


def scrolled(widget: QWidget, name: str, most: int = 0) -> ScrolledArea:
    """Return an area that scrolls a widget up and down; `name` is for screen readers."""
    area = ScrolledArea(most, widget.parentWidget())
    area.setWidget(widget)
    area.setWidgetResizable(True)
    area.setFrameShape(QtWidgets.QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setAccessibleName(name)
    return area


def push_button(parent: QWidget, text: str, tip: str) -> QPushButton:
    """Return a button that Enter in a field beside it does not press."""
    made = QPushButton(text, parent)
    made.setToolTip(tip)
    made.setAutoDefault(False)
    return made


def menu_button(parent: QWidget, text: str, tip: str) -> QtWidgets.QToolButton:
    """Return a button that opens a menu."""
    made = QtWidgets.QToolButton(parent)
    made.setText(text)
    made.setToolTip(tip)
    made.setPopupMode(QtWidgets.QToolButton.ToolButtonPopupMode.InstantPopup)
    made.setMenu(QtWidgets.QMenu(made))
    return made


def name_text(label: QLabel, name: str) -> None:
    """Name a text that changes, and let it be copied."""
    label.setAccessibleName(name)
    label.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    label.setTextInteractionFlags(SELECTABLE)


def wrapped_label(parent: QWidget, name: str) -> QLabel:
    """Return a text of several lines that asks for no width of its own; see `name_text`."""
    label = plain_label(parent, wraps=True)
    name_text(label, name)
    label.setSizePolicy(as_high_as_wide(QtWidgets.QSizePolicy.Policy.Ignored))
    return label


def as_high_as_wide(across: QtWidgets.QSizePolicy.Policy) -> QtWidgets.QSizePolicy:
    """Return the policy of a text that has the more lines the less wide it is."""
    policy = QtWidgets.QSizePolicy(across, QtWidgets.QSizePolicy.Policy.Preferred)
    policy.setHeightForWidth(True)
    return policy


def colour_text(widget: QWidget, *, warning: bool) -> None:
    """Show a text in the warning colour, or in that of other texts."""
    palette = QtGui.QGuiApplication.palette()
    if warning:
        palette.setColor(QtGui.QPalette.ColorRole.WindowText, warning_colour(palette))
    widget.setPalette(palette)
