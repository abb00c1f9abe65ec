"""How far the reading of weights is, how fast it goes, and the button that ends it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QWidget

from explorer.present.explanations import picture_text
from explorer.qt.views.labels import plain_label
from explorer.qt.views.progress.pace import Pace
from explorer.quantization.kernel_sets import rounds_to

_STEPS = 1000


class ProgressLine(QWidget):
    """A line below a plot while it grows.

    Signals:
        cancel_requested: The user wants it to end.
        resume_requested: The user wants what was ended after all.
    """

    cancel_requested = Signal()
    resume_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.bar = QProgressBar(self)
        self.bar.setTextVisible(False)
        self.bar.setFixedWidth(160)
        self.bar.setAccessibleName(self.tr("Progress"))
        self.label = plain_label(self)
        self.label.setWhatsThis(picture_text("progress"))
        self.button = QPushButton(self.tr("Cancel"), self)
        self.button.clicked.connect(self._press)
        self._running = False
        self._pace = Pace()
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 2, 8, 4)
        layout.addWidget(self.bar)
        layout.addWidget(self.label, 1)
        layout.addWidget(self.button)
        # its place stays: a plot that changes its height with each tensor is hard to compare
        self.setFixedHeight(self.sizeHint().height())
        self.finish()

    @property
    def running(self) -> bool:
        """Whether something is under way."""
        return self._running

    def start(self, kernels: Sequence[str] = ()) -> None:
        """Tell that something begins.

        Args:
            kernels: Sets of kernels that have to be compiled first.
        """
        self._running = True
        self._pace.forget()
        self.bar.setRange(0, 0)
        text = self.tr("Preparing to read the weights…")
        if kernels:
            types = ", ".join(dict.fromkeys(map(rounds_to, kernels)))
            text = self.tr("Preparing the kernels for {types}…").format(types=types)
        self.label.setText(text)
        self.button.setText(self.tr("Cancel"))
        self.button.setToolTip(self.tr("Escape"))
        self._set_shown(True)

    def show_progress(self, done: int, total: int, nbytes: int) -> None:
        """Tell how far it is.

        Args:
            done: Weights walked over.
            total: What that will be.
            nbytes: Their stored bytes.
        """
        self.bar.setRange(0, _STEPS)
        self.bar.setValue(round(_STEPS * (done / total if total else 1.0)))
        self.label.setText(self._pace.text(done, total, nbytes))

    def stop(self) -> None:
        """Tell that it was cancelled; what was read so far stays in sight."""
        self._running = False
        reached = self.bar.value() * 100 // _STEPS if self.bar.maximum() else 0
        self.bar.setRange(0, _STEPS)
        self.bar.setValue(reached * _STEPS // 100)
        sentence = self.tr("Cancelled at {share} %: the figures are of the weights read so far.")
        self.label.setText(sentence.format(share=reached))
        self.button.setText(self.tr("Read on"))
        self.button.setToolTip("")

    def finish(self) -> None:
        """Take the line away."""
        self._running = False
        self._set_shown(False)

    def _set_shown(self, on: bool) -> None:
        for widget in (self.bar, self.label, self.button):
            widget.setVisible(on)

    def _press(self) -> None:
        if self._running:
            self.cancel_requested.emit()
        else:
            self.resume_requested.emit()
