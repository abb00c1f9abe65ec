"""What the page of what-ifs asks, and what can be told before a weight is read. Knows no Qt.

Sizes and memory plans follow from the header at once. Errors take a walk over all weights for each
type; what one walk finds is kept, so that coming back to a type, or from one tensor to all of its
role, does nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from explorer.analysis.matching import Matching
from explorer.analysis.what_if import (
    PRESENT,
    Piece,
    PieceErrors,
    RunningTotal,
    SizeThen,
    Task,
    TypeErrors,
    matrix_rows,
    missing_tasks,
    original_pieces,
    own_pieces,
    present_size,
    size_then,
    tasks_of,
)
from explorer.hardware.detect import Machine
from explorer.planner.inputs import PlanInputs
from explorer.qt.models.document import Document
from explorer.qt.models.recent import Recent
from explorer.qt.models.what_if.imatrix import ImportanceMatrix
from explorer.qt.models.what_if.plan import Plans, PlanThen
from explorer.quantization.kernel_sets import rounding_to
from explorer.quantization.registry import uses_importance

_MOST_PIECES: Final = 1 << 14
_MOST_TOTALS: Final = 1 << 10


@dataclass(frozen=True, slots=True)
class Kept:
    """What was found of a model, the latest of it; bounded.

    Attributes:
        pieces: What pieces lose, each less than a KiB.
        totals: What all pieces of a question lose together; apart, for a model may have more pieces
            than are kept, and is not measured again.
    """

    pieces: Recent = field(default_factory=lambda: Recent(_MOST_PIECES))
    totals: Recent = field(default_factory=lambda: Recent(_MOST_TOTALS))


@dataclass(frozen=True, slots=True, eq=False)
class Originals:
    """A model that the current one was made of.

    Attributes:
        key: What tells it from others; keeps no model open.
        title: What it is called, plain text.
        matching: How the tensors of both belong together, the originals being the reference.
    """

    key: Hashable
    title: str
    matching: Matching


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What shall be told.

    Attributes:
        document: The model.
        rows: Tensors that would get another type, by row; None for all matrices of the model.
        types: The types.
        originals: What is rounded; None for the model's own weights.
        matrix: How much columns count, or None.
        inputs: What to plan for; None for something usual.
    """

    document: Document
    rows: tuple[int, ...] | None
    types: tuple[str, ...]
    originals: Originals | None = None
    matrix: ImportanceMatrix | None = None
    inputs: PlanInputs | None = None

    def key(self, task: Task) -> Hashable:
        """Return under what the outcome of a task is kept."""
        matrix = self.matrix if uses_importance(task.type_name) else None
        return (*self._basis(matrix), task.key)

    def total_key(self, type_name: str) -> Hashable:
        """Return under what is kept what all pieces together lose in a type."""
        return (*self._basis(self.matrix), "total", type_name, self.rows)

    def _basis(self, matrix: ImportanceMatrix | None) -> tuple[Hashable, ...]:
        originals = None if self.originals is None else self.originals.key
        return ("what if", originals, None if matrix is None else matrix.key)


@dataclass(frozen=True, slots=True, eq=False)
class Prospect:
    """What is known of a question before weights are read.

    Attributes:
        question: The question.
        pieces: What would get other types.
        measured_against_originals: Whether the pieces are those of the originals.
        alone: Tensors that have no original, and stay as they are.
        present: How large the tensors are.
        present_type: The type that they have; "" if there are several.
        sizes: How large they would be, by type.
        plans: The memory plan, by type and for `PRESENT`; empty without plans.
        planned: What was planned for.
        plan_problem: Why there are no plans; "" if there are.
        tasks: What is to be measured, by type, the quick types first.
        importance_count: Pieces that the importance matrix knows of.
        kernels: Types whose kernels are needed to read the weights.
    """

    question: Question
    pieces: Sequence[Piece]
    measured_against_originals: bool
    alone: int
    present: SizeThen
    present_type: str
    sizes: Mapping[str, SizeThen]
    plans: Mapping[str, PlanThen]
    planned: PlanInputs
    plan_problem: str
    tasks: Mapping[str, Sequence[Task]] = field(default_factory=dict)
    importance_count: int = 0
    kernels: Sequence[str] = ()

    @property
    def parameters(self) -> int:
        """Weights of all pieces."""
        return sum(piece.parameters for piece in self.pieces)

    def roundings(self, type_name: str) -> list[str]:
        """Return the sets of kernels that rounding to a type takes; `PRESENT` takes none."""
        found: dict[str, None] = {}  # each once, in order
        for name in {task.type_name: None for task in self.tasks[type_name]}:
            if name != PRESENT and self.importance_count > 0:
                found[rounding_to(name, weighed=True)] = None
            if name != PRESENT and self.importance_count < len(self.pieces):
                found[rounding_to(name)] = None
        return list(found)

    def missing(self, kept: Kept) -> list[Task]:
        """Return what is not known yet, each once, in the order in which it is measured."""
        tasks = [
            task
            for name, some in self.tasks.items()
            if self.total(name, kept) is None
            for task in some
        ]

        def known(task: Task) -> bool:
            return kept.pieces.get(self.question.key(task)) is not None

        return list(missing_tasks(tasks, known))

    def unknown_types(self, kept: Kept) -> list[str]:
        """Return the types of which something is not known yet, of those that were asked for."""

        def unknown(name: str) -> bool:
            keys = map(self.question.key, self.tasks[name])
            return self.total(name, kept) is None and None in map(kept.pieces.get, keys)

        return [name for name in self.question.types if name in self.tasks and unknown(name)]

    def known(self, kept: Kept) -> dict[str, TypeErrors]:
        """Return what is known of each type, without reading; types of which nothing is are not."""
        found = {}
        for name, tasks in self.tasks.items():
            total = self.total(name, kept)
            if total is not None:
                found[name] = total
                continue
            running, some = RunningTotal(self.parameters), False
            for task in tasks:
                errors = kept.pieces.get(self.question.key(task))
                if isinstance(errors, PieceErrors):
                    running.add(task.piece, errors)
                    some = True
            if some:
                found[name] = running.errors()
        return found

    def total(self, type_name: str, kept: Kept) -> TypeErrors | None:
        """Return what is lost in a type, if it was measured to the end."""
        found = kept.totals.get(self.question.total_key(type_name))
        return found if isinstance(found, TypeErrors) else None


def look_ahead(question: Question, machine: Machine, check: Callable[[], None]) -> Prospect:
    """Tell what can be told without reading weights; in a worker.

    Args:
        question: The question.
        machine: What to plan for, unless the question says.
        check: Called now and then; raises to stop.

    Raises:
        ExplorerError: The model's header is damaged.
    """
    model = question.document.model
    rows = tuple(matrix_rows(model)) if question.rows is None else question.rows
    pieces: list[Piece] = []
    if question.originals is not None:
        pieces = original_pieces(model, rows, question.originals.matching)
    against = bool(pieces)
    pieces = pieces or own_pieces(model, rows)
    held = {row for piece in pieces for row in piece.rows}
    looked_at = set(range(model.tensors.main_rows)) if question.rows is None else set(rows)
    present = present_size(model, looked_at | held)
    plans = Plans(model, question.inputs, machine)
    sizes: dict[str, SizeThen] = {}
    found: dict[str, PlanThen | None] = {PRESENT: plans.plan({})}
    for name in question.types:
        check()
        sizes[name] = size_then(model, present, pieces, name)
        found[name] = plans.plan(sizes[name].types) if sizes[name].problem is None else None
    kinds = {model.tensors.columns.types[row].name for row in held}
    return Prospect(
        question=question,
        pieces=pieces,
        measured_against_originals=against,
        alone=len(set(rows) - held),
        present=present,
        present_type=kinds.pop() if len(kinds) == 1 else "",
        sizes=sizes,
        plans={name: plan for name, plan in found.items() if plan is not None},
        planned=plans.inputs,
        plan_problem=plans.problem,
        tasks=_tasks(question, pieces, against=against),
        importance_count=_importance_count(question, pieces),
        kernels=_kernels(pieces),
    )


def piece_name(document: Document, piece: Piece) -> str:
    """Return what the model calls a piece; of several tensors, the first."""
    return document.model.tensors.columns.names[piece.rows[0]]


def _tasks(
    question: Question, pieces: Sequence[Piece], *, against: bool
) -> dict[str, Sequence[Task]]:
    tasks = {name: tasks_of(pieces, name) for name in question.types}
    order = sorted(question.types, key=lambda name: sum(task.cost for task in tasks[name]))
    first = {PRESENT: tasks_of(pieces, PRESENT)} if against else {}
    return {**first, **{name: tasks[name] for name in order if tasks[name]}}


def _importance_count(question: Question, pieces: Sequence[Piece]) -> int:
    if question.matrix is None:
        return 0
    names = question.matrix.names
    return sum(piece_name(question.document, piece) in names for piece in pieces)


def _kernels(pieces: Sequence[Piece]) -> list[str]:
    views = [view for piece in pieces for view in (piece.original, piece.present)]
    return sorted({t.type.name for view in views if view is not None for t in view.tensors})
