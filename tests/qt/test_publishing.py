"""What a job publishes on its way: not too often, the latest only, nothing after a cancel."""

from __future__ import annotations

import threading
import time
from itertools import count
from typing import Any

from PySide6.QtCore import QThread
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.qt.jobs import Job, JobRunner
from tests.helpers.patience import PATIENCE_S


def ignore(_: object) -> None:
    """Take a result."""


def test_values_arrive_on_the_gui_thread_at_most_20_times_a_second(
    qtbot: QtBot, qapp: QApplication, runner: JobRunner
) -> None:
    made: list[int] = []
    told: list[tuple[int, bool]] = []

    def op(job: Job) -> float:
        start = time.monotonic()
        for number in count():
            if number >= 400 and len(told) >= 2:  # the GUI thread may have been held up meanwhile
                break
            job.check()
            job.publish(lambda number=number: made.append(number) or number)  # type: ignore[misc]
            time.sleep(0.001)
        return time.monotonic() - start

    results: list[float] = []
    job = runner.run("Publishing", op, results.append, ignore)
    job.published.connect(
        lambda value: told.append((value, QThread.currentThread() is qapp.thread()))
    )
    qtbot.waitUntil(lambda: bool(results))
    assert 2 <= len(told) <= results[0] / 0.05 + 1
    assert len(made) <= results[0] / 0.05 + 1  # a value nobody sees is not made
    assert [value for value, _ in told] == sorted(value for value, _ in told)
    assert all(on_gui for _, on_gui in told)


def test_a_busy_gui_thread_gets_the_latest_value_only(qtbot: QtBot, runner: JobRunner) -> None:
    done = threading.Event()

    def op(job: Job) -> None:
        for number in range(4):
            job.publish(lambda number=number: number)  # type: ignore[misc]
            time.sleep(0.06)
        done.set()

    told: list[Any] = []
    job = runner.run("Publishing", op, ignore, ignore)
    job.published.connect(told.append)
    assert done.wait(PATIENCE_S)  # the GUI thread hears nothing meanwhile
    qtbot.waitUntil(lambda: not runner.jobs)
    assert told == [3]


def test_nothing_is_told_after_a_cancel(qtbot: QtBot, runner: JobRunner) -> None:
    published = threading.Event()

    def op(job: Job) -> None:
        job.publish(lambda: "value")
        published.set()

    told: list[Any] = []
    job = runner.run("Publishing", op, ignore, ignore)
    job.published.connect(told.append)
    assert published.wait(PATIENCE_S)
    job.cancel()
    qtbot.waitUntil(lambda: not runner.jobs)
    assert told == []
