"""Compare a file with what the `gguf` package reads from it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from explorer.formats.gguf.open import open_gguf


def _bits(value: Any) -> Any:
    """Make floats comparable bit by bit: NaN is itself, -0.0 is not 0.0."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def _oracle_strings(field: Any) -> list[str]:
    return [bytes(field.parts[i]).decode("utf-8", "surrogateescape") for i in field.data]


def assert_same_as_gguf_package(path: Path) -> None:
    """Compare every key, type and value, and every tensor's name, shape, type, size and place."""
    gguf = pytest.importorskip("gguf", reason="the gguf package is the oracle")
    reader = gguf.GGUFReader(path)
    fields = {key: f for key, f in reader.fields.items() if not key.startswith("GGUF.")}
    with open_gguf(path) as model:
        assert model.problems == ()
        assert list(model.metadata) == list(fields)
        for entry in model.metadata.entries:
            field = fields[entry.key]
            assert entry.offset == field.offset, entry.key
            names = [kind.name.lower() for kind in field.types]
            if entry.length is None:
                assert [entry.type_name] == names
                if names == ["string"]:
                    assert entry.value == _oracle_strings(field)[0], entry.key
                else:
                    assert _bits(entry.value) == _bits(field.parts[field.data[0]][0].item())
                continue
            assert names[0] == "array"
            assert entry.type_name == f"array[{names[1]}]", entry.key
            assert entry.length == len(field.data)
            if names[1] == "string":
                assert list(entry.value) == _oracle_strings(field), entry.key
            else:
                found = [_bits(value) for value in entry.value]
                assert found == [_bits(field.parts[i][0].item()) for i in field.data], entry.key
        assert list(model.tensors) == [tensor.name for tensor in reader.tensors]
        if reader.tensors:
            assert model.data_offset == reader.data_offset
        for tensor, peer in zip(model.tensors.rows, reader.tensors, strict=True):
            assert tensor.shape[::-1] == tuple(peer.shape.tolist())
            assert tensor.type.name == peer.tensor_type.name
            assert tensor.parameters == peer.n_elements
            assert tensor.nbytes == peer.n_bytes
            assert tensor.offset == peer.data_offset
