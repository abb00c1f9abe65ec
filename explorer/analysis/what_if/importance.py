"""Importance of a tensor's columns, from an importance matrix that llama.cpp gathered.

A file of `llama-imatrix` in GGUF holds for each weight tensor the sums of the squares of what its
columns were multiplied with, and how often. Their ratio is how much an error in a column counts.
Source: llama.cpp, tools/imatrix/imatrix.cpp (`save_imatrix`), tools/quantize/quantize.cpp
(`load_imatrix`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.errors import ExplorerError
from explorer.formats.model import Model

_SUMS: Final = ".in_sum2"
_COUNTS: Final = ".counts"
_MAX_WEIGHTS: Final = 1 << 26  # 1,024 experts of 65,536 columns


def is_importance_matrix(model: Model) -> bool:
    """Tell whether a model is an importance matrix."""
    return any(name.endswith(_SUMS) for name in model.tensors.columns.names)


def importance_of(matrix: Model, name: str) -> NDArray[np.float32] | None:
    """Return the importance of a tensor's columns, float32 [matrices, columns].

    Columns of a matrix that was never used, such as an expert's, count 1.

    Args:
        matrix: An importance matrix, opened.
        name: The tensor's name.

    Returns:
        None if the matrix does not have the tensor.

    Raises:
        ExplorerError: The matrix is not what it should be.
    """
    if name + _SUMS not in matrix.tensors or name + _COUNTS not in matrix.tensors:
        return None
    sums, counts = matrix.tensors[name + _SUMS], matrix.tensors[name + _COUNTS]
    columns = sums.shape[-1] if sums.shape else 1
    fit = sums.parameters == counts.parameters * columns
    if not (fit and 0 < sums.parameters <= _MAX_WEIGHTS):
        what = f"{sums.parameters} sums of {name!r} do not fit {counts.parameters} counts"
        raise ExplorerError(what, matrix.path)
    squares = sums.dequantize().reshape(-1, columns)
    used = counts.dequantize().reshape(-1, 1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        importance = np.where(used > 0, squares / used, np.float32(1)).astype(np.float32)
    # of the quotients too: a count below 1, which only a damaged file has, takes one beyond float32
    finite = all(np.isfinite(numbers).all() for numbers in (squares, used, importance))
    if not (finite and (squares >= 0).all()):
        raise ExplorerError(f"importance of {name!r} is not finite, or negative", matrix.path)
    return importance
