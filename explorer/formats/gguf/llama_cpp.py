"""What llama.cpp's own reader refuses in a GGUF file that opens here.

Rules of ggml/src/gguf.cpp, `gguf_init_from_reader`, llama.cpp build 11434, on a little-endian
machine of 64 bits. This program reads more than it does: version 1, big-endian files, gaps between
tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from explorer.formats.gguf.open import DEFAULT_ALIGNMENT
from explorer.formats.model import MetadataEntry, Model, ModelFile, Problem, Severity
from explorer.formats.tensors import Tensor
from explorer.parallel import Check, never
from explorer.quantization.types import OF_LLAMA_CPP, TensorType
from explorer.text import quoted

WHERE: Final = "llama.cpp"
"""What such a problem has as its place (docs/interface.md, `check`)."""

_CHECK_EVERY: Final = 64
_VERSIONS: Final = (2, 3)
_NAME_BYTES: Final = 64  # with the zero at its end
_DIMENSIONS: Final = 4
_INT64_MAX: Final = (1 << 63) - 1
_SIZE_MAX: Final = (1 << 64) - 1


def llama_cpp_problems(model: Model, check: Check = never) -> Iterator[Problem]:
    """Yield a warning for each file of a model that llama.cpp refuses to read, with the reason.

    Only headers are looked at.

    Args:
        check: Called now and then; raises to give up.
    """
    for number, file in enumerate(model.files):
        if file.version is not None:
            fault = _fault(model, number, file, check)
            if fault is not None:
                what = f"does not read {quoted(file.path.name)}: {fault}"
                yield Problem(Severity.WARNING, WHERE, what)


def _fault(model: Model, number: int, file: ModelFile, check: Check) -> str | None:
    """Return what is refused first: the reader meets it in this order, and reads no further."""
    if file.byte_order == "big":
        return "it is big-endian"
    if file.version not in _VERSIONS:
        return f"it is of version {file.version}"
    entries = [entry for entry in model.metadata.entries if entry.file_index == number]
    first = file.first_tensor
    fault = next(_metadata_faults(entries), None)
    if fault is not None:
        return fault
    tensors: list[Tensor] = []
    for row in range(first, first + len(file.record_offsets)):
        if row % _CHECK_EVERY == 0:
            check()
        tensors.append(model.tensors.rows[row])
    fault = next(_tensor_faults(tensors), None)
    return fault or next(_place_faults(file, _alignment(entries), tensors), None)


def _metadata_faults(entries: list[MetadataEntry]) -> Iterator[str]:
    seen: set[str] = set()
    for entry in entries:
        if entry.key in seen:
            yield f"key {quoted(entry.key)} occurs twice"
        seen.add(entry.key)
        if entry.type_name.startswith("array[array"):
            yield f"key {quoted(entry.key)} has an array of arrays"
    alignment = _alignment_entry(entries)
    if alignment is not None and alignment.type_name != "uint32":
        yield f"the alignment is {alignment.type_name}, not uint32"
    elif alignment is not None and not _is_power_of_two(alignment.value):
        yield f"the alignment {alignment.value} is not a power of two"


def _is_power_of_two(value: object) -> bool:
    return isinstance(value, int) and value > 0 and value & (value - 1) == 0


def _alignment_entry(entries: list[MetadataEntry]) -> MetadataEntry | None:
    """Return the entry that states the alignment; `gguf_find_key` reads keys up to a zero byte."""
    named = (entry for entry in entries if entry.key.partition("\0")[0] == "general.alignment")
    return next(named, None)


def _alignment(entries: list[MetadataEntry]) -> int:
    """Return the alignment of a file without a fault in its metadata."""
    stated = _alignment_entry(entries)
    return stated.value if stated and isinstance(stated.value, int) else DEFAULT_ALIGNMENT


def _tensor_faults(tensors: Sequence[Tensor]) -> Iterator[str]:
    seen: set[str] = set()
    fine: set[tuple[TensorType, tuple[int, ...]]] = set()  # a model has few of them
    for tensor in tensors:
        faults = list(_name_faults(tensor, seen))
        if (tensor.type, tensor.shape) not in fine:
            faults += _form_faults(tensor)
        for fault in faults:
            yield f"tensor {quoted(tensor.name)} {fault}"
        fine.add((tensor.type, tensor.shape))
        seen.add(tensor.name)


def _name_faults(tensor: Tensor, seen: set[str]) -> Iterator[str]:
    """Yield what is refused of a name; `seen` are those before it in its file."""
    if len(tensor.name.encode("utf-8", "surrogateescape")) >= _NAME_BYTES:
        yield f"has a name of {_NAME_BYTES} bytes or more"
    if tensor.name in seen:
        yield "occurs twice"


def _form_faults(tensor: Tensor) -> Iterator[str]:
    """Yield what is refused of a type and a shape."""
    if len(tensor.shape) > _DIMENSIONS:
        yield f"has {len(tensor.shape)} dimensions"
    if not _is_countable(tensor.shape):
        yield "has too many weights"
    kind = tensor.type
    if kind not in OF_LLAMA_CPP:
        yield f"is of type {kind.name}"
    elif (tensor.shape[-1] if tensor.shape else 1) % kind.block_weights:
        yield f"has rows that are not whole blocks of {kind.name}"
    elif math.prod(tensor.shape) // kind.block_weights > _SIZE_MAX // kind.block_bytes:
        yield "has too many bytes"


def _place_faults(file: ModelFile, alignment: int, tensors: Sequence[Tensor]) -> Iterator[str]:
    """Yield what is wrong with where tensors lie: one behind the other, padded, without a gap."""
    if tensors and _padded(file.table_end, alignment) > file.source.size:
        yield "the file ends before its tensor data"
    expected = 0
    for tensor in tensors:
        found = tensor.offset - file.header_bytes
        if found != expected:
            yield f"tensor {quoted(tensor.name)} has offset {found}, not {expected}"
        size = _ggml_nbytes(tensor)
        expected += _padded(size, alignment)
        if size > _SIZE_MAX - (alignment - 1):
            yield f"tensor {quoted(tensor.name)} has too many bytes"
        elif expected > _SIZE_MAX:
            yield f"the tensors up to {quoted(tensor.name)} have too many bytes"


def _ggml_nbytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor as `ggml_nbytes` counts them: modulo 2^64.

    It multiplies a row's weights by the bytes of a block before it divides, so that rows of 2^56
    weights and more get wrong sizes, which the next offset must agree with.
    """
    block, nbytes = tensor.type.block_weights, tensor.type.block_bytes
    row, *counts = tensor.shape[::-1] or (1,)
    if 0 in tensor.shape:
        return 0
    stride = nbytes * (row // block)
    size = (row * nbytes & _SIZE_MAX) // block
    for count in counts:
        size += (count - 1) * stride
        stride *= count
    return size & _SIZE_MAX


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
