"""Figures of weights: one definition, one label, one way to write each."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path

import pytest

from explorer.analysis.columns import StatisticsColumns, outlier_ratio, quotient
from explorer.analysis.statistics import TensorStatistics, tensor_statistics
from explorer.formats import open_model
from explorer.present.tables.lines import lines_of
from explorer.present.tables.statistics import STATISTICS
from explorer.report.gather import gather
from explorer.report.sections import report_html
from tests.helpers.weight_files import weights_model

NAME = "blk.0.ffn_down.weight"


@pytest.fixture
def found(tmp_path: Path) -> TensorStatistics:
    with open_model(weights_model().write(tmp_path / "weights.gguf")) as model:
        return tensor_statistics(model.tensors[NAME])


def test_the_outlier_ratio_is_by_the_rms_in_report_and_survey(
    found: TensorStatistics, tmp_path: Path
) -> None:
    assert outlier_ratio(found) == found.abs_max / found.rms != found.abs_max / found.std
    columns = StatisticsColumns(1)
    columns.put(0, found)
    assert columns.outlier_ratio.tolist() == [outlier_ratio(found)]
    with open_model(weights_model().write(tmp_path / "other.gguf")) as model:
        page = report_html(gather(model), date(2026, 7, 25))
    assert STATISTICS["outlier_ratio"].cell(found) in page


def test_quotients_of_nothing_are_not_known() -> None:
    assert quotient(6, 3) == 2
    assert all(math.isnan(quotient(1, divisor)) for divisor in (0, -1, math.nan))


def test_figures_are_titled_ordered_and_written(found: TensorStatistics) -> None:
    lines = lines_of(STATISTICS, found)
    assert [line.title for line in lines][:3] == ["Count", "Finite", "NaN"]
    by_name = {line.name: line for line in lines}
    assert by_name["count"].text == f"{found.count:,}"
    assert by_name["outlier_ratio"].text.endswith(" ×")
    assert by_name["percentile_0.1"].title == "Percentile 0.1 %"
    assert by_name["percentile_50"].title == "Median"
    assert by_name["step_error_rms"].title == "Rounding error, RMS"
    assert float(by_name["std"].text) == pytest.approx(found.std, rel=1e-6)  # all sure digits
    assert float(STATISTICS["std"].cell(found)) == pytest.approx(found.std, rel=1e-4)
