"""Floats of eight bits and less: what each code is worth, by the formats' definitions.

A code is a sign, an exponent and a mantissa, highest bit first (E8M0: an exponent alone)::

    exponent > 0   (-1)^sign * 2^(exponent - bias) * (1 + mantissa / 2^M)
    exponent = 0   (-1)^sign * 2^(1 - bias) * mantissa / 2^M          (a subnormal number, or zero)

Formats differ in how they spend their last codes: on infinities and NaN as IEEE 754 does (E5M2), on
one NaN for each sign (E4M3), on numbers only (the sub-byte ones), or, in the FNUZ kind, on numbers
with the code of minus zero as the only NaN.

Source: OCP 8-bit Floating Point Specification (OFP8) 1.0, section 5; OCP Microscaling Formats (MX)
Specification 1.0, section 5.3; the FNUZ kind: ml_dtypes README, `float8_e4m3fnuz` and
`float8_e5m2fnuz`.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import numpy as np
from numpy.typing import NDArray


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
