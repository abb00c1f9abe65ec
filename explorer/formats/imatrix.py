"""Importance matrices of older llama.cpp: a list of names and numbers, without a magic word.

llama.cpp, `common/imatrix-loader.cpp` (`common_imatrix_load_legacy`) and
`tools/imatrix/imatrix.cpp` (`save_imatrix_legacy`), all numbers little-endian:

    i32 number of entries
    of each: i32 length of the name, the name, i32 calls, i32 number of values n, f32 [n]
    optionally: i32 number of chunks, i32 length of the data set's name, the name

A value divided by the calls is the importance of its column. So an entry is shown as the newer
form has it: a tensor ``<name>.in_sum2`` of the values, and ``<name>.counts`` of the calls.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError, FormatError
from explorer.formats.gguf.arrays import cut_short
from explorer.formats.limits import MAX_NAMES_BYTES, MAX_TENSORS
from explorer.formats.model import Metadata, Model, ModelFile, ProblemLog, decode_text, loaded_entry
from explorer.formats.tensors import FileTensors, Spec, table_of
from explorer.quantization import TENSOR_TYPES
from explorer.sources import ByteSource, FileSource

_WORD: Final = struct.Struct("<i")
_LONGEST_NAME: Final = 1024


def open_legacy_imatrix(path: Path) -> Model:
    """Open an importance matrix of the older form.

    Raises:
        FormatError: It is none, or damaged.
        SourceError: It cannot be read.
    """
    source = FileSource(path)
    try:
        return read_legacy_imatrix(source)
    except ExplorerError:
        source.close()
        raise


def read_legacy_imatrix(source: ByteSource) -> Model:
    """Return the model of an open file; see `open_legacy_imatrix`."""
    reader = _Reader(source)
    log = ProblemLog()
    file = FileTensors(source=source)
    count = reader.number("the number of entries")
    if not 1 <= count <= MAX_TENSORS:
        raise FormatError(f"has {count} entries, so it is not an importance matrix", source.path, 0)
    seen: set[str] = set()
    room = MAX_NAMES_BYTES
    starts = []
    for place in range(count):
        starts.append(reader.position)
        name = reader.text(f"the name of entry {place + 1}", _LONGEST_NAME)
        room -= len(name)
        if room < 0:
            raise FormatError("has too many names", source.path, reader.position)
        calls_at = reader.position
        calls = reader.number(f"the calls of {name!r}")
        size = reader.number(f"the number of values of {name!r}")
        if size < 1 or reader.position + 4 * size > source.size:
            what = f"entry {name!r} has {size} values, where the file has room for fewer"
            raise FormatError(f"{what}. It is not an importance matrix, or cut short", source.path)
        if calls < 0:
            log.add_warning(name, f"it was called {calls} times")
        if name in seen:
            log.add_warning(name, "the name occurs twice")
        seen.add(name)
        _add(file, f"{name}.in_sum2", "F32", size, reader.position)
        reader.position += 4 * size
        _add(file, f"{name}.counts", "I32", 1, calls_at)
    entries = [loaded_entry("general.type", "string", "imatrix")]
    if reader.position + _WORD.size <= source.size:
        chunks = reader.number("the number of chunks")
        entries.append(loaded_entry("imatrix.chunk_count", "int32", chunks))
        if reader.position + _WORD.size <= source.size:
            data_set = reader.text("the name of the data set", source.size)
            entries.append(loaded_entry("imatrix.datasets", "array[string]", [data_set]))
    model_file = ModelFile(source, header_bytes=_WORD.size, record_offsets=starts)
    return Model(
        format="imatrix",
        path=source.path,
        files=(model_file,),
        metadata=Metadata(entries),
        tensors=table_of([file]),
        problems=log.problems(),
    )


def _add(file: FileTensors, name: str, kind: str, count: int, begin: int) -> None:
    file.names.append(name)
    file.specs.append(Spec(TENSOR_TYPES[kind], (count,), count, 4 * count))
    file.begins.append(begin)


class _Reader:
    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.position = 0

    def number(self, what: str) -> int:
        if self.position + _WORD.size > self._source.size:
            raise FormatError(cut_short(what), self._source.path, self.position)
        (value,) = _WORD.unpack(self._source.read(self.position, _WORD.size))
        self.position += _WORD.size
        return int(value)

    def text(self, what: str, most: int) -> str:
        length = self.number(f"the length of {what}")
        left = self._source.size - self.position
        if not 0 <= length <= min(most, left):
            message = cut_short(what) if length > left else f"{what} has {length} bytes"
            raise FormatError(message, self._source.path, self.position)
        text = decode_text(self._source.read(self.position, length))
        self.position += length
        return text
