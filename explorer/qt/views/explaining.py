"""The keyboard's "What's this?": explains what has the focus, as pointing at it would."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QAbstractItemView, QApplication, QWhatsThis, QWidget


def explain_focus() -> str:
    """Explain the figure that the keyboard is at; return what was said, "" if nothing was."""
    widget = QApplication.focusWidget()
    if widget is None:
        return ""
    text, place = explanation_of(widget)
    if text:
        QWhatsThis.showText(place, text, widget)
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, text))
    return text


def explanation_of(widget: QWidget) -> tuple[str, QPoint]:
    """Return what a widget, or its current cell, means, and where to say so on the screen.

    Of a widget without a text of its own it is the text of the nearest one that it is in.
    """
    if isinstance(widget, QAbstractItemView):
        index = widget.currentIndex()
        text = index.data(Qt.ItemDataRole.WhatsThisRole) if index.isValid() else None
        if isinstance(text, str) and text:
            area = widget.visualRect(index)
            below = QPoint(area.center().x(), area.bottom())  # so that the figure stays in sight
            return text, widget.viewport().mapToGlobal(below)
    place = widget.mapToGlobal(widget.rect().center())
    above: QWidget | None = widget
    while above is not None:
        if above.whatsThis():
            return above.whatsThis(), place
        above = above.parentWidget()
    return "", place
