"""Many tensors at once: in order, all threads busy, nothing left running."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from explorer.analysis.surveys import Progress, map_tensors
from explorer.formats.weights import SPAN_WEIGHTS
from explorer.parallel import Check, never
from tests.helpers.patience import PATIENCE_S

LARGE = 4 * SPAN_WEIGHTS  # for two threads
HUGE = 1 << 27


def _threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("analysis")]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_and_progress_come_in_order(workers: int) -> None:
    sizes = [5, 7, LARGE, 9, 2, 2 * LARGE, 2 * LARGE, 1]
    steps: list[int] = []
    alone: list[int] = []

    def work(item: int, threads: int, check: Check, report: Progress) -> int:
        check()
        assert report is not None
        report(sizes[item])
        if threads == 1:
            alone.append(item)
        else:
            assert threading.current_thread() is threading.main_thread()
        return item

    def hear(done: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        steps.append(done)

    found = map_tensors(sizes, work, workers=workers, check=never, walks=2, progress=hear)
    assert list(found) == list(range(8))
    assert steps == sorted(steps)
    assert steps[-1] == 2 * sum(sizes)
    if workers == 2:
        assert sorted(alone) == [0, 1, 2, 3, 4, 5, 7]
    elif workers == 1:
        assert alone == list(range(8))
    assert _threads() == []


def test_progress_of_other_threads_is_reported_while_the_caller_waits() -> None:
    reported, steps = threading.Event(), list[int]()

    def work(_item: int, _workers: int, _check: Check, report: Progress) -> None:
        assert report is not None
        report(4)
        assert reported.wait(PATIENCE_S)

    def hear(done: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        steps.append(done)
        if done == 8:
            reported.set()

    list(map_tensors([10] * 2, work, workers=2, check=never, progress=hear))
    assert 8 in steps
    assert steps[-1] == 20


@pytest.mark.parametrize(
    ("sizes", "workers", "shared"),
    [
        ([LARGE, LARGE - 1, LARGE], 2, [2]),
        ([LARGE, LARGE, LARGE, LARGE], 2, [2, 3]),
        ([3 * LARGE, LARGE, LARGE, LARGE - 2], 2, [0, 2]),  # the last is too little to share
        ([4 * LARGE, *[LARGE] * 20], 2, [19, 20]),
        ([4 * LARGE, *[LARGE] * 20], 8, [0]),
        ([HUGE, HUGE - 1, HUGE, *[LARGE] * 40], 2, [0, 2, 41, 42]),
        ([5], 2, []),
        ([5, LARGE], 1, [0, 1]),
    ],
)
def test_one_is_shared_that_would_keep_others_waiting_or_is_huge(
    sizes: list[int], workers: int, shared: list[int]
) -> None:
    found: list[int] = []

    def work(item: int, threads: int, _check: Check, _report: Progress) -> None:
        if threads == workers:
            found.append(item)

    list(map_tensors(sizes, work, workers=workers, check=never))
    assert found == shared


def test_others_go_on_while_one_takes_long() -> None:
    others = threading.Semaphore(0)

    def work(item: int, _workers: int, _check: Check, _report: Progress) -> int:
        if item:
            others.release()
        else:
            for _ in range(100):
                assert others.acquire(timeout=PATIENCE_S)
        return item

    assert list(map_tensors([10] * 101, work, workers=2, check=never)) == list(range(101))


def test_small_ones_are_worked_on_at_once() -> None:
    meeting = threading.Barrier(2, timeout=PATIENCE_S)

    def work(_item: int, workers: int, _check: Check, _report: Progress) -> int:
        meeting.wait()  # passes only if two are here
        return workers

    assert list(map_tensors([10] * 6, work, workers=2, check=never)) == [1] * 6


def test_what_stops_it_arrives_and_leaves_nothing_running() -> None:
    def failing(after: int) -> Callable[[], None]:
        calls: list[int] = []

        def check() -> None:
            calls.append(1)
            if len(calls) > after:
                raise InterruptedError

        return check

    def work(item: int, _workers: int, check: Check, _report: Progress) -> int:
        check()
        return item

    for size in (10, LARGE):
        found = map_tensors([size] * 20, work, workers=2, check=failing(12))
        with pytest.raises(InterruptedError):
            list(found)
        assert _threads() == []
    rest = map_tensors([LARGE] * 20, work, workers=2, check=never)
    assert next(rest) == 0
    rest.close()  # type: ignore[attr-defined]
    assert _threads() == []
