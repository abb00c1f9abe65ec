"""The window of the user guide: topics at the left, a page at the right, a search over all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import QByteArray, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QSplitter,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from explorer.qt.models.help.guide import Page, Place, pages_with
from explorer.qt.views.help.guide_text import GuideText
from explorer.qt.views.help.visits import Visits
from explorer.qt.views.tables.filter_bar import FilterBar
from explorer.qt.views.tables.roomy_delegate import RoomyDelegate

_NAME: Final = int(Qt.ItemDataRole.UserRole) + 1
_WIDTH, _HEIGHT = 900, 640
_TOPICS_WIDTH: Final = 220


class HelpWindow(QDialog):
    """Shows pages. It is no modal dialog: one reads in it and works in the program.

    Args:
        pages: The pages, in the order of reading.
        text_of: Returns what to show of a page, Markdown.
        parent: The program's window.

    Attributes:
        search: The line above the topics.
        topics: The titles of the pages.
        text: The page.

    Signals:
        closed: The window was closed.
    """

    closed = Signal()

    def __init__(
        self,
        pages: Sequence[Page],
        text_of: Callable[[Page], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setWindowTitle(self.tr("GGUF Explorer: guide"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._pages = {page.name: page for page in pages}
        self._text_of = text_of
        self._visits = Visits()
        hint = self.tr("Search the guide")
        self.search = FilterBar(hint, self.tr("Topics in which every word occurs"), self)
        self.search.edit.setAccessibleName(hint)
        self.topics = QListWidget(self)
        self.topics.setAccessibleName(self.tr("Topics"))
        self.topics.setItemDelegate(RoomyDelegate(self.topics))
        self.topics.setUniformItemSizes(True)
        for page in pages:
            item = QListWidgetItem(page.title, self.topics)
            item.setData(_NAME, page.name)
        self.text = GuideText(self)
        self._make_commands()
        self._lay_out()
        self.search.changed.connect(self._filter)
        self.search.left_down.connect(self._leave_search)
        self.topics.currentItemChanged.connect(lambda item, _: self._choose(item))
        self.text.link_followed.connect(self._follow)
        self.finished.connect(lambda _: self.closed.emit())
        self.resize(_WIDTH, _HEIGHT)

    @property
    def page(self) -> str:
        """Name of the page that is shown."""
        return self._visits.current.page if self._visits.current is not None else ""

    @property
    def splitter_state(self) -> QByteArray:
        """Widths of topics and text."""
        return self._splitter.saveState()

    @splitter_state.setter
    def splitter_state(self, state: QByteArray) -> None:
        self._splitter.restoreState(state)

    def open_page(self, name: str, anchor: str = "") -> None:
        """Show a page, and remember it for going back; of an unknown name, the first one."""
        place = Place(name if name in self._pages else next(iter(self._pages)), anchor)
        if place != self._visits.current:
            self._visits.visit(place)
        self._show()

    def focus_search(self) -> None:
        """Put the cursor into the search."""
        self.search.focus()

    def shown_topics(self) -> list[str]:
        """Return the names of the pages that the search leaves."""
        items = (self.topics.item(row) for row in range(self.topics.count()))
        return [item.data(_NAME) for item in items if not item.isHidden()]

    def _make_commands(self) -> None:
        tr = self.tr
        self.back = self._action(
            "◂", tr("Page before"), self._go_back, QKeySequence.StandardKey.Back
        )
        self.forward = self._action(
            "▸", tr("Page after"), self._go_forward, QKeySequence.StandardKey.Forward
        )
        self.larger = self._action(
            "A+", tr("Larger text"), lambda: self.text.zoom_by(1), QKeySequence.StandardKey.ZoomIn
        )
        self.smaller = self._action(
            "A\N{MINUS SIGN}",
            tr("Smaller text"),
            lambda: self.text.zoom_by(-1),
            QKeySequence.StandardKey.ZoomOut,
        )
        self.normal = self._action(
            "A", tr("Text as large as at first"), lambda: self.text.set_zoom(1.0), "Ctrl+0"
        )
        self._action("", tr("Search"), self.focus_search, QKeySequence.StandardKey.Find)
        self._action("", tr("Next place"), self.text.find_next, QKeySequence.StandardKey.FindNext)
        self._action(
            "",
            tr("Previous place"),
            lambda: self.text.find_next(forward=False),
            QKeySequence.StandardKey.FindPrevious,
        )

    def _action(
        self,
        text: str,
        name: str,
        slot: Callable[[], object],
        keys: QKeySequence.StandardKey | str,
    ) -> QAction:
        action = QAction(text, self)
        found = (
            QKeySequence.keyBindings(keys) if not isinstance(keys, str) else [QKeySequence(keys)]
        )
        action.setShortcuts(found)
        shown = found[0].toString(QKeySequence.SequenceFormat.NativeText) if found else ""
        action.setToolTip(f"{name} ({shown})" if shown else name)
        action.triggered.connect(lambda _=False: slot())
        self.addAction(action)
        return action

    def _lay_out(self) -> None:
        bar = QHBoxLayout()
        bar.setContentsMargins(6, 6, 6, 4)
        bar.setSpacing(4)
        for action in (self.back, self.forward):
            bar.addWidget(self._button(action))
        bar.addStretch(1)
        for action in (self.smaller, self.normal, self.larger):
            bar.addWidget(self._button(action))
        left, right = QWidget(self), QWidget(self)
        for side, parts in ((left, (self.search, self.topics)), (right, (bar, self.text))):
            column = QVBoxLayout(side)
            column.setContentsMargins(0, 0, 0, 0)
            column.setSpacing(0)
            for part in parts:
                if isinstance(part, QWidget):
                    column.addWidget(part)
                else:
                    column.addLayout(part)
        self._splitter = QSplitter(self)
        self._splitter.addWidget(left)
        self._splitter.addWidget(right)
        self._splitter.setStretchFactor(1, 1)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.setSizes([_TOPICS_WIDTH, _WIDTH - _TOPICS_WIDTH])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._splitter)

    def _button(self, action: QAction) -> QToolButton:
        button = QToolButton(self)
        button.setDefaultAction(action)
        button.setAccessibleName(action.toolTip())
        return button

    def _show(self) -> None:
        place = self._visits.current
        if place is None:
            return
        page = self._pages[place.page]
        self.text.show_page(self._text_of(page), place.anchor)
        for row in range(self.topics.count()):
            item = self.topics.item(row)
            if item.data(_NAME) == page.name and item is not self.topics.currentItem():
                self.topics.setCurrentItem(item)
        self.back.setEnabled(self._visits.can_go_back)
        self.forward.setEnabled(self._visits.can_go_forward)
        self.setWindowTitle(self.tr("{page}: guide to GGUF Explorer").format(page=page.title))

    def _choose(self, item: QListWidgetItem | None) -> None:
        if item is not None and item.data(_NAME) != self.page:
            self.open_page(item.data(_NAME))
            if self.search.text:
                self.text.find_next()

    def _follow(self, link: str) -> None:
        place = Place.of_link(link, self.page)
        if place is not None:
            self.open_page(place.page, place.anchor)

    def _go_back(self) -> None:
        if self._visits.go_back():
            self._show()

    def _go_forward(self) -> None:
        if self._visits.go_forward():
            self._show()

    def _filter(self, text: str) -> None:
        found = {page.name for page in pages_with(list(self._pages.values()), text)}
        for row in range(self.topics.count()):
            item = self.topics.item(row)
            item.setHidden(item.data(_NAME) not in found)
        words = self.tr("1 topic") if len(found) == 1 else self.tr("{n} topics")
        self.search.status.setText(words.format(n=len(found)) if text.strip() else "")
        self.text.mark(text.split())
        if text.strip() and found and self.page not in found:
            self.open_page(next(name for name in self._pages if name in found))
        if text.strip():
            self.text.find_next()

    def _leave_search(self) -> None:
        self.topics.setFocus(Qt.FocusReason.OtherFocusReason)
