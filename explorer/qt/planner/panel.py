"""The planner panel: the answer on top, settings and devices beside the picture, pages below.

What draws is created when the panel is first shown with a model; no model is read before that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from PySide6 import QtGui, QtWidgets
from PySide6.QtCore import QEvent, QSize, Qt, Signal

from explorer.errors import ExplorerError, PlanError
from explorer.planner.advice import Advice, setting_of, solve
from explorer.planner.plans import Engine, Level
from explorer.planner.request import PlanRequest
from explorer.present import plan as plan_texts
from explorer.present.speed import SPEED_TIP, Speed, speed_here
from explorer.qt.addresses import dropped_log
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobSlot, drop_frames
from explorer.qt.machine import Notes, PlannedMachine
from explorer.qt.planner.attachments import AttachmentsBox
from explorer.qt.planner.controls import SettingsControls
from explorer.qt.planner.curves import CurvesPage
from explorer.qt.planner.devices import DevicesBox
from explorer.qt.planner.fields import (
    AnswerPill,
    menu_button,
    name_text,
    push_button,
    scrolled,
    wrapped_label,
)
from explorer.qt.planner.log import LogPage, ask_log
from explorer.qt.planner.pages import ComparePage, DetailsPage, ExportPage, ProgramsPage
from explorer.qt.planner.picture import PlannerPicture
from explorer.qt.planner.state import (
    CurrentPlan,
    PlannedModel,
    PlannerState,
    read_model,
    single_shot,
)
from explorer.qt.services import Services
from explorer.qt.theme import Space, scaled, widen_with_text
from explorer.qt.widgets.building import Flow, add_action, column, row
from explorer.qt.widgets.icons import IconButton
from explorer.qt.widgets.labels import StatePage
from explorer.qt.widgets.painting import plain_tip
from explorer.qt.widgets.segments import LowTabs, segmented
from explorer.text import plain_text, sentence

NOTE_NAME: Final = "planner"
"""Name under which scenarios and device sets are remembered."""

_ASKED: Final = ("context", "parallel", "kv-cache-type", "gpu-layers")
_MOST_OFFERED: Final = 4  # ways to make it fit, and an answer
_WIDE: Final = 640  # from which on the usual texts need a line less
_SEARCH_DELAY_MS: Final = 250
_ANNOUNCE_DELAY_MS: Final = 400
_SIDE_WIDTH: Final = 312
_FOLDED: Final = 700  # width from which on settings stand beside the picture
_LEAST_WIDTH: Final = 420

Found = TypeVar("Found")


class PlannerView(QtWidgets.QWidget):
    """How much memory the current model needs, on which devices, and why.

    Attributes:
        machine: What plans are for, and what is asked of each model.
        state: The state; its signal carries the current plan.
        body: What is shown of a model; None until it is first needed.
        placeholder: The page without a plan.
    """

    def __init__(
        self,
        app: Services,
        settings: Notes,
        parent: QtWidgets.QWidget | None = None,
        *,
        machine: PlannedMachine | None = None,
    ) -> None:
        """Plan for a machine; None for one of the panel's own."""
        super().__init__(parent)
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


class AnswerBar(QtWidgets.QWidget):
    """The verdict, the speed, what would make the model fit, the largest context, other questions.

    Lines that come and go keep their height: nothing below moves under the pointer.

    Attributes:
        sentence: The verdict.
        speed: How fast it can be, and what slows it.
        ways: What would make it fit; else an answer: the largest context, until another is asked.
        buttons: Take what would make it fit, and the answer; as many are shown as there are.
        whole: Opens the whole model, where this is one part of it.
        ask: Opens the menu of questions.
        questions: Its entries, by the question.
        undo: The button that undoes a change.
        redo: The button that redoes it.

    Signals:
        announced: The verdict was announced to screen readers.
    """

    announced = Signal(str)

    def __init__(self, state: PlannerState, app: Services, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self._state = state
        self._current = state.current
        self._found: tuple[plan_texts.Suggestion, ...] = ()
        self._searched = False
        self._answer = plan_texts.Answer(Level.FITS, "")
        self._coloured: Level | None = None
        self._announced = ""
        self._search, self._asking = JobSlot(app.runner, self), JobSlot(app.runner, self)
        self._timing = JobSlot(app.runner, self)
        self._search_delay = single_shot(self, self._start_search, _SEARCH_DELAY_MS)
        self._announce_delay = single_shot(self, self._announce, _ANNOUNCE_DELAY_MS)
        self.sentence = AnswerPill(self)
        name_text(self.sentence, "Answer")
        self.speed = wrapped_label(self, "Speed")
        self.ways = wrapped_label(self, "What would make it fit, or the largest context")
        self.ways.setForegroundRole(QtGui.QPalette.ColorRole.PlaceholderText)
        tip = "Undo a change (Ctrl+Z)"
        self.undo = IconButton("undo", "Undo", tip, self, words=False)
        tip = "Redo a change (Ctrl+Shift+Z)"
        self.redo = IconButton("redo", "Redo", tip, self, words=False)
        tip = "This is one of several parts of a model, and the others are in its folder"
        self.whole = push_button(self, "Open the other parts", tip)
        self.whole.clicked.connect(lambda: self._open_whole(app))
        tip = "Find the best value that fits; other settings stay"
        self.ask = menu_button(self, "What fits?", tip)
        self._advice: Advice | None = None
        self._offers: tuple[plan_texts.Suggestion, ...] = ()
        tip = "Change this; Undo takes it back"
        self.buttons = [push_button(self, "", tip) for _ in range(_MOST_OFFERED)]
        self.questions: dict[str, QtGui.QAction] = {}
        self._lay_out()
        self.undo.clicked.connect(state.undo)
        self.redo.clicked.connect(state.redo)
        self.follow(state.current)
        state.plan_changed.connect(self.follow)

    def tab_chain(self) -> list[QtWidgets.QWidget]:
        """Return what takes the focus, in reading order."""
        return [self.undo, self.redo, self.whole, *self.buttons, self.ask]

    def _lay_out(self) -> None:
        for what in _ASKED:
            title, ask = f"{plan_texts.QUESTION_TEXTS[what].title}?", partial(self._ask, what)
            self.questions[what] = self.ask.menu().addAction(title, ask)
        for number, button in enumerate(self.buttons):
            button.hide()
            button.clicked.connect(lambda _=False, number=number: self._take(number))
        self._line = row(self.sentence, 1, self.undo, self.redo, spacing=Space.TIGHT)
        buttons = Flow(self.whole, *self.buttons, self.ask)
        column(self._line, self.speed, self.ways, buttons, of=self, spacing=Space.NEAR)
        self._strut = QtWidgets.QSpacerItem(0, 0)
        self._line.insertSpacerItem(0, self._strut)

    def follow(self, current: CurrentPlan) -> None:
        """Show the verdict of a plan; forget answers to other settings."""
        before, self._current = self._current, current
        self.undo.setEnabled(current.can_undo)
        self.redo.setEnabled(current.can_redo)
        self.whole.setVisible(current.model is not None and current.model.whole is not None)
        if current.question != before.question:
            self._asking.cancel()
            self._advice = None
            for button in self.buttons:
                button.setEnabled(False)  # until it is known whether they still hold
        if current.engine is not None and current.engine is not before.engine:
            for what, action in self.questions.items():
                action.setVisible(bool(setting_of(what, current.engine)))
        if current.result is None:
            return
        self._answer = plan_texts.answer(current.result.plan, current.result.refusal)
        if current.result is before.result:
            self._show_sentence()
            return
        if not self._searched:
            self._search.cancel()
        for part in (*self.buttons, self.speed):
            part.setEnabled(False)
        self._found, self._searched = (), False
        self._search_delay.start()
        if current.result.plan is None:
            self.speed.clear()
        if not self._can_search():
            self._show_suggestions((), searched=False)
        self._show_sentence()

    def _can_search(self) -> bool:
        """Return whether there may be settings with which the model fits, or can be planned."""
        if self._current.plan is None:
            asked = self._current.inputs.settings
            return asked.flash_attention is False or asked.context is not None
        return self._answer.level is not Level.FITS

    @property
    def _ways(self) -> str:
        """What would make it fit, once that was searched."""
        searched = self._searched and self._can_search()
        explained = self._current.plan is not None and (self._found or self._current.inputs.devices)
        return plan_texts.suggestions_sentence(self._found) if searched and explained else ""

    def _show_sentence(self) -> None:
        ways, advice = self._ways, self._advice
        if advice is not None and not (ways and advice.value is None):
            ways = plan_texts.advice_text(advice)
        told = f"{self._answer.mark}  {self._answer.sentence}", ways
        if told == (self.sentence.text(), self.ways.text()):
            return
        for label, shown in zip((self.sentence, self.ways), told, strict=True):
            label.setText(shown)
            label.setToolTip(plain_tip(shown))
        if self._coloured is not self._answer.shown:
            self._take_colours()
        self._announce_delay.start()

    def _take_colours(self) -> None:
        self._coloured = self._answer.shown
        self.sentence.show_level(self._answer.shown)

    def _announce(self) -> None:
        """Announce the answer to screen readers once it no longer changes."""
        text = " ".join(filter(None, (self.sentence.text(), self._ways)))
        if text == self._announced or not self.isVisible():
            return
        self._announced = text
        event = QtGui.QAccessibleAnnouncementEvent(self.sentence, text)
        QtGui.QAccessible.updateAccessibility(event)
        self.announced.emit(text)

    def _start_search(self) -> None:
        if not self.isVisible():
            return
        if self._can_search():
            title = "Looking for settings that fit"
            self._run(self._search, title, plan_texts.suggestions, self._show_suggestions)
        elif self._advice is None and self._current.plan is not None:
            self._look_for_context()
        plan, kept = self._current.plan, self._state.basis.bandwidths
        if plan is not None:
            title, refused = "Estimating the speed", self._state.refused.emit
            self._timing.run(title, lambda _: speed_here(plan, kept), self._show_speed, refused)

    def _show_speed(self, found: Speed | str) -> None:
        plan = self._current.plan
        remarks = [] if plan is None else plan_texts.remarks(plan)
        words, tip = (found, []) if isinstance(found, str) else (found.sentence, [SPEED_TIP])
        if plan is not None and plan.verdict.short:  # what to know of it says more
            words = remarks[0] if remarks else words
        self.speed.setText(words)
        self.speed.setToolTip(plain_tip("\n".join([*tip, *remarks])))
        self.speed.setEnabled(True)

    def _run(
        self,
        slot: JobSlot,
        title: str,
        search: Callable[[PlanRequest, Engine, Callable[[], None]], Found],
        on_done: Callable[[Found], None],
    ) -> None:
        """Search in the background for the current model and inputs."""
        request, engine = self._state.request, self._current.engine
        if request is not None and engine is not None:
            refused = self._state.refused.emit
            slot.run(title, lambda job: search(request, engine, job.check), on_done, refused)

    def _show_suggestions(
        self, found: tuple[plan_texts.Suggestion, ...], *, searched: bool = True
    ) -> None:
        self._found, self._searched = found, searched
        self._show_offers()
        if searched and not found and self._current.plan is not None:
            self._look_for_context()

    def _look_for_context(self) -> None:
        title = "Looking for the largest context"
        self._run(self._search, title, partial(solve, "context"), self._propose)

    def _show_offers(self) -> None:
        advice, plan, asked = self._advice, self._current.plan, self._state.inputs.settings
        taken = None if advice is None else plan_texts.advice_offer(advice, plan, asked)
        self._offers = self._found if taken is None else (*self._found, taken)
        for number, button in enumerate(self.buttons):
            button.setVisible(number < len(self._offers))
            button.setEnabled(True)
            if number < len(self._offers):
                button.setText(self._offers[number].button)
        self._show_sentence()

    def _take(self, number: int) -> None:
        self._state.apply(self._offers[number].changes)

    def _ask(self, what: str) -> None:
        self.ways.setText("Searching…")
        title = f"Searching: {plan_texts.QUESTION_TEXTS[what].title}"
        self._run(self._asking, title, partial(solve, what), self._show_advice)

    def _show_advice(self, advice: Advice) -> None:
        self._offer(advice)
        text = self.ways.text()
        QtGui.QAccessible.updateAccessibility(QtGui.QAccessibleAnnouncementEvent(self.ways, text))

    def _propose(self, advice: Advice) -> None:
        """Show the largest context, unless another question was asked meanwhile."""
        if self._advice is None and not self._asking.busy:
            self._offer(advice)

    def _offer(self, advice: Advice) -> None:
        self._advice, self._searched = advice, True
        self._show_offers()

    def _open_whole(self, app: Services) -> None:
        model = self._current.model
        if model is not None and model.whole is not None:
            app.open(model.whole, "planner")

    # Qt

    def showEvent(self, event: QtGui.QShowEvent) -> None:
        """Look for what was not looked for out of sight."""
        super().showEvent(event)
        if not self.speed.isEnabled():
            self._search_delay.start()

    def resizeEvent(self, event: QtGui.QResizeEvent) -> None:
        """Keep the height that the usual texts have at this width."""
        super().resizeEvent(event)
        line, narrow = self.fontMetrics().lineSpacing(), self.width() < scaled(_WIDE)
        self._line.invalidate()
        self._strut.changeSize(0, (1 + narrow) * line + 2 * Space.NEAR + 2)
        self.speed.setMinimumHeight((2 + narrow) * line)
        self.ways.setMinimumHeight((2 + narrow) * line)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:  # dark has become light
            self._take_colours()


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
        for page, title in (
            *((self.curves, "Curves"), (self.details, "Details"), (self.use, "Use it")),
            *((self.compare, "Compare plans"), (self.log, "Log")),
        ):
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
