"""Arrays of GGUF metadata: skipped while opening, decoded when they are first read."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.errors import FormatError
from explorer.formats import limits
from explorer.formats.model import MetadataEntry, Model, NumberArray, StringArray, Value
from explorer.sources import ByteSource

Order: TypeAlias = Literal["little", "big"]
Places: TypeAlias = NDArray[np.int64]

STRING: Final = 8
ARRAY: Final = 9
BOOL: Final = 7

# Value types by id (docs/gguf.md, section 1): name, NumPy's code without byte order.
NUMBER_TYPES: Final[dict[int, tuple[str, str]]] = {
    0: ("uint8", "u1"),
    1: ("int8", "i1"),
    2: ("uint16", "u2"),
    3: ("int16", "i2"),
    4: ("uint32", "u4"),
    5: ("int32", "i4"),
    6: ("float32", "f4"),
    BOOL: ("bool", "u1"),  # any byte; not 0 is true
    10: ("uint64", "u8"),
    11: ("int64", "i8"),
    12: ("float64", "f8"),
}
NUMBER_BYTES: Final = {kind: int(code[1:]) for kind, (_, code) in NUMBER_TYPES.items()}
_STRUCT_CODES: Final = dict(zip(NUMBER_TYPES, "BbHhIifBQqd", strict=True))  # of `struct`
_TYPE_WORDS: Final = {kind: name for kind, (name, _) in NUMBER_TYPES.items()} | {
    STRING: "string",
    ARRAY: "array",
}
_ARRAYS_OF: Final = {kind: f"array[{name}]" for kind, name in _TYPE_WORDS.items()}


@dataclass(frozen=True)
class Layout:
    """How a file writes its numbers."""

    order: Order  # byte order
    width: int  # bytes of a count or of a string's length: 8, or 4 in version 1

    # What follows is made once: a header may hold 100,000 of each.

    @cached_property
    def prefix(self) -> str:
        """Sign of the byte order in NumPy and struct."""
        return "<" if self.order == "little" else ">"

    @cached_property
    def _code(self) -> str:
        return "Q" if self.width == 8 else "I"

    @cached_property
    def number(self) -> struct.Struct:
        """A type or a rank."""
        return struct.Struct(self.prefix + "I")

    @cached_property
    def count(self) -> struct.Struct:
        """A count or a length."""
        return struct.Struct(self.prefix + self._code)

    @cached_property
    def array_head(self) -> struct.Struct:
        """Type and count of an array's elements."""
        return struct.Struct(f"{self.prefix}I{self._code}")

    @cached_property
    def values(self) -> Mapping[int, struct.Struct]:
        """A number, by its type."""
        return {kind: struct.Struct(self.prefix + code) for kind, code in _STRUCT_CODES.items()}

    @cached_property
    def records(self) -> Sequence[struct.Struct]:
        """Rank, dimensions and type of a tensor's record, by rank."""
        ranks = range(limits.MAX_DIMENSIONS + 1)
        return [struct.Struct(f"{self.prefix}I{rank}{self._code}I") for rank in ranks]


# Skipping an array of strings. GGUF stores each string behind its length, so the end of the array
# is known only after a walk over all strings, and the rest of the header lies behind it. A plain
# loop takes 120 ns a string: 30 ms for a vocabulary of 262,144. In NumPy, every place that looks
# like a length is a candidate; candidates that point exactly at the next candidate are strings.
# Where they do not, the walk goes on one string at a time until both agree again. So the result
# is always that of the plain loop, and a file that breaks every chain costs as much as that loop.


_WINDOW_BYTES = 1 << 18  # with its arrays it stays within a core's cache
_FEW: Final = 128  # strings that are walked faster one at a time
_USUAL_BYTES: Final = 64  # of a string with its length: the guess for the first window
_SHORT_CHAIN: Final = 32  # fewer strings than that are walked faster one at a time
_FEWEST_STEPS: Final = 4


def cut_short(what: object) -> str:
    """Return what is wrong with a file that ends inside something: "key 'a'"."""
    return f"is cut short: it ends inside {what}. Download it again"


def walk_strings(
    source: ByteSource, offset: int, count: int, layout: Layout, what: object = "an array"
) -> Iterator[Places]:
    """Yield the offsets of the strings' length fields, a window of the file at a time.

    The offset is that of the first length field. The last item is the offset behind the last
    string, alone.

    Raises:
        FormatError: A string runs past the end of the file or is longer than ggml allows.
    """
    width = layout.width
    position, left, usual = offset, count, _USUAL_BYTES
    while left:
        if position + width > source.size:
            raise FormatError(cut_short(what), source.path, position)
        size = min(_WINDOW_BYTES, left * usual, source.size - position)
        starts, step = _walk_window(source.read(position, size), left, layout)
        last = int(starts[-1])
        length = step - last - width
        if length > limits.GGUF_MAX_STRING_BYTES:
            fault = f"{what} has a string of {length} bytes. The header is damaged"
            raise FormatError(fault, source.path, position + last)
        if position + step > source.size:
            fault = cut_short(f"a string of {length} bytes of {what}")
            raise FormatError(fault, source.path, position + last)
        yield starts + position
        position += step
        left -= len(starts)
        usual = width + step * 9 // (8 * len(starts))  # not far beyond the last one
    yield np.array([position], dtype=np.int64)


def _walk_window(window: bytes, count: int, layout: Layout) -> tuple[Places, int]:
    """Return the length fields of at most `count` strings in the window, at least one.

    Also returns the position behind the last string, which may lie outside the window.
    """
    width = layout.width
    if count <= _FEW:
        return _step(window, 0, count, layout)
    if not any(window[: 2 * width]):  # a sparse file may be nothing but empty strings
        empty = min(count, (len(window) - len(window.lstrip(b"\0"))) // width)
        if empty * width > len(window) // 2:
            return width * np.arange(empty), width * empty
    candidates, ends = _short_strings(window, layout)
    breaks = np.flatnonzero(ends[:-1] != candidates[1:])  # where a chain of candidates ends
    pieces: list[Places] = []
    steps = _FEWEST_STEPS
    position = 0
    while count:
        first = bisect_left(candidates, position)
        if first < len(candidates) and candidates[first] == position:
            after = bisect_left(breaks, first)
            stop = int(breaks[after]) + 1 if after < len(breaks) else len(candidates)
            piece = candidates[first : min(stop, first + count)]
            position = int(ends[first + len(piece) - 1])
            pieces.append(piece)
            count -= len(piece)
            if len(piece) >= _SHORT_CHAIN:
                steps = _FEWEST_STEPS
                continue
        # the longer chains keep breaking, the longer the stretch without looking for one
        piece, position = _step(window, position, min(count, steps), layout)
        if not len(piece):
            break
        pieces.append(piece)
        count -= len(piece)
        steps *= 2
    return np.concatenate(pieces), position


def _step(window: bytes, position: int, count: int, layout: Layout) -> tuple[Places, int]:
    """Walk over at most `count` strings one at a time; return as `_walk_window` does."""
    length_at = layout.count.unpack_from
    last_start = len(window) - layout.width
    starts = []
    for _ in range(count):
        if position > last_start:
            break
        starts.append(position)
        position += layout.width + length_at(window, position)[0]
    return np.array(starts, dtype=np.int64), position


def _short_strings(window: bytes, layout: Layout) -> tuple[Places, Places]:
    """Return the places that look like strings of 1 to 255 bytes, and their ends: int64 [n].

    The length of such a string is one byte that is not 0, and zeros; text has no such run of zeros.
    """
    width = layout.width
    content = np.frombuffer(window, np.uint8)
    count = max(0, len(content) - width + 1)
    low = 0 if layout.order == "little" else width - 1
    is_zero = content == 0
    found = ~is_zero[low : low + count]
    for place in range(width):
        if place != low:
            found &= is_zero[place : place + count]
    places = np.flatnonzero(found)
    return places, places + width + content[places + low]


class ArrayPlace(NamedTuple):
    """Where an array lies and what it holds."""

    element_type: int  # value type id of its elements
    length: int  # number of elements
    offset: int  # first byte of the first element
    end: int  # first byte behind the last element
    type_name: str  # "array[string]"; of an array of arrays, after its first inner array
    inner_arrays: int = 0  # at all depths
    strings: int = 0  # likewise


def read_array_head(
    source: ByteSource, offset: int, layout: Layout, what: object
) -> tuple[int, int, int]:
    """Read an array's element type and count, checked against what is left of the file.

    Args:
        offset: Offset of the element type.
        layout: How the file writes numbers.
        what: The array, for messages: "key 'a'".

    Returns:
        Element type, count, offset of the first element.

    Raises:
        FormatError: Unknown element type, or a count that the file cannot hold.
    """
    size = layout.array_head.size
    if offset + size > source.size:
        raise FormatError(cut_short(what), source.path, offset)
    element_type, count = layout.array_head.unpack(source.read(offset, size))
    start = offset + size
    left = source.size - start
    least = layout.width if element_type == STRING else NUMBER_BYTES.get(element_type)
    if element_type == ARRAY:
        least = size
    if least is None:
        fault = f"{what}: unknown array element type {element_type}"
        raise FormatError(fault, source.path, offset)
    limit = limits.MAX_STRING_ELEMENTS if element_type == STRING else limits.GGUF_MAX_ARRAY_ELEMENTS
    if count > limit:
        fault = f"{what}: {count} elements are more than the {limit} that are read"
        raise FormatError(f"{fault}. The header is damaged", source.path, offset)
    if count * least > left:
        raise FormatError(cut_short(what), source.path, offset)
    return element_type, count, start


def locate_array(source: ByteSource, offset: int, layout: Layout, what: object) -> ArrayPlace:
    """Find the end of an array without decoding it.

    Arrays of arrays are walked with a stack of counts: a file may nest them deeper than Python's
    own stack goes. The arguments are those of `read_array_head`.

    Raises:
        FormatError: The array is damaged, nested too deep, or larger than the file.
    """
    element_type, count, start = read_array_head(source, offset, layout, what)
    if element_type != ARRAY:  # as nearly always
        end = end_of_elements(source, start, (element_type, count), layout, what)
        strings = count if element_type == STRING else 0
        return ArrayPlace(element_type, count, start, end, _ARRAYS_OF[element_type], 0, strings)
    position = start
    names: list[str] = []  # of the first array at each depth
    pending: list[int] = []  # for each open array of arrays: inner arrays still to come
    inner_arrays = strings = 0
    kind, left = element_type, count
    while True:
        if len(names) == len(pending) and (not names or names[-1] == "array"):
            names.append(_TYPE_WORDS[kind])
        if kind == ARRAY:
            pending.append(left)
            inner_arrays += left
        else:
            strings += left if kind == STRING else 0
            if strings > limits.MAX_STRING_ELEMENTS:
                fault = f"{what}: more than {limits.MAX_STRING_ELEMENTS} strings"
                raise FormatError(fault, source.path, position)
            position = end_of_elements(source, position, (kind, left), layout, what)
        if len(pending) >= limits.MAX_ARRAY_DEPTH or inner_arrays > limits.MAX_INNER_ARRAYS:
            most = f"{limits.MAX_ARRAY_DEPTH} deep, or more than {limits.MAX_INNER_ARRAYS} of them"
            fault = f"{what}: arrays nested more than {most}"
            raise FormatError(fault, source.path, position)
        while pending and pending[-1] == 0:
            pending.pop()
        if not pending:
            break
        pending[-1] -= 1
        kind, left, position = read_array_head(source, position, layout, what)
    type_name = "array[" + "[".join(names) + "]" * len(names)
    return ArrayPlace(element_type, count, start, position, type_name, inner_arrays, strings)


def end_of_elements(
    source: ByteSource,
    position: int,
    elements: tuple[int, int],
    layout: Layout,
    what: object = "an array",
) -> int:
    """Return the offset behind the elements of an array that holds no arrays.

    `elements` are their type and count. The position is that of the first one. Messages call the
    array `what`.

    Raises:
        FormatError: A string runs past the end of the file or is longer than ggml allows.
    """
    kind, count = elements
    if kind != STRING:
        return position + count * NUMBER_BYTES[kind]
    if count <= _FEW:
        end = _end_of_few(source, position, count, layout)
        if end is not None:
            return end
    for places in walk_strings(source, position, count, layout, what):
        position = int(places[-1])
    return position


def _end_of_few(source: ByteSource, position: int, count: int, layout: Layout) -> int | None:
    """Return the offset behind some short strings; None if they are not short or not whole."""
    window = source.read(position, min(count * _USUAL_BYTES, source.size - position))
    length_at, width = layout.count.unpack_from, layout.width
    last_start = len(window) - width
    step = 0
    for _ in range(count):
        if step > last_start:
            return None
        step += width + length_at(window, step)[0]
    return position + step if step <= len(window) else None


def read_array(source: ByteSource, place: ArrayPlace, layout: Layout) -> Sequence[Value]:
    """Read and decode an array.

    Raises:
        ExplorerError: The file changed since the array was located.
    """
    if place.element_type == ARRAY:
        values: list[Value] = []
        position = place.offset
        for _ in range(place.length):
            inner = locate_array(source, position, layout, "an inner array")
            values.append(read_array(source, inner, layout))  # depth was checked while opening
            position = inner.end
        return values
    raw = source.read(place.offset, place.end - place.offset)
    if place.element_type == STRING:
        pieces = list(walk_strings(source, place.offset, place.length, layout))
        fields = np.concatenate(pieces) - place.offset  # the last one is the end of the array
        if int(fields[-1]) != len(raw):
            raise FormatError("changed while it was open. Open it again", source.path, place.offset)
        starts = fields[:-1] + layout.width
        return StringArray(raw, starts, fields[1:] - starts)
    code = NUMBER_TYPES[place.element_type][1]
    numbers = np.frombuffer(raw, dtype=layout.prefix + code)
    return NumberArray(
        numbers != 0 if place.element_type == BOOL else numbers.astype(code, copy=False)
    )


_MAX_HEAD_BYTES = 1 << 20  # the first 32 of real strings take some hundred bytes


def first_elements(model: Model, entry: MetadataEntry, count: int) -> list[Value]:
    """Return at most `count` elements of an array; of arrays within it, as many of each.

    `MetadataEntry.value` decodes all: a gigabyte for an array of 2^30 numbers, which is legal. The
    model must be open still, and the entry have a length.

    Raises:
        ExplorerError: The file changed since it was opened, or the elements are too large to show.
    """
    if model.version is None or entry.value_offset < 0 or "value" in vars(entry):
        return _cut(entry.value, count)
    source = model.files[entry.file_index].source
    layout = Layout(model.byte_order, 4 if model.version == 1 else 8)
    return _read_head(source, entry.value_offset, layout, count, limits.MAX_ARRAY_DEPTH)


def _cut(value: Value, count: int) -> list[Value]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return [value]
    return [
        item if isinstance(item, str) or not isinstance(item, Sequence) else _cut(item, count)
        for item in islice(value, count)
    ]


def _read_head(
    source: ByteSource, offset: int, layout: Layout, count: int, depth: int
) -> list[Value]:
    kind, total, start = read_array_head(source, offset, layout, "the first elements")
    wanted = min(count, total)
    if kind == ARRAY:
        if depth == 0:
            raise FormatError("arrays are nested too deep to show", source.path, offset)
        values: list[Value] = []
        for _ in range(wanted):
            values.append(_read_head(source, start, layout, count, depth - 1))
            start = locate_array(source, start, layout, "an inner array").end
        return values
    end = end_of_elements(source, start, (kind, wanted), layout)
    if kind == STRING and end - start > _MAX_HEAD_BYTES:
        raise FormatError("its first strings are too long to show", source.path, start)
    return list(read_array(source, ArrayPlace(kind, wanted, start, end, ""), layout))
