"""How contents are painted: memory, types, bytes of a file, with a colour for each kind.

Kinds of memory and families of types differ in texture too, and devices have their number.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QIcon, QPainter, QPainterPath, QPalette, QPen, QPixmap
from PySide6.QtWidgets import QAbstractItemView, QAbstractScrollArea, QFrame, QTreeView

from explorer.formats.structure import FieldKind
from explorer.present.colours import (
    CPU_COLOUR,
    FIELD_TINTS,
    MEMORY_COLOURS,
    Pattern,
    type_colour,
    type_pattern,
)
from explorer.qt.theme import ink_of, is_dark, series_colour
from explorer.qt.widgets.icons import paint_icon

if TYPE_CHECKING:
    from explorer.present.plan import Kind  # loads the planner

_TEXTURES: Final[Mapping[str, Qt.BrushStyle]] = MappingProxyType(
    {
        "weights": Qt.BrushStyle.NoBrush,
        "kv_cache": Qt.BrushStyle.BDiagPattern,
        "graph": Qt.BrushStyle.Dense6Pattern,
        "projector": Qt.BrushStyle.VerPattern,
        "draft": Qt.BrushStyle.DiagCrossPattern,
        "adapters": Qt.BrushStyle.CrossPattern,
        "reserved": Qt.BrushStyle.FDiagPattern,
        "free": Qt.BrushStyle.NoBrush,
        "free swap": Qt.BrushStyle.HorPattern,
    }
)
_FIRST_DEVICE: Final = 3  # the colours before it are those of the kinds
_AS_MUCH_TO_BOTH: Final = 0.179  # (L + 0.05) / 0.05 = 1.05 / (L + 0.05)
_SEEN: Final = 3.0
_OPAQUE: Final = 255
_EDGE: Final = 180  # per cent, how much darker or lighter
_EMPTY: Final = ("free", "free swap")
_PATTERN_ALPHA: Final = 70


def device_colour(device: int | None) -> QColor:
    """Return the colour of a device of the strip; None is the CPU."""
    return QColor(CPU_COLOUR) if device is None else series_colour(device + _FIRST_DEVICE)


def text_on(colour: QColor) -> QColor:
    """Return black or white, whichever has more contrast with a colour (WCAG 2.2)."""
    return QColor("black") if _luminance(colour) > _AS_MUCH_TO_BOTH else QColor("white")


def _luminance(colour: QColor) -> float:
    # sRGB's curve, without its straight end, which is too dark to matter here
    parts = ((colour.redF(), 0.2126), (colour.greenF(), 0.7152), (colour.blueF(), 0.0722))
    return float(sum(share * float(part) ** 2.2 for part, share in parts))


def edge_of(colour: QColor, ground: QColor) -> QColor:
    """Return what outlines a fill: its colour, or a darker one where that is hardly seen."""
    dark, light = sorted((_luminance(colour), _luminance(ground)))
    seen = (light + 0.05) / (dark + 0.05) >= _SEEN  # WCAG 2.2, 1.4.11
    if seen or colour.alpha() < _OPAQUE:
        return colour
    return (
        colour.darker(_EDGE) if _luminance(ground) > _luminance(colour) else colour.lighter(_EDGE)
    )


def kind_colour(kind: Kind, base: QColor) -> QColor:
    """Return the colour of a kind; what is free has that of the ground."""
    return base if kind in _EMPTY else QColor(MEMORY_COLOURS[kind])


def fill_kind(painter: QPainter, area: QRectF, kind: Kind, base: QColor, text: QColor) -> None:
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
SWATCH_SIZE: Final = QSize(_SWATCH, _SWATCH)
_SWATCH_SCALE: Final = 4  # of the picture that is drawn smaller, sharp on every screen


@lru_cache(maxsize=256)  # pictures ask for it with each drag
def type_ink(name: str) -> str:
    """Return the colour of a tensor type."""
    return type_colour(name)


def fill_type(painter: QPainter, area: QRectF, name: str) -> QColor:
    """Fill an area with the colour and the pattern of a tensor type; return the colour."""
    colour = QColor(type_ink(name))
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


@lru_cache(maxsize=256)
def swatch_icon(name: str) -> QIcon:
    """Return the swatch of a type as an icon for lists: Qt would tint it where it is selected."""
    icon = QIcon(type_swatch(name))
    icon.addPixmap(type_swatch(name), QIcon.Mode.Selected)
    return icon


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


def inks_of(palette: QPalette, *, selected: bool) -> tuple[QColor, QColor]:
    """Return the colours of texts, and of quieter ones, on what the row stands on."""
    role = QPalette.ColorRole
    if not selected:
        return palette.color(role.Text), palette.color(role.PlaceholderText)
    ink, muted = palette.color(role.HighlightedText), palette.color(role.PlaceholderText)
    # where the tint has the text's own colour, muted reads on it too; not on a loud one
    return ink, muted if ink == palette.color(role.Text) else ink


def stand_on_page(view: QAbstractScrollArea) -> None:
    """Let a list have no box: it stands on what is behind it."""
    view.setFrameShape(QFrame.Shape.NoFrame)
    view.viewport().setAutoFillBackground(False)


def outline_current(view: QAbstractItemView, painter: QPainter, area: QRect) -> None:
    """Outline what the keys act on while a view has the focus: Fusion would fill it, shaded."""
    if not view.hasFocus() or area.isEmpty():
        return
    palette, accent = view.palette(), QColor(ink_of(view.palette()).accent)
    selected = view.selectionModel().isSelected(view.currentIndex())
    if selected and palette.color(QPalette.ColorRole.Highlight) == accent:  # high contrast
        painter.setPen(palette.color(QPalette.ColorRole.HighlightedText))
        painter.drawRect(area.adjusted(2, 2, -3, -4))  # at the edge it would be taken for the page
    else:
        painter.setPen(accent)
        painter.drawRect(area.adjusted(0, 0, -1, -2))


_BRANCH: Final = 12  # pixels of the sign of a branch


def paint_branch(
    view: QTreeView, painter: QPainter, area: QRect, index: QModelIndex | QPersistentModelIndex
) -> None:
    """Paint the sign of a branch, open or closed, in a colour that is seen on the selection too."""
    if not view.model().hasChildren(index):
        return
    ink, place = ink_of(view.palette()), QRectF(0, 0, _BRANCH, _BRANCH)
    x = area.right() + 1 - view.indentation() / 2
    place.moveCenter(QPointF(x, area.center().y()))
    chosen = view.selectionModel().isSelected(index)
    name = "unfolded" if view.isExpanded(index) else "folded"
    paint_icon(painter, place, name, ink.on_tint if chosen else ink.muted)


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


def in_lines(
    widths: Iterable[float], room: float, height: float, gap: float = 0
) -> Iterator[QRectF]:
    """Yield a place for each width, side by side like words, in as many lines as the room needs.

    Args:
        widths: Of what stands there, in pixels, as are all of these.
        room: Width of a line.
        height: Height of a line.
        gap: Between two places of a line.
    """
    x = y = 0.0
    for width in widths:
        if x and x + width > room:
            x, y = 0.0, y + height
        yield QRectF(x, y, width, height)
        x += width + gap


def plain_tip(text: str) -> str:
    """Return text as a tool tip that shows it as it is: else Qt guesses whether it is markup."""
    return f"<qt>{html.escape(text).replace(chr(10), '<br>')}</qt>" if text else ""


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
    if kind not in FIELD_TINTS:
        return palette.color(QPalette.ColorRole.Base)
    return QColor(FIELD_TINTS[kind][is_dark(palette)])


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
    return _KIND_NAMES.get(kind, kind.replace("_", " ").capitalize())
