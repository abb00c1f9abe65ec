"""Labels that show text as it is: names from files must not be taken for rich text."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from PySide6 import QtGui
from PySide6.QtCore import QEvent, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QApplication,
    QFormLayout,
    QFrame,
    QGridLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QToolTip,
    QWidget,
)

from explorer.present.explanations import ABOUT_ERRORS
from explorer.present.tables.lines import Line
from explorer.qt.theme import TILE_CORNER, Space, TextSize, ink_of, style_text, warning_colour
from explorer.qt.widgets.building import NOTE, column, copy_text, row
from explorer.qt.widgets.painting import plain_tip, type_swatch
from explorer.text import integer_text, plain_text, shorten

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


def plain_label(parent: QWidget | None, text: str = "") -> QLabel:
    """Return a label that shows markup as text."""
    label = _PlainLabel(text, parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label


def text_label(text: str, parent: QWidget, size: TextSize = TextSize.BODY) -> QLabel:
    """Return a plain label of several lines, to be selected and copied."""
    label = plain_label(parent, text)
    label.setTextInteractionFlags(SELECTABLE)
    label.setWordWrap(True)
    if size is not TextSize.BODY:
        style_text(label, size)
    return label


class NoteLabel(_PlainLabel):
    """A line of plain text, called `name` by screen readers; out of sight while it is empty."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setAccessibleName(name)
        self.hide()

    def say(self, text: str) -> None:
        """Show a text, which may come from a file; an empty one hides the last."""
        self.setText(plain_text(text))
        self.setVisible(bool(text))


_LONGEST_FACT: Final = 1000


def facts_form(facts: Iterable[Line], parent: QWidget) -> QFormLayout:
    """Return facts below one another, each with its name; untrusted texts are made safe here."""
    form = QFormLayout()
    form.setHorizontalSpacing(Space.PAGE)
    form.setVerticalSpacing(Space.NEAR)
    form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft)
    form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    for fact in facts:
        lines = plain_text(fact.text, lines=True).split("\n")
        text = "\n".join(shorten(one, _LONGEST_FACT) for one in lines)
        label, value = text_label(fact.title, parent), text_label(text, parent)
        label.setWordWrap(False)
        label.setForegroundRole(QtGui.QPalette.ColorRole.PlaceholderText)
        value.setAccessibleName(f"{fact.title}: {text}")
        for part in (label, value):
            part.setWhatsThis(fact.tip)
        form.addRow(label, value)
    return form


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


class _Caution(_PlainLabel):
    """Asks for the lines that its text takes: what pages need at least counts one alone."""

    # Qt

    def resizeEvent(self, event: QtGui.QResizeEvent) -> None:
        super().resizeEvent(event)
        self.setMinimumHeight(self.heightForWidth(self.width()))


def error_caution(parent: QWidget) -> QLabel:
    """Return a label that says what weight errors do not predict."""
    label = _Caution(parent)
    label.setText(ABOUT_ERRORS)
    label.setForegroundRole(QtGui.QPalette.ColorRole.PlaceholderText)
    label.setWordWrap(True)
    label.setContentsMargins(*NOTE)
    return label


class ElidedLabel(QLabel):
    """A line of plain text without its middle where it does not fit; then its tool tip is all."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)

    def shown_text(self) -> str:
        return self.fontMetrics().elidedText(
            self.text(), Qt.TextElideMode.ElideMiddle, self.contentsRect().width()
        )

    # Qt

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QtGui.QHelpEvent):
            elided = self.shown_text() != self.text()
            QToolTip.showText(event.globalPos(), plain_tip(self.text() if elided else ""), self)
            return True
        return super().event(event)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event: QtGui.QPaintEvent) -> None:
        painter = QtGui.QPainter(self)
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


@dataclass(frozen=True)
class ChipText:
    """A short fact beside a title.

    Attributes:
        text: The fact.
        meaning: What it means.
        type_name: The tensor type whose colour stands before it; empty for none.
        is_problem: Whether something is wrong.
    """

    text: str
    meaning: str
    type_name: str = ""
    is_problem: bool = False


class Chip(QLabel):
    """A short fact on a rounded ground."""

    _SWATCH = 10

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chip = ChipText("", "")
        self.setTextFormat(Qt.TextFormat.PlainText)
        style_text(self, TextSize.CAPTION)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_fact(self, chip: ChipText) -> None:
        self._chip = chip
        left = Space.NEAR + (self._SWATCH + 6 if chip.type_name else 0)
        self.setContentsMargins(left, _CHIP_PAD, Space.NEAR, _CHIP_PAD)
        self.setText(chip.text)
        self.setWhatsThis(chip.meaning)
        self.update()

    # Qt

    def paintEvent(self, event: QtGui.QPaintEvent) -> None:
        ink, painter = ink_of(self.palette()), QtGui.QPainter(self)
        painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QtGui.QColor(ink.raised))
        painter.drawRoundedRect(QRectF(self.rect()), TILE_CORNER, TILE_CORNER)
        if self._chip.type_name:
            top = (self.height() - self._SWATCH) // 2
            painter.drawPixmap(Space.NEAR, top, type_swatch(self._chip.type_name))
        painter.setPen(QtGui.QColor(ink.warning if self._chip.is_problem else ink.text))
        painter.setFont(self.font())
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(self.contentsRect(), int(flags), self.text())
        painter.end()


_LONGEST_DETAIL: Final = 160
_CHIP_PAD: Final = 3  # pixels above and below its text


class Tile(QWidget):
    """A rounded ground for something that belongs together.

    Args:
        edge: Colour of its edge; None for that of separators.
    """

    def __init__(self, parent: QWidget, edge: str | None = None) -> None:
        super().__init__(parent)
        self._edge = edge

    # Qt

    def paintEvent(self, event: QtGui.QPaintEvent) -> None:
        ink, painter = ink_of(self.palette()), QtGui.QPainter(self)
        painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing)
        painter.setPen(QtGui.QColor(self._edge or ink.line))
        painter.setBrush(QtGui.QColor(ink.surface))
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(area, TILE_CORNER, TILE_CORNER)
        painter.end()


class FigureTile(Tile):
    """One large figure with its name above and a detail below."""

    def __init__(
        self, name: str, figure: str, detail: str, parent: QWidget, colour: str = ""
    ) -> None:
        super().__init__(parent)
        title = plain_label(self, name)
        style_text(title, TextSize.CAPTION)
        title.setForegroundRole(QtGui.QPalette.ColorRole.PlaceholderText)
        value = ElidedLabel(self)
        value.setText(figure or "–")
        value.setAccessibleName(f"{name}: {figure}")
        style_text(value, TextSize.FIGURE)
        if colour:
            palette = value.palette()
            palette.setColor(QtGui.QPalette.ColorRole.WindowText, QtGui.QColor(colour))
            value.setPalette(palette)
        small = plain_label(self, shorten(plain_text(detail), _LONGEST_DETAIL))
        style_text(small, TextSize.CAPTION)
        small.setWordWrap(True)
        small.setTextInteractionFlags(SELECTABLE)
        small.setForegroundRole(QtGui.QPalette.ColorRole.PlaceholderText)
        edge = Space.GROUP
        parts = title, value, small, 1
        column(*parts, of=self, margins=(edge, Space.WIDE, edge, Space.WIDE))
        self._texts = title, value, small

    def explain(self, meaning: str) -> None:
        """Say what the figure means, wherever one asks."""
        for part in (self, *self._texts):
            part.setWhatsThis(meaning)


_LEAST_TILE: Final = 170


class TileRow(QWidget):
    """Tiles of one width: in one line, or in two where that is too narrow."""

    def __init__(self, tiles: Sequence[QWidget], parent: QWidget) -> None:
        super().__init__(parent)
        self._tiles, self._columns = tiles, 0
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(Space.WIDE)
        self._arrange(len(tiles))

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        for place, tile in enumerate(self._tiles):
            self._grid.addWidget(tile, place // columns, place % columns)
        for place in range(len(self._tiles)):
            self._grid.setColumnStretch(place, int(place < columns))

    # Qt

    def minimumSizeHint(self) -> QSize:
        return QSize(2 * _LEAST_TILE, self._grid.minimumSize().height())

    def resizeEvent(self, event: QtGui.QResizeEvent) -> None:
        super().resizeEvent(event)
        count = len(self._tiles)
        fits = event.size().width() >= count * (_LEAST_TILE + Space.WIDE)
        self._arrange(count if fits else (count + 1) // 2)


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
        self.label = plain_label(self)
        self.label.setWordWrap(True)
        self.label.setTextInteractionFlags(SELECTABLE)
        self.label.setAccessibleName("Message")
        self.copy = _message_button(self, "Copy details")
        self.copy.setToolTip("Copy the message with all that is known, for a report")
        self.copy.clicked.connect(lambda: copy_text(self.text.details))
        self.dismiss = _message_button(self, "Dismiss")
        self.dismiss.setToolTip("Dismiss this message (Esc)")
        self.dismiss.clicked.connect(self.dismissed)
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


def _message_button(parent: QWidget, text: str) -> QToolButton:
    button = QToolButton(parent)
    button.setText(text)
    button.setAutoRaise(True)
    button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    return button


def _look_like_links(*buttons: QToolButton) -> None:
    """Give buttons without a frame a colour that says what they are."""
    role = QtGui.QPalette.ColorRole
    palette = QtGui.QGuiApplication.palette()
    palette.setColor(role.ButtonText, palette.color(role.Link))
    for button in buttons:
        button.setPalette(palette)


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
        self.dismiss_all = _message_button(self, "Dismiss all")
        self.dismiss_all.setToolTip("Dismiss all messages, also those not in sight")
        self.dismiss_all.clicked.connect(self.clear)
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
        self.button = QToolButton(self)
        self.button.setAutoRaise(True)
        self.button.setText("Show in folder")
        self.button.setToolTip("Show the file in the file manager")
        self.button.clicked.connect(self._show_folder)
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


Press: TypeAlias = Callable[[], object] | None
"""What a button does; None where there is no button."""


class StatePage(QWidget):
    """What a page shows instead of its content: a heading, a sentence, and perhaps a button."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.heading = centred_label(self)
        style_text(self.heading, TextSize.TITLE)
        self.sentence = centred_label(self)
        self.sentence.setTextInteractionFlags(SELECTABLE)
        self.button = QPushButton(self)
        self.button.clicked.connect(lambda: self._press and self._press())
        self._press: Press = None
        centre = row(1, self.button, 1)
        texts = column(2, self.heading, self.sentence, centre, 3, spacing=Space.WIDE)
        row(1, (texts, 8), 1, of=self, margins=(Space.WIDE,) * 4)

    def show_message(
        self, heading: str, sentence: str, button: str = "", press: Press = None
    ) -> None:
        """Show other texts, which may come from a file; `press` is what the button does."""
        self.heading.setText(shorten(plain_text(heading), _LONGEST))
        self.sentence.setText(shorten(plain_text(sentence), _LONGEST))
        self.sentence.setVisible(bool(sentence))  # the keyboard would stop at an empty one
        self.button.setText(button)
        self.button.setVisible(bool(button))
        self._press = press
