"""What a selection takes on disk; a blob counts once, however many of its models are selected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from explorer.qt.models.library.node import Node
from explorer.qt.models.library.rows import RowKind


@dataclass(frozen=True, slots=True)
class Total:
    """A sum.

    Attributes:
        models: How many models it is of.
        others: How many other rows.
        nbytes: Bytes on disk; what is shared counts once.
        apart: What the rows' sizes come to if one adds them; more, where blobs are shared.
    """

    models: int
    others: int
    nbytes: int
    apart: int


@dataclass
class _Share:
    """What is selected in one store."""

    whole: bool = False
    entries: dict[int, Node] = field(default_factory=dict)
    digests: set[str] = field(default_factory=set)
    files: dict[Path, int] = field(default_factory=dict)


def total_of(nodes: Iterable[Node]) -> Total:
    """Sum up selected rows; a row below a selected one adds nothing."""
    chosen = {node.id: node for node in nodes if node.row.kind is not RowKind.NOTE}
    shares: dict[int, tuple[Node, _Share]] = {}
    others = apart = 0
    for node in chosen.values():
        if _inside(node, chosen):
            continue
        store = node.store
        _, share = shares.setdefault(store.id, (store, _Share()))
        apart += _add(share, node)
        others += node.row.kind not in {RowKind.STORE, RowKind.FAMILY, RowKind.ENTRY}
    nbytes = sum(_nbytes(store, share) for store, share in shares.values())
    models = sum(len(share.entries) for _, share in shares.values())
    return Total(models, others, nbytes, max(apart, nbytes))


def _inside(node: Node, chosen: dict[int, Node]) -> bool:
    above = node.parent
    while above is not None:
        if above.id in chosen:
            return True
        above = above.parent
    return False


def _add(share: _Share, node: Node) -> int:
    """Note a row; return its bytes as if it shared nothing."""
    row = node.row
    if row.kind in {RowKind.STORE, RowKind.FAMILY, RowKind.ENTRY}:
        share.whole |= row.kind is RowKind.STORE
        entries = list(_entries(node))
        share.entries.update((each.id, each) for each in entries)
        return sum(each.row.nbytes or 0 for each in entries)
    if row.kind is RowKind.BRANCH:
        return sum(_add(share, child) for child in node.every)
    if row.digest:
        share.digests.add(row.digest)
    elif row.path is not None and row.kind in {RowKind.PART, RowKind.PARTIAL}:
        share.files[row.path] = row.nbytes or 0
    elif row.path is not None:  # a tensor: a part of a file
        share.files[row.path / row.key] = row.nbytes or 0
    return row.nbytes or 0


def _entries(node: Node) -> Iterator[Node]:
    if node.row.kind is RowKind.ENTRY:
        yield node
    elif node.listed:
        for child in node.every:
            yield from _entries(child)


def _nbytes(store: Node, share: _Share) -> int:
    if share.whole:
        return store.row.nbytes or 0
    usage = store.row.usage
    entries = [node.row.entry for node in share.entries.values() if node.row.entry is not None]
    if usage is None:  # the scan has not come so far
        return sum(entry.nbytes for entry in entries) + sum(share.files.values())
    own = sum(entry.own_bytes for entry in entries)
    names = [entry.name for entry in entries]
    return own + usage.total(names, share.digests) + sum(share.files.values())
