"""JSON as strict as serde_json reads it, within bounds of memory, depth and time.

`json.loads` alone is not enough for what strangers send: it accepts NaN, lone surrogates and
repeated keys, takes `true` for an integer, allocates 50 times the text for `[],[],[]`, recurses as
deep as the text says, and lets no other thread work meanwhile (docs/safetensors_and_blobs.md,
section 1, "Python json differs"). A parser in Python would take 30 times as long as the one in C.
So the text is measured first, with operations that run at memory speed, and what passes is given to
the C parser.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np

from explorer.errors import FormatError

MAX_JSON_DEPTH: Final = 127
"""Deepest nesting of JSON, as serde_json's default recursion limit."""

_WINDOW_BYTES: Final = 1 << 20
_NOT_STRUCTURE: Final = bytes(set(range(256)) - set(b'[]{}"'))
_WHITE_RUN: Final = re.compile(r"[ \t\r\n]*")
# An escaped pair of surrogates, one that is alone (group 1), or any other escape.
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F])|.)", re.DOTALL
)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """How much a JSON text may hold."""

    containers: int  # most arrays and objects
    values: int  # most commas, which separate all values but the first of each container
    strings: int  # most strings, keys included


class JsonText(NamedTuple):
    """A JSON text."""

    text: str  # the text, without the white space around it if it was long
    path: Path  # its file, for messages
    offset: int  # offset in the file of the text's first byte

    def error(self, what: str, position: int) -> FormatError:
        return FormatError(what, self.path, self.offset + len(self.text[:position].encode()))

    def skip_white(self, position: int) -> int:
        """Return the position of the next character that is not white space."""
        match = _WHITE_RUN.match(self.text, position)
        return match.end() if match else position


class RepeatedKeys(dict[str, Any]):
    """An object some of whose keys occur more than once; the last of each counts.

    Attributes:
        repeated: Those keys, in order.
    """

    repeated: tuple[str, ...] = ()


def decoded(raw: bytes, path: Path, start: int) -> JsonText:
    """Return bytes as a JSON text; `check_bounds` must follow before it is decoded.

    Raises:
        FormatError: They are not UTF-8, or have half of a surrogate pair.
    """
    try:
        text = JsonText(str(raw, "utf-8"), path, start)
    except UnicodeDecodeError as error:
        what = "has JSON that is not valid UTF-8. It is damaged"
        raise FormatError(what, path, start + error.start) from error
    if _SURROGATE.search(text.text) is not None:
        for match in _ESCAPE.finditer(text.text):
            if match[1]:
                what = "has half a surrogate pair in its JSON. It is damaged"
                raise text.error(what, match.start())
    return text


def check_bounds(text: JsonText, limits: JsonLimits) -> None:
    """Check what could make decoding a text expensive: how many values it has, and how deep.

    Raises:
        FormatError: Too many, or nested too deep.
    """
    whole = text.text
    containers = values = quotes = 0
    for at in range(0, len(whole), _WINDOW_BYTES):
        part = np.frombuffer(whole[at : at + _WINDOW_BYTES].encode(), np.uint8)
        containers += int(np.count_nonzero(part | 0x20 == ord("{")))  # "[" becomes "{"
        values += int(np.count_nonzero(part == ord(",")))
        quotes += int(np.count_nonzero(part == ord('"')))
        if containers > limits.containers or values > limits.values or quotes > 2 * limits.strings:
            raise text.error("has more JSON values than any model needs. It is damaged", at)
    if json_depth(_structure(whole)) > MAX_JSON_DEPTH:
        raise text.error(f"has JSON nested more than {MAX_JSON_DEPTH} deep. It is damaged", 0)


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
    raise ValueError(f"{name} is not JSON")


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
        FormatError: It is not JSON.
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


def parse_json(text: JsonText, limits: JsonLimits) -> Any:
    """Decode a text that is one JSON value.

    Raises:
        FormatError: It is not, or exceeds the limits.
    """
    check_bounds(text, limits)
    value, position = decode_value(text, text.skip_white(0))
    position = text.skip_white(position)
    if position != len(text.text):
        raise text.error("has text behind its JSON. It is damaged", position)
    return value
