"""Fixtures of the planner's tests: a known machine, no variables of the user's, and a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from explorer.hardware import detect
from explorer.planner.environment import VARIABLES
from explorer.qt.document import Document
from tests.helpers.services import RecordingServices
from tests.qt.planner.plan_models import MACHINE, Panel, write_model


@pytest.fixture(autouse=True)
def known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at a machine of the test's own."""
    monkeypatch.setattr(detect, "detect", lambda: MACHINE)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def document(load: Callable[[Path], Document], tmp_path: Path) -> Document:
    """A model of 32 blocks."""
    return load(write_model(tmp_path / "test.gguf"))


@pytest.fixture
def panel(qtbot: QtBot, app: RecordingServices, document: Document) -> Panel:
    """The planner with that model."""
    return Panel(qtbot, app, document)
