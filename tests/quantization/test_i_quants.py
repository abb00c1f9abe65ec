"""IQ types: any bytes against the gguf package, grids, levels."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.paths import resource
from explorer.quantization import TENSOR_TYPES, QuantizationError, iq, iq4
from explorer.quantization.iq import SIGNS_OF_CODE, Grid, kernel_grid, stored_grid
from explorer.quantization.registry import block_layout, decoder

TYPES = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS")
_ROOT = Path(__file__).parents[2]
_DATA = _ROOT / "tests" / "data"

# docs/gguf.md, section 8, the table of grids
_GRIDS = {
    "iq1s": ((2048, 8), {-1, 0, 1}),
    "iq2xxs": ((256, 8), {8, 25, 43}),
    "iq2xs": ((512, 8), {8, 25, 43}),
    "iq2s": ((1024, 8), {8, 25, 43}),
    "iq3xxs": ((256, 4), {4, 12, 20, 28, 36, 44, 52, 62}),
    "iq3s": ((512, 4), set(range(1, 16, 2))),
}
_SIZES_OF_LEVELS = {"IQ1": 6, "IQ2": 6, "IQ3": 16, "IQ4": 16}

Blocks = NDArray[np.uint8]
Weights = NDArray[np.float32]


def _decoded(name: str, blocks: Blocks) -> Weights:
    out = np.full((len(blocks), TENSOR_TYPES[name].block_weights), 7.5, np.float32)
    decoder(name)(blocks, out)
    return out


def _assert_same_bits(ours: Weights, theirs: Weights) -> None:
    """NaN is NaN: its sign and payload are the processor's choice."""
    theirs = theirs.reshape(ours.shape)
    same = (ours.view(np.uint32) == theirs.view(np.uint32)) | (np.isnan(ours) & np.isnan(theirs))
    assert same.all(), f"{np.count_nonzero(~same)} weights differ, the first at {np.argmin(same)}"


def _random_blocks(name: str, count: int, seed: int) -> Blocks:
    generator = np.random.default_rng(seed)
    shape = (count, TENSOR_TYPES[name].block_bytes)
    return generator.integers(0, 256, shape, np.uint8)


def _golden(name: str) -> tuple[Blocks, Weights]:
    with np.load(_DATA / "decoders_golden.npz", allow_pickle=False) as file:
        return file[f"{name}.blocks"], file[f"{name}.weights"]


def test_the_family_is_complete() -> None:
    assert set(iq.DECODERS) | set(iq4.DECODERS) == set(TYPES)


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1), scale=st.integers(0, 0xFFFF))
def test_any_bytes_as_the_gguf_package(name: str, seed: int, scale: int) -> None:
    gguf = pytest.importorskip("gguf")
    blocks = _random_blocks(name, 6, seed)
    # Every bit pattern of a half is a scale: subnormal, infinite and NaN ones too.
    if name == "IQ1_M":
        parts = blocks[0, 48:56].view(np.uint16)
        parts &= 0xFFF
        parts |= (scale >> (4 * np.arange(4)) << 12 & 0xF000).astype(np.uint16)
    else:
        blocks[0, :2] = (scale & 0xFF, scale >> 8)
    with np.errstate(over="ignore", invalid="ignore"):
        theirs = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name])
    _assert_same_bits(_decoded(name, blocks), theirs)


@pytest.mark.parametrize("bits", [0x7C00, 0xFC00, 0x7E00, 0x0001, 0x8001, 0x8000])
def test_scales_that_are_no_usual_numbers(bits: int) -> None:
    """Infinite, NaN, subnormal and negative zero, by the formula of docs/gguf.md."""
    d = np.array([bits], np.uint16).view(np.float16).astype(np.float32)[0]
    blocks = np.zeros((1, 18), np.uint8)
    blocks[0, :2] = (bits & 0xFF, bits >> 8)
    blocks[0, 2:] = np.arange(16) * 17
    levels = np.tile(block_layout("IQ4_NL").levels, 2)
    with np.errstate(invalid="ignore"):
        _assert_same_bits(_decoded("IQ4_NL", blocks), d * levels)


def test_no_blocks() -> None:
    for name in TYPES:
        assert _decoded(name, np.empty((0, TENSOR_TYPES[name].block_bytes), np.uint8)).size == 0


@pytest.mark.parametrize("name", ["IQ1_M", "IQ2_XXS", "IQ4_XS"])
def test_read_only_blocks_at_an_odd_address(name: str) -> None:
    blocks, weights = _golden(name)
    stored = np.frombuffer(b"\0" + blocks.tobytes(), np.uint8)[1:].reshape(blocks.shape)
    assert not stored.flags.writeable
    _assert_same_bits(_decoded(name, stored), weights)


def test_strided_arrays_are_refused() -> None:
    spread = np.zeros((2, 36), np.uint8)[:, ::2]
    with pytest.raises(QuantizationError, match="contiguous"):
        _decoded("IQ4_NL", spread)


def test_other_numbers_than_float32_are_refused() -> None:
    with pytest.raises(QuantizationError, match="float32"):
        decoder("IQ4_NL")(np.zeros((1, 18), np.uint8), np.zeros((1, 32)))  # type: ignore[arg-type]


def test_weights_are_not_written_over_read_only_memory() -> None:
    out = np.zeros((1, 32), np.float32)
    out.flags.writeable = False
    with pytest.raises(QuantizationError, match="writable"):
        decoder("IQ4_NL")(np.zeros((1, 18), np.uint8), out)


def test_threads_share_kernels_and_grids() -> None:
    kernel_grid.cache_clear()
    blocks, weights = _golden("IQ2_S")
    with ThreadPoolExecutor(4) as pool:
        for ours in pool.map(lambda _: _decoded("IQ2_S", blocks), range(16)):
            _assert_same_bits(ours, weights)


@pytest.mark.parametrize("grid", [grid for grid in Grid if grid is not Grid.IQ4])
def test_code_grids(grid: Grid) -> None:
    gguf = pytest.importorskip("gguf")
    shape, values = _GRIDS[grid.value]
    rows = stored_grid(grid)
    assert rows.shape == shape
    assert set(rows.flat) == values
    name = {"iq1s": "IQ1_S"}.get(grid.value, f"{grid.value[:3]}_{grid.value[3:]}".upper())
    peer: Any = getattr(gguf.quants, name)
    peer.init_grid()
    assert np.array_equal(rows, peer.grid.reshape(shape))
    read_by_kernels = kernel_grid(grid)
    assert read_by_kernels.shape in {shape, shape[:1]}
    assert not read_by_kernels.flags.writeable


def test_sign_codes_have_an_even_number_of_minus_signs() -> None:
    assert np.array_equal(SIGNS_OF_CODE & 127, np.arange(128))
    assert not (np.bitwise_count(SIGNS_OF_CODE) & 1).any()


def test_the_grids_carry_their_licence() -> None:
    text = resource("grids/license.txt").read_text(encoding="utf-8")
    assert "Copyright (c) 2023-2026 The ggml authors" in text


def test_importing_the_family_reads_no_grid() -> None:
    program = (
        "import explorer.quantization.iq as family\n"
        "assert family.kernel_grid.cache_info().currsize == 0\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], check=False, cwd=_ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", TYPES)
def test_codes_and_scales_make_the_same_weights(name: str) -> None:
    kind = TENSOR_TYPES[name]
    parts = block_layout(name)
    blocks = np.concatenate([_golden(name)[0], _random_blocks(name, 64, 3)])
    weights = _decoded(name, blocks)
    codes = np.full(weights.shape, 255, np.uint8)
    per_block = kind.block_weights // parts.weights_per_scale
    scales = np.full((len(blocks), per_block), 7.5, np.float32)
    parts.unpack(blocks, codes, scales, np.empty((len(blocks), 0), np.float32))
    assert len(parts.levels) == _SIZES_OF_LEVELS[name[:3]]
    assert (np.diff(parts.levels) > 0).all()
    assert set(np.unique(codes)) == set(range(len(parts.levels)))
    finite = np.isfinite(scales).all(axis=1)
    assert np.count_nonzero(finite) > 64
    scale_of_weight = np.repeat(scales, parts.weights_per_scale, axis=1)
    again = scale_of_weight[finite] * parts.levels[codes[finite]]
    assert np.array_equal(again, weights[finite])


@pytest.mark.parametrize("name", TYPES)
def test_fields_cover_the_block(name: str) -> None:
    end = 0
    for field in block_layout(name).fields:
        assert field.offset == end
        end += field.nbytes
    assert end == TENSOR_TYPES[name].block_bytes
