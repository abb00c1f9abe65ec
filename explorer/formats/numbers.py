"""Numbers with suffixes and comparison signs, as people type them: ``>100M``, ``<=0x1000``.

Exact: bounds are whole numbers worked out from fractions, because a size near 2^63 compared as a
float is off by hundreds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.notation import plain_number

_NUMBER: Final = re.compile(r"(?P<whole>[0-9]{0,20})(?:\.(?P<part>[0-9]{0,20}))?(?P<suffix>[a-z]*)")
_HEX: Final = re.compile(r"0x([0-9a-f]{1,16})")

# Powers by suffix: what counts bytes, and what counts things.
_BYTES: Final[Mapping[str, int]] = (
    {"": 1, "b": 1}
    | {letter: 1024**power for power, letter in enumerate("kmgt", 1)}
    | {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)}
    | {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)}
)
_COUNT: Final[Mapping[str, int]] = {"": 1, "b": 10**9} | {
    letter: 1000**power for power, letter in enumerate("kmgt", 1)
}
_UNITS: Final = {"bytes": _BYTES, "count": _COUNT, "plain": {"": 1}}


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a comparison lets through.

    Attributes:
        low: The least, or None for no limit.
        high: The most, or None for no limit.
        open_ends: Whether the limits themselves are outside.
    """

    low: Fraction | None
    high: Fraction | None
    open_ends: bool

    def of_integers(self, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell for each integer, int64 [n], whether it is within: bool [n]."""
        mask = np.ones(len(values), dtype=np.bool_)
        if self.low is not None:
            mask &= values >= (math.floor(self.low) + 1 if self.open_ends else math.ceil(self.low))
        if self.high is not None:
            mask &= values <= (
                math.ceil(self.high) - 1 if self.open_ends else math.floor(self.high)
            )
        return mask

    def of_floats(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell for each number, float64 [n], whether it is within: bool [n]."""
        mask = np.ones(len(values), dtype=np.bool_)
        if self.low is not None:
            mask &= values > float(self.low) if self.open_ends else values >= float(self.low)
        if self.high is not None:
            mask &= values < float(self.high) if self.open_ends else values <= float(self.high)
        return mask


def parse_bounds(sign: str, text: str, unit: str) -> Bounds | None:
    """Understand a comparison.

    Args:
        sign: ``>``, ``>=``, ``<``, ``<=`` or ``=``; the last finds what rounds to the digits typed.
        text: The number in lower case: ``"1.5g"``, ``"1,000"``, ``"0x1f"``.
        unit: ``"bytes"`` (K is 1024, KB 1000), ``"count"`` (K is 1000, B is 10^9) or ``"plain"``.

    Returns:
        What it lets through, or None if the text is no such number.
    """
    number = _parse_number(text, unit)
    if number is None:
        return None
    value, step = number
    if sign in (">", ">="):
        return Bounds(value, None, open_ends=sign == ">")
    if sign in ("<", "<="):
        return Bounds(None, value, open_ends=sign == "<")
    return Bounds(value - step / 2, value + step / 2, open_ends=False)


def _parse_number(text: str, unit: str) -> tuple[Fraction, Fraction] | None:
    """Return a number and the worth of its last digit, 0 if it is exact."""
    hexadecimal = _HEX.fullmatch(text)
    if hexadecimal is not None:
        return Fraction(int(hexadecimal[1], 16)), Fraction(0)
    whole = unit != "plain" and text[-1:].isdigit()  # bytes and counts have no fractions
    match = _NUMBER.fullmatch(plain_number(text, whole=whole))
    if match is None or not (match["whole"] or match["part"]):
        return None
    scale = _UNITS[unit].get(match["suffix"])
    if scale is None:
        return None
    part = match["part"] or ""
    value = Fraction(int(match["whole"] + part), 10 ** len(part)) * scale
    exact = not part and scale == 1
    return value, Fraction(0) if exact else Fraction(scale, 10 ** len(part))
