"""Strings and numbers as text."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.text import (
    PLAIN,
    AtLeast,
    axis_texts,
    bytes_text,
    count_text,
    fixed_text,
    float_text,
    integer_text,
    part_text,
    percent_text,
    plain_number,
    plain_text,
    quoted,
    safe_json,
    scale_writer,
    sentence,
    shape_text,
    shorten,
    signed_text,
    writing,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("blk.0.attn_q.weight", "blk.0.attn_q.weight"),
        ("你好 ▁the é 👍", "你好 ▁the é 👍"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("a\nb\r\tc\0", "a\\nb\\r\\tc\\x00"),
        ("\x9b31m\x7f\x85", "\\x9b31m\\x7f\\x85"),
        ("abc\u202egnp.exe\u2066", "abc\\u202egnp.exe\\u2066"),
        ("zero\u200bwidth\ufeff\u2060", "zero\\u200bwidth\\ufeff\\u2060"),
        ("line\u2028end", "line\\u2028end"),
        ("\U000e0041tag", "\\U000e0041tag"),
        (b"caf\xe9\xff".decode("utf-8", "surrogateescape"), "caf\\xe9\\xff"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_acts_or_hides_is_escaped(text: str, shown: str) -> None:
    assert plain_text(text) == shown


def test_lines_and_tabs_can_be_kept_but_nothing_else() -> None:
    assert plain_text("a\n\tb\r\x1b", lines=True) == "a\n\tb\\r\\x1b"


@given(st.text(alphabet=st.characters()))
def test_any_text_becomes_one_line_that_utf8_can_carry(text: str) -> None:
    shown = plain_text(text)
    shown.encode("utf-8")
    assert plain_text(shown) == shown
    assert len(shown.splitlines()) <= 1


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_safe_json_says_the_same(text: str) -> None:
    document = safe_json(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(document) == {"text": text}
    assert plain_text(document) == document


def test_safe_json_escapes_a_byte_that_is_no_utf8() -> None:
    document = safe_json(
        json.dumps(b"a\xff".decode("utf-8", "surrogateescape"), ensure_ascii=False)
    )
    assert json.loads(document.encode("utf-8")) == "a\\xff"


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (4_692_000_000, "4.37 GiB"),
        (1024**2 - 1, "1.00 MiB"),
        (253_000_000, "241 MiB"),
        (10_230, "9.99 KiB"),
        (10_239, "10.0 KiB"),
        (1 << 80, "1048576 EiB"),
    ],
)
def test_bytes(nbytes: int, shown: str) -> None:
    assert bytes_text(nbytes) == shown


def test_sums_with_a_size_that_is_not_all_known_are_not_all_known() -> None:
    total = sum([1024, AtLeast(1024), 2048])
    assert (total, bytes_text(total)) == (4096, "at least 4.00 KiB")
    assert bytes_text(AtLeast(1) + 1) == bytes_text(1 + AtLeast(1)) == "at least 2 B"
    assert AtLeast(1) + 0.5 == 1.5


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1_500, "1.50 K"),
        (270_000_000, "270 M"),
        (8_030_261_248, "8.03 B"),
        (999_999_999, "1.00 B"),
        (70_553_706_496, "70.6 B"),
        (1_000_000_000_000, "1.00 T"),
    ],
)
def test_counts(count: int, shown: str) -> None:
    assert count_text(count) == shown


def test_numbers_and_shapes() -> None:
    assert integer_text(262_144) == "262,144"
    assert float_text(9.999999747378752e-06) == "1e-05"  # a float32 in a double
    assert [float_text(v) for v in (float("nan"), float("inf"), -float("inf"))] == [
        "NaN",
        "inf",
        "-inf",
    ]
    assert shape_text((2048, 640)) == "2,048 × 640"
    assert shape_text(()) == "1"
    assert shorten("abcdef", 4) == "abc…"


def test_a_quoted_text_is_escaped_and_no_longer_than_some_lines() -> None:
    assert quoted("a\n") == r"'a\n'"
    assert quoted("x" * 120) == f"'{'x' * 120}'"
    assert len(quoted("x" * 10_000)) < 125
    assert len(quoted("\udcff" * 10_000)) == 240


def test_the_window_writes_numbers_as_in_print() -> None:
    printed = replace(PLAIN, numbers=replace(PLAIN.numbers, typeset=True))
    assert (integer_text(-1234), float_text(-1234567.0), fixed_text(-0.5, 2)) == (
        *("-1,234", "-1234567", "-0.50"),
    )  # what programs read stays as it was
    with writing(printed):
        assert integer_text(-1234) == "\u22121,234"
        assert float_text(-1234567.0) == "\u22121,234,567"
        assert float_text(1.5e-7) == "1.5e\u221207"
        assert (float_text(-math.inf), float_text(math.inf)) == ("\u2212\u221e", "\u221e")
        assert fixed_text(-12345.5, 1) == "\u221212,345.5"
        for number in (-1234567.0, 1.5e-7, -0.25):
            assert float(plain_number(float_text(number))) == number


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0.0, 30_000.0, 60_000.0, 90_000.0], ["0", "30,000", "60,000", "90,000"]),
        ([0.0, 50_000.0, 100_000.0, 150_000.0], ["0", "50 K", "100 K", "150 K"]),
        ([0.0, 500_000.0, 1_000_000.0], ["0", "0.5 M", "1.0 M"]),
        ([0.0, 0.25, 0.5], ["0", "0.25", "0.50"]),
        ([], []),
    ],
)
def test_an_axis_has_one_unit_and_as_many_places_for_all(
    values: list[float], texts: list[str]
) -> None:
    assert axis_texts(values) == texts


def test_ticks_between_others_keep_their_places_and_the_unit_of_the_axis() -> None:
    assert axis_texts([500_000, 1_500_000, 2_500_000]) == ["0.5 M", "1.5 M", "2.5 M"]
    assert axis_texts([500_000], most=2e6) == ["0.5 M"]


@given(st.lists(st.floats(-1e15, 1e15), max_size=6))
def test_any_axis_is_written(values: list[float]) -> None:
    assert len(axis_texts(values)) == len(values)


def test_a_difference_has_a_sign() -> None:
    assert [signed_text(n, integer_text) for n in (1200, 0, -1200)] == ["+1,200", "0", "-1,200"]
    with writing(replace(PLAIN, numbers=replace(PLAIN.numbers, typeset=True))):
        assert signed_text(-1200, integer_text) == "\u22121,200"


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.1234567, "12.3 %"),
        (55.87, "5,587 %"),  # no exponent
        (-0.00012, "-0.0120 %"),
        (1e-9, "1.00e-07 %"),
        (1e9, "1.00e+11 %"),
        (math.inf, "inf"),
        (math.nan, "NaN"),
    ],
)
def test_a_ratio_in_per_cent(share: float, shown: str) -> None:
    assert percent_text(share) == shown


def test_a_part_is_not_rounded_to_the_whole() -> None:
    parts = {1.0: "100.0 %", 0.99999: "> 99.9 %", 0.00001: "< 0.1 %", 0.0: "0.0 %"}
    assert {share: part_text(share) for share in parts} == parts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("there is no GPU", "There is no GPU"),
        ("even at 256: it is short", "Even at 256: it is short"),
        ("llama.cpp reads files only", "llama.cpp reads files only"),
        ("config.json names no model_type", "config.json names no model_type"),
        ("q4_0 does not fit", "q4_0 does not fit"),
        ("NVIDIA L4 is short", "NVIDIA L4 is short"),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_with_a_name(text: str, shown: str) -> None:
    assert sentence(text) == shown


def test_positions_of_a_histogram_are_short_whatever_the_weights_are() -> None:
    def texts(*edges: float) -> list[str]:
        return list(map(scale_writer(edges[1] - edges[0], max(map(abs, edges))), edges))

    assert texts(-0.1, -0.05, 0.0) == ["-0.1000", "-0.0500", "0.0000"]
    assert texts(-3e38, -1e38, 1e38) == ["-3.0000e+38", "-1.0000e+38", "1.0000e+38"]
    assert texts(1e-300, 2e-300) == ["1.0000e-300", "2.0000e-300"]
    assert texts(1.0, math.inf) == ["1.0000e+00", "inf"]


def test_what_is_rounded_to_nothing_has_no_minus() -> None:
    assert (fixed_text(-0.001, 2), fixed_text(-0.009, 2)) == ("0.00", "-0.01")
    assert percent_text(-0.0) == "0 %"
