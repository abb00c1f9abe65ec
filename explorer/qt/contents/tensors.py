"""The tensor panel: every tensor of a model, filtered by terms, with totals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QByteArray, QCoreApplication, QEvent, Signal
from PySide6.QtWidgets import QLabel, QWidget

from explorer.formats.columns import TensorArrays
from explorer.formats.tensor_filter import parse_filter
from explorer.present.explanations import picture_text, tensor_texts
from explorer.qt.document import Document
from explorer.qt.jobs import JobRunner
from explorer.qt.selection import Selection
from explorer.qt.widgets.table_model import Cell, Column
from explorer.qt.widgets.table_view import FilterBar, ListPanel
from explorer.text import bytes_text, count_text, float_text, integer_text, plain_text, shape_text


def tensor_columns(document: Document) -> list[Column]:
    """Return the columns of a model's tensor table."""
    arrays = document.arrays
    names = document.model.tensors.columns.names
    tips = tensor_texts()

    def tr(text: str) -> str:
        return QCoreApplication.translate("TensorTable", text)

    def name(row: int) -> str:
        return plain_text(names[row])

    def role(row: int) -> str:
        return plain_text(arrays.roles[arrays.role_codes[row]])

    def kind(row: int) -> str:
        return arrays.types[int(arrays.type_codes[row])].name

    def shape(row: int) -> str:
        return shape_text(arrays.shapes[int(arrays.shape_codes[row])])

    def file(row: int) -> str:
        return plain_text(arrays.files[arrays.file_codes[row]].name)

    def state(row: int) -> str:
        return (
            plain_text(document.model.tensors.rows[row].damage or "") if arrays.damaged[row] else ""
        )

    def layer(row: int) -> Cell:
        number = int(arrays.layers[row])
        return None if number < 0 else number

    return [
        Column("name", tr("Name"), name, name, lambda: arrays.name_ranks, tip=tips["name"]),
        Column(
            "role",
            tr("Role"),
            role,
            role,
            lambda: arrays.role_ranks,
            tip=tips["role"],
        ),
        Column(
            "layer",
            tr("Layer"),
            lambda row: "" if arrays.layers[row] < 0 else str(arrays.layers[row]),
            layer,
            lambda: arrays.layers,
            numeric=True,
            tip=tips["layer"],
        ),
        Column("type", tr("Type"), kind, kind, lambda: arrays.type_ranks, tip=tips["type"]),
        Column(
            "shape",
            tr("Shape"),
            shape,
            shape,
            lambda: arrays.shape_ranks,
            numeric=True,
            tip=tips["shape"],
        ),
        _number(
            "parameters", tr("Parameters"), arrays.parameters, integer_text, tips["parameters"]
        ),
        _number("bytes", tr("Size"), arrays.nbytes, bytes_text, tips["bytes"]),
        Column(
            "bits_per_weight",
            tr("Bits/weight"),
            lambda row: float_text(float(arrays.bits_per_weight[row]), 4),
            lambda row: float(arrays.bits_per_weight[row]),
            lambda: arrays.bits_per_weight,
            numeric=True,
            tip=tips["bits_per_weight"],
        ),
        _number("offset", tr("Offset"), arrays.offsets, integer_text, tips["offset"]),
        Column("file", tr("File"), file, file, lambda: arrays.file_codes, tip=tips["file"]),
        Column("problem", tr("Problem"), state, state, lambda: arrays.damaged, tip=tips["problem"]),
    ]


def _number(
    name: str, title: str, values: NDArray[Any], text: Callable[[int], str], tip: str
) -> Column:
    return Column(
        name,
        title,
        lambda row: text(int(values[row])),
        lambda row: int(values[row]),
        lambda: values,
        numeric=True,
        tip=tip,
    )


def tensor_totals(arrays: TensorArrays, rows: NDArray[np.intp]) -> tuple[int, int]:
    """Return parameters and bytes of some rows together."""
    return int(arrays.parameters[rows].sum()), int(arrays.nbytes[rows].sum())


_HIDDEN_AT_FIRST = ("role", "offset", "file", "problem")


class TensorsView(ListPanel):
    """The tensors of a model.

    Attributes:
        document: The model.

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
        self.model.set_filter(None if parsed.is_empty else parsed.mask(document.arrays))
        self.bar.edit.setStatusTip("; ".join(parsed.problems))
        problem = parsed.problems[0] if parsed.problems else ""
        if self.model.rowCount():
            self.show_table()
        else:
            self.show_empty(self.tr("No tensor matches. Press Escape in the filter to see all."))
        counts = self.tr("{shown} of {all}").format(
            shown=integer_text(self.model.rowCount()), all=integer_text(self.model.content_count)
        )
        self.bar.status.setText(f"{problem}   {counts}" if problem else counts)
        self._show_totals()

    def _show_totals(self) -> None:
        document = self.document
        if document is None:
            return
        parameters, nbytes = tensor_totals(document.arrays, self.model.rows)
        text = self.tr("Shown: {count}, {parameters} parameters, {size}").format(
            count=self._count(self.model.rowCount()),
            parameters=count_text(parameters),
            size=bytes_text(nbytes),
        )
        selected = self.table.selected_content_rows()
        if len(selected):
            parameters, nbytes = tensor_totals(document.arrays, selected)
            text += self.tr("   ·   Selected: {count}, {parameters} parameters, {size}").format(
                count=self._count(len(selected)),
                parameters=count_text(parameters),
                size=bytes_text(nbytes),
            )
        self._totals.setText(text)

    def _count(self, count: int) -> str:
        words = self.tr("{count} tensor") if count == 1 else self.tr("{count} tensors")
        return words.format(count=integer_text(count))

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.LocaleChange:
            self._show_totals()


def describe_filter(bar: FilterBar) -> None:
    """Say in a filter of tensors what can be typed there."""

    def tr(text: str) -> str:
        return QCoreApplication.translate("TensorsView", text)

    bar.edit.setPlaceholderText(tr("Filter tensors:  ffn  type:q6_k  size>100M  layer:3-7  -norm"))
    bar.edit.setToolTip(
        tr(
            "Words must occur in the name; a minus in front excludes.\n"
            "type:q4_k,q6_k   layer:3-7   role:attn   shape:4096   is:damaged\n"
            "size>100M   params>1M   bpw<5"
        )
    )


def _rare_columns(document: Document) -> set[str]:
    """Return the names of columns that tell nothing, or little, of this model."""
    shown = set()
    if len(document.model.files) > 1:
        shown.add("file")
    if document.arrays.damaged.any():
        shown.add("problem")
    return set(_HIDDEN_AT_FIRST) - shown
