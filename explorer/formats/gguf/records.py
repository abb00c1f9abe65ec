"""The tensor table of a GGUF file: a record for each tensor, kept as columns.

A model may have 20,000 tensors, and a hostile file ten times as many. Records are of no fixed size,
so they are followed as a chain (see `chains`), and NumPy gathers their fields from the places
where they lie.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby
from typing import Any, Final, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from explorer.errors import FormatError
from explorer.formats.gguf.arrays import Layout, Places, Starts, follow_chain, short_lengths
from explorer.formats.limits import MAX_DIMENSIONS, MAX_KEY_BYTES, MAX_NAMES_BYTES
from explorer.formats.model import decode_text
from explorer.sources import ByteSource

# A place in the header of a GGUF file, with the bytes around it.


_WINDOW_BYTES: Final = 1 << 14
_MOST_QUOTED: Final = 120


def quoted(name: str) -> str:
    """Return a name from the file for a message: escaped, and not longer than a line."""
    shown = repr(name[:_MOST_QUOTED])
    if len(name) <= _MOST_QUOTED and len(shown) <= 2 * _MOST_QUOTED:
        return shown
    return f"{shown[: 2 * _MOST_QUOTED]}…"  # a byte that is no text takes four or six characters


class Cursor:
    """A position in the header and a window of bytes around it.

    All that reads moves the position on, and takes `what` it reads for messages.

    Attributes:
        source: The file.
        layout: How it writes numbers.
        position: Offset of the next byte.

    Raises:
        FormatError: The file ends before what is read does, or a string is longer than its limit.
        SourceError: The file changed since it was opened.
    """

    def __init__(self, source: ByteSource, layout: Layout) -> None:
        self.source = source
        self.layout = layout
        self.position = 0
        self._window = b""
        self._base = 0

    def window(self, length: int) -> tuple[bytes, int]:
        """Return bytes that hold at least `length` from the position on, or up to the file's end.

        Returns:
            The bytes, and the place of the position in them.
        """
        left = max(0, self.source.size - self.position)
        start = self.position - self._base
        if start < 0 or start + min(length, left) > len(self._window):
            size = min(max(length, _WINDOW_BYTES), left)
            self._window = self.source.read(self.position, size)
            self._base = self.position
            start = 0
        return self._window, start

    def take(self, length: int, what: str) -> bytes:
        """Return the next `length` bytes."""
        start = self.position - self._base
        if 0 <= start <= len(self._window) - length:
            self.position += length
            return self._window[start : start + length]
        if length > self.source.size - self.position:
            raise FormatError(
                f"file ends inside {what}: {length} bytes expected, "
                f"{self.source.size - self.position} left; download it again",
                self.source.path,
                self.position,
            )
        window, start = self.window(length)
        self.position += length
        return window[start : start + length]

    def u32(self, what: str) -> int:
        """Return the next number of 4 bytes."""
        return int.from_bytes(self.take(4, what), self.layout.order)

    def count(self, what: str) -> int:
        """Return the next count or length: 8 bytes, or 4 in version 1."""
        return int.from_bytes(self.take(self.layout.width, what), self.layout.order)

    def string(self, what: str, limit: int) -> bytes:
        """Return the next string of at most `limit` bytes."""
        at = self.position
        length = self.count(f"the length of {what}")
        if length > limit:
            raise FormatError(
                f"{what} is {length} bytes long, at most {limit} are allowed; "
                "the header is damaged",
                self.source.path,
                at,
            )
        return self.take(length, what)


# The names of a tensor table, left as bytes until somebody looks.
#
# Opening a file has to know one thing about them, whether one occurs twice, and hashes of their
# bytes tell that without 20,000 pieces of text.


PIECE_BYTES: Final = 32
"""Names are hashed in pieces of so many bytes: most are not longer."""

# The first n bytes of a piece, for n from 0 to 32, as words of 8 bytes.
_MASKS: Final = np.where(
    np.arange(PIECE_BYTES) < np.arange(PIECE_BYTES + 1)[:, np.newaxis], np.uint8(255), np.uint8(0)
).view(np.uint64)
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: odd, mixes well
_UPPER_HALF: Final = np.uint64(32)
_SLOTS: Final = 1 << 16


class TensorNames(Sequence[str]):
    """Names by position; one is decoded when it is asked for, or all at once by `listed`.

    Attributes:
        text: Bytes with the names in them; at least `PIECE_BYTES` follow each name.
        starts: First byte of each name, int64 [n].
        ends: The byte behind each name, int64 [n].
    """

    def __init__(self, text: bytes, starts: Places, ends: Places) -> None:
        self.text = text
        self.starts = starts
        self.ends = ends

    @classmethod
    def joined(cls, parts: Sequence[TensorNames]) -> TensorNames:
        """Return the names of all parts."""
        shifts = np.cumsum([0, *(len(part.text) for part in parts)]).tolist()
        return cls(
            b"".join(part.text for part in parts),
            np.concatenate([part.starts + at for part, at in zip(parts, shifts, strict=False)]),
            np.concatenate([part.ends + at for part, at in zip(parts, shifts, strict=False)]),
        )

    @cached_property
    def listed(self) -> list[str]:
        """All names: pieces of one text if all are ASCII, which is four times faster."""
        starts, ends = self.starts.tolist(), self.ends.tolist()
        text = self.text.decode("latin-1")
        names = [text[start:end] for start, end in zip(starts, ends, strict=True)]
        if "".join(names).isascii():
            return names
        raw = self.text
        return [decode_text(raw[start:end]) for start, end in zip(starts, ends, strict=True)]

    def repeated(self) -> list[str]:
        """Return each further occurrence of a name that occurred before, in order."""
        if not _any_equal(self._hashes()):
            return []
        seen: set[str] = set()
        again = []
        for name in self.listed:  # equal hashes may come from different names
            if name in seen:
                again.append(name)
            seen.add(name)
        return again

    def _hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each name's bytes, uint64 [n]: equal names have equal hashes."""
        left = self.ends - self.starts
        result = left.astype(np.uint64)
        if not len(left):
            return result
        pieces = np.ndarray(
            len(self.text) - PIECE_BYTES + 1, f"V{PIECE_BYTES}", buffer=self.text, strides=(1,)
        )
        places = self.starts
        rows: NDArray[np.int64] | slice = slice(None)  # the names that go on
        while len(left):
            words = pieces[places].view(np.uint64).reshape(len(left), -1)
            words &= _MASKS.take(np.minimum(left, PIECE_BYTES), axis=0)
            mixed = result[rows]
            for word in words.T:
                mixed = (mixed ^ word) * _MULTIPLIER
                mixed ^= mixed >> _UPPER_HALF
            result[rows] = mixed
            longer = np.flatnonzero(left > PIECE_BYTES)
            rows = longer if isinstance(rows, slice) else rows[longer]
            places, left = places[longer] + PIECE_BYTES, left[longer] - PIECE_BYTES
        return result

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return self.listed[index]
        return decode_text(self.text[self.starts[index] : self.ends[index]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.listed)

    def __len__(self) -> int:
        return len(self.starts)


def _any_equal(hashes: NDArray[np.uint64]) -> bool:
    """Tell whether two hashes are equal.

    To sort them all would take twice as long as to compute them. So those are left out first that
    share 16 of their bits with no other one.
    """
    for part in (1, 3):
        slots = hashes.view(np.uint16)[part::4].astype(np.intp)
        rows = np.arange(len(hashes), dtype=np.uint32)
        last = np.empty(_SLOTS, dtype=np.uint32)  # row of each slot; only what is set is read
        last[slots] = rows
        shared = np.zeros(_SLOTS, dtype=np.bool_)
        shared[slots[last[slots] != rows]] = True
        hashes = hashes[shared[slots]]
    ordered = np.sort(hashes)
    return bool((ordered[1:] == ordered[:-1]).any())


_FEW: Final = 64  # records that are walked faster one at a time
_RECORDS_WINDOW_BYTES: Final = 1 << 18  # with its arrays it stays within a core's cache
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
        for size in (min(_RECORDS_WINDOW_BYTES, left * _USUAL_BYTES), longest):
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
