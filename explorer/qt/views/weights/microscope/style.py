"""How the fields of a block are tinted: by their place in it, in the colours of the raw view.

Those were chosen so that text reads on them and that they stay apart for every kind of colour
vision; see `field_style`. The table of fields, whose names have the same tints, is the legend.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtGui import QColor, QPalette

from explorer.formats.structure import FieldKind
from explorer.qt.views.raw.field_style import field_line, field_tint

# neighbours are as far apart as the raw view's tints allow, in lightness too
_KINDS: Final = (
    FieldKind.COUNT,
    FieldKind.KEY,
    FieldKind.MAGIC,
    FieldKind.VALUE,
    FieldKind.VERSION,
    FieldKind.OFFSET,
)


def block_field_tint(number: int, palette: QPalette) -> QColor:
    """Return the colour behind the bytes of a block's field."""
    return field_tint(_KINDS[number % len(_KINDS)], palette)


def block_field_line(number: int, palette: QPalette) -> QColor:
    """Return the colour of the line where a field begins."""
    return field_line(_KINDS[number % len(_KINDS)], palette)
