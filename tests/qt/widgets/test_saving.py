"""Where a file is saved: its suffix, and what a sandbox lends."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from explorer.errors import ExplorerError
from explorer.qt.jobs import JobRunner
from explorer.qt.widgets.saving import FileSaver

_KINDS = {"Pictures": ".png", "Tables": ".csv"}
_LENT = Path("/run/user/1000/doc/4a5b")


@pytest.fixture
def failed() -> list[ExplorerError]:
    return []


@pytest.fixture
def saver(qtbot: QtBot, failed: list[ExplorerError], monkeypatch: pytest.MonkeyPatch) -> FileSaver:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    parent = QWidget()
    qtbot.addWidget(parent)
    return FileSaver(JobRunner(parent), parent, lambda _path: None, failed.append)


def _choose(monkeypatch: pytest.MonkeyPatch, path: Path | str, kind: str) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), kind))


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("a.csv", "Pictures (*.png)", "a.csv"),
        ("a.PNG", "Tables (*.csv)", "a.PNG"),
        ("a", "Tables (*.csv)", "a.csv"),
        ("a.b", "another", "a.b.png"),
    ],
)
def test_a_name_gets_the_suffix_that_it_lacks(
    saver: FileSaver, monkeypatch: pytest.MonkeyPatch, name: str, kind: str, expected: str
) -> None:
    _choose(monkeypatch, Path("/home/somebody", name), kind)
    assert saver.ask_path("Save", "plot", _KINDS) == Path("/home/somebody", expected)


def test_nobody_wants_to_save(saver: FileSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    _choose(monkeypatch, "", "")
    assert saver.ask_path("Save", "plot", _KINDS) is None


def test_a_sandbox_is_lent_one_name_and_no_other(
    saver: FileSaver, monkeypatch: pytest.MonkeyPatch, failed: list[ExplorerError]
) -> None:
    _choose(monkeypatch, _LENT / "a.csv", "Tables (*.csv)")
    assert saver.ask_path("Save", "plot", _KINDS) == _LENT / "a.csv"
    assert failed == []
    _choose(monkeypatch, _LENT / "a", "Tables (*.csv)")
    assert saver.ask_path("Save", "plot", _KINDS) is None
    assert "choose a name such as a.csv" in str(failed[0])
