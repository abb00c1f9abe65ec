"""Which rows a filter keeps: every word in the model's name, architecture, type, format or state.

A word of hexadecimal digits also finds the models that use a blob of such a digest, which is how
one learns what a nameless file of 40 GB is.
"""

from __future__ import annotations

import re
from typing import Final

from explorer.qt.models.library.node import LibraryColumn, Node
from explorer.qt.models.library.rows import RowKind
from explorer.text import plain_text

_DIGEST: Final = re.compile(r"(?:sha256[:-])?([0-9a-f]{6,64})")
_SEARCHED: Final = (
    LibraryColumn.ARCHITECTURE,
    LibraryColumn.QUANTIZATION,
    LibraryColumn.NOTE,
)


class Filter:
    """What somebody typed.

    Args:
        text: Words; all of them must be found.
    """

    def __init__(self, text: str) -> None:
        self._words = text.casefold().split()
        self._users: dict[tuple[int, str], frozenset[str]] = {}  # store, digest → names

    @property
    def empty(self) -> bool:
        """Whether it keeps everything."""
        return not self._words

    def wanted(self, node: Node) -> list[Node]:
        """Return the children of a listed node that are kept."""
        if self.empty or self._accepts(node):
            return node.every
        return [child for child in node.every if self.keeps(child)]

    def keeps(self, node: Node) -> bool:
        """Tell whether a node is shown: for itself, or for one below it."""
        if self.empty or not (node.listed or node.row.kind in _MATCHED):
            return True
        return self._accepts(node) or (node.listed and any(map(self.keeps, node.every)))

    def _accepts(self, node: Node) -> bool:
        text = _text(node)
        return all(word in text or self._uses(node, word) for word in self._words)

    def _uses(self, node: Node, word: str) -> bool:
        """Tell whether a model uses a blob whose digest holds a word."""
        match = _DIGEST.fullmatch(word)
        entry = node.row.entry
        if match is None or entry is None:
            return False
        store = node.store
        key = (store.id, match[1])
        users = self._users.get(key)
        if users is None:
            blobs = () if store.row.store is None else store.row.store.blobs
            found = (blob.used_by for blob in blobs if match[1] in blob.digest)
            users = self._users[key] = frozenset(name for names in found for name in names)
        return entry.name in users


_MATCHED: Final = frozenset({RowKind.ENTRY, RowKind.BLOB, RowKind.PARTIAL})


def _text(node: Node) -> str:
    # a store's note tells of a few rows in it, and would keep all the others
    searched = () if node.row.kind in {RowKind.STORE, RowKind.FAMILY} else _SEARCHED
    parts = [node.cells[column] for column in searched]
    entry = node.row.entry
    parts += [] if entry is None else [plain_text(entry.name), entry.format or ""]
    above: Node | None = node
    while above is not None:
        parts.append(above.row.title)
        above = above.parent
    return "\n".join(parts).casefold()
