"""Every decoder, bit for bit: against ggml's C code (golden blocks), the gguf package (any bytes),
and where neither has the type, the formulas of `docs/gguf.md`, section 8 in NumPy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.paths import resource
from explorer.quantization import TENSOR_TYPES, QuantizationError, dequantize
from explorer.quantization.bit_kernels import decoder_of
from explorer.quantization.grids import Grid, stored_grid
from explorer.quantization.iq import TYPES
from explorer.quantization.jit import _float32_of_half_portable, float32_of_half, kernel
from explorer.quantization.registry import (
    WITHOUT_DECODER,
    block_layout,
    decoder,
    has_block_layout,
    has_decoder,
)
from tests.helpers.tensors import QUANTIZED, assert_same_bits

OF_GGML = [*QUANTIZED, "F16", "BF16"]
# all but those that the gguf package (0.17) sizes and does not dequantize
WITH_PEER = [name for name in OF_GGML if name not in ("Q8_1", "Q8_K", "Q1_0", "Q2_0")]
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
_SCALE_BYTES = {"f16": 2, "f32": 4, "E8M0": 1, "UE4M3": 4}

Blocks = NDArray[np.uint8]
Weights = NDArray[np.float32]


def _blocks(name: str, count: int, seed: int, scale: bytes) -> Blocks:
    """Return blocks of random bytes; the first has the given bytes for each of its scales."""
    generator = np.random.default_rng(seed)
    blocks = generator.integers(0, 256, (count, TENSOR_TYPES[name].block_bytes), np.uint8)
    for field in block_layout(name).fields if has_block_layout(name) else ():
        if field.dtype in _SCALE_BYTES:
            blocks[0, field.offset : field.offset + field.nbytes] = list(scale[: field.nbytes])
    if name == "IQ1_M":  # its half float is in four parts
        parts, half = blocks[0, 48:56].view(np.uint16), int.from_bytes(scale[:2], "little")
        parts &= 0xFFF
        parts |= (half >> (4 * np.arange(4)) << 12 & 0xF000).astype(np.uint16)
    return blocks


@pytest.mark.parametrize("name", TENSOR_TYPES)
def test_every_type_has_a_decoder_or_a_reason_for_having_none(name: str) -> None:
    assert has_decoder(name) == (name not in WITHOUT_DECODER)
    if has_decoder(name):
        assert callable(decoder(name))
    else:
        assert len(WITHOUT_DECODER[name]) > 10


@pytest.mark.parametrize("name", OF_GGML)
def test_golden_blocks(name: str) -> None:
    """As they are, and read-only at an odd address."""
    with np.load(_DATA / "decoders_golden.npz", allow_pickle=False) as golden:
        blocks, weights = golden[f"{name}.blocks"], golden[f"{name}.weights"]
    assert len(blocks) >= (4 if name == "Q8_1" else 12)
    stored = np.frombuffer(b"\0" + blocks.tobytes(), np.uint8)[1:].reshape(blocks.shape)
    assert not stored.flags.writeable
    for given_blocks in (blocks, stored):
        assert_same_bits(dequantize(given_blocks, name), weights)
    assert dequantize(blocks[:0], name).size == 0


@pytest.mark.parametrize(
    ("blocks", "weights"),
    [
        (np.zeros((2, 34), np.uint8), np.zeros((1, 32), np.float32)),
        (np.zeros((1, 34), np.uint8), np.zeros((2, 32), np.float32)),
        (np.zeros((1, 33), np.uint8), np.zeros((1, 32), np.float32)),
        (np.zeros(34, np.uint8), np.zeros((1, 32), np.float32)),
        (np.zeros((1, 34), np.int8), np.zeros((1, 32), np.float32)),
        (np.zeros((1, 34), np.uint8), np.zeros((1, 32))),
        (np.zeros((1, 68), np.uint8)[:, ::2], np.zeros((1, 32), np.float32)),
        (np.zeros((2, 34), np.uint8), np.zeros((2, 64), np.float32)[:, ::2]),
    ],
)
def test_arrays_that_do_not_fit_are_refused_before_a_kernel_runs(blocks: Any, weights: Any) -> None:
    with pytest.raises(QuantizationError, match="must be a contiguous array of"):
        decoder("Q8_0")(blocks, weights)


def test_weights_are_not_written_over_read_only_memory() -> None:
    out = np.zeros((1, 32), np.float32)
    out.flags.writeable = False
    with pytest.raises(QuantizationError, match="writable"):
        decoder("Q8_0")(np.zeros((1, 34), np.uint8), out)


@pytest.mark.parametrize("name", OF_GGML)
def test_all_golden_blocks(name: str, shared_reference: Path) -> None:
    compared = set()
    with np.load(shared_reference / "ggml_golden.npz", allow_pickle=False) as golden:
        for kind in ("quant", "imat", "rand", "edge"):
            if f"{name}.{kind}_raw" in golden:
                ours = dequantize(golden[f"{name}.{kind}_raw"], name)
                assert_same_bits(ours, golden[f"{name}.{kind}_deq"])
                compared.add(kind)
    assert compared >= ({"quant"} if name == "Q8_1" else {"quant", "rand"})


@pytest.mark.parametrize("name", WITH_PEER)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), scale=st.binary(min_size=4, max_size=4))
def test_any_bytes_as_the_gguf_package(name: str, seed: int, scale: bytes) -> None:
    gguf = pytest.importorskip("gguf")
    kind = getattr(gguf.GGMLQuantizationType, name, None)
    if kind is None:
        pytest.skip(f"this gguf package does not know {name}")
    blocks = _blocks(name, 5, seed, scale)
    with np.errstate(all="ignore"):
        theirs = gguf.quants.dequantize(blocks, kind)
    assert_same_bits(dequantize(blocks, name), theirs.astype(np.float32))


def _halves(blocks: Blocks) -> Weights:
    return blocks[:, :2].copy().view(np.float16).astype(np.float32)


def _q1_0(blocks: Blocks) -> Weights:
    d = _halves(blocks)
    return np.where(np.unpackbits(blocks[:, 2:], axis=1, bitorder="little") == 1, d, -d)


def _q2_0(blocks: Blocks) -> Weights:
    codes = blocks[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8) & 3
    return (codes.reshape(len(blocks), 64).astype(np.float32) - 1) * _halves(blocks)


def _q8_1(blocks: Blocks) -> Weights:
    return blocks[:, 4:].view(np.int8).astype(np.float32) * _halves(blocks)


def _q8_k(blocks: Blocks) -> Weights:
    d = blocks[:, :4].copy().view(np.float32)
    return d * blocks[:, 4:260].view(np.int8).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "formula"), [("Q8_1", _q8_1), ("Q8_K", _q8_k), ("Q1_0", _q1_0), ("Q2_0", _q2_0)]
)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), scale=st.binary(min_size=4, max_size=4))
def test_any_bytes_as_the_formula(
    name: str, formula: Callable[[Blocks], Weights], seed: int, scale: bytes
) -> None:
    blocks = _blocks(name, 5, seed, scale)
    with np.errstate(all="ignore"):
        theirs = formula(blocks)
    assert_same_bits(dequantize(blocks, name), theirs)


@pytest.mark.parametrize("bits", [0x7C00, 0xFC00, 0x7E00, 0xFFFF, 0x0001, 0x8001, 0x8000, 0x7BFF])
def test_scales_that_are_no_usual_numbers(bits: int) -> None:
    """Infinite, NaN, subnormal, negative zero, the largest: by the formula of Q4_1."""
    d = np.array([bits], np.uint16).view(np.float16).astype(np.float32)[0]
    codes = np.arange(16)
    block = bits.to_bytes(2, "little") + b"\0\x3c" + bytes(int(q) * 17 for q in codes)  # m = 1
    with np.errstate(invalid="ignore"):
        wanted = np.tile(codes.astype(np.float32) * d + np.float32(1), 2)
    assert_same_bits(dequantize(block, "Q4_1"), wanted)


def test_mxfp4_exponents_beside_the_usual() -> None:
    """The two subnormal scales, and 255, which ggml does not treat as NaN (`docs/gguf.md`)."""
    blocks = np.full((4, 17), 0x11, np.uint8)  # code 1: 0.5, doubled 1
    blocks[:, 0] = [0, 1, 2, 255]
    weights = dequantize(blocks, "MXFP4").reshape(4, 32)
    assert weights[:, 0].tolist() == [2.0**-128, 2.0**-127, 2.0**-126, 2.0**127]


def test_nvfp4_scales_beside_the_usual() -> None:
    """0 and 0x7F are 0, 0xFF is not, 1 is the least subnormal (`docs/gguf.md`)."""
    block = bytes([0x00, 0x7F, 0xFF, 0x01]) + b"\x22" * 32  # code 2: 1, doubled 2
    assert dequantize(block, "NVFP4")[::16].tolist() == [0.0, 0.0, 480.0, 2.0**-9]


PLAIN = {
    "F32": "<f4",
    "F64": "<f8",
    "I8": "i1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
    "U8": "u1",
    "U16": "<u2",
    "U32": "<u4",
    "U64": "<u8",
}


@pytest.mark.parametrize("name", PLAIN)
@given(data=st.data())
def test_plain_numbers_are_rounded_as_numpy_does(name: str, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 9))
    size = TENSOR_TYPES[name].block_bytes * count
    raw = data.draw(st.binary(min_size=size, max_size=size))
    with np.errstate(all="ignore"):
        wanted = np.frombuffer(raw, PLAIN[name]).astype(np.float32)
    assert_same_bits(dequantize(raw, name), wanted)


def test_booleans_are_0_and_1() -> None:
    assert dequantize(b"\0\1\1", "BOOL").tolist() == [0.0, 1.0, 1.0]


@kernel
def _widen(halves: Any, native: Any, portable: Any) -> None:
    for i in range(halves.size):
        native[i] = float32_of_half(halves[i])
        portable[i] = _float32_of_half_portable(halves[i])


def test_both_ways_to_widen_every_half() -> None:
    halves = np.arange(65536, dtype=np.uint16)
    native, portable = np.empty(65536, np.float32), np.empty(65536, np.float32)
    _widen(halves, native, portable)
    wanted = halves.view(np.float16).astype(np.float32)
    assert_same_bits(native, wanted)
    assert_same_bits(portable, wanted)


@kernel
def _multiply_and_add(a: Any, b: Any, c: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = a[i] * b[i] + c[i]


def test_kernels_round_after_each_operation() -> None:
    generator = np.random.default_rng(5)
    a, b = generator.standard_normal((2, 4096)).astype(np.float32)
    c = -(a * b)  # a fused multiply-add would give the rounding error of a * b
    out = np.empty(4096, np.float32)
    _multiply_and_add(a, b, c, out)
    assert not out.any()


# Grids of IQ types


@pytest.mark.parametrize("grid", Grid)
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


def test_threads_share_kernels_and_grids() -> None:
    kernel = decoder_of("IQ2_S", TYPES["IQ2_S"])  # one that is not compiled yet
    with np.load(_DATA / "decoders_golden.npz", allow_pickle=False) as golden:
        blocks, weights = golden["IQ2_S.blocks"], golden["IQ2_S.weights"]
    with ThreadPoolExecutor(4) as pool:
        outs = [np.empty((len(blocks), 256), np.float32) for _ in range(16)]
        for out, _ in zip(outs, pool.map(lambda out: kernel(blocks, out), outs), strict=True):
            assert_same_bits(out.reshape(weights.shape), weights)


def test_the_grids_carry_their_licence() -> None:
    text = resource("grids/license.txt").read_text(encoding="utf-8")
    assert "Copyright (c) 2023-2026 The ggml authors" in text


def test_importing_the_family_reads_no_grid() -> None:
    program = (
        "import explorer.quantization.iq\n"
        "from explorer.quantization.bits import grid_codes\n"
        "assert grid_codes.cache_info().currsize == 0\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], check=False, cwd=_ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
