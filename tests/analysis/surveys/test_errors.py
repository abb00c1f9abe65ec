"""Errors of all pairs, kept on disk, stopped and taken up again."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from hashlib import blake2b
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from explorer.analysis import survey_cache
from explorer.analysis import surveys as survey_run
from explorer.analysis.errors.compare import Comparison, compare_tensors, lists_of_all, unread
from explorer.analysis.errors.pairs import MatchedPair, PairErrors, RoundedPair, WeightsPair
from explorer.analysis.matching.pairing import match_models
from explorer.analysis.survey_cache import CachedErrors, SurveyCache
from explorer.analysis.surveys import PairRow, PairsToMeasure, run_errors
from explorer.formats import Model, open_model
from explorer.private_folder import PrivateFolder
from explorer.quantization import dequantize, quantize
from explorer.sources import FileSource
from tests.helpers.model_pairs import arrays_of, write_gguf

ARRAYS = arrays_of({f"blk.{i}.attn_q.weight": (8, 256) for i in range(3)})


@pytest.fixture
def models(tmp_path: Path) -> Iterator[tuple[Model, Model]]:
    types = dict(zip(ARRAYS, ("Q4_0", "Q8_0", "F32"), strict=True))
    one = write_gguf(tmp_path / "one.gguf", "llama", ARRAYS)
    two = write_gguf(tmp_path / "two.gguf", "llama", ARRAYS, types)
    with open_model(one) as reference, open_model(two) as candidate:
        yield reference, candidate


@pytest.fixture
def pairs(models: tuple[Model, Model]) -> list[WeightsPair]:
    return [MatchedPair(match) for match in match_models(*models).matches]


@pytest.fixture
def cache(tmp_path: Path) -> SurveyCache:
    return SurveyCache(PrivateFolder(root=tmp_path / "cache"))


def same(one: PairErrors | None, two: PairErrors | None) -> None:
    """Compare to the bit; NaN is NaN."""
    assert one is not None
    assert two is not None
    assert repr(one.metrics) == repr(two.metrics)
    assert (one.saturated, one.weighted) == (two.saturated, two.weighted)


def run(pairs: Sequence[WeightsPair], kept: CachedErrors, **more: object) -> Iterator[PairRow]:
    numbers: Sequence[int] = more.pop("numbers", range(len(pairs)))  # type: ignore[assignment]
    found = run_errors([PairsToMeasure(pairs, kept, numbers)], **more)  # type: ignore[arg-type]
    return (row for _, row in found)


def rows(
    models: tuple[Model, Model], pairs: Sequence[WeightsPair], cache: SurveyCache, **more: object
) -> list[PairRow]:
    with cache.open_errors(models[1], models[0], pairs) as kept:
        return list(run(pairs, kept, **more))


def nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("weights are read")

    monkeypatch.setattr(survey_run, "measure_pairs", fail)


def test_errors_are_those_of_each_tensor_by_itself(
    models: tuple[Model, Model], pairs: list[WeightsPair], cache: SurveyCache
) -> None:
    reported: list[int] = []
    found = rows(models, pairs, cache, workers=2, progress=reported.append)
    assert [row.number for row in found] == [0, 1, 2]
    for row in found:
        assert row.errors is not None
        name = row.pair.candidate_name
        alone = compare_tensors(models[0].tensors[name], models[1].tensors[name])
        assert row.errors.metrics.rmse == alone.rmse
        assert row.errors.metrics.percentiles == alone.percentiles
    assert found[2].errors is not None
    assert found[2].errors.metrics.rmse == 0
    assert reported == sorted(reported)
    assert reported[-1] == sum(pair.parameters for pair in pairs)


def test_the_second_look_reads_no_weights(
    models: tuple[Model, Model],
    pairs: list[WeightsPair],
    cache: SurveyCache,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = rows(models, pairs, cache)
    nothing_is_read(monkeypatch)
    for one, two in zip(first, rows(models, pairs, cache), strict=True):
        same(one.errors, two.errors)


def test_another_reference_is_another_survey(
    models: tuple[Model, Model], pairs: list[WeightsPair], cache: SurveyCache, tmp_path: Path
) -> None:
    rows(models, pairs, cache)
    rounded = [RoundedPair(tensor, "Q4_0") for tensor in models[1].tensors.rows]
    for against in ("Q4_0", "Q8_0"):
        with cache.open_errors(models[1], against, rounded) as kept:
            assert kept.rows == {}
            list(run(rounded, kept))
            assert sorted(kept.rows) == [0, 1, 2]
    os.utime(tmp_path / "one.gguf", (1, 1))  # the reference has changed
    with cache.open_errors(models[1], models[0], pairs) as kept:
        assert kept.rows == {}


def test_rounding_is_measured_against_the_tensor_itself(models: tuple[Model, Model]) -> None:
    tensor = models[0].tensors["blk.0.attn_q.weight"]
    pair = RoundedPair(tensor, "Q4_0")
    (row,) = run([pair], CachedErrors(None, [pair]))
    values = ARRAYS[tensor.name].reshape(-1)
    error = dequantize(quantize(values, "Q4_0"), "Q4_0").astype(np.float64) - values
    assert row.errors is not None
    assert row.errors.metrics.rmse == pytest.approx(float(np.sqrt(np.mean(error**2))), rel=1e-12)


def test_a_stopped_survey_goes_on(
    models: tuple[Model, Model],
    pairs: list[WeightsPair],
    cache: SurveyCache,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped: list[None] = []

    def check() -> None:
        if stopped:
            raise InterruptedError

    with cache.open_errors(models[1], models[0], pairs) as kept:
        walk = run(pairs, kept, check=check)
        next(walk)
        stopped.append(None)
        with pytest.raises(InterruptedError):
            next(walk)
    assert [row.number for row in rows(models, pairs, cache, numbers=[2])] == [2]
    nothing_is_read(monkeypatch)
    assert [row.number for row in rows(models, pairs, cache, numbers=[0, 2])] == [0, 2]
    with pytest.raises(AssertionError):
        rows(models, pairs, cache)


def test_a_pair_that_cannot_be_read_does_not_end_the_others(
    models: tuple[Model, Model], tmp_path: Path
) -> None:
    path = tmp_path / "two.gguf"
    path.write_bytes(path.read_bytes()[:-4096])
    with open_model(path) as cut:
        found = match_models(models[0], cut).matches
        pairs = [MatchedPair(match) for match in found]
        reported = list(run(pairs, CachedErrors(None, pairs)))
    assert [row.errors is None for row in reported] == [False, False, True]
    assert reported[2].error is not None
    assert "cut short" in reported[2].error.what


def test_errors_of_another_pair_are_not_taken(
    models: tuple[Model, Model], pairs: list[WeightsPair], cache: SurveyCache
) -> None:
    found = rows(models, pairs, cache)
    with cache.open_errors(models[1], models[0], pairs) as kept:
        for row in found:
            same(kept.rows[row.number], row.errors)
    with cache.open_errors(models[1], models[0], pairs[::-1]) as kept:
        for row in found:
            same(kept.rows[2 - row.number], row.errors)
    with cache.open_errors(models[1], models[0], pairs[:2]) as kept:
        assert sorted(kept.rows) == [0, 1]
    with cache.open_errors(models[1], models[0], []) as kept:
        assert kept.rows == {}


def weigh(seed: int) -> Callable[[WeightsPair], NDArray[np.float32] | None]:
    """Return an importance of two of the three tensors."""
    values = np.random.default_rng(seed).uniform(0, 9, (1, 256)).astype(np.float32)
    return lambda pair: None if "blk.1" in pair.candidate_name else values


def test_another_matrix_costs_no_reading(
    models: tuple[Model, Model],
    pairs: list[WeightsPair],
    cache: SurveyCache,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = rows(models, pairs, cache)
    fresh = list(run(pairs, CachedErrors(None, pairs, importance=weigh(1))))
    nothing_is_read(monkeypatch)
    for seed in (1, 2, 1):
        with cache.open_errors(models[1], models[0], pairs, weigh(seed)) as kept:
            for row, before, measured in zip(run(pairs, kept), plain, fresh, strict=True):
                assert row.errors is not None
                assert before.errors is not None
                assert repr(row.errors.metrics) == repr(before.errors.metrics)
                assert (row.errors.weighted is None) == ("blk.1" in row.pair.candidate_name)
                if seed == 1:
                    same(row.errors, measured.errors)
    for row in rows(models, pairs, cache):
        assert row.errors is not None
        assert row.errors.weighted is None  # without a matrix nothing is weighted


def test_weighted_errors_are_those_of_numpy(models: tuple[Model, Model]) -> None:
    pairs = [MatchedPair(match) for match in match_models(*models).matches]
    importance = weigh(3)
    for row in run(pairs, CachedErrors(None, pairs, importance=importance)):
        values = importance(row.pair)
        if values is None:
            continue
        r, c = (
            model.tensors[row.pair.candidate_name].dequantize().astype(np.float64).reshape(-1, 256)
            for model in models
        )
        squares, signal = (values * (c - r) ** 2).sum(), (values * r**2).sum()
        assert row.errors is not None
        assert row.errors.weighted is not None
        assert row.errors.weighted.relative_rmse == pytest.approx(
            np.sqrt(squares / signal), rel=1e-12
        )


def test_squares_by_column_that_are_not_kept_are_read_again(
    models: tuple[Model, Model],
    pairs: list[WeightsPair],
    cache: SurveyCache,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(survey_cache, "MOST_PART_BYTES", 16)
    plain = rows(models, pairs, cache)
    with cache.open_errors(models[1], models[0], pairs, weigh(1)) as kept:
        assert sorted(kept.rows) == [1]  # which the matrix does not have
        assert sorted(kept.plain) == [0, 2]
        again = list(run(pairs, kept))
        assert kept.plain == {}
    for row, before in zip(again, plain, strict=True):
        assert row.errors is not None
        assert before.errors is not None
        assert repr(row.errors.metrics) == repr(before.errors.metrics)
    nothing_is_read(monkeypatch)
    with cache.open_errors(models[1], models[0], pairs, weigh(1)) as kept:
        for row, before in zip(run(pairs, kept), again, strict=True):
            same(row.errors, before.errors)  # by this matrix they are known


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("counts", [1] * 5),
        ("counts", [2048, 0, 0, 9999, 0, 0]),
        ("sums", [float("nan")] * 21),
        ("sums", [-1.0] * 21),
        ("sums", [1.0]),
        ("saturated", 2.0),
        ("weighted", [1]),
        ("percentiles", "none"),
        ("count", 7),
    ],
)
def test_an_odd_row_is_read_again(
    field: str,
    value: object,
    models: tuple[Model, Model],
    pairs: list[WeightsPair],
    cache: SurveyCache,
) -> None:
    rows(models, pairs[:1], cache)
    where = " WHERE survey NOT LIKE '% columns'"
    with closing(cache.connect()) as database:
        (text,) = database.execute(f"SELECT value FROM results{where}").fetchone()
        content = json.dumps({**json.loads(text), field: value}).encode()
        digest = blake2b(content, digest_size=20).digest()
        database.execute(f"UPDATE results SET value = ?, digest = ?{where}", (content, digest))
    with cache.open_errors(models[1], models[0], pairs[:1], weigh(1)) as kept:
        assert {**kept.rows, **kept.plain} == {}


def test_what_is_kept_need_not_be_read(models: tuple[Model, Model]) -> None:
    _, candidate = models
    comparison = Comparison(match_models(*models).matches, models=models)
    nbytes = sum(tensor.nbytes for model in models for tensor in model.tensors.rows)
    assert unread(comparison.left()) == (candidate.parameters, nbytes)
    list(comparison.rows())
    assert comparison.left() == []


def test_an_original_is_read_once_for_all(
    models: tuple[Model, Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, _ = models
    paths = [tmp_path / f"{kind}.gguf" for kind in ("Q4_0", "Q5_0", "Q8_0")]
    for path in paths:
        write_gguf(path, "llama", ARRAYS, dict.fromkeys(ARRAYS, path.stem))
    paths[1].write_bytes(paths[1].read_bytes()[:-64])  # its last tensor is cut short
    read_of: Counter[Path] = Counter()
    read_into = FileSource.read_into

    def count(source: FileSource, offset: int, buffer: memoryview) -> None:
        read_of[Path(source.path)] += len(buffer)
        read_into(source, offset, buffer)

    with ExitStack() as stack:
        others = [stack.enter_context(open_model(path)) for path in paths]
        matches = [match_models(original, model).matches for model in others]
        alone = [list(Comparison(some).rows()) for some in matches]
        monkeypatch.setattr(FileSource, "read_into", count)
        together = lists_of_all([Comparison(some) for some in matches], 2)
    for one, other in zip(chain(*alone), chain(*together), strict=True):
        assert (one.number, one.error is None) == (other.number, other.error is None)
        if one.error is None:
            same(one.errors, other.errors)
    cut = 8 * 256 * 4  # read again for each where one cannot be
    stored = sum(tensor.nbytes for tensor in original.tensors.rows)
    assert read_of[original.path] == stored + cut
    assert read_of[paths[0]] == sum(tensor.nbytes for tensor in others[0].tensors.rows)
