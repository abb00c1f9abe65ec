"""Which quant should I take?: the errors of the quants, where their original lies beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.analysis import surveys
from explorer.errors import Choice, SeveralModelsError
from explorer.qt.library.versions import VersionsDialog
from explorer.qt.main_window import MainWindow
from tests.helpers.model_pairs import arrays_of, write_gguf

ARRAYS = arrays_of({f"blk.{i}.ffn_up.weight": (16, 256) for i in range(2)})


def dialog_of(qtbot: QtBot, window: MainWindow, folder: Path) -> VersionsDialog:
    files = sorted(folder.iterdir())
    choices = [Choice(file, file.name, file.stat().st_size) for file in files]
    error = SeveralModelsError("holds several models", folder, choices)
    dialog = VersionsDialog(error, window.panels.machine, window)
    qtbot.addWidget(dialog)
    dialog.show()
    known = lambda: bool(dialog._unmeasured) or any(one.error for one in dialog.choices)  # noqa: E731
    qtbot.waitUntil(lambda: known() and not window.runner.jobs and not dialog._slot.busy)
    return dialog


def test_errors_are_measured_against_the_original_once(
    qtbot: QtBot, window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "quants"
    folder.mkdir()
    write_gguf(folder / "m-F32.gguf", "llama", ARRAYS)
    for kind in ("Q4_0", "Q8_0"):
        write_gguf(folder / f"m-{kind}.gguf", "llama", ARRAYS, dict.fromkeys(ARRAYS, kind))
    dialog = dialog_of(qtbot, window, folder)
    assert [one.error for one in dialog.choices] == [None] * 3
    assert "error" not in [column.name for column in dialog._model.columns]
    assert dialog._read_button.text() == "Measure the &errors"
    assert "to read" in dialog._read_button.toolTip()
    dialog.table.select_row(0)
    dialog._read_button.click()
    qtbot.waitUntil(lambda: not window.runner.jobs and not dialog._read_button.isVisible())
    assert len(dialog.table.selectionModel().selectedRows()) == 1  # the column that came, too
    errors = {one.name: one.error for one in dialog.choices}
    assert errors["m-F32.gguf"] is None
    assert 0 < errors["m-Q8_0.gguf"] < 0.02 < errors["m-Q4_0.gguf"] < 0.2
    dialog.reject()

    monkeypatch.setattr(surveys, "measure_pairs", None)  # nothing is read again
    again = dialog_of(qtbot, window, folder)
    assert {one.name: one.error for one in again.choices} == errors
    assert not again._read_button.isVisible()
    again.reject()


def test_an_original_leads_to_recipes(qtbot: QtBot, window: MainWindow, tmp_path: Path) -> None:
    write_gguf(tmp_path / "own-F32.gguf", "llama", ARRAYS)
    window.panels.app.choose_quant(tmp_path / "own-F32.gguf")
    qtbot.waitUntil(lambda: isinstance(QApplication.activeModalWidget(), VersionsDialog))
    dialog = QApplication.activeModalWidget()
    assert isinstance(dialog, VersionsDialog)
    qtbot.waitUntil(dialog.recipes_button.isVisible)
    dialog.recipes_button.click()
    qtbot.waitUntil(lambda: window.panels.page == "what_if" and not window.runner.jobs)
    assert window.current is not None
    assert window.current.path == tmp_path / "own-F32.gguf"
    assert window.panels.what_if.widget.controls.by_recipe
