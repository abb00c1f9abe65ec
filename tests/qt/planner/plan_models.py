"""Models whose headers can be planned with and whose weights are holes in a file, and a panel."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QLineEdit,
    QPushButton,
    QTabWidget,
    QWidget,
)
from pytestqt.qtbot import QtBot

from explorer.hardware.detect import Machine
from explorer.planner import Device, Host
from explorer.planner import plan as make_plan
from explorer.planner.engines.ollama_013.engine import OLLAMA_013
from explorer.planner.inputs import PlanInputs
from explorer.planner.plans import Plan
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
_SIZE = 1280, 800


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
    """A planner that is shown, has looked at the test's machine, and is idle.

    One is enough for a module: `begin` shows it with a model of which nothing was asked, and `end`
    puts it back and fails where something is left behind.
    """

    def __init__(self, app: RecordingServices) -> None:
        self.app, self.runner = app, app.runner
        self.notes = MemoryNotes()
        self.view = PlannerView(app, self.notes)
        self.failures = app.errors
        self.crashes: list[Exception] = []
        app.runner.crashed.connect(self.crashes.append)
        self._first: list[object] = []  # what `_chosen` returned at first

    def begin(
        self, qtbot: QtBot, document: Document, profile: str | None = OLLAMA_013.name
    ) -> None:
        """Show it with a model, planned by the profile whose layouts `assert_shown` compares."""
        self.qtbot = qtbot
        self.view.resize(*_SIZE)
        self.view.show()
        qtbot.waitExposed(self.view)
        qtbot.waitUntil(self.view.isActiveWindow)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(panel, "PlannerBody", _body)
            self.show(document, profile)
        self._first = self._first or self._chosen()

    def end(self) -> None:
        """Put it back into its first state, and hide it."""
        self.runner.cancel_all()
        view, body, state, machine = self.view, self.body, self.state, self.view.machine
        view.set_other_documents([])
        state.restore("{}")
        machine.bandwidths.clear()
        machine.ask_of_all(8192, "f16")
        state.replace_inputs(devices=machine.found.devices, host=machine.found.host)
        machine.reserves.clear()
        body.pages.setTabVisible(body.pages.indexOf(body.log), False)
        body.pages.setCurrentWidget(body.compare)
        body.controls.advanced.setChecked(False)
        body.details.choice.setCurrentIndex(0)
        body.details.why.search.edit.clear()
        left = [now for now in self._chosen() if now not in self._first]
        view.show_document(None)
        view.hide()
        other = QWidget()
        other.show()  # else the offscreen platform takes the hidden one for active still
        other.close()
        for timer in view.findChildren(QTimer):
            timer.stop()
        self.qtbot.waitUntil(lambda: not self.runner.jobs)
        for told in (self.app.errors, self.app.written, self.app.asked, self.notes.texts):
            told.clear()
        assert left == []  # for the next test
        assert self.crashes == []

    def close(self) -> None:
        """Close it for good."""
        self.view.close()
        self.view.deleteLater()
        assert self.runner.close()

    def _chosen(self) -> list[object]:
        """Return what a person chose, typed or pinned, but of the model, which is another's."""
        state, machine, body = self.state, self.view.machine, self.body
        found: list[object] = [state.scenarios, state.sets, state.program, state.others, state.also]
        found += [machine.devices, machine.host, machine.reserves, machine.bandwidths]
        of_model = (body.controls, body.attachments, body.curves, body.details.bandwidths)
        for part in body.findChildren(QWidget):
            if any(one.isAncestorOf(part) for one in of_model):
                continue
            match part:
                case QComboBox():
                    found.append((part.accessibleName(), part.currentText()))
                case QLineEdit():
                    found.append((part.accessibleName(), part.text()))
                case QAbstractButton() if part.isCheckable():
                    found.append((part.accessibleName() or part.text(), part.isChecked()))
                case QTabWidget():
                    shown = [part.isTabVisible(tab) for tab in range(part.count())]
                    found.append((part.currentIndex(), shown))
        return [body.controls.advanced.isChecked(), *found]

    @property
    def state(self) -> Any:
        return self.view.state

    @property
    def body(self) -> PlannerBody:
        assert self.view.body is not None
        return self.view.body

    @property
    def offered(self) -> list[QPushButton]:
        """The buttons below the answer that are shown."""
        return [button for button in self.body.answer.buttons if not button.isHidden()]

    def show(self, document: Document, profile: str | None = OLLAMA_013.name) -> None:
        """Plan for a model, by a profile that was asked of it before."""
        machine = self.view.machine
        asked = machine.asked_of(document.path) or PlanInputs()  # by itself, the program's context
        asked = replace(asked, profile=profile, devices=machine.devices, host=machine.host)
        machine.plan_for(asked, document.path)
        self.app.selection.show_document(document)
        self.view.show_document(document)
        self.qtbot.waitUntil(
            lambda: (
                self.state.machine is not None
                and self.state.model is not None
                and self.state.model.path == document.path
            )
        )
        self.settle()

    def settle(self) -> None:
        """Wait until the plan is made and nothing runs."""
        pages = self.view.findChildren(PlannerPage)
        self.qtbot.waitUntil(
            lambda: (
                not self.state._frame.isActive()
                and not self.runner.jobs
                and not any(page._delay.isActive() for page in pages)
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
