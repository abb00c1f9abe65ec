"""Fixtures of the panels' tests: single panels, each shown by itself."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from explorer.qt.raw.hex_view import HexView
from explorer.qt.raw.panel import RawView
from tests.helpers.services import RecordingServices


@pytest.fixture
def hex_view(qtbot: QtBot, app: RecordingServices) -> HexView:
    """A hex view, shown, without a file."""
    view = HexView(app)
    qtbot.addWidget(view)
    view.resize(700, 400)
    view.show()
    return view


@pytest.fixture
def raw_view(qtbot: QtBot, app: RecordingServices) -> RawView:
    """A raw view, shown, without a model."""
    view = RawView(app)
    qtbot.addWidget(view)
    view.resize(900, 600)
    view.show()
    return view
