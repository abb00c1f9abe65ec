"""Importance matrices of llama.cpp: what they were made of, and which columns matter most.

For each weight tensor such a file has the sums of the squares of what its columns were multiplied
with, and how often (llama.cpp, tools/imatrix/imatrix.cpp). The importance of a column is their
ratio. The older form, without names of tensors' parts, is read by `formats/imatrix.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from explorer.analysis.what_if import importance_of
from explorer.formats.model import Model
from explorer.formats.tensors import Tensor
from explorer.parallel import Check, never

SUMS: Final = ".in_sum2"
COUNTS: Final = ".counts"
MOST_COLUMNS: Final = 16
"""Columns of a tensor that are listed."""

_TOP_SHARE: Final = 100  # one of so many columns: the top per cent
_MOST_DATASETS: Final = 64


@dataclass(frozen=True, slots=True)
class MatrixEntry:
    """What the matrix has of one tensor.

    Attributes:
        name: The weight tensor.
        columns: Its columns.
        matrices: Matrices that are stacked in it, such as experts.
    """

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
