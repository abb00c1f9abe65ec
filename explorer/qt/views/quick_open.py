"""Ctrl+K: type a part of any name and go there."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QModelIndex, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QDialog, QLineEdit, QListView, QVBoxLayout, QWidget

from explorer.errors import ExplorerError
from explorer.qt.jobs import JobRunner
from explorer.qt.models.quick_open.found_list import FoundList
from explorer.qt.models.quick_open.search import Found, Shelf, search
from explorer.qt.views.labels import plain_label
from explorer.qt.views.progress.job_slot import JobSlot
from explorer.qt.views.tables.roomy_delegate import RoomyDelegate
from explorer.text import integer_text, plain_text

_MOVES = (Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_PageDown, Qt.Key.Key_PageUp)


class QuickOpen(QDialog):
    """A search line over a list of results, which are looked for in the background.

    Attributes:
        edit: The search line.
        found: What was found.
        results: Shows it.
        status: How much there is of it.

    Signals:
        chosen: The user chose an entry.
    """

    chosen = Signal(object)

    def __init__(
        self, shelves: Sequence[Shelf], runner: JobRunner, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Go to"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._shelves = shelves
        self._jobs = JobSlot(runner, self)
        self._choose_when_found = False
        self.edit = QLineEdit(self)
        self.edit.setPlaceholderText(self.tr("Model, metadata key, tensor or command"))
        self.edit.setAccessibleName(self.tr("Go to"))
        self.edit.installEventFilter(self)
        self.found = FoundList(self)
        self.results = QListView(self)
        self.results.setModel(self.found)
        self.results.setUniformItemSizes(True)
        self.results.setItemDelegate(RoomyDelegate(self.results))
        self.results.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.results.setAccessibleName(self.tr("Results"))
        self.results.activated.connect(self._choose)
        self.status = plain_label(self)
        self.status.setEnabled(False)
        layout = QVBoxLayout(self)
        layout.addWidget(self.edit)
        layout.addWidget(self.results)
        layout.addWidget(self.status)
        self.resize(680, 460)
        self.edit.textChanged.connect(self._search)
        self.edit.returnPressed.connect(self._choose_current)
        self._search("")

    def _search(self, text: str) -> None:
        self._choose_when_found = False
        self._jobs.run(
            self.tr("Searching names"),
            lambda job: search(self._shelves, text, job.check),
            self._show,
            self._show_failure,
        )

    def _show(self, found: Found) -> None:
        self.found.set_entries(found.entries)
        self.results.setCurrentIndex(self.found.index(0))
        shown = len(found.entries)
        if not shown:
            text = self.tr("Nothing has all of these words in its name.")
        elif shown < found.count:
            text = self.tr("The best {shown} of {all}").format(
                shown=integer_text(shown), all=integer_text(found.count)
            )
        else:
            text = self.tr("{count} found").format(count=integer_text(shown))
        self.status.setText(text)
        if self._choose_when_found:
            self._choose_current()

    def _show_failure(self, error: ExplorerError) -> None:
        self.status.setText(plain_text(str(error)))

    def _choose_current(self) -> None:
        if self._jobs.busy:  # what is shown belongs to an earlier text
            self._choose_when_found = True
        else:
            self._choose(self.results.currentIndex())

    def _choose(self, index: QModelIndex) -> None:
        if index.isValid():
            self.chosen.emit(self.found.entries[index.row()])
            self.accept()

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # the list is moved through while the cursor stays in the line
        if watched is self.edit and isinstance(event, QKeyEvent):
            pressed = event.type() == QEvent.Type.KeyPress
            if pressed and event.key() in _MOVES:
                self.results.keyPressEvent(event)
                return True
        return super().eventFilter(watched, event)
