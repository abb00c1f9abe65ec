"""The table of tensor types: how many weights a block holds and how many bytes it takes.

One table for both formats. Types of ggml carry ggml's id (`docs/gguf.md`, section 7;
ggml/include/ggml.h, `enum ggml_type`, and the traits in ggml/src/ggml.c); types that only
safetensors knows have none (safetensors/src/tensor.rs, `enum Dtype`). Sub-byte floats of
safetensors are blocks too: F4 packs two weights into a byte, F6 four into three bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
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
        id: ggml's type id, or None for a type that only safetensors has.
        quantized: Whether blocks carry codes with scales, rather than plain numbers.
    """

    name: str
    block_weights: int
    block_bytes: int
    id: int | None = None
    quantized: bool = False

    @property
    def known(self) -> bool:
        """Whether the size of a block is known; removed and future types are not."""
        return self.block_weights > 0

    @property
    def bits_per_weight(self) -> float:
        """Stored bits for each weight, scales included; 0.0 if unknown."""
        return 8 * self.block_bytes / self.block_weights if self.known else 0.0

    def nbytes(self, weights: int) -> int | None:
        """Return the bytes that `weights` take, or None if they do not fill whole blocks."""
        if not self.known or weights % self.block_weights:
            return None
        return weights // self.block_weights * self.block_bytes


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
# Types that ggml had once; C says of the last six: use Q4_0 or IQ4_NL, repacked at run time.
_REMOVED: Final[Mapping[int, str]] = MappingProxyType(
    {
        4: "Q4_2",
        5: "Q4_3",
        31: "Q4_0_4_4",
        32: "Q4_0_4_8",
        33: "Q4_0_8_8",
        36: "IQ4_NL_4_4",
        37: "IQ4_NL_4_8",
        38: "IQ4_NL_8_8",
    }
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

GGML_TYPES: Final[Mapping[int, TensorType]] = MappingProxyType(
    {i: TensorType(name, weights, size, i) for i, name, weights, size in _PLAIN}
    | {
        i: TensorType(name, weights, size, i, quantized=True)
        for i, name, weights, size in _QUANTIZED
    }
    | {i: TensorType(f"removed ({name})", 0, 0, i) for i, name in _REMOVED.items()}
)
"""ggml's types by id, those that ggml removed included (they list, without a size)."""

TENSOR_TYPES: Final[Mapping[str, TensorType]] = MappingProxyType(
    {kind.name: kind for kind in GGML_TYPES.values() if kind.known}
    | {name: TensorType(name, weights, size) for name, weights, size in _SAFETENSORS_ONLY}
)
"""Every type whose size is known, by name."""


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
