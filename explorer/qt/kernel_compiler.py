"""Has programs of their own compile kernels, so that the window never waits for the compiler.

In a thread, a second of compiling takes the interpreter's lock from the window many times, and its
longest pause was twice the 50 ms that one may notice. A thread that needs a kernel waits here for
those programs, and then merely loads machine code from the cache. There are two of them at most,
while one core stays the window's: one for what any tensor needs, which is half of the work, and one
for what its type needs; what a first look takes goes before what makes it exact. Where that cannot
be (no folder to write to, or a program fails), nobody waits, and who needs a kernel compiles it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from explorer.quantization.kernel_cache import choose_kernel_cache, has_kernel_folder, is_compiled
from explorer.quantization.kernel_sets import (
    GENERAL,
    exact,
    has_kernels,
    is_later,
    is_rounding,
    later,
    meant_by,
    urgency,
)

_IDLE_MS: Final = 500  # after the first wish: the window is painted first
_READY_MS: Final = 100  # after it is made; the look for kernels is prepared then
_POLL_MS: Final = 20
_LONGEST_WAIT_S: Final = 15.0
_CHECK_S: Final = 0.05
_CLOSE_WAIT_MS: Final = 2_000
_MOST_PROGRAMS: Final = 2
_PACKAGE_PARENT: Final = Path(__file__).resolve().parents[3]


def compile_command() -> tuple[str, list[str]]:
    """Return the program that compiles kernels, and its first arguments."""
    if getattr(sys, "frozen", False):
        return sys.executable, ["compile-kernels"]
    # -P: a folder of downloaded models is no place to import modules from
    return sys.executable, ["-P", "-m", "explorer", "compile-kernels"]


def _know_surroundings() -> None:
    choose_kernel_cache()
    is_compiled(GENERAL)


def _in_order(names: Iterable[str]) -> list[str]:
    """Return sets and what makes them exact, in the order in which somebody waits for them."""
    every = list(names)
    looks = [name for name in every if not is_rounding(name)]
    return [*looks, *map(exact, looks), *filter(is_rounding, every)]


class _Program(QObject):
    """A program that compiles sets of kernels, one after the other.

    Attributes:
        names: What it was started for.
        more: What it was told to compile after that; it may have ended before it heard of it.

    Signals:
        ended: It ended, or could not be started.
    """

    ended = Signal(object)

    def __init__(self, command: tuple[str, list[str]], names: list[str], parent: QObject) -> None:
        super().__init__(parent)
        self.names = names
        self.more: list[str] = []
        program, arguments = command
        self._process = process = QProcess(self)
        process.setProgram(program)
        process.setArguments([*arguments, *names])
        surroundings = QProcessEnvironment.systemEnvironment()
        surroundings.insert("PYTHONPATH", str(_PACKAGE_PARENT))
        process.setProcessEnvironment(surroundings)
        process.setStandardOutputFile(QProcess.nullDevice())
        process.setStandardErrorFile(QProcess.nullDevice())
        process.finished.connect(self._end)
        process.errorOccurred.connect(self._fail)

    @property
    def number(self) -> int:
        """The system's number of the process; 0 before it runs."""
        return int(self._process.processId())

    def start(self) -> None:
        """Start it; `ended` may be emitted at once."""
        self._process.start()

    def put_first(self, name: str) -> None:
        """Have a set compiled as soon as the one that is being compiled is done."""
        if name not in self.names:
            self.more.append(name)
        self._process.write(f"{name}\n".encode())

    def kill(self) -> None:
        """End it, and wait until it has ended."""
        self._process.finished.disconnect(self._end)
        self._process.errorOccurred.disconnect(self._fail)
        self._process.kill()
        self._process.waitForFinished(_CLOSE_WAIT_MS)
        self.deleteLater()

    def _fail(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart:
            self.ended.emit(self)

    def _end(self, *_: object) -> None:
        self.ended.emit(self)


class KernelMaker(QObject):
    """Compiles sets of kernels beside the window. Made and asked on the GUI thread.

    A set is named as `explorer.quantization.kernel_sets` tells, such as by a tensor type. What all
    types need is compiled without being asked for, and what can wait in the end.
    """

    def __init__(
        self,
        parent: QObject | None = None,
        command: Callable[[], tuple[str, list[str]]] = compile_command,
        most_programs: int = max(1, min(_MOST_PROGRAMS, (os.cpu_count() or 1) - 1)),
    ) -> None:
        super().__init__(parent)
        self._command = command
        self._most = most_programs
        self._wished: list[str] = []  # sets of which nobody has looked yet whether they are there
        self._known: set[str] = set()  # those of which somebody has
        self._programs: list[_Program] = []
        self._changed = threading.Condition()  # guards what follows
        self._missing: list[str] = []  # in the order in which they are to be made
        self._broken = False
        self._readying: threading.Thread | None = None
        self._begun = QTimer(self)
        self._begun.setSingleShot(True)
        self._begun.timeout.connect(self._get_ready)
        self._begun.start(_READY_MS)
        self._idle = QTimer(self)
        self._idle.setSingleShot(True)
        self._idle.timeout.connect(self._start_in_peace)
        self._polling = QTimer(self)
        self._polling.setInterval(_POLL_MS)
        self._polling.timeout.connect(self._look)

    @property
    def running(self) -> bool:
        """Whether a program compiles."""
        return bool(self._programs)

    def ask(self, types: Iterable[str], *, soon: bool = False) -> None:
        """Have kernels compiled when nothing else is to do, if they are not there.

        Args:
            types: Names of tensor types; those without a decoder are left out.
            soon: Whether somebody will wait for them in a moment: they go first.
        """
        if soon:
            self._wished[:0] = types
            if not self._broken:
                self._get_ready()
                self._idle.start(_POLL_MS)
            return
        self._wished += types
        if not self._broken and len(self._programs) < self._most and not self._idle.isActive():
            self._idle.start(_IDLE_MS)

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
        needed = _in_order([GENERAL, *wanted])
        urgent = [name for name in needed if name in self._missing]
        with self._changed:
            self._missing.sort(key=lambda name: name not in urgent)  # stable
        for name in reversed(urgent):
            for program in self._programs:
                if name in program.names:
                    program.put_first(name)
        self._start()
        late = {meant_by(name) for name in urgent}
        if GENERAL in late:
            return [name for name in wanted if name in self._known and has_kernels(name)]
        return [name for name in wanted if name in late]

    def wait(
        self, types: Iterable[str], check: Callable[[], object], *, first_look: bool = False
    ) -> None:
        """Wait until kernels are there or will not be; for workers.

        Args:
            types: Names of tensor types.
            check: Called at least every 50 ms; raises to stop waiting.
            first_look: Whether those that only an exact histogram needs may be missing yet.
        """
        wanted = {GENERAL, *types}
        if not first_look:
            wanted.update(map(exact, tuple(wanted)))
        end = time.monotonic() + _LONGEST_WAIT_S
        while True:
            check()
            with self._changed:
                if wanted.isdisjoint(self._missing) or time.monotonic() > end:
                    return
                self._changed.wait(_CHECK_S)

    def close(self) -> None:
        """End the programs; nothing is compiled from now on."""
        self._give_up()
        self._begun.stop()
        self._idle.stop()
        self._polling.stop()
        programs, self._programs = self._programs, []
        for program in programs:
            program.kill()
        if self._readying is not None:
            self._readying.join()

    def _get_ready(self) -> None:
        """Read beside the window what tells one set of kernels from others: 30 ms."""
        if self._readying is None and not self._known and not self._broken:
            self._readying = threading.Thread(target=_know_surroundings, name="kernel-look")
            self._readying.start()

    def _look_for_wished(self) -> None:
        """See which of the sets that were wished for are not there."""
        wished = dict.fromkeys([GENERAL, *self._wished])
        new = [name for name in wished if name not in self._known and has_kernels(name)]
        self._wished = []
        if not new or self._broken:
            return
        self._known.update(new)
        if self._readying is not None:
            self._readying.join()
        choose_kernel_cache()
        if has_kernel_folder():
            followed = [name for name in new if not is_rounding(name)]
            new = [*_in_order(new), *map(later, followed)]
            with self._changed:
                self._missing += [name for name in new if not is_compiled(name)]
                self._missing.sort(key=urgency)  # stable

    def _start(self) -> None:
        """Start programs for what cannot wait, or have those that run do it."""
        self._look_for_wished()
        given = {name for program in self._programs for name in (*program.names, *program.more)}
        left = [name for name in self._missing if name not in given and not is_later(name)]
        free = self._most - len(self._programs)
        if not free:
            for name in reversed(left):
                min(self._programs, key=self._count_left).put_first(name)
        for names in [left[place::free] for place in range(free)]:
            if names and not self._broken:
                self._start_one(names)

    def _start_in_peace(self) -> None:
        """Start programs for what cannot wait; or else, one for what can."""
        if self._readying is not None and self._readying.is_alive():
            self._idle.start(_POLL_MS)
            return
        self._start()
        if self._missing and not self._programs:
            self._start_one(list(self._missing))

    def _count_left(self, program: _Program) -> int:
        """Return how much a program has to do."""
        return sum(name in self._missing for name in (*program.names, *program.more))

    def _start_one(self, names: list[str]) -> None:
        program = _Program(self._command(), names, self)
        program.ended.connect(self._end)
        self._programs.append(program)
        self._polling.start()
        program.start()

    def _look(self) -> None:
        """See what is there by now."""
        with self._changed:
            self._missing = [name for name in self._missing if not is_compiled(name)]
            self._changed.notify_all()

    def _end(self, program: _Program) -> None:
        self._programs.remove(program)
        program.deleteLater()
        if not self._programs:
            self._polling.stop()
        self._look()
        failed = [name for name in program.names if name in self._missing]
        with self._changed:
            self._missing = [name for name in self._missing if name not in failed]
        if not all(map(is_later, failed)):
            self._give_up()
        elif not self._broken:
            self._start()  # of what was wished for meanwhile
            if self._missing:
                self._idle.start(_IDLE_MS)

    def _give_up(self) -> None:
        with self._changed:
            self._broken = True
            self._missing = []
            self._changed.notify_all()
