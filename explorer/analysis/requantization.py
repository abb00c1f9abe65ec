"""Errors and size of a tensor in other types. Nothing is written.

Weights are decoded, rounded, decoded again and compared, a run at a time, so that memory is bounded
whatever the tensor's size. They are read once for all types that round the same runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.errors.metrics import ErrorMetrics
from explorer.analysis.importance import checked_importance
from explorer.analysis.matching.views import TensorView
from explorer.analysis.what_if import Task, TaskErrors, TensorSet
from explorer.formats.tensors import Tensor
from explorer.formats.weights import check_decodable
from explorer.parallel import Check, never


@dataclass(frozen=True, slots=True)
class Requantized:
    """A tensor in another type.

    Attributes:
        type: The type's name.
        nbytes: Bytes that the tensor would take; None if it cannot have the type.
        bits_per_weight: Bits that a weight would take; None if it cannot have the type.
        errors: Against the tensor as it is; None if it cannot have the type.
        saturated_codes: Share of codes that are the least or the greatest; None without codes.
        problem: Why the tensor cannot have the type, or None.
    """

    type: str
    nbytes: int | None
    bits_per_weight: float | None
    errors: ErrorMetrics | None
    saturated_codes: float | None = None
    problem: str | None = None


def requantize(  # noqa: PLR0913 - all but the first two have a default
    tensor: Tensor,
    type_names: Sequence[str],
    importance: NDArray[np.float32] | None = None,
    workers: int = 1,
    *,
    cancel: Check | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Requantized]:
    """Yield errors and size of a tensor in each type, once those of all are known.

    Args:
        tensor: The tensor. Errors are against its weights as they are; if it is quantized already,
            the errors against the original are larger.
        type_names: See `rounding.rounder`.
        importance: float32 [columns], or [matrices, columns] for a tensor of several matrices, such
            as experts: how much the square error of a weight counts where a type is searched for.
        cancel: Called before every run, in the thread that reads it; what it raises is passed on.
        progress: Called in the caller's thread with the number of weights rounded so far, of all
            types together.

    Raises:
        ExplorerError: A type is not known, or importance does not fit the tensor.
        FormatError: The file is damaged there, or the tensor's weights cannot be decoded.
        SourceError: The file changed since it was opened.
    """
    check_decodable(tensor)
    weighing = None if importance is None else checked_importance(importance, tensor)
    alone = TensorSet((), TensorView.of(tensor), weighed=weighing is not None)
    kinds = [alone.kind(name, tensor.shape) for name in type_names]

    problems = {name: alone.problem(name) for name in type_names}

    def each() -> Iterator[Requantized]:
        tasks = [Task(alone, name) for name, problem in problems.items() if problem is None]
        measure = TaskErrors(importance=lambda _set: weighing).measure
        measured = measure(tasks, workers, check=cancel or never, progress=progress)
        found = {task.type_name: row for task, row in measured}
        for name, kind in zip(type_names, kinds, strict=True):
            if (problem := problems[name]) is not None:
                yield Requantized(name, None, None, None, problem=problem)
                continue
            row, size = found[name], (kind.nbytes_of(tensor.shape), kind.bits_per_weight)
            if row.errors is None:
                assert row.error is not None
                raise row.error
            yield Requantized(name, *size, row.errors.metrics, row.errors.saturated)

    return each()
