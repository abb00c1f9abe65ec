"""One model in two formats, made of arrays: what a converter would have read and written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.formats import open_model
from explorer.quantization import GGML_TYPES, quantize
from tests.helpers.gguf_writer import STRING, U32, GgufFile, TensorSpec
from tests.helpers.safetensors_writer import entry, safetensors_bytes

Arrays = Mapping[str, NDArray[Any]]

_DTYPES = {"float32": "F32", "float16": "F16", "uint8": "U8"}
_IDS = {kind.name: number for number, kind in GGML_TYPES.items()}


def arrays_of(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, NDArray[Any]]:
    """Return float32 weights for each name."""
    random = np.random.default_rng(seed)
    return {
        name: random.normal(0, 0.05, shape).astype(np.float32) for name, shape in shapes.items()
    }


def write_safetensors(
    folder: Path, arrays: Arrays, metadata: dict[str, str] | None = None, **config: Any
) -> Path:
    """Write a Hugging Face folder of one file, and its config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    data = b""
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array).tobytes()
        kind = _DTYPES[array.dtype.name]
        header[name] = entry(kind, list(array.shape), len(data), len(data) + len(raw))
        data += raw
    (folder / "model.safetensors").write_bytes(safetensors_bytes(header, data))
    if config:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_gguf(
    path: Path,
    architecture: str,
    arrays: Arrays,
    types: Mapping[str, str] | None = None,
    **numbers: int,
) -> Path:
    """Write a GGUF file.

    Args:
        path: Where.
        architecture: What to call it.
        arrays: Weights by name, row-major.
        types: The types of tensors that are not to be F32, for which they are quantized.
        numbers: Integers of its metadata, by the key's end; a double underscore is a point.
    """
    keys: list[tuple[str, int, Any]] = [("general.architecture", STRING, architecture)]
    for key, number in numbers.items():
        keys.append((f"{architecture}.{key.replace('__', '.')}", U32, number))
    specs = []
    for name, array in arrays.items():
        kind = (types or {}).get(name, "F32")
        raw = quantize(np.ascontiguousarray(array, np.float32), kind).tobytes()
        specs.append(TensorSpec(name, array.shape[::-1], _IDS[kind], raw))
        assert prod(array.shape) > 0
    return GgufFile(keys=keys, tensors=specs).write(path)


def requantized(
    source: Path, target: Path, types: Mapping[str, str], replaced: Mapping[str, Any] | None = None
) -> Path:
    """Write a copy of a GGUF file with some tensors in other types; all else byte by byte.

    Args:
        source: A little-endian GGUF file.
        target: Where.
        types: The type of each role that gets another one ("ffn_down": "Q8_0").
        replaced: Values of keys that differ: text or an integer (uint32); None leaves a key out,
            and one that the file does not have is added.
    """
    left = dict(replaced or {})
    head = GgufFile()
    with open_model(source) as model:
        entries = []
        for entry in model.metadata.entries:
            if entry.key in left:
                value = left.pop(entry.key)
                entries += [] if value is None else [_entry(head, entry.key, value)]
                continue
            file = model.files[entry.file_index].source
            entries.append(file.read(entry.offset, entry.end - entry.offset))
        entries += [_entry(head, key, value) for key, value in left.items()]
        specs, parts = [], []
        for tensor in model.tensors.rows:
            kind = types.get(tensor.parsed_name.role, tensor.type.name)
            raw = tensor.read()
            if kind != tensor.type.name:
                raw = quantize(tensor.dequantize().reshape(-1), kind).tobytes()
            specs.append(TensorSpec(tensor.name, tensor.shape[::-1], _IDS[kind], raw))
        record = GgufFile(tensors=specs)
        places = record.places()
        parts = [head.magic, head.number("I", 3), head.count(len(specs)), head.count(len(entries))]
        parts += [*entries, *map(record.record, specs, places)]
        header = b"".join(parts)
        with target.open("wb") as out:
            out.write(header + bytes(-len(header) % 32))
            for spec in specs:
                out.write(spec.data + bytes(-len(spec.data) % 32))
    return target


def _entry(head: GgufFile, key: str, value: str | int) -> bytes:
    return head.entry(key, STRING if isinstance(value, str) else U32, value)
