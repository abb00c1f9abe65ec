"""Help → About: version, licence and what the program promises not to do."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from explorer import __version__


class AboutBox(QMessageBox):
    """A few lines about the program."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("About GGUF Explorer"))
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(f"GGUF Explorer {__version__}")
        self.setInformativeText(
            self.tr(
                "See what is inside downloaded language models.\n"
                "MIT licence. Model files are only read, and no network connection is opened."
            )
        )
