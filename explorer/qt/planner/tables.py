"""The tables of the planner: its charts' figures, formulas, plans side by side, the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject

from explorer.formats.columns import text_ranks
from explorer.hardware.catalogue import Gpu
from explorer.planner.inputs import PlanResult
from explorer.planner.plan import Input, Layer, Plan, Term
from explorer.present import explanations
from explorer.present import plan as plan_texts
from explorer.present.engines import SIDE_BY_SIDE, EngineRow
from explorer.present.plan_export import Curves
from explorer.qt.widgets.table_model import Column, TableModel
from explorer.text import (
    bytes_text,
    digits_text,
    float_text,
    integer_text,
    plain_text,
    shorten,
    signed_text,
)

_LONGEST_ORIGIN = 300
_SHOWN_VALUES = 6
_LONGEST_NAME = 80
_FIRST = ("gpu_layers", "total")  # figures of a comparison that decide


class LiveTable(TableModel):
    """A table that keeps selection and scroll position while its content changes."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._kind: object = None

    def show(self, columns: Sequence[Column], row_count: int, kind: object = None) -> bool:
        """Show other content; rows of another `kind` are others, even if there are as many.

        Returns:
            Whether the table was reset, so that its columns need widths.
        """
        same = [column.title for column in self.columns] == [column.title for column in columns]
        if not same or row_count != self.content_count or kind != self._kind:
            self._kind = kind
            self.set_content(columns, row_count)
            return True
        self.columns = tuple(columns)
        if self.rowCount() and columns:  # a filter may show none of them
            last = self.index(self.rowCount() - 1, len(columns) - 1)
            self.dataChanged.emit(self.index(0, 0), last)
        return False


@dataclass(frozen=True)
class ColumnMaker:
    """Makes columns of values; `tips` has their meanings by their names."""

    tips: Mapping[str, str]

    def words(self, name: str, title: str, texts: Sequence[str], meaning: str = "") -> Column:
        """Return a column of texts; its meaning may stand under another name."""
        cell, tip = texts.__getitem__, self.tips[meaning or name]
        return Column(name, title, cell, cell, lambda: text_ranks(texts), tip=tip)

    def number(
        self,
        name: str,
        title: str,
        values: Sequence[int | float | None],
        text: Callable[[Any], str] = integer_text,
        meaning: str = "",
    ) -> Column:
        """Return a column of numbers; None is shown as a dash."""

        def show(row: int) -> str:
            value = values[row]
            return "–" if value is None else text(value)

        def keys() -> NDArray[np.float64]:
            return np.array(values, np.float64)  # None becomes NaN

        tip = self.tips[meaning or name]
        return Column(name, title, show, values.__getitem__, keys, numeric=True, tip=tip)

    def size(self, name: str, title: str, values: Sequence[int | None]) -> Column:
        """Return a column of bytes."""
        return self.number(name, title, values, bytes_text)


def bar_columns(bars: Sequence[plan_texts.Bar]) -> list[Column]:
    """Return a row for each bar's device, a column for each kind of content."""
    make = ColumnMaker({**explanations.PART_TEXTS, **explanations.BAR_TEXTS})
    kinds = (
        make.size(k.value, k.label, [bar.nbytes(k) for bar in bars])
        for k in plan_texts.kinds_in(bars)
    )
    return [
        make.words("device", "Device", [bar.title for bar in bars]),
        make.words("layers", "Layers", [bar.layers for bar in bars]),
        *(replace(kind, spare=1) for kind in kinds),
        make.size("over", "Too much", [bar.over_bytes for bar in bars]),
        make.size("capacity", "Available", [bar.capacity for bar in bars]),
    ]


def layer_columns(layers: Sequence[Layer], devices: Sequence[str]) -> list[Column]:
    """Return a row for each layer; `devices` are the names of the GPUs."""
    places = ["CPU" if one.device is None else devices[one.device] for one in layers]
    make = ColumnMaker(explanations.LAYER_TEXTS)
    return [
        make.number("index", "Layer", [one.index for one in layers], str),
        make.words("name", "Group", [one.name for one in layers]),
        make.words("device", "Device", places),
        make.size("weights", "Weights", [one.weights for one in layers]),
        make.size("kv_cache", "KV cache", [one.kv_cache for one in layers]),
        make.size("bytes", "Both", [one.nbytes for one in layers]),
    ]


def curve_columns(curves: Curves) -> list[Column]:
    """Return a row for each context of the curves."""
    make = ColumnMaker(explanations.CURVE_TEXTS)
    columns = [make.number("context", "Context", curves.curves[0].contexts.tolist())]
    for curve in curves.curves:
        totals = [None if total < 0 else total for total in curve.totals.tolist()]
        fits = ["yes" if fit else "no" for fit in curve.fits.tolist()]
        name = curve.cache_type
        total = make.number(name, name, totals, bytes_text, "total")
        marked = partial(_marked, total.text, curve.fits.tolist())
        columns.append(replace(total, text=marked, spare=-1))
        title = f"{name} fits"
        columns.append(replace(make.words(f"{name}_fits", title, fits, "fits"), spare=1))
    return columns


def _marked(text: Callable[[int], str], fits: Sequence[bool], row: int) -> str:
    """Return a figure with the sign of the planner's answer before it if it does not fit."""
    return text(row) if fits[row] else f"✘ {text(row)}"


def term_columns(terms: Sequence[Term]) -> list[Column]:
    """Return a row for each figure of a plan."""
    values, make = [term.value for term in terms], ColumnMaker(explanations.WHY_TEXTS)
    columns = (
        make.words("figure", "Figure", [term.name for term in terms]),
        make.number("value", "Value", values, plan_texts.value_text),
        make.number("exact", "Exact", values, _exact),
    )
    return [
        replace(column, row_tip=lambda row: explanations.plan_text(terms[row].name))
        for column in columns
    ]


def _exact(value: int | float) -> str:
    return integer_text(value) if isinstance(value, int) else float_text(value)


def input_columns(inputs: Sequence[tuple[str, Input]]) -> list[Column]:
    """Return a row for each symbol of a formula: its value, and where that came from."""
    origins = [shorten(plain_text(given.origin), _LONGEST_ORIGIN) for _, given in inputs]
    texts, make = [_input_text(given) for _, given in inputs], ColumnMaker(explanations.WHY_TEXTS)
    numbers = [
        sum(given.value) if isinstance(given.value, tuple) else given.value for _, given in inputs
    ]
    values = make.number("value", "Value", numbers, meaning="symbol_value")
    return [
        make.words("symbol", "Symbol", [symbol for symbol, _ in inputs]),
        replace(values, text=texts.__getitem__),
        make.words("from", "From", origins),
    ]


def _input_text(given: Input) -> str:
    value = given.value
    if not isinstance(value, tuple):
        return _exact(value)
    if len(value) > _SHOWN_VALUES:
        return f"{integer_text(len(value))} values, together {integer_text(sum(value))}"
    return " + ".join(map(integer_text, value)) or "0"


def gpu_columns(gpus: Sequence[Gpu]) -> list[Column]:
    """Return a row for each GPU of the catalogue."""
    rates = [gpu.bandwidth_bytes_per_s for gpu in gpus]
    bandwidths = [None if rate is None else rate / 1e9 for rate in rates]
    make = ColumnMaker(explanations.GPU_TEXTS)
    return [
        make.words("name", "Name", [gpu.name for gpu in gpus]),
        make.size("memory", "Memory", [gpu.memory_bytes for gpu in gpus]),
        make.size("usable", "Usable", [gpu.usable_bytes for gpu in gpus]),
        make.words("library", "Library", [gpu.library for gpu in gpus]),
        make.number("bandwidth", "GB/s", bandwidths, partial(digits_text, digits=4)),
        make.number("year", "Year", [gpu.year for gpu in gpus], str),
    ]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row of a comparison: a scenario or a model, and its plan."""

    name: str
    result: PlanResult


def comparison_columns(candidates: Sequence[Candidate]) -> list[Column]:
    """Return a row for each candidate, with its differences from the first."""
    plans = [candidate.result.plan for candidate in candidates]
    names = [shorten(plain_text(candidate.name), _LONGEST_NAME) for candidate in candidates]
    answers = [
        plan_texts.answer(one.result.plan, one.result.refusal).sentence for one in candidates
    ]
    make = ColumnMaker(explanations.COMPARISON_TEXTS)
    columns = [
        make.words("name", "Name", names),
        *(_figure(plans, name) for name in _FIRST),  # the table is wider than a small window
        _text(plans, "context", "Context", plan_texts.sequences_text),
        _text(plans, "kv_cache_type", "KV type", lambda plan: plan.used("kv_cache_type")),
        *(_figure(plans, name) for name in plan_texts.PLAN if name not in _FIRST),
        _text(plans, "devices", "GPUs", plan_texts.devices_text),
        _text(plans, "batch", "Batch", lambda plan: integer_text(plan.used("batch"))),
        _text(plans, "flash_attention", "Flash attention", plan_texts.attention_text),
        _text(plans, "profile", "Program", lambda plan: plan.engine.name),
        make.words("answer", "Answer", answers),
    ]
    return [replace(one, spare=_SPARE.get(one.name, 3)) for one in columns]


_SPARE = {"total": 0, "gpu_layers": 0, "context": 1, "kv_cache_type": 1, "kv_cache": 2}
"""What stays longest where there is no room: what is asked, and what decides."""


def engine_columns(rows: Sequence[EngineRow]) -> list[Column]:
    """Return a row for each engine; dashes where there is no plan.

    What decides between programs comes first, for the table is wider than a small window.
    """
    texts = [tuple(map(plain_text, row.cells())) for row in rows]
    titles = [cells[0] for cells in texts].__getitem__
    tips = {**explanations.COMPARISON_TEXTS, **explanations.PROFILE_TEXTS}
    make = ColumnMaker(tips)

    def words(name: str, place: int) -> Column:
        return make.words(name, SIDE_BY_SIDE[place], [cells[place] for cells in texts])

    def size(name: str, place: int, key: str) -> Column:
        plans = [row.plan for row in rows]
        values = [None if plan is None else plan_texts.plan_value(plan, key) for plan in plans]
        return make.size(name, SIDE_BY_SIDE[place], values)

    names = [row.engine.short_title for row in rows]
    return [
        Column(
            *("profile", "Program", names.__getitem__, titles, lambda: text_ranks(names)),
            tip=tips["profile"],
            row_tip=titles,
        ),
        replace(_engine_answers([row.failure for row in rows], words("fits", 7)), spare=-1),
        size("total", 6, "total"),
        replace(size("weights", 2, "weights"), spare=1),  # programs agree on them
        size("kv_cache", 3, "kv_cache"),
        size("graph", 4, "graph_total"),
        words("gpu_layers", 8),
        size("vram_total", 5, "vram_total"),
        words("context", 1),
    ]


def _engine_answers(failures: Sequence[str], column: Column) -> Column:
    """Return a column that says "refused", for why is a sentence; its tool tip has it."""
    refused = ["refused" if why else column.text(row) for row, why in enumerate(failures)]
    tips = [plain_text(why) or column.tip for why in failures]
    return replace(column, text=refused.__getitem__, row_tip=tips.__getitem__)


def _figure(plans: Sequence[Plan | None], name: str) -> Column:
    """Return the column of a figure of the plans."""
    title = plan_texts.PLAN[name]
    key = "graph" if name == "graph_total" else name  # as exported tables call it
    if name == "gpu_layers":  # all of them are as good as all of another model's
        texts = ["–" if one is None else plan_texts.plan_figure(one, name).text for one in plans]
        known = [
            text if one is None or not one.fully_offloaded else ""
            for text, one in zip(texts, plans, strict=True)
        ]
        return _compared(texts, known, key, title)
    values = [None if plan is None else plan_texts.plan_value(plan, name) for plan in plans]
    first = values[0] if values else None

    def show(row: int) -> str:
        value = values[row]
        if value is None:
            return "–"
        if first is None or value == first:
            return bytes_text(value)
        return f"{bytes_text(value)} ({signed_text(value - first, bytes_text)})"

    return replace(ColumnMaker(explanations.COMPARISON_TEXTS).number(key, title, values), text=show)


def _text(
    plans: Sequence[Plan | None], name: str, title: str, figure: Callable[[Plan], str]
) -> Column:
    """Return a column whose differing cells have a mark, which colour alone could not give."""
    values = ["–" if plan is None else plain_text(figure(plan)) for plan in plans]
    return _compared(values, values, name, title)


def _compared(values: Sequence[str], compared: Sequence[str], name: str, title: str) -> Column:
    shown = [
        value if one == compared[0] else f"≠ {value}"
        for value, one in zip(values, compared, strict=True)
    ]
    plain = ColumnMaker(explanations.COMPARISON_TEXTS).words(name, title, values)
    return replace(plain, text=shown.__getitem__)
