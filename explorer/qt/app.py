"""Start-up: the application object, settings, hooks, the window; nothing of Qt exists before."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QApplication

from explorer import __version__
from explorer.display import plain_text
from explorer.qt.jobs import Job
from explorer.qt.main_window import MainWindow
from explorer.qt.settings import Settings
from explorer.qt.theme import apply_scheme

_SIGNAL_POLL_MS = 250
_OLLAMA = "ollama:"  # begins the name of a model rather than a path


def run(paths: Sequence[str], fresh: bool) -> int:
    """Open the window and run until it is closed.

    Args:
        paths: Models to open, also by name (``ollama:NAME[:TAG]``). None opens the last session's,
            or shows the downloaded models; where there are none either, the demo model.
        fresh: Ignore and leave alone the saved settings.

    Returns:
        The exit code.
    """
    app = QApplication(sys.argv[:1])
    app.setApplicationName("gguf-explorer")
    app.setApplicationDisplayName("GGUF Explorer")
    app.setApplicationVersion(__version__)
    app.setStyle("Fusion")
    settings = Settings(fresh=fresh)
    apply_scheme(settings.scheme)
    app.styleHints().colorSchemeChanged.connect(lambda _: apply_scheme(settings.scheme))
    window = MainWindow(settings)
    _catch_everything(window)
    # Python sees Ctrl+C only between two of its own instructions: wake it now and then
    signal.signal(signal.SIGINT, lambda *_: app.quit())
    waker = QTimer(app)
    waker.timeout.connect(lambda: None)
    waker.start(_SIGNAL_POLL_MS)
    named = [path for path in paths if path.startswith(_OLLAMA)]
    files = [Path(path) for path in paths if not path.startswith(_OLLAMA)]

    def go_on() -> None:
        _open_first(window, files, named)
        window.runner.prepare_kernels()

    window.installEventFilter(_AfterFirstPaint(go_on, window))
    window.show()
    return app.exec()


class _AfterFirstPaint(QObject):
    """Calls a function once the window was painted: what it loads must not keep it off the screen.

    A timer of 0 ms would fire before.
    """

    def __init__(self, then: Callable[[], None], window: MainWindow) -> None:
        super().__init__(window)
        self._then = then

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            watched.removeEventFilter(self)
            QTimer.singleShot(0, self._then)
        return False


def _open_first(window: MainWindow, paths: list[Path], named: Sequence[str] = ()) -> None:
    for name in named:
        _open_named(window, name)
    session = [] if paths or named else [path for path in window.settings.session if path.exists()]
    if paths or session:
        window.open_paths(paths or session)
    elif not named:
        window.open_library()


def _open_named(window: MainWindow, name: str) -> None:
    """Open a model of Ollama's store, ``ollama:NAME[:TAG]``."""

    def find(_job: Job) -> Path:
        # the stores' modules are loaded where they are needed, not before the first paint
        from explorer.stores.names import resolve  # noqa: PLC0415
        from explorer.stores.places import this_machine_ollama  # noqa: PLC0415

        return resolve(name, this_machine_ollama())

    title = window.tr("Looking for {name}").format(name=plain_text(name))
    window.runner.run(title, find, lambda path: window.open_paths([path]), window.show_error)


def _catch_everything(window: MainWindow) -> None:
    """Show what nobody caught, in the window and on stderr, and go on."""

    def report(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        sys.__excepthook__(kind, error, trace)
        window.runner.crashed.emit(error)  # a signal: the hook may run in any thread

    def report_thread(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            report(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)

    sys.excepthook = report
    threading.excepthook = report_thread
