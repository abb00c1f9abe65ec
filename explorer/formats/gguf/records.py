"""The tensor table of a GGUF file: a record for each tensor, kept as columns.

A model may have 20,000 tensors, and a hostile file ten times as many. Records are of no fixed size,
so they are followed as a chain (see `chains`), and NumPy gathers their fields from the places
where they lie.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.errors import FormatError
from explorer.formats.gguf.arrays import Layout
from explorer.formats.gguf.chains import Starts, follow_chain, short_lengths
from explorer.formats.gguf.cursor import Cursor, quoted
from explorer.formats.gguf.names import TensorNames
from explorer.formats.limits import MAX_DIMENSIONS, MAX_KEY_BYTES, MAX_NAMES_BYTES
from explorer.formats.metadata import decode_text

_FEW: Final = 64  # records that are walked faster one at a time
_WINDOW_BYTES: Final = 1 << 18  # with its arrays it stays within a core's cache
_USUAL_BYTES: Final = 64  # of a record with the names that are common
_AXES: Final = [f"dimension {axis}" for axis in range(MAX_DIMENSIONS)]


class TensorRecord(NamedTuple):
    """A line of the tensor table.

    Attributes:
        name: Decoded name.
        dims: Dimensions in ggml order, the row length first.
        type_id: ggml's type id.
        data_offset: First byte, counted from the start of the tensor data.
    """

    name: str
    dims: tuple[int, ...]
    type_id: int
    data_offset: int


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Records of one file that lie one behind the other, found and not yet read.

    Attributes:
        text: Their bytes.
        starts: First byte of each record in `text`, uint32 [n].
        offset: First byte of `text` in the file.
        layout: How the file writes numbers.
    """

    text: bytes | memoryview
    starts: Starts
    offset: int
    layout: Layout

    @property
    def record_offsets(self) -> NDArray[np.int64]:
        """First byte of each record in the file, int64 [n]."""
        return self.starts + np.int64(self.offset)


@dataclass(frozen=True)
class RecordTable:
    """Tensor records, a column for each field.

    Attributes:
        names: Names, not decoded yet.
        dims: Dimensions in ggml order, uint64 [4, n]; 1 where a tensor has fewer.
        ranks: Number of dimensions, int64 [n].
        type_ids: ggml's type ids, int64 [n].
        data_offsets: First byte, counted from the start of the tensor data, uint64 [n].
    """

    names: TensorNames
    dims: NDArray[np.uint64]
    ranks: NDArray[np.int64]
    type_ids: NDArray[np.int64]
    data_offsets: NDArray[np.uint64]

    @classmethod
    def gathered(cls, runs: Sequence[RecordRun]) -> RecordTable:
        """Read the records of some runs, in order; at once, because a model may have 100 files."""
        tables = [_gather(list(alike), layout) for layout, alike in groupby(runs, _layout_of)]
        if not tables:
            return _gather([], Layout("little", 8))
        return tables[0] if len(tables) == 1 else cls._joined(tables)

    @classmethod
    def _joined(cls, tables: Sequence[RecordTable]) -> RecordTable:
        """Return one table with the rows of all."""
        return cls(
            TensorNames.joined([table.names for table in tables]),
            np.concatenate([table.dims for table in tables], axis=1),
            np.concatenate([table.ranks for table in tables]),
            np.concatenate([table.type_ids for table in tables]),
            np.concatenate([table.data_offsets for table in tables]),
        )

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, row: int) -> TensorRecord:
        return TensorRecord(
            self.names[row],
            tuple(self.dims[: self.ranks[row], row].tolist()),
            int(self.type_ids[row]),
            int(self.data_offsets[row]),
        )


def _layout_of(run: RecordRun) -> Layout:
    return run.layout


def find_records(cursor: Cursor, count: int) -> list[RecordRun]:
    """Find the records of the tensor table at the cursor and leave the cursor behind it.

    Raises:
        FormatError: A record is damaged or runs past the end of the file.
    """
    layout = cursor.layout
    longest = layout.width + MAX_KEY_BYTES + 4 + MAX_DIMENSIONS * layout.width + 12
    start = cursor.position
    runs: list[RecordRun] = []
    left = count
    while left:
        for size in (min(_WINDOW_BYTES, left * _USUAL_BYTES), longest):
            window, at = cursor.window(size)
            window = window[at : at + size]
            starts, end = _walk_window(window, left, layout)
            if len(starts):
                break
        else:
            raise _explain(cursor, count - left)
        # a view holds the whole window in memory, a part of it has to be copied
        text = memoryview(window)[:end] if 8 * end > 7 * len(window) else window[:end]
        runs.append(RecordRun(text, starts, cursor.position, layout))
        left -= len(starts)
        cursor.position += end
        # with the dimensions, which are 32 bytes of a record at most
        names_bytes = cursor.position - start - (count - left) * (layout.width + 16)
        if names_bytes > MAX_NAMES_BYTES:
            raise FormatError(
                "the tensor table holds more name text than any model has "
                f"({MAX_NAMES_BYTES} bytes)",
                cursor.source.path,
                cursor.position,
            )
    return runs


def _walk_window(window: bytes, count: int, layout: Layout) -> tuple[Starts, int]:
    """Return where the records begin that lie wholly in the window, and where the last one ends."""
    step = _stepper(window, layout)
    if count <= _FEW or len(window) < 64 * _FEW:
        return step(0, count)
    width = layout.width
    places, lengths = short_lengths(window, width, layout.order)
    after_name = places + lengths
    after_name += np.uint32(width)
    ranks = _numbers(window, f"{layout.prefix}u4")[np.minimum(after_name, len(window) - 4)]
    ends = after_name + 16
    ends += np.minimum(ranks, MAX_DIMENSIONS).astype(np.uint32) * np.uint32(width)
    likely = np.flatnonzero((ranks <= MAX_DIMENSIONS) & (ends <= len(window)))
    return follow_chain(places.take(likely), ends.take(likely), count, step)


def _stepper(window: bytes, layout: Layout) -> Callable[[int, int], tuple[Starts, int]]:
    """Return what walks over at most so many records from a position on, one at a time."""
    width = layout.width
    length_at = struct.Struct(layout.prefix + ("Q" if width == 8 else "I")).unpack_from
    rank_at = struct.Struct(layout.prefix + "I").unpack_from

    def step(position: int, count: int) -> tuple[Starts, int]:
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
        return np.array(starts, dtype=np.uint32), position

    return step


def _numbers(text: bytes, kind: str) -> NDArray[Any]:
    """Return a view of the bytes whose item i is the number that begins at byte i."""
    size = np.dtype(kind).itemsize
    return np.ndarray(len(text) - size + 1, kind, buffer=text, strides=(1,))


@cache
def _tail(layout: Layout, rank: int) -> np.dtype[np.void]:
    """Return the fields that follow the name in a record of `rank` dimensions.

    The type is as large for each rank, so that the tails of all records fit into one array.
    """
    width, number, count = layout.width, f"{layout.prefix}u4", f"{layout.prefix}u{layout.width}"
    after_dims = 4 + rank * width
    return np.dtype(
        {
            "names": ["rank", *_AXES[:rank], "type", "offset"],
            "formats": [number, *[count] * rank, number, f"{layout.prefix}u8"],
            "offsets": [0, *range(4, after_dims, width), after_dims, after_dims + 4],
            "itemsize": 4 + MAX_DIMENSIONS * width + 12,
        }
    )


def _gather(runs: Sequence[RecordRun], layout: Layout) -> RecordTable:
    """Return the fields of the records of some runs, all of one layout."""
    tails = [_tail(layout, rank) for rank in range(MAX_DIMENSIONS + 1)]
    # of the last record's tail there may be less than is read
    text = b"".join([*(run.text for run in runs), bytes(tails[0].itemsize)])
    names_start = np.empty(sum(len(run.starts) for run in runs), dtype=np.int64)
    row, shift = 0, layout.width
    for run in runs:
        np.add(run.starts, np.int64(shift), out=names_start[row : row + len(run.starts)])
        row, shift = row + len(run.starts), shift + len(run.text)
    lengths = _numbers(text, f"{layout.prefix}u{layout.width}")[names_start - layout.width]
    names_end = names_start + lengths.astype(np.int64)
    tail = _numbers(text, f"V{tails[0].itemsize}")[names_end]
    ranks = tail.view(tails[0])["rank"].astype(np.int64)
    dims = np.ones((MAX_DIMENSIONS, len(ranks)), dtype=np.uint64)
    type_ids = np.empty(len(ranks), dtype=np.int64)
    data_offsets = np.empty(len(ranks), dtype=np.uint64)
    for rank in range(int(ranks.max(initial=0)) + 1):
        fields, rows = tail.view(tails[rank]), ranks == rank
        np.copyto(type_ids, fields["type"], where=rows)
        np.copyto(data_offsets, fields["offset"], where=rows)
        for axis in range(rank):
            np.copyto(dims[axis], fields[_AXES[axis]], where=rows)
    return RecordTable(
        TensorNames(text, names_start, names_end), dims, ranks, type_ids, data_offsets
    )


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
