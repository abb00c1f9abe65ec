"""Dialogs that ask for files begin where the last file of their kind was, else by the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from explorer.paths import demo_model
from explorer.qt.main_window import MainWindow
from explorer.qt.settings import Settings
from explorer.qt.widgets.asking import ask_file, ask_files, ask_folder
from explorer.qt.widgets.saving import FileSaver


def test_each_kind_has_its_own_folder_which_is_kept_over_restarts(
    qtbot: QtBot,
    make_window: Callable[..., MainWindow],
    settings: Settings,
    small_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began: list[str] = []

    def choose(_parent: QWidget, _title: str, start: str, *_: object) -> tuple[str, str]:
        began.append(start)
        return "/chosen/file", ""

    monkeypatch.setattr(QFileDialog, "getOpenFileName", choose)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", choose)
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *a: ([choose(*a)[0]], ""))
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *a: choose(*a)[0])
    window = make_window(settings=settings)
    app = window.panels.app
    assert ask_file(app, window, "Open", "log") == Path("/chosen/file")
    window.open_paths([small_path])
    qtbot.waitUntil(lambda: window.current is not None)
    assert ask_files(app, window, "Open", "models") == [Path("/chosen/file")]
    assert ask_folder(app, window, "Open", "models") == Path("/chosen/file")
    assert FileSaver(app, window).ask_path("Save", "name", {"Text": ".txt"})
    again = make_window(settings=settings).panels.app
    assert ask_file(again, window, "Open", "log") is not None
    assert FileSaver(again, window).ask_path("Save", "name", {"Text": ".txt"})
    beside = str(small_path.parent)
    assert began == ["", beside, "/chosen", "name.txt", "/chosen", "/chosen/name.txt"]


def test_the_program_s_own_folder_is_no_place_to_open_from(
    make_window: Callable[..., MainWindow], demo_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[str] = []

    def choose(_parent: QWidget, _title: str, start: str, *_: object) -> tuple[str, str]:
        began.append(start)
        return "", ""

    monkeypatch.setattr(QFileDialog, "getOpenFileName", choose)
    window = make_window(demo_model(), demo_path)
    for document in window.documents:
        window.reveal_model(document)
        assert ask_file(window.panels.app, window, "Open", "models") is None
    assert began == ["", str(demo_path.parent)]
