"""What the weights tell: hot spots, maps of the model, histograms, and all figures as a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from explorer.present.errors import error_label, error_text
from explorer.present.statistics import (
    STATISTICS,
    statistic_figures,
    statistic_label,
    statistic_text,
)
from explorer.report.gather import (
    ComparedModel,
    Evidence,
    Ranked,
    TensorFigures,
    most_interesting,
    rank,
)
from explorer.report.html import Element, cut, details, element, figure, paragraph, section, table
from explorer.report.svg import HeatMap, draw_histogram
from explorer.text import count_text, float_text, integer_text, shape_text

# Maps of the model: layers by roles, coloured by bits per weight, spread and error.


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


_SHOWN_SPOTS: Final = 20
_SHOWN_NAMES: Final = 40
_HISTOGRAMS: Final = 6
_STATISTICS: Final = ("min", "max", "mean", "std", "rms", "outlier_ratio", "step_error_rms")
_ERRORS: Final = ("relative_rmse", "sqnr_db")

CAUTION: Final = (
    "Weight error ranks tensors within a role (all ffn_down, say). It does not by itself predict "
    "the quality of a model's answers, and nothing in this report does."
)


def weights(evidence: Evidence) -> Element:
    """Return all that reading the weights gave; of a header-only report, what is known without."""
    measured = evidence.measured
    if measured is None:
        unread = "The weights were not read: this report was made of the header alone."
        return section("weights", "Weights", paragraph(unread, "faint"), *maps(evidence))
    matrices = [one for one in evidence.tensors if one.is_matrix]
    orders = []
    parts: list[Element | None] = [paragraph(CAUTION, "caution")]
    if measured.comparison is not None:
        parts += _comparison(measured.comparison)
        worst = rank(matrices, lambda one: one.relative_rmse)
        parts += _spots("Hot spots: greatest error against the reference", worst, "relative_rmse")
        orders.append(worst)
    else:
        steps = rank(matrices, lambda one: one.relative_step)
        title = "Hot spots: coarsest rounding, as the block scales imply it"
        parts += _spots(title, steps, "relative_step_error")
        orders.append(steps)
    outliers = rank(matrices, lambda one: one.outlier_ratio)
    parts += _spots("Greatest outliers", outliers, "outlier_ratio")
    orders.append(outliers)
    parts += maps(evidence)
    parts += _histograms(most_interesting(orders, _HISTOGRAMS))
    parts.append(_all_tensors(evidence.tensors, compared=measured.comparison is not None))
    return section("weights", "Weights", *parts)


def _comparison(found: ComparedModel) -> Iterator[Element]:
    """Yield what was compared, and what was not."""
    overall = ""
    if not math.isnan(found.relative_rmse):
        figure = error_text("relative_rmse", found.relative_rmse)
        overall = f" Over the weights of all matrices the relative RMS error is {figure}."
    yield paragraph(
        f"{integer_text(found.compared)} pairs of tensors were compared with the reference, weight "
        f"by weight.{overall}"
    )
    if found.not_comparable:
        rows = ((cut(names), cut(why, 300)) for names, why in found.not_comparable)
        total = len(found.not_comparable)
        listed = table(("tensors", "why"), rows, total=total, names=(0,))
        yield details(f"{integer_text(total)} tensors are not comparable", listed)
    for where, names in (
        ("the reference", found.only_in_reference),
        ("this model", found.only_in_model),
    ):
        if names:
            shown = ", ".join(cut(name) for name in names[:_SHOWN_NAMES])
            more = ", …" if len(names) > _SHOWN_NAMES else ""
            title = f"{integer_text(len(names))} tensors are only in {where}"
            yield details(title, paragraph(f"{shown}{more}"))


def _spots(title: str, ranked: Sequence[Ranked], name: str) -> Iterator[Element]:
    if not ranked:
        return
    rows = [
        (
            cut(one.tensor.name),
            cut(one.tensor.type),
            _text(name, one.value),
            f"{one.place} of {one.peers}",
            "" if math.isnan(one.to_median) else f"{one.to_median:.2f} ×",
            count_text(one.tensor.parameters),
        )
        for one in ranked[:_SHOWN_SPOTS]
    ]
    figure = statistic_label(name) if name in STATISTICS else error_label(name)
    head = ("tensor", "type", figure, "place in its role", "of the role's median", "weights")
    yield element("h3", title)
    yield table(head, rows, numbers=(2, 3, 4, 5), names=(0,))


def _text(name: str, value: float) -> str:
    return statistic_text(name, value) if name in STATISTICS else error_text(name, value)


def _histograms(tensors: Sequence[TensorFigures]) -> Iterator[Element]:
    plots = []
    for one in tensors:
        histogram = one.histogram
        if histogram is None:
            continue
        title = f"Weights of {cut(one.name)}"
        counts = histogram.counts.tolist()
        edges = histogram.edges.tolist()
        rows = [
            (float_text(low, 5), float_text(high, 5), integer_text(count))
            for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
        ]
        data = details(
            "Data of the picture", table(("from", "to", "weights"), rows, numbers=range(3))
        )
        caption = element("figcaption", f"{cut(one.name)}, {cut(one.type)}")
        plots.append(element("figure", caption, draw_histogram(title, histogram), data))
    if plots:
        yield element("h3", "Histograms of tensors that stand out")
        yield paragraph("Heights are logarithmic: a bin of few weights is still seen.", "faint")
        yield element("div", *plots, class_="plots")


def _all_tensors(tensors: Sequence[TensorFigures], *, compared: bool) -> Element:
    """Return the figures of every tensor."""
    head = ["tensor", "type", "shape", *map(statistic_label, _STATISTICS)]
    head += [error_label(name) for name in _ERRORS] if compared else []
    rows = (tuple(_line(one, compared=compared)) for one in tensors)
    body = table(head, rows, total=len(tensors), numbers=range(2, len(head)), names=(0,))
    return details(f"Figures of all {integer_text(len(tensors))} tensors", body)


def _line(one: TensorFigures, *, compared: bool) -> Iterator[str]:
    yield from (cut(one.name), cut(one.type), shape_text(one.shape))
    found = one.statistics
    if found is None:
        yield from [""] * len(_STATISTICS)
    else:
        texts = {figure.name: figure.text for figure in statistic_figures(found)}
        yield from (texts.get(name, "") for name in _STATISTICS)
    if compared:
        errors = one.errors
        for name in _ERRORS:
            yield "" if errors is None else error_text(name, getattr(errors, name))
