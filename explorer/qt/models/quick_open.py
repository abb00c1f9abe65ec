"""Everything that Ctrl+K can jump to, and how a query ranks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import nsmallest

from explorer.display import plain_text
from explorer.qt.models.document import Document

_MOST = 200


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
        folded: The text in lower case, which queries are looked for in.
        document: The model, of a MODEL, KEY or TENSOR.
        position: Position of the key or tensor, or of the action.
    """

    target: Target
    text: str
    folded: str
    document: Document | None
    position: int = 0


def document_entries(document: Document) -> list[Entry]:
    """Return a model, its keys and its tensors as entries."""
    title = plain_text(document.title)
    entries = [Entry(Target.MODEL, title, title.casefold(), document)]
    for position, entry in enumerate(document.model.metadata.entries):
        key = plain_text(entry.key)
        entries.append(Entry(Target.KEY, key, key.casefold(), document, position))
    for row, name in enumerate(document.model.tensors.columns.names):
        shown = plain_text(name)
        entries.append(Entry(Target.TENSOR, shown, shown.casefold(), document, row))
    return entries


def search(entries: Sequence[Entry], query: str) -> list[Entry]:
    """Return the best entries that hold every word of the query.

    A match at the start ranks before one inside, a short text before a long one.
    """
    words = query.casefold().split()
    if not words:
        return list(entries[:_MOST])
    found = [
        (not entry.folded.startswith(words[0]), len(entry.folded), number, entry)
        for number, entry in enumerate(entries)
        if all(word in entry.folded for word in words)
    ]
    return [item[3] for item in nsmallest(_MOST, found)]
