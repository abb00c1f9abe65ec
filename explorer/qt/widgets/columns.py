"""How wide the columns of a list are: as wide as what is in them, and one of them takes the rest.

The one that stretches is usually the first, which names what the row is about: it is never lost
beside figures, and no half of a page stays blank. A width that the user gave it is kept.

Where there is no room for all, columns go out of sight rather than have to be scrolled to: those
that matter least first. A button at the end of the header offers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from PySide6.QtCore import QByteArray, QEvent, QObject, QPoint, Qt, QTimer
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu

from explorer.qt.widgets.painting import IconButton

_OWN: Final = b"own:"
"""Stands before a header's state in which the user has chosen the width that otherwise follows."""

_LEAST_CHARACTERS: Final = 36
"""What the stretching column shows at least."""

_FEWEST_CHARACTERS: Final = 10
"""What it shows of them once nothing else can go; then a list is scrolled sideways."""

Widths: TypeAlias = Callable[[], Iterable[int]]
Columns: TypeAlias = Callable[[], Sequence[int]]


class ColumnLayout(QObject):
    """Lays out the columns of a view, and again when the view or another column is resized.

    Args:
        view: A table or a tree.
        header: Its horizontal header.
        widths: Returns what each column needs, in pixels.
        stretching: Returns groups of columns that may take the rest; those of the first group that
            are shown share it.
        expendable: Returns those that are out of sight where there is no room, the first of them
            first.

    Attributes:
        least: Characters that the stretching column shows at least, if it needs as many.
        fixed: Whether all widths are given by the view itself.
        button: Stands at the end of the header while a column is out of sight, to offer it; None
            if there is none.
    """

    def __init__(
        self,
        view: QAbstractItemView,
        header: QHeaderView,
        widths: Widths,
        stretching: Callable[[], Sequence[Sequence[int]]],
        expendable: Columns,
    ) -> None:
        super().__init__(view)
        self._view, self._header = view, header
        self._widths, self._stretching, self._expendable = widths, stretching, expendable
        self.least, self.fixed = _LEAST_CHARACTERS, False
        self._needed: Sequence[int] = ()
        self._dropped: list[int] = []  # those out of sight for want of room
        self._kept: set[int] = set()  # those that the user wants to see in any case
        self._stretched: Sequence[int] = ()  # those that took the rest last
        self._own = False  # whether the user has chosen the width of the stretching column
        self._busy = self._awaited = self._offered = False
        self.button: IconButton | None = None
        header.setStretchLastSection(False)
        self._text = view.font().pointSizeF()
        header.sectionResized.connect(self._follow)
        view.viewport().installEventFilter(self)
        view.installEventFilter(self)
        header.installEventFilter(self)

    def add_button(self) -> None:
        """Add the button."""
        self.button = button = IconButton("more", "Columns", "", self._header, words=False)
        button.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # keys have a command for it
        button.clicked.connect(lambda: self.show_menu(button.geometry().bottomLeft()))
        button.hide()

    @property
    def dropped(self) -> Sequence[int]:
        """The columns that are out of sight for want of room alone."""
        return self._dropped

    def fit(self) -> None:
        """Give each column what it needs, and one of them the rest."""
        self._needed, self._own = tuple(self._widths()), False
        self._drop(())
        # a hidden one that gets a width leaves a gap
        hidden = self._header.isSectionHidden
        self._resize((each, need) for each, need in enumerate(self._needed) if not hidden(each))
        self.fill()

    def fit_anew(self) -> None:
        """Do the same of new content: forget which columns the user wants to see in any case."""
        self._kept.clear()
        self.fit()

    def widen(self, columns: Iterable[int]) -> None:
        """Give columns what they need now, and no column less than it has."""
        self._needed = tuple(self._widths())
        hidden = self._header.isSectionHidden
        shown = [(each, self._needed[each]) for each in columns if not hidden(each)]
        self._resize((each, max(need, self._header.sectionSize(each))) for each, need in shown)
        self.fill()

    def fill(self) -> None:
        """Give one column what the others leave; drop some of them where that is too little."""
        header, self._awaited = self._header, False
        if self.fixed or not header.count():
            return
        if len(self._needed) != header.count():
            self._needed, self._stretched = tuple(self._widths()), ()
            self._kept.clear()
            self._drop(())
        if not self._own:
            self._share()
        self._show_button()

    def _share(self) -> None:
        header, room = self._header, self._view.viewport().width()
        widths = {
            each: self._width(each)
            for each in range(header.count())
            if each in self._dropped or not header.isSectionHidden(each)
        }
        hidden = header.count() - len(widths)
        going = iter([each for each in self._expendable() if each not in self._kept])
        dropped: list[int] = []
        while True:
            groups = ([each for each in group if each in widths] for group in self._stretching())
            taking = next(filter(None, groups), [])
            left = room - sum(width for each, width in widths.items() if each not in taking)
            least, beside = self._least(taking), self._button_width() if dropped else 0
            few = left - beside < sum(least)
            gone = next((each for each in going if each in widths), None) if few else None
            if gone is None:
                break
            dropped.append(gone)
            del widths[gone]
        self._drop(dropped)
        self._stretched = taking
        self._resize((each, width) for each, width in widths.items() if each not in taking)
        few_characters = _FEWEST_CHARACTERS * self._view.fontMetrics().averageCharWidth()
        fewest = [min(width, few_characters) for width in least]
        # nothing is cut off to offer what is hidden from the beginning
        enough = sum(fewest if dropped else (self._needed[each] for each in taking))
        self._offered = bool(hidden or dropped) and left - self._button_width() >= enough
        left -= self._button_width() if self._offered else 0
        for place, width in zip(taking, self._parts(taking, left), strict=True):
            self._resize([(place, max(width, *fewest))])

    def _parts(self, columns: Sequence[int], room: int) -> list[int]:
        """Share some room: what one does not need the others have, what nobody needs all have."""
        parts = dict.fromkeys(columns, 0)
        waiting = sorted(columns, key=lambda column: self._needed[column])
        while waiting:
            column, part = waiting[0], room // len(waiting)
            parts[column] = min(self._needed[column], part)
            room -= parts[column]
            del waiting[0]
        more, over = divmod(max(0, room), max(1, len(columns)))
        return [parts[column] + more + (over if not at else 0) for at, column in enumerate(columns)]

    def _width(self, column: int) -> int:
        """Return what a column takes if it does not stretch."""
        if column in self._dropped or column in self._stretched:
            return self._needed[column]
        return self._header.sectionSize(column)

    def _least(self, columns: Sequence[int]) -> list[int]:
        """Return what columns have at least that stretch together."""
        least = self.least * self._view.fontMetrics().averageCharWidth()
        # in a narrow list, figures are seen beside the names
        most = self._view.viewport().width() * 3 // (5 * max(1, len(columns)))
        return [min(least, self._needed[column], most) for column in columns]

    def _drop(self, dropped: Sequence[int]) -> None:
        """Put columns out of sight, and show again what was."""
        before, self._dropped, self._busy = self._dropped, list(dropped), True
        try:  # only what changes: hiding a column is a resize, which asks for all of this again
            for column in {*before, *dropped}:
                if self._header.isSectionHidden(column) != (column in dropped):
                    self._header.setSectionHidden(column, column in dropped)
        finally:
            self._busy = False

    def hide_column(self, column: int, *, on: bool) -> None:
        """Hide a column, or show it where there is room."""
        if column in self._dropped:
            self._dropped.remove(column)
        self._busy = True
        try:
            self._header.setSectionHidden(column, on)
        finally:
            self._busy = False
        self._fill_soon()

    def show_column(self, column: int, *, on: bool) -> None:
        """Show or hide a column as the user wants it: then what is seen stays, room or not."""
        self._kept = {*self._kept, column} if on else self._kept - {column}
        if on:
            hidden, count = self._header.isSectionHidden, self._header.count()
            self._kept.update(each for each in range(count) if not hidden(each))
        self.hide_column(column, on=not on)
        self.fill()

    def _button_width(self) -> int:
        return 0 if self.button is None else self.button.sizeHint().width()

    def show_menu(self, place: QPoint) -> None:
        """Offer the columns at a place of the header."""
        self.make_menu().popup(self._header.mapToGlobal(place))

    def make_menu(self) -> QMenu:
        """Return a menu that shows and hides columns; it is deleted when it is closed."""
        header, menu = self._header, QMenu(self._view)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        shown = header.count() - header.hiddenSectionCount()
        for column in range(header.count()):
            hidden = header.isSectionHidden(column)
            title = header.model().headerData(column, Qt.Orientation.Horizontal)
            action = menu.addAction(str(title or ""))
            action.setCheckable(True)
            action.setChecked(not hidden)
            action.setEnabled(shown > 1 or hidden)
            action.toggled.connect(lambda on, column=column: self.show_column(column, on=on))
        menu.addSeparator()
        menu.addAction("Fit widths").triggered.connect(self.fit_anew)
        return menu

    def _show_button(self) -> None:
        header, button = self._header, self.button
        if button is None:
            return
        hidden = [each for each in range(header.count()) if header.isSectionHidden(each)]
        button.setVisible(self._offered and not self.fixed and not header.isHidden())
        if hidden:
            model, across = header.model(), Qt.Orientation.Horizontal
            names = [str(model.headerData(each, across) or "") for each in hidden]
            button.setToolTip(f"Not shown: {', '.join(names)}")
            width = self._button_width()
            left = header.width() - width
            button.setGeometry(left, 0, width, header.height() - 1)  # above the header's line

    def state(self) -> QByteArray:
        """Return what `restore` takes: widths, order, sorting, and what is hidden."""
        prefix, dropped = _OWN if self._own else b"", self._dropped
        self._drop(())
        state = QByteArray(prefix + self._header.saveState().data())
        self._drop(dropped)
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
        header, self._needed = self._header, tuple(self._widths())
        shown = [each for each in range(header.count()) if not header.isSectionHidden(each)]
        ratio = self._text / before
        self._resize((each, round(header.sectionSize(each) * ratio)) for each in shown)
        self.fill()

    def _follow(self, column: int, _before: int, _now: int) -> None:
        """Note a width that the user gave, and let the stretching column make room."""
        if not self._busy:
            self._own = self._own or column in self._stretched
            self._fill_soon()

    def _fill_soon(self) -> None:
        if not self._awaited:
            self._awaited = True
            QTimer.singleShot(0, self, self.fill)

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.FontChange and watched is self._view:
            self._scale()
        elif event.type() == QEvent.Type.Resize and watched is self._header:
            self._show_button()
        elif event.type() == QEvent.Type.Resize and watched is not self._view:
            self.fill()
        return super().eventFilter(watched, event)
