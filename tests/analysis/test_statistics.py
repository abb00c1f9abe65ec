"""Statistics of tensors: against NumPy on the whole, the same on any number of threads, watched."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from explorer.analysis import statistics
from explorer.analysis.blocks import RunningLevels, running_levels
from explorer.analysis.histogram import Histogram
from explorer.analysis.moments import PERCENTS, Moments
from explorer.analysis.statistics import GrowingStatistics, TensorStatistics, tensor_statistics
from explorer.errors import FormatError
from explorer.formats import Tensor, open_model
from explorer.parallel import never
from explorer.quantization import TENSOR_TYPES
from tests.helpers.gguf_writer import GgufFile, TensorSpec
from tests.helpers.tensors import HALVES, CountingSource, float_tensor, random_blocks, tensor_of
from tests.helpers.threads import own_threads

_ROOT = Path(__file__).resolve().parents[2]


def _check(found: TensorStatistics, weights: NDArray[np.float32], bins: int) -> None:
    """Compare with NumPy's statistics of all weights, in float64 where they are added up."""
    flat = weights.reshape(-1)
    finite = flat[np.isfinite(flat)]
    assert (found.count, found.finite) == (flat.size, finite.size)
    assert (found.nan, found.inf) == (np.isnan(flat).sum(), np.isinf(flat).sum())
    assert found.zeros == (finite == 0).sum()
    counts, edges = np.histogram(finite, bins)
    np.testing.assert_array_equal(found.histogram.counts, counts)
    np.testing.assert_array_equal(found.histogram.edges, edges)
    (mean,) = _averages(finite, lambda exact: [exact])
    (square,) = _averages(finite, lambda exact: [exact * exact])
    variance, third, fourth = _averages(finite, lambda exact: _powers(exact - mean))
    std = math.sqrt(variance)
    assert (found.mean, found.std, found.rms) == pytest.approx(
        (mean, std, math.sqrt(square)), rel=1e-11, abs=1e-14 * std
    )
    assert (found.skewness, found.kurtosis) == pytest.approx(
        (third / std**3, fourth / std**4), rel=1e-9, abs=1e-9
    )
    finite.sort()
    least, most = float(finite[0]), float(finite[-1])
    assert (found.min, found.max, found.abs_max) == (least, most, max(-least, most))
    places = np.array(PERCENTS) / 100 * (finite.size - 1)
    below, above = (finite[place.astype(int)] for place in (np.floor(places), np.ceil(places)))
    np.testing.assert_allclose(
        list(found.percentiles.values()),
        below + (above - below) * (places % 1),
        rtol=0,
        atol=(most - least) / 65_536,
    )


def _averages(
    weights: NDArray[np.float32], of: Callable[[NDArray[np.float64]], list[NDArray[np.float64]]]
) -> list[float]:
    """Return averages over all weights, in pieces: whole arrays of float64 take gigabytes."""
    pieces = (weights[at : at + 65_536] for at in range(0, weights.size, 65_536))
    sums = [[float(one.sum()) for one in of(piece.astype(np.float64))] for piece in pieces]
    return [math.fsum(column) / weights.size for column in zip(*sums, strict=True)]


def _powers(distance: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    square = distance * distance
    return [square, square * distance, square * square]


class _Snapshot(NamedTuple):
    done: int
    moments: Moments
    histogram: Histogram


def _watch(growing: GrowingStatistics) -> tuple[TensorStatistics, list[_Snapshot]]:
    snapshots = [_Snapshot(done, *growing.so_far()) for done in growing.walk()]
    return growing.statistics, snapshots


@pytest.mark.parametrize("name", ["Q4_K", "Q6_K", "Q8_0", "Q5_1", "IQ4_NL", "F16", "BF16"])
def test_statistics_are_numpys(name: str) -> None:
    kind = TENSOR_TYPES[name]
    count = 600_000 // kind.block_weights
    tensor = tensor_of(name, random_blocks(name, count).tobytes(), (count, kind.block_weights))
    found = tensor_statistics(tensor, bins=100)
    assert (found.tensor, found.type, found.shape) == (tensor.name, name, tensor.shape)
    weights = tensor.dequantize()
    if name == "BF16":  # random bits: numbers of every size there is
        finite = weights[np.isfinite(weights)].astype(np.float64)  # float32 would overflow
        np.testing.assert_array_equal(found.histogram.counts, np.histogram(finite, 100)[0])
        assert found.nan == np.isnan(weights).sum() > 0
    else:
        _check(found, weights, 100)


_RECURRING = np.array([0.01, -0.02, 0.05, 0.0, -0.0, 3e-7, 0.03], "<f2")


def _recurring(name: str, count: int, scales: Any = _RECURRING) -> NDArray[np.uint8]:
    """Return blocks of random codes that have one of a few scales each."""
    blocks = random_blocks(name, count)
    for offset in HALVES.get(name, ()):
        own = np.random.default_rng(1).choice(scales, (count, 1)).astype("<f2")
        blocks[:, offset : offset + 2] = own.view(np.uint8)
    return blocks


def _walk_twice(tensor: Tensor, monkeypatch: pytest.MonkeyPatch) -> TensorStatistics:
    with monkeypatch.context() as patch:
        patch.setattr(statistics, "running_levels", lambda *_: None)
        return tensor_statistics(tensor, 100)


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q5_0", "IQ4_NL", "IQ4_XS", "TQ2_0", "NVFP4"])
def test_weights_counted_by_scale_and_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = TENSOR_TYPES[name]
    blocks = _recurring(name, 2_400_000 // kind.block_weights)
    tensor = tensor_of(name, blocks.tobytes(), (len(blocks), kind.block_weights))
    assert isinstance(running_levels(tensor, never), RunningLevels)
    found, twice = tensor_statistics(tensor, 100), _walk_twice(tensor, monkeypatch)
    _check(found, tensor.dequantize(), 100)
    assert found.percentiles == twice.percentiles
    assert found.step_error_rms == pytest.approx(twice.step_error_rms, rel=1e-12)
    for workers in (2, 5):
        assert _told(tensor_statistics(tensor, 100, workers=workers)) == _told(found)
    watched, snapshots = _watch(GrowingStatistics(tensor, 100, rough=True))
    assert _told(watched) == _told(found)
    assert snapshots[-1].moments.mean == found.mean
    np.testing.assert_array_equal(snapshots[-1].histogram.counts, found.histogram.counts)


def _told(found: TensorStatistics) -> str:
    return repr(replace(found, histogram=found.histogram.counts.tolist()))


@pytest.mark.parametrize("late", [np.arange(1, 20_000, dtype="<u2").view("<f2"), [np.inf]])
def test_late_scales_that_are_too_many_or_infinite(
    late: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 100_000
    blocks = np.concatenate((_recurring("Q4_0", count), _recurring("Q4_0", count, late)))
    tensor = tensor_of("Q4_0", blocks.tobytes(), (2 * count, 32))
    assert isinstance(running_levels(tensor, never), RunningLevels)
    twice, steps = _walk_twice(tensor, monkeypatch), list[int]()
    for workers in (1, 3):
        found = tensor_statistics(tensor, 100, workers=workers, steps=steps.append)
        assert _told(found) == _told(twice)
        assert steps == sorted(steps)
        assert steps.pop() == 2 * tensor.parameters
        steps.clear()


def test_no_more_scales_than_pay() -> None:
    tensor = tensor_of("Q8_0", random_blocks("Q8_0", 9000).tobytes(), (9000, 32))
    assert running_levels(tensor, never) is None


def test_a_given_range_does_not_change_the_percentiles() -> None:
    weights = np.random.default_rng(1).normal(size=300_000).astype(np.float32)
    whole = tensor_statistics(float_tensor(weights))
    part = tensor_statistics(float_tensor(weights), 64, (-0.5, 0.25))
    assert part.percentiles == whole.percentiles
    expected, _ = np.histogram(weights, 64, (-0.5, 0.25))
    np.testing.assert_array_equal(part.histogram.counts, expected)
    assert (part.histogram.low, part.histogram.high) == (-0.5, 0.25)


def test_the_same_to_the_bit_on_any_number_of_threads() -> None:
    weights = np.random.default_rng(2).standard_t(3, 5_000_000).astype(np.float32)
    weights[::100_001] = np.nan
    tensor = float_tensor(weights)
    one, two, five = (tensor_statistics(tensor, workers=workers) for workers in (1, 2, 5))
    watched, _ = _watch(GrowingStatistics(tensor, workers=2, rough=True))
    steps: list[int] = []
    counted = tensor_statistics(tensor, workers=2, steps=steps.append)
    assert steps == sorted(steps)
    assert steps[-1] == 2 * weights.size
    for other in (two, five, watched, counted):
        for name in ("mean", "std", "rms", "skewness", "kurtosis", "percentiles", "nan", "min"):
            assert getattr(other, name) == getattr(one, name)
        np.testing.assert_array_equal(other.histogram.counts, one.histogram.counts)
    _check(one, weights, 256)


@pytest.mark.parametrize(
    ("weights", "low", "high"),
    [
        ([], 0.0, 1.0),
        ([math.nan, math.inf], 0.0, 1.0),
        ([3.0], 2.5, 3.5),
        ([-2.0] * 70, -2.5, -1.5),
    ],
)
def test_nothing_and_constants(weights: list[float], low: float, high: float) -> None:
    found = tensor_statistics(float_tensor(weights), bins=4)
    finite = [weight for weight in weights if math.isfinite(weight)]
    assert (found.count, found.finite) == (len(weights), len(finite))
    assert (found.histogram.low, found.histogram.high) == (low, high)
    assert found.histogram.counts.tolist() == [0, 0, len(finite), 0]
    middle = found.percentiles[50.0]
    assert middle == finite[0] if finite else math.isnan(middle)
    assert found.step_error_rms is None


def test_rounding_error_of_equal_steps() -> None:
    blocks = random_blocks("Q8_0", 500)
    scales = blocks[:, :2].copy().view("<f2").astype(np.float64)
    found = tensor_statistics(tensor_of("Q8_0", blocks.tobytes(), (500 * 32,)))
    assert found.step_error_rms == pytest.approx(math.sqrt(np.mean(scales**2) / 12), rel=1e-12)


def test_rounding_error_is_what_rounding_does() -> None:
    """Weights spread evenly over a block's range, rounded to its levels."""
    random = np.random.default_rng(3)
    scales = random.uniform(0.05, 0.1, (4000, 1)).astype("<f2")
    weights = random.uniform(-8.5, 7.5, (4000, 32)) * scales
    codes = np.clip(np.round(weights / scales) + 8, 0, 15).astype(np.uint8)
    raw = np.concatenate((scales.view(np.uint8), codes[:, :16] | codes[:, 16:] << 4), axis=1)
    tensor = tensor_of("Q4_0", raw.tobytes(), (4000, 32))
    error = math.sqrt(np.mean((tensor.dequantize() - weights) ** 2))
    assert tensor_statistics(tensor).step_error_rms == pytest.approx(error, rel=0.01)


@pytest.mark.parametrize("name", ["F32", "BF16"])
def test_snapshots_grow(name: str) -> None:
    weights = np.random.default_rng(4).normal(size=6_000_000).astype(np.float32)
    tensor = float_tensor(weights)
    if name == "BF16":
        tensor = tensor_of(name, weights.view("<u2")[1::2].tobytes(), weights.shape)
        weights = tensor.dequantize()
    found, snapshots = _watch(GrowingStatistics(tensor, rough=True))
    done = [snapshot.done for snapshot in snapshots]
    assert done == sorted(done)
    assert done[-1] == 2 * weights.size
    for snapshot in snapshots:
        walked = snapshot.done if name == "F32" else snapshot.done // 2
        assert snapshot.moments.count == min(walked, weights.size)
        assert snapshot.histogram.counts.sum() == snapshot.moments.finite
        assert snapshot.histogram.low == snapshot.moments.min >= found.min
        seen = weights[: snapshot.moments.count]
        exact, _ = np.histogram(seen, 256)
        wrong = np.abs(snapshot.histogram.counts - exact).sum()
        assert wrong <= 0.05 * seen.size  # good enough to look at


def test_snapshots_of_a_given_range_leave_out_what_is_outside() -> None:
    weights = np.random.default_rng(4).normal(size=3_000_000).astype(np.float32)
    growing = GrowingStatistics(float_tensor(weights), 50, (-0.5, 1.0), rough=True)
    _, snapshots = _watch(growing)
    for snapshot in snapshots:
        assert (snapshot.histogram.low, snapshot.histogram.high) == (-0.5, 1.0)
        seen = weights[: snapshot.moments.count]
        exact, _ = np.histogram(seen, 50, (-0.5, 1.0))
        assert np.abs(snapshot.histogram.counts - exact).sum() <= 0.02 * seen.size
    assert snapshots


def test_cancelling_leaves_no_thread() -> None:
    tensor = float_tensor(np.zeros(9_000_000, np.float32))
    before = own_threads()
    for workers in (1, 2):
        calls = [0]

        def cancel(calls: list[int] = calls) -> None:
            calls[0] += 1
            if calls[0] > 30:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            tensor_statistics(tensor, workers=workers, cancel=cancel)
        assert set(own_threads()) <= set(before)


def test_damage_is_reported_before_anything_is_read() -> None:
    source = CountingSource(bytes(8))
    with pytest.raises(FormatError, match="cut short"):
        tensor_statistics(tensor_of("F32", source, (2,), damage="cut short"))
    assert source.runs == []


_MEASURE = """
import sys
import numpy as np
from explorer.analysis import tensor_statistics
from explorer.formats import open_model
from tests.helpers.memory import most_memory

def look():
    found = tensor_statistics(model.tensors["large"], workers=2)
    assert found.count == model.tensors["large"].parameters
    assert found.zeros >= found.count - 256
    assert found.histogram.counts.sum() == found.count
    assert found.histogram.counts.dtype == np.int64  # 4 Gi zeros in a bin overflow nothing

with open_model(sys.argv[1]) as model:
    tensor_statistics(model.tensors["small"], workers=2)  # loads and compiles
    print(most_memory(look))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_bounded_whatever_the_size(tmp_path: Path) -> None:
    """A sparse file of Q4_K blocks, 256 MiB of weights.

    The first block makes a range in which no edge of a bin is at zero: that would take four times
    as long.
    """
    blocks = 1 << 18
    kind = TENSOR_TYPES["Q4_K"]
    small = TensorSpec("small", (8192 * 256,), 12, bytes(8192 * kind.block_bytes))
    large = TensorSpec("large", (blocks * 256,), 12, random_blocks("Q4_K", 1).tobytes())
    path = GgufFile(tensors=[small, large]).write(tmp_path / "sparse.gguf")
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + blocks * kind.block_bytes + 64)
    command = [sys.executable, "-c", _MEASURE, str(path)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 64 << 20


def _sample(model_path: Path, most: int) -> list[str]:
    """Return the first tensor of each type with less than so many weights."""
    with open_model(model_path) as model:
        names: dict[str, str] = {}
        for tensor in model.tensors.rows:
            if tensor.parameters <= most:
                names.setdefault(tensor.type.name, tensor.name)
    return list(names.values())


@pytest.mark.network
def test_tensors_of_the_real_model(real_model: Path) -> None:
    names = _sample(real_model, 2_000_000)
    assert len(names) == 5
    with open_model(real_model) as model:
        for name in names:
            tensor: Tensor = model.tensors[name]
            _check(tensor_statistics(tensor, workers=2), tensor.dequantize(), 256)
