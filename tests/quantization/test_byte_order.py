"""The numbers of several bytes of a block, as `docs/gguf.md`, section 8 has them."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.quantization import TENSOR_TYPES
from explorer.quantization.convert import numbers_of, swap_byte_order

_EXPECTED = {
    "Q4_0": [(0, 2)],
    "Q5_1": [(0, 2), (2, 2), (4, 4)],
    "Q2_K": [(80, 2), (82, 2)],
    "Q6_K": [(208, 2)],
    "Q8_K": [(0, 4), *((260 + 2 * i, 2) for i in range(16))],
    "IQ1_S": [(0, 2), *((34 + 2 * i, 2) for i in range(8))],
    "IQ1_M": [(48 + 2 * i, 2) for i in range(4)],
    "IQ2_XXS": [(0, 2), *((6 + 8 * i, 4) for i in range(8))],
    "IQ2_XS": [(2 * i, 2) for i in range(33)],
    "IQ3_XXS": [(0, 2), *((66 + 4 * i, 4) for i in range(8))],
    "IQ4_XS": [(0, 2), (2, 2)],
    "TQ1_0": [(52, 2)],
    "MXFP4": [],
    "IQ4_KS": [(0, 4)],
    "C64": [(0, 4), (4, 4)],
}


def _bytes_of(name: str) -> list[tuple[int, int]]:
    """Return (offset, width) of each number."""
    runs = numbers_of(name)
    return [(offset + i * width, width) for offset, width, count in runs for i in range(count)]


@pytest.mark.parametrize("name", _EXPECTED)
def test_numbers_of_several_bytes(name: str) -> None:
    assert sorted(_bytes_of(name)) == _EXPECTED[name]


def test_plain_numbers_are_swapped_whole() -> None:
    for name, kind in TENSOR_TYPES.items():
        if kind.block_weights == 1 < kind.block_bytes and name != "C64":
            assert _bytes_of(name) == [(0, kind.block_bytes)]


@pytest.mark.parametrize("name", TENSOR_TYPES)
def test_swapping_twice_changes_nothing_and_once_turns_each_number(name: str) -> None:
    random = np.random.default_rng(1)
    blocks = random.integers(0, 256, (3, TENSOR_TYPES[name].whole_bytes), np.uint8)
    swapped = blocks.copy()
    swap_byte_order(name, swapped)
    expected = blocks.copy()
    for offset, width in _bytes_of(name):
        expected[:, offset : offset + width] = blocks[:, offset : offset + width][:, ::-1]
    np.testing.assert_array_equal(swapped, expected)
    swap_byte_order(name, swapped)
    np.testing.assert_array_equal(swapped, blocks)
