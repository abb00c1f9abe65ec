"""Loops that decode blocks themselves give what loops over decoded weights give, to the bit."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.analysis.histogram import Binning, RunningCounts
from explorer.analysis.kernel_api import PIECE, BlockDecoding, ThreadDecoding
from explorer.analysis.moments import RunningMoments
from explorer.analysis.statistics import tensor_statistics
from explorer.formats.weights import CHUNK_WEIGHTS
from explorer.quantization import TENSOR_TYPES, dequantize
from explorer.quantization.registry import decoder_callback, has_decoder
from tests.helpers.tensors import random_blocks, tensor_of

_IN_KERNELS = [
    name for name in TENSOR_TYPES if has_decoder(name) and decoder_callback(name) is not None
]


def _weights(name: str, blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    return dequantize(blocks.reshape(-1), name)


def _in_chunks(weights: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    return [weights[at : at + CHUNK_WEIGHTS] for at in range(0, weights.size, CHUNK_WEIGHTS)]


def _totals(counts: RunningCounts, binning: Binning) -> list[NDArray[np.int64]]:
    """Return what was counted by one binning, or by several equal ones."""
    total = RunningCounts([binning] * len(counts._sizes))
    total.combine(counts)
    return total.totals


def _same(one: RunningMoments, other: RunningMoments) -> None:
    np.testing.assert_array_equal(one.figures, other.figures)
    assert one.moments() == other.moments() or one.finite == 0


def test_most_types_are_decoded_in_kernels() -> None:
    assert {"F16", "BF16", "Q4_0", "Q8_0", "Q2_K", "Q4_K", "Q6_K", "MXFP4"} <= set(_IN_KERNELS)
    assert not {"F32", "I8", "IQ2_S"} & set(_IN_KERNELS)
    assert ThreadDecoding(tensor_of("F32", bytes(4), (1,))).decoding is None


@pytest.mark.slow  # two programs, one of which compiles
def test_a_decoder_that_was_compiled_by_a_call_is_not_compiled_again(tmp_path: Path) -> None:
    told = []
    for use in ("decoder('Q8_0')(np.zeros((1, 34), np.uint8), np.zeros((1, 32), np.float32))", ""):
        program = f"""
import numpy as np
from explorer.quantization.registry import decoder, decoder_callback
from tests.soak.kernels import compiled_here
{use or "decoder_callback('Q8_0')"}
print(len(compiled_here()))
"""
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).resolve().parents[2],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        told.append(done.stdout)
    assert told == ["1\n", "0\n"]


@pytest.mark.parametrize("name", _IN_KERNELS)
def test_the_same_as_of_decoded_weights(name: str) -> None:
    kind = TENSOR_TYPES[name]
    blocks = random_blocks(name, (3 * PIECE + PIECE // 2) // kind.block_weights)
    decoding = BlockDecoding(kind)
    weights = _weights(name, blocks)
    mine, other = RunningMoments(), RunningMoments()
    mine.add_blocks(blocks, decoding)
    other.add(weights)
    _same(mine, other)
    binning = Binning.of_weights(other.low, other.high, 100)
    counts, expected = RunningCounts([binning] * 2), RunningCounts([binning] * 2)
    counts.add_blocks(blocks, decoding)
    expected.add([weights] * 2)
    for one, two in zip(_totals(counts, binning), _totals(expected, binning), strict=True):
        assert one.sum() == other.finite
        np.testing.assert_array_equal(one, two)


@given(
    st.integers(0, 2 * CHUNK_WEIGHTS // PIECE + 3),
    st.integers(0, PIECE - 1),
    st.lists(st.integers(0, 2 * CHUNK_WEIGHTS), max_size=4),
)
@settings(max_examples=30)
def test_wherever_weights_are_not_finite(pieces: int, rest: int, bad: list[int]) -> None:
    count = pieces * PIECE + rest
    halves = np.random.default_rng(count).normal(size=count).astype("<f2")
    for place, value in zip(bad if count else [], (np.nan, np.inf, -np.inf, np.nan), strict=False):
        halves[place % count : place % count + 1] = value
    blocks = halves.view(np.uint8).reshape(-1, 2)
    mine, other = RunningMoments(), RunningMoments()
    mine.add_blocks(blocks, BlockDecoding(TENSOR_TYPES["F16"]))
    for chunk in _in_chunks(halves.astype(np.float32)):
        other.add(chunk)
    assert mine.moments().nan == np.isnan(halves).sum()
    np.testing.assert_array_equal(mine.figures, other.figures)


def test_a_range_too_narrow_for_float32() -> None:
    blocks = np.full(CHUNK_WEIGHTS + 9, 1.0, "<f2").view(np.uint8).reshape(-1, 2)
    binning = Binning.of_range(1.0, 1.0 + 2.0**-40, 4)
    assert binning.edges.dtype == np.float64
    counts = RunningCounts([binning])
    counts.add_blocks(blocks, BlockDecoding(TENSOR_TYPES["F16"]))
    (total,) = _totals(counts, binning)
    assert binning.histogram(total).counts.tolist() == [CHUNK_WEIGHTS + 9, 0, 0, 0]


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("name", ["Q4_K", "Q8_0", "F16"])
def test_whoever_looks_on_gets_the_same_statistics(name: str, byte_order: str) -> None:
    kind = TENSOR_TYPES[name]
    blocks = random_blocks(name, (5 * PIECE) // kind.block_weights + 1)
    count = len(blocks) * kind.block_weights
    order = "big" if byte_order == "big" else "little"
    tensor = tensor_of(name, blocks.tobytes(), (count,), byte_order=order)
    watched = tensor_statistics(tensor, 100, progress=lambda _snapshot: None)
    for workers in (1, 2):
        found = tensor_statistics(tensor, 100, workers=workers)
        np.testing.assert_array_equal(found.histogram.counts, watched.histogram.counts)
        assert replace(found, histogram=watched.histogram) == watched
