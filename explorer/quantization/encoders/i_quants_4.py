"""IQ4: scales are searched so that weights come near to 16 uneven levels.

A weight counts by its square, as in ggml; with importance, by that times the root of its square
plus twice the mean square (of the block in IQ4_NL, of the super-block in IQ4_XS).

Source: ggml/src/ggml-quants.c, `quantize_row_iq4_nl_impl`.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.decoders.i_quants_books import KVALUES
from explorer.quantization.encoders.contract import LANES
from explorer.quantization.encoders.lanes import (
    BEST,
    EPSILON,
    HIGH,
    INVERSE,
    MAX,
    SCALE,
    SUM_L2,
    SUM_XL,
    find_largest,
    first_of_largest,
)
from explorer.quantization.encoders.rounding import clamped, finite, inverse, mean_square, nearest
from explorer.quantization.jit import f32, i32, inlined, kernel, routine, set_half, set_u16, u8, u16

_TRIES: Final = 7  # on each side of the obvious scale
_FIRST_LEVEL: Final = KVALUES[0]


def _nearest_levels() -> NDArray[np.uint8]:
    """Return the number of the level nearest to (i - 512) / 2, of two the higher."""
    levels = np.array(KVALUES)
    middles = (levels[:-1] + levels[1:]) / 2
    numbers = np.searchsorted(middles, (np.arange(1024) - 512) / 2, side="right")
    return numbers.astype(np.uint8)


# Limits between levels are multiples of a half, so steps of a half tell exactly.
_NUMBERS: Final = _nearest_levels()
_LEVELS: Final = np.array(KVALUES, np.float32)[_NUMBERS]


@inlined
def _place(x: Any) -> Any:
    """Return where a weight over its scale is looked up."""
    return i32(clamped(x * f32(2) + f32(512), f32(0), f32(1023)))


@routine
def _search(x: Any, w: Any, lanes: Any) -> None:
    """Set SCALE for eight sub-blocks of 32."""
    find_largest(x, w, lanes, 32)
    for k in range(LANES):
        lanes[SCALE + k] = f32(0)
        lanes[BEST + k] = f32(0)
    for n in range(-_TRIES - 1, _TRIES + 1):
        # First the largest weight to the level of the other sign, which is -127 too if it is minus.
        number = f32(_FIRST_LEVEL + n) if n >= -_TRIES else f32(-_FIRST_LEVEL)
        for k in range(LANES):
            enough = lanes[HIGH + k] >= f32(EPSILON)
            lanes[INVERSE + k] = number / lanes[MAX + k] if enough else f32(0)
            lanes[SUM_XL + k] = f32(0)
            lanes[SUM_L2 + k] = f32(0)
        for i in range(32):
            for k in range(LANES):
                v = x[LANES * i + k]
                level = _LEVELS[_place(lanes[INVERSE + k] * v)]
                lanes[SUM_XL + k] += w[LANES * i + k] * level * v
                lanes[SUM_L2 + k] += w[LANES * i + k] * level * level
        for k in range(LANES):
            sum_xl, sum_l2 = lanes[SUM_XL + k], lanes[SUM_L2 + k]
            if sum_l2 > 0 and sum_xl * sum_xl > lanes[BEST + k] * sum_l2:
                lanes[SCALE + k] = sum_xl / sum_l2
                lanes[BEST + k] = lanes[SCALE + k] * sum_xl


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
        low = _NUMBERS[_place(x[LANES * i + k] * factor)]
        high = _NUMBERS[_place(x[LANES * (16 + i) + k] * factor)]
        block[offset + i] = u8(low | high << 4)


@kernel
def encode_iq4_nl(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    """Encode IQ4_NL; see `Encode`."""
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
def encode_iq4_xs(values: Any, importance: Any, blocks: Any, work: Any) -> None:
    """Encode IQ4_XS; see `Encode`."""
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


ENCODERS = {"IQ4_NL": encode_iq4_nl, "IQ4_XS": encode_iq4_xs}
