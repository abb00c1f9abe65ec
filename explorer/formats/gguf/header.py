"""The header of one GGUF file: keys, values and tensor records, without tensor data.

docs/gguf.md, sections 1 to 3; ggml/src/gguf.cpp. Arrays are skipped and decoded later, so a plain
loop over keys and records is fast enough. Every length is checked against the bytes left before it
is used.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from explorer.errors import FormatError
from explorer.formats import limits
from explorer.formats.gguf.arrays import (
    ARRAY,
    BOOL,
    NUMBER_TYPES,
    STRING,
    Layout,
    array_loader,
    locate_array,
)
from explorer.formats.limits import MAX_DIMENSIONS, MAX_KEY_BYTES
from explorer.formats.model import MetadataEntry, Value, decode_text
from explorer.formats.tensors import Spec
from explorer.quantization import ggml_type
from explorer.sources import ByteSource

MAGIC: Final = b"GGUF"
DEFAULT_ALIGNMENT: Final = 32
_INT64_MAX: Final = (1 << 63) - 1
_WINDOW_BYTES: Final = 1 << 14
_RECORDS_BYTES: Final = 1 << 18  # longer than any record
_MOST_QUOTED: Final = 120
# Other files found under a model's name, by their first bytes.
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


def quoted(name: str) -> str:
    """Return a name from the file for a message: escaped, and not longer than a line."""
    shown = repr(name[:_MOST_QUOTED])
    if len(name) <= _MOST_QUOTED and len(shown) <= 2 * _MOST_QUOTED:
        return shown
    return f"{shown[: 2 * _MOST_QUOTED]}…"  # a byte that is not text takes four or six characters


class Cursor:
    """A position in the header and a window of bytes around it.

    Every read moves the position on, and takes `what` it reads for messages.

    Attributes:
        source: The file.
        layout: How it writes numbers.
        position: Offset of the next byte.

    Raises:
        FormatError: The file ends before what is read does, or a string is longer than its limit.
        SourceError: The file changed since it was opened.
    """

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
        left = max(0, self.source.size - self.position)
        start = self.position - self._base
        if start < 0 or start + min(length, left) > len(self._window):
            size = min(max(length, _WINDOW_BYTES), left)
            self._window = self.source.read(self.position, size)
            self._base = self.position
            start = 0
        return self._window, start

    def take(self, length: int, what: str) -> bytes:
        """Return the next `length` bytes."""
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
                f"{what} is {length} bytes long, at most {limit} are allowed; "
                "the header is damaged",
                self.source.path,
                at,
            )
        return self.take(length, what)


@dataclass
class GgufHeader:
    """What one file's header says.

    Attributes:
        version: 1, 2 or 3.
        layout: Byte order and width of counts.
        entries: Metadata in file order.
        names: Names of the tensors, in the order of their records.
        specs: Type, shape and size of each.
        data_offsets: First byte of each, counted from the start of the tensor data.
        record_offsets: First byte of each record in the file.
        table_offset: First byte of the tensor table.
        table_end: First byte behind it.
        alignment: Alignment of the tensor data in bytes.
        data_offset: First byte of the tensor data.
        warnings: (where, what) of rules that the header breaks.
    """

    version: int
    layout: Layout
    entries: list[MetadataEntry] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    specs: list[Spec] = field(default_factory=list)
    data_offsets: list[int] = field(default_factory=list)
    record_offsets: list[int] = field(default_factory=list)
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
    cursor = Cursor(source, layout)
    cursor.position = 8
    tensor_count, key_count = cursor.count("tensor count"), cursor.count("key count")
    _check_counts(cursor, tensor_count, key_count)
    header = GgufHeader(version, layout)
    _read_entries(cursor, key_count, header, file_index)
    header.table_offset = cursor.position
    _read_records(cursor, tensor_count, header)
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
    big = version & 0xFFFF == 0 and version != 0  # docs/gguf.md, section 3: nothing else flags it
    if big:
        version = int.from_bytes(start[4:8], "big")
    if version not in (1, 2, 3):
        raise FormatError(
            f"has GGUF version {version}; this program reads versions 1, 2 and 3", source.path, 4
        )
    return version, Layout("big" if big else "little", 4 if version == 1 else 8)


def _check_counts(cursor: Cursor, tensor_count: int, key_count: int) -> None:
    left = cursor.source.size - cursor.position
    width = cursor.layout.width
    # a key/value takes at least its key's length, a byte of key, a type and a byte of value;
    # a tensor its name's length, n_dims, type and offset
    least = key_count * (width + 6) + tensor_count * (width + 16)
    if key_count > limits.MAX_KEYS or tensor_count > limits.MAX_TENSORS or least > left:
        raise FormatError(
            f"claims {key_count} keys and {tensor_count} tensors, where {left} bytes are left "
            f"(limits: {limits.MAX_KEYS} and {limits.MAX_TENSORS}); the header is damaged",
            cursor.source.path,
            8,
        )


def _read_entries(cursor: Cursor, count: int, header: GgufHeader, file_index: int) -> None:
    eager_left = limits.EAGER_TOTAL_BYTES
    names_left = limits.MAX_NAMES_BYTES
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
        kind = cursor.u32(f"the type of key {quoted(key)}")
        value_offset = cursor.position
        type_name, length, load = _read_value(cursor, key, kind, eager_left)
        end = cursor.position
        if kind == STRING:
            eager_left -= min(eager_left, end - value_offset)
        header.entries.append(
            MetadataEntry(key, type_name, length, load, at, value_offset, end, file_index)
        )


def _read_value(
    cursor: Cursor, key: str, kind: int, eager_left: int
) -> tuple[str, int | None, Callable[[], Value]]:
    """Step over a value; return its type's name, the length of an array, and what gives it."""
    source, layout = cursor.source, cursor.layout
    if kind == STRING:
        return "string", None, _read_string(cursor, key, eager_left)
    if kind == ARRAY:
        place = locate_array(source, cursor.position, layout, quoted(key))
        cursor.position = place.end
        return place.type_name, place.count, array_loader(source, place, layout)
    if kind in NUMBER_TYPES:
        type_name, code = NUMBER_TYPES[kind]
        raw = cursor.take(int(code[1:]), f"the value of key {quoted(key)}")
        return type_name, None, _constant(_number(raw, kind, code, layout))
    raise FormatError(
        f"key {quoted(key)} has the unknown value type {kind}", source.path, cursor.position - 4
    )


def _constant(value: Value) -> Callable[[], Value]:
    return lambda: value


def _number(raw: bytes, kind: int, code: str, layout: Layout) -> int | float | bool:
    if code[0] == "f":
        result: float = struct.unpack(layout.prefix + ("f" if code == "f4" else "d"), raw)[0]
        return result
    number = int.from_bytes(raw, layout.order, signed=code[0] == "i")
    return number != 0 if kind == BOOL else number


def _read_string(cursor: Cursor, key: str, eager_left: int) -> Callable[[], Value]:
    """Step over a string; return what gives its text, at once for a short one."""
    source = cursor.source
    at = cursor.position
    size = cursor.count(f"the length of key {quoted(key)}")
    if size > limits.GGUF_MAX_STRING_BYTES or size > source.size - cursor.position:
        raise FormatError(
            f"key {quoted(key)}: a string of {size} bytes, where "
            f"{source.size - cursor.position} are left",
            source.path,
            at,
        )
    start = cursor.position
    if size <= min(limits.EAGER_STRING_BYTES, eager_left):
        return _constant(decode_text(cursor.take(size, f"the value of key {quoted(key)}")))
    cursor.position += size

    def load() -> Value:
        if size > limits.MAX_TEXT_BYTES:
            raise FormatError(
                f"key {quoted(key)}: a text of {size} bytes is too long to show", source.path, start
            )
        return decode_text(source.read(start, size))

    return load


def _read_records(cursor: Cursor, count: int, header: GgufHeader) -> None:
    """Read the tensor table and leave the cursor behind it.

    Records whose dimensions and type are the same bytes share one `Spec`.

    Raises:
        FormatError: A record is damaged or runs past the end of the file.
    """
    layout, width = header.layout, header.layout.width
    length_at = layout.count.unpack_from
    rank_at = struct.Struct(f"{layout.prefix}I").unpack_from
    offset_at = struct.Struct(f"{layout.prefix}Q").unpack_from
    names, specs = header.names, header.specs
    known: dict[bytes, Spec] = {}
    names_left = limits.MAX_NAMES_BYTES
    while len(names) < count:
        window, first = cursor.window(_RECORDS_BYTES)
        position, size = first, len(window)
        while len(names) < count and position + width <= size:
            name_at = position + width
            name_end = name_at + length_at(window, position)[0]
            if name_end - name_at > MAX_KEY_BYTES or name_end + 4 > size:
                break
            rank = rank_at(window, name_end)[0]
            end = name_end + rank * width + 16
            if rank > MAX_DIMENSIONS or end > size:
                break
            fields = window[name_end : end - 8]
            spec = known.get(fields)
            if spec is None:
                spec = _read_spec(fields, layout)
                if spec.fault is None:
                    known[fields] = spec
            names.append(decode_text(window[name_at:name_end]))
            specs.append(spec)
            header.data_offsets.append(offset_at(window, end - 8)[0])
            header.record_offsets.append(cursor.position + position - first)
            names_left -= name_end - name_at
            position = end
        if position == first:
            raise _record_error(cursor, len(names))
        cursor.position += position - first
        if names_left < 0:
            raise FormatError(
                "the tensor table holds more name text than any model has "
                f"({limits.MAX_NAMES_BYTES} bytes)",
                cursor.source.path,
                cursor.position,
            )


def _read_spec(fields: bytes, layout: Layout) -> Spec:
    """Decode a record's number of dimensions, dimensions and type; check that sizes fit."""
    width = layout.width
    dims = [
        int.from_bytes(fields[at : at + width], layout.order)
        for at in range(4, len(fields) - 4, width)
    ]
    shape = tuple(reversed(dims))
    kind = ggml_type(int.from_bytes(fields[-4:], layout.order))
    parameters = 1
    for length in dims:
        parameters *= length
        if length > _INT64_MAX or parameters > _INT64_MAX:
            return Spec(kind, shape, 0, 0, f"dimensions {dims} overflow 63 bits")
    if not kind.known:
        return Spec(kind, shape, parameters, 0, f"type {kind.name}: its size is not known")
    row = dims[0] if dims else 1
    nbytes = kind.nbytes(parameters)
    if row % kind.block_weights or nbytes is None:
        fault = f"rows of {row} weights do not fill blocks of {kind.block_weights} ({kind.name})"
        return Spec(kind, shape, parameters, 0, fault)
    if nbytes > _INT64_MAX:
        return Spec(kind, shape, parameters, 0, f"{nbytes} bytes overflow 63 bits")
    return Spec(kind, shape, parameters, nbytes)


def _record_error(cursor: Cursor, index: int) -> FormatError:
    """Read a record again, field by field, and return what is wrong with it."""
    at = cursor.position
    try:
        name = decode_text(cursor.string(f"the name of tensor {index}", MAX_KEY_BYTES))
        rank = cursor.u32(f"the number of dimensions of tensor {quoted(name)}")
        if rank > MAX_DIMENSIONS:
            return FormatError(
                f"tensor {quoted(name)} has {rank} dimensions, at most {MAX_DIMENSIONS} are "
                "allowed",
                cursor.source.path,
                at,
            )
        cursor.take(rank * cursor.layout.width + 12, f"the record of tensor {quoted(name)}")
    except FormatError as error:
        return error
    return FormatError("changed while it was read; open it again", cursor.source.path, at)


def _alignment(header: GgufHeader) -> int:
    """Return the alignment; what ggml would refuse is a warning, and the default is used."""
    entry = next((e for e in header.entries if e.key == "general.alignment"), None)
    if entry is None:
        return DEFAULT_ALIGNMENT
    value = entry.value if entry.length is None and entry.type_name != "string" else None
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
