"""The panel's content while there is a model. Made late: pyqtgraph, for its colours, is slow.

The map is made with it, the other pages when they are first looked at.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from explorer.present.explanations import picture_text
from explorer.qt.jobs import JobRunner
from explorer.qt.references import ReferenceBar
from explorer.qt.survey.hot_spots import HotSpotsPage
from explorer.qt.survey.map_page import MapPage
from explorer.qt.survey.notice import start_text
from explorer.qt.survey.session import SurveySession, SurveyState
from explorer.qt.survey.type_mix import TypeMixPage
from explorer.qt.widgets.labels import ElidedLabel
from explorer.qt.widgets.lazy import Deferred
from explorer.qt.widgets.pages import TabbedBody
from explorer.qt.widgets.plot_panel import PlotExport
from explorer.qt.widgets.progress import Pace
from explorer.text import integer_text

# The line above all pages of the survey: what to compare with, start, pause and cancel.


_STEPS = 1000


class SurveyBar(QWidget):
    """Controls of a survey, and how far it is.

    Attributes:
        reference: Chooses what the model is compared with.
        start: Starts the survey.
        pause: Pauses it, and lets it go on.
        cancel: Ends it.
        bar: How far it is.
        label: The same in words, or what is known.

    Signals:
        open_requested: A model shall be opened, to compare with.
    """

    open_requested = Signal()

    def __init__(self, session: SurveySession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._pace = Pace()
        self.reference = ReferenceBar(session.references, self)
        self.reference.open_requested.connect(self.open_requested)
        self.start = QPushButton(self)
        self.start.clicked.connect(session.start)
        self.pause = QPushButton(self)
        self.pause.clicked.connect(self._pause_or_resume)
        self.cancel = QPushButton(self.tr("Cancel"), self)
        self.cancel.setToolTip(self.tr("Escape; what is known stays known"))
        self.cancel.clicked.connect(session.cancel)
        self.bar = QProgressBar(self)
        self.bar.setTextVisible(False)
        self.bar.setFixedWidth(160)
        self.bar.setRange(0, _STEPS)
        self.bar.setAccessibleName(self.tr("Progress of the survey"))
        self.label = ElidedLabel(self)
        self.label.setWhatsThis(picture_text("known"))
        self.label.setFixedHeight(self.bar.sizeHint().height())  # the pages must not jump
        self._lay_out()
        session.state_changed.connect(self.follow)
        session.grown.connect(self._show_progress)
        self.follow()

    def _lay_out(self) -> None:
        first = QHBoxLayout()
        first.addWidget(self.reference)
        first.addStretch(1)
        for button in (self.start, self.pause, self.cancel):
            first.addWidget(button)
        second = QHBoxLayout()
        second.addWidget(self.bar)
        second.addWidget(self.label, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 2)
        layout.setSpacing(4)
        layout.addLayout(first)
        layout.addLayout(second)

    def follow(self) -> None:
        """Show what the survey does now."""
        session = self._session
        state, missing = session.state, any(session.missing)
        under_way = state in (SurveyState.RUNNING, SurveyState.PAUSED)
        self.start.setVisible(not under_way)
        self.start.setEnabled(state is SurveyState.READY and missing)
        self.start.setText(start_text(self, session) if missing else self.tr("All is known"))
        self.pause.setVisible(under_way)
        paused = state is SurveyState.PAUSED
        self.pause.setText(self.tr("&Resume") if paused else self.tr("&Pause"))
        self.cancel.setVisible(under_way)
        self.bar.setVisible(under_way)
        self._pace.forget()
        self._show_progress()

    def _pause_or_resume(self) -> None:
        if self._session.state is SurveyState.PAUSED:
            self._session.resume()
        else:
            self._session.pause()

    def _show_progress(self) -> None:
        session = self._session
        progress, state = session.progress, session.state
        if progress is None:
            self.label.setText(self._known_text())
            return
        share = progress.done / progress.total if progress.total else 1.0
        self.bar.setValue(round(_STEPS * share))
        text = self._pace.text(progress.done, progress.total, progress.nbytes, left=True)
        if state is SurveyState.PAUSED:
            text = self.tr("Paused at {share:.0f} %").format(share=100 * share)
        self.label.setText(text)

    def _known_text(self) -> str:
        """Return what is known while nothing is under way."""
        session = self._session
        if session.document is None:
            return ""
        if session.content is None:
            return self.tr("Reading what is known of the model…")
        count = len(session.document.arrays)
        text = self.tr("Statistics of {known} of {all} tensors are known").format(
            known=integer_text(int(session.content.statistics.known.sum())),
            all=integer_text(count),
        )
        if session.comparison is not None:
            text += self.tr(", errors of {known}").format(
                known=integer_text(int(session.comparison.errors.known.sum()))
            )
            without = int((~session.comparison.comparable).sum())
            if without:
                text += self.tr("; {count} not comparable").format(count=integer_text(without))
        problems = len(session.content.statistics.problems)
        if problems:
            text += self.tr("; {count} cannot be read (see Problem in Hot spots)").format(
                count=integer_text(problems)
            )
        return text + "."

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.LocaleChange:
            self.follow()


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
