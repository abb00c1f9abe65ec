"""Writes safetensors files for tests, byte by byte: also broken ones, which the library refuses to.

docs/safetensors_and_blobs.md, section 1: length of the header (u64), JSON, data.
"""

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BITS = {"F4": 4, "F6_E2M3": 6, "U8": 8, "F8_E4M3": 8, "BF16": 16, "F16": 16, "F32": 32, "I32": 32}
BITS |= {"I8": 8, "I16": 16, "U32": 32, "C64": 64}


def entry(dtype: str, shape: list[Any], begin: int, end: int) -> dict[str, Any]:
    """Return a tensor's entry."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_bytes(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    """Return a file of a header (bytes and text as they are, all else as JSON) and data."""
    if isinstance(header, str):
        header = header.encode()
    if not isinstance(header, bytes):
        header = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def tensors_bytes(
    tensors: Iterable[tuple[str, str, list[int]]], metadata: Mapping[str, str] | None = None
) -> bytes:
    """Return a valid file of tensors given as name, dtype and shape, one behind the other."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    position = 0
    for name, dtype, shape in tensors:
        weights = 1
        for count in shape:
            weights *= count
        size = weights * BITS[dtype] // 8
        header[name] = entry(dtype, shape, position, position + size)
        position += size
    return safetensors_bytes(header, bytes(i % 251 for i in range(position)))


def write_tensors(path: Path, *tensors: tuple[str, str, list[int]]) -> Path:
    """Write a valid file of tensors."""
    path.write_bytes(tensors_bytes(tensors))
    return path
