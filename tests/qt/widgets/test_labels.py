"""Messages and labels show text from files as it is, whole or shortened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QGuiApplication, QHelpEvent, QPalette
from PySide6.QtWidgets import QApplication, QLabel, QToolTip, QWidget
from pytestqt.qtbot import QtBot

from explorer.present.tables.lines import line
from explorer.qt.main_window import MainWindow
from explorer.qt.theme import Scheme, apply_scheme, warning_colour
from explorer.qt.widgets.labels import ElidedLabel, MessageBar, StatePage, facts_form
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
    assert window.statusBar().isVisible()
    assert window.bottom.promise.isVisible()
    assert window.shell.head.title.statusTip() == str(window.documents[0].path)


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


def test_the_keyboard_does_not_stop_at_a_sentence_that_is_empty(qtbot: QtBot) -> None:
    page = StatePage()
    qtbot.addWidget(page)
    page.show()
    page.show_message("Cancelled", "", "Continue")
    assert not page.sentence.isVisible()
    page.show_message("Not quantized", "Choose what to compare with.")
    assert page.sentence.isVisible()
    assert not page.button.isVisible()


def test_a_long_line_of_a_fact_hides_no_other(qtbot: QtBot) -> None:
    page = QWidget()
    qtbot.addWidget(page)
    facts_form([line("Used by 3", "\n".join(["a" * 5000, "b", "c"]))], page)
    long, *others = page.findChildren(QLabel)[-1].text().split("\n")
    assert len(long) < 2000
    assert others == ["b", "c"]
