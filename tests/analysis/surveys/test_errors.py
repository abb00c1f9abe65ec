"""Errors of all pairs, kept on disk, stopped and taken up again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from explorer.analysis import compare_tensors
from explorer.analysis import surveys as survey_run
from explorer.analysis.errors.metrics import ErrorMetrics
from explorer.analysis.errors.pairs import MatchedPair, RoundedPair, WeightsPair
from explorer.analysis.matching.pairing import match_models
from explorer.analysis.survey_cache import CachedErrors, SurveyCache
from explorer.analysis.surveys import PairRow, SurveyCancelled, SurveyControl, run_errors
from explorer.formats import Model, open_model
from explorer.private_folder import PrivateFolder
from explorer.quantization import dequantize, quantize
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


def same(one: ErrorMetrics | None, two: ErrorMetrics | None) -> None:
    """Compare to the bit; NaN is NaN."""
    assert one is not None
    assert two is not None
    for field in fields(ErrorMetrics):
        assert repr(getattr(one, field.name)) == repr(getattr(two, field.name)), field.name


def rows(
    models: tuple[Model, Model], pairs: Sequence[WeightsPair], cache: SurveyCache, **more: object
) -> list[PairRow]:
    with cache.open_errors(models[1], models[0], pairs) as kept:
        return list(run_errors(pairs, kept, **more))  # type: ignore[arg-type]


def nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("weights are read")

    monkeypatch.setattr(survey_run, "measure_pair", fail)


def test_errors_are_those_of_each_tensor_by_itself(
    models: tuple[Model, Model], pairs: list[WeightsPair], cache: SurveyCache
) -> None:
    reported: list[int] = []
    found = rows(models, pairs, cache, workers=2, progress=reported.append)
    assert [row.number for row in found] == [0, 1, 2]
    for row in found:
        assert row.metrics is not None
        name = row.pair.candidate_name
        alone = compare_tensors(models[0].tensors[name], models[1].tensors[name])
        assert row.metrics.rmse == alone.rmse
        assert row.metrics.percentiles == alone.percentiles
    assert found[2].metrics is not None
    assert found[2].metrics.rmse == 0
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
        same(one.metrics, two.metrics)


def test_another_reference_is_another_survey(
    models: tuple[Model, Model], pairs: list[WeightsPair], cache: SurveyCache, tmp_path: Path
) -> None:
    rows(models, pairs, cache)
    rounded = [RoundedPair(tensor, "Q4_0") for tensor in models[1].tensors.rows]
    for against in ("Q4_0", "Q8_0"):
        with cache.open_errors(models[1], against, rounded) as kept:
            assert kept.rows == {}
            list(run_errors(rounded, kept))
            assert sorted(kept.rows) == [0, 1, 2]
    os.utime(tmp_path / "one.gguf", (1, 1))  # the reference has changed
    with cache.open_errors(models[1], models[0], pairs) as kept:
        assert kept.rows == {}


def test_rounding_is_measured_against_the_tensor_itself(models: tuple[Model, Model]) -> None:
    tensor = models[0].tensors["blk.0.attn_q.weight"]
    pair = RoundedPair(tensor, "Q4_0")
    (row,) = run_errors([pair], CachedErrors(None, [pair]))
    values = ARRAYS[tensor.name].reshape(-1)
    error = dequantize(quantize(values, "Q4_0"), "Q4_0").astype(np.float64) - values
    assert row.metrics is not None
    assert row.metrics.rmse == pytest.approx(float(np.sqrt(np.mean(error**2))), rel=1e-12)


def test_a_stopped_survey_goes_on(
    models: tuple[Model, Model],
    pairs: list[WeightsPair],
    cache: SurveyCache,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    control = SurveyControl()
    with cache.open_errors(models[1], models[0], pairs) as kept:
        walk = run_errors(pairs, kept, control=control)
        next(walk)
        control.cancel()
        with pytest.raises(SurveyCancelled):
            next(walk)
    assert [row.number for row in rows(models, pairs, cache, numbers=[2])] == [2]
    nothing_is_read(monkeypatch)
    assert [row.number for row in rows(models, pairs, cache, numbers=[0, 2])] == [0, 2]
    with pytest.raises(AssertionError):
        rows(models, pairs, cache)


def test_another_check_may_end_a_pause() -> None:
    control = SurveyControl()
    control.pause()
    looks: list[int] = []

    def check() -> None:
        looks.append(1)
        if len(looks) > 3:
            raise InterruptedError

    control.obey(check)
    with pytest.raises(InterruptedError):
        control.check()


def test_a_pair_that_cannot_be_read_does_not_end_the_others(
    models: tuple[Model, Model], tmp_path: Path
) -> None:
    path = tmp_path / "two.gguf"
    path.write_bytes(path.read_bytes()[:-4096])
    with open_model(path) as cut:
        found = match_models(models[0], cut).matches
        pairs = [MatchedPair(match) for match in found]
        reported = list(run_errors(pairs, CachedErrors(None, pairs)))
    assert [row.metrics is None for row in reported] == [False, False, True]
    assert reported[2].error is not None
    assert "cut short" in reported[2].error.what


def test_errors_of_another_pair_are_not_taken(
    models: tuple[Model, Model], pairs: list[WeightsPair], cache: SurveyCache
) -> None:
    found = rows(models, pairs, cache)
    with cache.open_errors(models[1], models[0], pairs) as kept:
        for row in found:
            same(kept.rows[row.number], row.metrics)
    with cache.open_errors(models[1], models[0], pairs[::-1]) as kept:
        assert sorted(kept.rows) == [1]  # the one in the middle
    with cache.open_errors(models[1], models[0], pairs[:2]) as kept:
        assert sorted(kept.rows) == [0, 1]
    with cache.open_errors(models[1], models[0], []) as kept:
        assert kept.rows == {}
