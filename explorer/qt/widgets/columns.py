"""How wide the columns of a list are: as wide as what is in them, and one of them takes the rest.

The one that stretches is usually the first, which names what the row is about: it is never lost
beside figures, and no half of a page stays blank. A width that the user gave it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from PySide6.QtCore import QByteArray, QEvent, QObject, QTimer
from PySide6.QtWidgets import QAbstractItemView, QHeaderView

_OWN: Final = b"own:"
"""Stands before a header's state in which the user has chosen the width that otherwise follows."""

_LEAST_CHARACTERS: Final = 36
"""What the stretching column shows at least; a list too narrow for all is scrolled sideways."""

Widths: TypeAlias = Callable[[], Iterable[int]]


class ColumnLayout(QObject):
    """Lays out the columns of a view, and again when the view or another column is resized.

    Args:
        view: A table or a tree.
        header: Its horizontal header.
        widths: Returns what each column needs, in pixels.
        stretching: Returns the column that takes the rest; -1 for none.
        expendable: Columns that are out of sight where there is no room, the first of them first.

    Attributes:
        least: Characters that the stretching column shows at least, if it needs as many.
    """

    def __init__(
        self,
        view: QAbstractItemView,
        header: QHeaderView,
        widths: Widths,
        stretching: Callable[[], int],
        expendable: Iterable[int] = (),
    ) -> None:
        super().__init__(view)
        self._view, self._header = view, header
        self._widths, self._stretching = widths, stretching
        self.least = _LEAST_CHARACTERS
        self._needed: Sequence[int] = ()
        self._expendable = [int(column) for column in expendable]
        self._dropped: list[int] = []  # those out of sight now
        self._own = False  # whether the user has chosen the width of the stretching column
        self._busy = False
        header.setStretchLastSection(False)
        self._text = view.font().pointSizeF()
        header.sectionResized.connect(self._follow)
        view.viewport().installEventFilter(self)
        view.installEventFilter(self)

    def fit(self) -> None:
        """Give each column what it needs, and one of them the rest."""
        self._needed, self._own = tuple(self._widths()), False
        self._resize(enumerate(self._needed))
        self.fill()

    def widen(self, columns: Iterable[int]) -> None:
        """Give columns what they need now, and no column less than it has."""
        self._needed = tuple(self._widths())
        hidden = self._header.isSectionHidden  # a hidden one that gets a width leaves a gap
        shown = [(each, self._needed[each]) for each in columns if not hidden(each)]
        self._resize((each, max(need, self._header.sectionSize(each))) for each, need in shown)
        self.fill()

    def fill(self) -> None:
        """Give the stretching column what the others leave."""
        column, header = self._stretching(), self._header
        if self._own or not 0 <= column < header.count() or header.isSectionHidden(column):
            return
        if len(self._needed) != header.count():
            self._needed = tuple(self._widths())
        room = self._view.viewport().width()
        least = self.least * self._view.fontMetrics().averageCharWidth()
        # in a narrow list, figures are seen beside the names
        least = min(least, self._needed[column], room * 3 // 5)
        self._drop(header.length() - header.sectionSize(column) + least - room)
        others = header.length() - header.sectionSize(column)
        self._resize([(column, max(room - others, least))])

    def _drop(self, excess: int) -> None:
        """Put columns out of sight that are too many by so many pixels, or show them again."""
        hidden, wanted = self._header.isSectionHidden, []
        excess += sum(self._needed[column] for column in self._dropped)
        for column in self._expendable:
            if excess > 0 and (column in self._dropped or not hidden(column)):
                wanted.append(column)
                excess -= self._needed[column]
        before, self._dropped, self._busy = self._dropped, wanted, True
        try:  # only what changes: hiding a column is a resize, which asks for all of this again
            for column in {*before} ^ {*wanted}:
                self._header.setSectionHidden(column, column in wanted)
        finally:
            self._busy = False

    def show_column(self, column: int, *, on: bool) -> None:
        """Show or hide a column as the user wants it, whether there is room or not."""
        self._expendable = [each for each in self._expendable if each != column]
        self._dropped = [each for each in self._dropped if each != column]
        self._header.setSectionHidden(column, not on)
        self.fill()

    def state(self) -> QByteArray:
        """Return what `restore` takes: widths, order, sorting, and what is hidden."""
        prefix = _OWN if self._own else b""
        self._busy = True
        try:
            for column in self._dropped:
                self._header.setSectionHidden(column, False)
            state = QByteArray(prefix + self._header.saveState().data())
            for column in self._dropped:
                self._header.setSectionHidden(column, True)
        finally:
            self._busy = False
        return state

    def restore(self, state: QByteArray) -> bool:
        """Restore a state; return whether it was that of a list of as many columns."""
        raw = bytes(state.data())
        own = raw.startswith(_OWN)
        before, count = self._header.saveState(), self._header.count()
        self._busy = True
        try:
            if not raw or not self._header.restoreState(QByteArray(raw.removeprefix(_OWN))):
                return False
            if self._header.count() != count:  # a state of more columns gives the header more
                self._header.restoreState(before)
                return False
        finally:
            self._busy = False
        self._header.setStretchLastSection(False)  # as older versions left it
        self._own, self._dropped = own, []
        self.fill()
        return True

    def _resize(self, widths: Iterable[tuple[int, int]]) -> None:
        self._busy = True
        try:
            for column, width in widths:
                if self._header.sectionSize(column) != width:
                    self._header.resizeSection(column, width)
        finally:
            self._busy = False

    def _scale(self) -> None:
        """Make all columns wider or narrower with the text in them."""
        before, self._text = self._text, self._view.font().pointSizeF()
        if self._text == before:
            return
        header, self._needed = self._header, ()
        shown = [each for each in range(header.count()) if not header.isSectionHidden(each)]
        ratio = self._text / before
        self._resize((each, round(header.sectionSize(each) * ratio)) for each in shown)
        self.fill()

    def _follow(self, column: int, _before: int, _now: int) -> None:
        """Note a width that the user gave, and let the stretching column make room."""
        if not self._busy:
            self._own = self._own or column == self._stretching()
            QTimer.singleShot(0, self, self.fill)

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and watched is not self._view:
            self.fill()
        elif event.type() == QEvent.Type.FontChange and watched is self._view:
            self._scale()
        return super().eventFilter(watched, event)
