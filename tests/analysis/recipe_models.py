"""Models that are a header only: names, shapes and types, as recipes look at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from explorer.formats.facts import FILE_TYPES
from explorer.formats.model import Metadata, MetadataEntry, Model, loaded_entry
from explorer.formats.tensors import Tensor, TensorColumns, TensorTable
from explorer.quantization.types import TENSOR_TYPES

Line = tuple[str, tuple[int, ...]]


def header_model(
    lines: Iterable[Line],
    types: Mapping[str, str] | None = None,
    *,
    file_type: str | None = None,
    kind: Literal["gguf", "safetensors"] = "gguf",
    **keys: Any,
) -> Model:
    """Return a model of tensors without bytes.

    Args:
        lines: Names and shapes, outermost first.
        types: Type of each tensor by name; F32 for the others.
        file_type: What the file claims to be.
        kind: Its format.
        keys: Metadata; ``architecture``, and what belongs behind its name with ``__`` for dots.
    """
    architecture = keys.pop("architecture", "llama")
    entries = [_entry("general.architecture", architecture)]
    if file_type is not None:
        number = next(n for n, name in FILE_TYPES.items() if name == file_type)
        entries.append(_entry("general.file_type", number))
    imatrix = keys.pop("imatrix", None)
    if imatrix is not None:
        entries.append(_entry("quantize.imatrix.file", imatrix))
    entries += [
        _entry(f"{architecture}.{key.replace('__', '.')}", value) for key, value in keys.items()
    ]
    columns = TensorColumns()
    for name, shape in lines:
        weights = 1
        for length in shape:
            weights *= length
        found = TENSOR_TYPES[(types or {}).get(name, "F32")]
        columns.names.append(name)
        columns.shapes.append(shape)
        columns.types.append(found)
        columns.parameters.append(weights)
        columns.nbytes.append(weights // found.block_weights * found.block_bytes)

    def build(row: int) -> Tensor:
        return Tensor(
            columns.names[row], columns.shapes[row], columns.types[row], (), columns.parameters[row]
        )

    return Model(
        format=kind,
        path=Path("model.gguf"),
        files=(),
        metadata=Metadata(entries),
        tensors=TensorTable(columns, build),
    )


def _entry(key: str, value: Any) -> MetadataEntry:
    names = {str: "string", list: "array[uint32]"}
    return loaded_entry(key, names.get(type(value), "uint32"), value)


def dense(layers: int, width: int = 1024, *, tied: bool = False) -> list[Line]:
    """Return the tensors of a llama-like model, norms included."""
    lines: list[Line] = [("token_embd.weight", (5000, width)), ("output_norm.weight", (width,))]
    if not tied:
        lines.append(("output.weight", (5000, width)))
    for layer in range(layers):
        lines += [
            (f"blk.{layer}.attn_norm.weight", (width,)),
            (f"blk.{layer}.attn_q.weight", (width, width)),
            (f"blk.{layer}.attn_k.weight", (width // 2, width)),
            (f"blk.{layer}.attn_v.weight", (width // 2, width)),
            (f"blk.{layer}.attn_output.weight", (width, width)),
            (f"blk.{layer}.ffn_gate.weight", (3 * width, width)),
            (f"blk.{layer}.ffn_up.weight", (3 * width, width)),
            (f"blk.{layer}.ffn_down.weight", (width, 3 * width)),
        ]
    return lines
