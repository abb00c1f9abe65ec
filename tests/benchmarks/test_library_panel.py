"""The panel of downloaded models at 2,000 models: how soon they are listed, and whether it hangs.

A timer of 1 ms ticks all the while; its longest pause is how long the window did not answer. The
peer does what the simplest panel would: it reads the store on the GUI thread and puts the same rows
into a `QStandardItemModel`, Qt's own model in C++. The budgets are one second and 120 ms; the table
that is printed shows them, and asserted is that the window never stands still as long as the
peer's, and that all models are listed in at most five times the peer's time.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QEventLoop, QModelIndex, Qt, QTimer
from PySide6.QtGui import QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QApplication, QTreeView
from pytestqt.qtbot import QtBot

from explorer.qt.jobs import JobRunner
from explorer.qt.library.nodes import LibraryColumn
from explorer.qt.library.panel import LibraryView
from explorer.qt.settings import Settings
from explorer.stores import Place, StoreKind, read_library
from explorer.text import bytes_text
from tests.benchmarks.report import Report, Row, milliseconds
from tests.helpers.gguf_writer import STRING, U32, GgufFile, TensorSpec
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.services import RecordingServices

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

_MODELS = 2000
_ROUNDS = 4
_SIZE = (1280, 800)


class Heartbeat:
    """Measures the longest time in which the GUI thread did not come to look at its events.

    Args:
        clock: What counts as time; `time.thread_time` leaves out what other programs take.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._loop = QEventLoop()
        self._done: Callable[[], bool] = lambda: True
        self._longest = self._last = 0.0
        self._timer = QTimer(interval=1, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)

    def _beat(self) -> None:
        now = self._clock()
        self._longest = max(self._longest, now - self._last)
        self._last = now
        if self._done():
            self._loop.quit()

    def during(self, step: Callable[[], object], done: Callable[[], bool]) -> tuple[float, float]:
        """Do a step and wait for what follows; return the time and the longest pause, seconds."""
        self._done = done
        self._longest, self._last = 0.0, self._clock()
        started = self._last
        self._timer.start()
        QTimer.singleShot(0, step)
        self._loop.exec()
        self._timer.stop()
        return self._last - started, self._longest


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OllamaStore]:
    """Half of the models have four tags; each has a GGUF file of its own, and they share texts."""
    store = OllamaStore(tmp_path_factory.mktemp("downloads") / "models")
    for number in range(_MODELS):
        keys = [
            ("general.architecture", STRING, ("llama", "qwen2", "gemma3")[number % 3]),
            ("general.name", STRING, f"model {number}"),
            ("general.file_type", U32, (2, 7, 15)[number % 3]),
        ]
        tensors = [TensorSpec("output.weight", (8, 4), 0, bytes(128))]
        model = GgufFile(keys=keys, tensors=tensors)  # type: ignore[arg-type]
        layers = [store.layer("model", model.build()), store.layer("license", "shared")]
        layers += [store.layer(kind, f"{kind} {number % 50}") for kind in ("template", "system")]
        group = number // 4 if number % 2 else number
        place = f"registry.ollama.ai/library/model-{group}/tag-{number % 8}"
        store.manifest(layers, place, config={"number": number})
    gc.collect()
    gc.freeze()  # what the tests hold is none of the window's: no collector shall walk over it
    yield store
    gc.unfreeze()


def _fill(model: QStandardItemModel, root: Path) -> None:
    """List a store as the peer does."""
    library = read_library([Place(StoreKind.OLLAMA, root)])
    for entry in library.stores[0].entries:
        texts = (entry.name, "", "", "", bytes_text(entry.nbytes), str(entry.modified), "")
        model.appendRow([QStandardItem(text) for text in texts])


def _peer(heart: Heartbeat, root: Path) -> tuple[float, float]:
    model = QStandardItemModel(0, len(LibraryColumn))
    view = QTreeView()
    view.setUniformRowHeights(True)
    view.setModel(model)
    view.resize(*_SIZE)
    view.show()
    result = heart.during(lambda: _fill(model, root), lambda: model.rowCount() == _MODELS)
    view.close()
    return result


def _worst_step(measured: list[tuple[float, float]], step_count: int) -> float:
    """Return the longest pause of several steps, each of them in its best round."""
    pauses = [pause for _, pause in measured]
    return max(min(pauses[step::step_count]) for step in range(step_count))


def _listed(view: LibraryView) -> int:
    return sum(1 for _ in view.model.entries())


@pytest.mark.benchmark
def test_2000_models_are_listed_within_1_s_and_the_window_answers_within_120_ms(
    qtbot: QtBot, tmp_path: Path, store: OllamaStore, report: Report
) -> None:
    heart = Heartbeat()
    lists, details, sorts, keys, peers = [], [], [], [], []
    for turn in range(_ROUNDS):  # in turns, so that both meet the same machine
        peers.append(_peer(heart, store.models))
        app = RecordingServices(JobRunner())
        settings = Settings(tmp_path / f"settings-{turn}.ini")
        view = LibraryView(app, settings, places=lambda: [Place(StoreKind.OLLAMA, store.models)])
        qtbot.addWidget(view)
        view.resize(*_SIZE)
        lists.append(
            heart.during(
                view.show, lambda view=view: view.details.busy and _listed(view) == _MODELS
            )
        )
        details.append(heart.during(lambda: None, lambda app=app: not app.runner.jobs))
        header = view.tree.header()
        for column in LibraryColumn:
            sorts.append(
                heart.during(
                    lambda column=column, header=header: header.setSortIndicator(
                        column, Qt.SortOrder.DescendingOrder
                    ),
                    lambda: True,
                )
            )
            QApplication.processEvents()
        for length in range(1, 9):
            text = "model-12"[:length]
            keys.append(heart.during(lambda t=text, v=view: v.bar.edit.setText(t), lambda: True))
        assert view.model.rowCount(view.model.index(0, 0, QModelIndex())) > 0
        view.close()
        app.runner.close()
    list_time, peer_time = min(t for t, _ in lists), min(t for t, _ in peers)
    peer_pause = min(p for _, p in peers)
    pauses = {
        "list 2,000 models": min(p for _, p in lists),
        "read what 2,000 models are": min(p for _, p in details),
        "sort by any column": _worst_step(sorts, len(LibraryColumn)),
        "a keystroke in the filter": _worst_step(keys, 8),
    }
    print(f"\n{os.cpu_count()} processors; all pauses:")
    for name, pairs in (("list", lists), ("details", details), ("sort", sorts), ("key", keys)):
        print(name, " ".join(f"{1000 * pause:.0f}" for _, pause in pairs))
    report.add(
        Row(
            f"panel: list {_MODELS:,} models",
            milliseconds(list_time),
            f"all on the GUI thread, QStandardItemModel {milliseconds(peer_time)}",
            f"{list_time / peer_time:.1f}×",
            "≤ 1 s",
            list_time <= 1,
        )
    )
    for name, pause in pauses.items():
        report.add(
            Row(
                f"panel, longest pause: {name}",
                milliseconds(pause),
                milliseconds(peer_pause),
                f"{pause / peer_pause:.2f}×",
                "≤ 120 ms",
                pause <= 0.12,
            )
        )
    assert list_time <= 5 * peer_time
    for name, pause in pauses.items():
        assert pause < peer_pause, name
