"""The tensor table of a GGUF file: a record for each tensor, kept as columns.

A model may have 20,000 tensors, and a hostile file ten times as many. Records are of no fixed size,
so they are followed as a chain (see `gguf_chains`), and NumPy gathers their fields from the places
where they lie.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.errors import FormatError
from explorer.formats.gguf_arrays import Layout
from explorer.formats.gguf_chains import Places, follow_chain, short_lengths, whole_lengths
from explorer.formats.gguf_cursor import Cursor, quoted
from explorer.formats.gguf_names import TensorNames
from explorer.formats.limits import MAX_DIMENSIONS, MAX_KEY_BYTES, MAX_NAMES_BYTES
from explorer.formats.metadata import decode_text

_FEW: Final = 64  # records that are walked faster one at a time


class TensorRecord(NamedTuple):
    """A line of the tensor table.

    Attributes:
        name: Decoded name.
        dims: Dimensions in ggml order, the row length first.
        type_id: ggml's type id.
        data_offset: First byte, counted from the start of the tensor data.
        record_offset: First byte of this record in the file.
    """

    name: str
    dims: tuple[int, ...]
    type_id: int
    data_offset: int
    record_offset: int


@dataclass(frozen=True)
class RecordTable:
    """Tensor records, a column for each field.

    Attributes:
        names: Names, not decoded yet.
        dims: Dimensions in ggml order, uint64 [4, n]; 1 where a tensor has fewer.
        ranks: Number of dimensions, int64 [n].
        type_ids: ggml's type ids, int64 [n].
        data_offsets: First byte, counted from the start of the tensor data, uint64 [n].
        record_offsets: First byte of each record in the file, int64 [n].
    """

    names: TensorNames
    dims: NDArray[np.uint64]
    ranks: NDArray[np.int64]
    type_ids: NDArray[np.int64]
    data_offsets: NDArray[np.uint64]
    record_offsets: NDArray[np.int64]

    @classmethod
    def empty(cls) -> RecordTable:
        """Return a table without rows."""
        none = np.zeros(0, dtype=np.int64)
        dims = np.zeros((MAX_DIMENSIONS, 0), dtype=np.uint64)
        return cls(TensorNames(b"", none, none), dims, none, none, none.astype(np.uint64), none)

    @classmethod
    def joined(cls, tables: Sequence[RecordTable]) -> RecordTable:
        """Return one table with the rows of all."""
        if len(tables) == 1:
            return tables[0]
        if not tables:
            return cls.empty()
        return cls(
            TensorNames.joined([table.names for table in tables]),
            np.concatenate([table.dims for table in tables], axis=1),
            np.concatenate([table.ranks for table in tables]),
            np.concatenate([table.type_ids for table in tables]),
            np.concatenate([table.data_offsets for table in tables]),
            np.concatenate([table.record_offsets for table in tables]),
        )

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, row: int) -> TensorRecord:
        return TensorRecord(
            self.names[row],
            tuple(self.dims[: self.ranks[row], row].tolist()),
            int(self.type_ids[row]),
            int(self.data_offsets[row]),
            int(self.record_offsets[row]),
        )

    def __iter__(self) -> Iterator[TensorRecord]:
        return map(self.__getitem__, range(len(self)))


def read_records(cursor: Cursor, count: int) -> RecordTable:
    """Read the tensor table at the cursor and leave the cursor behind it.

    Raises:
        FormatError: A record is damaged or runs past the end of the file.
    """
    layout = cursor.layout
    longest = layout.width + MAX_KEY_BYTES + 4 + MAX_DIMENSIONS * layout.width + 12
    names_left = MAX_NAMES_BYTES
    tables: list[RecordTable] = []
    left = count
    while left:
        window, start = cursor.window(longest)
        window = window[start:]
        starts, end = _walk_window(window, left, layout)
        if not len(starts):
            raise _explain(cursor, count - left)
        table, names_bytes = _gather(window[:end], starts, cursor.position, layout)
        names_left -= names_bytes
        if names_left < 0:
            raise FormatError(
                "the tensor table holds more name text than any model has "
                f"({MAX_NAMES_BYTES} bytes)",
                cursor.source.path,
                cursor.position,
            )
        tables.append(table)
        left -= len(starts)
        cursor.position += end
    return RecordTable.joined(tables)


def _walk_window(window: bytes, count: int, layout: Layout) -> tuple[Places, int]:
    """Return where the records begin that lie wholly in the window, and where the last one ends."""
    step = _stepper(window, layout)
    if count <= _FEW or len(window) < 64 * _FEW:
        return step(0, count)
    width = layout.width
    places, lengths = short_lengths(window, width, layout.order)
    after_name = places + width
    after_name += lengths
    np.minimum(after_name, len(window) - 4, out=after_name)  # what is beyond fails as "whole" below
    ranks = _fields(window, layout, 4)[after_name]
    likely = np.flatnonzero(ranks <= MAX_DIMENSIONS)
    places, ends = places.take(likely), after_name.take(likely)
    ends += ranks.take(likely).astype(np.int64) * width + 16
    whole = whole_lengths(window, places, width, layout.order)
    whole &= ends <= len(window)
    if not whole.all():
        places, ends = places[whole], ends[whole]
    return follow_chain(places, ends, count, step)


def _stepper(window: bytes, layout: Layout) -> Callable[[int, int], tuple[Places, int]]:
    """Return what walks over at most so many records from a position on, one at a time."""
    width = layout.width
    length_at = struct.Struct(layout.prefix + ("Q" if width == 8 else "I")).unpack_from
    rank_at = struct.Struct(layout.prefix + "I").unpack_from

    def step(position: int, count: int) -> tuple[Places, int]:
        starts = []
        for _ in range(count):
            if position + width > len(window):
                break
            after_name = position + width + length_at(window, position)[0]
            if after_name - position - width > MAX_KEY_BYTES or after_name + 4 > len(window):
                break
            (rank,) = rank_at(window, after_name)
            end = after_name + rank * width + 16
            if rank > MAX_DIMENSIONS or end > len(window):
                break
            starts.append(position)
            position = end
        return np.array(starts, dtype=np.int64), position

    return step


def _fields(window: bytes, layout: Layout, size: int) -> NDArray[Any]:
    """Return a view of the window whose item i is the unsigned number of `size` bytes at byte i."""
    kind = np.dtype(f"{layout.prefix}u{size}")
    return np.ndarray(len(window) - size + 1, kind, buffer=window, strides=(1,))


def _gather(window: bytes, starts: Places, base: int, layout: Layout) -> tuple[RecordTable, int]:
    """Return the fields of records that fill the window, and the bytes of their names."""
    width = layout.width
    numbers, counts = _fields(window, layout, 4), _fields(window, layout, width)
    names_start = starts + width
    names_end = names_start + counts[starts].astype(np.int64)
    ranks = numbers[names_end].astype(np.int64)
    after_dims = names_end + 4 + ranks * width
    dims = np.ones((MAX_DIMENSIONS, len(starts)), dtype=np.uint64)
    for axis in range(int(ranks.max())):
        # a dimension that a record has not is read from inside the record, and not used
        places = np.minimum(names_end + (4 + axis * width), after_dims)
        np.copyto(dims[axis], counts[places], where=ranks > axis)
    table = RecordTable(
        TensorNames(window, names_start, names_end),
        dims,
        ranks,
        numbers[after_dims].astype(np.int64),
        _fields(window, layout, 8)[after_dims + 4].astype(np.uint64),
        starts + base,
    )
    return table, int((names_end - names_start).sum())


def _explain(cursor: Cursor, index: int) -> FormatError:
    """Read a record again, field by field, to say what is wrong with it."""
    at = cursor.position
    try:
        name = decode_text(cursor.string(f"the name of tensor {index}", MAX_KEY_BYTES))
        rank = cursor.u32(f"the number of dimensions of tensor {quoted(name)}")
        if rank > MAX_DIMENSIONS:
            return FormatError(
                f"tensor {quoted(name)} has {rank} dimensions, at most {MAX_DIMENSIONS} are "
                "allowed",
                cursor.source.path,
                at,
            )
        cursor.take(rank * cursor.layout.width + 12, f"the record of tensor {quoted(name)}")
    except FormatError as error:
        return error
    return FormatError("changed while it was read; open it again", cursor.source.path, at)
