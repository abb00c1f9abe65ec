"""Bytes as text and text as bytes, for the raw view. Knows no widget."""

from __future__ import annotations

import re
import struct
from typing import Final, Literal

from explorer.text import float_text, integer_text, plain_number, plain_text

_OFFSET: Final = re.compile(r"(?:0[xX](?P<hex>[0-9a-fA-F]{1,16})|(?P<decimal>[0-9]{1,20}))")
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})+")
_C_ARRAY_COLUMNS: Final = 12
_NOT_PRINTABLE: Final = "·"
# name, struct's code, significant digits of a float
_NUMBERS: Final = (
    ("u8", "B", 0),
    ("i8", "b", 0),
    ("u16", "H", 0),
    ("u32", "I", 0),
    ("u64", "Q", 0),
    ("f16", "e", 5),
    ("f32", "f", 7),
    ("f64", "d", 15),
)

ASCII_TABLE: Final = "".join(chr(b) if 0x20 <= b < 0x7F else _NOT_PRINTABLE for b in range(256))
"""What the text column shows for each byte."""


def hex_text(raw: bytes) -> str:
    """Return ``"de ad be ef"``."""
    return raw.hex(" ")


def c_array_text(raw: bytes) -> str:
    """Return the bytes as an array of C."""
    lines = [
        "    " + ", ".join(f"0x{b:02x}" for b in raw[at : at + _C_ARRAY_COLUMNS]) + ","
        for at in range(0, len(raw), _C_ARRAY_COLUMNS)
    ]
    return "\n".join([f"const unsigned char data[{len(raw)}] = {{", *lines, "};"])


def readable_text(raw: bytes) -> str:
    r"""Return the bytes as UTF-8; what is not, or is invisible, as an escape (``\xNN``)."""
    return plain_text(raw.decode("utf-8", "surrogateescape"), lines=True)


def offset_text(offset: int) -> str:
    """Return an offset in both systems: ``"0x1f4 (500)"``."""
    return f"0x{offset:x} ({integer_text(offset)})"


def parse_offset(text: str) -> int | None:
    """Return an offset that a person typed, decimal or 0x…; blanks, groups and _ are ignored."""
    typed = plain_number(re.sub(r"[\s,]", "", text), whole=True)
    match = _OFFSET.fullmatch(typed)
    if match is None:
        return None
    return int(match["hex"], 16) if match["hex"] else int(match["decimal"])


def parse_pattern(text: str, kind: Literal["hex", "text"]) -> bytes | None:
    """Return the bytes to search for, or None if the text is none or no pairs of hex digits.

    Args:
        text: What was typed; in hex, blanks, commas and 0x before a byte are ignored.
        kind: How it is meant; text becomes UTF-8.
    """
    if kind == "text":
        return text.encode("utf-8", "surrogatepass") or None
    digits = re.sub(r"[\s,]|0[xX](?=[0-9a-fA-F]{2}(?:[\s,]|0[xX]|$))", "", text)
    return bytes.fromhex(digits) if _HEX.fullmatch(digits) else None


def number_texts(raw: bytes, order: Literal["little", "big"]) -> list[tuple[str, str]]:
    """Return what the bytes are as numbers: ``[("u8", "255"), ("i8", "-1"), …]``.

    Args:
        raw: The bytes from the place on; numbers longer than them are left out.
        order: Byte order.
    """
    prefix = "<" if order == "little" else ">"
    found = []
    for name, code, digits in _NUMBERS:
        form = struct.Struct(prefix + code)
        if form.size <= len(raw):
            (number,) = form.unpack_from(raw)
            found.append((name, float_text(number, digits) if digits else str(number)))
    return found
