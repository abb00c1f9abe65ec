"""Start-up: the application object, settings, hooks, the window; nothing of Qt exists before."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import QEvent, QLocale, QObject, QTimer
from PySide6.QtGui import QAccessible, QAccessibleInterface, QIcon, QSessionManager
from PySide6.QtWidgets import QAccessibleWidget, QApplication, QWidget

from explorer import __version__
from explorer.ends import end_at_once, exit_code, on_signals
from explorer.qt.addresses import places_of
from explorer.qt.crashes import catching
from explorer.qt.freed_memory import share_arenas
from explorer.qt.jobs import Job
from explorer.qt.locale_numbers import use_locale
from explorer.qt.main_window import MainWindow
from explorer.qt.panels import PANEL_MODULES
from explorer.qt.settings import Settings
from explorer.qt.theme import apply_scheme, apply_text_size
from explorer.text import plain_text


def install_roles() -> None:
    """Give screen readers the role of each widget class that has an `accessible_role`.

    Qt calls every widget that it does not draw itself a client area.
    """
    QAccessible.installFactory(_interface_of)


def _interface_of(_class_name: str, thing: QObject) -> QAccessibleInterface | None:
    role = getattr(thing, "accessible_role", None)
    if not isinstance(role, QAccessible.Role) or not isinstance(thing, QWidget):
        return None
    return _Spoken(thing, role)


class _Spoken(QAccessibleWidget):
    """A picture is described by what is current in it, or else by its sentence, made when asked."""

    def text(self, kind: QAccessible.Text) -> str:
        said = super().text(kind)
        sentence = getattr(self.widget(), "sentence", None)
        if kind == QAccessible.Text.Description and not said and callable(sentence):
            return str(sentence())
        return said


DESKTOP_FILE: Final = "io.github.gguf_explorer.GGUFExplorer"
"""Name of the desktop entry in packaging/linux/, by which a desktop finds a window's program."""

_SIGNAL_POLL_MS = 250
_NO_DISPLAY: Final = 1


def run(paths: Sequence[str], fresh: bool) -> int:
    """Open the window and run until it is closed.

    Args:
        paths: Models to open, also by name (``ollama:NAME[:TAG]``). None opens the last session's,
            or shows the downloaded models; where there are none either, the demo model.
        fresh: Ignore and leave alone the saved settings.

    Returns:
        The exit code.
    """
    share_arenas()
    app = QApplication(sys.argv[:1])
    app.setApplicationName("gguf-explorer")
    app.setApplicationDisplayName("GGUF Explorer")
    app.setApplicationVersion(__version__)
    app.setDesktopFileName(DESKTOP_FILE)
    app.setStyle("Fusion")
    settings = Settings(fresh=fresh)
    install_roles()
    use_locale(QLocale.system())
    apply_scheme(settings.scheme)
    apply_text_size(settings.text_size)
    app.styleHints().colorSchemeChanged.connect(lambda _: apply_scheme(settings.scheme))
    settings.begin_session(anew=bool(paths))
    window = MainWindow(settings)
    ending = _Ending(app, window)

    def go_on() -> None:
        from explorer.formats.ollama.manifest import is_name  # noqa: PLC0415 - after the first paint

        # first: what died in machine code must not run again, in a job of what is opened
        window.crashes.report_last_run()
        files, faults = places_of([path for path in paths if not is_name(path)])
        for fault in faults:
            window.show_error(fault)
        _open_first(window, files, [path for path in paths if is_name(path)])
        window.runner.cache_unavailable.connect(window.message_bar.show_error)
        window.bottom.machine.show_machine()
        window.runner.load_ahead(PANEL_MODULES)
        window.runner.prepare_cache()
        app.setWindowIcon(_icon())
        problem = settings.problem()
        if problem is not None:
            window.message_bar.show_error(problem)

    with catching(window.crashes):
        window.installEventFilter(_AfterFirstPaint(go_on, window))
        window.show()
        code = app.exec()
    settings.end_session()
    if ending.signal:  # do not wait for workers that nothing interrupts
        end_at_once(ending.signal)
    return code


class _Ending(QObject):
    """Saves the session where something else than the user ends the program."""

    def __init__(self, app: QApplication, window: MainWindow) -> None:
        super().__init__(app)
        self._app = app
        self._window = window
        self.signal = 0
        on_signals(self._end)
        # Python sees a signal only between two of its own instructions: wake it now and then
        waker = QTimer(self)
        waker.timeout.connect(lambda: None)
        waker.start(_SIGNAL_POLL_MS)
        app.commitDataRequest.connect(self._log_out)
        app.saveStateRequest.connect(self._log_out)
        window.crashes.display_lost.connect(self._lose_display)

    def _end(self, number: int) -> None:
        if self.signal:  # the second one: somebody is impatient
            end_at_once(number)
        self.signal = number
        QTimer.singleShot(0, self, self._close)  # not in the middle of a paint event

    def _close(self) -> None:
        self._window.close()
        self._app.exit(exit_code(self.signal))

    def _log_out(self, manager: QSessionManager) -> None:
        """Save all: the program may be ended at any moment from now on."""
        self._save()
        module = [] if getattr(sys, "frozen", False) else ["-P", "-m", "explorer"]
        manager.setRestartCommand([sys.executable, *module])  # Qt's has an option that is not ours

    def _lose_display(self) -> None:
        """Save what is open; Qt would end the process now, and may crash as it does."""
        self._save()
        self._window.crashes.reports.stop_watching()
        self._window.settings.end_session()
        os._exit(_NO_DISPLAY)

    def _save(self) -> None:
        self._window.session.note()
        self._window.settings.write()


def _icon() -> QIcon:
    from explorer.paths import resource  # noqa: PLC0415 - not before the first paint

    return QIcon(str(resource("icons/gguf-explorer.svg")))


class _AfterFirstPaint(QObject):
    """Calls a function after the first paint of the window; a timer of 0 ms would fire before."""

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
    if paths:
        window.open_paths(paths)
    elif not named:
        _open_session(window)


def _open_session(window: MainWindow) -> None:
    """Open what is still there of the last session; show the downloaded models if nothing is."""
    session = window.settings.session

    def look(job: Job) -> list[Path]:
        # In a worker: a share of the network that no longer answers holds up who asks for it
        found = []
        for path in session:
            job.check()
            if os.path.exists(path):  # not `Path.exists`: it raises where a folder is closed to us
                found.append(path)
        return found

    def open_found(found: list[Path]) -> None:
        window.expected = ()
        if found:
            window.open_paths(found, window.panels.memory.front)
            window.panels.memory.show_last_page()
        elif not window.documents:  # else one was opened while a share kept us waiting
            window.open_library()

    if session:
        window.expected = tuple(session)
        title = "Looking for the models of the last session"
        window.runner.run(title, look, open_found, window.show_error)
    else:
        window.open_library()


def _open_named(window: MainWindow, name: str) -> None:
    """Open a model of Ollama's store, ``ollama:NAME[:TAG]``."""

    def find(_job: Job) -> Path:
        # the stores' modules are loaded where they are needed, not before the first paint
        from explorer.stores.entries import this_machine_ollama  # noqa: PLC0415
        from explorer.stores.library import resolve  # noqa: PLC0415

        return resolve(name, this_machine_ollama())

    title = f"Looking for {plain_text(name)}"
    window.runner.run(title, find, lambda path: window.open_paths([path]), window.show_error)
