"""Trying other types as a person does: choose, wait, look, click, save, cancel, choose another."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.analysis import surveys
from explorer.analysis.errors.compare import compare_tensors
from explorer.analysis.errors.metrics import RunningErrors
from explorer.analysis.errors.pairs import PairErrors, WeightsPair
from explorer.analysis.importance import importance_of
from explorer.analysis.requantization import requantize
from explorer.analysis.rounding import rounding_types
from explorer.analysis.what_if import SizeAfter, TypeErrors
from explorer.formats.model import Model
from explorer.planner import Device, Host, Settings
from explorer.planner.inputs import PlanInputs
from explorer.present.tables.what_if import Trial, note_text, what_if_table
from explorer.qt.compare.bar import MatrixChoice
from explorer.qt.document import Document
from explorer.qt.jobs import JobRunner
from explorer.qt.main_window import MainWindow
from explorer.qt.references import References
from explorer.qt.what_if.chart import Measure
from explorer.qt.what_if.controls import USUAL_TYPES, Scope, type_groups
from explorer.qt.what_if.page import WhatIfPage
from explorer.qt.widgets.figures import Figure
from explorer.qt.widgets.table_model import ItemRole, TableModel
from tests.helpers.gguf_writer import GgufFile, TensorSpec
from tests.helpers.model_pairs import write_gguf
from tests.helpers.reading import AT_ONCE, Reading
from tests.helpers.services import RecordingServices
from tests.helpers.symbols import kept_after_drawing_again
from tests.helpers.threads import own_threads
from tests.helpers.weight_files import huge_model
from tests.helpers.weight_views import settle
from tests.helpers.window import copied, wait_idle

KEY = Qt.Key
Load = Callable[[Path], Document]

UP, NEXT, DOWN, NORM = (
    "blk.0.ffn_up.weight",
    "blk.1.ffn_up.weight",
    "blk.0.ffn_down.weight",
    "blk.0.attn_norm.weight",
)
QUICK = ("Q4_0", "Q5_0", "Q8_0", "Q4_K")
GIB = 1 << 30
TABLE = what_if_table()


def test_every_type_is_offered_once_and_the_usual_ones_are_quick() -> None:
    offered = [name for _, names in type_groups() for name in names]
    assert sorted(offered) == sorted(rounding_types())
    assert set(USUAL_TYPES) <= set(offered)
    assert all(title for title, _ in type_groups())
    (missing,) = (title for title, names in type_groups() if not names)
    assert missing == "Not IQ2_KS, IQ4_KSS, IQ2_KL, …"


def test_the_table_is_sorted_again_when_more_is_known(qapp: QApplication) -> None:
    size, figures = SizeAfter(100, 50, 500, 600), RunningErrors().metrics()
    trials = [Trial(name, name, size, size) for name in ("Q4_0", "Q8_0")]
    table, model = what_if_table(), TableModel()
    model.set_content(table, trials)
    names = [column.name for column in model.columns]
    model.sort(names.index("relative_rmse"))
    known = [
        replace(one, errors=TypeErrors(replace(figures, relative_rmse=error), None, 100, 100))
        for one, error in zip(trials, (0.2, 0.01), strict=True)
    ]
    model.renew(table, known)
    assert model.index(0, 0).data() == "Q8_0"
    assert model.index(0, names.index("relative_rmse")).data() == "1.000 %"


def _arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    return {
        UP: random.normal(0, 0.02, (64, 256)).astype(np.float32),
        NEXT: random.normal(0, 0.05, (64, 256)).astype(np.float32),
        DOWN: random.normal(0, 0.02, (32, 96)).astype(np.float32),
        NORM: np.ones(256, np.float32),
    }


class Page:
    """The page in a window of its own, with few types and below the choice of a matrix."""

    def __init__(self, qtbot: QtBot, app: RecordingServices, documents: list[Document]) -> None:
        self.qtbot, self.app, self.runner, self.documents = qtbot, app, app.runner, documents
        self.references = References(app)
        self.references.set_documents(documents)
        self.references.show_document(documents[0])
        self.matrix = MatrixChoice(self.references)
        qtbot.addWidget(self.matrix)
        self.page = WhatIfPage(app, self.references)
        self.page.resize(1000, 720)
        qtbot.addWidget(self.page)
        self.page.controls.types.set_types(QUICK)
        self.select(documents[0].model.tensors.columns.names[0])

    def select(self, *names: str) -> None:
        """Select tensors, without waiting."""
        rows = [self.documents[0].model.tensors.row_of(name) for name in names]
        assert None not in rows
        self.page.show_subject(self.documents[0], [row for row in rows if row is not None])

    def settle(self) -> None:
        """Wait until nothing is read any more."""
        settle(self.qtbot, self.runner)

    @property
    def lines(self) -> dict[str, Trial]:
        return {line.type_name: line for line in self.page.panel.lines}

    @property
    def model(self) -> Model:
        return self.documents[0].model

    def open(self) -> WhatIfPage:
        """Show the page and wait until all that begins by itself is done."""
        self.page.show()
        self.qtbot.waitExposed(self.page)
        self.settle()
        return self.page

    def measure(self, scope: Scope) -> None:
        """Choose tensors and press the button that measures, if there is one."""
        self.page.controls.choose(scope)
        self.settle()
        button = self.page.progress.button
        if button.isVisible():
            self.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
            self.settle()

    def pixel(self, type_name: str) -> QPoint:
        """Return where a type is in the chart."""
        chart = self.page.panel.chart
        point = next(p for p in chart.points if p.line.type_name == type_name)
        return chart.mapFromScene(chart.box.mapViewToScene(QPointF(point.x, point.y)))


@pytest.fixture
def documents(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Document]:
    """Return models that are planned, though they lack most of their tensors."""
    monkeypatch.setattr("explorer.planner.engines.llama_cpp.refusals.refusal", lambda *_: "")
    arrays = _arrays()
    numbers = {"block_count": 2, "embedding_length": 256, "attention__head_count": 4}
    numbers["context_length"] = 8192
    types = dict.fromkeys((UP, NEXT), "Q4_K")
    two = load(write_gguf(tmp_path / "two.gguf", "llama", arrays, types, **numbers))
    return [two, load(write_gguf(tmp_path / "one.gguf", "llama", arrays, **numbers))]


@pytest.fixture
def opened(qtbot: QtBot, app: RecordingServices, documents: list[Document]) -> Page:
    page = Page(qtbot, app, documents)
    page.open()
    return page


@pytest.fixture
def huge(qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path) -> Page:
    """A model of two tensors of 16 GiB each."""
    return Page(qtbot, app, [load(huge_model(tmp_path / "huge.gguf", 1 << 32, tensors=2))])


def test_a_tensor_is_tried_at_once_and_every_figure_is_that_of_a_requantization(
    opened: Page,
) -> None:
    tensor = opened.model.tensors[UP]
    for row in requantize(tensor, QUICK):
        line = opened.lines[row.type]
        assert row.errors is not None
        for name in ("rmse", "relative_rmse", "sqnr_db", "max_abs_error"):
            assert TABLE[name].value(line) == getattr(row.errors, name)
        assert TABLE["bytes"].value(line) == row.nbytes
        assert TABLE["bits_per_weight"].value(line) == row.bits_per_weight
        assert TABLE["bytes_change"].value(line) == row.nbytes - tensor.nbytes
        assert TABLE["saturated_codes"].value(line) == pytest.approx(row.saturated_codes)
    assert "All 4 types" in opened.page.progress.label.text()
    assert "come on top" in opened.page.note.text()
    now = opened.lines[""]
    assert now.title == "Q4_K (as it is)"
    assert now.figure("rmse") is None
    # rounded to what it is already, it loses next to nothing: nothing else is on that front
    assert opened.lines["Q4_K"].front
    assert not opened.lines["Q5_0"].front


def test_with_the_original_the_file_has_an_error_of_its_own(opened: Page) -> None:
    opened.references.choose(opened.documents[1])
    opened.settle()
    reference = opened.documents[1].model.tensors[UP]
    errors_of = {row.type: row.errors for row in requantize(reference, QUICK)}
    for name, errors in errors_of.items():
        assert errors is not None
        assert opened.lines[name].figure("rmse") == errors.rmse
    now = opened.lines[""]
    assert now.figure("rmse") == compare_tensors(reference, opened.model.tensors[UP]).rmse
    assert "one.gguf, is rounded" in opened.page.note.text()
    shown = [p for p in opened.page.panel.chart.points if p.present]
    assert [p.x for p in shown] == [4.5]


def test_of_a_single_type_nothing_is_said_in_the_plural(opened: Page) -> None:
    progress = opened.page.progress
    opened.page.controls.types.set_types(("Q4_0",))
    opened.page.controls.choose(Scope.SAME_ROLE)
    opened.settle()
    assert progress.button.text() == "Measure 1 type"
    opened.measure(Scope.SAME_ROLE)
    assert progress.label.text() == "This type is measured."


def test_a_closed_original_is_none_any_more(opened: Page) -> None:
    opened.references.choose(opened.documents[1])
    opened.settle()
    before = opened.lines["Q4_0"].figure("rmse")
    opened.page.hide()
    opened.references.set_documents(opened.documents[:1])
    assert opened.page.estimate is None  # and nothing keeps it
    opened.page.show()
    opened.settle()
    assert opened.lines["Q4_0"].figure("rmse") != before
    assert "own weights" in opened.page.note.text()


def test_a_role_is_one_tensor_of_many_layers(opened: Page) -> None:
    opened.measure(Scope.SAME_ROLE)
    arrays = _arrays()
    now = opened.model.tensors[UP].nbytes + opened.model.tensors[NEXT].nbytes
    line = opened.lines["Q8_0"]
    assert TABLE["bytes"].value(line) == (arrays[UP].size + arrays[NEXT].size) // 32 * 34
    assert TABLE["bytes_change"].value(line) == line.size.nbytes - now
    parts = [next(iter(requantize(opened.model.tensors[n], ["Q8_0"]))) for n in (UP, NEXT)]
    squares = [part.errors.rmse**2 for part in parts if part.errors]
    assert line.figure("rmse") == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-12)


def test_the_whole_model_keeps_what_cannot_have_a_type(opened: Page) -> None:
    opened.page.controls.types.set_types(("Q8_0", "Q4_K", "int4"))
    opened.measure(Scope.MODEL)
    lines = opened.lines
    assert lines["Q8_0"].complete
    assert lines["Q8_0"].errors.total == sum(a.size for n, a in _arrays().items() if n != NORM)
    assert lines["Q4_K"].size.substitutes == {"Q5_0": 1}  # rows of 96 weights
    squares = weights = 0.0
    for name, kind in ((UP, "Q4_K"), (NEXT, "Q4_K"), (DOWN, "Q5_0")):
        (part,) = requantize(opened.model.tensors[name], [kind])
        assert part.errors is not None
        squares += part.errors.rmse**2 * part.errors.compared
        weights += part.errors.compared
    assert lines["Q4_K"].figure("rmse") == pytest.approx((squares / weights) ** 0.5, rel=1e-12)
    assert lines["int4"].size.kept == 1
    place = TABLE.names.index("note")
    notes = [opened.page.panel.model.index(row, place).data(ItemRole.RAW) for row in range(4)]
    assert "1 too narrow: Q5_0 there" in notes[2]
    assert "1 tensor cannot have it" in notes[3]
    assert TABLE["file_bytes"].value(lines["Q8_0"]) == lines["Q8_0"].size.model_nbytes + (
        lines[""].size.file_nbytes - opened.model.nbytes
    )
    assert lines[""].title == "several types (as it is)"


def test_nothing_is_measured_twice(opened: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the whole model, the tensor that was tried alone is known; and all of it later."""
    walked: list[tuple[str, str]] = []
    measure = surveys.measure_pairs

    def watched(pairs: Sequence[WeightsPair], *rest: Any, **more: Any) -> list[PairErrors]:
        walked.extend((pair.reference_name, pair.candidate_type) for pair in pairs)
        return measure(pairs, *rest, **more)

    monkeypatch.setattr(surveys, "measure_pairs", watched)
    opened.measure(Scope.MODEL)
    assert (UP, "Q8_0") not in walked
    assert (NEXT, "Q8_0") in walked
    assert len(walked) == len(set(walked))
    walked.clear()
    opened.page.controls.choose(Scope.ONE)
    opened.settle()
    opened.page.controls.choose(Scope.MODEL)
    opened.settle()
    assert opened.lines["Q4_0"].complete
    opened.page.controls.types.set_types((*QUICK, "Q5_1"))
    opened.settle()
    opened.page.start()
    opened.settle()
    assert {kind for _, kind in walked} == {"Q5_1"}


def test_a_chart_that_is_drawn_again_keeps_no_more_pictures_of_symbols(opened: Page) -> None:
    opened.page.panel.chart.select("Q8_0")
    before, after = kept_after_drawing_again(opened.page.panel.chart)
    assert after == before > 0


def test_a_click_in_the_chart_marks_the_line_and_the_other_way_round(
    qtbot: QtBot, opened: Page
) -> None:
    panel = opened.page.panel
    chart = panel.chart
    qtbot.mouseClick(chart.viewport(), Qt.MouseButton.LeftButton, pos=opened.pixel("Q8_0"))
    QApplication.processEvents()
    assert panel.selected_type == "Q8_0"
    assert panel.table.currentIndex().row() == 3
    assert "8.500 bits/weight" in panel.readout.text()
    panel.table.setFocus()
    qtbot.keyClick(panel.table, KEY.Key_Up)
    assert panel.selected_type == "Q5_0"
    chart.setFocus()
    qtbot.keyClick(chart, KEY.Key_Left)
    assert panel.selected_type in {"Q4_0", "Q4_K"}
    for _ in range(9):
        qtbot.keyClick(chart, KEY.Key_Right)
    assert panel.selected_type == "Q8_0"


def test_the_mouse_reads_points(opened: Page) -> None:
    chart = opened.page.panel.chart
    chart._follow_mouse(chart.mapToScene(opened.pixel("Q5_0")))
    text = opened.page.panel.readout.text()
    assert text.startswith("Q5_0   5.500 bits/weight")
    assert "Relative RMSE" in text
    chart._follow_mouse(chart.mapToScene(QPoint(2, 2)))
    assert "Memory is planned as in the planner, for 8,192" in opened.page.panel.readout.text()
    assert set(chart.shown_names()) >= {"Q8_0", "Q4_K, no error"}


def test_names_of_points_leave_that_of_the_present_type_alone(opened: Page) -> None:
    opened.page.controls.types.set_types(("MXFP4", "Q4_0", "Q8_0"))
    opened.settle()
    chart = opened.page.panel.chart
    (present,) = chart._marks.covered
    shown = [name for name in chart._names if name.isVisible()]
    assert len(shown) == 3
    for name in shown:
        place = chart.box.mapFromView(name.pos())
        assert not present.intersects(QRectF(place, name.textItem.boundingRect().size()))


def test_either_measure_is_drawn(opened: Page) -> None:
    chart = opened.page.panel.chart
    heights = {p.line.type_name: p.y for p in chart.points}
    opened.page.controls.measure.setCurrentIndex(Measure.SQNR)
    assert [p.line.type_name for p in chart.points if p.exact] == ["Q4_K"]
    for point in [p for p in chart.points if not p.exact]:
        assert point.y == opened.lines[point.line.type_name].figure("sqnr_db")
        assert point.y == pytest.approx(-20 * heights[point.line.type_name])
        assert point.y < max(p.y for p in chart.points if p.exact)


def test_a_type_without_any_error_has_a_place(opened: Page) -> None:
    opened.select(NORM)
    opened.page.controls.types.set_types(("F16", "Q8_0"))
    opened.settle()
    chart = opened.page.panel.chart
    exact = [p.line.type_name for p in chart.points if p.exact]
    assert exact == ["F16"]
    assert "F16, no error" in chart.shown_names()
    assert opened.lines["F16"].figure("sqnr_db") == np.inf
    assert np.isfinite([p.y for p in chart.points]).all()


def test_a_type_that_cannot_be_says_why(opened: Page) -> None:
    opened.select(DOWN)
    opened.settle()
    line = opened.lines["Q4_K"]
    assert TABLE["bytes"].value(line) is None
    model, table = opened.page.panel.model, opened.page.panel.table
    why = "rows of 96 weights are not a whole number of blocks of 256"
    row = model.index_of(4, TABLE.names.index("note"))
    assert row.data(ItemRole.RAW) == f"cannot be: {why}"
    assert model.why_blank is not None
    assert model.why_blank(4) == why
    assert why in row.data(Qt.ItemDataRole.ToolTipRole)
    spoken = row.siblingAtColumn(0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == f"Q4_K, {why}"  # the table says it across the row
    blank = sum(one.size.problem is not None for one in opened.lines.values())
    for order in (Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder):
        table.sortByColumn(1, order)
        texts = [model.index(place, 1).data() for place in range(model.rowCount())]
        assert [bool(text) for text in texts].index(False) == model.rowCount() - blank
    opened.page.controls.types.set_types(("Q4_K",))
    opened.settle()
    assert "None of these types is possible" in opened.page.progress.label.text()


def test_the_table_sorts_and_copies(opened: Page, qtbot: QtBot, tmp_path: Path) -> None:
    panel = opened.page.panel
    names = [column.name for column in panel.model.columns]
    panel.table.sortByColumn(names.index("bytes"), Qt.SortOrder.AscendingOrder)
    sizes = [panel.model.index(row, names.index("bytes")).data() for row in range(5)]
    assert sizes[-1] == "17.0 KiB"
    panel.select("Q8_0")
    text = copied(qtbot, panel.table.copy_rows)
    assert text.startswith("Q8_0\t8.5\t17408\t")
    panel.table.export(tmp_path / "table.csv")
    opened.settle()
    rows = list(csv.DictReader((tmp_path / "table.csv").open(encoding="utf-8")))
    by_type = {row["type"]: row for row in rows}
    assert float(by_type["Q4_0"]["rmse"]) == opened.lines["Q4_0"].figure("rmse")


@pytest.mark.parametrize("suffix", [".csv", ".svg", ".png"])
def test_the_picture_is_saved(opened: Page, tmp_path: Path, suffix: str) -> None:
    chart = opened.page.panel.chart
    path = tmp_path / f"chart{suffix}"
    opened.page.panel.export.save(chart, path)
    opened.settle()
    if suffix == ".csv":
        rows = {row["type"]: row for row in csv.DictReader(path.open(encoding="utf-8"))}
        assert set(rows) == set(QUICK)
        assert float(rows["Q8_0"]["relative_rmse"]) == opened.lines["Q8_0"].figure("relative_rmse")
    elif suffix == ".png":
        image = QImage(str(path))
        assert image.pixelColor(2, 2).name() == "#ffffff"
        assert image.width() == 2 * chart.width()
    else:
        assert b"Q8_0" in path.read_bytes()


def test_what_is_planned(opened: Page) -> None:
    line = opened.lines["Q8_0"]
    now = opened.lines[""]
    change = TABLE["memory_total"].value(line) - TABLE["memory_total"].value(now)
    assert change == TABLE["bytes_change"].value(line) == TABLE["memory_change"].value(line)
    assert TABLE["memory_on_gpus"].value(line) is None
    gpu = Device("0", "CUDA", 8 * GIB, name="A GPU")
    inputs = PlanInputs(Settings(context=1024), (gpu,), Host(16 * GIB), "ollama-graphsize")
    opened.page.plan_inputs = lambda _document: inputs
    opened.page.controls.choose(Scope.MODEL)
    opened.settle()
    line = opened.lines["Q8_0"]
    assert TABLE["fits"].value(line) == "Fits"
    assert TABLE["memory_on_gpus"].value(line) == TABLE["memory_total"].value(line)
    assert "1,024 tokens, on A GPU" in opened.page.panel.resting
    small = replace(gpu, free=1), Device("1", "CUDA", 1, name="Another")
    inputs = replace(inputs, devices=small, host=Host(1), profile="llama.cpp")
    opened.page.controls.choose(Scope.ONE)
    opened.page.controls.choose(Scope.MODEL)
    opened.settle()
    assert TABLE["fits"].value(opened.lines["Q8_0"]) == "Does not fit"  # not a number of layers


def test_the_planner_says_what_is_planned_for(
    qtbot: QtBot, make_window: Callable[..., MainWindow], documents: list[Document]
) -> None:
    """In the window: what is set in the planner's panel holds here too."""
    window = make_window(documents[0].path)
    panels = window.panels
    panels.setCurrentWidget(panels.planner)
    planner = panels.planner.widget
    qtbot.waitUntil(lambda: planner.state.machine is not None and planner.body is not None)
    planner.state.set(context=2048)
    panels.tensors.widget.table.select_row(0)
    panels.setCurrentWidget(panels.what_if)
    page = panels.what_if.widget
    page.controls.types.set_types(["Q8_0"])
    qtbot.waitUntil(lambda: "2,048 tokens" in page.panel.resting)
    wait_idle(qtbot, window)
    window.close()


def test_a_model_that_cannot_be_planned_is_tried_all_the_same(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    page = Page(qtbot, app, [load(write_gguf(tmp_path / "x.gguf", "llama", _arrays()))])
    page.open()
    assert page.lines["Q8_0"].figure("rmse") is not None
    assert TABLE["memory_total"].value(page.lines["Q8_0"]) is None
    assert "no memory plan" in page.page.panel.resting
    assert "come on top" not in page.page.note.text()


def test_a_model_without_weights_has_a_chart_without_a_mark(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    """Its bits per weight are no number, which no axis can show."""
    specs = [TensorSpec(UP, (256, 0), 0, b""), TensorSpec(DOWN, (0,), 0, b"")]
    page = Page(qtbot, app, [load(GgufFile(tensors=specs).write(tmp_path / "empty.gguf"))])
    page.open()
    for scope in Scope:
        page.measure(scope)
    assert page.page.panel.chart.points == []


def _matrix(path: Path, columns: int = 256) -> Path:
    sums = np.random.default_rng(1).uniform(0, 100, columns).astype("<f4")
    specs = [
        TensorSpec(f"{UP}.in_sum2", (columns, 1), 0, sums.tobytes()),
        TensorSpec(f"{UP}.counts", (1, 1), 0, np.ones(1, "<f4").tobytes()),
    ]
    return GgufFile(tensors=specs).write(path)


@pytest.mark.slow
def test_an_importance_matrix_steers_the_search(opened: Page, tmp_path: Path) -> None:
    plain = {name: line.figure("rmse") for name, line in opened.lines.items()}
    chooser = opened.matrix
    chooser.open(_matrix(tmp_path / "matrix.gguf"))
    opened.settle()
    assert opened.references.matrix is not None
    importance = importance_of(opened.references.matrix.model, UP)
    row = next(iter(requantize(opened.model.tensors[UP], ["Q4_0"], importance)))
    assert row.errors is not None
    assert opened.lines["Q4_0"].figure("rmse") == row.errors.rmse != plain["Q4_0"]
    assert opened.lines["Q8_0"].figure("rmse") == plain["Q8_0"]  # nothing is searched for there
    assert "has 1 of 1 tensors" in opened.page.note.text()
    opened.measure(Scope.SAME_ROLE)
    assert "has 1 of 2 tensors" in opened.page.note.text()
    opened.page.controls.choose(Scope.ONE)
    chooser.take(None)
    opened.settle()
    assert opened.lines["Q4_0"].figure("rmse") == plain["Q4_0"]


def test_what_is_no_importance_matrix_is_refused(
    qtbot: QtBot, opened: Page, tmp_path: Path
) -> None:
    chooser = opened.matrix
    chooser.open(opened.documents[1].path)
    qtbot.waitUntil(lambda: bool(opened.app.errors))
    assert "not an importance matrix" in str(opened.app.errors[0])
    assert opened.references.matrix is None
    chooser.open(_matrix(tmp_path / "short.gguf", 128))  # that of another model
    opened.settle()
    assert opened.page.state.isVisible()
    assert "does not fit" in opened.page.state.sentence.text()
    chooser.take(None)
    opened.settle()
    assert opened.lines["Q4_0"].complete


@pytest.mark.qt_log_ignore("This plugin does not support (raise|grabbing)")  # offscreen
def test_types_are_ticked_in_a_list(qtbot: QtBot, opened: Page) -> None:
    chooser = opened.page.controls.types
    assert chooser.text() == "4 types…"
    qtbot.mouseClick(chooser, Qt.MouseButton.LeftButton)
    assert chooser.popup.isVisible()
    items = [chooser.popup.list.item(row) for row in range(chooser.popup.list.count())]
    item = next(item for item in items if item.text() == "BF16")
    chooser.popup.list.setCurrentItem(item)
    qtbot.keyClick(chooser.popup.list, KEY.Key_Space)
    qtbot.keyClick(chooser.popup.list, KEY.Key_Escape)
    assert not chooser.popup.isVisible()
    opened.settle()
    assert set(opened.lines) == {"", "BF16", *QUICK}
    chooser.set_types(())
    opened.settle()
    assert opened.page.state.heading.text() == "No type is chosen"
    qtbot.mouseClick(opened.page.state.button, Qt.MouseButton.LeftButton)
    assert chooser.popup.isVisible()
    chooser.popup.set_types(["Q8_0"])
    chooser.popup.hide()
    opened.settle()
    assert opened.lines["Q8_0"].complete


def _begin(huge: Page) -> None:
    """Ask for the whole of a huge model, and wait until it is under way."""
    huge.open()
    huge.page.controls.choose(Scope.MODEL)
    huge.settle()
    assert not huge.page.busy  # it would take minutes: nothing begins by itself
    huge.qtbot.mouseClick(huge.page.progress.button, Qt.MouseButton.LeftButton)
    huge.qtbot.waitUntil(lambda: huge.page.progress.bar.value() > 0)


def test_cancel_at_once_and_go_on(reading: Reading, qtbot: QtBot, huge: Page) -> None:
    _begin(huge)
    qtbot.keyClick(huge.page, KEY.Key_Escape)
    qtbot.waitUntil(lambda: not huge.runner.jobs)
    assert reading.since_cancel <= AT_ONCE
    assert "Cancelled" in huge.page.progress.label.text()
    qtbot.mouseClick(huge.page.progress.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: huge.page.progress.bar.value() > 0)
    huge.page.cancel()
    huge.settle()


def test_what_was_asked_for_goes_on_while_another_tensor_is_selected(huge: Page) -> None:
    _begin(huge)
    huge.select("blk.1.ffn_up.weight")
    assert huge.page.busy
    huge.page.controls.choose(Scope.ONE)  # but another request ends it
    titles = [job.title for job in huge.runner.jobs if not job.cancelled]
    assert "Trying other types" not in titles
    huge.settle()
    assert not huge.page.busy


def test_closing_the_model_meanwhile(huge: Page) -> None:
    before = own_threads()
    _begin(huge)
    huge.page.show_subject(None)
    huge.settle()
    assert huge.page.estimate is None
    assert set(own_threads()) <= set(before)


def test_a_cut_file(qtbot: QtBot, opened: Page, tmp_path: Path, load: Load) -> None:
    """One tensor says why; of a whole model the others are shown all the same."""
    path = write_gguf(tmp_path / "cut.gguf", "llama", _arrays(), block_count=2)
    document = load(path)
    assert document.model.tensors.row_of(DOWN) == 2
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size - 4 * 256 - 4 * 32 * 50)
    opened.references.set_documents([document])
    opened.references.show_document(document)
    opened.documents[:] = [document]
    opened.select(DOWN)
    opened.settle()
    assert opened.page.state.heading.text() == "Other types cannot be tried"
    assert opened.page.state.button.text() == "Try again"
    opened.measure(Scope.MODEL)
    assert DOWN in opened.page.progress.label.text()
    assert opened.lines["Q8_0"].complete
    assert isinstance(opened.runner, JobRunner)


def test_errors_reach_the_user(opened: Page) -> None:
    opened.matrix.open(Path("/nowhere/matrix.gguf"))
    opened.settle()
    assert len(opened.app.errors) == 1


def test_the_whole_model_as_llama_quantize_makes_it(opened: Page) -> None:
    """A line for each recipe: sizes at once; errors, and those by role, when measured."""
    page = opened.page
    page.controls.recipes.set_types(("Q4_K_M", "Q8_0", "IQ2_XS"))
    page.controls.choose(Scope.RECIPES)
    opened.settle()
    assert page.controls.recipes.isVisible()
    assert not page.controls.types.isVisible()
    lines = opened.lines
    assert list(lines)[1:] == ["Q8_0", "Q4_K_M", "IQ2_XS"]
    assert lines["Q8_0"].size.problem is None
    assert "importance matrix is missing" in str(lines["IQ2_XS"].size.problem)
    assert page.progress.button.text() == "Measure 2 recipes"
    opened.measure(Scope.RECIPES)
    page.panel.select("Q4_K_M")
    opened.settle()
    mixed = opened.lines["Q4_K_M"]
    assert mixed.errors is not None
    assert mixed.plan is not None
    assert "Q4_K" in note_text(mixed)
    table = page.panel.roles.table
    assert page.panel.roles.isVisible()
    names = [column.name for column in table.columns]
    shown = {
        str(table.index(place, 0).data()): str(table.index(place, names.index("types")).data())
        for place in range(table.rowCount())
    }
    assert set(shown) == {"ffn_up", "ffn_down"}
    assert shown["ffn_down"].split()[0] in {"Q5_0", "Q8_0"}  # its rows are too narrow for Q4_K
    relative = table.index(0, names.index("relative_rmse")).data()
    assert relative.endswith("%")
    page.controls.choose(Scope.MODEL)
    opened.settle()
    assert page.controls.types.isVisible()
    assert list(opened.lines)[1:] == list(QUICK)


def test_marks_are_shapes_in_a_figure(opened: Page, tmp_path: Path) -> None:
    panel, path = opened.page.panel, tmp_path / "chart.svg"
    panel.export.save(panel.chart, path, Figure(".svg", (8.5, 5.5), 8.0))
    opened.settle()
    assert "<image" not in path.read_text()
