"""The bar of running work: shown after a moment, with progress, and a button that stops it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from explorer.qt.jobs import Job, JobRunner
from explorer.qt.widgets.progress import JobBar, Pace, ProgressLine, compiling_text
from tests.helpers.patience import PATIENCE_S

LEFT = Qt.MouseButton.LeftButton


class Work:
    """A job's function that goes on, in steps of some ms, until the test lets it end."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.steps = 0
        self.stopped = False

    def __call__(self, job: Job) -> str:
        try:
            while not self.end.wait(0.005):
                job.check()
                self.steps += 1
                job.report(self.steps, 0)
        finally:
            self.stopped = True
        return "done"


@pytest.fixture
def bar(qtbot: QtBot, runner: JobRunner) -> JobBar:
    bar = JobBar(runner)
    qtbot.addWidget(bar)
    return bar


@pytest.fixture
def start(runner: JobRunner) -> Iterator[Callable[[str], tuple[Work, list[object]]]]:
    works: list[Work] = []

    def start_one(title: str) -> tuple[Work, list[object]]:
        work, results = Work(), []
        works.append(work)
        runner.run(title, work, results.append, results.append)
        return work, results

    yield start_one
    for work in works:
        work.end.set()


def test_short_work_is_not_shown(qtbot: QtBot, runner: JobRunner, bar: JobBar) -> None:
    done: list[int] = []
    runner.run("Quick", lambda _: 1, done.append, lambda _: None)
    qtbot.waitUntil(lambda: done == [1])
    assert not bar.isVisible()
    assert not bar._timer.isActive()


def test_long_work_is_shown_with_its_title_and_goes(
    qtbot: QtBot, bar: JobBar, start: Callable[[str], tuple[Work, list[object]]]
) -> None:
    work, results = start("Reading <b>a</b>")
    assert not bar.isVisible()
    qtbot.waitUntil(bar.isVisible)
    assert bar.label.text() == "Reading <b>a</b>"
    assert bar.label.textFormat() is Qt.TextFormat.PlainText
    assert (bar.progress.minimum(), bar.progress.maximum()) == (0, 0)  # nobody knows how far
    work.end.set()
    qtbot.waitUntil(lambda: not bar.isVisible())
    assert results == ["done"]


def test_progress_is_shown_also_of_more_than_31_bits(
    qtbot: QtBot, runner: JobRunner, bar: JobBar
) -> None:
    seen, end = threading.Event(), threading.Event()

    def work(job: Job) -> None:
        assert seen.wait(PATIENCE_S)
        job.report(1 << 39, 1 << 40)
        assert end.wait(PATIENCE_S)
        job.report(3 << 40, 1 << 40)

    runner.run("Counting", work, lambda _: None, lambda _: None)
    qtbot.waitUntil(bar.isVisible)
    seen.set()
    qtbot.waitUntil(lambda: bar.progress.maximum() > 0)
    assert bar.progress.value() / bar.progress.maximum() == 0.5
    end.set()
    qtbot.waitUntil(lambda: not runner.jobs)
    assert bar.progress.value() <= bar.progress.maximum()


def test_the_button_stops_the_work(
    qtbot: QtBot, runner: JobRunner, bar: JobBar, start: Callable[[str], tuple[Work, list[object]]]
) -> None:
    work, results = start("Endless")
    qtbot.waitUntil(bar.isVisible)
    qtbot.mouseClick(bar.cancel, LEFT)
    assert not bar.isVisible()  # at once: it is no longer of interest
    qtbot.waitUntil(lambda: not runner.jobs)
    assert work.stopped
    assert not work.end.is_set()
    assert results == []


def test_what_a_page_in_sight_shows_has_no_second_bar(
    qtbot: QtBot, runner: JobRunner, bar: JobBar, start: Callable[[str], tuple[Work, list[object]]]
) -> None:
    line = ProgressLine()
    qtbot.addWidget(line)
    line.show()
    line.start()
    start("On a page")
    (job,) = runner.jobs
    job.on_page = line.is_shown
    second, _ = start("Elsewhere")
    qtbot.waitUntil(bar.isVisible)
    assert bar.label.text() == "Elsewhere"
    second.end.set()
    qtbot.waitUntil(lambda: len(runner.jobs) == 1 and not bar.isVisible())
    line.hide()  # another page is shown
    qtbot.waitUntil(bar.isVisible)
    assert bar.label.text() == "On a page"


def test_the_next_work_takes_its_place(
    qtbot: QtBot, runner: JobRunner, bar: JobBar, start: Callable[[str], tuple[Work, list[object]]]
) -> None:
    first, _ = start("First")
    second, results = start("Second")
    qtbot.waitUntil(bar.isVisible)
    assert bar.label.text() == "First"
    qtbot.mouseClick(bar.cancel, LEFT)
    assert bar.isVisible()
    assert bar.label.text() == "Second"
    qtbot.waitUntil(lambda: first.stopped)
    assert not second.stopped  # only the one that was shown was stopped
    second.end.set()
    qtbot.waitUntil(lambda: results == ["done"] and not runner.jobs)
    assert not bar.isVisible()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the bar reads, to be set."""
    now = [100.0]
    monkeypatch.setattr("explorer.qt.widgets.progress.time.monotonic", lambda: now[0])
    return now


def test_the_time_left_is_told_once_enough_was_measured(clock: list[float]) -> None:
    pace = Pace()
    pace.text(0, 10_000, 0)
    clock[0] += 10
    assert "left" not in pace.text(99, 10_000, 0)
    assert pace.text(100, 10_000, 0).endswith("16:30 min left")
    pace.forget()
    pace.text(5000, 10_000, 0)
    clock[0] += 2
    assert "left" not in pace.text(9000, 10_000, 0)  # too soon


def test_the_time_of_compiling_is_not_that_of_reading(
    qtbot: QtBot, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling = True
    monkeypatch.setattr("explorer.qt.widgets.progress.is_compiling", lambda: compiling)
    line = ProgressLine()
    qtbot.addWidget(line)
    line.start()
    line.show_progress(0, 1000)
    assert line.label.text() == compiling_text()
    clock[0] += 60
    line.show_progress(1, 1000)
    assert line.label.text() == compiling_text()
    compiling = False
    line.show_progress(10, 1000)
    clock[0] += 10
    line.show_progress(110, 1000)
    assert line.label.text().endswith("1:29 min left")
    line.finish()
