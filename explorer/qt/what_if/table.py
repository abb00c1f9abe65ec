"""The table of what-ifs: a line for each type, and one for the model as it is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from explorer.analysis.recipes.fits import RoleErrors
from explorer.analysis.what_if import PRESENT, SizeAfter, TypeErrors, pareto_front
from explorer.planner.inputs import PlannedMemory
from explorer.present.errors import ERROR_TEXTS, error_text
from explorer.present.explanations import WHAT_IF_TEXTS
from explorer.present.recipes import trial_figure, types_text
from explorer.qt.what_if.estimate import WhatIfEstimate
from explorer.qt.widgets.table_model import Cell, Column, RowColumns
from explorer.text import bits_text, bytes_text, count_text, integer_text, plain_text, signed_text

GPU_COLUMNS: Final = ("memory_on_gpus", "layers_on_gpus")
"""Names of the columns that say nothing on a machine without GPUs."""

PLAN_COLUMNS: Final = ("memory_total", "memory_change", *GPU_COLUMNS)
"""Names of the columns that say nothing without a memory plan."""

_SPARE: Final = {
    "file_bytes": 9,
    "saturated_codes": 8,
    "max_abs_error": 8,
    "rmse": 7,
    "memory_change": 6,
    "memory_on_gpus": 5,
    "bytes_change": 4,
    "sqnr_db": 3,
    "note": 2,
    "layers_on_gpus": 1,
    "memory_total": 1,
    "relative_rmse": -1,
    "bytes": -1,
}
"""What goes first where there is no room: the chart has either error, sizes tell changes."""

_FIGURES: Final = ("rmse", "relative_rmse", "sqnr_db", "max_abs_error")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: the tensors in a type.

    Attributes:
        type_name: The type; `PRESENT` for the tensors as they are.
        title: What to call it.
        size: How large they are then.
        now: How large they are.
        plan: The memory plan then, or None.
        plan_now: The memory plan as it is, or None.
        errors: What is lost, as far as it is known.
        measurable: Whether what is lost can be known: of the tensors as they are, only against the
            original.
        front: Whether no other type is smaller and not worse, or better and not larger.
        by_recipe: Whether it is a recipe, which gives each tensor a type of its own.
        present_type: The type that all of the tensors have; "" for several.
    """

    type_name: str
    title: str
    size: SizeAfter
    now: SizeAfter
    plan: PlannedMemory | None = None
    plan_now: PlannedMemory | None = None
    errors: TypeErrors | None = None
    measurable: bool = True
    front: bool = False
    by_recipe: bool = False
    present_type: str = ""

    @property
    def colour(self) -> str | None:
        """The type whose colour stands before the line; None for several."""
        if self.type_name != PRESENT:
            return self.type_name
        return self.present_type or None

    @property
    def known(self) -> TypeErrors | None:
        """The errors, once all weights were looked at."""
        return self.errors if self.errors is not None and self.errors.complete else None

    def figure(self, name: str) -> float | None:
        """Return a figure of `ErrorMetrics`; None as long as it is not known, or if it is NaN."""
        if self.known is None:
            return None
        value = float(getattr(self.known.metrics, name))
        return None if math.isnan(value) else value

    def cell(self, name: str) -> float | int | None:
        """Return the number in a column; None if there is none."""
        size, plan, fits = self.size, self.plan, self.size.problem is None
        if name in _FIGURES:
            return self.figure(name)
        if name == "saturated_codes":
            return None if self.known is None else self.known.saturated
        if plan is not None and self.plan_now is not None and fits:
            planned = {
                "memory_total": plan.total,
                "memory_change": plan.total - self.plan_now.total,
                "memory_on_gpus": plan.vram,
                "layers_on_gpus": plan.gpu_layers,
            }
            if name in planned:
                return planned[name]
        sizes = {
            "bits_per_weight": size.bits_per_weight,
            "bytes": size.nbytes,
            "bytes_change": size.nbytes - self.now.nbytes,
            "file_bytes": size.file_nbytes,
        }
        return sizes.get(name) if fits else None


def lines_of(estimate: WhatIfEstimate, errors: Mapping[str, TypeErrors]) -> list[Line]:
    """Return a line for the tensors as they are, and one for each type that was asked for."""
    plan_now = estimate.plans.get(PRESENT)
    now = estimate.present

    def line(name: str, title: str, size: SizeAfter) -> Line:
        plan = estimate.plans.get(name)
        measurable = name != PRESENT or estimate.against_source
        more = errors.get(name), measurable
        by_recipe = estimate.request.by_recipe and name != PRESENT
        line = Line(name, title, size, now, plan, plan_now, *more, by_recipe=by_recipe)
        return replace(line, present_type=estimate.present_type)

    title = estimate.present_type or "several types"
    facts = estimate.request.document.facts
    if estimate.request.rows is None and facts.file_type:
        title = facts.file_type
    present = line(PRESENT, f"{plain_text(title)} (as it is)", now)
    others = [line(name, name, size) for name, size in estimate.sizes.items()]
    points = [(one.size.bits_per_weight, _or_nan(one.figure("relative_rmse"))) for one in others]
    front = pareto_front(points)
    return [present, *(replace(one, front=on) for one, on in zip(others, front, strict=True))]


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


class WhatIfColumns:
    """The columns of a table of lines, which are replaced as more is measured.

    Attributes:
        planned: What the memory is planned for, in words.
        by_recipe: Whether the lines are recipes.
    """

    def __init__(self) -> None:
        self.lines: Sequence[Line] = ()
        self.planned = ""
        self.by_recipe = False

    @property
    def extent(self) -> object:
        """What the widths of the columns follow from, while the lines are the same."""
        known = [line.known is not None for line in self.lines]
        return known, max((len(short_note(line)) for line in self.lines), default=0)

    def columns(self) -> list[Column]:
        tips = WHAT_IF_TEXTS
        memory = self.planned
        title, kind = ("Recipe", "recipe") if self.by_recipe else ("Type", "type")
        columns = [
            replace(
                self._text("type", title, lambda line: line.title, tips[kind]),
                type_name=None if self.by_recipe else lambda row: self.lines[row].colour,
            ),
            self._number("bits_per_weight", "Bits/weight", bits_text, tips["bits_per_weight"]),
            self._number("bytes", "Size", bytes_text, tips["bytes"]),
            *map(self._error, ("relative_rmse", "sqnr_db")),
            self._number("bytes_change", "Change", change_text, tips["bytes_change"]),
            self._number("memory_total", "Memory", bytes_text, memory),
            self._number("memory_change", "Memory change", change_text, memory),
            self._number("memory_on_gpus", "On GPUs", bytes_text, memory),
            self._number("layers_on_gpus", "Layers on GPUs", integer_text, memory),
            *map(self._error, ("rmse", "max_abs_error", "saturated_codes")),
            self._number("file_bytes", "File", bytes_text, tips["file_bytes"]),
            replace(
                self._text("note", "Note", note_text, tips["note"]),
                text=lambda row: short_note(self.lines[row]),
            ),
        ]
        return [replace(one, spare=_SPARE.get(one.name, 0)) for one in columns]

    def why_blank(self, row: int) -> str:
        """Return why a line has no figures; "" if it has."""
        problem = self.lines[row].size.problem
        return "" if problem is None else plain_text(problem)

    def place_of(self, type_name: str) -> int | None:
        """Return the row of a type, or None."""
        names = [line.type_name for line in self.lines]
        return names.index(type_name) if type_name in names else None

    def _error(self, name: str) -> Column:
        text = ERROR_TEXTS[name]
        return self._number(name, text.title, partial(error_text, name), text.tip)

    def _text(self, name: str, title: str, of: Callable[[Line], str], tip: str) -> Column:
        def text(row: int) -> str:
            return of(self.lines[row])

        def keys() -> np.ndarray:
            return np.array([of(line) for line in self.lines], dtype=np.str_)

        return Column(name, title, text, text, keys, tip=tip)

    def _number(self, name: str, title: str, text: Callable[..., str], tip: str) -> Column:
        def raw(row: int) -> Cell:
            return self.lines[row].cell(name)

        def shown(row: int) -> str:
            line = self.lines[row]
            value = line.cell(name)
            if value is not None:
                return text(value)
            return "–" if line.size.problem is None else ""  # else the reason stands there

        def keys() -> np.ndarray:
            # what is not known stands behind all that is
            values = [line.cell(name) for line in self.lines]
            return np.array([np.inf if value is None else float(value) for value in values])

        return Column(name, title, shown, raw, keys, numeric=True, tip=tip)


def note_text(line: Line) -> str:
    """Return what else there is to say of a line."""
    return plain_text("; ".join(whole for whole, _ in _notes(line)))


def short_note(line: Line) -> str:
    """Return what the table has room for of a note; the cell's tool tip has all of it."""
    return plain_text("; ".join(short for _, short in _notes(line) if short))


def _notes(line: Line) -> Iterator[tuple[str, str]]:
    """Yield what else there is to say, and the same in few words; "" if the table says it."""
    if line.size.problem is not None:
        yield f"cannot be: {line.size.problem}", ""
        return
    if line.errors is not None and not line.errors.complete:
        done = line.errors.done / line.errors.total
        yield (f"{100 * done:.0f} % measured",) * 2
    elif not line.measurable:
        yield "its own error is not known without the original", ""
    elif line.errors is None:
        yield "not measured", ""
    if line.front:
        yield ("on the front",) * 2
    if line.by_recipe and line.size.types:
        yield (types_text(Counter(kind.name for kind in line.size.types.values())),) * 2
    for name, narrow in line.size.substitutes.items():
        n = integer_text(narrow)
        yield (f"{n} too narrow for it: {name} there, as llama-quantize does", f"{n} in {name}")
    if kept := line.size.kept:
        n, whole = integer_text(kept), "1 tensor cannot have it and stays as it is"
        if kept > 1:
            whole = f"{n} tensors cannot have it and stay as they are"
        yield whole, f"{n} as they are"
    if line.plan is not None and line.plan.refusal:
        yield (line.plan.refusal,) * 2


def role_columns(roles: Sequence[RoleErrors]) -> list[Column]:
    """Return the columns of errors by role."""
    table = RowColumns(roles, WHAT_IF_TEXTS)
    columns = [
        table.words("role", "Role", lambda one: one.role),
        *(_role_error(roles, name) for name in ("relative_rmse", "sqnr_db")),
        table.words("types", "Types", lambda one: types_text(one.types)),
        table.number("parameters", "Parameters", lambda one: one.parameters, count_text),
        table.number("bytes", "Size", lambda one: one.nbytes, bytes_text),
        table.number("bits_per_weight", "Bits/weight", lambda one: one.bits_per_weight, bits_text),
        _role_error(roles, "rmse"),
    ]
    spare = {"relative_rmse": -1, "sqnr_db": 1, "bits_per_weight": 2, "parameters": 3, "rmse": 4}
    return [replace(one, spare=spare.get(one.name, 0)) for one in columns]


def _role_error(roles: Sequence[RoleErrors], name: str) -> Column:
    values = [trial_figure(one.errors, name) for one in roles]

    def shown(row: int) -> str:
        value = values[row]
        return "–" if value is None else error_text(name, value)

    def keys() -> np.ndarray:
        return np.array([-math.inf if value is None else value for value in values])

    text = ERROR_TEXTS[name]
    return Column(name, text.title, shown, lambda row: values[row], keys, True, text.tip)


def change_text(nbytes: int) -> str:
    """Return a difference of bytes with its sign."""
    return signed_text(nbytes, bytes_text) if nbytes else f"\N{PLUS-MINUS SIGN}{bytes_text(0)}"
