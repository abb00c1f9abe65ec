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

Source: `gguf.md` section 8; ggml/src/ggml-quants.c, `dequantize_row_iq4_nl`, `_iq4_xs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from explorer.quantization.decoders.i_quants_books import Book
from explorer.quantization.decoders.i_quants_groups import Walk, nibble_at, write_nibbles
from explorer.quantization.jit import f32, half_at, kernel, u16_at, u32


@kernel
def walk_iq4_nl(blocks: Any, out: Any, scales: Any, book: Any) -> None:
    """Walk blocks of IQ4_NL, uint8 [n, 18], with one scale each; see `Walk`."""
    for b in range(blocks.shape[0]):
        scale = half_at(blocks, b, 0)
        if scales is not None:
            scales[b, 0] = scale
        write_nibbles(out, b, 0, blocks, 2, book, scale)


@kernel
def walk_iq4_xs(blocks: Any, out: Any, scales: Any, book: Any) -> None:
    """Walk blocks of IQ4_XS, uint8 [n, 136], with 8 scales each; see `Walk`."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        scales_h = u16_at(blocks, b, 2)
        for sub in range(8):
            high = ((scales_h >> u32(2 * sub)) & u32(3)) << u32(4)
            scale = d * (f32(nibble_at(blocks, b, 4, sub) | high) - f32(32))
            if scales is not None:
                scales[b, sub] = scale
            write_nibbles(out, b, 32 * sub, blocks, 8 + 16 * sub, book, scale)


WALKS: Final[Mapping[str, tuple[Walk, Book]]] = {
    "IQ4_NL": (walk_iq4_nl, Book.IQ4),
    "IQ4_XS": (walk_iq4_xs, Book.IQ4),
}
