"""The answer on top of the panel: whether it fits, and buttons for what would make it fit."""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QAction,
    QFont,
    QGuiApplication,
    QKeySequence,
    QPalette,
)
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from explorer.planner.advice import Advice, solve
from explorer.planner.profiles import GRAPH_SIZE
from explorer.present.explanations import picture_text
from explorer.present.plan import (
    CheckedEnvironment,
    Level,
    Suggestion,
    Verdict,
    advice_changes,
    advice_text,
    question_name,
    suggestions,
    suggestions_sentence,
    verdict_of,
)
from explorer.qt.jobs import Job, JobRunner, JobSlot, consideration
from explorer.qt.planner.state import PlannerSession
from explorer.qt.theme import warning_colour
from explorer.qt.widgets.labels import plain_label
from explorer.qt.widgets.painting import plain_tip

_QUESTIONS: Final = ("context", "parallel", "kv-cache-type", "gpu-layers")
_MOST_SUGGESTED: Final = 4
_SEARCH_DELAY_MS: Final = 250
_ANNOUNCE_DELAY_MS: Final = 400
_MARKS: Final = {Level.FITS: "✔", Level.PARTLY: "⚠", Level.NOT: "✘"}


class AnswerBar(QWidget):
    """The verdict, suggested changes, questions and their answers.

    Attributes:
        sentence: The verdict.
        undo: The button that takes a change back.
        redo: The button that takes it again.

    Signals:
        announced: A screen reader was told the verdict.
    """

    announced = Signal(str)

    def __init__(
        self, session: PlannerSession, runner: JobRunner, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._found: tuple[Suggestion, ...] = ()
        self._searched = False
        self._verdict = Verdict(Level.NOT, "")
        self._told = ""
        self._search = JobSlot(runner, self)
        self._asking = JobSlot(runner, self)
        self._search_delay = self._timer(_SEARCH_DELAY_MS, self._start_search)
        self._announce_delay = self._timer(_ANNOUNCE_DELAY_MS, self._announce)
        self.sentence = self._label()
        self.sentence.setAccessibleName(self.tr("Answer"))
        self.sentence.setWhatsThis(picture_text("answer"))
        font = QFont(self.sentence.font())
        font.setPointSizeF(font.pointSizeF() * 1.15)
        font.setWeight(QFont.Weight.DemiBold)
        self.sentence.setFont(font)
        # room for two lines, so that nothing below moves under the mouse of one who drags
        self.sentence.setMinimumHeight(2 * self.sentence.fontMetrics().height() + 2)
        self.undo = self._tool("↶", self.tr("Undo"), self.tr("Take the last change back (Ctrl+Z)"))
        self.redo = self._tool("↷", self.tr("Redo"), self.tr("Take it again (Ctrl+Shift+Z)"))
        self.reply = self._label()
        self.reply.setAccessibleName(self.tr("Answer to the question"))
        self.reply.setWhatsThis(picture_text("reply"))
        # room for a button or two lines, whether there are any or not
        line = self.reply.fontMetrics().height()
        self.reply.setMinimumHeight(max(2 * line, line + 14))
        self.apply = QPushButton(self.tr("Apply"), self)
        self.apply.setToolTip(self.tr("Use this value"))
        self._advice: Advice | None = None
        self._suggested: list[QPushButton] = []
        self._lay_out()
        self.undo.clicked.connect(session.undo)
        self.redo.clicked.connect(session.redo)
        self.apply.clicked.connect(self._apply_advice)
        session.planned.connect(self._follow)
        session.inputs_changed.connect(self._forget_advice)
        self._forget_advice()
        self._follow()

    @property
    def suggestion_buttons(self) -> list[QPushButton]:
        """The buttons that apply a suggested change."""
        return [button for button in self._suggested if not button.isHidden()]

    @property
    def question_buttons(self) -> dict[str, QPushButton]:
        """The buttons that ask a question, by the question."""
        return self._questions

    def tab_chain(self) -> list[QWidget]:
        """Return what takes the keyboard, in the order in which it is seen."""
        return [*self._suggested, self.apply, *self._questions.values(), self.undo, self.redo]

    def _lay_out(self) -> None:
        asked, suggested = QHBoxLayout(), QHBoxLayout()
        self._questions: dict[str, QPushButton] = {}
        for what in _QUESTIONS:
            button = QPushButton(f"{question_name(what)}?", self)
            button.setToolTip(self.tr("Find out what still fits, all else as it is"))
            button.clicked.connect(lambda _=False, what=what: self._ask(what))
            self._questions[what] = button
            asked.addWidget(button)
        asked.addStretch(1)
        asked.addWidget(self.undo)
        asked.addWidget(self.redo)
        for number in range(_MOST_SUGGESTED):
            button = QPushButton(self)
            button.hide()
            button.clicked.connect(lambda _=False, number=number: self._apply(number))
            self._suggested.append(button)
            suggested.addWidget(button)
        suggested.addWidget(self.reply, 1)
        suggested.addWidget(self.apply)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 10, 4)
        layout.setSpacing(4)
        layout.addWidget(self.sentence)
        layout.addLayout(suggested)
        layout.addLayout(asked)

    # The verdict

    def _follow(self) -> None:
        outcome = self._session.outcome
        self.undo.setEnabled(self._session.state.history.can_undo)
        self.redo.setEnabled(self._session.state.history.can_redo)
        if outcome is None:
            return
        self._verdict = verdict_of(outcome)
        self._search.cancel()
        for button in self._suggested:
            button.setEnabled(False)  # until it is known whether they still help
        self._found, self._searched = (), False
        if self._verdict.level is Level.FITS or outcome.plan is None:
            self._search_delay.stop()
            self._show_suggestions(())
        else:
            self._search_delay.start()
            self._show_sentence()

    def _show_sentence(self) -> None:
        verdict = self._verdict
        can_fit = verdict.level is not Level.FITS and bool(self._session.inputs.devices)
        more = ""
        if can_fit and self._searched and self._session.inputs.profile == GRAPH_SIZE.name:
            more = suggestions_sentence(self._found)
        text = f"{_MARKS[verdict.level]}  {verdict.sentence}{' ' if more else ''}{more}"
        if text == self.sentence.text():
            return
        self.sentence.setText(text)
        self.sentence.setToolTip(plain_tip(text))
        self._take_colours()
        self._announce_delay.start()

    def _take_colours(self) -> None:
        palette = QGuiApplication.palette()
        if self._verdict.level is not Level.FITS:
            palette.setColor(QPalette.ColorRole.WindowText, warning_colour(palette))
        self.sentence.setPalette(palette)

    def _announce(self) -> None:
        """Tell a screen reader, once the answer has come to rest."""
        text = self.sentence.text()
        if text == self._told or not self.isVisible():
            return
        self._told = text
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self.sentence, text))
        self.announced.emit(text)

    # Suggested changes

    def _start_search(self) -> None:
        subject = self._session.state.subject
        if subject is None or not self.isVisible():
            return
        inputs = subject.complete(self._session.inputs)
        variables = self._session.state.environment

        def search(job: Job) -> tuple[Suggestion, ...]:
            request = inputs.request(subject.h, CheckedEnvironment(variables, job.check))
            with consideration(lasting=False):
                return suggestions(request, inputs.profile, job.check)

        title = self.tr("Looking for settings that fit")
        self._search.run(title, search, self._show_suggestions, self._session.refused.emit)

    def _show_suggestions(self, found: tuple[Suggestion, ...]) -> None:
        self._found, self._searched = found, True
        for number, button in enumerate(self._suggested):
            button.setVisible(number < len(found))
            button.setEnabled(True)
            if number < len(found):
                button.setText(found[number].button)
                button.setToolTip(self.tr("Then all layers are on GPUs"))
        self._show_sentence()

    def _apply(self, number: int) -> None:
        if number < len(self._found):
            self._session.apply(self._found[number].changes)

    # Questions

    def _ask(self, what: str) -> None:
        subject = self._session.state.subject
        if subject is None:
            return
        inputs = subject.complete(self._session.inputs)
        variables = self._session.state.environment

        def answer(job: Job) -> Advice:
            request = inputs.request(subject.h, CheckedEnvironment(variables, job.check))
            with consideration(lasting=False):
                return solve(what, request)

        self.reply.setText(self.tr("Searching…"))
        title = self.tr("Searching: {question}").format(question=question_name(what))
        self._asking.run(title, answer, self._show_advice, self._session.refused.emit)

    def _show_advice(self, advice: Advice) -> None:
        self._advice = advice
        text = advice_text(advice)
        self.reply.setText(text)
        self.reply.setToolTip(plain_tip(text))
        self.apply.setVisible(bool(advice_changes(advice)))
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self.reply, text))

    def _forget_advice(self) -> None:
        """Take an answer away that was to other settings."""
        self._asking.cancel()
        self._advice = None
        self.reply.clear()
        self.reply.setToolTip("")
        self.apply.hide()
        on = self._session.inputs.profile == GRAPH_SIZE.name
        for button in self._questions.values():
            button.setEnabled(on)  # other profiles predict no layout that could be asked

    def _apply_advice(self) -> None:
        if self._advice is not None:
            self._session.apply(advice_changes(self._advice))

    # Parts

    def _label(self) -> QLabel:
        label = plain_label(self)
        label.setWordWrap(True)
        label.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        return label

    def _tool(self, text: str, name: str, tip: str) -> QToolButton:
        button = QToolButton(self)
        button.setText(text)
        button.setAccessibleName(name)
        button.setToolTip(tip)
        return button

    def _timer(self, interval_ms: int, slot: Any) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.setInterval(interval_ms)
        timer.timeout.connect(slot)
        return timer

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:  # dark has become light
            self._take_colours()


def undo_actions(session: PlannerSession, panel: QWidget) -> tuple[QAction, QAction]:
    """Return the commands Undo and Redo of a panel, with the keys that people know."""
    undo = QAction(panel.tr("&Undo setting"), panel)
    redo = QAction(panel.tr("&Redo setting"), panel)
    undo.setShortcuts([QKeySequence("Ctrl+Z")])
    redo.setShortcuts([QKeySequence("Ctrl+Shift+Z"), QKeySequence("Ctrl+Y")])
    for action, slot in ((undo, session.undo), (redo, session.redo)):
        action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        action.triggered.connect(slot)
        panel.addAction(action)
    return undo, redo
