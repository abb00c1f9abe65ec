"""A sentence above a view that cannot show all that it could, and a button that mends it."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from explorer.present.explanations import picture_text
from explorer.present.survey import Source
from explorer.qt.survey.session import SurveySession, SurveyState
from explorer.qt.widgets.labels import plain_label
from explorer.text import bytes_text, integer_text


class Notice(QWidget):
    """Says what has to be read before a figure is known; is not there where nothing has to be."""

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

    def tell(self, source: Source) -> None:
        """Say what keeps figures of a source from being known."""
        session = self._session
        ready = session.state is SurveyState.READY
        tensors, pairs = session.missing
        text = ""
        if source is Source.ERRORS and session.references.chosen is None:
            text = self.tr("Choose above what to compare with: errors are told against it.")
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
    """Return what the button that starts a survey says."""
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
