"""Open safetensors files: a header becomes a model, its data stays where it is.

docs/safetensors_and_blobs.md, section 1; safetensors/src/tensor.rs. Entries are read one by one
rather than at once by `json.loads`: that needs a tenth of the memory, notices repeated names, and
knows where in the file an entry is wrong. Shards are read into a `SafetensorsFile` each, and
`build_model` makes one model of several.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from explorer.errors import ExplorerError, FormatError
from explorer.formats.limits import SAFETENSORS_MAX_HEADER_BYTES, SAFETENSORS_MAX_TENSORS
from explorer.formats.model import (
    Metadata,
    MetadataEntry,
    Model,
    ModelFile,
    ProblemLog,
    loaded_entry,
)
from explorer.formats.quantized.declaration import COMFY_KEY, comfy_declaration, read_declaration
from explorer.formats.quantized.grouping import may_hold_weights
from explorer.formats.safetensors.groups import Assembly, Stored, StoredTensors, join_companions
from explorer.formats.side_files import SHARD_NAME, Config, looks_like, read_config
from explorer.formats.strict_json import read_text
from explorer.formats.tensors import FileTensors, Spec, Tensor, places_in
from explorer.json_text import JsonLimits, JsonText, RepeatedKeys, check_bounds, decode_value
from explorer.quantization import TENSOR_TYPES
from explorer.sources import ByteSource, open_source
from explorer.text import listed, quoted

METADATA: Final = "__metadata__"
_FIELDS: Final = ("dtype", "shape", "data_offsets")
_INTEGER: Final = r"(?:0|[1-9][0-9]{0,18}+)"
_KIND: Final = (
    rf'("dtype": ?"[A-Z0-9_]++", ?"shape": ?\[(?:{_INTEGER}(?:, ?{_INTEGER}){{0,15}}+)?+\])'
)
# An entry as nearly all are, and the beginning of the next: a name without escapes, type and shape
# before or behind the place, as the library and MLX write them. Else nothing: no entry is skipped.
_ENTRY: Final = re.compile(
    rf'"(?!{METADATA}")([^"\\\x00-\x1f]*+)": ?\{{(?:{_KIND}, ?)?+'
    rf'"data_offsets": ?\[({_INTEGER}), ?({_INTEGER})\](?(2)|, ?{_KIND})\}}, ?(?=")|'
)
_MARK: Final = re.compile(r"[ \t\r\n]*+([{}:,])[ \t\r\n]*+")
U64: Final = 1 << 64

SAFETENSORS_TYPES: Final = {
    name: kind for name, kind in TENSOR_TYPES.items() if not kind.quantized and kind.lone
}
"""The 22 types of the format, by name."""


@dataclass(kw_only=True)
class SafetensorsFile(FileTensors):
    """One open file; of a name that occurs twice, the last counts, as in the library.

    Attributes:
        metadata: The strings of `__metadata__`.
        ends: First byte behind each tensor, counted as `begins`; both are below 2^64. Until
            `sort_and_check`, nothing says that it is not before the first.
        repeated: Names that occur more than once.
        repeated_metadata: Keys of `__metadata__` that do.
    """

    metadata: dict[str, str] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    repeated_metadata: tuple[str, ...] = ()

    def tensor(self, row: int) -> Tensor:
        return self.stored(row).tensor()

    def stored(self, row: int) -> Stored:
        """Return one tensor as the file stores it."""
        name, damage = self.names[row], self.damage_of(row)
        return Stored(name, self.specs[row], self.extent(row), damage, name, self.metadata)

    def all_stored(self) -> list[Stored]:
        """Return all tensors as the file stores them."""
        return [self.stored(row) for row in range(len(self.names))]

    def leave_out(self, names: set[str]) -> None:
        """Drop the tensors of these names."""
        self.keep([row for row, name in enumerate(self.names) if name not in names])

    def keep(self, rows: list[int]) -> None:
        """Keep only the rows given, in that order."""
        self.names = list(map(self.names.__getitem__, rows))
        self.specs = list(map(self.specs.__getitem__, rows))
        self.begins = list(map(self.begins.__getitem__, rows))
        self.ends = list(map(self.ends.__getitem__, rows))
        self.damage = {new: self.damage[row] for new, row in enumerate(rows) if row in self.damage}


def _read_fields(value: Any) -> tuple[Any, Any, Any]:
    """Return dtype, shape and data_offsets; serde takes an array of the three for an object too.

    Raises:
        ValueError: It is neither, or a field is missing or there twice.
    """
    if isinstance(value, list) and len(value) == 3:
        return value[0], value[1], value[2]
    if not isinstance(value, dict):
        raise ValueError("its entry is not an object")  # noqa: TRY004 - becomes a FormatError
    for key in _FIELDS:
        if key not in value:
            raise ValueError(f"its entry has no {key}")
        if isinstance(value, RepeatedKeys) and key in value.repeated:
            raise ValueError(f"its entry has {key} twice")
    return value["dtype"], value["shape"], value["data_offsets"]


def _read_dtype(value: Any) -> str:
    """Return the name of a type of `SAFETENSORS_TYPES`.

    Raises:
        ValueError: It is not one.
    """
    if type(value) is dict and list(value.values()) == [None]:
        value = next(iter(value))  # serde's other way to write an enum's variant
    if not isinstance(value, str):
        raise ValueError("its dtype is not a text")  # noqa: TRY004 - becomes a FormatError
    if value not in SAFETENSORS_TYPES:
        raise ValueError(f"its dtype {quoted(value)} is unknown")
    return value


def _read_integers(value: Any, key: str, length: int | None = None) -> list[int]:
    """Return a field's integers from 0 to 2^64 - 1; `length` of them, or any number if None.

    Raises:
        ValueError: It is anything else.
    """
    if (
        isinstance(value, list)
        and (length is None or len(value) == length)
        and [number for number in value if type(number) is int and 0 <= number < U64] == value
    ):
        return value
    raise ValueError(f"its {key} is not {length or 'a list of'} integers from 0 to 2^64")


def _make_spec(dtype: str, shape: tuple[int, ...]) -> Spec:
    """Multiply the shape as the library does: the running product must fit, even before a 0."""
    kind = SAFETENSORS_TYPES[dtype]
    parameters = 1
    for count in shape:
        parameters *= count
        if parameters >= U64:
            break
    if parameters * kind.block_bytes * 8 // kind.block_weights >= U64:
        return Spec(kind, shape, 0, 0, "its shape overflows 64 bits")
    nbytes = kind.nbytes(parameters)
    if nbytes is None:
        return Spec(
            kind, shape, 0, 0, f"its {parameters} weights of type {dtype} do not fill whole bytes"
        )
    return Spec(kind, shape, parameters, nbytes)


LENGTH_BYTES: Final = 8

FIRST_BYTES: Final = 1 << 17
"""Fetched of an address at first: most headers are shorter, and there may be many files."""


def read_file(source: ByteSource) -> SafetensorsFile:
    """Read the header of a safetensors file, rules 1 to 6, 8 and 9 of the reference.

    Raises:
        FormatError: One of these rules is broken.
        SourceError: The file cannot be read.
    """
    if source.size < LENGTH_BYTES:
        what = f"has {source.size} bytes, too few for a safetensors file. Download it again"
        raise FormatError(what, source.path, 0)
    start = source.read(0, LENGTH_BYTES)
    length = int.from_bytes(start, "little")
    claim = f"claims a header of {length} bytes, where"
    if length > SAFETENSORS_MAX_HEADER_BYTES:
        found = looks_like(start)
        what = (
            f"is not a safetensors file. {found}"
            if found
            else f"{claim} at most {SAFETENSORS_MAX_HEADER_BYTES} are allowed. "
            "It is damaged or no safetensors file"
        )
        raise FormatError(what, source.path, 0)
    left = source.size - LENGTH_BYTES
    if length > left:
        what = f"{claim} {left} are left. It is cut short, download it again"
        raise FormatError(what, source.path, 0)
    text = read_text(source, LENGTH_BYTES, length)
    check_bounds(text, _limits(text))
    return _Walk(text, SafetensorsFile(source=source, data_offset=LENGTH_BYTES + length)).run()


def _limits(text: JsonText) -> JsonLimits:
    """Return what a header with this many tensors may hold.

    A tensor has 3 containers, 5 strings, and 4 commas more than its shape has. The rest is for
    `__metadata__`, where some trainers put whole JSON texts, and for fields that are ignored.
    """
    tensors = min(text.text.count('"dtype"'), SAFETENSORS_MAX_TENSORS)
    return JsonLimits(
        containers=3 * tensors + 100_000,
        values=8 * tensors + 400_000,
        strings=5 * tensors + 100_000,
    )


class _Walk:
    """One pass over the header's text."""

    def __init__(self, text: JsonText, file: SafetensorsFile) -> None:
        self._text = text
        self._file = file
        self._specs: dict[object, Spec] = {}  # by dtype and shape, or the text of both
        self._faults: list[tuple[int, FormatError]] = []
        self._has_metadata = False

    def run(self) -> SafetensorsFile:
        """Walk over the entries and return the file with them."""
        text = self._text
        what = "has a header that does not begin with '{'. It is damaged"
        position = self._mark("{", 0, what).end()
        if text.text.startswith("}", position):
            position += 1
        else:
            position = self._entries(position)
        position = text.skip_white(position)
        if position != len(text.text):
            raise text.error("has text behind the header's last '}'. It is damaged", position)
        self._finish()
        return self._file

    def _entries(self, position: int) -> int:
        """Read all entries; return the position behind the closing brace.

        What is usual is matched as it stands; everything else, and the last, goes to `_careful`.
        """
        text, file, known = self._text, self._file, self._specs
        names, specs, begins, ends = file.names, file.specs, file.begins, file.ends
        while True:
            for match in _ENTRY.finditer(text.text, position):
                name, before, begin, end, behind = match.groups()
                spec = known.get(before or behind) or self._new_spec(before or behind)
                if spec is None:
                    break
                names.append(name)
                specs.append(spec)
                begins.append(int(begin))
                ends.append(int(end))
            position = match.start()
            if not text.text.startswith('"', position):
                what = "has a header where a name is missing. It is damaged"
                raise text.error(what, position)
            name, position = decode_value(text, position)
            what = "has a header where ':' is missing. It is damaged"
            start = self._mark(":", position, what).end()
            if name == METADATA:
                position = self._metadata(start)
            else:
                spec, begin, end, position = self._careful(name, start)
                names.append(name)
                specs.append(spec)
                begins.append(begin)
                ends.append(end)
            what = "has a header where ',' or '}' is missing. It is damaged"
            mark = self._mark(",}", position, what)
            position = mark.end()
            if mark[1] == "}":
                return position

    def _new_spec(self, kind: str | None) -> Spec | None:
        """Return what a text of dtype and shape amounts to; None if there is none, or it is odd."""
        dtype, shape = json.loads(f"{{{kind}}}").values() if kind else ("", ())
        spec = _make_spec(dtype, tuple(shape)) if dtype in SAFETENSORS_TYPES else None
        if spec is None or spec.fault is not None:
            return None
        self._specs[kind] = spec
        return spec

    def _mark(self, wanted: str, position: int, what: str) -> re.Match[str]:
        """Return the next character (group 1), one of those wanted, and the white space around."""
        mark = _MARK.match(self._text.text, position)
        if mark is None or mark[1] not in wanted:
            raise self._text.error(what, self._text.skip_white(position))
        return mark

    def _metadata(self, start: int) -> int:
        value, position = decode_value(self._text, start)
        if self._has_metadata:
            raise self._text.error(f"has {METADATA} twice. It is damaged", start)
        self._has_metadata = True
        if value is None:
            return position
        if not isinstance(value, dict) or not all(type(text) is str for text in value.values()):
            raise self._text.error(f"has a {METADATA} that is not texts by name", start)
        if isinstance(value, RepeatedKeys):
            self._file.repeated_metadata = value.repeated
        self._file.metadata = value
        return position

    def _careful(self, name: str, start: int) -> tuple[Spec, int, int, int]:
        """Decode an entry with every check.

        Returns:
            Type and shape, begin, end, and the position behind the entry.
        """
        value, position = decode_value(self._text, start)
        try:
            dtype, shape, offsets = _read_fields(value)
            begin, end = _read_integers(offsets, "data_offsets", 2)
            key = (_read_dtype(dtype), tuple(_read_integers(shape, "shape")))
        except ValueError as error:
            raise self._text.error(f"tensor {quoted(name)}: {error}", start) from None
        spec = self._specs.get(key)
        if spec is None:
            spec = _make_spec(*key)
            if spec.fault is None:
                self._specs[key] = spec
        if spec.fault is not None:
            fault = self._text.error(f"tensor {quoted(name)}: {spec.fault}", start)
            self._faults.append((len(self._file.names), fault))
        return spec, begin, end, position

    def _finish(self) -> None:
        """Drop what a later entry of the same name replaces, then refuse what is left of faults."""
        file, names = self._file, self._file.names
        if len(names) > SAFETENSORS_MAX_TENSORS:
            what = f"has {len(names)} tensors, more than {SAFETENSORS_MAX_TENSORS}"
            raise self._text.error(what, 0)
        if not self._faults and len(set(names)) == len(names):
            return
        kept = dict(zip(names, range(len(names)), strict=True))  # the last of each name
        for row, error in self._faults:
            if kept[names[row]] == row:
                raise error
        if len(kept) < len(names):
            rows = set(kept.values())
            replaced = (name for row, name in enumerate(names) if row not in rows)
            file.repeated = list(dict.fromkeys(replaced))
            file.keep(sorted(rows))


def sort_and_check(file: SafetensorsFile, log: ProblemLog) -> None:
    """Sort the tensors by their data and check that they cover it exactly: rules 7, 10 and 11.

    The official library refuses a file that breaks one. Here it still opens, to show what is left
    of an interrupted download: each broken rule is a problem.
    """
    available = file.available
    due = list(accumulate(spec.nbytes for spec in file.specs))
    if file.ends == due and file.begins == [0, *due[:-1]] and due[-1] == available:
        return  # as nearly all do
    places = list(zip(file.begins, file.ends, strict=True))
    rows = sorted(range(len(places)), key=places.__getitem__)
    if rows != list(range(len(rows))):
        file.keep(rows)
    incomplete: list[str] = []
    covered, owner = 0, ""  # end of what the tensors so far cover, and the one that reaches it
    columns = zip(file.names, file.specs, file.begins, file.ends, strict=True)
    for row, (name, spec, begin, end) in enumerate(columns):
        if end - begin != spec.nbytes:
            what = f"its place has {end - begin} bytes, its shape and type take {spec.nbytes}"
            file.damage[row] = what
            log.add_error(name, what)
        elif end > available:
            incomplete.append(quoted(name))
        if begin > covered:
            log.add_error(name, f"{begin - covered} bytes before it belong to no tensor")
        elif begin < covered:
            log.add_error(name, f"shares bytes with tensor {quoted(owner)}, or lies in it")
        if end > covered:
            covered, owner = end, name
    if covered < available:
        what = f"the last {available - covered} bytes of the file belong to no tensor"
        log.add_error(file.source.path.name, what)
    elif covered > available:
        what = (
            f"the file is cut short: {covered - available:,} bytes are missing, "
            f"{len(incomplete)} of {len(file.names)} tensors are incomplete "
            f"({listed(incomplete, 3)}). Download it again"
        )
        log.add_error(file.source.path.name, what)


def open_safetensors(path: Path) -> Model:
    """Open one safetensors file, with the `config.json` beside it if there is one.

    Raises:
        FormatError: Its header cannot be read.
        SourceError: It cannot be read.
    """
    log = ProblemLog()
    file = open_file(path, log)
    if (match := SHARD_NAME.fullmatch(path.name)) and int(match["count"]) > 1:
        what = f"is one of {int(match['count'])} shards, read alone. "
        log.add_warning(path.name, f"{what}Open the folder or repository for the whole model")
    return build_model(path, [file], read_config(path.parent, log), log)


def open_file(path: Path, log: ProblemLog, first_bytes: int = FIRST_BYTES) -> SafetensorsFile:
    """Read one file's header and check it, without `config.json`.

    Args:
        log: Where problems go that do not keep it from opening.
        first_bytes: How much of an address is fetched at first.

    Raises:
        FormatError: Its header cannot be read.
        SourceError: It cannot be read.
    """
    source = open_source(path, first_bytes)
    try:
        file = read_file(source)
    except ExplorerError:
        source.close()
        raise
    for name in file.repeated:
        what = "the tensor name occurs more than once in the header. The last one counts"
        log.add_warning(name, what)
    for key in file.repeated_metadata:
        log.add_warning(key, f"the key occurs more than once in {METADATA}")
    sort_and_check(file, log)
    return file


def build_model(
    path: Path, files: Sequence[SafetensorsFile], config: Config, log: ProblemLog
) -> Model:
    """Make one model of files."""
    entries: dict[str, MetadataEntry] = {}
    for index, file in enumerate(files):
        for key, value in file.metadata.items():
            if key not in entries:
                entries[key] = loaded_entry(key, "string", value, index)
    declared = read_declaration(files[0].source.path.parent, config.fields, log)
    if not declared.method and COMFY_KEY in entries:
        declared = comfy_declaration(str(entries[COMFY_KEY].value))
    stored = _stored_tensors(files)
    if declared.method or may_hold_weights(stored.names, stored.specs):
        metadata = {key: value for file in reversed(files) for key, value in file.metadata.items()}
        assembly = join_companions(stored, metadata, declared, config.fields, log)
    else:
        assembly = Assembly(stored, {}, ())
    return Model(
        format="safetensors",
        path=path,
        files=model_files(files),
        metadata=Metadata([*entries.values(), *config.entries]),
        tensors=assembly.table,
        groups=assembly,
        problems=log.problems(),
        config=config.fields,
        declared=declared,
        stored=(stored.names, stored.specs),
    )


def _stored_tensors(files: Sequence[SafetensorsFile]) -> StoredTensors:
    """Return the tensors of some files, in order."""
    place_of = places_in(files)

    def at(row: int) -> Stored:
        file, place = place_of(row)
        return file.stored(place)

    def read(row: int) -> bytes:
        file, place = place_of(row)
        return file.read(place)

    names = [name for file in files for name in file.names]
    return StoredTensors(names, [spec for file in files for spec in file.specs], at, read)


def model_files(files: Sequence[SafetensorsFile]) -> tuple[ModelFile, ...]:
    """Return how each file is laid out."""
    return tuple(
        ModelFile(
            source=file.source,
            header_bytes=file.data_offset,
            table_offset=LENGTH_BYTES,
            table_end=file.data_offset,
        )
        for file in files
    )
