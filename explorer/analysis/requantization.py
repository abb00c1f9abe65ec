"""What a tensor would lose, and how small it would be, in another type. Nothing is written.

Each type has a walk of its own: weights are decoded, rounded, decoded again and compared, a run at
a time, so that memory is bounded whatever the tensor's size and however many types are asked for.
Decoding again for each type costs a tenth of the quickest rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.codes import CodeCounts
from explorer.analysis.errors import ErrorFigures
from explorer.analysis.lockstep import RUN_WEIGHTS, Run, flat_spans, measure_pairs
from explorer.analysis.rounding import Rounder, rounder
from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor
from explorer.formats.weights import Check, WeightReader, never
from explorer.formats.weights_runs import Values, check_decodable

MAX_ROW: Final = 1 << 20
"""Most weights of a row that importance can be given for: a row is rounded at once then."""


@dataclass(frozen=True, slots=True)
class Requantized:
    """What is left of a tensor in a type.

    Attributes:
        type: The type's name.
        nbytes: Bytes that the tensor would take; None if it cannot have the type.
        bits_per_weight: Bits that a weight would take; None if it cannot have the type.
        errors: What was lost against the tensor as it is; None if it cannot have the type.
        saturated_codes: Share of codes that are the least or the greatest; None without codes.
        problem: Why the tensor cannot have the type, or None.
    """

    type: str
    nbytes: int | None
    bits_per_weight: float | None
    errors: ErrorFigures | None
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
    """Yield what would be left of a tensor in each type, as it is known.

    Args:
        tensor: The tensor; what is lost is told against its weights as they are, so that of an
            already quantized one the error against the original is larger.
        type_names: See `rounding.rounder`.
        importance: float32 [columns], or [matrices, columns] for a tensor of several matrices, such
            as experts: how much the square error of a weight counts where a type is searched for.
        workers: Threads.
        cancel: Called before every run, in the thread that reads it; what it raises is passed on.
        progress: Called in the caller's thread with the number of weights rounded so far, of all
            types together.

    Raises:
        ExplorerError: A type is not known, or importance does not fit the tensor.
        FormatError: The file is damaged there, or the tensor's weights cannot be decoded.
        SourceError: The file changed since it was opened.
    """
    check_decodable(tensor)
    weighing = None if importance is None else _checked(importance, tensor)
    for name in type_names:
        rounder(name)  # all names are checked before the first type is tried
    return _Walks(tensor, weighing, workers, cancel or never).each(type_names, progress)


@dataclass(frozen=True, slots=True)
class _Walks:
    """A tensor that is rounded to one type after the other; the arguments of `requantize`."""

    tensor: Tensor
    importance: Values | None
    workers: int
    check: Check

    def each(
        self, type_names: Sequence[str], progress: Callable[[int], object] | None
    ) -> Iterator[Requantized]:
        for number, name in enumerate(type_names):
            before = number * self.tensor.parameters

            def tell(done: int, before: int = before) -> None:
                if progress is not None:
                    progress(before + done)

            yield self._one(name, tell)
            tell(self.tensor.parameters)

    def _one(self, name: str, tell: Callable[[int], object]) -> Requantized:
        tensor, importance = self.tensor, self.importance
        kind = rounder(name, tensor.type.name).type
        columns = tensor.shape[-1] if tensor.shape else 1
        if columns % kind.block_weights:
            blocks = f"blocks of {kind.block_weights}"
            problem = f"rows of {columns} weights are no whole number of {blocks}"
            return Requantized(name, None, None, None, problem=problem)
        made: list[_Rounded] = []

        def make() -> _Rounded:
            made.append(_Rounded(tensor, rounder(name, tensor.type.name), importance))
            return made[-1]

        if importance is None:
            spans = flat_spans(tensor.parameters)
        else:
            spans = _row_spans(tensor.parameters, columns, len(importance))
        errors = measure_pairs(spans, make, workers=self.workers, check=self.check, progress=tell)
        nbytes = kind.nbytes(tensor.parameters)
        assert nbytes is not None  # its rows are whole blocks
        bits = 8 * kind.block_bytes / kind.block_weights
        return Requantized(name, nbytes, bits, errors.figures(), _saturated(made))


def _checked(importance: NDArray[np.float32], tensor: Tensor) -> Values:
    """Return importance as float32 [matrices, columns]."""
    columns = tensor.shape[-1] if tensor.shape else 1
    matrices = prod(tensor.shape[:-2])
    rows = np.ascontiguousarray(importance, np.float32).reshape(-1, importance.shape[-1])
    if rows.shape[1] != columns or len(rows) not in {1, matrices}:
        raise ExplorerError(
            f"importance of {len(rows)} x {rows.shape[1]} columns does not fit tensor "
            f"{tensor.name!r}, {matrices} x {columns}"
        )
    if columns > MAX_ROW:
        raise ExplorerError(f"rows of {columns} weights are too long to be weighed by importance")
    if not (np.isfinite(rows).all() and (rows >= 0).all()):
        raise ExplorerError(f"importance of tensor {tensor.name!r} must be finite, not negative")
    return rows


def _row_spans(count: int, columns: int, matrices: int) -> Iterator[Sequence[Run]]:
    """Yield runs of whole rows that do not cross from one matrix into the next, each by itself."""
    matrix = count // matrices
    length = max(1, RUN_WEIGHTS // columns) * columns if columns else 1
    for start in range(0, count, max(1, matrix)):
        for place in range(start, start + matrix, length):
            yield [(place, min(length, start + matrix - place))]


def _saturated(made: Sequence[_Rounded]) -> float | None:
    counts = [one.counts for one in made if one.counts is not None]
    if not counts:
        return None
    for other in counts[1:]:
        counts[0].combine(other)
    return counts[0].shares().saturated_share


class _Rounded:
    """A tensor's weights, and what is left of them; see `lockstep.Pairs`."""

    def __init__(self, tensor: Tensor, kind: Rounder, importance: Values | None) -> None:
        self.counts = None if kind.levels is None else CodeCounts(kind.levels)
        self._reader = WeightReader(tensor)
        self._rounder = kind
        self._importance = importance
        self._matrix = tensor.parameters // len(importance) if importance is not None else 0
        self._values: Values = np.empty(0, np.float32)

    def read(self, run: Run, check: Check) -> tuple[Values, Values]:
        """Return a run of weights before and after rounding."""
        start, count = run
        if self._values.size < count:
            self._values = np.empty(count, np.float32)
        values = self._values[:count]
        self._reader.read_into(start, values, check)
        importance = None
        if self._importance is not None:
            importance = self._importance[start // self._matrix]
        rounded = self._rounder.round(values, importance)
        if self.counts is not None:
            self.counts.add(self._rounder.codes())
        return values, rounded
