"""What `compare` tells as JSON and CSV (docs/interface.md)."""

from __future__ import annotations

from typing import Any, Final

from explorer.analysis.errors.compare import ComparedRow, TotalErrors
from explorer.analysis.matching import Matching
from explorer.cli.errors_record import ABOUT_ERRORS, errors_record
from explorer.tabular import Cell


def compared_record(row: ComparedRow) -> dict[str, Any]:
    """Return a row of the JSON object."""
    reference, candidate = row.match.reference, row.match.candidate
    errors = row.errors
    return {
        "reference_name": reference.name,
        "candidate_name": candidate.name,
        "type": candidate.type_name,
        "reference_type": reference.type_name,
        "shape": list(candidate.shape),
        "count": candidate.parameters,
        **errors_record(errors),
        "saturated_codes": None if errors is None else errors.saturated_codes,
        "reference_tensors": [tensor.name for tensor in reference.tensors],
        "candidate_tensors": [tensor.name for tensor in candidate.tensors],
        "notes": [*reference.notes, *candidate.notes],
        "problem": None if row.problem is None else row.problem.what,
    }


_NOT_IN_CSV: Final = ("percentiles", "reference_tensors", "candidate_tensors")
COLUMNS: Final = [
    *("reference_name", "candidate_name", "type", "reference_type", "shape", "count"),
    *(name for name in errors_record(None) if name not in _NOT_IN_CSV),
    *("percentile_50", "percentile_90", "percentile_99", "percentile_99.9"),
    *("saturated_codes", "notes", "problem"),
]
"""Columns of the CSV table."""


def cells(record: dict[str, Any]) -> list[Cell]:
    """Return a row of the CSV table."""
    percentiles = record["percentiles"] or {}
    flat = {
        **record,
        **{f"percentile_{percent}": value for percent, value in percentiles.items()},
        "shape": "x".join(map(str, record["shape"])),
        "notes": "; ".join(record["notes"]),
    }
    return [flat.get(name) for name in COLUMNS]


def document(
    paths: tuple[str, str], records: list[dict[str, Any]], matching: Matching, total: TotalErrors
) -> dict[str, Any]:
    """Return the whole JSON object."""
    figures = total.figures
    return {
        "reference": paths[0],
        "candidate": paths[1],
        "tensors": records,
        "unmatched": {
            "reference": list(matching.unmatched_reference),
            "candidate": list(matching.unmatched_candidate),
        },
        "not_comparable": [
            {
                "reference_name": pair.reference_name,
                "candidate_name": pair.candidate_name,
                "reason": pair.reason,
            }
            for pair in matching.not_comparable
        ],
        "total": {
            "rmse": figures.rmse,
            "relative_rmse": figures.relative_rmse,
            "sqnr_db": figures.sqnr_db,
            "bits_per_weight": total.bits_per_weight,
            "count": figures.count,
        },
        "notes": [ABOUT_ERRORS],
    }
