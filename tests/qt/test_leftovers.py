"""What is left running by a test is found, so that it cannot disturb another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from PySide6.QtCore import QObject, QThread, QTimer
from PySide6.QtWidgets import QApplication, QLabel

from explorer.qt.jobs import JobRunner
from tests.helpers.leftovers import leftovers
from tests.helpers.patience import PATIENCE_S


class OwnTimer(QTimer):
    """A timer that is a class of the program's own."""


@contextmanager
def a_window() -> Iterator[None]:
    label = QLabel("left")
    label.show()
    yield
    label.close()


@contextmanager
def a_timer() -> Iterator[None]:
    timer = QTimer(interval=60_000)
    timer.start()
    yield
    timer.stop()


@contextmanager
def a_timer_that_qt_owns() -> Iterator[None]:
    parent = QObject()
    OwnTimer(parent, interval=60_000).start()
    yield
    (timer,) = parent.findChildren(OwnTimer)
    timer.stop()


@contextmanager
def a_thread() -> Iterator[None]:
    thread = QThread()
    thread.start()
    yield
    thread.quit()
    thread.wait()


@contextmanager
def a_job() -> Iterator[None]:
    runner, end = JobRunner(), threading.Event()
    runner.run("left", lambda _: end.wait(PATIENCE_S), lambda _: None, lambda _: None)
    yield
    end.set()
    assert runner.close()


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (a_window, "visible window"),
        (a_timer, "active timer"),
        (a_timer_that_qt_owns, "active timer"),
        (a_thread, "running thread"),
        (a_job, "running job ['left']"),
    ],
)
def test_what_is_left_is_told(
    qapp: QApplication, what: Callable[[], AbstractContextManager[None]], words: str
) -> None:
    assert leftovers(qapp) == []
    with what():
        (told,) = leftovers(qapp)
        assert words in told
    assert leftovers(qapp) == []
