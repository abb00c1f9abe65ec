"""The search line of the raw view: what to find, in which direction, and how far it has come."""

from __future__ import annotations

from functools import partial
from typing import Final, Literal

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLineEdit, QProgressBar, QToolButton, QWidget

from explorer.errors import ExplorerError
from explorer.qt.jobs import Job, JobRunner, JobSlot
from explorer.qt.raw.hex_paint import parse_pattern
from explorer.sources import ByteSource
from explorer.sources.search import ByteSearch, Found

_PROGRESS_STEPS: Final = 1000
_LONGEST_TEXT: Final = 4096


class RawSearch(QWidget):
    """Searches a file for bytes in the background.

    Attributes:
        edit: What to find.
        mode: How it is meant, hex or text.

    Signals:
        wanted: The user wants the next place (True) or the one before.
        found: The bytes were found; carries a `Found`.
        noted: A sentence about the search; an empty one hides the last.
        left: The user is done with searching.
    """

    wanted = Signal(bool)
    found = Signal(object)
    noted = Signal(str)
    left = Signal()

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._slot = JobSlot(runner, self)
        self.edit = QLineEdit(self)
        self.edit.setMaxLength(_LONGEST_TEXT)
        self.edit.setClearButtonEnabled(True)
        self.edit.setMinimumWidth(110)
        self.edit.setAccessibleName(self.tr("Find bytes"))
        self.edit.returnPressed.connect(partial(self.wanted.emit, True))
        self.edit.textEdited.connect(self._edited)
        self.mode = QComboBox(self)
        self.mode.addItem(self.tr("Hex"), "hex")
        self.mode.addItem(self.tr("Text"), "text")
        self.mode.setAccessibleName(self.tr("What to find: hex digits or text"))
        self.mode.setToolTip(self.tr("What to find: hex digits or text"))
        self.mode.currentIndexChanged.connect(self._mode_changed)
        self._back = self._button("▲", self.tr("Find previous (Shift+F3)"), forward=False)
        self._next = self._button("▼", self.tr("Find next (F3)"), forward=True)
        self._progress = QProgressBar(self)
        self._progress.setRange(0, _PROGRESS_STEPS)
        self._progress.setMaximumWidth(90)
        self._progress.setAccessibleName(self.tr("Progress of the search"))
        self._stop = QToolButton(self)
        self._stop.setText(self.tr("Stop"))
        self._stop.setToolTip(self.tr("Stop searching (Escape)"))
        self._stop.clicked.connect(self.escape)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.edit, 1)
        for widget in (self.mode, self._back, self._next, self._progress, self._stop):
            layout.addWidget(widget)
        self._mode_changed()
        self._show_busy(False)

    @property
    def busy(self) -> bool:
        """Whether a search is under way."""
        return self._slot.busy

    def focus(self) -> None:
        """Put the cursor into the search line and select its text."""
        self.edit.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.edit.selectAll()

    def cancel(self) -> None:
        """Stop the search, if one is under way."""
        self._slot.cancel()
        self._show_busy(False)

    def escape(self) -> None:
        """Stop the search; or else clear the text; or else leave the line."""
        if self.busy:
            self.cancel()
            self.noted.emit(self.tr("The search was stopped."))
        elif self.edit.text():
            self.edit.clear()
            self.noted.emit("")
        else:
            self.left.emit()

    def start(self, source: ByteSource, offset: int, *, forward: bool) -> None:
        """Search.

        Args:
            source: The file.
            offset: Forwards, the first place where the bytes may begin; backwards, the first
                where they may not.
            forward: Direction.
        """
        kind: Literal["hex", "text"] = "hex" if self.mode.currentData() == "hex" else "text"
        pattern = parse_pattern(self.edit.text(), kind)
        if pattern is None:
            self.noted.emit(
                self.tr("Type what to find.")
                if kind == "text" or not self.edit.text().strip()
                else self.tr("Type pairs of hex digits, such as “de ad be ef”, or choose Text.")
            )
            return

        def search(job: Job) -> Found | None:
            return ByteSearch(source, pattern, offset, forward, job.check, job.report).run()

        self.noted.emit("")
        job = self._slot.run(self.tr("Searching bytes"), search, self._done, self._failed)
        job.progressed.connect(self._progressed)
        job.finished.connect(self._ended)
        self._progress.setValue(0)
        self._show_busy(True)

    def _button(self, text: str, tip: str, *, forward: bool) -> QToolButton:
        button = QToolButton(self)
        button.setText(text)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        button.setAutoRaise(True)
        button.clicked.connect(lambda: self.wanted.emit(forward))
        return button

    def _edited(self) -> None:
        self.cancel()
        self.noted.emit("")

    def _mode_changed(self) -> None:
        hexadecimal = self.mode.currentData() == "hex"
        self.edit.setPlaceholderText(
            self.tr("Find bytes: de ad be ef") if hexadecimal else self.tr("Find text")
        )

    def _progressed(self, done: int, total: int) -> None:
        if self.busy and total:
            self._progress.setValue(done * _PROGRESS_STEPS // total)

    def _ended(self) -> None:
        """Hide the progress, also after a fault of the program or a stop from elsewhere."""
        if not self.busy:
            self._show_busy(False)

    def _done(self, found: Found | None) -> None:
        if found is None:
            self.noted.emit(self.tr("Not found in this file."))
            return
        if found.wrapped:
            self.noted.emit(self.tr("Found past the end of the file, from its other end on."))
        self.found.emit(found)

    def _failed(self, error: ExplorerError) -> None:
        self.noted.emit(self.tr("The search failed: {reason}").format(reason=error))

    def _show_busy(self, busy: bool) -> None:
        self._progress.setVisible(busy)
        self._stop.setVisible(busy)
