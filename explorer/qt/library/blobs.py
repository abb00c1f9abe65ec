"""The table of blobs: each file of a store once, with every model that uses it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QByteArray, QItemSelection, QItemSelectionModel, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from explorer.formats.columns import text_ranks
from explorer.present.explanations import blob_texts
from explorer.qt.jobs import JobRunner
from explorer.qt.library.nodes import size_text, user_lines
from explorer.qt.library.rows import PROGRAM, title_of, translate
from explorer.qt.widgets.table_model import Column, TableModel
from explorer.qt.widgets.table_view import TableView
from explorer.stores import Store
from explorer.stores.entries import Check
from explorer.text import bytes_text, integer_text, plain_text, shorten

_CHECK_EVERY: Final = 256
_SHOWN_USERS: Final = 20  # an empty licence may be shared by 2,000 models
_LONGEST_CELL: Final = 400
_SHOWN_DIGEST: Final = 32  # whole below the list, and when it is copied


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One blob, or one unfinished download.

    Attributes:
        digest: The blob's name; of an unfinished download, the file's.
        path: The file.
        nbytes: Its size.
        used_by: Names of the models that use it.
        store: Whose store it is in.
        finished: Whether it is a blob.
    """

    digest: str
    path: Path
    nbytes: int
    used_by: tuple[str, ...]
    store: str
    finished: bool = True

    @property
    def state(self) -> str:
        """Whether it is used, in words."""
        if not self.finished:
            return translate("⚠ unfinished download")
        if not self.used_by:
            return translate("⚠ orphan: used by no model")
        return translate("shared") if len(self.used_by) > 1 else translate("used")


class BlobList:
    """All blobs of all stores, as columns. Made in a worker.

    Args:
        stores: The stores.
        check: Called for some hundred blobs; raises to give up.

    Attributes:
        files: The blobs, then the unfinished downloads, store by store.
    """

    def __init__(self, stores: Iterable[Store], check: Check = lambda: None) -> None:
        self.files: list[StoredFile] = []
        for store in stores:
            name = PROGRAM[store.kind]
            self.files += [
                StoredFile(blob.digest, blob.path, blob.nbytes, blob.used_by, name)
                for blob in store.blobs
            ]
            self.files += [
                StoredFile(part.path.name, part.path, part.nbytes, (), name, finished=False)
                for part in store.partials
            ]
        self._searched: list[str] = []
        self._users: list[str] = []
        for number, file in enumerate(self.files):
            if number % _CHECK_EVERY == 0:
                check()
            words = (file.digest, file.state, file.store, *file.used_by)
            self._searched.append("\n".join(words).casefold())
            self._users.append(_users_text(file.used_by))
        # sorting must not wait for texts to be compared
        _, self.name_ranks = np.unique([f.digest for f in self.files], return_inverse=True)
        self.user_ranks = text_ranks([text.casefold() for text in self._users], check)
        self.state_ranks = text_ranks([file.state for file in self.files])
        self.store_ranks = text_ranks([file.store for file in self.files])

    @cached_property
    def nbytes(self) -> NDArray[np.int64]:
        """Sizes, int64 [n]."""
        return np.array([file.nbytes for file in self.files], np.int64)

    @cached_property
    def orphaned(self) -> NDArray[np.bool_]:
        """Which are blobs that no model uses, bool [n]."""
        return np.array([file.finished and not file.used_by for file in self.files], np.bool_)

    @cached_property
    def user_counts(self) -> NDArray[np.int64]:
        """How many models use each, int64 [n]."""
        return np.array([len(file.used_by) for file in self.files], np.int64)

    def mask(self, text: str) -> NDArray[np.bool_] | None:
        """Return which blobs hold every word of a text, bool [n]; None if it has no words."""
        words = text.casefold().replace("sha256:", "sha256-").split()
        if not words:
            return None
        found = (all(word in searched for word in words) for searched in self._searched)
        return np.fromiter(found, np.bool_, len(self._searched))

    def columns(self) -> list[Column]:
        """Return the columns of the table."""
        files, tips = self.files, blob_texts()

        def users(row: int) -> str:
            return self._users[row]

        return [
            Column(
                "blob",
                translate("Blob"),
                lambda row: shorten(title_of(files[row].digest), _SHOWN_DIGEST),
                lambda row: files[row].digest,
                lambda: self.name_ranks,
                tip=tips["blob"],
            ),
            Column(
                "bytes",
                translate("Size on disk"),
                lambda row: bytes_text(files[row].nbytes),
                lambda row: files[row].nbytes,
                lambda: self.nbytes,
                numeric=True,
                tip=tips["bytes"],
            ),
            Column(
                "state",
                translate("State"),
                lambda row: files[row].state,
                lambda row: files[row].state,
                lambda: self.state_ranks,
                tip=tips["state"],
            ),
            Column(
                "models",
                translate("Models"),
                lambda row: integer_text(len(files[row].used_by)),
                lambda row: len(files[row].used_by),
                lambda: self.user_counts,
                numeric=True,
                tip=tips["models"],
            ),
            Column(
                "store",
                translate("Store"),
                lambda row: files[row].store,
                lambda row: files[row].store,
                lambda: self.store_ranks,
                tip=tips["store"],
            ),
            Column(
                "used_by",
                translate("Used by"),
                users,
                users,
                lambda: self.user_ranks,
                tip=tips["used_by"],
            ),
        ]


def _users_text(names: Sequence[str]) -> str:
    text = ", ".join(map(title_of, names[:_SHOWN_USERS]))
    if len(text) > _LONGEST_CELL:
        text = text[:_LONGEST_CELL] + "…"
    more = len(names) - _SHOWN_USERS
    return f"{text} {translate('and {n} more').format(n=more)}" if more > 0 else text


def blob_facts(file: StoredFile) -> str:
    """Return what is known of a blob, in lines of plain text."""
    lines = [f"{file.store}   ·   {file.state}   ·   {size_text(file.nbytes)}"]
    lines.append(plain_text(str(file.path)))
    if not file.finished:
        lines.append(translate("Download the model again to complete it, or delete the file."))
    elif not file.used_by:
        lines.append(
            translate(
                "No model in this store uses this blob: a removed model may have left it, or a "
                "manifest cannot be read. Ollama deletes such blobs when it starts."
            )
        )
    return "\n".join([*lines, *user_lines(file.used_by)])


class BlobsPage(QWidget):
    """The table of blobs.

    Attributes:
        model: The table's model.
        table: The table.

    Signals:
        file_chosen: Another blob is current; a `StoredFile`, or None.
        opened: A blob was entered or double-clicked; a `StoredFile`.
        selection_moved: Other rows are selected.
    """

    file_chosen = Signal(object)
    opened = Signal(object)
    selection_moved = Signal()

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._blobs = BlobList(())
        self._text = ""
        self._state = QByteArray()
        self.model = TableModel(self)
        self.table = TableView(self.model, runner, self)
        self.table.setAccessibleName(self.tr("Blobs"))
        self.table.customContextMenuRequested.disconnect()  # the panel's menu holds the table's
        self.table.row_selected.connect(lambda row: self.file_chosen.emit(self._blobs.files[row]))
        self.table.row_opened.connect(lambda row: self.opened.emit(self._blobs.files[row]))
        self.table.selection_moved.connect(self.selection_moved)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.table)

    def restore(self, state: QByteArray) -> None:
        """Give the columns the widths and the order that they had."""
        self._state = state

    def show_blobs(self, blobs: BlobList) -> None:
        """Show blobs; what is selected stays selected, and the scroll bar where it is."""
        chosen = {str(file.path) for file in self.selected_files()}
        place = self.table.verticalScrollBar().value()
        header = self.table.horizontalHeader()
        state = header.saveState() if self.model.columns else self._state
        self._blobs = blobs
        self.model.set_content(blobs.columns(), len(blobs.files))
        self.table.show_columns(state)
        self.filter(self._text)
        selection = QItemSelection()
        for row, content_row in enumerate(self.model.rows.tolist() if chosen else ()):
            if str(blobs.files[content_row].path) in chosen:
                index = self.model.index(row, 0)
                selection.select(index, index)
        flags = QItemSelectionModel.SelectionFlag
        self.table.selectionModel().select(selection, flags.ClearAndSelect | flags.Rows)
        self.table.verticalScrollBar().setValue(place)

    def filter(self, text: str) -> None:
        """Show only the blobs that hold every word of a text."""
        self._text = text
        self.model.set_filter(self._blobs.mask(text))

    def selected_files(self) -> list[StoredFile]:
        """Return the blobs selected."""
        rows = self.table.selected_content_rows().tolist() if self._blobs.files else []
        return [self._blobs.files[row] for row in rows]

    def current_file(self) -> StoredFile | None:
        """Return the blob of the current row."""
        index = self.table.currentIndex()
        return self._blobs.files[self.model.content_row(index)] if index.isValid() else None

    def summary(self) -> str:
        """Return what the selection comes to, or else all that is shown."""
        chosen, shown = self.table.selected_content_rows(), self.model.rows
        nbytes = self._blobs.nbytes
        if len(chosen):
            return self.tr("{n} of {all} blobs selected: {size}").format(
                n=integer_text(len(chosen)),
                all=integer_text(len(shown)),
                size=bytes_text(int(nbytes[chosen].sum())),
            )
        text = self.tr("{n} of {all} blobs, {size}").format(
            n=integer_text(len(shown)),
            all=integer_text(len(self._blobs.files)),
            size=bytes_text(int(nbytes[shown].sum())),
        )
        orphans = shown[self._blobs.orphaned[shown]]
        if not len(orphans):
            return text
        more = self.tr("{n} used by no model: {size}").format(
            n=integer_text(len(orphans)), size=bytes_text(int(nbytes[orphans].sum()))
        )
        return f"{text}; {more}"
