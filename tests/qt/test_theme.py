"""The colours of the program, in both schemes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication, QCheckBox, QRadioButton, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from explorer.qt.main_window import MainWindow
from explorer.qt.theme import Scheme, apply_scheme
from explorer.qt.widgets.controls import choice

_LEAST_CONTRAST = 2.0


@pytest.fixture
def plain_colours(qapp: QApplication) -> Iterator[None]:
    """Give the application its colours back."""
    yield
    apply_scheme(Scheme.SYSTEM)


def _contrast(one: QColor, other: QColor) -> float:
    """Return the contrast of two colours as WCAG 2.2 defines it, without its gamma's linear end."""

    def luminance(colour: QColor) -> float:
        red, green, blue = ((part / 255) ** 2.2 for part in colour.getRgb()[:3])
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [Scheme.DARK, Scheme.LIGHT])
@pytest.mark.parametrize("kind", [QCheckBox, QRadioButton])
def test_an_empty_box_is_seen(
    qtbot: QtBot, plain_colours: None, scheme: Scheme, kind: type[QCheckBox | QRadioButton]
) -> None:
    apply_scheme(scheme)
    window = QWidget()
    qtbot.addWidget(window)
    box = kind("", window)
    box.resize(24, 24)
    window.resize(120, 60)
    picture = window.grab().toImage()
    ground = picture.pixelColor(110, 50)
    pixels = [picture.pixelColor(x, y) for x in range(24) for y in range(24)]
    strong = [pixel for pixel in pixels if _contrast(pixel, ground) >= _LEAST_CONTRAST]
    least = 8 if scheme is Scheme.DARK else 0  # on light the box is told by its white inside too
    assert len(strong) >= least
    assert max(_contrast(pixel, ground) for pixel in pixels) > 1.1


def test_no_palette_of_a_class_is_left_in_light_colours(qtbot: QtBot, plain_colours: None) -> None:
    apply_scheme(Scheme.DARK)
    apply_scheme(Scheme.LIGHT)
    box = QCheckBox()
    qtbot.addWidget(box)
    assert box.palette().window().color() == QApplication.palette().window().color()


def test_another_scheme_reaches_every_part_of_the_window_and_deletes_none_of_it(
    window: MainWindow, plain_colours: None
) -> None:
    window.panels.show_page("overview")
    apply_scheme(Scheme.LIGHT)
    QApplication.processEvents()
    page = window.panels.overview.widget.widget()
    apply_scheme(Scheme.DARK)
    assert isValid(page)  # Qt walks through a list of all widgets, and this is one of them
    QApplication.processEvents()
    ground = QApplication.palette().window().color()
    parts = (window, window.menuBar(), window.open_models.tree, window.shell.head, window.bottom)
    assert {part.palette().window().color().name() for part in parts} == {ground.name()}


@pytest.mark.usefixtures("plain_colours")
@pytest.mark.qt_log_ignore("grabbing the keyboard")
def test_a_list_that_drops_down_shows_its_last_item(qtbot: QtBot) -> None:
    apply_scheme(Scheme.LIGHT)
    window = QWidget()
    qtbot.addWidget(window)
    box = choice(window, "name", "tip", *(f"item {number}" for number in range(5)))
    window.show()
    box.setFocus()
    qtbot.waitUntil(box.hasFocus)
    box.showPopup()
    view = box.view()
    qtbot.waitUntil(view.isVisible)
    QApplication.processEvents()  # lays the list out
    assert view.verticalScrollBar().maximum() == 0  # nothing is left to scroll to
    box.hidePopup()
