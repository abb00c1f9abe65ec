"""A walk over everything that a window shows: each page, each dialog and the frame around them.

What must hold everywhere is a check: a function that is called at each place. A page that is added
is looked at without anybody thinking of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from tests.helpers.everywhere import dialogs, everywhere, visible


@dataclass(frozen=True)
class Place:
    """What is in front: a page of a panel, a dialog, or the frame around them.

    Attributes:
        name: What it is called in the message of a test.
        shown: The widget.
        window: The window that it belongs to.
        qtbot: What drives the window.
        is_page: Whether it is a page of a panel.
    """

    name: str
    shown: QWidget
    window: MainWindow
    qtbot: QtBot
    is_page: bool = True

    @property
    def top(self) -> QWidget:
        """The whole window or dialog that it is seen in."""
        return self.shown.window()

    @cached_property
    def widgets(self) -> list[QWidget]:
        """What one can see of it."""
        return visible(self.shown)

    @cached_property
    def image(self) -> QImage:
        """What is on the screen."""
        return self.top.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)


Check = Callable[[Place], Iterator[str]]
"""Yields a sentence for each fault at a place, "" for each thing that is as it should be."""


def walk(qtbot: QtBot, window: MainWindow, checks: Mapping[Check, int]) -> set[str]:
    """Show everything, one after the other, and check it; return the names of the places.

    Each check must find at least as many things as are named with it.
    """
    names, faults, counts = set(), dict[str, None](), Counter[str]()
    for place in _places(qtbot, window):
        names.add(place.name)
        for check in checks:
            for fault in check(place):
                counts[check.__name__] += 1
                if fault:
                    faults[f"{place.name}: {fault}"] = None
    few = {
        f"{check.__name__} looked at {counts[check.__name__]} things only"
        for check, least in checks.items()
        if counts[check.__name__] < least
    }
    if faults or few:
        pytest.fail("\n".join([*faults, *few]))
    return names


def _places(qtbot: QtBot, window: MainWindow) -> Iterator[Place]:
    for name, page in everywhere(qtbot, window):
        yield Place(name, page, window, qtbot)
    for name, dialog in dialogs(qtbot, window):
        yield Place(name, dialog, window, qtbot, is_page=False)
    yield Place("Frame", window, window, qtbot, is_page=False)


def area_in_window(part: QWidget) -> QRect:
    """Return where a widget is in its window."""
    return QRect(part.mapTo(part.window(), QPoint(0, 0)), part.size())
