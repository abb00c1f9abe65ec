"""The separators of a country, as Qt knows them."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QLocale, QObject
from PySide6.QtWidgets import QApplication, QComboBox, QDialog, QListWidget, QMainWindow, QSpinBox
from pytestqt.qtbot import QtBot

from explorer.qt.locale_numbers import number_format, own_widgets, use_locale
from explorer.text import PLAIN, NumberFormat, set_notation


@pytest.fixture(autouse=True)
def plain_notation() -> Iterator[None]:
    """Give the process its notation and its default locale back."""
    before = QLocale()
    yield
    set_notation(PLAIN)
    QLocale.setDefault(before)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("C", PLAIN.numbers),
        ("en_US", PLAIN.numbers),
        ("de_DE", NumberFormat(",", ".")),
        ("fr_FR", NumberFormat(",", "\u202f")),
        ("hi_IN", NumberFormat(".", ",", 3, 2)),
        ("es_ES", NumberFormat(",", ".", least_grouped=5)),
        ("ar_EG", PLAIN.numbers),  # has digits of its own
        ("fa_IR", PLAIN.numbers),
        ("ne_NP", PLAIN.numbers),
    ],
)
def test_separators(name: str, expected: NumberFormat) -> None:
    assert number_format(QLocale(name)) == expected


@pytest.mark.parametrize("name", ["de_DE", "fr_FR", "hi_IN", "es_ES", "pl_PL", "de_CH", "en_US"])
@pytest.mark.parametrize("number", [1, 999, 1234, 12345, 1234567, 987654321012])
def test_integers_are_grouped_as_qt_groups_them(name: str, number: int) -> None:
    locale = QLocale(name)
    digits = str(number)
    assert number_format(locale).whole(digits) == locale.toString(number)


@pytest.mark.parametrize("name", ["ar_EG", "de_DE", "hi_IN"])
def test_fields_of_qt_have_the_digits_of_the_program(
    qtbot: QtBot, qapp: QApplication, name: str
) -> None:
    use_locale(QLocale(name))
    QLocale.setDefault(QLocale() if QLocale(name).zeroDigit() != "0" else QLocale(name))
    box = QSpinBox()
    qtbot.addWidget(box)
    box.setRange(0, 9999)
    box.setValue(1234)
    assert box.text() == "1234"


@pytest.fixture
def window(qtbot: QtBot) -> QMainWindow:
    window = QMainWindow()
    qtbot.addWidget(window)
    return window


class _Own(QDialog):
    """Something of the program's own."""


def test_it_finds_what_is_ours(window: QMainWindow, qtbot: QtBot) -> None:
    other = _Own()
    qtbot.addWidget(other)
    dialog = _fill(window)
    inner = _Own(dialog)
    assert {one for one in own_widgets() if isinstance(one, _Own)} == {dialog, inner, other}


@pytest.mark.slow
def test_nothing_is_kept_of_what_is_deleted(window: QMainWindow) -> None:
    def look() -> Counter[str]:
        dialog = _fill(window)
        assert dialog in own_widgets()
        dialog.deleteLater()
        del dialog
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect()
        kinds = map(type, gc.get_objects())  # a proxy of what is gone knows no other class
        return Counter(kind.__name__ for kind in kinds if issubclass(kind, QObject))

    before = look()
    for _ in range(3):
        assert look() == before


def _fill(window: QMainWindow) -> _Own:
    dialog = _Own(window)
    QComboBox(dialog).addItem("one")
    QListWidget(dialog)
    return dialog
