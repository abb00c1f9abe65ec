"""Scrolling over more rows than a scroll bar can count.

Qt's scroll bar counts in 32 bits; a file of 1 TB has 2^36 rows. The row at the top is kept exactly,
and the bar shows it divided by a power of two.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtWidgets import QAbstractSlider, QScrollBar

_MOST: Final = 1 << 30


class RowScroller:
    """The row at the top of the view, and the bar that shows it.

    Attributes:
        top: First visible row.
        visible: Rows that are wholly visible, at least 1.
    """

    def __init__(self, bar: QScrollBar) -> None:
        self._bar = bar
        self.top = 0
        self.visible = 1
        self._rows = 0
        self._shift = 0
        bar.actionTriggered.connect(self._triggered)

    @property
    def last_top(self) -> int:
        """The row at the top when the end of the file is seen."""
        return max(0, self._rows - self.visible)

    def set_rows(self, rows: int, visible: int) -> None:
        """Say how many rows there are and how many the view can show."""
        self._rows, self.visible = rows, max(1, visible)
        self._shift = max(0, self.last_top.bit_length() - _MOST.bit_length())
        top = min(self.top, self.last_top)
        self._bar.setPageStep(max(1, self.visible >> self._shift))
        self._bar.setRange(0, self._scaled(self.last_top))
        self.move_to(top)

    def move_to(self, top: int) -> None:
        """Put a row to the top, or as near to it as there are rows."""
        self.top = min(max(0, top), self.last_top)
        self._bar.setValue(self._scaled(self.top))

    def follow_bar(self) -> None:
        """Take over where the user has moved the bar; its end means the end of the file."""
        value = self._bar.value()
        if value != self._scaled(self.top):
            at_end = value == self._bar.maximum()
            self.top = self.last_top if at_end else min(value << self._shift, self.last_top)

    def show_row(self, row: int, margin: int = 0) -> None:
        """Scroll as little as needed to show a row, with rows around it if it was out of sight."""
        if row < self.top:
            self.move_to(row - margin)
        elif row >= self.top + self.visible:
            self.move_to(row - self.visible + 1 + margin)

    def _scaled(self, row: int) -> int:
        return row >> self._shift

    def _triggered(self, action: int) -> None:
        """Make a step of the bar a step of rows also where one of its values is many rows."""
        if not self._shift:
            return
        kind = QAbstractSlider.SliderAction
        steps = {
            kind.SliderSingleStepAdd.value: 1,
            kind.SliderSingleStepSub.value: -1,
            kind.SliderPageStepAdd.value: self.visible,
            kind.SliderPageStepSub.value: -self.visible,
        }
        step = steps.get(action)
        if step is not None:
            self.top = min(max(0, self.top + step), self.last_top)
            self._bar.setSliderPosition(self._scaled(self.top))
