"""The header of one safetensors file: every tensor's type, shape and place, as the file claims.

safetensors_and_blobs.md section 1; safetensors/src/tensor.rs. The rules that this module keeps are
those without which there is nothing to list: the header must be there, be JSON, and each entry must
say what it is. Whether the places fit each other and the file is for `places.py`.

Headers as the usual writers write them go through `quick.py`. All others are decoded
here, entry by entry rather than at once by `json.loads`: that needs a tenth of the memory, notices
repeated names, and knows where in the file an entry is wrong.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from explorer.errors import FormatError
from explorer.formats.limits import SAFETENSORS_MAX_HEADER_BYTES, SAFETENSORS_MAX_TENSORS
from explorer.formats.model import ProblemLog, Severity
from explorer.formats.strict_json import (
    CAREFUL,
    INTEGERS_ONLY,
    JsonLimits,
    JsonText,
    RepeatedKeys,
    check_bounds,
    decode_value,
    read_strings,
    read_text,
    shorten,
)
from explorer.quantization import TENSOR_TYPES, TensorType
from explorer.sources import ByteSource

# One entry of a safetensors header: type, shape and place, and the rules that it keeps by itself.
#
# docs/safetensors_and_blobs.md, section 1, rules 6, 8 and 9; safetensors/src/tensor.rs, `Dtype`,
# `TensorInfo` and `Metadata::validate`.


METADATA: Final = "__metadata__"
_FIELDS: Final = ("dtype", "shape", "data_offsets")
U64: Final = 1 << 64

SAFETENSORS_TYPES: Final = {name: kind for name, kind in TENSOR_TYPES.items() if not kind.quantized}
"""The 22 types of the format, by name."""


class Spec(NamedTuple):
    """What a type and a shape amount to; tensors that agree in both share one.

    Attributes:
        type: The tensor type.
        shape: Row-major, outermost first.
        parameters: Product of the shape.
        nbytes: Stored bytes; 0 if there is a fault.
        fault: Why the official library refuses such a tensor, or None.
    """

    type: TensorType
    shape: tuple[int, ...]
    parameters: int
    nbytes: int
    fault: str | None = None


@dataclass
class Header:
    """What one file's header says; of a name that occurs twice, the last, as the library does.

    Attributes:
        data_offset: First byte of the data region.
        metadata: The strings of `__metadata__`.
        names: Tensor names, in header order.
        specs: Type and shape of each.
        begins: First byte of each in the data region, below 2^64.
        ends: First byte behind each, below 2^64; nothing says yet that it is not before the first.
        repeated: Names that occur more than once.
        repeated_metadata: Keys of `__metadata__` that do.
    """

    data_offset: int
    metadata: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    specs: list[Spec] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    repeated_metadata: tuple[str, ...] = ()

    def reorder(self, rows: list[int]) -> None:
        """Keep only the rows given, in that order."""
        self.names = list(map(self.names.__getitem__, rows))
        self.specs = list(map(self.specs.__getitem__, rows))
        self.begins = list(map(self.begins.__getitem__, rows))
        self.ends = list(map(self.ends.__getitem__, rows))


def read_fields(value: Any) -> tuple[Any, Any, Any]:
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


def read_dtype(value: Any) -> str:
    """Return the name of a type of `SAFETENSORS_TYPES`.

    Raises:
        ValueError: It is none.
    """
    if type(value) is dict and list(value.values()) == [None]:
        value = next(iter(value))  # serde's other way to write an enum's variant
    if not isinstance(value, str) or value not in SAFETENSORS_TYPES:
        raise ValueError(
            f"its dtype {shorten(value)} is unknown"
            if isinstance(value, str)
            else "its dtype is not a text"
        )
    return value


def read_integers(value: Any, key: str, length: int | None = None) -> list[int]:
    """Return a list of integers from 0 to 2^64 - 1, as a shape and offsets are.

    Args:
        value: What the header holds.
        key: The field, for the message.
        length: How many there must be; None for any number.

    Raises:
        ValueError: It is anything else.
    """
    if isinstance(value, list) and (length is None or len(value) == length):
        for number in value:
            if type(number) is not int or not 0 <= number < U64:
                break
        else:
            return value
    raise ValueError(f"its {key} is not {length or 'a list of'} integers from 0 to 2^64")


def make_spec(dtype: str, shape: tuple[int, ...]) -> Spec:
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


# The quick way through a safetensors header: columns cut out of the text by a regular expression.
#
# A file of 10,000 tensors is listed while a user waits, and `json.loads` with a loop over its
# objects took twice as long. This accepts only what it understands to the last character: the
# headers of the writers in use. All else is left to `header.py`.


def _pattern(order: str, colon: str, comma: str) -> re.Pattern[str]:
    """Return what matches a comma and an entry, as one writer writes them.

    Loose where a later check is cheaper, and linear in time: no run of characters can cross the
    beginning of another match, or half a header without brackets would be scanned for every entry.
    """
    parts = {
        "spec": rf'("dtype"{colon}[^\]{{]*\])',
        "place": rf'"data_offsets"{colon}\[(0|[1-9][^,{{]*){comma}(0|[1-9][^\]{{]*)\]',
    }
    fields = comma.join(parts[name] for name in order.split())
    return re.compile(rf'{comma}"([^"]*)"{colon}\{{{fields}\}}')


# The official writer and MLX (keys sorted), without and with the spaces of Python's json.dumps; and
# which groups are type and shape, begin, and end.
_STYLES: Final = {
    (spaced, place_first): (_pattern(order, colon, comma), groups)
    for spaced, colon, comma in ((False, ":", ","), (True, ": ", ", "))
    for place_first, order, groups in (
        (False, "spec place", (2, 3, 4)),
        (True, "place spec", (4, 2, 3)),
    )
}


def read_usual(text: JsonText, header: Header) -> bool:
    """Read the entries of a header that is written in a usual way.

    Args:
        text: The header's text; its bounds need not have been checked.
        header: Where to put them; unusable if the answer is no.

    Returns:
        Whether it was, to the last character, and keeps rules 4, 5, 6, 8 and 9.
    """
    content = text.text.rstrip(" \t\r\n")
    spec, place = content.find('"dtype":'), content.find('"data_offsets":')
    if (
        min(spec, place) < 0
        or not (content.startswith("{") and content.endswith("}"))
        or content.count('"dtype"') > SAFETENSORS_MAX_TENSORS
    ):
        return False
    spaced = content.startswith(" ", spec + len('"dtype":'))
    parts = _without_metadata(text, content, header, ": " if spaced else ":")
    pattern, groups = _STYLES[spaced, place < spec]
    return (
        parts is not None
        and all(not part or _cut(part, header, pattern, groups) for part in parts)
        and len(set(header.names)) == len(header.names)
        and max((*header.begins, *header.ends), default=0) < U64
    )


def _without_metadata(
    text: JsonText, content: str, header: Header, colon: str
) -> tuple[str, str] | None:
    """Read `__metadata__`; return the text before and after it, each entry behind a comma."""
    comma = ", " if colon == ": " else ","
    key = f'"{METADATA}"{colon}'
    start = content.find(key)
    if start < 0:
        return "", comma + content[1:-1]
    before = content[1:start]
    if before and not before.endswith(comma):
        return None
    strings = read_strings(text, start + len(key), colon, comma)
    if strings is None:
        return None
    header.metadata, end = strings
    return comma + before[: -len(comma)] if before else "", content[end:-1]


def _cut(text: str, header: Header, pattern: re.Pattern[str], groups: tuple[int, int, int]) -> bool:
    """Add the entries of a text; False if it holds anything else."""
    if "\\" in text or np.frombuffer(text.encode(), np.uint8).min() < ord(" "):
        return False
    parts = pattern.split(text)
    columns = [parts[group::5] for group in groups]
    names, begins, ends = parts[1::5], columns[1], columns[2]
    digits = "".join(begins) + "".join(ends)
    between = parts[0::5]
    if any(between) or not (digits.isdecimal() and digits.isascii()) or METADATA in names:
        return False
    specs = {}
    try:
        for spec in set(columns[0]):
            entry = CAREFUL.decode("{" + spec + "}")
            key = read_dtype(entry["dtype"]), tuple(read_integers(entry["shape"], "shape"))
            specs[spec] = make_spec(*key)
            if specs[spec].fault is not None or len(entry) != 2 or spec.count('"') != 6:
                return False
        header.begins += map(int, begins)
        header.ends += map(int, ends)
    except (ValueError, KeyError):
        return False
    header.names += names
    header.specs += map(specs.__getitem__, columns[0])
    return True


LENGTH_BYTES: Final = 8

# What a file begins with that is called .safetensors and is none.
_LOOKS_LIKE: Final = (
    (b"version ", "a Git LFS pointer, not the model; fetch it with `git lfs pull`"),
    (b"GGUF", "a GGUF file; give it the ending .gguf"),
    (b"PK\x03\x04", "a zip archive (a PyTorch checkpoint?); convert it first"),
    (b"\x80", "a Python pickle (a PyTorch checkpoint?); convert it first"),
    (b"<", "a web page or XML; the download failed or needs a login"),
    (b"{", "JSON text"),
)


def read_header(source: ByteSource) -> Header:
    """Read the header of a safetensors file, rules 1 to 6, 8 and 9 of the reference.

    Raises:
        FormatError: One of these rules is broken.
        SourceError: The file cannot be read.
    """
    if source.size < LENGTH_BYTES:
        what = f"has {source.size} bytes, too few for a safetensors file; download it again"
        raise FormatError(what, source.path, 0)
    start = source.read(0, LENGTH_BYTES)
    length = int.from_bytes(start, "little")
    if length > SAFETENSORS_MAX_HEADER_BYTES:
        guess = next((name for magic, name in _LOOKS_LIKE if start.startswith(magic)), None)
        what = (
            f"is not a safetensors file; it looks like {guess}"
            if guess
            else f"claims a header of {length} bytes, where at most "
            f"{SAFETENSORS_MAX_HEADER_BYTES} are allowed; it is damaged or no safetensors file"
        )
        raise FormatError(what, source.path, 0)
    data_offset = LENGTH_BYTES + length
    if data_offset > source.size:
        what = (
            f"claims a header of {length} bytes, where {source.size - LENGTH_BYTES} are left; "
            "it is cut short, download it again"
        )
        raise FormatError(what, source.path, 0)
    text = read_text(source, LENGTH_BYTES, length)
    header = Header(data_offset)
    if not read_usual(text, header):
        check_bounds(text, _limits(text))
        header = _Walk(text, Header(data_offset)).run()
    return header


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

    def __init__(self, text: JsonText, header: Header) -> None:
        self._text = text
        self._header = header
        self._specs: dict[tuple[str, tuple[int, ...]], Spec] = {}
        self._faults: list[tuple[int, FormatError]] = []
        self._has_metadata = False
        # The fast way takes true for 1 and -0 for 0: where the text may hold one, it is not taken.
        self._doubtful = any(word in text.text for word in ("true", "false", "-0"))

    def run(self) -> Header:
        """Walk over the entries and return the header."""
        text = self._text
        position = text.skip_white(0)
        if text.text[position : position + 1] != "{":
            raise text.error("has a header that does not begin with '{'; it is damaged", position)
        position = text.skip_white(position + 1)
        if text.text[position : position + 1] == "}":
            position += 1
        else:
            position = self._entries(position)
        position = text.skip_white(position)
        if position != len(text.text):
            raise text.error("has text behind the header's last '}'; it is damaged", position)
        self._finish()
        return self._header

    def _entries(self, position: int) -> int:
        """Read all entries; return the position behind the closing brace.

        The loop runs 10,000 times while a user waits: what is usual is checked in place, and all
        else goes to `_unusual`. An object of three keys with four strings (eight quotes) repeats no
        key; a list minus a list, or a string minus a string, is a TypeError.
        """
        text, header = self._text.text, self._header
        decode, count, starts_with = INTEGERS_ONLY.raw_decode, text.count, text.startswith
        specs = self._specs
        add_name, add_spec = header.names.append, header.specs.append
        add_begin, add_end = header.begins.append, header.ends.append
        doubtful = self._doubtful
        while True:
            name, position = self._key(position)
            position = position + 1 if starts_with(":{", position) else self._colon(position)
            if name == METADATA:
                position = self._metadata(position)
            else:
                start = position
                try:
                    entry, position = decode(text, start)
                    shape = entry["shape"]
                    spec = specs[entry["dtype"], tuple(shape)]
                    begin, end = entry["data_offsets"]
                    usual = (
                        end - begin == spec.nbytes
                        and len(entry) == 3
                        and count('"', start, position) == 8
                        and type(shape) is list
                    )
                except (ValueError, KeyError, TypeError):
                    usual = False
                if doubtful or not usual:
                    spec, begin, end, position = self._unusual(name, start)
                add_name(name)
                add_spec(spec)
                add_begin(begin)
                add_end(end)
            if starts_with(',"', position):
                position += 1
                continue
            position = self._text.skip_white(position)
            if starts_with("}", position):
                return position + 1
            position = self._comma(position)

    def _key(self, position: int) -> tuple[str, int]:
        text = self._text
        if not text.text.startswith('"', position):
            raise text.error("has a header where a name is missing; it is damaged", position)
        try:
            name: str
            name, end = INTEGERS_ONLY.raw_decode(text.text, position)
        except ValueError:
            name, end = decode_value(text, position)  # raises, with the place
        return name, end

    def _colon(self, position: int) -> int:
        text = self._text
        position = text.skip_white(position)
        if not text.text.startswith(":", position):
            raise text.error("has a header where ':' is missing; it is damaged", position)
        return text.skip_white(position + 1)

    def _comma(self, position: int) -> int:
        text = self._text
        if not text.text.startswith(",", position):
            raise text.error("has a header where ',' or '}' is missing; it is damaged", position)
        return text.skip_white(position + 1)

    def _metadata(self, start: int) -> int:
        value, position = decode_value(self._text, start)
        if self._has_metadata:
            raise self._text.error(f"has {METADATA} twice; it is damaged", start)
        self._has_metadata = True
        if value is None:
            return position
        if not isinstance(value, dict) or not all(type(text) is str for text in value.values()):
            raise self._text.error(f"has a {METADATA} that is not texts by name", start)
        if isinstance(value, RepeatedKeys):
            self._header.repeated_metadata = value.repeated
        self._header.metadata = value
        return position

    def _unusual(self, name: str, start: int) -> tuple[Spec, int, int, int]:
        """Read an entry with every check.

        Returns:
            Type and shape, begin, end, and the position behind the entry.
        """
        value, position = decode_value(self._text, start)
        try:
            dtype, shape, offsets = read_fields(value)
            begin, end = read_integers(offsets, "data_offsets", 2)
            key = (read_dtype(dtype), tuple(read_integers(shape, "shape")))
        except ValueError as error:
            raise self._text.error(f"tensor {shorten(name)}: {error}", start) from None
        spec = self._specs.get(key)
        if spec is None:
            spec = make_spec(*key)
            if spec.fault is None:
                self._specs[key] = spec
        if spec.fault is not None:
            fault = self._text.error(f"tensor {shorten(name)}: {spec.fault}", start)
            self._faults.append((len(self._header.names), fault))
        return spec, begin, end, position

    def _finish(self) -> None:
        """Drop what a later entry of the same name replaces, then refuse what is left of faults."""
        header = self._header
        names = header.names
        if len(names) > SAFETENSORS_MAX_TENSORS:
            what = f"has {len(names)} tensors, more than {SAFETENSORS_MAX_TENSORS}"
            raise self._text.error(what, 0)
        if names and (min(header.begins) < 0 or max(header.ends) >= U64):
            raise self._text.error("has a tensor whose place is not from 0 to 2^64", 0)
        kept = dict(zip(names, range(len(names)), strict=True))  # the last of each name
        for row, error in self._faults:
            if kept[names[row]] == row:
                raise error
        if len(kept) < len(names):
            rows = set(kept.values())
            replaced = (name for row, name in enumerate(names) if row not in rows)
            header.repeated = list(dict.fromkeys(replaced))
            header.reorder(sorted(rows))


# Whether the tensors of a safetensors file lie where they may: rules 7, 10 and 11.
#
# The official library refuses a file that breaks one. Here it still opens, so that one can see
# what is left of an interrupted download: each broken rule is a problem, and a tensor whose own
# bytes are not all there, or not as many as its shape takes, is damaged and cannot be read.


def sort_and_check(
    header: Header, available: int, file_name: str, log: ProblemLog
) -> dict[int, str]:
    """Put the tensors into the order of their data and check that they cover it exactly.

    Args:
        header: The header; its rows are reordered.
        available: Bytes of the data region that the file has.
        file_name: What to call the file in problems.
        log: Where problems go.

    Returns:
        For each damaged row, why its bytes cannot all be read.
    """
    if not _tiled(header):
        places = [np.array(column, dtype=np.uint64) for column in (header.ends, header.begins)]
        header.reorder(np.lexsort(places).tolist())
    whole = header.ends[-1] if header.ends else 0
    if _tiled(header) and whole == available and _sizes_fit(header):
        return {}
    return _Places(header, available, file_name, log).check()


def _tiled(header: Header) -> bool:
    """Tell whether each row begins where the row before ends."""
    begins = header.begins
    return not begins or (begins[0] == 0 and begins[1:] == header.ends[:-1])


def _sizes_fit(header: Header) -> bool:
    sizes = list(map(operator.sub, header.ends, header.begins))
    return sizes == [spec.nbytes for spec in header.specs]


class _Places:
    """Names what is wrong with places, one row after the other."""

    def __init__(self, header: Header, available: int, file_name: str, log: ProblemLog) -> None:
        self._header = header
        self._available = available
        self._file_name = file_name
        self._log = log
        self._damage: dict[int, str] = {}

    def check(self) -> dict[int, str]:
        """Check all rows; see `sort_and_check`."""
        header = self._header
        covered, owner = 0, -1  # end of what the rows so far cover, and the row that reaches it
        incomplete = []
        places = zip(header.specs, header.begins, header.ends, strict=True)
        for row, (spec, begin, end) in enumerate(places):
            if end - begin != spec.nbytes:
                self._damage[row] = (
                    f"its place has {end - begin} bytes, its shape and type take {spec.nbytes}"
                )
                self._error(header.names[row], self._damage[row])
            elif end > self._available:
                missing = min(spec.nbytes, end - self._available)
                self._damage[row] = f"cut short: its last {missing} bytes are not in the file"
                incomplete.append(row)
            if begin > covered:
                what = f"{begin - covered} bytes before it belong to no tensor"
                self._error(header.names[row], what)
            elif begin < covered:
                other = shorten(header.names[owner])
                self._error(header.names[row], f"shares bytes with tensor {other}, or lies in it")
            if end > covered:
                covered, owner = end, row
        self._check_end(covered, incomplete)
        return self._damage

    def _check_end(self, covered: int, incomplete: list[int]) -> None:
        missing = covered - self._available
        if missing < 0:
            self._error(
                self._file_name, f"the last {-missing} bytes of the file belong to no tensor"
            )
        elif missing > 0:
            names = ", ".join(shorten(self._header.names[row]) for row in incomplete[:3])
            more = ", …" if len(incomplete) > 3 else ""
            self._error(
                self._file_name,
                f"the file is cut short: {missing} bytes are missing, {len(incomplete)} of "
                f"{len(self._header.names)} tensors are incomplete ({names}{more}); "
                "download it again",
            )

    def _error(self, where: str, what: str) -> None:
        self._log.add(Severity.ERROR, where, what)
