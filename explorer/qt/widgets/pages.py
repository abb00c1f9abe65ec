"""A panel's content in pages: tabs, Escape, and what all pages tell."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from PySide6.QtCore import Qt, QTimer, Signal, SignalInstance
from PySide6.QtGui import QHideEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QStackedWidget,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from explorer.present.explanations import picture_text
from explorer.qt.widgets.labels import ElidedLabel, StatePage
from explorer.qt.widgets.plot_panel import PicturePanel


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


# A page of tabs with one plot on it, or a sentence in its place.


Panel = TypeVar("Panel", bound=PicturePanel)


class PlotPage(QWidget, Generic[Panel]):
    """One picture, or a sentence in its place. Its plot is made soon after it is first looked at.

    Args:
        make_panel: Makes plot and table.

    Attributes:
        state: The sentence.
        bar: The line above the plot.
        title: What the line says.
        logarithmic: Whether counts are shown logarithmically.

    Signals:
        shown: The page came into sight.
        hidden: It went out of sight.
    """

    shown = Signal()
    hidden = Signal()

    def __init__(self, make_panel: Callable[[], Panel]) -> None:
        super().__init__()
        self._make_panel = make_panel
        self.state = StatePage(self)
        self.title = ElidedLabel(self)
        self.title.setWhatsThis(picture_text("caption"))
        self.logarithmic = QCheckBox(self.tr("&Logarithmic"), self)
        self.bar = QHBoxLayout()
        self.bar.setContentsMargins(8, 6, 8, 4)
        self.bar.addWidget(self.title, 1)
        self.bar.addWidget(self.logarithmic)
        self._content = QWidget(self)
        self._column = QVBoxLayout(self._content)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._column.addLayout(self.bar)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.state)
        self._stack.addWidget(self._content)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._stack)

    @cached_property
    def panel(self) -> Panel:
        """The plot and its table."""
        panel = self._make_panel()
        panel.set_logarithmic(self.logarithmic.isChecked())
        self.logarithmic.toggled.connect(panel.set_logarithmic)
        self._column.addWidget(panel, 1)
        return panel

    def _prepare(self) -> None:
        """Make the plot, if the page is still looked at."""
        if self.isVisible():
            _ = self.panel

    def show_content(self, title: str) -> None:
        """Show the plot."""
        self.title.setText(title)
        self._stack.setCurrentWidget(self._content)

    def tell(self, heading: str, sentence: str, button: str = "") -> None:
        """Say something in place of the plot."""
        self.state.tell(heading, sentence, button)
        self._stack.setCurrentWidget(self.state)

    @property
    def has_content(self) -> bool:
        """Whether the plot is shown."""
        return self._stack.currentWidget() is self._content

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not event.spontaneous():
            self.shown.emit()
            # in a turn of its own, while weights are read: it takes as long as to fill it
            QTimer.singleShot(0, self, self._prepare)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if not event.spontaneous():
            self.hidden.emit()
