"""Fixtures of the planner's tests: a known machine, no variables of the user's, and a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from explorer.hardware import detect
from explorer.planner.environment import VARIABLES
from explorer.qt.document import Document
from explorer.qt.jobs import JobRunner
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


@pytest.fixture(scope="module")
def kept() -> Iterator[list[Panel]]:
    """The panel of a module, once a test of it asked for one: to build it takes longest."""
    panels: list[Panel] = []
    yield panels
    for panel in panels:
        panel.close()


@pytest.fixture
def shared(kept: list[Panel]) -> Iterator[Panel]:
    """The planner that the tests of a module share, for models of their own."""
    if not kept:
        kept.append(Panel(RecordingServices(JobRunner())))
    yield kept[0]
    kept[0].end()


@pytest.fixture
def panel(qtbot: QtBot, shared: Panel, document: Document) -> Panel:
    """The planner with the model of 32 blocks, of which nothing was asked."""
    shared.begin(qtbot, document)
    return shared
