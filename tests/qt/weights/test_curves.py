"""Choices of the histogram that are saved, also from a damaged settings file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.qt.settings import Settings
from explorer.qt.weights.curves import MOST_BINS, HistogramChoices, RangeKind

OTHER = HistogramChoices(77, RangeKind.FULL, logarithmic=True, normal=False, marks=False)


def test_the_settings_file_keeps_it(tmp_path: Path) -> None:
    file = tmp_path / "settings.ini"
    settings = Settings(file)
    assert HistogramChoices.of_text(settings.histogram) == HistogramChoices()
    settings.histogram = OTHER.to_text()
    settings._store.sync()
    assert HistogramChoices.of_text(Settings(file).histogram) == OTHER


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "null", '{"bins": 0}', '{"bins": true}', '{"range": 3}', '{"marks": "no"}'],
)
def test_nonsense_is_as_at_first(text: str) -> None:
    assert HistogramChoices.of_text(text) == HistogramChoices()


def test_what_makes_sense_is_taken() -> None:
    found = HistogramChoices.of_text('{"bins": 9, "range": "typed", "marks": false, "new": 1}')
    assert found == HistogramChoices(bins=9, marks=False)


@given(st.text(max_size=60), st.integers(1, MOST_BINS))
def test_any_text_gives_something_that_can_be_shown(text: str, bins: int) -> None:
    assert 1 <= HistogramChoices.of_text(text).bins <= MOST_BINS
    assert HistogramChoices.of_text(HistogramChoices(bins=bins).to_text()).bins == bins
