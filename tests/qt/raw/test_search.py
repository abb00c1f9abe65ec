"""Searching in the raw view: keys, buttons, progress, and searches that are stopped or fail."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton
from pytestqt.qtbot import QtBot

from explorer.qt.raw.panel import RawView
from tests.helpers.raw_views import Activations, find, show_model
from tests.helpers.services import RecordingServices
from tests.helpers.slow_sources import WaitingSource
from tests.helpers.small_gguf import SmallGguf, example, model_from

KEY = Qt.Key
NONE = Qt.KeyboardModifier.NoModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def view(raw_view: RawView) -> RawView:
    return raw_view


def test_finds_bytes_forwards_and_backwards(qtbot: QtBot, view: RawView) -> None:
    content = SmallGguf(data=b"\0" * 50 + b"needle" + b"\0" * 50 + b"needle").write()
    show_model(qtbot, view, model_from(content))
    first, second = content.find(b"needle"), content.rfind(b"needle")
    find(qtbot, view, "needle", "text")
    assert view.hex.cursor_offset == first
    assert view.hex.selection == range(first, first + 6)
    assert view.status.place.text().endswith("6 selected")
    qtbot.keyClick(view.search.edit, KEY.Key_Return)
    qtbot.waitUntil(lambda: view.hex.cursor_offset == second)
    assert view.message.text() == ""
    qtbot.keyClick(view.search.edit, KEY.Key_Return)
    qtbot.waitUntil(lambda: view.hex.cursor_offset == first)
    assert "past the end" in view.message.text()
    buttons = {b.accessibleName(): b for b in view.search.findChildren(QToolButton)}
    backwards = buttons["Find previous (Shift+F3)"]
    qtbot.mouseClick(backwards, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: view.hex.cursor_offset == second)
    find(qtbot, view, "6e 65 65")
    assert view.hex.cursor_offset == first
    find(qtbot, view, "absent", "text")
    assert view.message.text() == "Not found in this file."
    find(qtbot, view, "6e 6")
    assert view.message.text().startswith("Type pairs of hex digits")


def test_a_found_place_activates_its_key(qtbot: QtBot, view: RawView) -> None:
    show_model(qtbot, view, model_from(example().write()))
    activations = Activations(view)
    find(qtbot, view, "block_count", "text")
    assert activations.places == ["llama.block_count"]


def test_keys_search_and_escape(qtbot: QtBot, view: RawView) -> None:
    content = SmallGguf(data=b"abcabcabc").write()
    show_model(qtbot, view, model_from(content))
    view.activateWindow()
    qtbot.waitActive(view)
    view.focus_search()
    assert view.search.edit.hasFocus()
    view.search.mode.setCurrentIndex(1)
    qtbot.keyClicks(view.search.edit, "abc")
    start = content.find(b"abc")
    for key, modifier, offset in (
        (KEY.Key_F3, NONE, start),
        (KEY.Key_F3, NONE, start + 3),
        (KEY.Key_F3, NONE, start + 6),
        (KEY.Key_F3, SHIFT, start + 3),
    ):
        qtbot.keyClick(view, key, modifier)
        qtbot.waitUntil(lambda offset=offset: view.hex.cursor_offset == offset)
    qtbot.keyClick(view.search.edit, KEY.Key_Escape)
    assert view.search.edit.text() == ""
    qtbot.keyClick(view.search.edit, KEY.Key_Escape)
    assert view.hex.hasFocus()


def test_a_search_can_be_stopped(qtbot: QtBot, view: RawView, app: RecordingServices) -> None:
    source = WaitingSource(example().write())
    source.go_on.set()
    show_model(qtbot, view, model_from(source))
    source.go_on.clear()
    source.reading.clear()
    view.search.mode.setCurrentIndex(1)
    view.search.edit.setText("first")
    view.find_next()
    qtbot.waitUntil(source.reading.is_set)
    stop = next(b for b in view.search.findChildren(QToolButton) if b.text() == "Stop")
    assert stop.isVisible()
    qtbot.mouseClick(stop, Qt.MouseButton.LeftButton)
    assert view.message.text() == "The search was stopped."
    assert not stop.isVisible()
    source.go_on.set()
    qtbot.waitUntil(lambda: not app.runner.jobs)
    assert view.hex.cursor_offset == 0


def test_a_search_cancelled_elsewhere_is_over(
    qtbot: QtBot, view: RawView, app: RecordingServices
) -> None:
    source = WaitingSource(example().write())
    source.go_on.set()
    show_model(qtbot, view, model_from(source))
    source.go_on.clear()
    view.search.mode.setCurrentIndex(1)
    view.search.edit.setText("first")
    view.find_next()
    app.runner.cancel_all()
    source.go_on.set()
    qtbot.waitUntil(lambda: not app.runner.jobs)
    assert not view.search.busy
    assert not any(
        b.isVisible() for b in view.search.findChildren(QToolButton) if b.text() == "Stop"
    )
