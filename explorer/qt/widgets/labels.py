"""Labels that show text as it is: names from files must not be taken for rich text."""

from __future__ import annotations

import html
from typing import Final

from PySide6 import QtGui
from PySide6.QtCore import QCoreApplication, QEvent, QSize, Qt, Signal
from PySide6.QtWidgets import QLabel, QPushButton, QToolTip, QWidget

from explorer.qt.theme import warning_colour
from explorer.qt.widgets.building import column, row
from explorer.text import plain_text, shorten

SELECTABLE: Final = (
    Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
)
"""What lets a text be selected and copied, also without a mouse."""

_LARGEST: Final = QSize(1000, 16_000)


class _PlainLabel(QLabel):
    """Asks for a bounded size: a window as wide as a name of 65,000 letters takes gigabytes."""

    # Qt

    def sizeHint(self) -> QSize:
        return super().sizeHint().boundedTo(_LARGEST)

    def minimumSizeHint(self) -> QSize:
        return super().minimumSizeHint().boundedTo(_LARGEST)


def plain_label(parent: QWidget, text: str = "") -> QLabel:
    """Return a label that shows markup as text."""
    label = _PlainLabel(text, parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label


def centred_label(parent: QWidget) -> QLabel:
    """Return a plain label of several lines for the middle of an area."""
    label = plain_label(parent)
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    label.setWordWrap(True)
    return label


def empty_label(parent: QWidget) -> QLabel:
    """Return a label for an area where there is nothing else to show."""
    label = centred_label(parent)
    label.setEnabled(False)
    return label


def error_caution(parent: QWidget) -> QLabel:
    """Return a label that says what weight errors do not predict."""
    text = QCoreApplication.translate(
        "Labels",
        "Weight error ranks tensors of one role. It does not by itself predict the quality of a "
        "model's answers.",
    )
    label = plain_label(parent, text)
    label.setForegroundRole(QtGui.QPalette.ColorRole.PlaceholderText)
    label.setWordWrap(True)
    label.setContentsMargins(8, 3, 8, 4)
    return label


class ElidedLabel(QLabel):
    """A line of plain text without its middle where it does not fit; then its tool tip is all."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)

    def shown_text(self) -> str:
        """Return what fits."""
        return self.fontMetrics().elidedText(
            self.text(), Qt.TextElideMode.ElideMiddle, self.contentsRect().width()
        )

    # Qt

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QtGui.QHelpEvent):
            # markup whose text cannot be markup: else Qt guesses which of both it is
            whole = f"<qt>{html.escape(self.text())}</qt>"
            elided = self.shown_text() != self.text()
            QToolTip.showText(event.globalPos(), whole if elided else "", self)
            return True
        return super().event(event)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event: QtGui.QPaintEvent) -> None:
        painter = QtGui.QPainter(self)
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)  # a path is no sentence
        self.style().drawItemText(
            painter,
            self.contentsRect(),
            int(self.alignment()),
            self.palette(),
            self.isEnabled(),
            self.shown_text(),
            self.foregroundRole(),
        )
        painter.end()


_LONGEST: Final = 1000  # the details have all of it


class MessageBar(QWidget):
    """Shows the latest message until it is dismissed; its details can be copied.

    It is the one way to report a failure: a line above the content, not a dialog.
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
        self.copy.clicked.connect(lambda: QtGui.QGuiApplication.clipboard().setText(self._details))
        self.dismiss = QPushButton(self.tr("Dismiss"), self)
        self.dismiss.clicked.connect(self.hide)
        row((self.label, 1), self.copy, self.dismiss, of=self, margins=(12, 8, 12, 8))
        self.setAutoFillBackground(True)
        self.hide()

    def show_error(self, sentence: str, details: str = "") -> None:
        """Show what failed; it may hold text from a file. `details` are for a report."""
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
        palette = QtGui.QGuiApplication.palette()
        role = QtGui.QPalette.ColorRole
        colour = warning_colour(palette) if self._error else palette.color(role.WindowText)
        own = QtGui.QPalette(palette)
        own.setColor(role.Window, palette.color(role.AlternateBase))
        own.setColor(role.WindowText, colour)
        self.setPalette(own)

    # Qt

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ApplicationPaletteChange:  # dark has become light
            self._take_colours()
        return super().event(event)

    def keyPressEvent(self, event: QtGui.QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.hide()
        else:
            super().keyPressEvent(event)


class StatePage(QWidget):
    """What a page shows instead of its content: a heading, a sentence, and perhaps a button.

    Signals:
        pressed: The button was pressed.
    """

    pressed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.heading = centred_label(self)
        font = QtGui.QFont(self.heading.font())
        font.setPointSizeF(font.pointSizeF() * 1.35)
        font.setWeight(QtGui.QFont.Weight.DemiBold)
        self.heading.setFont(font)
        self.sentence = centred_label(self)
        self.sentence.setTextInteractionFlags(SELECTABLE)
        self.button = QPushButton(self)
        self.button.clicked.connect(self.pressed)
        centre = row(1, self.button, 1)
        texts = column(2, self.heading, self.sentence, centre, 3, spacing=10)
        row(1, (texts, 8), 1, of=self, margins=(9, 9, 9, 9))

    def show_message(self, heading: str, sentence: str, button: str = "") -> None:
        """Show other texts, which may come from a file."""
        self.heading.setText(shorten(plain_text(heading), _LONGEST))
        self.sentence.setText(shorten(plain_text(sentence), _LONGEST))
        self.sentence.setVisible(bool(sentence))  # the keyboard would stop at an empty one
        self.button.setText(button)
        self.button.setVisible(bool(button))
