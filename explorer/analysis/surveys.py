"""A survey that one can pause, cancel and take up again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar

from explorer.analysis.errors.figures import ErrorFigures
from explorer.analysis.errors.pairs import WeightsPair, flat_spans, measure_pairs
from explorer.analysis.remembering import remembered_bytes
from explorer.analysis.statistics import TensorStatistics, tensor_statistics
from explorer.analysis.survey_cache import KeptErrors, KeptSurvey
from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.formats.tensors import Tensor
from explorer.formats.weights import SPAN_WEIGHTS
from explorer.parallel import AHEAD, Check, map_in_order, never

# Many tensors, one after the other or at once: so that all threads have something to do.
#
# Threads that share a tensor wait for the last of them at the end of each walk; threads that take
# a tensor each need not, and two of them are a twentieth quicker so. They share one that would
# keep a single thread busy when the others have nothing left to do, and a huge one, whose result
# would be long in coming. Others they take as a whole, as far as there is memory for what each
# keeps.


Item = TypeVar("Item")
Result = TypeVar("Result")

_LEAST_SPANS: Final = 2  # for each thread that shares a tensor
_HUGE: Final = 1 << 27  # weights, which take a thread a quarter of a second
_MEMORY: Final = 24 << 20  # bytes that tensors worked on at once may take
_WAITING: Final = 256  # results that may wait for a tensor before theirs, some KiB each


Tell: TypeAlias = Callable[[int], object] | None
"""Told how much of an item is done; None if nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Portion(Generic[Item]):
    """Something to work on.

    Attributes:
        item: What it is.
        weights: Its number of weights.
        nbytes: Stored bytes of theirs that may be kept in memory meanwhile.
        walks: How often its weights are walked over.
    """

    item: Item
    weights: int
    nbytes: int
    walks: int = 1


def share_out(
    portions: Iterable[Portion[Item]],
    work: Callable[[Item, int, Check, Tell], Result],
    *,
    workers: int,
    check: Check,
    progress: Tell = None,
) -> Iterator[Result]:
    """Yield what a function makes of each item, in order.

    When the iterator is closed, or anything raises, no thread is left running.

    Args:
        portions: The items.
        work: Gets an item, how many threads share it, what it has to call now and then (that raises
            to stop), and what it may tell how many weights it has walked over, in any thread.
        workers: Threads.
        check: Called before every item, and as often as `work` calls what it got, in that thread;
            raises to stop.
        progress: Called in the caller's thread with the weights walked over so far, of all items.
    """
    walked = _Walked(progress)

    def work_alone(task: _Task[Item], check: Check) -> tuple[_Task[Item], Result]:
        check()
        with gate.passing(task.portion.nbytes, check):
            return task, work(task.portion.item, 1, check, walked.tell_of(task))

    gate = _Gate(_MEMORY)
    ahead = max(AHEAD, _WAITING // workers)
    for is_shared, tasks in groupby(_tasks(portions, workers), key=attrgetter("is_shared")):
        if is_shared:
            for task in tasks:
                check()
                yield work(task.portion.item, workers, check, walked.tell_of(task))
                walked.end(task)
        else:
            found = map_in_order(tasks, work_alone, workers=workers, ahead=ahead, check=check)
            for task, result in found:
                yield result
                walked.end(task)


@dataclass(frozen=True, slots=True)
class _Task(Generic[Item]):
    """A portion among others.

    Attributes:
        number: Its place among them.
        portion: The portion.
        is_shared: Whether all threads share it.
    """

    number: int
    portion: Portion[Item]
    is_shared: bool


def _tasks(portions: Iterable[Portion[Item]], workers: int) -> Iterator[_Task[Item]]:
    """Yield all portions in order, with what is to be done with them."""
    portions = list(portions)
    behind = sum(portion.weights for portion in portions)
    least = _LEAST_SPANS * workers * SPAN_WEIGHTS
    for number, portion in enumerate(portions):
        behind -= portion.weights
        keeps_others_waiting = behind <= portion.weights * (workers - 1)
        enough = least if keeps_others_waiting else max(least, _HUGE)
        yield _Task(number, portion, workers <= 1 or portion.weights >= enough)


class _Walked:
    """Weights walked over: several threads add to them, and the one that made this tells them."""

    def __init__(self, progress: Tell) -> None:
        self._progress = progress
        self._thread = threading.get_ident()
        self._before = 0  # of tasks that are done
        self._under_way: dict[int, int] = {}  # by number of the task

    def tell_of(self, task: _Task[Any]) -> Tell:
        """Return what is told how far a task is, in any thread; None if nobody wants to know."""
        if self._progress is None:
            return None

        def tell(done: int) -> None:
            self._under_way[task.number] = done
            if threading.get_ident() == self._thread:
                self._report()

        return tell

    def end(self, task: _Task[Any]) -> None:
        """Count a task as done; in the thread that tells."""
        self._under_way.pop(task.number, None)
        self._before += task.portion.walks * task.portion.weights
        self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._before + sum(list(self._under_way.values())))


class _Gate:
    """Lets threads pass while all that have passed take no more than some memory together."""

    def __init__(self, nbytes: int) -> None:
        self._changed = threading.Condition()
        self._all = self._left = nbytes

    @contextmanager
    def passing(self, nbytes: int, check: Check) -> Iterator[None]:
        """Wait for room; what is larger than all of it passes alone."""
        wanted = min(nbytes, self._all)
        with self._changed:
            while self._left < wanted:
                check()
                self._changed.wait(0.05)
            self._left -= wanted
        try:
            yield
        finally:
            with self._changed:
                self._left += wanted
                self._changed.notify_all()


# Statistics of every tensor of a model, one after the other.


WALKS: Final = 2
"""How often the weights of a tensor are walked over."""


@dataclass(frozen=True, slots=True)
class SurveyRow:
    """What a survey tells of one tensor.

    Attributes:
        tensor: The tensor.
        statistics: Its statistics; None if its weights cannot be told.
        error: Why they cannot, or None.
    """

    tensor: Tensor
    statistics: TensorStatistics | None
    error: ExplorerError | None = None


def survey(
    model: Model,
    workers: int = 1,
    cancel: Check | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[SurveyRow]:
    """Yield a row for each tensor, in the order of the model, as soon as it is known.

    Args:
        model: An open model.
        workers: Threads, which take a tensor each, or share the work on a large one.
        cancel: Called before every chunk, in the thread that reads it; what it raises is passed on.
        progress: Called in the caller's thread now and then with the weights walked over so far; in
            all there will be twice those of the model.
    """
    portions = (
        Portion(one, one.parameters, remembered_bytes(one), WALKS) for one in model.tensors.rows
    )
    return share_out(
        portions, survey_row, workers=workers, check=cancel or never, progress=progress
    )


def survey_row(tensor: Tensor, workers: int, cancel: Check | None, tell: Tell) -> SurveyRow:
    """Return what a survey tells of one tensor.

    Args:
        tensor: The tensor.
        workers: Threads.
        cancel: Called before every chunk; what it raises is passed on.
        tell: Called now and then with the weights walked over so far, of twice those that it has.
    """
    try:
        found = tensor_statistics(tensor, workers=workers, cancel=cancel, steps=tell)
    except ExplorerError as error:
        return SurveyRow(tensor, None, error)
    return SurveyRow(tensor, found)


_POLL_S: Final = 0.05


class SurveyCancelled(Exception):
    """Ends a survey that somebody cancelled. What was known by then is kept."""


class SurveyControl:
    """Pauses and cancels a survey, from any thread; the survey obeys at its next chunk."""

    def __init__(self) -> None:
        self._going = threading.Event()
        self._going.set()
        self._cancelled = threading.Event()
        self._beside: Check = never

    def obey(self, check: Check) -> None:
        """Have somebody else end the survey too.

        Args:
            check: Called as often as `check`, and every 50 ms of a pause; raises to end it.
        """
        self._beside = check

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
            SurveyCancelled: Somebody cancelled it.
        """
        self._beside()
        while not self._going.wait(_POLL_S):
            self._beside()
        if self.cancelled:
            raise SurveyCancelled


def run_survey(  # noqa: PLR0913 - all but the first two have a default
    model: Model,
    kept: KeptSurvey,
    workers: int = 1,
    control: SurveyControl | None = None,
    progress: Callable[[int], object] | None = None,
    *,
    rows: Sequence[int] | None = None,
) -> Iterator[SurveyRow]:
    """Yield a row for each tensor, in the order of the model; what is known comes at once.

    Args:
        model: An open model.
        kept: What is known already; what gets known is added.
        workers: Threads, which take a tensor each, or share the work on a large one.
        control: Pauses and cancels.
        progress: Called now and then with the weights walked over so far, of twice the tensors'.
        rows: Rows of the model's table, if not all of them.

    Raises:
        SurveyCancelled: Somebody cancelled it. Another run with what was kept goes on from there.
    """
    control = control or SurveyControl()
    tensors = model.tensors.rows
    numbers = range(len(tensors)) if rows is None else rows

    def work(number: int, workers: int, check: Check, tell: Tell) -> SurveyRow:
        known = kept.rows.get(number)
        if known is not None:
            return SurveyRow(tensors[number], known)
        return survey_row(tensors[number], workers, check, tell)

    portions = (
        Portion(number, tensors[number].parameters, remembered_bytes(tensors[number]), WALKS)
        for number in numbers
    )
    found = share_out(portions, work, workers=workers, check=control.check, progress=progress)
    for number, row in zip(numbers, found, strict=True):
        if row.statistics is not None and number not in kept.rows:
            kept.add(number, row.statistics)
        yield row


@dataclass(frozen=True, slots=True)
class PairRow:
    """What a survey of errors tells of one pair.

    Attributes:
        number: Its place among the pairs.
        pair: The pair.
        figures: Its errors; None if its weights cannot be told.
        error: Why they cannot, or None.
    """

    number: int
    pair: WeightsPair
    figures: ErrorFigures | None
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
    """Yield the errors of each pair in order; what is known comes at once.

    Args:
        pairs: The pairs.
        kept: What is known already; what gets known is added.
        workers: Threads, which take a pair each, or share the work on a large one.
        control: Pauses and cancels.
        progress: Called now and then with the number of pairs of weights done.
        numbers: Places of pairs, if not all of them.

    Raises:
        SurveyCancelled: Somebody cancelled it. Another run with what was kept goes on from there.
    """
    control = control or SurveyControl()

    def work(number: int, workers: int, check: Check, tell: Tell) -> PairRow:
        known = kept.rows.get(number)
        if known is not None:
            return PairRow(number, pairs[number], known)
        return _measure(number, pairs[number], workers, check, tell)

    wanted = range(len(pairs)) if numbers is None else numbers
    portions = (Portion(number, pairs[number].parameters, 0) for number in wanted)
    for row in share_out(portions, work, workers=workers, check=control.check, progress=progress):
        if row.figures is not None and row.number not in kept.rows:
            kept.add(row.number, row.figures)
        yield row


def _measure(number: int, pair: WeightsPair, workers: int, check: Check, tell: Tell) -> PairRow:
    spans = flat_spans(pair.parameters)
    try:
        found = measure_pairs(spans, pair.pairs, workers=workers, check=check, progress=tell)
    except ExplorerError as error:
        return PairRow(number, pair, None, error)
    return PairRow(number, pair, found.figures())
