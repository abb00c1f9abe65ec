"""Background work: result, failure, crash, what is published, cancelling and closing."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import weakref
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QThread
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.errors import ExplorerError, SourceError
from explorer.qt.jobs import Job, JobRunner, keep_gui_responsive
from tests.helpers.patience import PATIENCE_MS, PATIENCE_S


class Outcome:
    """Collects what a job brings, and in which thread."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.errors: list[ExplorerError] = []
        self.threads: set[QThread] = set()

    def done(self, result: Any) -> None:
        self.results.append(result)
        self.threads.add(QThread.currentThread())

    def failed(self, error: ExplorerError) -> None:
        self.errors.append(error)
        self.threads.add(QThread.currentThread())


@pytest.fixture
def outcome() -> Outcome:
    return Outcome()


class Waiting:
    """Work that stops in its middle until the test, or a cancel, lets it go on."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.go_on = threading.Event()
        self.checked = False

    def __call__(self, job: Job) -> str:
        self.started.set()
        while not self.go_on.wait(0.01):
            job.check()
        self.checked = True
        return "result"


def test_a_result_arrives_on_the_gui_thread(
    qtbot: QtBot, qapp: QApplication, runner: JobRunner, outcome: Outcome
) -> None:
    workers: list[int] = []

    def op(job: Job) -> int:
        workers.append(threading.get_ident())
        return 42

    with qtbot.waitSignals([runner.started, runner.ended]):
        runner.run("Counting", op, outcome.done, outcome.failed)
    qtbot.waitUntil(lambda: outcome.results == [42])
    assert workers != [threading.get_ident()]
    assert outcome.threads == {qapp.thread()}
    assert outcome.errors == []
    assert runner.jobs == []


def test_a_job_is_known_while_it_runs_and_tells_how_far_it_is(
    qtbot: QtBot, runner: JobRunner, outcome: Outcome
) -> None:
    work, somebody_listens = Waiting(), threading.Event()

    def op(job: Job) -> str:
        somebody_listens.wait(PATIENCE_S)
        job.report(3, 7)
        return work(job)

    job = runner.run("Counting", op, outcome.done, outcome.failed)
    assert runner.jobs == [job]
    with qtbot.waitSignal(job.progressed) as progress:
        somebody_listens.set()
    assert progress.args == [3, 7]
    work.go_on.set()
    qtbot.waitUntil(lambda: outcome.results == ["result"])


def test_who_listens_to_progress_may_leave_while_it_is_reported(
    qtbot: QtBot, runner: JobRunner, outcome: Outcome
) -> None:
    def op(job: Job) -> None:
        for done in range(2_000):
            job.check()
            job.report(done, 2_000)

    for _ in range(20):
        job = runner.run("Counting", op, outcome.done, outcome.failed)
        with qtbot.waitSignal(job.progressed):
            pass
        job.cancel()
    qtbot.waitUntil(lambda: not runner.jobs)
    assert outcome.errors == []


def test_a_failure_reaches_on_failed(qtbot: QtBot, runner: JobRunner, outcome: Outcome) -> None:
    error = SourceError("is gone", "model.gguf", 7)

    def op(job: Job) -> None:
        raise error

    runner.run("Failing", op, outcome.done, outcome.failed)
    qtbot.waitUntil(lambda: outcome.errors == [error])
    assert outcome.results == []
    assert runner.jobs == []


def test_a_fault_of_the_program_goes_to_crashed(qtbot: QtBot, outcome: Outcome) -> None:
    runner = JobRunner()

    def op(job: Job) -> None:
        raise ZeroDivisionError("a fault")

    with qtbot.waitSignal(runner.crashed) as crash:
        runner.run("Crashing", op, outcome.done, outcome.failed)
    assert isinstance(crash.args[0], ZeroDivisionError)
    assert (outcome.results, outcome.errors, runner.jobs) == ([], [], [])
    assert runner.close()


def test_cancelled_in_the_middle_it_stops_at_its_next_check(
    qtbot: QtBot, runner: JobRunner, outcome: Outcome
) -> None:
    work = Waiting()
    job = runner.run("Waiting", work, outcome.done, outcome.failed)
    assert work.started.wait(PATIENCE_S)
    with qtbot.waitSignal(runner.ended):
        job.cancel()
    assert not work.checked
    assert (outcome.results, outcome.errors) == ([], [])


@pytest.mark.parametrize("fails", [False, True])
def test_what_comes_of_a_cancelled_job_is_dropped(
    qtbot: QtBot, runner: JobRunner, outcome: Outcome, fails: bool
) -> None:
    started, go_on = threading.Event(), threading.Event()

    def op(job: Job) -> str:  # never asks whether it was cancelled
        started.set()
        assert go_on.wait(PATIENCE_S)
        if fails:
            raise ZeroDivisionError  # the runner's fixture would see it crash
        return "result"

    job = runner.run("Deaf", op, outcome.done, outcome.failed)
    assert started.wait(PATIENCE_S)
    job.cancel()
    with qtbot.waitSignal(runner.ended):
        go_on.set()
    qtbot.waitUntil(lambda: not runner.jobs)
    assert (outcome.results, outcome.errors) == ([], [])


def test_a_result_under_way_is_dropped_too(
    qtbot: QtBot, runner: JobRunner, outcome: Outcome
) -> None:
    """The worker has returned, but the GUI thread has not heard of it when the job is cancelled."""
    job = runner.run("Quick", lambda _job: 1, outcome.done, outcome.failed)
    assert runner._pool.waitForDone(PATIENCE_MS)
    job.cancel()
    qtbot.waitUntil(lambda: not runner.jobs)
    assert outcome.results == []


def test_closing_in_the_middle_ends_running_and_waiting_jobs(
    qtbot: QtBot, runner: JobRunner, outcome: Outcome
) -> None:
    runner._pool.setMaxThreadCount(1)
    work, second = Waiting(), Waiting()
    runner.run("Waiting", work, outcome.done, outcome.failed)
    runner.run("In the queue", second, outcome.done, outcome.failed)
    assert work.started.wait(PATIENCE_S)
    assert runner.close()
    assert not second.started.is_set()
    qtbot.waitUntil(lambda: not runner.jobs)
    assert (outcome.results, outcome.errors) == ([], [])


def test_closing_tells_of_a_worker_that_does_not_end(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, runner: JobRunner, outcome: Outcome
) -> None:
    monkeypatch.setattr("explorer.qt.jobs._CLOSE_WAIT_MS", 20)
    started, go_on = threading.Event(), threading.Event()

    def op(job: Job) -> bool:
        started.set()
        return go_on.wait(PATIENCE_S)

    runner.run("Deaf", op, outcome.done, outcome.failed)
    assert started.wait(PATIENCE_S)
    assert not runner.close()
    go_on.set()
    qtbot.waitUntil(lambda: not runner.jobs)
    assert outcome.results == []


def test_work_that_waits_for_a_disk_does_not_hold_up_what_one_looks_at(
    qtbot: QtBot, runner: JobRunner
) -> None:
    go_on = threading.Event()
    for _ in range(3):  # more than some machines have cores
        runner.run("Waiting", lambda _: go_on.wait(PATIENCE_S), lambda _: None, lambda _: None)
    done: list[int] = []
    runner.run("Quick", lambda _: 1, done.append, lambda _: None)
    qtbot.waitUntil(lambda: done == [1])
    assert len(runner.jobs) == 3
    go_on.set()
    qtbot.waitUntil(lambda: not runner.jobs)


class Thing:
    """Stands for a model."""


def test_what_a_job_holds_is_freed(qtbot: QtBot, runner: JobRunner) -> None:
    """Found by the soak: of short jobs, most were never freed, nor was what they held."""
    held = []
    for _ in range(200):
        thing = Thing()
        held.append(weakref.ref(thing))
        runner.run("", lambda _job, thing=thing: None, lambda _: None, lambda _: None)
        del thing
    qtbot.waitUntil(lambda: not runner.jobs)

    def freed() -> bool:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect()
        return not any(reference() for reference in held)

    qtbot.waitUntil(freed)


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


def settings() -> tuple[float, tuple[int, int, int]]:
    return sys.getswitchinterval(), gc.get_threshold()


def test_the_collector_and_the_lock_are_as_before() -> None:
    before = settings()
    with keep_gui_responsive():
        assert sys.getswitchinterval() < before[0]
        assert gc.get_threshold()[2] > 1_000_000
        with keep_gui_responsive():
            assert sys.getswitchinterval() < before[0]
        assert sys.getswitchinterval() < before[0]  # the first one still works
    assert settings() == before


def test_an_error_gives_them_back_too() -> None:
    before = settings()
    with pytest.raises(ZeroDivisionError), keep_gui_responsive():
        raise ZeroDivisionError
    assert settings() == before


def test_ends_in_another_order_give_them_back_too() -> None:
    before = settings()
    first, second = keep_gui_responsive(), keep_gui_responsive()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() < before[0]
    second.__exit__(None, None, None)
    assert settings() == before


@pytest.mark.skipif(os.name != "posix", reason="needs modes of folders")
def test_it_is_said_that_nothing_is_kept(
    qtbot: QtBot, runner: JobRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_to_all = tmp_path / "kernels"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(open_to_all))
    monkeypatch.setattr("explorer.private_folder._warning", "")
    with qtbot.waitSignal(runner.cache_unavailable) as said:
        runner.prepare_cache()
    (sentence,) = said.args
    assert sentence.startswith(f"Nothing is kept in {open_to_all}: ")
