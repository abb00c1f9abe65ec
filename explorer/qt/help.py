"""Everything in the menu Help: guide, keys, "What's this?", tour, about.

Windows and pages are loaded when they are asked for, not before the first paint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMainWindow, QWhatsThis

from explorer.qt.actions import Actions
from explorer.qt.panels import Panels
from explorer.qt.settings import Settings
from explorer.qt.views.contents.open_models import OpenModelsView

if TYPE_CHECKING:
    from explorer.qt.models.help.guide import Page
    from explorer.qt.views.help.window import HelpWindow
    from explorer.qt.views.tour.tour import Tour

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
        from explorer.qt.models.help.guide import KEYS_PAGE  # noqa: PLC0415 - see above

        self.show_guide(KEYS_PAGE)

    def explain(self) -> None:
        """Say what the figure means that the keyboard is at."""
        from explorer.qt.views.explaining import explain_focus  # noqa: PLC0415 - see above

        explain_focus()

    def show_about(self) -> None:
        """Show version and licence."""
        from explorer.qt.views.about import AboutBox  # noqa: PLC0415 - see above

        AboutBox(self._window).open()

    def start_tour(self) -> None:
        """Show the tour from its start."""
        from explorer.qt.tour_stops import tour_stops  # noqa: PLC0415 - see above
        from explorer.qt.views.tour.tour import Tour  # noqa: PLC0415

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
        from explorer.qt.models.help.guide import load_guide  # noqa: PLC0415 - see above
        from explorer.qt.models.help.guide_keys import keys_page, with_keys  # noqa: PLC0415
        from explorer.qt.models.help.key_lists import command_lines  # noqa: PLC0415
        from explorer.qt.views.help.window import HelpWindow  # noqa: PLC0415

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
