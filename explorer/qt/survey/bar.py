"""Controls of a survey: the bar above all pages, and the notice above a view that lacks data."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from explorer.present.explanations import picture_text
from explorer.present.survey import Source
from explorer.qt.references import ReferenceBar
from explorer.qt.survey.session import SurveySession, SurveyState
from explorer.qt.widgets.labels import ElidedLabel, plain_label
from explorer.qt.widgets.progress import Pace
from explorer.text import bytes_text, integer_text

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


class Notice(QWidget):
    """Shows what has to be read before a figure is known; hidden if nothing has to be."""

    pressed = Signal()

    def __init__(self, session: SurveySession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.label = plain_label(self)
        self.label.setWhatsThis(picture_text("progress"))
        self.label.setWordWrap(True)
        self.button = QPushButton(self)
        self.button.clicked.connect(self.pressed)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 2, 8, 2)
        layout.addWidget(self.label, 1)
        layout.addWidget(self.button)
        self.hide()

    def show_missing(self, source: Source) -> None:
        """Say what keeps figures of a source from being known."""
        session = self._session
        ready = session.state is SurveyState.READY
        tensors, pairs = session.missing
        text = ""
        if source is Source.ERRORS and session.references.chosen is None:
            text = self.tr("Choose above what to compare with: errors need a reference.")
        elif source is Source.ERRORS and session.comparison is None:
            text = self.tr("The tensors of both models are being matched.")
        elif source is Source.ERRORS and pairs:
            text = self.tr("Errors of {count} are not known yet.").format(
                count=_tensors(self, pairs)
            )
        elif source is Source.STATISTICS and tensors:
            text = self.tr("Statistics of {count} are not known yet.").format(
                count=_tensors(self, tensors)
            )
        missing = pairs if source is Source.ERRORS else tensors
        self.label.setText(text)
        self.button.setVisible(bool(missing) and ready)
        self.button.setText(start_text(self, session))
        self.setVisible(bool(text) and session.content is not None)


def start_text(widget: QWidget, session: SurveySession) -> str:
    """Return the text of the button that starts a survey."""
    tensors, pairs = session.missing
    size = bytes_text(session.missing_bytes)
    if tensors and pairs:
        return widget.tr("Survey and compare all tensors ({size})").format(size=size)
    if pairs:
        return widget.tr("Compare all tensors ({size})").format(size=size)
    return widget.tr("Survey all tensors ({size})").format(size=size)


def _tensors(widget: QWidget, count: int) -> str:
    words = widget.tr("{count} tensor") if count == 1 else widget.tr("{count} tensors")
    return words.format(count=integer_text(count))
