"""IQ1_S and IQ1_M: groups of 8 weights from a book of 2,048 with -1, 0, 1, shifted by an eighth.

::

    IQ1_S, 50 bytes             IQ1_M, 56 bytes
    0   d    f16                0   qs     u8 x 32
    2   qs   u8 x 32            32  qh     4 bits x 32
    34  qh   u16 x 8            48  scales u16 x 4

    qh of IQ1_S, for sub-block B      | minus | scale | high of group 3 | 2 | 1 | 0 |
                                        bit 15  3 bits  3 bits each
    qh of IQ1_M, for group l          | minus | high |
                                        bit 3   3 bits
    scales of IQ1_M, for two B's      | part of d | scale of 16 weights | x 4
                                        4 bits      3 bits each

    index = qs | high << 8     shift = minus ? -1/8 : +1/8
    value = (d * (2 * scale + 1)) * (book[index] + shift)

IQ1_M has no field d: its half float is made of the four top parts, the lowest first.

Source: `gguf.md` section 8; ggml/src/ggml-quants.c, `dequantize_row_iq1_s`, `dequantize_row_iq1_m`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from explorer.quantization.decoders.i_quants_books import Book
from explorer.quantization.decoders.i_quants_groups import Walk, nibble_at
from explorer.quantization.jit import (
    f32,
    float32_of_half,
    half_at,
    i32,
    inlined,
    kernel,
    u16,
    u16_at,
    u32,
)


@inlined
def _scale(d: Any, three_bits: Any) -> Any:
    return d * f32(u32(2) * (three_bits & u32(7)) + u32(1))


@inlined
def _shift(minus: Any) -> Any:
    return i32(-1) if minus else i32(1)


@kernel
def walk_iq1_s(blocks: Any, out: Any, scales: Any, book: Any) -> None:
    """Walk blocks of IQ1_S, uint8 [n, 50], with 8 scales each; see `Walk`."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(8):
            high = u16_at(blocks, b, 34 + 2 * sub)
            scale = _scale(d, high >> u32(12))
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
            of_eighths = scale * f32(0.125)  # exact: a power of two, and d is a half float
            for part in range(4):
                group = 4 * sub + part
                index = u32(blocks[b, 2 + group]) | (((high >> u32(3 * part)) & u32(7)) << u32(8))
                shift = _shift(high & u32(0x8000))
                for i in range(8):
                    out[b, 8 * group + i] = of_eighths * f32(i32(i32(book[index, i]) + shift))


@kernel
def walk_iq1_m(blocks: Any, out: Any, scales: Any, book: Any) -> None:
    """Walk blocks of IQ1_M, uint8 [n, 56], with 16 scales each; see `Walk`."""
    for b in range(blocks.shape[0]):
        bits = u32(0)
        for part in range(4):
            bits |= (u16_at(blocks, b, 48 + 2 * part) >> u32(12)) << u32(4 * part)
        d = float32_of_half(u16(bits))
        for sub in range(16):
            scale = _scale(d, u16_at(blocks, b, 48 + 2 * (sub >> 2)) >> u32(3 * (sub & 3)))
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
            of_eighths = scale * f32(0.125)
            for group in range(2 * sub, 2 * sub + 2):
                high = nibble_at(blocks, b, 32, group)
                index = u32(blocks[b, group]) | ((high & u32(7)) << u32(8))
                shift = _shift(high & u32(8))
                for i in range(8):
                    out[b, 8 * group + i] = of_eighths * f32(i32(i32(book[index, i]) + shift))


WALKS: Final[Mapping[str, tuple[Walk, Book]]] = {
    "IQ1_S": (walk_iq1_s, Book.IQ1S),
    "IQ1_M": (walk_iq1_m, Book.IQ1S),
}
