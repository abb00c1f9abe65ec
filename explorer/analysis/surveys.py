"""Statistics or errors of every tensor of a model: cached, paused, cancelled and taken up again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any, Final, TypeAlias, TypeVar

from explorer.analysis.errors.pairs import PairErrors, WeightsPair, measure_pair
from explorer.analysis.errors.pictures import picture_errors
from explorer.analysis.statistics import TensorStatistics, tensor_statistics
from explorer.analysis.survey_cache import CachedErrors, CachedResults, CachedSurvey
from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.formats.tensors import Tensor
from explorer.formats.weights import SPAN_WEIGHTS
from explorer.parallel import AHEAD, Check, map_in_order, never
from explorer.quantization.registry import has_decoder

Result = TypeVar("Result")

Progress: TypeAlias = Callable[[int], object] | None
"""Called with the number of weights walked over so far; None if nothing shows it."""

_LEAST_SPANS: Final = 2  # for each thread that shares a tensor
_EMPTY_RUN: Final = 64  # tensors
_HUGE: Final = 1 << 27  # weights, which take a thread a quarter of a second
_WAITING: Final = 256  # results that may wait for one before theirs, some KiB each
_STATISTICS_WALKS: Final = 2
_POLL_S: Final = 0.05
_MOST_OTHERS: Final = 3000


def map_tensors(  # noqa: PLR0913 - the last two have a default
    sizes: Sequence[int],
    work: Callable[[int, int, Check, Progress], Result],
    *,
    workers: int,
    check: Check,
    walks: int = 1,
    progress: Progress = None,
    quick: Collection[int] = (),
) -> Iterator[Result]:
    """Yield what a function returns for each tensor, or pair of tensors, in order.

    Threads that share a tensor wait for the last of them at the end of each walk; threads that take
    a tensor each need not. So they share one only if it would keep a single thread busy when the
    others have nothing left to do, and a huge one, whose result would be long in coming.
    Memory is bounded by what a thread keeps of its tensor: up to 16 MiB of stored bytes.

    When the iterator is closed, or anything raises, no thread is left running.

    Args:
        sizes: Number of weights of each tensor.
        work: Gets the place of a tensor in `sizes`, the number of threads that share it, a check to
            call now and then, and what to call with the number of its weights walked over, in any
            thread.
        check: Called before every tensor, and as often as `work` calls what it got, in that thread;
            raises to cancel.
        walks: How often `work` walks over the weights.
        progress: Called in the caller's thread with the weights walked over so far, of all tensors.
        quick: Places of tensors of which nothing is read.
    """
    walked_over = [0 if place in quick else size for place, size in enumerate(sizes)]
    shared = _shared(walked_over, workers)
    finished = 0
    unfinished: dict[int, int] = {}  # weights walked over, by place

    def report() -> None:
        if progress is not None:
            progress(finished + sum(list(unfinished.values())))

    def work_on(place: int, check: Check) -> Result:
        def walked(done: int) -> None:
            unfinished[place] = done
            if shared[place]:  # this is the caller's thread
                report()

        check()
        threads = workers if shared[place] else 1
        return work(place, threads, check, None if progress is None else walked)

    ahead = max(AHEAD, _WAITING // workers)
    for is_shared, places in groupby(range(len(sizes)), key=shared.__getitem__):
        threads = 1 if is_shared else workers
        with map_in_order(
            places, work_on, workers=threads, ahead=ahead, check=check, waiting=report
        ) as results:
            for place, result in results:
                yield result
                unfinished.pop(place, None)
                finished += walks * sizes[place]
                report()


def _shared(sizes: Sequence[int], workers: int) -> list[bool]:
    """Return of each tensor whether all threads share it, rather than each taking another.

    So the caller's thread takes a long run of empty ones: handing them out would take longer.
    """
    shared = []
    behind = sum(sizes)
    least = _LEAST_SPANS * workers * SPAN_WEIGHTS
    for size in sizes:
        behind -= size
        keeps_others_waiting = behind <= size * (workers - 1)
        enough = least if keeps_others_waiting else max(least, _HUGE)
        shared.append(workers <= 1 or size >= enough)
    for is_empty, places in groupby(range(len(sizes)), key=lambda place: sizes[place] == 0):
        run = list(places)
        if is_empty and len(run) >= _EMPTY_RUN:
            shared[run[0] : run[-1] + 1] = [True] * len(run)
    return shared


def telling_rows(model: Model) -> list[int]:
    """Return the rows that a survey tells something of, and the first 3,000 of the others.

    The others are whole and have no weights, or are of a type that nothing decodes. Each says the
    same and adds nothing to sums; a hostile file may list 100,000.
    """
    table = model.tensors
    columns, left, found = table.columns, _MOST_OTHERS, []
    for row, (kind, parameters) in enumerate(zip(columns.types, columns.parameters, strict=True)):
        decodable = has_decoder(kind.name) or (kind.known and table.rows[row].has_readable_parts)
        has_result = decodable and (parameters or table.damage_of(row) is not None)
        if has_result or left:
            left -= not has_result
            found.append(row)
    return found


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
        while not self._going.is_set():  # which is quick; waiting for what is set is not
            self._going.wait(_POLL_S)
            self._other_check()
        if self.cancelled:
            raise SurveyCancelled


@dataclass(frozen=True, slots=True)
class SurveyRow:
    """The statistics of one tensor.

    Attributes:
        statistics: None if the weights cannot be read.
        error: Why they cannot, or None.
    """

    tensor: Tensor
    statistics: TensorStatistics | None
    error: ExplorerError | None = None

    @property
    def problem(self) -> str:
        """Why the weights cannot be read; "" if they can."""
        return "" if self.error is None else self.error.what

    @property
    def damage(self) -> ExplorerError | None:
        """Why weights that should be there cannot be read; None for types without a decoder."""
        tensor = self.tensor
        has_values = tensor.companions is not None or has_decoder(tensor.type.name)
        return self.error if has_values else None


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
    cached = CachedSurvey(None, model, slim=True)
    return run_survey(model, cached, workers, cancel or never, progress)


def run_survey(  # noqa: PLR0913 - all but the first two have a default
    model: Model,
    cached: CachedSurvey,
    workers: int = 1,
    check: Check = never,
    progress: Callable[[int], object] | None = None,
    *,
    rows: Sequence[int] | None = None,
) -> Iterator[SurveyRow]:
    """Yield a row for each tensor, in the order of the model; known results come at once.

    Args:
        cached: Known results; new ones are added.
        workers: Threads, which take a tensor each, or share the work on a large one.
        check: Called before every chunk, in the thread that reads it; raises to cancel. Another run
            with the same `cached` goes on from there.
        progress: Called now and then with the weights walked over so far, of twice the tensors'.
        rows: Rows of the model's table, if not all of them.
    """
    tensors, parameters = model.tensors.rows, model.tensors.columns.parameters
    numbers = range(len(tensors)) if rows is None else rows
    sizes = {number: parameters[number] for number in numbers}

    empty: dict[str, dict[str, Any]] = {}  # fields of the statistics of no weights, by type

    def measure(number: int, workers: int, check: Check, steps: Progress) -> TensorStatistics:
        tensor = tensors[number]
        is_empty = tensor.parameters == 0 and tensor.damage is None
        if is_empty and tensor.type.name in empty:  # a hostile file may list 100,000
            like = empty[tensor.type.name] | {"tensor": tensor.name, "shape": tensor.shape}
            return TensorStatistics(**like)
        found = tensor_statistics(tensor, workers=workers, cancel=check, steps=steps)
        if is_empty:
            empty[tensor.type.name] = {
                each.name: getattr(found, each.name) for each in fields(found)
            }
        return found

    types = model.tensors.columns.types
    unreadable = {
        number
        for number in numbers
        if not (has_decoder(types[number].name) or tensors[number].companions)
    }
    for number, statistics, error in _measure_missing(
        measure,
        cached,
        sizes,
        workers=workers,
        check=check,
        progress=progress,
        walks=_STATISTICS_WALKS,
        unreadable=unreadable,
    ):
        yield SurveyRow(tensors[number], statistics, error)


@dataclass(frozen=True, slots=True)
class PairRow:
    """The errors of one pair.

    Attributes:
        number: Place of the pair among all.
        errors: None if the weights cannot be read.
        error: Why they cannot, or None.
    """

    number: int
    pair: WeightsPair
    errors: PairErrors | None
    error: ExplorerError | None = None


def run_errors(  # noqa: PLR0913 - all but the first two have a default
    pairs: Sequence[WeightsPair],
    cached: CachedErrors,
    workers: int = 1,
    check: Check = never,
    progress: Callable[[int], object] | None = None,
    *,
    numbers: Sequence[int] | None = None,
    pictures: bool = False,
) -> Iterator[PairRow]:
    """Yield the errors of each pair in order; known results come at once.

    Args:
        cached: Known results; new ones are added.
        workers: Threads, which take a pair each, or share the work on a large one.
        check: As of `run_survey`.
        progress: Called now and then with the number of pairs of weights done.
        numbers: Places of pairs, if not all of them.
        pictures: Whether to keep the picture of each tensor, too: two to three times the work.
    """
    wanted = range(len(pairs)) if numbers is None else numbers
    sizes = {number: pairs[number].parameters for number in wanted}

    def measure(number: int, workers: int, check: Check, progress: Progress) -> PairErrors:
        pair, importance = pairs[number], cached.importance(number)
        if not pictures:
            return measure_pair(
                pair, workers, check, progress, importance=importance, by_column=True
            )
        *_, found = picture_errors(pair, workers, check, importance, progress or (lambda _: None))
        assert found.errors is not None
        return replace(found.errors, picture=found.tobytes())

    for number, errors, error in _measure_missing(
        measure, cached, sizes, workers=workers, check=check, progress=progress
    ):
        yield PairRow(number, pairs[number], errors, error)


def _measure_missing(  # noqa: PLR0913 - the arguments of a survey
    measure: Callable[[int, int, Check, Progress], Result],
    cached: CachedResults[Result],
    sizes: Mapping[int, int],
    *,
    workers: int,
    check: Check,
    progress: Progress,
    walks: int = 1,
    unreadable: Collection[int] = (),
) -> Iterator[tuple[int, Result | None, ExplorerError | None]]:
    """Yield each number with its result, known or measured and then kept, or why there is none.

    Args:
        sizes: Number of weights, by number of the tensor or pair.
        unreadable: Those that `measure` refuses before it reads.
    """
    numbers = list(sizes)
    quick = {place for place, one in enumerate(numbers) if one in unreadable or one in cached.rows}

    def work(
        place: int, workers: int, check: Check, progress: Progress
    ) -> tuple[int, Result | None, ExplorerError | None]:
        number = numbers[place]
        known = cached.rows.get(number)
        if known is not None:
            return number, known, None
        try:
            return number, measure(number, workers, check, progress), None
        except ExplorerError as error:
            # its frames hold what was read, and thousands of rows may wait or be kept
            return number, None, error.with_traceback(None)

    weights = list(sizes.values())
    for number, result, error in map_tensors(
        weights, work, workers=workers, check=check, walks=walks, progress=progress, quick=quick
    ):
        if result is not None and number not in cached.rows:
            cached.add(number, result)
        yield number, result, error
