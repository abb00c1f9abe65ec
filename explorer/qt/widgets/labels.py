"""Labels that show text as it is: names from files must not be taken for rich text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from PySide6 import QtGui
from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtWidgets import (
    QFormLayout,
    QGridLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QToolTip,
    QWidget,
)

from explorer.present.explanations import ABOUT_ERRORS
from explorer.present.tables.lines import Line
from explorer.qt.theme import TILE_CORNER, Space, TextSize, ink_of, style_text
from explorer.qt.widgets.building import NOTE, column, row
from explorer.qt.widgets.painting import plain_tip, type_swatch
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


def plain_label(parent: QWidget | None, text: str = "", *, wraps: bool = False) -> QLabel:
    """Return a label that shows markup as text; `wraps`: in as many lines as it needs."""
    label = _PlainLabel(text, parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(wraps)
    return label


def text_label(text: str, parent: QWidget, size: TextSize = TextSize.BODY) -> QLabel:
    """Return a plain label of several lines, to be selected and copied."""
    label = plain_label(parent, text, wraps=True)
    label.setTextInteractionFlags(SELECTABLE)
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
    label = plain_label(parent, wraps=True)
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
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
        short = shorten(plain_text(detail), _LONGEST_DETAIL)
        small = text_label(short, self, TextSize.CAPTION)
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


_LONGEST: Final = 1000  # letters of a sentence
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
