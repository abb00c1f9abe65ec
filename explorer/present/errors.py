"""What is said of errors of weights against a reference, beside their tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from explorer.analysis.columns import AnyErrors, Summaries
from explorer.analysis.errors.compare import TotalErrors
from explorer.analysis.matching.pairing import Matching
from explorer.analysis.surveys import PairRow
from explorer.formats.facts import describe
from explorer.formats.model import Model
from explorer.formats.tensors import parse_name
from explorer.present.explanations import ABOUT_ERRORS
from explorer.present.tables.differences import SIDES, SidesRow
from explorer.present.tables.errors import FIGURES, MISMATCHES, WEIGHTED, compared_table
from explorer.quantization.huggingface.schemes import scheme
from explorer.text import bytes_text, percent_text, plain_text

_NO_CALIBRATION: Final = (
    "Types of Hugging Face models are rounded to nearest, from the weights alone. What calibration "
    "with sample texts or HQQ's search would gain is not included."
)


NO_MATRIX: Final = "No importance matrix: all weights count alike."


@dataclass(frozen=True, slots=True)
class Side:
    """One of two models that are compared, for a sentence.

    Attributes:
        name: What to call it, safe to show.
        nbytes: Bytes of its tensors.
        role_bytes: The same by role.
        squares: Sums of squared errors by role, as far as they are known: of both against the
            original, or of one against the other.
        loss: Relative RMSE of all but norms and biases; None where it is not known.
    """

    name: str
    nbytes: int
    role_bytes: Mapping[str, int]
    squares: Mapping[str, float]
    loss: float | None

    @classmethod
    def of(
        cls,
        letter: str,
        model: Model,
        errors: Mapping[str, AnyErrors] | None = None,
        matrices: AnyErrors | None = None,
    ) -> Side:
        """Return a model with errors by role, and of all matrices."""
        squares = {role: one.rmse**2 * one.compared for role, one in (errors or {}).items()}
        known = matrices is not None and matrices.compared
        loss = matrices.relative_rmse if matrices is not None and known else None
        return cls._of(letter, model, squares, loss)

    @classmethod
    def summed(cls, letter: str, model: Model, sums: Summaries) -> Side:
        """Return a model with the sums of its errors."""
        squares = {
            one.role: one.figures["rmse"] ** 2 * one.parameters
            for one in sums.roles
            if not math.isnan(one.figures["rmse"])
        }
        loss = sums.matrices.figures["relative_rmse"]
        return cls._of(letter, model, squares, None if math.isnan(loss) else loss)

    @classmethod
    def _of(
        cls, letter: str, model: Model, squares: Mapping[str, float], loss: float | None
    ) -> Side:
        columns, nbytes = model.tensors.columns, Counter[str]()
        for name, size in zip(columns.names, columns.nbytes, strict=True):
            nbytes[parse_name(name).role] += size
        kind = describe(model).file_type
        name = letter if kind is None else f"{letter} ({plain_text(kind)})"
        return cls(name, model.nbytes, nbytes, squares, loss)


_HALF: Final = 0.475, 0.525
_MOST: Final = 0.5
_STANDS_OUT: Final = 1.2  # times the share of an even split


def headline(one: Side, other: Side) -> str:
    """Say in a sentence what B takes and loses beside A, and where; from what is known."""
    size = other.nbytes - one.nbytes
    share = f" ({percent_text(abs(size) / one.nbytes)})" if one.nbytes else ""
    by = f"{bytes_text(abs(size))}{share} {'larger' if size > 0 else 'smaller'} than"
    text = f"{other.name} is {by if size else 'as large as'} {one.name}"
    known = [side for side in (one, other) if side.loss is not None]
    if not known:
        more = {
            role: (other.role_bytes[role] - nbytes) * size
            for role, nbytes in one.role_bytes.items()
            if role in other.role_bytes
        }
        return f"{text}{_where(more, 'difference in size')}."
    loss, before, figure = other.loss, one.loss, FIGURES["relative_rmse"]
    if loss is None or before is None:  # of one, against the other
        text += f" and differs from it by {figure.write(known[0].loss)} (relative RMSE)"
        return f"{text}{_where(known[0].squares, 'error')}."
    if loss == before:
        return f"{text}, with the same error."
    ratio = loss / before if before else math.inf
    words = f"has {percent_text(abs(ratio - 1))} {'more' if ratio > 1 else 'less'} error"
    if not before:
        words = "has an error"
    elif _HALF[0] <= ratio <= _HALF[1]:
        words = "halves the error"
    sign = 1 if loss > before else -1
    parts = [role for role in one.squares if role in other.squares]
    apart = {role: sign * (other.squares[role] - one.squares[role]) for role in parts}
    where = _where(apart, "difference in error")
    both = f"{figure.write(loss)} instead of {figure.write(before)} relative RMSE"
    return f"{text} and {words} ({both}){where}."


def _where(parts: Mapping[str, float], whole: str) -> str:
    """Return which role has most of a sum, or the largest part of it; "" if none stands out."""
    total = math.fsum(parts.values())
    role = max(parts, key=parts.__getitem__, default="")
    sharing = sum(part > 0 for part in parts.values())
    if not total > 0 or not sharing or len(parts) < 2:
        return ""
    share = min(1.0, parts[role] / total)
    if sharing > 1 and share <= _STANDS_OUT / sharing:
        return ""
    part = "most" if share > _MOST else percent_text(share)
    return f"; {part} of the {whole} is in {plain_text(role)}"


def rounding_notes(type_names: Iterable[str]) -> list[str]:
    """Return what must be said of rounding to some types; nothing of those that others make so."""
    return [_NO_CALIBRATION] if any(scheme(name) for name in type_names) else []


def document_of_both(
    paths: Sequence[str],
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
    rows: Sequence[PairRow],
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
