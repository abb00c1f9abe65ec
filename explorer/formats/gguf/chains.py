"""Follow things that lie one behind the other, each of which tells where the next one begins.

Strings of an array and records of the tensor table are such. Following them one at a time is a loop
of Python; here, NumPy proposes all places that look like a beginning, and they are the true ones if
each points exactly at the next. Where that fails, the walk goes on one at a time until both agree
again. So the result is always that of the plain loop, and so is the time of a file that is made to
break every chain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Order: TypeAlias = Literal["little", "big"]
Places: TypeAlias = NDArray[np.int64]

Starts: TypeAlias = NDArray[np.uint32]
"""Places in a window of a file."""

Step: TypeAlias = Callable[[int, int], tuple[Starts, int]]
"""Takes a position and a count; returns where at most so many things begin, and the position behind
them. No things end the walk."""

_SHORT_CHAIN: Final = 32  # fewer things than that are walked faster one at a time
_FEWEST_STEPS: Final = 4
_LONGEST: Final = 255
_NONE: Final[Starts] = np.zeros(0, dtype=np.uint32)


def follow_chain(candidates: Starts, ends: Starts, count: int, step: Step) -> tuple[Starts, int]:
    """Follow at most `count` things from position 0 on.

    Args:
        candidates: Places that look like a beginning, ascending, uint32 [n].
        ends: Where such a thing would end, uint32 [n].
        count: Number of things there are.
        step: Walks without candidates.

    Returns:
        Where the things begin, and the position behind the last one.
    """
    # a chain of candidates, each pointing at the next, ends where this is true
    breaks = np.flatnonzero(ends[:-1] != candidates[1:])
    pieces: list[Starts] = []
    steps = _FEWEST_STEPS
    position = 0
    while count:
        first = bisect_left(candidates, position)
        if first < len(candidates) and candidates[first] == position:
            after = bisect_left(breaks, first)
            stop = int(breaks[after]) + 1 if after < len(breaks) else len(candidates)
            piece = candidates[first : min(stop, first + count)]
            position = int(ends[first + len(piece) - 1])
            pieces.append(piece)
            count -= len(piece)
            if len(piece) >= _SHORT_CHAIN:
                steps = _FEWEST_STEPS
                continue  # perhaps only a candidate in between was none
        # the longer chains keep breaking, the longer the stretch without looking for one
        piece, position = step(position, min(count, steps))
        if not len(piece):
            break
        pieces.append(piece)
        count -= len(piece)
        steps *= 2
    return pieces[0] if len(pieces) == 1 else np.concatenate([_NONE, *pieces]), position


def short_lengths(window: bytes, width: int, order: Order) -> tuple[Starts, Starts]:
    """Return the places in a window that hold a length from 1 to 255, and these lengths.

    Such a length is one byte and `width` - 1 zeros; text has no such run of zeros. The zeros always
    fill one aligned word of half the width, so words are searched, which are few, and the words on
    either side of a zero one tell the rest. A length at either end of the window may be left out.

    Args:
        window: Bytes, less than 2^32.
        width: Bytes of a length field: 8, or 4 in version 1.
        order: Byte order of the file.

    Returns:
        Ascending places and their lengths, both uint32 [n].
    """
    half = width // 2
    count = len(window) // half
    if order == "little":
        words = np.frombuffer(window, f"<u{half}", count)
        beside, beyond = words[:-2], words[2:]  # where the one byte is, and where more zeros are
    else:
        words = np.frombuffer(window, f">u{half}", count).astype(f"u{half}")
        beside, beyond = words[2:], words[:-2]
    (zero,) = (words[1:-1] == 0).nonzero()
    upper = beside.take(zero)
    beneath = (upper >= 1 << 8).view(np.uint8)  # bytes of the word that lie under the one byte
    for size in range(2, half):
        beneath += (upper >= 1 << 8 * size).view(np.uint8)
    beneath = beneath.astype(words.dtype)
    lengths = upper >> 8 * beneath
    # the field's other end; with what is there, a length that is not short becomes larger than 255
    lengths |= beyond.take(zero) << 8 * (half - beneath)
    places = zero.astype(np.uint32)
    places *= half
    places += beneath if order == "little" else half - beneath
    lengths = lengths.astype(np.uint32, copy=False)
    if len(lengths) and (lengths.max() > _LONGEST or not lengths.min()):
        good = np.flatnonzero(lengths - 1 < _LONGEST)  # 0 - 1 is the largest number
        return places.take(good), lengths.take(good)
    return places, lengths
