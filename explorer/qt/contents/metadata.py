"""The panel Metadata: every key with its value."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6 import QtWidgets
from PySide6.QtCore import QByteArray

from explorer.formats import MetadataEntry
from explorer.formats.model import Value
from explorer.present.model import scalar_text, type_text
from explorer.present.tables.metadata import element_table, metadata_table, value_preview
from explorer.qt.document import Document, metadata_mask
from explorer.qt.jobs import JobSlot
from explorer.qt.selection import Selection
from explorer.qt.services import Services
from explorer.qt.widgets.building import NOTE, column
from explorer.qt.widgets.controls import split
from explorer.qt.widgets.labels import centred_label, plain_label
from explorer.qt.widgets.table_model import TableModel
from explorer.qt.widgets.table_view import ListPanel, TableView
from explorer.qt.widgets.text_view import TextView
from explorer.text import integer_text, plain_text, shorten

_LONGEST_KEY = 400
_LONGEST_TEXT = 1 << 16  # characters; a line of as many takes 300 ms to lay out
_LONGEST_LINE = 1 << 13


class MetadataView(QtWidgets.QWidget):
    """The metadata of a model."""

    def __init__(self, app: Services) -> None:
        super().__init__()
        self.app = app
        self.document: Document | None = None
        self._shown_moves = 0
        self.list = ListPanel(app, "Filter metadata by key, type or value", parent=self)
        self.value = ValueView(app, self)
        self.splitter = split(self, (self.list, 380), (self.value, 120), vertical=True)
        column(self.splitter, of=self)
        self.list.bar.changed.connect(self._filter)
        self.list.table.row_selected.connect(self._show_value)
        self.list.table.row_opened.connect(lambda _row: app.go("raw"))
        self._filter("")

    def show_document(self, document: Document | None, header: QByteArray) -> None:
        """Show a model's metadata; the filter stays."""
        self.document = document
        self.value.clear()
        if document is None:
            self.list.model.clear()
        else:
            table = metadata_table(document.keys.ranks, value_preview)
            self.list.table.show_rows(table, document.keys.rows, header)
        self._filter(self.list.bar.text)

    def follow(self, selection: Selection) -> None:
        """Show the selected entry; the filter is cleared if it hides it."""
        position, table = selection.key, self.list.table
        if position is None or selection.moves == self._shown_moves:
            return
        self._shown_moves = selection.moves
        if not table.select_row(position):
            self.list.bar.edit.clear()
            table.select_row(position)

    def focus_search(self) -> None:
        """Search in what has the focus: the value's text, or the list of keys."""
        focus = QtWidgets.QApplication.focusWidget()
        if isinstance(focus, QtWidgets.QWidget) and self.value.isAncestorOf(focus):
            self.value.text.focus_search()
        else:
            self.list.focus_search()

    def _filter(self, text: str) -> None:
        document = self.document
        if document is None or not document.model.metadata.entries:
            self.list.show_empty(
                "Open a model to see its metadata."
                if document is None
                else "This model carries no metadata."
            )
            self.list.bar.status.clear()
            return
        self.list.show_matches(
            metadata_mask(document, text) if text.strip() else None,
            "No key matches. Press Escape in the filter to see all.",
        )

    def _show_value(self, position: int) -> None:
        if self.document is not None:
            self.value.show_entry(self.document.model.metadata.entries[position])
            self.app.selection.select_key(position)


class ValueView(QtWidgets.QWidget):
    """One metadata value: a text with line numbers, or the elements of an array."""

    def __init__(self, app: Services, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self._jobs = JobSlot(app.runner, self)
        self._title = plain_label(self)
        self._title.setContentsMargins(*NOTE)
        self.text = TextView(self)
        self.elements = TableModel(self)
        self.array = TableView(self.elements, app, self)
        self._message = centred_label(self)
        self._stack = QtWidgets.QStackedWidget(self)
        for page in (self._message, self.text, self.array):
            self._stack.addWidget(page)
        column(self._title, (self._stack, 1), of=self)
        self.clear()

    def clear(self) -> None:
        """Show nothing."""
        self._jobs.cancel()
        self._title.clear()
        self._show_message("Select a key to see its whole value.")

    def show_entry(self, entry: MetadataEntry) -> None:
        """Show a value; one that lies on disk is read in the background."""
        self._jobs.cancel()
        key = shorten(plain_text(entry.key), _LONGEST_KEY)
        self._title.setText(f"{key}   ({type_text(entry)})")
        self._show_message("Reading…")
        job = self._jobs.run(
            f"Reading {plain_text(entry.key)}",
            lambda _job: entry.value,
            lambda value: self._show(entry, value),
            lambda error: self._show_message(plain_text(str(error))),
        )
        job.finished.connect(self._show_stopped)

    def _show(self, entry: MetadataEntry, value: Value) -> None:
        if isinstance(value, Sequence) and not isinstance(value, str):
            self.array.show_rows(element_table(entry.key, value), range(len(value)))
            self._stack.setCurrentWidget(self.array)
        else:
            text = value if isinstance(value, str) else scalar_text(value, key=entry.key)
            self.text.show_text(self._bounded(text))
            self._stack.setCurrentWidget(self.text)

    def _bounded(self, text: str) -> str:
        """Return as much of a text as can be laid out without holding up the window."""
        lines = text[:_LONGEST_TEXT].split("\n")
        shown = "\n".join(shorten(line, _LONGEST_LINE) for line in lines)
        if shown == text:
            return text
        note = (
            f"… cut: {integer_text(len(shown))} of {integer_text(len(text))} characters are shown. "
            "gguf-explorer inspect --json --metadata prints all"
        )
        return f"{shown}\n\n{note}"

    def _show_message(self, text: str) -> None:
        """Show a message in place of the value, which is not kept: its model may be closed."""
        self._message.setText(text)
        self._stack.setCurrentWidget(self._message)
        self.text.clear()
        self.elements.clear()

    def _show_stopped(self) -> None:
        if self._jobs.stopped:
            self._show_message("Reading was cancelled. Select the key again to start anew.")
