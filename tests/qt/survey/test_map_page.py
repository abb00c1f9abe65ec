"""The map of the model: colours, read-out, choosing by mouse and keys, saving."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QTextLayout
from pytestqt.qtbot import QtBot

from explorer.analysis.columns import summaries
from explorer.analysis.model_grid import ModelGrid, model_grid
from explorer.present.colours import type_colour
from explorer.present.tables.survey import metric_named
from explorer.qt.document import Document
from explorer.qt.references import Rounding
from explorer.qt.survey.map_page import ModelMap
from explorer.qt.survey.map_paint import (
    COLOUR_MAP,
    SUM,
    LineKind,
    MapLayout,
    MapPainter,
    MetricColouring,
    Scale,
)
from explorer.qt.widgets.controls import BETWEEN
from explorer.qt.widgets.plot import PlotColours
from tests.helpers.model_pairs import arrays_of, write_gguf
from tests.helpers.services import RecordingServices
from tests.helpers.survey_views import SurveyPanel
from tests.helpers.window import copied, unsafe_characters

KEY = Qt.Key
Load = Callable[[Path], Document]
ROLES = ("attn_q", "attn_k", "ffn_up")
ARRAYS = arrays_of(
    {
        "token_embd.weight": (8, 64),
        **{f"blk.{layer}.{role}.weight": (16, 64) for layer in range(4) for role in ROLES},
        "output_norm.weight": (64,),
    }
)
del ARRAYS["blk.2.attn_k.weight"]


@pytest.fixture
def panel(qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path) -> SurveyPanel:
    types = {"blk.0.attn_q.weight": "Q8_0", "blk.1.attn_q.weight": "Q4_0"}
    path = write_gguf(tmp_path / "model.gguf", "llama", ARRAYS, types)
    return SurveyPanel(qtbot, app, load(path))


@pytest.fixture
def rounded(qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path) -> SurveyPanel:
    """A panel of the errors of rounding."""
    path = write_gguf(tmp_path / "plain.gguf", "llama", ARRAYS)
    panel = SurveyPanel(qtbot, app, load(path), compares=True)
    panel.choose(Rounding("Q8_0"))
    panel.survey()
    return panel


def row(name: str) -> int:
    return list(ARRAYS).index(name)


def pixel(panel: SurveyPanel, place: QPoint) -> QColor:
    """Return the colour beside the text of a cell."""
    return panel.view.map.map.viewport().grab().toImage().pixelColor(place)


def corner(panel: SurveyPanel, name: str) -> QPoint:
    cell = panel.view.map.map.cell_place(panel.cell_of(row(name)))
    return cell.topLeft().toPoint() + QPoint(5, 5)


def test_types_have_the_colours_of_the_legend(panel: SurveyPanel) -> None:
    for name, kind in (
        ("blk.0.attn_q.weight", "Q8_0"),
        ("blk.1.attn_q.weight", "Q4_0"),
        ("blk.2.attn_q.weight", "F32"),
        ("token_embd.weight", "F32"),
    ):
        assert pixel(panel, corner(panel, name)) == QColor(type_colour(kind))


def test_figures_have_the_colours_of_the_scale(panel: SurveyPanel) -> None:
    panel.survey()
    panel.view.map.colour("bytes")
    assert pixel(panel, corner(panel, "blk.3.ffn_up.weight")) == COLOUR_MAP[-1]
    content = panel.view.session.content
    assert content is not None
    nbytes = np.where(content.matrices, content.document.arrays.nbytes, np.inf)
    least = content.document.model.tensors.columns.names[int(nbytes.argmin())]
    assert pixel(panel, corner(panel, least)) == COLOUR_MAP[0]


def test_each_layer_and_role_has_its_sum(rounded: SurveyPanel) -> None:
    """They are those of the tables of sums, to the last digit."""
    session = rounded.view.session
    content, known = session.content, session.known
    assert content is not None
    assert known is not None
    metric = metric_named("relative_rmse")
    found = MetricColouring(metric, known, content, session.comparison)
    sums = summaries(known, content.grid)
    section = next(n for n, one in enumerate(content.folded.sections) if one.layers)
    for row_, layer in enumerate(sums.layers):
        text, colour = found.sum_of(section, row_, SUM)
        assert text == metric.shown(layer.figures["relative_rmse"])
        assert colour is not None
    by_role = {one.role: one for one in sums.roles}
    for column, one in enumerate(content.folded.sections[section].columns):
        text, _ = found.sum_of(section, SUM, column)
        assert text == metric.shown(by_role[one.name].figures["relative_rmse"])


def test_a_scale_follows_the_logarithm_where_figures_are_far_apart() -> None:
    scale = Scale.of(np.array([1.0, 10.0, 100.0, np.nan]))
    assert scale.logarithmic
    np.testing.assert_allclose(scale.places(np.array([1, 10, 100, np.nan])), [0, 0.5, 1, np.nan])
    scale = Scale.of(np.array([-1.0, 3.0, np.inf]))
    assert not scale.logarithmic
    np.testing.assert_array_equal(scale.places(np.array([1.0, np.inf, -np.inf])), [0.5, 1, 0])
    assert Scale.of(np.array([2.0, 2.0])).places(np.array([2.0])).tolist() == [0]
    assert np.isnan(Scale.of(np.array([np.nan])).places(np.array([np.nan, 1.0]))).all()
    zeros = Scale.of(np.zeros(3))
    assert not zeros.logarithmic


def test_what_is_not_known_has_no_colour(panel: SurveyPanel) -> None:
    session = panel.view.session
    page = panel.view.map
    page.colour("step_error")
    assert session.content is not None
    assert session.known is not None
    assert page.chosen is not None

    def looks(name: str) -> tuple[bool, bool]:
        """Return whether a cell has a colour, and whether it is void."""
        assert page.chosen is not None
        assert session.content is not None
        assert session.known is not None
        colouring = MetricColouring(page.chosen, session.known, session.content, None)
        cell = panel.cell_of(row(name))
        return colouring.colour(cell) is not None, colouring.is_void(cell)

    assert looks("blk.0.attn_q.weight") == (False, False)
    panel.survey()
    assert looks("blk.0.attn_q.weight") == (True, False)
    assert looks("blk.2.attn_q.weight") == (False, True)  # it is not quantized


def test_each_role_by_itself(panel: SurveyPanel) -> None:
    page = panel.view.map
    panel.survey()
    page.colour("outlier_ratio")
    page.by_role.setChecked(True)
    content, known = panel.view.session.content, panel.view.session.known
    assert content is not None
    assert known is not None
    ratio = known.statistics.outlier_ratio
    for role in ROLES:
        names = [name for name in ARRAYS if role in name]
        worst = max(names, key=lambda name: ratio[row(name)])
        assert pixel(panel, corner(panel, worst)) == COLOUR_MAP[-1]


def lines_of(text: str, width: int) -> list[str]:
    """Return the lines of a text in a label of some width."""
    layout, lines = QTextLayout(text), []
    layout.beginLayout()
    while (line := layout.createLine()).isValid():
        line.setLineWidth(width)
        lines.append(text[line.textStart() : line.textStart() + line.textLength()])
    layout.endLayout()
    return lines


def test_a_click_chooses_a_tensor(panel: SurveyPanel) -> None:
    page = panel.view.map
    panel.click(row("blk.3.attn_k.weight"))
    assert panel.chosen == [row("blk.3.attn_k.weight")]
    assert page.map.current == panel.cell_of(panel.chosen[0])
    assert page.readout.text().startswith(BETWEEN.join(("blk.3.attn_k.weight", "F32", "16 × 64")))
    for width in range(200, 800, 7):
        lines = lines_of(page.readout.text(), width)
        assert not any(line.rstrip().endswith("·") for line in lines), (width, lines)
    missing = panel.place(row("blk.1.attn_k.weight")) + (
        panel.place(row("blk.1.attn_k.weight")) - panel.place(row("blk.0.attn_k.weight"))
    )
    panel.qtbot.mouseClick(page.map.viewport(), Qt.MouseButton.LeftButton, pos=missing)
    assert len(panel.chosen) == 1  # layer 2 has none


@pytest.mark.parametrize(
    ("start", "key", "goal"),
    [
        ("", KEY.Key_Right, "token_embd.weight"),
        ("token_embd.weight", KEY.Key_Right, "token_embd.weight"),
        ("blk.0.attn_q.weight", KEY.Key_Right, "blk.0.attn_k.weight"),
        ("blk.0.attn_k.weight", KEY.Key_Down, "blk.1.attn_k.weight"),
        ("blk.2.ffn_up.weight", KEY.Key_Left, "blk.2.attn_q.weight"),  # there is no attn_k
        ("blk.2.attn_q.weight", KEY.Key_Left, "blk.2.attn_q.weight"),
        ("blk.2.attn_q.weight", KEY.Key_Up, "blk.1.attn_q.weight"),
        ("blk.0.attn_q.weight", KEY.Key_Up, "token_embd.weight"),
        ("blk.0.attn_q.weight", KEY.Key_End, "output_norm.weight"),
        ("output_norm.weight", KEY.Key_PageUp, "token_embd.weight"),
        ("blk.3.ffn_up.weight", KEY.Key_PageDown, "output_norm.weight"),
        ("blk.3.ffn_up.weight", KEY.Key_Home, "token_embd.weight"),
    ],
)
def test_keys_go_from_cell_to_cell(panel: SurveyPanel, start: str, key: KEY, goal: str) -> None:
    if start:
        panel.view.select_tensor(row(start))
    panel.qtbot.keyClick(panel.view.map.map, key)
    assert list(ARRAYS)[panel.chosen[-1]] == goal


def test_down_goes_over_a_gap_to_the_nearest(panel: SurveyPanel) -> None:
    panel.view.select_tensor(row("blk.1.attn_k.weight"))
    panel.qtbot.keyClick(panel.view.map.map, KEY.Key_Down)
    assert panel.chosen[-1] in {row("blk.2.attn_q.weight"), row("blk.2.ffn_up.weight")}


def test_a_selection_from_elsewhere_is_marked_and_answers_nothing(panel: SurveyPanel) -> None:
    panel.view.select_tensor(row("blk.3.ffn_up.weight"))
    assert panel.view.map.map.current == panel.cell_of(row("blk.3.ffn_up.weight"))
    assert "blk.3.ffn_up.weight" in panel.view.map.map.accessibleDescription()
    panel.view.select_tensor(-1)
    assert panel.view.map.map.current == -1
    assert panel.chosen == []


def reads(panel: SurveyPanel, name: str) -> bool:
    """Move the mouse to a cell; return whether it is read."""
    page = panel.view.map
    panel.qtbot.mouseMove(page.map.viewport(), panel.place(row(name)))
    return name in page.readout.text()


def test_the_mouse_reads_without_choosing(panel: SurveyPanel) -> None:
    panel.qtbot.waitUntil(lambda: reads(panel, "blk.1.attn_q.weight"))
    assert "Q4_0" in panel.view.map.readout.text()
    assert "Bits per weight 4.5" in panel.view.map.readout.text()
    assert panel.chosen == []


def test_the_mouse_reads_errors(rounded: SurveyPanel) -> None:
    panel, page = rounded, rounded.view.map
    panel.qtbot.waitUntil(lambda: reads(panel, "blk.0.attn_q.weight"))
    assert "Relative RMSE" in page.readout.text()
    assert "SQNR" in page.readout.text()
    page.refresh()  # as when more was read meanwhile, and the mouse rests
    assert "blk.0.attn_q.weight" in page.readout.text()
    assert panel.chosen == []


def test_a_figure_without_room_has_fewer_digits_and_is_not_cut(
    rounded: SurveyPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = rounded.view.session
    assert session.content is not None
    assert session.known is not None
    image = QImage(200, 400, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    metrics = QFontMetricsF(painter.font())
    layout = MapLayout(session.content.grid, 200.0, metrics.height(), metrics.horizontalAdvance)
    colouring = MetricColouring(metric_named("rmse"), session.known, session.content, None)
    written: list[str] = []
    monkeypatch.setattr(
        QPainter, "drawText", lambda _painter, *arguments: written.append(arguments[-1])
    )
    colours = PlotColours.on_paper()
    MapPainter(layout, colouring, colours).paint(painter, QRectF(0, 0, layout.width, layout.height))
    painter.end()
    figures = [text for text in written if "e-0" in text]
    longest = max(len(colouring.text(cell)) for cell in range(len(session.content.grid.cells)))
    assert longest > len("2e-04")
    assert sum(len(text) < longest for text in figures) > 4
    assert not any("…" in text for text in figures)


def test_copies_what_is_known_of_the_cell(panel: SurveyPanel) -> None:
    panel.click(row("blk.1.attn_q.weight"))
    view = panel.view.map.map
    text = copied(
        panel.qtbot,
        lambda: panel.qtbot.keyClick(view, KEY.Key_C, Qt.KeyboardModifier.ControlModifier),
    )
    assert text.splitlines()[:2] == ["Tensor\tblk.1.attn_q.weight", "Type\tQ4_0"]


def test_enter_and_double_click_open(panel: SurveyPanel) -> None:
    panel.click(row("blk.1.attn_q.weight"))
    view = panel.view.map.map
    panel.qtbot.keyClick(view, KEY.Key_Return)
    place = panel.place(row("blk.2.ffn_up.weight"))
    panel.qtbot.mouseDClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    opened = [(row("blk.1.attn_q.weight"),), (row("blk.2.ffn_up.weight"),)]
    assert panel.app.calls("open_tensors") == opened


def test_saves_the_whole_map_and_the_figures_behind_it(panel: SurveyPanel, tmp_path: Path) -> None:
    panel.survey()
    page = panel.view.map
    page.colour("std")
    picture = page.picture()
    assert picture is not None
    for suffix in ("png", "svg", "csv"):
        page._export.save(picture, tmp_path / f"map.{suffix}")
    panel.settle()
    assert len(panel.app.written) == 3
    image = QImage(str(tmp_path / "map.png"))
    assert image.size() == picture.size() * 2
    assert image.pixelColor(image.width() - 1, image.height() - 1) == QColor("white")
    colours = {
        image.pixel(x, y) for x in range(0, image.width(), 7) for y in range(0, image.height(), 7)
    }
    assert len(colours) > 8
    assert "<svg" in (tmp_path / "map.svg").read_text()
    rows = list(csv.DictReader((tmp_path / "map.csv").read_text().splitlines()))
    assert len(rows) == len(ARRAYS)
    by_name = {one["first_tensor"]: one for one in rows}
    one = by_name["blk.3.ffn_up.weight"]
    assert (one["stack"], one["layer"], one["role"]) == ("blk", "3", "ffn_up")
    values = ARRAYS["blk.3.ffn_up.weight"].astype(float)
    assert float(one["std"]) == pytest.approx(values.std(), rel=1e-9)
    assert "relative_rmse" not in one


def test_hostile_names_are_shown_as_they_are(
    qtbot: QtBot, app: RecordingServices, hostile: Document
) -> None:
    panel = SurveyPanel(qtbot, app, hostile)
    page = panel.view.map
    content = panel.view.session.content
    assert content is not None
    for cell in range(len(content.grid.cells)):
        page.map.select(cell)
        page._read(-1)
        assert not unsafe_characters(page.readout.text())
    assert page.map.viewport().grab().width() > 0


# The layout


def laid_out(names: list[str], width: float = 600) -> MapLayout:
    return MapLayout(model_grid(names), width, 14.0, lambda text: 7.0 * len(text))


def test_every_cell_is_found_where_it_is() -> None:
    names = [f"outside{i}" for i in range(17)]
    names += [f"{s}blk.{i}.{r}" for s in ("", "v.") for i in range(5) for r in ROLES]
    layout = laid_out([*names, "output_norm.weight"])
    for cell in range(len(layout.grid.cells)):
        centre = layout.place_of(cell).center()
        assert layout.cell_at(centre.x(), centre.y()) == cell
    places = [layout.place_of(cell) for cell in range(len(layout.grid.cells))]
    whole = QRectF(0, 0, layout.width, layout.height)
    assert all(whole.contains(place) for place in places)
    assert not any(one.intersects(other) for i, one in enumerate(places) for other in places[:i])
    assert layout.cell_at(-5, 50) == layout.cell_at(5, -5) == layout.cell_at(1e9, 1e9) == -1


def test_wide_and_long_grids_paint_only_what_is_seen(qtbot: QtBot) -> None:
    names = [f"blk.{layer}.role{role}.weight" for layer in range(128) for role in range(150)]
    layout = laid_out(names)
    lines = layout.lines_between(1000, 1400)
    assert len(lines) < 40
    assert all(len(layout.columns_between(line, 2000, 2600)) < 20 for line in lines)
    view = ModelMap()
    qtbot.addWidget(view)
    view.resize(600, 400)
    view.show_grid(model_grid(names))
    assert view.horizontalScrollBar().maximum() > 0
    assert view.verticalScrollBar().maximum() > 0


def test_roles_and_layers_stay_in_sight(panel: SurveyPanel, load: Load, tmp_path: Path) -> None:
    names = {f"blk.{layer}.role{role}.weight": (1, 32) for layer in range(60) for role in range(40)}
    panel.show(load(write_gguf(tmp_path / "large.gguf", "llama", arrays_of(names))))
    view = panel.view.map.map
    panel.view.select_tensor(list(names).index("blk.59.role39.weight"))
    place = view.cell_place(view.current)
    assert view.viewport().rect().contains(place.center().toPoint())
    header = view.layout_.header_of(0)
    assert header is not None
    assert header.kind is LineKind.HEADER
    text = int(QFontMetricsF(view.font()).height())
    strip = view.viewport().grab(view.viewport().rect().adjusted(0, 0, 0, 0)).toImage()
    inks = {strip.pixel(x, y) for x in range(100, 400) for y in range(2, 2 * text)}
    assert len(inks) > 2  # letters of the roles


def test_an_empty_grid(qtbot: QtBot) -> None:
    view = ModelMap()
    qtbot.addWidget(view)
    for grid in (None, ModelGrid((), np.zeros((0, 3), np.int64), np.zeros(0, np.int64))):
        view.show_grid(grid)
        view.resize(300, 200)
        view.grab()
        qtbot.keyClick(view, KEY.Key_Down)
        assert view.current == -1


def test_the_map_shows_the_error_as_it_comes(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    """A person presses the one button; nobody chooses a colouring."""
    types = {name: "Q8_0" for name in ARRAYS if name != "output_norm.weight"}
    reference = load(write_gguf(tmp_path / "reference.gguf", "llama", ARRAYS))
    candidate = load(write_gguf(tmp_path / "candidate.gguf", "llama", ARRAYS, types))
    panel = SurveyPanel(qtbot, app, reference, candidate, compares=True)
    page = panel.view.map
    assert page.chosen is None  # nothing was read
    panel.choose(reference)
    seen: list[str] = []
    panel.view.session.grown.connect(lambda: seen.append(page.colour_by.currentData()))
    qtbot.mouseClick(panel.view.bar.button, Qt.MouseButton.LeftButton)
    panel.settle()
    assert page.chosen is not None
    assert page.chosen.name == "relative_rmse"
    assert set(seen) == {"relative_rmse"}  # from the first report on
    panel.choose(None)
    assert page.chosen is None
    page.colour("")
    panel.choose(reference)
    assert page.chosen is None  # the user chose types


def test_a_range_of_the_colours_is_typed(panel: SurveyPanel) -> None:
    panel.survey()
    page, keys = panel.view.map, panel.qtbot
    page.colour("kurtosis")
    edges = page.typed.edges

    def scale() -> Scale | None:
        colouring = page.map._colouring
        assert isinstance(colouring, MetricColouring)
        return colouring.scale

    found = scale()
    assert found is not None
    assert not edges.isVisible()
    page.typed.wanted.click()
    assert edges.value() == pytest.approx((found.low, found.high), rel=1e-3)
    for edit, text in ((edges.low, "-5"), (edges.high, "-4")):
        edit.selectAll()
        keys.keyClicks(edit, text)
    keys.keyClick(edges.high, KEY.Key_Return)
    assert scale() == Scale(-5, -4, False)
    assert pixel(panel, corner(panel, "blk.0.attn_q.weight")) == COLOUR_MAP[-1]  # all are beyond
    edges.low.selectAll()
    keys.keyClicks(edges.low, "9")
    keys.keyClick(edges.low, KEY.Key_Return)
    assert page.readout.text() == "The first edge must be less than the last one."
    assert scale() == found
    page.colour("std")  # another figure has a range of its own
    assert not page.typed.wanted.isChecked()
    assert not edges.isVisible()
    page.colour("")
    assert not page.typed.isEnabled()
