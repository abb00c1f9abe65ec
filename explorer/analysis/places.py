"""Where the kernels keep what in their arrays, and how the kernels are loaded.

Apart from the kernels, so that nothing has to import Numba before the first weight is read.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

# In `counts`, int64 [COUNTS]:
FINITE, NAN, POSITIVE_INF, NEGATIVE_INF, ZEROS, COUNTS = range(6)

# In `moments`, float64 [MOMENTS]; M2 to M4 are sums of powers of the distance from the mean.
MIN, MAX, MEAN, M2, M3, M4, MOMENTS = range(7)

KEYS: Final = 1 << 16
"""Counters of `count_keys`: one for each upper half of a float32's bits."""


@cache
def kernels() -> Any:
    """Return the module of the loops over weights; the first call takes a fifth of a second."""
    return import_module("explorer.analysis.kernels")
