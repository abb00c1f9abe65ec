"""Blocks to float32 and back, and to the other byte order, with all input checked.

Bit-exact with ggml's reference code, but for the sign and payload of a NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.registry import (
    WITHOUT_DECODER,
    WITHOUT_ENCODER,
    WITHOUT_IMPORTANCE,
    Blocks,
    QuantizationError,
    Weights,
    block_layout,
    decoder,
    encoder,
    uses_importance,
)
from explorer.quantization.types import TENSOR_TYPES, TensorType


def dequantize(
    raw: Any, type_name: str, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Decode blocks that lie one behind the other.

    The first call for a type compiles its kernel or loads it from disk, in 0.1 to 0.5 s.

    Args:
        raw: uint8 [blocks * bytes of a whole block]: bytes or any other contiguous buffer of bytes.
            Blocks of a type with headers of rows each have that of their row in front.
        type_name: A tensor type, such as ``"Q4_K"``.
        out: float32 [blocks * block_weights] to fill, apart from `raw`; made if not given.

    Returns:
        `out`, or a new array of the same kind.

    Raises:
        QuantizationError: The type is not known or not decoded, `raw` is not a whole number of
            blocks, or `out` cannot take the weights.
    """
    kind = _type(type_name, WITHOUT_DECODER, f"of type {type_name} cannot be decoded")
    data = _bytes_of(raw)
    if data.size % kind.whole_bytes:
        raise QuantizationError(
            f"{data.size} bytes are not a whole number of {type_name} blocks "
            f"of {kind.whole_bytes} bytes"
        )
    count = data.size // kind.whole_bytes
    if out is None:
        out = np.empty(count * kind.block_weights, np.float32)
    else:
        _check_out(out, count * kind.block_weights)
        if np.may_share_memory(data, out):
            raise QuantizationError("the weights would overwrite the blocks that they come from")
    decoder(type_name)(
        data.reshape(count, kind.whole_bytes), out.reshape(count, kind.block_weights)
    )
    return out


def _type(type_name: str, reasons: Mapping[str, str], what: str) -> TensorType:
    """Return a type, unless something cannot be done with it, for reasons by type."""
    kind = TENSOR_TYPES.get(type_name)
    if kind is None:
        raise QuantizationError(f"unknown tensor type {type_name!r}")
    if type_name in reasons:
        raise QuantizationError(f"weights {what}: {reasons[type_name]}")
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


# Float32 to blocks: what a tensor would lose in another type, byte for byte as ggml makes it.
#
# Bytes are those of ggml's reference code, with importance and without.


def quantize(
    values: Any, type_name: str, importance: NDArray[np.float32] | None = None
) -> NDArray[np.uint8]:
    """Round weights to a tensor type.

    Blocks hold no NaN and no infinity: such a weight counts as 0. F16, BF16 and F32 keep them.
    A scale beyond a half float's range is stored as infinity, as by ggml. The first call for a type
    compiles its kernel or loads it from disk.

    Args:
        values: float32 of any shape, whole rows in C order. Of a type with headers of rows the
            last dimension is a row.
        type_name: A tensor type, such as ``"Q4_K"``.
        importance: float32 [columns], not negative: how much the square error of each column counts
            (an importance matrix). Types without a search, such as Q8_0 and MXFP4, do not use it;
            IQ1_S, IQ2_XXS and IQ2_XS cannot be made without.

    Returns:
        uint8 [blocks * bytes of a whole block], as `dequantize` reads them.

    Raises:
        QuantizationError: The type is not known, has no quantizer or needs importance, `values` are
            no whole number of blocks, or `importance` does not fit them.
    """
    kind = _type(type_name, WITHOUT_ENCODER, f"cannot be rounded to type {type_name}")
    if importance is None:
        _type(type_name, WITHOUT_IMPORTANCE, f"cannot be rounded to type {type_name} as they are")
    if not isinstance(values, np.ndarray) or values.dtype != np.float32:
        found = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise QuantizationError(f"weights must be a float32 array, not {found}")
    if values.size % kind.block_weights:
        raise QuantizationError(
            f"{values.size} weights are not a whole number of {type_name} blocks "
            f"of {kind.block_weights} weights"
        )
    rows = np.ascontiguousarray(values).reshape(-1, kind.block_weights)
    blocks = np.empty((len(rows), kind.whole_bytes), np.uint8)
    weights = _importance(importance, kind, values.size)
    used = weights if uses_importance(type_name) else None
    step = len(rows) or 1
    if kind.row_header:
        step, rest = divmod(
            values.shape[-1] if rows.size else kind.block_weights, kind.block_weights
        )
        if rest:
            raise QuantizationError(
                f"rows of {values.shape[-1]} weights are not whole {type_name} blocks "
                f"of {kind.block_weights} weights"
            )
    for first in range(0, len(rows), step):
        encoder(type_name)(rows[first : first + step], used, blocks[first : first + step])
    return blocks.reshape(-1)


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


# Where a block holds numbers of several bytes, for files of the other byte order.
#
# A big-endian GGUF file is a little-endian one in which each such number is turned round; bytes
# that hold packed codes stay as they are (llama.cpp, gguf-py/gguf/scripts/gguf_convert_endian.py,
# does so for Q4_0, Q8_0, Q4_K, Q6_K and plain numbers). For the other types no converter exists:
# fields are those of `docs/gguf.md`, section 8. Kernels know little-endian blocks only.


_WIDTHS: Final = {"f16": 2, "u16": 2, "i16": 2, "f32": 4, "u32": 4}
_OF_PACKED: Final = {("Q5_0", "qh"): 4, ("Q5_1", "qh"): 4, ("IQ4_XS", "scales_h"): 2}
"""Widths of numbers in which fields of packed bits are stored, by type and field."""

_OTHERWISE: Final = {
    "C64": ((0, 4, 2),),
    "BF16_R16": ((0, 2, 2),),
    "IQ2_XXS": ((0, 2, 1), *((6 + 8 * sub, 4, 1) for sub in range(8))),  # every second word is one
}


@cache
def numbers_of(type_name: str) -> tuple[tuple[int, int, int], ...]:
    """Return the numbers of several bytes of a type, as its fields tell them.

    Offset of the first number of a run, bytes of each, how many.
    """
    kind = TENSOR_TYPES[type_name]
    if type_name in _OTHERWISE:
        return _OTHERWISE[type_name]
    if not kind.quantized:
        return ((0, kind.block_bytes, 1),) if kind.block_weights == 1 < kind.block_bytes else ()
    return tuple(
        (field.offset, width, field.nbytes // width)
        for field in block_layout(type_name).fields
        if (width := _OF_PACKED.get((type_name, field.name)) or _WIDTHS.get(field.dtype, 0))
    )


def swap_byte_order(type_name: str, blocks: Blocks) -> None:
    """Turn round every number of several bytes, in place; blocks: uint8 [n, block_bytes]."""
    for offset, width, count in numbers_of(type_name):
        for place in range(offset, offset + count * width, width):
            number = blocks[:, place : place + width]
            number[...] = number[:, ::-1].copy()
