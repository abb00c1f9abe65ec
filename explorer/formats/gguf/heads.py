"""The first elements of a metadata array, without decoding the rest.

A line of text about an array needs some elements of it. `MetadataEntry.value` decodes them all,
which takes a gigabyte of memory for an array of 2^30 numbers; such a file is legal.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from explorer.errors import FormatError
from explorer.formats.gguf.arrays import (
    ARRAY,
    STRING,
    ArrayPlace,
    Layout,
    array_loader,
    end_of_elements,
    locate_array,
    read_array_head,
)
from explorer.formats.limits import MAX_ARRAY_DEPTH
from explorer.formats.metadata import MetadataEntry, Value
from explorer.formats.model import Model
from explorer.sources import ByteSource

_MAX_HEAD_BYTES = 1 << 20  # the first 32 of real strings take some hundred bytes


def is_loaded(entry: MetadataEntry) -> bool:
    """Tell whether the entry's value is in memory, so that asking for it cannot touch a disk."""
    return "value" in vars(entry) or (entry.length is None and entry.type_name != "string")


def first_elements(model: Model, entry: MetadataEntry, count: int) -> list[Value]:
    """Return at most `count` elements of an array; of arrays within it, as many of each.

    Args:
        model: The model that the entry belongs to, still open.
        entry: An entry with a length.
        count: Most elements to return.

    Raises:
        ExplorerError: The file changed since it was opened, or the elements are too large to show.
    """
    if model.version is None or entry.value_offset < 0 or "value" in vars(entry):
        return _cut(entry.value, count)
    source = model.files[entry.file_index].source
    layout = Layout(model.byte_order, 4 if model.version == 1 else 8)
    return _read_head(source, entry.value_offset, layout, count, MAX_ARRAY_DEPTH)


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
    kind, total, start = read_array_head(source, offset, layout, "(first elements)")
    wanted = min(count, total)
    if kind == ARRAY:
        if depth == 0:
            raise FormatError("arrays are nested too deep to show", source.path, offset)
        values: list[Value] = []
        for _ in range(wanted):
            values.append(_read_head(source, start, layout, count, depth - 1))
            start = locate_array(source, start, layout, "(nested array)").end
        return values
    end = end_of_elements(source, start, kind, wanted, layout)
    if kind == STRING and end - start > _MAX_HEAD_BYTES:
        raise FormatError("its first strings are too long to show", source.path, start)
    place = ArrayPlace(kind, wanted, start, end, "")
    decoded = array_loader(source, place, layout)()
    assert not isinstance(decoded, (str, int, float))  # a place of an array gives a sequence
    return list(decoded)
