"""Where the strings of an array of strings begin.

GGUF stores them one behind the other, each behind its length, so that the end of the array is known
only after a walk over all of them, and everything else in the header lies behind it. A plain Python
loop takes 120 ns a string: 30 ms for a vocabulary of 262,144, as long as ggml's C takes for the
whole file. So the walk is made in NumPy; see `chains`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import numpy as np

from explorer.errors import FormatError
from explorer.formats.gguf.chains import (
    Order,
    Places,
    Starts,
    follow_chain,
    short_lengths,
)
from explorer.formats.limits import GGUF_MAX_STRING_BYTES
from explorer.sources import ByteSource

_WINDOW_BYTES = 1 << 18  # with its arrays it stays within a core's cache
_FEW: Final = 64  # strings that are walked faster one at a time
_USUAL_BYTES: Final = 64  # of a string with its length, a generous guess before the first are seen
_STEPS: Final = {
    (width, order): struct.Struct(sign + code).unpack_from
    for width, code in ((4, "I"), (8, "Q"))
    for order, sign in (("little", "<"), ("big", ">"))
}


def walk_strings(
    source: ByteSource, offset: int, count: int, width: int, order: Order
) -> Iterator[Places]:
    """Yield the offsets of the strings' length fields, a window of the file at a time.

    The last item is the offset behind the last string, alone.

    Args:
        source: The file.
        offset: Offset of the first string's length field.
        count: Number of strings.
        width: Bytes of a length field: 8, or 4 in version 1.
        order: Byte order of the file.

    Raises:
        FormatError: A string runs past the end of the file or is longer than ggml allows.
    """
    end = offset
    for position, starts, after in _windows(source, offset, count, width, order):
        yield starts + np.int64(position)
        end = after
    yield np.array([end], dtype=np.int64)


def end_of_strings(source: ByteSource, offset: int, count: int, width: int, order: Order) -> int:
    """Return the offset behind the last string; takes and raises what `walk_strings` does."""
    end = offset
    for _, _, after in _windows(source, offset, count, width, order):
        end = after
    return end


def _windows(
    source: ByteSource, offset: int, count: int, width: int, order: Order
) -> Iterator[tuple[int, Starts, int]]:
    """Yield of each window its offset, the length fields in it, and the offset behind the last."""
    position = offset
    left = count
    usual = _USUAL_BYTES
    while left:
        if position + width > source.size:
            raise FormatError(
                f"file ends inside an array of strings: {left} of {count} are missing",
                source.path,
                position,
            )
        size = min(_WINDOW_BYTES, left * usual, source.size - position)
        starts, step = _walk_window(source.read(position, size), left, width, order)
        last = int(starts[-1])
        length = step - last - width
        if length > GGUF_MAX_STRING_BYTES or position + step > source.size:
            raise FormatError(
                f"a string of {length} bytes in an array, where "
                f"{source.size - position - last - width} bytes are left",
                source.path,
                position + last,
            )
        yield position, starts, position + step
        position += step
        left -= len(starts)
        usual = width + step * 9 // (8 * len(starts))  # not far beyond the last one


def _walk_window(window: bytes, count: int, width: int, order: Order) -> tuple[Starts, int]:
    """Return the length fields that begin and end in the window, and where the next one begins.

    The next one may begin outside the window. At least one is returned.
    """
    if count <= _FEW:
        return _step(window, 0, count, width, order)
    if not any(window[: 2 * width]):  # a sparse file may be nothing but empty strings
        empty = min(count, (len(window) - len(window.lstrip(b"\0"))) // width)
        if empty * width > len(window) // 2:
            return width * np.arange(empty, dtype=np.uint32), width * empty
    places, lengths = short_lengths(window, width, order)
    lengths += places
    lengths += np.uint32(width)
    ends = lengths
    return follow_chain(
        places,
        ends,
        count,
        lambda position, most: _step(window, position, most, width, order),
    )


def _step(window: bytes, position: int, count: int, width: int, order: Order) -> tuple[Starts, int]:
    """Walk over at most `count` strings one at a time; return as `_walk_window` does."""
    length_at = _STEPS[width, order]
    last_start = len(window) - width
    starts = []
    for _ in range(count):
        if position > last_start:
            break
        starts.append(position)
        position += width + length_at(window, position)[0]
    return np.array(starts, dtype=np.uint32), position
