"""Columns of a list: fitted once to what is in them, one takes the rest; a menu shows and hides.

Qt's own section modes do the work. Where there is no room for all columns, a list is scrolled
sideways: those that are rarely wanted are hidden at first (`extra` in `present.tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from PySide6.QtCore import QByteArray, QEvent, QObject, QPoint, Qt, QTimer
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTreeView

_LEAST_CHARACTERS: Final = 32
"""What a stretching column shows at least, if it needs as many."""

Widths: TypeAlias = Callable[[], Iterable[int]]


class ColumnLayout(QObject):
    """The columns of a view.

    Args:
        view: A table or a tree.
        header: Its horizontal header.
        widths: Returns what each column needs, in pixels.
        stretching: Returns the columns that share what the others leave.

    Attributes:
        least: Characters that a stretching column shows at least, if it needs as many.
    """

    def __init__(
        self,
        view: QAbstractItemView,
        header: QHeaderView,
        widths: Widths,
        stretching: Callable[[], Sequence[int]],
    ) -> None:
        super().__init__(view)
        self._view, self._header = view, header
        self._widths, self._stretching = widths, stretching
        self.least = _LEAST_CHARACTERS
        self._needed: Sequence[int] = ()
        self._awaited = False
        header.setStretchLastSection(False)
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.customContextMenuRequested.connect(self.show_menu)
        header.sectionResized.connect(self._follow)
        view.viewport().installEventFilter(self)
        view.installEventFilter(self)

    @property
    def _shown(self) -> list[int]:
        hidden = self._header.isSectionHidden
        return [each for each in range(self._header.count()) if not hidden(each)]

    def fit(self) -> None:
        """Give each column what it needs, and those that stretch the rest."""
        self._needed = tuple(self._widths())
        for column in self._shown:  # a hidden one that gets a width leaves a gap
            self._header.setSectionResizeMode(column, QHeaderView.ResizeMode.Interactive)
            self._header.resizeSection(column, self._needed[column])
        self.fill()

    def widen(self, columns: Iterable[int]) -> None:
        """Give columns what they need now, and no column less than it has."""
        self._needed = tuple(self._widths())
        for column in set(columns).intersection(self._shown):
            wide = max(self._needed[column], self._header.sectionSize(column))
            self._header.resizeSection(column, wide)
        self.fill()

    def fill(self) -> None:
        """Let columns stretch where there is room for it; else a list is scrolled sideways."""
        header, shown, self._awaited = self._header, self._shown, False
        if len(self._needed) != header.count():
            if self._needed:  # there are other columns now
                self.fit()
                return
            self._needed = tuple(self._widths())
        taking = [column for column in self._stretching() if column in shown]
        letter = self._view.fontMetrics().averageCharWidth()
        least = {column: min(self._needed[column], self.least * letter) for column in taking}
        others = sum(header.sectionSize(column) for column in shown if column not in least)
        each = max(least.values(), default=0)  # Qt gives all that stretch the same
        fits = others + each * len(least) <= self._view.viewport().width()
        for column in shown:
            stretch = fits and column in least
            modes = QHeaderView.ResizeMode
            header.setSectionResizeMode(column, modes.Stretch if stretch else modes.Interactive)
            if column in least and not fits:
                header.resizeSection(column, least[column])

    def show_column(self, column: int, *, on: bool) -> None:
        self._header.setSectionHidden(column, not on)
        if on:
            self.widen([column])

    def show_menu(self, place: QPoint) -> None:
        """Offer the columns at a place of the header."""
        self.make_menu().popup(self._header.mapToGlobal(place))

    def make_menu(self) -> QMenu:
        """Return a menu that shows and hides columns; it is deleted when it is closed."""
        header, menu, shown = self._header, QMenu(self._view), self._shown
        is_tree = isinstance(self._view, QTreeView)  # whose first column has the branches
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for column in range(header.count()):
            title = header.model().headerData(column, Qt.Orientation.Horizontal)
            action = menu.addAction(str(title or ""))
            action.setCheckable(True)
            action.setChecked(column in shown)
            action.setEnabled(shown != [column] and not (is_tree and column == 0))
            action.toggled.connect(lambda on, column=column: self.show_column(column, on=on))
        menu.addSeparator()
        menu.addAction("Fit widths").triggered.connect(self.fit)
        return menu

    def restore(self, state: QByteArray) -> bool:
        """Restore a state of the header; return whether it was that of as many columns."""
        header = self._header
        before, count = header.saveState(), header.count()
        if state.isEmpty() or not header.restoreState(state):
            return False
        if header.count() != count:  # a state of more columns gives the header more
            header.restoreState(before)
            return False
        self._needed = tuple(self._widths())
        self.fill()
        return True

    def _follow(self, column: int, _before: int, _now: int) -> None:
        """Look again whether there is room, once all columns have changed that do."""
        if not self._awaited and column not in self._stretching():
            self._awaited = True
            QTimer.singleShot(0, self, self.fill)

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.FontChange and watched is self._view:
            self.fit()
        elif event.type() == QEvent.Type.Resize and watched is not self._view:
            self.fill()
        return super().eventFilter(watched, event)
