"""How many decoded vocabularies are kept, and for how long."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import cast

import pytest

from explorer.qt.contents.vocabulary import RecentVocabularies, VocabularyContent
from explorer.qt.document import Document


class Thing:
    """Stands for a document: something that can go away."""


def document() -> Document:
    return cast(Document, Thing())


def content(tokens: int) -> VocabularyContent:
    return cast(VocabularyContent, SimpleNamespace(texts=range(tokens)))


def test_what_was_used_last_is_kept_up_to_a_number_of_tokens() -> None:
    recent = RecentVocabularies(most_tokens=100)
    a, b, c, d = (document() for _ in range(4))
    first = content(40)
    recent.add(a, first)
    recent.add(b, content(50))
    recent.add(c, None)
    assert recent.get(a) is first
    recent.add(d, content(20))  # b was not used for longest
    assert [thing in recent for thing in (a, b, c, d)] == [True, False, True, True]
    assert recent.get(c) is None


def test_the_last_one_is_kept_however_large() -> None:
    recent = RecentVocabularies(most_tokens=100)
    a, b = document(), document()
    recent.add(a, content(10))
    recent.add(b, content(1000))
    assert a not in recent
    assert len(recent.get(b).texts) == 1000  # type: ignore[union-attr]
    recent.add(b, content(10))
    recent.add(a, content(90))
    assert a in recent
    assert b in recent


def test_a_model_that_is_gone_takes_its_vocabulary_along() -> None:
    recent = RecentVocabularies()
    gone = document()
    recent.add(gone, content(10))
    del gone
    gc.collect()
    assert len(recent._contents) == 0
    with pytest.raises(KeyError):
        recent.get(document())
