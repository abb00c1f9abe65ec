"""A program for `test_start.py`: show a window and tell when its first paint is over.

`first_paint.py ours` opens the program's window as `python -m explorer --fresh` does;
`first_paint.py peer` opens a minimal window with an empty pyqtgraph plot.
"""

from __future__ import annotations

import sys
import time


def _print_time(name: str) -> None:
    print(f"{name} {time.clock_gettime(time.CLOCK_MONOTONIC):.6f}", flush=True)


def _watch_paint(application: type, window: type) -> type:
    """Return the application class with an ear for the first paint of a window class."""
    from PySide6.QtCore import QEvent, QObject, QTimer

    class Watched(application):  # type: ignore[misc] # a class known only now
        done = False

        def notify(self, receiver: QObject, event: QEvent) -> bool:
            painted = not self.done and event.type() == QEvent.Type.Paint and isinstance(receiver, window)
            answer = bool(super().notify(receiver, event))
            if painted:
                self.done = True
                _print_time("painted")
                QTimer.singleShot(0, self.quit)
            return answer

    return Watched


def show_ours() -> int:
    """Run the program itself; only the application class is exchanged."""
    from explorer.cli.main import main
    from explorer.qt import app
    from explorer.qt.main_window import MainWindow

    # the demo model would be made, and read, behind the first paint, which is not measured
    app.QApplication = _watch_paint(app.QApplication, MainWindow)
    sys.argv = ["gguf-explorer", "--fresh"]
    return main()


def show_peer() -> int:
    """Run the smallest program with the same two libraries."""
    import pyqtgraph as pg
    from PySide6.QtWidgets import QApplication, QMainWindow

    app = _watch_paint(QApplication, QMainWindow)(sys.argv[:1])
    window = QMainWindow()
    window.resize(1280, 800)
    window.setCentralWidget(pg.PlotWidget())
    window.show()
    return int(app.exec())


if __name__ == "__main__":
    sys.exit(show_ours() if sys.argv[1] == "ours" else show_peer())
