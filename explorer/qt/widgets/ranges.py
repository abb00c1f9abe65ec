"""Which part of something is shown: one of some choices, or a range that is typed."""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QLocale, Qt, QTimer, Signal
from PySide6.QtGui import QDoubleValidator, QFontMetrics
from PySide6.QtWidgets import QLineEdit, QWidget

from explorer.qt.theme import Space
from explorer.qt.widgets.building import row
from explorer.qt.widgets.controls import choice
from explorer.qt.widgets.labels import plain_label
from explorer.text import float_text

_TYPING_MS: Final = 250


class RangeFields(QWidget):
    """A range that is typed: from, to. Numbers are written as everywhere in the program.

    Signals:
        changed: Another range was typed; it may be an impossible one.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.low = self._number("First edge")
        self.high = self._number("Last edge")
        self._typing = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._typing.timeout.connect(self.changed)
        row(self.low, plain_label(self, "to"), self.high, of=self, spacing=Space.NEAR)
        for edit in (self.low, self.high):
            edit.textEdited.connect(lambda _: self._typing.start())
            edit.editingFinished.connect(self._finish)

    def value(self) -> tuple[float, float] | None:
        """Return the range; None if it is impossible (see `problem`)."""
        return None if self.problem() else self._numbers()

    def problem(self) -> str:
        """Return why the range is impossible, as a sentence; "" if it is not."""
        numbers = self._numbers()
        if numbers is None:
            return "Type two numbers, such as -0.1 and 0.1."
        if not numbers[0] < numbers[1]:
            return "The first edge must be less than the last one."
        return ""

    def suggest(self, low: float, high: float) -> None:
        """Put what is shown into the fields."""
        self.low.setText(float_text(low, 4))
        self.high.setText(float_text(high, 4))

    def begin(self) -> None:
        """Let the user type."""
        self.low.setFocus(Qt.FocusReason.OtherFocusReason)
        self.low.selectAll()

    def _numbers(self) -> tuple[float, float] | None:
        low, low_right = QLocale.c().toDouble(self.low.text())
        high, high_right = QLocale.c().toDouble(self.high.text())
        return (low, high) if low_right and high_right else None

    def _number(self, name: str) -> QLineEdit:
        edit = QLineEdit(self)
        validator = QDoubleValidator(edit)
        validator.setLocale(QLocale.c())  # as all numbers of the program
        edit.setValidator(validator)
        edit.setAccessibleName(name)
        edit.setFixedWidth(QFontMetrics(self.font()).horizontalAdvance("-0.00000e-00"))
        return edit

    def _finish(self) -> None:
        if self._typing.isActive():
            self._typing.stop()
            self.changed.emit()


TYPED: Final = "typed"
"""The choice that is a range from here to there."""


class RangeChoice(QWidget):
    """A list of parts to show. The last choice is a range that is typed beside it.

    Args:
        owner: Where it stands.
        name: What screen readers call the list.
        tip: Its tool tip.
        items: The other choices; see `choice`.
        typed_tip: Tool tip of the last one.

    Attributes:
        list: The choices; the data of the last one is `TYPED`.
        edges: What is typed.

    Signals:
        changed: Another part is to be shown; a range that was typed may be an impossible one.
    """

    changed = Signal()

    def __init__(
        self, owner: QWidget, name: str, tip: str, *items: tuple[object, ...], typed_tip: str = ""
    ) -> None:
        super().__init__(owner)
        self.list = choice(self, name, tip, *items, ("From … to …", TYPED, typed_tip))
        self.edges = RangeFields(self)
        self.edges.hide()
        row(self.list, self.edges, of=self, spacing=Space.NEAR)
        self.list.currentIndexChanged.connect(self._choose)
        self.edges.changed.connect(self.changed)

    @property
    def chosen(self) -> Any:
        """The data of the choice; `TYPED` of a range that is typed."""
        return self.list.currentData()

    @property
    def is_typed(self) -> bool:
        return bool(self.chosen == TYPED)

    def value(self) -> tuple[float, float] | None:
        """Return the typed range; None if another part is chosen, or if it is impossible."""
        return self.edges.value() if self.is_typed else None

    def problem(self) -> str:
        """Return why the typed range is impossible, as a sentence; "" if it is not, or not used."""
        return self.edges.problem() if self.is_typed else ""

    def suggest(self, low: float, high: float) -> None:
        """Put what is shown into the fields, unless the user types there."""
        if not self.is_typed:
            self.edges.suggest(low, high)

    def _choose(self) -> None:
        self.edges.setVisible(self.is_typed)
        if self.is_typed:
            self.edges.begin()
        self.changed.emit()
