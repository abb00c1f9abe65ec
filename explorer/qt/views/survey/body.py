"""The panel's content while there is a model. Made late: pyqtgraph, for its colours, is slow."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget

from explorer.qt.jobs import JobRunner
from explorer.qt.views.plots.export import PlotExport
from explorer.qt.views.survey.hot_spots_page import HotSpotsPage
from explorer.qt.views.survey.map_page import MapPage
from explorer.qt.views.survey.session import SurveySession, SurveyState
from explorer.qt.views.survey.survey_bar import SurveyBar
from explorer.qt.views.survey.type_mix_page import TypeMixPage


class SurveyBody(QWidget):
    """Controls and pages.

    Attributes:
        bar: The controls.
        tabs: The pages.
        map: The map of the model.
        hot_spots: The worst tensors.
        type_mix: Its types, held against recipes.

    Signals:
        tensor_chosen: A tensor was chosen; its content row.
        tensor_opened: More of a tensor shall be seen; its content row.
        exported: A file was written; its path.
        failed: A file could not be written; an `ExplorerError`.
        open_requested: A model shall be opened, to compare with.
    """

    tensor_chosen = Signal(int)
    tensor_opened = Signal(int)
    exported = Signal(str)
    failed = Signal(object)
    open_requested = Signal()

    def __init__(
        self, runner: JobRunner, session: SurveySession, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self.bar = SurveyBar(session, self)
        export = PlotExport(runner, self, self.exported.emit, self.failed.emit)
        self.map = MapPage(session, export, self)
        self.hot_spots = HotSpotsPage(session, runner, self)
        self.type_mix = TypeMixPage(session, runner, self)
        self.tabs = QTabWidget(self)
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName(self.tr("Views of the model"))
        self.tabs.tabBar().setAccessibleName(self.tr("Views of the model"))
        self.tabs.addTab(self.map, self.tr("Map"))
        self.tabs.addTab(self.hot_spots, self.tr("Hot spots"))
        self.tabs.addTab(self.type_mix, self.tr("Type mix"))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.bar)
        layout.addWidget(self.tabs, 1)
        self._cancel = QShortcut(QKeySequence(Qt.Key.Key_Escape), self)
        self._cancel.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self._cancel.activated.connect(session.cancel)
        self._connect()
        self._refresh()

    def _connect(self) -> None:
        session = self._session
        for page in (self.map, self.hot_spots):
            page.tensor_chosen.connect(self._choose)
            page.tensor_opened.connect(self.tensor_opened)
            page.start_requested.connect(session.start)
        for part in (self.hot_spots.table, self.type_mix):
            part.exported.connect(self.exported)
            part.failed.connect(self.failed)
        self.bar.open_requested.connect(self.open_requested)
        self.tabs.currentChanged.connect(lambda _: self._refresh())
        session.replaced.connect(self._refresh)
        session.grown.connect(self._grow)
        session.state_changed.connect(self._follow_state)

    def select_tensor(self, row: int) -> None:
        """Mark a tensor in all pages; -1 marks none. Emits nothing."""
        for page in (self.map, self.hot_spots):
            page.select_tensor(row)

    def focus_search(self) -> None:
        """Go to the table, and into its filter."""
        self.tabs.setCurrentWidget(self.hot_spots)
        self.hot_spots.focus_search()

    def _choose(self, row: int) -> None:
        self.select_tensor(row)
        self.tensor_chosen.emit(row)

    def _refresh(self) -> None:
        """Show what is known in the page in front; the others follow when they are looked at."""
        page = self.tabs.currentWidget()
        if isinstance(page, MapPage | HotSpotsPage | TypeMixPage):
            page.refresh()
        self._follow_state()

    def _grow(self) -> None:
        page = self.tabs.currentWidget()
        if self.isVisible() and isinstance(page, MapPage | HotSpotsPage):
            page.grow()

    def _follow_state(self) -> None:
        self._cancel.setEnabled(self._session.state in (SurveyState.RUNNING, SurveyState.PAUSED))
