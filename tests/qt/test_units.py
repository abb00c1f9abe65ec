"""Numbers in the notation of a country, and copies for other programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QLocale
from PySide6.QtGui import QGuiApplication

from explorer.qt.locale_numbers import use_locale
from explorer.qt.main_window import MainWindow
from explorer.text import PLAIN, set_notation


@pytest.fixture(autouse=True)
def plain_notation() -> Iterator[None]:
    """Give the process its notation back."""
    yield
    set_notation(PLAIN)


def test_copies_are_for_other_programs_whatever_the_country(window: MainWindow) -> None:
    use_locale(QLocale("de_DE"))
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
