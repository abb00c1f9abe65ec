"""Tables of two models side by side: the first is A, the second B."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from explorer.analysis.columns import AnyErrors
from explorer.analysis.differences import RoleSide, TensorDifference, TensorSide
from explorer.analysis.errors.pairs import PairErrors
from explorer.analysis.surveys import PairRow
from explorer.present.tables.errors import FIGURES, WEIGHTED, errors_of, weighted_of
from explorer.present.tables.table import (
    BITS,
    BYTES,
    BYTES_CHANGE,
    COUNT,
    FIGURE,
    INTEGER,
    LIST,
    RATIO,
    SHAPE,
    TEXT,
    TYPE,
    Column,
    Kind,
    Table,
)
from explorer.text import UNKNOWN, digits_text, fixed_text, integer_text, percent_text, signed_text

Row = TypeVar("Row")
Part = TypeVar("Part")

_CHANGE: Final = "Added: only B has it. Gone: only A has it. Changed: both have it, and it differs."


def _of_sides(
    sides: tuple[Callable[[Row], Part | None], Callable[[Row], Part | None]], *columns: Column[Part]
) -> list[Column[Row]]:
    """Return columns for A and B each, beside each other; JSON has each side as an object."""
    return [
        column.at(
            side,
            name=f"{column.name}_{letter.lower()}",
            title=f"{column.title} {letter}",
            flat_only=True,
        )
        for column in columns
        for side, letter in zip(sides, "AB", strict=True)
    ]


def with_b_called(table: Table[Row], other: str) -> Table[Row]:
    """Return a table whose second model is called otherwise than B, such as "the original"."""
    name = other.removeprefix("the ")

    def called(column: Column[Row]) -> Column[Row]:
        title = re.sub(r"\bB\b", name, column.title)
        return replace(column, title=title[:1].upper() + title[1:])

    return table.with_columns(map(called, table))


def _better_or_worse(gain: float) -> str:
    """Return what a gain of B over A is, in words: a colour alone would not say it."""
    return " better" if gain > 0 else " worse" if gain < 0 else ""


def loss_tone(loss: float | None) -> str:
    """Return how a cell of B's loss beside A's is set off."""
    return "" if loss is None else _tone(-loss)


def _tone(gain: float) -> str:
    return "good" if gain > 0 else "bad" if gain < 0 else ""


# Sizes and memory


@dataclass(frozen=True, slots=True)
class SizeRow:
    """A figure of both models; None is not known.

    Attributes:
        better: Whether more of it is better (1), or less (-1); 0 if that cannot be said.
        errors: How uncertain each is (±); 0 where that is not known.
    """

    name: str
    label: str
    kind: Kind
    values: tuple[float | None, float | None]
    better: int = 0
    errors: tuple[float, float] = (0.0, 0.0)

    def text(self, side: int) -> str:
        """Return the figure of A (0) or of B (1), with its uncertainty."""
        value, error = self.values[side], self.errors[side]
        if value is None:
            return UNKNOWN
        if not error:
            return self.kind.write(value)
        within = digits_text(error, 2)
        places = len(within.partition(".")[2])
        plain = "e" not in within and abs(value) < _MOST_PLAIN
        text = fixed_text(value, places) if plain else self.kind.write(value)
        return f"{text} ± {within}"

    @property
    def _gain(self) -> float:
        """What B is better by; 0 within the errors of both, and where it is not known."""
        one, other = self.values
        if one is None or other is None:
            return 0.0
        return (other - one) * self.better if abs(other - one) > sum(self.errors) else 0.0

    @property
    def difference(self) -> str:
        """B minus A, and its share of A; "" if it is not known, or nothing."""
        one, other = self.values
        if one is None or other is None or one == other:
            return ""
        by = other - one
        share = f" ({signed_text(by / one, percent_text)})" if one and not self.better else ""
        verdict = _better_or_worse(self._gain)
        if abs(by) <= sum(self.errors):
            verdict = " within the error"
        change = signed_text(by, self.kind.write)
        if change.endswith(" %"):  # else it could be a share of A
            change = f"{change[:-2]} points"
        return change + share + verdict

    @property
    def tone(self) -> str:
        """Whether B is better than A, or worse."""
        return _tone(self._gain)


_MOST_PLAIN: Final = 1e7  # what is written with all digits before the point
_A: Final = "The first model."
_B: Final = "The second model."

SIZES: Final = Table[SizeRow](
    Column("figure", "Figure", TEXT, "A figure of both models.", lambda row: row.label),
    Column("a", "A", FIGURE, _A, lambda row: row.values[0], text=lambda row: row.text(0)),
    Column("b", "B", FIGURE, _B, lambda row: row.values[1], text=lambda row: row.text(1)),
    Column(
        *("difference", "Difference", TEXT, "B minus A, and its share of A."),
        tone=lambda row: row.tone,
    ),
    title="Sizes, errors and memory",
)


QUALITY: Final = (
    ("perplexity", "Perplexity, measured elsewhere", FIGURE, -1),
    ("divergence", "Mean KL divergence, measured elsewhere", FIGURE, -1),
    ("divergence_median", "Median KL divergence", FIGURE, -1),
    ("divergence_99_9", "KL divergence, 99.9 %", FIGURE, -1),
    ("same_top", "Same first token", RATIO, 1),
)
"""What others measured: its name in `Quality`, label, kind, and whether more of it is better."""


# Metadata


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key that differs; texts come from the file."""

    key: str
    change: str
    before: str
    after: str
    type_name: str
    note: str


KEYS: Final = Table[KeyRow](
    Column("key", "Key", TEXT, "The key in the file."),
    Column("change", "Change", TEXT, _CHANGE),
    Column("a", "A", TEXT, _A, lambda row: row.before, stretches=True),
    Column("b", "B", TEXT, _B, lambda row: row.after, stretches=True),
    Column("type", "Type", TEXT, "How the value is stored.", lambda row: row.type_name),
    Column("note", "Note", TEXT, "How much of an array differs."),
    title="Metadata that differs",
)


# Tensors

_STORED: Final = "Stored bytes. None if it is not there, or was counted with another tensor."

TENSOR: Final = Table[TensorSide](
    Column("name", "Tensor", TEXT, "The tensor's name."),
    Column("type", "Type", TYPE, "How it is stored.", lambda side: side.type_name),
    Column("shape", "Shape", SHAPE, "Lengths of its dimensions.", lambda side: list(side.shape)),
    Column("parameters", "Parameters", COUNT, "Number of its weights."),
    Column("bytes", "Size", BYTES, _STORED, lambda side: side.nbytes),
    title="A tensor of one of two models",
)


def _before(found: TensorDifference) -> TensorSide | None:
    return found.before


def _after(found: TensorDifference) -> TensorSide | None:
    return found.after


def _names(found: TensorDifference) -> str:
    sides = (found.before, found.after)
    return " → ".join(dict.fromkeys(side.name for side in sides if side is not None))


def _record(side: TensorSide | None) -> dict[str, Any] | None:
    return None if side is None else TENSOR.record(side)


_NAMES: Final = "The name. Two names where the models call it differently."

TENSORS: Final = Table[TensorDifference](
    Column("tensor", "Tensor", TEXT, _NAMES, _names, flat_only=True),
    Column("change", "Change", TEXT, _CHANGE, lambda found: found.kind, flat_only=True),
    *_of_sides((_before, _after), TENSOR["type"], TENSOR["shape"], TENSOR["bytes"]),
    Column("role", "Role", TEXT, "What it does in its layer.", extra=True),
    Column("a", "A", LIST, of=lambda found: _record(found.before), json_only=True),
    Column("b", "B", LIST, of=lambda found: _record(found.after), json_only=True),
    Column(
        *("reason", "Note", TEXT, "Why the two cannot be compared."),
        lambda found: found.reason or None,
        sparse=True,
    ),
    title="Tensors of both models",
)


# Types by role


@dataclass(frozen=True, slots=True)
class RoleRow:
    """A role in both models, with errors where they were read."""

    role: str
    sides: tuple[RoleSide, RoleSide]
    errors: tuple[AnyErrors | None, AnyErrors | None] = (None, None)


def _types(side: RoleSide) -> str:
    """Return "18 Q4_K, 9 Q6_K"; "–" without tensors."""
    parts = [f"{integer_text(count)} {name}" for name, count in side.types.items() if count]
    return ", ".join(parts) or UNKNOWN


ROLE: Final = Table[RoleSide](
    Column(
        *("types", "Types", Kind(str, numeric=False)),
        "The tensors of the role, by their types.",
        text=_types,
    ),
    Column("parameters", "Parameters", COUNT, "Number of weights of the role."),
    Column("bytes", "Size", BYTES, "Stored bytes of the role.", lambda side: side.nbytes),
    Column(
        *("bits_per_weight", "Bits", BITS, "Stored bits for each weight, scales included."),
        text=lambda side: BITS.write(side.bits_per_weight) if side.bits_per_weight > 0 else UNKNOWN,
    ),
    title="A role of one of two models",
)


def _side(place: int) -> Callable[[RoleRow], RoleSide]:
    return lambda row: row.sides[place]


def _errors(place: int) -> Callable[[RoleRow], AnyErrors | None]:
    return lambda row: row.errors[place]


def _figures(errors: AnyErrors) -> Any:
    return errors  # which has these figures, whatever else


METRICS: Final = Table[AnyErrors](
    Column("count", "Weights", INTEGER, "Pairs of weights."),
    *FIGURES.at(_figures, "relative_rmse", "rmse", "sqnr_db", "max_abs_error", "mean_error"),
    title="Errors",
)
"""What JSON says of the errors of a role, or of all weights."""

ROLES: Final = Table[RoleRow](
    Column("role", "Role", TEXT, "What tensors do in their layer."),
    *_of_sides((_side(0), _side(1)), *(ROLE["types"], ROLE["bytes"], ROLE["bits_per_weight"])),
    *_of_sides(
        (_errors(0), _errors(1)),
        replace(METRICS["relative_rmse"], sparse=True),
        replace(METRICS["sqnr_db"], sparse=True),
    ),
    Column("a", "A", LIST, of=lambda row: ROLE.record(row.sides[0]), json_only=True),
    Column("b", "B", LIST, of=lambda row: ROLE.record(row.sides[1]), json_only=True),
    title="Types by role",
)


# Errors of both against their original


@dataclass(frozen=True, slots=True)
class SideErrors:
    """A tensor of one of two models, and its errors against their original.

    Attributes:
        errors: None where they are not known.
    """

    type_name: str
    nbytes: int
    errors: PairErrors | None = None


@dataclass(frozen=True, slots=True)
class SidesRow:
    """A tensor of the original, and what became of it in A and in B; None where it is missing."""

    tensor: str
    a: SideErrors | None
    b: SideErrors | None

    def difference(self, name: str) -> float | None:
        """Return a figure of B, a column of `SIDE`, minus that of A; None where one is unknown."""
        column = SIDE[name]
        one = None if self.a is None else column.value(self.a)
        other = None if self.b is None else column.value(self.b)
        return None if one is None or other is None else other - one


def side_rows(one: Iterable[PairRow], other: Iterable[PairRow] = ()) -> list[SidesRow]:
    """Return what was compared with one original, a row for each tensor of it."""
    sides: tuple[dict[str, SideErrors], dict[str, SideErrors]] = ({}, {})
    for found, rows in zip(sides, (one, other), strict=True):
        for row in rows:
            nbytes = sum(tensor.nbytes for tensor in row.pair.candidate.tensors)
            found[row.pair.reference_name] = SideErrors(row.pair.candidate_type, nbytes, row.errors)
    names = dict.fromkeys((*sides[0], *sides[1]))
    return [SidesRow(name, sides[0].get(name), sides[1].get(name)) for name in names]


SIDE: Final = Table[SideErrors](
    Column("type", "Type", TYPE, "How it is stored.", lambda side: side.type_name),
    Column("bytes", "Size", BYTES, "Stored bytes.", lambda side: side.nbytes),
    *FIGURES.at(errors_of, "relative_rmse", "sqnr_db", "rmse", "max_abs_error"),
    *(replace(column, sparse=True) for column in WEIGHTED.at(weighted_of)),
    title="A tensor against its original",
)
_LOSS: Final = "Relative RMSE of B minus that of A: + where B lost more, - where A did."
_PARTS: Final = "type", "bytes", "relative_rmse", "weighted_relative_rmse"


def _side_of(letter: str) -> Callable[[SidesRow], SideErrors | None]:
    return lambda row: row.a if letter == "A" else row.b


SIDES: Final = Table[SidesRow](
    Column("tensor", "Tensor", TEXT, "The tensor of the original."),
    *_of_sides(
        (_side_of("A"), _side_of("B")),
        *(SIDE[name] for name in _PARTS),
        *(replace(SIDE[name], extra=True) for name in ("sqnr_db", "rmse", "max_abs_error")),
    ),
    Column(
        *("difference", "B - A", Kind(partial(signed_text, text=percent_text)), _LOSS),
        lambda row: row.difference("relative_rmse"),
        tone=lambda row: loss_tone(row.difference("relative_rmse")),
    ),
    Column(
        *("bytes_difference", "Size, B - A", BYTES_CHANGE, "Bytes of B minus those of A."),
        lambda row: row.difference("bytes"),
    ),
    Column("a", "A", LIST, of=lambda row: row.a and SIDE.record(row.a), json_only=True),
    Column("b", "B", LIST, of=lambda row: row.b and SIDE.record(row.b), json_only=True),
    title="Errors of both models",
)
"""Errors of A and of B against their original, tensor by tensor."""


def searched(table: Table[Row], rows: Sequence[Row]) -> list[str]:
    """Return what a filter looks in for each row: all of its words, in small letters."""
    words = [column for column in table.flat_columns if not column.kind.numeric]
    return [" ".join(column.cell(row) for column in words).casefold() for row in rows]
