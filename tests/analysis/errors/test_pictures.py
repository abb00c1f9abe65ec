"""Pictures of errors: every count against NumPy's, whatever the weights."""

from __future__ import annotations

import json
import zlib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from explorer.analysis.errors import metrics as pair_counts
from explorer.analysis.errors.compare import compare_tensors
from explorer.analysis.errors.metrics import RunningErrors
from explorer.analysis.errors.pairs import (
    RUN_WEIGHTS,
    MatchedPair,
    PairErrors,
    RoundedPair,
    WeightsPair,
)
from explorer.analysis.errors.pictures import (
    AllCounts,
    ErrorPicture,
    PairSquare,
    error_histograms,
    picture_errors,
    squares,
)
from explorer.analysis.histogram import Histogram
from explorer.analysis.matching.pairing import match_models
from explorer.analysis.matching.views import TensorView
from explorer.analysis.requantization import requantize
from explorer.errors import ExplorerError, FormatError
from explorer.formats import open_model
from explorer.parallel import Check
from tests.helpers.model_pairs import write_gguf

Weights = NDArray[np.float32]
NAME = "blk.0.ffn_up.weight"


class Arrays(WeightsPair):
    """Two arrays as a pair of weights; see `WeightsPair`."""

    notes = ()
    reference_name = candidate_name = NAME
    reference_type = candidate_type = "F32"
    codes = None

    def __init__(self, reference: Weights, candidate: Weights) -> None:
        self.both = np.ascontiguousarray(reference), np.ascontiguousarray(candidate)
        self.shape = reference.shape
        self.parameters = reference.size

    def check(self) -> None:
        pass

    def reader(self, *, count_codes: bool = False) -> Arrays:
        return self

    def read(
        self, run: tuple[int, int], check: Check, reference: Weights | None = None
    ) -> tuple[Weights, Weights]:
        check()
        one, other = (side[run[0] : sum(run)].copy() for side in self.both)
        return one, other


def _picture(pair: WeightsPair, workers: int = 1) -> ErrorPicture:
    *_, last = picture_errors(pair, workers)
    return last


def _half_open(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.int64]:
    """Count as numpy does between more edges, so that the last bin is half-open as well."""
    return np.histogram(values, [*edges, np.inf])[0][:-1]


def _check_square(square: PairSquare, r: NDArray[np.float64], c: NDArray[np.float64]) -> None:
    edges = square.edges
    inside = (r >= edges[0]) & (r < edges[-1]) & (c >= edges[0]) & (c < edges[-1])
    more = [*edges, np.inf]
    wanted = np.histogram2d(c[inside], r[inside], (more, more))[0][:-1, :-1]
    np.testing.assert_array_equal(square.counts, wanted)
    assert square.inside == inside.sum()
    assert square.outside == (~inside).sum()
    np.testing.assert_array_equal(square.reference.counts, _half_open(r[inside], edges))
    np.testing.assert_array_equal(square.candidate.counts, _half_open(c[inside], edges))
    width = np.diff(edges)
    assert (width == width[0]).all()


def _check_errors(histogram: Histogram, e: NDArray[np.float64]) -> None:
    np.testing.assert_array_equal(histogram.counts, _half_open(e, histogram.edges))
    np.testing.assert_array_equal(histogram.edges, -histogram.edges[::-1])


def _check(found: ErrorPicture, reference: Weights, candidate: Weights) -> None:
    finite = np.isfinite(reference) & np.isfinite(candidate)
    single = reference[finite], candidate[finite]
    r, c = (side.astype(np.float64) for side in single)
    with np.errstate(over="ignore"):
        e = (single[1] - single[0]).astype(np.float64)
    assert found.complete
    assert found.metrics.compared == finite.sum()
    for square in (found.all_pairs, found.most_pairs):
        _check_square(square, r, c)
    assert found.all_pairs.outside == 0
    assert found.most_pairs.outside <= 4 * 0.001 * r.size
    for histogram in (found.all_errors, found.most_errors):
        _check_errors(histogram, e)
    assert found.all_errors.counts.sum() == np.isfinite(e).sum()
    assert found.most_errors.counts.sum() >= 0.999 * np.isfinite(e).sum()


@pytest.mark.parametrize("size", [1, 2047, 2048, 2049, 300_000])
@pytest.mark.parametrize("error", [0.0, 1e-4, 0.02, 3.0])
def test_random_weights(size: int, error: float) -> None:
    random = np.random.default_rng(size)
    reference = random.standard_t(4, size).astype(np.float32)
    candidate = (reference + error * random.normal(size=size)).astype(np.float32)
    found = _picture(Arrays(reference, candidate))
    _check(found, reference, candidate)


_ELEMENTS = st.one_of(
    st.floats(width=32),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.75, -0.75, np.nan, np.inf, -np.inf, 1e-45, -1e-45]),
    st.integers(-600, 600).map(lambda n: n / 256),  # at the edges of cells
)
_PAIRS = st.integers(0, 60).flatmap(
    lambda n: st.tuples(*[hnp.arrays(np.float32, n, elements=_ELEMENTS)] * 2)
)


@given(_PAIRS)
def test_any_weights(pair: tuple[Weights, Weights]) -> None:
    _check(_picture(Arrays(*pair)), *pair)


def test_weights_of_bfloat16_lie_at_edges_and_are_counted_as_numpy_does() -> None:
    random = np.random.default_rng(3)
    bits = random.normal(0, 0.02, 50_000).astype(np.float32).view(np.uint32) & 0xFFFF0000
    reference = bits.astype(np.uint32).view(np.float32)
    candidate = (np.round(reference * 64) / 64).astype(np.float32)
    _check(_picture(Arrays(reference, candidate)), reference, candidate)


def test_by_hand() -> None:
    reference = np.array([1, 1, -1, 0.5, 0], np.float32)
    candidate = np.array([1, 0.5, -1, 0.5, 0], np.float32)
    found = _picture(Arrays(reference, candidate))
    square = found.all_pairs

    def cell(value: float) -> int:
        return int(np.searchsorted(square.edges, value, side="right")) - 1

    assert square.counts.sum() == 5
    for one, other in zip(reference, candidate, strict=True):
        assert square.counts[cell(other), cell(one)] == 1
    edges, counts = found.all_errors.edges, found.all_errors.counts
    assert counts[np.searchsorted(edges, 0.0)] == 4
    assert counts[np.searchsorted(edges, -0.5)] == 1


def test_an_outlier_does_not_blur_the_robust_square() -> None:
    random = np.random.default_rng(5)
    reference = random.normal(0, 0.02, 100_000).astype(np.float32)
    reference[77] = 50_000.0
    found = _picture(Arrays(reference, reference.copy()))
    _check(found, reference, reference)
    assert found.all_pairs.edges[-1] > 50_000
    assert found.most_pairs.edges[-1] < 0.1
    assert len(found.most_pairs.counts) > 100
    assert found.most_pairs.outside < 300


def test_weights_without_any_size_and_no_weights_have_a_range() -> None:
    for size in (0, 5):
        found = _picture(Arrays(np.zeros(size, np.float32), np.zeros(size, np.float32)))
        assert found.all_pairs.inside == size
        for square in (found.all_pairs, found.most_pairs):
            assert 0.01 < square.edges[-1] < 1
        assert found.all_errors.counts.sum() == size


def test_of_weights_that_are_mostly_0_the_others_are_seen() -> None:
    reference = np.zeros(100_000, np.float32)
    reference[:50] = np.linspace(-1, 1, 50)
    found = _picture(Arrays(reference, reference.copy()))
    _check(found, reference, reference)
    assert found.most_pairs.edges[-1] > 0.5


@pytest.mark.parametrize("error", [3e38, 2e38, 1e-37, 2.0**-126, 1e-40])
def test_a_single_error_of_any_size_is_drawn(error: float) -> None:
    pair = np.zeros(1, np.float32), np.array([error], np.float32)
    _check(_picture(Arrays(*pair)), *pair)


def test_levels_rise_while_pairs_are_counted_and_the_order_changes_nothing() -> None:
    random = np.random.default_rng(6)
    sizes = np.exp2(random.uniform(-100, 100, 40_000))
    reference = (np.sort(sizes) * random.choice([-1, 1], sizes.size)).astype(np.float32)
    candidate = (reference * random.normal(1, 0.1, sizes.size)).astype(np.float32)
    found = []
    for order in (slice(None), slice(None, None, -1)):
        picture = _picture(Arrays(reference[order], candidate[order]))
        _check(picture, reference, candidate)
        found.append(picture)
    np.testing.assert_array_equal(found[0].all_pairs.counts, found[1].all_pairs.counts)


def test_counters_that_are_full_are_emptied_into_wider_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pair_counts, "MOST_COUNTED", 5_000)
    random = np.random.default_rng(8)
    reference = random.normal(0, 1, 60_000).astype(np.float32)
    reference[40_000:] *= 1000  # levels rise behind
    candidate = (reference + random.normal(0, 0.1, reference.size)).astype(np.float32)
    counts = AllCounts()
    own = counts.of_thread()
    for start in range(0, reference.size, 3000):
        own.add(reference[start : start + 3000], candidate[start : start + 3000])
    assert counts._parts[0]._cells_before is not None
    r, c = reference.astype(np.float64), candidate.astype(np.float64)
    for square in squares(counts):
        _check_square(square, r, c)
    for histogram in error_histograms(counts.keys):
        _check_errors(histogram, (candidate - reference).astype(np.float64))


def test_any_number_of_threads_finds_the_same() -> None:
    random = np.random.default_rng(9)
    size = 20 * RUN_WEIGHTS + 77
    reference = random.normal(0, 0.02, size).astype(np.float32)
    candidate = np.round(reference, 2).astype(np.float32)
    one, four = (_picture(Arrays(reference, candidate), n) for n in (1, 4))
    for field in fields(PairSquare):
        for name in ("all_pairs", "most_pairs"):
            np.testing.assert_array_equal(
                getattr(getattr(one, name), field.name), getattr(getattr(four, name), field.name)
            )
    for name in ("all_errors", "most_errors"):
        np.testing.assert_array_equal(getattr(one, name).counts, getattr(four, name).counts)
    assert one.metrics == four.metrics


def test_pictures_grow_to_the_complete_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.analysis.errors.pictures._SNAPSHOT_SECONDS", 0.0)
    monkeypatch.setattr("explorer.analysis.errors.pictures._SNAPSHOT_SHARE", 1e9)
    random = np.random.default_rng(10)
    reference = random.normal(0, 0.02, 24 * RUN_WEIGHTS).astype(np.float32)
    candidate = np.round(reference, 2).astype(np.float32)
    *reported, found = picture_errors(Arrays(reference, candidate))
    assert [one.done for one in reported] == [8 * RUN_WEIGHTS * n for n in (1, 2, 3)]
    assert not any(one.complete for one in reported)
    first = reported[0]
    part = reference[: first.done].astype(np.float64), candidate[: first.done].astype(np.float64)
    _check_square(first.all_pairs, *part)
    for one in reported:
        assert one.all_pairs.inside == one.done
        assert one.metrics.compared == one.done
    assert found.complete
    assert found.metrics.percentiles[50.0] > 0


def test_cancelled_at_the_next_run() -> None:
    class Cancelled(Exception):
        pass

    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise Cancelled

    values = np.zeros(8 * RUN_WEIGHTS, np.float32)
    with pytest.raises(Cancelled):
        list(picture_errors(Arrays(values, values), check=check))
    assert calls == 3


def _models(folder: Path, shape: tuple[int, ...], kind: str) -> tuple[Path, Path]:
    values = np.random.default_rng(1).normal(0, 0.02, shape).astype(np.float32)
    one = write_gguf(folder / "one.gguf", "llama", {NAME: values})
    two = write_gguf(folder / "two.gguf", "llama", {NAME: values}, {NAME: kind})
    return one, two


@pytest.mark.parametrize(
    ("shape", "kind"), [((6, 512), "Q4_K"), ((3, 4, 64), "Q8_0"), ((96,), "F16")]
)
def test_two_models_give_the_figures_of_a_comparison(
    tmp_path: Path, shape: tuple[int, ...], kind: str
) -> None:
    paths = _models(tmp_path, shape, kind)
    with open_model(paths[0]) as one, open_model(paths[1]) as two:
        match = match_models(one, two).matches[0]
        found = _picture(MatchedPair(match))
        reported = compare_tensors(match.reference, match.candidate)
        for field in fields(type(found.metrics)):
            assert getattr(found.metrics, field.name) == getattr(reported, field.name)
        assert found.saturated_codes == reported.saturated_codes
        pair = (one.tensors[NAME].dequantize(), two.tensors[NAME].dequantize())
        _check(found, *(side.reshape(-1) for side in pair))


@pytest.mark.parametrize("kind", ["Q4_K", "Q8_0", "BF16", "int4", "IQ4_NL"])
def test_a_rounded_tensor_gives_the_figures_of_a_requantization(tmp_path: Path, kind: str) -> None:
    path, _ = _models(tmp_path, (6, 512), "Q4_K")
    with open_model(path) as model:
        tensor = model.tensors[NAME]
        found = _picture(RoundedPair(tensor, kind))
        reported = next(iter(requantize(tensor, [kind])))
        assert found.metrics == reported.errors
        assert found.saturated_codes == reported.saturated_codes


def test_a_file_that_was_cut_and_shapes_that_differ_are_refused(tmp_path: Path) -> None:
    paths = _models(tmp_path, (6, 512), "Q4_K")
    with open_model(paths[0]) as one:
        raw = paths[1].read_bytes()
        paths[1].write_bytes(raw[:-100])
        with open_model(paths[1]) as cut:
            match = match_models(one, cut).matches[0]
            with pytest.raises(FormatError):
                _picture(MatchedPair(match))
        other = write_gguf(tmp_path / "other.gguf", "llama", {"x": np.ones((2, 32), np.float32)})
        with open_model(other) as different:
            wrong = type(match)(match.reference, TensorView.of(different.tensors["x"]))
            with pytest.raises(ExplorerError, match="shapes differ"):
                _picture(MatchedPair(wrong))


def test_a_picture_is_kept_and_made_again() -> None:
    values = np.random.default_rng(4).normal(0, 1, 3000).astype(np.float32)
    pair = Arrays(values, np.round(values, 1))
    *_, found = picture_errors(pair)
    assert found.errors is not None
    again = ErrorPicture.frombytes(found.errors, found.tobytes())
    for one, two in (
        (found.all_pairs, again.all_pairs),
        (found.most_pairs, again.most_pairs),
        (found.all_errors, again.all_errors),
        (found.most_errors, again.most_errors),
    ):
        np.testing.assert_array_equal(one.edges, two.edges)
        np.testing.assert_array_equal(one.counts, two.counts)
    assert repr(again.metrics) == repr(found.metrics)
    assert (again.all_pairs.outside, again.complete) == (found.all_pairs.outside, True)


def _packed(kinds: list[str], shapes: list[list[int]], content: bytes) -> bytes:
    return json.dumps([[0, 0], kinds, shapes]).encode() + b"\n" + zlib.compress(content)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{}", b"[[0, 0], [], []]\n", b"[1, 2, 3]\nx"),
        _packed([], [], b""),
        _packed(["|O"] * 10, [[1]] * 10, bytes(80)),
        _packed(["<f8"] * 10, [[9]] * 10, bytes(720)),
        _packed(["<f8"] * 10, [*[[2], [1, 1]] * 2, *[[2], [1]] * 3], bytes(999)),  # do not rise
        _packed(["<f8"] * 2, [[1000000000], [1]], b""),
    ],
)
def test_what_is_no_picture_is_refused(content: bytes) -> None:
    with pytest.raises((ValueError, TypeError, LookupError, zlib.error)):
        ErrorPicture.frombytes(PairErrors(RunningErrors(), None), content)
