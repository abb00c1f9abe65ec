"""The header of one GGUF file: keys, values and tensor records, without tensor data.

gguf.md sections 1 to 3; ggml/src/gguf.cpp. Values are described here, not decoded: see `metadata.py`.
The walk is plain Python over a window of the file, because the records are few once arrays are
skipped; every length is checked against the bytes left before it is used.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from explorer.errors import FormatError
from explorer.formats.gguf_arrays import (
    ARRAY,
    BOOL,
    NUMBER_TYPES,
    STRING,
    Layout,
    array_loader,
    locate_array,
)
from explorer.formats.limits import (
    EAGER_STRING_BYTES,
    EAGER_TOTAL_BYTES,
    GGUF_MAX_STRING_BYTES,
    MAX_DIMENSIONS,
    MAX_KEY_BYTES,
    MAX_KEYS,
    MAX_NAMES_BYTES,
    MAX_TENSORS,
    MAX_TEXT_BYTES,
)
from explorer.formats.metadata import MetadataEntry, Value, decode_text
from explorer.sources import ByteSource

MAGIC: Final = b"GGUF"
DEFAULT_ALIGNMENT: Final = 32
_WINDOW_BYTES: Final = 1 << 17
# Other things that are found under a model's name, by their first bytes.
_LOOKS_LIKE: Final = (
    (b"lmgg", "an old GGML file (before GGUF); convert it with llama.cpp"),
    (b"tjgg", "an old GGJT file (before GGUF); convert it with llama.cpp"),
    (b"fmgg", "an old GGMF file (before GGUF); convert it with llama.cpp"),
    (b"FUGG", "a GGUF file with swapped bytes; download it again"),
    (b"PK\x03\x04", "a zip archive (a PyTorch checkpoint?); convert it first"),
    (b"\x7fELF", "a program (ELF)"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x1f\x8b", "a gzip archive; unpack it first"),
    (b"version https://git-lfs", "a Git LFS pointer, not the model; fetch it with `git lfs pull`"),
    (b"<", "a web page or XML; the download failed or needs a login"),
    (b"{", "JSON text"),
)


class TensorRecord(NamedTuple):
    """A line of the tensor table.

    Attributes:
        name: Decoded name.
        dims: Dimensions in ggml order, the row length first.
        type_id: ggml's type id.
        data_offset: First byte, counted from the start of the tensor data.
        record_offset: First byte of this record in the file.
    """

    name: str
    dims: tuple[int, ...]
    type_id: int
    data_offset: int
    record_offset: int


@dataclass
class GgufHeader:
    """What one file's header says.

    Attributes:
        version: 1, 2 or 3.
        layout: Byte order and width of counts.
        entries: Metadata in file order.
        records: The tensor table in file order.
        table_offset: First byte of the tensor table.
        table_end: First byte behind it.
        alignment: Alignment of the tensor data in bytes.
        data_offset: First byte of the tensor data.
        warnings: (where, what) of rules that the header breaks.
    """

    version: int
    layout: Layout
    entries: list[MetadataEntry] = field(default_factory=list)
    records: list[TensorRecord] = field(default_factory=list)
    table_offset: int = 0
    table_end: int = 0
    alignment: int = DEFAULT_ALIGNMENT
    data_offset: int = 0
    warnings: list[tuple[str, str]] = field(default_factory=list)


def read_header(source: ByteSource, file_index: int = 0) -> GgufHeader:
    """Read the header of a GGUF file.

    Raises:
        FormatError: It is no GGUF file, or its header is cut short or damaged.
        SourceError: The file cannot be read.
    """
    version, layout = _read_start(source)
    cursor = _Cursor(source, layout)
    cursor.position = 8
    tensor_count, key_count = cursor.count("tensor count"), cursor.count("key count")
    _check_counts(cursor, tensor_count, key_count)
    header = GgufHeader(version, layout)
    _read_entries(cursor, key_count, header, file_index)
    header.table_offset = cursor.position
    header.records = _read_records(cursor, tensor_count)
    header.table_end = cursor.position
    header.alignment = _alignment(header)
    header.data_offset = header.table_end
    if tensor_count:
        header.data_offset = -(-header.table_end // header.alignment) * header.alignment
    return header


def _read_start(source: ByteSource) -> tuple[int, Layout]:
    start = source.read(0, min(64, source.size))
    if not start:
        raise FormatError("is empty; download it again", source.path)
    if not start.startswith(MAGIC):
        if MAGIC.startswith(start):
            raise FormatError("is too short to be a GGUF file; download it again", source.path, 0)
        text = start.lstrip()
        guess = next((name for magic, name in _LOOKS_LIKE if text.startswith(magic)), None)
        found = f"it looks like {guess}" if guess else f"it begins with bytes {start[:4].hex(' ')}"
        raise FormatError(f"is not a GGUF file; {found}", source.path, 0)
    if len(start) < 8:
        raise FormatError("ends inside the GGUF header; download it again", source.path, len(start))
    version = int.from_bytes(start[4:8], "little")
    big = version & 0xFFFF == 0 and version != 0  # gguf.md section 3: nothing else flags it
    if big:
        version = int.from_bytes(start[4:8], "big")
    if version not in (1, 2, 3):
        raise FormatError(
            f"has GGUF version {version}; this program reads versions 1, 2 and 3", source.path, 4
        )
    return version, Layout("big" if big else "little", 4 if version == 1 else 8)


def _check_counts(cursor: _Cursor, tensor_count: int, key_count: int) -> None:
    left = cursor.source.size - cursor.position
    width = cursor.layout.width
    # a key/value takes at least its key's length, a byte of key, a type and a byte of value; a tensor
    # its name's length, n_dims, type and offset
    least = key_count * (width + 6) + tensor_count * (width + 16)
    if key_count > MAX_KEYS or tensor_count > MAX_TENSORS or least > left:
        raise FormatError(
            f"claims {key_count} keys and {tensor_count} tensors, where {left} bytes are left "
            f"(limits: {MAX_KEYS} and {MAX_TENSORS}); the header is damaged",
            cursor.source.path,
            8,
        )


class _Cursor:
    """A position in the header and a window of bytes around it."""

    def __init__(self, source: ByteSource, layout: Layout) -> None:
        self.source = source
        self.layout = layout
        self.position = 0
        self._window = b""
        self._base = 0

    def window(self, length: int) -> tuple[bytes, int]:
        """Return bytes that hold at least `length` from the position on, or up to the file's end.

        Returns:
            The bytes, and the place of the position in them.
        """
        start = self.position - self._base
        if start < 0 or start + length > len(self._window):
            size = min(max(length, _WINDOW_BYTES), self.source.size - self.position)
            self._window = self.source.read(self.position, max(0, size))
            self._base = self.position
            start = 0
        return self._window, start

    def take(self, length: int, what: str) -> bytes:
        """Return the next `length` bytes; `what` names them for the message."""
        if length > self.source.size - self.position:
            raise FormatError(
                f"file ends inside {what}: {length} bytes expected, "
                f"{self.source.size - self.position} left; download it again",
                self.source.path,
                self.position,
            )
        window, start = self.window(length)
        self.position += length
        return window[start : start + length]

    def u32(self, what: str) -> int:
        """Return the next number of 4 bytes."""
        return int.from_bytes(self.take(4, what), self.layout.order)

    def count(self, what: str) -> int:
        """Return the next count or length: 8 bytes, or 4 in version 1."""
        return int.from_bytes(self.take(self.layout.width, what), self.layout.order)

    def string(self, what: str, limit: int) -> bytes:
        """Return the next string of at most `limit` bytes."""
        at = self.position
        length = self.count(f"the length of {what}")
        if length > limit:
            raise FormatError(
                f"{what} is {length} bytes long, at most {limit} are allowed; the header is damaged",
                self.source.path,
                at,
            )
        return self.take(length, what)


def _read_entries(cursor: _Cursor, count: int, header: GgufHeader, file_index: int) -> None:
    eager_left = EAGER_TOTAL_BYTES
    names_left = MAX_NAMES_BYTES
    seen: set[str] = set()
    for index in range(count):
        at = cursor.position
        raw_key = cursor.string(f"the key of entry {index}", MAX_KEY_BYTES)
        key = decode_text(raw_key)
        names_left -= len(raw_key)
        if not raw_key or names_left < 0:
            what = "an empty key" if not raw_key else "more key text than any model has"
            raise FormatError(
                f"entry {index} has {what}; the header is damaged", cursor.source.path, at
            )
        if key in seen:
            header.warnings.append((key, "the key occurs more than once; ggml refuses such a file"))
        seen.add(key)
        kind = cursor.u32(f"the type of key {key!r}")
        entry = _read_value(cursor, key, kind, at, file_index, eager_left)
        if kind == STRING:
            eager_left -= min(eager_left, entry.end - entry.value_offset)
        header.entries.append(entry)


def _read_value(
    cursor: _Cursor, key: str, kind: int, at: int, file_index: int, eager_left: int
) -> MetadataEntry:
    source, layout = cursor.source, cursor.layout
    value_offset = cursor.position
    length: int | None = None
    load: Callable[[], Value]
    if kind == STRING:
        type_name = "string"
        load = _read_string(cursor, key, eager_left)
    elif kind == ARRAY:
        place = locate_array(source, value_offset, layout, repr(key))
        cursor.position = place.end
        type_name, length = place.type_name, place.count
        load = array_loader(source, place, layout)
    elif kind in NUMBER_TYPES:
        type_name, code = NUMBER_TYPES[kind]
        raw = cursor.take(int(code[1:]), f"the value of key {key!r}")
        load = _constant(_number(raw, kind, code, layout))
    else:
        raise FormatError(
            f"key {key!r} has the unknown value type {kind}", source.path, value_offset - 4
        )
    return MetadataEntry(
        key, type_name, length, load, at, value_offset, cursor.position, file_index
    )


def _constant(value: Value) -> Callable[[], Value]:
    return lambda: value


def _number(raw: bytes, kind: int, code: str, layout: Layout) -> int | float | bool:
    if code[0] == "f":
        result: float = struct.unpack(layout.prefix + ("f" if code == "f4" else "d"), raw)[0]
        return result
    number = int.from_bytes(raw, layout.order, signed=code[0] == "i")
    return number != 0 if kind == BOOL else number


def _read_string(cursor: _Cursor, key: str, eager_left: int) -> Callable[[], Value]:
    """Step over a string; return what gives its text, at once for a short one."""
    source = cursor.source
    at = cursor.position
    size = cursor.count(f"the length of key {key!r}")
    if size > GGUF_MAX_STRING_BYTES or size > source.size - cursor.position:
        raise FormatError(
            f"key {key!r}: a string of {size} bytes, where {source.size - cursor.position} are left",
            source.path,
            at,
        )
    start = cursor.position
    if size <= min(EAGER_STRING_BYTES, eager_left):
        return _constant(decode_text(cursor.take(size, f"the value of key {key!r}")))
    cursor.position += size

    def load() -> Value:
        if size > MAX_TEXT_BYTES:
            raise FormatError(
                f"key {key!r}: a text of {size} bytes is too long to show", source.path, start
            )
        return decode_text(source.read(start, size))

    return load


def _read_records(cursor: _Cursor, count: int) -> list[TensorRecord]:
    """Read the tensor table.

    The loop runs up to 20,000 times while a user waits, so it unpacks from the window directly and
    leaves every message to `_explain_record`.
    """
    layout, source = cursor.layout, cursor.source
    width, prefix = layout.width, layout.prefix
    dim = "Q" if width == 8 else "I"
    read_length = struct.Struct(prefix + dim).unpack_from
    read_dims_count = struct.Struct(prefix + "I").unpack_from
    tails = [struct.Struct(f"{prefix}{n}{dim}IQ") for n in range(MAX_DIMENSIONS + 1)]
    longest = width + MAX_KEY_BYTES + 4 + tails[-1].size
    names_left = MAX_NAMES_BYTES
    records: list[TensorRecord] = []
    for index in range(count):
        window, start = cursor.window(longest)
        try:
            (length,) = read_length(window, start)
            name_start = start + width
            after_name = name_start + length
            (dims_count,) = read_dims_count(window, after_name)
            tail = tails[dims_count]
            *dims, type_id, offset = tail.unpack_from(window, after_name + 4)
        except (struct.error, IndexError):
            raise _explain_record(cursor, index) from None
        names_left -= length
        if length > MAX_KEY_BYTES or names_left < 0:
            raise _explain_record(cursor, index)
        name = str(window[name_start:after_name], "utf-8", "surrogateescape")
        records.append(TensorRecord(name, tuple(dims), type_id, offset, cursor.position))
        cursor.position += after_name + 4 + tail.size - start
    if cursor.position > source.size:
        raise _explain_record(cursor, count - 1)
    return records


def _explain_record(cursor: _Cursor, index: int) -> FormatError:
    """Read a record again, slowly, to say what is wrong with it."""
    at = cursor.position
    try:
        name = decode_text(cursor.string(f"the name of tensor {index}", MAX_KEY_BYTES))
        dims_count = cursor.u32(f"the number of dimensions of tensor {name!r}")
        if dims_count > MAX_DIMENSIONS:
            return FormatError(
                f"tensor {name!r} has {dims_count} dimensions, at most {MAX_DIMENSIONS} are allowed",
                cursor.source.path,
                at,
            )
        cursor.take(dims_count * cursor.layout.width + 12, f"the record of tensor {name!r}")
    except FormatError as error:
        return error
    return FormatError(
        f"the tensor table holds more name text than any model has ({MAX_NAMES_BYTES} bytes)",
        cursor.source.path,
        at,
    )


def _alignment(header: GgufHeader) -> int:
    """Return the alignment; what ggml would refuse is a warning, and the default is used."""
    entry = next((e for e in header.entries if e.key == "general.alignment"), None)
    if entry is None:
        return DEFAULT_ALIGNMENT
    value = entry.value if entry.length is None else None
    if entry.type_name == "uint32" and isinstance(value, int) and 0 < value <= 1 << 30:
        if value & (value - 1):
            header.warnings.append(
                (entry.key, f"the alignment {value} is not a power of two; ggml refuses it")
            )
        return value
    shown = value if isinstance(value, int | float) else "text or list"
    header.warnings.append(
        (
            entry.key,
            f"the alignment is {entry.type_name} {shown}, not a uint32 from 1 to 2^30; "
            f"{DEFAULT_ALIGNMENT} is used",
        )
    )
    return DEFAULT_ALIGNMENT
