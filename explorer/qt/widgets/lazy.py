"""Tabs that are built when first shown, and panels made of tabs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QKeySequence, QResizeEvent, QShortcut, QShowEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QTabWidget, QWidget

from explorer.qt.services import Services
from explorer.qt.widgets.building import column
from explorer.qt.widgets.pages import ContentPage
from explorer.qt.widgets.segments import segmented

View = TypeVar("View", bound=QWidget)


class _Room(QWidget):
    """Gives a widget all its room, and asks for the least that the widget needs.

    A scroll area asks a layout with wrapped texts for the height that it likes best.
    """

    def __init__(self, widget: QWidget) -> None:
        super().__init__()
        self._widget = widget
        widget.hide()  # until there is room
        widget.setParent(self)
        widget.installEventFilter(self)

    # Qt

    def minimumSizeHint(self) -> QSize:
        return self._widget.minimumSizeHint()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._widget.setGeometry(self.rect())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return False


class _Area(QScrollArea):
    """Scrolls all of what Tab leads to into sight; Qt shows its cursor, of a table a row."""

    # Qt

    def focusNextPrevChild(self, forward: bool) -> bool:
        moved, focus = super().focusNextPrevChild(forward), self.focusWidget()
        inside = self.widget()
        if moved and inside is not None and focus in inside.findChildren(QWidget):
            middle = focus.mapTo(inside, focus.rect().center())
            around = focus.size().boundedTo(self.viewport().size())
            margins = around.width() // 2, around.height() // 2
            self.ensureVisible(middle.x(), middle.y(), *margins)
        return moved


class LazyTab(QWidget, Generic[View]):
    """A tab whose widget is imported, built and filled when the tab is shown.

    In a window that is too small for the widget it scrolls, so that no panel makes a window larger.

    Args:
        make: Builds the widget, once. It imports the widget's module: those with plots load
            pyqtgraph, which takes 150 ms, and the window is painted first.
        fill: Has the widget show what is selected; called when the tab is shown and out of date.

    Attributes:
        built: The widget as it is; None if it was not built yet.
    """

    def __init__(
        self,
        make: Callable[[], View],
        fill: Callable[[View], object] = lambda _widget: None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._make, self._fill = make, fill
        self.built: View | None = None
        self._stale = True
        self._area = _Area(self)
        self._area.setWidgetResizable(True)
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._area.setAccessibleName("Panel")
        column(self._area, of=self)

    @property
    def widget(self) -> View:
        """The widget, built if necessary and up to date."""
        if self.built is None:
            self.built = self._make()
        if self._stale:
            self._stale = False
            try:
                self._fill(self.built)
            finally:
                if self._area.widget() is None:  # which shows it
                    self._area.setWidget(_Room(self.built))
                    self._pass_focus(self.built)
                self.built.show()
        return self.built

    def _pass_focus(self, built: QWidget) -> None:
        """Hand the focus on to the widget, which is not a stop of Tab itself.

        Else Tab comes back from the tree to the widget that this is for, and never to what is
        behind it: the bar, the rail, the pages. A page that scrolls does so from its controls.
        """
        if isinstance(built, QScrollArea):
            built.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setFocusProxy(built)

    def refresh(self) -> None:
        """Fill the widget: now if the tab is shown, else when it is shown next."""
        self._stale = True
        if self.isVisible():
            _ = self.widget
        elif self.built is not None:
            self.built.hide()  # its pages would start to read what it showed before

    def catch_up(self) -> None:
        """Fill the widget now if it exists: it may hold a model that is being closed."""
        if self.built is not None:
            _ = self.widget

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        _ = self.widget
        super().showEvent(event)


class TabbedPanel(ContentPage):
    """Pages as tabs below a header, or a sentence in their place.

    Attributes:
        column: Holds header and tabs, and what stands below them.
        tabs: The pages.
        cancel_shortcut: Escape, which calls `cancel`.
    """

    tabs: QTabWidget

    def __init__(self, app: Services, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.app = app
        self.cancel_shortcut = QShortcut(QKeySequence(Qt.Key.Key_Escape), self)
        self.cancel_shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self.cancel_shortcut.activated.connect(self.cancel)

    def cancel(self) -> None:
        """Stop reading; what is known stays."""
        raise NotImplementedError

    def begin_tabs(self, name: str, above: QWidget) -> None:
        """Make the tabs, called `name` by screen readers, below the widget `above`.

        Pages are made later, so that the Tab key goes from `above` to them.
        """
        self.tabs = segmented(QTabWidget(self.content), name)
        self.column = column(above, (self.tabs, 1), of=self.content)

    def place_of(self, page: QWidget) -> int:
        """Return the number of the tab that shows a page; -1 if none does."""
        for place in range(self.tabs.count()):
            tab = self.tabs.widget(place)
            if tab is not None and (tab is page or tab.isAncestorOf(page)):
                return place
        return -1

    def show_page(self, page: QWidget) -> None:
        """Bring a page to the front."""
        self.tabs.setCurrentIndex(self.place_of(page))

    def offer_page(self, page: QWidget, on: bool) -> None:
        """Show or hide the tab of a page."""
        self.tabs.setTabVisible(self.place_of(page), on)
