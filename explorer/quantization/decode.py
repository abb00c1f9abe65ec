"""Blocks to float32, for callers that want their input checked.

Bit-exact with ggml's reference code, but for the sign and payload of a NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.anatomy import anatomy, has_anatomy
from explorer.quantization.arrays import QuantizationError
from explorer.quantization.registry import WITHOUT_DECODER, decoder, has_decoder
from explorer.quantization.types import TENSOR_TYPES, TensorType


def dequantize(
    raw: Any, type_name: str, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Decode blocks that lie one behind the other.

    The first call for a type compiles its kernel or loads it from disk (0.1 to 0.5 s): call
    `warm_up` in a worker before.

    Args:
        raw: uint8 [blocks * block_bytes]: bytes or any other contiguous buffer of bytes.
        type_name: A tensor type, such as ``"Q4_K"``.
        out: float32 [blocks * block_weights] to fill, apart from `raw`; made if not given.

    Returns:
        `out`, or a new array of the same kind.

    Raises:
        QuantizationError: The type is not known or not decoded, `raw` is no whole number of
            blocks, or `out` cannot take the weights.
    """
    kind = _decodable(type_name)
    data = _bytes_of(raw)
    if data.size % kind.block_bytes:
        raise QuantizationError(
            f"{data.size} bytes are no whole number of {type_name} blocks "
            f"of {kind.block_bytes} bytes"
        )
    count = data.size // kind.block_bytes
    if out is None:
        out = np.empty(count * kind.block_weights, np.float32)
    else:
        _check_out(out, count * kind.block_weights)
        if np.may_share_memory(data, out):
            raise QuantizationError("the weights would overwrite the blocks that they come from")
    decoder(type_name)(
        data.reshape(count, kind.block_bytes), out.reshape(count, kind.block_weights)
    )
    return out


def warm_up(type_name: str, *, split: bool = False) -> None:
    """Compile a type's kernel or load it from disk, so that the next `dequantize` does not wait.

    For a worker thread: compiling holds the GIL for most of its 0.1 to 0.5 s.

    Args:
        type_name: A tensor type, such as ``"Q4_K"``.
        split: Whether to do the same for the kernel that takes blocks apart, if there is one.

    Raises:
        QuantizationError: The type is not known or not decoded.
    """
    kind = _decodable(type_name)
    dequantize(bytes(kind.block_bytes), type_name)
    if split and has_anatomy(type_name):
        parts = anatomy(type_name)
        codes = np.empty((1, kind.block_weights), np.uint8)
        scales = np.empty((1, kind.block_weights // parts.weights_per_scale), np.float32)
        parts.split(np.zeros((1, kind.block_bytes), np.uint8), codes, scales, scales.copy())


def _decodable(type_name: str) -> TensorType:
    kind = TENSOR_TYPES.get(type_name)
    if kind is None:
        raise QuantizationError(f"unknown tensor type {type_name!r}")
    if not has_decoder(type_name):
        raise QuantizationError(
            f"weights of type {type_name} cannot be decoded: {WITHOUT_DECODER[type_name]}"
        )
    return kind


def _bytes_of(raw: Any) -> NDArray[np.uint8]:
    """Return a buffer's bytes as uint8 [n], without a copy."""
    try:
        view = memoryview(raw)
    except TypeError as error:
        raise QuantizationError(f"blocks must be bytes, not {type(raw).__name__}") from error
    if view.itemsize != 1:
        raise QuantizationError(f"blocks must be bytes (uint8), not elements of {view.format!r}")
    if not view.c_contiguous:
        raise QuantizationError("blocks must lie one behind the other (C-contiguous)")
    # memoryview.cast refuses empty arrays of more than one dimension.
    return np.frombuffer(view if view.nbytes else b"", np.uint8)


def _check_out(out: Any, count: int) -> None:
    if not isinstance(out, np.ndarray) or out.dtype != np.float32:
        found = out.dtype if isinstance(out, np.ndarray) else type(out).__name__
        raise QuantizationError(f"out must be a float32 array, not {found}")
    if out.shape != (count,):
        raise QuantizationError(f"out must be of shape {(count,)}, not {out.shape}")
    if not (out.flags.c_contiguous and out.flags.aligned and out.flags.writeable):
        raise QuantizationError("out must be contiguous, aligned and writable")
