"""The loop that counts pairs of weights for pictures, whatever range they turn out to have."""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np

from explorer.analysis.errors.kernels_pairs_fields import ACROSS, LEVELS, NEXT, NO_CELL, PIECE, TOP
from explorer.quantization.jit import (
    bits_of_float32,
    f32,
    float32_of_bits,
    i32,
    kernel,
    routine,
    u32,
)

_HALF: Final = ACROSS // 2
_ROW_BITS: Final = ACROSS.bit_length() - 1
_LEVEL_BITS: Final = 2 * _ROW_BITS
_SCALE: Final = 126 + 127 + _ROW_BITS - 1  # of a level: its cells become 1 wide
_SIMPLE_TOP: Final = 126 + _ROW_BITS - 1  # up to here cells are at most 1 wide
_INFINITE: Final = 0x7F800000
_GREATEST: Final = (
    0x7F7FFFFF  # the bits of infinity, and of -inf as they are taken here, are not below
)


@kernel
def count_pairs(reference: Any, candidate: Any, state: Any, work: Any) -> None:
    """Count pairs by cell, and errors by key, from pair `state[NEXT]` on.

    It ends early, at a piece with a level above `state[TOP]`: the caller makes room for it.

    The bits of a float32 rise with its size. A cell holds its lower edge and not its upper one, as
    the bins of `numpy.histogram` do. So negative numbers are taken to be a bit smaller than they
    are where their level or key is asked for: at an edge, that is the one towards 0.

    Each piece goes through a loop that is vectorized and takes all numbers to be finite and of a
    usual size. What others there are is put right behind it, if there are any.

    Args:
        reference: float32 [n].
        candidate: float32 [n].
        state: int64 [2]; see `kernels_pairs_fields`.
        work: `kernels_pairs_fields.Work`; its keys and cells are added to.
    """
    codes, places, keys, cells = work.codes, work.places, work.keys, work.cells
    top = u32(state[TOP])
    lowest = top - u32(LEVELS - 1)
    above = (top + u32(1)) << u32(23)
    suspect = above if above < u32(_GREATEST) else u32(_GREATEST)
    for start in range(state[NEXT], reference.size, PIECE):
        size = reference.size - start
        size = size if size < PIECE else PIECE
        suspects = i32(top > u32(_SIMPLE_TOP))
        for i in range(size):
            # an unsigned index cannot count from the end, of which a test would keep this slow;
            # adding 0 makes 0 of -0
            x = reference[numba.uintp(start + i)] + f32(0)
            y = candidate[numba.uintp(start + i)] + f32(0)
            error = bits_of_float32((y - x) + f32(0))
            codes[i] = (error - (error >> u32(31))) >> u32(16)
            a, b = bits_of_float32(x), bits_of_float32(y)
            a = (a - (a >> u32(31))) & u32(0x7FFFFFFF)
            b = (b - (b >> u32(31))) & u32(0x7FFFFFFF)
            size_bits = a if a > b else b
            suspects += i32(size_bits >= suspect)
            level = size_bits >> u32(23)
            level = level if level > lowest else lowest
            scale = float32_of_bits((u32(_SCALE) - level) << u32(23))
            place = (level & u32(LEVELS - 1)) << u32(_LEVEL_BITS)
            place |= u32(i32(np.floor(y * scale)) + i32(_HALF)) << u32(_ROW_BITS)
            place |= u32(i32(np.floor(x * scale)) + i32(_HALF))
            places[i] = place
        if suspects and _set_right(reference, candidate, start, above, work):
            state[NEXT] = start
            return
        for i in range(size):
            keys[codes[i]] += u32(1)
            cells[places[i]] += u32(1)
    state[NEXT] = reference.size


@routine
def _set_right(reference: Any, candidate: Any, start: Any, above: Any, work: Any) -> Any:
    """Put right what numbers that are not usual have got; return whether a level is too high."""
    codes, places = work.codes, work.places
    size = reference.size - start
    size = size if size < PIECE else PIECE
    higher = False
    for i in range(size):
        x, y = reference[start + i], candidate[start + i]
        a, b = bits_of_float32(x + f32(0)), bits_of_float32(y + f32(0))
        a = (a - (a >> u32(31))) & u32(0x7FFFFFFF)
        b = (b - (b >> u32(31))) & u32(0x7FFFFFFF)
        place = places[i]
        if (x - x) + (y - y) != 0:
            place = u32(NO_CELL)
        elif a >= above or b >= above:
            higher = True
        else:  # a tiny number below 0 may have been rounded to 0
            if x < 0 and place & u32(ACROSS - 1) == u32(_HALF):
                place -= u32(1)
            if y < 0 and place >> u32(_ROW_BITS) & u32(ACROSS - 1) == u32(_HALF):
                place -= u32(ACROSS)
        places[i] = place
        if (y - x) - (y - x) != 0:
            codes[i] = u32(_INFINITE >> 16)
    return higher
