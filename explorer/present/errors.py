"""What is said of errors of weights against a reference, beside their tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from explorer.analysis.errors.compare import ComparedRow, TotalErrors
from explorer.analysis.matching.pairing import Matching
from explorer.present.explanations import ABOUT_ERRORS
from explorer.present.tables.differences import SIDES, SidesRow
from explorer.present.tables.errors import MISMATCHES, WEIGHTED, compared_table
from explorer.quantization.huggingface.schemes import scheme

_NO_CALIBRATION: Final = (
    "Types of Hugging Face models are rounded to nearest, from the weights alone. What calibration "
    "with sample texts or HQQ's search would gain is not included."
)


NO_MATRIX: Final = (
    "No importance matrix: all weights count alike. Choose one above to see weighted errors."
)


def rounding_notes(type_names: Iterable[str]) -> list[str]:
    """Return what must be said of rounding to some types; nothing of those that others make so."""
    return [_NO_CALIBRATION] if any(scheme(name) for name in type_names) else []


def document_of_both(
    paths: tuple[str, str, str],
    rows: Sequence[SidesRow],
    matchings: Sequence[Matching],
    totals: Sequence[TotalErrors],
    matrix: str | None = None,
) -> dict[str, Any]:
    """Return the object of `compare A B --original PATH --json`, but for sums."""
    sides = [
        document((paths[2], path), (), matching, total, matrix)
        for path, matching, total in zip(paths, matchings, totals, strict=False)
    ]
    return {
        "a": paths[0],
        "b": paths[1],
        "original": paths[2],
        **({} if matrix is None else {"imatrix": matrix}),
        "tensors": [SIDES.record(row) for row in rows],
        **{
            part: {name: side[part] for name, side in zip("ab", sides, strict=True)}
            for part in ("unmatched", "not_comparable", "total")
        },
        "notes": [ABOUT_ERRORS],
    }


def document(
    paths: tuple[str, str],
    rows: Sequence[ComparedRow],
    matching: Matching,
    total: TotalErrors,
    matrix: str | None = None,
) -> dict[str, Any]:
    """Return the whole object of `compare --json`.

    Args:
        matrix: Path of the importance matrix; without one nothing is said of weighted errors.
    """
    figures, table = total.metrics, compared_table(weighted=matrix is not None)
    return {
        "reference": paths[0],
        "candidate": paths[1],
        **({} if matrix is None else {"imatrix": matrix}),
        "tensors": [table.record(row) for row in rows],
        "unmatched": {
            "reference": list(matching.unmatched_reference),
            "candidate": list(matching.unmatched_candidate),
        },
        "not_comparable": [MISMATCHES.record(pair) for pair in matching.not_comparable],
        "total": {
            "rmse": figures.rmse,
            "relative_rmse": figures.relative_rmse,
            "sqnr_db": figures.sqnr_db,
            "bits_per_weight": total.bits_per_weight,
            "count": figures.count,
            **({} if matrix is None else WEIGHTED.record(total.weighted)),
        },
        "notes": [ABOUT_ERRORS],
    }
