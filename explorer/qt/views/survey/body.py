"""The panel's content while there is a model. Made late: pyqtgraph, for its colours, is slow.

The map is made with it, the other pages when they are first looked at.
"""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from explorer.qt.jobs import JobRunner
from explorer.qt.views.deferred import Deferred
from explorer.qt.views.plots.export import PlotExport
from explorer.qt.views.survey.hot_spots_page import HotSpotsPage
from explorer.qt.views.survey.map_page import MapPage
from explorer.qt.views.survey.session import SurveySession, SurveyState
from explorer.qt.views.survey.survey_bar import SurveyBar
from explorer.qt.views.survey.type_mix_page import TypeMixPage
from explorer.qt.views.tabbed_body import TabbedBody


class SurveyBody(TabbedBody):
    """Controls and pages.

    Attributes:
        bar: The controls.
        map: The map of the model.

    Signals:
        tensor_chosen: A tensor was chosen; its content row.
        tensor_opened: More of a tensor shall be seen; its content row.
    """

    tensor_chosen = Signal(int)
    tensor_opened = Signal(int)

    def __init__(
        self, runner: JobRunner, session: SurveySession, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._row = -1
        self.bar = SurveyBar(session, self)
        self.begin_tabs(self.tr("Views of the model"), self.bar)
        export = PlotExport(runner, self, self.exported.emit, self.failed.emit)
        self.map = MapPage(session, export, self)
        self._hot_spots = Deferred(
            lambda parent: HotSpotsPage(session, runner, parent), self._fill_hot_spots, self
        )
        self._type_mix = Deferred(
            lambda parent: TypeMixPage(session, runner, parent), self._fill_type_mix, self
        )
        self.tabs.addTab(self.map, self.tr("Map"))
        self.tabs.addTab(self._hot_spots, self.tr("Hot spots"))
        self.tabs.addTab(self._type_mix, self.tr("Type mix"))
        self.bar.open_requested.connect(self.open_requested)
        self._connect(self.map)
        self.tabs.currentChanged.connect(lambda _: self._refresh())
        session.replaced.connect(self._refresh)
        session.grown.connect(self._grow)
        session.state_changed.connect(self._follow_state)
        self._refresh()

    @property
    def hot_spots(self) -> HotSpotsPage:
        """The worst tensors; the page is made if nobody has looked at it."""
        return self._hot_spots.view

    @property
    def type_mix(self) -> TypeMixPage:
        """Types, held against recipes; the page is made if nobody has looked at it."""
        return self._type_mix.view

    def select_tensor(self, row: int) -> None:
        """Mark a tensor in all pages; -1 marks none. Emits nothing."""
        self._row = row
        self.map.select_tensor(row)
        if self._hot_spots.existing is not None:
            self._hot_spots.existing.select_tensor(row)

    def focus_search(self) -> None:
        """Go to the table, and into its filter."""
        self.show_page(self._hot_spots)
        self.hot_spots.focus_search()

    def cancel(self) -> None:
        self._session.cancel()

    def _connect(self, page: MapPage | HotSpotsPage) -> None:
        page.tensor_chosen.connect(self._choose)
        page.tensor_opened.connect(self.tensor_opened)
        page.start_requested.connect(self._session.start)

    def _fill_hot_spots(self, page: HotSpotsPage) -> None:
        self._connect(page)
        self.pass_on(page.table)
        page.select_tensor(self._row)
        page.refresh()

    def _fill_type_mix(self, page: TypeMixPage) -> None:
        self.pass_on(page)
        page.refresh()

    def _choose(self, row: int) -> None:
        self.select_tensor(row)
        self.tensor_chosen.emit(row)

    @property
    def _front(self) -> MapPage | HotSpotsPage | TypeMixPage | None:
        """The page in front; None if it is not made yet."""
        front = self.tabs.currentWidget()
        return front.existing if isinstance(front, Deferred) else self.map

    def _refresh(self) -> None:
        """Show what is known in the page in front; the others follow when they are looked at."""
        page = self._front
        if page is not None:
            page.refresh()
        self._follow_state()

    def _grow(self) -> None:
        page = self._front
        if self.isVisible() and isinstance(page, MapPage | HotSpotsPage):
            page.grow()

    def _follow_state(self) -> None:
        running = self._session.state in (SurveyState.RUNNING, SurveyState.PAUSED)
        self.cancel_shortcut.setEnabled(running)
