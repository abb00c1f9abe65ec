"""Write a GGUF file, version 3, little-endian. Only for files that this program makes itself.

docs/gguf.md, section 1. Nothing here ever opens a user's model.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import BinaryIO, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.quantization import TENSOR_TYPES

ALIGNMENT: Final = 32
_VERSION: Final = 3
_STRING: Final = 8
_ARRAY: Final = 9
# Value types: id and struct's code
_NUMBERS: Final = {
    "uint32": (4, "I"),
    "int32": (5, "i"),
    "float32": (6, "f"),
    "bool": (7, "?"),
    "uint64": (10, "Q"),
}

Text: TypeAlias = str | bytes  # bytes where they are no UTF-8
Scalar: TypeAlias = Text | int | float | bool


@dataclass(frozen=True, slots=True)
class Key:
    """A key and its value.

    Attributes:
        name: The key.
        type_name: ``"uint32"``, ``"string"`` …; of an array the type of its elements.
        value: The value; a list is an array.
    """

    name: str
    type_name: str
    value: Scalar | Sequence[Scalar]


@dataclass(frozen=True, slots=True)
class Weights:
    """A tensor to write.

    Attributes:
        name: Its name.
        shape: Row-major, outermost first; stored reversed.
        type_name: A tensor type of ggml.
        raw: Its bytes.
    """

    name: Text
    shape: tuple[int, ...]
    type_name: str
    raw: bytes


def write_gguf(file: BinaryIO, keys: Sequence[Key], tensors: Sequence[Weights]) -> None:
    """Write a whole file from the current position on, which must be its start."""
    parts = [b"GGUF", struct.pack("<IQQ", _VERSION, len(tensors), len(keys))]
    parts += [_key(key) for key in keys]
    offset = 0
    for tensor in tensors:
        parts.append(_record(tensor, offset))
        offset += _padded(len(tensor.raw))
    header = b"".join(parts)
    file.write(header.ljust(_padded(len(header)), b"\0"))
    for tensor in tensors:
        file.write(tensor.raw.ljust(_padded(len(tensor.raw)), b"\0"))


def _padded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _text(text: Text) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def _key(key: Key) -> bytes:
    kind = _STRING if key.type_name == "string" else _NUMBERS[key.type_name][0]
    value = key.value
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return _text(key.name) + struct.pack("<I", kind) + _values(key.type_name, [value])
    head = struct.pack("<IIQ", _ARRAY, kind, len(value))
    return _text(key.name) + head + _values(key.type_name, value)


def _values(type_name: str, values: Sequence[Scalar]) -> bytes:
    if type_name == "string":
        return b"".join(_text(v) for v in values if isinstance(v, (str, bytes)))
    return struct.pack(f"<{len(values)}{_NUMBERS[type_name][1]}", *values)


def _record(tensor: Weights, offset: int) -> bytes:
    kind = TENSOR_TYPES[tensor.type_name]
    weights = 1
    for length in tensor.shape:
        weights *= length
    if kind.id is None or kind.nbytes(weights) != len(tensor.raw):
        raise ValueError(f"{tensor.name!r}: {len(tensor.raw)} bytes do not fill {tensor.shape}")
    dims = tuple(reversed(tensor.shape))
    count = len(dims)
    return _text(tensor.name) + struct.pack(f"<I{count}QIQ", count, *dims, kind.id, offset)


# Round weights to the tensor types of the demo model, byte for byte as ggml does.
#
# gguf.md section 8, "Quantizing" (ggml/src/ggml-quants.c, `quantize_row_*_ref`). All rows at once
# in NumPy, every operation in float32 as in C; speed does not matter for two megabytes.


Floats: TypeAlias = NDArray[np.float32]
Bytes: TypeAlias = NDArray[np.uint8]

_BLOCK: Final = 32


def _f16_bytes(values: Floats) -> Bytes:
    return values.astype("<f2").view(np.uint8)


def _inverse(scale: Floats) -> Floats:
    """Return 1 / scale, and 0 for a scale of 0: such a block is all zeros."""
    with np.errstate(divide="ignore"):
        return np.where(scale == 0, np.float32(0), np.float32(1) / scale)


def _codes(values: Floats, most: int) -> Bytes:
    """Truncate to codes from 0 to `most`, as a C cast and a minimum do."""
    return np.clip(np.trunc(values), 0, most).astype(np.uint8)


def _nibbles(codes: Bytes) -> Bytes:
    """Pack the lower four bits: weights 0 to 15 in the low nibbles, 16 to 31 in the high ones."""
    half = _BLOCK // 2
    low, high = codes[:, :half] & np.uint8(15), codes[:, half:] & np.uint8(15)
    return low | (high << np.uint8(4))


def _fifth_bits(codes: Bytes) -> Bytes:
    """Pack bit 4 of each code into 32 bits, weight 0 lowest."""
    return np.packbits(codes >> 4, axis=1, bitorder="little")


def _signed_extreme(blocks: Floats) -> Floats:
    """Return each block's value of largest magnitude, with its sign; the first of equal ones."""
    place = np.abs(blocks).argmax(axis=1, keepdims=True)
    return np.take_along_axis(blocks, place, axis=1)


def _symmetric(blocks: Floats, low: int) -> tuple[Floats, Bytes]:
    """Return scale and codes of Q4_0 (`low` = 8) or Q5_0 (16)."""
    scale = _signed_extreme(blocks) / np.float32(-low)
    codes = _codes(blocks * _inverse(scale) + np.float32(low + 0.5), 2 * low - 1)
    return scale, codes


def _offset(blocks: Floats, most: int) -> tuple[Floats, Floats, Bytes]:
    """Return scale, minimum and codes of Q4_1 (`most` = 15) or Q5_1 (31)."""
    least = blocks.min(axis=1, keepdims=True)
    scale = (blocks.max(axis=1, keepdims=True) - least) / np.float32(most)
    codes = _codes((blocks - least) * _inverse(scale) + np.float32(0.5), most)
    return scale, least, codes


def _q4_0(blocks: Floats) -> Bytes:
    scale, codes = _symmetric(blocks, 8)
    return np.hstack([_f16_bytes(scale), _nibbles(codes)])


def _q4_1(blocks: Floats) -> Bytes:
    scale, least, codes = _offset(blocks, 15)
    return np.hstack([_f16_bytes(scale), _f16_bytes(least), _nibbles(codes)])


def _q5_0(blocks: Floats) -> Bytes:
    scale, codes = _symmetric(blocks, 16)
    return np.hstack([_f16_bytes(scale), _fifth_bits(codes), _nibbles(codes)])


def _q5_1(blocks: Floats) -> Bytes:
    scale, least, codes = _offset(blocks, 31)
    parts = [_f16_bytes(scale), _f16_bytes(least), _fifth_bits(codes), _nibbles(codes)]
    return np.hstack(parts)


def _q8_0(blocks: Floats) -> Bytes:
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    exact = blocks * _inverse(scale)
    # roundf: halves away from zero; adding 0.5 first would round 0.49999997 up
    size = np.floor(np.abs(exact))
    size += np.abs(exact) - size >= np.float32(0.5)
    codes = np.copysign(size, exact).astype(np.int8)
    return np.hstack([_f16_bytes(scale), codes.view(np.uint8)])


def _f32(values: Floats) -> Bytes:
    return values.astype("<f4").view(np.uint8)


def _f16(values: Floats) -> Bytes:
    return values.astype("<f2").view(np.uint8)


def _bf16(values: Floats) -> Bytes:
    """Round to the nearest, halves to even (ggml_compute_fp32_to_bf16); a NaN stays a quiet one."""
    bits = values.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    quiet = (bits >> 16) | 64
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, quiet, rounded).astype("<u2").view(np.uint8)


_BLOCKWISE: Final[Mapping[str, Callable[[Floats], Bytes]]] = MappingProxyType(
    {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q8_0": _q8_0}
)
_PLAIN: Final[Mapping[str, Callable[[Floats], Bytes]]] = MappingProxyType(
    {"F32": _f32, "F16": _f16, "BF16": _bf16}
)
DEMO_TYPES: Final = (*_PLAIN, *_BLOCKWISE)
"""Names of the tensor types that `encode` knows."""


def encode(values: Floats, type_name: str) -> bytes:
    """Return the stored bytes of weights.

    Args:
        values: float32 of any shape; for a quantized type a multiple of 32 values, whose blocks run
            along the last axis.
        type_name: One of `DEMO_TYPES`.
    """
    flat = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
    if type_name in _PLAIN:
        return _PLAIN[type_name](flat).tobytes()
    return _BLOCKWISE[type_name](flat.reshape(-1, _BLOCK)).tobytes()
