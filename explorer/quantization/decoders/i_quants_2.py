"""IQ2_XXS, IQ2_XS and IQ2_S: 8 weights are a row of a book with 8, 25, 43, and a sign each.

::

    IQ2_XXS, 66 bytes           IQ2_XS, 74 bytes            IQ2_S, 82 bytes
    0   d    f16                0   d      f16              0   d      f16
    2   8 x  u8 x 4, u32        2   qs     u16 x 32         2   qs     u8 x 32
                                66  scales 4 bits x 16      34  signs  u8 x 32
                                                            66  qh     2 bits x 32
                                                            74  scales 4 bits x 16

    IQ2_XXS, for sub-block B    | index, 8 bits x 4 |  | scale | sign code of group 3 | 2 | 1 | 0 |
                                                         4 bits  7 bits each
    IQ2_XS, for a group         | sign code, 7 bits | index, 9 bits |
    IQ2_S, for a group          index = qs | qh << 8

    value = (((d * (0.5 + scale)) * 0.25) * book[index]) * sign

A scale is for 32 weights in IQ2_XXS and for 16 in the others. A sign code is 7 signs; the eighth
makes the minus signs even.

Source: `gguf.md` section 8; ggml/src/ggml-quants.c, `dequantize_row_iq2_xxs`, `_iq2_xs`, `_iq2_s`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from explorer.quantization.decoders.i_quants_books import SIGNS_OF_CODE, Book
from explorer.quantization.decoders.i_quants_groups import Walk, nibble_at, signed
from explorer.quantization.jit import f32, half_at, inlined, kernel, u16_at, u32, u32_at


@inlined
def _scale(d: Any, four_bits: Any) -> Any:
    return (d * (f32(0.5) + f32(four_bits))) * f32(0.25)


@kernel
def walk_iq2_xxs(blocks: Any, out: Any, scales: Any, book: Any) -> None:
    """Walk blocks of IQ2_XXS, uint8 [n, 66], with 8 scales each; see `Walk`."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(8):
            packed = u32_at(blocks, b, 6 + 8 * sub)
            scale = _scale(d, packed >> u32(28))
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
            for part in range(4):
                group = 4 * sub + part
                index = blocks[b, 2 + 8 * sub + part]
                signs = SIGNS_OF_CODE[(packed >> u32(7 * part)) & u32(127)]
                for i in range(8):
                    out[b, 8 * group + i] = scale * signed(book[index, i], signs, i)


@kernel
def walk_iq2_xs(blocks: Any, out: Any, scales: Any, book: Any) -> None:
    """Walk blocks of IQ2_XS, uint8 [n, 74], with 16 scales each; see `Walk`."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(16):
            scale = _scale(d, nibble_at(blocks, b, 66, sub))
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
            for group in range(2 * sub, 2 * sub + 2):
                packed = u16_at(blocks, b, 2 + 2 * group)
                index = packed & u32(511)
                signs = SIGNS_OF_CODE[packed >> u32(9)]
                for i in range(8):
                    out[b, 8 * group + i] = scale * signed(book[index, i], signs, i)


@kernel
def walk_iq2_s(blocks: Any, out: Any, scales: Any, book: Any) -> None:
    """Walk blocks of IQ2_S, uint8 [n, 82], with 16 scales each; see `Walk`."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(16):
            scale = _scale(d, nibble_at(blocks, b, 74, sub))
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
            for group in range(2 * sub, 2 * sub + 2):
                high = u32(blocks[b, 66 + (group >> 2)]) >> u32(2 * (group & 3))
                index = u32(blocks[b, 2 + group]) | ((high & u32(3)) << u32(8))
                signs = blocks[b, 34 + group]
                for i in range(8):
                    out[b, 8 * group + i] = scale * signed(book[index, i], signs, i)


WALKS: Final[Mapping[str, tuple[Walk, Book]]] = {
    "IQ2_XXS": (walk_iq2_xxs, Book.IQ2XXS),
    "IQ2_XS": (walk_iq2_xs, Book.IQ2XS),
    "IQ2_S": (walk_iq2_s, Book.IQ2S),
}
