"""A row of the table of planner.md section 5: what computes it, and how it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from explorer.planner.graph.symbols import Symbols

Compute: TypeAlias = Callable[[Symbols], tuple[int, int]]
"""Symbols → (Full, Partial) in bytes."""


@dataclass(frozen=True, slots=True)
class Row:
    """One family's formulas.

    Attributes:
        name: What to call the family.
        compute: Symbols → (Full, Partial) in bytes.
        full: Full as Python writes it, in the symbols of `Symbols`.
        partial: Partial as Python writes it.
    """

    name: str
    compute: Compute
    full: str
    partial: str


def row(name: str, full: str, partial: str) -> Callable[[Compute], Row]:
    """Make a row of a function; the texts stand beside the code that they describe.

    That text and code agree is a test: each text is evaluated for every model that has the row.
    """

    def make(compute: Compute) -> Row:
        return Row(name, compute, full, partial)

    return make
