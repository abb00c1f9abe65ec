"""How the planner's picture is painted: a colour and a texture for each kind of content.

Nothing is told by colour alone: kinds differ in texture too, and devices have their number.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen

from explorer.present.plan import Kind
from explorer.qt.theme import SERIES, series_colour

_TEXTURES: Final[Mapping[Kind, Qt.BrushStyle]] = MappingProxyType(
    {
        Kind.WEIGHTS: Qt.BrushStyle.NoBrush,
        Kind.KV_CACHE: Qt.BrushStyle.BDiagPattern,
        Kind.GRAPH: Qt.BrushStyle.Dense6Pattern,
        Kind.PROJECTOR: Qt.BrushStyle.VerPattern,
        Kind.RESERVED: Qt.BrushStyle.FDiagPattern,
        Kind.FREE: Qt.BrushStyle.NoBrush,
        Kind.SWAP: Qt.BrushStyle.HorPattern,
    }
)
_COLOURS: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        Kind.WEIGHTS: SERIES[0],
        Kind.KV_CACHE: SERIES[1],
        Kind.GRAPH: SERIES[2],
        Kind.PROJECTOR: SERIES[6],
        Kind.RESERVED: SERIES[7],
    }
)
_FIRST_DEVICE: Final = 3  # the colours before it are those of the kinds
_CPU_COLOUR: Final = "#8a8f98"
_AS_MUCH_TO_BOTH: Final = 0.179  # (L + 0.05) / 0.05 = 1.05 / (L + 0.05)
_EMPTY: Final = (Kind.FREE, Kind.SWAP)


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
    return base if kind in _EMPTY else QColor(_COLOURS[kind])


def fill_kind(painter: QPainter, area: QRectF, kind: Kind, base: QColor, text: QColor) -> None:
    """Fill an area as a kind of content."""
    colour = kind_colour(kind, base)
    painter.fillRect(area, colour)
    texture = _TEXTURES[kind]
    if texture is not Qt.BrushStyle.NoBrush:
        line = QColor(text if kind in _EMPTY else text_on(colour))
        line.setAlpha(70)
        painter.fillRect(area, QBrush(line, texture))


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
    if not text:
        return ""
    return f"<qt>{html.escape(text).replace(chr(10), '<br>')}</qt>"
