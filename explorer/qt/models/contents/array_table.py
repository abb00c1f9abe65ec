"""The elements of one metadata array, as long as they are: index and value, made as one looks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QCoreApplication

from explorer.formats import NumberArray
from explorer.formats.model import Value
from explorer.present.explanations import array_texts
from explorer.present.model import scalar_text
from explorer.qt.models.table import Cell, Column
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

    def keys() -> np.ndarray:
        if isinstance(elements, NumberArray):
            return elements.values
        return np.arange(len(elements))

    numeric, tips = isinstance(elements, NumberArray), array_texts()

    def places() -> np.ndarray:
        return np.arange(len(elements))

    return [
        Column("index", tr("Index"), integer_text, int, places, True, tip=tips["index"]),
        Column("value", tr("Value"), text, raw, keys, numeric, tip=tips["value"]),
    ]
