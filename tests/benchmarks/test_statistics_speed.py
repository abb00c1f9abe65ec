"""Statistics and histogram of a tensor, from the file, against the `gguf` package and NumPy.

Both begin with an open file in the disk cache and end with the same figures: counts, extremes,
mean, deviation, skewness, kurtosis and a histogram of 512 bins. The program also gives percentiles
and the error that the block scales imply. They take turns in one process, so that both meet one
machine, and the best of several runs counts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from explorer.analysis.statistics import tensor_statistics
from explorer.formats import open_model
from explorer.quantization import TENSOR_TYPES, quantize
from tests.benchmarks.report import Report
from tests.benchmarks.timing import best_seconds
from tests.helpers.gguf_writer import GgufFile, TensorSpec

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

_BINS = 512
_WEIGHTS = 1 << 24
_TYPES = ("Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_XS", "BF16")


def _write(path: Path, name: str, weights: int) -> Path:
    values = np.random.default_rng(0).normal(0, 0.02, (weights // 4096, 4096)).astype(np.float32)
    raw = quantize(values, name).tobytes()  # scales recur as they do in a model
    spec = TensorSpec("weights", (4096, weights // 4096), TENSOR_TYPES[name].id or 0, raw)
    return GgufFile(tensors=[spec]).write(path)


def _peer_statistics(weights: NDArray[np.float32]) -> tuple[float, ...]:
    """Do what one does with NumPy, without wasting time."""
    exact = weights.astype(np.float64)
    mean = exact.mean()
    distance = exact - mean
    square = distance * distance
    variance = square.mean()
    return (
        float(np.isfinite(weights).sum()),
        float((weights == 0).sum()),
        float(weights.min()),
        float(weights.max()),
        float(mean),
        float(np.sqrt(variance)),
        float((square * distance).mean() / variance**1.5),
        float((square * square).mean() / variance**2),
    )


@pytest.mark.parametrize("name", _TYPES)
def test_statistics_10_times_faster_than_gguf_and_numpy(
    name: str, tmp_path: Path, report: Report
) -> None:
    gguf = pytest.importorskip("gguf")
    path = _write(tmp_path / "made.gguf", name, _WEIGHTS)
    stored = gguf.GGUFReader(path).tensors[0]
    found: dict[str, object] = {}

    def peer() -> None:
        weights = np.ascontiguousarray(gguf.dequantize(stored.data, stored.tensor_type), np.float32)
        flat = weights.reshape(-1)
        found["histogram"] = np.histogram(flat, _BINS)[0]
        found["figures"] = _peer_statistics(flat)

    with open_model(path) as model:
        tensor = model.tensors["weights"]
        ours = tensor_statistics(tensor, _BINS)  # compiles
        peer()
        np.testing.assert_array_equal(ours.histogram.counts, found["histogram"])
        figures = (ours.finite, ours.zeros, ours.min, ours.max, ours.mean, ours.std)
        told = (*figures, ours.skewness, ours.kurtosis)
        np.testing.assert_allclose(told, found["figures"], rtol=1e-9, atol=1e-9)
        mine, theirs = best_seconds(lambda: tensor_statistics(tensor, _BINS), peer)
    what = f"statistics and a histogram of {_BINS} bins of {name}, one core"
    report.compare(what, mine, ("`gguf` and NumPy", theirs), most=1 / 10, weights=_WEIGHTS)
