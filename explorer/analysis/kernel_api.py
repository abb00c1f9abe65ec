"""Where the kernels keep what in their arrays, and how the kernels are loaded.

Apart from the kernels, so that nothing has to import Numba before the first weight is read.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

from explorer.quantization.registry import PIECE as PIECE  # noqa: PLC0414 - kernels read it here

# Statistics of finite values, float64 [FIGURES]: their number, how many of them are zeros, …
# M2 to M4 are sums of powers of the distance from the mean. A float64 counts exactly up to 2^53.
FINITE, ZEROS, MIN, MAX, MEAN, M2, M3, M4, FIGURES = range(9)

# Counts of the others, int64 [OTHERS]:
NAN, POSITIVE_INF, NEGATIVE_INF, OTHERS = range(4)

LANES: Final = 64
"""Partial sums side by side."""

HALVES: Final = 1 << 16
"""Counters of numbers of 16 bits: of `count_halves`, and of `count_keys`."""


@cache
def kernels() -> Any:
    """Return the module of the loops over weights; the first call takes a fifth of a second."""
    return import_module("explorer.analysis.kernels")
