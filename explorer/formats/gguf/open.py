"""Open a GGUF model: one file, or the shards of a split one.

docs/gguf.md, sections 1 to 4; ggml/src/gguf.cpp. A header is keys, values and tensor records.
Arrays are skipped and decoded later, so a plain loop over keys and records is fast enough. Every
length is checked against the bytes left before it is used.

Shards are named `<prefix>-00001-of-00003.gguf` and numbered from 0 in their `split.no` key.
llama.cpp opens the first shard only and refuses the model when one is missing. Here any shard opens
the whole, and a missing or damaged one is a problem of the model, not its end.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

from explorer.errors import ExplorerError, FormatError, SourceError, system_reason
from explorer.formats import limits
from explorer.formats.gguf import arrays
from explorer.formats.gguf.arrays import Layout
from explorer.formats.gguf.type_ids import settle_types
from explorer.formats.limits import MAX_DIMENSIONS, MAX_INNER_ARRAYS, MAX_KEY_BYTES
from explorer.formats.model import (
    Metadata,
    MetadataEntry,
    Model,
    ModelFile,
    ProblemLog,
    Value,
    constant,
    decode_text,
)
from explorer.formats.side_files import escapes, hub_cache, looks_like
from explorer.formats.tensors import FileTensors, Shape, Spec, table_of
from explorer.model_files import GGUF_MAGIC
from explorer.quantization import TensorType, ggml_type
from explorer.sources import BufferedSource, ByteSource, open_source
from explorer.sources.places import list_names, opening_ahead
from explorer.text import AtLeast, listed, quoted

DEFAULT_ALIGNMENT: Final = 32
_UNKNOWN: Final = AtLeast(0)  # one for all: a file may have 65,000 tensors of unknown size
SHARD_NAME: Final = re.compile(r"(?P<prefix>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")

_INT64_MAX: Final = (1 << 63) - 1
_GGML_DIMENSIONS: Final = 4
_WINDOW_BYTES: Final = 1 << 14
_RECORDS_BYTES: Final = 1 << 18  # longer than any record


class _Part(NamedTuple):
    """What is read, for a message: it becomes text if the message is needed."""

    part: str
    whole: object

    def __str__(self) -> str:
        whole = quoted(self.whole) if isinstance(self.whole, str) else self.whole
        return f"{self.part} {whole}"


class _Cursor:
    """A position in the header and a window of bytes around it.

    Every read moves the position on, and takes `what` it reads for messages.

    Raises:
        FormatError: The file ends before what is read does, or a string is longer than its limit.
        SourceError: The file changed since it was opened.
    """

    def __init__(self, source: ByteSource, layout: Layout) -> None:
        self.source = source
        self.layout = layout
        self.position = len(GGUF_MAGIC) + 4  # behind the version
        self.nearby = BufferedSource(source)  # for many small arrays
        self.inner_arrays = 0  # stepped over so far, as the strings of arrays
        self.strings = 0
        self._window = b""
        self._base = 0

    @property
    def left(self) -> int:
        """Bytes from the position to the end of the file."""
        return self.source.size - self.position

    def error(self, what: str, offset: int | None = None) -> FormatError:
        """Return the error for something at an offset, or at the position."""
        return FormatError(what, self.source.path, self.position if offset is None else offset)

    def window(self, length: int) -> tuple[bytes, int]:
        """Return bytes that hold at least `length` from the position on, or up to the file's end.

        Returns:
            The bytes, and the place of the position in them.
        """
        left = max(0, self.left)
        start = self.position - self._base
        if start < 0 or start + min(length, left) > len(self._window):
            self._window = self.source.read(self.position, min(max(length, _WINDOW_BYTES), left))
            self._base = self.position
            start = 0
        return self._window, start

    def take(self, length: int, what: object) -> bytes:
        """Return the next `length` bytes."""
        start = self.position - self._base
        if start >= 0 and start + length <= len(self._window):  # as nearly always
            self.position += length
            return self._window[start : start + length]
        if length > self.left:
            raise self.error(arrays.cut_short(f"{what}, which takes {length} bytes"))
        window, start = self.window(length)
        self.position += length
        return window[start : start + length]

    def number(self, form: struct.Struct, part: str, whole: object = None) -> Any:
        """Return the next number; messages call it `part`, or `part` of `whole`."""
        place = self.position - self._base
        if place >= 0 and place + form.size <= len(self._window):  # as nearly always
            self.position += form.size
            return form.unpack_from(self._window, place)[0]
        what = part if whole is None else _Part(part, whole)
        return form.unpack(self.take(form.size, what))[0]

    def u32(self, part: str, whole: object = None) -> int:
        """Return the next number of 4 bytes."""
        number: int = self.number(self.layout.number, part, whole)
        return number

    def count(self, part: str, whole: object = None) -> int:
        """Return the next count or length: 8 bytes, or 4 in version 1."""
        number: int = self.number(self.layout.count, part, whole)
        return number

    def key(self, index: int) -> tuple[bytes, int]:
        """Return the key of an entry, and the number of its value's type."""
        window, place = self._window, self.position - self._base
        begin = place + self.layout.width
        if place >= 0 and begin <= len(window):  # as nearly always: both at once
            end = begin + self.layout.count.unpack_from(window, place)[0]
            if end <= begin + MAX_KEY_BYTES and end + 4 <= len(window):
                self.position += end + 4 - place
                return window[begin:end], self.layout.number.unpack_from(window, end)[0]
        key = self.name(_Part("the key of entry", index))
        return key, self.u32("the type of key", decode_text(key))

    def name(self, what: object) -> bytes:
        """Return the next string, a key or the name of a tensor."""
        at = self.position
        length = self.count("the length of", what)
        if length > MAX_KEY_BYTES:
            allowed = f"at most {MAX_KEY_BYTES} are allowed. The header is damaged"
            raise self.error(f"{what} is {length} bytes long, {allowed}", at)
        return self.take(length, what)


@dataclass(kw_only=True)
class Shard(FileTensors):
    """One file of a model, and what its header says."""

    version: int  # 1, 2 or 3
    layout: Layout  # byte order and width of counts
    entries: list[MetadataEntry] = field(default_factory=list)  # metadata in file order
    record_offsets: list[int] = field(default_factory=list)  # first byte of each tensor's record
    table_offset: int = 0  # first byte of the tensor table
    table_end: int = 0  # first byte behind it
    alignment: int = DEFAULT_ALIGNMENT  # alignment of the tensor data in bytes
    warnings: list[tuple[str, str]] = field(default_factory=list)  # where and which rule it breaks

    @cached_property
    def metadata(self) -> Metadata:
        """The entries by their keys; all must have been read."""
        return Metadata(self.entries)

    @property
    def file_name(self) -> str:
        """The name of the file, for messages."""
        return self.source.path.name

    def model_file(self, first_tensor: int) -> ModelFile:
        """Return it as a file of a model; its first tensor has a row in the model's table."""
        return ModelFile(
            source=self.source,
            header_bytes=self.data_offset,
            table_offset=self.table_offset,
            record_offsets=self.record_offsets,
            table_end=self.table_end,
            first_tensor=first_tensor,
            version=self.version,
            byte_order=self.layout.order,
            alignment=self.alignment,
        )


def read_shard(source: ByteSource, file_index: int = 0) -> Shard:
    """Read the header of a GGUF file.

    Raises:
        FormatError: It is not a GGUF file, or its header is cut short or damaged.
        SourceError: The file cannot be read.
    """
    shard = _read_start(source)
    cursor = _Cursor(source, shard.layout)
    tensor_count, key_count = cursor.count("tensor count"), cursor.count("key count")
    _check_counts(cursor, tensor_count, key_count)
    _read_entries(cursor, key_count, shard, file_index)
    shard.table_offset = cursor.position
    _read_records(cursor, tensor_count, shard)
    shard.table_end = shard.data_offset = cursor.position
    shard.alignment = _alignment(shard)
    if tensor_count:
        shard.data_offset = -(-shard.table_end // shard.alignment) * shard.alignment
    architecture = shard.metadata.text("general.architecture")
    settle_types(shard, shard.alignment, architecture, _spec)
    return shard


def _read_start(source: ByteSource) -> Shard:
    start = source.read(0, min(64, source.size))
    if not start:
        raise FormatError("is empty. Download it again", source.path)
    if not start.startswith(GGUF_MAGIC):
        if GGUF_MAGIC.startswith(start):
            raise FormatError("is too short to be a GGUF file. Download it again", source.path, 0)
        found = looks_like(start) or f"It begins with bytes {start[:4].hex(' ')}"
        raise FormatError(f"is not a GGUF file. {found}", source.path, 0)
    if len(start) < 8:
        raise FormatError(arrays.cut_short("the GGUF header"), source.path, len(start))
    version = int.from_bytes(start[4:8], "little")
    big = version & 0xFFFF == 0 and version != 0  # docs/gguf.md, section 3: nothing else flags it
    if big:
        version = int.from_bytes(start[4:8], "big")
    if version not in (1, 2, 3):
        what = f"has GGUF version {version}. This program reads versions 1, 2 and 3"
        raise FormatError(what, source.path, 4)
    layout = Layout("big" if big else "little", 4 if version == 1 else 8)
    return Shard(source=source, version=version, layout=layout, byte_order=layout.order)


def _check_counts(cursor: _Cursor, tensor_count: int, key_count: int) -> None:
    left, width = cursor.left, cursor.layout.width
    # a key/value takes at least its key's length, a byte of key, a type and a byte of value;
    # a tensor its name's length, n_dims, type and offset
    least = key_count * (width + 6) + tensor_count * (width + 16)
    if key_count > limits.MAX_KEYS or tensor_count > limits.MAX_TENSORS or least > left:
        raise cursor.error(
            f"claims {key_count} keys and {tensor_count} tensors, where {left} bytes are left "
            f"(limits: {limits.MAX_KEYS} and {limits.MAX_TENSORS}). The header is damaged",
            8,
        )


def _read_entries(cursor: _Cursor, count: int, shard: Shard, file_index: int) -> None:
    eager_left = limits.EAGER_TOTAL_BYTES
    names_left = limits.MAX_NAMES_BYTES
    seen: set[str] = set()
    for index in range(count):
        at = cursor.position
        raw_key, kind = cursor.key(index)
        key = decode_text(raw_key)
        names_left -= len(raw_key)
        if not raw_key or names_left < 0:
            what = "an empty key" if not raw_key else "more key text than any model has"
            raise cursor.error(f"entry {index} has {what}. The header is damaged", at)
        if key in seen:
            shard.warnings.append((key, "the key occurs more than once; ggml refuses such a file"))
        seen.add(key)
        value_offset = cursor.position
        type_name, length, load = _read_value(cursor, key, kind, eager_left)
        end = cursor.position
        if kind == arrays.STRING:
            eager_left -= min(eager_left, end - value_offset)
        shard.entries.append(
            MetadataEntry(key, type_name, length, load, at, value_offset, end, file_index)
        )


def _read_value(
    cursor: _Cursor, key: str, kind: int, eager_left: int
) -> tuple[str, int | None, Callable[[], Value]]:
    """Step over a value; return its type's name, the length of an array, and what gives it."""
    source, layout = cursor.source, cursor.layout
    if kind == arrays.STRING:
        return "string", None, _read_string(cursor, key, eager_left)
    if kind == arrays.ARRAY:
        place = arrays.locate_array(cursor.nearby, cursor.position, layout, _Part("key", key))
        cursor.position = place.end
        cursor.inner_arrays += place.inner_arrays
        cursor.strings += place.strings
        if cursor.inner_arrays > MAX_INNER_ARRAYS:
            most = f"more than {MAX_INNER_ARRAYS} arrays in arrays"
            raise cursor.error(f"the keys up to {quoted(key)} have {most}")
        if cursor.strings > limits.MAX_STRING_ELEMENTS:
            most = f"more than {limits.MAX_STRING_ELEMENTS} strings in arrays"
            raise cursor.error(f"the keys up to {quoted(key)} have {most}")
        load = partial(arrays.read_array, source, place, layout)
        return place.type_name, place.length, load
    if kind in arrays.NUMBER_TYPES:
        number = cursor.number(layout.values[kind], "the value of key", key)
        value = constant(bool(number) if kind == arrays.BOOL else number)
        return arrays.NUMBER_TYPES[kind][0], None, value
    what = f"key {quoted(key)} has the unknown value type {kind}"
    raise cursor.error(what, cursor.position - 4)


def _read_string(cursor: _Cursor, key: str, eager_left: int) -> Callable[[], Value]:
    """Step over a string; return what gives its text, at once for a short one."""
    source, at = cursor.source, cursor.position
    size = cursor.count("the length of key", key)
    if size > limits.GGUF_MAX_STRING_BYTES:
        what = f"key {quoted(key)} has a text of {size} bytes. The header is damaged"
        raise cursor.error(what, at)
    if size > cursor.left:
        raise cursor.error(arrays.cut_short(f"key {quoted(key)} of {size} bytes"), at)
    start = cursor.position
    if size <= limits.EAGER_STRING_BYTES and size <= eager_left:
        return constant(decode_text(cursor.take(size, "a string")))  # it is whole
    cursor.position += size

    def load() -> Value:
        if size > limits.MAX_TEXT_BYTES:
            what = f"key {quoted(key)}: a text of {size} bytes is too long to show"
            raise FormatError(what, source.path, start)
        return decode_text(source.read(start, size))

    return load


def _read_records(cursor: _Cursor, count: int, shard: Shard) -> None:
    """Read the tensor table and leave the cursor behind it.

    Records whose dimensions and type are the same bytes share one `Spec`.

    Raises:
        FormatError: A record is damaged or runs past the end of the file.
    """
    layout, width = shard.layout, shard.layout.width
    length_at, rank_at = layout.count.unpack_from, layout.number.unpack_from
    offset_at = struct.Struct(f"{layout.prefix}Q").unpack_from
    names, specs, begins = shard.names, shard.specs, shard.begins
    record_offsets = shard.record_offsets
    known: dict[bytes, Spec] = {}
    types: dict[int, TensorType] = {}
    names_left = limits.MAX_NAMES_BYTES
    while len(names) < count:
        window, first = cursor.window(_RECORDS_BYTES)
        position, size = first, len(window)
        base = cursor.position - first
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
                spec = _read_spec(fields, layout, types)
                if spec.fault is None:
                    known[fields] = spec
            names.append(decode_text(window[name_at:name_end]))
            specs.append(spec)
            begins.append(offset_at(window, end - 8)[0])
            record_offsets.append(base + position)
            names_left -= name_end - name_at
            position = end
        if position == first:
            raise _record_error(cursor, len(names))
        cursor.position += position - first
        if names_left < 0:
            most = f"than any model has ({limits.MAX_NAMES_BYTES} bytes)"
            raise cursor.error(f"the tensor table holds more name text {most}")


def _read_spec(fields: bytes, layout: Layout, types: dict[int, TensorType]) -> Spec:
    """Decode a record's number of dimensions, dimensions and type; check that sizes fit.

    Types are kept in `types` by their ids.
    """
    _, *dims, number = layout.records[(len(fields) - 8) // layout.width].unpack(fields)
    kind = types.get(number)
    if kind is None:
        kind = types[number] = ggml_type(number)
    return _spec(kind, tuple(reversed(dims)))


def _spec(kind: TensorType, shape: Shape) -> Spec:
    parameters = math.prod(shape)
    if not 0 < parameters <= _INT64_MAX:  # a product with 0 may overflow on the way
        parameters = 1
        for length in reversed(shape):
            parameters *= length
            if length > _INT64_MAX or parameters > _INT64_MAX:
                fault = f"dimensions {list(reversed(shape))} overflow 63 bits"
                return Spec(kind, shape, 0, _UNKNOWN, fault)
    if not kind.known:
        return Spec(kind, shape, parameters, _UNKNOWN, "its size is not known")
    nbytes, row, name = kind.nbytes_of(shape), shape[-1] if shape else 1, kind.name
    if nbytes is None or row % kind.block_weights:
        fault = f"rows of {row} weights do not fill blocks of {kind.block_weights} ({name})"
        if row % kind.block_weights == 0:
            rows = shape[-2] if len(shape) > 1 else 1
            fault = (
                f"{rows} rows are not a whole number of {kind.rows}, which {name} stores together"
            )
        return Spec(kind, shape, parameters, _UNKNOWN, fault)
    if len(shape) > _GGML_DIMENSIONS:
        fault = f"it has {len(shape)} dimensions, where ggml has {_GGML_DIMENSIONS}"
        return Spec(kind, shape, parameters, nbytes if nbytes <= _INT64_MAX else _UNKNOWN, fault)
    if nbytes > _INT64_MAX:
        return Spec(kind, shape, parameters, _UNKNOWN, f"{nbytes} bytes overflow 63 bits")
    return Spec(kind, shape, parameters, nbytes)


def _record_error(cursor: _Cursor, index: int) -> FormatError:
    """Read a record again, field by field, and return what is wrong with it."""
    at = cursor.position
    try:
        name = quoted(decode_text(cursor.name(f"the name of tensor {index}")))
        rank = cursor.u32(f"the number of dimensions of tensor {name}")
        if rank > MAX_DIMENSIONS:
            what = f"tensor {name} has {rank} dimensions, at most {MAX_DIMENSIONS} are allowed"
            return cursor.error(what, at)
        cursor.take(rank * cursor.layout.width + 12, f"the record of tensor {name}")
    except FormatError as error:
        return error
    return cursor.error("changed while it was read. Open it again", at)


def _alignment(shard: Shard) -> int:
    """Return the alignment; what ggml would refuse is a warning, and the default is used."""
    entry = shard.metadata.entry("general.alignment")
    if entry is None:
        return DEFAULT_ALIGNMENT
    value = entry.value if entry.length is None and entry.type_name != "string" else None
    if entry.type_name == "uint32" and isinstance(value, int) and 0 < value <= 1 << 30:
        if value & (value - 1):
            what = f"the alignment {value} is not a power of two; ggml refuses it"
            shard.warnings.append((entry.key, what))
        return value
    shown = value if isinstance(value, int | float) else "text or list"
    what = f"the alignment is {entry.type_name} {shown}, not a uint32 from 1 to 2^30"
    shard.warnings.append((entry.key, f"{what}. {DEFAULT_ALIGNMENT} is used"))
    return DEFAULT_ALIGNMENT


def _check_tensors(shard: Shard, log: ProblemLog) -> None:
    """Report tensors of a file that are misaligned, overlap, are cut, or have no known size.

    ggml accepts tensors only one behind the other; the specification asks for aligned offsets and
    nothing else (docs/gguf.md, section 2), and files with gaps or another order exist.
    """
    names, specs, offsets = shard.names, shard.specs, shard.begins
    rows = range(len(names))
    faulty: dict[str, list[int]] = {}
    for row in rows:
        fault = specs[row].fault
        if fault is not None and specs[row].type.known:
            faulty.setdefault(fault, []).append(row)
    for fault, (row, *more) in log.first(list(faulty.items())):
        log.add_error(names[row], f"{fault} ({len(more)} more like it)" if more else fault)
    for where, what in _unsized(shard):
        log.add_warning(where, what)
    alignment = shard.alignment
    for row in log.first([row for row in rows if offsets[row] % alignment]):
        what = f"offset {offsets[row]} is not a multiple of the alignment {alignment}"
        log.add_warning(names[row], what)
    available = shard.available
    cut = [row for row in rows if offsets[row] + specs[row].nbytes > available]
    if cut:
        log.add_error(shard.file_name, _cut_short(shard, cut))
    for row, owner in log.first(_overlaps(specs, offsets)):
        log.add_warning(names[row], f"shares bytes with tensor {quoted(names[owner])}")


def _unsized(shard: Shard) -> Iterator[tuple[str, str]]:
    """Yield a warning for each type whose size is not known, whose tensors are many."""
    found: dict[str, tuple[int, int, int]] = {}  # how many, bytes, the first
    for row, spec in enumerate(shard.specs):
        if spec.fault is not None and not spec.type.known:
            count, nbytes, first = found.get(spec.type.name, (0, 0, row))
            found[spec.type.name] = count + 1, nbytes + int(spec.nbytes), first
    for kind, (count, nbytes, first) in found.items():
        tensors = f"and {count - 1:,} more are" if count > 1 else "is"
        what = f"of type {kind}, whose size is not known: counted are {nbytes:,} bytes"
        yield shard.names[first], f"{tensors} {what}, up to where the next tensors begin"


def _cut_short(shard: Shard, rows: list[int]) -> str:
    """Return how much of a file is missing; `rows` are the tensors that are not complete."""
    available = shard.available
    end = max(shard.begins[row] + shard.specs[row].nbytes for row in rows)
    names = listed((quoted(shard.names[row]) for row in rows), 3)
    what = (
        f"the file is cut short: {end - available:,} bytes are missing, "
        f"{len(rows)} of {len(shard.names)} tensors are incomplete ({names})"
    )
    beyond = sum(shard.begins[row] > available for row in rows)
    if beyond:
        what += f", {beyond} of them lie wholly behind the end"
    return f"{what}. Download it again"


def _overlaps(specs: Sequence[Spec], offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Return each tensor that shares bytes with an earlier one, and the one that reaches it."""
    found = []
    reach, owner = 0, -1
    for row in sorted(range(len(specs)), key=offsets.__getitem__):
        nbytes = specs[row].nbytes
        if not nbytes:
            continue
        if offsets[row] < reach:
            found.append((row, owner))
        if offsets[row] + nbytes >= reach:
            reach, owner = offsets[row] + nbytes, row
    return found


def _check_names(shards: Sequence[Shard], log: ProblemLog) -> None:
    names = [name for shard in shards for name in shard.names]
    if len(set(names)) < len(names):
        repeated = Counter(names) - Counter(set(names))
        for name in log.first(list(repeated.elements())):
            log.add_error(name, "the tensor name occurs more than once")


def open_gguf(path: Path, others: Sequence[Path] = ()) -> Model:
    """Open a GGUF file and, if it is a shard, its siblings.

    Args:
        others: The other shards, in order, where file names are digests, as in a store.

    Raises:
        FormatError: The file is not GGUF, or its header is damaged.
        SourceError: It cannot be read.
    """
    log = ProblemLog()
    shards: list[Shard] = []
    try:
        opened = _open_shard(path)
        shards.append(opened)
        siblings = [path, *others] if others else _siblings(path, log)
        if siblings:
            shards = _open_siblings(opened, siblings, shards, log)
            _check_split(shards, log)
        else:
            _check_alone(opened, log)
        return assemble(path, opened, shards, log)
    except ExplorerError:
        for shard in shards:
            shard.source.close()
        raise


# Fetched of an address at first: only one shard has the vocabulary, and records are read ahead.
_OTHER_SHARD_BYTES: Final = 2 * _RECORDS_BYTES


def _open_shard(path: Path, file_index: int = 0) -> Shard:
    source = open_source(path)
    try:
        return read_shard(source, file_index)
    except ExplorerError:
        source.close()
        raise


def _siblings(path: Path, log: ProblemLog) -> list[Path]:
    """Return the paths of all shards that are there, by the name's numbering; [] if not split."""
    match = SHARD_NAME.fullmatch(path.name)
    if match is None:
        return []
    count = int(match["count"])
    names = [
        f"{match['prefix']}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)
    ]
    try:
        present = set(list_names(path.parent))
    except OSError as error:
        log.add_warning(str(path.parent), f"the folder cannot be listed: {system_reason(error)}")
        present = {path.name}
    except SourceError:  # a server that lists no files may have them
        present = set(names)
    missing = [name for name in names if name not in present]
    if missing:
        what = f"{len(missing)} of {count} shards are missing: {listed(missing, 5)}"
        log.add_error(path.name, f"{what}. Put them into the same folder")
    found = [path.with_name(name) for name in names if name in present]
    cache = hub_cache(path.parent)
    if cache is not None:
        for sibling in [other for other in found if escapes(other, path.parent, cache)]:
            found.remove(sibling)
            log.add_error(sibling.name, "is a link out of the cache. It is not opened")
    return found if path in found else [path, *found]


def _open_siblings(
    opened: Shard, siblings: list[Path], shards: list[Shard], log: ProblemLog
) -> list[Shard]:
    """Open the other shards; return all in order. `shards` grows, for closing on failure."""
    ordered: list[Shard] = []
    others = [sibling for sibling in siblings if sibling != opened.source.path]
    with opening_ahead(others, _OTHER_SHARD_BYTES):
        for sibling in siblings:
            if sibling == opened.source.path:
                ordered.append(opened)
                continue
            try:
                shard = _open_shard(sibling, len(ordered))
            except ExplorerError as error:
                log.add_error(sibling.name, error.without_path)
                continue
            shards.append(shard)
            ordered.append(shard)
    return ordered


def _check_alone(shard: Shard, log: ProblemLog) -> None:
    """Report missing siblings of a shard under another name, which cannot find them."""
    count = shard.metadata.integer("split.count")
    if count is not None and count > 1:
        names = f"names like model-00001-of-{count:05d}.gguf"
        what = f"is only 1 of {count} shards. Give all of them {names} to open the whole model"
        log.add_error(shard.file_name, what)


def _check_split(shards: list[Shard], log: ProblemLog) -> None:
    """Compare what the names say with the split keys, docs/gguf.md, section 4."""
    declared_tensors = None
    expected = 0
    for shard in shards:
        keys = shard.metadata
        match = SHARD_NAME.fullmatch(shard.file_name)
        if match is None:
            continue
        expected, place = int(match["count"]), int(match["number"]) - 1
        number, count = keys.integer("split.no"), keys.integer("split.count")
        if number != place:
            log.add_error(shard.file_name, f"its split.no is {number}, its name says {place}")
        if count != expected:
            what = f"its split.count is {count}, its name says {match['count']}"
            log.add_error(shard.file_name, what)
        declared_tensors = keys.integer("split.tensors.count") or declared_tensors
    present = sum(len(shard.names) for shard in shards)
    if len(shards) == expected and declared_tensors not in {None, present}:
        what = f"split.tensors.count is {declared_tensors}, the shards hold {present} tensors"
        log.add_error(shards[0].file_name, what)


def assemble(path: Path, opened: Shard, shards: Sequence[Shard], log: ProblemLog) -> Model:
    """Make one model of files whose headers were read."""
    for shard in shards:
        for where, what in log.first(shard.warnings):
            log.add_warning(where, what)
    for shard in shards:
        _check_tensors(shard, log)
    _check_names(shards, log)
    first_rows = accumulate((len(shard.names) for shard in shards), initial=0)
    first = shards[0]
    return Model(
        format="gguf",
        path=path,
        files=tuple(shard.model_file(row) for shard, row in zip(shards, first_rows, strict=False)),
        metadata=first.metadata,
        tensors=table_of(shards),
        problems=log.problems(),
        version=first.version,
        byte_order=first.layout.order,
        alignment=opened.alignment,
    )
