"""A window whose numbers are written as in another country."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QLocale
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from explorer.qt.locale_numbers import use_locale
from explorer.qt.main_window import MainWindow
from explorer.qt.references import Rounding
from explorer.text import PLAIN, ByteUnits, set_notation
from tests.helpers.everywhere import everywhere, named, settle, visible
from tests.helpers.seen_texts import texts_of

pytestmark = pytest.mark.slow

_RELEASE = re.compile(r"\bOllama (from |up to )?0\.\d+")  # in the names of profiles
# a point that does not stand between thousands; versions and names have letters or more points
_POINT = re.compile(r"(?<![\d.\w/\-])\d+\.(?!\d{3}(?!\d))\d+(?![\d.\w])")
_TYPED = {"document", "input", "tip", "choice"}


@pytest.fixture
def german() -> Iterator[None]:
    """Write numbers as in Germany."""
    use_locale(QLocale("de_DE"), ByteUnits.BINARY)
    yield
    set_notation(PLAIN)


def test_numbers_are_the_country_s(
    qtbot: QtBot, german: None, make_window: Callable[..., MainWindow], demo_path: Path
) -> None:
    window = make_window(demo_path)
    window.resize(1280, 800)
    window.reveal_tensor(window.documents[0], 3)
    window.panels.references.choose(Rounding("Q4_0"))
    settle(qtbot, window)
    points, commas = set(), 0
    for place, page in everywhere(qtbot, window):
        for widget in visible(page):
            for seen in texts_of(widget):
                if seen.kind in _TYPED or place in {"Metadata", "Vocabulary"}:
                    continue  # what was typed, or stands in the file
                commas += bool(re.search(r"\d,\d", seen.text))
                if _POINT.search(_RELEASE.sub("", seen.text)):
                    points.add(f"{place}: {named(seen.widget)}: {seen.text[:100]}")
    assert commas > 300
    if points:
        pytest.fail("\n".join(sorted(points)))


def test_copies_are_for_other_programs(
    qtbot: QtBot, german: None, make_window: Callable[..., MainWindow], demo_path: Path
) -> None:
    window = make_window(demo_path)
    window.reveal_tensor(window.documents[0], 3)
    table = window.panels.tensors.widget.table
    columns = [column.name for column in table.table.columns]
    index = table.currentIndex()
    bits = index.siblingAtColumn(columns.index("bits_per_weight"))
    assert bits.data() == "4,500"
    table.setCurrentIndex(bits)
    table.copy_cell()
    assert QGuiApplication.clipboard().text() == "4.500"
    table.copy_rows()
    assert "\t65536\t" in QGuiApplication.clipboard().text()
    assert "4.5" in QGuiApplication.clipboard().text().split("\t")
