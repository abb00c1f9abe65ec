"""The tensors of a model as a grid: a row for each layer, a column for each role.

Each stack of layers (a vision encoder's beside the language model's) is a section of its own; what
lies outside of layers stands before or behind them. Experts that are a tensor each share a cell.
Only names are looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.role_order import Column, RoleName, column_of

_CHECK_EVERY: Final = 4096


class Kind(Enum):
    """What a section shows."""

    BEFORE = auto()
    LAYERS = auto()
    AFTER = auto()


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A role of a stack, or a tensor outside of layers.

    Attributes:
        label: A short name, unique in its section.
        role: The role as names have it; numbers of experts are a ``*``.
        suffix: ``"weight"``, ``"bias"`` …, or "".
    """

    label: str
    role: str
    suffix: str


@dataclass(frozen=True, slots=True)
class GridSection:
    """Layers that belong together, or what is outside of them.

    Attributes:
        kind: What it is.
        stack: Prefix of the stack of layers, or "".
        layers: Numbers of the layers, a row each; empty outside of layers, which is one row.
        columns: The roles.
        cells: Number of the cell by row and column; none where a layer has no such tensor.
    """

    kind: Kind
    stack: str
    layers: tuple[int, ...]
    columns: tuple[GridColumn, ...]
    cells: Mapping[tuple[int, int], int]

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return len(self.layers) or 1


@dataclass(frozen=True, slots=True)
class GridCell:
    """One role in one layer.

    Attributes:
        section: Number of its section.
        row: Its row in there.
        column: Its column in there.
        rows: Rows of its tensors in the model's table.
    """

    section: int
    row: int
    column: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelGrid:
    """All tensors of a model.

    Attributes:
        sections: What is before the layers, stacks of layers, the largest first, what is behind.
        cells: All cells, section by section, row by row.
        cell_of: Number of the cell of each tensor, int64 [tensors].
    """

    sections: tuple[GridSection, ...]
    cells: tuple[GridCell, ...]
    cell_of: NDArray[np.int64]


_Key = tuple[str, str]  # role and suffix


def model_grid(names: Sequence[str], check: Callable[[], object] = lambda: None) -> ModelGrid:
    """Arrange tensors.

    Args:
        names: The names of a model's tensors, in the order of its table.
        check: Called every few thousand names; raises to give up.
    """
    stacks: dict[str, dict[tuple[int, _Key], list[int]]] = {}
    outside: dict[Kind, dict[tuple[int, _Key], list[int]]] = {Kind.BEFORE: {}, Kind.AFTER: {}}
    for number, name in enumerate(names):
        if number % _CHECK_EVERY == 0:
            check()
        parsed = RoleName.of(name)
        if parsed.layer is None:
            kind = Kind.AFTER if parsed.comes_last else Kind.BEFORE
            place = outside[kind].setdefault((0, (parsed.role, parsed.suffix)), [])
        else:
            place = stacks.setdefault(parsed.stack, {}).setdefault(
                (parsed.layer, (parsed.role, parsed.suffix)), []
            )
        place.append(number)
    parts = [(Kind.BEFORE, "", outside[Kind.BEFORE])]
    largest = sorted(stacks, key=lambda stack: -sum(map(len, stacks[stack].values())))
    parts += [(Kind.LAYERS, stack, stacks[stack]) for stack in largest]
    parts += [(Kind.AFTER, "", outside[Kind.AFTER])]
    sections: list[GridSection] = []
    cells: list[GridCell] = []
    for kind, stack, found in parts:
        if found:
            sections.append(_section(len(sections), (kind, stack), found, cells, check))
    cell_of = np.zeros(len(names), np.int64)
    for number, cell in enumerate(cells):
        cell_of[list(cell.rows)] = number
    return ModelGrid(tuple(sections), tuple(cells), cell_of)


def _section(
    number: int,
    part: tuple[Kind, str],
    found: dict[tuple[int, _Key], list[int]],
    cells: list[GridCell],
    check: Callable[[], object],
) -> GridSection:
    """Make a section, and add its cells to those before."""
    kind, stack = part
    known: dict[_Key, Column] = {}
    for position, key in enumerate(dict.fromkeys(key for _, key in found)):
        if position % _CHECK_EVERY == 0:
            check()
        known[key] = column_of(*key) if kind is Kind.LAYERS else Column((), _own_name(*key))
    keys = list(known)
    if kind is Kind.LAYERS:
        keys.sort(key=lambda key: known[key].rank)
    layers = sorted({layer for layer, _ in found})
    row_of = {layer: row for row, layer in enumerate(layers)}
    column_of_key = {key: column for column, key in enumerate(keys)}
    placed = sorted(
        ((row_of[layer], column_of_key[key]), rows) for (layer, key), rows in found.items()
    )
    # A mapping: a hostile file may have as many layers as roles as tensors, and few of the cells.
    table = {place: len(cells) + position for position, (place, _) in enumerate(placed)}
    cells += [GridCell(number, *place, tuple(rows)) for place, rows in placed]
    columns = _columns([(key, known[key].label) for key in keys])
    return GridSection(kind, stack, tuple(layers) if stack else (), columns, table)


def _columns(labels: Sequence[tuple[_Key, str]]) -> tuple[GridColumn, ...]:
    """Name the columns; two roles of one short name keep their own."""
    often = {label for label, count in Counter(label for _, label in labels).items() if count > 1}
    return tuple(
        GridColumn(_own_name(*key) if label in often else label, *key) for key, label in labels
    )


def _own_name(role: str, suffix: str) -> str:
    return role if suffix in ("weight", "") else f"{role}.{suffix}"
