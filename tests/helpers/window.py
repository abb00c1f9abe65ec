"""What the window's tests share: hostile names, waiting, the clipboard."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from tests.helpers.hostile import HOSTILE

__all__ = ["HOSTILE", "copied", "unsafe_characters", "wait_idle"]


def unsafe_characters(text: str) -> set[str]:
    """Return what must not reach a one-line place of the display."""
    return set(text) & {"\n", "\r", "\t", "\x1b", "\0", "\u202e", "\u200b", "\u2028"}


def wait_idle(qtbot: QtBot, window: MainWindow) -> None:
    """Wait until nothing runs in the background any more."""
    qtbot.waitUntil(lambda: not window.runner.jobs)


def copied(qtbot: QtBot, copy: Callable[[], object]) -> str:
    """Return what `copy` puts into the clipboard."""
    clipboard = QGuiApplication.clipboard()
    clipboard.setText("nothing was copied")
    copy()
    qtbot.waitUntil(lambda: clipboard.text() != "nothing was copied")
    return clipboard.text()
