"""The soak: 2,000 random actions at the window, and what must not come of them.

    QT_QPA_PLATFORM=offscreen python -m tests.soak.soak --seed 1 --actions 2000

A finding is an exception that nobody caught, a message of Qt that is at least a warning, a thread
or a timer that is left at the end, or memory that has grown by more than `MOST_GROWTH`. Memory is
what the process has in RAM (RSS) with all models closed, nothing under way, garbage collected and
freed memory given back to the system. It is compared between the end of a warm-up and the end: in
the warm-up each page is shown for some models, and the monkey does three quarters as much again,
for modules and compiled kernels are loaded when something first needs them, and stay.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import gc
import os
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import TracebackType

import psutil
from PySide6.QtCore import (
    QCoreApplication,
    QEvent,
    QMessageLogContext,
    QtMsgType,
    qInstallMessageHandler,
)
from PySide6.QtWidgets import QApplication, QTabWidget

from explorer.demo import make_demo
from explorer.qt.main_window import MainWindow
from explorer.qt.settings import Settings
from explorer.quantization.kernel_cache import choose_kernel_cache
from tests.helpers.gguf_writer import small_model
from tests.helpers.hostile import write_hostile_models
from tests.helpers.model_pairs import arrays_of, write_gguf, write_safetensors
from tests.soak.monkey import Monkey, harmless_surroundings

MOST_GROWTH = 0.10
MOST_AT_ONCE = 1 << 30  # a hostile text of ten megabytes takes half of that while it is laid out
WARM_UP = 0.75  # as a share of the actions, which come after it

_OF_THE_PLATFORM = "This plugin does not support"  # the offscreen one says so of many things
_IDLE_S = 60.0
_LONGEST_S = 60.0  # of one action: behind it the process ends, and tells where it was
_SHAPES = {
    "token_embd.weight": (64, 256),
    "output_norm.weight": (256,),
    **{
        f"blk.{layer}.{role}.weight": shape
        for layer in range(6)
        for role, shape in (
            ("attn_norm", (256,)),
            ("attn_q", (256, 256)),
            ("attn_k", (128, 256)),
            ("ffn_down", (256, 512)),
        )
    },
}
_NUMBERS = {
    "block_count": 6,
    "embedding_length": 256,
    "context_length": 2048,
    "feed_forward_length": 512,
    "attention__head_count": 4,
    "attention__head_count_kv": 2,
}


@dataclass
class Report:
    """What a soak gave.

    Attributes:
        actions: How many things were done.
        seconds: How long it took.
        faults: What went wrong, each with how often, and the action at which it was first.
        done: What was done before each of them.
        warm_bytes: Memory after the warm-up.
        end_bytes: Memory at the end.
        last_bytes: Memory after the last action.
        left: Threads and timers that are left behind.
        kinds: Kinds of actions, with how often.
    """

    actions: int = 0
    seconds: float = 0.0
    faults: dict[str, list[int]] = field(default_factory=dict)
    done: dict[str, str] = field(default_factory=dict)
    warm_bytes: int = 0
    end_bytes: int = 0
    last_bytes: int = 0
    left: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def growth(self) -> float:
        """How much memory has grown, as a share."""
        return self.end_bytes / self.warm_bytes - 1 if self.warm_bytes else 0.0

    def note(self, text: str, done: Sequence[str] = ()) -> None:
        """Note a fault at the current action, and what was done just before it first happened."""
        if text not in self.faults:
            self.done[text] = ", ".join(done)
        self.faults.setdefault(text, []).append(self.actions)

    def findings(self) -> list[str]:
        """Return a line for each finding."""
        found = [
            f"action {at[0]}, {len(at)} ×: {text} (done: {self.done[text]})"
            for text, at in self.faults.items()
        ]
        found += [f"left behind: {what}" for what in self.left]
        if self.growth > MOST_GROWTH:
            found.append(f"memory has grown by {self.growth:.1%}")
        return found


@contextmanager
def listening(report: Report, monkey: Monkey) -> Iterator[None]:
    """Take down everything that goes wrong, wherever it does."""

    def note(
        kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
    ) -> None:
        report.note("".join(traceback.format_exception(kind, error, trace)), monkey.done[-3:])

    def note_of_qt(kind: QtMsgType, _context: QMessageLogContext, message: str) -> None:
        harmless = kind in {QtMsgType.QtDebugMsg, QtMsgType.QtInfoMsg}
        if not harmless and not message.startswith(_OF_THE_PLATFORM):
            report.note(f"Qt: {message}", monkey.done[-2:])

    before = sys.excepthook, threading.excepthook, sys.unraisablehook
    sys.excepthook = note
    threading.excepthook = lambda a: note(a.exc_type, a.exc_value, a.exc_traceback)
    sys.unraisablehook = lambda a: note(a.exc_type, a.exc_value, a.exc_traceback)
    handler = qInstallMessageHandler(note_of_qt)
    try:
        yield
    finally:
        qInstallMessageHandler(handler)
        sys.excepthook, threading.excepthook, sys.unraisablehook = before


def make_models(folder: Path) -> list[Path]:
    """Write models of every kind, small ones, and a file that is none."""
    folder.mkdir()
    demo = make_demo(folder / "demo")
    arrays = arrays_of(_SHAPES)
    types = {name: "Q4_K" for name, shape in _SHAPES.items() if len(shape) > 1}
    hostile = write_hostile_models(folder / "hostile")
    damaged = folder / "damaged.gguf"
    damaged.write_bytes(demo.model.read_bytes()[:5000])
    return [
        *(demo.model, demo.manifest, demo.model),
        write_gguf(folder / "reference.gguf", "llama", arrays, **_NUMBERS),
        write_gguf(folder / "quantized.gguf", "llama", arrays, types, **_NUMBERS),
        write_safetensors(folder / "folder", arrays, model_type="llama", hidden_size=256),
        small_model().write(folder / "small.gguf"),
        small_model(1, "big").write(folder / "big_endian.gguf"),
        *hostile.all,
        damaged,
        folder / "missing.gguf",
    ]


def soak(window: MainWindow, seed: int, actions: int, folder: Path, watch: bool = False) -> Report:
    """Let a monkey at a window.

    Args:
        window: The window, which is shown.
        seed: Decides what is done.
        actions: How many things are done, after a warm-up of three quarters as many.
        folder: An empty folder for models and for files that are saved.
        watch: Whether to tell now and then how far it is, and to end the process if it hangs.
    """
    report = Report()
    models = make_models(folder)
    monkey = Monkey(window, seed, models)
    window.actions_.quit.setEnabled(False)
    window.runner.crashed.connect(
        lambda error: report.note("".join(traceback.format_exception(error)))
    )
    warm_up = int(actions * WARM_UP)
    surroundings = harmless_surroundings(folder / "saved", Random(seed))
    with listening(report, monkey), surroundings:
        _show_everything(monkey, models)
        started = time.monotonic()
        for report.actions in range(1, warm_up + actions + 1):
            if watch:
                faulthandler.dump_traceback_later(_LONGEST_S, exit=True)  # a window that hangs
            try:
                monkey.act()
            except Exception:  # noqa: BLE001 - a method that Qt called failed: what is looked for
                report.note(traceback.format_exc(), monkey.done[-3:])
            _note_jump(report, monkey)
            if report.actions == warm_up:
                report.warm_bytes = _resting_memory(monkey)
                if watch:
                    _say(f"at rest after the warm-up: {report.warm_bytes >> 20} MiB")
            if watch and report.actions % 100 == 0:
                found = len(report.faults)
                _say(f"{report.actions:,} actions, {_memory() >> 20} MiB, {found} kinds of faults")
        faulthandler.cancel_dump_traceback_later()
        report.end_bytes = _resting_memory(monkey)
        report.left = _left(window)
    report.seconds = time.monotonic() - started
    report.kinds = Counter(done.split()[0] for done in monkey.done)
    return report


def _show_everything(monkey: Monkey, models: Sequence[Path]) -> None:
    """Show each page of each panel for some models, so that all modules and kernels are loaded."""
    window = monkey.window
    for path in models[:6]:
        window.open_paths([path])
        monkey.wait(_IDLE_S)
        document = window.documents[-1]
        window.reveal_tensor(document, 0)
        window.panels.references.choose(window.documents[0])
        for number in range(window.panels.count()):
            window.panels.setCurrentIndex(number)
            monkey.wait(_IDLE_S)
            for tabs in window.panels.widget(number).findChildren(QTabWidget):
                for page in range(tabs.count()):
                    tabs.setCurrentIndex(page)
                    monkey.wait(_IDLE_S)
    _resting_memory(monkey)


def _note_jump(report: Report, monkey: Monkey) -> None:
    """Note if the memory has grown much since the last action."""
    memory = _memory()
    if memory > report.last_bytes + MOST_AT_ONCE and report.last_bytes:
        grown = (memory - report.last_bytes) >> 20
        report.note(f"memory has grown by {grown} MiB at once", monkey.done[-6:])
    report.last_bytes = memory


def _memory() -> int:
    return int(psutil.Process().memory_info().rss)


def _resting_memory(monkey: Monkey) -> int:
    """Close all models, wait until nothing is under way, and return the bytes in RAM."""
    monkey.close_dialogs()
    window = monkey.window
    monkey.wait(_IDLE_S)
    while window.documents:
        window.close_document(window.documents[0])
    for _ in range(3):
        monkey.wait(_IDLE_S)
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        QApplication.processEvents()
        gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return _memory()


def _left(window: MainWindow) -> list[str]:
    """Return what still runs though nothing should."""
    left = [f"job {job.title}" for job in window.runner.jobs]
    count = window.runner._pool.activeThreadCount()
    if count:
        left.append(f"{count} threads of jobs")
    ours = [
        thread.name
        for thread in threading.enumerate()
        if thread is not threading.main_thread() and not thread.name.startswith("Dummy")
    ]
    if len(ours) > (os.cpu_count() or 1):  # pools of decoding threads are kept, and bounded
        left.append(f"threads {ours}")
    return left


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run the soak; the exit code is 1 if it found anything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--actions", type=int, default=2000)
    given = parser.parse_args()
    choose_kernel_cache()  # before the cache goes elsewhere: kernels are compiled once
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["GGUF_EXPLORER_CACHE"] = str(folder / "cache")
        app = QApplication(sys.argv[:1])
        app.setStyle("Fusion")
        window = MainWindow(Settings(folder / "settings.ini"))
        window.show()
        report = soak(window, given.seed, given.actions, folder / "models", watch=True)
        window.close()
    _say(
        f"{report.actions:,} actions in {report.seconds:,.0f} s (seed {given.seed}), "
        f"{report.warm_bytes >> 20} MiB after the warm-up, {report.end_bytes >> 20} MiB at the "
        f"end ({report.growth:+.1%}), {len(report.findings())} findings"
    )
    _say(", ".join(f"{count} {kind}" for kind, count in report.kinds.most_common()))
    for finding in report.findings():
        _say(finding)
    return 1 if report.findings() else 0


if __name__ == "__main__":
    sys.exit(main())
