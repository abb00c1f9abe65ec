"""The grids of the IQ types, and the levels of IQ4: data of ggml, shipped in `resources/grids`."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.paths import resource

KVALUES: Final = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""The 16 levels of IQ4 (ggml/src/ggml-common.h, `kvalues_iq4nl`)."""


class Grid(StrEnum):
    """A grid; the value is its name in the shipped file."""

    IQ1S = "iq1s"
    IQ2XXS = "iq2xxs"
    IQ2XS = "iq2xs"
    IQ2S = "iq2s"
    IQ3XXS = "iq3xxs"
    IQ3S = "iq3s"


def stored_grid(grid: Grid) -> NDArray[np.int8]:
    """Read a grid as it is shipped: int8 [rows, weights of a group]."""
    with (
        resource("grids/ggml_iq_grids.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as grids,
    ):
        rows: NDArray[np.int8] = grids[grid.value]
    return rows
