"""What the window says: failures until they are dismissed, and for some seconds what was done."""

from __future__ import annotations

from collections import deque
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from PySide6 import QtGui
from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtWidgets import QApplication, QFrame, QScrollArea, QToolButton, QWidget

from explorer.qt.theme import Space, TextSize, style_text, warning_colour
from explorer.qt.widgets.building import column, copy_text, row
from explorer.qt.widgets.controls import Slot, button
from explorer.qt.widgets.labels import ElidedLabel, plain_label, text_label
from explorer.text import integer_text, plain_text, shorten

_LONGEST: Final = 1000  # the details have all of it
_MOST_SHOWN: Final = 50
_SHARE_OF_WINDOW: Final = 0.35
_LEAST_HEIGHT: Final = 60
_STRIPE: Final = 3
_MESSAGE: Final = (Space.WIDE, Space.TIGHT, Space.NEAR, Space.TIGHT)  # left, top, right, bottom


class MessageText(NamedTuple):
    """What failed, safe to show: one sentence, and details for a report."""

    sentence: str
    details: str


class Message(QFrame):
    """What failed: a sign, a sentence, and buttons to copy its details and to dismiss it.

    Signals:
        dismissed: It was dismissed.
    """

    dismissed = Signal()

    def __init__(self, text: MessageText, parent: QWidget) -> None:
        super().__init__(parent)
        self.text = text
        self._times = 0
        self.sign = plain_label(self, "✘")
        style_text(self.sign, TextSize.SECTION)
        self.sign.setAccessibleName("Error")
        self.label = text_label("", self)
        self.label.setAccessibleName("Message")
        tip = "Copy the message with all that is known, for a report"
        self.copy = _flat_button(self, "Copy details", tip, partial(copy_text, text.details))
        tip = "Dismiss this message (Esc)"
        self.dismiss = _flat_button(self, "Dismiss", tip, self.dismissed)
        parts = (self.sign, (self.label, 1), self.copy, self.dismiss)
        row(*parts, of=self, margins=_MESSAGE)
        self.repeat()
        self.take_colours()

    def repeat(self) -> None:
        """Say how often the same was reported."""
        self._times += 1
        again = f"{integer_text(self._times)} times" if self._times > 1 else ""
        self.label.setText(self.text.sentence + (f"  ({again})" if again else ""))

    def take_colours(self) -> None:
        palette = QtGui.QGuiApplication.palette()
        palette.setColor(QtGui.QPalette.ColorRole.WindowText, warning_colour(palette))
        self.sign.setPalette(palette)
        _look_like_links(self.copy, self.dismiss)
        self.update()

    # Qt

    def paintEvent(self, event: QtGui.QPaintEvent) -> None:
        super().paintEvent(event)
        palette = self.sign.palette()
        painter = QtGui.QPainter(self)
        colour = palette.color(QtGui.QPalette.ColorRole.WindowText)
        painter.fillRect(0, 2, _STRIPE, self.height() - 4, colour)
        painter.end()

    def keyPressEvent(self, event: QtGui.QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.dismissed.emit()
        else:
            super().keyPressEvent(event)


def _flat_button(owner: QWidget, text: str, tip: str, slot: Slot) -> QToolButton:
    made = button(owner, text, tip, slot)
    made.setAutoRaise(True)
    made.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    return made


def _look_like_links(*buttons: QToolButton) -> None:
    """Give buttons without a frame a colour that says what they are."""
    role = QtGui.QPalette.ColorRole
    palette = QtGui.QGuiApplication.palette()
    palette.setColor(role.ButtonText, palette.color(role.Link))
    for each in buttons:
        each.setPalette(palette)


class MessageBar(QWidget):
    """All messages, one below the other, each until it is dismissed; none replaces another.

    It is the one way to report a failure: lines above the content, not a dialog.

    Attributes:
        messages: Those in sight, in the order of coming; later ones wait until some are dismissed.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.messages: list[Message] = []
        self._waiting: deque[MessageText] = deque()
        self.setAccessibleName("Messages")
        self._count = plain_label(self)
        tip = "Dismiss all messages, also those not in sight"
        self.dismiss_all = _flat_button(self, "Dismiss all", tip, self.clear)
        self._head = QWidget(self)
        row((self._count, 1), self.dismiss_all, of=self._head, margins=_MESSAGE)
        self._list = QWidget(self)
        self._rows = column(of=self._list)
        self._scroll = QScrollArea(self)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setAccessibleName("Messages")
        self._scroll.setWidget(self._list)
        line = QFrame(self)
        line.setFrameShape(QFrame.Shape.HLine)
        line.setForegroundRole(QtGui.QPalette.ColorRole.Mid)
        line.setFrameShadow(QFrame.Shadow.Plain)
        column(self._head, self._scroll, line, of=self, margins=(0, Space.TIGHT, 0, 0))
        _look_like_links(self.dismiss_all)
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QtGui.QPalette.ColorRole.AlternateBase)
        for inner in (self._list, self._scroll.viewport()):
            inner.setAutoFillBackground(False)
        self.hide()

    def show_error(self, sentence: str, details: str = "") -> None:
        """Show what failed; it may hold text from a file. `details` are for a report."""
        whole = plain_text(details or sentence, lines=True)  # may end up in a terminal
        text = MessageText(shorten(plain_text(sentence), _LONGEST), whole)
        same = next((message for message in self.messages if message.text == text), None)
        if same is not None:
            same.repeat()
        else:
            self._waiting.append(text)
        self._fit()

    def clear(self) -> None:
        self._waiting.clear()
        for message in list(self.messages):
            self._remove(message)
        self._fit()

    def _fill(self) -> None:
        while self._waiting and len(self.messages) < _MOST_SHOWN:
            message = Message(self._waiting.popleft(), self._list)
            message.dismissed.connect(partial(self._dismiss, message))
            self.messages.append(message)
            self._rows.addWidget(message)
            message.show()
            alert = QtGui.QAccessibleEvent(message.label, QtGui.QAccessible.Event.Alert)
            QtGui.QAccessible.updateAccessibility(alert)

    def _dismiss(self, message: Message) -> None:
        place = self.messages.index(message)
        focused = QApplication.focusWidget()
        had_focus = focused is not None and message.isAncestorOf(focused)
        self._remove(message)
        self._fit()
        if had_focus and self.messages:  # so that the keyboard can dismiss one after the other
            after = self.messages[min(place, len(self.messages) - 1)]
            after.dismiss.setFocus(Qt.FocusReason.OtherFocusReason)

    def _remove(self, message: Message) -> None:
        self.messages.remove(message)
        self._rows.removeWidget(message)
        message.hide()
        message.deleteLater()

    def _fit(self) -> None:
        """Show what there is: as high as it is, but a part of the window only."""
        self._fill()
        count = len(self.messages) + len(self._waiting)
        self._count.setText(f"{integer_text(count)} messages")
        self._head.setVisible(count > 1)
        self.setVisible(count > 0)
        high = self._rows.totalHeightForWidth(self._scroll.viewport().width())
        most = max(_LEAST_HEIGHT, int(_SHARE_OF_WINDOW * self.window().height()))
        self._scroll.setFixedHeight(max(0, min(high, most)))  # -1 without a message

    # Qt

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ApplicationPaletteChange:  # dark has become light
            _look_like_links(self.dismiss_all)
            for message in self.messages:
                message.take_colours()
        return super().event(event)

    def resizeEvent(self, event: QtGui.QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width() and self.messages:
            self._fit()


_NOTICE_MS: Final = 10_000


class Notice(QWidget):
    """Says for some seconds, in the status bar, what was done; moves nothing.

    What the program put on the clipboard is said too, whatever part of it did so.

    Signals:
        folder_wanted: The user wants to see the file that was written; its path.
    """

    folder_wanted = Signal(Path)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._path: Path | None = None
        self.label = ElidedLabel(self)
        tip = "Show the file in the file manager"
        self.button = button(self, "Show in folder", tip, self._show_folder)
        self.button.setAutoRaise(True)
        self._timer = QTimer(self, singleShot=True, interval=_NOTICE_MS)
        self._timer.timeout.connect(self.hide)
        row((self.label, 1), self.button, of=self, spacing=Space.NEAR)
        QtGui.QGuiApplication.clipboard().dataChanged.connect(self._show_copied)
        self.hide()

    def show_written(self, path: Path) -> None:
        self.show_done(f"✓ Saved {plain_text(str(path))}")
        self._path = path
        self.button.show()

    def show_done(self, sentence: str) -> None:
        """Say that something was done; the sentence is safe to show."""
        self._path = None
        self.button.hide()
        self.label.setText(sentence)
        self.show()
        self._timer.start()
        QtGui.QAccessible.updateAccessibility(
            QtGui.QAccessibleAnnouncementEvent(self.label, sentence)
        )

    def _show_copied(self) -> None:
        clipboard = QtGui.QGuiApplication.clipboard()
        if clipboard.ownsClipboard():  # else another program copied something
            picture = clipboard.mimeData().hasImage() and not clipboard.mimeData().hasText()
            self.show_done("✓ Picture copied" if picture else "✓ Copied")

    def _show_folder(self) -> None:
        if self._path is not None:
            self.folder_wanted.emit(self._path)
