"""The answer on top of the planner: whether the model fits, what would help, other questions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from PySide6 import QtGui, QtWidgets
from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal

from explorer.planner.advice import Advice, setting_of, solve
from explorer.planner.plans import Engine, Level
from explorer.planner.request import PlanRequest
from explorer.present import plan as plan_texts
from explorer.present import suggestions as words
from explorer.present.speed import Speed, speed_here
from explorer.present.tables.speed import SPEED_TIP
from explorer.qt.jobs import JobSlot
from explorer.qt.planner.fields import (
    as_high_as_wide,
    menu_button,
    name_text,
    push_button,
    wrapped_label,
)
from explorer.qt.planner.state import CurrentPlan, PlannerState, single_shot
from explorer.qt.services import Services
from explorer.qt.theme import TILE_CORNER, Space, TextSize, scaled, style_text
from explorer.qt.widgets.building import Flow, column, row
from explorer.qt.widgets.cells import level_colours
from explorer.qt.widgets.icons import IconButton
from explorer.qt.widgets.painting import plain_tip

_ASKED: Final = ("context", "parallel", "kv-cache-type", "gpu-layers")
_MOST_OFFERED: Final = 4  # ways to make it fit, and an answer
_WIDE: Final = 640  # from which on the usual texts need a line less
_WIDEST: Final = 1000  # of a pill
_SEARCH_DELAY_MS: Final = 250
_ANNOUNCE_DELAY_MS: Final = 400

Found = TypeVar("Found")


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
        self._found: tuple[words.Suggestion, ...] = ()
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
        self._offers: tuple[words.Suggestion, ...] = ()
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
            title, ask = f"{words.QUESTION_TEXTS[what].title}?", partial(self._ask, what)
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
        return words.suggestions_sentence(self._found) if searched and explained else ""

    def _show_sentence(self) -> None:
        ways, advice = self._ways, self._advice
        if advice is not None and not (ways and advice.value is None):
            ways = words.advice_text(advice)
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
            self._run(self._search, title, words.suggestions, self._show_suggestions)
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
        self, found: tuple[words.Suggestion, ...], *, searched: bool = True
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
        taken = None if advice is None else words.advice_offer(advice, plan, asked)
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
        title = f"Searching: {words.QUESTION_TEXTS[what].title}"
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


class AnswerPill(QtWidgets.QLabel):
    """A sentence on a rounded ground, in the colour of how well the model fits.

    It is as wide as its sentence, which has more lines where there is too little room.
    """

    _LEAST = 160

    def __init__(self, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self._level = Level.FITS
        style_text(self, TextSize.BODY)
        self.setWordWrap(True)
        policy = QtWidgets.QSizePolicy.Policy
        self.setSizePolicy(as_high_as_wide(policy.Maximum))
        self.setContentsMargins(Space.WIDE, Space.NEAR, Space.WIDE, Space.NEAR)

    def show_level(self, level: Level) -> None:
        """Take the colour of a level; its sign stands before the sentence, too."""
        self._level = level
        palette = QtGui.QGuiApplication.palette()
        palette.setColor(QtGui.QPalette.ColorRole.WindowText, level_colours(level, palette)[0])
        self.setPalette(palette)

    # Qt

    def sizeHint(self) -> QSize:
        margins, metrics = self.contentsMargins(), self.fontMetrics()
        wide = metrics.horizontalAdvance(self.text()) + margins.left() + margins.right() + 2
        return QSize(min(wide, _WIDEST), metrics.height() + margins.top() + margins.bottom())

    def minimumSizeHint(self) -> QSize:
        return QSize(min(self._LEAST, self.sizeHint().width()), self.sizeHint().height())

    def paintEvent(self, event: QtGui.QPaintEvent) -> None:
        painter = QtGui.QPainter(self)
        painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(level_colours(self._level, self.palette())[1])
        painter.drawRoundedRect(QRectF(self.rect()), TILE_CORNER, TILE_CORNER)
        painter.end()
        super().paintEvent(event)
