"""Ctrl+K: what the search finds, in which order, and where a choice leads."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from explorer.formats.tensors import natural_key
from explorer.present.panels import PANELS
from explorer.present.questions import ATTACHMENTS, FILES, MACHINE, QUANTS, QUESTIONS, SAVE
from explorer.qt.document import Document
from explorer.qt.jobs import Cancelled, JobRunner
from explorer.qt.quick_open import (
    MOST_FOUND,
    Entry,
    FoundList,
    QuickOpen,
    ResultKind,
    SearchSource,
    answers,
    search,
    search_sources,
)
from explorer.qt.widgets.table_model import ItemRole
from explorer.qt.widgets.table_view import ROW_PADDING
from tests.helpers.patience import PATIENCE_S
from tests.helpers.window import unsafe_characters

KEY = Qt.Key
TEXTS = [f"name {number}" for number in range(300)] + ["other"]


@pytest.fixture
def make(qtbot: QtBot, runner: JobRunner) -> Callable[[SearchSource], QuickOpen]:
    def make_one(source: SearchSource) -> QuickOpen:
        dialog = QuickOpen([source], runner)
        dialog.open()
        return dialog

    return make_one


@pytest.fixture
def dialog(qtbot: QtBot, make: Callable[[SearchSource], QuickOpen]) -> Iterator[QuickOpen]:
    dialog = make(SearchSource(ResultKind.ACTION, TEXTS))
    qtbot.waitUntil(lambda: dialog.found.rowCount() == 200)
    yield dialog
    if isValid(dialog):  # it goes when something is chosen
        dialog.reject()


class WaitingNames(list[str]):
    """Names that are read when the test says so, each search anew."""

    def __init__(self) -> None:
        super().__init__(TEXTS)
        self.go_on = threading.Semaphore(0)

    def __iter__(self) -> Iterator[str]:
        assert self.go_on.acquire(timeout=PATIENCE_S)
        return super().__iter__()


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        ("fit", "planner"),
        ("will it fit?", "planner"),
        ("how much context", "planner"),
        ("smaller kv cache", "planner"),
        ("biggest tensor", "survey"),
        ("speed", "planner"),
        ("why slow", "planner"),
        ("vram", "planner"),
        ("gpu", MACHINE),
        ("free space", FILES),
        ("delete", FILES),
        ("imatrix", "errors"),
        ("what changed", "compare"),
        ("which quant", QUANTS),
        ("what is in this file", "overview"),
        ("free 50 GB", FILES),
        ("add a projector", ATTACHMENTS),
        ("images", ATTACHMENTS),
        ("two quants", "compare"),
        ("difference between Q4 and Q8", "compare"),
        ("tokens per second", "planner"),
        ("how many tokens fit", "planner"),
        ("ollama command", "planner"),
        ("why is it so slow", "planner"),
        ("do I have enough VRAM", "planner"),
        ("what can I run", "planner"),
        ("which models can I run", "library"),
        ("context length", "planner"),
        ("hard disk full", FILES),
        ("quant", QUANTS),
        ("is it damaged", "overview"),
        ("perplexity", "errors"),
        ("outliers", "survey"),
        ("system prompt", "metadata"),
        ("export as CSV", SAVE),
        ("save chart as PDF", SAVE),
        ("report", SAVE),
    ],
)
def test_a_question_in_peoples_words_is_answered_first(
    demo: Document, asked: str, page: str
) -> None:
    sources = [answers(), *search_sources([demo], ["Save what is shown", "What's this?"])]
    found = search(sources, asked)
    best = found.entries[0]
    assert best.kind is ResultKind.ANSWER
    assert QUESTIONS[best.position].page == page


def test_commands_are_found_in_peoples_words() -> None:
    found = search(search_sources([], ["Guide", "Dark"], ["Help", "View: Appearance"]), "dark mode")
    assert [entry.text for entry in found.entries] == ["Dark"]


def test_every_question_leads_to_a_page() -> None:
    assert {one.page for one in QUESTIONS} <= {*PANELS, ATTACHMENTS, FILES, MACHINE, QUANTS, SAVE}


def type_text(qtbot: QtBot, dialog: QuickOpen, text: str, count: int) -> None:
    qtbot.keyClicks(dialog.edit, text)
    qtbot.waitUntil(lambda: dialog.found.rowCount() == count and not dialog._jobs.busy)


def chosen(qtbot: QtBot, dialog: QuickOpen, act: Callable[[], object]) -> Entry:
    with qtbot.waitSignal(dialog.chosen) as caught:
        act()
    assert isinstance(caught.args[0], Entry)
    return caught.args[0]


def test_it_tells_how_much_it_found(qtbot: QtBot, dialog: QuickOpen) -> None:
    assert dialog.status.text() == "The best 200 of 301"
    type_text(qtbot, dialog, "other", 1)
    assert dialog.status.text() == "1 found"
    type_text(qtbot, dialog, " more", 0)
    assert dialog.nothing.isVisible()
    assert "Nothing was found" in dialog.nothing.text()
    with qtbot.assertNotEmitted(dialog.chosen):
        qtbot.keyClick(dialog.edit, KEY.Key_Return)


def test_arrow_keys_move_in_the_list_while_one_types(qtbot: QtBot, dialog: QuickOpen) -> None:
    type_text(qtbot, dialog, "name 1", 138)
    assert dialog.results.currentIndex().row() == 0
    for _ in range(3):
        qtbot.keyClick(dialog.edit, KEY.Key_Down)
    qtbot.keyClick(dialog.edit, KEY.Key_Up)
    assert dialog.results.currentIndex().row() == 2
    assert dialog.edit.text() == "name 1"
    entry = chosen(qtbot, dialog, lambda: qtbot.keyClick(dialog.edit, KEY.Key_Return))
    assert TEXTS[entry.position] == "name 11"


def test_a_double_click_chooses(qtbot: QtBot, dialog: QuickOpen) -> None:
    place = dialog.results.visualRect(dialog.found.index(4)).center()
    qtbot.mouseClick(dialog.results.viewport(), Qt.MouseButton.LeftButton, pos=place)
    entry = chosen(
        qtbot,
        dialog,
        lambda: qtbot.mouseDClick(dialog.results.viewport(), Qt.MouseButton.LeftButton, pos=place),
    )
    assert entry.position == 4


def test_return_waits_for_the_results_of_what_was_typed(
    qtbot: QtBot, make: Callable[[SearchSource], QuickOpen]
) -> None:
    waiting = WaitingNames()
    waiting.go_on.release()
    dialog = make(SearchSource(ResultKind.ACTION, waiting))
    qtbot.waitUntil(lambda: dialog.found.rowCount() == 200)
    qtbot.keyClicks(dialog.edit, "other")
    with qtbot.assertNotEmitted(dialog.chosen):
        qtbot.keyClick(dialog.edit, KEY.Key_Return)
    entry = chosen(qtbot, dialog, lambda: waiting.go_on.release(5))
    assert TEXTS[entry.position] == "other"


def test_escape_in_the_middle_of_a_search(
    qtbot: QtBot, runner: JobRunner, make: Callable[[SearchSource], QuickOpen]
) -> None:
    waiting = WaitingNames()
    dialog = make(SearchSource(ResultKind.ACTION, waiting))
    qtbot.keyClick(dialog.edit, KEY.Key_Escape)
    assert not dialog.isVisible()
    waiting.go_on.release()
    qtbot.waitUntil(lambda: not runner.jobs)


def test_rows_have_room_and_names_for_screen_readers(dialog: QuickOpen) -> None:
    height = dialog.results.visualRect(dialog.found.index(0)).height()
    assert height >= dialog.fontMetrics().height() + ROW_PADDING
    assert dialog.edit.accessibleName() == "Go to"
    assert dialog.results.accessibleName() == "Results"


def found(query: str, *texts: str) -> list[str]:
    result = search([SearchSource(ResultKind.ACTION, texts)], query)
    return [texts[entry.position] for entry in result.entries]


LAYERS = ("blk.10.attn_k.weight", "blk.0.attn_norm.weight", "blk.20.attn_v.weight", "blk.0.ffn")
WHOLE = ("Output", "output.9", "output.10", "the output", "outputs", "reoutput")
SIGNS = ("a.b_c", "a_b.c", "xa.b_c")
SCRIPTS = ("two\nlines", "größe 1", "日本 語", "", "\udcff")


@pytest.mark.parametrize(
    ("query", "names", "expected"),
    [
        # every word must occur, whatever its case; a whole word ranks before a part of one
        ("Q.weight BLK.1", ("blk.10.attn_q.weight", "blk.1.attn_q.weight", "blk.1.ffn"), (1, 0)),
        ("attn 0", LAYERS, (1, 0, 2)),
        ("0 attn_k", LAYERS, (0,)),
        ("nothing", LAYERS, ()),
        # whole words, then starts, then natural order
        ("output", WHOLE[::-1], (5, 4, 3, 2, 1, 0)),
        # signs are looked for as they are
        ("a.b", SIGNS, (0, 2)),
        ("_", SIGNS, (0, 1, 2)),
        ("::", SIGNS, ()),
        # line ends and other scripts
        ("lines", SCRIPTS, (0,)),
        ("größe", SCRIPTS, (1,)),
        ("語", SCRIPTS, (2,)),
        ("x", (), ()),
        ("", (), ()),
    ],
)
def test_what_is_found_first(query: str, names: tuple[str, ...], expected: tuple[int, ...]) -> None:
    assert found(query, *names) == [names[place] for place in expected]


def test_no_words_give_the_first_entries_and_never_too_many() -> None:
    many = [f"name {number:04}" for number in range(500)]
    assert found("  ", *many) == many[:MOST_FOUND]
    assert found("name", *many) == many[:MOST_FOUND]
    assert search([SearchSource(ResultKind.ACTION, many)], "name").count == 500


def test_everything_is_offered_and_the_few_come_first(small: Document, demo: Document) -> None:
    sources = search_sources([small, demo], ["Quit", "Open file"])
    kinds = [entry.kind for entry in search(sources, "").entries]
    keys = len(demo.model.metadata.entries)
    few = [ResultKind.MODEL] * 2 + [ResultKind.ACTION] * 2
    many = [ResultKind.KEY] * (5 + keys) + [ResultKind.LAYER] * 14
    assert kinds == few + many + [ResultKind.TENSOR] * 34
    assert search(sources, "").count == len(kinds)


def test_a_tensor_is_found_with_its_model(small: Document, demo: Document) -> None:
    entry, *others = search(search_sources([demo, small], []), "blk.10").entries
    assert others == []
    names = small.model.tensors.columns.names
    assert (names[entry.position], entry.text) == ("blk.10.attn_norm.weight",) * 2
    assert entry.document is small


def test_equals_of_several_sources_are_in_the_order_of_the_sources() -> None:
    sources = [
        SearchSource(ResultKind.ACTION, ["b open", "re-opened"]),
        SearchSource(ResultKind.KEY, ["a open", "openly"]),
    ]
    assert [entry.text for entry in search(sources, "open").entries] == [
        "b open", "a open", "openly", "re-opened",
    ]  # fmt: skip


def test_what_comes_later_keeps_what_the_user_moved_to(qtbot: QtBot, runner: JobRunner) -> None:
    go_on = threading.Event()

    def more(_job: object) -> list[SearchSource]:
        assert go_on.wait(PATIENCE_S)
        paths = [Path("/models/name 0b.gguf")]
        return [SearchSource(ResultKind.DOWNLOAD, ["name 0b"], None, ["Ollama · 1 KiB"], paths)]

    dialog = QuickOpen([SearchSource(ResultKind.ACTION, TEXTS)], runner, None, more)
    dialog.open()
    type_text(qtbot, dialog, "name", 200)
    for _ in range(3):
        qtbot.keyClick(dialog.edit, KEY.Key_Down)
    before = dialog.results.currentIndex().data()
    go_on.set()
    qtbot.waitUntil(lambda: dialog.status.text() == "The best 200 of 301")
    assert dialog.results.currentIndex().data() == before
    type_text(qtbot, dialog, " 0b", 1)
    assert dialog.found.index(0).data() == "name 0b    (library — Ollama · 1 KiB)"
    entry = chosen(qtbot, dialog, lambda: qtbot.keyClick(dialog.edit, KEY.Key_Return))
    assert entry.path == Path("/models/name 0b.gguf")


def test_a_search_can_be_given_up(small: Document) -> None:
    def stop() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        search(search_sources([small], []), "attn", stop)


def test_hostile_names_are_safe_and_short(hostile: Document) -> None:
    sources = search_sources([hostile], [])
    listed = search(sources, "").entries
    assert not any(unsafe_characters(entry.text) for entry in listed)
    assert max(len(entry.text) for entry in listed) <= 300
    assert search(sources, "<b>bold</b> img").entries[0].text.startswith("<b>bold")


def test_the_list_keeps_qts_contract(qtmodeltester: ModelTester, demo: Document) -> None:
    model = FoundList()
    qtmodeltester.check(model)
    sources = search_sources([demo], ["Quit"])
    model.set_entries(search(sources, "").entries)
    qtmodeltester.check(model)
    assert model.index(0).data() == f"{demo.title}    (model)"
    assert model.index(1).data() == "Quit    (command)"
    last = model.index(model.rowCount() - 1)
    assert last.data() == f"{last.data(ItemRole.RAW)}    (tensor — {demo.title})"
    assert last.data(Qt.ItemDataRole.ToolTipRole) is None
    model.set_entries(search(sources, "attn").entries)
    model.set_entries(())
    assert model.rowCount() == 0


def test_a_layer_is_found_by_its_number(small: Document) -> None:
    entry, *others = search(search_sources([small], []), "layer 1").entries
    assert (entry.kind, entry.text) == (ResultKind.LAYER, "Layer 1")
    assert small.arrays.layers[entry.position] == 1
    assert [other.text for other in others] == ["Layer 10", "Layer 11"]


@given(
    st.lists(st.text("ab.0 1\n", max_size=6), max_size=12),
    st.lists(st.text("ab.01", min_size=1, max_size=2), min_size=1, max_size=3),
)
def test_it_finds_what_a_plain_search_finds(names: list[str], words: list[str]) -> None:
    result = search([SearchSource(ResultKind.ACTION, names)], " ".join(words))
    places = [entry.position for entry in result.entries]
    assert sorted(places) == [i for i, name in enumerate(names) if all(w in name for w in words)]
    assert result.count == len(places)

    def key(place: int) -> tuple[object, ...]:
        name = names[place]
        whole = re.split(r"[\W_]", name)
        simple = [word for word in words if word.isalnum()]
        missed = sum(word not in whole for word in simple) if simple == words else None
        return missed, not name.startswith(words[0]), natural_key(name)

    keys = [key(place) for place in places if all(word.isalnum() for word in words)]
    assert keys == sorted(keys)


def test_a_word_that_names_a_page_leads_to_it(small: Document) -> None:
    pages = {ResultKind.TENSOR: ["Weights", "Errors"]}
    sources = search_sources([small], ["Errors of a tensor"], pages=pages)
    for query in ("1.attn errors", "err 1.attn"):
        entry, *others = search(sources, query).entries
        assert (entry.text, entry.page) == ("blk.1.attn_norm.weight", "Errors")
        assert [one.text for one in others] == ["blk.11.attn_norm.weight"]
    assert search(sources, "1.attn").entries[0].page == ""
    found = search(sources, "1.attn weight")  # as it is a part of the name, of no page
    assert [entry.page for entry in found.entries] == [""] * found.count
    assert search(sources, "1.attn weights").entries[0].page == "Weights"
    assert [entry.text for entry in search(sources, "errors").entries] == ["Errors of a tensor"]


def test_a_search_is_given_up_while_it_ranks_what_it_found() -> None:
    source = SearchSource(ResultKind.TENSOR, [f"name {number}" for number in range(20_000)])
    checks = [0]

    def count() -> None:
        checks[0] += 1

    assert search([source], "name", count).count == 20_000
    assert checks[0] == 2 * 5  # every 4,096 names, to find and to rank them
