"""Which model is rounded on the page of what-ifs: the one that the current model was made of."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from explorer.qt.models.document import Document
from explorer.qt.models.errors.references import References, Rounding
from explorer.qt.models.what_if.question import Originals
from explorer.text import plain_text


class OriginalsKeeper:
    """Follows what the current model is compared with.

    Another model is taken for the original. A type is what this very page offers to compare with:
    when it is chosen, the original before it stays.

    Attributes:
        originals: The original, or None.
        waiting: Whether tensors are being matched; `References.changed` will follow.
    """

    def __init__(self, references: References) -> None:
        self._references = references
        self._document: Document | None = None
        self._other: Document | None = None
        self._keys: WeakKeyDictionary[Document, object] = WeakKeyDictionary()
        self.originals: Originals | None = None
        self.waiting = False

    def follow(self) -> None:
        """Look at what is chosen now."""
        references = self._references
        chosen = references.chosen
        kept = isinstance(chosen, Rounding) and references.document is self._document
        if kept and self._other in references.documents:
            return
        self._document = references.document
        self._other, self.originals, self.waiting = None, None, False
        if not isinstance(chosen, Document):
            return
        matched = references.matched
        self._other, self.waiting = chosen, matched is None
        if matched is not None:
            key = self._keys.setdefault(chosen, object())
            self.originals = Originals(key, plain_text(chosen.title), matched.matching)
