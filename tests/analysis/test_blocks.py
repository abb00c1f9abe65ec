"""Codes and scales of blocks, against the blocks' own bytes; the mean square of scales."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from explorer.analysis.blocks import block_statistics, level_error
from explorer.analysis.statistics import tensor_statistics
from explorer.formats import open_model
from explorer.quantization import TENSOR_TYPES
from tests.helpers.tensors import QUANTIZED, float_tensor, random_blocks, tensor_of


def test_codes_and_scales_of_q8_0() -> None:
    blocks = random_blocks("Q8_0", 3000)
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32).reshape(-1)
    values = blocks[:, 2:].view(np.int8)
    found = block_statistics(tensor_of("Q8_0", blocks.tobytes(), (3000, 32)), bins=20, workers=2)
    assert found is not None
    assert found.minima is None
    assert found.weights_per_scale == 32
    order = np.argsort(found.levels)
    expected = [(values == level).sum() for level in found.levels[order]]
    np.testing.assert_array_equal(found.code_counts[order], expected)
    np.testing.assert_array_equal(found.scales.histogram.counts, np.histogram(scales, 20)[0])
    moments = found.scales.moments
    exact = scales.astype(np.float64)
    assert (moments.count, moments.min, moments.max) == (3000, scales.min(), scales.max())
    assert (moments.mean, moments.std) == pytest.approx((exact.mean(), exact.std()), rel=1e-12)


def test_minima_of_q4_1() -> None:
    blocks = random_blocks("Q4_1", 500)
    minima = blocks[:, 2:4].copy().view("<f2").astype(np.float64)
    found = block_statistics(tensor_of("Q4_1", blocks.tobytes(), (500, 32)))
    assert found is not None
    assert found.minima is not None
    assert found.minima.moments.mean == pytest.approx(-minima.mean(), rel=1e-12)  # is subtracted
    assert found.code_counts.sum() == 16_000
    assert found.code_counts.size == 16


@pytest.mark.parametrize("name", QUANTIZED)
def test_every_quantized_type(name: str) -> None:
    kind = TENSOR_TYPES[name]
    tensor = tensor_of(name, random_blocks(name, 40).tobytes(), (40 * kind.block_weights,))
    found = block_statistics(tensor)
    assert found is not None
    assert found.code_counts.sum() == tensor.parameters
    assert found.scales.moments.count == tensor.parameters // found.weights_per_scale
    assert tensor_statistics(tensor).step_error_rms is not None


def test_weights_without_codes() -> None:
    assert block_statistics(float_tensor([1.0, 2.0])) is None


def test_scales_in_arrays_of_their_own(shared_data: Path) -> None:
    folder = shared_data / "ollama_store/models/manifests/registry.ollama.ai/library/tinydense"
    with open_model(folder / "int4") as model:
        kinds = {t.type.name: t for t in model.tensors.rows if t.companions is not None}
        assert {"int4", "int8", "nvfp4", "mxfp4", "mxfp8"} <= set(kinds)
        for tensor in kinds.values():
            found = block_statistics(tensor)
            assert found is not None
            assert found.code_counts.sum() == tensor.parameters
            whole = tensor_statistics(tensor)
            assert whole.step_error_rms is not None
            assert 0 < whole.step_error_rms < whole.std


def test_error_of_levels() -> None:
    assert level_error(np.arange(16, dtype=np.float32)) == pytest.approx(1 / math.sqrt(12))
    assert level_error(np.array([3, -1, 1, -3, 1], np.float32)) == pytest.approx(2 / math.sqrt(12))
    # Rounding numbers that are spread evenly over the range, done:
    levels = np.array([-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12], np.float32)
    numbers = np.linspace(-12, 12, 100_001)
    nearest = np.abs(numbers[:, None] - levels).min(axis=1)
    assert level_error(levels) == pytest.approx(math.sqrt(np.mean(nearest**2)), rel=1e-3)
    assert level_error(np.array([1.0], np.float32)) == 0
