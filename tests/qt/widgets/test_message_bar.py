"""The line that tells of errors and of what went well."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QPalette
from pytestqt.qtbot import QtBot

from explorer.qt.theme import Scheme, apply_scheme, warning_colour
from explorer.qt.widgets.labels import MessageBar
from tests.helpers.window import HOSTILE, unsafe_characters

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def bar(qtbot: QtBot) -> MessageBar:
    bar = MessageBar()
    qtbot.addWidget(bar)
    return bar


def colour(bar: MessageBar) -> str:
    return bar.label.palette().color(QPalette.ColorRole.WindowText).name()


def test_it_is_there_only_while_there_is_something_to_say(qtbot: QtBot, bar: MessageBar) -> None:
    assert not bar.isVisible()
    bar.show_error("It failed.")
    assert bar.isVisible()
    qtbot.mouseClick(bar.dismiss, LEFT)
    assert not bar.isVisible()
    bar.show_note("It went well.")
    qtbot.keyClick(bar, Qt.Key.Key_Escape)
    assert not bar.isVisible()


def test_an_error_differs_from_a_note_not_by_colour_alone(bar: MessageBar) -> None:
    bar.show_error("It failed.")
    error = bar.label.text(), colour(bar)
    bar.show_note("It failed.")
    note = bar.label.text(), colour(bar)
    assert error[0] != note[0]
    assert error[1] == warning_colour(QGuiApplication.palette()).name() != note[1]


def test_it_follows_the_scheme_while_it_is_shown(qtbot: QtBot, bar: MessageBar) -> None:
    try:
        apply_scheme(Scheme.LIGHT)
        bar.show_error("It failed.")
        light = colour(bar)
        apply_scheme(Scheme.DARK)
        dark = warning_colour(QGuiApplication.palette()).name()
        assert dark != light
        qtbot.waitUntil(lambda: colour(bar) == dark)
        background = bar.palette().color(QPalette.ColorRole.Window)
        assert background.lightness() < 80
    finally:
        apply_scheme(Scheme.SYSTEM)


def test_the_last_message_counts(bar: MessageBar) -> None:
    bar.show_error("First.", "details of the first")
    bar.show_error("Second.")
    assert "Second." in bar.label.text()
    bar.copy.click()
    assert QGuiApplication.clipboard().text() == "Second."


def test_details_are_copied_as_they_are(qtbot: QtBot, bar: MessageBar) -> None:
    bar.show_error("It failed.", "Traceback:\n  line 1\n  line 2")
    qtbot.mouseClick(bar.copy, LEFT)
    assert QGuiApplication.clipboard().text() == "Traceback:\n  line 1\n  line 2"


@pytest.mark.parametrize("text", HOSTILE)
def test_text_from_a_file_does_nothing(bar: MessageBar, text: str) -> None:
    bar.show_error(text)
    assert bar.label.textFormat() is Qt.TextFormat.PlainText
    assert not unsafe_characters(bar.label.text())
