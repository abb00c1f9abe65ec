"""The bytes behind the hex view: read where one looks, late, or not at all."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from explorer.qt.raw.hex_pages import PAGE_BYTES
from explorer.qt.raw.hex_view import HexView, build_menu
from explorer.sources import MemorySource
from tests.helpers.raw_views import show_source
from tests.helpers.services import RecordingServices
from tests.helpers.slow_sources import BrokenSource, HugeSource, WaitingSource


@pytest.fixture
def view(hex_view: HexView) -> HexView:
    return hex_view


def test_keeps_few_pages(qtbot: QtBot, view: HexView) -> None:
    show_source(qtbot, view, HugeSource(1 << 40))
    for page in range(0, 2 * 66, 2):
        view.set_cursor(page * PAGE_BYTES)
        qtbot.waitUntil(lambda: view.bytes_at(view.cursor_offset, 1) is not None)
    assert len(view._pages._pages) <= 64
    assert view.bytes_at(0, 1) is None


def test_reads_only_where_scrolling_stops(qtbot: QtBot, view: HexView) -> None:
    source = HugeSource(1 << 40)
    show_source(qtbot, view, source)
    for step in range(1, 50):
        view.set_cursor(step << 30)
        view.viewport().repaint()
    qtbot.waitUntil(lambda: view.bytes_at(49 << 30, 1) is not None)
    assert view.bytes_at(20 << 30, 1) is None


def test_paints_placeholders_until_bytes_arrive(qtbot: QtBot, view: HexView) -> None:
    source = WaitingSource(b"\xff" * 4000)
    view.set_source(source)
    qtbot.waitUntil(source.reading.is_set)
    before = view.viewport().grab().toImage()
    assert view.bytes_at(0, 4) is None
    with qtbot.waitSignal(view.bytes_arrived):
        source.go_on.set()
    assert view.bytes_at(0, 4) == b"\xff" * 4
    assert view.viewport().grab().toImage() != before


def test_read_errors_are_reported_once_and_not_tried_again(qtbot: QtBot, view: HexView) -> None:
    source = BrokenSource(bytes(PAGE_BYTES * 40), broken_from=PAGE_BYTES)
    failures: list[str] = []
    view.read_failed.connect(failures.append)
    show_source(qtbot, view, source)
    assert failures == []
    view.set_cursor(PAGE_BYTES * 3)
    qtbot.waitUntil(lambda: len(failures) == 1)
    for page in (3, 4, 3, 4, 3):
        view.set_cursor(PAGE_BYTES * page)
        view.viewport().repaint()
        qtbot.waitUntil(lambda: view._pages.failure_at(view.cursor_offset) is not None)
    assert len(failures) == 1
    assert "gone" in failures[0]
    assert source.attempts == len(view._pages._failures) <= 4
    source.broken_from = source.size
    actions = {a.text(): a for a in build_menu(view).actions()}
    actions["&Reload"].trigger()
    qtbot.waitUntil(lambda: view.bytes_at(view.cursor_offset, 1) == b"\0")


def test_a_new_source_drops_what_was_asked_of_the_old(qtbot: QtBot, view: HexView) -> None:
    old = WaitingSource(b"\x01" * 100)
    view.set_source(old)
    qtbot.waitUntil(old.reading.is_set)
    show_source(qtbot, view, MemorySource(b"\x02" * 100))
    old.go_on.set()
    runner = view._pages._slot._runner
    qtbot.waitUntil(lambda: not runner.jobs)
    assert view.bytes_at(0, 1) == b"\x02"


def test_reads_again_after_the_job_was_cancelled_elsewhere(
    qtbot: QtBot, view: HexView, app: RecordingServices
) -> None:
    source = WaitingSource(b"\x01" * 100)
    view.set_source(source)
    qtbot.waitUntil(source.reading.is_set)
    app.runner.cancel_all()
    source.go_on.set()
    qtbot.waitUntil(lambda: not app.runner.jobs)
    assert view.bytes_at(0, 1) is None
    view.viewport().update()
    qtbot.waitUntil(lambda: view.bytes_at(0, 1) == b"\x01")
