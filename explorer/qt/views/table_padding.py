"""Room at both sides of a table's cells, so that a number does not touch the text right of it.

Qt's styles have no setting for it, and a style sheet makes another style, slower and of another
look, of the whole table. So the text is painted with a blank at each end; what is copied, exported
or read aloud comes from the model and has none.
"""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QLocale, Qt
from PySide6.QtWidgets import QHeaderView, QStyledItemDelegate, QStyleOptionHeader, QWidget

_BLANK: Final = "\N{NO-BREAK SPACE}"


class PaddedDelegate(QStyledItemDelegate):
    """Paints the cells of a table."""

    # Qt

    def displayText(self, value: Any, locale: QLocale | QLocale.Language) -> str:
        text = value if isinstance(value, str) else super().displayText(value, locale)
        return f"{_BLANK}{text}{_BLANK}"


class PaddedHeader(QHeaderView):
    """The header above such cells."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setSectionsClickable(True)

    # Qt

    def initStyleOptionForIndex(self, option: QStyleOptionHeader, logicalIndex: int) -> None:
        super().initStyleOptionForIndex(option, logicalIndex)
        option.text = f"{_BLANK}{option.text}{_BLANK}"
