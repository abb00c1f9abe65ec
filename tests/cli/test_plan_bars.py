"""A bar's parts have their share of its width, to the last character."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from explorer.cli.plan import bar_lengths

amounts = st.lists(st.integers(0, 1 << 60), min_size=1, max_size=8)


@given(amounts, st.integers(1, 200))
def test_the_parts_fill_the_bar(sizes: list[int], width: int) -> None:
    lengths = bar_lengths(sizes, width)
    assert len(lengths) == len(sizes)
    assert all(length >= 0 for length in lengths)
    assert sum(lengths) == (width if sum(sizes) else 0)
    assert all(length == 0 for length, size in zip(lengths, sizes, strict=True) if size == 0)


@given(amounts, st.integers(8, 200))
def test_what_is_there_is_seen(sizes: list[int], width: int) -> None:
    lengths = bar_lengths(sizes, width)
    assert all(length > 0 for length, size in zip(lengths, sizes, strict=True) if size > 0)


@given(amounts, st.integers(8, 200))
def test_a_part_is_as_long_as_its_share(sizes: list[int], width: int) -> None:
    total = sum(sizes)
    shares = [size * width / total if total else 0 for size in sizes]
    lengths = bar_lengths(sizes, width)
    # a character given to a small part is missing in a large one
    for length, share in zip(lengths, shares, strict=True):
        assert abs(length - share) <= len(sizes)


def test_an_example() -> None:
    assert bar_lengths([50, 30, 20], 10) == [5, 3, 2]
    assert bar_lengths([1000, 1, 0], 10) == [9, 1, 0]
    assert bar_lengths([1, 1, 1], 2) == [1, 1, 0]
