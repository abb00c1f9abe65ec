"""Trace which modules of the program four actions of a person enter: ``python -m tests.traces``.

The program starts as its command does, on the demo model, in an offscreen window. Each action is
done twice to warm up (imports, kernels, panels) and traced the third time, with a new tensor, value
or file, so that no result is remembered:

- click: a tensor is clicked in the tree, with the weights panel shown; until all is painted.
- slider: the planner's context slider moves one step; until all is painted.
- compare: a tensor that is compared with its rounding to one type is compared with another one's;
  until the table of errors is filled.
- open: a copy of the model is dropped on the window, as its first panels; until all is painted.

Definitions, all by ``sys.setprofile`` in every thread:

- Module of a frame: ``__name__`` of its globals. Methods of re-exported classes belong to where
  they are written, lambdas and comprehensions to their module, a package to its ``__init__``.
  Generated code (of dataclasses) and compiled kernels are no frames of a module.
- Caller of a frame: the nearest frame of the package below it on the stack. Frames of other
  libraries are looked through. There is none for what the event loop or a new thread calls.
- Entered module: a frame of it was called from another module, or without a caller.
- Back and forth: A calls B and B calls A within one action. "Direct" leaves out each call that a
  signal or a method of Qt makes on the caller's behalf.
- Idle: what the event loop calls while nothing happens (timers) is left out.
- Painted: nothing of the package was called for half a second, and the panel looks different.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

os.environ["QT_QPA_PLATFORM"] = "offscreen"
os.environ["QT_LOGGING_RULES"] = "default.warning=false"  # the platform's, which the program notes

from PySide6.QtCore import (
    QEvent,
    QEventLoop,
    QMimeData,
    QModelIndex,
    QPointF,
    Qt,
    QThreadPool,
    QUrl,
)
from PySide6.QtGui import QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QSlider,
    QTabBar,
    QTableView,
    QTreeView,
    QWidget,
)

_PACKAGE: Final = "explorer"
_GUARD: Final = "explorer.qt"  # stands around each override of Qt's methods, and is looked through
_PAGES: Final = {  # steps of the rail, with a page of the group where it has several
    "click": ("Weights", "Weights"),
    "slider": ("Planner", ""),
    "compare": ("Weights", "Errors"),
    "open": ("Model", "Overview"),
}
_SLIDER: Final = "context"  # part of the slider's accessible name
_TENSORS: Final = ("blk.0.ffn_gate", "blk.0.ffn_up", "blk.1.ffn_gate")  # as in the tree
_REFERENCES: Final = ("Q8_0", "Q5_0")  # parts of two choices of a reference
_TITLES: Final = {
    "click": "click → histogram",
    "slider": "slider → bars",
    "compare": "compare → table",
    "open": "open → overview",
}
_QUIET_S, _IDLE_S, _START_S, _LIMIT_S = 0.5, 1.5, 3.0, 240.0

Edge = tuple[str, str]


@dataclass
class Trace:
    """What one action called.

    Attributes:
        entered: Modules in the order of their first call; who called (empty: nobody), and what.
        calls: Number of calls from one module into another, in the order of the first.
        direct: Those that no signal and no method of Qt made.
    """

    entered: dict[str, tuple[str, str]] = field(default_factory=dict)
    calls: dict[Edge, int] = field(default_factory=dict)
    direct: set[Edge] = field(default_factory=set)

    def pairs(self, *, direct: bool = False) -> list[Edge]:
        """Return the modules that call each other."""
        edges = self.direct if direct else self.calls
        return [(a, b) for a, b in self.calls if (a, b) in edges and (b, a) in edges and a < b]


class Recorder:
    """A profile function for every thread.

    Attributes:
        trace: What is recorded now.
        last: When the package did something.
    """

    def __init__(self) -> None:
        self.trace: Trace | None = None
        self.last = time.monotonic()
        self._idle: set[CodeType] = set()
        self._idling = False
        self._in_qt: set[FrameType] = set()

    def install(self) -> None:
        """Profile this thread, and every one to come."""
        threading.setprofile(self._profile)
        start = QThreadPool.start

        def start_profiled(pool: QThreadPool, work: Callable[[], object], *rest: int) -> None:
            def run() -> None:  # such a thread is none of Python's
                sys.setprofile(self._profile)
                work()

            start(pool, run, *rest)

        QThreadPool.start = start_profiled  # type: ignore[method-assign,assignment]
        sys.setprofile(self._profile)

    def learn_idle(self, wait: Callable[[], None]) -> None:
        """Leave out from now on what the event loop calls during `wait`."""
        self._idling = True
        wait()
        self._idling = False

    def _profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            self._enter(frame)
        elif event == "c_call":
            if type(getattr(arg, "__self__", None)).__module__.startswith("PySide6"):
                self._in_qt.add(frame)
        else:
            self._in_qt.discard(frame)

    def _enter(self, frame: FrameType) -> None:
        module = _module(frame)
        if module is None:
            if threading.get_ident() != threading.main_thread().ident:
                self.last = time.monotonic()  # a kernel is compiled, or NumPy is at work
            return
        caller, in_qt = self._caller(frame)
        if not caller and self._idling:
            self._idle.add(frame.f_code)
        if self._idling or (not caller and frame.f_code in self._idle):
            return
        self.last = time.monotonic()
        trace = self.trace
        if trace is None or caller == module:
            return
        trace.entered.setdefault(module, (caller, frame.f_code.co_qualname))
        if caller:
            edge = caller, module
            trace.calls[edge] = trace.calls.get(edge, 0) + 1
            if not in_qt:
                trace.direct.add(edge)

    def _caller(self, frame: FrameType) -> tuple[str, bool]:
        """Return the module that called, or nothing, and whether Qt lies between."""
        in_qt = False
        below = frame.f_back
        while below is not None and below.f_globals is not globals():
            in_qt = in_qt or below in self._in_qt
            module = _module(below)
            if module is not None:
                return module, in_qt
            below = below.f_back
        return "", in_qt


def _module(frame: FrameType) -> str | None:
    name: str = frame.f_globals.get("__name__", "")
    ours = name != _GUARD and name.partition(".")[0] == _PACKAGE
    return name if ours and not frame.f_code.co_filename.startswith("<") else None


class Driver:
    """Does what a person does, in the window that is open."""

    def __init__(self, recorder: Recorder, model: Path) -> None:
        self.recorder = recorder
        self._model = model
        from explorer.qt.main_window import MainWindow

        self._app = QApplication.instance()
        self.rest(_START_S)
        recorder.learn_idle(lambda: self.rest(_IDLE_S))
        self.settle()
        self.window = next(w for w in QApplication.topLevelWidgets() if isinstance(w, MainWindow))
        self._pages = self.window.shell.panels
        trees = self.window.findChildren(QTreeView)
        self._tree = next(tree for tree in trees if not self._pages.isAncestorOf(tree))

    def wait(self, until: Callable[[], bool]) -> None:
        """Let the program work until something is so."""
        end = time.monotonic() + _LIMIT_S
        while not until():
            QApplication.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 20)
            QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
            time.sleep(0.002)
            if time.monotonic() > end:
                raise SystemExit("the program does not come to rest")

    def settle(self) -> None:
        """Wait until the package has done nothing for a while."""
        self.recorder.last = time.monotonic()
        self.wait(lambda: time.monotonic() - self.recorder.last > _QUIET_S)

    def rest(self, seconds: float) -> None:
        """Let the program work for some time."""
        end = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() > end)

    def trace(self, act: Callable[[], object], table: QTableView | None = None) -> Trace:
        """Do something and return what it called.

        Args:
            act: What is done.
            table: Ends the trace when it holds other figures; None traces until all is painted.
        """
        before, figures = self._looks(), _figures(table)
        trace = Trace()

        def stop_if_filled() -> None:
            if self.recorder.trace is trace:
                self.recorder.trace = None
                if _figures(table) in ("", figures):
                    self.recorder.trace = trace

        if table is not None:
            model = table.model()
            for signal in (model.modelReset, model.layoutChanged, model.dataChanged):
                signal.connect(stop_if_filled)
        self.recorder.trace = trace
        act()
        self.settle()
        filled, self.recorder.trace = self.recorder.trace is None, None
        if self._looks() == before or filled is (table is None):
            raise SystemExit("the action changed nothing that is seen")
        return trace

    def _looks(self) -> tuple[str, bytes]:
        image = self._pages.grab().toImage()
        return self.window.windowTitle(), bytes(image.constBits())

    def show(self, action: str) -> None:
        """Go to the page of an action, by the rail and the head."""
        group, page = _PAGES[action]
        self._click_tab(self.window.shell.rail, group)
        if page:
            self._click_tab(self.window.shell.head.pages, page)

    def _click_tab(self, bar: QTabBar, title: str) -> None:
        titles = [bar.tabText(place).replace("&", "") for place in range(bar.count())]
        place = bar.tabRect(titles.index(title)).center()
        QTest.mouseClick(bar, Qt.MouseButton.LeftButton, pos=place)
        self.settle()

    def find(self, kind: type[QWidget], fits: Callable[[Any], object]) -> Any:
        """Return the first visible widget of a kind in the panel in front."""
        found = self._pages.currentWidget().findChildren(kind)
        return next(widget for widget in found if widget.isVisible() and fits(widget))

    def rows(self) -> Iterator[QModelIndex]:
        """Open the branches of the first model that lead to tensors; yield their leaves."""
        model = self._tree.model()
        waiting = [model.index(0, 0)]
        while waiting:
            index = waiting.pop(0)
            self._tree.expand(index)
            while model.canFetchMore(index):
                model.fetchMore(index)
            below = [model.index(row, 0, index) for row in range(model.rowCount(index))]
            waiting += [one for one in below if one.data() != "Metadata"]
            if not below:
                yield index

    def click(self, index: QModelIndex) -> None:
        """Click on a row of the tree."""
        place = self._tree.visualRect(index).center()
        QTest.mouseClick(self._tree.viewport(), Qt.MouseButton.LeftButton, pos=place)

    def drop(self, path: Path) -> None:
        """Drop a file on the window."""
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(path))])
        place, button = QPointF(self.window.rect().center()), Qt.MouseButton.LeftButton
        keys = Qt.KeyboardModifier.NoModifier
        self.window.event(QDropEvent(place, Qt.DropAction.CopyAction, data, button, keys))

    # The actions

    def open(self) -> Trace:
        """Open copies of the model."""
        self.show("open")
        copies = [self._model.with_name(f"copy {n}.gguf") for n in range(3)]
        for path in copies:
            shutil.copy(self._model, path)
        return [self.trace(lambda path=path: self.drop(path)) for path in copies][-1]

    def tensors(self) -> list[QModelIndex]:
        """Return the rows of three tensors of one type, in sight."""
        layers = [name.split(".", 2)[1:] for name in _TENSORS]
        leaves = list(self.rows())
        found = [
            next(i for i in leaves if (i.data(), i.parent().data()) == (role, f"Layer {layer}"))
            for layer, role in layers
        ]
        self._tree.scrollTo(found[-1])
        self._tree.scrollTo(found[0])
        self.settle()
        return found

    def click_tensors(self) -> Trace:
        """Click on one tensor after the other."""
        tensors = self.tensors()
        self.show("click")
        return [self.trace(lambda index=index: self.click(index)) for index in tensors][-1]

    def move_slider(self) -> Trace:
        """Move the slider step by step."""
        self.show("slider")
        slider = self.find(QSlider, lambda one: _SLIDER in one.accessibleName().lower())
        slider.setFocus()
        self.settle()
        left = Qt.Key.Key_Left if slider.value() > 3 else Qt.Key.Key_Right
        return [self.trace(lambda: QTest.keyClick(slider, left)) for _ in range(3)][-1]

    def compare(self) -> Trace:
        """Compare one tensor after the other with its rounding."""
        tensors = self.tensors()
        self.show("compare")
        self.click(tensors[0])
        self.settle()
        for reference in _REFERENCES:
            self._choose(reference)
            self.settle()
        table = self.find(QTableView, lambda one: one.model().rowCount())
        traces = []
        for index, reference in zip(tensors[1:], _REFERENCES, strict=True):
            self.click(index)
            self.settle()
            traces.append(self.trace(lambda name=reference: self._choose(name), table))
        return traces[-1]

    def _choose(self, text: str) -> None:
        """Choose a reference, as the list does when one of its lines is clicked."""
        contains = Qt.MatchFlag.MatchContains
        choice = self.find(QComboBox, lambda one: one.findText(text, contains) >= 0)
        place = choice.findText(text, contains)
        choice.setCurrentIndex(place)
        choice.activated.emit(place)


def _figures(table: QTableView | None) -> str:
    """Return all texts of a table."""
    model = None if table is None else table.model()
    if model is None:
        return ""
    rows, columns = range(model.rowCount()), range(model.columnCount())
    return "\n".join(str(model.index(row, column).data()) for row in rows for column in columns)


def trace_all() -> dict[str, Trace]:
    """Start the program, do the four actions, and return their traces."""
    from explorer.cli.main import main
    from explorer.demo import make_demo

    recorder = Recorder()
    traces: dict[str, Trace] = {}

    faults: list[BaseException] = []  # the program would turn them into one line

    def drive(*_: object) -> int:
        try:
            driver = Driver(recorder, model)
            traces["open"] = driver.open()
            traces["click"] = driver.click_tensors()
            traces["slider"] = driver.move_slider()
            traces["compare"] = driver.compare()
            driver.window.close()
        except BaseException as error:  # noqa: BLE001
            faults.append(error)
        return 0

    with tempfile.TemporaryDirectory() as folder:
        model = make_demo(Path(folder)).model
        QApplication.exec = drive  # type: ignore[method-assign]
        recorder.install()
        sys.argv[1:] = ["--fresh", str(model)]
        main()
        sys.setprofile(None)
    if faults:
        raise faults[0]
    return {action: traces[action] for action in _TITLES}


def _table(traces: dict[str, Trace]) -> str:
    lines = ["| action | modules entered | back and forth | direct |", "|---|--:|--:|--:|"]
    for action, trace in traces.items():
        figures = len(trace.entered), len(trace.pairs()), len(trace.pairs(direct=True))
        lines.append(f"| {_TITLES[action]} | " + " | ".join(map(str, figures)) + " |")
    return "\n".join(lines)


def _detail(traces: dict[str, Trace]) -> str:
    lines = [_table(traces)]
    for action, trace in traces.items():
        lines += ["", f"== {_TITLES[action]}: modules in the order of entering", ""]
        for module, (caller, name) in trace.entered.items():
            lines.append(f"  {module}  <-  {caller or '(event loop or thread)'}: {name}")
        lines += ["", f"== {_TITLES[action]}: back and forth, with the number of calls", ""]
        direct = trace.pairs(direct=True)
        for a, b in trace.pairs():
            kind = "" if (a, b) in direct else "   (through Qt)"
            lines.append(f"  {a}  {trace.calls[a, b]} -> <- {trace.calls[b, a]}  {b}{kind}")
        lines += ["", f"== {_TITLES[action]}: all edges", ""]
        lines += [f"  {a} -> {b}  {count}" for (a, b), count in trace.calls.items()]
    return "\n".join(lines)


def _json(traces: dict[str, Trace]) -> str:
    return json.dumps(
        {
            action: {
                "modules": list(trace.entered),
                "pairs": trace.pairs(),
                "direct": trace.pairs(direct=True),
            }
            for action, trace in traces.items()
        }
    )


_FORMS: Final = {"markdown": _table, "detail": _detail, "json": _json}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trace the modules that four actions enter.")
    for form in ("detail", "markdown", "json"):
        parser.add_argument(f"--{form}", dest="form", action="store_const", const=form)
    form = parser.parse_args().form or "markdown"
    sys.stdout.write(_FORMS[form](trace_all()) + "\n")
