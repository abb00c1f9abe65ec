"""From the rows that a branch shows to those that it is to show, in runs that Qt understands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from explorer.qt.models.library.node import Node


class Run(NamedTuple):
    """Rows side by side.

    Attributes:
        first: Position of the first.
        nodes: The rows.
    """

    first: int
    nodes: list[Node]


class Changes(NamedTuple):
    """What is to be done to a branch, in this order.

    Attributes:
        removed: Runs to take out, the last one first; positions before anything is done.
        kept: What stays, in its new order.
        moved: Whether that is another order.
        inserted: Runs to put in, the first one first; positions in the result.
    """

    removed: list[Run]
    kept: list[Node]
    moved: bool
    inserted: list[Run]

    @property
    def steps(self) -> int:
        """How many times Qt would be told."""
        return len(self.removed) + self.moved + len(self.inserted)


@dataclass
class Merging:
    """What came of taking a scan's rows.

    Attributes:
        updated: Nodes that say something else.
        stale: Of these, models of which what opening them told is no longer true.
        gone: Nodes that are no more.
    """

    updated: list[Node] = field(default_factory=list)
    stale: list[Node] = field(default_factory=list)
    gone: list[Node] = field(default_factory=list)


def changes(shown: Sequence[Node], wanted: Sequence[Node]) -> Changes:
    """Return how to get from the rows shown to those wanted."""
    if len(shown) == len(wanted) and all(map(_same, shown, wanted)):
        return Changes([], list(shown), False, [])
    old, new = {node.id for node in shown}, {node.id for node in wanted}
    stay = [node for node in shown if node.id in new]
    kept = [node for node in wanted if node.id in old]
    return Changes(
        removed=_runs(shown, new)[::-1],
        kept=kept,
        moved=not all(map(_same, stay, kept)),
        inserted=_runs(wanted, old),
    )


def _same(one: Node, other: Node) -> bool:
    return one is other


def _runs(nodes: Sequence[Node], without: set[int]) -> list[Run]:
    runs: list[Run] = []
    for place, node in enumerate(nodes):
        if node.id in without:
            continue
        if runs and runs[-1].first + len(runs[-1].nodes) == place:
            runs[-1].nodes.append(node)
        else:
            runs.append(Run(place, [node]))
    return runs
