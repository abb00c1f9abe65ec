"""Write a GGUF file, version 3, little-endian. Only for files that this program makes itself.

gguf.md section 1. Nothing here ever opens a user's model.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, TypeAlias

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
