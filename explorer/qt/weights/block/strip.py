"""The bytes of a block as hexadecimal digits, tinted by field, with the bits that matter marked.

Below the digits of a byte eight dashes stand for its bits, the highest at the left: so one sees
that a code is the lower half of one byte and a single bit of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PySide6 import QtGui
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtWidgets import QWidget

from explorer.analysis.block_detail import BlockDetail, place_of
from explorer.analysis.block_search import ComparedBlock
from explorer.formats.structure import FieldKind
from explorer.present.explanations import picture_text
from explorer.present.pictures import sentence
from explorer.qt.theme import monospace_font
from explorer.qt.widgets.building import add_action, copy_text
from explorer.qt.widgets.chart import Chart
from explorer.qt.widgets.controls import BETWEEN
from explorer.qt.widgets.painting import field_line, field_tint
from explorer.qt.widgets.plot import PlotColours
from explorer.text import MINUS, float_text, integer_text, runs_text

# Fields of a block are tinted by their place in it, in the colours of the raw view: those were
# chosen so that text reads on them and that they stay apart for every kind of colour vision.
# Neighbours are as far apart as these tints allow, in lightness too. The table of fields, whose
# names have the same tints, is the legend.
_KINDS: Final = (
    FieldKind.COUNT,
    FieldKind.KEY,
    FieldKind.MAGIC,
    FieldKind.VALUE,
    FieldKind.VERSION,
    FieldKind.OFFSET,
)


def block_field_tint(number: int, palette: QtGui.QPalette) -> QtGui.QColor:
    """Return the colour behind the bytes of a block's field."""
    return field_tint(_KINDS[number % len(_KINDS)], palette)


def block_field_line(number: int, palette: QtGui.QPalette) -> QtGui.QColor:
    """Return the colour of the line where a field begins."""
    return field_line(_KINDS[number % len(_KINDS)], palette)


COLUMNS: Final = 16
_MARGIN: Final = 6
_GROUP: Final = 8
_BITS_HEIGHT: Final = 4  # pixels below the digits
_ALL_BITS: Final = 255
_STEPS: Final = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Right: 1,
    Qt.Key.Key_Up: -COLUMNS,
    Qt.Key.Key_Down: COLUMNS,
}


class BlockStrip(Chart[int]):
    """Paints the bytes of one block; each part is the number of a byte."""

    accessible_role = QtGui.QAccessible.Role.Graphic

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Bytes of the block", picture_text("block_bytes"), parent)
        self._detail: BlockDetail | None = None
        self._masks: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.setFont(monospace_font())
        copy = QtGui.QKeySequence.StandardKey.Copy
        self.commands.insert(0, add_action(self, "Copy the &bytes", self.copy, copy))
        self._measure()

    def show_block(self, detail: BlockDetail | None) -> None:
        self._detail = detail
        self._masks = np.zeros(self._count, np.uint8)
        self.pointed = None
        if self.current is not None and self.current >= self._count:
            self.current = None
        self._resize()
        self.update()

    def show_bits(self, masks: NDArray[np.uint8], description: str) -> None:
        """Mark bits.

        Args:
            masks: uint8 [bytes].
            description: What they are, for a screen reader.
        """
        self._masks = masks
        self.setAccessibleDescription(description)
        self.update()

    def copy(self) -> None:
        """Copy the bytes that are marked, or all if none is, as hexadecimal digits."""
        if self._detail is None:
            return
        stored = np.frombuffer(self._detail.stored, np.uint8)
        marked = stored[self._masks > 0] if self._masks.any() else stored
        copy_text(marked.tobytes().hex(" "))

    def place_of(self, byte: int) -> QRectF:
        """Return where a byte's digits are, half a blank around them included."""
        row, column = divmod(byte, COLUMNS)
        left = self._left + (3 * column + column // _GROUP) * self._char
        return QRectF(left, row * self._height, 3 * self._char, self._height)

    @property
    def _count(self) -> int:
        return 0 if self._detail is None else len(self._detail.stored)

    def _measure(self) -> None:
        metrics = QtGui.QFontMetricsF(self.font())
        self._char = metrics.horizontalAdvance("0")
        self._ascent = metrics.ascent()
        self._height = round(metrics.height()) + _BITS_HEIGHT
        self._left = 2 * _MARGIN + 3 * self._char
        self._resize()

    def _resize(self) -> None:
        rows = max(1, -(-self._count // COLUMNS))
        width = self._left + (3 * COLUMNS + COLUMNS // _GROUP - 1) * self._char + _MARGIN
        self.setFixedSize(QSize(int(width) + 1, rows * self._height + 2))

    def _paint_byte(
        self,
        painter: QtGui.QPainter,
        byte: int,
        detail: BlockDetail,
        colours: PlotColours,
        palette: QtGui.QPalette,
    ) -> None:
        place = self.place_of(byte)
        number = detail.field_at(byte)
        painter.fillRect(place, block_field_tint(number, palette))
        if byte == detail.fields[number].offset:
            edge = QRectF(place.left(), place.top(), 2, place.height())
            painter.fillRect(edge, block_field_line(number, palette))
        painter.setPen(colours.text)
        spot = QPointF(place.left() + self._char / 2, place.top() + 1 + self._ascent)
        painter.drawText(spot, f"{detail.stored[byte]:02x}")
        mask = int(self._masks[byte])
        if mask:
            _paint_bits(painter, place, mask, colours)

    def paint(self, painter: QtGui.QPainter, size: QSize, colours: PlotColours) -> None:
        detail = self._detail
        if detail is None:
            return
        for row in range(-(-self._count // COLUMNS)):
            painter.setPen(colours.muted)
            spot = QPointF(_MARGIN, row * self._height + 1 + self._ascent)
            painter.drawText(spot, f"{row * COLUMNS:3x}")
        palette = self.palette()
        palette.setColor(QtGui.QPalette.ColorRole.Window, colours.background)  # that of paper
        palette.setColor(QtGui.QPalette.ColorRole.Base, colours.background)
        for byte in range(self._count):
            self._paint_byte(painter, byte, detail, colours, palette)

    def paint_marks(self, painter: QtGui.QPainter, colours: PlotColours) -> None:
        if self.current is not None and self.hasFocus():
            painter.setPen(QtGui.QPen(colours.text, 2))
            painter.drawRect(self.place_of(self.current).adjusted(1, 1, -1, -1))

    def hit(self, point: QPointF) -> int | None:
        row = int(point.y() // self._height)
        for byte in range(max(0, row) * COLUMNS, min(self._count, (row + 1) * COLUMNS)):
            if self.place_of(byte).contains(point):
                return byte
        return None

    def after(self, key: Qt.Key) -> int | None:
        wanted = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: self._count - 1}.get(key)
        if key in _STEPS:  # where nothing is current yet, any arrow begins at the first byte
            wanted = 0 if self.current is None else self.current + _STEPS[key]
        return wanted if wanted is not None and 0 <= wanted < self._count else None

    def sentence(self) -> str:
        fields = () if self._detail is None else self._detail.fields
        return sentence(f"{field.name}: {field.nbytes} bytes" for field in fields)

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        detail = self._detail
        if detail is None:
            return []
        fields = [detail.fields[detail.field_at(byte)].name for byte in range(self._count)]
        return [
            ("offset", list(range(self._count))),
            ("byte", list(detail.stored)),
            ("field", fields),
        ]

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._measure()


def _paint_bits(painter: QtGui.QPainter, place: QRectF, mask: int, colours: PlotColours) -> None:
    """Draw a frame around a byte, and its bits below the digits where not all of them count."""
    painter.setPen(QtGui.QPen(colours.text, 1))
    painter.drawRect(place.adjusted(0.5, 0.5, -0.5, -1.5))
    if mask == _ALL_BITS:
        return
    step = (place.width() - 4) / 8
    top = place.bottom() - _BITS_HEIGHT - 1
    for bit in range(8):
        on = mask >> (7 - bit) & 1
        dash = QRectF(place.left() + 2 + bit * step, top, step - 0.7, 3 if on else 1)
        painter.fillRect(dash, colours.text if on else colours.muted)


_DIGITS = 9  # of a float32: all that differ


class PartKind(Enum):
    """What one may look at in a block."""

    BYTE = auto()
    FIELD = auto()
    SUB_BLOCK = auto()
    WEIGHT = auto()


@dataclass(frozen=True, slots=True)
class BlockPart:
    """What is looked at."""

    part: PartKind
    number: int


@dataclass(frozen=True, slots=True)
class Links:
    """What belongs to something that is looked at.

    Attributes:
        masks: uint8 [bytes]: the bits of each byte.
        weights: bool [weights].
        text: What it is and does, in words.
    """

    masks: NDArray[np.uint8]
    weights: NDArray[np.bool_]
    text: str


def links_of(detail: BlockDetail, look: BlockPart, compared: ComparedBlock | None = None) -> Links:
    """Return what belongs to a part of a block."""
    number, per = look.number, detail.weights_per_scale
    if look.part is PartKind.WEIGHT:
        masks = detail.bits.codes[:, number] | _scale_bits(detail, number // per)
        acting = np.arange(detail.values.size) == number
        return Links(masks, acting, _weight_text(detail, number, compared))
    if look.part is PartKind.SUB_BLOCK:
        acting = np.arange(detail.values.size) // per == number
        return Links(_scale_bits(detail, number), acting, _sub_block_text(detail, number))
    if look.part is PartKind.BYTE:
        run, text = range(number, number + 1), _byte_text(detail, number)
    else:
        field, text = detail.fields[number], _field_text(detail, number)
        run = range(field.offset, field.offset + field.nbytes)
    masks = np.zeros(len(detail.stored), np.uint8)
    masks[run.start : run.stop] = _ALL_BITS
    acting = np.zeros(detail.values.size, np.bool_)
    for byte in run:
        acting |= detail.bits.acts_on(byte, per)
    return Links(masks, acting, text)


def bits_text(mask: int) -> str:
    """Return the bits of a mask in words: ``"bits 0-3"``."""
    if mask == _ALL_BITS:
        return "all bits"
    bits = [bit for bit in range(8) if mask >> bit & 1]
    return f"{'bit' if len(bits) == 1 else 'bits'} {runs_text(bits)}"


def _scale_bits(detail: BlockDetail, sub: int) -> NDArray[np.uint8]:
    """Return the bits that hold a sub-block's scale and minimum; uint8 [bytes]."""
    masks: NDArray[np.uint8] = detail.bits.scales[:, sub].copy()
    if detail.bits.minima.shape[1]:
        masks |= detail.bits.minima[:, sub]
    return masks


def _field_text(detail: BlockDetail, number: int) -> str:
    field, numbers = detail.fields[number], detail.numbers[number]
    text = f"{field.name}, {field.dtype}: {field.meaning}"
    if numbers:
        text += f"   ·   {', '.join(float_text(each, _DIGITS) for each in numbers)}"
    return text


def _byte_text(detail: BlockDetail, byte: int) -> str:
    """Describe a byte, and what each of its bits acts on."""
    field = detail.fields[detail.field_at(byte)]
    head = f"Byte {byte} = 0x{detail.stored[byte]:02X}, {field.name}"
    bits, per = detail.bits, detail.weights_per_scale
    texts = _targets(bits.codes[byte], 1, "")
    texts += _targets(bits.scales[byte], per, "scale of ")
    if bits.minima.shape[1]:
        texts += _targets(bits.minima[byte], per, "minimum of ")
    return f"{head}:   {';  '.join(texts or ['not read for decoding'])}"


def _targets(masks: NDArray[np.uint8], per: int, what: str) -> list[str]:
    """Describe for each set of bits what it acts on: weights, or groups of `per` weights."""
    texts = []
    for mask in sorted({int(mask) for mask in masks if mask}):
        places = np.flatnonzero(masks == mask).tolist()
        weights = [place * per + i for place in places for i in range(per)]
        noun = "weight" if len(weights) == 1 else "weights"
        texts.append(f"{bits_text(mask)} → {what}{noun} {runs_text(weights)}")
    return texts


def _sub_block_text(detail: BlockDetail, sub: int) -> str:
    first, per = sub * detail.weights_per_scale, detail.weights_per_scale
    scale = _product(detail, sub, minimum=False)
    text = f"Weights {first}–{first + per - 1}: scale {scale}"
    if detail.minima is not None:
        text += f", minimum {_product(detail, sub, minimum=True)}"
    return text


def _product(detail: BlockDetail, sub: int, *, minimum: bool) -> str:
    """Return a scale or minimum as a product: ``"own × factor = effective"``."""
    effective = detail.minima if minimum else detail.scales
    assert effective is not None
    whole = float_text(float(effective[sub]), _DIGITS)
    stored = detail.sub_scales
    if stored is None:
        return whole
    factors, own = (stored.minima, stored.dmin) if minimum else (stored.scales, stored.d)
    if factors is None or own is None:
        return whole
    return f"{float_text(own, _DIGITS)} × {float_text(float(factors[sub]))} = {whole}"


def _weight_text(detail: BlockDetail, weight: int, compared: ComparedBlock | None) -> str:
    """Describe how a weight is computed, and what it is compared with."""
    row, column = place_of(detail)
    sub = weight // detail.weights_per_scale
    code = int(detail.codes[weight])
    level = float_text(float(detail.levels[code]))
    formula = f"{float_text(float(detail.scales[sub]), _DIGITS)} × {level}"
    if detail.minima is not None:
        minimum = float(detail.minima[sub])
        sign = "+" if minimum < 0 else MINUS
        formula += f" {sign} {float_text(abs(minimum), _DIGITS)}"
    parts = [
        (
            f"Weight {weight} (row {integer_text(row)}, column {integer_text(column + weight)}): "
            f"{formula} = {float_text(float(detail.values[weight]), _DIGITS)}"
        )
    ]
    rows = detail.rows
    if rows is not None:
        index = int(rows.indices[weight // rows.group_weights])
        parts.append(f"row {index} of {integer_text(rows.rows_in_grid)} of the grid")
    if compared is not None:
        other = compared.candidate if compared.is_rounding else compared.reference
        name = "rounded" if compared.is_rounding else "reference"
        parts.append(f"{name} {float_text(float(other[weight]), _DIGITS)}")
        parts.append(f"error {float_text(float(compared.errors[weight]), 6)}")
    return BETWEEN.join(parts)
