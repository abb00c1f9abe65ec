"""JSON of a model's files: texts in a header, side files, and parts of files too large for that.

What is decoded is within the bounds of `explorer.json_text`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from explorer.errors import FormatError
from explorer.formats.limits import (
    MAX_JSON_FILE_BYTES,
    MAX_JSON_TEXT_BYTES,
    MAX_JSON_VALUES,
    MAX_MEMBER_BYTES,
    MAX_TOKENIZER_BYTES,
    MAX_VOCABULARY,
)
from explorer.json_text import JsonLimits, JsonText, check_bounds, decode_value, decoded, parse_json
from explorer.parallel import Check, never
from explorer.sources import ByteSource, open_source

_WINDOW_BYTES: Final = 1 << 20
_CHECKED: Final = 1 << 16
_QUOTE: Final = ord('"')
_OPENING: Final = b"[{"
_WHITE: Final = b" \t\r\n"
# A string, with its last quotation mark (group 1) and the colon behind it if it is a key (group 2),
# or an end of a container. What a string may hold is bounded, for a match lets nobody else work,
# and one that does not end matches too: to look for its end again at each mark takes ages.
_PART: Final = re.compile(
    rb'"(?:[^"\\]{1,1024}+|\\.){0,16384}+(")?([ \t\r\n]{0,1024}+:)?|[][{}]', re.DOTALL
)
_MOST_PARTS: Final = 1 << 23  # strings and ends of containers that are walked over, some seconds


SIDE_FILE: Final = JsonLimits(MAX_JSON_VALUES // 4, MAX_JSON_VALUES, 2 * MAX_JSON_VALUES)
"""Limits of index files and config.json."""

_VOCABULARY: Final = JsonLimits(MAX_VOCABULARY, 8 * MAX_VOCABULARY, 2 * MAX_VOCABULARY)


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
    return decoded(raw, path, start)


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


def read_json_file(path: Path) -> Any:
    """Read a side file of a model, such as config.json.

    Raises:
        FormatError: It is too large or not one JSON value.
        SourceError: It cannot be read.
    """
    with open_source(path, whole=True) as source:
        if source.size > MAX_JSON_FILE_BYTES:
            what = f"has {source.size} bytes. At most {MAX_JSON_FILE_BYTES} of JSON are read"
            raise FormatError(what, path)
        text = read_text(source, 0, source.size)
    return parse_json(text, SIDE_FILE)


Member: TypeAlias = tuple[str, ...]
"""The keys that lead to an object or an array inside a JSON file; none lead to the whole."""


def read_members(path: Path, wanted: Collection[Member], check: Check = never) -> dict[Member, Any]:
    """Read some objects or arrays of a JSON file too large to be decoded whole.

    What else the file has is only walked over: the merges of a tokenizer would take 100 MB.

    Args:
        wanted: Where they lie. What is not there, or is not an object or array, is left out.
        check: Called now and then; raises to cancel.

    Raises:
        FormatError: It is too large, or is not JSON.
        SourceError: It cannot be read.
    """
    with open_source(path, whole=True) as source:
        if source.size > MAX_TOKENIZER_BYTES:
            what = f"has {source.size} bytes. At most {MAX_TOKENIZER_BYTES} are looked through"
            raise FormatError(what, path)
        raw = source.read(0, source.size)
    found: dict[Member, Any] = {}
    for member, start, stop in _members(raw, path, wanted, check):
        if stop - start > MAX_MEMBER_BYTES:
            what = f"has {stop - start} bytes in one part. At most {MAX_MEMBER_BYTES} are decoded"
            raise FormatError(what, path, start)
        text = decoded(raw[start:stop], path, start)
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
    raise FormatError("ends within its JSON. It is damaged or not whole", path, len(raw))
