"""Colours and fonts: the one place that knows them.

Qt's Fusion style with a palette derived from one colour: it looks the same on every system, follows
dark mode also where the platform does not (stack.md section 4), and needs no style sheets.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette, QStyleHints
from PySide6.QtWidgets import QApplication

# Okabe & Ito's colours, distinct for every kind of colour vision (jfly.uni-koeln.de/color)
SERIES: Final = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
    "#999999",
)


class Scheme(StrEnum):
    """What the user asked for."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"
    CONTRAST = "contrast"


@dataclass(frozen=True)
class _Ink:
    """The colours of a scheme."""

    window: str  # behind controls
    base: str  # behind lists, texts and plots
    stripe: str  # behind every other row of a list
    text: str
    faded: str  # text of less weight: hints, and what cannot be used now
    accent: str  # behind what is selected
    on_accent: str  # text there
    link: str
    warning: str
    box: str | None = None  # Fusion derives outlines from it, 140 % darker; None for `window`


_LIGHT: Final = _Ink(
    window="#f2f3f5",
    base="#ffffff",
    stripe="#f7f8fa",
    text="#1c1e21",
    faded="#5f6368",
    accent="#2f6fd0",
    on_accent="#ffffff",
    link="#2458b0",
    warning="#b3261e",
)
_DARK: Final = _Ink(
    window="#25272b",
    base="#1d1f22",
    stripe="#222528",
    text="#e2e4e8",
    faded="#a0a4ab",
    accent="#2f6fd0",
    on_accent="#ffffff",
    link="#8ab4f8",
    warning="#ff8f70",
    box="#bec2ca",
)
# every text at 7 : 1 or better (WCAG 2.2, 1.4.6), every outline at 3 : 1 (1.4.11)
_CONTRAST: Final = _Ink(
    window="#000000",
    base="#000000",
    stripe="#141414",
    text="#ffffff",
    faded="#c8c8c8",
    accent="#ffd400",
    on_accent="#000000",
    link="#7fd4ff",
    warning="#ff9e80",
    box="#ffffff",
)
_OUTLINED_DARK: Final = ("QCheckBox", "QRadioButton")
# no lists and texts: the corner between their scroll bars would have that colour
_OUTLINED_CONTRAST: Final = (*_OUTLINED_DARK, "QAbstractButton", "QLineEdit", "QComboBox",
    "QAbstractSpinBox", "QTabBar", "QSlider", "QProgressBar", "QScrollBar")  # fmt: skip


def apply_scheme(scheme: Scheme) -> None:
    """Set the palette of the application."""
    hints = QGuiApplication.styleHints()
    light_or_dark = Qt.ColorScheme.Light if scheme is Scheme.LIGHT else Qt.ColorScheme.Dark
    hints.setColorScheme(Qt.ColorScheme.Unknown if scheme is Scheme.SYSTEM else light_or_dark)
    ink = _ink(scheme, hints)
    palette = _palette(ink)
    QApplication.setPalette(palette)  # takes palettes of classes away
    if ink.box is not None:
        # Fusion outlines a box in a darker shade of what it stands on: invisible on dark
        palette.setColor(QPalette.ColorRole.Window, QColor(ink.box))
        for name in _OUTLINED_CONTRAST if ink is _CONTRAST else _OUTLINED_DARK:
            QApplication.setPalette(palette, name)  # type: ignore[arg-type] # the stub says bytes, which raise


def scheme_palette(scheme: Scheme) -> QPalette:
    """Return the palette of a scheme."""
    return _palette(_ink(scheme, QGuiApplication.styleHints()))


def _ink(scheme: Scheme, hints: QStyleHints) -> _Ink:
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


def _palette(ink: _Ink) -> QPalette:
    role, group = QPalette.ColorRole, QPalette.ColorGroup
    palette = QPalette(QColor(ink.window))
    for part, colour in (
        (role.Base, ink.base),
        (role.AlternateBase, ink.stripe),
        (role.Text, ink.text),
        (role.WindowText, ink.text),
        (role.ButtonText, ink.text),
        (role.ToolTipBase, ink.base),
        (role.ToolTipText, ink.text),
        (role.Highlight, ink.accent),
        (role.HighlightedText, ink.on_accent),
        (role.Link, ink.link),
        (role.PlaceholderText, ink.faded),
    ):
        palette.setColor(part, QColor(colour))
    for part in (role.Text, role.WindowText, role.ButtonText):
        palette.setColor(group.Disabled, part, QColor(ink.faded))
    return palette


def is_dark(palette: QPalette) -> bool:
    """Whether text is lighter than what it stands on."""
    window = palette.color(QPalette.ColorRole.Window).lightness()
    return palette.color(QPalette.ColorRole.WindowText).lightness() > window


def monospace_font() -> QFont:
    """Return the system's font of equal widths."""
    return QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)


def warning_colour(palette: QPalette) -> QColor:
    """Return a colour for problems that reads on the palette's base."""
    base = palette.color(QPalette.ColorRole.Base).name()
    ink = next((ink for ink in (_LIGHT, _DARK, _CONTRAST) if ink.base == base), None)
    return QColor((ink or (_DARK if is_dark(palette) else _LIGHT)).warning)


def series_colour(index: int) -> QColor:
    """Return the colour of one of several series."""
    return QColor(SERIES[index % len(SERIES)])
