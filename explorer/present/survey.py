"""What is said of all tensors of a model beside their tables: sums and means by role and layer."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from explorer.analysis.columns import Source, Summaries, Summary
from explorer.present.tables.survey import SummedUp, sums_record_table
from explorer.text import plain_text

OVER_LAYERS: Final = (
    *("relative_rmse", "sqnr_db", "outlier_ratio", "kurtosis", "range", "bits_per_weight"),
)
"""Metrics that are drawn over the layers."""

ABOUT_SUMS: Final = (
    "Of several tensors together, errors and deviations are those of all their weights. Outlier "
    "ratio and kurtosis are means, weighted by parameters. Layers are summed up without norms and "
    "biases, which are few and large and would hide the others."
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
