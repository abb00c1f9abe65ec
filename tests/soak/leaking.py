"""A soak of a window that leaks on purpose, so that one sees that the soak finds it.

    QT_QPA_PLATFORM=offscreen python -m tests.soak.leaking --visited 1 --warm-up 10 --actions 40

With each action it keeps memory and makes objects of Qt that nobody frees, and it keeps each model
that is closed. The options are those of `tests.soak.soak`.
"""

from __future__ import annotations

import sys
from unittest.mock import patch

from PySide6.QtCore import QObject

from explorer.qt.document import Document
from explorer.qt.main_window import MainWindow
from tests.soak import soak
from tests.soak.monkey import Monkey

_BYTES = 4 << 20
_OBJECTS = 30


def main() -> int:
    """Run the soak; the exit code is 1 if it found the leaks."""
    kept: list[object] = []
    act, close = Monkey.act, MainWindow.close_document

    def act_and_leak(monkey: Monkey) -> None:
        act(monkey)
        kept.append(b"x" * _BYTES)  # written, for the system gives memory when it is written to
        kept.append([QObject(monkey.window) for _ in range(_OBJECTS)])

    def close_and_keep(window: MainWindow, document: Document) -> None:
        kept.append(document)
        close(window, document)

    with (
        patch.object(Monkey, "act", act_and_leak),
        patch.object(MainWindow, "close_document", close_and_keep),
    ):
        return soak.main()


if __name__ == "__main__":
    sys.exit(main())
