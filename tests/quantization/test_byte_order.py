"""The table of numbers of several bytes, against block sizes and fields."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.quantization import TENSOR_TYPES
from explorer.quantization.convert import NUMBERS, numbers_of, swap_byte_order
from explorer.quantization.registry import block_layout

_WIDTHS = {"f16": 2, "u16": 2, "i16": 2, "f32": 4, "u32": 4}
# The fields of IQ2_XXS have words, of which every second is four bytes (docs/gguf.md, section 8).
_QUANTIZED = [n for n, kind in TENSOR_TYPES.items() if kind.quantized and n != "IQ2_XXS"]


def _bytes_of(name: str) -> list[tuple[int, int]]:
    """Return (offset, width) of each number."""
    runs = numbers_of(name)
    return [(offset + i * width, width) for offset, width, count in runs for i in range(count)]


def test_numbers_lie_inside_their_blocks_and_apart() -> None:
    for name in NUMBERS:
        covered = [offset + i for offset, width in _bytes_of(name) for i in range(width)]
        assert len(covered) == len(set(covered)), name
        assert max(covered) < TENSOR_TYPES[name].whole_bytes, name


def test_plain_numbers_are_swapped_whole() -> None:
    for name, kind in TENSOR_TYPES.items():
        if kind.block_weights == 1 < kind.block_bytes and name != "C64":
            assert _bytes_of(name) == [(0, kind.block_bytes)]


@pytest.mark.parametrize("name", _QUANTIZED)
def test_every_number_that_the_layout_names_is_swapped(name: str) -> None:
    expected = [
        (place, _WIDTHS[field.dtype])
        for field in block_layout(name).fields
        if field.dtype in _WIDTHS
        for place in range(field.offset, field.offset + field.nbytes, _WIDTHS[field.dtype])
    ]
    assert set(expected) <= set(_bytes_of(name))


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_swapping_twice_changes_nothing_and_once_turns_each_number(name: str) -> None:
    random = np.random.default_rng(1)
    blocks = random.integers(0, 256, (3, TENSOR_TYPES[name].block_bytes), np.uint8)
    swapped = blocks.copy()
    swap_byte_order(name, swapped)
    expected = blocks.copy()
    for offset, width in _bytes_of(name):
        expected[:, offset : offset + width] = blocks[:, offset : offset + width][:, ::-1]
    np.testing.assert_array_equal(swapped, expected)
    swap_byte_order(name, swapped)
    np.testing.assert_array_equal(swapped, blocks)
