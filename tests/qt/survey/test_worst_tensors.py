"""The worst tensors first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from explorer.analysis.errors.compare import compare_tensors
from explorer.formats.attachments import OpenMatrix
from explorer.present.explanations import ABOUT_ERRORS
from explorer.qt.document import Document
from explorer.qt.references import Rounding
from explorer.qt.survey.worst_tensors import WorstTensorsPage
from explorer.qt.widgets.table_model import ItemRole
from tests.analysis.test_importance import legacy
from tests.helpers.elided import elided
from tests.helpers.model_pairs import arrays_of, write_gguf
from tests.helpers.services import RecordingServices
from tests.helpers.survey_views import SurveyPanel
from tests.helpers.weight_files import huge_model

KEY = Qt.Key
Load = Callable[[Path], Document]
SIZES = {"blk.0.attn_q.weight": (4, 64), "blk.1.attn_q.weight": (64, 64), "other.weight": (3, 32)}


@pytest.fixture
def document(load: Load, tmp_path: Path) -> Document:
    arrays = arrays_of(SIZES)
    arrays["blk.0.attn_q.weight"][0, 0] = 5  # the outlier
    arrays["odd.weight"] = np.full((1, 30), 0.5, np.float32)
    return load(write_gguf(tmp_path / "model.gguf", "llama", arrays))


@pytest.fixture
def panel(qtbot: QtBot, app: RecordingServices, document: Document) -> SurveyPanel:
    return opened(SurveyPanel(qtbot, app, document))


@pytest.fixture
def rounded(qtbot: QtBot, app: RecordingServices, document: Document) -> SurveyPanel:
    """A panel of the errors of rounding."""
    panel = opened(SurveyPanel(qtbot, app, document, compares=True))
    panel.choose(Rounding("Q4_0"))
    return panel


def opened(panel: SurveyPanel) -> SurveyPanel:
    panel.view.show_page(panel.view.worst_tensors)
    tester = QAbstractItemModelTester(
        panel.view.worst_tensors.model,
        QAbstractItemModelTester.FailureReportingMode.Warning,
        panel.view,
    )
    assert tester.model() is panel.view.worst_tensors.model
    return panel


def page(panel: SurveyPanel) -> WorstTensorsPage:
    found: WorstTensorsPage = panel.view.worst_tensors
    return found


def rank_by(panel: SurveyPanel, metric: str) -> None:
    """Choose a metric, as a person does."""
    box = page(panel).rank_by
    box.setCurrentIndex(box.findData(metric))
    box.activated.emit(box.currentIndex())


def test_says_once_what_weight_error_does_not_show(rounded: SurveyPanel) -> None:
    texts = [label.text() for label in rounded.view.findChildren(QLabel)]
    assert texts.count(ABOUT_ERRORS) == 1


def test_the_worst_comes_first_by_any_figure(panel: SurveyPanel) -> None:
    panel.survey()
    assert page(panel).chosen.name == "outlier_ratio"
    assert panel.ranked()[0] == "blk.0.attn_q.weight"
    ratios = panel.ranked("outlier_ratio")
    assert ratios == sorted(ratios, reverse=True)  # type: ignore[type-var]
    rank_by(panel, "bytes")
    assert panel.ranked()[0] == "blk.1.attn_q.weight"
    assert not page(panel).table.isColumnHidden(panel.column("bytes"))


def test_the_least_sqnr_is_the_worst(rounded: SurveyPanel) -> None:
    panel = rounded
    panel.survey()
    assert page(panel).chosen.name == "relative_rmse"  # no other one was chosen
    by_error = panel.ranked()
    rank_by(panel, "sqnr_db")
    assert panel.ranked()[:3] == by_error[:3]
    assert panel.ranked("sqnr_db")[-1] is None  # of what is not comparable
    assert "not a whole number of blocks" in str(panel.ranked("problem")[-1])


def test_by_their_share_large_tensors_count(rounded: SurveyPanel) -> None:
    panel = rounded
    panel.survey()
    rank_by(panel, "rmse")
    assert panel.ranked()[0] == "blk.0.attn_q.weight"
    page(panel).table.sortByColumn(panel.column("share"), Qt.SortOrder.DescendingOrder)
    shares = panel.ranked("share")
    known = [share for share in shares if share is not None]
    assert sum(known) == pytest.approx(1)  # type: ignore[arg-type]
    assert shares[:3] == sorted(known, reverse=True)[:3]  # type: ignore[type-var]
    comparison = panel.view.session.comparison
    assert comparison is not None
    squares = comparison.errors.squares
    assert shares[0] == pytest.approx(squares.max() / squares.sum())


def test_a_click_on_a_header_sorts_too(panel: SurveyPanel) -> None:
    panel.survey()
    table = page(panel).table
    table.sortByColumn(panel.column("tensor"), Qt.SortOrder.AscendingOrder)
    assert panel.ranked() == sorted(panel.ranked(), key=str)


def test_the_filter_takes_the_tensor_tables_terms(panel: SurveyPanel) -> None:
    panel.survey()
    panel.view.focus_search()
    panel.qtbot.keyClicks(page(panel).bar.edit, "layer:0-1 params>1000")
    assert panel.ranked() == ["blk.1.attn_q.weight"]
    assert page(panel).bar.status.text() == "1 of 4, 4 known"
    panel.qtbot.keyClick(page(panel).bar.edit, KEY.Key_Escape)
    assert len(panel.ranked()) == 4
    panel.qtbot.keyClicks(page(panel).bar.edit, "layer:x")
    assert "'layer:x' is left out" in page(panel).bar.note.text()
    assert page(panel).bar.status.text() == "4 of 4, 4 known"


def test_choosing_and_opening(panel: SurveyPanel) -> None:
    panel.survey()
    table = page(panel).table
    place = table.visualRect(table.table.index(1, 0)).center()
    panel.qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    row = table.table.content_row(table.table.index(1, 0))
    assert panel.chosen == [row]
    assert panel.view.map.map.current == panel.cell_of(row)
    panel.qtbot.keyClick(table, KEY.Key_Return)
    assert panel.app.calls("open_tensors") == [(row,)]
    panel.qtbot.keyClick(table, KEY.Key_Up)
    assert len(panel.chosen) == 2


def test_a_selection_from_elsewhere_answers_nothing(panel: SurveyPanel) -> None:
    panel.survey()
    for row in (2, 0, 1, 1, -1):
        panel.view.select_tensor(row)
        selected = page(panel).table.selected_content_rows().tolist()
        assert selected == ([] if row < 0 else [row])
    rank_by(panel, "std")
    assert panel.chosen == []


def test_rows_grow_while_the_survey_runs_and_the_selection_stays(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    panel = SurveyPanel(qtbot, app, load(huge_model(tmp_path / "huge.gguf", 1 << 24, 40)))
    panel.view.show_page(page(panel))
    panel.view.select_tensor(7)
    rank_by(panel, "std")
    panel.view.session.start()
    qtbot.waitUntil(lambda: ", 0 known" not in page(panel).bar.status.text())
    assert page(panel).table.selected_content_rows().tolist() == [7]
    panel.view.session.cancel()
    panel.settle()
    assert page(panel).table.verticalScrollBar().value() == 0  # the worst are in sight
    assert panel.chosen == []


def test_exports_what_is_shown(rounded: SurveyPanel, tmp_path: Path) -> None:
    panel = rounded
    panel.survey()
    page(panel).table.export(tmp_path / "spots.json")
    panel.settle()
    rows = json.loads((tmp_path / "spots.json").read_text())
    assert [row["tensor"] for row in rows] == panel.ranked()
    assert rows[0]["relative_rmse"] > rows[1]["relative_rmse"]
    assert rows[-1]["relative_rmse"] is None
    assert "blocks" in rows[-1]["problem"]


def test_all_figures_are_columns_with_bars(panel: SurveyPanel) -> None:
    panel.survey()
    table, model = page(panel).table, page(panel).model
    for name in ("min", "max", "rms", "std", "kurtosis", "outlier_ratio", "zero_share"):
        assert panel.column(name) in table.column_order()
    assert "relative_rmse" not in [column.name for column in model.columns]
    ratios = [model.index(n, panel.column("outlier_ratio")) for n in range(model.rowCount())]
    bars = [index.data(ItemRole.BAR) for index in ratios]
    assert bars[0] == 1
    assert bars == pytest.approx(
        [index.data(ItemRole.RAW) / ratios[0].data(ItemRole.RAW) for index in ratios]
    )
    assert model.index(0, panel.column("tensor")).data(ItemRole.BAR) is None


def test_the_percentile_is_that_of_the_role(panel: SurveyPanel) -> None:
    panel.survey()
    places = dict(zip(panel.ranked(), panel.ranked("role_percentile"), strict=True))
    assert places["blk.0.attn_q.weight"] == 1  # of two
    assert places["blk.1.attn_q.weight"] == 0
    assert places["other.weight"] is None  # the only one


def test_histograms_of_several_are_asked_for(panel: SurveyPanel) -> None:
    panel.survey()
    spots = page(panel)
    assert not spots.overlay.isEnabled()
    spots.table.selectAll()
    assert spots.overlay.isEnabled()
    spots.overlay.click()
    (opened,) = panel.app.calls("open_tensors")
    assert set(opened) == {0, 1, 2, 3}


def test_histograms_are_not_asked_for_where_no_tensor_is_left(panel: SurveyPanel) -> None:
    panel.survey()
    spots = page(panel)
    spots.table.selectAll()
    panel.qtbot.keyClicks(spots.bar.edit, "none")
    panel.qtbot.waitUntil(lambda: not spots.model.rowCount())
    assert not spots.overlay.isEnabled()


def test_figures_that_come_later_have_room(panel: SurveyPanel, rounded: SurveyPanel) -> None:
    """The columns were made before anything was measured, as wide as their titles."""
    for each in (panel, rounded):
        spots = page(each)
        each.survey()
        each.qtbot.waitUntil(lambda spots=spots: not spots._renewing.isActive())
        cut = [text for text, _, _ in elided(spots.table)]
        assert spots.model.rowCount() == 4
        assert [text for text in cut if "cannot have type" not in text] == []


def test_errors_of_two_models_stand_beside_each_other(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    arrays = arrays_of(SIZES)
    names = list(SIZES)
    original = load(write_gguf(tmp_path / "f32.gguf", "llama", arrays))
    of_b = dict(reversed(arrays.items()))  # in another order
    del of_b[names[2]]
    types = [dict.fromkeys(found, kind) for found, kind in ((of_b, "Q8_0"), (arrays, "Q4_0"))]
    b = load(write_gguf(tmp_path / "b.gguf", "llama", of_b, types[0]))
    a = load(write_gguf(tmp_path / "a.gguf", "llama", arrays, types[1]))
    panel = opened(SurveyPanel(qtbot, app, original, b, a, compares=True))
    panel.references.choose_other(b)
    panel.choose(original)
    panel.survey()
    assert panel.view.session.missing == 0
    panel.view.resize(875, 640)  # in a window of 1280 pixels
    assert page(panel).table.horizontalScrollBar().maximum() == 0
    shown = dict(zip(panel.ranked(), panel.ranked("relative_rmse_b"), strict=True))
    for name in names[:2]:
        found = compare_tensors(original.model.tensors[name], b.model.tensors[name])
        assert shown[name] == pytest.approx(found.relative_rmse, rel=1e-12)
    assert shown[names[2]] is None  # B has no such tensor
    types_b = dict(zip(panel.ranked(), panel.ranked("type_b"), strict=True))
    assert types_b == {names[0]: "Q8_0", names[1]: "Q8_0", names[2]: ""}
    losses = [loss for loss in panel.ranked("difference") if loss is not None]
    assert all(float(str(loss)) < 0 for loss in losses)  # B has more bits
    errors = panel.ranked("relative_rmse_a")  # names of `compare --original --csv`
    assert errors == sorted(errors, reverse=True)  # type: ignore[type-var]
    rank_by(panel, "sqnr_db")
    assert panel.ranked("type_a")[0] == "Q4_0"
    path = tmp_path / "imatrix.dat"
    path.write_bytes(legacy((names[1], 2, np.ones(64, np.float32))))
    panel.references.choose_matrix(OpenMatrix.load(path))
    panel.survey()
    assert "weighted_relative_rmse_b" in [column.name for column in page(panel).model.columns]
    assert page(panel).table.horizontalScrollBar().maximum() == 0
    panel.references.choose_other(None)
    panel.settle()
    assert "type_b" not in [column.name for column in page(panel).model.columns]
