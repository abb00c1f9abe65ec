"""Folders of safetensors in the planner: the programs that load them, and their settings."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QComboBox, QSpinBox
from pytestqt.qtbot import QtBot

from explorer.planner import Device, Host
from explorer.planner.plans import MEMORY, Level
from explorer.present.curves import Curves
from explorer.present.engines import left_to_engine
from explorer.present.plan import amount_text
from explorer.qt.document import Document
from explorer.qt.planner.controls import StopSlider
from explorer.text import bytes_text, integer_text
from tests.helpers.ollama_store import OllamaStore
from tests.qt.planner.plan_models import GIB, Panel

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 32_000,
    "intermediate_size": 14_336,
    "max_position_embeddings": 32_768,
    "torch_dtype": "bfloat16",
}
CARD = Device("0", "CUDA", 24 * GIB, name="NVIDIA L4", compute=(8, 9))
MAC = Device("0", "Metal", 24 * GIB, name="Apple M3 Max", total=36 * GIB, integrated=True)
TWO = (CARD, replace(CARD, id="1"))


def write_weights(path: Path, layers: range) -> Path:
    """Write headers of layers of a llama model; the weights are a hole in the file."""
    shapes = {"model.embed_tokens.weight": [32_000, 4096], "lm_head.weight": [32_000, 4096]}
    shapes = shapes if 0 in layers else {}
    for layer in layers:
        place = f"model.layers.{layer}"
        for name, rows in (("q_proj", 4096), ("k_proj", 1024), ("v_proj", 1024)):
            shapes[f"{place}.self_attn.{name}.weight"] = [rows, 4096]
        shapes[f"{place}.mlp.up_proj.weight"] = [14_336, 4096]
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * shape[1]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return path


def write_folder(folder: Path) -> Path:
    """Write a llama model of two layers."""
    folder.mkdir()
    write_weights(folder / "model.safetensors", range(2))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


@pytest.fixture
def panel(qtbot: QtBot, shared: Panel, load: Callable[[Path], Document], tmp_path: Path) -> Panel:
    """The planner with such a folder, on a machine with two GPUs."""
    shared.begin(qtbot, load(write_folder(tmp_path / "Llama")), profile=None)
    shared.state.replace_inputs(devices=TWO, host=Host(GIB))
    shared.settle()
    return shared


def _shown(panel: Panel) -> set[str]:
    rows = panel.body.controls.rows.items()
    return {name for name, row in rows if row.editor.isVisible()}


def test_where_vllm_does_not_start_one_figure_is_too_much_and_nothing_is_chosen(
    panel: Panel,
) -> None:
    panel.state.replace_inputs(devices=(replace(CARD, free=2 * GIB, total=2 * GIB),))
    panel.settle()
    bar = panel.body.picture.bars.bars[0]
    assert bar.over_bytes
    assert bar.over_at_most  # it depends on what vLLM measures
    panel.state.replace_inputs(devices=(replace(CARD, free=1 * GIB, total=1 * GIB),))
    panel.settle()
    plan, bar = panel.plan(), panel.body.picture.bars.bars[0]
    assert plan.gpus[0].reserve.high > 0  # behind vLLM's budget
    assert not bar.over_at_most
    too_much = f"{bytes_text(bar.over_bytes)} too much"
    assert too_much in panel.body.answer.sentence.text()
    assert left_to_engine(plan.request, plan.engine) is None


def test_a_context_that_is_refused_has_a_way_back_and_no_curves_to_save(panel: Panel) -> None:
    answer, curves = panel.body.answer, panel.body.curves
    panel.body.pages.setCurrentWidget(curves)
    most = 32_768  # max_position_embeddings
    panel.state.apply({"context": 2 * most})
    panel.settle()
    assert panel.state.current.plan is None
    assert all(each.isHidden() for each in (curves.plot, *curves.saving))
    panel.qtbot.waitUntil(answer.buttons[0].isVisible)
    assert answer.buttons[0].text() == f"Use {integer_text(most)} tokens"
    answer.buttons[0].click()
    panel.settle()
    assert panel.plan().context_asked == most
    assert not any(each.isHidden() for each in curves.saving)


def test_only_programs_that_load_folders_are_offered_with_their_own_settings(
    qtbot: QtBot, panel: Panel
) -> None:
    chooser = panel.body.controls.findChild(QComboBox, "planner_profile")
    offered = [chooser.itemData(row) for row in range(chooser.count())]
    assert offered == ["vllm", "transformers"]
    assert panel.plan().engine.name == chooser.currentData() == "vllm"
    controls, sight = panel.body.controls, {"kv_dtype", "tensor_parallel", "utilization"}
    assert _shown(panel) == {"context", "parallel"} | sight
    lines = [controls.rows["parallel"].editor.y(), controls.advanced.y()]
    assert lines == sorted(lines)
    order = controls.tab_chain()
    assert order.index(controls.rows["parallel"].editor) < order.index(controls.advanced)
    controls.advanced.click()
    own = {"kv_dtype", "tensor_parallel", "utilization", "pipeline_parallel"}
    own |= {"max_batched_tokens", "enforce_eager"}
    assert _shown(panel) == {"context", "parallel", "profile"} | own
    for devices, name, settings in (
        ((CARD,), "transformers", {"dtype", "static_cache"}),
        ((MAC,), "mlx", {"kv_bits", "wired_limit"}),
    ):
        panel.state.replace_inputs(devices=devices)
        panel.settle()
        chooser.setCurrentIndex(chooser.findData(name))
        panel.settle()
        assert panel.plan().engine.name == name
        assert _shown(panel) == {"context", "profile"} | settings
        questions = panel.body.answer.questions.items()
        asked = {what for what, action in questions if action.isVisible()}
        assert asked == {"context", "kv-cache-type"}
    bits = panel.body.controls.rows["kv_bits"].editor
    assert isinstance(bits, QComboBox)
    assert [bits.itemText(row) for row in range(bits.count())] == ["auto", *"234568"]
    bits.setCurrentIndex(6)
    panel.settle()
    assert panel.plan().used("kv_bits") == 8
    panel.body.controls.advanced.click()
    assert _shown(panel) == {"context", "kv_bits"}


def test_layers_are_shared_by_a_slider_and_the_command_says_so(qtbot: QtBot, panel: Panel) -> None:
    alone = panel.plan().gpus[0].weights
    assert [held.is_used for held in panel.plan().gpus] == [True, False]
    shared = panel.body.controls.rows["tensor_parallel"].slider
    assert isinstance(shared, StopSlider)
    assert shared.stops.values == (1, 2)  # as many as there are GPUs
    shared.setFocus()
    qtbot.keyClick(shared, Qt.Key.Key_End)
    panel.settle()
    both = panel.plan().gpus
    assert [held.is_used for held in both] == [True, True]
    assert both[0].weights == both[1].weights < alone
    first = panel.body.picture.bars.bars[0]
    assert first.mark == math.ceil(0.92 * CARD.free)
    assert amount_text(first).startswith(f"{bytes_text(first.held_bytes)} of a budget of 22.1 GiB")
    strip = panel.body.picture.strip
    assert "on 1 · L4 and 2 · L4" in strip.describe(0)
    qtbot.keyClick(strip, Qt.Key.Key_Right, Qt.KeyboardModifier.ControlModifier)
    assert panel.state.inputs.settings.num_gpu is None  # vLLM leaves no layer to the CPU
    share = panel.body.controls.rows["utilization"].editor
    assert isinstance(share, QSpinBox)
    share.setFocus()
    share.selectAll()
    qtbot.keyClicks(share, "80")
    qtbot.keyClick(share, Qt.Key.Key_Return)
    panel.settle()
    dragged = panel.body.controls.rows["utilization"].slider
    assert isinstance(dragged, StopSlider)
    assert dragged.accessibleDescription() == "80 %"
    dragged.setFocus()
    qtbot.keyClick(dragged, Qt.Key.Key_Left)
    assert panel.state.inputs.settings.utilization == 0.79
    qtbot.keyClick(dragged, Qt.Key.Key_Right)
    words, caption = panel.body.export.text("server"), panel.body.picture_caption()
    assert caption.split("   ·   ")[1::2] == ["vLLM 0.33", "GPUs: 2 × L4"]
    assert words.startswith("vllm serve ")
    assert "--tensor-parallel-size 2" in words
    assert "--gpu-memory-utilization 0.8" in words
    panel.body.pages.setCurrentWidget(panel.body.use)
    panel.settle()
    buttons = panel.body.export.copy_buttons
    shown = sorted((one.y(), name) for name, one in buttons.items() if one.isVisible())
    # the program's own first; of Ollama and LM Studio, which load no such folder, none
    assert [name for _, name in shown] == ["server", "command"]


def test_of_one_part_of_a_model_the_others_are_opened_by_a_button(
    panel: Panel, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    button = panel.body.answer.whole
    assert not button.isVisible()  # of the folder itself
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    first, _ = (
        write_weights(folder / f"model-0000{part}-of-00002.safetensors", range(part - 1, part))
        for part in (1, 2)
    )
    panel.show(load(first), profile=None)
    assert "what is missing is not counted" in panel.plan().warnings[0]
    assert button.isVisible()
    button.click()
    assert panel.app.calls("open") == [(folder, "planner")]


LOG = """\
INFO [utils.py:233] non-default args: {'max_model_len': 8192, 'gpu_memory_utilization': 0.9}
INFO [gpu_worker.py:276] Available KV cache memory: 10.00 GiB
INFO [kv_cache_utils.py:634] GPU KV cache size: 1,310,720 tokens
INFO [kv_cache_utils.py:637] Maximum concurrency for 8,192 tokens per request: 160.00x
"""


def test_a_pasted_log_of_vllm_is_shown_beside_its_plan(panel: Panel) -> None:
    page = panel.body.log
    panel.body.pages.setCurrentWidget(page)
    QGuiApplication.clipboard().setText(LOG)
    page.paste.click()
    panel.settle()
    model = page.model
    rows = [[model.index(row, column).data() for column in (0, 2, 3)] for row in range(3)]
    assert rows[0][:2] == ["GPU 0: left for the cache", "10.0 GiB"]
    assert rows[1] == ["All: tokens of cache", "1,310,720", "within the range"]
    assert rows[2] == ["All: requests at once", "160.00", "within the range"]
    assert "utilization 0.9" in page.hint.text()
    assert not panel.failures


def _curves(panel: Panel, qtbot: QtBot, title: str = "") -> Curves:
    """Open the curves, choose which by their title, and return them once they are there."""
    page = panel.body.curves
    panel.body.pages.setCurrentWidget(page)
    panel.settle()
    if title:
        page.kind.setCurrentIndex(page.kind.findText(title))
    wanted = title or MEMORY.title
    qtbot.waitUntil(lambda: page.curves is not None and page.curves.kind.title == wanted)
    panel.settle()
    assert page.curves is not None
    return page.curves


def test_curves_have_the_types_of_the_cache_that_the_program_knows(
    qtbot: QtBot, panel: Panel
) -> None:
    found = _curves(panel, qtbot)
    assert [curve.cache_type for curve in found.curves] == ["auto", "fp8"]
    assert (found.curves[0].totals > found.curves[1].totals).all()
    panel.state.replace_inputs(devices=(MAC,), profile="mlx")
    qtbot.waitUntil(lambda: panel.body.curves.curves is not found)
    found = _curves(panel, qtbot)
    assert [curve.cache_type for curve in found.curves] == ["bf16", "8-bit", "4-bit"]
    assert not panel.body.curves.kind.isVisible()


def test_tokens_and_requests_have_curves_of_their_own_and_a_click_sets_what_they_run_along(
    qtbot: QtBot, panel: Panel
) -> None:
    panel.state.set(context=8192)
    page = panel.body.curves
    found = _curves(panel, qtbot, "Tokens of cache by utilization")
    names = ["auto, at least", "auto, at most", "fp8, at least", "fp8, at most"]
    assert [curve.cache_type for curve in found.curves] == names
    least, most = found.curves[0], found.curves[1]
    place = least.contexts.tolist().index(90)
    asked = panel.state.inputs.with_settings(utilization=0.9)
    plan = panel.state.result_of(panel.state.model, asked).plan
    assert plan is not None
    assert (least.totals[place], most.totals[place]) == plan.details.counts()["tokens"]
    assert page.plot.data_columns()[0] == ("utilization", least.contexts.tolist())
    at = page.plot.place_of(90, int(least.totals[place])).toPoint()
    for _ in range(2):
        qtbot.mouseClick(page.plot.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert panel.state.inputs.settings.utilization == 0.9
    panel.settle()
    assert page.plot._point == (90, least.totals[place])
    found = _curves(panel, qtbot, "Requests at once by tensor parallelism")
    assert found.curves[0].contexts.tolist() == [1, 2]
    assert found.curves[0].totals[1] > found.curves[0].totals[0] > 0
    found = _curves(panel, qtbot, "Requests at once by context")
    assert (found.curves[0].totals[:-1] >= found.curves[0].totals[1:]).all()


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """A model of Ollama's store in safetensors, a blob for each tensor."""
    store = OllamaStore(tmp_path / "models")
    wide = [64, 64]
    shapes = {"model.embed_tokens.weight": [512, 64], "lm_head.weight": [512, 64]}
    for layer in range(2):
        place = f"model.layers.{layer}"
        shapes |= {f"{place}.self_attn.{one}_proj.weight": wide for one in "qkvo"}
        shapes |= {f"{place}.mlp.{one}_proj.weight": wide for one in ("gate", "up", "down")}
    config = CONFIG | {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4}
    config |= {"vocab_size": 512, "intermediate_size": 64}
    layers = [store.tensor(name, [(name, "BF16", shape)]) for name, shape in shapes.items()]
    return store.manifest([*layers, store.layer("json", json.dumps(config), "config.json")])


def test_a_model_of_ollama_in_safetensors_is_planned_by_its_engine_with_the_check_beside(
    qtbot: QtBot, shared: Panel, load: Callable[[Path], Document], manifest: Path
) -> None:
    panel = shared
    panel.begin(qtbot, load(manifest), profile=None)
    panel.state.replace_inputs(devices=(MAC,), host=Host(36 * GIB))
    panel.settle()
    chooser = panel.body.controls.findChild(QComboBox, "planner_profile")
    assert [chooser.itemData(row) for row in range(chooser.count())] == ["ollama-mlx"]
    plan = panel.plan()
    assert plan.verdict.level is Level.FITS
    assert any("an estimate" in note for note in plan.notes)
    assert any("Ollama loads it by its files alone" in note for note in plan.notes)
    answer = panel.body.answer
    qtbot.waitUntil(lambda: "Ollama loads it by its files alone" in answer.speed.toolTip())
    assert "bandwidth of" in answer.speed.text()
    before, slider = plan.cache, panel.body.controls.context
    at = QPoint(slider.x_of(slider.stops.position(16_384)), 8)
    qtbot.mouseClick(slider, Qt.MouseButton.LeftButton, pos=at)
    panel.settle()
    assert panel.plan().used("context") == 16_384
    assert plan.used("context") == 32_768  # Ollama's, by the memory
    assert panel.plan().cache < before
    assert _shown(panel) == {"context"}
    assert any("OLLAMA_KV_CACHE_TYPE" in note for note in panel.plan().notes)
    panel.state.replace_inputs(devices=(replace(MAC, free=GIB // 2),))
    panel.settle()
    assert panel.plan().verdict.level is Level.NOT
    assert any("Ollama refuses it by its files alone" in note for note in panel.plan().notes)
