"""Bytes, offsets and patterns as text."""

from __future__ import annotations

import pytest

from explorer.qt.raw.hex_paint import c_array_text, number_texts, parse_offset, parse_pattern


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("1024", 1024),
        ("0x400", 1024),
        (" 1,024 ", 1024),
        ("1_024", 1024),
        ("0XfF", 255),
        ("", None),
        ("-1", None),
        ("0x", None),
        ("12ab", None),
        ("1e3", None),
        ("9" * 30, None),
    ],
)
def test_understands_offsets(text: str, offset: int | None) -> None:
    assert parse_offset(text) == offset


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("de ad", b"\xde\xad"),
        ("DEAD", b"\xde\xad"),
        ("0xde, 0xad", b"\xde\xad"),
        ("00", b"\0"),
        ("0x00 10", b"\0\x10"),
        ("d", None),
        ("", None),
        ("xy", None),
        ("ф", None),
    ],
)
def test_understands_hex_patterns(text: str, pattern: bytes | None) -> None:
    assert parse_pattern(text, "hex") == pattern


def test_shows_numbers_in_the_files_byte_order() -> None:
    raw = b"\x00\x00\x80\x3f\x00\x00\x00\x00"
    assert dict(number_texts(raw, "little"))["f32"] == "1"
    assert dict(number_texts(raw, "big"))["u32"] == str(0x803F)
    assert dict(number_texts(b"\xff", "little")) == {"u8": "255", "i8": "-1"}
    assert number_texts(b"", "little") == []
    assert c_array_text(b"") == "const unsigned char data[0] = {\n};"
