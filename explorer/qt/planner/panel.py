"""The planner panel: the answer on top, settings and devices beside the picture, pages below.

What draws is created when the panel is first shown with a model; no model is read before that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from PySide6 import QtGui, QtWidgets
from PySide6.QtCore import QEvent, QSize, Qt

from explorer.errors import ExplorerError, PlanError, drop_frames
from explorer.present import plan as plan_texts
from explorer.present.panels import PANELS
from explorer.qt.addresses import dropped_log
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobSlot
from explorer.qt.machine import Notes, PlannedMachine
from explorer.qt.planner.answer import AnswerBar
from explorer.qt.planner.attachments import AttachmentsBox
from explorer.qt.planner.controls import SettingsControls
from explorer.qt.planner.curves import CurvesPage
from explorer.qt.planner.devices import DevicesBox
from explorer.qt.planner.fields import scrolled
from explorer.qt.planner.log import LogPage, ask_log
from explorer.qt.planner.pages import ComparePage, DetailsPage, ExportPage, ProgramsPage
from explorer.qt.planner.picture import PlannerPicture
from explorer.qt.planner.state import PlannedModel, PlannerState, read_model, single_shot
from explorer.qt.services import Services
from explorer.qt.theme import Space, scaled, widen_with_text
from explorer.qt.widgets.building import add_action, column
from explorer.qt.widgets.labels import StatePage
from explorer.qt.widgets.segments import LowTabs, segmented, show_tab
from explorer.text import plain_text, sentence

NOTE_NAME: Final = "planner"
"""Name under which scenarios and device sets are remembered."""

_SIDE_WIDTH: Final = 312
_FOLDED: Final = 700  # width from which on settings stand beside the picture
_LEAST_WIDTH: Final = 420


class PlannerView(QtWidgets.QWidget):
    """How much memory the current model needs, on which devices, and why.

    Attributes:
        machine: What plans are for, and what is asked of each model.
        state: The state; its signal carries the current plan.
        body: What is shown of a model; None until it is first needed.
        placeholder: The page without a plan.
    """

    def __init__(
        self, app: Services, settings: Notes, *, machine: PlannedMachine | None = None
    ) -> None:
        """Plan for a machine; None for one of the panel's own."""
        super().__init__()
        self.machine = machine or PlannedMachine(app, settings, self)
        self.setAccessibleName("Planner")
        self.app = app
        self._settings = settings
        self._document: Document | None = None
        self._others: tuple[Document, ...] = ()
        self._read: WeakKeyDictionary[Document, PlannedModel | ExplorerError] = WeakKeyDictionary()
        self._layer = -1
        self._log: Path | str | None = None  # to be compared once the model is shown
        self._part: Path | None = None  # to be added then
        self._tab = ""  # the title of the page to be shown then
        self.setAcceptDrops(True)
        self.body: PlannerBody | None = None
        save = partial(settings.set_note, NOTE_NAME)
        self.state = PlannerState(self.machine, save=save, parent=self, runner=app.runner)
        self._reading = JobSlot(app.runner, self)
        self._reading_others = JobSlot(app.runner, self)
        self.placeholder = StatePage(self)
        self._stack = QtWidgets.QStackedLayout(self)
        self._stack.setSizeConstraint(QtWidgets.QLayout.SizeConstraint.SetNoConstraint)
        self._stack.addWidget(self.placeholder)
        # the panel is painted once before its plots are created
        self._making = single_shot(self, self._refresh)
        add_action(self, "&Undo setting", self.state.undo, "Ctrl+Z", children=True)
        keys = "Ctrl+Shift+Z", "Ctrl+Y"
        add_action(self, "&Redo setting", self.state.redo, *keys, children=True)
        self._restore()
        self._explain_empty()

    def show_document(self, document: Document | None) -> None:
        """Plan for a model under the same settings; None shows the placeholder."""
        if document is self._document:
            return
        self._document = document
        self._layer = -1
        self._reading.cancel()
        if document is None and self.body is not None:
            self.body.log.show_document(None)  # out of sight too: it would keep a closed model
        if self.isVisible():
            self._refresh()

    def set_other_documents(self, documents: Sequence[Document]) -> None:
        """Compare with these models; the current one may be among them."""
        self._others = tuple(documents)
        self._read_others()  # they may be compared with, or loaded too

    def select_layer(self, layer: int) -> None:
        """Mark a layer that was selected elsewhere; -1 marks none. Emits nothing."""
        self._layer = layer
        if self.body is not None:
            self.body.select_layer(layer)

    def ask_log(self) -> None:
        """Ask for a log and show it beside the plan."""
        if self.body is not None and self._stack.currentWidget() is self.body:
            self.body.show_log()  # it can be pasted, too
        path = ask_log(self.app, self)
        if path is not None:
            self.compare_log(path)

    def compare_log(self, log: Path | str) -> None:
        """Show a log, a file or a text, beside the plan; once there is a model to plan for."""
        if self.body is None or self._stack.currentWidget() is not self.body:
            self._log = log
            return
        self.body.show_log()
        self.body.log.compare(log)

    def add_file(self, path: Path) -> None:
        """Plan with a file beside the model; once there is a model to plan for."""
        self._part = path
        self._add_part()

    def _add_part(self) -> None:
        document, model = self._document, self.state.model
        is_shown = document is not None and self._read.get(document) is model is not None
        if self._part is not None and self.body is not None and is_shown:
            part, self._part = self._part, None
            self.body.attachments.add_path(part)

    def show_tab(self, title: str) -> None:
        """Bring a page to the front by its title; once there is a model to plan for."""
        self._tab = title
        if self.body is not None:
            self._show_tab(self.body)

    def _show_tab(self, body: PlannerBody) -> None:
        show_tab(body, self._tab)
        self._tab = ""

    def show_attachments(self) -> None:
        """Bring what adds a projector and the like into sight, with the focus."""
        if self.body is not None:
            add = self.body.attachments.add_file
            add.setFocus(Qt.FocusReason.OtherFocusReason)
            area = add.parentWidget()
            while area is not None:
                if isinstance(area, QtWidgets.QScrollArea):
                    area.ensureWidgetVisible(add)
                area = area.parentWidget()

    def focus_search(self) -> None:
        """Focus the filter of the figures, if it is visible, else the field of the context."""
        if self.body is None:
            return
        if self.body.details.why.isVisible():
            self.body.details.why.search.focus()
        else:
            self.body.controls.context_edit.setFocus()

    def _refresh(self) -> None:
        """Show the current document, reading it if that was not done yet."""
        document = self._document
        if document is None:
            self.state.set_model(None)
            self._explain_empty()
            return
        title = "Reading hyperparameters"
        self._read_models(self._reading, title, [document], partial(self._show, document))

    def _show(self, document: Document) -> None:
        result = self._read[document]
        if isinstance(result, ExplorerError):
            self.state.set_model(None)
            heading, why = "No plan can be made for this model", sentence(str(result))
            self.placeholder.show_message(heading, f"{why}.")
            self._stack.setCurrentWidget(self.placeholder)
            return
        body = self._body()
        if self.state.model is not result:
            self.state.set_model(result)
            self._read_others()
        body.select_layer(self._layer)
        body.log.show_document(document)
        self._stack.setCurrentWidget(body)
        self._show_tab(body)
        focus = QtWidgets.QApplication.focusWidget()
        if focus is not None and body.devices.isAncestorOf(focus):  # Qt chose the first
            body.controls.context_edit.setFocus()
        if self._log is not None:
            log, self._log = self._log, None
            self.compare_log(log)
        self._add_part()

    def _explain_empty(self) -> None:
        self.placeholder.show_message(
            "No model is open",
            "The planner computes how much memory a model needs: its weights, its KV cache for "
            "a context of your choice, and the compute graph. It shows which layers go to "
            "which GPU, and what has to change for all of them to fit. It reads only the "
            "header of the model. Open a model with Ctrl+O, or open the demo model.",
            "Open the demo model",
            self.app.open_demo,
        )
        self._stack.setCurrentWidget(self.placeholder)

    def _body(self) -> PlannerBody:
        if self.body is None:
            body = PlannerBody(self.state, self.app, self)
            self._stack.addWidget(body)
            self.body = body
        return self.body

    def _read_models(
        self, slot: JobSlot, title: str, documents: Sequence[Document], then: Callable[[], None]
    ) -> None:
        """Read what was not read yet, in the background; then go on."""
        missing = [document for document in documents if document not in self._read]
        if not missing:
            then()
            return

        def read(job: Job) -> list[tuple[Document, PlannedModel | ExplorerError]]:
            results: list[tuple[Document, PlannedModel | ExplorerError]] = []
            for document in missing:
                job.check()
                try:
                    results.append((document, read_model(document)))
                except ExplorerError as error:
                    drop_frames(error)  # it is kept with the model, and would keep the model
                    results.append((document, error))
            return results

        def done(results: list[tuple[Document, PlannedModel | ExplorerError]]) -> None:
            self._read.update(results)
            then()

        slot.run(title, read, done, self.app.report)

    def _read_others(self) -> None:
        """Read the models to compare with."""
        title = "Reading other models"
        self._read_models(self._reading_others, title, self._others, self._show_others)

    def _show_others(self) -> None:
        """Compare with the models that could be read; one that cannot be planned is left out."""
        found = [self._read.get(doc) for doc in self._others if doc is not self._document]
        others = [model for model in found if isinstance(model, PlannedModel)]
        if others != self.state.others:
            self.state.set_others(others)

    def _restore(self) -> None:
        text = self._settings.note(NOTE_NAME)
        try:
            if text:
                self.state.restore(text)
        except PlanError:
            self._settings.set_note(NOTE_NAME, "")  # damaged, or of a later version: start afresh

    # Qt

    def minimumSizeHint(self) -> QSize:
        return self._stack.currentWidget().minimumSizeHint()

    def dragEnterEvent(self, event: QtGui.QDragEnterEvent) -> None:
        if dropped_log(event.mimeData()) is None:
            event.ignore()  # a model, which the window opens
        else:
            event.acceptProposedAction()

    def dropEvent(self, event: QtGui.QDropEvent) -> None:
        log = dropped_log(event.mimeData())
        if log is not None:
            self.compare_log(log)
            event.acceptProposedAction()

    def showEvent(self, event: QtGui.QShowEvent) -> None:
        super().showEvent(event)
        self._making.start(0)

    def hideEvent(self, event: QtGui.QHideEvent) -> None:
        super().hideEvent(event)
        self._making.stop()


class PlannerBody(QtWidgets.QWidget):
    """All parts of the panel; each follows the current plan."""

    def __init__(self, state: PlannerState, app: Services, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self.app = app
        self.answer = AnswerBar(state, app, self)
        self.controls = SettingsControls(state, self)
        self.attachments = AttachmentsBox(state, app, self)
        self.devices = DevicesBox(state, app, self)
        self.picture = PlannerPicture(state, app, self)
        self.curves = CurvesPage(state, app, self)
        self.details = DetailsPage(state, app, lambda: self.curves.curves, self)
        self.programs = ProgramsPage(state, app, self)
        self.export = ExportPage(state, self)
        inner = QtWidgets.QWidget(self)
        column((self.export, 1), self.programs, of=inner, spacing=Space.NEAR)
        self.use = scrolled(inner, "Use it")  # where there is little room, nothing overlaps
        self.compare = ComparePage(state, app, self)
        self.log = LogPage(state, app, self)
        name, pages = "Pages of the planner", LowTabs(self)
        self.pages = segmented(pages, name, Space.NEAR)
        shown = self.curves, self.details, self.use, self.compare, self.log
        for page, title in zip(shown, PANELS["planner"].tabs, strict=True):
            self.pages.addTab(page, title)
        self.pages.setTabVisible(self.pages.indexOf(self.log), False)  # until there is one
        self._lay_out()
        self._connect(state)

    def _lay_out(self) -> None:
        side, right = QtWidgets.QWidget(self), QtWidgets.QWidget(self)
        parts = (self.devices, self.controls, self.attachments, 1)
        around = (0, Space.NEAR, Space.TIGHT, 0)
        column(*parts, of=side, spacing=Space.WIDE, margins=around)
        self.side = scrolled(side, "Settings and devices", _FOLDED)
        self._settings_side, self._right = side, right
        self.controls.advanced.toggled.connect(lambda _: self._fold())
        shown, above = (self.answer, self.picture, (self.pages, 1)), (0, Space.NEAR, 0, 0)
        self._beside = column(*shown, of=right, spacing=Space.GROUP, margins=above)
        self.splitter = QtWidgets.QSplitter(self)
        for part in (self.side, right):
            self.splitter.addWidget(part)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setChildrenCollapsible(False)
        widen_with_text(self.splitter, 0)
        self.splitter.setSizes([scaled(_SIDE_WIDTH), 1000])
        self._above = column((self.splitter, 1), of=self)
        chain = [
            *(*self.devices.tab_chain(), *self.controls.tab_chain()),
            *(*self.attachments.tab_chain(), *self.answer.tab_chain()),
            *(self.picture.bars, self.picture.strip),
            self.pages,  # not its bar alone: Tab would never leave the page
        ]
        for before, after in itertools.pairwise(chain):
            self.setTabOrder(before, after)
        self.pages.currentChanged.connect(lambda _: self._fit_page())
        self._fit_page()

    # Qt

    def event(self, event: QEvent) -> bool:
        """Ask anew where a line of the page in front comes or goes."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit_page()
        return super().event(event)

    def resizeEvent(self, event: QtGui.QResizeEvent) -> None:
        """Fold the settings between answer and picture where there is no room beside them."""
        if (self.width() < scaled(_FOLDED)) != self._is_folded:
            self._fold()
        super().resizeEvent(event)

    def minimumSizeHint(self) -> QSize:
        """Ask for little width, and for height where the settings are above the picture."""
        # the answer has more lines where there is less width, and Qt asks for one: others shrank
        answer = self.answer
        above = answer.heightForWidth(self._right.width())
        if self._is_folded:
            above += self._settings_side.sizeHint().height() + self.splitter.handleWidth()
        else:
            above = max(0, above - answer.minimumSizeHint().height())
        return QSize(_LEAST_WIDTH, self._right.minimumSizeHint().height() + above)

    def _fit_page(self) -> None:
        """Ask for the height of the page in front, and not of the highest of all."""
        page = self.pages.currentWidget()
        least, lines = page.minimumSizeHint().height(), page.layout()
        if lines is not None and lines.hasHeightForWidth():  # some wrap
            least = max(least, lines.minimumHeightForWidth(page.width()))
        self.pages.setMinimumHeight(self.pages.tabBar().sizeHint().height() + least)
        self.updateGeometry()

    @property
    def _is_folded(self) -> bool:
        return self.splitter.orientation() == Qt.Orientation.Vertical

    def _fold(self) -> None:
        """Put settings beside answer and picture, or between them: then the whole page scrolls."""
        folded, way = self.width() < scaled(_FOLDED), Qt.Orientation
        if folded != self._is_folded:
            (self._above if folded else self._beside).insertWidget(0, self.answer)
        self.splitter.setOrientation(way.Vertical if folded else way.Horizontal)
        self.side.is_whole = folded
        self.splitter.setSizes([0 if folded else scaled(_SIDE_WIDTH), 1000])
        self._fit_page()

    def _connect(self, state: PlannerState) -> None:
        self.picture.bars.figure_chosen.connect(self.show_figure)
        self.picture.strip.chosen.connect(self._choose_layer)
        self.picture.strip.opened.connect(lambda _layer: self.app.go("tensors"))
        self.details.layer_chosen.connect(self._choose_layer)
        self.details.curves_wanted.connect(self.curves.refresh)
        self.curves.curves_changed.connect(self.details.invalidate)
        state.refused.connect(self.app.report)

    def picture_caption(self) -> str:
        """Return what pictures are of: the model, the program, the context and the GPUs."""
        current = self.curves.state.current
        if current.model is None or (plan := current.plan) is None:
            return ""
        context = f"{plan_texts.sequences_text(plan)} tokens"
        parts = (current.model.title, plan_texts.rules_text(plan), context)
        return "   ·   ".join(map(plain_text, (*parts, f"GPUs: {plan_texts.devices_text(plan)}")))

    def show_figure(self, name: str) -> None:
        self.pages.setCurrentWidget(self.details)
        self.details.show_figure(name)

    def show_log(self) -> None:
        """Show the page that compares with a log; there is no tab for it before."""
        self.pages.setTabVisible(self.pages.indexOf(self.log), True)
        self.pages.setCurrentWidget(self.log)

    def select_layer(self, layer: int) -> None:
        """Mark a layer everywhere; emit nothing."""
        self.picture.strip.select(layer)
        self.details.select_layer(layer)

    def _choose_layer(self, layer: int) -> None:
        self.select_layer(layer)
        self.app.selection.select_layer(layer)
