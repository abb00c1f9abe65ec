"""Super-blocks of 256 weights, whose sub-blocks' scales (and minima) are small integers.

::

    Q2_K  | scales 16 B | qs 64 B: 2-bit codes | d f16 | dmin f16 |
    Q3_K  | hmask 32 B: 3rd bits | qs 64 B: low 2 bits | scales 12 B | d f16 |
    Q4_K  | d f16 | dmin f16 | scales 12 B | qs 128 B: 4-bit codes |
    Q5_K  | d f16 | dmin f16 | scales 12 B | qh 32 B: 5th bits | qs 128 B: low 4 bits |
    Q6_K  | ql 128 B: low 4 bits | qh 64 B: high 2 bits | scales 16 B: int8 | d f16 |
    Q8_K  | d f32 | qs 256 B: int8 codes | bsums 32 B: sums of 16 codes, int16 |

    Q2_K  d * scale * code - dmin * minimum     16 sub-blocks of 16 weights
    Q3_K  d * (scale - 32) * (code - 4)         16 sub-blocks of 16 weights
    Q4_K  d * scale * code - dmin * minimum      8 sub-blocks of 32 weights
    Q5_K  d * scale * code - dmin * minimum      8 sub-blocks of 32 weights
    Q6_K  d * scale * (code - 32)               16 sub-blocks of 16 weights
    Q8_K  d * code

    Q2_K, Q3_K: one byte of qs holds weights l, l + 32, l + 64, l + 96 of a half (128 weights):
                bits 0-1 | 2-3 | 4-5 | 6-7
    Q4_K, Q5_K: one byte of qs holds weights l and l + 32 of a quarter (64 weights)
    Q6_K:       of a half, ql's bytes 0-31 hold weights l and l + 64, its bytes 32-63 l + 32 and
                l + 96; qh as qs in Q2_K

    the 12 bytes of scales in Q4_K and Q5_K, six bits each, k = 0..3:
        byte k       | scale k + 4: bits 4-5   | scale k: bits 0-5   |
        byte k + 4   | minimum k + 4: bits 4-5 | minimum k: bits 0-5 |
        byte k + 8   | minimum k + 4: bits 0-3 | scale k + 4: bits 0-3 |
    and in Q3_K:
        byte k, 0-7  | scale k + 8: bits 0-3 | scale k: bits 0-3 |
        byte k + 8   | bits 4-5 of scales k + 12 | k + 8 | k + 4 | k |

Source: `docs/gguf.md`, section 8; ggml/src/ggml-quants.c, `dequantize_row_q2_K` and its siblings.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from explorer.quantization.bits import (
    SIGNED,
    SINGLE,
    Bits,
    BitType,
    Field,
    every,
    packed,
    plane,
    split,
)
from explorer.quantization.registry import integers

_D: Final = Field("d", 2, "f16", "scale of the scales")
_HEAD: Final = (  # of Q4_K and Q5_K
    _D,
    Field("dmin", 2, "f16", "scale of the minima"),
    Field("scales", 12, "6-bit scales", "8 scales and 8 minima of 32 weights each"),
)
_QUARTERS: Final = "of 64 weights: the first 32 in low halves of 32 bytes, the others in high"
_HIGHEST: Final = "highest bit: bit k of byte l, weight 32k+l"


def _six_bits(low: int, high: int, up: int) -> tuple[Bits, ...]:
    """Return scales or minima of Q4_K and Q5_K: bytes of the first four, then of the others."""
    k = np.arange(4)
    first, last = 8 * (low + k), 8 * (high + k)
    return (
        Bits(np.concatenate([first, last + up]), np.repeat([63, 15], 4)),
        Bits(np.concatenate([first, first + 6]), np.repeat([0, 3], 4), 4),
    )


_OF_Q4_K: Final[dict[str, Any]] = {
    "scales": _six_bits(4, 12, 0),
    "factors": integers(0, 63),
    "minima": _six_bits(8, 12, 4),
    "min_factors": integers(0, 63),
    "min_at": 2,
}

TYPES: Final = {
    "Q2_K": BitType(
        (
            Field("scales", 16, "4-bit pairs", "scale (low) and minimum (high) of 16 weights"),
            Field("qs", 64, "2-bit codes", "byte l of a half: weights l, l+32, l+64, l+96"),
            *(_D, Field("dmin", 2, "f16", "scale of the minima")),
        ),
        *((plane(16, 2, 32),), integers(0, 3), 16, (every(0, 16, 8, 4),), integers(0, 15)),
        minima=(every(4, 16, 8, 4),),
        min_factors=integers(0, 15),
        d_at=80,
        min_at=82,
    ),
    "Q3_K": BitType(
        (
            Field("hmask", 32, "1-bit codes", _HIGHEST),
            Field("qs", 64, "2-bit codes", "low two bits, bytes as in Q2_K"),
            *(Field("scales", 12, "6-bit scales", "16 scales, 32 more than their value"), _D),
        ),
        *((plane(32, 2, 32), plane(0, 1, 32, 2)), integers(-4, 3), 16),
        *((split(96, 16, 4), split(104, 16, 2, 4)), integers(-32, 31)),
        d_at=108,
    ),
    "Q4_K": BitType(
        (*_HEAD, Field("qs", 128, "4-bit codes", f"quarters {_QUARTERS}")),
        *((plane(16, 4, 32),), integers(0, 15), 32),
        **_OF_Q4_K,
    ),
    "Q5_K": BitType(
        (
            *(*_HEAD, Field("qh", 32, "1-bit codes", _HIGHEST)),
            Field("qs", 128, "4-bit codes", f"low four bits, quarters {_QUARTERS}"),
        ),
        *((plane(48, 4, 32), plane(16, 1, 32, 4)), integers(0, 31), 32),
        **_OF_Q4_K,
    ),
    "Q6_K": BitType(
        (
            Field("ql", 128, "4-bit codes", "low four bits: weights l and l+64 of a half"),
            Field("qh", 64, "2-bit codes", "high two bits, bytes as in Q2_K"),
            *(Field("scales", 16, "i8", "one scale for each 16 weights"), _D),
        ),
        *((plane(0, 4, 64), plane(128, 2, 32, 4)), integers(-32, 31), 16),
        *((packed(192, 16, 8),), SIGNED),
        d_at=208,
    ),
    "Q8_K": BitType(
        (
            *(Field("d", 4, "f32", "scale of all weights"),),
            Field("qs", 256, "i8", "one code for each weight"),
            Field("bsums", 32, "i16", "sums of 16 codes each, for dot products"),
        ),
        *((packed(4, 256, 8),), integers(-128, 127), 256),
        d=SINGLE,
        start=128,
    ),
}
