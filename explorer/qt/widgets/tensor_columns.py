"""Columns of tables of tensors, and the words of their filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray
from PySide6.QtCore import QCoreApplication

from explorer.present.explanations import TENSOR_TEXTS
from explorer.qt.document import Document
from explorer.qt.widgets.table_model import Cell, Column
from explorer.qt.widgets.table_view import FilterBar
from explorer.text import bytes_text, float_text, integer_text, plain_text, shape_text


def tensor_columns(document: Document) -> list[Column]:
    """Return the columns of a model's tensor table."""
    arrays = document.arrays
    names = document.model.tensors.columns.names
    tips = TENSOR_TEXTS

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
        Column("role", tr("Role"), role, role, lambda: arrays.role_ranks, tip=tips["role"]),
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
