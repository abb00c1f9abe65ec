"""Models whose headers can be planned with and whose weights are holes in a file, and a panel."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from explorer.hardware.detect import Machine
from explorer.planner import Device, Host
from explorer.planner import plan as make_plan
from explorer.planner.engines.ollama_013.engine import OLLAMA_013
from explorer.planner.plan import Plan
from explorer.present.plan import Kind
from explorer.qt.document import Document
from explorer.qt.planner import panel
from explorer.qt.planner.pages import PlannerPage
from explorer.qt.planner.panel import PlannerBody, PlannerView
from tests.helpers.gguf_writer import ARRAY, STRING, U32, Array, GgufFile, TensorSpec
from tests.helpers.services import RecordingServices

GIB = 1 << 30
MACHINE = Machine((Device("0", "CUDA", 12 * GIB, name="Test GPU"),), Host(64 * GIB, 8 * GIB))
_Q4_K, _F32 = 12, 0


def write_model(
    path: Path, blocks: int = 32, trained: int = 131_072, width: int = 4096, name: str = "Test"
) -> Path:
    """Write a llama model of about 100 MB for each block of the usual width; a sparse file."""
    keys: list[tuple[str | bytes, int, Any]] = [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, name),
        ("llama.block_count", U32, blocks),
        ("llama.embedding_length", U32, width),
        ("llama.context_length", U32, trained),
        ("llama.feed_forward_length", U32, 14336),
        ("llama.attention.head_count", U32, 32),
        ("llama.attention.head_count_kv", U32, 8),
        ("tokenizer.ggml.tokens", ARRAY, Array(STRING, [f"t{i}" for i in range(512)])),
    ]
    specs: list[TensorSpec] = []
    end = 0

    def add(tensor: str, dims: tuple[int, ...], kind: int, nbytes: int) -> None:
        nonlocal end
        specs.append(TensorSpec(tensor, dims, kind, b"", offset=end))
        end += -(-nbytes // 32) * 32

    add("token_embd.weight", (width, 512), _Q4_K, width * 512 // 256 * 144)
    for block in range(blocks):
        size = width * 45056 // 256 * 144
        add(f"blk.{block}.ffn_up.weight", (width, 45056), _Q4_K, size)
    add("output_norm.weight", (width,), _F32, width * 4)
    GgufFile(keys=keys, tensors=specs).write(path)
    os.truncate(path, path.stat().st_size + end + 64)
    return path


class MemoryNotes:
    """What remembers texts for as long as a test takes."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def note(self, name: str) -> str:
        return self.texts.get(name, "")

    def set_note(self, name: str, text: str) -> None:
        self.texts[name] = text

    def model_note(self, path: Path, name: str) -> str:
        return self.texts.get(f"{path}/{name}", "")

    def set_model_note(self, path: Path, name: str, text: str) -> None:
        self.texts[f"{path}/{name}"] = text


def _body(*arguments: Any) -> PlannerBody:
    """Return the planner's widgets without the curves in front, 150 plans for every test."""
    body = PlannerBody(*arguments)
    body.pages.setCurrentWidget(body.compare)
    return body


class Panel:
    """A planner that is shown, has looked at the test's machine, and is idle."""

    def __init__(
        self,
        qtbot: QtBot,
        app: RecordingServices,
        document: Document,
        notes: MemoryNotes | None = None,
        profile: str | None = OLLAMA_013.name,  # whose layouts `assert_shown` compares
    ) -> None:
        self.qtbot = qtbot
        self.app, self.runner = app, app.runner
        self.notes = notes or MemoryNotes()
        self.view = PlannerView(app, self.notes)
        self.failures = app.errors
        qtbot.addWidget(self.view)
        self.view.resize(1280, 800)
        self.view.show()
        qtbot.waitExposed(self.view)
        self.view.activateWindow()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(panel, "PlannerBody", _body)
            self.show(document, profile)
            qtbot.waitUntil(lambda: self.view.body is not None and self.state.machine is not None)
        self.settle()

    @property
    def state(self) -> Any:
        return self.view.state

    @property
    def body(self) -> PlannerBody:
        assert self.view.body is not None
        return self.view.body

    def show(self, document: Document, profile: str | None = OLLAMA_013.name) -> None:
        """Plan for a model, by a profile that was asked of it before."""
        machine = self.view.machine
        machine.plan_for(replace(machine.inputs(document.path), profile=profile), document.path)
        self.app.selection.show_document(document)
        self.view.show_document(document)

    def settle(self) -> None:
        """Wait until the plan is made and nothing runs."""
        pages = self.view.findChildren(PlannerPage)
        self.qtbot.waitUntil(
            lambda: (
                not self.state._frame.isActive()
                and not self.runner.jobs
                and not any(page._delay.isActive() for page in pages)
                and not self.body.details.chosen_alone._delay.isActive()
            )
        )

    def plan(self) -> Plan:
        """Return what the planner itself says to the current inputs."""
        inputs = self.state.inputs
        model = self.state.model
        assert model is not None
        return make_plan(
            model.h,
            inputs.settings,
            inputs.devices,
            host=inputs.host,
            environment=self.state.environment,
            profile=inputs.engine_for(model.h).name,
        )

    def assert_shown(self) -> Plan:
        """Assert that bars, strip, table and settings show `plan()` to the byte; return it."""
        self.settle()
        plan = self.plan()
        bars = self.body.picture.bars.bars
        assert len(bars) == len(plan.holdings)
        for bar, held in zip(bars, plan.gpus, strict=False):
            assert bar.capacity == held.free
            for kind, nbytes in (
                (Kind.WEIGHTS, held.weights),
                (Kind.KV_CACHE, held.cache),
                (Kind.GRAPH, held.compute.high),
            ):
                assert bar.nbytes(kind) == nbytes
            if not bar.over_bytes:
                assert sum(part.nbytes for part in bar.parts) == held.free
        assert bars[-1].nbytes(Kind.WEIGHTS) == plan.main.weights
        assert bars[-1].nbytes(Kind.KV_CACHE) == plan.main.cache
        assert self.body.picture.strip.layers == plan.layers
        rows = self.body.controls.rows
        for name in ("context", "parallel"):  # what holds is said where it is not in the field
            shown = rows[name].holds.text() or rows[name].editor.text()
            assert shown.endswith(f"{plan.used(name):,}")
        kind = rows["kv_cache_type"]
        shown = kind.holds.text() or kind.editor.currentText()
        assert shown.endswith(plan.used("kv_cache_type"))
        return plan


def turn_wheel(widget: QWidget, notches: int) -> None:
    """Turn the wheel over the middle of a widget."""
    middle = QPointF(widget.rect().center())
    event = QWheelEvent(
        middle,
        QPointF(widget.mapToGlobal(middle.toPoint())),
        QPoint(0, 0),
        QPoint(0, 120 * notches),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(widget, event)


def drag(qtbot: QtBot, widget: QWidget, xs: list[int], y: int | None = None) -> None:
    """Press at the first x, move through the others and let go at the last."""
    height = widget.rect().center().y() if y is None else y
    left = Qt.MouseButton.LeftButton
    qtbot.mousePress(widget, left, pos=QPoint(xs[0], height))
    for x in xs[1:]:
        qtbot.mouseMove(widget, QPoint(x, height))
    qtbot.mouseRelease(widget, left, pos=QPoint(xs[-1], height))
