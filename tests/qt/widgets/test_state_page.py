"""The page that says in what state a view is."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from explorer.qt.widgets.labels import StatePage


def test_the_keyboard_does_not_stop_at_a_sentence_that_is_empty(qtbot: QtBot) -> None:
    page = StatePage()
    qtbot.addWidget(page)
    page.show()
    page.show_message("Cancelled", "", "Read on")
    assert not page.sentence.isVisible()
    page.show_message("Not quantized", "Choose what to compare with.")
    assert page.sentence.isVisible()
    assert not page.button.isVisible()
