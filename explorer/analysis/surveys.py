"""Statistics or errors of every tensor of a model: cached, cancelled and taken up again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from explorer.analysis.errors.pairs import PairErrors, WeightsPair
from explorer.analysis.errors.pictures import measure_pairs
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
_MOST_OTHERS: Final = 3000


def map_tensors(  # noqa: PLR0913 - the last two have a default
    sizes: Sequence[int],
    work: Callable[[int, int, Check, Progress], Result],
    *,
    workers: int,
    check: Check,
    walks: int | Sequence[int] = 1,
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
        walks: How often `work` walks over the weights, or over those of each.
        progress: Called in the caller's thread with the weights walked over so far, of all tensors.
        quick: Places of tensors of which nothing is read.
    """
    times = [walks] * len(sizes) if isinstance(walks, int) else walks
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
                finished += times[place] * sizes[place]
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

    def measure(
        keys: Sequence[_Key], workers: int, check: Check, steps: Progress
    ) -> list[TensorStatistics]:
        tensor = tensors[keys[0][1]]
        is_empty = tensor.parameters == 0 and tensor.damage is None
        if is_empty and tensor.type.name in empty:  # a hostile file may list 100,000
            like = empty[tensor.type.name] | {"tensor": tensor.name, "shape": tensor.shape}
            return [TensorStatistics(**like)]
        found = tensor_statistics(tensor, workers=workers, cancel=check, steps=steps)
        if is_empty:
            empty[tensor.type.name] = {
                each.name: getattr(found, each.name) for each in fields(found)
            }
        return [found]

    types = model.tensors.columns.types
    unreadable = {
        (0, number)
        for number in numbers
        if not (has_decoder(types[number].name) or tensors[number].companions)
    }
    groups = [[(0, number)] for number in sizes]
    for (_, number), statistics, error in _measure_missing(
        measure,
        [cached],
        groups,
        list(sizes.values()),
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


class PairsToMeasure(NamedTuple):
    """Pairs of two models, known results, to which new ones are added, and which are wanted."""

    pairs: Sequence[WeightsPair]
    cached: CachedErrors
    numbers: Sequence[int]


def run_errors(
    asked: Sequence[PairsToMeasure],
    workers: int = 1,
    check: Check = never,
    progress: Callable[[int], object] | None = None,
    *,
    pictures: bool = False,
) -> Iterator[tuple[int, PairRow]]:
    """Yield the errors of each pair, with the place of its models in `asked`; known ones at once.

    Pairs of one reference are measured together, so that it is read once for several. Those of
    the first come in order.

    Args:
        asked: Of each two models what is wanted.
        workers: Threads, which take a reference each, or share the work on a large one.
        check: As of `run_survey`.
        progress: Called now and then with the number of pairs of weights done.
        pictures: Whether to keep the picture of each tensor, too: two to three times the work.
    """

    def measure(
        keys: Sequence[_Key], workers: int, check: Check, progress: Progress
    ) -> list[PairErrors]:
        pairs = [asked[place].pairs[number] for place, number in keys]
        weights = [asked[place].cached.importance(number) for place, number in keys]
        return measure_pairs(pairs, weights, workers, check, progress, pictures=pictures)

    groups = _of_one_reference(asked, workers)
    sizes = [asked[place].pairs[number].parameters for (place, number), *_ in groups]
    known = [one.cached for one in asked]
    for (place, number), errors, error in _measure_missing(
        measure, known, groups, sizes, workers=workers, check=check, progress=progress
    ):
        yield place, PairRow(number, asked[place].pairs[number], errors, error)


def _of_one_reference(asked: Sequence[PairsToMeasure], workers: int) -> list[list[_Key]]:
    """Return the wanted pairs, those of one reference together, as many as memory has room for."""
    groups: dict[Hashable, list[_Key]] = {}
    for place, one in enumerate(asked):
        seen: Counter[Hashable] = Counter()
        for number in one.numbers:
            pair = one.pairs[number]
            key, most = pair.reference_key, max(2, pair.most_readers // workers)
            groups.setdefault((key, seen[key], place // most), []).append((place, number))
            seen[key] += 1
    return list(groups.values())


_Key: TypeAlias = tuple[int, int]
"""Place of what known results are of, and number of the result there."""


def _measure_missing(  # noqa: PLR0913 - the arguments of a survey
    measure: Callable[[Sequence[_Key], int, Check, Progress], Sequence[Result]],
    cached: Sequence[CachedResults[Result]],
    groups: Sequence[Sequence[_Key]],
    sizes: Sequence[int],
    *,
    workers: int,
    check: Check,
    progress: Progress,
    walks: int = 1,
    unreadable: Collection[_Key] = (),
) -> Iterator[tuple[_Key, Result | None, ExplorerError | None]]:
    """Yield each key with its result, known or measured and then kept, or why there is none.

    Args:
        cached: Known results, by place.
        groups: What is measured together. Where one of a group cannot be, each is by itself.
        sizes: Number of weights of each in a group.
        unreadable: Those that `measure` refuses before it reads.
    """

    def is_known(key: _Key) -> bool:
        return key[1] in cached[key[0]].rows

    def measured(
        keys: Sequence[_Key], workers: int, check: Check, progress: Progress
    ) -> list[tuple[_Key, Result | None, ExplorerError | None]]:
        try:
            results = measure(keys, workers, check, progress)
        except ExplorerError as error:
            if len(keys) > 1:
                return [one for key in keys for one in measured([key], workers, check, None)]
            # its frames hold what was read, and thousands of rows may wait or be kept
            return [(keys[0], None, error.with_traceback(None))]
        return [(key, result, None) for key, result in zip(keys, results, strict=True)]

    def work(
        place: int, workers: int, check: Check, progress: Progress
    ) -> list[tuple[_Key, Result | None, ExplorerError | None]]:
        missing = []
        found: list[tuple[_Key, Result | None, ExplorerError | None]] = []
        for key in groups[place]:
            known = cached[key[0]].rows.get(key[1])
            if known is None:
                missing.append(key)
            else:
                found.append((key, known, None))
        return found + (measured(missing, workers, check, progress) if missing else [])

    quick = {
        place
        for place, group in enumerate(groups)
        if all(key in unreadable or is_known(key) for key in group)
    }
    times = [walks * len(group) for group in groups]
    for found in map_tensors(
        sizes, work, workers=workers, check=check, walks=times, progress=progress, quick=quick
    ):
        for key, result, error in found:
            if result is not None and not is_known(key):
                cached[key[0]].add(key[1], result)
            yield key, result, error
