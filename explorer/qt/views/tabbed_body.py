"""A panel's content in pages: tabs, Escape, and what all pages tell."""

from __future__ import annotations

from typing import Protocol

from PySide6.QtCore import Qt, Signal, SignalInstance
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget


class Writing(Protocol):
    """Something that writes files."""

    @property
    def exported(self) -> SignalInstance:
        """A file was written; its path."""

    @property
    def failed(self) -> SignalInstance:
        """A file could not be written; an `ExplorerError`."""


class TabbedBody(QWidget):
    """Pages as tabs; more may stand above and below.

    Attributes:
        tabs: The pages.
        column: Holds the tabs, and what stands above and below them.
        cancel_shortcut: Escape.

    Signals:
        exported: A file was written; its path.
        failed: Something cannot be done; an `ExplorerError`.
        open_requested: A model shall be opened, to compare with.
    """

    tabs: QTabWidget
    exported = Signal(str)
    failed = Signal(object)
    open_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.setSpacing(0)
        self.cancel_shortcut = QShortcut(QKeySequence(Qt.Key.Key_Escape), self)
        self.cancel_shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self.cancel_shortcut.activated.connect(self.cancel)

    def cancel(self) -> None:
        """Stop reading; what is known stays."""
        raise NotImplementedError

    def begin_tabs(self, name: str, above: QWidget) -> None:
        """Make the tabs. Pages are made after that: Tab goes from what is above to them.

        Args:
            name: Tells screen readers what the tabs are.
            above: What stands above them.
        """
        self.tabs = QTabWidget(self)
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName(name)
        self.tabs.tabBar().setAccessibleName(name)
        self.column.addWidget(above)
        self.column.addWidget(self.tabs, 1)

    def place_of(self, page: QWidget) -> int:
        """Return the number of the tab that shows a page; -1 if none does."""
        places = range(self.tabs.count())
        return next((place for place in places if _holds(self.tabs.widget(place), page)), -1)

    def show_page(self, page: QWidget) -> None:
        """Bring a page to the front."""
        self.tabs.setCurrentIndex(self.place_of(page))

    def offer_page(self, page: QWidget, on: bool) -> None:
        """Have the tab of a page, or not."""
        self.tabs.setTabVisible(self.place_of(page), on)

    def pass_on(self, part: Writing) -> None:
        """Tell of the files that a part writes."""
        part.exported.connect(self.exported)
        part.failed.connect(self.failed)


def _holds(tab: QWidget | None, page: QWidget) -> bool:
    return tab is not None and (tab is page or tab.isAncestorOf(page))
