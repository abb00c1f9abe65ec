"""Choices of the histogram that are kept, also from a damaged settings file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot

from explorer.qt.settings import Settings
from explorer.qt.weights.curves import MOST_BINS, RangeKind
from explorer.qt.weights.histogram import HistogramControls

FIRST = {"bins": 256, "range": "robust", "logarithmic": False, "normal": True, "marks": True}
OTHER = {"bins": 77, "range": "full", "logarithmic": True, "normal": False, "marks": False}


def after(qtbot: QtBot, text: str) -> dict[str, object]:
    """Return what is chosen once a text was restored."""
    controls = HistogramControls()
    qtbot.addWidget(controls)
    controls.restore(text)
    chosen = json.loads(controls.to_text())
    assert isinstance(chosen, dict)
    return chosen


def test_the_settings_file_keeps_it(qtbot: QtBot, tmp_path: Path) -> None:
    file = tmp_path / "settings.ini"
    settings = Settings(file)
    assert after(qtbot, settings.note("histogram")) == FIRST
    settings.set_note("histogram", json.dumps(OTHER))
    settings._store.sync()
    assert after(qtbot, Settings(file).note("histogram")) == OTHER


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "null", '{"bins": 0}', '{"bins": true}', '{"range": 3}', '{"marks": "no"}'],
)
def test_nonsense_is_as_at_first(qtbot: QtBot, text: str) -> None:
    assert after(qtbot, text) == FIRST


def test_what_makes_sense_is_taken(qtbot: QtBot) -> None:
    found = after(qtbot, '{"bins": 9, "range": "typed", "marks": false, "new": 1}')
    assert found == FIRST | {"bins": 9, "marks": False}


def test_a_typed_range_is_not_kept(qtbot: QtBot) -> None:
    controls = HistogramControls()
    qtbot.addWidget(controls)
    controls.range.list.setCurrentIndex(controls.range.list.findData(RangeKind.TYPED))
    assert after(qtbot, controls.to_text()) == FIRST


@given(st.text(max_size=60), st.integers(1, MOST_BINS))
def test_any_text_gives_something_that_can_be_shown(qtbot: QtBot, text: str, bins: int) -> None:
    controls = HistogramControls()
    controls.restore(text)
    assert 1 <= controls.bins.value() <= MOST_BINS
    controls.restore(json.dumps({"bins": bins}))
    assert controls.bins.value() == bins
    controls.deleteLater()
