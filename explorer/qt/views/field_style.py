"""How the kinds of bytes look and what they are called: tints, hatching, names.

A tint lies behind text, so it stays close to the base colour: every one leaves the palette's text
at 4.5 : 1 or better (WCAG 2.2, 1.4.3), which a test measures. Tints alone cannot tell fourteen
kinds apart; the legend and the line below the bytes give the name, and what holds nothing is
hatched.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtGui import QBrush, QColor, QPalette

from explorer.formats.structure import FieldKind
from explorer.qt.theme import is_dark

_HUES: Final = {
    FieldKind.MAGIC: 285,
    FieldKind.VERSION: 320,
    FieldKind.COUNT: 28,
    FieldKind.LENGTH: 50,
    FieldKind.KEY: 215,
    FieldKind.TYPE: 350,
    FieldKind.VALUE: 120,
    FieldKind.NAME: 240,
    FieldKind.DIMS: 168,
    FieldKind.OFFSET: 78,
    FieldKind.HEADER_TEXT: 120,
    FieldKind.TENSOR_DATA: 195,
}
# (saturation, lightness) of HSL; weights fill most of a file and stay quiet
_LIGHT: Final = (0.72, 0.85)
_DARK: Final = (0.50, 0.25)
_QUIET_LIGHT: Final = (0.45, 0.93)
_QUIET_DARK: Final = (0.30, 0.19)
_HATCHED: Final = {
    FieldKind.PADDING: Qt.BrushStyle.BDiagPattern,
    FieldKind.UNUSED: Qt.BrushStyle.DiagCrossPattern,
}


def field_tint(kind: FieldKind, palette: QPalette) -> QColor:
    """Return the colour behind bytes of a kind."""
    dark = is_dark(palette)
    hue = _HUES.get(kind)
    if hue is None:
        return palette.color(QPalette.ColorRole.Base)
    if kind is FieldKind.TENSOR_DATA:
        saturation, lightness = _QUIET_DARK if dark else _QUIET_LIGHT
    else:
        saturation, lightness = _DARK if dark else _LIGHT
    return QColor.fromHslF(hue / 360, saturation, lightness)


def field_hatching(kind: FieldKind, palette: QPalette) -> QBrush | None:
    """Return the lines that are drawn over the tint, or None."""
    style = _HATCHED.get(kind)
    if style is None:
        return None
    colour = QColor(128, 128, 128, 70 if is_dark(palette) else 60)
    return QBrush(colour, style)


def field_line(kind: FieldKind, palette: QPalette) -> QColor:
    """Return the colour of the line where a field begins."""
    tint = field_tint(kind, palette)
    return tint.lighter(220) if is_dark(palette) else tint.darker(150)


def kind_name(kind: FieldKind) -> str:
    """Return what a kind is called, in the user's language."""
    translate = QCoreApplication.translate
    names = {
        FieldKind.MAGIC: translate("FieldKind", "Magic"),
        FieldKind.VERSION: translate("FieldKind", "Version"),
        FieldKind.COUNT: translate("FieldKind", "Count"),
        FieldKind.LENGTH: translate("FieldKind", "Length"),
        FieldKind.KEY: translate("FieldKind", "Key"),
        FieldKind.TYPE: translate("FieldKind", "Type"),
        FieldKind.VALUE: translate("FieldKind", "Value"),
        FieldKind.NAME: translate("FieldKind", "Tensor name"),
        FieldKind.DIMS: translate("FieldKind", "Dimensions"),
        FieldKind.OFFSET: translate("FieldKind", "Offset"),
        FieldKind.HEADER_TEXT: translate("FieldKind", "Header text"),
        FieldKind.TENSOR_DATA: translate("FieldKind", "Weights"),
        FieldKind.PADDING: translate("FieldKind", "Padding"),
        FieldKind.UNUSED: translate("FieldKind", "Unused"),
    }
    return names[kind]
