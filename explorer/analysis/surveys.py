"""Statistics or errors of every tensor of a model: cached, paused, cancelled and taken up again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Generic, TypeAlias, TypeVar

from explorer.analysis.errors.metrics import ErrorMetrics
from explorer.analysis.errors.pairs import WeightsPair, measure_pair
from explorer.analysis.statistics import TensorStatistics, tensor_statistics
from explorer.analysis.survey_cache import KeptErrors, KeptSurvey
from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.formats.tensors import Tensor
from explorer.formats.weights import SPAN_WEIGHTS
from explorer.parallel import AHEAD, Check, map_in_order, never

Item = TypeVar("Item")
Result = TypeVar("Result")

Progress: TypeAlias = Callable[[int], object] | None
"""Called with the number of weights walked over so far; None if nothing shows it."""

_LEAST_SPANS: Final = 2  # for each thread that shares an item
_HUGE: Final = 1 << 27  # weights, which take a thread a quarter of a second
_WAITING: Final = 256  # results that may wait for one before theirs, some KiB each
_STATISTICS_WALKS: Final = 2
_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class WorkItem(Generic[Item]):
    """A tensor, or a pair of tensors, to work on.

    Attributes:
        item: What `work` gets.
        weights: Number of weights.
        walks: How often the weights are walked over.
    """

    item: Item
    weights: int
    walks: int = 1


def map_tensors(
    items: Iterable[WorkItem[Item]],
    work: Callable[[Item, int, Check, Progress], Result],
    *,
    workers: int,
    check: Check,
    progress: Progress = None,
) -> Iterator[Result]:
    """Yield what a function returns for each item, in order.

    Threads that share a tensor wait for the last of them at the end of each walk; threads that take
    a tensor each need not. So they share one only if it would keep a single thread busy when the
    others have nothing left to do, and a huge one, whose result would be long in coming.
    Memory is bounded by what a thread keeps of its tensor: up to 16 MiB of stored bytes.

    When the iterator is closed, or anything raises, no thread is left running.

    Args:
        work: Gets an item, the number of threads that share it, a check to call now and then, and
            what to call with the number of its weights walked over, in any thread.
        check: Called before every item, and as often as `work` calls what it got, in that thread;
            raises to cancel.
        progress: Called in the caller's thread with the weights walked over so far, of all items.
    """
    tasks = _tasks(items, workers)
    finished = 0
    unfinished: dict[int, int] = {}  # weights walked over, by number of the task

    def report() -> None:
        if progress is not None:
            progress(finished + sum(list(unfinished.values())))

    def work_on(task: _Task[Item], check: Check) -> Result:
        def walked(done: int) -> None:
            unfinished[task.number] = done
            if task.is_shared:  # this is the caller's thread
                report()

        check()
        threads = workers if task.is_shared else 1
        return work(task.item.item, threads, check, None if progress is None else walked)

    ahead = max(AHEAD, _WAITING // workers)
    for is_shared, group in groupby(tasks, key=lambda task: task.is_shared):
        threads = 1 if is_shared else workers
        with map_in_order(
            group, work_on, workers=threads, ahead=ahead, check=check, waiting=report
        ) as results:
            for task, result in results:
                yield result
                unfinished.pop(task.number, None)
                finished += task.item.walks * task.item.weights
                report()


@dataclass(frozen=True, slots=True)
class _Task(Generic[Item]):
    """An item, its number, and whether all threads share it."""

    number: int
    item: WorkItem[Item]
    is_shared: bool


def _tasks(items: Iterable[WorkItem[Item]], workers: int) -> list[_Task[Item]]:
    items = list(items)
    tasks = []
    behind = sum(one.weights for one in items)
    least = _LEAST_SPANS * workers * SPAN_WEIGHTS
    for number, one in enumerate(items):
        behind -= one.weights
        keeps_others_waiting = behind <= one.weights * (workers - 1)
        enough = least if keeps_others_waiting else max(least, _HUGE)
        tasks.append(_Task(number, one, workers <= 1 or one.weights >= enough))
    return tasks


class SurveyCancelled(Exception):
    """Raised by a survey that was cancelled. What was known by then is kept."""


class SurveyControl:
    """Pauses and cancels a survey, from any thread; the survey obeys at its next chunk."""

    def __init__(self) -> None:
        self._going = threading.Event()
        self._going.set()
        self._cancelled = threading.Event()
        self._other_check: Check = never

    def obey(self, check: Check) -> None:
        """Let another check cancel the survey too.

        Args:
            check: Called as often as `self.check`, and every 50 ms of a pause; raises to cancel.
        """
        self._other_check = check

    @property
    def paused(self) -> bool:
        """Whether the survey waits."""
        return not self._going.is_set()

    @property
    def cancelled(self) -> bool:
        """Whether the survey ends, or has ended, before its end."""
        return self._cancelled.is_set()

    def pause(self) -> None:
        """Have the survey wait, unless it is cancelled."""
        self._going.clear()
        if self.cancelled:  # by another thread, meanwhile or before
            self._going.set()

    def resume(self) -> None:
        """Have a paused survey go on."""
        self._going.set()

    def cancel(self) -> None:
        """End the survey, paused or not."""
        self._cancelled.set()
        self._going.set()

    def check(self) -> None:
        """Wait while the survey is paused.

        Raises:
            SurveyCancelled: It was cancelled.
        """
        self._other_check()
        while not self._going.wait(_POLL_S):
            self._other_check()
        if self.cancelled:
            raise SurveyCancelled


@dataclass(frozen=True, slots=True)
class SurveyRow:
    """The statistics of one tensor.

    Attributes:
        tensor: The tensor.
        statistics: Its statistics; None if its weights cannot be read.
        error: Why they cannot, or None.
    """

    tensor: Tensor
    statistics: TensorStatistics | None
    error: ExplorerError | None = None


def survey_row(tensor: Tensor, workers: int, check: Check, progress: Progress) -> SurveyRow:
    """Return the row of one tensor; see `map_tensors`."""
    try:
        found = tensor_statistics(tensor, workers=workers, cancel=check, steps=progress)
    except ExplorerError as error:
        return SurveyRow(tensor, None, error)
    return SurveyRow(tensor, found)


def survey(
    model: Model,
    workers: int = 1,
    cancel: Check | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[SurveyRow]:
    """Yield a row for each tensor, in the order of the model, as soon as it is known.

    Args:
        workers: Threads, which take a tensor each, or share the work on a large one.
        cancel: Called before every chunk, in the thread that reads it; what it raises is passed on.
        progress: Called in the caller's thread now and then with the weights walked over so far; in
            all there will be twice those of the model.
    """
    control = SurveyControl()
    control.obey(cancel or never)
    return run_survey(model, KeptSurvey(None, model, slim=True), workers, control, progress)


def run_survey(  # noqa: PLR0913 - all but the first two have a default
    model: Model,
    kept: KeptSurvey,
    workers: int = 1,
    control: SurveyControl | None = None,
    progress: Callable[[int], object] | None = None,
    *,
    rows: Sequence[int] | None = None,
) -> Iterator[SurveyRow]:
    """Yield a row for each tensor, in the order of the model; known results come at once.

    Args:
        kept: Known results; new ones are added.
        workers: Threads, which take a tensor each, or share the work on a large one.
        control: Pauses and cancels.
        progress: Called now and then with the weights walked over so far, of twice the tensors'.
        rows: Rows of the model's table, if not all of them.

    Raises:
        SurveyCancelled: It was cancelled. Another run with the same `kept` goes on from there.
    """
    check = (control or SurveyControl()).check
    tensors = model.tensors.rows
    numbers = range(len(tensors)) if rows is None else rows

    def work(number: int, workers: int, check: Check, progress: Progress) -> SurveyRow:
        known = kept.rows.get(number)
        if known is not None:
            return SurveyRow(tensors[number], known)
        return survey_row(tensors[number], workers, check, progress)

    items = [WorkItem(row, tensors[row].parameters, _STATISTICS_WALKS) for row in numbers]
    found = map_tensors(items, work, workers=workers, check=check, progress=progress)
    for number, row in zip(numbers, found, strict=True):
        if row.statistics is not None and number not in kept.rows:
            kept.add(number, row.statistics)
        yield row


@dataclass(frozen=True, slots=True)
class PairRow:
    """The errors of one pair.

    Attributes:
        number: Its place among the pairs.
        pair: The pair.
        figures: Its errors; None if its weights cannot be read.
        error: Why they cannot, or None.
    """

    number: int
    pair: WeightsPair
    figures: ErrorMetrics | None
    error: ExplorerError | None = None


def run_errors(  # noqa: PLR0913 - all but the first two have a default
    pairs: Sequence[WeightsPair],
    kept: KeptErrors,
    workers: int = 1,
    control: SurveyControl | None = None,
    progress: Callable[[int], object] | None = None,
    *,
    numbers: Sequence[int] | None = None,
) -> Iterator[PairRow]:
    """Yield the errors of each pair in order; known results come at once.

    Args:
        kept: Known results; new ones are added.
        workers: Threads, which take a pair each, or share the work on a large one.
        control: Pauses and cancels.
        progress: Called now and then with the number of pairs of weights done.
        numbers: Places of pairs, if not all of them.

    Raises:
        SurveyCancelled: It was cancelled. Another run with the same `kept` goes on from there.
    """
    check = (control or SurveyControl()).check

    def work(number: int, workers: int, check: Check, progress: Progress) -> PairRow:
        known = kept.rows.get(number)
        if known is not None:
            return PairRow(number, pairs[number], known)
        return _measure(number, pairs[number], workers, check, progress)

    wanted = range(len(pairs)) if numbers is None else numbers
    items = [WorkItem(number, pairs[number].parameters) for number in wanted]
    for row in map_tensors(items, work, workers=workers, check=check, progress=progress):
        if row.figures is not None and row.number not in kept.rows:
            kept.add(row.number, row.figures)
        yield row


def _measure(
    number: int, pair: WeightsPair, workers: int, check: Check, progress: Progress
) -> PairRow:
    try:
        found = measure_pair(pair, workers, check, progress)
    except ExplorerError as error:
        return PairRow(number, pair, None, error)
    return PairRow(number, pair, found.metrics())
