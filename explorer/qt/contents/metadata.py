"""The metadata panel: keys above, the selected value below."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QByteArray, QCoreApplication, Qt, Signal
from PySide6.QtWidgets import QApplication, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from explorer.errors import ExplorerError
from explorer.formats import MetadataEntry, NumberArray
from explorer.formats.columns import text_ranks
from explorer.formats.model import Value
from explorer.present.explanations import array_texts, metadata_texts
from explorer.present.model import scalar_text, type_text
from explorer.qt.document import Document
from explorer.qt.jobs import JobRunner, JobSlot
from explorer.qt.selection import Selection
from explorer.qt.widgets.labels import plain_label
from explorer.qt.widgets.table_model import Cell, Column, TableModel
from explorer.qt.widgets.table_view import ListPanel, TableView
from explorer.qt.widgets.text_view import TextView
from explorer.text import integer_text, plain_text

_CELL_CHARACTERS = 400


def array_columns(key: str, elements: Sequence[Value]) -> list[Column]:
    """Return the columns of an array's elements.

    Args:
        key: The metadata key, for the names of enumerated values.
        elements: The decoded elements.
    """

    def tr(text: str) -> str:
        return QCoreApplication.translate("ArrayTable", text)

    def text(row: int) -> str:
        return scalar_text(elements[row], _CELL_CHARACTERS, key)

    def raw(row: int) -> Cell:
        value = elements[row]
        if isinstance(value, str):
            return plain_text(value)
        return value if isinstance(value, bool | int | float) else scalar_text(value)

    def places() -> np.ndarray:
        return np.arange(len(elements))

    def keys() -> np.ndarray:
        return elements.values if isinstance(elements, NumberArray) else places()

    numeric, tips = isinstance(elements, NumberArray), array_texts()
    return [
        Column("index", tr("Index"), integer_text, int, places, True, tip=tips["index"]),
        Column("value", tr("Value"), text, raw, keys, numeric, tip=tips["value"]),
    ]


def metadata_columns(document: Document) -> list[Column]:
    """Return the columns of a model's metadata."""
    entries = document.model.metadata.entries
    keys = [plain_text(entry.key) for entry in entries]
    types = [type_text(entry) for entry in entries]
    previews = document.previews
    tips = metadata_texts()

    def column(name: str, title: str, texts: Sequence[str]) -> Column:
        cell = texts.__getitem__
        return Column(name, title, cell, cell, lambda: text_ranks(texts), tip=tips[name])

    def tr(text: str) -> str:
        return QCoreApplication.translate("MetadataTable", text)

    return [
        column("key", tr("Key"), keys),
        column("type", tr("Type"), types),
        column("value", tr("Value"), previews),
    ]


def metadata_mask(document: Document, text: str) -> NDArray[np.bool_]:
    """Return which entries hold every word of `text` in key, type or value."""
    words = text.casefold().split()
    entries = document.model.metadata.entries
    return np.array(
        [
            all(word in f"{entry.key} {entry.type_name} {preview}".casefold() for word in words)
            for entry, preview in zip(entries, document.previews, strict=True)
        ],
        dtype=np.bool_,
    )


class MetadataView(QWidget):
    """The metadata of a model.

    Attributes:
        document: The model.

    Signals:
        key_selected: The user chose an entry; its position.
    """

    key_selected = Signal(int)

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.document: Document | None = None
        self._shown_moves = 0
        self.list = ListPanel(runner, self.tr("Filter metadata by key, type or value"), parent=self)
        self.list.table.setAccessibleName(self.tr("Metadata"))
        self.value = ValueView(runner, self)
        self.splitter = QSplitter(Qt.Orientation.Vertical, self)
        self.splitter.addWidget(self.list)
        self.splitter.addWidget(self.value)
        self.splitter.setStretchFactor(0, 3)
        self.splitter.setStretchFactor(1, 2)
        self.splitter.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.splitter)
        self.list.bar.changed.connect(self._filter)
        self.list.table.row_selected.connect(self._show_value)

    def show_document(self, document: Document | None, header: QByteArray) -> None:
        """Show a model's metadata; the filter stays."""
        self.document = document
        self.value.clear()
        if document is None:
            self.list.model.set_content((), 0)
        else:
            self.list.model.set_content(
                metadata_columns(document), len(document.model.metadata.entries)
            )
            self.list.table.show_columns(header)
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
        if self.value.holds_focus():
            self.value.focus_search()
        else:
            self.list.focus_search()

    def _filter(self, text: str) -> None:
        document = self.document
        if document is None or not document.model.metadata.entries:
            self.list.show_empty(
                self.tr("Open a model to see its metadata.")
                if document is None
                else self.tr("This model carries no metadata.")
            )
            self.list.bar.status.clear()
            return
        self.list.model.set_filter(metadata_mask(document, text) if text.strip() else None)
        shown, total = self.list.model.rowCount(), self.list.model.content_count
        self.list.bar.status.setText(
            self.tr("{shown} of {all}").format(shown=integer_text(shown), all=integer_text(total))
        )
        if shown:
            self.list.show_table()
        else:
            self.list.show_empty(self.tr("No key matches. Press Escape in the filter to see all."))

    def _show_value(self, position: int) -> None:
        if self.document is not None:
            self.value.show_entry(self.document.model.metadata.entries[position])
            self.key_selected.emit(position)


class ValueView(QWidget):
    """One metadata value: text with line numbers, or the elements of an array."""

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._jobs = JobSlot(runner, self)
        self._title = plain_label(self)
        self._title.setContentsMargins(8, 4, 8, 4)
        self.text = TextView(self)
        self.elements = TableModel(self)
        self.array = TableView(self.elements, runner, self)
        self.array.setAccessibleName(self.tr("Elements of the array"))
        self._message = plain_label(self)
        self._message.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._message.setWordWrap(True)
        self._stack = QStackedWidget(self)
        for page in (self._message, self.text, self.array):
            self._stack.addWidget(page)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._title)
        layout.addWidget(self._stack, 1)
        self.clear()

    def clear(self) -> None:
        """Show nothing."""
        self._jobs.cancel()
        self._title.clear()
        self._say(self.tr("Select a key to see its whole value."))

    def show_entry(self, entry: MetadataEntry) -> None:
        """Show a value; one that lies on disk is read in the background."""
        self._jobs.cancel()
        self._title.setText(f"{plain_text(entry.key)}   ({type_text(entry)})")
        self._say(self.tr("Reading…"))
        job = self._jobs.run(
            self.tr("Reading {key}").format(key=plain_text(entry.key)),
            lambda _job: entry.value,
            lambda value: self._show(entry, value),
            self._show_failure,
        )
        job.finished.connect(self._show_stopped)

    def holds_focus(self) -> bool:
        """Whether the keyboard is in here."""
        focus = QApplication.focusWidget()
        return isinstance(focus, QWidget) and self.isAncestorOf(focus)

    def focus_search(self) -> None:
        """Open the search in the text."""
        self.text.focus_search()

    def _show(self, entry: MetadataEntry, value: Value) -> None:
        if isinstance(value, str):
            self.text.show_text(value)
            self._stack.setCurrentWidget(self.text)
        elif isinstance(value, Sequence):
            self.elements.set_content(array_columns(entry.key, value), len(value))
            self.array.show_columns(QByteArray())
            self._stack.setCurrentWidget(self.array)
        else:
            self.text.show_text(scalar_text(value, key=entry.key))
            self._stack.setCurrentWidget(self.text)

    def _show_failure(self, error: ExplorerError) -> None:
        self._say(plain_text(str(error)))

    def _say(self, text: str) -> None:
        """Say something in place of a value, which is not kept: its model may be closed."""
        self._message.setText(text)
        self._stack.setCurrentWidget(self._message)
        self.text.clear()
        self.elements.set_content((), 0)

    def _show_stopped(self) -> None:
        if self._jobs.stopped:
            self._say(self.tr("Reading was cancelled. Select the key again to start anew."))
