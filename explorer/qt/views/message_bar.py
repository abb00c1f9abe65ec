"""The one way to tell the user that something failed: a line above the content, not a dialog."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent, QPalette
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from explorer.qt.theme import warning_colour
from explorer.qt.views.labels import plain_label
from explorer.text import plain_text, shorten

_LONGEST: Final = 1000  # the details have all of it


class MessageBar(QWidget):
    """Shows the latest message until it is dismissed; its details can be copied.

    Attributes:
        label: The message.
        copy: Copies its details.
        dismiss: Takes it away.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._details = ""
        self._error = False
        self.label = plain_label(self)
        self.label.setWordWrap(True)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.label.setAccessibleName(self.tr("Message"))
        self.copy = QPushButton(self.tr("Copy details"), self)
        self.copy.setToolTip(self.tr("Copy the message with all that is known, for a report"))
        self.copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._details))
        self.dismiss = QPushButton(self.tr("Dismiss"), self)
        self.dismiss.clicked.connect(self.hide)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 8, 12, 8)
        layout.addWidget(self.label, 1)
        layout.addWidget(self.copy)
        layout.addWidget(self.dismiss)
        self.setAutoFillBackground(True)
        self.hide()

    def show_error(self, sentence: str, details: str = "") -> None:
        """Show what failed and what to do.

        Args:
            sentence: For the user; may hold text from a file.
            details: For a report, for example a traceback.
        """
        self._show("✘", sentence, details or sentence, error=True)

    def show_note(self, sentence: str) -> None:
        """Show something that went well."""
        self._show("✔", sentence, sentence, error=False)

    def _show(self, sign: str, sentence: str, details: str, *, error: bool) -> None:
        self._error = error
        self._details = plain_text(details, lines=True)  # may end up in a terminal
        self.label.setText(f"{sign}  {shorten(plain_text(sentence), _LONGEST)}")
        self._take_colours()
        self.show()

    def _take_colours(self) -> None:
        palette = QGuiApplication.palette()
        role = QPalette.ColorRole
        colour = warning_colour(palette) if self._error else palette.color(role.WindowText)
        own = QPalette(palette)
        own.setColor(role.Window, palette.color(role.AlternateBase))
        own.setColor(role.WindowText, colour)
        self.setPalette(own)

    # Qt

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ApplicationPaletteChange:  # dark has become light
            self._take_colours()
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.hide()
        else:
            super().keyPressEvent(event)
