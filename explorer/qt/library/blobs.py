"""The list of blobs: each file of a store once, with every model that uses it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from PySide6.QtCore import QByteArray, QItemSelection, QItemSelectionModel, Signal
from PySide6.QtWidgets import QWidget

from explorer.present.stores import reclaimable_text
from explorer.present.tables.library import (
    FILES,
    StoredFile,
    duplicates_text,
    file_table,
    removals_of,
)
from explorer.present.tables.lines import Line, line
from explorer.qt.library.nodes import users_fact
from explorer.qt.services import Services
from explorer.qt.widgets.building import column
from explorer.qt.widgets.table_model import TableModel
from explorer.qt.widgets.table_view import TableView
from explorer.text import bytes_text, counted, integer_text, plain_text


def blob_facts(file: StoredFile) -> list[Line]:
    """Return what is known of a blob, and the command that removes it."""
    state = file.state
    if not file.finished:
        state = "Download the model again to complete it, or remove the file."
    elif not file.blob.used_by:
        state = (
            "No model in this store uses this file. A removed model may have left it, or a "
            "manifest cannot be read. Ollama deletes such files when it starts."
        )
    what = "Remove its model" if file.is_blob and file.blob.used_by else "Remove it"
    size = FILES["bytes"]
    facts = [
        (what, f"{file.command}\nfrees {bytes_text(file.frees)}" if file.command else ""),
        (FILES["part"].head, f"{file.part} of {file.store}"),
        (FILES["state"].head, state),
        ("Same content", file.same_as),
        ("Where", plain_text(str(file.blob.path))),
        (size.head, size.exact(file)),
        users_fact(file.blob.used_by),
    ]
    return [line(title, text) for title, text in facts if text]


def _searched(file: StoredFile) -> str:
    words = (file.blob.digest, file.part, file.state, file.store, *file.blob.used_by)
    return "\n".join(words).casefold()


class BlobsPage(QWidget):
    """The table of the blobs of all stores.

    Signals:
        file_chosen: Another blob is current; a `StoredFile`.
        opened: The user entered or double-clicked a blob; a `StoredFile`.
    """

    file_chosen = Signal(object)
    opened = Signal(object)

    def __init__(self, app: Services, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.files: Sequence[StoredFile] = ()
        self._searched: Sequence[str] = ()  # the words of each that the filter searches
        self._text = ""
        self._state = QByteArray()
        self.model = TableModel(self)
        self.table = TableView(self.model, app, self)
        self.table.of_model = False
        self.table.customContextMenuRequested.disconnect()  # the panel's menu holds the table's
        self.table.row_selected.connect(lambda row: self.file_chosen.emit(self.files[row]))
        self.table.row_opened.connect(lambda row: self.opened.emit(self.files[row]))
        column(self.table, of=self)

    def restore(self, state: QByteArray) -> None:
        """Restore widths and order of the columns."""
        self._state = state

    def show_blobs(self, files: Sequence[StoredFile]) -> None:
        """Show blobs; what is selected stays selected, and the scroll bar where it is."""
        chosen = {file.blob.path for file in self.selected_files()}
        place = self.table.verticalScrollBar().value()
        state = self.table.columns_state() if self.files else self._state
        self.files, self._searched = files, [_searched(file) for file in files]
        self.table.show_rows(file_table(files), files, state)
        self.filter(self._text)
        selection = QItemSelection()
        for row, number in enumerate(self.model.rows.tolist() if chosen else ()):
            if files[number].blob.path in chosen:
                index = self.model.index(row, 0)
                selection.select(index, index)
        flags = QItemSelectionModel.SelectionFlag
        self.table.selectionModel().select(selection, flags.ClearAndSelect | flags.Rows)
        self.table.verticalScrollBar().setValue(place)

    def filter(self, text: str) -> None:
        """Show only the blobs that hold every word of a text."""
        self._text = text
        words = text.casefold().replace("sha256:", "sha256-").split()
        found = (all(word in text for word in words) for text in self._searched)
        self.model.set_filter(np.fromiter(found, np.bool_) if words else None)

    def selected_files(self) -> list[StoredFile]:
        rows = self.table.selected_content_rows().tolist() if self.files else []
        return [self.files[row] for row in rows]

    def current_file(self) -> StoredFile | None:
        index = self.table.currentIndex()
        return self.files[self.model.content_row(index)] if index.isValid() else None

    def count_text(self) -> str:
        """Return how many files are shown."""
        shown, everything = self.model.rowCount(), counted(len(self.files), "file")
        return everything if shown == len(self.files) else f"{integer_text(shown)} of {everything}"

    def summary(self) -> str:
        """Return the sum of the selection, or else of all that is shown."""
        chosen, shown = self.selected_files(), [self.files[row] for row in self.model.rows.tolist()]
        if chosen:
            text = f"{counted(len(chosen), 'file')} selected: {_size(chosen)} on disk"
            frees = sum(removals_of(chosen).values())
            them = "it" if len(chosen) == 1 else "them"
            return f"{text}   ·   removing {them} frees {bytes_text(frees)}" if frees else text
        free = [file for file in shown if file.removal]
        more = reclaimable_text(len(free), sum(file.blob.nbytes for file in free))
        parts = f"{_size(shown)} on disk", more, duplicates_text(shown)
        return "   ·   ".join(filter(None, parts))

    def removals(self) -> dict[str, int]:
        """Return the commands that remove what is selected, or else what is unused; see there."""
        chosen = removals_of(self.selected_files())
        return chosen or removals_of(file for file in self.files if file.removal)


def _size(files: Iterable[StoredFile]) -> str:
    return bytes_text(sum(file.blob.nbytes for file in files))
