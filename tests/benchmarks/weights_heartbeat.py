"""A program for `test_weights_panel.py`: how late a 5 ms timer of the GUI thread ever is.

`weights_heartbeat.py ours MODEL TENSOR` opens the weights panel, selects a tensor and waits until
its histogram is complete; `… numpy MODEL TENSOR` runs `numpy.histogram` and NumPy's statistics over
as many float32 (up to 32 Mi) in a thread, beside a plot that is drawn 20 times a second;
`… thread MODEL TENSOR` runs the program's own statistics in a plain thread, with nothing
done for the window. The last line is JSON: seconds by phase.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.helpers.services import RecordingServices

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

_LIMIT_S = 120


class Heartbeat:
    """A precise timer of 5 ms, and how long it stayed away."""

    def __init__(self) -> None:
        from PySide6.QtCore import Qt, QTimer

        self.longest = 0.0
        self._last = time.perf_counter()
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(5)
        self._timer.timeout.connect(self._beat)
        self._timer.start()

    def _beat(self) -> None:
        now = time.perf_counter()
        self.longest = max(self.longest, now - self._last)
        self._last = now

    def during(self, condition: Callable[[], bool]) -> tuple[float, float]:
        """Run events until a condition holds; return the time and the longest pause."""
        from PySide6.QtCore import QCoreApplication, QEventLoop

        start = self._last = time.perf_counter()
        self.longest = 0.0
        everything = QEventLoop.ProcessEventsFlag.WaitForMoreEvents
        while not condition():
            QCoreApplication.processEvents(everything)
            if time.perf_counter() - start > _LIMIT_S:
                sys.exit("it takes too long")
        self._beat()
        return time.perf_counter() - start, self.longest


def measure_ours(path: Path, name: str) -> dict[str, float]:
    """Return the times of opening the panel and of the first histogram."""
    from PySide6.QtWidgets import QApplication

    from explorer.qt.document import load_document
    from explorer.qt.jobs import JobRunner
    from explorer.qt.references import References
    from explorer.qt.weights.panel import WeightsView

    class NoJob:
        def check(self) -> None:
            pass

    app = QApplication(sys.argv[:1])
    app.setStyle("Fusion")
    document = load_document(path, NoJob())  # type: ignore[arg-type] # only asked whether to stop
    services = RecordingServices(JobRunner())
    services.runner.prepare_cache()  # as the program does when its window is shown
    view = WeightsView(services, References(services))
    view.resize(900, 650)
    view.show()
    heartbeat = Heartbeat()
    view.show_document(document)
    row = document.model.tensors.row_of(name)
    assert row is not None
    view.show_tensors([row])
    opening, opening_pause = heartbeat.during(lambda: view.histogram.busy)
    page = view.histogram
    states: list[object] = []
    services.runner.jobs[0].published.connect(states.append)
    first, first_pause = heartbeat.during(lambda: page.result is not None)
    rest, rest_pause = heartbeat.during(
        lambda: page.result is not None and page.result.exact and not services.runner.jobs
    )
    services.runner.close()
    document.model.close()
    return {
        "opening": opening,
        "opening_pause": opening_pause,
        "first": first,
        "first_pause": first_pause,
        "rest": rest,
        "rest_pause": rest_pause,
        "updates": float(len(states)),
    }


def show_drawing_plot() -> tuple[Heartbeat, float]:
    """Show a plot of 256 bins that is drawn anew 20 times a second; return a timer and its time."""
    import numpy as np
    import pyqtgraph as pg
    from PySide6.QtCore import QTimer
    from PySide6.QtWidgets import QApplication

    app = QApplication(sys.argv[:1])
    before = time.perf_counter()
    plot = pg.PlotWidget()
    plot.resize(900, 650)
    curve = plot.plot([0, 1], [0], stepMode="center", fillLevel=0, brush="b")
    random = np.random.default_rng(0)
    edges = np.arange(257.0)
    timer = QTimer(plot)
    timer.timeout.connect(lambda: curve.setData(edges, random.uniform(0, 1e6, 256)))
    timer.start(50)
    plot.show()
    app.processEvents()
    app.plot = plot  # type: ignore[attr-defined] # held as long as the application
    return Heartbeat(), time.perf_counter() - before


def in_thread(heartbeat: Heartbeat, work: Callable[[], object]) -> tuple[float, float]:
    """Return the time and the longest pause of some work in a plain thread."""
    thread = threading.Thread(target=work)
    thread.start()
    return heartbeat.during(lambda: not thread.is_alive())


def measure_numpy(path: Path, name: str) -> dict[str, float]:
    """Return the time and the longest pause of NumPy doing the same."""
    import numpy as np

    from explorer.formats import open_model

    heartbeat, opening = show_drawing_plot()
    with open_model(path) as model:
        count = min(model.tensors[name].parameters, 1 << 25)
    values = np.random.default_rng(0).normal(size=count).astype(np.float32)

    def work() -> None:
        wide = values.astype(np.float64)
        wide.mean(), wide.std(), wide.min(), wide.max()
        np.histogram(values, 256)

    took, pause = in_thread(heartbeat, work)
    return {"opening": opening, "rest": took, "rest_pause": pause}


def measure_thread(path: Path, name: str) -> dict[str, float]:
    """Return the time and the longest pause of the first statistics in a plain thread."""
    from explorer.formats import open_model

    heartbeat, opening = show_drawing_plot()
    with open_model(path) as model:
        tensor = model.tensors[name]

        def work() -> None:
            from explorer.analysis.statistics import GrowingStatistics

            growing = GrowingStatistics(tensor, rough=True)
            for _ in growing.walk():
                growing.rough_histogram()

        took, pause = in_thread(heartbeat, work)
    return {"opening": opening, "first": took, "first_pause": pause}


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    measure = {"ours": measure_ours, "numpy": measure_numpy, "thread": measure_thread}[sys.argv[1]]
    print(json.dumps(measure(Path(sys.argv[2]), sys.argv[3])))
