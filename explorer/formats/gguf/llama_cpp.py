"""What llama.cpp's own reader refuses in a GGUF file that opens here.

Rules of ggml/src/gguf.cpp, `gguf_init_from_reader`, llama.cpp build 11434, on a little-endian
machine. This program reads more than it does: version 1, big-endian files, gaps between tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from explorer.formats.gguf.open import DEFAULT_ALIGNMENT
from explorer.formats.model import MetadataEntry, Model, ModelFile, Problem, Severity
from explorer.formats.tensors import Tensor
from explorer.text import quoted

WHERE: Final = "llama.cpp"
"""What such a problem has as its place (docs/interface.md, `check`)."""

_VERSIONS: Final = (2, 3)
_NAME_BYTES: Final = 64  # with the zero at its end
_DIMENSIONS: Final = 4
_TYPES: Final = range(43)
_INT64_MAX: Final = (1 << 63) - 1
_SIZE_MAX: Final = (1 << 64) - 1


def llama_cpp_problems(model: Model) -> Iterator[Problem]:
    """Yield a warning for each file of a model that llama.cpp refuses to read, with the reason."""
    for number, file in enumerate(model.files):
        if file.version is not None:
            fault = next(_faults(model, number, file), None)
            if fault is not None:
                what = f"does not read {quoted(file.path.name)}: {fault}"
                yield Problem(Severity.WARNING, WHERE, what)


def _faults(model: Model, number: int, file: ModelFile) -> Iterator[str]:
    """Yield what is refused, in the order in which the reader meets it."""
    if file.byte_order == "big":
        yield "it is big-endian"
    if file.version not in _VERSIONS:
        yield f"it is of version {file.version}"
    entries = [entry for entry in model.metadata.entries if entry.file_index == number]
    yield from _metadata_faults(entries)
    first = file.first_tensor
    tensors = model.tensors.rows[first : first + len(file.record_offsets)]
    yield from _tensor_faults(tensors)
    alignment = _alignment(entries)
    if tensors and _padded(file.table_end, alignment) > file.source.size:
        yield "the file ends before its tensor data"
    expected = 0
    for tensor in tensors:
        if tensor.offset - file.header_bytes != expected:
            found = tensor.offset - file.header_bytes
            yield f"tensor {quoted(tensor.name)} has offset {found}, not {expected}"
        expected += _padded(tensor.type.nbytes(tensor.parameters) or 0, alignment)


def _metadata_faults(entries: list[MetadataEntry]) -> Iterator[str]:
    seen: set[str] = set()
    for entry in entries:
        if entry.key in seen:
            yield f"key {quoted(entry.key)} occurs twice"
        seen.add(entry.key)
        if entry.type_name.startswith("array[array"):
            yield f"key {quoted(entry.key)} has an array of arrays"
        if entry.key == "general.alignment":
            if entry.type_name != "uint32":
                yield f"the alignment is {entry.type_name}, not uint32"
            elif not _is_power_of_two(entry.value):
                yield f"the alignment {entry.value} is not a power of two"


def _alignment(entries: list[MetadataEntry]) -> int:
    stated = (entry.value for entry in entries if entry.key == "general.alignment")
    value = next(stated, DEFAULT_ALIGNMENT)
    return value if isinstance(value, int) and _is_power_of_two(value) else DEFAULT_ALIGNMENT


def _is_power_of_two(value: object) -> bool:
    return isinstance(value, int) and value > 0 and value & (value - 1) == 0


def _tensor_faults(tensors: Sequence[Tensor]) -> Iterator[str]:
    seen: set[str] = set()
    for tensor in tensors:
        name = quoted(tensor.name)
        if len(tensor.name.encode("utf-8", "surrogateescape")) >= _NAME_BYTES:
            yield f"tensor {name} has a name of {_NAME_BYTES} bytes or more"
        if tensor.name in seen:
            yield f"tensor {name} occurs twice"
        seen.add(tensor.name)
        if len(tensor.shape) > _DIMENSIONS:
            yield f"tensor {name} has {len(tensor.shape)} dimensions"
        if not _is_countable(tensor.shape):
            yield f"tensor {name} has too many weights"
        kind = tensor.type
        if kind.id not in _TYPES or not kind.known:
            yield f"tensor {name} is of type {kind.name}"
        elif (tensor.shape[-1] if tensor.shape else 1) % kind.block_weights:
            yield f"tensor {name} has rows that are no whole blocks of {kind.name}"
        elif math.prod(tensor.shape) // kind.block_weights > _SIZE_MAX // kind.block_bytes:
            yield f"tensor {name} has too many bytes"


def _is_countable(shape: tuple[int, ...]) -> bool:
    """Return whether the products of a shape, row first, fit into a signed 64-bit number."""
    products = [1]
    for size in reversed(shape):
        products.append(products[-1] * size)
    steps = pairwise(products)
    return max(shape, default=1) <= _INT64_MAX and all(
        after <= _INT64_MAX or before == 0 for before, after in steps
    )


def _padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
