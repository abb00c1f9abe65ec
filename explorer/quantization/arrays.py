"""The arrays that kernels take and give, and the check that keeps kernels inside them."""

from __future__ import annotations

from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from explorer.errors import ExplorerError

Blocks: TypeAlias = NDArray[np.uint8]
"""Stored blocks: uint8 [blocks, bytes of a block], C-contiguous."""

Weights: TypeAlias = NDArray[np.float32]
"""Decoded weights: float32 [blocks, weights of a block], C-contiguous."""

Element = TypeVar("Element", bound=np.generic)

UINT8: Final = np.dtype(np.uint8)
FLOAT32: Final = np.dtype(np.float32)


class QuantizationError(ExplorerError, ValueError):
    """Blocks or weights that do not fit their tensor type, or a type that has no such kernel."""


def check_array(
    what: str, array: NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...]
) -> None:
    """Check an array that a kernel is to read, since kernels check nothing.

    Raises:
        QuantizationError: It has another element type or shape, or is not contiguous.
    """
    if not (array.shape == shape and array.dtype == dtype and array.flags.c_contiguous):
        order = "" if array.flags.c_contiguous else " strided"
        raise QuantizationError(
            f"{what} must be a contiguous array of {dtype} {list(shape)}, "
            f"not{order} {array.dtype} {list(array.shape)}"
        )


def check_output(
    what: str, array: NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...]
) -> None:
    """Check an array that a kernel is to fill.

    Raises:
        QuantizationError: As `check_array`, or it cannot be written.
    """
    check_array(what, array, dtype, shape)
    if not array.flags.writeable:
        raise QuantizationError(f"{what} must be writable")


def read_only(array: NDArray[Element]) -> NDArray[Element]:
    """Return a view that kernels cannot write to: Numba compiles anew for what it could."""
    view = array.view()
    view.flags.writeable = False
    return view
