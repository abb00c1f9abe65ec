"""Around the hex view: the legend of its colours, and the field under the cursor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QAccessible, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QLabel, QSizePolicy, QVBoxLayout, QWidget

from explorer.formats.structure import Field, FieldKind
from explorer.present.explanations import picture_text
from explorer.qt.raw.hex_paint import number_texts, offset_text
from explorer.qt.theme import monospace_font
from explorer.qt.widgets.labels import plain_label
from explorer.qt.widgets.painting import field_hatching, field_line, field_tint, kind_name
from explorer.text import integer_text, plain_text, shorten

_SWATCH: Final = 14
_GAP: Final = 5
_SPACING: Final = 14
_MARGIN: Final = 6


class FieldLegend(QWidget):
    """Swatches with names, in as many lines as the width needs."""

    accessible_role = QAccessible.Role.Graphic

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # as the bytes that it explains
        self._kinds: tuple[FieldKind, ...] = ()
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName(self.tr("Legend of the colours"))
        self.setWhatsThis(picture_text("field_legend"))

    def set_kinds(self, kinds: Sequence[FieldKind]) -> None:
        """Show these kinds."""
        self._kinds = tuple(kinds)
        self.setAccessibleDescription(", ".join(map(kind_name, self._kinds)))
        self.updateGeometry()
        self.update()

    def _places(self, width: int) -> Iterator[tuple[FieldKind, QRect]]:
        """Yield each kind with the rectangle of its swatch and name."""
        metrics = self.fontMetrics()
        height = max(_SWATCH, metrics.height())
        x, y = _MARGIN, _GAP
        for kind in self._kinds:
            item = _SWATCH + _GAP + metrics.horizontalAdvance(kind_name(kind))
            if x > _MARGIN and x + item > width - _MARGIN:
                x, y = _MARGIN, y + height + _GAP
            yield kind, QRect(x, y, item, height)
            x += item + _SPACING

    # Qt

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return max((place.bottom() + 1 for _, place in self._places(width)), default=0) + _GAP

    def sizeHint(self) -> QSize:
        return QSize(600, self.heightForWidth(600))

    def minimumSizeHint(self) -> QSize:
        return QSize(120, self.heightForWidth(max(120, self.width())))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        palette = self.palette()
        for kind, place in self._places(self.width()):
            swatch = QRect(place.left(), place.center().y() - _SWATCH // 2, _SWATCH, _SWATCH)
            painter.fillRect(swatch, field_tint(kind, palette))
            hatching = field_hatching(kind, palette)
            if hatching is not None:
                painter.fillRect(swatch, hatching)
            painter.setPen(field_line(kind, palette))
            painter.drawRect(swatch.adjusted(0, 0, -1, -1))
            painter.setPen(palette.color(QPalette.ColorRole.WindowText))
            text = place.adjusted(_SWATCH + _GAP, 0, 0, 0)
            painter.drawText(text, int(Qt.AlignmentFlag.AlignVCenter), kind_name(kind))
        painter.end()


_LONGEST_LABEL: Final = 160


class FieldStatus(QWidget):
    """Two lines below the bytes: what the byte under the cursor is, and as numbers.

    Attributes:
        place: Kind, label, offsets and length.
        numbers: The bytes at the cursor as numbers.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.place = self._label(self.tr("Field under the cursor"))
        self.place.setWhatsThis(picture_text("field"))
        self.numbers = self._label(self.tr("Bytes at the cursor as numbers"))
        self.numbers.setFont(monospace_font())
        self.numbers.setWhatsThis(picture_text("numbers"))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 4, 6, 2)
        layout.setSpacing(2)
        layout.addWidget(self.place)
        layout.addWidget(self.numbers)

    def show_place(self, offset: int, field: Field | None, selected: int) -> None:
        """Describe a byte.

        Args:
            offset: The byte.
            field: What it belongs to, if known.
            selected: Number of selected bytes.
        """
        parts = [self.tr("Byte {offset}").format(offset=offset_text(offset))]
        if field is not None:
            label = shorten(plain_text(field.label[: 2 * _LONGEST_LABEL]), _LONGEST_LABEL)
            parts = [
                f"{kind_name(field.kind)}: {label}",
                *parts,
                self.tr("field at {offset}").format(offset=offset_text(field.offset)),
                self.tr("1 byte")
                if field.nbytes == 1
                else self.tr("{count} bytes").format(count=integer_text(field.nbytes)),
            ]
        if selected > 1:
            parts.append(self.tr("{count} selected").format(count=integer_text(selected)))
        self.place.setText(" · ".join(parts))

    def show_numbers(self, raw: bytes | None, order: Literal["little", "big"]) -> None:
        """Show bytes as numbers; None if they are not in memory."""
        found = [] if raw is None else number_texts(raw, order)
        # a blank that does not break keeps a number beside its name
        text = "   ".join(f"{name}\N{NO-BREAK SPACE}{number}" for name, number in found)
        self.numbers.setText(text or "…")

    def clear(self) -> None:
        """Show nothing."""
        self.place.clear()
        self.numbers.clear()

    def _label(self, name: str) -> QLabel:
        label = plain_label(self)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        label.setWordWrap(True)
        label.setAccessibleName(name)
        return label
