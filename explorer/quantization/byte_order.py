"""Where a block holds numbers of several bytes, for files of the other byte order.

A big-endian GGUF file is a little-endian one in which each such number is turned round; bytes that
hold packed codes stay as they are (llama.cpp, gguf-py/gguf/scripts/gguf_convert_endian.py, does so
for Q4_0, Q8_0, Q4_K, Q6_K and plain numbers). For the other types no converter exists: fields are
those of `gguf.md` section 8. Kernels and anatomy know little-endian blocks only.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from explorer.quantization.arrays import Blocks


class Numbers(NamedTuple):
    """Numbers of one width in a block, one behind the other or at equal distances.

    Attributes:
        offset: First byte of the first one.
        width: Bytes of each.
        repeats: How many.
        stride: Bytes from one to the next.
    """

    offset: int
    width: int
    repeats: int
    stride: int


def _run(offset: int, width: int, repeats: int = 1) -> Numbers:
    return Numbers(offset, width, repeats, width)


NUMBERS: Final[Mapping[str, tuple[Numbers, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(("F16", "BF16", "I16", "U16"), (_run(0, 2),)),
        **dict.fromkeys(("F32", "I32", "U32"), (_run(0, 4),)),
        **dict.fromkeys(("F64", "I64", "U64"), (_run(0, 8),)),
        "C64": (_run(0, 4, 2),),
        **dict.fromkeys(("Q4_0", "Q8_0", "Q1_0", "Q2_0", "IQ4_NL"), (_run(0, 2),)),
        **dict.fromkeys(("Q4_1", "Q8_1", "Q4_K", "Q5_K"), (_run(0, 2, 2),)),
        "Q5_0": (_run(0, 2), _run(2, 4)),
        "Q5_1": (_run(0, 2, 2), _run(4, 4)),
        "Q2_K": (_run(80, 2, 2),),
        "Q3_K": (_run(108, 2),),
        "Q6_K": (_run(208, 2),),
        "Q8_K": (_run(0, 4), _run(260, 2, 16)),
        **dict.fromkeys(("IQ2_S", "IQ3_S"), (_run(0, 2),)),
        "IQ1_S": (_run(0, 2), _run(34, 2, 8)),
        "IQ1_M": (_run(48, 2, 4),),
        "IQ2_XXS": (_run(0, 2), Numbers(6, 4, 8, 8)),
        "IQ2_XS": (_run(0, 2, 33),),
        "IQ3_XXS": (_run(0, 2), _run(66, 4, 8)),
        "IQ4_XS": (_run(0, 2, 2),),
        "TQ1_0": (_run(52, 2),),
        "TQ2_0": (_run(64, 2),),
    }
)
"""By type name; types that are not here have no number of several bytes."""


def swap_byte_order(type_name: str, blocks: Blocks) -> None:
    """Turn round every number of several bytes, in place; blocks: uint8 [n, block_bytes]."""
    for offset, width, repeats, stride in NUMBERS.get(type_name, ()):
        for place in range(offset, offset + repeats * stride, stride):
            number = blocks[:, place : place + width]
            number[...] = number[:, ::-1].copy()
