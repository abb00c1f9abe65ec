"""JSON as strict as serde_json reads it, within bounds of memory, depth and time.

`json.loads` alone is not enough for untrusted files: it accepts NaN, lone surrogates and repeated
keys, takes `true` for an integer, allocates 20 times the text for `[],[],[]`, and recurses as deep
as the text says (docs/safetensors_and_blobs.md, section 1, "Python json differs"). A parser in
Python would take 30 times as long as the one in C. So the text is measured first, with operations
that run at memory speed, and what passes is given to the C parser.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import numpy as np

from explorer.errors import FormatError
from explorer.formats.limits import (
    MAX_JSON_DEPTH,
    MAX_JSON_FILE_BYTES,
    MAX_JSON_TEXT_BYTES,
    MAX_JSON_VALUES,
    MAX_MEMBER_BYTES,
    MAX_TOKENIZER_BYTES,
    MAX_VOCABULARY,
)
from explorer.parallel import Check, never
from explorer.sources import ByteSource, open_source

_WINDOW_BYTES: Final = 1 << 20
_CHECKED: Final = 1 << 16
_QUOTE: Final = ord('"')
_OPENING: Final = b"[{"
_WHITE: Final = b" \t\r\n"
_NOT_STRUCTURE: Final = bytes(set(range(256)) - set(b'[]{}"'))
_WHITE_RUN: Final = re.compile(r"[ \t\r\n]*")
# An escaped pair of surrogates, one that is alone (group 1), or any other escape.
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F])|.)", re.DOTALL
)
# A string, with its last quotation mark (group 1) and the colon behind it if it is a key (group 2),
# or an end of a container. What a string may hold is bounded, for a match lets nobody else work,
# and one that does not end matches too: to look for its end again at each mark takes ages.
_PART: Final = re.compile(
    rb'"(?:[^"\\]{1,1024}+|\\.){0,16384}+(")?([ \t\r\n]{0,1024}+:)?|[][{}]', re.DOTALL
)
_MOST_PARTS: Final = 1 << 23  # strings and ends of containers that are walked over, some seconds
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """How much a JSON text may hold."""

    containers: int  # most arrays and objects
    values: int  # most commas, which separate all values but the first of each container
    strings: int  # most strings, keys included


SIDE_FILE: Final = JsonLimits(MAX_JSON_VALUES // 4, MAX_JSON_VALUES, 2 * MAX_JSON_VALUES)
"""Limits of index files and config.json."""

_VOCABULARY: Final = JsonLimits(MAX_VOCABULARY, 8 * MAX_VOCABULARY, 2 * MAX_VOCABULARY)


class JsonText(NamedTuple):
    """A JSON text."""

    text: str  # the text, without the white space around it if it was long
    path: Path  # its file, for messages
    offset: int  # offset in the file of the text's first byte

    def error(self, what: str, position: int) -> FormatError:
        return FormatError(what, self.path, self.offset + len(self.text[:position].encode()))

    def skip_white(self, position: int) -> int:
        """Return the position of the next character that is no white space."""
        match = _WHITE_RUN.match(self.text, position)
        return match.end() if match else position


class RepeatedKeys(dict[str, Any]):
    """An object some of whose keys occur more than once; the last of each counts.

    Attributes:
        repeated: Those keys, in order.
    """

    repeated: tuple[str, ...] = ()


def read_text(source: ByteSource, offset: int, length: int) -> JsonText:
    """Read a JSON text; `check_bounds` must follow before it is decoded.

    Args:
        offset: First byte of the text.
        length: Bytes of the text; already known to lie within the file.

    Raises:
        FormatError: Too long, not UTF-8, or with half of a surrogate pair.
        SourceError: The file cannot be read.
    """
    start, end = offset, offset + length
    if length > _WINDOW_BYTES:
        start, end = _trim(source, start, end)
    path = source.path
    raw = source.read(start, end - start)
    if len(raw) > MAX_JSON_TEXT_BYTES // 4 and not raw.isascii():
        what = f"has {len(raw)} bytes of JSON that is not ASCII, more than any model needs"
        raise FormatError(what, path, start)
    return _decoded(raw, path, start)


def _decoded(raw: bytes, path: Path, start: int) -> JsonText:
    try:
        text = JsonText(str(raw, "utf-8"), path, start)
    except UnicodeDecodeError as error:
        what = "has JSON that is not valid UTF-8; it is damaged"
        raise FormatError(what, path, start + error.start) from error
    if _SURROGATE.search(text.text) is not None:
        for match in _ESCAPE.finditer(text.text):
            if match[1]:
                what = "has half a surrogate pair in its JSON; it is damaged"
                raise text.error(what, match.start())
    return text


def _trim(source: ByteSource, start: int, end: int) -> tuple[int, int]:
    """Move the ends of a range over the white space there, a window at a time.

    A header of 100,000,000 bytes is legal, and is read if nearly all of it is padding.
    """
    first = last = end
    for at in range(start, end, _WINDOW_BYTES):
        window = source.read(at, min(_WINDOW_BYTES, end - at))
        content = len(window.rstrip(_WHITE))
        if content and first == end:
            first = at + len(window) - len(window.lstrip(_WHITE))
        if content:
            last = at + content
        if last - first > MAX_JSON_TEXT_BYTES:
            what = f"has more JSON than any model needs ({MAX_JSON_TEXT_BYTES} bytes)"
            raise FormatError(what, source.path, start)
    return first, last


def check_bounds(text: JsonText, limits: JsonLimits) -> None:
    """Check what could make decoding a text expensive: how many values it has, and how deep.

    Raises:
        FormatError: Too many, or nested too deep.
    """
    whole = text.text
    containers = values = quotes = 0
    for at in range(0, len(whole), _WINDOW_BYTES):
        end = at + _WINDOW_BYTES
        containers += whole.count("{", at, end) + whole.count("[", at, end)
        values += whole.count(",", at, end)
        quotes += whole.count('"', at, end)
        if containers > limits.containers or values > limits.values or quotes > 2 * limits.strings:
            raise text.error("has more JSON values than any model needs; it is damaged", at)
    if json_depth(_structure(whole)) > MAX_JSON_DEPTH:
        raise text.error(f"has JSON nested more than {MAX_JSON_DEPTH} deep; it is damaged", 0)


def _structure(text: str) -> bytes:
    """Return the brackets and quotes of a text, without a copy of it where nothing is escaped."""
    if "\\" in text:
        return text.encode()
    windows = range(0, len(text), _WINDOW_BYTES)
    parts = (text[at : at + _WINDOW_BYTES].encode() for at in windows)
    return b"".join(part.translate(None, _NOT_STRUCTURE) for part in parts)


def json_depth(raw: bytes) -> int:
    """Return how deep arrays and objects are nested, or were until the text stops being JSON."""
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    kept = raw.translate(None, _NOT_STRUCTURE)
    if 2 * kept.count(b'""') != kept.count(b'"'):  # some string holds a bracket
        kept = b"".join(kept.split(b'"')[::2])
    marks = np.frombuffer(kept, np.uint8) | 0x20  # "[" becomes "{", "]" becomes "}"
    steps = (marks == ord("{")).astype(np.int8) - (marks == ord("}")).astype(np.int8)
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _refuse_float(token: str) -> NoReturn:
    raise ValueError(f"{token} is not an integer")


def _read_float(token: str) -> float:
    number = float(token)
    if math.isinf(number):
        raise ValueError(f"number {token[:20]} is out of range")
    return number


def _read_int(token: str) -> int | float:
    if token == "-0":
        return -0.0  # as serde_json: a float, which no field of integers takes
    if len(token) > 300:
        _read_float(token)
    return int(token)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) == len(pairs):
        return result
    counts = Counter(key for key, _ in pairs)
    marked = RepeatedKeys(result)
    marked.repeated = tuple(key for key, count in counts.items() if count > 1)
    return marked


scan_integers: Final[Callable[[str, int], tuple[Any, int]]] = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_refuse_float
).scan_once  # type: ignore[attr-defined]  # what `raw_decode` calls; half the time for small values
"""Decode the value at a position, fast; a number that is no integer is a ValueError.

Takes true for 1, -0 for 0, and the last of repeated keys. Broken JSON is a ValueError or a
StopIteration.
"""

CAREFUL: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_constant=_refuse_constant,
    parse_float=_read_float,
    parse_int=_read_int,
)
"""Decodes as serde_json does; objects with repeated keys are `RepeatedKeys`."""


def decode_value(text: JsonText, position: int) -> tuple[Any, int]:
    """Decode the value at a position, strictly.

    Args:
        text: The document.
        position: Where the value begins, in characters.

    Returns:
        The value and the position behind it.

    Raises:
        FormatError: It is no JSON.
    """
    try:
        return CAREFUL.raw_decode(text.text, position)
    except json.JSONDecodeError as error:
        what = f"has broken JSON: {_lower_first(error.msg)}"
        raise text.error(what, error.pos) from error
    except ValueError as error:  # a hook's, or int's for too many digits
        what = f"has broken JSON: {error}"
        raise text.error(what, position) from error


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def read_json_file(path: Path) -> Any:
    """Read a side file of a model, such as config.json.

    Raises:
        FormatError: It is too large or not one JSON value.
        SourceError: It cannot be read.
    """
    with open_source(path, whole=True) as source:
        if source.size > MAX_JSON_FILE_BYTES:
            what = f"has {source.size} bytes; at most {MAX_JSON_FILE_BYTES} of JSON are read"
            raise FormatError(what, path)
        text = read_text(source, 0, source.size)
    check_bounds(text, SIDE_FILE)
    value, position = decode_value(text, text.skip_white(0))
    position = text.skip_white(position)
    if position != len(text.text):
        raise text.error("has text behind its JSON; it is damaged", position)
    return value


Member: TypeAlias = tuple[str, ...]
"""The keys that lead to an object or an array inside a JSON file; none lead to the whole."""


def read_members(path: Path, wanted: Collection[Member], check: Check = never) -> dict[Member, Any]:
    """Read some objects or arrays of a JSON file too large to be decoded whole.

    What else the file has is only walked over: the merges of a tokenizer would take 100 MB.

    Args:
        wanted: Where they lie. What is not there, or is no object or array, is left out.
        check: Called now and then; raises to cancel.

    Raises:
        FormatError: It is too large, or is no JSON.
        SourceError: It cannot be read.
    """
    with open_source(path, whole=True) as source:
        if source.size > MAX_TOKENIZER_BYTES:
            what = f"has {source.size} bytes; at most {MAX_TOKENIZER_BYTES} are looked through"
            raise FormatError(what, path)
        raw = source.read(0, source.size)
    found: dict[Member, Any] = {}
    for member, start, stop in _members(raw, path, wanted, check):
        if stop - start > MAX_MEMBER_BYTES:
            what = f"has {stop - start} bytes in one part; at most {MAX_MEMBER_BYTES} are decoded"
            raise FormatError(what, path, start)
        text = _decoded(raw[start:stop], path, start)
        check_bounds(text, _VOCABULARY)
        found[member] = decode_value(text, 0)[0]
        if len(found) == len(wanted):
            break
    return found


def _members(
    raw: bytes, path: Path, wanted: Collection[Member], check: Check
) -> Iterator[tuple[Member, int, int]]:
    """Yield where the members lie, each once; those before the place where JSON is broken."""
    deepest = max(map(len, wanted))
    keys: list[str | None] = []  # of the containers that are open, as deep as it matters
    begun: dict[int, tuple[Member, int]] = {}  # by depth
    known = set(wanted)
    depth, key = 0, None
    for number, part in enumerate(_PART.finditer(raw)):
        if number % _CHECKED == 0:
            check()
            if number > _MOST_PARTS:
                raise FormatError("has more JSON values than any model needs", path, part.start())
        mark = raw[part.start()]
        if mark == _QUOTE:
            if part[1] is None:
                what = "has a string that does not end, or is longer than any model needs"
                raise FormatError(what, path, part.start())
            if part[2] is not None and depth <= deepest:
                key = str(raw[part.start() + 1 : part.start(1)], "utf-8", "replace")
        elif mark in _OPENING:
            if depth <= deepest:
                keys[depth:] = [key]
                member = tuple(name for name in keys[1:] if name is not None)
                if len(member) == depth and member in known:
                    known.discard(member)
                    begun[depth] = member, part.start()
            depth, key = depth + 1, None
        else:
            depth -= 1
            if depth in begun:
                member, start = begun.pop(depth)
                yield member, start, part.end()
            if depth <= 0:
                return
    raise FormatError("ends within its JSON; it is damaged or not whole", path, len(raw))
