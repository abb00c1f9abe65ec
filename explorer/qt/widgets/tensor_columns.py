"""Columns of tables of tensors, and the words of their filter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from numpy.typing import NDArray

from explorer.present.explanations import TENSOR_TEXTS
from explorer.qt.document import Document
from explorer.qt.widgets.table_model import Cell, Column, array_column
from explorer.qt.widgets.table_view import FilterBar
from explorer.text import bits_text, bytes_text, integer_text, plain_text, shape_text

_SPARE: Final = {"layer": 3, "bits_per_weight": 2, "parameters": 1, "shape": 1}
"""What goes first where there is no room: the name has the layer, bits follow from the type."""


def tensor_columns(document: Document) -> list[Column]:
    """Return the columns of a model's tensor table."""
    arrays = document.arrays
    names = document.model.tensors.columns.names
    tips = TENSOR_TEXTS

    def text(
        name: str, title: str, cell: Callable[[int], str], keys: Callable[[], NDArray[Any]]
    ) -> Column:
        return Column(name, title, cell, cell, keys, tip=tips[name])

    def number(name: str, title: str, values: NDArray[Any], write: Callable[[Any], str]) -> Column:
        return array_column(name, title, values, write, tips[name])

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

    def problem(row: int) -> str:
        damage = document.model.tensors.rows[row].damage if arrays.damaged[row] else None
        return plain_text(damage or "")

    def layer(row: int) -> Cell:
        return int(arrays.layers[row]) if arrays.layers[row] >= 0 else None

    def layer_text(row: int) -> str:
        return str(arrays.layers[row]) if arrays.layers[row] >= 0 else ""

    columns = [
        text("name", "Name", name, lambda: arrays.name_ranks),
        text("role", "Role", role, lambda: arrays.role_ranks),
        Column("layer", "Layer", layer_text, layer, lambda: arrays.layers, True, tips["layer"]),
        replace(text("type", "Type", kind, lambda: arrays.type_ranks), type_name=kind),
        Column("shape", "Shape", shape, shape, lambda: arrays.shape_ranks, True, tips["shape"]),
        number("parameters", "Parameters", arrays.parameters, integer_text),
        number("bytes", "Size", arrays.nbytes, bytes_text),
        number("bits_per_weight", "Bits/weight", arrays.bits_per_weight, bits_text),
        number("offset", "Offset", arrays.offsets, integer_text),
        text("file", "File", file, lambda: arrays.file_codes),
        text("problem", "Problem", problem, lambda: arrays.damaged),
    ]
    return [replace(one, spare=_SPARE.get(one.name, 0)) for one in columns]


def describe_filter(bar: FilterBar) -> None:
    """Describe in a filter of tensors what can be typed there."""
    bar.edit.setPlaceholderText("Filter tensors:  ffn  type:q6_k  size>100M  layer:3-7  -norm")
    bar.edit.setToolTip(
        "Words must occur in the name; a minus in front excludes.\n"
        "type:q4_k,q6_k   layer:3-7   role:attn   shape:4096   is:damaged\n"
        "size>100M   params>1M   bpw<5"
    )
