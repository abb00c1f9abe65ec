"""What the weights tell: hot spots, maps of the model, histograms, and all figures as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from explorer.present.errors import error_label, error_text
from explorer.present.statistics import (
    STATISTICS,
    statistic_figures,
    statistic_label,
    statistic_text,
)
from explorer.report.components import cut, details, paragraph, section, table
from explorer.report.elements import Element, element
from explorer.report.gathering import Evidence
from explorer.report.pictures.histogram import draw_histogram
from explorer.report.ranking import Ranked, most_interesting, rank
from explorer.report.sections.maps import maps
from explorer.report.weights import ComparedModel, TensorFigures
from explorer.text import count_text, float_text, integer_text, shape_text

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
