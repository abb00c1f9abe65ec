"""Input fields that let one scroll past them, and take tokens and sizes as people write them."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence, QValidator, QWheelEvent
from PySide6.QtWidgets import QComboBox, QLineEdit, QSpinBox, QWidget

from explorer.errors import PlanError
from explorer.planner.devices import parse_context, parse_size
from explorer.present.plan import size_text
from explorer.present.plan_export import Stops
from explorer.text import integer_text

_MOST_TOKENS: Final = 1 << 30


class CalmSpinBox(QSpinBox):
    """A spin box that the wheel changes only while it has the focus, so that one can scroll past.

    Ctrl+Z undoes typing only while something is typed; after that it undoes settings, as everywhere
    in the panel.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setKeyboardTracking(False)
        self.setAccelerated(True)

    # Qt

    def event(self, event: QEvent) -> bool:
        special = self.value() == self.minimum() and self.text() == self.specialValueText()
        is_typing = self.text() != self.textFromValue(self.value()) and not special
        if _leaves_undo_alone(event, is_typing):
            event.ignore()
            return False
        return super().event(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


class CalmComboBox(QComboBox):
    """A list of choices that the wheel changes only while it has the focus."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    # Qt

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


class TokenSpinBox(CalmSpinBox):
    """A number of tokens: takes ``32k`` and ``1M``, and steps along `stops`."""

    def __init__(self, stops: Stops, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.stops = stops
        self.setRange(1, _MOST_TOKENS)

    # Qt

    def textFromValue(self, value: int) -> str:
        return integer_text(value)

    def valueFromText(self, text: str) -> int:
        return _tokens(text) or self.value()

    def validate(self, text: str, position: int) -> object:
        state = QValidator.State
        right = state.Acceptable if _tokens(text) is not None else state.Intermediate
        return right, text, position

    def stepBy(self, steps: int) -> None:
        self.setValue(self.stops.step(self.value(), steps))
        self.selectAll()


class SizeEdit(QLineEdit):
    """A size in bytes: takes ``512MiB``, ``2 GiB`` or plain bytes.

    Signals:
        size_chosen: The user typed a size in bytes, or emptied the field (None).
        refused: The text is no size; a `PlanError`.
    """

    size_chosen = Signal(object)
    refused = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown = ""
        self.editingFinished.connect(self._take)

    def show_size(self, nbytes: int | None) -> None:
        """Show a size, or nothing."""
        self._shown = "" if nbytes is None else size_text(nbytes)
        if not (self.hasFocus() and self.isModified()):
            self.setText(self._shown)

    def _take(self) -> None:
        if self.text() == self._shown:
            return
        if not self.text().strip():
            self.size_chosen.emit(None)
            return
        try:
            nbytes = parse_size(self.text())
        except PlanError as error:
            self.setText(self._shown)
            self.refused.emit(error)
            return
        self.setModified(False)
        self.size_chosen.emit(nbytes)

    # Qt

    def event(self, event: QEvent) -> bool:
        if _leaves_undo_alone(event, self.text() != self._shown):
            event.ignore()
            return False
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text() != self._shown:
            self.setText(self._shown)
        else:
            super().keyPressEvent(event)


def _leaves_undo_alone(event: QEvent, is_typing: bool) -> bool:
    """Return whether a field is asked for Ctrl+Z with nothing of its own to undo."""
    if is_typing or event.type() != QEvent.Type.ShortcutOverride:
        return False
    key = QKeySequence.StandardKey
    return isinstance(event, QKeyEvent) and (event.matches(key.Undo) or event.matches(key.Redo))


def _tokens(text: str) -> int | None:
    """Return the tokens that a text means, or None if it means none in range."""
    try:
        tokens = parse_context(text)
    except PlanError:
        return None
    return tokens if 1 <= tokens <= _MOST_TOKENS else None
