"""The grids of the IQ types, and the levels of IQ4: data of ggml, shipped in `resources/grids`."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Any, Final

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


@cache
def kernel_grid(grid: Grid) -> NDArray[Any]:
    """Return a grid as kernels read it, read-only; the file is read at first use.

    Returns:
        IQ1 and IQ2: int8 [rows, 8]; IQ1's rows are in eighths, so that its shift by an eighth is a
        whole number too. IQ3: uint32 [rows], with weight j of 4 in byte j.

    Raises:
        FileNotFoundError: The installation lacks the file.
    """
    rows: NDArray[Any] = stored_grid(grid)
    if grid is Grid.IQ1S:
        rows = rows * np.int8(8)
    elif grid in {Grid.IQ3XXS, Grid.IQ3S}:
        rows = rows.view("<u4")[:, 0].astype(np.uint32)
    rows.flags.writeable = False
    return rows


def stored_grid(grid: Grid) -> NDArray[np.int8]:
    """Read a grid as it is shipped: int8 [rows, weights of a group]."""
    with (
        resource("grids/ggml_iq_grids.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as grids,
    ):
        rows: NDArray[np.int8] = grids[grid.value]
    return rows
