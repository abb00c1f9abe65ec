"""Errors of a pair of tensors as a line of text, and back; see `records`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields as fields_of_class
from typing import Any, Final

from explorer.analysis.errors.figures import ERROR_PERCENTS, ErrorFigures
from explorer.analysis.errors.weights_pair import WeightsPair
from explorer.analysis.surveys.kept_lines import fields_of, line_of

_COUNTS: Final = (
    *("count", "compared", "reference_not_finite", "candidate_not_finite"),
    *("equal", "sign_flips", "zeroed"),
)
_FIGURES: Final = tuple(
    field.name
    for field in fields_of_class(ErrorFigures)
    if field.name not in (*_COUNTS, "percentiles")
)


def to_line(number: int, pair: WeightsPair, found: ErrorFigures) -> bytes:
    """Return the errors of a pair as a line, with its place among all pairs."""
    fields: dict[str, Any] = {name: getattr(found, name) for name in (*_COUNTS, *_FIGURES)}
    percentiles = [found.percentiles[percent] for percent in ERROR_PERCENTS]
    return line_of(
        {**fields, "number": number, "pair": _identity(pair), "percentiles": percentiles}
    )


def from_line(line: bytes, pairs: Sequence[WeightsPair]) -> tuple[int, ErrorFigures] | None:
    """Return what `to_line` was given, or None if it cannot be told or is of another pair."""
    fields = fields_of(line)
    if fields is None:
        return None
    try:
        number = fields["number"]
        if not 0 <= number < len(pairs) or fields["pair"] != _identity(pairs[number]):
            return None
        counts: dict[str, Any] = {name: int(fields[name]) for name in _COUNTS}
        figures: dict[str, Any] = {name: float(fields[name]) for name in _FIGURES}
        told = zip(ERROR_PERCENTS, map(float, fields["percentiles"]), strict=True)
        return number, ErrorFigures(**counts, **figures, percentiles=dict(told))
    except (ValueError, TypeError, KeyError):  # another program's digest is right
        return None


def _identity(pair: WeightsPair) -> list[Any]:
    names = [pair.reference_name, pair.candidate_name, pair.reference_type, pair.candidate_type]
    return [*names, list(pair.shape), list(pair.notes)]
