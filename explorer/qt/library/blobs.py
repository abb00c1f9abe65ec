"""The list of blobs: each file of a store once, with every model that uses it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from PySide6.QtCore import QByteArray, QItemSelection, QItemSelectionModel, Signal
from PySide6.QtWidgets import QWidget

from explorer.parallel import Check
from explorer.present.explanations import BLOB_TEXTS
from explorer.present.stores import part_text, reclaimable_text, removal_of_files
from explorer.qt.library.nodes import size_text, user_lines
from explorer.qt.library.rows import title_of
from explorer.qt.services import Services
from explorer.qt.widgets.building import column
from explorer.qt.widgets.table_model import Column, RowColumns, TableModel
from explorer.qt.widgets.table_view import TableView
from explorer.stores import Blob, Store, identify
from explorer.text import bytes_text, integer_text, plain_text, shorten

_SHOWN_USERS: Final = 20  # an empty licence may be shared by 2,000 models
_LONGEST_CELL: Final = 400
_SHOWN_DIGEST: Final = 20  # whole below the list, and when it is copied


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One blob, or one unfinished download.

    Attributes:
        blob: The file; of an unfinished download, its name stands in place of a digest.
        store: The program whose store it is in.
        finished: Whether it is a blob.
        part: What it is, in words.
        removal: The command that removes it, of what no model uses; else empty.
        state: Whether it is used, in words.
        users: The models that use it, as a cell shows them.
        searched: The words that the filter searches.
    """

    blob: Blob
    store: str
    finished: bool
    part: str
    removal: str
    state: str
    users: str
    searched: str


def stored_files(stores: Iterable[Store], check: Check = lambda: None) -> list[StoredFile]:
    """Return the files, those that belong to nobody first, then the largest. For a worker.

    Args:
        stores: The stores, read to their end.
        check: Called for every file; raises to give up.
    """
    found = []
    for store in stores:
        program = store.kind.program
        partials = (Blob(part.path.name, part.path, part.nbytes, ()) for part in store.partials)
        for blobs, finished in ((store.blobs, True), (partials, False)):
            for blob in blobs:
                check()
                state, users = _state(blob, finished), _users_text(blob.used_by)
                orphan = finished and not blob.used_by
                part = part_text(identify(blob.path, check) if orphan else blob.part)
                part = part if finished else "Part of a download"
                removal = removal_of_files([blob.path]) if orphan or not finished else ""
                words = (blob.digest, part, state, program, *blob.used_by)
                searched = "\n".join(words).casefold()
                found.append(
                    StoredFile(blob, program, finished, part, removal, state, users, searched)
                )
    return sorted(found, key=lambda file: (bool(file.blob.used_by), -file.blob.nbytes))


def _state(blob: Blob, finished: bool) -> str:
    if not finished:
        return "⚠ unfinished download"
    if not blob.used_by:
        return "⚠ orphan: used by no model"
    return "shared" if len(blob.used_by) > 1 else "used"


def _users_text(names: Sequence[str]) -> str:
    text = ", ".join(map(title_of, names[:_SHOWN_USERS]))
    if len(text) > _LONGEST_CELL:
        text = text[:_LONGEST_CELL] + "…"
    more = len(names) - _SHOWN_USERS
    return f"{text} and {more} more" if more > 0 else text


def _columns(files: Sequence[StoredFile]) -> list[Column]:
    def digest_text(digest: str) -> str:
        return shorten(title_of(digest), _SHOWN_DIGEST)

    def models(file: StoredFile) -> int:
        return len(file.blob.used_by)

    table = RowColumns(files, BLOB_TEXTS)
    part = table.words("part", "What it is", lambda file: file.part)
    used_by = table.words("used_by", "Used by", lambda file: file.users)
    return [
        replace(part, stretches=True),
        replace(used_by, stretches=True, spare=-1),
        table.number("bytes", "Size", lambda file: file.blob.nbytes, bytes_text),
        table.words("state", "State", lambda file: file.state),
        table.number("models", "Models", models, integer_text),
        table.words("store", "Store", lambda file: file.store),
        table.words("blob", "Blob", lambda file: file.blob.digest, digest_text),
    ]


def blob_facts(file: StoredFile) -> str:
    """Return what is known of a blob, in lines of plain text."""
    lines = ["   ·   ".join((file.part, file.store, file.state, size_text(file.blob.nbytes)))]
    lines.append(plain_text(str(file.blob.path)))
    if not file.finished:
        lines.append("Download the model again to complete it, or remove the file.")
    elif not file.blob.used_by:
        lines.append(
            "No model in this store uses this blob: a removed model may have left it, or a "
            "manifest cannot be read. Ollama deletes such blobs when it starts."
        )
    if file.removal:
        lines += ["", "The command that removes it:", file.removal]
    return "\n".join([*lines, *user_lines(file.blob.used_by)])


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
        self._text = ""
        self._state = QByteArray()
        self.model = TableModel(self)
        self.table = TableView(self.model, app, self)
        self.table.setAccessibleName("Blobs")
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
        state = self.table.columns_state() if self.model.columns else self._state
        self.files = files
        self.model.set_content(_columns(files), len(files))
        hidden = {"models"} if len({file.store for file in files}) > 1 else {"models", "store"}
        self.table.show_columns(state, hidden)
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
        found = (all(word in file.searched for word in words) for file in self.files)
        self.model.set_filter(np.fromiter(found, np.bool_) if words else None)

    def selected_files(self) -> list[StoredFile]:
        """Return the blobs selected."""
        rows = self.table.selected_content_rows().tolist() if self.files else []
        return [self.files[row] for row in rows]

    def current_file(self) -> StoredFile | None:
        """Return the blob of the current row."""
        index = self.table.currentIndex()
        return self.files[self.model.content_row(index)] if index.isValid() else None

    def count_text(self) -> str:
        """Return how many blobs are shown."""
        shown, everything = map(integer_text, (self.model.rowCount(), len(self.files)))
        return f"{shown} of {everything}"

    def summary(self) -> str:
        """Return the sum of the selection, or else of all that is shown."""
        chosen, shown = self.selected_files(), [self.files[row] for row in self.model.rows.tolist()]
        if chosen:
            return (
                f"{integer_text(len(chosen))} of {integer_text(len(shown))} blobs selected: "
                f"{_size(chosen)}"
            )
        text = (
            f"{integer_text(len(shown))} of {integer_text(len(self.files))} blobs, {_size(shown)}"
        )
        free = [file for file in shown if file.removal]
        more = reclaimable_text(len(free), sum(file.blob.nbytes for file in free))
        return f"{text}   ·   {more}" if more else text

    def removals(self) -> list[str]:
        """Return the commands that remove what belongs to nobody: what is selected, or else all."""
        chosen = [file.removal for file in self.selected_files() if file.removal]
        return chosen or [file.removal for file in self.files if file.removal]


def _size(files: Iterable[StoredFile]) -> str:
    return bytes_text(sum(file.blob.nbytes for file in files))
