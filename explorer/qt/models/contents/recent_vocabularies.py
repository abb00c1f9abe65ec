"""The vocabularies looked at last, so that going back and forth between models decodes none again.

A decoded vocabulary of 262,144 tokens takes some 100 MB, so only some are kept, counted in tokens;
a model that is closed takes its own along.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from explorer.qt.models.contents.vocabulary_table import VocabularyContent
from explorer.qt.models.document import Document

MOST_TOKENS: Final = 600_000


class RecentVocabularies:
    """Contents of vocabulary tables by model.

    Args:
        most_tokens: Tokens to keep together; the one shown last stays in any case.
    """

    def __init__(self, most_tokens: int = MOST_TOKENS) -> None:
        self._most_tokens = most_tokens
        self._contents: WeakKeyDictionary[Document, VocabularyContent | None] = WeakKeyDictionary()

    def __contains__(self, document: Document) -> bool:
        return document in self._contents

    def get(self, document: Document) -> VocabularyContent | None:
        """Return the content of a model that is contained; None if it has no vocabulary."""
        content = self._contents.pop(document)
        self._contents[document] = content  # the last one is the one used last
        return content

    def add(self, document: Document, content: VocabularyContent | None) -> None:
        """Keep a content, and drop those that were not used for longest."""
        self._contents.pop(document, None)
        self._contents[document] = content
        count = sum(map(_token_count, self._contents.values()))
        for other in list(self._contents):
            if count <= self._most_tokens or other is document:
                return
            count -= _token_count(self._contents.pop(other))


def _token_count(content: VocabularyContent | None) -> int:
    return 0 if content is None else len(content.texts)
