"""Tables of two models side by side: the first is A, the second B."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

from explorer.analysis.columns import SummedErrors
from explorer.analysis.differences import RoleSide, TensorDifference, TensorSide
from explorer.analysis.errors.metrics import ErrorMetrics
from explorer.present.tables.errors import FIGURES
from explorer.present.tables.table import (
    BITS,
    BYTES,
    COUNT,
    FIGURE,
    INTEGER,
    LIST,
    SHAPE,
    TEXT,
    TYPE,
    Column,
    Kind,
    Table,
)
from explorer.text import integer_text, percent_text, signed_text

AnyErrors: TypeAlias = ErrorMetrics | SummedErrors
"""Errors of weights together, measured at once or added up."""

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


# Sizes and memory


@dataclass(frozen=True, slots=True)
class SizeRow:
    """A figure of both models; None is not known."""

    name: str
    label: str
    kind: Kind
    values: tuple[float | None, float | None]

    def text(self, side: int) -> str:
        """Return the figure of A (0) or of B (1)."""
        value = self.values[side]
        return "–" if value is None else self.kind.write(value)

    @property
    def difference(self) -> str:
        """B minus A, and its share of A; "" if it is not known, or nothing."""
        one, other = self.values
        if one is None or other is None or one == other:
            return ""
        by = other - one
        share = f" ({signed_text(by / one, percent_text)})" if one else ""
        return signed_text(by, self.kind.write) + share


_A: Final = "The first model."
_B: Final = "The second model."

SIZES: Final = Table[SizeRow](
    Column("figure", "Figure", TEXT, "A figure of both models.", lambda row: row.label),
    Column("a", "A", FIGURE, _A, lambda row: row.values[0], text=lambda row: row.text(0)),
    Column("b", "B", FIGURE, _B, lambda row: row.values[1], text=lambda row: row.text(1)),
    Column("difference", "Difference", TEXT, "B minus A, and its share of A."),
    title="Sizes and memory",
)


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
    return ", ".join(parts) or "–"


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
        text=lambda side: BITS.write(side.bits_per_weight) if side.bits_per_weight > 0 else "–",
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


def searched(table: Table[Row], rows: Sequence[Row]) -> list[str]:
    """Return what a filter looks in for each row: all of its words, in small letters."""
    words = [column for column in table.flat_columns if not column.kind.numeric]
    return [" ".join(column.cell(row) for column in words).casefold() for row in rows]
