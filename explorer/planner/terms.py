"""A figure with its reason: the formula, the value of every symbol, and where each came from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

Number: TypeAlias = int | float

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_NOT_SYMBOLS: Final = frozenset({"max", "min", "sum", "int", "or"})


@dataclass(frozen=True, slots=True)
class Input:
    """The value of a symbol.

    Attributes:
        value: The number, or the numbers that are summed.
        origin: The metadata key, setting or figure that it came from.
    """

    value: Number | tuple[int, ...]
    origin: str


@dataclass(frozen=True, slots=True)
class Term:
    """One figure of a plan.

    Attributes:
        name: Where it stands in the plan's JSON: ``"devices[0].graph"``.
        value: The figure; bytes, but for ratios.
        formula: How it is worked out, as Python writes it.
        inputs: Symbol of the formula → its value.
    """

    name: str
    value: Number
    formula: str
    inputs: Mapping[str, Input]


def symbols_in(formula: str) -> list[str]:
    """Return the symbols of a formula, each once, in order of appearance."""
    return [word for word in dict.fromkeys(_WORD.findall(formula)) if word not in _NOT_SYMBOLS]
