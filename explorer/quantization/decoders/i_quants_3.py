"""IQ3_XXS and IQ3_S: 8 weights are two rows of a book with four sizes each, and a sign each.

::

    IQ3_XXS, 98 bytes           IQ3_S, 110 bytes
    0   d    f16                0    d      f16
    2   qs   u8 x 64            2    qs     u8 x 64
    66  a    u32 x 8            66   qh     1 bit x 64
                                74   signs  u8 x 32
                                106  scales 4 bits x 8

    a, for sub-block B          | scale | sign code of group 3 | 2 | 1 | 0 |
                                  4 bits  7 bits each
    IQ3_S, for half a group     index = qs | qh << 8

    IQ3_XXS value = (((d * (0.5 + scale)) * 0.5) * book[index]) * sign
    IQ3_S   value = ((d * (1 + 2 * scale)) * book[index]) * sign

Sizes are 4, 12, 20, 28, 36, 44, 52, 62 in IQ3_XXS, and 1, 3, .. 15 in IQ3_S. A scale is for 32
weights. A sign code is 7 signs; the eighth makes the minus signs even.

Source: `gguf.md` section 8; ggml/src/ggml-quants.c, `dequantize_row_iq3_xxs`, `_iq3_s`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from explorer.quantization.decoders.i_quants_books import SIGNS_OF_CODE, Book
from explorer.quantization.decoders.i_quants_groups import Walk, nibble_at, signed
from explorer.quantization.jit import f32, half_at, inlined, kernel, u32, u32_at, u64


# Two rows in one word, because two loops of four would not become vector instructions.
@inlined
def _joined(first: Any, second: Any) -> Any:
    return u64(first) | (u64(second) << u64(32))


@inlined
def _byte(word: Any, i: Any) -> Any:
    return u32(word >> u64(8 * i)) & u32(255)


@kernel
def walk_iq3_xxs(blocks: Any, out: Any, scales: Any, book: Any) -> None:
    """Walk blocks of IQ3_XXS, uint8 [n, 98], with 8 scales each; see `Walk`."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(8):
            packed = u32_at(blocks, b, 66 + 4 * sub)
            scale = (d * (f32(0.5) + f32(packed >> u32(28)))) * f32(0.5)
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
            for part in range(4):
                group = 4 * sub + part
                rows = _joined(book[blocks[b, 2 + 2 * group]], book[blocks[b, 3 + 2 * group]])
                signs = SIGNS_OF_CODE[(packed >> u32(7 * part)) & u32(127)]
                for i in range(8):
                    out[b, 8 * group + i] = scale * signed(_byte(rows, i), signs, i)


@kernel
def walk_iq3_s(blocks: Any, out: Any, scales: Any, book: Any) -> None:
    """Walk blocks of IQ3_S, uint8 [n, 110], with 8 scales each; see `Walk`."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        for sub in range(8):
            scale = d * f32(u32(1) + u32(2) * nibble_at(blocks, b, 106, sub))
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
            high = u32(blocks[b, 66 + sub]) << u32(8)
            for part in range(4):
                group = 4 * sub + part
                first = u32(blocks[b, 2 + 2 * group]) | ((high >> u32(2 * part)) & u32(256))
                second = u32(blocks[b, 3 + 2 * group]) | ((high >> u32(2 * part + 1)) & u32(256))
                rows = _joined(book[first], book[second])
                signs = blocks[b, 74 + group]
                for i in range(8):
                    out[b, 8 * group + i] = scale * signed(_byte(rows, i), signs, i)


WALKS: Final[Mapping[str, tuple[Walk, Book]]] = {
    "IQ3_XXS": (walk_iq3_xxs, Book.IQ3XXS),
    "IQ3_S": (walk_iq3_s, Book.IQ3S),
}
