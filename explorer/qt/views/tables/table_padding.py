"""Room at both sides of a table's cells, so that a number does not touch the text right of it.

Qt's styles have no setting for it, and a style sheet makes another style, slower and of another
look, of the whole table. So the text is painted with a blank at each end; what is copied, exported
or read aloud comes from the model and has none.
"""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QLocale, Qt
from PySide6.QtWidgets import QHeaderView, QStyledItemDelegate, QStyleOptionHeader, QWidget

_ISOLATE, _END = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
_BLANK: Final = "\N{NO-BREAK SPACE}"


def isolated(text: str, view: object) -> str:
    """Return text that keeps its own direction in a view that is written from right to left.

    There ``2,000 × 256`` would be shown as ``256 × 2,000``, and ``-0.5`` as ``0.5-``: between
    numbers, signs take the direction of what is around (Unicode UAX 9, first strong isolate).
    """
    if isinstance(view, QWidget) and view.layoutDirection() == Qt.LayoutDirection.RightToLeft:
        return f"{_ISOLATE}{text}{_END}"
    return text


class PaddedDelegate(QStyledItemDelegate):
    """Paints the cells of a table."""

    # Qt

    def displayText(self, value: Any, locale: QLocale | QLocale.Language) -> str:
        text = value if isinstance(value, str) else super().displayText(value, locale)
        return f"{_BLANK}{isolated(text, self.parent())}{_BLANK}"


class PaddedHeader(QHeaderView):
    """The header above such cells."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setSectionsClickable(True)

    # Qt

    def initStyleOptionForIndex(self, option: QStyleOptionHeader, logicalIndex: int) -> None:
        super().initStyleOptionForIndex(option, logicalIndex)
        option.text = f"{_BLANK}{option.text}{_BLANK}"
