"""Surveys that are kept, stopped and taken up again."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.analysis import SurveyRow, TensorStatistics, tensor_statistics
from explorer.analysis import surveys as survey_run
from explorer.analysis.survey_cache import KeptSurvey, SurveyCache, identify
from explorer.analysis.survey_cache import (
    survey_from_line as from_line,
)
from explorer.analysis.survey_cache import (
    survey_to_line as to_line,
)
from explorer.analysis.surveys import SurveyCancelled, SurveyControl, run_survey
from explorer.formats import Model, open_model
from tests.helpers.gguf_writer import GgufFile, TensorSpec
from tests.helpers.patience import PATIENCE_S
from tests.helpers.tensors import float_tensor, random_blocks


def _write(path: Path, seed: int = 0) -> Path:
    specs = [
        TensorSpec("blocks", (256, 40), 12, random_blocks("Q4_K", 40, seed).tobytes()),
        TensorSpec("unknown", (4,), 99, b""),
        TensorSpec("nothing", (2,), 0, np.full(2, np.nan, "<f4").tobytes()),
        TensorSpec("none", (0,), 0, b""),
        TensorSpec("last", (3,), 0, np.array([1, 2, 4], "<f4").tobytes()),
    ]
    return GgufFile(tensors=specs).write(path)


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    with open_model(_write(tmp_path / "model.gguf")) as model:
        yield model


@pytest.fixture
def cache(tmp_path: Path) -> SurveyCache:
    return SurveyCache(tmp_path / "cache" / "surveys")


def _same(one: TensorStatistics, two: TensorStatistics) -> None:
    """Compare to the bit; NaN is NaN."""
    for field in fields(TensorStatistics):
        first, second = getattr(one, field.name), getattr(two, field.name)
        if field.name == "histogram":
            assert (first.low, first.high) == (second.low, second.high)
            np.testing.assert_array_equal(first.edges, second.edges)
            np.testing.assert_array_equal(first.counts, second.counts)
        else:
            assert repr(first) == repr(second), field.name


def _rows(model: Model, cache: SurveyCache, **options: object) -> list[SurveyRow]:
    with cache.open(model) as kept:
        return list(run_survey(model, kept, **options))  # type: ignore[arg-type]


def _nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def unknown(tensor: object, *_rest: object) -> SurveyRow:
        asked.append(tensor.name)  # type: ignore[attr-defined]
        return SurveyRow(tensor, None)  # type: ignore[arg-type]

    monkeypatch.setattr(survey_run, "survey_row", unknown)
    return asked


def test_the_second_look_reads_no_weights(
    model: Model, cache: SurveyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _rows(model, cache)
    assert [row.tensor.name for row in first] == ["blocks", "unknown", "nothing", "none", "last"]
    assert first[1].error is not None
    asked = _nothing_is_read(monkeypatch)
    told: list[int] = []
    second = _rows(model, cache, progress=told.append)
    assert asked == ["unknown"]  # there is nothing to be kept of it
    assert told[-1] == 2 * model.parameters
    for one, two in zip(first, second, strict=True):
        if one.statistics is not None:
            assert two.statistics is not None
            _same(one.statistics, two.statistics)


def test_another_file_is_another_survey(tmp_path: Path, cache: SurveyCache) -> None:
    path = tmp_path / "model.gguf"
    names = set()
    for change in range(4):
        if change < 3:
            _write(path, seed=change // 2)
        os.utime(path, ns=(0, change if change < 3 else 2))
        with open_model(path) as model:
            names.add(identify(model))
    assert len(names) == 3
    assert None not in names
    with open_model(_write(tmp_path / "other.gguf", seed=1)) as model:
        assert identify(model) not in names


def test_a_stopped_survey_goes_on(
    model: Model, cache: SurveyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = SurveyControl()
    with cache.open(model) as kept:
        rows = run_survey(model, kept, control=control)
        assert next(rows).tensor.name == "blocks"
        control.cancel()
        with pytest.raises(SurveyCancelled):
            next(rows)
    asked = _nothing_is_read(monkeypatch)
    assert _rows(model, cache)[0].statistics is not None
    assert asked == ["unknown", "nothing", "none", "last"]


def test_a_paused_survey_waits_until_it_is_resumed_or_cancelled(
    model: Model, cache: SurveyCache
) -> None:
    control = SurveyControl()
    control.pause()
    assert control.paused
    done: list[object] = []

    def walk() -> None:
        try:
            done.extend(_rows(model, cache, control=control))
        except SurveyCancelled:
            done.append("cancelled")

    thread = threading.Thread(target=walk)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    assert not done
    control.resume()
    thread.join(PATIENCE_S)
    assert len(done) == 5
    done.clear()
    control.pause()
    thread = threading.Thread(target=walk)
    thread.start()
    control.cancel()
    thread.join(PATIENCE_S)
    assert done == ["cancelled"]
    control.pause()
    assert not control.paused  # nobody would ever resume it


@pytest.mark.parametrize("damage", ["cut", "byte", "empty", "binary", "unended", "folder"])
def test_a_damaged_cache_is_no_error(damage: str, model: Model, cache: SurveyCache) -> None:
    first = _rows(model, cache)
    (path,) = cache.folder.iterdir()
    content = path.read_bytes()
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        changed = {
            "cut": content[:-40],
            "byte": content.replace(b'"mean":', b'"mean":1', 1),
            "empty": b"",
            "binary": bytes(range(256)) * 1000,
            "unended": content.rstrip(b"\n"),
        }
        path.write_bytes(changed[damage])
    for _ in range(2):
        for one, two in zip(first, _rows(model, cache), strict=True):
            assert (one.statistics is None) == (two.statistics is None)
            if one.statistics is not None and two.statistics is not None:
                _same(one.statistics, two.statistics)
    if damage != "folder":
        with cache.open(model) as kept:
            assert sorted(kept.rows) == [0, 2, 3, 4]  # what was damaged is there again


def test_an_unwritable_cache_is_no_error(model: Model, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    rows = _rows(model, SurveyCache(tmp_path / "file" / "surveys"))
    assert rows[4].statistics is not None


def test_a_model_that_is_gone_has_no_cache(tmp_path: Path, cache: SurveyCache) -> None:
    with open_model(_write(tmp_path / "gone.gguf")) as model:
        (tmp_path / "gone.gguf").unlink()
        assert identify(model) is None
        with cache.open(model) as kept:
            kept.add(0, tensor_statistics(float_tensor(np.ones(3))))
            assert sorted(kept.rows) == [0]
    assert not cache.folder.exists()


def test_the_cache_is_bounded(model: Model, cache: SurveyCache) -> None:
    cache.folder.mkdir(parents=True)
    for number in range(10):
        old = cache.folder / f"{number}.survey"
        old.write_bytes(bytes(1000))
        os.utime(old, (number, number))
    (cache.folder / "of somebody else").write_bytes(bytes(10_000))
    _rows(model, replace(cache, max_bytes=4000))
    left = {path.name for path in cache.folder.iterdir()}
    assert "of somebody else" in left
    assert {"7.survey", "8.survey", "9.survey"} < left
    assert not left & {f"{number}.survey" for number in range(7)}


def test_statistics_of_another_tensor_are_not_taken(cache: SurveyCache, model: Model) -> None:
    found = tensor_statistics(model.tensors["last"])
    line = to_line(4, found)
    assert from_line(line, lambda _row: model.tensors["last"]) is not None
    assert from_line(line, lambda _row: model.tensors["nothing"]) is None
    assert from_line(line, lambda _row: None) is None
    assert KeptSurvey(None, model).rows == {}


@given(st.lists(st.floats(width=32), max_size=20))
@settings(max_examples=40)
def test_a_line_keeps_every_bit(values: list[float]) -> None:
    tensor = float_tensor(np.array(values, np.float32))
    found = tensor_statistics(tensor)
    row = from_line(to_line(7, found), lambda _row: tensor)
    assert row is not None
    assert row[0] == 7
    _same(found, row[1])
    assert math.isnan(row[1].mean) == (found.finite == 0)


@given(st.binary(max_size=200))
def test_any_line_is_read(line: bytes) -> None:
    assert from_line(line, lambda _row: None) is None
