"""A model that is closed is freed, whatever was looked at before."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from weakref import ref

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.errors import ExplorerError
from explorer.present.panels import TYPES, WORST_TENSORS
from explorer.qt.document import Document
from explorer.qt.main_window import MainWindow
from explorer.qt.references import Rounding
from explorer.text import notation, set_notation
from tests.helpers.model_pairs import arrays_of, write_gguf
from tests.helpers.window import wait_idle
from tests.soak.monkey import Monkey
from tests.soak.visiting import settle, visit_pages

SIZES = {
    f"blk.{layer}.{role}.weight": (64, 256) for layer in (0, 1) for role in ("attn_q", "ffn_down")
}
PAGES = ("Map", WORST_TENSORS, TYPES)


@pytest.fixture
def window(make_window: Callable[..., MainWindow], tmp_path: Path) -> Iterator[MainWindow]:
    """A window with two models of different sizes that can be compared."""
    before = notation()
    arrays = arrays_of(SIZES)
    types = dict.fromkeys(SIZES, "Q4_K")
    few = {name: arrays[name] for name in list(SIZES)[:2]}
    yield make_window(
        write_gguf(tmp_path / "reference.gguf", "llama", few),
        write_gguf(tmp_path / "quantized.gguf", "llama", arrays, types),
    )
    set_notation(before)
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()  # again, see tests/conftest.py


def watch(document: Document) -> list[ref[object]]:
    return [ref(document), ref(document.model)]


def kept(qtbot: QtBot, window: MainWindow, held: list[ref[object]]) -> list[object]:
    """Return what is not freed even when nothing is under way."""
    for attempt in range(4):
        wait_idle(qtbot, window)
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        QApplication.processEvents()
        if attempt > 1:  # a million objects of all tests are looked through
            gc.unfreeze()  # the program freezes what is there when it loads Numba
        gc.collect()
        left = [thing for thing in (one() for one in held) if thing is not None]
        if not left:
            break
        left.clear()
    return [thing for thing in (one() for one in held) if thing is not None]


def look_at_everything(window: MainWindow, number: int, against: int) -> None:
    """Show a tensor of a model, compared with another, on each page; survey the model."""
    monkey = Monkey(window, 0, [])
    window.reveal_tensor(window.documents[number], 0)
    window.panels.references.choose(window.documents[against])
    visit_pages(monkey, lambda _name: None)
    window.panels.survey.widget.session.start()
    settle(monkey)
    visit_pages(monkey, lambda _name: None)


def test_a_closed_model_is_freed_at_once_and_not_when_the_collector_looks(
    qtbot: QtBot, window: MainWindow
) -> None:
    """A model of 60,000 keys is 54 MB, and so is each that waits for the collector."""
    document = window.documents[0]
    window.open_models.tree.expandAll()  # nodes of its branch know one another
    window.reveal_model(window.documents[1])
    held = watch(document)
    wait_idle(qtbot, window)
    gc.collect()
    gc.disable()
    try:
        window.close_document(document)
        del document
        qtbot.waitUntil(lambda: [one() for one in held] == [None, None])
    finally:
        gc.enable()


@pytest.mark.slow  # every page for each of two models
def test_closed_models_are_freed(qtbot: QtBot, window: MainWindow) -> None:
    look_at_everything(window, 0, 1)
    look_at_everything(window, 1, 0)
    both = [watch(document) for document in window.documents]
    for held in reversed(both):
        window.close_document(window.documents[-1])
        assert kept(qtbot, window, held) == []


@pytest.mark.parametrize("in_front", PAGES)
def test_pages_behind_let_go_of_the_model_before(
    qtbot: QtBot, window: MainWindow, in_front: str
) -> None:
    monkey, survey = Monkey(window, 0, []), window.panels.survey
    small, large = window.documents
    window.reveal_model(large)
    window.panels.references.choose(Rounding("Q8_0"))
    window.panels.setCurrentWidget(survey)
    settle(monkey)
    body = survey.widget
    titles = [body.tabs.tabText(number) for number in range(body.tabs.count())]
    for title in (*PAGES, in_front):
        body.tabs.setCurrentIndex(titles.index(title))
        settle(monkey)
    window.reveal_model(small)
    window.panels.references.choose(Rounding("Q8_0"))
    settle(monkey)
    held = watch(large)
    window.close_document(large)
    del large
    assert kept(qtbot, window, held) == []


def test_a_map_that_turns_back_to_a_smaller_model_marks_no_tensor_of_the_larger(
    qtbot: QtBot, window: MainWindow
) -> None:
    small, large = window.documents
    window.panels.show_page("error_map")
    for document, row in ((small, 0), (large, len(large.arrays) - 1), (small, 0)):
        window.panels.selection.show_document(document)
        window.panels.selection.select_tensors([row])
        wait_idle(qtbot, window)
        session = window.panels.error_map.widget.session
        assert session.content is not None
        assert session.content.document is document


@pytest.mark.slow
def test_a_model_that_cannot_be_planned_is_freed(
    qtbot: QtBot, make_window: Callable[..., MainWindow], demo_path: Path, hostile_path: Path
) -> None:
    window = make_window(demo_path, hostile_path)
    demo, hostile = window.documents
    window.reveal_model(demo)
    window.panels.setCurrentWidget(window.panels.planner)
    visit_pages(Monkey(window, 0, []), lambda _name: None)
    assert isinstance(window.panels.planner.widget._read[hostile], ExplorerError)
    held = watch(hostile)
    window.close_document(hostile)
    del hostile
    assert kept(qtbot, window, held) == []
