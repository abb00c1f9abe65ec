"""The menu Help: the guide at the panel in front, and its keys."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from explorer.present.panels import PANELS, guide_page
from explorer.qt.help.guide import KEYS_PAGE, PANEL_KEYS, HelpWindow, command_keys
from explorer.qt.main_window import MainWindow
from explorer.qt.settings import Settings

ARROWS = ("Left", "Right", "Up", "Down")


def guide_of(window: MainWindow) -> HelpWindow:
    guide = window.help.guide
    assert guide is not None
    return guide


def test_the_guide_opens_at_the_panel_in_front(qtbot: QtBot, window: MainWindow) -> None:
    panels = window.panels
    for view in (panels.metadata, panels.tensors, panels.raw, panels.overview):
        panels.setCurrentWidget(view)
        window.actions_.guide.trigger()
        guide = guide_of(window)
        assert guide.page == view.objectName()
        assert guide.text.toPlainText().startswith(PANELS[view.objectName()].title)
        assert not guide.isModal()
    assert len(window.findChildren(HelpWindow)) == 1  # the same window each time
    guide_of(window).reject()
    assert window.help.guide is None
    qtbot.waitUntil(lambda: not window.runner.jobs)


def test_each_panel_has_a_page_that_ends_with_its_keys(window: MainWindow) -> None:
    names = [window.panels.widget(n).objectName() for n in range(window.panels.count())]
    assert names == list(PANEL_KEYS)
    for name in names:
        window.help.show_guide(name)
        text = guide_of(window).text.toPlainText()
        assert guide_of(window).page == guide_page(name)
        for what, keys in (*PANEL_KEYS[name].items(), *command_keys(window.actions()).items()):
            assert what in text, name
            assert keys in text, name
    guide_of(window).reject()


def test_the_page_of_keys_lists_every_command_and_panel(window: MainWindow) -> None:
    window.actions_.shortcuts.trigger()
    guide = guide_of(window)
    assert guide.page == KEYS_PAGE
    text = guide.text.toPlainText()
    for action in window.actions():
        keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
        assert keys in text, action.text()
    for keys in PANEL_KEYS.values():
        assert all(what in text for what in keys)
    guide.reject()


def test_no_two_commands_have_the_same_keys(window: MainWindow) -> None:
    keys = [keys.toString() for action in window.actions() for keys in action.shortcuts()]
    assert len(keys) == len(set(keys))


def test_the_size_of_the_guide_is_remembered(
    window: MainWindow, settings: Settings, make_window: Callable[..., MainWindow]
) -> None:
    window.help.show_guide("start")
    room = window.screen().availableGeometry()
    assert room.contains(QRect(room.topLeft(), guide_of(window).frameSize()))
    guide_of(window).resize(777, 555)
    guide_of(window).reject()
    other = make_window(settings=settings)
    other.help.show_guide("raw")
    assert (guide_of(other).width(), guide_of(other).height()) == (777, 555)
    guide_of(other).reject()


def test_the_text_of_the_guide_has_the_size_of_all_texts(
    qtbot: QtBot, settings: Settings, make_window: Callable[..., MainWindow]
) -> None:
    window = make_window(settings=settings)
    window.help.show_guide("start")
    guide = guide_of(window)
    qtbot.waitUntil(guide.isActiveWindow)
    size = guide.text.font().pointSizeF()
    qtbot.keyClick(guide, Qt.Key.Key_Plus, Qt.KeyboardModifier.ControlModifier)
    assert settings.text_size == 110
    qtbot.waitUntil(lambda: guide.text.font().pointSizeF() == pytest.approx(1.1 * size))
    qtbot.keyClick(guide, Qt.Key.Key_0, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: guide.text.font().pointSizeF() == pytest.approx(size))
    guide.reject()


def test_an_unknown_panel_opens_the_guide_at_its_start(window: MainWindow) -> None:
    window.panels.setCurrentIndex(window.panels.addWidget(QWidget()))
    window.actions_.guide.trigger()
    assert guide_of(window).page == "start"
    guide_of(window).reject()


def test_closing_the_window_closes_the_guide(make_window: Callable[..., MainWindow]) -> None:
    window = make_window()
    window.help.show_guide("start")
    window.close()
    assert window.help.guide is None
