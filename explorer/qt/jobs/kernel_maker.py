"""Has a program of its own compile kernels, so that the window never waits for the compiler.

In a thread, a second of compiling takes the interpreter's lock from the window many times, and its
longest pause was twice the 50 ms that one may notice. A thread that needs a kernel waits here for
that program, and then merely loads machine code from the cache. Where that cannot be (no folder to
write to, or the program fails), nobody waits, and who needs a kernel compiles it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer

from explorer.quantization.kernel_cache import (
    choose_kernel_cache,
    has_kernel_folder,
    is_compiled,
)
from explorer.quantization.registry import has_decoder

_IDLE_MS: Final = 500  # after the first wish: the window is painted first
_POLL_MS: Final = 50
_LONGEST_WAIT_S: Final = 15.0
_CHECK_S: Final = 0.05
_CLOSE_WAIT_MS: Final = 2_000
_PACKAGE_PARENT: Final = Path(__file__).resolve().parents[3]


def compile_command() -> tuple[str, list[str]]:
    """Return the program that compiles kernels, and its first arguments."""
    if getattr(sys, "frozen", False):
        return sys.executable, ["compile-kernels"]
    # -P: a folder of downloaded models is no place to import modules from
    return sys.executable, ["-P", "-m", "explorer", "compile-kernels"]


class KernelMaker(QObject):
    """Compiles the kernels of tensor types beside the window. Made and asked on the GUI thread."""

    def __init__(
        self,
        parent: QObject | None = None,
        command: Callable[[], tuple[str, list[str]]] = compile_command,
    ) -> None:
        super().__init__(parent)
        self._command = command
        self._wished: list[str] = []  # types of which nobody has looked yet whether they are there
        self._known: set[str] = set()  # those of which somebody has
        self._given: list[str] = []  # those that the program which runs was started with
        self._process: QProcess | None = None
        self._changed = threading.Condition()  # guards what follows
        self._missing: list[str] = []
        self._broken = False
        self._idle = QTimer(self)
        self._idle.setSingleShot(True)
        self._idle.setInterval(_IDLE_MS)
        self._idle.timeout.connect(self._start)
        self._polling = QTimer(self)
        self._polling.setInterval(_POLL_MS)
        self._polling.timeout.connect(self._look)

    @property
    def running(self) -> bool:
        """Whether a program compiles."""
        return self._process is not None

    def ask(self, types: Iterable[str]) -> None:
        """Have kernels compiled when nothing else is to do, if they are not there.

        Args:
            types: Names of tensor types; those without a decoder are left out.
        """
        self._wished += types
        if not self._broken and not self.running and not self._idle.isActive():
            self._idle.start()

    def ask_now(self, types: Iterable[str]) -> list[str]:
        """Have kernels compiled before all others: somebody waits for them.

        Args:
            types: Names of tensor types.

        Returns:
            Those that are not there yet, and will be.
        """
        wanted = list(dict.fromkeys(types))
        self._wished += wanted
        self._look_for_wished()
        waiting = [name for name in wanted if name in self._missing]
        if not waiting:
            return waiting
        with self._changed:
            self._missing.sort(key=lambda name: name not in waiting)  # stable
        if self._process is not None:
            for name in reversed(waiting):
                self._process.write(f"{name}\n".encode())
        else:
            self._start()
        return waiting

    def wait(self, types: Iterable[str], check: Callable[[], object]) -> None:
        """Wait until kernels are there or will not be; for workers.

        Args:
            types: Names of tensor types.
            check: Called at least every 50 ms; raises to stop waiting.
        """
        wanted = set(types)
        end = time.monotonic() + _LONGEST_WAIT_S
        while True:
            check()
            with self._changed:
                if wanted.isdisjoint(self._missing) or time.monotonic() > end:
                    return
                self._changed.wait(_CHECK_S)

    def close(self) -> None:
        """End the program; nothing is compiled from now on."""
        self._give_up()
        self._idle.stop()
        self._polling.stop()
        process, self._process = self._process, None
        if process is not None:
            process.finished.disconnect(self._end)
            process.errorOccurred.disconnect(self._fail)
            process.kill()
            process.waitForFinished(_CLOSE_WAIT_MS)
            process.deleteLater()

    def _look_for_wished(self) -> None:
        """See which of the types that were wished for are not there."""
        new = [name for name in dict.fromkeys(self._wished) if name not in self._known]
        self._wished = []
        if not new or self._broken:
            return
        self._known.update(new)
        choose_kernel_cache()
        if has_kernel_folder():
            with self._changed:
                self._missing += [n for n in new if has_decoder(n) and not is_compiled(n)]

    def _start(self) -> None:
        """Start the program, if there is something to do for it."""
        self._idle.stop()
        self._look_for_wished()
        if self.running or not self._missing:
            return
        process = QProcess(self)
        program, arguments = self._command()
        self._given = list(self._missing)
        process.setProgram(program)
        process.setArguments([*arguments, *self._given])
        surroundings = QProcessEnvironment.systemEnvironment()
        surroundings.insert("PYTHONPATH", str(_PACKAGE_PARENT))
        process.setProcessEnvironment(surroundings)
        process.setStandardOutputFile(QProcess.nullDevice())
        process.setStandardErrorFile(QProcess.nullDevice())
        process.finished.connect(self._end)
        process.errorOccurred.connect(self._fail)
        self._process = process
        self._polling.start()
        process.start()

    def _look(self) -> None:
        """See what is there by now."""
        with self._changed:
            self._missing = [name for name in self._missing if not is_compiled(name)]
            self._changed.notify_all()

    def _fail(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart:
            self._end()

    def _end(self, *_: object) -> None:
        """The program ended, or could not be started."""
        self._polling.stop()
        if self._process is not None:
            self._process.deleteLater()
            self._process = None
        self._look()
        if not set(self._given).isdisjoint(self._missing):
            self._give_up()
        else:
            self._start()  # of what was wished for meanwhile

    def _give_up(self) -> None:
        with self._changed:
            self._broken = True
            self._missing = []
            self._changed.notify_all()
