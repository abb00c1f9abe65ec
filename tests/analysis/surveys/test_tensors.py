"""A row for each tensor, as it is done, whatever is wrong with the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from explorer.analysis.statistics import tensor_statistics
from explorer.analysis.surveys import survey
from explorer.errors import FormatError
from explorer.formats import Model, open_model
from tests.helpers.gguf_writer import GgufFile, TensorSpec
from tests.helpers.tensors import random_blocks


@pytest.fixture
def model(tmp_path: Path) -> Model:
    specs = [
        TensorSpec("first", (256, 4), 12, random_blocks("Q4_K", 4).tobytes()),
        TensorSpec("unknown", (4,), 999, b""),
        TensorSpec("last", (3,), 0, np.array([1, 2, 4], "<f4").tobytes()),
    ]
    return open_model(GgufFile(tensors=specs).write(tmp_path / "three.gguf"))


def test_a_row_for_each_tensor(model: Model) -> None:
    with model:
        reported: list[int] = []
        rows = list(survey(model, workers=2, progress=reported.append))
        assert [row.tensor.name for row in rows] == ["first", "unknown", "last"]
        first, unknown, last = rows
        assert first.statistics is not None
        assert first.error is None
        assert first.statistics.mean == tensor_statistics(model.tensors["first"]).mean
        assert unknown.statistics is None
        assert isinstance(unknown.error, FormatError)
        assert "unknown (999)" in str(unknown.error)
        assert last.statistics is not None
        assert last.statistics.mean == pytest.approx(7 / 3)
        assert reported == sorted(reported)
        assert reported[-1] == 2 * model.parameters


def test_rows_come_one_by_one_and_work_stops_with_the_reader(model: Model) -> None:
    with model:
        calls: list[int] = []
        rows = survey(model, cancel=lambda: calls.append(1))
        assert next(rows).tensor.name == "first"
        before = len(calls)
        assert before > 0
        rows.close()  # type: ignore[attr-defined]
        assert len(calls) == before


def test_what_cancel_raises_arrives(model: Model) -> None:
    def cancel() -> None:
        raise InterruptedError

    with model, pytest.raises(InterruptedError):
        list(survey(model, cancel=cancel))
