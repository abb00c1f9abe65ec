"""What each byte of a model's file is: magic, a key, the offset of a tensor, weights, padding.

For the raw bytes panel. Opening the model has noted where its parts lie, and the fields of an entry
or of a tensor's record follow from the format (docs/gguf.md, section 1;
docs/safetensors_and_blobs.md, section 1); only the texts of small arrays are read, once, in a
worker. A list of all fields may have a million items, to show 40 rows; so only the parts (an entry,
a record, a run of weights) are listed, and the fields of a part are worked out when it is shown.

A damaged file may place tensors over each other, over the header or behind its end. Every part is
cut to what the parts before it have left: the fields tile the file exactly, whatever it claims.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final, NamedTuple

from explorer.errors import ExplorerError
from explorer.formats.gguf.arrays import NUMBER_BYTES, NUMBER_TYPES
from explorer.formats.model import MetadataEntry, Model, StringArray
from explorer.formats.tensors import Tensor
from explorer.parallel import Check, never

MOST_ELEMENTS: Final = 512
"""Longest array whose elements are fields of their own; a longer one is one run of bytes."""

_MOST_TEXT_BYTES: Final = 1 << 16
_NUMBER_BYTES: Final = {
    f"array[{name}]": NUMBER_BYTES[kind] for kind, (name, _) in NUMBER_TYPES.items()
}


def element_sizes(entry: MetadataEntry, width: int) -> Sequence[tuple[int, int]]:
    """Return the bytes of each element's length and of the element itself, in file order.

    Returns nothing if the elements are too many, nested or unreadable. Only a text has a length,
    which takes `width` bytes; texts are read from the file.
    """
    count = entry.length
    if count is None or not 0 < count <= MOST_ELEMENTS:
        return ()
    number_bytes = _NUMBER_BYTES.get(entry.type_name)
    if number_bytes is not None:
        return [(0, number_bytes)] * count
    if entry.type_name != "array[string]" or entry.end - entry.value_offset > _MOST_TEXT_BYTES:
        return ()
    try:
        texts = entry.value
    except ExplorerError:
        return ()
    if not isinstance(texts, StringArray):
        return ()
    return [(width, int(nbytes)) for nbytes in texts.lengths]


_MAGIC_BYTES: Final = 4
_U32_BYTES: Final = 4
_U64_BYTES: Final = 8
_CHECK_EVERY: Final = 2048  # tensors between two looks at the job's cancellation


class FieldKind(StrEnum):
    """What a run of bytes is."""

    MAGIC = "magic"
    VERSION = "version"
    COUNT = "count"
    LENGTH = "length"
    KEY = "key"
    TYPE = "type"
    VALUE = "value"
    NAME = "name"
    DIMS = "dims"
    OFFSET = "offset"
    HEADER_TEXT = "header_text"
    TENSOR_DATA = "tensor_data"
    PADDING = "padding"
    UNUSED = "unused"


@dataclass(frozen=True, slots=True)
class Field:
    """A run of bytes with one meaning."""

    kind: FieldKind  # what it is
    offset: int  # first byte in the file
    nbytes: int  # number of bytes, at least 1
    label: str  # what of, as "key general.name"; has names from the file: not safe to show
    key: str | None = None  # the metadata key that it belongs to, or None
    tensor_row: int | None = None  # row in the table of the tensor that it belongs to, or None

    @property
    def end(self) -> int:
        """First byte behind it."""
        return self.offset + self.nbytes


class _Piece(NamedTuple):
    """A field before it has a place: its size is all that the format says."""

    kind: FieldKind
    nbytes: int
    label: str


class _Part(NamedTuple):
    """Something with a place in the file, of which fields can be made."""

    start: int  # first byte that is its own, after cutting
    end: int  # first byte behind it
    origin: int  # first byte that the file claims for it
    pieces: Callable[[_Part], Iterable[_Piece]]  # makes its pieces
    number: int | None = None  # place of an entry in the list of entries; of a tensor its row
    extent: int = 0  # number of the tensor's extent
    unknown: bool = False  # whether the file does not say how far the weights go


class Structure:
    """The fields of one file of a model."""

    def __init__(self, model: Model, file_index: int = 0) -> None:
        self.model = model
        self.file_index = file_index
        self._file = model.files[file_index]
        self.size_bytes = self._file.source.size
        self._width = _U32_BYTES if self._file.version == 1 else _U64_BYTES
        self._check: Check = never
        self._elements: dict[int, Sequence[tuple[int, int]]] = {}  # by entry

    def prepare(self, check: Check = never) -> None:
        """List the parts now, in a worker: a model with many tensors takes a while.

        Short texts of arrays are read, so that each can be shown as a field of its own.

        Args:
            check: Called now and then; raises to stop.
        """
        self._check = check
        try:
            _ = self._starts
            for index, entry in enumerate(self._entries):
                check()
                self._elements[index] = element_sizes(entry, self._width)
        finally:
            self._check = never

    def fields(self, start: int, stop: int) -> list[Field]:
        """Return all fields that overlap the bytes from `start` to `stop`, whole and in order."""
        start, stop = max(0, start), min(stop, self.size_bytes)
        if start >= stop:
            return []
        found: list[Field] = []
        for place in range(bisect_right(self._starts, start) - 1, len(self._parts)):
            part = self._parts[place]
            if part.start >= stop:
                break
            found += [f for f in self._fields_of(part) if f.offset < stop and f.end > start]
        return found

    def field_at(self, offset: int) -> Field | None:
        """Return the field that holds a byte, or None outside the file."""
        found = self.fields(offset, offset + 1)
        return found[0] if found else None

    # Parts

    @cached_property
    def _starts(self) -> list[int]:
        return [part.start for part in self._parts]

    @cached_property
    def _parts(self) -> list[_Part]:
        """Parts that tile the file: what is claimed, cut to fit, and the gaps between."""
        size = self.size_bytes
        parts: list[_Part] = []
        position = 0
        for part in self._claimed():
            start, end = max(part.start, position), min(part.end, size)
            if part.unknown and part.start < position:
                continue  # its place is taken
            if start >= end:
                continue
            if start > position:
                parts.append(_Part(position, start, position, self._gap_pieces))
            whole = part.start == start and part.end == end
            parts.append(part if whole else part._replace(start=start, end=end))
            position = end
        if position < size:
            parts.append(_Part(position, size, position, self._gap_pieces))
        return parts

    def _claimed(self) -> Iterator[_Part]:
        if self.model.format == "gguf":
            yield from self._gguf_header()
        elif self.model.format == "imatrix":  # names stand between the numbers
            parts = [*self._imatrix_header(), *self._weights()]
            yield from sorted(parts, key=lambda part: part.start)
            return
        else:
            yield _Part(0, _U64_BYTES, 0, self._head_pieces)
            yield _Part(_U64_BYTES, self._file.header_bytes, _U64_BYTES, self._text_pieces)
        yield from self._weights()

    def _gguf_header(self) -> Iterator[_Part]:
        file = self._file
        head_end = _MAGIC_BYTES + _U32_BYTES + 2 * self._width
        yield _Part(0, head_end, 0, self._head_pieces)
        if self._entries:
            for index, entry in enumerate(self._entries):
                yield _Part(entry.offset, entry.end, entry.offset, self._entry_pieces, index)
        else:
            yield _Part(head_end, file.table_offset, head_end, self._keys_pieces)
        starts, pieces = file.record_offsets, self._record_pieces
        ends = [*starts[1:], file.table_end]
        for row, (start, end) in enumerate(zip(starts, ends, strict=False), file.first_tensor):
            yield _Part(start, end, start, pieces, row)

    def _imatrix_header(self) -> Iterator[_Part]:
        """Yield what stands around the numbers of `formats.imatrix`: counts, names, lengths."""
        yield _Part(0, _U32_BYTES, 0, self._head_pieces)
        rows = self.model.tensors.rows
        for number, start in enumerate(self._file.record_offsets):
            calls = rows[2 * number + 1].extents[0].offset
            yield _Part(start, calls, start, self._name_pieces, 2 * number)
            values = calls + _U32_BYTES
            end = values + _U32_BYTES
            yield _Part(values, end, values, self._length_pieces, 2 * number)

    def _weights(self) -> Iterator[_Part]:
        places: list[tuple[int, bool, int, int, int]] = []
        for count, row in enumerate(self._rows()):
            if count % _CHECK_EVERY == 0:
                self._check()
            tensor = self.model.tensors.rows[row]
            for piece, extent in enumerate(tensor.extents):
                if extent.source is self._file.source:
                    unknown = extent.nbytes <= 0 and tensor.damage is not None
                    places.append((extent.offset, unknown, row, piece, extent.nbytes))
        places.sort()
        following = self.size_bytes
        ends = [0] * len(places)
        for index in range(len(places) - 1, -1, -1):
            start, unknown, _, _, nbytes = places[index]
            if index + 1 < len(places) and places[index + 1][0] > start:
                following = places[index + 1][0]
            ends[index] = following if unknown else start + nbytes
        pieces = self._weights_pieces
        for (start, unknown, row, piece, _), end in zip(places, ends, strict=True):
            yield _Part(start, end, start, pieces, row, piece, unknown)

    def _rows(self) -> Iterable[int]:
        """Rows of tensors that may lie in this file."""
        files = self.model.files
        count = len(self.model.tensors.rows)
        if self.model.format != "gguf":  # extents say it
            return range(count)
        behind = files[self.file_index + 1 :]
        return range(self._file.first_tensor, behind[0].first_tensor if behind else count)

    @cached_property
    def _entries(self) -> list[MetadataEntry]:
        placed = [
            entry
            for entry in self.model.metadata.entries
            if entry.file_index == self.file_index and entry.offset >= 0
        ]
        return sorted(placed, key=lambda entry: entry.offset)

    # Fields of a part

    def _fields_of(self, part: _Part) -> Iterator[Field]:
        """Lay the pieces of a part one behind the other, cut to the part."""
        key, row = None, part.number
        if part.pieces == self._entry_pieces:
            key, row = self._entries[part.number or 0].key, None
        position = part.origin
        for piece in part.pieces(part):
            start = max(position, part.start)
            position += max(0, piece.nbytes)
            end = min(position, part.end)
            if start < end:
                yield Field(piece.kind, start, end - start, piece.label, key, row)
        start = max(position, part.start)
        if start < part.end:  # a part that claims more than its pieces
            yield Field(FieldKind.UNUSED, start, part.end - start, "not described", key, row)

    def _head_pieces(self, _part: _Part) -> Iterator[_Piece]:
        if self.model.format == "imatrix":
            yield _Piece(FieldKind.COUNT, _U32_BYTES, "tensors")
            return
        if self.model.format != "gguf":
            yield _Piece(FieldKind.LENGTH, _U64_BYTES, "header")
            return
        yield _Piece(FieldKind.MAGIC, _MAGIC_BYTES, "“GGUF”")
        yield _Piece(FieldKind.VERSION, _U32_BYTES, "GGUF format")
        yield _Piece(FieldKind.COUNT, self._width, "tensors")
        yield _Piece(FieldKind.COUNT, self._width, "metadata keys")

    def _name_pieces(self, part: _Part) -> Iterator[_Piece]:
        name = self.model.tensors.columns.names[part.number or 0]
        yield _Piece(FieldKind.LENGTH, _U32_BYTES, f"name {name}")
        yield _Piece(FieldKind.NAME, part.end - part.origin - _U32_BYTES, name)

    def _length_pieces(self, part: _Part) -> Iterator[_Piece]:
        name = self.model.tensors.columns.names[part.number or 0]
        yield _Piece(FieldKind.LENGTH, _U32_BYTES, f"values {name}")

    def _entry_pieces(self, part: _Part) -> Iterator[_Piece]:
        index = part.number or 0
        entry = self._entries[index]
        width, key = self._width, entry.key
        text_bytes = entry.value_offset - entry.offset - width - _U32_BYTES
        value_bytes = entry.end - entry.value_offset
        yield _Piece(FieldKind.LENGTH, width, f"key {key}")
        yield _Piece(FieldKind.KEY, text_bytes, key)
        yield _Piece(FieldKind.TYPE, _U32_BYTES, f"{key}: {entry.type_name}")
        if entry.length is not None:
            head = _U32_BYTES + width
            yield _Piece(FieldKind.TYPE, _U32_BYTES, f"elements of {key}: {entry.type_name}")
            yield _Piece(FieldKind.COUNT, width, f"elements of {key}: {entry.length:,}")
            yield from self._element_pieces(index, value_bytes - head)
        elif entry.type_name == "string":
            yield _Piece(FieldKind.LENGTH, width, f"text of {key}")
            yield _Piece(FieldKind.VALUE, value_bytes - width, f"text of {key}")
        else:
            yield _Piece(FieldKind.VALUE, value_bytes, key)

    def _element_pieces(self, index: int, nbytes: int) -> Iterator[_Piece]:
        """Give each element a piece if it is known where they lie, else all of them one."""
        key, sizes = self._entries[index].key, self._elements.get(index, ())
        if sum(map(sum, sizes)) != nbytes:  # unknown, or not what was there when it was opened
            yield _Piece(FieldKind.VALUE, nbytes, f"elements of {key}")
            return
        for number, (length_bytes, value_bytes) in enumerate(sizes):
            if length_bytes:
                yield _Piece(FieldKind.LENGTH, length_bytes, f"text {number} of {key}")
            yield _Piece(FieldKind.VALUE, value_bytes, f"element {number} of {key}")

    def _record_pieces(self, part: _Part) -> Iterator[_Piece]:
        width = self._width
        columns, row = self.model.tensors.columns, part.number or 0
        name = columns.names[row] if row < len(columns.names) else ""
        kind = columns.types[row].name if row < len(columns.types) else "?"
        name_bytes = len(name.encode("utf-8", "surrogateescape"))
        fixed = width + name_bytes + _U32_BYTES + _U32_BYTES + _U64_BYTES
        yield _Piece(FieldKind.LENGTH, width, f"name of tensor {name}")
        yield _Piece(FieldKind.NAME, name_bytes, name)
        yield _Piece(FieldKind.COUNT, _U32_BYTES, f"dimensions of {name}")
        yield _Piece(FieldKind.DIMS, part.end - part.origin - fixed, name)
        yield _Piece(FieldKind.TYPE, _U32_BYTES, f"{name}: {kind}")
        yield _Piece(FieldKind.OFFSET, _U64_BYTES, f"{name}, counted from the first weights")

    def _keys_pieces(self, part: _Part) -> Iterator[_Piece]:
        yield _Piece(FieldKind.VALUE, part.end - part.origin, "metadata of this shard")

    def _text_pieces(self, part: _Part) -> Iterator[_Piece]:
        yield _Piece(FieldKind.HEADER_TEXT, part.end - part.origin, "JSON")

    def _weights_pieces(self, part: _Part) -> Iterator[_Piece]:
        tensor = self.model.tensors.rows[part.number or 0]
        yield _Piece(FieldKind.TENSOR_DATA, part.end - part.origin, _weights_label(tensor, part))

    def _gap_pieces(self, part: _Part) -> Iterator[_Piece]:
        """Name bytes that nothing claims: padding where the format puts some, else unused."""
        file, nbytes = self._file, part.end - part.origin
        padding = None
        if self.model.format == "gguf":
            ends_aligned = (part.end - file.header_bytes) % file.alignment == 0
            if part.start == file.table_end and part.end <= file.header_bytes:
                padding = "up to the first weights"
            elif part.start >= file.header_bytes and nbytes < file.alignment and ends_aligned:
                padding = "behind the tensor before"
        if padding is not None:
            yield _Piece(FieldKind.PADDING, nbytes, padding)
        else:
            yield _Piece(FieldKind.UNUSED, nbytes, "nothing in the header refers to it")


def _weights_label(tensor: Tensor, part: _Part) -> str:
    label = f"{tensor.name} ({tensor.type.name})"
    if len(tensor.extents) > 1:
        label += f", part {part.extent + 1} of {len(tensor.extents)}"
    if part.unknown:
        return f"{label}, of unknown length, at most to here"
    if part.start > part.origin:
        return f"{label}, the first {part.start - part.origin:,} bytes are another tensor's too"
    return label
