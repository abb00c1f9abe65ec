"""How numbers are written for people, and read from them, in several countries."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.formats.tensor_filter import parse_bounds
from explorer.planner.devices import parse_context, parse_size
from explorer.text import (
    PLAIN,
    ByteUnits,
    Notation,
    NumberFormat,
    byte_unit,
    bytes_text,
    count_text,
    fixed_text,
    float_text,
    integer_text,
    locale_free,
    notation,
    plain_number,
    set_notation,
    shape_text,
    writing,
)

GERMAN = Notation(NumberFormat(",", "."))
FRENCH = Notation(NumberFormat(",", "\u202f"))
INDIAN = Notation(NumberFormat(".", ",", 3, 2))
SPANISH = Notation(NumberFormat(",", ".", least_grouped=5))
SWISS = Notation(NumberFormat(".", "\u2019"))
DECIMAL = Notation(units=ByteUnits.DECIMAL)
COUNTRIES = [PLAIN, GERMAN, FRENCH, INDIAN, SPANISH, SWISS]


@pytest.fixture(autouse=True)
def plain_notation() -> Iterator[None]:
    """Give the process its notation back."""
    yield
    set_notation(PLAIN)


@pytest.mark.parametrize(
    ("country", "number", "text"),
    [
        (PLAIN, 1234567, "1,234,567"),
        (GERMAN, 1234567, "1.234.567"),
        (GERMAN, -1234, "-1.234"),
        (FRENCH, 1234567, "1\u202f234\u202f567"),
        (INDIAN, 123456789, "12,34,56,789"),
        (INDIAN, 1234, "1,234"),
        (SPANISH, 1234, "1234"),
        (SPANISH, 12345, "12.345"),
        (SWISS, 262144, "262\u2019144"),
    ],
)
def test_integers(country: Notation, number: int, text: str) -> None:
    with writing(country):
        assert integer_text(number) == text


def test_fractions_sizes_counts_and_shapes() -> None:
    with writing(GERMAN):
        assert float_text(1e-5) == "1e-05"
        assert float_text(0.25) == "0,25"
        assert float_text(float("nan")) == "NaN"
        assert fixed_text(99.5, 2) == "99,50"
        assert bytes_text(4_692_251_770) == "4,37 GiB"
        assert count_text(8_030_000_000) == "8,03 B"
        assert shape_text((2048, 640)) == "2.048 × 640"


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (4_692_251_770, "4.69 GB"),
        (999_600, "1.00 MB"),
        (10**18, "1.00 EB"),
        (-1500, "-1.50 kB"),
    ],
)
def test_decimal_units(nbytes: int, text: str) -> None:
    with writing(DECIMAL):
        assert bytes_text(nbytes) == text


def test_a_unit_of_an_axis() -> None:
    assert byte_unit(3) == ("GiB", 1 << 30)
    with writing(DECIMAL):
        assert byte_unit(3) == ("GB", 10**9)
        assert byte_unit(1) == ("kB", 1000)


def test_a_block_for_other_programs_keeps_the_units() -> None:
    set_notation(Notation(GERMAN.numbers, ByteUnits.DECIMAL))
    with locale_free():
        assert bytes_text(1_234_000) == "1.23 MB"
        assert integer_text(1234) == "1,234"
    assert integer_text(1234) == "1.234"


def test_a_block_holds_for_its_own_thread_only_and_the_setting_for_all() -> None:
    set_notation(GERMAN)
    seen = []
    with writing(FRENCH):
        thread = threading.Thread(target=lambda: seen.append(notation()))
        thread.start()
        thread.join()
    assert seen == [GERMAN]


@pytest.mark.parametrize("country", COUNTRIES)
@given(number=st.integers(0, 10**15), part=st.integers(1, 999))
def test_what_is_shown_is_understood(country: Notation, number: int, part: int) -> None:
    with writing(country):
        assert int(plain_number(integer_text(number), whole=True)) == number
        shown = f"{integer_text(number)}{country.numbers.decimal}{part:03}"
        assert plain_number(shown) == f"{number}.{part:03}"


@pytest.mark.parametrize("country", COUNTRIES)
def test_the_point_is_a_decimal_sign_everywhere(country: Notation) -> None:
    with writing(country):
        assert parse_size("1.5 GiB") == 3 << 29
        assert parse_size("1.536MiB") == int(1.536 * (1 << 20))  # and no thousands
        assert parse_context("1.5k") == 1536
        assert parse_bounds(">", "4.5", "plain") == parse_bounds(">", "4.50", "plain")


@pytest.mark.parametrize("country", [PLAIN, INDIAN, SWISS])
def test_a_comma_that_separates_no_thousands_is_decimal(country: Notation) -> None:
    with writing(country):
        assert parse_size("7,5 GiB") == 15 << 29
        assert parse_size("22,25GiB") == 89 << 28
        assert parse_size("1,024 KiB") == parse_size("1,024KiB") == 1 << 20
        assert parse_size("1,048,576") == 1 << 20
        assert parse_size("1,024.5 KiB") == int(1024.5 * 1024)
        assert parse_context("1,5k") == 1536
        assert parse_context("32,768") == 32768


def test_so_is_the_country_s_own() -> None:
    with writing(GERMAN):
        assert parse_size("1,5 GiB") == 3 << 29
        assert parse_size("1.234,5 KiB") == int(1234.5 * 1024)
        assert parse_context("32.768") == 32768
        assert parse_context("1,5k") == 1536
        assert parse_size("1.048.576") == 1 << 20
        bounds = parse_bounds(">", "1,5g", "bytes")
        assert bounds is not None
        assert bounds.low == 3 << 29
    with writing(FRENCH):
        assert parse_size("1\u202f048\u202f576") == 1 << 20
        assert parse_context("32 768") == 32768
