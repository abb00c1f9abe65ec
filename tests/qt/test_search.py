"""What Ctrl+K finds, and in which order."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.modeltest import ModelTester

from explorer.qt.document import Document
from explorer.qt.jobs import Cancelled
from explorer.qt.quick_open import MOST_FOUND, FoundList, Target, all_shelves, search, text_shelf
from explorer.qt.widgets.table_model import ItemRole
from tests.helpers.window import unsafe_characters


def found(query: str, *texts: str) -> list[str]:
    return [entry.text for entry in search([text_shelf(Target.ACTION, texts)], query).entries]


def test_every_word_must_occur_whatever_its_case() -> None:
    texts = ("blk.1.attn_q.weight", "blk.10.attn_q.weight", "blk.1.ffn")
    assert found("Q.weight BLK.1", *texts) == ["blk.1.attn_q.weight", "blk.10.attn_q.weight"]
    assert found("nothing", *texts) == []


def test_no_words_give_the_first_entries_and_never_too_many() -> None:
    many = [f"name {number:04}" for number in range(500)]
    assert found("  ", *many) == many[:MOST_FOUND]
    assert found("name", *many) == many[:MOST_FOUND]
    assert search([text_shelf(Target.ACTION, many)], "name").count == 500


def test_everything_is_offered_and_the_few_come_first(small: Document, demo: Document) -> None:
    shelves = all_shelves([small, demo], ["Quit", "Open file"])
    targets = [entry.target for entry in search(shelves, "").entries]
    keys = len(demo.model.metadata.entries)
    assert targets == (
        [Target.MODEL] * 2 + [Target.ACTION] * 2 + [Target.KEY] * (5 + keys) + [Target.TENSOR] * 34
    )
    assert search(shelves, "").count == len(targets)


def test_a_tensor_is_found_with_its_model(small: Document, demo: Document) -> None:
    entry, *others = search(all_shelves([demo, small], []), "blk.10").entries
    assert others == []
    names = small.model.tensors.columns.names
    assert (names[entry.position], entry.text) == ("blk.10.attn_norm.weight",) * 2
    assert entry.document is small


def test_the_exact_layer_ranks_first_in_natural_order(small: Document) -> None:
    texts = [entry.text for entry in search(all_shelves([small], []), "attn 1").entries]
    assert texts == [f"blk.{layer}.attn_norm.weight" for layer in (1, 10, 11)]


def test_equals_of_several_shelves_are_in_the_order_of_the_shelves() -> None:
    shelves = [
        text_shelf(Target.ACTION, ["b open", "re-opened"]),
        text_shelf(Target.KEY, ["a open", "openly"]),
    ]
    assert [entry.text for entry in search(shelves, "open").entries] == [
        "b open", "a open", "openly", "re-opened",
    ]  # fmt: skip


def test_a_search_can_be_given_up(small: Document) -> None:
    def stop() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        search(all_shelves([small], []), "attn", stop)


def test_hostile_names_are_safe_and_short(hostile: Document) -> None:
    shelves = all_shelves([hostile], [])
    listed = search(shelves, "").entries
    assert not any(unsafe_characters(entry.text) for entry in listed)
    assert max(len(entry.text) for entry in listed) <= 300
    assert search(shelves, "<b>bold</b> img").entries[0].text.startswith("<b>bold")


def test_the_list_keeps_qts_contract(qtmodeltester: ModelTester, demo: Document) -> None:
    model = FoundList()
    qtmodeltester.check(model)
    shelves = all_shelves([demo], ["Quit"])
    model.set_entries(search(shelves, "").entries)
    qtmodeltester.check(model)
    assert model.index(0).data() == f"{demo.title}    (model)"
    assert model.index(1).data() == "Quit    (command)"
    last = model.index(model.rowCount() - 1)
    assert last.data() == f"{last.data(ItemRole.RAW)}    (tensor — {demo.title})"
    assert last.data(Qt.ItemDataRole.ToolTipRole) is None
    model.set_entries(search(shelves, "attn").entries)
    model.set_entries(())
    assert model.rowCount() == 0
