"""The tables of the planner: the twins of its charts, the reasons of its figures, the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QCoreApplication, QObject

from explorer.display import bytes_text, float_text, integer_text, plain_text, shorten
from explorer.hardware.catalogue import Gpu
from explorer.planner.terms import Input, Term
from explorer.qt.models.planner_curves import Curves
from explorer.qt.models.planner_figures import Bar, Layer, kind_name
from explorer.qt.models.table import Cell, Column, TableModel

_LONGEST_ORIGIN = 300
_SHOWN_VALUES = 6


class LiveTable(TableModel):
    """A table whose content changes while it is looked at: selection and scroll position stay."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._kind: object = None

    def show(self, columns: Sequence[Column], row_count: int, kind: object = None) -> bool:
        """Show other content.

        Args:
            columns: The columns.
            row_count: Number of rows.
            kind: What the rows are of; rows of another kind are others, even if as many.

        Returns:
            Whether the table was reset, so that its columns need widths.
        """
        same = [column.title for column in self.columns] == [column.title for column in columns]
        if not same or row_count != self.content_count or kind != self._kind:
            self._kind = kind
            self.set_content(columns, row_count)
            return True
        self.columns = tuple(columns)
        if row_count and columns:
            last = self.index(self.rowCount() - 1, len(columns) - 1)
            self.dataChanged.emit(self.index(0, 0), last)
        return False


def _tr(text: str) -> str:
    return QCoreApplication.translate("PlannerTables", text)


def text_column(name: str, title: str, texts: Sequence[str], tip: str = "") -> Column:
    """Return a column of texts."""
    return Column(name, title, texts.__getitem__, texts.__getitem__, _ranks(texts), tip=tip)


def number_column(
    name: str,
    title: str,
    values: Sequence[int | float | None],
    text: Callable[[Any], str] = integer_text,
    tip: str = "",
) -> Column:
    """Return a column of numbers; None is shown as a dash."""

    def show(row: int) -> str:
        value = values[row]
        return "–" if value is None else text(value)

    def keys() -> NDArray[np.float64]:
        return np.array([np.nan if value is None else value for value in values], np.float64)

    return Column(name, title, show, values.__getitem__, keys, numeric=True, tip=tip)


def _ranks(texts: Sequence[str]) -> Callable[[], NDArray[Any]]:
    def keys() -> NDArray[Any]:
        return np.unique(
            np.array([text.lower() for text in texts], dtype=str), return_inverse=True
        )[1].reshape(-1)

    return keys


def bar_columns(bars: Sequence[Bar]) -> list[Column]:
    """Return the twin of the bars: a row for each device, a column for each kind of content."""
    kinds = list(dict.fromkeys(part.kind for bar in bars for part in bar.parts))
    columns = [
        text_column("device", _tr("Device"), [bar.title for bar in bars]),
        text_column("layers", _tr("Layers"), [bar.layers for bar in bars]),
    ]
    columns += [
        number_column(kind.value, kind_name(kind), [bar.nbytes(kind) for bar in bars], bytes_text)
        for kind in kinds
    ]
    over = [bar.over_bytes for bar in bars]
    tip = _tr("Bytes that the model takes and that are not there")
    columns.append(number_column("over", _tr("Too much"), over, bytes_text, tip))
    capacities = [bar.capacity for bar in bars]
    tip = _tr("Free before the model is loaded")
    columns.append(number_column("capacity", _tr("Available"), capacities, bytes_text, tip))
    return columns


def layer_columns(layers: Sequence[Layer], devices: Sequence[str]) -> list[Column]:
    """Return the twin of the strip: a row for each layer.

    Args:
        layers: The layers.
        devices: What the GPUs are called.
    """
    places = [_tr("CPU") if one.device is None else devices[one.device] for one in layers]
    return [
        number_column("index", _tr("Layer"), [one.index for one in layers], str),
        text_column("name", _tr("Group"), [one.name for one in layers]),
        text_column("device", _tr("Device"), places),
        number_column("weights", _tr("Weights"), [one.weights for one in layers], bytes_text),
        number_column("kv_cache", _tr("KV cache"), [one.kv_cache for one in layers], bytes_text),
        number_column("bytes", _tr("Both"), [one.nbytes for one in layers], bytes_text),
    ]


def curve_columns(curves: Curves) -> list[Column]:
    """Return the twin of the curves: a row for each context."""
    contexts = curves.curves[0].contexts.tolist()
    columns = [number_column("context", _tr("Context"), contexts)]
    for curve in curves.curves:
        totals = [None if total < 0 else total for total in curve.totals.tolist()]
        fits = [_tr("yes") if fit else _tr("no") for fit in curve.fits.tolist()]
        name = curve.cache_type
        columns.append(number_column(name, name, totals, bytes_text, _tr("Bytes in all")))
        title = _tr("{type} fits").format(type=name)
        columns.append(text_column(f"{name}_fits", title, fits))
    return columns


def figure_text(value: int | float) -> str:
    """Return a figure of a plan: bytes, or a ratio."""
    return bytes_text(value) if isinstance(value, int) else float_text(value, 4)


def term_columns(terms: Sequence[Term]) -> list[Column]:
    """Return a row for each figure of a plan."""
    values = [term.value for term in terms]
    return [
        text_column("figure", _tr("Figure"), [term.name for term in terms]),
        number_column("value", _tr("Value"), values, figure_text),
        number_column("exact", _tr("Exact"), values, _exact),
    ]


def _exact(value: int | float) -> str:
    return integer_text(value) if isinstance(value, int) else float_text(value)


def input_columns(inputs: Sequence[tuple[str, Input]]) -> list[Column]:
    """Return a row for each symbol of a formula: its value, and where that came from."""
    origins = [shorten(plain_text(given.origin), _LONGEST_ORIGIN) for _, given in inputs]
    values = [_input_text(given) for _, given in inputs]
    numbers = [
        sum(given.value) if isinstance(given.value, tuple) else given.value for _, given in inputs
    ]

    def raw(row: int) -> Cell:
        return numbers[row]

    def keys() -> NDArray[np.float64]:
        return np.array(numbers, np.float64)

    return [
        text_column("symbol", _tr("Symbol"), [symbol for symbol, _ in inputs]),
        Column("value", _tr("Value"), values.__getitem__, raw, keys, numeric=True),
        text_column("from", _tr("From"), origins),
    ]


def _input_text(given: Input) -> str:
    value = given.value
    if not isinstance(value, tuple):
        return _exact(value)
    if len(value) > _SHOWN_VALUES:
        words = _tr("{n} values, together {sum}")
        return words.format(n=integer_text(len(value)), sum=integer_text(sum(value)))
    return " + ".join(map(integer_text, value)) or "0"


def gpu_columns(gpus: Sequence[Gpu]) -> list[Column]:
    """Return a row for each GPU of the catalogue."""
    bandwidths = [
        None if gpu.bandwidth_bytes_per_s is None else gpu.bandwidth_bytes_per_s / 1e9
        for gpu in gpus
    ]
    return [
        text_column("name", _tr("Name"), [gpu.name for gpu in gpus]),
        number_column("memory", _tr("Memory"), [gpu.memory_bytes for gpu in gpus], bytes_text),
        number_column("usable", _tr("Usable"), [gpu.usable_bytes for gpu in gpus], bytes_text),
        text_column("library", _tr("Library"), [gpu.library for gpu in gpus]),
        number_column("bandwidth", _tr("GB/s"), bandwidths, lambda value: float_text(value, 4)),
        number_column("year", _tr("Year"), [gpu.year for gpu in gpus], str),
    ]
