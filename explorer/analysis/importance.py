"""Importance matrices of llama.cpp: what they were made of, and which columns matter most.

For each weight tensor such a file has the sums of the squares of what its columns were multiplied
with, and how often (llama.cpp, tools/imatrix/imatrix.cpp). The importance of a column is their
ratio. The older form, without names of tensors' parts, is read by `formats/imatrix.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.matching.views import Weights, view_of
from explorer.errors import ExplorerError
from explorer.formats.attachments import SUMS
from explorer.formats.model import Model
from explorer.formats.tensors import Folding, Tensor
from explorer.formats.weights import Values
from explorer.parallel import Check, never

if TYPE_CHECKING:
    from explorer.analysis.errors.pairs import WeightsPair

COUNTS: Final = ".counts"
MAX_ROW: Final = 1 << 20
"""Most weights of a row that importance can be given for: a row is rounded at once then."""
_MOST_NUMBERS: Final = 1 << 26  # 1,024 experts of 65,536 columns
MOST_COLUMNS: Final = 16
"""Columns of a tensor that are listed."""

_TOP_SHARE: Final = 100  # one of so many columns: the top per cent
_MOST_DATASETS: Final = 64


def importance_of(matrix: Model, name: str) -> NDArray[np.float32] | None:
    """Return the importance of a tensor's columns, float32 [matrices, columns]; None if unknown.

    Columns of a matrix that was never used, such as an expert's, count 1; in the older form what
    stands there. Counts are rounded. Both as `load_imatrix` does.

    Raises:
        ExplorerError: The importance matrix is damaged, or of another model.
    """
    if name + SUMS not in matrix.tensors or name + COUNTS not in matrix.tensors:
        return None
    sums, counts = matrix.tensors[name + SUMS], matrix.tensors[name + COUNTS]
    columns = sums.shape[-1] if sums.shape else 1
    fit = sums.parameters == counts.parameters * columns
    if not (fit and 0 < sums.parameters <= _MOST_NUMBERS):
        what = f"{sums.parameters} sums of {name!r} do not fit {counts.parameters} counts"
        raise ExplorerError(what, matrix.path)
    squares = sums.dequantize().reshape(-1, columns)
    unused = squares if matrix.format == "imatrix" else np.float32(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        used = np.floor(counts.dequantize().reshape(-1, 1) + np.float32(0.5))
        importance = np.where(used > 0, squares / used, unused).astype(np.float32)
    finite = np.isfinite(squares).all() and np.isfinite(used).all()
    if not (finite and (squares >= 0).all()):
        raise ExplorerError(f"importance of {name!r} is not finite, or negative", matrix.path)
    return importance


def checked_importance(importance: NDArray[np.float32], weights: Weights) -> Values:
    """Return importance of the columns of weights as float32 [matrices, columns].

    Raises:
        ExplorerError: It does not fit the weights, or is not finite, or negative.
    """
    tensor = view_of(weights)
    columns = Folding(tensor.shape).columns
    matrices = prod(tensor.shape[:-2])
    rows = np.ascontiguousarray(importance, np.float32).reshape(-1, importance.shape[-1])
    if rows.size == matrices * columns:  # the older form has the columns of all experts in one row
        rows = rows.reshape(matrices, columns)
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


def importance_for(matrix: Model, name: str, weights: Weights) -> Values | None:
    """Return the importance of the columns of weights that a matrix knows by a name.

    It is float32 [matrices, columns]; None if the matrix does not have the name.

    Raises:
        ExplorerError: The importance matrix is damaged, or of another model.
    """
    found = importance_of(matrix, name)
    return None if found is None else checked_importance(found, weights)


def weighing(matrix: Model) -> Callable[[WeightsPair], Values | None]:
    """Return what gives the importance of a pair's columns, by either name of it; None if unknown.

    It raises what `importance_for` raises.
    """

    def of_pair(pair: WeightsPair) -> Values | None:
        for view in (pair.candidate, pair.reference):
            found = importance_for(matrix, view.name, view)
            if found is not None:
                return found
        return None

    return of_pair


@dataclass(frozen=True, slots=True)
class MatrixEntry:
    """What the matrix has of one tensor."""

    name: str
    columns: int
    matrices: int


@dataclass(frozen=True)
class ImportanceMatrix:
    """An importance matrix as its header describes it.

    Attributes:
        entries: The tensors that it knows.
        datasets: The texts that it was made of.
        chunks: Pieces of text; None if the file does not say.
        chunk_size: Tokens of a piece; None if the file does not say.
        legacy: Whether it has the form without GGUF.
    """

    entries: tuple[MatrixEntry, ...]
    datasets: tuple[str, ...]
    chunks: int | None
    chunk_size: int | None
    legacy: bool


@dataclass(frozen=True, slots=True)
class ColumnImportance:
    """One column: its place, its importance, and its share of the tensor's."""

    matrix: int
    column: int
    value: float
    share: float


@dataclass(frozen=True, slots=True)
class EntryStatistics:
    """The importance of a tensor's columns. Figures of nothing are NaN.

    Attributes:
        entry: The tensor.
        count_min: The least number of tokens that a matrix of it was used for.
        count_max: The greatest.
        unused: Matrices that were never used.
        minimum: The least importance of a column, over the matrices that were used.
        maximum: The greatest.
        mean: Their mean.
        std: Their standard deviation.
        evenness: Entropy of the shares by that of equal ones: 1 if all columns matter alike.
        top_share: Share of the most important hundredth of the columns.
        columns: The most important ones, the first first.
    """

    entry: MatrixEntry
    count_min: float
    count_max: float
    unused: int
    minimum: float
    maximum: float
    mean: float
    std: float
    evenness: float
    top_share: float
    columns: tuple[ColumnImportance, ...]


def read_matrix(model: Model) -> ImportanceMatrix:
    """Return what the header of an importance matrix says; reads no numbers of it."""
    entries = []
    for tensor in model.tensors.rows:
        if tensor.name.endswith(SUMS):
            columns = tensor.shape[-1] if tensor.shape else 1
            count = tensor.parameters // columns if columns else 0
            entries.append(MatrixEntry(tensor.name.removesuffix(SUMS), columns, count))
    return ImportanceMatrix(
        tuple(entries),
        tuple(_datasets(model)),
        model.metadata.integer("imatrix.chunk_count"),
        model.metadata.integer("imatrix.chunk_size"),
        model.format == "imatrix",
    )


def _datasets(model: Model) -> Iterator[str]:
    entry = model.metadata.entry("imatrix.datasets")
    if entry is None or entry.length is None or entry.length > _MOST_DATASETS:
        return
    values = entry.value
    if not isinstance(values, str | int | float):
        yield from (value for value in values if isinstance(value, str) and value)


def entry_statistics(model: Model, entry: MatrixEntry, check: Check = never) -> EntryStatistics:
    """Return the importance of a tensor's columns.

    Raises:
        ExplorerError: The file is damaged there.
    """
    check()
    values = importance_of(model, entry.name)
    counts = _numbers(model.tensors.get(entry.name + COUNTS))
    used = counts > 0
    nan = math.nan
    if values is None or not values.size or not used.any():
        return EntryStatistics(entry, 0.0, 0.0, entry.matrices, nan, nan, nan, nan, nan, nan, ())
    wide = values[used].astype(np.float64)
    places = np.flatnonzero(used)
    total = float(wide.sum())
    flat = wide.reshape(-1)
    order = np.argsort(-flat, kind="stable")
    top = order[: max(1, math.ceil(len(flat) / _TOP_SHARE))]
    shares = flat / total if total > 0 else np.zeros_like(flat)
    return EntryStatistics(
        entry=entry,
        count_min=float(counts.min()),
        count_max=float(counts.max()),
        unused=int((~used).sum()),
        minimum=float(flat.min()),
        maximum=float(flat.max()),
        mean=float(flat.mean()),
        std=float(flat.std()),
        evenness=_evenness(shares),
        top_share=float(shares[top].sum()) if total > 0 else nan,
        columns=tuple(
            ColumnImportance(
                int(places[place // entry.columns]),
                int(place % entry.columns),
                float(flat[place]),
                float(shares[place]),
            )
            for place in order[:MOST_COLUMNS].tolist()
        ),
    )


def _numbers(tensor: Tensor | None) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    if tensor is None:
        return np.zeros(0)
    return tensor.dequantize().reshape(-1).astype(np.float64)


def _evenness(shares: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    known = shares[shares > 0]
    if len(shares) < 2 or not len(known):
        return math.nan
    return float(-(known * np.log(known)).sum() / math.log(len(shares)))
