"""Colours, sizes of text, spaces and corners: the one place that knows them.

Qt's Fusion style with a palette derived from one colour: it looks the same on every system, follows
dark mode also where the platform does not (docs/libraries.md, 2). A style sheet of the application
makes its controls flat; no widget has one of its own.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from enum import Enum, StrEnum
from typing import Final
from weakref import WeakKeyDictionary

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontDatabase,
    QFontMetricsF,
    QGuiApplication,
    QPalette,
    QStyleHints,
)
from PySide6.QtWidgets import QApplication, QSplitter, QWidget
from shiboken6 import isValid

from explorer.paths import resource


class Space:
    """Distances in logical pixels."""

    TIGHT: Final = 4  # between things that are one
    NEAR: Final = 8  # between controls of a row
    WIDE: Final = 12  # inside tiles and buttons
    GROUP: Final = 16  # between groups
    PAGE: Final = 24  # at the edges of a page


CORNER: Final = 6
"""Radius of fields and buttons, in logical pixels."""

TILE_CORNER: Final = 10
"""Radius of tiles and chips."""


FOLDS_BELOW: Final = 1100
"""Width of a window, in logical pixels, below which bar and rail show icons without words."""


class TextSize(Enum):
    """Sizes of text, as shares of the system's."""

    CAPTION = 0.86
    BODY = 1.0
    SECTION = 1.07
    TITLE = 1.43
    FIGURE = 1.86


# Found by a search: 3 : 1 on the grounds of all three schemes, so that a series has one colour in
# each; none like the accent, which is for selection and focus alone; and the nearest two 12 apart
# in CIELAB, neighbours 20, for every kind of colour vision. Okabe and Ito's colours, which stood
# here before, have two blues, and half of them are too pale for a line on a light ground.
SERIES: Final = (
    "#8c64a0",
    "#be820a",
    "#1ea05a",
    "#d264c8",
    "#147878",
    "#e6645a",
    "#467800",
    "#8c8c82",
)


class Scheme(StrEnum):
    """What the user asked for."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"
    CONTRAST = "contrast"


@dataclass(frozen=True)
class Ink:
    """The colours of a scheme, by what they are for; measured in `tests/qt/test_colours.py`."""

    ground: str  # behind controls and between groups
    surface: str  # behind lists, texts, plots and tiles
    stripe: str  # behind every other row of a list
    raised: str  # chips, and the part of a bar that is not filled
    line: str  # separators that carry no meaning
    control: str  # borders of fields and buttons, grooves, handles
    text: str
    muted: str  # text of less weight: hints, units, and what cannot be used now
    accent: str  # focus, primary actions, the part of a slider that is filled
    on_accent: str  # text there
    tint: str  # behind what is selected
    on_tint: str  # text there
    link: str
    good: str  # it fits
    caution: str  # it fits partly
    warning: str  # it does not, or something is wrong
    good_tint: str  # behind such words
    caution_tint: str
    warning_tint: str


_LIGHT: Final = Ink(
    ground="#f6f7f9",
    surface="#ffffff",
    stripe="#fafbfc",
    raised="#eef1f5",
    line="#d5dae1",
    control="#7c8796",
    text="#1b2430",
    muted="#56616f",
    accent="#1f5fd0",
    on_accent="#ffffff",
    tint="#e3edfc",
    on_tint="#1b2430",
    link="#1f5fd0",
    good="#1c7a45",
    caution="#9a5b00",
    warning="#b3261e",
    good_tint="#e4f3ea",
    caution_tint="#fbf0dd",
    warning_tint="#fbe7e5",
)
_DARK: Final = Ink(
    ground="#15191f",
    surface="#1c2128",
    stripe="#20262e",
    raised="#252b34",
    line="#343c47",
    control="#7f8b9a",
    text="#e7ecf2",
    muted="#a3aebb",
    accent="#7fb0ff",
    on_accent="#15191f",
    tint="#22365a",
    on_tint="#e7ecf2",
    link="#7fb0ff",
    good="#6fcf97",
    caution="#f0b455",
    warning="#ff8a80",
    good_tint="#1d3328",
    caution_tint="#3a2e18",
    warning_tint="#3d2323",
)
# every text at 7 : 1 or better (WCAG 2.2, 1.4.6), every outline at 3 : 1 (1.4.11)
_CONTRAST: Final = Ink(
    ground="#000000",
    surface="#000000",
    stripe="#141414",
    raised="#1e1e1e",
    line="#8a8a8a",
    control="#b6b6b6",
    text="#ffffff",
    muted="#c8c8c8",
    accent="#ffd400",
    on_accent="#000000",
    tint="#ffd400",
    on_tint="#000000",
    link="#7fd4ff",
    good="#7dffb0",
    caution="#ffd400",
    warning="#ff9e80",
    good_tint="#0d2117",
    caution_tint="#241d00",
    warning_tint="#2b150d",
)
PAPER: Final = _LIGHT
"""What pictures that are saved or printed are drawn with, on white."""

_OUTLINED: Final = ("QAbstractButton", "QLineEdit", "QComboBox", "QAbstractSpinBox", "QTabBar",
    "QSlider", "QProgressBar", "QScrollBar", "QGroupBox")  # fmt: skip
"""Controls whose outline says what they are."""

_BOXES: Final = ("QCheckBox", "QRadioButton")  # Fusion blends their outline with the ground

_CONTROLS: Final = """
QPushButton, QToolButton {{ color: {text}; background: {surface};
    border: 1px solid {control}; border-radius: {corner}px; }}
QPushButton {{ padding: 4px 10px; }}
QDialogButtonBox, QMessageBox {{ dialogbuttonbox-buttons-have-icons: 0; }}
QToolButton {{ padding: 3px 6px; }}
QPushButton:hover, QToolButton:hover {{ background: {raised}; }}
QPushButton:pressed, QPushButton:checked, QToolButton:pressed, QToolButton:checked {{
    color: {on_tint}; background: {tint}; }}
QPushButton:focus, QToolButton:focus {{ border: 2px solid {accent}; }}
QPushButton:focus {{ padding: 3px 9px; }}
QToolButton:focus {{ padding: 2px 5px; }}
QPushButton:disabled, QToolButton:disabled {{ color: {muted}; border-color: {line}; }}
QPushButton:default {{ color: {on_accent}; background: {accent}; border-color: {accent}; }}
QPushButton:default:focus {{ border-color: {text}; }}
QPushButton:default:disabled {{ color: {muted}; background: {raised}; border-color: {line}; }}
QToolButton[autoRaise="true"] {{ background: transparent; border-color: transparent; }}
QToolButton[autoRaise="true"]:hover {{ background: {raised}; }}
QToolButton[autoRaise="true"]:pressed, QToolButton[autoRaise="true"]:checked {{
    background: {tint}; }}
QToolButton[autoRaise="true"]:focus {{ border-color: {accent}; }}
QToolButton[popupMode="2"] {{ padding-right: 18px; }}
QToolButton[popupMode="2"]:focus {{ padding-right: 17px; }}
IconButton[popupMode="2"] {{ padding-right: 6px; }}
IconButton[toolButtonStyle="2"] {{ padding-right: 0; }}
IconButton[popupMode="2"]:focus {{ padding-right: 5px; }}
FoldButton {{ padding-left: 0; }}
FoldButton[autoRaise="true"]:checked {{ color: {text}; background: transparent; }}
QToolButton#chip {{ background: {raised}; border-radius: {tile}px; padding: 3px 8px; }}
QToolButton#chip:focus {{ padding: 2px 7px; }}
QToolButton#chip:hover {{ background: {tint}; }}
QToolButton#above, QToolButton#above:focus {{ color: {muted}; padding: 0; }}
QToolButton#above:hover {{ color: {text}; background: transparent; }}
QPushButton::menu-indicator, QToolButton::menu-indicator {{ image: url("{down}"); width: 10px;
    height: 10px; subcontrol-position: right center; right: 5px; }}

QLineEdit, QComboBox, QAbstractSpinBox {{ color: {text}; background: {surface};
    border: 1px solid {control}; border-radius: {corner}px; padding: 3px 6px;
    selection-color: {on_accent}; selection-background-color: {accent}; }}
QLineEdit:focus, QComboBox:focus, QAbstractSpinBox:focus {{ border: 2px solid {accent};
    padding: 2px 5px; }}
/* with less above and below than without the focus, its list would be too low for the last item */
QComboBox:focus {{ padding: 3px 5px; }}
QLineEdit:disabled, QComboBox:disabled, QAbstractSpinBox:disabled {{ color: {muted};
    background: {raised}; border-color: {line}; }}
QAbstractItemView QLineEdit, QAbstractItemView QComboBox, QAbstractItemView QAbstractSpinBox {{
    border-radius: 0; padding: 0 2px; }}
QComboBox::drop-down {{ border: none; width: 20px; }}
QComboBox::down-arrow {{ image: url("{down}"); width: 10px; height: 10px; }}
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button {{ border: none; width: 16px; }}
QAbstractSpinBox::up-arrow {{ image: url("{up}"); width: 9px; height: 9px; }}
QAbstractSpinBox::down-arrow {{ image: url("{down}"); width: 9px; height: 9px; }}

QSlider::groove:horizontal {{ height: 4px; border-radius: 2px; background: {control}; }}
QSlider::sub-page:horizontal {{ height: 4px; border-radius: 2px; background: {accent}; }}
QSlider::handle:horizontal {{ width: 12px; height: 12px; margin: -6px 0; border-radius: 8px;
    border: 2px solid {accent}; background: {surface}; }}
QSlider::handle:horizontal:hover {{ background: {tint}; }}
QSlider::handle:horizontal:focus {{ background: {accent}; }}
QSlider::sub-page:horizontal:disabled {{ background: {control}; }}
QSlider::handle:horizontal:disabled {{ border-color: {control}; background: {raised}; }}

QScrollBar {{ background: transparent; border: none; }}
QScrollBar:vertical {{ width: 12px; }}
QScrollBar:horizontal {{ height: 12px; }}
QScrollBar::handle {{ background: {control}; border-radius: 3px; }}
QScrollBar::handle:vertical {{ min-height: 28px; margin: 2px 3px; }}
QScrollBar::handle:horizontal {{ min-width: 28px; margin: 3px 2px; }}
QScrollBar::handle:hover, QScrollBar::handle:pressed {{ background: {muted}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}

QAbstractScrollArea::corner {{ background: transparent; border: none; }}
QHeaderView {{ background: transparent; }}
QTableCornerButton::section {{ background: transparent; border: none;
    border-bottom: 1px solid {line}; }}
QPlainTextEdit, QTextBrowser {{ color: {text}; background: {surface}; border: 1px solid {line}; }}
QHeaderView::section {{ color: {muted}; background: transparent; border: none;
    border-bottom: 1px solid {line}; padding: 4px; }}
QHeaderView::up-arrow {{ image: url("{up}"); width: 10px; height: 10px; top: 0;
    subcontrol-position: top center; }}
QHeaderView::down-arrow {{ image: url("{down}"); width: 10px; height: 10px; top: 0;
    subcontrol-position: top center; }}

QSplitter::handle {{ background: transparent; }}
QSplitter::handle:horizontal {{ width: {group}px; }}
QSplitter::handle:vertical {{ height: {near}px; }}
QSplitter::handle:hover {{ background: {raised}; }}
QSplitter#shell::handle {{ background: {line}; }}

QProgressBar {{ color: {text}; background: {raised}; border: 1px solid {control};
    border-radius: {corner}px; text-align: center; }}
QProgressBar::chunk {{ background: {accent}; border-radius: {chunk}px; }}
"""
"""Controls as `design.md` draws them: flat, with an outline, and the accent for focus."""

_FUSION_DARKENS: Final = 140  # per cent, how much darker an outline is than what it stands on


def apply_scheme(scheme: Scheme) -> None:
    """Set the palette of the application."""
    hints = QGuiApplication.styleHints()
    light_or_dark = Qt.ColorScheme.Light if scheme is Scheme.LIGHT else Qt.ColorScheme.Dark
    hints.setColorScheme(Qt.ColorScheme.Unknown if scheme is Scheme.SYSTEM else light_or_dark)
    ink = _ink(scheme, hints)
    palette = _palette(ink)
    app = QApplication.instance()
    if isinstance(app, QApplication):
        # without it widgets below a sheet keep the colours that they had when it came
        app.setAttribute(Qt.ApplicationAttribute.AA_UseStyleSheetPropagationInWidgetStyles)
        app.setStyleSheet("")  # to exchange a sheet takes six times as long: 2.3 s with all pages
        app.setStyleSheet(_controls(ink))  # first: a sheet that comes later keeps old palettes
    QApplication.setPalette(palette)  # takes palettes of classes away
    _set_class_palette("QAbstractItemView", _with_tint(palette, ink))
    # Fusion outlines a control in a darker shade of what it stands on: invisible on dark
    for names, colour in ((_OUTLINED, ink.control), (_BOXES, ink.muted)):
        palette.setColor(QPalette.ColorRole.Window, QColor(colour).lighter(_FUSION_DARKENS))
        for name in names:
            _set_class_palette(name, palette)


def _controls(ink: Ink) -> str:
    arrows = {way: str(resource(f"icons/chevron-{way}.svg")) for way in ("up", "down")}
    # between quotes: a folder may have any name
    places = {
        way: name.replace(os.sep, "/").replace("\\", r"\\").replace('"', r"\"")
        for way, name in arrows.items()
    }
    return _CONTROLS.format(
        **asdict(ink),
        **places,
        corner=CORNER,
        chunk=CORNER - 1,
        tile=TILE_CORNER,
        group=Space.GROUP,
        near=Space.NEAR,
    )


def _set_class_palette(name: str, palette: QPalette) -> None:
    QApplication.setPalette(palette, name)  # type: ignore[arg-type] # the stub says bytes, which raise


def _with_tint(palette: QPalette, ink: Ink) -> QPalette:
    """Return a palette in which what is selected is tinted, so that the text in it stays calm."""
    tinted = QPalette(palette)
    tinted.setColor(QPalette.ColorRole.Highlight, QColor(ink.tint))
    tinted.setColor(QPalette.ColorRole.HighlightedText, QColor(ink.on_tint))
    return tinted


def scheme_palette(scheme: Scheme) -> QPalette:
    return _palette(_ink(scheme, QGuiApplication.styleHints()))


def _ink(scheme: Scheme, hints: QStyleHints) -> Ink:
    """Return the colours of a scheme; the system's may be of high contrast (from Qt 6.10 on)."""
    if scheme is Scheme.SYSTEM:
        if _system_wants_contrast(hints):
            return _CONTRAST
        return _DARK if hints.colorScheme() == Qt.ColorScheme.Dark else _LIGHT
    return {Scheme.LIGHT: _LIGHT, Scheme.DARK: _DARK, Scheme.CONTRAST: _CONTRAST}[scheme]


def _system_wants_contrast(hints: QStyleHints) -> bool:
    return (
        hasattr(hints, "accessibility")  # from Qt 6.10 on
        and hints.accessibility().contrastPreference() == Qt.ContrastPreference.HighContrast
    )


def _palette(ink: Ink) -> QPalette:
    role, group = QPalette.ColorRole, QPalette.ColorGroup
    palette = QPalette(QColor(ink.raised), QColor(ink.ground))
    for part, colour in (
        (role.Base, ink.surface),
        (role.AlternateBase, ink.stripe),
        (role.Text, ink.text),
        (role.WindowText, ink.text),
        (role.ButtonText, ink.text),
        (role.ToolTipBase, ink.surface),
        (role.ToolTipText, ink.text),
        (role.Accent, ink.accent),
        (role.Highlight, ink.accent),
        (role.HighlightedText, ink.on_accent),
        (role.Link, ink.link),
        (role.PlaceholderText, ink.muted),
    ):
        palette.setColor(part, QColor(colour))
    for part in (role.Text, role.WindowText, role.ButtonText):
        palette.setColor(group.Disabled, part, QColor(ink.muted))
    return palette


def is_dark(palette: QPalette) -> bool:
    """Whether text is lighter than what it stands on."""
    window = palette.color(QPalette.ColorRole.Window).lightness()
    return palette.color(QPalette.ColorRole.WindowText).lightness() > window


def monospace_font() -> QFont:
    """Return the system's font of equal widths."""
    return QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)


def ink_of(palette: QPalette) -> Ink:
    """Return the colours of the scheme that a palette is of; of a foreign one, the nearest."""
    base = palette.color(QPalette.ColorRole.Base).name()
    ink = next((ink for ink in (_LIGHT, _DARK, _CONTRAST) if ink.surface == base), None)
    return ink or (_DARK if is_dark(palette) else _LIGHT)


def warning_colour(palette: QPalette) -> QColor:
    """Return a colour for problems that reads on the palette's base."""
    return QColor(ink_of(palette).warning)


LEAST_TEXT: Final = 80
MOST_TEXT: Final = 200
"""Per cent of the system's size of text that the user may choose."""

_STYLED: Final[WeakKeyDictionary[QWidget, tuple[TextSize, bool]]] = WeakKeyDictionary()
_SIDES: Final[WeakKeyDictionary[QSplitter, _Side]] = WeakKeyDictionary()
_BOLD_FROM: Final = TextSize.SECTION.value


class _System:
    """The font that the system gave, before any choice of the user."""

    font: QFont | None = None


def apply_text_size(percent: int) -> None:
    """Scale all texts of the application; digits have one width, so that columns line up."""
    if _System.font is None:
        _System.font = QFont(QApplication.font())
    font = QFont(_System.font)
    font.setPointSizeF(font.pointSizeF() * min(max(percent, LEAST_TEXT), MOST_TEXT) / 100)
    font.setFeature(QFont.Tag("tnum"), 1)
    QApplication.setFont(font)
    for widget, (size, strong) in list(_STYLED.items()):
        if isValid(widget):  # Python may still hold what Qt has deleted
            widget.setFont(text_font(size, strong=strong))
    for splitter in list(_SIDES):
        if isValid(splitter):
            fit_side(splitter)


@dataclass
class _Side:
    """A pane whose width follows the size of text."""

    place: int
    size: float


def fit_side(splitter: QSplitter) -> None:
    """Have a pane follow a size of text that was chosen while it was out of sight, too."""
    side, size = _SIDES[splitter], QApplication.font().pointSizeF()
    if size == side.size:
        return
    splitter.refresh()  # else a pane that is shown again has no width yet
    sizes = splitter.sizes()
    if not sizes[side.place]:
        return
    if splitter.orientation() == Qt.Orientation.Horizontal:
        wanted = round(sizes[side.place] * size / side.size)
        sizes[1 - side.place] += sizes[side.place] - wanted
        sizes[side.place] = wanted
        splitter.setSizes(sizes)
    side.size = size


def widen_with_text(splitter: QSplitter, place: int) -> None:
    """Have one of two panes beside each other follow the size of text from now on."""
    _SIDES[splitter] = _Side(place, QApplication.font().pointSizeF())


_DRAWN_WITH: Final = 157.3
"""Pixels of the text below in the font that widths were chosen with: DejaVu Sans, 9 points."""

_TYPICAL: Final = "Weights of 262,144 × 640"


def scaled(pixels: int) -> int:
    """Return a width for the font in use, given one for the font that pages were drawn with.

    Desktops have fonts of different widths, and the user chooses the size of text.
    """
    now = QFontMetricsF(QApplication.font()).horizontalAdvance(_TYPICAL)
    return round(pixels * now / _DRAWN_WITH)


def text_font(size: TextSize, *, strong: bool = False) -> QFont:
    """Return the font of a size of text; semi-bold if it is strong, or that of a heading."""
    font = QFont(QApplication.font())
    font.setPointSizeF(font.pointSizeF() * size.value)
    if strong or size.value >= _BOLD_FROM:
        font.setWeight(QFont.Weight.DemiBold)
    return font


def style_text(widget: QWidget, size: TextSize, *, strong: bool = False) -> None:
    """Give a widget a size of text, which follows the user's choice from now on."""
    _STYLED[widget] = size, strong
    widget.setFont(text_font(size, strong=strong))


def series_colour(index: int) -> QColor:
    return QColor(SERIES[index % len(SERIES)])
