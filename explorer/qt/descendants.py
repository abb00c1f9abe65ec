"""What a window consists of, without keeping it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from PySide6.QtCore import QObject

Kind = TypeVar("Kind", bound=QObject)


def descendants(parent: QObject, kind: type[Kind]) -> Iterator[Kind]:
    """Yield the children of an object, theirs, and so on, in the order of `QObject.findChildren`.

    What that finds belongs to `parent` from then on, as Python sees it: of objects that Qt made and
    deletes, within a dialog or a list, something is left for as long as `parent` lives.

    Args:
        parent: The object, which is not yielded.
        kind: What is yielded; below others, too.
    """
    for child in parent.children():
        if isinstance(child, kind):
            yield child
        yield from descendants(child, kind)
