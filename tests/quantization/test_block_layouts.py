"""What every quantized type's block layout promises, and some blocks taken apart by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from explorer.quantization import TENSOR_TYPES, QuantizationError, dequantize
from explorer.quantization.registry import BlockLayout, block_layout, has_block_layout
from tests.helpers.tensors import QUANTIZED

_UNTOUCHED = 7.5

Codes = NDArray[np.uint8]
Scales = NDArray[np.float32]


def _unpack(name: str, blocks: NDArray[np.uint8]) -> tuple[BlockLayout, Codes, Scales, Scales]:
    parts = block_layout(name)
    weights = TENSOR_TYPES[name].block_weights
    codes = np.full((len(blocks), weights), 255, np.uint8)
    scales = np.full((len(blocks), weights // parts.weights_per_scale), _UNTOUCHED, np.float32)
    minima = scales.copy()
    parts.unpack(blocks, codes, scales, minima)
    return parts, codes, scales, minima


def _random_blocks(name: str) -> NDArray[np.uint8]:
    generator = np.random.default_rng(11)
    return generator.integers(0, 256, (96, TENSOR_TYPES[name].block_bytes), np.uint8)


@pytest.mark.parametrize("name", TENSOR_TYPES)
def test_quantized_types_have_a_block_layout_and_others_none(name: str) -> None:
    assert has_block_layout(name) == TENSOR_TYPES[name].quantized
    if not TENSOR_TYPES[name].quantized:
        with pytest.raises(KeyError):
            block_layout(name)


def test_a_name_that_is_no_type_has_no_block_layout() -> None:
    assert not has_block_layout("unknown (43)")


@pytest.mark.parametrize("name", QUANTIZED)
def test_fields_cover_the_block(name: str) -> None:
    end = 0
    for field in block_layout(name).fields:
        assert field.offset == end
        assert field.nbytes > 0
        assert field.name
        assert field.dtype
        assert field.meaning
        end += field.nbytes
    assert end == TENSOR_TYPES[name].block_bytes
    assert len({field.name for field in block_layout(name).fields}) == len(
        block_layout(name).fields
    )


@pytest.mark.parametrize("name", QUANTIZED)
def test_levels(name: str) -> None:
    parts = block_layout(name)
    assert parts.levels.dtype == np.float32
    assert 2 <= len(parts.levels) <= 256
    assert TENSOR_TYPES[name].block_weights % parts.weights_per_scale == 0
    if name.startswith("IQ"):
        assert len(parts.levels) == (6 if name[2] in "12" else 16)
        assert (np.diff(parts.levels) > 0).all()
    elif not name.startswith(("MXFP", "NVFP")):
        steps = np.diff(parts.levels)
        assert steps[0] > 0
        assert (steps == steps[0]).all()


@pytest.mark.parametrize("name", QUANTIZED)
def test_parts_make_the_weights_that_the_decoder_gives(name: str) -> None:
    blocks = _random_blocks(name)
    parts, codes, scales, minima = _unpack(name, blocks)
    assert set(np.unique(codes)) == set(range(len(parts.levels)))
    usual = np.isfinite(scales).all(axis=1)
    if parts.has_minimum:
        usual &= np.isfinite(minima).all(axis=1)
    else:
        assert (minima == _UNTOUCHED).all()
    assert np.count_nonzero(usual) > 48
    weights = dequantize(blocks, name).reshape(len(blocks), -1)[usual]
    products = np.repeat(scales[usual], parts.weights_per_scale, axis=1).astype(np.float64)
    products *= parts.levels[codes[usual]]
    if not parts.has_minimum:  # statistics count scales and codes instead of weights
        with np.errstate(over="ignore"):
            assert np.array_equal(products.astype(np.float32), weights)
    made = products.copy()
    if parts.has_minimum:
        made -= np.repeat(minima[usual], parts.weights_per_scale, axis=1)
    # A few roundings of float32, of which the largest operand decides; beyond its range, infinity.
    largest = np.maximum(np.abs(products), np.abs(made - products))
    with np.errstate(over="ignore", invalid="ignore"):
        close = np.abs(weights - made) <= 4e-7 * largest + 1e-44
        assert (close | (weights == made.astype(np.float32))).all()


def test_arrays_that_do_not_fit_are_refused_before_a_kernel_runs() -> None:
    blocks, codes = np.zeros((2, 20), np.uint8), np.zeros((2, 32), np.uint8)
    scales, short = np.zeros((2, 1), np.float32), np.zeros((1, 1), np.float32)
    unpack = block_layout("Q4_1").unpack
    unpack(blocks, codes, scales, scales.copy())
    for arguments in (
        (blocks[:, 1:], codes, scales, scales),
        (blocks, codes[:1], scales, scales),
        (blocks, codes, short, scales),
        (blocks, codes, scales, short),
    ):
        with pytest.raises(QuantizationError, match="must be a contiguous array of"):
            unpack(*arguments)


def test_q4_k_by_hand() -> None:
    """d = 2, dmin = 0.5; scales and minima by the picture in `k_quants.py`."""
    block = np.zeros((1, 144), np.uint8)
    block[0, 0:4] = [0x00, 0x40, 0x00, 0x38]
    block[0, 4] = 0b10_000011  # scale 0 = 3; upper bits of scale 4 = 2
    block[0, 8] = 0b01_000101  # minimum 0 = 5; upper bits of minimum 4 = 1
    block[0, 12] = 0b0111_0001  # lower bits: scale 4 = 1, minimum 4 = 7
    block[0, 16] = 0xA9  # weight 0: code 9, weight 32: code 10
    parts, codes, scales, minima = _unpack("Q4_K", block)
    assert scales[0].tolist() == [2.0 * 3, 0, 0, 0, 2.0 * (2 * 16 + 1), 0, 0, 0]
    assert minima[0].tolist() == [0.5 * 5, 0, 0, 0, 0.5 * (1 * 16 + 7), 0, 0, 0]
    assert (codes[0, 0], codes[0, 32]) == (9, 10)
    assert np.count_nonzero(codes) == 2
    assert parts.levels.tolist() == list(range(16))


def test_q6_k_by_hand() -> None:
    """d = 1; sub-block 5 holds weights 80 to 95, its scale is -3."""
    block = np.zeros((1, 210), np.uint8)
    block[0, 208:] = [0x00, 0x3C]
    block[0, 192 + 5] = 0xFD
    block[0, 16 + 3] = 0x50  # low bits of weights 19 and 83
    block[0, 128 + 16 + 3] = 0b00_11_00_00  # high bits of weight 83
    _, codes, scales, _ = _unpack("Q6_K", block)
    assert scales[0, 5] == -3.0
    assert np.flatnonzero(codes[0]).tolist() == [83]
    assert codes[0, 83] == 3 * 16 + 5
    assert dequantize(block, "Q6_K")[83] == -3.0 * (53 - 32)


def test_fp4_levels_are_those_of_the_standard() -> None:
    """MX 1.0, table 5: E2M1; scale 2^(e - 127)."""
    block = np.full((1, 17), 0x7F, np.uint8)  # codes 15 (low) and 7 (high), e = 127
    parts, codes, scales, _ = _unpack("MXFP4", block)
    assert parts.levels[:8].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    assert parts.levels[codes[0, [0, 16]]].tolist() == [-6.0, 6.0]
    assert scales.tolist() == [[1.0]]


def test_the_minimum_of_q4_1_is_what_is_subtracted() -> None:
    block = np.zeros((1, 20), np.uint8)
    block[0, :4] = [0x00, 0x3C, 0x00, 0xC0]  # d = 1, m = -2
    _, _, scales, minima = _unpack("Q4_1", block)
    assert (scales[0, 0], minima[0, 0]) == (1.0, 2.0)
