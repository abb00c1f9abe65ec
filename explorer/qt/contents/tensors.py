"""The tensor panel: every tensor of a model, filtered by terms, with totals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QByteArray, QEvent, Signal
from PySide6.QtWidgets import QLabel, QWidget

from explorer.formats.columns import TensorArrays
from explorer.formats.tensor_filter import parse_filter
from explorer.present.explanations import picture_text
from explorer.qt.document import Document
from explorer.qt.jobs import JobRunner
from explorer.qt.selection import Selection
from explorer.qt.widgets.table_view import ListPanel
from explorer.qt.widgets.tensor_columns import describe_filter, tensor_columns
from explorer.text import bytes_text, count_text, integer_text


def tensor_totals(arrays: TensorArrays, rows: NDArray[np.intp]) -> tuple[int, int]:
    """Return parameters and bytes of some rows together."""
    return int(arrays.parameters[rows].sum()), int(arrays.nbytes[rows].sum())


_HIDDEN_AT_FIRST = ("role", "offset", "file", "problem")


class TensorsView(ListPanel):
    """The tensors of a model.

    Signals:
        rows_selected: The user selected tensors; their content rows, the current one first.
    """

    rows_selected = Signal(object)

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(runner, "", "", parent)
        describe_filter(self.bar)
        self.table.setAccessibleName(self.tr("Tensors"))
        self.document: Document | None = None
        self._shown_moves = 0
        self._totals = QLabel(self)
        self._totals.setContentsMargins(8, 3, 8, 4)
        self._totals.setWhatsThis(picture_text("totals"))
        layout = self.layout()
        assert layout is not None
        layout.addWidget(self._totals)
        self.bar.changed.connect(self._filter)
        self.table.selection_moved.connect(self._take_selection)

    def show_document(self, document: Document | None, header: QByteArray) -> None:
        """Show a model's tensors; the filter stays."""
        self.document = document
        if document is None:
            self.model.set_content((), 0)
        else:
            self.model.set_content(tensor_columns(document), len(document.arrays))
            self.table.show_columns(header, _rare_columns(document))
        self._filter(self.bar.text)

    def follow(self, selection: Selection) -> None:
        """Show the selected tensors; the filter is cleared if it hides them."""
        if selection.key is not None or selection.moves == self._shown_moves:
            return
        self._shown_moves = selection.moves
        rows = selection.rows
        if not rows or set(rows) == set(self.table.selected_content_rows().tolist()):
            return
        if not self.table.select_row(rows[0]):  # several are selected in this table alone
            self.bar.edit.clear()
            self.table.select_row(rows[0])

    def _take_selection(self) -> None:
        self._show_totals()
        rows: list[int] = self.table.selected_content_rows().tolist()
        if rows:
            current = self.table.currentIndex()
            first = self.model.content_row(current) if current.isValid() else rows[0]
            self.rows_selected.emit(sorted(rows, key=lambda row: row != first))

    def _filter(self, text: str) -> None:
        document = self.document
        if document is None or not len(document.arrays):
            self.show_empty(
                self.tr("Open a model to see its tensors.")
                if document is None
                else self.tr("This file holds no tensors.")
            )
            self.bar.status.clear()
            self._totals.clear()
            return
        parsed = parse_filter(text)
        self.show_matches(
            None if parsed.is_empty else parsed.mask(document.arrays),
            self.tr("No tensor matches. Press Escape in the filter to see all."),
        )
        self.bar.edit.setStatusTip("; ".join(parsed.problems))
        if parsed.problems:
            self.bar.status.setText(f"{parsed.problems[0]}   {self.bar.status.text()}")
        self._show_totals()

    def _show_totals(self) -> None:
        if self.document is None:
            return
        shown = self._total(self.document, self.model.rows)
        totals = [self.tr("Shown: {total}").format(total=shown)]
        selected = self.table.selected_content_rows()
        if len(selected):
            total = self._total(self.document, selected)
            totals.append(self.tr("Selected: {total}").format(total=total))
        self._totals.setText("   ·   ".join(totals))

    def _total(self, document: Document, rows: NDArray[np.intp]) -> str:
        parameters, nbytes = tensor_totals(document.arrays, rows)
        tensors = self.tr("{n} tensor") if len(rows) == 1 else self.tr("{n} tensors")
        return self.tr("{tensors}, {parameters} parameters, {size}").format(
            tensors=tensors.format(n=integer_text(len(rows))),
            parameters=count_text(parameters),
            size=bytes_text(nbytes),
        )

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.LocaleChange:
            self._show_totals()


def _rare_columns(document: Document) -> set[str]:
    """Return the names of columns that are hidden by default for this model."""
    shown = set()
    if len(document.model.files) > 1:
        shown.add("file")
    if document.arrays.damaged.any():
        shown.add("problem")
    return set(_HIDDEN_AT_FIRST) - shown
