"""What Ctrl+K finds, and in which order."""

from __future__ import annotations

from explorer.qt.models.document import Document
from explorer.qt.models.quick_open import Entry, Target, document_entries, search
from tests.helpers.window import unsafe_characters


def entries(*texts: str) -> list[Entry]:
    return [Entry(Target.ACTION, text, text.casefold(), None) for text in texts]


def found(query: str, *texts: str) -> list[str]:
    return [entry.text for entry in search(entries(*texts), query)]


def test_a_start_ranks_before_the_inside_and_short_before_long() -> None:
    texts = ("the output", "output.weight", "Output", "other")
    assert found("output", *texts) == ["Output", "output.weight", "the output"]


def test_every_word_must_occur() -> None:
    texts = ("blk.1.attn_q.weight", "blk.10.attn_q.weight", "blk.1.ffn")
    assert found("Q.weight BLK.1", *texts) == ["blk.1.attn_q.weight", "blk.10.attn_q.weight"]
    assert found("nothing", *texts) == []


def test_no_words_give_the_first_entries_and_never_too_many() -> None:
    many = [f"name {number:04}" for number in range(500)]
    assert found("  ", *many) == many[:200]
    assert found("name", *many) == many[:200]


def test_a_document_offers_itself_its_keys_and_its_tensors(small: Document) -> None:
    listed = document_entries(small)
    assert [entry.target for entry in listed] == (
        [Target.MODEL] + [Target.KEY] * 5 + [Target.TENSOR] * 12
    )
    assert listed[0].text == "twelve.gguf"
    tensor = search(listed, "blk.10")[0]
    names = small.model.tensors.columns.names
    assert names[tensor.position] == "blk.10.attn_norm.weight"
    assert tensor.document is small


def test_hostile_names_are_safe(hostile: Document) -> None:
    listed = document_entries(hostile)
    assert not any(unsafe_characters(entry.text) for entry in listed)
    assert search(listed, "<b>bold</b> img")[0].text.startswith("<b>bold")
