"""Eight sub-blocks side by side, in the lanes of vector registers.

Within one sub-block nothing could be vectorized, because float sums keep their order. So `x` and
`w` hold weight i of sub-block k at [8 i + k], and `lanes` the figure F of sub-block k at [F + k].
"""

from __future__ import annotations

from typing import Any, Final

from explorer.quantization.encoders.contract import LANES
from explorer.quantization.jit import f32, inlined, routine

SCALE: Final = 0 * LANES  # results
MINIMUM: Final = 1 * LANES
SUM_W: Final = 2 * LANES
HIGH: Final = 3 * LANES  # the largest magnitude, or the greatest weight
MAX: Final = 4 * LANES  # the weight of the largest magnitude
BEST: Final = 5 * LANES  # what the best scale so far gains or costs
INVERSE: Final = 6 * LANES  # what weights are multiplied by before they are rounded
SUM_L2: Final = 7 * LANES  # weighted sums over codes l and weights x, named as in ggml
SUM_XL: Final = 8 * LANES
OTHERS: Final = 9 * LANES  # the first place that is free

SHIFTS: Final = (0, -9, -8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9)
"""Tenths of a code by which tried scales differ from the obvious one, which comes first."""

EPSILON: Final = 1e-15
"""Sub-blocks whose weights are all smaller have the scale 0 (ggml: `GROUP_MAX_EPS`)."""


@inlined
def greatest(figures: Any, count: Any) -> Any:
    """Return the greatest figure, and 0 if none is positive."""
    most = f32(0)
    for k in range(count):
        most = figures[k] if figures[k] > most else most
    return most


@inlined
def first_of_largest(figures: Any, count: Any) -> Any:
    """Return the first figure of the largest magnitude."""
    most = f32(0)
    for k in range(count):
        most = figures[k] if abs(figures[k]) > abs(most) else most
    return most


@routine
def find_largest(x: Any, w: Any, lanes: Any, count: Any) -> None:
    """Find the first weight of the largest magnitude, with its sign."""
    for k in range(LANES):
        lanes[HIGH + k] = f32(0)
        lanes[MAX + k] = f32(0)
        lanes[SUM_W + k] = f32(0)
    for i in range(count):
        for k in range(LANES):
            v = x[LANES * i + k]
            more = abs(v) > lanes[HIGH + k]
            lanes[HIGH + k] = abs(v) if more else lanes[HIGH + k]
            lanes[MAX + k] = v if more else lanes[MAX + k]
            lanes[SUM_W + k] += w[LANES * i + k]
