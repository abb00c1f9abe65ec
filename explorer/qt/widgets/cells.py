"""Cells that are more than a text: a name with its publisher, a number with its unit, a pill.

What is copied, sorted and read aloud is the cell's text. How it is drawn comes as `CellParts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPalette, QPixmap
from PySide6.QtWidgets import QStyle, QStyleOptionViewItem

from explorer.qt.theme import ink_of, warning_colour
from explorer.qt.widgets.painting import inks_of
from explorer.qt.widgets.table_model import ItemRole
from explorer.qt.widgets.table_view import BarDelegate

if TYPE_CHECKING:  # the window starts without a planner
    from explorer.planner.plans import Level

_EDGE: Final = 8  # pixels between a cell's border and what is in it
_GAP: Final = 6
_LEAST_MUTED: Final = 18  # pixels; less shows nothing that can be read
_PILL_ROOM: Final = 8  # pixels left and right of the word in a pill
_CAPTION: Final = 0.86
_ROW_PADDING: Final = 13
_HEADING_PADDING: Final = 20


@dataclass(frozen=True, slots=True)
class CellParts:
    """How a cell is drawn.

    Attributes:
        text: What is drawn in the colour of texts; it loses its middle where there is no room.
        muted: What follows it, quieter; it loses its end before the text loses anything.
        strong: Whether the text is semi-bold.
        level: What a pill around the text says in colour, as its word does; None for no pill.
        mark: A sign in front, in the colour of problems.
        swatch: A picture in front.
        heading: Whether the row is a heading above others.
    """

    text: str
    muted: str = ""
    strong: bool = False
    level: Level | None = None
    mark: str = ""
    swatch: QPixmap | None = None
    heading: bool = False


def level_colours(level: Level, palette: QPalette) -> tuple[QColor, QColor]:
    """Return the colours of a level's word, and of the pill around it."""
    from explorer.planner.plans import Level  # noqa: PLC0415 - as above

    ink = ink_of(palette)
    word, pill = {
        Level.FITS: (ink.good, ink.good_tint),
        Level.PARTLY: (ink.caution, ink.caution_tint),
        Level.NOT: (ink.warning, ink.warning_tint),
    }[level]
    return QColor(word), QColor(pill)


class RichDelegate(BarDelegate):
    """Draws cells that have `CellParts`; others as Qt does."""

    # Qt

    def sizeHint(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        parts = index.data(ItemRole.PARTS)
        padding = _HEADING_PADDING if parts is not None and parts.heading else _ROW_PADDING
        height = option.fontMetrics.height() + padding
        if parts is None:
            return QSize(super().sizeHint(option, index).width(), height)
        return QSize(round(parts_width(parts, option.font)) + 2, height)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        parts = index.data(ItemRole.PARTS)
        if parts is None:
            super().paint(painter, option, index)
        else:
            self.initStyleOption(option, index)
            option.text = ""
            option.features &= ~QStyleOptionViewItem.ViewItemFeature.HasDecoration
            style = option.widget.style()
            style.drawControl(QStyle.ControlElement.CE_ItemViewItem, option, painter, option.widget)
            painter.save()
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            self._draw(
                painter,
                option,
                parts,
                right=bool(
                    Qt.AlignmentFlag(index.data(Qt.ItemDataRole.TextAlignmentRole) or 0)
                    & Qt.AlignmentFlag.AlignRight
                ),
            )
            painter.restore()

    def _draw(
        self, painter: QPainter, option: QStyleOptionViewItem, parts: CellParts, *, right: bool
    ) -> None:
        area = QRectF(option.rect).adjusted(_EDGE, 0, -_EDGE, -1)
        pieces = list(self._pieces(option, parts, area.width()))
        total = sum(piece.gap + piece.width for piece in pieces)
        place = area.right() - total if right else area.left()
        for piece in pieces:
            place += piece.gap
            piece.draw(painter, QRectF(place, area.top(), piece.width, area.height()))
            place += piece.width

    def _pieces(
        self, option: QStyleOptionViewItem, parts: CellParts, room: float
    ) -> Iterator[_Piece]:
        if parts.level is not None:
            yield _pill(option, parts, room)
            return
        palette, selected = option.palette, bool(option.state & QStyle.StateFlag.State_Selected)
        ink, quiet = inks_of(palette, selected=selected)
        strong, plain = _fonts(option.font, parts)
        gap = 0.0
        if parts.swatch is not None:
            yield _swatch(parts.swatch)
            gap, room = _GAP, room - parts.swatch.deviceIndependentSize().width() - _GAP
        if parts.mark:
            colour = ink if selected else warning_colour(palette)
            piece = _text(parts.mark, strong, colour, gap)
            yield piece
            gap, room = _GAP, room - piece.width - _GAP
        metrics = QFontMetricsF(strong)
        text = metrics.elidedText(parts.text, Qt.TextElideMode.ElideMiddle, room + 1)
        piece = _text(text, strong, ink, gap)
        yield piece
        between = _between(parts, plain)
        room -= piece.width + between
        if parts.muted and room > _LEAST_MUTED:
            metrics = QFontMetricsF(plain)
            text = metrics.elidedText(parts.muted, Qt.TextElideMode.ElideRight, room + 1)
            yield _text(text, plain, quiet, between)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of a cell: the room in front of it, its width, and what draws it."""

    gap: float
    width: float
    draw: Callable[[QPainter, QRectF], None]


def _text(text: str, font: QFont, colour: QColor, gap: float) -> _Piece:
    flags = int(Qt.AlignmentFlag.AlignVCenter) | int(Qt.TextFlag.TextSingleLine)

    def draw(painter: QPainter, area: QRectF) -> None:
        painter.setFont(font)
        painter.setPen(colour)
        painter.drawText(area.adjusted(0, 0, 2, 0), flags, text)

    return _Piece(gap, QFontMetricsF(font).horizontalAdvance(text), draw)


def _swatch(picture: QPixmap) -> _Piece:
    size = picture.deviceIndependentSize()

    def draw(painter: QPainter, area: QRectF) -> None:
        top = area.center().y() - size.height() / 2
        painter.drawPixmap(round(area.left()), round(top), picture)

    return _Piece(0, size.width(), draw)


def _pill(option: QStyleOptionViewItem, parts: CellParts, room: float) -> _Piece:
    assert parts.level is not None
    word, ground = level_colours(parts.level, option.palette)
    font = _fonts(option.font, parts)[1]
    metrics = QFontMetricsF(font)
    text = metrics.elidedText(parts.text, Qt.TextElideMode.ElideRight, room - 2 * _PILL_ROOM + 1)
    height = metrics.height() + 3

    def draw(painter: QPainter, area: QRectF) -> None:
        pill = QRectF(area.left(), area.center().y() - height / 2, area.width(), height)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(ground)
        painter.drawRoundedRect(pill, height / 2, height / 2)
        painter.setFont(font)
        painter.setPen(word)
        painter.drawText(pill, int(Qt.AlignmentFlag.AlignCenter), text)

    return _Piece(0, metrics.horizontalAdvance(text) + 2 * _PILL_ROOM, draw)


def _between(parts: CellParts, font: QFont) -> float:
    """Return the room between a text and what is quieter: a word's, or a unit's."""
    return _GAP if parts.strong else QFontMetricsF(font).horizontalAdvance(" ")


def parts_width(parts: CellParts, font: QFont) -> float:
    """Return the pixels that a cell needs, its edges included."""
    fonts = _fonts(font, parts)
    if parts.level is not None:
        return QFontMetricsF(fonts[1]).horizontalAdvance(parts.text) + 2 * (_PILL_ROOM + _EDGE)
    strong, quiet = QFontMetricsF(fonts[0]), QFontMetricsF(fonts[1])
    width = 2.0 * _EDGE + strong.horizontalAdvance(parts.text)
    if parts.swatch is not None:
        width += parts.swatch.deviceIndependentSize().width() + _GAP
    if parts.mark:
        width += strong.horizontalAdvance(parts.mark) + _GAP
    if parts.muted:
        width += _between(parts, fonts[1]) + quiet.horizontalAdvance(parts.muted)
    return width


def _fonts(font: QFont, parts: CellParts) -> tuple[QFont, QFont]:
    """Return the fonts of the text, and of what is quieter or in a pill."""
    strong, quiet = QFont(font), QFont(font)
    if parts.strong:
        strong.setWeight(QFont.Weight.DemiBold)
    if parts.level is not None:
        quiet.setPointSizeF(_CAPTION * font.pointSizeF())
    return strong, quiet
