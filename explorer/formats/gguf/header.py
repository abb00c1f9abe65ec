"""The header of one GGUF file: keys, values and tensor records, without tensor data.

docs/gguf.md, sections 1 to 3; ggml/src/gguf.cpp. Values are described, not decoded: see `metadata`.
The walk over the keys is plain Python over a window of the file, because they are few once arrays
are skipped; every length is checked against the bytes left before it is used.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from explorer.errors import FormatError
from explorer.formats.gguf.arrays import (
    ARRAY,
    BOOL,
    NUMBER_TYPES,
    STRING,
    Layout,
    array_loader,
    locate_array,
)
from explorer.formats.gguf.records import Cursor, RecordRun, find_records, quoted
from explorer.formats.limits import (
    EAGER_STRING_BYTES,
    EAGER_TOTAL_BYTES,
    GGUF_MAX_STRING_BYTES,
    MAX_KEY_BYTES,
    MAX_KEYS,
    MAX_NAMES_BYTES,
    MAX_TENSORS,
    MAX_TEXT_BYTES,
)
from explorer.formats.model import MetadataEntry, Value, decode_text
from explorer.sources import ByteSource

MAGIC: Final = b"GGUF"
DEFAULT_ALIGNMENT: Final = 32
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


@dataclass
class GgufHeader:
    """What one file's header says.

    Attributes:
        version: 1, 2 or 3.
        layout: Byte order and width of counts.
        entries: Metadata in file order.
        runs: The records of the tensor table, in file order.
        table_offset: First byte of the tensor table.
        table_end: First byte behind it.
        alignment: Alignment of the tensor data in bytes.
        data_offset: First byte of the tensor data.
        warnings: (where, what) of rules that the header breaks.
    """

    version: int
    layout: Layout
    entries: list[MetadataEntry] = field(default_factory=list)
    runs: list[RecordRun] = field(default_factory=list)
    table_offset: int = 0
    table_end: int = 0
    alignment: int = DEFAULT_ALIGNMENT
    data_offset: int = 0
    warnings: list[tuple[str, str]] = field(default_factory=list)

    @property
    def tensor_count(self) -> int:
        """Number of records."""
        return sum(len(run.starts) for run in self.runs)

    def record_offsets(self) -> array[int]:
        """Return the first byte of each record in the file."""
        return array("q", b"".join(run.record_offsets.tobytes() for run in self.runs))


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
    header.runs = find_records(cursor, tensor_count)
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
    if key_count > MAX_KEYS or tensor_count > MAX_TENSORS or least > left:
        raise FormatError(
            f"claims {key_count} keys and {tensor_count} tensors, where {left} bytes are left "
            f"(limits: {MAX_KEYS} and {MAX_TENSORS}); the header is damaged",
            cursor.source.path,
            8,
        )


def _read_entries(cursor: Cursor, count: int, header: GgufHeader, file_index: int) -> None:
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
    if size > GGUF_MAX_STRING_BYTES or size > source.size - cursor.position:
        raise FormatError(
            f"key {quoted(key)}: a string of {size} bytes, where "
            f"{source.size - cursor.position} are left",
            source.path,
            at,
        )
    start = cursor.position
    if size <= min(EAGER_STRING_BYTES, eager_left):
        return _constant(decode_text(cursor.take(size, f"the value of key {quoted(key)}")))
    cursor.position += size

    def load() -> Value:
        if size > MAX_TEXT_BYTES:
            raise FormatError(
                f"key {quoted(key)}: a text of {size} bytes is too long to show", source.path, start
            )
        return decode_text(source.read(start, size))

    return load


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
