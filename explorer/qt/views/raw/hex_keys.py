"""Where a key moves the cursor of the hex view to: arithmetic, without a widget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import Qt

from explorer.formats.structure import Field


@dataclass(frozen=True, slots=True)
class KeyMoves:
    """The cursor's surroundings.

    Attributes:
        offset: The byte under the cursor.
        size_bytes: Size of the file, not 0.
        columns: Bytes of a row.
        page: Rows of a page.
        field_at: Gives the field of a byte, if known.
    """

    offset: int
    size_bytes: int
    columns: int
    page: int
    field_at: Callable[[int], Field | None]

    def target(self, key: int, modifiers: Qt.KeyboardModifier) -> int | None:
        """Return the byte that a key goes to, or None if it is no key for moving."""
        if modifiers & Qt.KeyboardModifier.ControlModifier:
            return self._far(key)
        at, columns = self.offset, self.columns
        page = self.page * columns
        row_start = at - at % columns
        steps = {
            Qt.Key.Key_Left: at - 1,
            Qt.Key.Key_Right: at + 1,
            Qt.Key.Key_Up: at - columns if at >= columns else at,
            Qt.Key.Key_Down: at + columns if at + columns < self.size_bytes else at,
            Qt.Key.Key_PageUp: at - page if at >= page else at % columns,
            Qt.Key.Key_PageDown: at + page,
            Qt.Key.Key_Home: row_start,
            Qt.Key.Key_End: row_start + columns - 1,
        }
        # by number: a letter of another script is a key that the enum does not have
        return {int(known): step for known, step in steps.items()}.get(key)

    def _far(self, key: int) -> int | None:
        """Return where a key goes with Ctrl: the ends of the file, the edges of fields."""
        if key == Qt.Key.Key_Home:
            return 0
        if key == Qt.Key.Key_End:
            return self.size_bytes - 1
        if key == Qt.Key.Key_Right:
            field = self.field_at(self.offset)
            return self.offset + 1 if field is None else field.end
        if key == Qt.Key.Key_Left:
            return self._start_before()
        return None

    def _start_before(self) -> int:
        """Return the start of this field, or of the one before if it is there already."""
        field = self.field_at(self.offset)
        if field is None:
            return self.offset - 1
        if self.offset > field.offset:
            return field.offset
        before = self.field_at(field.offset - 1)
        return 0 if before is None else before.offset
