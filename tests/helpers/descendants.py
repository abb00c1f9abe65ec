"""Walk over what is below an object of Qt's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

Kind = TypeVar("Kind", bound=QObject)


def descendants(parent: QObject, kind: type[Kind], *, shown: bool = False) -> Iterator[Kind]:
    """Yield the children of an object, theirs, and so on, in the order of `QObject.findChildren`.

    `findChildren` makes `parent` the owner of each Python wrapper, so that wrappers of objects that
    Qt itself makes and deletes would stay for as long as `parent` lives.

    Args:
        parent: Where to begin.
        kind: What to look for.
        shown: Whether to leave out what is hidden, with all that is in it: nine of ten objects.
    """
    for child in parent.children():
        if shown and isinstance(child, QWidget) and not (child.isVisible() or child.isWindow()):
            continue
        if isinstance(child, kind):
            yield child
        yield from descendants(child, kind, shown=shown)
