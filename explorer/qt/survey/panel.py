"""The panel of the whole model: a map by layer and role, the worst tensors, the mix of types."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from explorer.qt.document import Document
from explorer.qt.jobs import JobRunner
from explorer.qt.references import References
from explorer.qt.survey.bar import SurveyBar
from explorer.qt.survey.hot_spots import HotSpotsPage
from explorer.qt.survey.map_page import MapPage
from explorer.qt.survey.session import SurveySession, SurveyState
from explorer.qt.survey.type_mix import TypeMixPage
from explorer.qt.widgets.lazy import LazyTab, TabbedPanel
from explorer.qt.widgets.plot_panel import PlotExport


class SurveyView(TabbedPanel):
    """All tensors of the current model.

    Attributes:
        session: What is known, and the survey.
        bar: The controls.
        map: The map of the model.

    Signals:
        tensor_chosen: A tensor was chosen; its content row in the tensor table.
        tensor_opened: More of a tensor shall be seen; its content row.
    """

    tensor_chosen = Signal(int)
    tensor_opened = Signal(int)

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._document: Document | None = None
        self._row = self._marked = -1
        session = self.session = SurveySession(runner, references, self)
        session.failed.connect(self.failed)
        self.bar = SurveyBar(session, self)
        self.bar.open_requested.connect(self.open_requested)
        self.begin_tabs(self.tr("Views of the model"), self.bar)
        export = PlotExport(runner, self, self.exported.emit, self.failed.emit)
        self.map = MapPage(session, export, self)
        self._connect(self.map)
        self._hot_spots = LazyTab(lambda: self._make_hot_spots(runner), self._fill_hot_spots, self)
        self._type_mix = LazyTab(lambda: self._make_type_mix(runner), TypeMixPage.refresh, self)
        self.tabs.addTab(self.map, self.tr("Map"))
        self.tabs.addTab(self._hot_spots, self.tr("Hot spots"))
        self.tabs.addTab(self._type_mix, self.tr("Type mix"))
        self.tabs.currentChanged.connect(lambda _: self._refresh_pages())
        session.replaced.connect(self._refresh_pages)
        session.grown.connect(self._grow)
        session.state_changed.connect(self._follow_state)
        self.refresh()

    @property
    def hot_spots(self) -> HotSpotsPage:
        """The worst tensors."""
        return self._hot_spots.widget

    @property
    def type_mix(self) -> TypeMixPage:
        """Types, compared with recipes."""
        return self._type_mix.widget

    def show_document(self, document: Document | None) -> None:
        """Show a model; None shows nothing."""
        if document is not self._document:
            self._document = document
            self.select_tensor(-1)
            self.session.show_document(document)
            self.refresh()

    def refresh(self) -> None:
        document = self._document
        if document is None:
            self.show_state(self.tr("Survey"), self.tr("Open a model to see all of its tensors."))
        elif not len(document.arrays):
            self.show_state(self.tr("Survey"), self.tr("This file holds no tensors."))
        else:
            self.show_content()
        self._refresh_pages()

    def select_tensor(self, row: int) -> None:
        """Mark a tensor on all pages; -1 marks none. Emits nothing."""
        self._row = row
        self.map.select_tensor(row)
        self._hot_spots.refresh()

    def focus_search(self) -> None:
        """Go to the table, and into its filter."""
        if self.has_content:
            self.show_page(self._hot_spots)
            self.hot_spots.focus_search()

    def cancel(self) -> None:
        self.session.cancel()

    def _connect(self, page: MapPage | HotSpotsPage) -> None:
        page.tensor_chosen.connect(self._choose)
        page.tensor_opened.connect(self.tensor_opened)
        page.start_requested.connect(self.session.start)

    def _make_hot_spots(self, runner: JobRunner) -> HotSpotsPage:
        page = HotSpotsPage(self.session, runner, self)
        self._connect(page)
        self.pass_on(page.table)
        return page

    def _fill_hot_spots(self, page: HotSpotsPage) -> None:
        if self._row != self._marked:
            self._marked = self._row
            page.select_tensor(self._row)
        page.refresh()

    def _make_type_mix(self, runner: JobRunner) -> TypeMixPage:
        page = TypeMixPage(self.session, runner, self)
        self.pass_on(page)
        return page

    def _choose(self, row: int) -> None:
        self.select_tensor(row)
        self.tensor_chosen.emit(row)

    def _refresh_pages(self) -> None:
        """Show what is known: on the page in front now, on the others when they are shown."""
        if self.tabs.currentWidget() is self.map:
            self.map.refresh()
        self._hot_spots.refresh()
        self._type_mix.refresh()
        self._follow_state()

    def _grow(self) -> None:
        if self.map.isVisible():
            self.map.grow()
        elif self._hot_spots.isVisible():
            self.hot_spots.grow()

    def _follow_state(self) -> None:
        running = self.session.state in (SurveyState.RUNNING, SurveyState.PAUSED)
        self.cancel_shortcut.setEnabled(running)

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.session.want(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.session.want(False)
