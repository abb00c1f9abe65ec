"""How the kinds of bytes look and what they are called: tints, hatching, names.

A tint lies behind text, so it stays close to the base colour: every one leaves the palette's text
at 4.5 : 1 or better (WCAG 2.2, 1.4.3), which a test measures. Tints alone need not tell fourteen
kinds apart; the legend and the line below the bytes give the name, and what holds nothing is
hatched.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtGui import QBrush, QColor, QPalette

from explorer.formats.structure import FieldKind
from explorer.qt.theme import is_dark

# Found by a search for colours that stay apart for every kind of colour vision and stay near one
# hue for a kind in both schemes. Lightness counts as much as hue: protan and deutan eyes have
# little else. The nearest two are 9 (light) and 12 (dark) apart in CIELAB, seen with any of the
# three dichromacies; colours that differed in hue alone were 0.3 apart. Weights fill most of a file
# and stay quiet. Each in light, dark:
_TINTS: Final = {
    FieldKind.MAGIC: ("#a396ee", "#5329a3"),
    FieldKind.VERSION: ("#ee969c", "#a5275b"),
    FieldKind.COUNT: ("#eebf96", "#6f631c"),
    FieldKind.LENGTH: ("#dfc4bc", "#311e12"),
    FieldKind.KEY: ("#9ad5ef", "#32529a"),
    FieldKind.TYPE: ("#e79dc7", "#57144c"),
    FieldKind.VALUE: ("#d6f4c2", "#384310"),
    FieldKind.NAME: ("#9ab1eb", "#221865"),
    FieldKind.DIMS: ("#bdf4db", "#1a6e6a"),
    FieldKind.OFFSET: ("#edec96", "#58693f"),
    FieldKind.HEADER_TEXT: ("#d6f4c2", "#384310"),
    FieldKind.TENSOR_DATA: ("#e1e3ef", "#274943"),
}
_HATCHED: Final = {
    FieldKind.PADDING: Qt.BrushStyle.BDiagPattern,
    FieldKind.UNUSED: Qt.BrushStyle.DiagCrossPattern,
}


def field_tint(kind: FieldKind, palette: QPalette) -> QColor:
    """Return the colour behind bytes of a kind."""
    tints = _TINTS.get(kind)
    if tints is None:
        return palette.color(QPalette.ColorRole.Base)
    return QColor(tints[is_dark(palette)])


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
