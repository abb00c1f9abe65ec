"""One switch for the units of sizes: remembered, and heard of in every panel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QLocale
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu

from explorer.qt.locale_numbers import use_locale
from explorer.qt.main_window import MainWindow
from explorer.qt.settings import Settings
from explorer.text import PLAIN, ByteUnits, notation, set_notation


@pytest.fixture(autouse=True)
def plain_notation() -> Iterator[None]:
    """Give the process its notation back."""
    yield
    set_notation(PLAIN)


def _trigger(window: MainWindow, units: ByteUnits) -> None:
    window.actions_.units[units].trigger()


def test_the_switch_is_in_the_menu_view_and_remembered(
    window: MainWindow, settings: Settings
) -> None:
    sizes = next(menu for menu in window.findChildren(QMenu) if menu.title() == "&Sizes in")
    texts = [action.text().replace("&", "") for action in sizes.actions()]
    assert texts == ["KiB, MiB, GiB (powers of 1024)", "kB, MB, GB (powers of 1000)"]
    assert settings.byte_units is ByteUnits.BINARY
    _trigger(window, ByteUnits.DECIMAL)
    assert settings.byte_units is ByteUnits.DECIMAL
    assert notation().units is ByteUnits.DECIMAL


def test_a_damaged_setting_is_binary(settings: Settings) -> None:
    settings._store.setValue("byte_units", "nonsense")
    assert settings.byte_units is ByteUnits.BINARY


def test_copies_are_for_other_programs_whatever_the_country(window: MainWindow) -> None:
    use_locale(QLocale("de_DE"), ByteUnits.BINARY)
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
