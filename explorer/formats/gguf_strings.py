"""Where the strings of an array of strings begin.

GGUF stores them one behind the other, each behind its length, so that the end of the array is known
only after a walk over all of them, and everything else in the header lies behind it. A plain Python
loop takes 120 ns a string: 30 ms for a vocabulary of 262,144, as long as ggml's C takes for the whole
file. So the walk is made in NumPy. A length below 256 is one byte and seven zero bytes; text has no
such run of zeros, so all places that look like a length are found at once, and they are the true
ones if each points exactly at the next. Where that fails (a long string, an empty one, zeros inside
a string) the walk goes on one string at a time until both agree again: the result is always that of
the plain loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from explorer.errors import FormatError
from explorer.formats.limits import GGUF_MAX_STRING_BYTES
from explorer.sources import ByteSource

_WINDOW_BYTES = 1 << 18

Order = Literal["little", "big"]


def walk_strings(
    source: ByteSource, offset: int, count: int, width: int, order: Order
) -> Iterator[NDArray[np.int64]]:
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
    position = offset
    left = count
    while left:
        if position + width > source.size:
            raise FormatError(
                f"file ends inside an array of strings: {left} of {count} are missing",
                source.path,
                position,
            )
        window = source.read(position, min(_WINDOW_BYTES, source.size - position))
        starts, step = _walk_window(window, left, width, order)
        yield starts + position
        left -= len(starts)
        length = step - int(starts[-1]) - width
        if length > GGUF_MAX_STRING_BYTES or position + step > source.size:
            raise FormatError(
                f"a string of {length} bytes in an array, where "
                f"{source.size - position - int(starts[-1]) - width} bytes are left",
                source.path,
                position + int(starts[-1]),
            )
        position += step
    yield np.array([position], dtype=np.int64)


def _walk_window(
    window: bytes, count: int, width: int, order: Order
) -> tuple[NDArray[np.int64], int]:
    """Return the length fields that begin and end in the window, and where the next one begins.

    The next one may begin outside the window. At least one is returned.
    """
    candidates, targets = _candidates(window, width, order)
    # a run of candidates, each pointing at the next, ends where this is true
    breaks = np.flatnonzero(targets[:-1] != candidates[1:])
    last_start = len(window) - width
    pieces: list[NDArray[np.int64]] = []
    position = 0
    while count and position <= last_start:
        first = int(np.searchsorted(candidates, position))
        if first < len(candidates) and candidates[first] == position:
            after = int(np.searchsorted(breaks, first))
            stop = int(breaks[after]) + 1 if after < len(breaks) else len(candidates)
            piece = candidates[first : min(stop, first + count)]
            position = int(targets[first + len(piece) - 1])
        else:
            length = int.from_bytes(window[position : position + width], order)
            if length == 0:
                piece = _empty_strings(window, position, count, width)
                position = int(piece[-1]) + width
            else:
                piece = np.array([position], dtype=np.int64)
                position += width + length
        pieces.append(piece)
        count -= len(piece)
    return np.concatenate(pieces), position


def _candidates(
    window: bytes, width: int, order: Order
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places that look like a length from 1 to 255, and where such a string would end."""
    raw = np.frombuffer(window, dtype=np.uint8)
    zero = raw == 0
    run = zero[: len(zero) - width + 2].copy()  # run[i]: width - 1 zeros from i on
    for shift in range(1, width - 1):
        run &= zero[shift : shift + len(run)]
    if order == "little":
        places = np.flatnonzero(run[1:] & ~zero[: len(run) - 1])
        lengths = raw[places]
    else:
        places = np.flatnonzero(run[:-1] & ~zero[width - 1 : width - 2 + len(run)])
        lengths = raw[places + width - 1]
    return places, places + width + lengths


def _empty_strings(window: bytes, position: int, count: int, width: int) -> NDArray[np.int64]:
    """Return the length fields of a run of empty strings that begins at `position`."""
    fields = np.frombuffer(
        window,
        dtype=f"u{width}",
        offset=position,
        count=min(count, (len(window) - position) // width),
    )
    used = np.flatnonzero(fields)
    empty = int(used[0]) if len(used) else len(fields)
    return position + width * np.arange(empty, dtype=np.int64)
