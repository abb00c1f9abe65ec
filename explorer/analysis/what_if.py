"""Size and error of tensors, or of a whole model, in other types.

Nothing is written and nothing is sampled. The original is rounded where one is known, such as the
unquantized model that a file was made of; else the file's own weights, whose new error comes on top
of the error that they have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Final

from explorer.analysis.errors.metrics import ErrorMetrics, RunningErrors, WeightedErrors
from explorer.analysis.errors.pairs import MatchedPair, PairErrors, RoundedPair, WeightsPair
from explorer.analysis.errors.pictures import measure_pairs
from explorer.analysis.matching.pairing import Match, Matching
from explorer.analysis.matching.views import TensorView
from explorer.analysis.recipes.rules import CURRENT
from explorer.analysis.recipes.tensors import RecipeModel
from explorer.analysis.rounding import rounded_type, rounding_problem, shape_problem
from explorer.analysis.survey_cache import CachedErrors, SurveyCache
from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.formats.tensors import Shape, rows_by_name
from explorer.formats.weights import Values
from explorer.parallel import Check, never
from explorer.quantization import TensorType
from explorer.quantization.registry import uses_importance

PRESENT: Final = ""
"""Stands for the type that the file has: weights are left as they are."""

_COSTS: Final = {
    **{"IQ3_XXS": 100, "IQ2_XS": 100, "IQ2_XXS": 65, "IQ3_S": 60, "IQ1_S": 60, "IQ1_M": 60},
    "IQ2_S": 45,
    **{"Q3_K": 15, "Q5_K": 15, "IQ4_XS": 15, "Q2_K": 13, "IQ4_NL": 12, "Q4_K": 5, "Q6_K": 3},
}
"""Time to round a weight, relative to the quick types; measured, for progress."""


@dataclass(frozen=True)
class TensorSet:
    """Weights that would get another type together.

    Attributes:
        rows: Rows of the model's tensor table whose weights they are, or are a part of.
        original: What is rounded.
        present: What the file has in its place; None if that is the original.
        weighed: Whether an importance matrix knows how much its columns count.
    """

    rows: tuple[int, ...]
    original: TensorView
    present: TensorView | None = None
    weighed: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Key among the sets of the same two models."""
        present = None if self.present is None else self.present.name
        return (self.rows, self.original.name, present)

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return self.original.parameters

    def kind(self, type_name: str, shape: Shape) -> TensorType:
        """Return the type of one of its tensors; see `rounding.rounded_type`."""
        return rounded_type(type_name, self.original.type_name, shape)

    def problem(self, type_name: str) -> str | None:
        """Return why it cannot have a type; None if it can."""
        problem = shape_problem(type_name, self.original.shape)
        return problem or rounding_problem(type_name, weighed=self.weighed)

    def fitting(self, type_name: str) -> str:
        """Return a type, or what llama-quantize puts in its place where rows are too short for it.

        Where that does not fit either, or the type is made with importance only and the set has
        none, `PRESENT`: the set stays as it is.
        """
        if self.problem(type_name) is None:
            return type_name
        if rounding_problem(type_name, weighed=self.weighed) is not None:
            return PRESENT
        other = CURRENT.fallbacks.get(type_name)
        return other if other is not None and self.problem(other) is None else PRESENT


def matrix_rows(model: Model) -> list[int]:
    """Return the rows of the tensors that llama-quantize would change; norms and biases stay.

    Raises:
        ExplorerError: The model's header is damaged.
    """
    tensors = RecipeModel.of(model).tensors
    return sorted(tensor.row for tensor in tensors if tensor.quantizable)


def own_sets(model: Model, rows: Sequence[int]) -> list[TensorSet]:
    """Return tensors as sets whose original is what the file has."""
    tensors = model.tensors.rows
    return [TensorSet((row,), TensorView.of(tensors[row])) for row in rows]


def original_sets(model: Model, rows: Collection[int], matching: Matching) -> list[TensorSet]:
    """Return the sets whose original is another model's; what has none is left out.

    A set may hold more rows than were asked for, where the original is one tensor of which the
    file has made several.

    Args:
        rows: Rows of its tensor table.
        matching: The originals as its reference, the model as its candidate.
    """
    wanted = frozenset(rows)
    by_name = rows_by_name(model.tensors.columns.names)
    sets = []
    for match in matching.matches:
        held = tuple(sorted(by_name[tensor.name] for tensor in match.candidate.tensors))
        if not wanted.isdisjoint(held):
            sets.append(TensorSet(held, match.reference, match.candidate))
    return sets


def pair_of(tensor_set: TensorSet, type_name: str, importance: Values | None = None) -> WeightsPair:
    """Return a set and what it would be in a type, or what the file has in its place.

    Args:
        type_name: A type that the set can have, or `PRESENT` for what the file has.
        importance: float32 [matrices, columns]; see `importance.checked_importance`.
    """
    original = tensor_set.original
    if type_name == PRESENT:
        return MatchedPair(Match(original, tensor_set.present or original))
    used = importance if uses_importance(type_name) else None
    return RoundedPair(original, type_name, used)


def measure_set(  # noqa: PLR0913 - all but the first two have a default
    tensor_set: TensorSet,
    type_name: str,
    importance: Values | None = None,
    workers: int = 1,
    *,
    check: Check = never,
    progress: Callable[[int], object] | None = None,
) -> PairErrors:
    """Return the errors of a set in a type, over all its weights.

    Args:
        tensor_set, type_name, importance: As of `pair_of`; errors are weighted by importance, too.
        workers: Threads. The result is the same to the bit for any number.
        check: Called before every run, in the thread that reads it; raises to stop.
        progress: Called in the caller's thread with the number of weights done.

    Raises:
        FormatError: A file is damaged there, or a type's weights cannot be decoded.
        SourceError: A file changed since it was opened.
    """
    pair = pair_of(tensor_set, type_name, importance)
    # squares by column of all types would take as much room as some models
    by_column = type_name == PRESENT or not uses_importance(type_name)
    more = workers, check, progress
    (found,) = measure_pairs([pair], [importance], *more, by_column=by_column)
    if not by_column:
        found.sums.columns = None
    if type_name == PRESENT and tensor_set.present is None:
        return replace(found, saturated=None)
    return found


@dataclass(frozen=True, slots=True)
class Task:
    """One walk over the weights of a set, which are rounded to a type or, if `PRESENT`, are not."""

    tensor_set: TensorSet
    type_name: str

    @property
    def key(self) -> tuple[object, ...]:
        """Key among the walks."""
        return (self.type_name, *self.tensor_set.key)

    @property
    def cost(self) -> int:
        """Expected time, in weights of the quick types."""
        return self.tensor_set.parameters * _COSTS.get(self.type_name, 1)


class TaskErrors:
    """The errors of walks: kept with those that all comparisons of the same models keep.

    Args:
        model: The model that has the tensors now; None keeps nothing.
        original: The model whose weights are rounded, if that is another one.
        importance: Returns how much the columns of a set count; None if all count alike.
    """

    def __init__(
        self,
        model: Model | None = None,
        original: Model | None = None,
        importance: Callable[[TensorSet], Values | None] = lambda _set: None,
    ) -> None:
        self._model, self._original = model, original
        self._importance = importance

    def known(self, tasks: Iterable[Task]) -> dict[tuple[object, ...], PairErrors]:
        """Return the errors that are kept, by the keys of walks; reads no weight.

        Raises:
            ExplorerError: What `importance` raises.
        """
        by_type: dict[str, list[Task]] = {}
        for task in tasks:
            by_type.setdefault(task.type_name, []).append(task)
        found: dict[tuple[object, ...], PairErrors] = {}
        for some in by_type.values():
            with self._open(some) as cached:
                found |= {some[place].key: errors for place, errors in cached.rows.items()}
        return found

    def measure(
        self,
        task: Task,
        workers: int = 1,
        *,
        check: Check = never,
        progress: Callable[[int], object] | None = None,
    ) -> PairErrors:
        """Return the errors of a walk, measured unless they are kept; arguments of `measure_set`.

        Raises:
            ExplorerError: What `measure_set` and `importance` raise.
        """
        with self._open([task]) as cached:
            if 0 not in cached.rows:
                found = measure_set(
                    *(task.tensor_set, task.type_name, cached.importance(0), workers),
                    check=check,
                    progress=progress,
                )
                cached.add(0, found)
            return cached.rows[0]

    def _open(self, tasks: Sequence[Task]) -> CachedErrors:
        """Open what is kept of walks of one type."""
        pairs: list[WeightsPair] = []
        weighed: dict[WeightsPair, Values | None] = {}
        for task in tasks:
            importance = self._importance(task.tensor_set)
            pairs.append(pair_of(task.tensor_set, task.type_name, importance))
            weighed[pairs[-1]] = importance
        model, type_name, against = self._model, tasks[0].type_name, self._original
        if model is None or (type_name == PRESENT and against is None):
            return CachedErrors(None, pairs, importance=weighed.get)
        if type_name == PRESENT and against is not None:
            return SurveyCache().open_errors(model, against, pairs, weighed.get)
        return SurveyCache().open_errors(against or model, type_name, pairs, weighed.get)


def tasks_of(sets: Sequence[TensorSet], type_name: str) -> list[Task]:
    """Return the walks for a type (`TensorSet.fitting`); none if no set can have the type."""
    if type_name == PRESENT:
        return [Task(tensor_set, PRESENT) for tensor_set in sets]
    tasks = [Task(tensor_set, tensor_set.fitting(type_name)) for tensor_set in sets]
    return tasks if any(task.type_name == type_name for task in tasks) else []


@dataclass(frozen=True, slots=True)
class TypeErrors:
    """Errors of all sets together in a type.

    Attributes:
        metrics: As if all weights were those of one tensor; percentiles are not known.
        weighted: The same by importance, of the sets that a matrix has; None without any.
        saturated: Share of saturated codes among the weights that have codes; None without any.
        done: Weights that the metrics are of.
        total: Weights of all sets.
    """

    metrics: ErrorMetrics
    saturated: float | None
    done: int
    total: int
    weighted: WeightedErrors | None = None

    @property
    def complete(self) -> bool:
        """Whether all sets were measured."""
        return self.done >= self.total


class RunningTotal:
    """Sums of the errors of sets in one type."""

    def __init__(self, total: int) -> None:  # weights of all sets
        self._total = total
        self._sums = RunningErrors()
        self._weighted: WeightedErrors | None = None
        self._saturated = 0.0
        self._coded = 0
        self._done = 0

    def add(self, tensor_set: TensorSet, errors: PairErrors) -> None:
        self._sums.combine(errors.sums)
        self._done += tensor_set.parameters
        if errors.weighted is not None:
            before = self._weighted or WeightedErrors(0.0, 0.0)
            self._weighted = before + errors.weighted
        if errors.saturated is not None:
            self._saturated += errors.saturated * tensor_set.parameters
            self._coded += tensor_set.parameters

    def leave_out(self, tensor_set: TensorSet) -> None:
        """Leave out a set that cannot be read."""
        self._total -= tensor_set.parameters

    def errors(self) -> TypeErrors:
        """Return the errors so far."""
        saturated = self._saturated / self._coded if self._coded else None
        metrics = self._sums.metrics()
        return TypeErrors(metrics, saturated, self._done, self._total, self._weighted)


class Walks:
    """Walks over the weights of sets, each once; what cannot be read is left out.

    Args:
        model: The model whose sets they are.
        kept: Measures.
        find: Returns what is known of a walk, None if it is to be measured.
        put: Takes what was measured.
        progress: Called with the work done, of the walks' costs, and the type's total so far.

    Attributes:
        done: The work done.
        failures: Tensors that cannot be read, by the key of their set: name and reason.
    """

    def __init__(  # noqa: PLR0913 - all but the first four have a default
        self,
        model: Model,
        kept: TaskErrors,
        find: Callable[[Task], PairErrors | None],
        put: Callable[[Task, PairErrors], object],
        workers: int = 1,
        *,
        check: Check = never,
        progress: Callable[[int, RunningTotal], object] = lambda _done, _total: None,
    ) -> None:
        self._names = model.tensors.columns.names
        self._kept, self._find, self._put = kept, find, put
        self._workers, self._check, self._progress = workers, check, progress
        self.done = 0
        self.failures: dict[tuple[object, ...], tuple[str, ExplorerError]] = {}

    def total(self, tasks: Sequence[Task]) -> TypeErrors:
        """Return the errors of all sets together; those of sets that are not known are measured."""
        total = RunningTotal(sum(task.tensor_set.parameters for task in tasks))
        for task in tasks:
            errors = self._errors(task, total)
            if errors is None:
                total.leave_out(task.tensor_set)
            else:
                total.add(task.tensor_set, errors)
        return total.errors()

    def _errors(self, task: Task, total: RunningTotal) -> PairErrors | None:
        tensors = task.tensor_set
        found = None if tensors.key in self.failures else self._find(task)
        if found is not None or tensors.key in self.failures:
            return found
        rate = task.cost / max(1, tensors.parameters)

        def report(count: int) -> None:
            self._progress(self.done + round(count * rate), total)

        try:
            found = self._kept.measure(task, self._workers, check=self._check, progress=report)
        except ExplorerError as error:
            self.failures[tensors.key] = self._names[tensors.rows[0]], error.with_traceback(None)
        else:
            self._put(task, found)
        self.done += task.cost
        report(0)
        return found


def missing_tasks(tasks: Sequence[Task], known: Callable[[Task], bool]) -> Iterator[Task]:
    """Yield each task that is not known, once."""
    seen: set[tuple[object, ...]] = set()
    for task in tasks:
        if task.key not in seen and not known(task):
            seen.add(task.key)
            yield task


def weighed(model: Model, sets: Sequence[TensorSet], known: Collection[str]) -> list[TensorSet]:
    """Return sets that say whether an importance matrix knows them, by the names it knows."""
    names = model.tensors.columns.names
    return [replace(one, weighed=names[one.rows[0]] in known) for one in sets]


def pareto_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Return a mask of the Pareto-optimal points.

    Args:
        points: Two costs each; a point with NaN is never optimal.
    """
    known = [number for number, (x, y) in enumerate(points) if not (isnan(x) or isnan(y))]
    front = [False] * len(points)
    best: tuple[float, float] | None = None
    for number in sorted(known, key=lambda number: points[number]):
        if best is None or points[number][1] < best[1] or points[number] == best:
            best = points[number]
            front[number] = True
    return front


@dataclass(frozen=True, slots=True)
class SizeAfter:
    """Sizes of some tensors of a model, and of the model.

    Attributes:
        parameters: Weights of the tensors.
        nbytes: Their bytes.
        model_nbytes: Bytes of all the model's tensors.
        file_nbytes: Bytes of its files; headers and padding are taken as they are.
        types: The type of each tensor that would have another one, by row.
        kept: How many of those that would get the type cannot have it, and stay as they are.
        substitutes: How many get another type in its place, by that type; see `TensorSet.fitting`.
        problem: Why none can have it, or None.
    """

    parameters: int
    nbytes: int
    model_nbytes: int
    file_nbytes: int
    types: Mapping[int, TensorType] = field(default_factory=dict)
    kept: int = 0
    substitutes: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None

    @property
    def bits_per_weight(self) -> float:
        """Bits that a weight of the tensors would take; NaN without weights."""
        return 8 * self.nbytes / self.parameters if self.parameters else float("nan")

    def with_types(self, model: Model, kinds: Mapping[int, TensorType]) -> SizeAfter:
        """Return the sizes if tensors had these types; those that cannot stay as they are."""
        columns = model.tensors.columns
        sized = {row: kind.nbytes_of(columns.shapes[row]) for row, kind in kinds.items()}
        more = {row: n - columns.nbytes[row] for row, n in sized.items() if n is not None}
        return replace(
            self,
            nbytes=self.nbytes + sum(more.values()),
            model_nbytes=self.model_nbytes
            + sum(count for row, count in more.items() if row < model.tensors.main_rows),
            file_nbytes=self.file_nbytes + sum(more.values()),
            types={row: kinds[row] for row in more},
        )


def present_size(model: Model, rows: Collection[int]) -> SizeAfter:
    columns = model.tensors.columns
    return SizeAfter(
        parameters=sum(columns.parameters[row] for row in rows),
        nbytes=sum(columns.nbytes[row] for row in rows),
        model_nbytes=model.nbytes,
        file_nbytes=sum(file.source.size for file in model.files),
    )


def size_after(
    model: Model, present: SizeAfter, sets: Sequence[TensorSet], type_name: str
) -> SizeAfter:
    """Return the sizes if the sets had a type; reads headers only.

    A tensor of which only some sets can have the type stays as it is.

    Args:
        present: The present sizes; the sets' tensors are among them.
        type_name: See `rounding.rounder`.
    """
    problems = [tensor_set.problem(type_name) for tensor_set in sets]
    if None not in problems:
        return replace(present, problem=problems[0] if problems else None)
    chosen = _chosen(model, sets, type_name)
    after = present.with_types(model, {row: kind for row, (_, kind) in chosen.items() if kind})
    names = Counter(chosen[row][0] for row in after.types)
    del names[type_name]
    return replace(after, kept=len(chosen) - len(after.types), substitutes=dict(names))


def _chosen(
    model: Model, sets: Sequence[TensorSet], type_name: str
) -> dict[int, tuple[str, TensorType | None]]:
    """Return the type of each tensor, by row; None where its sets do not agree on one."""
    chosen: dict[int, tuple[str, TensorType | None]] = {}
    shapes = model.tensors.columns.shapes
    for tensor_set in sets:
        name = tensor_set.fitting(type_name)
        for row in tensor_set.rows:
            kind = None if name == PRESENT else tensor_set.kind(name, shapes[row])
            found = (name, kind)
            chosen[row] = found if chosen.get(row, found) == found else (PRESENT, None)
    return chosen
