"""Size and error of tensors, or of a whole model, in other types.

Nothing is written and nothing is sampled. The original is rounded where one is known, such as the
unquantized model that a file was made of; else the file's own weights, whose new error comes on top
of the error that they have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Final

from explorer.analysis.errors.metrics import ErrorMetrics, RunningErrors, WeightedErrors
from explorer.analysis.errors.pairs import MatchedPair, PairErrors, RoundedPair, WeightsPair
from explorer.analysis.matching.pairing import Match, Matching
from explorer.analysis.matching.views import TensorView
from explorer.analysis.recipes.rules import CURRENT
from explorer.analysis.recipes.tensors import RecipeModel
from explorer.analysis.rounding import rounded_type, rounding_problem, shape_problem
from explorer.analysis.survey_cache import CachedErrors, SurveyCache
from explorer.analysis.surveys import PairRow, PairsToMeasure, run_errors
from explorer.formats.model import Model
from explorer.formats.tensors import Shape, rows_by_name
from explorer.formats.weights import Values
from explorer.parallel import Check, never
from explorer.quantization import TensorType
from explorer.quantization.registry import uses_importance

PRESENT: Final = ""
"""Stands for the type that the file has: weights are left as they are."""

_UNCHANGED: Final = "F32"
"""What weights that are left as they are, and are compared with themselves, are rounded to."""

_COSTS: Final = {
    **{"IQ3_XXS": 100, "IQ2_XS": 100, "IQ2_XXS": 65, "IQ3_S": 60, "IQ1_S": 60, "IQ1_M": 60},
    "IQ2_S": 45,
    **{"Q3_K": 15, "Q5_K": 15, "IQ4_XS": 15, "Q2_K": 13, "IQ4_NL": 12, "Q4_K": 5, "Q6_K": 3},
}
"""Time to round a weight, relative to the quick types; measured."""


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


@dataclass(frozen=True, slots=True)
class Task:
    """Weights of a set that are rounded to a type or, if `PRESENT`, are left as they are."""

    tensor_set: TensorSet
    type_name: str

    @property
    def key(self) -> tuple[object, ...]:
        """Key among the tasks."""
        return (self.type_name, *self.tensor_set.key)

    @property
    def cost(self) -> int:
        """Expected time, in weights of the quick types."""
        return self.tensor_set.parameters * _COSTS.get(self.type_name, 1)

    def pair(self, importance: Values | None = None) -> WeightsPair:
        """Return the original, and what it would be or what the file has in its place.

        Args:
            importance: float32 [matrices, columns]; see `importance.checked_importance`.
        """
        one, name = self.tensor_set, self.type_name
        if name == PRESENT and one.present is not None:
            return MatchedPair(Match(one.original, one.present))
        by_importance = uses_importance(name)
        # squares by column of all types would take as much room as some models
        used, kept = importance if by_importance else None, not by_importance
        return RoundedPair(one.original, name or _UNCHANGED, used, keeps_columns=kept)


class TaskErrors:
    """The errors of tasks: kept with those that all comparisons of the same models keep.

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
        """Return the errors that are kept, by the keys of tasks; reads no weight.

        Raises:
            ExplorerError: What `importance` raises.
        """
        found: dict[tuple[object, ...], PairErrors] = {}
        for some in _by_type(tasks):
            with self._open(some).cached as cached:
                found |= {some[place].key: errors for place, errors in cached.rows.items()}
        return found

    def measure(
        self,
        tasks: Iterable[Task],
        workers: int = 1,
        *,
        check: Check = never,
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[tuple[Task, PairRow]]:
        """Yield each task with its errors, measured unless they are kept, or why it has none.

        A tensor is read once for all types that round it in the same runs. Errors are weighted by
        importance, too.

        Args:
            tasks: Each once.
            workers: Threads. The results are the same to the bit for any number.
            check: Called before every run, in the thread that reads it; raises to stop.
            progress: Called in the caller's thread with the number of weights done, of all tasks.

        Raises:
            ExplorerError: What `importance` raises.
        """
        types = _by_type(tasks)
        with ExitStack() as stack:
            asked = list(map(self._open, types))
            for one in asked:
                stack.enter_context(one.cached)
            for place, row in run_errors(asked, workers, check, progress):
                yield types[place][row.number], row

    def _open(self, tasks: Sequence[Task]) -> PairsToMeasure:
        """Open what is kept of tasks of one type."""
        pairs: list[WeightsPair] = []
        weighed: dict[WeightsPair, Values | None] = {}
        for task in tasks:
            importance = self._importance(task.tensor_set)
            pairs.append(task.pair(importance))
            weighed[pairs[-1]] = importance
        model, against = self._model, self._original
        if model is None:
            cached = CachedErrors(None, pairs, importance=weighed.get)
        elif isinstance(pairs[0], MatchedPair) and against is not None:
            cached = SurveyCache().open_errors(model, against, pairs, weighed.get)
        else:
            rounded = tasks[0].type_name or _UNCHANGED
            cached = SurveyCache().open_errors(against or model, rounded, pairs, weighed.get)
        return PairsToMeasure(pairs, cached, range(len(pairs)))


def _by_type(tasks: Iterable[Task]) -> list[list[Task]]:
    found: dict[str, list[Task]] = {}
    for task in tasks:
        found.setdefault(task.type_name, []).append(task)
    return list(found.values())


def tasks_of(sets: Sequence[TensorSet], type_name: str) -> list[Task]:
    """Return the tasks of a type (`TensorSet.fitting`); none if no set can have the type."""
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


class Totals:
    """The errors of types or recipes, each over all sets, of tasks that they may share."""

    def __init__(self, tasks: Mapping[str, Sequence[Task]]) -> None:
        self._totals: dict[str, RunningTotal] = {}
        self._of: dict[tuple[object, ...], list[RunningTotal]] = {}
        for name, some in tasks.items():
            total = RunningTotal(sum(task.tensor_set.parameters for task in some))
            self._totals[name] = total
            for task in some:
                self._of.setdefault(task.key, []).append(total)

    def add(self, task: Task, errors: PairErrors | None) -> None:
        """Add what was found of a task; None leaves out a set that cannot be read."""
        for total in self._of[task.key]:
            if errors is None:
                total.leave_out(task.tensor_set)
            else:
                total.add(task.tensor_set, errors)

    def errors(self) -> dict[str, TypeErrors]:
        """Return the errors so far, of what was measured at all."""
        found = {name: total.errors() for name, total in self._totals.items()}
        return {name: errors for name, errors in found.items() if errors.done or errors.complete}


def distinct(tasks: Iterable[Task]) -> list[Task]:
    """Return each task once: those of several types or recipes may be the same."""
    return list({task.key: task for task in tasks}.values())


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
