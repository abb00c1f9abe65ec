"""Everything that Ctrl+K can jump to, and which of it a query finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import merge
from itertools import islice
from typing import Final

from explorer.qt.models.document import Document
from explorer.qt.models.quick_open.names import Match, NameList, name_list
from explorer.text import plain_text, shorten

MOST_FOUND: Final = 200
_LONGEST_TEXT: Final = 300


class Target(Enum):
    """What a result leads to."""

    MODEL = "model"
    KEY = "key"
    TENSOR = "tensor"
    ACTION = "command"


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Something to jump to.

    Attributes:
        target: What it is.
        text: Its text, safe to show.
        document: The model, of a MODEL, KEY or TENSOR.
        position: Position of the key or tensor, or of the action.
    """

    target: Target
    text: str
    document: Document | None
    position: int


@dataclass(frozen=True, eq=False)
class Shelf:
    """Things of one kind to jump to.

    Attributes:
        target: What they are.
        names: Their names, ready for searching.
        text: Returns the name at a position as the file has it; called in a worker.
        document: The model that they belong to, or None.
    """

    target: Target
    names: NameList
    text: Callable[[int], str]
    document: Document | None = None


@dataclass(frozen=True, eq=False)
class Found:
    """What a query found.

    Attributes:
        entries: The best, in order.
        count: How many there are in all.
    """

    entries: Sequence[Entry]
    count: int


def text_shelf(target: Target, texts: Sequence[str], document: Document | None = None) -> Shelf:
    """Return a shelf of a few texts."""
    return Shelf(target, name_list([text.lower() for text in texts]), texts.__getitem__, document)


def all_shelves(documents: Sequence[Document], commands: Sequence[str]) -> list[Shelf]:
    """Return everything to jump to. What there is little of comes first among equals."""
    models = [text_shelf(Target.MODEL, [document.title], document) for document in documents]
    keys = [
        Shelf(Target.KEY, document.key_names, _key_text(document), document)
        for document in documents
    ]
    tensors = [
        Shelf(
            Target.TENSOR,
            document.tensor_names,
            document.model.tensors.columns.names.__getitem__,
            document,
        )
        for document in documents
    ]
    return [*models, text_shelf(Target.ACTION, commands), *keys, *tensors]


def search(shelves: Sequence[Shelf], query: str, check: Callable[[], None] = lambda: None) -> Found:
    """Return the best entries that hold every word of the query.

    A word that is a whole word of the name ranks before one that is only a part of it: with
    ``attn 0``, ``blk.0.attn_norm`` comes before ``blk.10.attn_k``. Then come names that begin with
    the query's first word. Equals are in the order of the shelves, on a shelf in natural order.

    Args:
        shelves: Where to look.
        query: Any text; case does not count.
        check: Called every few thousand names; raises to give up.
    """
    words = query.lower().split()
    count = 0
    found: list[list[tuple[int, bool, int, Match]]] = []
    for number, shelf in enumerate(shelves):
        matches, all_count = shelf.names.search(words, MOST_FOUND, check)
        count += all_count
        found.append([(match.misses, match.inside, number, match) for match in matches])
    best = islice(merge(*found), MOST_FOUND)
    return Found([_entry(shelves[number], match) for _, _, number, match in best], count)


def _entry(shelf: Shelf, match: Match) -> Entry:
    text = plain_text(shelf.text(match.position)[: 2 * _LONGEST_TEXT])
    return Entry(shelf.target, shorten(text, _LONGEST_TEXT), shelf.document, match.position)


def _key_text(document: Document) -> Callable[[int], str]:
    entries = document.model.metadata.entries
    return lambda position: entries[position].key
