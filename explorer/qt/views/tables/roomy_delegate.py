"""Rows with some room above and below the text, as the tables have them."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QLocale, QSize
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from explorer.qt.models.contents.tree import Index
from explorer.qt.views.tables.table_padding import isolated

ROW_PADDING = 7


class RoomyDelegate(QStyledItemDelegate):
    """Gives the rows of trees and lists the height that the tables' rows have."""

    # Qt

    def displayText(self, value: Any, locale: QLocale | QLocale.Language) -> str:
        return isolated(super().displayText(value, locale), self.parent())

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        hint = super().sizeHint(option, index)
        # not the style's own margins: they differ between trees and lists
        return QSize(hint.width(), max(hint.height(), option.fontMetrics.height() + ROW_PADDING))
