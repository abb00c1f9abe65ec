"""Results come in the order of the items, however many threads make them, and no thread is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from explorer.parallel import Check, map_in_order
from tests.helpers.patience import PATIENCE_S


def _square(item: int, check: Check) -> int:
    check()
    return item * item


def _threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("analysis")]


@pytest.mark.parametrize("count", [0, 1, 2, 100])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_order(workers: int, count: int) -> None:
    with map_in_order(range(count), _square, workers=workers) as results:
        assert list(results) == [(item, item * item) for item in range(count)]
    assert not _threads()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_result_may_be_none(workers: int) -> None:
    with map_in_order(range(3), lambda *_: None, workers=workers) as results:
        assert list(results) == [(item, None) for item in range(3)]


def test_one_worker_is_the_caller() -> None:
    with map_in_order([0], lambda *_: threading.current_thread().name) as results:
        assert list(results) == [(0, threading.current_thread().name)]


def test_threads_do_not_run_far_ahead() -> None:
    taken, most = 0, 0

    def items() -> Iterator[int]:
        nonlocal most
        for item in range(50):
            most = max(most, item + 1 - taken)
            yield item

    with map_in_order(items(), _square, workers=3, ahead=2) as results:
        for _, found in results:
            taken += 1
            assert found == (taken - 1) ** 2
    assert most <= 2 * 3 + 1  # the one that was just taken counts until its place is used


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_what_work_raises_arrives_in_its_turn(workers: int) -> None:
    def work(item: int, _check: Check) -> float:
        return 1 / (5 - item)

    with map_in_order(range(20), work, workers=workers) as results:
        assert [next(results)[1] for _ in range(5)] == [1 / 5, 1 / 4, 1 / 3, 1 / 2, 1]
        with pytest.raises(ZeroDivisionError):
            next(results)
    assert not _threads()


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_what_the_items_raise_arrives(workers: int) -> None:
    def items() -> Iterator[int]:
        yield from range(4)
        raise LookupError("no more")

    with (
        pytest.raises(LookupError, match="no more"),
        map_in_order(items(), _square, workers=workers) as results,
    ):
        list(results)
    assert not _threads()


def test_the_end_of_the_block_stops_threads_at_their_next_check() -> None:
    stopped = []
    begun = threading.Barrier(4, timeout=PATIENCE_S)

    def work(item: int, check: Check) -> int:
        if item == 0:
            return item
        try:
            begun.wait()
            while True:
                check()
                time.sleep(0.01)
        except BaseException:
            stopped.append(item)
            raise

    with map_in_order(range(10), work, workers=3) as results:
        assert next(results) == (0, 0)
        begun.wait()
    assert sorted(stopped) == [1, 2, 3]
    assert not _threads()


def test_the_check_ends_everything() -> None:
    calls, lock = [0], threading.Lock()

    def check() -> None:
        with lock:
            calls[0] += 1
            if calls[0] > 10:
                raise InterruptedError

    with (
        pytest.raises(InterruptedError),
        map_in_order(range(1000), _square, workers=3, check=check) as results,
    ):
        list(results)
    assert not _threads()


def test_the_caller_may_report_and_cancel_while_it_waits() -> None:
    waited = 0

    def waiting() -> None:
        nonlocal waited
        waited += 1
        if waited == 3:
            raise InterruptedError

    def work(_item: int, check: Check) -> None:
        while True:
            check()
            time.sleep(0.01)

    with (
        pytest.raises(InterruptedError),
        map_in_order(range(2), work, workers=2, waiting=waiting) as results,
    ):
        list(results)
    assert not _threads()
