"""The window opens no connection, starts no program, and changes nothing where models lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QProcess
from pytestqt.qtbot import QtBot

from explorer.demo import make_demo
from explorer.qt.main_window import MainWindow
from tests.helpers.everywhere import dialogs, everywhere, settle
from tests.helpers.hostile import write_hostile_models
from tests.helpers.watch import make_read_only, watching

pytestmark = pytest.mark.qt_log_ignore("^This plugin does not support", extend=True)


@pytest.fixture(autouse=True)
def no_programs_of_qt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail at a program that Qt starts, of which Python hears nothing."""

    def refuse(*arguments: object) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(QProcess, "start", refuse)
    monkeypatch.setattr(QProcess, "startDetached", refuse)


@pytest.mark.parametrize("kind", ["demo", pytest.param("hostile", marks=pytest.mark.slow)])
def test_no_view_connects_or_writes_where_models_lie(
    qtbot: QtBot, make_window: Callable[..., MainWindow], tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "models"
    if kind == "demo":
        demo = make_demo(folder)
        paths = [demo.manifest, demo.model]
    else:
        models = write_hostile_models(folder)
        paths = list(models.all)
    make_read_only(folder)
    with watching(folder) as watch:
        window = make_window(*paths)
        window.settings.library_folders = [folder]
        document = window.documents[-1]
        window.reveal_tensor(document, 0)
        window.panels.references.choose(window.documents[0])
        for name, _widget in everywhere(qtbot, window):
            assert watch.network == watch.programs == watch.changes == [], name
        for name, _dialog in dialogs(qtbot, window):
            assert watch.network == watch.programs == watch.changes == [], name
        settle(qtbot, window)
        window.close()
        assert watch.found() == {}
