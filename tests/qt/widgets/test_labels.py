"""Messages and labels show text from files as it is, whole or shortened."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QGuiApplication, QHelpEvent, QPalette
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from explorer.qt.theme import Scheme, apply_scheme, warning_colour
from explorer.qt.widgets.labels import ElidedLabel, MessageBar, StatePage
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


_PATH = "/home/somebody/models/a/long/way/down/model-00001-of-00012.gguf"


def test_it_keeps_both_ends(qtbot: QtBot) -> None:
    label = ElidedLabel()
    qtbot.addWidget(label)
    label.setText(_PATH)
    label.resize(1000, 20)
    assert label.shown_text() == _PATH
    label.resize(200, 20)
    start, end = label.shown_text().split("…")
    assert start
    assert end
    assert _PATH.startswith(start)
    assert _PATH.endswith(end)
    assert label.fontMetrics().horizontalAdvance(label.shown_text()) <= 200
    assert label.minimumSizeHint().width() == 0  # a long path does not widen the window
    label.setText("<b>bold</b>")
    assert label.textFormat() is Qt.TextFormat.PlainText
    label.resize(400, 20)
    label.show()
    empty = ElidedLabel()
    qtbot.addWidget(empty)
    empty.resize(400, 20)
    assert label.grab().toImage() != empty.grab().toImage()


def ask_for_tip(qtbot: QtBot, label: ElidedLabel) -> None:
    QToolTip.hideText()
    qtbot.waitUntil(lambda: not QToolTip.isVisible())  # it goes with a delay
    place = label.mapToGlobal(QPoint(5, 5))
    QApplication.sendEvent(label, QHelpEvent(QEvent.Type.ToolTip, QPoint(5, 5), place))


@pytest.mark.qt_log_ignore("This plugin does not support raise")
def test_the_whole_text_is_the_tip_where_it_does_not_fit(qtbot: QtBot) -> None:
    label = ElidedLabel()
    qtbot.addWidget(label)
    label.setText("/a/<b>bold</b>/" + _PATH)
    label.resize(200, 20)
    label.show()
    ask_for_tip(qtbot, label)
    assert QToolTip.isVisible()
    assert QToolTip.text() == "<qt>/a/&lt;b&gt;bold&lt;/b&gt;/" + _PATH + "</qt>"
    label.resize(1500, 20)
    ask_for_tip(qtbot, label)
    assert not QToolTip.isVisible()


def test_the_status_bar_always_has_something_to_say(window: MainWindow) -> None:
    assert window.current is not None
    assert window.place.text() == str(window.current.path)
    window.close_document(window.current)
    assert "Ctrl+O" in window.place.text()
    assert window.statusBar().isVisible()


def test_the_keyboard_does_not_stop_at_a_sentence_that_is_empty(qtbot: QtBot) -> None:
    page = StatePage()
    qtbot.addWidget(page)
    page.show()
    page.show_message("Cancelled", "", "Read on")
    assert not page.sentence.isVisible()
    page.show_message("Not quantized", "Choose what to compare with.")
    assert page.sentence.isVisible()
    assert not page.button.isVisible()
