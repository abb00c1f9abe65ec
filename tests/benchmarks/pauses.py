"""A program for `test_pauses.py`: how late a timer of the GUI thread is while weights are read.

    pauses.py weights MODEL TENSOR   the weights panel, until the tensor's histogram is complete
    pauses.py survey MODEL           a survey of all tensors with all cores, then a comparison
    pauses.py numpy MODEL TENSOR     NumPy's statistics of as many weights, up to 32 Mi, in a
                                     thread beside a plot that is drawn 20 times a second
    pauses.py thread MODEL TENSOR    the program's own statistics in such a thread

The last line is JSON: phase → seconds that it took, and its longest pause.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from explorer.formats import open_model
from explorer.qt.document import Document, load_document
from explorer.qt.jobs import JobRunner
from explorer.qt.references import References, Rounding
from explorer.qt.survey.panel import PartPanel, SurveyView
from explorer.qt.survey.session import SurveySession
from explorer.qt.weights.panel import WeightsView
from tests.benchmarks.heartbeat import Heartbeat
from tests.helpers.services import RecordingServices

Phases = dict[str, tuple[float, float]]


class _NoJob:
    def check(self) -> None:
        pass


def _open(path: Path) -> tuple[Document, RecordingServices]:
    document = load_document(path, _NoJob())  # type: ignore[arg-type] # only asked whether to stop
    services = RecordingServices(JobRunner())
    services.runner.prepare_cache()  # as the program does when its window is shown
    return document, services


def measure_weights(path: Path, name: str) -> Phases:
    """Measure the panel's opening, its first histogram and the whole one."""
    document, services = _open(path)
    view = WeightsView(services, References(services))
    view.resize(900, 650)
    view.show()
    heartbeat, page = Heartbeat(), view.histogram
    view.show_document(document)
    row = document.model.tensors.row_of(name)
    assert row is not None
    view.show_tensors([row])
    phases = {"opening": heartbeat.during(lambda: page.busy)}
    states: list[object] = []
    services.runner.jobs[0].published.connect(states.append)
    phases["first"] = heartbeat.during(lambda: page.result is not None)
    phases["rest"] = heartbeat.during(
        lambda: page.result is not None and page.result.exact and not services.runner.jobs
    )
    services.runner.close()
    document.model.close()
    most = 20 * (phases["first"][0] + phases["rest"][0]) + 2
    assert len(states) <= most, "it is drawn more often than 20 times a second"
    return phases


def measure_survey(path: Path) -> Phases:
    """Measure the opening of the panel, a survey while its map is coloured, and a comparison."""
    document, services = _open(path)
    references = References(services)
    references.set_documents([document])
    view = SurveyView(services, references)
    view.resize(1000, 700)
    view.show()
    heartbeat = Heartbeat()

    def rests() -> bool:
        return not services.runner.jobs

    references.show_document(document)
    view.show_document(document)
    phases = {"opening": heartbeat.during(rests)}
    view.map.colour("std")
    phases["survey"] = heartbeat.during(rests, view.session.start)
    session = SurveySession(services, references, compares=True)
    table = PartPanel(services, session, "error_tensors")
    table.resize(1000, 700)
    table.show()
    table.show_document(document)
    references.choose(Rounding("Q8_0"))
    heartbeat.during(rests)
    phases["errors"] = heartbeat.during(rests, session.start)
    assert not view.session.missing
    assert not session.missing
    services.runner.close()
    document.model.close()
    return phases


def _beside_a_plot(work: Callable[[], object]) -> tuple[float, float]:
    """Return the time and the longest pause of some work in a thread, while a plot is drawn."""
    plot = pg.PlotWidget()
    plot.resize(900, 650)
    curve = plot.plot([0, 1], [0], stepMode="center", fillLevel=0, brush="b")
    random, edges = np.random.default_rng(0), np.arange(257.0)
    timer = QTimer(plot)
    timer.timeout.connect(lambda: curve.setData(edges, random.uniform(0, 1e6, 256)))
    timer.start(50)
    plot.show()
    QApplication.processEvents()
    thread = threading.Thread(target=work)
    return Heartbeat().during(lambda: bool(thread.ident) and not thread.is_alive(), thread.start)


def measure_numpy(path: Path, name: str) -> Phases:
    """Measure NumPy doing the same."""
    with open_model(path) as model:
        count = min(model.tensors[name].parameters, 1 << 25)
    values = np.random.default_rng(0).normal(size=count).astype(np.float32)

    def work() -> None:
        wide = values.astype(np.float64)
        wide.mean(), wide.std(), wide.min(), wide.max()
        np.histogram(values, 256)

    return {"rest": _beside_a_plot(work)}


def measure_thread(path: Path, name: str) -> Phases:
    """Measure the first statistics in a plain thread."""
    with open_model(path) as model:
        tensor = model.tensors[name]

        def work() -> None:
            from explorer.analysis.statistics import GrowingStatistics  # what loads counts, too

            growing = GrowingStatistics(tensor, rough=True)
            for _ in growing.walk():
                growing.so_far()

        return {"first": _beside_a_plot(work)}


if __name__ == "__main__":
    app = QApplication(sys.argv[:1])
    app.setStyle("Fusion")
    which, path, *tensor = sys.argv[1:]
    print(json.dumps(globals()[f"measure_{which}"](Path(path), *tensor)))
