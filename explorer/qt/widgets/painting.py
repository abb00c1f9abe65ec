"""How contents are painted: memory, tensor types, bytes of a file; a colour for each kind.

Kinds of memory and families of types differ in texture too, and devices have their number.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QCoreApplication, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPalette, QPen, QPixmap

from explorer.formats.structure import FieldKind
from explorer.present.colours import MEMORY_COLOURS, Pattern, type_colour, type_pattern
from explorer.qt.theme import is_dark, series_colour

if TYPE_CHECKING:
    from explorer.present.plan import Kind  # loads the planner

_TEXTURES: Final[Mapping[str, Qt.BrushStyle]] = MappingProxyType(
    {
        "weights": Qt.BrushStyle.NoBrush,
        "kv_cache": Qt.BrushStyle.BDiagPattern,
        "graph": Qt.BrushStyle.Dense6Pattern,
        "projector": Qt.BrushStyle.VerPattern,
        "reserved": Qt.BrushStyle.FDiagPattern,
        "free": Qt.BrushStyle.NoBrush,
        "free swap": Qt.BrushStyle.HorPattern,
    }
)
_FIRST_DEVICE: Final = 3  # the colours before it are those of the kinds
_CPU_COLOUR: Final = "#8a8f98"
_AS_MUCH_TO_BOTH: Final = 0.179  # (L + 0.05) / 0.05 = 1.05 / (L + 0.05)
_EMPTY: Final = ("free", "free swap")
_PATTERN_ALPHA: Final = 70


def device_colour(device: int | None) -> QColor:
    """Return the colour of a device of the strip; None is the CPU."""
    return QColor(_CPU_COLOUR) if device is None else series_colour(device + _FIRST_DEVICE)


def text_on(colour: QColor) -> QColor:
    """Return black or white, whichever has more contrast with a colour (WCAG 2.2)."""
    # sRGB's curve, without its straight end, which is too dark to matter here
    parts = ((colour.redF(), 0.2126), (colour.greenF(), 0.7152), (colour.blueF(), 0.0722))
    luminance = sum(share * float(part) ** 2.2 for part, share in parts)
    return QColor("black") if luminance > _AS_MUCH_TO_BOTH else QColor("white")


def kind_colour(kind: Kind, base: QColor) -> QColor:
    """Return the colour of a kind; what is free has that of the ground."""
    return base if kind in _EMPTY else QColor(MEMORY_COLOURS[kind])


def fill_kind(painter: QPainter, area: QRectF, kind: Kind, base: QColor, text: QColor) -> None:
    """Fill an area as a kind of content."""
    colour = kind_colour(kind, base)
    painter.fillRect(area, colour)
    texture = _TEXTURES[kind]
    if texture is not Qt.BrushStyle.NoBrush:
        line = QColor(text if kind in _EMPTY else text_on(colour))
        line.setAlpha(_PATTERN_ALPHA)
        painter.fillRect(area, QBrush(line, texture))


_PATTERNS: Final[Mapping[Pattern, Qt.BrushStyle]] = MappingProxyType(
    {
        Pattern.DOTS: Qt.BrushStyle.Dense6Pattern,
        Pattern.DIAGONAL: Qt.BrushStyle.BDiagPattern,
        Pattern.CROSS: Qt.BrushStyle.DiagCrossPattern,
        Pattern.LINES: Qt.BrushStyle.HorPattern,
    }
)
_SWATCH: Final = 10
_SWATCH_SCALE: Final = 4  # of the picture that is drawn smaller, sharp on every screen


def fill_type(painter: QPainter, area: QRectF, name: str) -> QColor:
    """Fill an area with the colour and the pattern of a tensor type; return the colour."""
    colour = QColor(type_colour(name))
    painter.fillRect(area, colour)
    pattern = type_pattern(name)
    if pattern is not Pattern.PLAIN:
        line = text_on(colour)
        line.setAlpha(_PATTERN_ALPHA)
        painter.fillRect(area, QBrush(line, _PATTERNS[pattern]))
    return colour


@lru_cache(maxsize=256)  # a table asks for it in each row that it paints
def type_swatch(name: str) -> QPixmap:
    """Return a small square in the colour and the pattern of a tensor type."""
    picture = QPixmap(_SWATCH * _SWATCH_SCALE, _SWATCH * _SWATCH_SCALE)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.scale(_SWATCH_SCALE, _SWATCH_SCALE)
    outline = QPainterPath()
    outline.addRoundedRect(QRectF(0, 0, _SWATCH, _SWATCH), 2.5, 2.5)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setClipPath(outline)
    fill_type(painter, QRectF(0, 0, _SWATCH, _SWATCH), name)
    painter.end()
    picture.setDevicePixelRatio(_SWATCH_SCALE)
    return picture


def fill_over(painter: QPainter, area: QRectF, warning: QColor) -> None:
    """Paint over what does not fit: a cross-hatch in the warning colour, with an outline."""
    painter.save()
    veil = text_on(warning)
    veil.setAlpha(130)  # the hatch is to be seen on every colour below
    painter.fillRect(area, veil)
    painter.fillRect(area, QBrush(warning, Qt.BrushStyle.DiagCrossPattern))
    painter.setPen(QPen(warning, 2))
    painter.drawRect(area.adjusted(1, 1, -1, -1))
    painter.restore()


def outline(painter: QPainter, area: QRectF, text: QColor) -> None:
    """Draw a thin line around an area.

    Four filled rectangles: a pen that is not opaque, at a fraction of a pixel, takes 30 times as
    long in Qt's raster engine.
    """
    line = QColor(text)
    line.setAlpha(110)
    box = area.toRect()
    for x, y, width, height in (
        (box.left(), box.top(), box.width(), 1),
        (box.left(), box.bottom(), box.width(), 1),
        (box.left(), box.top() + 1, 1, box.height() - 2),
        (box.right(), box.top() + 1, 1, box.height() - 2),
    ):
        painter.fillRect(x, y, width, height, line)


def draw_caption(painter: QPainter, area: QRectF, text: str, colour: QColor) -> bool:
    """Write a text on a patch of its ground in the middle of an area, if it has room there."""
    metrics = painter.fontMetrics()
    width = metrics.horizontalAdvance(text) + 8
    if width > area.width():
        return False
    patch = QRectF(area.center().x() - width / 2, area.y() + 2, width, area.height() - 4)
    painter.fillRect(patch, colour)
    painter.setPen(text_on(colour))
    painter.drawText(patch, Qt.AlignmentFlag.AlignCenter, text)
    return True


def plain_tip(text: str) -> str:
    """Return text as a tool tip that shows it as it is: else Qt guesses whether it is markup."""
    return f"<qt>{html.escape(text).replace(chr(10), '<br>')}</qt>" if text else ""


# A tint lies behind text, so it stays close to the base colour: every one leaves the palette's text
# at 4.5 : 1 or better (WCAG 2.2, 1.4.3), which a test measures. Tints alone need not distinguish
# fourteen kinds: the legend and the line below the bytes give the name.
#
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


_KIND_NAMES: Final = {
    FieldKind.NAME: "Tensor name",
    FieldKind.DIMS: "Dimensions",
    FieldKind.TENSOR_DATA: "Weights",
}


def field_tint(kind: FieldKind, palette: QPalette) -> QColor:
    """Return the colour behind bytes of a kind."""
    if kind not in _TINTS:
        return palette.color(QPalette.ColorRole.Base)
    return QColor(_TINTS[kind][is_dark(palette)])


def field_hatching(kind: FieldKind, palette: QPalette) -> QBrush | None:
    """Return the lines that are drawn over the tint, or None."""
    if kind not in _HATCHED:
        return None
    return QBrush(QColor(128, 128, 128, 70 if is_dark(palette) else 60), _HATCHED[kind])


def field_line(kind: FieldKind, palette: QPalette) -> QColor:
    """Return the colour of the line where a field begins."""
    tint = field_tint(kind, palette)
    return tint.lighter(220) if is_dark(palette) else tint.darker(150)


def kind_name(kind: FieldKind) -> str:
    """Return what a kind is called, in the user's language."""
    name = _KIND_NAMES.get(kind, kind.replace("_", " ").capitalize())
    return QCoreApplication.translate("FieldKind", name)
