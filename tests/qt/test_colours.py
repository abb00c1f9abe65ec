"""Colours that can be read and told apart: by weak eyes, and by those that lack a kind of cone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise, product

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QColor, QImage, QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QComboBox,
    QDialogButtonBox,
    QLineEdit,
    QPushButton,
    QRadioButton,
    QSlider,
    QSpinBox,
    QWidget,
)
from pytestqt.qtbot import QtBot

from explorer.present.colours import type_colour
from explorer.present.plan import Kind
from explorer.qt.main_window import MainWindow
from explorer.qt.planner import curves as curves_plot
from explorer.qt.theme import SERIES, Scheme, apply_scheme, ink_of, warning_colour
from explorer.qt.widgets import painting
from explorer.qt.widgets.labels import Chip, FigureTile
from explorer.qt.widgets.plot import PlotColours
from explorer.quantization import TENSOR_TYPES
from tests.helpers.colour_vision import MACHADO, blended, contrast, difference

_ROLE = QPalette.ColorRole
_SCHEMES = (Scheme.LIGHT, Scheme.DARK, Scheme.CONTRAST)
_TEXTS = (
    (_ROLE.WindowText, _ROLE.Window),
    (_ROLE.Text, _ROLE.Base),
    (_ROLE.Text, _ROLE.AlternateBase),
    (_ROLE.ButtonText, _ROLE.Button),
    (_ROLE.ToolTipText, _ROLE.ToolTipBase),
    (_ROLE.HighlightedText, _ROLE.Highlight),
    (_ROLE.Link, _ROLE.Base),
    (_ROLE.Link, _ROLE.Window),
    (_ROLE.PlaceholderText, _ROLE.Base),
    (_ROLE.PlaceholderText, _ROLE.Window),
)
_VISIONS = (None, *MACHADO)


@pytest.fixture(scope="module", params=_SCHEMES)
def scheme(qapp: QApplication, request: pytest.FixtureRequest) -> Iterator[Scheme]:
    """Each scheme, for all tests that ask; the application gets its own colours back."""
    apply_scheme(request.param)
    yield request.param
    apply_scheme(Scheme.SYSTEM)


@pytest.fixture
def own_colours(qapp: QApplication) -> Iterator[None]:
    """Give the application its colours back."""
    yield
    apply_scheme(Scheme.SYSTEM)


def test_texts_read_well(scheme: Scheme) -> None:
    palette = QApplication.palette()
    least = 7.0 if scheme is Scheme.CONTRAST else 4.5  # WCAG 2.2, 1.4.6 and 1.4.3
    for group in (QPalette.ColorGroup.Active, QPalette.ColorGroup.Inactive):
        for text, ground in _TEXTS:
            found = contrast(palette.color(group, text), palette.color(group, ground))
            assert found >= least, (group, text, ground)
    for ground in (_ROLE.Base, _ROLE.Window):
        assert contrast(warning_colour(palette), palette.color(ground)) >= least


@pytest.mark.usefixtures("scheme")
def test_what_cannot_be_used_now_can_be_read_too() -> None:
    palette, off = QApplication.palette(), QPalette.ColorGroup.Disabled
    for text, ground in ((_ROLE.Text, _ROLE.Base), (_ROLE.ButtonText, _ROLE.Button)):
        assert contrast(palette.color(off, text), palette.color(ground)) >= 4.5
        assert palette.color(off, text) != palette.color(text)


@pytest.mark.usefixtures("scheme")
def test_selection_and_focus_are_seen() -> None:
    palette = QApplication.palette()
    for ground in (_ROLE.Base, _ROLE.Window):
        assert contrast(palette.color(_ROLE.Highlight), palette.color(ground)) >= 3.0  # 1.4.11


@pytest.mark.usefixtures("scheme")
def test_buttons_of_dialogs_have_no_icons_in_another_style(qtbot: QtBot) -> None:
    buttons = QDialogButtonBox.StandardButton
    box = QDialogButtonBox(buttons.Open | buttons.Save | buttons.Cancel)
    qtbot.addWidget(box)
    box.show()
    assert all(button.icon().isNull() for button in box.buttons())


@pytest.mark.usefixtures("own_colours")
@pytest.mark.parametrize("kind", [QPushButton, QLineEdit])
def test_in_high_contrast_controls_have_edges_and_a_focus(
    qtbot: QtBot, kind: type[QPushButton | QLineEdit]
) -> None:
    apply_scheme(Scheme.CONTRAST)
    window = QWidget()
    qtbot.addWidget(window)
    box, other = kind(window), QLineEdit(window)
    box.setGeometry(10, 10, 80, 30)
    other.setGeometry(10, 60, 80, 30)
    window.resize(120, 110)
    window.show()
    qtbot.waitExposed(window)
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)

    def edges() -> list[QColor]:
        picture = window.grab().toImage()
        return [picture.pixelColor(x, 25) for x in range(9, 14)]

    ground = QApplication.palette().color(_ROLE.Window)
    other.setFocus()
    resting = edges()
    assert max(contrast(colour, ground) for colour in resting) >= 3.0
    QTest.keyClick(other, Qt.Key.Key_Backtab)
    assert box.hasFocus()
    focused = edges()
    assert focused != resting
    assert max(contrast(colour, ground) for colour in focused) >= 3.0


@pytest.mark.usefixtures("scheme")
def test_axes_of_plots_read_well() -> None:
    colours = PlotColours.of_palette(QApplication.palette())
    assert contrast(colours.text, colours.background) >= 7.0
    assert contrast(colours.accent, colours.background) >= 3.0
    assert contrast(blended(colours.grid, colours.background), colours.background) >= 1.5


@pytest.mark.usefixtures("scheme")
def test_series_are_seen_on_every_ground_and_are_not_the_accent() -> None:
    ink = ink_of(QApplication.palette())
    for ground in (ink.ground, ink.surface):
        assert min(contrast(QColor(name), QColor(ground)) for name in SERIES) >= 3.0
    assert min(difference(QColor(name), QColor(ink.accent)) for name in SERIES) >= 30


def test_every_colour_of_a_scheme_is_seen_on_what_it_stands_on(scheme: Scheme) -> None:
    ink = ink_of(QApplication.palette())
    text = 7.0 if scheme is Scheme.CONTRAST else 4.5  # WCAG 2.2, 1.4.6 and 1.4.3
    grounds = (ink.ground, ink.surface, ink.stripe, ink.raised)
    pairs = [(ink.text, each, text) for each in grounds]
    pairs += [(ink.muted, each, text) for each in grounds]
    pairs += [(ink.control, each, 3.0) for each in (ink.ground, ink.surface, ink.raised)]  # 1.4.11
    pairs += [(ink.accent, each, 3.0) for each in grounds]
    words = (ink.good, ink.caution, ink.warning, ink.link)
    pairs += [(word, each, text) for word in words for each in (ink.ground, ink.surface)]
    tinted = (ink.good_tint, ink.caution_tint, ink.warning_tint)
    pairs += [(word, tint, text) for word, tint in zip(words, tinted, strict=False)]
    pairs += [(ink.on_accent, ink.accent, text), (ink.on_tint, ink.tint, text)]
    poor = {
        (one, other): round(found, 2)
        for one, other, least in pairs
        if (found := contrast(QColor(one), QColor(other))) < least
    }
    assert poor == {}


def _picture(part: QWidget) -> QImage:
    """Return a widget as it is on the screen: alone it would stand on another ground."""
    window = part.window()
    return window.grab(QRect(part.mapTo(window, QPoint(0, 0)), part.size())).toImage()


def _seen(part: QWidget) -> tuple[QColor, list[QColor]]:
    """Return the colour that most of a widget has, and all its colours."""
    picture = _picture(part)
    counts = Counter(
        picture.pixel(x, y) for x in range(picture.width()) for y in range(picture.height())
    )
    return QColor(counts.most_common(1)[0][0]), [QColor(each) for each in counts]


@pytest.mark.usefixtures("own_colours")
def test_rail_pages_chips_and_tiles_of_the_window_read_well(window: MainWindow) -> None:
    window.showNormal()
    window.resize(1280, 800)
    window.panels.show_page("overview")
    for scheme in _SCHEMES:
        apply_scheme(scheme)
        QApplication.processEvents()
        _assert_window_reads_well(window)


def _assert_window_reads_well(window: MainWindow) -> None:
    rail, pages = window.shell.rail, window.shell.head.pages
    parts = [rail, pages, window.top.search, window.top.open, window.bottom.machine]
    parts += [each for each in window.findChildren(Chip) if each.isVisible()]
    parts += [each for each in window.findChildren(FigureTile) if each.isVisible()]
    assert len(parts) >= 5 + 1 + 4
    for part in parts:
        ground, colours = _seen(part)
        assert max(contrast(each, ground) for each in colours) >= 4.5, part
    for bar in (rail, pages):  # the current one is told by more than a tint
        picture, ground = _picture(bar), _seen(bar)[0]
        area = bar.tabRect(bar.currentIndex())
        cells = [
            picture.pixelColor(x, y)
            for x in range(area.left(), area.right())
            for y in range(area.top(), area.bottom())
        ]
        accent = QColor(ink_of(QApplication.palette()).accent)
        assert contrast(accent, ground) >= 3.0
        assert sum(each == accent for each in cells) >= 60, bar


@pytest.mark.usefixtures("own_colours")
def test_the_focus_of_the_rail_is_seen(qtbot: QtBot, window: MainWindow) -> None:
    rail = window.shell.rail
    for scheme in _SCHEMES:
        apply_scheme(scheme)
        window.setFocus()
        before = _picture(rail)
        rail.setFocus()
        qtbot.waitUntil(rail.hasFocus)
        after, area = _picture(rail), rail.tabRect(rail.currentIndex())
        y = area.center().y()
        line = [
            contrast(after.pixelColor(x, y), before.pixelColor(x, y))
            for x in range(area.left(), area.right())
        ]
        assert max(line) >= 3.0, scheme


@pytest.mark.parametrize("vision", _VISIONS)
def test_series_are_told_apart(vision: str | None) -> None:
    colours = [QColor(name) for name in SERIES]
    apart = [difference(one, other, vision) for one, other in pairwise(colours)]
    assert min(apart) >= 20  # 2.3 can just be told apart
    assert min(difference(*pair, vision) for pair in combinations(colours, 2)) >= 12


@pytest.mark.parametrize("vision", _VISIONS)
@pytest.mark.parametrize("ground", ["#ffffff", "#000000"])
def test_kinds_of_memory_that_look_alike_have_other_textures(
    vision: str | None, ground: str
) -> None:
    for one, other in combinations(Kind, 2):
        colours = [painting.kind_colour(kind, QColor(ground)) for kind in (one, other)]
        if difference(*colours, vision) < 15:
            assert painting._TEXTURES[one] != painting._TEXTURES[other], (one, other)


def test_curves_differ_in_their_marks_too() -> None:
    assert len(set(curves_plot._SYMBOLS)) >= 4


@pytest.mark.parametrize("name", SERIES)
def test_text_on_a_colour_reads_well(name: str) -> None:
    assert contrast(painting.text_on(QColor(name)), QColor(name)) >= 4.5


@pytest.mark.parametrize("name", sorted({type_colour(name) for name in TENSOR_TYPES}))
def test_text_on_a_type_reads_well(name: str) -> None:
    assert contrast(painting.text_on(QColor(name)), QColor(name)) >= 4.5


@pytest.mark.usefixtures("scheme")
@pytest.mark.parametrize(
    "make", [QPushButton, QLineEdit, QComboBox, QSpinBox, QCheckBox, QRadioButton, QSlider]
)
def test_edges_of_controls_are_seen(qtbot: QtBot, make: Callable[[QWidget], QWidget]) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    control = make(window)
    if isinstance(control, QSlider):
        control.setOrientation(Qt.Orientation.Horizontal)
        control.setValue(0)  # all of the groove is empty
    control.setGeometry(10, 10, 120, 30)
    window.resize(140, 60)
    picture = window.grab().toImage()
    ground = QApplication.palette().color(_ROLE.Window)
    middle = [picture.pixelColor(x, y) for x in range(10, 130) for y in range(10, 40)]
    edge = [colour for colour in middle if contrast(colour, ground) >= 3.0]  # WCAG 2.2, 1.4.11
    assert len(edge) >= 20


@pytest.mark.usefixtures("own_colours")
def test_what_keys_act_on_in_a_list_is_seen_on_the_selection(
    qtbot: QtBot, window: MainWindow
) -> None:
    window.showNormal()
    window.resize(1280, 800)  # a narrow one hides the tree
    window.panels.setCurrentWidget(window.panels.tensors)
    tree, panel = window.open_models.tree, window.panels.tensors.widget
    panel.table.selectRow(2)
    for scheme, view in product(_SCHEMES, (tree, panel.table)):
        apply_scheme(scheme)
        area = view.visualRect(view.currentIndex())
        assert view.selectionModel().isSelected(view.currentIndex())
        pictures = []
        for focused in (view, window.top.appearance):
            focused.setFocus()
            qtbot.waitUntil(focused.hasFocus)
            pictures.append(view.viewport().grab(area).toImage())
        seen, unseen = pictures
        changed = [
            contrast(seen.pixelColor(x, y), unseen.pixelColor(x, y))
            for x in range(seen.width())
            for y in range(seen.height())
            if seen.pixel(x, y) != unseen.pixel(x, y)
        ]
        assert len(changed) > area.width()
        assert min(changed) >= 3, scheme
