"""Histograms read in a worker equal the analysis: at the end, while they grow, and cached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.analysis.statistics import tensor_statistics
from explorer.errors import FormatError
from explorer.parallel import LruCache
from explorer.qt.document import Document
from explorer.qt.weights.curves import (
    HistogramRequest,
    HistogramResult,
    RangeKind,
    SelectedTensor,
    can_divide,
    resampled,
    robust_range,
)
from explorer.qt.weights.tensor_panel import statistic_lines
from explorer.qt.weights.work import (
    MOST_TENSORS,
    known,
    read_histograms,
    same_role,
    sibling_factors,
    spread,
)
from explorer.qt.widgets.curves import histogram_of
from tests.helpers.gguf_writer import GgufFile, TensorSpec
from tests.helpers.weight_files import LAYERS, OUTLIER, layer_weights, weights_model

FULL, ROBUST, TYPED = RangeKind.FULL, RangeKind.ROBUST, RangeKind.TYPED


class Watcher:
    """A worker's job that notes what is published."""

    def __init__(self) -> None:
        self.checks = 0
        self.states: list[HistogramResult] = []

    def check(self) -> None:
        self.checks += 1

    def publish(self, make: Callable[[], object]) -> None:
        state = make()
        assert isinstance(state, HistogramResult)
        self.states.append(state)


@pytest.fixture
def document(load: Callable[[Path], Document], tmp_path: Path) -> Document:
    return load(weights_model().write(tmp_path / "weights.gguf"))


def subject(document: Document, name: str) -> SelectedTensor:
    row = document.model.tensors.row_of(name)
    assert row is not None
    return SelectedTensor(row, name, document.model.tensors.rows[row])


def layers(document: Document) -> list[SelectedTensor]:
    return [subject(document, f"blk.{layer}.attn_q.weight") for layer in range(LAYERS)]


@pytest.mark.parametrize("bins", [1, 10, 256, 4096])
def test_all_weights_are_counted_as_numpy_counts(document: Document, bins: int) -> None:
    one = subject(document, "blk.2.attn_q.weight")
    found = read_histograms([one], HistogramRequest(bins, FULL), LruCache(10), Watcher())
    counts, edges = np.histogram(layer_weights(2), bins)
    assert found.curves[0].histogram.counts.tolist() == counts.tolist()
    np.testing.assert_array_equal(found.curves[0].histogram.edges, edges)
    assert found.curves[0].outside == 0
    assert found.exact


def test_the_robust_range_leaves_an_outlier_out(document: Document) -> None:
    one = subject(document, "blk.2.attn_q.weight")
    found = read_histograms([one], HistogramRequest(64, ROBUST), LruCache(10), Watcher())
    curve = found.curves[0]
    figures = tensor_statistics(one.tensor, 8192)
    shown = figures.percentiles[0.1], figures.percentiles[99.9]
    assert curve.maximum == OUTLIER
    counts, _ = np.histogram(layer_weights(2), 64, shown)
    assert curve.histogram.counts.tolist() == counts.tolist()
    assert curve.outside == layer_weights(2).size - counts.sum() > 0


def test_a_typed_range_is_counted_as_numpy_counts(document: Document) -> None:
    one = subject(document, "blk.0.attn_q.weight")
    found = read_histograms(
        [one], HistogramRequest(7, TYPED, (-0.01, 0.5)), LruCache(10), Watcher()
    )
    counts, edges = np.histogram(layer_weights(0), 7, (-0.01, 0.5))
    assert found.curves[0].histogram.counts.tolist() == counts.tolist()
    np.testing.assert_allclose(found.curves[0].histogram.edges, edges, rtol=1e-6)


def test_the_figures_are_those_of_the_analysis(document: Document) -> None:
    one = subject(document, "blk.0.ffn_up.weight")
    found = read_histograms([one], HistogramRequest(), LruCache(10), Watcher())
    lines = {line.name: line.value for line in statistic_lines(found.statistics[0])}
    expected = tensor_statistics(one.tensor)
    for name in ("count", "finite", "zeros", "min", "max", "mean", "std", "rms", "skewness"):
        assert lines[name] == getattr(expected, name)
    assert lines["step_error_rms"] == expected.step_error_rms
    assert lines["percentile_50"] == pytest.approx(expected.percentiles[50.0], abs=1e-4)


def test_several_tensors_have_the_same_bins(document: Document) -> None:
    found = read_histograms(layers(document), HistogramRequest(32, ROBUST), LruCache(20), Watcher())
    edges = [curve.histogram.edges for curve in found.curves]
    assert len(found.curves) == LAYERS
    for other in edges[1:]:
        np.testing.assert_array_equal(other, edges[0])
    for layer, curve in enumerate(found.curves):
        shown = edges[0][0], edges[0][-1]
        assert (
            curve.histogram.counts.sum() == np.histogram(layer_weights(layer), 32, shown)[0].sum()
        )


def test_several_tensors_can_have_bins_of_their_own(document: Document) -> None:
    names = ("norm.weight", "blk.0.attn_q.weight", "nothing.weight")
    both = [subject(document, name) for name in names]
    watcher = Watcher()
    found = read_histograms(both, HistogramRequest(8, FULL, common=False), LruCache(20), watcher)
    norm, query, nothing = (curve.histogram for curve in found.curves)
    assert norm.counts.tolist() == [5] * 8
    assert query.counts.tolist() == np.histogram(layer_weights(0), 8)[0].tolist()
    assert nothing.counts.sum() == 0
    growing = [state.curves for state in watcher.states if len(state.curves) == 2]
    assert growing[-1][0].histogram.high == pytest.approx(1, abs=0.01)
    assert growing[-1][1].histogram.high == pytest.approx(50, abs=0.5)


def test_what_streams_grows_and_ends_with_all_weights(document: Document) -> None:
    watcher = Watcher()
    found = read_histograms(layers(document), HistogramRequest(16, FULL), LruCache(20), watcher)
    done = [state.done for state in watcher.states]
    assert done == sorted(done)
    assert not any(state.exact for state in watcher.states)
    assert {state.total for state in watcher.states} == {found.total}
    assert found.done == found.total
    assert max(len(state.curves) for state in watcher.states) == LAYERS
    assert watcher.checks > 0


def test_what_is_known_is_not_read_again(document: Document) -> None:
    recent, one = LruCache(10), subject(document, "blk.0.attn_q.weight")
    assert known([one], HistogramRequest(), recent) is None
    first = read_histograms([one], HistogramRequest(), recent, Watcher())
    document.model.close()
    again = known([one], HistogramRequest(), recent)
    assert again is not None
    assert again.curves[0].histogram is first.curves[0].histogram
    assert known([one], HistogramRequest(bins=9), recent) is None


def test_of_several_the_damaged_one_is_reported(
    load: Callable[[Path], Document], tmp_path: Path
) -> None:
    tensors = [TensorSpec("blk.0.q.weight", (4,), 0, np.arange(4, dtype="<f4").tobytes())]
    tensors.append(TensorSpec("blk.1.q.weight", (4, 1000), 0, b""))
    document = load(GgufFile(tensors=tensors).write(tmp_path / "cut.gguf"))
    both = [subject(document, "blk.0.q.weight"), subject(document, "blk.1.q.weight")]
    found = read_histograms(both, HistogramRequest(4, FULL), LruCache(10), Watcher())
    assert [curve.name for curve in found.curves] == ["blk.0.q.weight"]
    assert [failed.name for failed, _ in found.failures] == ["blk.1.q.weight"]
    with pytest.raises(FormatError, match=r"blk\.1"):
        read_histograms(both[1:], HistogramRequest(), LruCache(10), Watcher())


@pytest.mark.parametrize("kind", [FULL, ROBUST])
def test_tensors_without_a_spread_are_drawn_too(document: Document, kind: RangeKind) -> None:
    equal = read_histograms(
        [subject(document, "equal.weight")], HistogramRequest(8, kind), LruCache(9), Watcher()
    )
    assert equal.curves[0].histogram.counts.sum() == 64
    nothing = read_histograms(
        [subject(document, "nothing.weight")], HistogramRequest(8, kind), LruCache(9), Watcher()
    )
    assert nothing.curves[0].histogram.counts.sum() == 0
    assert nothing.statistics[0].moments.nan == 8


def test_a_range_too_narrow_for_its_bins_is_known_beforehand() -> None:
    assert can_divide(-1, 1, 4096)
    assert not can_divide(1.0, 1.0 + 1e-15, 4096)
    assert not can_divide(0.0, float("inf"), 4)


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=40),
    st.integers(1, 30),
    st.floats(-2, 2),
    st.floats(0.01, 3),
)
def test_a_coarser_look_loses_no_weight(
    counts: list[int], bins: int, low: float, width: float
) -> None:
    fine = histogram_of(np.linspace(-1, 1, len(counts) + 1), np.array(counts, np.int64))
    whole = resampled(fine, -1, 1, bins)
    assert whole.counts.sum() == sum(counts)
    assert (whole.counts >= 0).all()
    part = resampled(fine, low, low + width, bins)
    assert 0 <= part.counts.sum() <= sum(counts)


def test_the_robust_range_of_a_histogram_is_where_nearly_all_is() -> None:
    counts = np.zeros(1000, np.int64)
    counts[400:600] = 1000
    counts[0] = counts[-1] = 1
    found = robust_range(histogram_of(np.linspace(0, 1000, 1001), counts))
    assert found == pytest.approx((400.2, 599.8), abs=0.1)
    assert robust_range(histogram_of(np.linspace(0, 1, 5), np.zeros(4, np.int64))) is None


def test_the_same_role_is_found_in_every_layer(document: Document) -> None:
    rows = [one.row for one in layers(document)]
    assert same_role(document, rows[2]) == rows
    alone = subject(document, "norm.weight").row
    assert same_role(document, alone) == [alone]
    up = subject(document, "blk.0.ffn_up.weight").row
    assert same_role(document, up) == [up]


def test_a_role_of_weight_and_bias_is_two(load: Callable[[Path], Document], tmp_path: Path) -> None:
    names = ["blk.1.q.weight", "blk.0.q.bias", "blk.0.q.weight", "v.blk.0.q.weight", "blk.1.q.bias"]
    document = load(GgufFile(tensors=[TensorSpec(n) for n in names]).write(tmp_path / "b.gguf"))
    assert same_role(document, 0) == [2, 0]
    assert same_role(document, 4) == [1, 4]
    assert same_role(document, 3) == [3]


def test_too_many_tensors_are_spread_evenly() -> None:
    assert spread(range(10)) == list(range(10))
    rows = spread(range(1000))
    assert len(rows) == len(set(rows)) == MOST_TENSORS
    assert (rows[0], rows[-1]) == (0, 999)


def test_the_factor_beside_an_nvfp4_tensor_is_found(document: Document) -> None:
    assert sibling_factors(document, subject(document, "fp4.weight").row) == ["fp4.scale"]
    assert sibling_factors(document, subject(document, "norm.weight").row) == []


def test_only_some_results_are_kept() -> None:
    recent = LruCache(2)
    for key in "abc":
        recent.put(key, key.upper())
    assert [recent.get(key) for key in "abc"] == [None, "B", "C"]
    recent.get("b")
    recent.put("d", "D")
    assert [recent.get(key) for key in "bcd"] == ["B", None, "D"]
    assert len(recent) == 2
