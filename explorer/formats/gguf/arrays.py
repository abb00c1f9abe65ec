"""Arrays of GGUF metadata: skipped while opening, decoded when looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from explorer.errors import FormatError
from explorer.formats.gguf.chains import Order
from explorer.formats.gguf.strings import end_of_strings, walk_strings
from explorer.formats.limits import (
    GGUF_MAX_ARRAY_ELEMENTS,
    MAX_ARRAY_DEPTH,
    MAX_INNER_ARRAYS,
    MAX_STRING_ELEMENTS,
)
from explorer.formats.metadata import NumberArray, StringArray, Value
from explorer.sources import ByteSource

STRING: Final = 8
ARRAY: Final = 9

# Value types by id (gguf.md section 1): name, NumPy's code without byte order.
NUMBER_TYPES: Final[dict[int, tuple[str, str]]] = {
    0: ("uint8", "u1"),
    1: ("int8", "i1"),
    2: ("uint16", "u2"),
    3: ("int16", "i2"),
    4: ("uint32", "u4"),
    5: ("int32", "i4"),
    6: ("float32", "f4"),
    7: ("bool", "u1"),  # any byte; not 0 is true
    10: ("uint64", "u8"),
    11: ("int64", "i8"),
    12: ("float64", "f8"),
}
BOOL: Final = 7


@dataclass(frozen=True, slots=True)
class Layout:
    """How a file writes its numbers.

    Attributes:
        order: Byte order.
        width: Bytes of a count or a string's length: 8, or 4 in version 1.
    """

    order: Order
    width: int

    @property
    def prefix(self) -> str:
        """NumPy's and struct's sign of the byte order."""
        return "<" if self.order == "little" else ">"


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """Where an array lies and what it holds.

    Attributes:
        element_type: Value type id of its elements.
        count: Number of elements.
        offset: First byte of the first element.
        end: First byte behind the last element.
        type_name: ``"array[string]"``; of an array of arrays, after its first inner array.
    """

    element_type: int
    count: int
    offset: int
    end: int
    type_name: str


def read_array_head(
    source: ByteSource, offset: int, layout: Layout, what: str
) -> tuple[int, int, int]:
    """Read an array's element type and count, checked against what is left of the file.

    Args:
        source: The file.
        offset: Offset of the element type.
        layout: How the file writes numbers.
        what: The key, for messages.

    Returns:
        Element type, count, offset of the first element.

    Raises:
        FormatError: Unknown element type, or a count that the file cannot hold.
    """
    size = 4 + layout.width
    if offset + size > source.size:
        raise FormatError(f"file ends inside the array of key {what}", source.path, offset)
    head = source.read(offset, size)
    element_type = int.from_bytes(head[:4], layout.order)
    count = int.from_bytes(head[4:], layout.order)
    start = offset + size
    left = source.size - start
    least = _least_element_bytes(element_type, layout)
    if least is None:
        raise FormatError(
            f"key {what}: unknown array element type {element_type}", source.path, offset
        )
    limit = MAX_STRING_ELEMENTS if element_type == STRING else GGUF_MAX_ARRAY_ELEMENTS
    if count * least > left or count > limit:
        raise FormatError(
            f"key {what}: an array of {count} elements, where {left} bytes are left "
            f"and {limit} elements allowed",
            source.path,
            offset,
        )
    return element_type, count, start


def _least_element_bytes(element_type: int, layout: Layout) -> int | None:
    if element_type == STRING:
        return layout.width
    if element_type == ARRAY:
        return 4 + layout.width
    number = NUMBER_TYPES.get(element_type)
    return int(number[1][1:]) if number else None


def locate_array(source: ByteSource, offset: int, layout: Layout, what: str) -> ArrayPlace:
    """Find the end of an array without decoding it.

    Arrays of arrays are walked with a stack of counts: a file may nest them 100,000 deep, Python's
    own stack may not.

    Args:
        source: The file.
        offset: Offset of the type of the array's elements.
        layout: How the file writes numbers.
        what: The key that the array belongs to, for messages.

    Raises:
        FormatError: The array is damaged, nested too deep, or larger than the file.
    """
    element_type, count, start = read_array_head(source, offset, layout, what)
    position = start
    names: list[str] = []  # of the first array at each depth
    pending: list[int] = []  # for each open array of arrays: inner arrays still to come
    inner_arrays = 0
    kind, left = element_type, count
    while True:
        if len(names) == len(pending) and (not names or names[-1] == "array"):
            names.append(_type_word(kind))
        if kind == ARRAY:
            pending.append(left)
            inner_arrays += left
        else:
            position = end_of_elements(source, position, kind, left, layout)
        if len(pending) >= MAX_ARRAY_DEPTH or inner_arrays > MAX_INNER_ARRAYS:
            raise FormatError(
                f"key {what}: arrays nested more than {MAX_ARRAY_DEPTH} deep, or more than "
                f"{MAX_INNER_ARRAYS} of them",
                source.path,
                position,
            )
        while pending and pending[-1] == 0:
            pending.pop()
        if not pending:
            break
        pending[-1] -= 1
        kind, left, position = read_array_head(source, position, layout, what)
    type_name = "array[" + "[".join(names) + "]" * len(names)
    return ArrayPlace(element_type, count, start, position, type_name)


def _type_word(kind: int) -> str:
    return {STRING: "string", ARRAY: "array"}.get(kind) or NUMBER_TYPES[kind][0]


def end_of_elements(
    source: ByteSource, position: int, kind: int, count: int, layout: Layout
) -> int:
    """Return the offset behind the elements of an array that holds no arrays.

    Args:
        source: The file.
        position: Offset of the first element.
        kind: Type of the elements, any but ARRAY.
        count: Number of elements.
        layout: How the file writes numbers.

    Raises:
        FormatError: A string runs past the end of the file or is longer than ggml allows.
    """
    if kind == STRING:
        return end_of_strings(source, position, count, layout.width, layout.order)
    return position + count * int(NUMBER_TYPES[kind][1][1:])


def array_loader(source: ByteSource, place: ArrayPlace, layout: Layout) -> Callable[[], Value]:
    """Return what reads and decodes the array; it raises SourceError if the file changed."""

    def load() -> Value:
        if place.element_type == STRING:
            return _decode_strings(source, place, layout)
        if place.element_type == ARRAY:
            return _decode_nested(source, place, layout)
        return _decode_numbers(source, place, layout)

    return load


def _decode_numbers(source: ByteSource, place: ArrayPlace, layout: Layout) -> NumberArray:
    code = NUMBER_TYPES[place.element_type][1]
    raw = source.read(place.offset, place.end - place.offset)
    values = np.frombuffer(raw, dtype=layout.prefix + code)
    if place.element_type == BOOL:
        return NumberArray(values != 0)
    return NumberArray(values.astype(code, copy=False))


def _decode_strings(source: ByteSource, place: ArrayPlace, layout: Layout) -> StringArray:
    pieces = list(walk_strings(source, place.offset, place.count, layout.width, layout.order))
    fields = np.concatenate(pieces) - place.offset  # the last one is the end of the array
    starts = fields[:-1] + layout.width
    blob = source.read(place.offset, place.end - place.offset)
    if int(fields[-1]) != len(blob):
        raise FormatError("changed while it was open; open it again", source.path, place.offset)
    return StringArray(blob, starts, fields[1:] - starts)


def _decode_nested(source: ByteSource, place: ArrayPlace, layout: Layout) -> Sequence[Value]:
    values: list[Value] = []
    position = place.offset
    for _ in range(place.count):
        inner = locate_array(source, position, layout, "(nested array)")
        values.append(array_loader(source, inner, layout)())  # depth was checked while opening
        position = inner.end
    return values
