"""The table of tensor types: how many weights a block holds and how many bytes it takes.

One table for all formats. Types of ggml and of its forks carry their ids (`docs/gguf.md`, section
7; ggml/include/ggml.h, `enum ggml_type`, and the traits in ggml/src/ggml.c); types that only
safetensors knows have none (safetensors/src/tensor.rs, `enum Dtype`). Sub-byte floats of
safetensors are blocks too: F4 packs two weights into a byte, F6 four into three bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TensorType:
    """A way to store weights.

    Attributes:
        name: The field's usual spelling, as in ggml or safetensors.
        block_weights: Weights in one block; 0 if unknown.
        block_bytes: Bytes of one block; 0 if unknown.
        id: The type's id in GGUF files, or None for a type that only safetensors has.
        quantized: Whether blocks carry codes with scales, rather than plain numbers.
        row_header: Bytes that each row has beside its blocks: a scale of the row.
        rows: Rows that are stored together: their headers, then block by block those of all rows.
        trailer: Bytes behind the last block of a tensor: a scale of the tensor.
    """

    name: str
    block_weights: int
    block_bytes: int
    id: int | None = None
    quantized: bool = False
    row_header: int = 0
    rows: int = 1
    trailer: int = 0

    @property
    def known(self) -> bool:
        """Whether the size of a block is known; removed and future types are not."""
        return self.block_weights > 0

    @property
    def bits_per_weight(self) -> float:
        """Stored bits for each weight, scales included; 0.0 if unknown."""
        return 8 * self.block_bytes / self.block_weights if self.known else 0.0

    @property
    def lone(self) -> bool:
        """Whether blocks lie one behind the other and hold all that makes their weights."""
        return self.rows == 1 and not self.row_header and not self.trailer

    @property
    def whole_bytes(self) -> int:
        """Bytes of a block behind what it shares with others, its row's header or the trailer.

        That is what kernels read: a block that holds all that makes its weights.
        """
        return self.row_header + self.trailer + self.block_bytes

    def nbytes(self, weights: int) -> int | None:
        """Return the bytes of so many weights' blocks; None if they do not fill whole ones."""
        if not self.known or weights % self.block_weights:
            return None
        return weights // self.block_weights * self.block_bytes

    def nbytes_of(self, shape: Sequence[int]) -> int | None:
        """Return the bytes of a tensor; None if weights or rows are left over.

        Args:
            shape: Row-major, outermost first; () is one weight.
        """
        blocks = self.nbytes(math.prod(shape))
        if blocks is None or self.lone:
            return blocks
        columns, rows = (shape or (1,))[-1], shape[-2] if len(shape) > 1 else 1
        if columns % self.block_weights or rows % self.rows:
            return None
        return blocks + math.prod(shape[:-1]) * self.row_header * bool(columns) + self.trailer


# (id, name, weights in a block, bytes of a block), docs/gguf.md, section 7
_PLAIN = (
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (30, "BF16", 1, 2),
)
_QUANTIZED = (
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 36),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (29, "IQ1_M", 256, 56),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
    (42, "Q2_0", 64, 18),
)
# Types of ik_llama.cpp: what stands in `_QUANTIZED`, then the bytes of a row's header and the rows
# that are stored together (docs/gguf.md, section 12; its ggml/src/ggml.c, `type_traits`).
_OF_IK = (
    (133, "Q6_0", 32, 26, 0, 1),
    (134, "IQ1_BN", 64, 13, 2, 1),
    (135, "IQ2_BN", 64, 16, 4, 1),
    (137, "IQ2_K", 256, 76, 0, 1),
    (138, "IQ3_K", 256, 110, 0, 1),
    (139, "IQ4_K", 256, 144, 0, 1),
    (140, "IQ5_K", 256, 176, 0, 1),
    (141, "IQ6_K", 256, 212, 0, 1),
    (144, "IQ4_KS", 256, 136, 4, 1),
    (145, "IQ2_KS", 256, 70, 2, 1),
    (146, "IQ4_KSS", 256, 128, 4, 1),
    (151, "Q8_KV", 32, 32, 8, 1),
    (152, "IQ5_KS", 256, 168, 4, 1),
    (153, "IQ2_KT", 256, 68, 4, 1),
    (154, "IQ3_KT", 256, 100, 4, 1),
    (155, "IQ4_KT", 256, 128, 4, 1),
    (156, "IQ3_KS", 256, 102, 2, 1),
    (157, "IQ2_KL", 256, 86, 2, 1),
    (158, "IQ1_KT", 256, 56, 4, 1),
    (202, "Q4_0_R8", 32, 18, 0, 8),
    (206, "Q5_0_R4", 32, 22, 0, 4),
    (208, "Q8_0_R8", 32, 34, 0, 8),
    (210, "Q2_K_R4", 256, 84, 0, 4),
    (211, "Q3_K_R4", 256, 110, 0, 4),
    (212, "Q4_K_R4", 256, 144, 0, 4),
    (213, "Q5_K_R4", 256, 176, 0, 4),
    (214, "Q6_K_R4", 256, 210, 0, 4),
    (216, "IQ2_XXS_R4", 256, 66, 0, 4),
    (217, "IQ2_XS_R4", 256, 74, 0, 4),
    (218, "IQ3_XXS_R4", 256, 98, 0, 4),
    (219, "IQ1_S_R4", 32, 6, 2, 4),
    (220, "IQ4_NL_R4", 32, 18, 0, 4),
    (221, "IQ3_S_R4", 256, 110, 0, 4),
    (222, "IQ2_S_R4", 256, 82, 0, 4),
    (223, "IQ4_XS_R8", 256, 136, 0, 8),
    (229, "IQ1_M_R4", 32, 7, 2, 4),
    (233, "Q6_0_R4", 32, 26, 0, 4),
    (335, "IQ2_BN_R4", 64, 16, 4, 4),
    (337, "IQ2_K_R4", 256, 76, 0, 4),
    (338, "IQ3_K_R4", 256, 110, 0, 4),
    (339, "IQ4_K_R4", 256, 144, 0, 4),
    (340, "IQ5_K_R4", 256, 176, 0, 4),
    (344, "IQ4_KS_R4", 256, 136, 4, 4),
    (352, "IQ5_KS_R4", 256, 168, 4, 4),
    (353, "MXFP4_R8", 32, 17, 0, 8),
    (397, "Q8_K_R16", 256, 258, 0, 16),
    (398, "Q8_KV_R8", 32, 32, 4, 8),
    (399, "Q8_K_R8", 256, 258, 0, 8),
)
# Which it makes of activations while a model runs; no file has them.
_ACTIVATIONS_OF_IK = (
    (97, "Q8_0_X4", 32, 34, 0, 1),
    (98, "Q8_1_X4", 32, 36, 0, 1),
    (99, "Q8_2_X4", 32, 36, 0, 1),
    (136, "Q8_K64", 64, 68, 0, 1),
    (147, "Q8_K16", 64, 64, 20, 1),
    (148, "Q8_K32", 256, 296, 0, 1),
    (149, "Q8_KR8", 256, 296, 0, 1),
    (150, "Q8_K128", 128, 140, 0, 1),
)
# Ternary types of PrismML's fork (its ggml-common.h, `block_pq2_0` and `block_ptq1_0`), and what it
# called Q2_0 before ggml had one (docs/gguf.md, section 12).
_OF_PRISM = ((142, "PQ2_0", 128, 34), (143, "PTQ1_0", 128, 28))
Q2_0_OF_PRISM: Final = TensorType("Q2_0 (PrismML)", 128, 34, 42, quantized=True)
# Types that ggml had once. The sized ones are Q4_0 or IQ4_NL with the blocks of so many rows
# together; C says of them to use these, which it repacks at run time.
_REMOVED = (
    (4, "Q4_2", 0, 0, 1),
    (5, "Q4_3", 0, 0, 1),
    (31, "Q4_0_4_4", 32, 18, 4),
    (32, "Q4_0_4_8", 32, 18, 4),
    (33, "Q4_0_8_8", 32, 18, 8),
    (36, "IQ4_NL_4_4", 32, 18, 4),
    (37, "IQ4_NL_4_8", 32, 18, 4),
    (38, "IQ4_NL_8_8", 32, 18, 8),
)
# Only in safetensors (docs/safetensors_and_blobs.md, section 1); F4 and F6 are packed floats.
_SAFETENSORS_ONLY = (
    ("BOOL", 1, 1),
    ("U8", 1, 1),
    ("U16", 1, 2),
    ("U32", 1, 4),
    ("U64", 1, 8),
    ("C64", 1, 8),
    ("F8_E4M3", 1, 1),
    ("F8_E5M2", 1, 1),
    ("F8_E8M0", 1, 1),
    ("F8_E4M3FNUZ", 1, 1),
    ("F8_E5M2FNUZ", 1, 1),
    ("F6_E2M3", 4, 3),
    ("F6_E3M2", 4, 3),
    ("F4", 2, 1),
)


def _with_rows(rows: Iterable[tuple[int, str, int, int, int, int]]) -> dict[int, TensorType]:
    return {
        i: TensorType(name, weights, size, i, quantized=True, row_header=header, rows=together)
        for i, name, weights, size, header, together in rows
    }


_OF_GGML: Final = {i: TensorType(name, weights, size, i) for i, name, weights, size in _PLAIN} | {
    i: TensorType(name, weights, size, i, quantized=True) for i, name, weights, size in _QUANTIZED
}
_DECODED: Final = _OF_GGML | _with_rows(_OF_IK) | {230: TensorType("BF16_R16", 2, 4, 230, rows=16)}

GGML_TYPES: Final[Mapping[int, TensorType]] = MappingProxyType(
    _DECODED
    | _with_rows(_ACTIVATIONS_OF_IK)
    | {
        i: TensorType(name, weights, size, i, quantized=True)
        for i, name, weights, size in _OF_PRISM
    }
    | {
        i: TensorType(f"removed ({name})", weights, size, i, rows=together)
        for i, name, weights, size, together in _REMOVED
    }
)
"""Types of GGUF files by id: ggml's, those that it removed, and those of two forks."""

I2_S: Final = TensorType("I2_S", 128, 32, 36, quantized=True, trailer=32)
"""Ternary weights of BitNet, whose fork of llama.cpp gave it an id that ggml used otherwise."""

OTHER_MEANINGS: Final[Mapping[int, TensorType]] = MappingProxyType(
    {
        4: TensorType("MXFP4 (old)", 32, 17, 4, quantized=True),
        36: I2_S,
        37: TensorType("I8_S", 0, 0, 37),
        38: TensorType("TL1", 0, 0, 38),
        39: TensorType("TL2", 0, 0, 39),
        42: Q2_0_OF_PRISM,
    }
)
"""What an id means in files of Ollama 0.11 (4), PrismML (42) and BitNet, if not what ggml says.

The sizes of BitNet's other types depend on tables of its kernels."""

OF_LLAMA_CPP: Final = frozenset(_OF_GGML.values())
"""The types that llama.cpp loads."""

OF_IK_LLAMA_CPP: Final = frozenset((*_DECODED.values(), I2_S)) - {
    _OF_GGML[number] for number in (34, 35, 40, 42)
}
"""The types that ik_llama.cpp loads: not TQ1_0, TQ2_0, NVFP4 and Q2_0."""

TENSOR_TYPES: Final[Mapping[str, TensorType]] = MappingProxyType(
    {kind.name: kind for kind in (*_DECODED.values(), I2_S, OTHER_MEANINGS[4])}
    | {name: TensorType(name, weights, size) for name, weights, size in _SAFETENSORS_ONLY}
)
"""Every type whose weights this program can read or says why not, by name."""


def ggml_type(type_id: int) -> TensorType:
    """Return the type with ggml's id; an id that ggml does not have (yet) gives an unknown type."""
    return GGML_TYPES.get(type_id) or TensorType(f"unknown ({type_id})", 0, 0, type_id)


# Floats of eight bits and less: what each code is worth, by the formats' definitions.
#
# A code is a sign, an exponent and a mantissa, highest bit first (E8M0: an exponent alone)::
#
#     exponent > 0   (-1)^sign * 2^(exponent - bias) * (1 + mantissa / 2^M)
#     exponent = 0   (-1)^sign * 2^(1 - bias) * mantissa / 2^M          (subnormal, or zero)
#
# Formats differ in how they spend their last codes: on infinities and NaN as IEEE 754 does
# (E5M2), on one NaN for each sign (E4M3), on numbers only (the sub-byte ones), or, in the FNUZ
# kind, on numbers with the code of minus zero as the only NaN.
#
# Source: OCP 8-bit Floating Point Specification (OFP8) 1.0, section 5; OCP Microscaling Formats
# (MX) Specification 1.0, section 5.3; the FNUZ kind: ml_dtypes README, `float8_e4m3fnuz` and
# `float8_e5m2fnuz`.


class Special(Enum):
    """Which codes of a format are no numbers."""

    NONE = auto()
    IEEE = auto()  # all ones in the exponent: infinity, and NaN where the mantissa is not zero
    LAST = auto()  # all ones in exponent and mantissa: NaN
    MINUS_ZERO = auto()  # the sign alone: NaN


def float_values(
    exponent_bits: int, mantissa_bits: int, bias: int, special: Special = Special.NONE
) -> NDArray[np.float32]:
    """Return the value of every code of a float format; all of them are exact in float32.

    Args:
        exponent_bits: Width of the exponent.
        mantissa_bits: Width of the mantissa; a sign bit stands before both.
        bias: What is subtracted from the exponent.
        special: Which codes are no numbers.

    Returns:
        float32 [number of codes], not writable.
    """
    magnitudes = np.arange(1 << (exponent_bits + mantissa_bits))
    exponents, mantissas = magnitudes >> mantissa_bits, magnitudes & ((1 << mantissa_bits) - 1)
    implied = np.where(exponents > 0, 1 << mantissa_bits, 0)
    powers = np.maximum(exponents, 1) - bias - mantissa_bits
    values = np.ldexp((implied + mantissas).astype(np.float32), powers)
    if special is Special.IEEE:
        last = exponents == (1 << exponent_bits) - 1
        values[last] = np.where(mantissas[last] == 0, np.inf, np.nan)
    elif special is Special.LAST:
        values[-1] = np.nan
    table = np.concatenate([values, -values])
    if special is Special.MINUS_ZERO:
        table[len(values)] = np.nan
    return _constant(table)


def power_values(last: float) -> NDArray[np.float32]:
    """Return the value of every E8M0 code, 2^(code - 127); float32 [256], not writable.

    Args:
        last: What code 255 is: NaN in the MX specification, infinity in MLX's arithmetic.
    """
    powers = np.ldexp(np.float32(1), np.arange(255) - 127)
    return _constant(np.append(powers, np.float32(last)))


def _constant(table: NDArray[np.float32]) -> NDArray[np.float32]:
    table.setflags(write=False)
    return table


E2M1: Final = float_values(2, 1, 1)
E2M3: Final = float_values(2, 3, 1)
E3M2: Final = float_values(3, 2, 3)
E4M3: Final = float_values(4, 3, 7, Special.LAST)
E5M2: Final = float_values(5, 2, 15, Special.IEEE)
E4M3_FNUZ: Final = float_values(4, 3, 8, Special.MINUS_ZERO)
E5M2_FNUZ: Final = float_values(5, 2, 16, Special.MINUS_ZERO)
E8M0: Final = power_values(np.nan)
E8M0_OF_MLX: Final = power_values(np.inf)
