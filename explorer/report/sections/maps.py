"""Maps of the model: layers by roles, coloured by bits per weight, spread and error."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from explorer.report.components import cut, details, figure, table
from explorer.report.elements import Element, element
from explorer.report.gathering import Evidence
from explorer.report.pictures.heat_map import HeatMap
from explorer.report.weights import TensorFigures
from explorer.text import integer_text

_MAX_STACKS: Final = 2
_MAX_LAYERS: Final = 128
_MAX_ROLES: Final = 24


@dataclass(frozen=True, slots=True)
class _Figure:
    """What a map shows."""

    title: str
    of: Callable[[TensorFigures], float]
    format: Callable[[float], str]
    logarithmic: bool = False


def maps(evidence: Evidence) -> Iterator[Element]:
    """Yield a map for each figure that is known, of each stack of layers."""
    matrices = [one for one in evidence.tensors if one.is_matrix and one.layer is not None]
    stacks = Counter[str]()
    for one in matrices:
        stacks[one.stack] += one.parameters
    shown = [stack for stack, _ in stacks.most_common(_MAX_STACKS)]
    if shown:
        yield element("h3", "Maps of the model")
    for stack in shown:
        tensors = [one for one in matrices if one.stack == stack]
        for what in _figures(evidence):
            yield from _map(stack if len(stacks) > 1 else "", tensors, what)


def _figures(evidence: Evidence) -> Iterator[_Figure]:
    yield _Figure("Bits per weight", lambda one: one.bits_per_weight, lambda v: f"{v:.3g}")
    measured = evidence.measured
    if measured is None:
        return
    yield _Figure("Standard deviation of the weights", lambda one: one.std, _short, True)
    if measured.comparison is not None:
        what = "Relative RMS error against the reference"
        yield _Figure(what, lambda one: one.relative_rmse, _short, True)
    else:
        what = "Rounding error that the block scales imply, relative to the RMS"
        yield _Figure(what, lambda one: one.relative_step, _short, True)


def _short(value: float) -> str:
    """Return a figure in five characters or so."""
    if value == 0 or 0.001 <= value < 1000:
        return f"{value:.2g}" if value < 100 else f"{value:.0f}"
    return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")


def _map(stack: str, tensors: Sequence[TensorFigures], what: _Figure) -> Iterator[Element]:
    values: dict[tuple[str, int], float] = {}
    weights: dict[tuple[str, int], int] = {}
    for one in tensors:
        value = what.of(one)
        if one.layer is None or math.isnan(value):
            continue
        place = (one.role, one.layer)
        if one.parameters > weights.get(place, -1):  # of two of one role, the larger one
            values[place], weights[place] = value, one.parameters
    if not values:
        return
    roles = list(dict.fromkeys(one.role for one in tensors if (one.role, one.layer) in values))
    layers = sorted({layer for _, layer in values})
    shown_roles, shown_layers = roles[:_MAX_ROLES], layers[:_MAX_LAYERS]
    names = {role: cut(role, 60) for role in shown_roles}
    drawn = HeatMap(
        title=what.title,
        roles=[names[role] for role in shown_roles],
        layers=shown_layers,
        values={(names[r], layer): v for (r, layer), v in values.items() if r in names},
        format=what.format,
        logarithmic=what.logarithmic,
    )
    rows = [
        (names[role], *(_cell(values.get((role, layer)), what) for layer in shown_layers))
        for role in shown_roles
    ]
    head = ["role", *(f"layer {layer}" for layer in shown_layers)]
    data = table(head, rows, numbers=range(1, len(head)), names=(0,))
    where = f" Stack {cut(stack, 60)}." if stack else ""
    yield figure(
        drawn.draw(),
        f"{what.title}, by role and layer. Norms and biases are left out.{where}"
        + _left_out(len(roles) - len(shown_roles), len(layers) - len(shown_layers)),
        details("Data of the picture", data),
    )


def _cell(value: float | None, what: _Figure) -> str:
    return "" if value is None else what.format(value)


def _left_out(roles: int, layers: int) -> str:
    if not roles and not layers:
        return ""
    return f" Left out: {integer_text(roles)} roles and {integer_text(layers)} layers."
