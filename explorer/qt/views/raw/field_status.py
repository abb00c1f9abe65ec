"""The lines below the bytes: what the byte under the cursor belongs to and is as a number."""

from __future__ import annotations

from typing import Final, Literal

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from explorer.formats.structure import Field
from explorer.present.explanations import picture_text
from explorer.qt.theme import monospace_font
from explorer.qt.views.labels import plain_label
from explorer.qt.views.raw.field_style import kind_name
from explorer.qt.views.raw.hex_text import number_texts, offset_text
from explorer.text import integer_text, plain_text, shorten

_LONGEST_LABEL: Final = 160


class FieldStatus(QWidget):
    """Two lines of text.

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
