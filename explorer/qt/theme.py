"""Colours and fonts: the one place that knows them.

Qt's Fusion style with a palette derived from one colour: it looks the same on every system, follows
dark mode also where the platform does not (stack.md section 4), and needs no style sheets.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

_DARK_WINDOW: Final = QColor(37, 39, 43)
_LIGHT_WINDOW: Final = QColor(242, 243, 245)
_DARK_BOX: Final = QColor(190, 194, 202)  # the outline is darker by 140 per cent
_ACCENT: Final = QColor(47, 111, 208)
# Okabe & Ito's colours, which every kind of colour vision tells apart (jfly.uni-koeln.de/color)
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


def apply_scheme(scheme: Scheme) -> None:
    """Give the application its palette."""
    hints = QGuiApplication.styleHints()
    wanted = {
        Scheme.SYSTEM: Qt.ColorScheme.Unknown,
        Scheme.LIGHT: Qt.ColorScheme.Light,
        Scheme.DARK: Qt.ColorScheme.Dark,
    }[scheme]
    hints.setColorScheme(wanted)
    dark = (
        hints.colorScheme() == Qt.ColorScheme.Dark
        if scheme is Scheme.SYSTEM
        else scheme is Scheme.DARK
    )
    palette = _palette(dark)
    QApplication.setPalette(palette)  # takes palettes of classes away
    if dark:
        # Fusion outlines the box in a darker shade of what it stands on: on dark, nobody sees it
        palette.setColor(QPalette.ColorRole.Window, _DARK_BOX)
        for name in ("QCheckBox", "QRadioButton"):
            QApplication.setPalette(palette, name)  # type: ignore[arg-type] # the stub says bytes, which raise


def _palette(dark: bool) -> QPalette:
    palette = QPalette(_DARK_WINDOW if dark else _LIGHT_WINDOW)
    base = QColor(29, 31, 34) if dark else QColor(Qt.GlobalColor.white)
    text = QColor(226, 228, 232) if dark else QColor(28, 30, 33)
    for role, colour in (
        (QPalette.ColorRole.Base, base),
        (QPalette.ColorRole.AlternateBase, base.lighter(118) if dark else QColor(247, 248, 250)),
        (QPalette.ColorRole.Text, text),
        (QPalette.ColorRole.WindowText, text),
        (QPalette.ColorRole.ButtonText, text),
        (QPalette.ColorRole.Highlight, _ACCENT),
        (QPalette.ColorRole.HighlightedText, QColor(Qt.GlobalColor.white)),
        (QPalette.ColorRole.Link, _ACCENT.lighter(150) if dark else _ACCENT),
    ):
        palette.setColor(role, colour)
    faded = QColor(text)
    faded.setAlpha(130)
    palette.setColor(QPalette.ColorRole.PlaceholderText, faded)
    for role in (
        QPalette.ColorRole.Text,
        QPalette.ColorRole.WindowText,
        QPalette.ColorRole.ButtonText,
    ):
        palette.setColor(QPalette.ColorGroup.Disabled, role, faded)
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
    return QColor("#ff8f70") if is_dark(palette) else QColor("#b3261e")


def series_colour(index: int) -> QColor:
    """Return the colour of one of several things that are told apart."""
    return QColor(SERIES[index % len(SERIES)])
