"""Surveys that are kept, stopped and taken up again."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.analysis import surveys as survey_run
from explorer.analysis.statistics import TensorStatistics, tensor_statistics
from explorer.analysis.survey_cache import NO_HISTOGRAM, CachedSurvey, SurveyCache, identify
from explorer.analysis.surveys import SurveyRow, run_survey
from explorer.errors import ExplorerError
from explorer.formats import Model, Tensor, open_model
from explorer.private_folder import PrivateFolder
from tests.helpers.gguf_writer import GgufFile, TensorSpec
from tests.helpers.tensors import float_tensor, random_blocks


def _write(path: Path, seed: int = 0) -> Path:
    specs = [
        TensorSpec("blocks", (256, 40), 12, random_blocks("Q4_K", 40, seed).tobytes()),
        TensorSpec("unknown", (4,), 999, b""),
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
    return SurveyCache(PrivateFolder("surveys", root=tmp_path / "cache"))


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

    def refuse(tensor: Tensor, **_rest: object) -> TensorStatistics:
        asked.append(tensor.name)
        raise ExplorerError("is not read")

    monkeypatch.setattr(survey_run, "tensor_statistics", refuse)
    return asked


def test_the_second_look_reads_no_weights(
    model: Model, cache: SurveyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _rows(model, cache)
    assert [row.tensor.name for row in first] == ["blocks", "unknown", "nothing", "none", "last"]
    assert first[1].error is not None
    asked = _nothing_is_read(monkeypatch)
    reported: list[int] = []
    second = _rows(model, cache, progress=reported.append)
    assert asked == ["unknown"]  # there is nothing to be kept of it
    assert reported[-1] == 2 * model.parameters
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
    stopped: list[None] = []

    def check() -> None:
        if stopped:
            raise InterruptedError

    with cache.open(model) as kept:
        rows = run_survey(model, kept, check=check)
        assert next(rows).tensor.name == "blocks"
        stopped.append(None)
        with pytest.raises(InterruptedError):
            next(rows)
    asked = _nothing_is_read(monkeypatch)
    assert _rows(model, cache)[0].statistics is not None
    assert asked == ["unknown", "nothing", "none", "last"]


def _execute(cache: SurveyCache, *commands: str) -> None:
    with closing(sqlite3.connect(cache.path)) as database, database:
        for command in commands:
            database.execute(command)


def _same_rows(one: list[SurveyRow], two: list[SurveyRow]) -> None:
    for first, second in zip(one, two, strict=True):
        assert (first.statistics is None) == (second.statistics is None)
        if first.statistics is not None and second.statistics is not None:
            _same(first.statistics, second.statistics)


@pytest.mark.parametrize("damage", ["cut", "pages", "empty", "text", "schema", "folder"])
def test_a_damaged_database_is_made_anew(damage: str, model: Model, cache: SurveyCache) -> None:
    first = _rows(model, cache)
    content = cache.path.read_bytes()
    if damage == "folder":
        cache.path.unlink()
        cache.path.mkdir()
    elif damage == "schema":
        cache.path.unlink()
        _execute(cache, "CREATE TABLE results (other TEXT)")
    else:
        changed = {
            "cut": content[:-5000],
            "pages": content[:100] + bytes(range(256)) * (len(content) // 256),
            "empty": b"",
            "text": b"of another program",
        }
        cache.path.write_bytes(changed[damage])
    for _ in range(3):
        _same_rows(first, _rows(model, cache))
    if damage != "folder":
        with cache.open(model) as kept:
            assert sorted(kept.rows) == [0, 2, 3, 4]


@pytest.mark.parametrize(
    "command",
    [
        "UPDATE results SET value = substr(value, 2) WHERE number = 2",
        "UPDATE results SET digest = x'00' WHERE number = 2",
        "UPDATE results SET value = zeroblob(100000) WHERE number = 2",
        "UPDATE results SET value = 'text', digest = NULL WHERE number = 2",
        "UPDATE results SET value = NULL WHERE number = 2",
        "UPDATE results SET number = -1 WHERE number = 2",
        "UPDATE results SET number = 99 WHERE number = 2",
        "UPDATE results SET number = 'two' WHERE number = 2",
        "UPDATE results SET used = 'now', number = NULL WHERE number = 2",
    ],
)
def test_an_odd_row_is_a_miss(command: str, model: Model, cache: SurveyCache) -> None:
    first = _rows(model, cache)
    _execute(cache, command)
    with cache.open(model) as kept:
        assert sorted(kept.rows) == [0, 3, 4]
    _same_rows(first, _rows(model, cache))
    with cache.open(model) as kept:
        assert sorted(kept.rows) == [0, 2, 3, 4]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("mean", value) for value in ("much", "1.5", True, None, [], 10**400, math.nan)],
        *[("count", value) for value in (4, 3.0, True, "3", math.inf, math.nan)],
        *[(name, value) for name in ("finite", "nan", "zeros") for value in (-1, 1e30, 1 << 70)],
        *[("tensor", value) for value in ("other", 1)],
        ("type", "F16"),
        ("shape", [1, 3]),
        *[("percentiles", value) for value in ([], 1, {}, ["many"] * 7)],
        *[("histogram", value) for value in ([], 1, None, [1 << 70] * 256, [[1]] * 256)],
        *[("min", value) for value in (5, math.inf, 1e300)],
        *[("max", value) for value in (-5, math.inf, 1e300)],
        ("histogram", [-1, *[0] * 254, 4]),
        ("histogram", [3.0, *[0] * 255]),
        *[("step_error_rms", value) for value in ("none", "1", True)],
    ],
)
def test_odd_values_with_the_right_digest_are_a_miss(
    name: str, value: object, model: Model, cache: SurveyCache
) -> None:
    _rows(model, cache)
    _put(cache, json.dumps(_fields(cache) | {name: value}))
    with cache.open(model) as kept:
        assert sorted(kept.rows) == [0, 2, 3]


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


@given(data=st.data())
def test_any_values_with_the_right_digest_are_a_miss_or_figures(
    data: st.DataObject, model: Model, cache: SurveyCache
) -> None:
    if not cache.path.exists():
        _rows(model, cache)
        _WRITTEN[cache.path] = _fields(cache)
    fields = dict(_WRITTEN[cache.path])
    for name in data.draw(st.lists(st.sampled_from(sorted(fields)), min_size=1, max_size=3)):
        values = fields[name]
        if isinstance(values, list) and values and data.draw(st.booleans()):
            place = data.draw(st.integers(0, len(values) - 1))
            fields[name] = [*values[:place], data.draw(_JSON), *values[place + 1 :]]
        else:
            fields[name] = data.draw(_JSON)
    _put(cache, json.dumps(fields))
    with cache.open(model) as kept:
        assert [number for number in sorted(kept.rows) if number != 4] == [0, 2, 3]
        found = kept.rows.get(4)
    if found is not None:
        assert found.finite + found.nan + found.inf == found.count == 3
        assert found.histogram.counts.sum() == found.finite
        assert all(type(number) is float for number in (found.mean, found.std, found.min))
        assert found.finite == 0 or found.min <= found.max


_WRITTEN: dict[Path, dict[str, object]] = {}


@pytest.mark.parametrize("value", ["", "{", "[]", "1", "null", "{}", "[" * 50_000, "\udcff"])
def test_other_json_with_the_right_digest_is_a_miss(
    value: str, model: Model, cache: SurveyCache
) -> None:
    _rows(model, cache)
    _put(cache, value)
    with cache.open(model) as kept:
        assert sorted(kept.rows) == [0, 2, 3]


def _fields(cache: SurveyCache) -> dict[str, object]:
    with closing(sqlite3.connect(cache.path)) as database:
        (value,) = database.execute("SELECT value FROM results WHERE number = 4").fetchone()
    fields: dict[str, object] = json.loads(value)
    return fields


def _put(cache: SurveyCache, text: str) -> None:
    """Store another value of the last tensor, with its right digest."""
    value = text.encode(errors="surrogateescape")
    digest = blake2b(value, digest_size=20).digest()
    with closing(sqlite3.connect(cache.path)) as database, database:
        command = "UPDATE results SET value = ?, digest = ? WHERE number = 4"
        database.execute(command, (value, digest))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is read-only there")
def test_a_cache_that_can_only_be_read_is_read(model: Model, cache: SurveyCache) -> None:
    first = _rows(model, cache)
    cache.path.chmod(0o400)
    cache.folder.path.chmod(0o500)
    try:
        with cache.open(model) as kept:
            assert sorted(kept.rows) == [0, 2, 3, 4]
            kept.rows.clear()
            _same_rows(first, list(run_survey(model, kept)))
        assert cache.path.exists()
    finally:
        cache.folder.path.chmod(0o700)


def test_another_program_may_survey_the_same_model(model: Model, cache: SurveyCache) -> None:
    with cache.open(model) as one, cache.open(model) as two:
        first = list(run_survey(model, one))
        _same_rows(first, list(run_survey(model, two)))
    with cache.open(model) as kept:
        assert sorted(kept.rows) == [0, 2, 3, 4]


def test_a_locked_database_is_no_error(
    model: Model, cache: SurveyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _rows(model, cache)
    monkeypatch.setattr("explorer.analysis.survey_cache._LOCK_TIMEOUT_S", 0.01)
    with closing(sqlite3.connect(cache.path, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        _same_rows(first, _rows(model, cache))
        database.execute("ROLLBACK")
    with cache.open(model) as kept:
        assert sorted(kept.rows) == [0, 2, 3, 4]


def test_an_unwritable_cache_is_no_error(model: Model, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    rows = _rows(model, SurveyCache(PrivateFolder("surveys", root=tmp_path / "file")))
    assert rows[4].statistics is not None


def test_a_model_that_is_gone_has_no_cache(tmp_path: Path, cache: SurveyCache) -> None:
    with open_model(_write(tmp_path / "gone.gguf")) as model:
        (tmp_path / "gone.gguf").unlink()
        assert identify(model) is None
        with cache.open(model) as kept:
            kept.add(0, tensor_statistics(float_tensor(np.ones(3))))
            assert sorted(kept.rows) == [0]
    assert not cache.folder.path.exists()


def test_the_cache_is_bounded(tmp_path: Path, cache: SurveyCache) -> None:
    small = replace(cache, max_bytes=100_000)
    (tmp_path / "cache" / "surveys").mkdir(parents=True)
    (cache.folder.path / "of another program").write_bytes(bytes(1_000_000))
    for number in range(40):
        with open_model(_write(tmp_path / f"{number}.gguf", seed=number)) as model:
            assert _rows(model, small)[4].statistics is not None
        _execute(small, f"UPDATE results SET used = {number} WHERE used > 1000000")
    assert cache.path.stat().st_size <= 100_000
    assert (cache.folder.path / "of another program").exists()
    known = []
    for number in range(40):
        with open_model(tmp_path / f"{number}.gguf") as model, small.open(model) as kept:
            known.append(len(kept.rows))
    assert set(known[-5:]) == {4}  # the newest
    assert set(known[:20]) == {0}


def test_a_full_database_is_no_error(model: Model, cache: SurveyCache) -> None:
    tiny = replace(cache, max_bytes=3 * 4096)
    first = _rows(model, tiny)
    _same_rows(first, _rows(model, tiny))
    assert cache.path.stat().st_size <= 3 * 4096


def test_slim_statistics_have_no_histogram(model: Model, cache: SurveyCache) -> None:
    first = _rows(model, cache)
    with cache.open(model, slim=True) as kept:
        found = kept.rows[4]
        assert found.histogram is NO_HISTOGRAM
        assert first[4].statistics is not None
        _same(replace(found, histogram=first[4].statistics.histogram), first[4].statistics)


@given(st.lists(st.floats(width=32), max_size=20))
def test_a_row_keeps_every_bit(values: list[float]) -> None:
    tensor = float_tensor(np.array(values, np.float32))
    found = tensor_statistics(tensor)
    kept = CachedSurvey.__new__(CachedSurvey)
    kept._tensors, kept._slim = [tensor], False
    read = kept._decode(0, json.loads(json.dumps(kept._encode(0, found))))
    _same(found, read)
    assert math.isnan(read.mean) == (found.finite == 0)
