"""The menu Help: guide, keys, "What's this?", about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6 import QtWidgets
from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent

from explorer import __version__
from explorer.present.panels import guide_page
from explorer.qt.actions import Actions
from explorer.qt.panels import Panels
from explorer.qt.settings import Settings

if TYPE_CHECKING:
    from explorer.qt.help.guide import HelpWindow


class Help(QObject):
    """Opens the guide, and explains figures."""

    def __init__(
        self, window: QtWidgets.QMainWindow, actions: Actions, panels: Panels, settings: Settings
    ) -> None:
        super().__init__(window)
        self._window = window
        self._text_sizes = actions.larger, actions.smaller, actions.usual
        self._settings = settings
        self.guide: HelpWindow | None = None  # while it is open
        for action, slot in (
            (actions.guide, lambda: self.show_guide(panels.page)),
            (actions.shortcuts, self.show_keys),
            (actions.whats_this, QtWidgets.QWhatsThis.enterWhatsThisMode),
            (actions.explain, explain_focus),
            (actions.about, self.show_about),
        ):
            action.triggered.connect(lambda _=False, slot=slot: slot())

    def show_keys(self) -> None:
        from explorer.qt.help.guide import KEYS_PAGE  # noqa: PLC0415 - not before the first paint

        self.show_guide(KEYS_PAGE)

    def show_guide(self, name: str) -> None:
        if self.guide is None:
            self.guide = self._make_guide()
        self.guide.open_page(guide_page(name))
        self.guide.show()
        self.guide.activateWindow()

    def show_about(self) -> None:
        """Show version, licence and what the program never does."""
        box = QtWidgets.QMessageBox(self._window)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setWindowTitle("About GGUF Explorer")
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(f"GGUF Explorer {__version__}")
        box.setInformativeText(
            "See what is inside downloaded language models.\n"
            "MIT licence. Model files are only read. The web is asked for nothing but the "
            "addresses that you open."
        )
        box.open()

    def close(self) -> None:
        """Close the guide, as the window is closed."""
        if self.guide is not None:
            self.guide.reject()

    def _make_guide(self) -> HelpWindow:
        from explorer.qt.help import guide as guides  # noqa: PLC0415 - not before the first paint

        settings = self._settings
        commands = guides.command_keys(self._window.actions())
        pages = [*guides.load_guide(), guides.keys_page(commands)]
        made = guides.HelpWindow(pages, lambda page: guides.with_keys(page, commands), self._window)
        made.restoreGeometry(settings.layout("help"))
        made.splitter.restoreState(settings.layout("help_splitter"))
        made.addActions(self._text_sizes)
        made.finished.connect(self._forget_guide)
        return made

    def _forget_guide(self) -> None:
        guide, settings = self.guide, self._settings
        if guide is not None:
            settings.set_layout("help", guide.saveGeometry())
            settings.set_layout("help_splitter", guide.splitter.saveState())
        self.guide = None


def explain_focus() -> str:
    """Explain the figure that has the keyboard's focus; return its text, "" if it has none."""
    widget = QtWidgets.QApplication.focusWidget()
    if widget is None:
        return ""
    text, place = explanation_of(widget)
    if text:
        QtWidgets.QWhatsThis.showText(place, text, widget)
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, text))
    return text


def explanation_of(widget: QtWidgets.QWidget) -> tuple[str, QPoint]:
    """Return the "What's this?" of a widget or its current cell, and where to show it.

    A widget without a text of its own has that of the nearest widget around it.
    """
    if isinstance(widget, QtWidgets.QAbstractItemView):
        index = widget.currentIndex()
        text = index.data(Qt.ItemDataRole.WhatsThisRole) if index.isValid() else None
        if isinstance(text, str) and text:
            area = widget.visualRect(index)
            below = QPoint(area.center().x(), area.bottom())  # so that the figure stays in sight
            return text, widget.viewport().mapToGlobal(below)
    place = widget.mapToGlobal(widget.rect().center())
    above: QtWidgets.QWidget | None = widget
    while above is not None:
        if above.whatsThis():
            return above.whatsThis(), place
        above = above.parentWidget()
    return "", place
