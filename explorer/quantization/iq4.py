"""IQ4_NL and IQ4_XS: a 4-bit code for each weight, of 16 levels that crowd around zero.

::

    IQ4_NL, 18 bytes, 32 weights     IQ4_XS, 136 bytes, 256 weights
    0   d    f16                     0   d         f16
    2   qs   4 bits x 32             2   scales_h  2 bits x 8
                                     4   scales_l  4 bits x 8
                                     8   qs        4 bits x 256

    qs, for 32 weights               | 16 | 0 |  | 17 | 1 |  ...  | 31 | 15 |
                                       high low

    IQ4_NL  value = d * KVALUES[code]
    IQ4_XS  value = (d * ((scales_l | scales_h << 4) - 32)) * KVALUES[code]

Source: `docs/gguf.md`, section 8; ggml/src/ggml-quants.c, `dequantize_row_iq4_nl`, `_iq4_xs`.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.bits import V4, BitType, Field, packed, plane
from explorer.quantization.grids import KVALUES
from explorer.quantization.jit import f32, i32, inlined, kernel, routine, set_half, set_u16, u8, u16
from explorer.quantization.registry import LANES, integers
from explorer.quantization.scale_search import (
    BEST,
    EPSILON,
    HIGH,
    INVERSE,
    MAX,
    SCALE,
    SUM_L2,
    SUM_XL,
    clamped,
    find_largest,
    finite,
    first_of_largest,
    inverse,
    mean_square,
    nearest,
)

_D: Final = Field("d", 2, "f16", "scale of the block")
_CODES: Final = "numbers of 16 uneven levels"
TYPES: Final = {
    "IQ4_NL": BitType(
        (_D, Field("qs", 16, "4-bit codes", _CODES)), (plane(2, 4, 16, 0, 32),), V4[:16], 32
    ),
    "IQ4_XS": BitType(
        (
            *(_D, Field("scales_h", 2, "2 bits", "high bits of the scale of each 32 weights")),
            Field("scales_l", 4, "4 bits", "low bits of the scale of each 32 weights"),
            Field("qs", 128, "4-bit codes", _CODES),
        ),
        *((plane(8, 4, 16),), V4[:16], 32),
        *((packed(4, 8, 4), packed(2, 8, 2, 4)), integers(-32, 31)),
    ),
}

# IQ4: scales are searched so that weights come near to 16 uneven levels.
#
# A weight counts by its square, as in ggml; with importance, by that times the root of its square
# plus twice the mean square (of the block in IQ4_NL, of the super-block in IQ4_XS).
#
# Source: ggml/src/ggml-quants.c, `quantize_row_iq4_nl_impl`.


_TRIES: Final = 7  # on each side of the obvious scale
_FIRST_LEVEL: Final = KVALUES[0]


def _nearest_levels() -> NDArray[np.uint8]:
    """Return the number of the level nearest to (i - 512) / 2, of two the higher."""
    levels = np.array(KVALUES)
    middles = (levels[:-1] + levels[1:]) / 2
    numbers = np.searchsorted(middles, (np.arange(1024) - 512) / 2, side="right")
    return numbers.astype(np.uint8)


def _limits() -> NDArray[np.float32]:
    """Return the least number that goes to each level rather than to the one below.

    That is just below the middle: ggml compares both distances, which are rounded to float32.
    """
    levels = np.array(KVALUES, np.float32)
    limits = np.full(len(levels), -np.inf, np.float32)
    limits[1:] = (levels[:-1] + levels[1:]) / 2
    for n in range(1, len(levels)):
        below = np.nextafter(limits[n], levels[0])
        while below - levels[n - 1] >= levels[n] - below:
            limits[n], below = below, np.nextafter(below, levels[0])
    return limits


# Middles are multiples of a half. The sum in `_place` is rounded, so just below a middle the number
# may be one too high, and the limit decides.
_NUMBERS: Final = _nearest_levels()
_LIMITS: Final = _limits()[_NUMBERS]
_LEVELS: Final = np.array(KVALUES, np.float32)[_NUMBERS]
_LEVELS_BELOW: Final = np.array(KVALUES, np.float32)[np.maximum(_NUMBERS, 1) - 1]


@inlined
def _place(x: Any) -> Any:
    """Return where a weight over its scale is looked up."""
    return i32(clamped(x * f32(2) + f32(512), f32(0), f32(1023)))


@inlined
def _level(x: Any) -> Any:
    place = _place(x)
    return _LEVELS[place] if x >= _LIMITS[place] else _LEVELS_BELOW[place]


@inlined
def _number(x: Any) -> Any:
    place = _place(x)
    return u8(_NUMBERS[place]) if x >= _LIMITS[place] else u8(_NUMBERS[place] - 1)


@routine
def _search(x: Any, w: Any, lanes: Any) -> None:
    """Set SCALE for eight sub-blocks of 32."""
    find_largest(x, w, lanes, 32)
    for k in range(LANES):
        lanes[SCALE + k] = f32(0)
        lanes[BEST + k] = f32(0)
    for n in range(-_TRIES - 1, _TRIES + 1):
        # First the largest weight to 127, for which there is no level; C divides twice.
        number = f32(_FIRST_LEVEL + n)
        for k in range(LANES):
            enough = lanes[HIGH + k] >= f32(EPSILON)
            if not enough:
                lanes[INVERSE + k] = f32(0)
            elif n < -_TRIES:
                lanes[INVERSE + k] = f32(1) / (lanes[MAX + k] / f32(-_FIRST_LEVEL))
            else:
                lanes[INVERSE + k] = number / lanes[MAX + k]
            lanes[SUM_XL + k] = f32(0)
            lanes[SUM_L2 + k] = f32(0)
        for i in range(32):
            for k in range(LANES):
                v = x[LANES * i + k]
                level = _level(lanes[INVERSE + k] * v)
                lanes[SUM_XL + k] += w[LANES * i + k] * level * v
                lanes[SUM_L2 + k] += w[LANES * i + k] * level * level
        for k in range(LANES):
            sum_xl, sum_l2 = lanes[SUM_XL + k], lanes[SUM_L2 + k]
            first = n < -_TRIES  # counts even where all squares are too small for a float32
            if sum_l2 > 0 and (first or sum_xl * sum_xl > lanes[BEST + k] * sum_l2):
                lanes[SCALE + k] = sum_xl / sum_l2
                lanes[BEST + k] = lanes[SCALE + k] * sum_xl
    for k in range(LANES):
        lanes[SCALE + k] = lanes[SCALE + k] if lanes[HIGH + k] >= f32(EPSILON) else f32(0)


@routine
def _load(values: Any, importance: Any, place: Any, square: Any, work: Any) -> None:
    """Put 32 weights into a lane; place: block, first weight, lane."""
    b, first, k = place
    for i in range(32):
        v = finite(values[b, first + i])
        work.x[LANES * i + k] = v
        work.w[LANES * i + k] = v * v
    if importance is not None:
        row = b % importance.shape[0]
        for i in range(32):
            v = work.x[LANES * i + k]
            factor = f32(math.sqrt(square + v * v))
            work.w[LANES * i + k] = importance[row, first + i] * factor


@routine
def _store_codes(x: Any, k: Any, scale: Any, block: Any, offset: Any) -> None:
    """Store the codes of the weights in a lane."""
    factor = inverse(scale)
    for i in range(16):
        low = _number(x[LANES * i + k] * factor)
        high = _number(x[LANES * (16 + i) + k] * factor)
        block[offset + i] = u8(low | high << 4)


@kernel
def _encode_iq4_nl(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    for first in range(0, blocks.shape[0], LANES):
        count = min(LANES, blocks.shape[0] - first)
        for k in range(count):
            square = mean_square(values, first + k, 32) * f32(2)
            _load(values, importance, (first + k, 0, k), square, work)
        _search(work.x, work.w, work.lanes)
        for k in range(count):
            scale = work.lanes[SCALE + k]
            set_half(blocks, first + k, 0, scale)
            _store_codes(work.x, k, scale, blocks[first + k], 2)


@kernel
def _encode_iq4_xs(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    for b in range(blocks.shape[0]):
        square = mean_square(values, b, 256) * f32(2)
        for k in range(LANES):
            _load(values, importance, (b, 32 * k, k), square, work)
        _search(work.x, work.w, work.lanes)
        d = first_of_largest(work.lanes[SCALE : SCALE + LANES], LANES) / f32(-32)
        set_half(blocks, b, 0, d)
        factor = inverse(d)
        high = u16(0)
        for k in range(LANES):
            number = i32(clamped(nearest(work.lanes[SCALE + k] * factor), f32(-32), f32(31)))
            _store_codes(work.x, k, d * f32(number), blocks[b], 8 + 16 * k)
            code = u8(number + i32(32))
            high |= u16(u16(code >> 4) << u16(2 * k))
            if k & 1:
                blocks[b, 4 + (k >> 1)] |= u8((code & 15) << 4)
            else:
                blocks[b, 4 + (k >> 1)] = code & 15
        set_u16(blocks, b, 2, high)


ENCODERS = {"IQ4_NL": _encode_iq4_nl, "IQ4_XS": _encode_iq4_xs}
