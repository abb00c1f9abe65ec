"""Figures over the layers: lines, bar, sums; by mouse and keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.qtbot import QtBot

from explorer.analysis.columns import summaries
from explorer.analysis.model_grid import model_grid
from explorer.present.survey import summary_lines
from explorer.present.tables.survey import metric_named
from explorer.qt.document import Document
from explorer.qt.survey.by_layer import By, ByLayerPage
from explorer.qt.survey.layer_paint import LayerPicture, layer_grids, ticks
from explorer.qt.survey.map_paint import Scale
from explorer.qt.widgets.figures import Figure, PlotExport
from explorer.qt.widgets.table_model import ItemRole
from tests.helpers.model_pairs import arrays_of, write_gguf
from tests.helpers.services import RecordingServices
from tests.helpers.survey_views import SurveyPanel
from tests.helpers.window import unsafe_characters

Load = Callable[[Path], Document]
LAYERS = 5
ARRAYS = arrays_of(
    {
        "token_embd.weight": (8, 64),
        **{
            f"blk.{layer}.{role}.weight": (16, 64)
            for layer in range(LAYERS)
            for role in ("attn_q", "ffn_down")
        },
        **{f"blk.{layer}.attn_norm.weight": (64,) for layer in range(LAYERS)},
    }
)
del ARRAYS["blk.2.ffn_down.weight"]
NAMES = list(ARRAYS)
SHOWN = ("relative_rmse", "sqnr_db", "bits_per_weight")


@pytest.fixture
def panel(qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path) -> SurveyPanel:
    types = {name: "Q8_0" for name in NAMES if "norm" not in name}
    reference = load(write_gguf(tmp_path / "reference.gguf", "llama", ARRAYS))
    model = load(write_gguf(tmp_path / "model.gguf", "llama", ARRAYS, types))
    found = SurveyPanel(qtbot, app, reference, model, compares=True)
    found.choose(reference)
    found.view.show_page(found.view.by_layer)
    return found


def picture(page: ByLayerPage) -> LayerPicture:
    assert page.lines.picture is not None
    return page.lines.picture


def place(page: ByLayerPage, chart: int, layer: int, role: int) -> QPoint:
    point = picture(page).point(chart, layer, role)
    assert point is not None
    return point.toPoint()


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.booleans())
def test_ticks_are_few_round_and_in_sight(low: float, spread: float, logarithmic: bool) -> None:
    low = abs(low) + 1e-6 if logarithmic else low
    scale = Scale(low, low + spread * (1 + low * logarithmic), logarithmic)
    found = ticks(scale)
    assert len(found) <= 7
    slack = 1e-6 * (scale.high - scale.low) + 1e-15 * 8 * abs(scale.low)
    assert all(scale.low - slack <= tick <= scale.high + slack for tick in found)
    assert found == sorted(found)


def test_lines_are_the_figures_of_the_tensors(panel: SurveyPanel) -> None:
    page = panel.view.by_layer
    assert [one.metric.name for one in picture(page).values] == list(SHOWN)
    assert np.isnan(picture(page).values[0].lines).all()  # nothing was read
    panel.survey()
    known = panel.view.session.known
    assert known is not None
    grid = page.grid
    assert grid is not None
    assert page.lines.shown_roles == ["q", "down"]
    shown, metrics = picture(page), page.lines.fontMetrics()
    for number in range(len(shown.values)):  # the title of the axis stands before its first number
        room = shown.x_of(number, 0) - shown.cell(number).left()
        assert room >= metrics.horizontalAdvance("Layer") + metrics.horizontalAdvance("0") / 2 + 4
    for one in picture(page).values:
        of_tensors = one.metric.of_tensors(known)
        for role, name in (
            (grid.roles.index("q"), "attn_q"),
            (grid.roles.index("down"), "ffn_down"),
        ):
            for layer in range(LAYERS):
                tensor = f"blk.{layer}.{name}.weight"
                expected = of_tensors[NAMES.index(tensor)] if tensor in NAMES else math.nan
                np.testing.assert_allclose(one.lines[layer, role], expected, rtol=1e-12)
    together = picture(page).values[0].together
    content = panel.view.session.content
    assert content is not None
    sums = summaries(known, content.grid)
    assert together.tolist() == [layer.figures["relative_rmse"] for layer in sums.layers]


def test_one_of_the_charts_is_saved_alone(panel: SurveyPanel, tmp_path: Path) -> None:
    panel.survey()
    page, target = panel.view.by_layer, tmp_path / "chart.csv"
    assert page.lines.panels()[:2] == ["Relative RMSE", "SQNR"]
    page.export.save(page.lines, target, Figure(suffix=".csv", panel=1))
    panel.settle()
    assert target.read_text().splitlines()[0] == "layer,role,sqnr_db"
    assert len(page.lines.panels()) == len(picture(page).values) > 1  # all are there again


def test_a_click_chooses_and_a_double_click_opens(panel: SurveyPanel) -> None:
    panel.survey()
    page = panel.view.by_layer
    role = picture(page).grid.roles.index("down")
    there = place(page, 1, 3, role)
    panel.qtbot.mouseMove(page.lines, there)
    assert page.readout.text().startswith("blk.3.ffn_down.weight")
    assert "SQNR" in page.readout.text()
    assert "Layer 3 (rank 1 is the worst)" in page.readout.text()
    panel.qtbot.mouseClick(page.lines, Qt.MouseButton.LeftButton, pos=there)
    panel.qtbot.mouseDClick(page.lines, Qt.MouseButton.LeftButton, pos=there)
    row = NAMES.index("blk.3.ffn_down.weight")
    assert panel.chosen == [row]
    assert panel.app.calls("open_tensors") == [(row,)]
    assert page.lines.current == (-1, 3, role)


def test_keys_go_from_layer_to_layer_and_over_gaps(panel: SurveyPanel) -> None:
    panel.survey()
    page = panel.view.by_layer
    page.select_tensor(NAMES.index("blk.1.ffn_down.weight"))
    page.lines.setFocus()
    panel.qtbot.keyClick(page.lines, Qt.Key.Key_Right)  # layer 2 has none
    panel.qtbot.keyClick(page.lines, Qt.Key.Key_Up)
    panel.qtbot.keyClick(page.lines, Qt.Key.Key_Return)
    assert [NAMES[row] for row in panel.chosen] == ["blk.3.ffn_down.weight", "blk.3.attn_q.weight"]
    assert panel.app.calls("open_tensors") == [(NAMES.index("blk.3.attn_q.weight"),)]


def test_a_role_stands_out_and_norms_are_shown_on_request(panel: SurveyPanel) -> None:
    panel.survey()
    page = panel.view.by_layer
    before = page.lines.grab().toImage()
    key = picture(page).keys[0].center().toPoint()
    panel.qtbot.mouseClick(page.lines, Qt.MouseButton.LeftButton, pos=key)
    assert page.lines.grab().toImage() != before
    panel.qtbot.mouseClick(page.lines, Qt.MouseButton.LeftButton, pos=key)
    page.norms.click()
    assert page.lines.shown_roles == ["norm", "q", "down"]


def test_sums_are_those_of_analysis_and_worded_as_everywhere(panel: SurveyPanel) -> None:
    panel.survey()
    page, known = panel.view.by_layer, panel.view.session.known
    content = panel.view.session.content
    assert known is not None
    assert content is not None
    found = summaries(known, content.grid)
    table = page.table.table
    QAbstractItemModelTester(table, QAbstractItemModelTester.FailureReportingMode.Fatal)
    names = [one.name for one in table.columns]
    chosen = page.table.chosen_columns()  # what is known by now
    assert {"relative_rmse", "max_abs_error"} <= {names[column] for column in chosen}
    for by_layer in (False, True):
        page.sums.setCurrentIndex(int(by_layer))
        lines = summary_lines(found, by_layer=by_layer)
        assert table.rowCount() == len(lines)
        for place, (title, summary) in enumerate(lines):
            assert table.index(place, 0).data() == title
            cell = table.index(place, names.index("relative_rmse"))
            text = metric_named("relative_rmse").shown(summary.figures["relative_rmse"])
            assert (cell.data() or "") == text
            if text:
                assert cell.data(ItemRole.RAW) == summary.figures["relative_rmse"]


def test_without_a_layer_the_sums_of_one_say_how_to_choose_it(panel: SurveyPanel) -> None:
    panel.survey()
    page = panel.view.by_layer
    page.select_tensor(-1)
    page.sums.setCurrentIndex(By.ROLES_OF_LAYER)
    assert (page.hint.isHidden(), page.table.isHidden()) == (False, True)
    page.select_tensor(1, layer=True)
    assert (page.hint.isHidden(), page.table.isHidden()) == (True, False)


def test_the_data_behind_the_charts(panel: SurveyPanel) -> None:
    panel.survey()
    columns = dict(panel.view.by_layer.lines.data_columns())
    assert list(columns) == ["layer", "role", *SHOWN]
    assert len(columns["layer"]) == 2 * LAYERS + LAYERS  # two roles, and the layers together
    assert columns["role"][-1] == ""


def test_shows_errors_as_they_come(panel: SurveyPanel) -> None:
    page = panel.view.by_layer
    page.grow()
    panel.survey()
    panel.qtbot.waitUntil(lambda: bool(np.isfinite(picture(page).values[0].lines).any()))


def test_wide_and_hostile_models_are_bounded(qtbot: QtBot) -> None:
    names = [f"blk.{i}.attn_q.weight" for i in range(5000)] + [
        f"blk.0.<b>role{i}\n\u202e.weight" for i in range(500)
    ]
    grid = layer_grids(model_grid(names), np.ones(len(names), np.bool_))[0]
    assert grid.cells.shape == (1024, 36)
    assert grid.left_out == (465, 3976)
    assert not any(unsafe_characters(role) for role in grid.roles)
    empty = layer_grids(model_grid(["output.weight"]), np.ones(1, np.bool_))
    assert empty == []
    stacks = ["v.blk.0.w.weight", "v.blk.1.w.weight"] + [
        f"s{i}.blk.0.w.weight" for i in range(3000)
    ]
    found = layer_grids(model_grid(stacks), np.ones(len(stacks), np.bool_))
    assert (len(found), found[0].title) == (64, "v.blk")  # each takes a number for each tensor


def test_nothing_is_painted_of_no_model(panel: SurveyPanel) -> None:
    panel.show(None)
    page = panel.view.by_layer
    assert page.lines.picture is None
    assert not page.lines.grab(page.lines.rect()).toImage().isNull()
    assert page.lines.sizeHint() != QSize()


def test_a_page_out_of_sight_forgets_the_tensor_of_a_model_that_is_gone(
    qtbot: QtBot, panel: SurveyPanel, load: Load, tmp_path: Path
) -> None:
    view, page = panel.view, panel.view.by_layer
    view.select_tensor(len(NAMES) - 1)
    view.show_page(view.map)
    small = {name: ARRAYS[name] for name in NAMES[:3]}
    view.show_document(load(write_gguf(tmp_path / "small.gguf", "llama", small)))
    qtbot.waitUntil(lambda: view.session.content is not None)
    page.refresh()
    assert page.grid is not None


def test_a_narrow_figure_keeps_its_proportions(
    panel: SurveyPanel, app: RecordingServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel.survey()
    lines, drawn = panel.view.by_layer.lines, []
    own = lines.size()
    paint = lines.paint_on_paper

    def note(painter: QPainter, area: QRectF) -> None:
        drawn.append((area.size(), lines.size()))
        paint(painter, area)

    monkeypatch.setattr(lines, "paint_on_paper", note)
    path = tmp_path / "narrow.png"
    PlotExport(app, panel.view).save(lines, path, Figure(".png", (8.5, 5.5), 8.0, 300, "caption"))
    panel.qtbot.waitUntil(lambda: app.written == [str(path)])
    ((area, laid_out),) = drawn
    assert area.width() / area.height() == pytest.approx(
        laid_out.width() / laid_out.height(), rel=0.01
    )
    image = QImage(str(path))
    assert image.width() / image.height() == pytest.approx(8.5 / 5.5, rel=0.01)
    assert lines.size() == own
