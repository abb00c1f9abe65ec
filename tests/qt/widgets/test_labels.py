"""Labels show text from files as it is, whole or shortened."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QLabel, QToolTip, QWidget
from pytestqt.qtbot import QtBot

from explorer.present.tables.lines import line
from explorer.qt.main_window import MainWindow
from explorer.qt.widgets.labels import ElidedLabel, StatePage, facts_form

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
