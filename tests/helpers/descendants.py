"""Walk over what is below an object of Qt's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from PySide6.QtCore import QObject

Kind = TypeVar("Kind", bound=QObject)


def descendants(parent: QObject, kind: type[Kind]) -> Iterator[Kind]:
    """Yield the children of an object, theirs, and so on, in the order of `QObject.findChildren`.

    `findChildren` makes `parent` the owner of each Python wrapper, so that wrappers of objects that
    Qt itself makes and deletes would stay for as long as `parent` lives.
    """
    for child in parent.children():
        if isinstance(child, kind):
            yield child
        yield from descendants(child, kind)
