"""What is loaded beside a model: proposed from its folder, added by a click, in the plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from explorer.qt.document import Document
from explorer.qt.planner.attachments import AttachmentsBox
from explorer.quantization import TENSOR_TYPES
from tests.helpers.gguf_writer import STRING, GgufFile, TensorSpec
from tests.helpers.small_gguf import SmallGguf
from tests.helpers.sparse_models import Shape
from tests.planner.test_attachments import QWEN, write_lora, write_projector
from tests.planner.test_contexts import MODELS
from tests.qt.planner.plan_models import Panel

_SMALL = Shape(blocks=2, width=1024, heads=8, kv_heads=2, feed_forward=2048)
MMPROJ, STYLE = "Projector: mmproj.gguf", "LoRA adapter: style.gguf"
SMALL = "Draft model: small.gguf"


@pytest.fixture
def panel(qtbot: QtBot, shared: Panel, load: Callable[[Path], Document], tmp_path: Path) -> Panel:
    folder = tmp_path / "models"
    folder.mkdir()
    write_projector(folder / "mmproj.gguf", "qwen3vl_merger", **QWEN)
    write_lora(folder / "style.gguf", "blk.0.attn_q.weight")
    _SMALL.write(folder / "small.gguf")
    document = load(Shape(blocks=8).write(folder / "model.gguf"))
    shared.begin(qtbot, document, profile="llama.cpp")
    shared.state.set(context=4096)
    shared.settle()
    return shared


def _texts(box: AttachmentsBox) -> list[str]:
    return [button.text() for button in box.buttons]


def test_a_click_adds_what_lies_beside_the_model_and_another_removes_it(panel: Panel) -> None:
    box, qtbot = panel.body.attachments, panel.qtbot
    qtbot.waitUntil(lambda: _texts(box) == [f"+ {MMPROJ}", f"+ {STYLE}", f"+ {SMALL}"])
    assert box.buttons[0].toolTip().endswith(": not known whether it fits")
    before = panel.state.current.plan.total
    box.buttons[0].click()
    panel.settle()
    assert _texts(box) == [f"✕ {MMPROJ}", f"+ {STYLE}", f"+ {SMALL}"]
    plan = panel.state.current.plan
    assert plan.gpus[0].projector > 0
    assert plan.total == before + plan.gpus[0].projector
    box.buttons[1].click()
    panel.settle()
    assert panel.state.current.plan.gpus[0].adapters > 0
    panel.state.undo()
    panel.settle()
    assert _texts(box) == [f"✕ {MMPROJ}", f"+ {STYLE}", f"+ {SMALL}"]
    box.buttons[0].click()
    panel.settle()
    assert panel.state.current.plan.total == before


def test_keys_reach_what_may_be_added_and_stay_there(panel: Panel) -> None:
    box, qtbot = panel.body.attachments, panel.qtbot
    qtbot.waitUntil(lambda: _texts(box) == [f"+ {MMPROJ}", f"+ {STYLE}", f"+ {SMALL}"])
    panel.body.controls.advanced.setFocus()
    for number in range(2):
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        assert QApplication.focusWidget() is box.buttons[number]
    qtbot.keyClick(box.buttons[1], Qt.Key.Key_Space)
    panel.settle()
    assert _texts(box) == [f"✕ {STYLE}", f"+ {MMPROJ}", f"+ {SMALL}"]
    assert QApplication.focusWidget() is box.buttons[0]  # the same file, to be removed again
    qtbot.keyClick(box.buttons[0], Qt.Key.Key_Backtab)
    assert QApplication.focusWidget() is panel.body.controls.advanced
    box.buttons[0].click()
    panel.settle()


def test_a_draft_model_is_proposed_too(panel: Panel) -> None:
    box, qtbot = panel.body.attachments, panel.qtbot
    qtbot.waitUntil(lambda: _texts(box)[2:] == [f"+ {SMALL}"])
    assert box.buttons[2].accessibleName() == "Add draft model small.gguf"
    box.buttons[2].click()
    panel.settle()
    assert panel.state.current.plan.gpus[0].draft > 0
    assert panel.state.current.plan.used("draft_max") == 3
    assert _texts(box)[0] == f"✕ {SMALL}"
    box.buttons[0].click()
    panel.settle()
    assert panel.state.current.plan.gpus[0].draft == 0


def test_mtp_is_proposed_where_the_model_has_it(
    panel: Panel, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    described = MODELS["glm4moe-mtp"]
    keys = [
        (key, value)
        for key, value in described["metadata"].items()
        if isinstance(value, (int, str)) and not isinstance(value, bool)
    ]
    placed, end = [], 0
    for name, kind, dims in described["tensors"]:
        placed.append((name, tuple(dims), TENSOR_TYPES[kind].id, end))
        end += -(-(TENSOR_TYPES[kind].nbytes(math.prod(dims)) or 0) // 32) * 32
    path = tmp_path / "mtp.gguf"
    with path.open("wb") as file:
        file.write(SmallGguf(keys=keys, tensors=placed).write())
        file.truncate(file.tell() + 32 + end)  # of holes
    panel.show(load(path), profile="llama.cpp")
    box = panel.body.attachments
    assert _texts(box) == ["+ Speculative decoding (MTP)"]
    box.buttons[0].click()
    panel.settle()
    assert panel.state.inputs.settings.mtp == 3
    assert _texts(box) == ["✕ Speculative decoding (MTP)"]
    assert panel.state.current.plan.gpus[0].draft > 0
    panel.state.undo()
    panel.settle()
    assert panel.state.inputs.settings.mtp is None


def test_a_file_that_is_something_else_is_refused(
    panel: Panel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vocabulary = tmp_path / "words.gguf"
    vocabulary.write_bytes((tmp_path / "models" / "style.gguf").read_bytes()[:40])
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_, **__: (str(vocabulary), ""))
    refused: list[object] = []
    panel.state.refused.connect(refused.append)
    panel.body.attachments.add_file.click()
    panel.qtbot.waitUntil(lambda: bool(refused or panel.failures))
    assert not panel.state.inputs.attached
    panel.failures.clear()


def test_a_projector_of_a_model_of_another_width_is_refused(panel: Panel, tmp_path: Path) -> None:
    wide = TensorSpec("mm.2.weight", (8, 48), 0, bytes(4 * 8 * 48))
    clip = GgufFile(keys=[("general.architecture", STRING, "clip")], tensors=[wide])
    refused: list[object] = []
    panel.state.refused.connect(refused.append)
    panel.body.attachments.add_path(clip.write(tmp_path / "wide.gguf"))
    panel.qtbot.waitUntil(lambda: bool(refused))
    assert "is made for a model of width 48, and this one has 4096" in str(refused[0])
    assert not panel.state.inputs.attached


def test_other_engines_load_nothing_beside_it(panel: Panel) -> None:
    assert not panel.body.attachments.isHidden()
    panel.state.replace_inputs(profile="ollama-graphsize")
    panel.settle()
    assert panel.body.attachments.isHidden()
