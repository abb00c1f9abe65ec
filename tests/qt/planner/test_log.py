"""The page "Measured": a log is chosen, dropped or pasted and shown beside the plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QFileDialog

from explorer.planner import Device
from explorer.planner.engines.llama_cpp.allocation import MAX_SEQUENCES
from explorer.planner.engines.llama_cpp.engine import server_settings
from explorer.planner.logs.reading import parse_log
from explorer.qt.addresses import dropped_log
from explorer.qt.machine import PlannedMachine
from explorer.qt.planner import log as log_module
from explorer.qt.planner.log import LogPage
from tests.helpers.services import RecordingServices
from tests.qt.planner.plan_models import MACHINE, MemoryNotes, Panel

LOG = """\
llama_prepare_model_devices: using device CUDA0 (NVIDIA GeForce RTX 4070) - 12000 MiB free
load_tensors: offloaded 33/33 layers to GPU
load_tensors:        CUDA0 model buffer size =  3169.25 MiB
llama_context: n_seq_max             = 1
llama_context: n_ctx                 = 4096
llama_context: n_ubatch              = 512
llama_kv_cache:      CUDA0 KV buffer size =   512.00 MiB
sched_reserve:      CUDA0 compute buffer size =   100.00 MiB
common_memory_breakdown_print: |   - CUDA0 (RTX 4070) | 12282 = 7800 + ( 3781 = 3169 + 512 + 100) + 701 |
       eval time =     165.10 ms /     4 tokens (   55.03 ms per token,    18.17 tokens per second)
"""  # noqa: E501 - a line as llama.cpp prints it


@pytest.fixture
def page(panel: Panel) -> LogPage:
    panel.body.pages.setCurrentWidget(panel.body.log)
    return panel.body.log


def cells(page: LogPage) -> dict[str, list[str]]:
    """Return the texts of each row by its first one."""
    rows = {}
    for row in range(page.model.rowCount()):
        texts = [
            str(page.model.data(page.model.index(row, column), Qt.ItemDataRole.DisplayRole))
            for column in range(page.model.columnCount())
        ]
        rows[texts[0]] = texts[1:]
    return rows


def test_a_chosen_log_is_shown_term_by_term(
    panel: Panel, page: LogPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "server.log"
    path.write_text(LOG, encoding="utf-8")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    QAbstractItemModelTester(page.model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    page.choose.click()
    panel.settle()
    rows = cells(page)
    assert rows["GPU 0: KV cache and state"] == ["512 MiB", "512 MiB", "none"]
    assert "server.log" in page.hint.text()
    assert "4,096" in page.hint.text()
    assert "18.17 tokens/s" in page.notes.text()
    assert not panel.failures


def test_a_pasted_log_is_compared(panel: Panel, page: LogPage) -> None:
    QGuiApplication.clipboard().setText(LOG)
    page.paste.click()
    panel.settle()
    assert "GPU 0: KV cache and state" in cells(page)
    QGuiApplication.clipboard().setText(" ")
    page.paste.click()
    assert "clipboard" in str(panel.failures[-1])


def test_a_log_is_compared_where_more_sequences_are_asked_for_than_llama_cpp_runs(
    panel: Panel, page: LogPage
) -> None:
    panel.state.set(parallel=MAX_SEQUENCES + 1)
    panel.settle()
    plan = panel.state.current.plan
    assert plan is None or server_settings(plan) is None, plan
    QGuiApplication.clipboard().setText(LOG)
    page.paste.click()
    panel.settle()
    assert "GPU 0: KV cache and state" in cells(page)


def test_a_dropped_log_is_compared_and_a_model_left_to_the_window(
    panel: Panel, page: LogPage, tmp_path: Path
) -> None:
    path = tmp_path / "server.log"
    path.write_text(LOG, encoding="utf-8")
    log, model, text = QMimeData(), QMimeData(), QMimeData()
    log.setUrls([QUrl.fromLocalFile(str(path))])
    model.setUrls([QUrl.fromLocalFile(str(tmp_path / "m.gguf"))])
    text.setText(LOG)
    assert dropped_log(model) is None
    assert dropped_log(log) == path
    assert dropped_log(text) == LOG
    buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    copy = Qt.DropAction.CopyAction
    for data, taken in ((model, False), (log, True)):
        event = QDragEnterEvent(QPointF(5, 5).toPoint(), copy, data, buttons, keys)
        panel.view.dragEnterEvent(event)
        assert event.isAccepted() is taken
    panel.body.pages.setCurrentWidget(panel.body.details)
    panel.view.dropEvent(QDropEvent(QPointF(5, 5), copy, log, buttons, keys))
    panel.settle()
    assert panel.body.pages.currentWidget() is page
    assert cells(page)


def test_a_log_without_memory_says_what_to_do_and_keeps_the_page(
    panel: Panel, page: LogPage
) -> None:
    page.compare(LOG)
    panel.settle()
    page.compare("common_params_print_info: verbosity = 3 (adjust with the `-lv N` CLI arg)\n")
    panel.settle()
    assert "-lv 4" in str(panel.failures[-1])
    assert cells(page), "what was shown stays"


def test_another_model_forgets_the_log(panel: Panel, page: LogPage) -> None:
    page.compare(LOG)
    panel.settle()
    page.show_document(None)
    assert not cells(page)
    assert not page.reserve_unaccounted.isEnabled()


def test_a_cancelled_reading_says_so(panel: Panel, page: LogPage) -> None:
    page.compare(LOG)
    panel.runner.cancel_all()
    panel.settle()
    assert page.hint.text() == "Cancelled"


def test_the_rest_becomes_the_reserve_of_that_gpu_and_is_remembered(
    panel: Panel, page: LogPage
) -> None:
    assert panel.state.inputs.devices[0].reserve is None
    page.compare(LOG)
    panel.settle()
    assert "are used beyond the plan" in page.notes.text()
    page.reserve_unaccounted.click()
    reserve = panel.state.inputs.devices[0].reserve
    planned = sum(int(page.model.raw(page.model.columns[1], row)) for row in range(3))
    assert reserve == (12000 - 7800 << 20) - planned
    again = PlannedMachine(panel.app, panel.notes)  # of the next run
    assert again.devices == ()  # of a machine that was not looked at
    assert again.reserves == {MACHINE.devices[0].name: reserve}
    panel.state.undo()
    assert panel.state.inputs.devices[0].reserve is None


def test_a_reserve_for_a_gpu_that_is_not_planned_for_is_refused(panel: Panel) -> None:
    panel.state.reserve({"Card A": 1, "Card B": 2})
    assert "Card A, Card B" in str(panel.failures[-1])
    assert panel.state.inputs.devices[0].reserve is None


def test_damaged_reserves_are_not_taken(app: RecordingServices) -> None:
    notes = MemoryNotes()
    for saved in ('{"a": -1}', '{"a": "b"}', "[1]", '{"a": 1e999}'):
        notes.set_note("machine", '{"reserves": ' + saved + "}")
        machine = PlannedMachine(app, notes)
        assert not machine.devices
        assert machine.reserves == {}
        assert notes.note("machine") == "", saved


def test_the_speed_follows_the_bandwidth_that_is_given(panel: Panel) -> None:
    gpu = Device("0", "CUDA", 12 << 30, name="NVIDIA GeForce RTX 4070")
    panel.state.replace_inputs(devices=(gpu,), profile="llama.cpp")
    panel.body.pages.setCurrentWidget(panel.body.details)
    panel.settle()
    shown, fields = panel.body.answer.speed, panel.body.details.bandwidths
    assert "catalogue" in fields.gpu.toolTip()
    assert "catalogue" not in fields.main.toolTip()  # which knows no main memory
    assert fields.gpu.placeholderText() == "504 GB/s"
    panel.qtbot.waitUntil(lambda: "tokens/s" in shown.text())
    first = shown.text()
    fields.gpu.setText("252")
    fields.gpu.editingFinished.emit()
    panel.qtbot.waitUntil(lambda: shown.text() != first)
    kept = PlannedMachine(panel.app, panel.notes)  # of the next run
    assert kept.devices == (gpu,)
    assert kept.bandwidths == {gpu.name: 252_000_000_000}
    fields.gpu.setText("fast")
    fields.gpu.editingFinished.emit()
    assert fields.gpu.text() == "252 GB/s"  # the last value
    fields.gpu.setText("")
    fields.gpu.editingFinished.emit()
    panel.qtbot.waitUntil(lambda: shown.text() == first)
    panel.state.replace_inputs(profile="ollama-graphsize")
    panel.qtbot.waitUntil(lambda: "tokens/s" not in shown.text())  # it has no such figures


def test_the_own_build_is_asked_only_after_the_command_was_shown(
    panel: Panel, page: LogPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    measured = parse_log([LOG.encode()]).loads[0]
    monkeypatch.setattr(log_module, "find_program", lambda _named: tmp_path / "llama-server")
    monkeypatch.setattr(
        log_module, "run_estimate", lambda command, *_: ran.append(command) or measured
    )
    answers = iter([False, True])
    shown: list[list[str]] = []
    monkeypatch.setattr(
        log_module, "may_run", lambda _parent, command: shown.append(command) or next(answers)
    )
    page.check.click()
    assert "profile" in str(panel.failures[-1]), "no plan of llama.cpp yet"
    panel.state.replace_inputs(profile="llama.cpp")
    panel.settle()
    page.check.click()
    panel.settle()
    assert shown
    assert not ran
    page.check.click()
    panel.settle()
    assert ran == shown[1:]
    assert "--ctx-size" in ran[0]
    assert cells(page)
    assert "llama-server" in page.hint.text()


def test_a_program_that_is_not_found_can_be_named(
    panel: Panel, page: LogPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    own = tmp_path / "builds" / "llama-server"
    own.parent.mkdir()
    own.write_text("")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(own), ""))
    shown: list[list[str]] = []
    monkeypatch.setattr(log_module, "may_run", lambda _parent, command: bool(shown.append(command)))
    panel.state.replace_inputs(profile="llama.cpp")
    panel.settle()
    page.check.click()
    panel.settle()
    assert "on the PATH" in str(panel.failures[-1])
    assert shown[0][0] == str(own)
    assert str(own) in panel.notes.note("planner")
