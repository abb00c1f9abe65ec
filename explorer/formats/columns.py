"""A model's tensors as NumPy columns, so that a table filters and sorts without touching a tensor.

Made once for a model, in a worker, with a rank for each name: sorting a column of text is then a
sort of integers. Comparing texts while sorting, as a proxy model does, blocks the window.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from explorer.formats.tensors import (
    Shape,
    Tensor,
    TensorColumns,
    TensorTable,
    natural_key,
    parse_name,
)
from explorer.parallel import Check, checked, never
from explorer.quantization import TensorType
from explorer.text import AtLeast

_INT64_MAX: Final = (1 << 63) - 1

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class SizeArrays:
    """The shapes and sizes of a tensor table, a row for each tensor in file order.

    Values that repeat are kept once, with a code a row. Numbers that do not fit into 64 bits are
    replaced by the largest that does.
    """

    shapes: Sequence[Shape]  # the shapes that occur, outermost dimension first
    shape_codes: NDArray[np.int64]  # index into `shapes`, int64 [n]
    parameters: NDArray[np.int64]  # weights, int64 [n]
    nbytes: NDArray[np.int64]  # stored bytes, see `Tensor.nbytes`, int64 [n]
    sized: NDArray[np.bool_]  # whether these are known, bool [n]

    def __len__(self) -> int:
        return len(self.parameters)

    @cached_property
    def bits_per_weight(self) -> NDArray[np.float64]:
        """Stored bits for each weight, as `tensors.bits_per_weight`, float64 [n]."""
        parameters = self.parameters.astype(np.float64)
        bits = 8.0 * self.nbytes.astype(np.float64)
        found = np.divide(bits, parameters, out=np.zeros_like(bits), where=parameters > 0)
        return np.where(self.sized, found, np.nan)

    def total_bytes(self, rows: NDArray[np.intp]) -> int:
        """Return the stored bytes of some rows together."""
        total = int(self.nbytes[rows].sum())
        return total if self.sized[rows].all() else AtLeast(total)


@dataclass(frozen=True, kw_only=True)
class TensorArrays(SizeArrays):
    """The columns of a tensor table, also those that only the tensors themselves know."""

    names: Sequence[str]  # names in lower case
    types: Sequence[TensorType]  # the tensor types that occur
    type_codes: NDArray[np.int64]  # index into `types`, int64 [n]
    roles: Sequence[str]  # the roles that occur, in lower case
    role_codes: NDArray[np.int64]  # index into `roles`, int64 [n]
    files: Sequence[Path]  # the files that hold tensors
    file_codes: NDArray[np.int64]  # index into `files`, int64 [n]
    schemes: Sequence[str]  # the quantization methods that occur, "" for none that is known
    scheme_codes: NDArray[np.int64]  # index into `schemes`, int64 [n]
    groups: NDArray[np.int64]  # weights of a row that share a scale, 0 where not known, int64 [n]
    layers: NDArray[np.int64]  # layer number, -1 outside the layers, int64 [n]
    offsets: NDArray[np.int64]  # first byte in the file, int64 [n]
    damaged: NDArray[np.bool_]  # whether the bytes cannot all be read, bool [n]
    name_ranks: NDArray[np.int64]  # place of the name in natural order, int64 [n]

    @cached_property
    def role_ranks(self) -> NDArray[np.int64]:
        """Place of the role in natural order, int64 [n]."""
        return text_ranks(self.roles)[self.role_codes]

    @cached_property
    def type_ranks(self) -> NDArray[np.int64]:
        """Place of the type's name in natural order, int64 [n]."""
        return text_ranks([kind.name for kind in self.types])[self.type_codes]

    @cached_property
    def shape_ranks(self) -> NDArray[np.int64]:
        """Place of the shape, by its outermost dimension first, int64 [n]."""
        return _ranks(self.shapes, self.shapes)[self.shape_codes]

    @cached_property
    def dimensions(self) -> NDArray[np.int64]:
        """Number of dimensions, int64 [n]."""
        counts = np.array([len(shape) for shape in self.shapes], dtype=np.int64)
        return counts[self.shape_codes]


def _coded(values: Iterable[K]) -> tuple[list[K], NDArray[np.int64]]:
    """Return the distinct values of a column in order of appearance, and a code for each row."""
    code_of: dict[K, int] = {}
    codes = [code_of.setdefault(value, len(code_of)) for value in values]
    return list(code_of), np.array(codes, dtype=np.int64)


def size_arrays(columns: TensorColumns) -> SizeArrays:
    """Return the shapes and sizes of a table as arrays; they are known without any tensor."""
    shapes, shape_codes = _coded(columns.shapes)
    return SizeArrays(
        shapes=shapes,
        shape_codes=shape_codes,
        parameters=_int64(columns.parameters),
        nbytes=_int64(columns.nbytes),
        sized=np.array([type(size) is int for size in columns.nbytes], dtype=np.bool_),
    )


def tensor_arrays(table: TensorTable, check: Check = never) -> TensorArrays:
    """Make the columns of a table. For a worker: it reads every tensor.

    Args:
        check: Called every few thousand tensors, and raises to stop.
    """
    tensors = list(checked(table.rows, check))
    columns = table.columns
    parsed = [parse_name(name) for name in columns.names]
    types, type_codes = _coded(columns.types)
    roles, role_codes = _coded(name.role.lower() for name in parsed)
    files, file_codes = _coded(tensor.file for tensor in tensors)
    schemes, scheme_codes = _coded(tensor.scheme for tensor in tensors)
    made = TensorArrays(
        **vars(size_arrays(columns)),
        names=[name.lower() for name in columns.names],
        types=types,
        type_codes=type_codes,
        roles=roles,
        role_codes=role_codes,
        files=files,
        file_codes=file_codes,
        schemes=schemes,
        scheme_codes=scheme_codes,
        groups=_int64(_group_size(tensor) for tensor in tensors),
        layers=_int64(-1 if name.layer is None else name.layer for name in parsed),
        offsets=_int64(tensor.offset for tensor in tensors),
        damaged=np.array([tensor.damage is not None for tensor in tensors], dtype=np.bool_),
        name_ranks=text_ranks(columns.names, check),
    )
    # by which tables sort: not in the thread of the window, where 30,000 roles would hold it up
    for ranks in ("role_ranks", "type_ranks", "shape_ranks"):
        getattr(made, ranks)
    return made


def _group_size(tensor: Tensor) -> int:
    return 0 if tensor.companions is None else tensor.companions.layout.group_size or 0


def text_ranks(texts: Sequence[str], check: Check = never) -> NDArray[np.int64]:
    """Return each text's place in natural order, int64 [n]; equal texts share a place.

    `check` is called every few thousand texts, and raises to stop.
    """
    distinct = list(dict.fromkeys(texts))
    keys = [(natural_key(text), text) for text in checked(distinct, check)]
    ranks = dict(zip(distinct, _ranks(keys, distinct).tolist(), strict=True))
    return np.array([ranks[text] for text in texts], dtype=np.int64)


def _ranks(keys: Sequence[Any], values: Sequence[Hashable]) -> NDArray[np.int64]:
    """Return the places of values sorted by their keys; equal values share one."""
    order = sorted(range(len(keys)), key=keys.__getitem__)
    ranks = np.zeros(len(keys), dtype=np.int64)
    rank = -1
    previous: object = None
    for row in order:
        if rank < 0 or values[row] != previous:
            rank, previous = rank + 1, values[row]
        ranks[row] = rank
    return ranks


def _int64(numbers: Iterable[int]) -> NDArray[np.int64]:
    return np.array([min(number, _INT64_MAX) for number in numbers], dtype=np.int64)
