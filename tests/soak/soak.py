"""The soak: 2,000 random actions at the window, and what must not come of them.

    QT_QPA_PLATFORM=offscreen python -m tests.soak.soak --seed 1 --actions 2000

A finding is an exception that nobody caught, a message of Qt that is at least a warning, a thread
or a timer that is left at the end, a model that was closed and is not freed, or something that has
grown by more than `MOST_GROWTH`: the process's own memory in RAM (RSS without pages of files, which
come and go as the system likes), what the C library has given out of it, or the number of Qt's
objects; or `MOST_DESCRIPTORS` more descriptors than before.

What is held is looked at when the window rests: all models are closed, nothing is under way,
garbage is collected and free memory given back to the system. It is compared with what is held
after a warm-up, in which each page of each panel is shown for models of each kind, each button of
each page is pressed, each command is given, and the monkey then does `WARM_UP` things. Before
that, growth is not a leak: modules, fonts, machine code and dialogs are loaded when something
first needs them, and stay; caches fill to their bounds; and what stays comes to lie between pieces
of free memory. The window rests every `REST_EVERY` actions in the warm-up as well as after it, so
that both are alike, and so that one sees whether what is held goes on growing. What is held goes up
and down by a tenth with what was done last, so where it has grown the monkey goes on for up to
`MORE_RESTS` rests, and growth is what the least of them shows: what leaks does not come back.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from random import Random
from types import TracebackType

from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler
from PySide6.QtWidgets import QApplication

import explorer
from explorer.qt.freed_memory import share_arenas
from explorer.qt.main_window import MainWindow
from explorer.qt.settings import Settings
from explorer.quantization.kernel_cache import kernel_folder
from explorer.sources.remote import http
from tests.helpers.demo import copy_demo
from tests.helpers.gguf_writer import small_model
from tests.helpers.hostile import write_hostile_models
from tests.helpers.model_pairs import arrays_of, write_gguf, write_safetensors
from tests.helpers.ollama_store import store_of
from tests.soak.monkey import Monkey, harmless_surroundings
from tests.soak.resting import AtRest, Watch, keep_nothing_freed, left_running, memory, rest
from tests.soak.visiting import visit_everything

MOST_GROWTH = 0.10
MOST_DESCRIPTORS = 4  # more at rest than before: threads that are kept have pipes of their own
MOST_AT_ONCE = 1 << 30  # a hostile text of ten megabytes takes half of that while it is laid out
WARM_UP = 2_000
REST_EVERY = 500
MORE_RESTS = 3

_OF_THE_PLATFORM = "This plugin does not support"  # the offscreen one says so of many things
VISITED = 8  # models: one of each kind
_LONGEST_S = 900.0  # of one action: behind it the process ends, and tells where it was
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
        rests: What was held at rest, now and then.
        warm: Which of them came at the end of the warm-up.
        end: The first of them that shows what has grown since.
        last_bytes: Memory after the last action.
        left: What is left running.
        kept: Models that were closed and not freed.
        kinds: Kinds of actions, with how often.
    """

    actions: int = 0
    seconds: float = 0.0
    faults: dict[str, list[int]] = field(default_factory=dict)
    done: dict[str, str] = field(default_factory=dict)
    rests: list[AtRest] = field(default_factory=list)
    warm: int = 0
    end: int = -1
    last_bytes: int = 0
    left: list[str] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def growth(self) -> dict[str, float]:
        """How much each thing has grown between the warm-up and the last rests, as a share."""
        warm, ends = self.rests[self.warm], self.rests[self.end :]
        allocated = min(one.allocated for one in ends)
        return {
            "memory": min(one.own for one in ends) / warm.own - 1,
            "allocated memory": allocated / warm.allocated - 1 if warm.allocated else 0.0,
            "number of Qt's objects": min(one.qobjects for one in ends) / warm.qobjects - 1,
        }

    @property
    def grown(self) -> list[str]:
        """A line for each thing that has grown."""
        found = [
            f"grown: {what} by {share:.1%}"
            for what, share in self.growth.items()
            if share > MOST_GROWTH
        ]
        before = self.rests[self.warm].descriptors
        after = min(one.descriptors for one in self.rests[self.end :])
        if after > before + MOST_DESCRIPTORS:
            found.append(f"grown: descriptors, from {before} to {after}")
        return found

    def note(self, text: str, done: Iterable[str] = ()) -> None:
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
        found += [f"left behind: closed, and not freed: {what}" for what in sorted(self.kept)]
        return found + self.grown


@contextmanager
def listening(report: Report, monkey: Monkey) -> Iterator[None]:
    """Take down everything that goes wrong, wherever it does."""

    def note(
        kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
    ) -> None:
        report.note("".join(traceback.format_exception(kind, error, trace)), monkey.done)

    def note_of_qt(kind: QtMsgType, _context: QMessageLogContext, message: str) -> None:
        harmless = kind in {QtMsgType.QtDebugMsg, QtMsgType.QtInfoMsg}
        if not harmless and not message.startswith(_OF_THE_PLATFORM):
            report.note(f"Qt: {message}", monkey.done)

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
    demo = copy_demo(folder / "demo")
    arrays = arrays_of(_SHAPES)
    types = {name: "Q4_K" for name, shape in _SHAPES.items() if len(shape) > 1}
    hostile = write_hostile_models(folder / "hostile")
    damaged = folder / "damaged.gguf"
    damaged.write_bytes(demo.read_bytes()[:5000])
    return [
        *(demo, store_of(demo, folder / "store")[0], demo),
        write_gguf(folder / "reference.gguf", "llama", arrays, **_NUMBERS),
        write_gguf(folder / "quantized.gguf", "llama", arrays, types, **_NUMBERS),
        write_safetensors(folder / "folder", arrays, model_type="llama", hidden_size=256),
        small_model().write(folder / "small.gguf"),
        small_model(1, "big").write(folder / "big_endian.gguf"),
        *hostile.all,
        damaged,
        folder / "missing.gguf",
    ]


def soak(
    window: MainWindow,
    seed: int,
    actions: int,
    folder: Path,
    *,
    warm_up: int = WARM_UP,
    visited: int = VISITED,
    watch: bool = False,
) -> Report:
    """Let a monkey at a window.

    Args:
        window: The window, which is shown.
        seed: Decides what is done.
        actions: How many things are done after the warm-up.
        folder: An empty folder for models and for files that are saved.
        warm_up: How many things are done before, when all pages have been shown. Growth means
            little after less than 500, or where fewer models were visited.
        visited: For how many of the models every page is shown first.
        watch: Whether to tell now and then how far it is, and to end the process if it hangs.
    """
    report = Report()
    models = make_models(folder)
    monkey, held = Monkey(window, seed, models), Watch(window)
    window.actions_.quit.setEnabled(False)
    window.runner.crashed.connect(
        lambda error: report.note("".join(traceback.format_exception(error)))
    )

    def do(act: Callable[[], object]) -> None:
        if watch:
            faulthandler.dump_traceback_later(_LONGEST_S, exit=True)  # a window that hangs
        try:
            act()
        except Exception:  # noqa: BLE001 - a method that Qt called failed: what is looked for
            report.note(traceback.format_exc(), monkey.done)
        finally:
            faulthandler.cancel_dump_traceback_later()
        held.look()
        _note_jump(report, monkey)

    def act_on(count: int) -> None:
        for done in range(1, count + 1):
            report.actions += 1
            do(monkey.act)
            if done % REST_EVERY == 0 or done == count:
                rest_now()
            if watch and report.actions % 100 == 0:
                found = len(report.faults)
                _say(f"{report.actions:,} actions, {memory() >> 20} MiB, {found} kinds of faults")

    def rest_now() -> None:
        report.rests.append(rest(monkey, report.actions))
        report.kept |= {f"{what}, at action {report.actions}" for what in held.kept()}
        if watch:
            _say(f"at rest after {report.actions:,} actions: {report.rests[-1]}")

    surroundings = harmless_surroundings(folder / "saved", Random(seed), monkey.close_meanwhile)
    started = time.monotonic()
    with listening(report, monkey), surroundings:
        visit_everything(
            monkey, models[:visited], lambda name, act: do(lambda: monkey.do(name, act))
        )
        act_on(warm_up)
        report.warm = len(report.rests) - 1
        act_on(actions)
        report.end = len(report.rests) - 1
        while report.grown and len(report.rests) - 1 - report.end < MORE_RESTS:
            act_on(min(actions, REST_EVERY))
        report.left = left_running(window)
    report.seconds = time.monotonic() - started
    report.kinds = monkey.kinds
    return report


def _note_jump(report: Report, monkey: Monkey) -> None:
    """Note if the memory has grown much since the last action."""
    now = memory()
    if now > report.last_bytes + MOST_AT_ONCE and report.last_bytes:
        grown = (now - report.last_bytes) >> 20
        report.note(f"memory has grown by {grown} MiB at once", monkey.done)
    report.last_bytes = now


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run the soak; the exit code is 1 if it found anything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--actions", type=int, default=2000)
    parser.add_argument("--warm-up", type=int, default=WARM_UP, help="actions before these")
    parser.add_argument("--visited", type=int, default=VISITED, help="models shown before all")
    given = parser.parse_args()
    faulthandler.enable()
    # all kernels and modules, so that what is held does not depend on which were used before: a
    # kernel that is compiled leaves 4 to 9 MiB in the process, 324 that are on disk take 42
    os.environ["NUMBA_CACHE_DIR"] = str(kernel_folder().path)  # before the cache goes elsewhere
    subprocess.run([sys.executable, "-m", "tests.soak.kernels"], check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["GGUF_EXPLORER_CACHE"] = str(folder / "cache")
        share_arenas()  # as the program does
        keep_nothing_freed()
        for module in walk_packages(explorer.__path__, "explorer."):
            import_module(module.name)
        import_module("tests.soak.kernels").compile_all_kernels()  # when their folder is named
        http._manager(None)  # keeps 800 KiB of certificates from the first address on
        app = QApplication(sys.argv[:1])
        app.setStyle("Fusion")
        window = MainWindow(Settings(folder / "settings.ini"))
        window.show()
        window.runner.prepare_cache()  # as the program does
        report = soak(
            window,
            given.seed,
            given.actions,
            folder / "models",
            warm_up=given.warm_up,
            visited=given.visited,
            watch=True,
        )
        window.close()
    growth = ", ".join(f"{what} {share:+.1%}" for what, share in report.growth.items())
    _say(
        f"{report.actions:,} actions in {report.seconds:,.0f} s (seed {given.seed}, of which "
        f"{given.warm_up:,} to warm up): {growth}, {len(report.findings())} findings"
    )
    for at_rest in report.rests:
        _say(f"at rest after {at_rest.actions:,} actions: {at_rest}")
    _say(", ".join(f"{count} {kind}" for kind, count in report.kinds.most_common()))
    for finding in report.findings():
        _say(finding)
    return 1 if report.findings() else 0


if __name__ == "__main__":
    sys.exit(main())
