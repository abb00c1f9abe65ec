"""What the bits of a block act on, against the layouts as `docs/gguf.md`, section 8 draws them."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.analysis.block_detail import BlockReader, bits_of_type, sub_scales
from explorer.quantization import TENSOR_TYPES, dequantize
from explorer.quantization.grouped.layout import GroupedLayout
from explorer.quantization.iq import grid_rows, group_weights
from explorer.quantization.registry import block_layout
from tests.helpers.grouped_tensors import AFFINE_4, LAYOUTS, grouped_tensor
from tests.helpers.tensors import QUANTIZED

UNREAD = {"Q8_1": range(2, 4), "Q8_K": range(260, 292)}  # for dot products only
GRIDS = [name for name in QUANTIZED if group_weights(name) > 1]


def _weights(byte: int, name: str) -> list[int]:
    acting = bits_of_type(name).acts_on(byte, block_layout(name).weights_per_scale)
    return np.flatnonzero(acting).tolist()


@pytest.mark.parametrize("name", QUANTIZED)
def test_every_bit_is_read_but_those_of_sums(name: str) -> None:
    bits = bits_of_type(name)
    acting = bits.codes.any(1) | bits.scales.any(1) | bits.minima.any(1)
    unread = np.flatnonzero(~acting).tolist()
    assert unread == list(UNREAD.get(name, ()))
    assert bits.codes.shape == (TENSOR_TYPES[name].block_bytes, TENSOR_TYPES[name].block_weights)
    assert (np.bitwise_count(bits.codes).sum(axis=0) > 0).all()


@pytest.mark.parametrize("name", QUANTIZED)
def test_turning_a_byte_changes_no_other_weight(name: str) -> None:
    """Against the decoder, which knows nothing of the block layout."""
    kind = TENSOR_TYPES[name]
    random = np.random.default_rng(3)
    block = random.integers(0, 256, kind.block_bytes, np.uint8)
    turned = np.repeat(block[None], kind.block_bytes, axis=0)
    places = np.arange(kind.block_bytes)
    turned[places, places] ^= random.integers(1, 256, kind.block_bytes, np.uint8)
    before = dequantize(block, name).view(np.uint32)
    after = dequantize(turned, name).view(np.uint32).reshape(kind.block_bytes, -1)
    for byte in range(kind.block_bytes):
        changed = set(np.flatnonzero(after[byte] != before).tolist())
        assert changed <= set(_weights(byte, name)), byte


def test_halves_of_a_byte_of_q4_0() -> None:
    bits = bits_of_type("Q4_0")
    assert np.flatnonzero(bits.codes[2]).tolist() == [0, 16]
    assert bits.codes[2, [0, 16]].tolist() == [0x0F, 0xF0]
    assert bits.scales[:2, 0].tolist() == [0xFF, 0xFF]
    assert not bits.scales[2:].any()


def test_scales_and_minima_of_q4_k() -> None:
    """The 12 bytes from byte 4 on, as `k_quants.py` draws them."""
    bits = bits_of_type("Q4_K")
    for k in range(4):
        assert bits.scales[4 + k, k] == bits.minima[8 + k, k] == 0b0011_1111
        assert bits.scales[4 + k, k + 4] == bits.minima[8 + k, k + 4] == 0b1100_0000
        assert (bits.scales[12 + k, k + 4], bits.minima[12 + k, k + 4]) == (0x0F, 0xF0)
    assert _weights(4, "Q4_K") == [*range(32), *range(128, 160)]
    assert _weights(16, "Q4_K") == [0, 32]
    assert _weights(0, "Q4_K") == list(range(256))


def test_a_base_3_byte_acts_on_five_weights_with_all_its_bits() -> None:
    bits = bits_of_type("TQ1_0")
    assert _weights(0, "TQ1_0") == [0, 32, 64, 96, 128]
    assert bits.codes[0, [0, 32, 64, 96, 128]].tolist() == [255] * 5
    assert _weights(48, "TQ1_0") == [240, 244, 248, 252]


def test_a_row_of_a_grid_acts_on_its_group_and_a_sign_on_one_weight() -> None:
    bits = bits_of_type("IQ2_S")
    assert _weights(2, "IQ2_S") == list(range(8))
    assert (bits.codes[2, :8] == 255).all()
    assert bits.codes[34, :8].tolist() == [1 << i for i in range(8)]
    assert (bits.codes[66, :8] == 3).all()  # high bits of the row
    xxs = bits_of_type("IQ2_XXS").codes[6:10]  # 7-bit sign codes, whose parity is the eighth sign
    assert [int(xxs[0, i]) for i in range(7)] == [1 << i for i in range(7)]
    assert xxs[0, 7] == 0x7F


@pytest.mark.parametrize("name", GRIDS)
def test_rows_and_signs_make_the_levels(name: str) -> None:
    from explorer.quantization.grids import Grid, stored_grid
    from explorer.quantization.iq import TYPES

    kind, parts = TENSOR_TYPES[name], block_layout(name)
    blocks = np.random.default_rng(2).integers(0, 256, (20, kind.block_bytes), np.uint8)
    codes = np.empty((20, 256), np.uint8)
    scales = np.empty((20, 256 // parts.weights_per_scale), np.float32)
    parts.unpack(blocks, codes, scales, scales)
    table = TYPES[name].table
    assert isinstance(table, Grid)
    grid = stored_grid(table)
    for line in codes:
        rows = grid_rows(name, line)
        assert rows is not None
        signs = np.unpackbits(rows.signs[:, None], axis=1, bitorder="little")
        signs = signs[:, : rows.group_weights].astype(np.float32)
        made = grid[rows.indices] * (1 - 2 * signs) + rows.shifts[:, None]
        np.testing.assert_array_equal(made.reshape(-1), parts.levels[line])
        assert rows.rows_in_grid == len(grid)


def test_the_row_of_a_grid_is_the_stored_one() -> None:
    block = np.zeros(74, np.uint8)  # IQ2_XS: 9 bits of the row, 7 of signs, for each 8 weights
    block[2:4] = [0x2A, 0b0000_0110 | 1]
    parts = block_layout("IQ2_XS")
    codes, scales = np.empty((1, 256), np.uint8), np.empty((1, 16), np.float32)
    parts.unpack(block[None], codes, scales, scales)
    rows = grid_rows("IQ2_XS", codes[0])
    assert rows is not None
    assert rows.indices[:2].tolist() == [0x12A, 0]
    assert rows.signs[0] == 0b1000_0000 | 3 or rows.signs[0] == 3
    assert grid_rows("Q4_K", codes[0]) is None
    assert grid_rows("IQ4_NL", codes[0, :32]) is None


@pytest.mark.parametrize("name", QUANTIZED)
def test_factors_times_the_blocks_own_scale_are_the_effective_scales(name: str) -> None:
    kind, parts = TENSOR_TYPES[name], block_layout(name)
    count = kind.block_weights // parts.weights_per_scale
    random = np.random.default_rng(8)
    for _ in range(20):
        block = random.integers(0, 256, kind.block_bytes, np.uint8)
        found = sub_scales(name, block)
        assert (found is None) == (count == 1 or name == "NVFP4")
        if found is None:
            return
        codes = np.empty((1, kind.block_weights), np.uint8)
        scales, minima = np.empty((1, count), np.float32), np.zeros((1, count), np.float32)
        parts.unpack(block[None], codes, scales, minima)
        with np.errstate(invalid="ignore", over="ignore"):
            np.testing.assert_array_equal(np.float32(found.d) * found.scales, scales[0])
            if parts.has_minimum:
                assert found.dmin is not None
                assert found.minima is not None
                np.testing.assert_array_equal(np.float32(found.dmin) * found.minima, minima[0])


def test_factors_by_hand() -> None:
    block = np.zeros(144, np.uint8)  # Q4_K with d = 2, dmin = 0.5; see test_block_layouts.py
    block[0:4] = [0x00, 0x40, 0x00, 0x38]
    block[4], block[8] = 0b10_000011, 0b01_000101
    found = sub_scales("Q4_K", block)
    assert found is not None
    assert (found.d, found.dmin) == (2.0, 0.5)
    assert found.scales.tolist() == [3, 0, 0, 0, 32, 0, 0, 0]
    assert found.minima is not None
    assert found.minima.tolist() == [5, 0, 0, 0, 16, 0, 0, 0]
    iq1 = np.zeros(56, np.uint8)  # IQ1_M, d = 1.5 = 0x3E00 in four pieces, lowest first
    iq1[[49, 51, 53, 55]] = [0x00, 0x00, 0xE0, 0x30]
    found = sub_scales("IQ1_M", iq1)
    assert found is not None
    assert found.d == 1.5
    assert found.scales.tolist() == [1.0] * 16


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_bits_of_a_group(layout: GroupedLayout) -> None:
    detail = BlockReader(grouped_tensor(layout, np.zeros((1, 256), np.float32))).read(1)
    bits, (codes, scales, *_) = detail.bits, detail.fields
    assert len(detail.stored) == layout.type.block_bytes
    assert (np.bitwise_count(bits.codes).sum(axis=0) == layout.bits).all()
    assert not bits.codes[codes.nbytes :].any()
    assert (bits.scales[scales.offset : scales.offset + scales.nbytes] == 255).all()


def test_codes_of_an_affine_group_lie_one_behind_the_other() -> None:
    bits = BlockReader(grouped_tensor(AFFINE_4, np.zeros((1, 256), np.float32))).read(2).bits
    assert bits.codes[5, [10, 11]].tolist() == [0x0F, 0xF0]
    assert bits.minima[34:36, 0].tolist() == [255, 255]
