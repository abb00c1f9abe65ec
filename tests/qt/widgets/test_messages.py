"""Messages stay until they are dismissed; what was done is said for some seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from explorer.qt.theme import Scheme, apply_scheme, warning_colour
from explorer.qt.widgets.messages import MessageBar
from tests.helpers.window import HOSTILE, unsafe_characters

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def bar(qtbot: QtBot) -> MessageBar:
    bar = MessageBar()
    qtbot.addWidget(bar)
    return bar


def colour(bar: MessageBar) -> str:
    return bar.messages[-1].sign.palette().color(QPalette.ColorRole.WindowText).name()


def sentences(bar: MessageBar) -> list[str]:
    return [message.label.text() for message in bar.messages]


def test_it_is_there_only_while_there_is_something_to_say(qtbot: QtBot, bar: MessageBar) -> None:
    assert not bar.isVisible()
    bar.show_error("It failed.")
    assert bar.isVisible()
    qtbot.mouseClick(bar.messages[0].dismiss, LEFT)
    assert not bar.isVisible()
    bar.show_error("It failed again.")
    qtbot.keyClick(bar.messages[0], Qt.Key.Key_Escape)
    assert not bar.isVisible()


def test_it_follows_the_scheme_while_it_is_shown(qtbot: QtBot, bar: MessageBar) -> None:
    try:
        apply_scheme(Scheme.LIGHT)
        bar.show_error("It failed.")
        light = colour(bar)
        assert light == warning_colour(QGuiApplication.palette()).name()
        apply_scheme(Scheme.DARK)
        dark = warning_colour(QGuiApplication.palette()).name()
        assert dark != light
        qtbot.waitUntil(lambda: colour(bar) == dark)
        assert bar.grab().toImage().pixelColor(bar.width() // 2, 1).lightness() < 80
    finally:
        apply_scheme(Scheme.SYSTEM)


def test_no_message_replaces_another(bar: MessageBar) -> None:
    bar.show_error("First.", "details of the first")
    bar.show_error("Second.")
    bar.show_error("Third.")
    assert sentences(bar) == ["First.", "Second.", "Third."]
    bar.messages[0].copy.click()
    assert QGuiApplication.clipboard().text() == "details of the first"
    bar.messages[1].dismiss.click()
    assert sentences(bar) == ["First.", "Third."]
    bar.dismiss_all.click()
    assert not bar.isVisible()
    assert sentences(bar) == []


def test_what_is_reported_again_is_counted(bar: MessageBar) -> None:
    for _ in range(3):
        bar.show_error("It failed.")
    assert sentences(bar) == ["It failed.  (3 times)"]
    bar.messages[0].copy.click()
    assert QGuiApplication.clipboard().text() == "It failed."


def test_thousands_of_messages_are_kept_and_shown_one_after_the_other(bar: MessageBar) -> None:
    for number in range(2_000):
        bar.show_error(f"{number}")
    assert len(bar.messages) == 50
    for _ in range(50):
        bar.messages[0].dismiss.click()
    assert sentences(bar) == [f"{number}" for number in range(50, 100)]
    bar.dismiss_all.click()
    assert not bar.isVisible()


def test_many_messages_leave_most_of_the_window_to_the_content(
    qtbot: QtBot, make_window: Callable[[], MainWindow]
) -> None:
    window = make_window()
    window.show()
    for number in range(30):
        window.message_bar.show_error(f"{number}: " + "a sentence of many words " * 20)
    qtbot.waitUntil(lambda: window.message_bar.height() > 50)
    assert window.message_bar.height() < window.height() / 2
    window.message_bar.clear()
    window.message_bar.show_error("One line.")
    qtbot.waitUntil(lambda: 0 < window.message_bar.height() < 50)


def test_the_keyboard_reads_copies_and_dismisses_one_after_the_other(
    qtbot: QtBot, make_window: Callable[[], MainWindow]
) -> None:
    window = make_window()
    window.show()
    bar = window.message_bar
    for name in ("a", "b", "c"):
        bar.show_error(name)
    reached = set()
    widget = window.nextInFocusChain()
    while widget is not window:
        if bar.isAncestorOf(widget) and widget.focusPolicy() & Qt.FocusPolicy.TabFocus:
            reached.add(widget)
        widget = widget.nextInFocusChain()
    for message in bar.messages:
        assert {message.copy, message.dismiss} <= reached
    assert bar.dismiss_all in reached
    bar.messages[1].dismiss.setFocus()
    qtbot.waitUntil(bar.messages[1].dismiss.hasFocus)
    qtbot.keyClick(bar.messages[1].dismiss, Qt.Key.Key_Space)
    assert sentences(bar) == ["a", "c"]
    qtbot.waitUntil(bar.messages[1].dismiss.hasFocus)
    qtbot.keyClick(bar.messages[1].dismiss, Qt.Key.Key_Escape)
    assert sentences(bar) == ["a"]


def test_details_are_copied_as_they_are(qtbot: QtBot, bar: MessageBar) -> None:
    bar.show_error("It failed.", "Traceback:\n  line 1\n  line 2")
    qtbot.mouseClick(bar.messages[0].copy, LEFT)
    assert QGuiApplication.clipboard().text() == "Traceback:\n  line 1\n  line 2"


@pytest.mark.parametrize("text", HOSTILE)
def test_text_from_a_file_does_nothing(bar: MessageBar, text: str) -> None:
    bar.show_error(text)
    assert bar.messages[-1].label.textFormat() is Qt.TextFormat.PlainText
    assert not unsafe_characters(bar.messages[-1].label.text())


def test_what_was_written_is_said_and_moves_nothing(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Path] = []
    monkeypatch.setattr(
        "explorer.qt.library.commands.reveal",
        lambda path, _folder: bool(shown.append(path)) or True,
    )
    before = window.panels.geometry()
    path = tmp_path / "a <b>.csv"
    path.touch()
    window.panels.app.saved(str(path))
    notice = window.bottom.notice
    assert notice.isVisible()
    assert str(path) in notice.label.text()
    assert not window.message_bar.isVisible()
    assert window.panels.geometry() == before
    notice.button.click()
    while window.runner.jobs:
        QApplication.processEvents()
    assert shown == [path]
