"""Follow things that lie one behind the other, each of which tells where the next one begins.

Strings of an array and records of the tensor table are such. Following them one at a time is a loop
of Python; here, NumPy proposes all places that look like a beginning, and they are the true ones if
each points exactly at the next. Where that fails, the walk goes on one at a time until both agree
again. So the result is always that of the plain loop, and so is the time of a file that is made to
break every chain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Order: TypeAlias = Literal["little", "big"]
Places: TypeAlias = NDArray[np.int64]

Step: TypeAlias = Callable[[int, int], tuple[Places, int]]
"""Takes a position and a count; returns where at most so many things begin, and the position behind
them. No things end the walk."""

_SHORT_CHAIN: Final = 32  # fewer things than that are walked faster one at a time
_FEWEST_STEPS: Final = 4


def follow_chain(candidates: Places, ends: Places, count: int, step: Step) -> tuple[Places, int]:
    """Follow at most `count` things from position 0 on.

    Args:
        candidates: Places that look like a beginning, ascending, int64 [n].
        ends: Where such a thing would end, int64 [n].
        count: Number of things there are.
        step: Walks without candidates.

    Returns:
        Where the things begin, and the position behind the last one.
    """
    # a chain of candidates, each pointing at the next, ends where this is true
    breaks = np.flatnonzero(ends[:-1] != candidates[1:])
    pieces: list[Places] = [np.zeros(0, dtype=np.int64)]
    steps = _FEWEST_STEPS
    position = 0
    while count:
        first = int(np.searchsorted(candidates, position))
        if first < len(candidates) and candidates[first] == position:
            after = int(np.searchsorted(breaks, first))
            stop = int(breaks[after]) + 1 if after < len(breaks) else len(candidates)
            piece = candidates[first : min(stop, first + count)]
            position = int(ends[first + len(piece) - 1])
            pieces.append(piece)
            count -= len(piece)
            if len(piece) >= _SHORT_CHAIN:
                steps = _FEWEST_STEPS
        # the longer chains keep breaking, the longer the stretch without looking for one
        piece, position = step(position, min(count, steps))
        if not len(piece):
            break
        pieces.append(piece)
        count -= len(piece)
        steps *= 2
    return np.concatenate(pieces), position


def short_lengths(window: bytes, width: int, order: Order) -> tuple[Places, NDArray[np.uint8]]:
    """Return the places in a window that look like a length from 1 to 255, and these lengths.

    Such a length is one byte and `width` - 1 zeros; text has no such run of zeros. The zeros always
    fill an aligned word of half the width, so words are searched, which are few, and the word
    beside a zero one tells the rest. Of the zeros only that word's are looked at, so binary data
    gives more places than there are: `whole_lengths` sorts them out. A length at either end of the
    window may be left out.
    """
    half = width // 2
    sign, toward = ("<", -1) if order == "little" else (">", 1)
    words = np.frombuffer(window, dtype=f"{sign}u{half}", count=len(window) // half)
    zero = np.flatnonzero(words[1:-1] == 0)
    zero += 1
    # the word beside the zero one that holds the length's one byte
    beside = words.take(zero + toward).astype(f"u{half}", copy=False)
    between = (beside < 1 << 8).view(np.uint8)  # zero bytes between the zero word and that byte
    for size in range(2, half):
        between = between + (beside < 1 << 8 * size).view(np.uint8)
    lengths = (beside >> (np.uint8(half - 1) - between) * np.uint8(8)).astype(np.uint8)
    byte = zero
    byte *= half
    if order == "little":
        byte -= 1
        byte -= between
    else:
        byte += half
        byte += between
        byte -= width - 1
    good = lengths != 0
    return (byte, lengths) if good.all() else (byte[good], lengths[good])


def whole_lengths(window: bytes, places: Places, width: int, order: Order) -> NDArray[np.bool_]:
    """Tell which places of `short_lengths` hold a length with all of its zeros."""
    counts = np.ndarray(
        len(window) - width + 1,
        f"{'<' if order == 'little' else '>'}u{width}",
        buffer=window,
        strides=(1,),
    )
    inside = (places >= 0) & (places < len(counts))
    whole: NDArray[np.bool_] = inside & (counts[np.where(inside, places, 0)] < 1 << 8)
    return whole
