"""The pages below the picture: curves, reasons, tables, scenarios, models, other programs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFileDialog, QInputDialog, QWidget
from pytestqt.qtbot import QtBot

from explorer.cli.main import main as command_line
from explorer.planner import Device
from explorer.planner import plan as make_plan
from explorer.planner.advice import left_alone, solve
from explorer.planner.engines.llama_cpp.engine import LLAMA_CPP
from explorer.planner.engines.registry import ENGINES, engines_for
from explorer.planner.inputs import plan_record
from explorer.present.engines import choice_sentence
from explorer.present.plan import PLAN, Kind, remarks
from explorer.qt.document import Document
from explorer.qt.planner.curves import CurvesPlot
from explorer.qt.planner.devices import RESERVE
from explorer.qt.planner.pages import PlannerPage
from explorer.qt.planner.panel import PlannerView
from explorer.qt.planner.picture import SavedPicture
from explorer.qt.widgets.figures import FigureDialog
from explorer.qt.widgets.table_model import ItemRole, TableModel
from explorer.text import bytes_text
from tests.helpers.symbols import kept_after_drawing_again
from tests.helpers.window import copied
from tests.qt.planner.plan_models import GIB, Panel, write_model

TWO = (
    Device("0", "CUDA", 3 * GIB, name="First, = odd", compute=(8, 6), total=4 * GIB),
    Device("1", "CUDA", 2 * GIB, name="Second"),
)


def _open(panel: Panel, page: PlannerPage) -> None:
    """Show a page, or the one that it is a part of."""
    front: QWidget = page
    while panel.body.pages.indexOf(front) < 0:
        front = front.parentWidget()
    panel.body.pages.setCurrentWidget(front)
    panel.settle()


def _raw(model: TableModel, row: int, name: str) -> object:
    column = [column.name for column in model.columns].index(name)
    return model.index(row, column).data(ItemRole.RAW)


# Curves


def test_curves_are_plans(qtbot: QtBot, panel: Panel) -> None:
    panel.state.set(flash_attention=True)
    _open(panel, panel.body.curves)
    qtbot.waitUntil(lambda: panel.body.curves.curves is not None)
    curves = panel.body.curves.curves
    assert curves is not None
    assert [curve.cache_type for curve in curves.curves] == ["f32", "f16", "q8_0", "q4_0"]
    assert curves.vram == 12 * GIB
    h, inputs = panel.state.model.h, panel.state.inputs
    for curve in curves.curves:
        assert curve.contexts[-1] == 131_072
        for place in (0, len(curve.contexts) // 2, -1):
            asked = inputs.with_settings(
                context=int(curve.contexts[place]), kv_cache_type=curve.cache_type
            )
            plan = make_plan(h, asked.settings, asked.devices, host=asked.host)
            assert curve.totals[place] == plan.total
            assert curve.fits[place] == plan.fully_offloaded


def test_curves_that_are_drawn_again_keep_no_more_pictures_of_symbols(
    qtbot: QtBot, panel: Panel
) -> None:
    _open(panel, panel.body.curves)
    qtbot.waitUntil(lambda: panel.body.curves.curves is not None)
    before, after = kept_after_drawing_again(panel.body.curves.plot)
    assert after == before > 0


def test_a_click_in_the_curves_previews_a_context_and_a_second_sets_it(
    qtbot: QtBot, panel: Panel
) -> None:
    page = panel.body.curves
    _open(panel, page)
    qtbot.waitUntil(lambda: page.curves is not None)
    panel.settle()
    place = page.plot.place_of(16_384, 6 * GIB).toPoint()
    qtbot.mouseClick(page.plot.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(place))
    assert panel.state.inputs.settings.context is None  # the first click only shows
    assert page.hint.text().startswith("16,384 tokens: f32 ")
    place = page.plot.place_of(16_384, 6 * GIB).toPoint()
    qtbot.mouseClick(page.plot.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(place))
    assert panel.state.inputs.settings.context == 16_384
    plan = panel.assert_shown()
    assert page.plot._point == (16_384, plan.total)


def test_curves_go_on_to_a_context_beyond_the_trained_one(qtbot: QtBot, panel: Panel) -> None:
    page = panel.body.curves
    panel.state.replace_inputs(profile="llama.cpp")  # Ollama's own engine goes no further
    _open(panel, page)
    qtbot.waitUntil(lambda: page.curves is not None)
    first = page.curves
    assert not page.plot._trained_name.isVisible()
    panel.state.set(context=150_000)
    qtbot.waitUntil(lambda: page.curves is not first)
    beyond = page.curves
    assert beyond is not None
    assert beyond.curves[0].contexts[-1] == 262_144
    assert page.plot._trained_name.toPlainText() == "trained 128k"
    assert page.plot._trained_name.isVisible()
    dot = page.plot.place_of(*page.plot._point)
    assert page.plot.viewport().rect().contains(dot.toPoint())
    panel.state.set(context=200_000)  # the same octave: a drag draws nothing anew
    panel.settle()
    page.refresh()
    assert page.curves is beyond


@pytest.mark.parametrize("profile", ["llama.cpp", "ollama"])
def test_the_dot_lies_on_its_curve_with_several_sequences_too(
    qtbot: QtBot, panel: Panel, profile: str
) -> None:
    panel.state.replace_inputs(profile=profile)
    panel.state.set(context=32_768, parallel=4)
    page = panel.body.curves
    _open(panel, page)
    qtbot.waitUntil(lambda: page.curves is not None)
    assert page.curves is not None
    f16 = next(curve for curve in page.curves.curves if curve.cache_type == "f16")
    place = f16.contexts.tolist().index(32_768)
    assert page.plot._point == (32_768, f16.totals[place])


def test_names_of_curves_that_lie_close_below_the_top_stay_in_sight(
    qtbot: QtBot, panel: Panel
) -> None:
    page = panel.body.curves
    _open(panel, page)
    qtbot.waitUntil(lambda: page.curves is not None)
    found = page.curves
    assert found is not None
    first = found.curves[0].totals
    close = [replace(one, totals=first - place) for place, one in enumerate(found.curves)]
    plot = CurvesPlot(panel.view)
    plot.resize(500, 160)
    plot.show_curves(replace(found, curves=tuple(close), vram=0), 0)
    plot.show()
    view = plot.box.viewRect()
    places = [text.pos().y() for text, _, _ in plot._names]
    assert places == sorted(places, reverse=True)
    assert view.bottom() > places[0] > places[-1] > view.top()
    plot.setParent(None)


def test_curves_that_are_the_same_have_one_name(qtbot: QtBot, panel: Panel) -> None:
    page = panel.body.curves
    _open(panel, page)
    qtbot.waitUntil(lambda: page.curves is not None)
    found = page.curves
    assert found is not None
    alike = [replace(curve, totals=found.curves[0].totals) for curve in found.curves]
    page.plot.show_curves(replace(found, curves=tuple(alike)), 0)
    assert [name.toPlainText() for name, _, _ in page.plot._names] == ["f32 = f16 = q8_0 = q4_0"]


def test_curves_are_kept_and_not_drawn_anew_for_another_context(
    qtbot: QtBot, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = panel.body.curves
    _open(panel, page)
    qtbot.waitUntil(lambda: page.curves is not None)
    first = page.curves
    panel.state.set(context=9999, kv_cache_type="q8_0")
    panel.settle()
    page.refresh()
    assert not panel.runner.jobs
    assert page.curves is first
    panel.state.set(parallel=2)
    qtbot.waitUntil(lambda: page.curves is not first)
    panel.state.undo()
    qtbot.waitUntil(lambda: page.curves is first)  # kept
    panel.settle()


# Why, and the twins


def test_every_figure_has_its_reasons(qtbot: QtBot, panel: Panel) -> None:
    why = panel.body.details.why
    panel.body.show_figure("kv_cache.per_layer[3]")
    panel.settle()
    term = next(t for t in panel.plan().terms if t.name == "kv_cache.per_layer[3]")
    rows = {
        _raw(why.input_model, row, "symbol"): _raw(why.input_model, row, "from")
        for row in range(why.input_model.rowCount())
    }
    assert rows == {symbol: given.origin for symbol, given in term.inputs.items()}
    assert "llama.attention.head_count_kv" in str(rows)
    qtbot.keyClicks(why.search.edit, "graph")
    assert 0 < why.figure_model.rowCount() < len(panel.plan().terms)
    why.search.focus()
    qtbot.keyClick(why.search.edit, Qt.Key.Key_Down)
    assert panel.view.window().focusWidget() is why.figures


def test_the_reasons_follow_the_settings(panel: Panel) -> None:
    panel.body.show_figure("kv_cache.total")
    before = panel.body.details.why.title.text()
    panel.state.set(context=16_384)
    panel.qtbot.waitUntil(lambda: panel.body.details.why.title.text() != before)
    assert f"{panel.plan().cache:,} bytes" in panel.body.details.why.title.text()
    assert panel.body.details.why.figures.currentIndex().isValid()  # the selection stays


def test_tables_hold_what_the_charts_show(qtbot: QtBot, panel: Panel) -> None:
    panel.state.replace_inputs(devices=TWO)
    page = panel.body.details
    _open(panel, page)
    page.choice.setCurrentIndex(1)
    plan = panel.assert_shown()
    for row, held in enumerate(plan.gpus):
        assert _raw(page.model, row, Kind.WEIGHTS) == held.weights
        assert _raw(page.model, row, Kind.GRAPH) == held.compute.high
        assert _raw(page.model, row, "capacity") == held.free
    page.choice.setCurrentIndex(2)
    assert page.model.rowCount() == plan.verdict.total_layers
    assert [_raw(page.model, row, "weights") for row in range(33)] == [
        layer.weights for layer in plan.layers
    ]
    page.table.select_row(5)
    assert panel.app.selection.layer == 5
    panel.view.select_layer(8)
    assert panel.app.selection.layer == 5  # no answer to an answer
    assert page.table.selected_content_rows().tolist() == [8]
    page.choice.setCurrentIndex(3)
    qtbot.waitUntil(lambda: page.model.rowCount() > 10)
    panel.settle()
    text = copied(qtbot, lambda: (page.table.selectAll(), page.table.copy_rows()))
    assert text.splitlines()[-1].startswith("131072\t")
    page.choice.setCurrentIndex(4)
    notes = [page.model.index(row, 0).data() for row in range(page.model.rowCount())]
    assert notes == remarks(panel.plan())
    assert notes
    qtbot.waitUntil(lambda: notes[0] in panel.body.answer.speed.toolTip())


# Scenarios and models


def test_scenarios_are_pinned_compared_used_renamed_and_removed(
    panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = panel.body.compare
    _open(panel, page)
    page.pin.click()
    before = panel.plan()
    panel.state.set(context=16_384)
    page.pin.click()
    panel.settle()
    page.refresh()
    assert [_raw(page.model, row, "name") for row in range(3)] == ["Now", "A", "B"]
    assert _raw(page.model, 1, "total") == before.total
    column = [c.name for c in page.model.columns].index("total")
    assert "(-" in page.model.index(1, column).data()
    assert "(" not in page.model.index(2, column).data()
    context = [c.name for c in page.model.columns].index("context")
    assert page.model.index(1, context).data() == "≠ 4,096"
    page.table.select_row(1)
    page.use.click()
    assert panel.state.inputs.settings.context is None
    panel.assert_shown()
    monkeypatch.setattr(QInputDialog, "getText", lambda *_, **__: ("Short", True))
    page.refresh()
    page.table.select_row(1)
    page.rename.click()
    assert [s.name for s in panel.state.scenarios] == ["Short", "B"]
    page.refresh()
    page.table.select_row(2)
    page.rename.click()  # taken by the other
    assert "name of its own" in str(panel.failures[-1])
    page.table.select_row(2)
    page.unpin.click()
    assert [s.name for s in panel.state.scenarios] == ["Short"]
    page.refresh()


def test_scenarios_and_sets_come_back_in_the_next_session(qtbot: QtBot, panel: Panel) -> None:
    panel.state.replace_inputs(devices=TWO)
    panel.state.set(context=16_384, kv_cache_type="q8_0", flash_attention=True, spread=True)
    panel.state.pin()
    panel.state.rename(0, "Evening")
    panel.state.remember("Two")
    again = PlannerView(panel.app, panel.notes)
    qtbot.addWidget(again)
    assert again.state.scenarios == panel.state.scenarios
    assert again.state.scenarios[0].inputs == panel.state.inputs
    assert again.state.sets == {"Two": TWO}


def test_other_models_are_compared_under_the_same_settings(
    qtbot: QtBot, panel: Panel, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    small = load(write_model(tmp_path / "small.gguf", blocks=4))
    panel.view.set_other_documents([small])
    _open(panel, panel.body.compare)
    qtbot.waitUntil(lambda: len(panel.state.others) == 1)
    page = panel.body.compare
    page.refresh()
    panel.settle()
    h = panel.state.others[0].h
    inputs = panel.state.inputs
    theirs = make_plan(h, inputs.settings, inputs.devices, host=inputs.host)
    assert [_raw(page.model, row, "name") for row in (0, 1)] == ["Now: test.gguf", "small.gguf"]
    assert _raw(page.model, 0, "total") == panel.plan().total
    assert _raw(page.model, 1, "total") == theirs.total
    panel.view.set_other_documents([])
    assert panel.state.others == []
    panel.settle()


def test_another_model_that_is_loaded_too_takes_its_memory(
    qtbot: QtBot, panel: Panel, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    panel.state.replace_inputs(devices=TWO)
    panel.settle()
    also, free = panel.body.devices.also, [held.free for held in panel.state.current.plan.gpus]
    assert also.text() == "Also loaded: nothing"
    panel.view.set_other_documents([load(write_model(tmp_path / "small.gguf", blocks=4))])
    qtbot.waitUntil(lambda: len(panel.state.others) == 1)
    menu = also.menu()
    menu.aboutToShow.emit()
    menu.actions()[0].trigger()
    panel.settle()
    (loaded,) = panel.state.loaded
    qtbot.waitUntil(lambda: panel.body.answer._advice is not None)
    request, engine = panel.state.request, panel.state.current.engine
    assert panel.body.answer._advice.value == solve("context", request, engine).value
    assert also.text().startswith("Also loaded: small.gguf, ")
    target = panel.state.basis.target()  # of the library, the overview and What if?
    assert target.devices == request.devices
    assert target.brief.endswith(" · also loaded: 1 model")
    held = panel.state.current.plan.gpus[0]
    table = panel.body.devices.model
    assert table.index(0, RESERVE).data() == bytes_text(held.reserve.high) != "–"
    left = [before - taken for before, taken in zip(free, loaded.on_gpus, strict=True)]
    assert [held.free for held in panel.state.current.plan.gpus] == left != free
    assert panel.state.request.devices == panel.state.current.plan.request.devices  # of questions
    panel.view.set_other_documents([])  # closed
    panel.settle()
    assert also.text() == "Also loaded: nothing"
    assert panel.state.basis.target().also == 0
    assert [held.free for held in panel.state.current.plan.gpus] == free


def test_a_model_that_is_opened_to_be_loaded_too_leaves_the_planned_one_in_front(
    qtbot: QtBot, panel: Panel, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    devices = panel.body.devices
    devices.also.menu().aboutToShow.emit()
    devices.also.menu().actions()[-1].trigger()
    ask, then = panel.app.asked[-1]
    assert ask == "ask_model"
    assert callable(then)
    planned = panel.state.model
    then(load(write_model(tmp_path / "small.gguf", blocks=4)))
    qtbot.waitUntil(lambda: devices.also.text().startswith("Also loaded: small.gguf, "))
    assert panel.state.model is planned
    devices.also.menu().aboutToShow.emit()
    devices.also.menu().actions()[0].trigger()
    assert devices.also.text() == "Also loaded: nothing"


# Taking away


def test_the_command_gives_the_same_figures(
    panel: Panel, capsys: pytest.CaptureFixture[str]
) -> None:
    panel.state.replace_inputs(devices=TWO)
    panel.state.set(context=20_000, parallel=2, flash_attention=True, kv_cache_type="q8_0")
    panel.state.set(batch=256, overhead=1 << 20, spread=True)
    _open(panel, panel.body.export)
    command = panel.body.export.text("command")
    words = shlex.split(command)
    assert words[:2] == ["gguf-explorer", "plan"]
    capsys.readouterr()
    assert command_line([*words[1:], "--json"]) == 0
    theirs, ours = json.loads(capsys.readouterr().out), plan_record(panel.plan())
    for name in ("effective", "weights", "kv_cache", "graph", "layers", "cpu", "total"):
        assert theirs[name] == ours[name]
    for mine, other in zip(ours["devices"], theirs["devices"], strict=True):
        assert {k: v for k, v in mine.items() if k != "name"} == {
            k: v for k, v in other.items() if k != "name"
        }


def test_settings_are_written_for_other_programs(qtbot: QtBot, panel: Panel) -> None:
    panel.state.replace_inputs(devices=TWO)
    panel.state.set(context=20_000, parallel=2, flash_attention=True, kv_cache_type="q8_0")
    panel.state.set(num_gpu=9)
    page = panel.body.export
    _open(panel, page)
    for name, part in (("environment", "=20000"), ("modelfile", "num_gpu 9")):
        text = copied(qtbot, page.copy_buttons[name].click)
        assert part in text == page.text(name)
    assert not page.text("lm_studio")  # the old estimate is not its engine's
    assert not page.text("server")
    panel.state.replace_inputs(profile="llama.cpp")
    panel.settle()
    assert "--ctx-size 20480 --parallel 2" in copied(qtbot, page.copy_buttons["server"].click)
    fields = copied(qtbot, page.copy_buttons["lm_studio"].click).splitlines()
    assert fields[:2] == ["Context Length: 20480", "GPU Offload: 9 layers"]


def test_the_picture_is_saved_with_every_bar(
    qtbot: QtBot, panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel.state.replace_inputs(devices=TWO)
    panel.assert_shown()
    monkeypatch.setattr(FigureDialog, "open", FigureDialog.accept)
    for suffix in ("png", "svg", "csv"):
        path = tmp_path / f"plan.{suffix}"
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, at=path: (str(at), ""))
        panel.body.picture.ask_export()
        qtbot.waitUntil(lambda path=path: panel.app.written[-1:] == [str(path)])
    image = QImage(str(tmp_path / "plan.png"))
    size = SavedPicture(panel.body.picture).size()
    assert image.width() / image.height() == pytest.approx(size.width() / size.height(), rel=0.02)
    assert image.dotsPerMeterX() == pytest.approx(300 / 0.0254, rel=0.02)
    assert "<svg" in (tmp_path / "plan.svg").read_text(encoding="utf-8")
    header, first, *_ = (tmp_path / "plan.csv").read_text(encoding="utf-8").splitlines()
    weights = panel.plan().gpus[0].weights
    assert str(weights) in first.split(",")
    assert "layer_kv_cache" in header


# Programs side by side, and what llama.cpp would choose


def test_programs_stand_side_by_side_with_the_figures_of_each(panel: Panel) -> None:
    panel.state.replace_inputs(profile=None)
    page = panel.body.programs
    _open(panel, page)
    model = panel.state.model
    assert model is not None
    able = engines_for(model.h, panel.state.inputs.devices)
    for place, name in enumerate(one.name for one in able):
        inputs = replace(panel.state.inputs, profile=name)
        plan = panel.state.result_of(model, inputs).plan
        assert _raw(page.model, place, "profile") == ENGINES[name].title
        for column, figure in (
            *(("weights", "weights"), ("kv_cache", "kv_cache")),
            *(("vram_total", "vram_total"), ("total", "total")),
        ):
            assert _raw(page.model, place, column) == PLAN[figure].of(plan)
        parts = [_raw(page.model, place, name) for name in ("weights", "kv_cache", "compute")]
        assert sum(parts) == plan.total  # type: ignore[arg-type]
    assert page.model.rowCount() == len(able) < len(ENGINES)
    assert "attention matrix" in page.why.text()
    panel.view.resize(1290, 560)  # of a low screen
    panel.settle()
    assert page.why.geometry().top() >= page.table.geometry().bottom()

    before = _raw(page.model, 0, "kv_cache")
    panel.state.set(context=65_536)
    panel.settle()
    assert _raw(page.model, 0, "kv_cache") > before  # type: ignore[operator]


def test_the_choice_of_llama_cpp_is_taken_and_undone(qtbot: QtBot, panel: Panel) -> None:
    panel.state.replace_inputs(profile=None)
    choice = panel.body.details.chosen_alone
    _open(panel, panel.body.details)
    gpu = Device("0", "CUDA", 3 * GIB, name="Test GPU")
    panel.state.replace_inputs(devices=(gpu,))
    panel.state.set(context=65_536, num_gpu=3, parallel=1)
    panel.settle()
    qtbot.waitUntil(lambda: choice.isVisible() and choice.use.isEnabled())
    outcome = left_alone(panel.state.request, LLAMA_CPP)
    assert choice.sentence.text() == choice_sentence(outcome)
    assert 0 < outcome.gpu_layers < 33
    choice.use.click()
    panel.settle()
    taken = panel.state.current.plan
    assert taken.cells == outcome.cells
    assert taken.gpu_layers == outcome.gpu_layers
    assert panel.state.inputs.settings.num_gpu is None
    assert not choice.use.isEnabled()  # it is chosen already
    panel.state.undo()
    panel.settle()
    assert panel.state.inputs.settings.context == 65_536
    assert panel.state.inputs.settings.num_gpu == 3
    assert choice.use.isEnabled()


def test_the_old_estimate_leaves_no_choice_to_llama_cpp(panel: Panel) -> None:
    _open(panel, panel.body.details)
    assert not panel.body.details.chosen_alone.isVisible()
