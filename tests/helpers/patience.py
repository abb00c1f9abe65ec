"""How long a test waits for what must come: a hang is a failure, a slow machine is none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partialmethod
from typing import TYPE_CHECKING, Final

from pytestqt.qtbot import QtBot

if TYPE_CHECKING:  # most who wait know nothing of Qt
    from PySide6.QtCore import QPoint
    from PySide6.QtWidgets import QWidget

PATIENCE_S: Final = 120.0
PATIENCE_MS: Final = int(PATIENCE_S * 1000)
SOON_S: Final = 10.0  # what waits for a silent server ends before its timeout of 15
PROGRAM_S: Final = 300.0  # for a program of its own, which may have to compile kernels first


class PatientBot(QtBot):
    """A bot whose waits end as soon as they may, but give up later than pytest-qt's 5 seconds.

    pytest-qt has no setting for that.
    """

    waitSignal = partialmethod(QtBot.waitSignal, timeout=PATIENCE_MS)
    waitSignals = partialmethod(QtBot.waitSignals, timeout=PATIENCE_MS)

    def mouseMove(self, widget: QWidget, pos: QPoint) -> None:
        """Move the mouse to a place, from beside it if it is there already.

        Another test may have left it there, and Qt tells nobody of a mouse that does not move.
        """
        from PySide6.QtCore import QPoint
        from PySide6.QtGui import QCursor
        from PySide6.QtTest import QTest

        if QCursor.pos() == widget.mapToGlobal(pos):
            QTest.mouseMove(widget, pos + QPoint(1, 1))
        QTest.mouseMove(widget, pos)

    def waitUntil(self, callback: Callable[[], bool | None], *, timeout: int = PATIENCE_MS) -> None:
        """Wait until a callback returns true, or returns nothing and raises no `AssertionError`.

        pytest-qt looks every 10 ms, and many a thing comes sooner: the first looks follow faster.
        """
        __tracebackhide__ = True
        for pause_ms in (1, 2, 4, 8):
            try:
                if callback() in (None, True):
                    return
            except AssertionError:
                pass
            self.wait(pause_ms)
        super().waitUntil(callback, timeout=timeout)
