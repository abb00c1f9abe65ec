"""A what-if: first an estimate that follows from headers, then errors that are measured.

Sizes and memory plans follow from the header at once. Errors take a walk over all weights for each
type; what one walk finds is cached, so that coming back to a type, or from one tensor to all of its
role, does nothing twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from explorer.analysis import what_if
from explorer.analysis.errors.pairs import PairErrors
from explorer.analysis.importance import importance_for
from explorer.analysis.matching.pairing import Matching
from explorer.analysis.recipes.fits import (
    RecipeTypes,
    RoleErrors,
    errors_by_role,
    recipe_size,
    recipe_tasks,
    types_by_recipes,
)
from explorer.analysis.what_if import PRESENT, SizeAfter, TypeErrors, pareto_front
from explorer.errors import ExplorerError, drop_frames
from explorer.formats import Model, Tensor
from explorer.formats.attachments import OpenMatrix
from explorer.formats.facts import describe
from explorer.formats.weights import Values
from explorer.parallel import Check, LruCache, never
from explorer.planner.inputs import PlanInputs, PlannedMemory, completed, memory_plans
from explorer.present.tables.what_if import Trial
from explorer.text import plain_text

_MOST_SETS: Final = 1 << 14
_MOST_TOTALS: Final = 1 << 10


@dataclass(frozen=True, slots=True)
class WhatIfCache:
    """The latest results of a model; bounded.

    Attributes:
        sets: Errors of sets, each less than a KiB.
        totals: Errors of all sets of a request together; apart, for a model may have more sets
            than are cached, and is not measured again.
    """

    sets: LruCache = field(default_factory=lambda: LruCache(_MOST_SETS))
    totals: LruCache = field(default_factory=lambda: LruCache(_MOST_TOTALS))


@dataclass(frozen=True, slots=True)
class SourceModel:
    """A model that the current one was made of.

    Attributes:
        key: Identifies it; keeps no model open.
        model: The model.
        title: What it is called, plain text.
        matching: How the tensors of both belong together; the source is the reference.
    """

    key: Hashable
    model: Model = field(compare=False)
    title: str = field(compare=False)
    matching: Matching = field(compare=False)


@dataclass(frozen=True, slots=True)
class WhatIfRequest:
    """Tensors, and the types to try.

    Attributes:
        model: The model.
        rows: Tensors that would get another type, by row; None for all matrices of the model.
        types: The types to try, or the recipes.
        by_recipe: Whether `types` are recipes, which give each tensor a type of its own.
        source: What is rounded; None for the model's own weights.
        matrix: How much columns count, or None.
        inputs: What to plan for; None for something usual.
    """

    model: Model
    rows: tuple[int, ...] | None
    types: tuple[str, ...]
    by_recipe: bool = False
    source: SourceModel | None = None
    matrix: OpenMatrix | None = None
    inputs: PlanInputs | None = None

    def key(self, task: what_if.Task) -> Hashable:
        return (*self._basis, task.key)

    def total_key(self, type_name: str) -> Hashable:
        """Return the cache key of the error of all sets in a type."""
        return (*self._basis, "total", self.by_recipe, type_name, self.rows)

    @property
    def _basis(self) -> tuple[Hashable, ...]:
        source = None if self.source is None else self.source.key
        return ("what if", source, None if self.matrix is None else self.matrix.key)

    @property
    def kept(self) -> what_if.TaskErrors:
        """What all pages, and earlier starts, have measured."""
        original = None if self.source is None else self.source.model
        return what_if.TaskErrors(self.model, original, self._importance)

    def _importance(self, tensors: what_if.TensorSet) -> Values | None:
        if self.matrix is None:
            return None
        called = self.model.tensors.columns.names[tensors.rows[0]]
        return importance_for(self.matrix.model, called, tensors.original)


@dataclass(frozen=True, slots=True, eq=False)
class WhatIfEstimate:
    """What is known before weights are read.

    Attributes:
        sets: What would get other types.
        against_source: Whether the sets are those of the source model.
        alone: Tensors that the source model does not have; they stay as they are.
        present: How large the tensors are.
        present_type: The type that they have; "" if there are several.
        title: What they are called as they are: the file's type, that of all, or "several types".
        recipes: The types of each tensor, of recipes by their names.
        sizes: How large they would be, by type.
        plans: The memory plan, by type and for `PRESENT`; empty without plans.
        planned: What was planned for.
        plan_problem: Why there are no plans; "" if there are.
        tasks: What is to be measured, by type.
        importance_count: Pieces that the importance matrix knows of.
    """

    request: WhatIfRequest
    sets: Sequence[what_if.TensorSet]
    against_source: bool
    alone: int
    present: what_if.SizeAfter
    present_type: str
    title: str
    recipes: Mapping[str, RecipeTypes]
    sizes: Mapping[str, what_if.SizeAfter]
    plans: Mapping[str, PlannedMemory]
    planned: PlanInputs
    plan_problem: str
    tasks: Mapping[str, Sequence[what_if.Task]] = field(default_factory=dict)
    importance_count: int = 0

    @property
    def parameters(self) -> int:
        """Weights of all sets."""
        return sum(one.parameters for one in self.sets)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors whose weights are read: what is rounded, and what the file has in place."""
        views = [one for each in self.sets for one in (each.original, each.present) if one]
        return tuple(tensor for view in views for tensor in view.tensors)

    def missing(self, cache: WhatIfCache) -> list[what_if.Task]:
        """Return what is not known yet, each once."""
        tasks = what_if.distinct(task for some in self.unknown(cache).values() for task in some)
        return [task for task in tasks if cache.sets.get(self.request.key(task)) is None]

    def recall(self, cache: WhatIfCache) -> None:
        """Take what is kept on disk of what is missing; in a worker.

        Raises:
            ExplorerError: The importance matrix does not fit the model.
        """
        missing = self.missing(cache)
        found = self.request.kept.known(missing)
        for task in missing:
            if task.key in found:
                cache.sets.put(self.request.key(task), found[task.key])

    def unknown(self, cache: WhatIfCache) -> dict[str, Sequence[what_if.Task]]:
        """Return the tasks of the types that were not measured to the end."""
        return {name: some for name, some in self.tasks.items() if self.total(name, cache) is None}

    def totals(self, cache: WhatIfCache) -> what_if.Totals:
        """Return the errors of each type that is not known to the end, with all that is known."""
        unknown = self.unknown(cache)
        totals = what_if.Totals(unknown)
        for task in what_if.distinct(task for some in unknown.values() for task in some):
            errors = cache.sets.find(self.request.key(task), PairErrors)
            if errors is not None:
                totals.add(task, errors)
        return totals

    def whole(self, cache: WhatIfCache) -> dict[str, what_if.TypeErrors]:
        """Return the errors of the types that were measured to the end."""
        totals = {name: self.total(name, cache) for name in self.tasks}
        return {name: total for name, total in totals.items() if total is not None}

    def known(self, cache: WhatIfCache) -> dict[str, what_if.TypeErrors]:
        """Return the known error of each type; reads nothing, and leaves out unknown types."""
        return self.whole(cache) | self.totals(cache).errors()

    def roles(self, type_name: str, cache: WhatIfCache) -> list[RoleErrors]:
        """Return the known errors in a type, or by a recipe, by role; in a worker."""

        def known(task: what_if.Task) -> PairErrors | None:
            return cache.sets.find(self.request.key(task), PairErrors)

        return errors_by_role(self.request.model, self.tasks.get(type_name, ()), known)

    def total(self, type_name: str, cache: WhatIfCache) -> what_if.TypeErrors | None:
        """Return the error in a type, if it was measured to the end."""
        return cache.totals.find(self.request.total_key(type_name), what_if.TypeErrors)


def estimate_of(request: WhatIfRequest, usual: PlanInputs, check: Check = never) -> WhatIfEstimate:
    """Return what follows from headers; for a worker.

    Args:
        request: What to try.
        usual: What to plan for, unless the request says.
        check: Called for each type; raises to stop.

    Raises:
        ExplorerError: The model's header is damaged, or its projector cannot be planned.
    """
    model = request.model
    rows = tuple(what_if.matrix_rows(model)) if request.rows is None else request.rows
    sets: list[what_if.TensorSet] = []
    if request.source is not None:
        sets = what_if.original_sets(model, rows, request.source.matching)
    against = bool(sets)
    known = frozenset[str]() if request.matrix is None else request.matrix.names
    sets = what_if.weighed(model, sets or what_if.own_sets(model, rows), known)
    held = {row for one in sets for row in one.rows}
    looked_at = set(range(model.tensors.main_rows)) if request.rows is None else set(rows)
    present = what_if.present_size(model, looked_at | held)
    sizes: dict[str, what_if.SizeAfter] = {}
    tasks: dict[str, Sequence[what_if.Task]] = {}
    recipes: dict[str, RecipeTypes] = {}
    names = None if request.matrix is None else known
    for recipe in types_by_recipes(model, request.types, names) if request.by_recipe else ():
        check()
        recipes[recipe.recipe] = recipe
        sizes[recipe.recipe] = recipe_size(model, present, sets, recipe)
        tasks[recipe.recipe] = recipe_tasks(sets, recipe)
    for name in () if request.by_recipe else request.types:
        check()
        sizes[name] = what_if.size_after(model, present, sets, name)
        tasks[name] = what_if.tasks_of(sets, name)
    inputs = completed(request.inputs or usual, model)
    types = {name: size.types for name, size in sizes.items() if size.problem is None}
    plans, plan_problem = memory_plans(model, inputs, {what_if.PRESENT: {}, **types}, check)
    first = {what_if.PRESENT: what_if.tasks_of(sets, what_if.PRESENT)} if against else {}
    kinds = {model.tensors.columns.types[row].name for row in held}
    present_type = kinds.pop() if len(kinds) == 1 else ""
    file_type = describe(model).file_type if request.rows is None else None
    return WhatIfEstimate(
        request=request,
        sets=sets,
        against_source=against,
        alone=len(set(rows) - held),
        present=present,
        present_type=present_type,
        title=plain_text(file_type or present_type or "several types"),
        recipes=recipes,
        sizes=sizes,
        plans=plans,
        planned=inputs,
        plan_problem=plan_problem,
        tasks={**first, **{name: some for name, some in tasks.items() if some}},
        importance_count=sum(one.weighed for one in sets),
    )


# Errors: each tensor is read once for all types.


@dataclass(frozen=True, slots=True)
class WhatIfState:
    """What is known by now, and the weights done of all, each once for each type.

    Attributes:
        errors: By type, and for `PRESENT`.
        failures: Tensors that cannot be read, by name, with the reason.
    """

    errors: Mapping[str, what_if.TypeErrors]
    done: int
    total: int
    failures: Sequence[tuple[str, ExplorerError]] = ()


def measure(
    estimate: WhatIfEstimate,
    cache: WhatIfCache,
    workers: int = 1,
    *,
    check: Check = never,
    progress: Callable[[int, Callable[[], WhatIfState]], object] = lambda _done, _state: None,
) -> WhatIfState:
    """Measure what an estimate does not know; for a worker.

    Args:
        estimate: What is to be measured.
        cache: What is known, and what is found.
        workers: Threads. The results are the same to the bit for any number.
        check: Called before every run of weights; raises to stop.
        progress: Called with the number of weights done, and with what tells all that is known.

    Raises:
        ExplorerError: The importance matrix does not fit the model. Weights that cannot be read
            are left out.
    """
    request = estimate.request
    missing = estimate.missing(cache)
    whole, totals = estimate.whole(cache), estimate.totals(cache)
    weights = sum(task.tensor_set.parameters for task in missing)
    names = request.model.tensors.columns.names
    failures: dict[str, ExplorerError] = {}

    def state(done: int) -> WhatIfState:
        errors = whole | totals.errors()
        return WhatIfState(errors, done, weights, tuple(failures.items()))

    for task, row in request.kept.measure(
        missing, workers, check=check, progress=lambda done: progress(done, partial(state, done))
    ):
        totals.add(task, row.errors)
        if row.errors is not None:
            cache.sets.put(request.key(task), row.errors)
        elif row.error is not None:
            drop_frames(row.error)  # they hold the model
            failures[names[task.tensor_set.rows[0]]] = row.error
    found = state(weights)
    for name, errors in found.errors.items() if not failures else ():
        cache.totals.put(request.total_key(name), errors)
    return found


# The rows of the tables


def trials_of(estimate: WhatIfEstimate, errors: Mapping[str, TypeErrors]) -> list[Trial]:
    """Return the tensors as they are, and one trial for each type that was asked for."""
    plan_now, now = estimate.plans.get(PRESENT), estimate.present
    names = estimate.request.model.tensors.columns.names

    def trial(name: str, title: str, size: SizeAfter) -> Trial:
        return Trial(
            *(name, title, size, now, estimate.plans.get(name), plan_now, errors.get(name)),
            measurable=name != PRESENT or estimate.against_source,
            recipe=estimate.recipes.get(name),
            names=names,
            present_type=estimate.present_type,
        )

    present = trial(PRESENT, f"{estimate.title} (as it is)", now)
    others = (trial(name, name, size) for name, size in estimate.sizes.items())
    return with_front([present, *others])


def with_front(trials: Iterable[Trial]) -> list[Trial]:
    """Mark the trials that no other of these beats in size and error."""
    found = list(trials)
    front = pareto_front([(one.size.bits_per_weight, _least_error(one)) for one in found])
    return [replace(one, front=on and one.complete) for one, on in zip(found, front, strict=True)]


def _least_error(trial: Trial) -> float:
    """Return the error, or -inf while it is measured: whatever it is, what is smaller may stay."""
    if trial.errors is not None and not trial.errors.complete:
        return -math.inf
    error = trial.figure("relative_rmse")
    return math.nan if error is None else error
