"""The context menu of the hex view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QMenu

from explorer.qt.views.raw.hex_text import c_array_text, readable_text

if TYPE_CHECKING:
    from explorer.qt.views.raw.hex_view import HexView


def build_menu(view: HexView) -> QMenu:
    """Return the menu; the caller shows it, closing it deletes it."""
    translate = QCoreApplication.translate
    menu = QMenu(view)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    copy = menu.addAction(translate("HexView", "&Copy as hex"), view.copy)
    copy.setShortcut(QKeySequence(QKeySequence.StandardKey.Copy))
    menu.addAction(translate("HexView", "Copy as &text"), lambda: view.copy(readable_text))
    menu.addAction(translate("HexView", "Copy as C &array"), lambda: view.copy(c_array_text))
    menu.addAction(translate("HexView", "Copy &offset"), view.copy_offset)
    menu.addSeparator()
    select = menu.addAction(translate("HexView", "&Select all"), view.select_all)
    select.setShortcut(QKeySequence(QKeySequence.StandardKey.SelectAll))
    for action in menu.actions():
        action.setEnabled(view.size_bytes > 0)
    again = menu.addAction(translate("HexView", "&Read again"), view.retry)
    again.setEnabled(view.has_failures)
    return menu
