"""The dialog of Ctrl+K, with keys and mouse; the search behind it waits where a test says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from explorer.qt.jobs import JobRunner
from explorer.qt.quick_open import Entry, QuickOpen, ResultKind, SearchSource
from explorer.qt.widgets.table_view import ROW_PADDING
from tests.helpers.patience import PATIENCE_S

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
    assert "Nothing has all of these words" in dialog.status.text()
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
