"""A GGUF file with the same header as another, and other tensor types: decoded, and rounded."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from explorer.formats.model import Model
from explorer.formats.tensors import Tensor
from explorer.quantization import TENSOR_TYPES, quantize

_ALIGNMENT = 32
_HEAD = 24  # magic, version, number of tensors and of keys


def write_with_types(model: Model, path: Path, types: Mapping[str, str]) -> Path:
    """Write a model with types by tensor name; without one, a tensor keeps its type.

    Args:
        model: A GGUF file of version 3 in little-endian, aligned to 32 bytes.
        path: The file to make.
        types: Names of types of GGUF.
    """
    entries = model.metadata.entries
    source = model.files[0].source
    keys = source.read(_HEAD, entries[-1].end - _HEAD)
    head = [b"GGUF", struct.pack("<IQQ", 3, len(model.tensors), len(entries)), keys]
    offset = 0
    for tensor in model.tensors.rows:
        kind = TENSOR_TYPES[types.get(tensor.name, tensor.type.name)]
        name = tensor.name.encode()
        head += [struct.pack("<Q", len(name)), name, struct.pack("<I", len(tensor.shape))]
        head += [struct.pack("<Q", length) for length in reversed(tensor.shape)]
        head.append(struct.pack("<IQ", kind.id, offset))
        nbytes = kind.nbytes(tensor.parameters)
        assert nbytes is not None
        offset += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
    with path.open("wb") as stream:
        stream.write(_padded(b"".join(head)))
        for tensor in model.tensors.rows:
            stream.write(_padded(_bytes(tensor, types.get(tensor.name, tensor.type.name))))
    return path


def _bytes(tensor: Tensor, name: str) -> bytes:
    if name == tensor.type.name:
        return tensor.read()
    return np.asarray(quantize(tensor.dequantize().reshape(-1), name)).tobytes()


def _padded(raw: bytes) -> bytes:
    return raw.ljust(-(-len(raw) // _ALIGNMENT) * _ALIGNMENT, b"\0")
