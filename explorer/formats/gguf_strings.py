"""Where the strings of an array of strings begin.

GGUF stores them one behind the other, each behind its length, so that the end of the array is known
only after a walk over all of them, and everything else in the header lies behind it. A plain Python
loop takes 120 ns a string: 30 ms for a vocabulary of 262,144, as long as ggml's C takes for the whole
file. So the walk is made in NumPy. A length below 256 is one byte and seven zero bytes; text has no
such run of zeros, so all places that look like a length are found at once, and they are the true
ones if each points exactly at the next. Where that fails (a long string, an empty one, zeros inside
a string) the walk goes on one string at a time until both agree again: the result is always that of
the plain loop, and so is the time of a file that is made to break every chain.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from explorer.errors import FormatError
from explorer.formats.limits import GGUF_MAX_STRING_BYTES
from explorer.sources import ByteSource

_WINDOW_BYTES = 1 << 17  # with its arrays it stays within a core's cache
_SHORT_CHAIN: Final = 32  # fewer strings than that are walked faster one at a time
_FEWEST_STEPS: Final = 4

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
    # a chain of candidates, each pointing at the next, ends where this is true
    breaks = np.flatnonzero(targets[:-1] != candidates[1:])
    last_start = len(window) - width
    steps = _FEWEST_STEPS
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
            empty = min(count, _zeros(window, position) // width)
            piece = position + width * np.arange(empty, dtype=np.int64)
            position += width * empty
        pieces.append(piece)
        count -= len(piece)
        if len(piece) >= _SHORT_CHAIN:
            steps = _FEWEST_STEPS
            continue
        # the longer chains keep breaking, the longer the stretch without looking for one
        piece, position = _step(window, position, min(count, steps), width, order)
        pieces.append(piece)
        count -= len(piece)
        steps *= 2
    return np.concatenate(pieces), position


def _candidates(
    window: bytes, width: int, order: Order
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places that look like a length from 1 to 255, and where such a string would end.

    The zeros of such a length always fill an aligned word of half its width. So words are searched,
    which are few, and the bytes beside a zero word tell the rest. A length at either end of the
    window may be left out.
    """
    half = width // 2
    sign, toward = ("<", -1) if order == "little" else (">", 1)
    raw = np.frombuffer(window, dtype=np.uint8)
    words = np.frombuffer(window, dtype=f"{sign}u{half}", count=len(window) // half)
    zero = np.flatnonzero(words[1:-1] == 0) + 1
    # the word beside the zero one that holds the length's one byte, and the word on the other side
    beside, other = words.take(zero + toward), words.take(zero - toward)
    between = (beside < 1 << 8).view(np.uint8)  # zero bytes between the zero word and that byte
    for size in range(2, half):
        between = between + (beside < 1 << 8 * size).view(np.uint8)
    byte = zero * half
    if order == "little":
        byte -= 1
        byte -= between
    else:
        byte += half
        byte += between
    lengths = raw.take(byte)
    # the bytes of the length that are in neither of the two words
    rest = np.array([(1 << 8 * (half - 1 - n)) - 1 for n in range(half)], dtype=words.dtype)
    good = lengths != 0
    good &= (other & rest.take(between)) == 0
    byte, lengths = byte[good], lengths[good]
    places = byte if order == "little" else byte - (width - 1)
    return places, places + width + lengths


def _zeros(window: bytes, position: int) -> int:
    """Return how many zero bytes there are from `position` on."""
    count, size = 0, 64
    while True:
        piece = window[position + count : position + count + size]
        zeros = len(piece) - len(piece.lstrip(b"\0"))
        count += zeros
        if not piece or zeros < len(piece):
            return count
        size *= 4


def _step(
    window: bytes, position: int, count: int, width: int, order: Order
) -> tuple[NDArray[np.int64], int]:
    """Walk over at most `count` strings one at a time; return as `_walk_window` does."""
    sign = "<" if order == "little" else ">"
    length_at = struct.Struct(f"{sign}{'Q' if width == 8 else 'I'}").unpack_from
    last_start = len(window) - width
    starts = []
    for _ in range(count):
        if position > last_start:
            break
        starts.append(position)
        position += width + length_at(window, position)[0]
    return np.array(starts, dtype=np.int64), position
