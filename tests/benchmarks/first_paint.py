"""A program for `test_start.py`: show a window and tell when its first paint is over.

`first_paint.py ours` opens the program's window as `python -m explorer --fresh` does;
`first_paint.py peer` opens a minimal window with an empty pyqtgraph plot.
"""

from __future__ import annotations

import os
import sys
import time


def _quit_after_paint(application: type) -> type:
    """Return an application class that tells when everything was painted once, and quits.

    The first window paints its widgets in one go, so the event loop comes round after the last.
    """
    from PySide6.QtCore import QEvent, QObject, QTimer

    class Quitting(application):  # type: ignore[misc] # a class known only now
        seen = False

        def notify(self, receiver: QObject, event: QEvent) -> bool:
            if not self.seen and event.type() == QEvent.Type.Paint:
                self.seen = True
                QTimer.singleShot(0, self._tell)
            return bool(super().notify(receiver, event))

        def _tell(self) -> None:
            print(f"painted {time.clock_gettime(time.CLOCK_MONOTONIC):.6f}", flush=True)
            os._exit(0)  # what would follow, such as making the demo model, is not measured

    return Quitting


def show_ours() -> int:
    """Run the program itself; only the application class is exchanged."""
    from PySide6 import QtWidgets

    QtWidgets.QApplication = _quit_after_paint(QtWidgets.QApplication)
    from explorer.cli.main import main  # it imports the window in its own way

    sys.argv = ["gguf-explorer", "--fresh"]
    return main()


def show_peer() -> int:
    """Run the smallest program with the same two libraries."""
    import pyqtgraph as pg
    from PySide6.QtWidgets import QApplication, QMainWindow

    app = _quit_after_paint(QApplication)(sys.argv[:1])
    window = QMainWindow()
    window.resize(1280, 800)
    window.setCentralWidget(pg.PlotWidget())
    window.show()
    return int(app.exec())


if __name__ == "__main__":
    sys.exit(show_ours() if sys.argv[1] == "ours" else show_peer())
