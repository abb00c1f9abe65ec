"""The vocabulary panel: read when looked at, searched as one types."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from explorer.formats import Model
from explorer.formats.vocabulary import Vocabulary, read_vocabulary
from explorer.qt.main_window import MainWindow


def test_it_is_read_when_looked_at_and_searched(qtbot: QtBot, window: MainWindow) -> None:
    view = window.panels.vocabulary.widget
    assert view.model.rowCount() == 0
    window.panels.setCurrentWidget(window.panels.vocabulary)
    qtbot.waitUntil(lambda: view.model.rowCount() == 2000)
    qtbot.keyClicks(view.bar.edit, "id:100-109")
    assert view.bar.status.text() == "10 of 2,000"
    assert view.model.index(0, 0).data() == "100"
    qtbot.keyClick(view.bar.edit, Qt.Key.Key_Escape)
    assert view.model.rowCount() == 2000


def test_after_a_cancel_it_is_read_when_shown_again(qtbot: QtBot, window: MainWindow) -> None:
    window.panels.setCurrentWidget(window.panels.vocabulary)
    window.runner.cancel_all()
    qtbot.waitUntil(lambda: not window.runner.jobs)
    assert window.panels.vocabulary.widget.model.rowCount() == 0
    window.panels.setCurrentWidget(window.panels.overview)
    window.panels.setCurrentWidget(window.panels.vocabulary)
    qtbot.waitUntil(lambda: window.panels.vocabulary.widget.model.rowCount() == 2000)


def test_going_back_to_a_model_does_not_read_its_vocabulary_again(
    qtbot: QtBot, window: MainWindow, hostile_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(model: Model) -> Vocabulary | None:
        read.append(model.path.name)
        return read_vocabulary(model)

    monkeypatch.setattr("explorer.qt.contents.vocabulary.read_vocabulary", counted)
    rows = window.panels.vocabulary.widget.model.rowCount
    window.panels.setCurrentWidget(window.panels.vocabulary)
    qtbot.waitUntil(lambda: rows() == 2000)
    window.open_paths([hostile_path])
    qtbot.waitUntil(lambda: rows() == 8)
    demo, hostile = window.documents
    for _ in range(2):
        window.show_document(demo)
        assert rows() == 2000  # at once
        window.show_document(hostile)
        assert rows() == 8
    assert read == [demo.title, hostile.title]
    window.close_document(hostile)
    window.open_paths([hostile_path])  # may be another file by now
    qtbot.waitUntil(lambda: rows() == 8)
    assert read == [demo.title, hostile.title, hostile.title]
