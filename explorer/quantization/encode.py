"""Float32 to blocks: what a tensor would lose in another type, byte for byte as ggml makes it.

Bytes are those of ggml's reference code for Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q1_0, Q2_0, TQ1_0, TQ2_0,
MXFP4, NVFP4, IQ4_NL, IQ4_XS, F16 and BF16; for Q2_K to Q6_K weights are the same to the bit, and
bytes but for codes of sub-blocks whose scale is 0. IQ2_S, IQ3_XXS and IQ3_S are searched in another
way, with errors as ggml's or less. With importance, Q4_0 to Q5_1 and Q3_K choose the last codes by
the scale that is stored, which ggml does not; errors are the same within 1 %.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.arrays import QuantizationError, Weights
from explorer.quantization.encoders.registry import (
    WITHOUT_ENCODER,
    encoder,
    has_encoder,
    uses_importance,
)
from explorer.quantization.types import TENSOR_TYPES, TensorType


def quantize(
    values: Any, type_name: str, importance: NDArray[np.float32] | None = None
) -> NDArray[np.uint8]:
    """Round weights to a tensor type.

    Blocks hold no NaN and no infinity: such a weight counts as 0. F16, BF16 and F32 keep them.
    A scale beyond a half float's range is stored as infinity, as by ggml. The first call for a type
    compiles its kernel or loads it from disk.

    Args:
        values: float32 of any shape, whole rows in C order.
        type_name: A tensor type, such as ``"Q4_K"``.
        importance: float32 [columns], not negative: how much the square error of each column counts
            (an importance matrix). Types without a search, such as Q8_0 and MXFP4, do not use it.

    Returns:
        uint8 [blocks * block_bytes].

    Raises:
        QuantizationError: The type is not known or has no quantizer, `values` are no whole number
            of blocks, or `importance` does not fit them.
    """
    kind = _encodable(type_name)
    if not isinstance(values, np.ndarray) or values.dtype != np.float32:
        found = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise QuantizationError(f"weights must be a float32 array, not {found}")
    if values.size % kind.block_weights:
        raise QuantizationError(
            f"{values.size} weights are no whole number of {type_name} blocks "
            f"of {kind.block_weights} weights"
        )
    rows = np.ascontiguousarray(values).reshape(-1, kind.block_weights)
    blocks = np.empty((len(rows), kind.block_bytes), np.uint8)
    weights = _importance(importance, kind, values.size)
    encoder(type_name)(rows, weights if uses_importance(type_name) else None, blocks)
    return blocks.reshape(-1)


def _encodable(type_name: str) -> TensorType:
    kind = TENSOR_TYPES.get(type_name)
    if kind is None:
        raise QuantizationError(f"unknown tensor type {type_name!r}")
    if not has_encoder(type_name):
        raise QuantizationError(
            f"weights cannot be rounded to type {type_name}: {WITHOUT_ENCODER[type_name]}"
        )
    return kind


def _importance(given: Any, kind: TensorType, count: int) -> Weights | None:
    """Return importance as [blocks of a row, weights of a block], and None where none is given."""
    if given is None:
        return None
    if not isinstance(given, np.ndarray) or given.dtype != np.float32 or given.ndim != 1:
        raise QuantizationError("importance must be a float32 array of one dimension")
    columns = given.size
    if not columns or columns % kind.block_weights or count % columns:
        raise QuantizationError(
            f"importance of {columns} columns does not fit {count} weights in rows of whole "
            f"{kind.name} blocks of {kind.block_weights} weights"
        )
    if not (np.isfinite(given).all() and (given >= 0).all()):
        raise QuantizationError("importance must be finite and not negative")
    return np.ascontiguousarray(given).reshape(-1, kind.block_weights)
