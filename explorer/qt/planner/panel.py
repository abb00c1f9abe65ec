"""The planner panel.

Light to import and to make: what draws, and with it pyqtgraph, is made when the panel first comes
into sight with a model; nothing of a model is read before that either.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QFont, QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QLabel,
    QScrollArea,
    QSplitter,
    QStackedLayout,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from explorer.errors import ExplorerError, PlanError
from explorer.formats import open_model
from explorer.hardware.catalogue import Catalogue, load_catalogue
from explorer.hardware.detect import Machine, detect
from explorer.planner import Hyperparameters
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobRunner, JobSlot, drop_frames
from explorer.qt.planner.answer_bar import AnswerBar, undo_actions
from explorer.qt.planner.controls import SettingsControls
from explorer.qt.planner.curves import CurvesPage
from explorer.qt.planner.devices import DevicesBox
from explorer.qt.planner.layer_strip import PlannerPicture
from explorer.qt.planner.pages import ModelsPage, ScenariosPage, TablesPage, TakeAwayPage, WhyPage
from explorer.qt.planner.state import PlannerSession, PlannerState, Subject
from explorer.qt.widgets.labels import StatePage

NOTE_NAME: Final = "planner"
"""Name under which scenarios and device sets are remembered."""


class Notes(Protocol):
    """What remembers texts between two runs; the window's `Settings`."""

    def note(self, name: str) -> str:
        """Return a remembered text; empty if there is none."""

    def set_note(self, name: str, text: str) -> None:
        """Remember a text."""


class PlannerView(QWidget):
    """How much memory the current model needs, on which devices, and why.

    Attributes:
        session: The state; its signals tell what changed.
        body: What is shown of a model; None until it is first needed.
        state: What stands there instead.

    Signals:
        layer_chosen: The user chose a layer; its number, the output layer being the last.
        demo_wanted: The user wants the demo model.
        exported: A file was written; its path.
        failed: Something could not be done; an `ExplorerError`.
    """

    layer_chosen = Signal(int)
    demo_wanted = Signal()
    exported = Signal(str)
    failed = Signal(object)

    def __init__(self, runner: JobRunner, settings: Notes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(self.tr("Planner"))
        self._runner = runner
        self._settings = settings
        self._document: Document | None = None
        self._others: tuple[Document, ...] = ()
        self._read: WeakKeyDictionary[Document, Subject | ExplorerError] = WeakKeyDictionary()
        self._layer = -1
        self._catalogue: Catalogue | None = None
        self.body: PlannerBody | None = None
        self.session = PlannerSession(PlannerState(), self)
        self._reading = JobSlot(runner, self)
        self._reading_others = JobSlot(runner, self)
        self._looking = JobSlot(runner, self)
        self.state = StatePage(self)
        self.state.pressed.connect(self.demo_wanted)
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self.state)
        # the first paint of the panel comes before the making of its plots
        self._making = QTimer(self)
        self._making.setSingleShot(True)
        self._making.timeout.connect(self._refresh)
        self.undo_action, self.redo_action = undo_actions(self.session, self)
        self._restore()
        self.session.scenarios_changed.connect(self._save)
        self.session.sets_changed.connect(self._save)
        self._explain_empty()

    def show_document(self, document: Document | None) -> None:
        """Plan for a model; None plans for nothing. The settings stay."""
        if document is self._document:
            return
        self._document = document
        self._layer = -1
        self._reading.cancel()
        if self.isVisible():
            self._refresh()

    def set_other_documents(self, documents: Sequence[Document]) -> None:
        """Compare with these models; the current one may be among them."""
        self._others = tuple(documents)
        if self.body is not None and self.body.models.isVisible():
            self._read_others()

    def select_layer(self, layer: int) -> None:
        """Mark a layer that was selected elsewhere; -1 marks none. Tells nobody."""
        self._layer = layer
        if self.body is not None:
            self.body.select_layer(layer)

    def focus_search(self) -> None:
        """Put the cursor where one types first: into the context, or the filter of the figures."""
        if self.body is None:
            return
        if self.body.why.isVisible():
            self.body.why.search.focus()
        else:
            self.body.controls.context_edit.setFocus()

    # The model

    def _refresh(self) -> None:
        """Show the current document, reading it if that was not done yet."""
        document = self._document
        if document is None:
            self.session.set_subject(None)
            self._explain_empty()
            return
        known = self._read.get(document)
        if known is None:
            self._reading.run(
                self.tr("Reading hyperparameters"),
                lambda _job: _subject(document),
                lambda subject: self._take(document, subject),
                lambda error: self._take(document, error),
            )
        else:
            self._show(known)

    def _take(self, document: Document, result: Subject | ExplorerError) -> None:
        self._read[document] = result
        if document is self._document:
            self._show(result)

    def _show(self, result: Subject | ExplorerError) -> None:
        if isinstance(result, ExplorerError):
            self.session.set_subject(None)
            heading = self.tr("No plan can be made for this model")
            self.state.tell(heading, str(result))
            self._stack.setCurrentWidget(self.state)
            return
        body = self._body()
        if self.session.state.subject is not result:
            self.session.set_subject(result)
            self._show_others()
        body.select_layer(self._layer)
        self._stack.setCurrentWidget(body)

    def _explain_empty(self) -> None:
        self.state.tell(
            self.tr("No model is open"),
            self.tr(
                "The planner works out how much memory a model needs: its weights, its KV cache "
                "for a context of your choice, and the compute graph; which layers go to which "
                "GPU; and what would have to change for all of them to fit. Only the header of "
                "the model is read. Open a model with Ctrl+O, or look at the demo model."
            ),
            self.tr("Open the demo model"),
        )
        self._stack.setCurrentWidget(self.state)

    def _body(self) -> PlannerBody:
        if self.body is None:
            # pyqtgraph takes 150 ms to import: when it is needed, not when the program starts

            body = PlannerBody(self.session, self._runner, self)
            body.layer_chosen.connect(self.layer_chosen)
            body.exported.connect(self.exported)
            body.failed.connect(self.failed)
            body.devices.machine_wanted.connect(self._look_at_machine)
            body.models.others_wanted.connect(self._read_others)
            self._stack.addWidget(body)
            self.body = body
            self._look_at_machine()
        return self.body

    # This machine

    def _look_at_machine(self) -> None:
        self._looking.run(
            self.tr("Looking at this machine"),
            lambda _job: (detect(), load_catalogue()),
            self._take_machine,
            self.failed.emit,
        )

    def _take_machine(self, found: tuple[Machine, Catalogue]) -> None:
        machine, catalogue = found
        if self.body is not None:
            self.body.devices.set_catalogue(catalogue)
        self.session.set_machine(machine)

    # Other models

    def _read_others(self) -> None:
        """Read the models to compare with that were not read yet."""
        missing = [
            document
            for document in self._others
            if document not in self._read and document is not self._document
        ]
        if not missing:
            self._show_others()
            return

        def read(job: Job) -> list[tuple[Document, Subject | ExplorerError]]:
            results: list[tuple[Document, Subject | ExplorerError]] = []
            for document in missing:
                job.check()
                try:
                    results.append((document, _subject(document)))
                except ExplorerError as error:
                    drop_frames(error)  # it is kept with the model, and would keep the model
                    results.append((document, error))
            return results

        def done(results: list[tuple[Document, Subject | ExplorerError]]) -> None:
            self._read.update(results)
            self._show_others()

        self._reading_others.run(self.tr("Reading other models"), read, done, self.failed.emit)

    def _show_others(self) -> None:
        """Compare with the models that could be read; one that cannot be planned is left out."""
        found = [self._read.get(doc) for doc in self._others if doc is not self._document]
        others = [subject for subject in found if isinstance(subject, Subject)]
        if others != self.session.state.others:
            self.session.set_others(others)

    # Between two runs

    def _save(self) -> None:
        self._settings.set_note(NOTE_NAME, self.session.state.saved())

    def _restore(self) -> None:
        text = self._settings.note(NOTE_NAME)
        if not text:
            return
        try:
            self.session.state.restore(text)
        except PlanError:
            self._settings.set_note(NOTE_NAME, "")  # damaged, or of a later version: start afresh

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.LocaleChange:
            self.session.retell()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._making.start(0)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._making.stop()


def _subject(document: Document) -> Subject:
    """Read what the formulas need; in a worker, for a list of head counts may be on the disk.

    Raises:
        ExplorerError: The model has no hyperparameters that can be planned with, or its projector
            cannot be read.
    """
    model = document.model
    h = Hyperparameters.from_model(model)
    if not h.block_count:
        raise PlanError(
            "the model says nothing of its layers (block_count), so there is nothing to plan"
        )
    projector = model.projector
    if projector is None:
        return Subject(document.title, document.path, h)
    with open_model(projector) as separate:
        return Subject(document.title, document.path, h, projector, separate.nbytes)


# What the panel shows of a model: answer, settings and devices, picture, and pages below it.


_SIDE_WIDTH: Final = 330


class PlannerBody(QWidget):
    """All parts of the panel, following one session.

    Signals:
        layer_chosen: A layer was chosen; its number.
        exported: A file was written; its path.
        failed: Something could not be done; an `ExplorerError`.
    """

    layer_chosen = Signal(int)
    exported = Signal(str)
    failed = Signal(object)

    def __init__(
        self, session: PlannerSession, runner: JobRunner, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.answer = AnswerBar(session, runner, self)
        self.controls = SettingsControls(session, self)
        self.devices = DevicesBox(session, runner, self)
        self.picture = PlannerPicture(session, self)
        self.curves = CurvesPage(session, runner, self)
        self.why = WhyPage(session, runner, self)
        self.tables = TablesPage(session, runner, lambda: self.curves.curves, self)
        self.scenarios = ScenariosPage(session, runner, self)
        self.models = ModelsPage(session, runner, self)
        self.take_away = TakeAwayPage(session, runner, self.picture, self)
        self.pages = QTabWidget(self)
        self.pages.setDocumentMode(True)
        self.pages.setAccessibleName(self.tr("Pages of the planner"))
        for page, title in (
            (self.curves, self.tr("Curves")),
            (self.why, self.tr("Why")),
            (self.tables, self.tr("Tables")),
            (self.scenarios, self.tr("Scenarios")),
            (self.models, self.tr("Models")),
            (self.take_away, self.tr("Take away")),
        ):
            self.pages.addTab(page, title)
        self._lay_out()
        self._connect(session)

    def _lay_out(self) -> None:
        side = QWidget(self)
        column = QVBoxLayout(side)
        column.setContentsMargins(10, 2, 8, 8)
        column.setSpacing(6)
        column.addWidget(self.controls)
        heading = QLabel(self.tr("Devices"), side)
        font = QFont(heading.font())
        font.setWeight(QFont.Weight.DemiBold)
        heading.setFont(font)
        column.addWidget(heading)
        column.addWidget(self.devices)
        column.addStretch(1)
        self.side = QScrollArea(self)
        self.side.setWidget(side)
        self.side.setWidgetResizable(True)
        self.side.setFrameShape(QFrame.Shape.NoFrame)
        self.side.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.side.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.side.setAccessibleName(self.tr("Settings and devices"))
        bar = self.side.verticalScrollBar().sizeHint().width()
        self.side.setMinimumWidth(side.minimumSizeHint().width() + bar)
        right = QWidget(self)
        stack = QVBoxLayout(right)
        stack.setContentsMargins(0, 0, 0, 0)
        stack.setSpacing(0)
        stack.addWidget(self.picture)
        stack.addWidget(self.pages, 1)
        self.splitter = QSplitter(self)
        self.splitter.addWidget(self.side)
        self.splitter.addWidget(right)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.setSizes([_SIDE_WIDTH, 1000])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.answer)
        layout.addWidget(self.splitter, 1)
        chain = [
            *self.answer.tab_chain(),
            *self.controls.tab_chain(),
            *self.devices.tab_chain(),
            self.picture.bars,
            self.picture.strip,
            self.pages,  # not its bar alone: Tab would go round in the page for ever
        ]
        for before, after in itertools.pairwise(chain):
            self.setTabOrder(before, after)

    def _connect(self, session: PlannerSession) -> None:
        self.picture.bars.figure_chosen.connect(self.show_figure)
        self.picture.strip.layer_chosen.connect(self._choose_layer)
        self.tables.layer_chosen.connect(self._choose_layer)
        self.tables.curves_wanted.connect(self.curves.refresh)
        self.curves.curves_changed.connect(self.tables.invalidate)
        for page in (self.curves, self.take_away):
            page.exported.connect(self.exported)
            page.failed.connect(self.failed)
        for table in (
            self.why.figures,
            self.why.inputs,
            self.tables.table,
            self.scenarios.table,
            self.models.table,
        ):
            table.exported.connect(self.exported)
            table.failed.connect(self.failed)
        session.refused.connect(self.failed)

    def show_figure(self, name: str) -> None:
        """Show why a figure is what it is."""
        self.pages.setCurrentWidget(self.why)
        self.why.show_figure(name)

    def select_layer(self, layer: int) -> None:
        """Mark a layer everywhere, without telling anybody."""
        self.picture.strip.select(layer)
        self.tables.select_layer(layer)

    def _choose_layer(self, layer: int) -> None:
        self.select_layer(layer)
        self.layer_chosen.emit(layer)
