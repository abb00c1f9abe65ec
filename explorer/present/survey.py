"""What is said of all tensors of a model beside their tables: sums and means by role and layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import numpy as np

from explorer.analysis.columns import Floats, LayerSummaries, Source, Summaries, Summary
from explorer.present.tables.survey import Metric, SummedUp, sums_record_table
from explorer.text import bytes_text, duration_text, integer_text, plain_text

OVER_LAYERS: Final = (
    "relative_rmse",
    "weighted_relative_rmse",
    "sqnr_db",
    "outlier_ratio",
    "kurtosis",
    "range",
    "bits_per_weight",
)
"""Metrics that are drawn over the layers."""

ABOUT_SUMMED_ERRORS: Final = (
    "Of several tensors together, errors and deviations are those of all their weights. Layers are "
    "summed up without norms and biases, which are few and large and would hide the others."
)
"""Shown wherever sums of errors are."""

ABOUT_SUMS: Final = (
    f"{ABOUT_SUMMED_ERRORS} Outlier ratio and kurtosis are means, weighted by parameters."
)
"""Shown wherever sums and means are."""

TOTAL_TITLE: Final = "All tensors"
MATRICES_TITLE: Final = "Matrices"


def summary_lines(found: Summaries, *, by_layer: bool, most: int | None = None) -> list[SummedUp]:
    """Return roles or layers with their titles, safe to show, the totals first.

    Args:
        most: Lines that are wanted; all of them if it is None.
    """
    lines = [(TOTAL_TITLE, found.total), (MATRICES_TITLE, found.matrices)]
    several = found.stacks > 1

    def title(one: Summary) -> str:
        own = one.role if one.layer is None else f"layer {one.layer}"
        return f"{one.stack} {own}" if several and one.stack else own

    parts = islice(found.layers if by_layer else found.roles, most and most - len(lines))
    return [*lines, *((plain_text(title(one)), one) for one in parts)]


def layer_lines(found: LayerSummaries) -> list[SummedUp]:
    """Return a layer's matrices together, and each of its roles, with titles safe to show."""
    own = f"Layer {found.layer.layer}"
    return [(own, found.layer), *((plain_text(one.role), one) for one in found.roles)]


def layer_facts(layer: int, figures: Iterable[tuple[Metric, Floats]], at: int) -> Iterator[str]:
    """Yield what is known of a layer, and its place among the others.

    Args:
        layer: Its number.
        figures: Metrics of all layers of its stack, float64 [layers]; NaN is not known.
        at: Its place there.
    """
    parts = [(metric, values) for metric, values in figures if not np.isnan(values[at])]
    ranked = any(metric.source is not Source.HEADER for metric, _ in parts)
    yield f"Layer {layer} (rank 1 is the worst)" if ranked else f"Layer {layer}"
    for metric, values in parts:
        text = f"{metric.title} {metric.shown(float(values[at]))}"
        if metric.source is not Source.HEADER:
            worse = values < values[at] if metric.low_is_worse else values > values[at]
            of = int((~np.isnan(values)).sum())
            text += f", rank {integer_text(1 + int(worse.sum()))} of {integer_text(of)}"
        yield text


def summary_count(found: Summaries, *, by_layer: bool) -> int:
    """Return the number of all lines of `summary_lines`."""
    return 2 + len(found.layers if by_layer else found.roles)


def summaries_record(found: Summaries, source: Source, *more: str) -> dict[str, Any]:
    """Return what `survey --json` and `compare --json` say of roles, layers and the model.

    Args:
        more: Names of metrics beside those of the source.
    """
    whole, by_role, by_layer = (
        sums_record_table(source, name, *more) for name in ("", "role", "layer")
    )
    return {
        "all": whole.record(found.total),
        "matrices": whole.record(found.matrices),
        "roles": [by_role.record(one) for one in found.roles],
        "layers": [by_layer.record(one) for one in found.layers],
        "notes": [ABOUT_SUMS],
    }


_WEIGHTS: Final = 0.05e9, 0.6e9
"""Weights that a core compares in a second, by type; a guess around docs/performance.md."""

_DISK: Final = 0.2e9, 3e9
"""Bytes that a disk reads in a second."""


def to_read_text(weights: float, nbytes: float, cores: int) -> str:
    """Say how long it takes to compare weights, and how many bytes that reads."""
    slow, fast = (
        max(1, round(max(weights / rate / cores, nbytes / disk)))
        for rate, disk in zip(_WEIGHTS, _DISK, strict=True)
    )
    time = f"{duration_text(fast)} to {duration_text(slow)}" if slow > fast else "a second"
    return f"about {time}: {bytes_text(round(nbytes))} to read"
