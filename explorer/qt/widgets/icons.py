"""Icons, and the buttons that have them: one set of lines, in the colour of the text beside them.

Outlines in a square of 24, drawn for this program: fewer bytes than the smallest icon font, and no
disk is read.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from PySide6.QtCore import QByteArray, QEvent, QRectF, QSize, Qt
from PySide6.QtGui import (
    QAccessible,
    QAction,
    QColor,
    QGuiApplication,
    QIcon,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
)
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import (
    QAbstractButton,
    QSizePolicy,
    QStyleOptionToolButton,
    QToolButton,
    QWidget,
)

from explorer.qt.theme import CORNER, Space, ink_of

_FOLD: Final = 14
BAR_ICON: Final = 18
"""Side of an icon in bars, in logical pixels."""

_SCALES: Final = (1, 2, 3)  # of the pictures in a `QIcon`, by device pixel ratio
_HEAD: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" '
    'stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round"'
)
_LINES: Final = {
    "open": "M3 18V6a2 2 0 0 1 2-2h4.5l2.5 3h7a2 2 0 0 1 2 2v9a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2z",
    "compare": "M8.5 3v18M15.5 3v18M3 8h5.5M3 16h5.5M15.5 8H21M15.5 16H21",
    "search": "M11 4a7 7 0 1 0 0 14 7 7 0 1 0 0-14zM16.2 16.2 21 21",
    "save": "M5 3h11l5 5v11a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2zM8 3v5h7V3M7 21v-7h10v7",
    "appearance": "M12 3a9 9 0 1 0 0 18 9 9 0 1 0 0-18zM12 3v18M15 4v16M18 5.8v12.4",
    "library": "M3.5 4h4v16h-4zM10 4h4v16h-4zM16.2 5.2l3.5-.9 3 14.8-3.4.9z",
    "model": "M12 2.6l8.4 4.7v9.4L12 21.4l-8.4-4.7V7.3zM3.6 7.3 12 12l8.4-4.7M12 12v9.4",
    "weights": "M3 20v-6M7.5 20V9M12 20V4M16.5 20V8M21 20v-5",
    "planner": "M3 5h18v5.5H3zM3 14h11v5.5H3zM17.5 14H21v5.5h-3.5z",
    "machine": (
        "M6.5 6.5h11v11h-11zM10 10h4v4h-4zM9.5 3v3.5M14.5 3v3.5M9.5 17.5V21M14.5 17.5V21M3 9.5h3.5"
        "M3 14.5h3.5M17.5 9.5H21M17.5 14.5H21"
    ),
    "tree": "M4 4h16v16H4zM10 4v16",
    "further": "M9.5 6l6 6-6 6",
    "up": "M6 14.5l6-6 6 6",
    "down": "M6 9.5l6 6 6-6",
    "folded": "M4 5l7 7-7 7",
    "unfolded": "M2 8l7 7 7-7",
    "reset": "M4 5v5h5M4.6 10a8 8 0 1 1-.4 4",
    "more": "".join(f"M{x} 12a1 1 0 1 0 2 0 1 1 0 1 0-2 0" for x in (4, 11, 18)),
    "undo": "M8 5 4 9l4 4M4 9h10a5.5 5.5 0 0 1 0 11h-3",
    "redo": "M16 5l4 4-4 4M20 9H10a5.5 5.5 0 0 0 0 11h3",
    "drop": "M12 3v11M7.5 10 12 14.5 16.5 10M4 16v3a2 2 0 0 0 2 2h12a2 2 0 0 0 2-2v-3",
}


@lru_cache(maxsize=128)
def _renderer(name: str, colour: str) -> QSvgRenderer:
    svg = f'{_HEAD} stroke="{colour}"><path d="{_LINES[name]}"/></svg>'
    return QSvgRenderer(QByteArray(svg.encode()))


def paint_icon(painter: QPainter, area: QRectF, name: str, colour: QColor | str) -> None:
    """Draw an icon into a square."""
    _renderer(name, QColor(colour).name()).render(painter, area)


@lru_cache(maxsize=128)
def _icon(name: str, colour: str, faint: str) -> QIcon:
    icon = QIcon()
    for mode, ink in ((QIcon.Mode.Normal, colour), (QIcon.Mode.Disabled, faint)):
        for scale in _SCALES:
            picture = QPixmap(BAR_ICON * scale, BAR_ICON * scale)
            picture.fill(Qt.GlobalColor.transparent)
            painter = QPainter(picture)
            paint_icon(painter, QRectF(picture.rect()), name, ink)
            painter.end()
            picture.setDevicePixelRatio(scale)
            icon.addPixmap(picture, mode)
    return icon


def icon_beside_text(name: str) -> QIcon:
    """Return an icon in the colour of the texts of controls."""
    ink = ink_of(QGuiApplication.palette())  # a control's own is what its style sheet makes of it
    return _icon(name, ink.text, ink.control)


class IconButton(QToolButton):
    """A flat button with an icon, which takes the colours of another scheme with the window.

    Args:
        name: The icon.
        text: Its words; shown beside the icon unless `words` is False.
        tip: A sentence about what it does.
        words: Whether the words are shown.
    """

    def __init__(
        self, name: str, text: str, tip: str, parent: QWidget | None = None, *, words: bool = True
    ) -> None:
        super().__init__(parent)
        self._name = name
        self.setText(text)
        self.setToolTip(tip)
        self.setAccessibleName(text.replace("&", ""))
        self.setAutoRaise(True)
        self.setIconSize(QSize(BAR_ICON, BAR_ICON))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.show_words(words)
        self._take_colours()

    def show_words(self, on: bool) -> None:
        """Show the words beside the icon, or the icon alone."""
        style = Qt.ToolButtonStyle
        self.setToolButtonStyle(style.ToolButtonTextBesideIcon if on else style.ToolButtonIconOnly)

    def show_icon(self, name: str) -> None:
        self._name = name
        self._take_colours()

    def _take_colours(self) -> None:
        self.setIcon(icon_beside_text(self._name))

    # Qt

    def initStyleOption(self, option: QStyleOptionToolButton) -> None:
        super().initStyleOption(option)
        # a menu needs no arrow below an icon of 18 pixels
        option.features &= ~QStyleOptionToolButton.ToolButtonFeature.HasMenu
        if option.toolButtonStyle == Qt.ToolButtonStyle.ToolButtonTextBesideIcon:
            # Qt leaves 2 pixels between icon and words, and room for two spaces behind them
            option.text = f" {option.text}"

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._take_colours()


class FoldButton(IconButton):
    """Unfolds what stands below it; its arrow stands where texts begin."""

    def __init__(self, text: str, tip: str, parent: QWidget | None = None) -> None:
        super().__init__("folded", text, tip, parent)
        self.setIconSize(QSize(_FOLD, _FOLD))
        self.setCheckable(True)
        self.toggled.connect(lambda on: self.show_icon("unfolded" if on else "folded"))


class IconLabel(QWidget):
    """An icon that only shows something, in the colour of text of less weight."""

    def __init__(self, name: str, parent: QWidget | None = None, side: int = BAR_ICON) -> None:
        super().__init__(parent)
        self._name = name
        self.setFixedSize(side, side)

    # Qt

    def sizeHint(self) -> QSize:
        return self.minimumSize()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        paint_icon(painter, QRectF(self.rect()), self._name, ink_of(self.palette()).muted)
        painter.end()


class SearchButton(QAbstractButton):
    """Looks like a field to search in, and opens the search over everything."""

    accessible_role = QAccessible.Role.Button
    _WIDEST = 420

    def __init__(self, action: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
        self.setText("Go to model, tensor, key, command…")
        self.setToolTip(action.statusTip())
        self.setAccessibleName("Go to")
        self.setAccessibleDescription(self.text())
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.IBeamCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMaximumWidth(self._WIDEST)
        self.clicked.connect(action.trigger)

    # Qt

    def sizeHint(self) -> QSize:
        return QSize(self._WIDEST, self.fontMetrics().height() + 12)

    def minimumSizeHint(self) -> QSize:
        return QSize(120, self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        ink, painter = ink_of(self.palette()), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        focused = self.hasFocus()
        edge = QPen(QColor(ink.accent if focused else ink.control), 2 if focused else 1)
        painter.setPen(edge)
        painter.setBrush(QColor(ink.raised if self.isDown() else ink.surface))
        inset = edge.widthF() / 2
        box = QRectF(self.rect()).adjusted(inset, inset, -inset, -inset)
        painter.drawRoundedRect(box, CORNER, CORNER)
        icon = QRectF(0, 0, 16, 16)
        icon.moveCenter(box.center())
        icon.moveLeft(box.left() + Space.WIDE)
        paint_icon(painter, icon, "search", ink.muted)
        painter.setPen(QColor(ink.muted))
        text = box.adjusted(36, 0, -Space.WIDE, 0)
        centre = Qt.AlignmentFlag.AlignVCenter
        start, end = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight
        keys = painter.fontMetrics().horizontalAdvance(self._keys) + Space.GROUP
        room = int(text.width()) - keys
        words = painter.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, room)
        painter.drawText(text, int(centre | start), words)
        painter.drawText(text, int(centre | end), self._keys)
        painter.end()
