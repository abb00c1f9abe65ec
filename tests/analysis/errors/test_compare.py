"""Comparing whole tensors: any types, threads, cancelling, damage."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from explorer.analysis.blocks import code_shares
from explorer.analysis.errors.compare import (
    Comparison,
    TensorErrors,
    compare_tensors,
    total_of,
    unread,
)
from explorer.analysis.errors.pairs import MatchedPair
from explorer.analysis.errors.pictures import measure_pairs, picture_errors
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.views import TensorView
from explorer.errors import ExplorerError, FormatError
from explorer.formats import Tensor
from explorer.formats.weights import SPAN_WEIGHTS
from tests.helpers.tensors import float_tensor, random_blocks, tensor_of
from tests.helpers.threads import own_threads

_TYPES = ("Q4_0", "Q4_K", "Q6_K", "Q8_0", "BF16", "F16", "MXFP4", "TQ2_0")


def _same(one: TensorErrors, two: TensorErrors) -> None:
    for field in fields(TensorErrors):
        assert repr(getattr(one, field.name)) == repr(getattr(two, field.name)), field.name


def _noisy(tensor: Tensor, seed: int = 0) -> Tensor:
    values = tensor.dequantize()
    noise = np.random.default_rng(seed).normal(0, 0.01, values.shape)
    return float_tensor(np.where(np.isfinite(values), values + noise, values).astype(np.float32))


def _blocks(name: str, rows: int) -> Tensor:
    from explorer.quantization import TENSOR_TYPES

    count = 512 * rows // TENSOR_TYPES[name].block_weights
    raw = random_blocks(name, count)
    if name == "BF16":
        raw[:, 1] = 60
    if name == "MXFP4":
        raw[:, 0] = 120
    return tensor_of(name, raw.tobytes(), (rows, 512))


@pytest.mark.parametrize("name", _TYPES)
def test_any_type_against_floats(name: str) -> None:
    candidate = _blocks(name, 64)
    reference = _noisy(candidate)
    found = compare_tensors(reference, candidate)
    r = reference.dequantize().astype(np.float64).reshape(-1)
    c = candidate.dequantize().astype(np.float64).reshape(-1)
    e = c - r
    assert found.rmse == pytest.approx(np.sqrt(np.mean(e * e)), rel=1e-12)
    assert found.mean_error == pytest.approx(e.mean(), rel=1e-9)
    assert found.max_abs_error == np.abs(e).max()
    assert (found.reference_type, found.type, found.shape) == ("F32", name, (64, 512))
    assert (found.saturated_codes is None) == (name in {"BF16", "F16"})


@pytest.mark.parametrize("name", _TYPES)
def test_a_tensor_against_itself(name: str) -> None:
    tensor = _blocks(name, 8)
    found = compare_tensors(tensor, tensor)
    assert found.rmse == found.max_abs_error == found.mean_error == found.one_minus_cosine == 0
    assert found.equal == found.compared == tensor.parameters


def test_threads_change_no_bit() -> None:
    count = 2 * SPAN_WEIGHTS + 1000
    random = np.random.default_rng(1)
    values = random.normal(size=count).astype(np.float32)
    values[[7, SPAN_WEIGHTS + 7]] = np.nan, np.inf
    reference = float_tensor(values)
    candidate = float_tensor(values + random.normal(0, 0.1, count).astype(np.float32))
    before = own_threads()
    one = compare_tensors(reference, candidate)
    for workers in (2, 3):
        reported: list[int] = []
        two = compare_tensors(reference, candidate, workers, progress=reported.append)
        _same(one, two)
        assert reported == [SPAN_WEIGHTS, 2 * SPAN_WEIGHTS, count]
    assert set(own_threads()) <= set(before)
    assert (one.reference_not_finite, one.candidate_not_finite) == (2, 2)
    assert one.compared == count - 2


@pytest.mark.parametrize("workers", [1, 2])
def test_what_cancel_raises_ends_it(workers: int) -> None:
    tensor = float_tensor(np.zeros(2 * SPAN_WEIGHTS, np.float32))
    calls: list[int] = []

    def cancel() -> None:
        calls.append(1)
        if len(calls) > 3:
            raise InterruptedError

    before = own_threads()
    with pytest.raises(InterruptedError):
        compare_tensors(tensor, tensor, workers, cancel=cancel)
    assert set(own_threads()) <= set(before)
    assert len(calls) < 10


def test_what_cannot_be_compared() -> None:
    one, two = float_tensor(np.zeros((4, 6))), float_tensor(np.zeros((6, 4)))
    with pytest.raises(ExplorerError, match=r"shapes differ: \[4, 6\] and \[6, 4\]"):
        compare_tensors(one, two)
    damaged = tensor_of("F32", bytes(96), (4, 6), damage="cut short")
    with pytest.raises(FormatError, match="cut short"):
        compare_tensors(one, damaged)
    column = float_tensor(np.zeros((4, 1, 6)))
    assert compare_tensors(one, column).count == 24
    nothing = float_tensor(np.zeros((0, 6)))
    found = compare_tensors(nothing, nothing)
    assert found.count == 0
    assert np.isnan(found.rmse)


def test_rows_and_their_total() -> None:
    views = [TensorView.of(float_tensor(np.full(n, n, np.float32))) for n in (2, 3)]
    shifted = [TensorView.of(float_tensor(np.full(n, n + 1, np.float32))) for n in (2, 3)]
    damaged = TensorView.of(tensor_of("F32", bytes(16), (4,), damage="cut short"))
    pairs = [*zip(views, shifted, strict=True), (damaged, damaged)]
    comparison = Comparison([Match(*pair) for pair in pairs])
    reported: list[int] = []
    rows = list(comparison.rows(progress=reported.append))
    assert [row.errors is None for row in rows] == [False, False, True]
    assert "cut short" in str(rows[2].error)
    assert reported[-1] == comparison.parameters == 9
    assert unread(comparison.left()) == (9, (5 * 2 + 4) * 4)
    total = total_of(rows)
    assert total.metrics.count == 5
    assert (total.metrics.rmse, total.metrics.mean_error) == (1, 1)
    assert total.metrics.relative_rmse == pytest.approx(np.sqrt(5 / (2 * 4 + 3 * 9)), rel=1e-15)
    assert total.bits_per_weight == 32


def test_codes_by_hand() -> None:
    """Q4_0: -8 and 7 are the ends, 8 stands for zero."""
    codes = np.array([0, 15, 8, 8, *[3] * 28], np.uint8)
    block = np.concatenate((np.array([1], "<f2").view(np.uint8), codes[:16] | codes[16:] << 4))
    shares = code_shares(tensor_of("Q4_0", block.tobytes(), (32,)))
    assert shares is not None
    assert (shares.count, shares.saturated, shares.zeros) == (32, 2, 2)
    assert shares.saturated_share == 1 / 16
    assert code_shares(float_tensor(np.zeros(4))) is None
    empty = code_shares(tensor_of("Q4_0", b"", (0,)))
    assert empty is not None
    assert np.isnan(empty.saturated_share)


def test_a_row_of_very_many_weights_is_not_summed_by_column() -> None:
    """A hostile file may have one of billions, and two sums for each would take all memory."""
    for columns, summed in ((1 << 16, True), (1 << 17, False)):
        view = TensorView.of(float_tensor(np.ones(columns, np.float32)))
        pair = MatchedPair(Match(view, view))
        assert (measure_pairs([pair], [None])[0].sums.columns is not None) == summed
        *_, picture = picture_errors(pair)
        assert picture.errors is not None
        assert (picture.errors.sums.columns is not None) == summed
