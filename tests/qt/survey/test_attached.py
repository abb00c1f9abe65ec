"""Adapters and importance matrices in the survey."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.qtbot import QtBot

from explorer.qt.document import Document
from explorer.qt.widgets.table_model import ItemRole, TableModel
from tests.analysis.test_adapters import Q, gguf_adapter
from tests.analysis.test_importance import legacy
from tests.helpers.model_pairs import arrays_of, write_gguf
from tests.helpers.services import RecordingServices
from tests.helpers.survey_views import SurveyPanel

Load = Callable[[Path], Document]


def cells(model: TableModel, name: str) -> list[object]:
    place = [column.name for column in model.columns].index(name)
    return [model.index(row, place).data(ItemRole.RAW) for row in range(model.rowCount())]


def test_an_adapter_beside_its_base(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    arrays = arrays_of({f"{Q}.lora_a": (4, 64), f"{Q}.lora_b": (32, 4)})
    path = tmp_path / "adapter.gguf"
    path.write_bytes(gguf_adapter(arrays))
    base = load(write_gguf(tmp_path / "base.gguf", "llama", {Q: np.ones((32, 64), np.float32)}))
    document = load(path)
    assert document.kind == "LoRA adapter of rank 4, alpha 8, for 1 tensor"
    assert document.summary.startswith("LoRA adapter of rank 4 ·")
    panel = SurveyPanel(qtbot, app, base, document)
    view = panel.view
    assert view.tabs.tabText(view.tabs.currentIndex()) == "Adapter"
    model = view.attached.rows.table
    QAbstractItemModelTester(model)
    product = arrays[f"{Q}.lora_b"].astype(np.float64) @ arrays[f"{Q}.lora_a"]
    assert cells(model, "norm") == [pytest.approx(2 * np.linalg.norm(product))]
    panel.choose(base)
    assert cells(model, "base_norm") == [pytest.approx(np.sqrt(32 * 64))]
    panel.show(base)
    assert view.tabs.tabText(view.tabs.currentIndex()) != "Adapter"
    assert not view.tabs.isTabVisible(view.place_of(view.attached))


def test_an_importance_matrix(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    path = tmp_path / "imatrix.dat"
    path.write_bytes(legacy((Q, 2, np.array([1, 2, 5], np.float32)), chunks=3))
    panel = SurveyPanel(qtbot, app, load(path))
    assert panel.view.tabs.tabText(panel.view.tabs.currentIndex()) == "Importance matrix"
    model = panel.view.attached.rows.table
    QAbstractItemModelTester(model)
    assert cells(model, "maximum") == [2.5]
    names = [column.name for column in model.columns]
    shown = {name: model.index(0, place).data() for place, name in enumerate(names)}
    assert shown["top_columns"].startswith("2 (62.5 %)")
    assert shown["count_max"] == "2"


def test_an_adapter_that_is_not_shown_any_more_is_let_go(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    path = tmp_path / "adapter.gguf"
    path.write_bytes(gguf_adapter(arrays_of({f"{Q}.lora_a": (4, 64), f"{Q}.lora_b": (32, 4)})))
    model = load(write_gguf(tmp_path / "model.gguf", "llama", {Q: np.ones((32, 64), np.float32)}))
    document = load(path)
    panel = SurveyPanel(qtbot, app, document)
    page = panel.view.attached
    assert page.document is document
    panel.view.show_page(panel.view.map)  # the page is out of sight, and nothing fills it
    panel.view.show_document(model)
    assert page.document is model


def test_a_line_leads_to_the_numbers_that_it_was_measured_from(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    arrays = arrays_of({f"{Q}.lora_a": (4, 64), f"{Q}.lora_b": (32, 4)})
    adapter = tmp_path / "adapter.gguf"
    adapter.write_bytes(gguf_adapter(arrays))
    matrix = tmp_path / "imatrix.dat"
    matrix.write_bytes(legacy((Q, 2, np.arange(1, 14337, dtype=np.float32))))
    for path, name in ((adapter, f"{Q}.lora_b"), (matrix, f"{Q}.in_sum2")):
        panel = SurveyPanel(qtbot, app, document := load(path))
        table = panel.view.attached.rows
        table.activated.emit(table.table.index(0, 0))
        (row,) = app.calls("open_tensors")[-1]
        assert document.model.tensors.columns.names[row] == name
    shown = panel.view.attached.rows.table
    columns = [column.name for column in shown.columns].index("columns")
    assert shown.index(0, columns).data() == "14,336"  # no 1.434e+04
    assert cells(shown, "minimum") == [0.5]
