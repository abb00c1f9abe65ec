"""The blobs of all stores: each one once, with every model and tag that uses it."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QItemSelection, QItemSelectionModel, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from explorer.qt.jobs import JobRunner
from explorer.qt.models.library.blob_table import BlobList, StoredFile
from explorer.qt.models.table import TableModel
from explorer.qt.views.tables.table_view import TableView
from explorer.text import bytes_text, integer_text


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
