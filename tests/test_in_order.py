"""Results come in the order of the items, however many threads make them, and no thread is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from explorer.parallel import Check, InOrder


def _never() -> None:
    pass


def _square(item: int, _tool: object, check: Check) -> int:
    check()
    return item * item


def _threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("squares")]


@pytest.mark.parametrize("count", [0, 1, 2, 100])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_order(workers: int, count: int) -> None:
    tools = [None] * workers
    threads = InOrder(range(count), _square, tools, ahead=2, check=_never, name="squares")
    with closing(threads):
        assert list(threads.results()) == [item * item for item in range(count)]
    assert not _threads()


def test_a_result_may_be_none() -> None:
    threads = InOrder(range(3), lambda *_: None, [None], ahead=2, check=_never, name="squares")
    with closing(threads):
        assert list(threads.results()) == [None] * 3


def test_each_thread_has_its_own_tool_and_the_caller_works_with_them() -> None:
    used: set[tuple[str, str]] = set()
    begun = threading.Barrier(3)

    def work(item: int, tool: str, _check: Check) -> int:
        if item < 3:
            begun.wait(60)  # so each of the three threads has one of the first three items
        used.add((tool, threading.current_thread().name))
        return item

    threads = InOrder(range(9), work, ["a", "b", "c"], ahead=4, check=_never, name="squares")
    with closing(threads):
        assert list(threads.results()) == list(range(9))
    assert used == {
        ("a", threading.current_thread().name),
        ("b", "squares-1"),
        ("c", "squares-2"),
    }


def test_threads_do_not_run_far_ahead() -> None:
    taken, most = [0], [0]

    def items() -> Iterator[int]:
        for item in range(50):
            most[0] = max(most[0], item + 1 - taken[0])
            yield item

    threads = InOrder(items(), _square, [None] * 3, ahead=2, check=_never, name="squares")
    with closing(threads):
        for found in threads.results():
            taken[0] += 1
            assert found == (taken[0] - 1) ** 2
    assert most[0] <= 2 * 3 + 1  # the one that was just taken counts until its place is used


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_what_work_raises_arrives(workers: int) -> None:
    def work(item: int, _tool: None, _check: Check) -> int:
        return 1 // (5 - item)

    tools = [None] * workers
    threads = InOrder(range(20), work, tools, ahead=2, check=_never, name="squares")
    with closing(threads), pytest.raises(ZeroDivisionError):
        list(threads.results())
    assert not _threads()


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_what_the_items_raise_arrives_after_the_results_before(workers: int) -> None:
    def items() -> Iterator[int]:
        yield from range(4)
        raise LookupError("no more")

    tools = [None] * workers
    threads = InOrder(items(), _square, tools, ahead=3, check=_never, name="squares")
    found = []
    with closing(threads), pytest.raises(LookupError, match="no more"):
        found.extend(threads.results())
    with closing(InOrder(items(), _square, tools, ahead=3, check=_never, name="squares")) as again:
        results = again.results()
        assert [next(results) for _ in range(4)] == [0, 1, 4, 9]


def test_closing_stops_threads_at_their_next_check() -> None:
    caller = threading.current_thread()
    stopped, pause = [], threading.Event()

    def work(item: int, _tool: None, check: Check) -> int:
        try:
            while threading.current_thread() is not caller:
                check()
                pause.wait(0.01)
        except BaseException:
            stopped.append(item)
            raise
        return item

    threads = InOrder(range(10), work, [None] * 3, ahead=2, check=_never, name="squares")
    with closing(threads):
        for thread in threads._threads:
            thread.start()
        while threads._next < 2:  # until both have an item
            pause.wait(0.01)
    assert sorted(stopped) == [0, 1]
    assert not _threads()


def test_the_check_ends_everything() -> None:
    calls, lock = [0], threading.Lock()

    def check() -> None:
        with lock:
            calls[0] += 1
            if calls[0] > 10:
                raise InterruptedError

    threads = InOrder(range(1000), _square, [None] * 3, ahead=2, check=check, name="squares")
    with closing(threads), pytest.raises(InterruptedError):
        list(threads.results())
    assert not _threads()
