"""Everything in the menu Help: guide, keys, "What's this?", tour, about.

Windows and pages are loaded when they are asked for, not before the first paint.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QObject, QRect
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMainWindow, QMenuBar, QTabBar, QWhatsThis, QWidget

from explorer.qt.actions import Actions
from explorer.qt.contents.open_models import OpenModelsView
from explorer.qt.help.tour import Stop
from explorer.qt.panels import Panels
from explorer.qt.settings import Settings

if TYPE_CHECKING:
    from explorer.qt.help.guide import Page
    from explorer.qt.help.tour import Tour
    from explorer.qt.help.window import HelpWindow


_ZOOM_NOTE = "help_zoom"


class Help(QObject):
    """Opens what explains the program.

    Args:
        window: The window.
        actions: Its commands.
        open_models: Its tree.
        panels: Its panels.
        settings: What is remembered.

    Attributes:
        guide: The window of the guide while it is open.
        tour: The tour while it is under way.
    """

    def __init__(
        self,
        window: QMainWindow,
        actions: Actions,
        open_models: OpenModelsView,
        panels: Panels,
        settings: Settings,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._open_models = open_models
        self._panels = panels
        self._settings = settings
        self.guide: HelpWindow | None = None
        self.tour: Tour | None = None
        actions.guide.triggered.connect(lambda _=False: self.show_guide(self._page_in_front()))
        actions.shortcuts.triggered.connect(lambda _=False: self.show_keys())
        actions.whats_this.triggered.connect(lambda _=False: QWhatsThis.enterWhatsThisMode())
        actions.explain.triggered.connect(lambda _=False: self.explain())
        actions.tour.triggered.connect(lambda _=False: self.start_tour())
        actions.about.triggered.connect(lambda _=False: self.show_about())

    def show_guide(self, name: str) -> None:
        """Show a page of the guide."""
        if self.guide is None:
            self.guide = self._make_guide()
        self.guide.open_page(name)
        self.guide.show()
        self.guide.activateWindow()

    def show_keys(self) -> None:
        """Show the list of all keys."""
        from explorer.qt.help.guide import KEYS_PAGE  # noqa: PLC0415 - see above

        self.show_guide(KEYS_PAGE)

    def explain(self) -> None:
        """Say what the figure means that the keyboard is at."""
        from explorer.qt.help.window import explain_focus  # noqa: PLC0415 - see above

        explain_focus()

    def show_about(self) -> None:
        """Show version and licence."""
        from explorer.qt.help.window import AboutBox  # noqa: PLC0415 - see above

        AboutBox(self._window).open()

    def start_tour(self) -> None:
        """Show the tour from its start."""
        from explorer.qt.help.tour import Tour  # noqa: PLC0415

        if self.tour is not None:
            self.tour.end()
        self._settings.tour_done = True
        self.tour = Tour(
            self._window, tour_stops(self._window.menuBar(), self._open_models, self._panels)
        )
        self.tour.ended.connect(self._forget_tour)
        self.tour.start()

    def start_tour_once(self) -> None:
        """Show the tour to one who has never seen the program."""
        settings = self._settings
        if not settings.tour_done and not settings.recent:
            self.start_tour()

    def close(self) -> None:
        """Take away what is open, as the window is closed."""
        if self.tour is not None:
            self.tour.end()
        if self.guide is not None:
            self.guide.reject()

    def _page_in_front(self) -> str:
        return self._panels.currentWidget().objectName()

    def _make_guide(self) -> HelpWindow:
        from explorer.qt.help.guide import (  # noqa: PLC0415
            command_lines,
            keys_page,
            load_guide,
            with_keys,
        )
        from explorer.qt.help.window import HelpWindow  # noqa: PLC0415

        panels, settings = self._panels, self._settings
        titles = {
            page.objectName(): panels.tabText(place)
            for place in range(panels.count())
            if (page := panels.widget(place)) is not None
        }
        commands = command_lines(self._window.actions())
        pages: list[Page] = [*load_guide(), keys_page(commands, titles)]
        guide = HelpWindow(pages, lambda page: with_keys(page, commands), self._window)
        guide.restoreGeometry(settings.layout("help"))
        guide.splitter_state = settings.layout("help_splitter")
        zoom = settings.note(_ZOOM_NOTE)
        if zoom:
            guide.text.set_zoom(_percent(zoom) / 100)
        guide.closed.connect(self._forget_guide)
        return guide

    def _forget_guide(self) -> None:
        guide, settings = self.guide, self._settings
        if guide is not None:
            settings.set_layout("help", guide.saveGeometry())
            settings.set_layout("help_splitter", guide.splitter_state)
            settings.set_note(_ZOOM_NOTE, str(round(100 * guide.text.zoom)))
        self.guide = None

    def _forget_tour(self) -> None:
        self.tour = None


def _percent(text: str) -> int:
    """Return a remembered zoom; as at first if it is damaged."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 100


# What the tour of the window shows.


_TREE_HEIGHT = 220  # of the tree, only the upper part is framed: the box stands beside it


def tour_stops(menus: QMenuBar, open_models: OpenModelsView, panels: Panels) -> list[Stop]:
    """Return the stops of the tour through a window, which has these parts."""
    tabs, tree, search = panels.tabBar(), open_models.tree, panels.tensors.widget.bar.edit

    def tab(*pages: QWidget) -> partial[QRect]:
        return partial(_tabs_area, tabs, [panels.indexOf(page) for page in pages])

    return [
        Stop(
            _tr("Open a model"),
            _tr(
                "Ctrl+O opens a file; or drop files and folders anywhere in the window. Models are "
                "only read, never changed, and nothing is sent anywhere."
            ),
            menus,
            partial(_menu_area, menus, 0),
        ),
        Stop(
            _tr("What is open"),
            _tr(
                "Each model with its metadata and tensors. What you select here is shown in every "
                "panel."
            ),
            tree,
            lambda: QRect(0, 0, tree.width(), min(tree.height(), _TREE_HEIGHT)),
        ),
        Stop(
            _tr("Ways to look"),
            _tr(
                "From what is downloaded on this disk to single bytes. Alt and a number show a "
                "panel: Alt+1 the first one."
            ),
            tabs,
            tabs.rect,
        ),
        Stop(
            _tr("Filter as you type"),
            _tr("Try “ffn type:q6_k size>1M layer:3-7”. Ctrl+F comes here, Escape clears it."),
            search,
            search.rect,
            partial(panels.setCurrentWidget, panels.tensors),
        ),
        Stop(
            _tr("Weights"),
            _tr(
                "Select a tensor and see how its weights are spread, as a histogram and as a map, "
                "down to the bits of one block."
            ),
            tabs,
            tab(panels.weights),
        ),
        Stop(
            _tr("Errors and survey"),
            _tr(
                "What quantization has cost a tensor and what other types would cost; and all "
                "tensors of the model on one map."
            ),
            tabs,
            tab(panels.errors, panels.survey),
        ),
        Stop(
            _tr("Planner"),
            _tr(
                "Drag the context and see which layers fit on your GPUs, with the formula of every "
                "figure."
            ),
            tabs,
            tab(panels.planner),
        ),
        Stop(
            _tr("Never lost"),
            _tr(
                "Ctrl+K goes to anything by name. F1 opens the guide at the panel in front. "
                "Shift+F1 explains a figure. The tour is in this menu too."
            ),
            menus,
            partial(_menu_area, menus, -1),
        ),
    ]


def _tabs_area(tabs: QTabBar, places: list[int]) -> QRect:
    area = QRect()
    for place in places:
        area = area.united(tabs.tabRect(place))
    return area


def _menu_area(menus: QMenuBar, place: int) -> QRect:
    """Return where a menu's title is; nowhere if the system shows the menus elsewhere."""
    actions: list[QAction] = menus.actions()
    return menus.actionGeometry(actions[place]) if actions else QRect()


def _tr(text: str) -> str:
    return QCoreApplication.translate("TourStops", text)
