"""How far the measuring of types is, how long it will take, and the buttons that hold or end it."""

from __future__ import annotations

import time

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QWidget

from explorer.present.explanations import picture_text
from explorer.qt.models.what_if.work import WhatIfState
from explorer.qt.views.elided_label import ElidedLabel
from explorer.qt.views.progress.pace import duration_text

_STEPS = 1000
_FORESEEABLE_S = 2.0  # the time that is left says nothing before that


class WhatIfProgress(QWidget):
    """A line below the table.

    Attributes:
        start: Starts, or goes on with what was cancelled.
        pause: Pauses, and lets it go on.
        cancel: Ends it; what was found stays.
        label: How far it is, in words.

    Signals:
        start_requested: The user wants what is not known.
        pause_requested: The user wants it to wait, or to go on.
        cancel_requested: The user wants it to end.
    """

    start_requested = Signal()
    pause_requested = Signal()
    cancel_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._first: tuple[float, int] | None = None
        self._text = ""
        self.bar = QProgressBar(self)
        self.bar.setTextVisible(False)
        self.bar.setFixedWidth(160)
        self.bar.setRange(0, _STEPS)
        self.bar.setAccessibleName(self.tr("Progress"))
        self.label = ElidedLabel(self)
        self.label.setWhatsThis(picture_text("progress"))
        self.start = QPushButton(self)
        self.start.clicked.connect(self.start_requested)
        self.pause = QPushButton(self)
        self.pause.clicked.connect(self.pause_requested)
        self.cancel = QPushButton(self.tr("Cancel"), self)
        self.cancel.setToolTip(self.tr("Escape; what is known stays known"))
        self.cancel.clicked.connect(self.cancel_requested)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 2, 8, 4)
        layout.addWidget(self.bar)
        layout.addWidget(self.label, 1)
        for button in (self.start, self.pause, self.cancel):
            layout.addWidget(button)
        # its place stays: a chart that changes its height is hard to look at
        self.setFixedHeight(self.sizeHint().height())
        self.rest("", "")

    def rest(self, text: str, button: str) -> None:
        """Tell what there is while nothing is under way.

        Args:
            text: What there is.
            button: What starting would do; "" if there is nothing to do.
        """
        self._show(running=False, startable=bool(button))
        self.start.setText(button)
        self.label.setText(text)

    def begin(self, text: str) -> None:
        """Tell that something begins."""
        self._first = None
        self.bar.setValue(0)
        self._text = text
        self.set_paused(False)
        self._show(running=True, startable=False)

    def set_paused(self, on: bool) -> None:
        """Tell whether it waits."""
        self._first = None  # a pause is no time that anything took
        self.pause.setText(self.tr("&Resume") if on else self.tr("&Pause"))
        self.label.setText(self.tr("Paused") if on else self._text)

    def show_state(self, state: WhatIfState) -> None:
        """Tell how far it is."""
        share = state.done / state.total if state.total else 1.0
        self.bar.setValue(round(_STEPS * share))
        text = self.tr("{share:.0f} %").format(share=100 * share)
        if state.type_name:
            text += self.tr("   {type}").format(type=state.type_name)
        now = time.monotonic()
        if self._first is None:
            self._first = now, state.done
        start, first = self._first
        if now - start > _FORESEEABLE_S and state.done > first:
            left = (state.total - state.done) * (now - start) / (state.done - first)
            text += self.tr("   {time} left").format(time=duration_text(left))
        self._text = text
        self.label.setText(text)

    def _show(self, *, running: bool, startable: bool) -> None:
        for widget in (self.bar, self.pause, self.cancel):
            widget.setVisible(running)
        self.start.setVisible(startable)
