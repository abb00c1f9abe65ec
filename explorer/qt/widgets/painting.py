"""How contents are painted: memory, types, bytes of a file, with a colour for each kind; icons.

Kinds of memory and families of types differ in texture too, and devices have their number. Buttons
with icons are here, too.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import (
    QByteArray,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QPointF,
    QRect,
    QRectF,
    QSize,
    Qt,
)
from PySide6.QtGui import (
    QAccessible,
    QAction,
    QBrush,
    QColor,
    QGuiApplication,
    QIcon,
    QKeySequence,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPalette,
    QPen,
    QPixmap,
)
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QFrame,
    QSizePolicy,
    QStyleOptionToolButton,
    QToolButton,
    QTreeView,
    QWidget,
)

from explorer.formats.structure import FieldKind
from explorer.present.colours import (
    CPU_COLOUR,
    FIELD_TINTS,
    MEMORY_COLOURS,
    Pattern,
    type_colour,
    type_pattern,
)
from explorer.qt.theme import CORNER, Space, ink_of, is_dark, series_colour

if TYPE_CHECKING:
    from explorer.present.plan import Kind  # loads the planner

_TEXTURES: Final[Mapping[str, Qt.BrushStyle]] = MappingProxyType(
    {
        "weights": Qt.BrushStyle.NoBrush,
        "kv_cache": Qt.BrushStyle.BDiagPattern,
        "graph": Qt.BrushStyle.Dense6Pattern,
        "projector": Qt.BrushStyle.VerPattern,
        "draft": Qt.BrushStyle.DiagCrossPattern,
        "adapters": Qt.BrushStyle.CrossPattern,
        "reserved": Qt.BrushStyle.FDiagPattern,
        "free": Qt.BrushStyle.NoBrush,
        "free swap": Qt.BrushStyle.HorPattern,
    }
)
_FIRST_DEVICE: Final = 3  # the colours before it are those of the kinds
_AS_MUCH_TO_BOTH: Final = 0.179  # (L + 0.05) / 0.05 = 1.05 / (L + 0.05)
_SEEN: Final = 3.0
_OPAQUE: Final = 255
_EDGE: Final = 180  # per cent, how much darker or lighter
_EMPTY: Final = ("free", "free swap")
_PATTERN_ALPHA: Final = 70


def device_colour(device: int | None) -> QColor:
    """Return the colour of a device of the strip; None is the CPU."""
    return QColor(CPU_COLOUR) if device is None else series_colour(device + _FIRST_DEVICE)


def text_on(colour: QColor) -> QColor:
    """Return black or white, whichever has more contrast with a colour (WCAG 2.2)."""
    return QColor("black") if _luminance(colour) > _AS_MUCH_TO_BOTH else QColor("white")


def _luminance(colour: QColor) -> float:
    # sRGB's curve, without its straight end, which is too dark to matter here
    parts = ((colour.redF(), 0.2126), (colour.greenF(), 0.7152), (colour.blueF(), 0.0722))
    return float(sum(share * float(part) ** 2.2 for part, share in parts))


def edge_of(colour: QColor, ground: QColor) -> QColor:
    """Return what outlines a fill: its colour, or a darker one where that is hardly seen."""
    dark, light = sorted((_luminance(colour), _luminance(ground)))
    seen = (light + 0.05) / (dark + 0.05) >= _SEEN  # WCAG 2.2, 1.4.11
    if seen or colour.alpha() < _OPAQUE:
        return colour
    return (
        colour.darker(_EDGE) if _luminance(ground) > _luminance(colour) else colour.lighter(_EDGE)
    )


def kind_colour(kind: Kind, base: QColor) -> QColor:
    """Return the colour of a kind; what is free has that of the ground."""
    return base if kind in _EMPTY else QColor(MEMORY_COLOURS[kind])


def fill_kind(painter: QPainter, area: QRectF, kind: Kind, base: QColor, text: QColor) -> None:
    colour = kind_colour(kind, base)
    painter.fillRect(area, colour)
    texture = _TEXTURES[kind]
    if texture is not Qt.BrushStyle.NoBrush:
        line = QColor(text if kind in _EMPTY else text_on(colour))
        line.setAlpha(_PATTERN_ALPHA)
        painter.fillRect(area, QBrush(line, texture))


_PATTERNS: Final[Mapping[Pattern, Qt.BrushStyle]] = MappingProxyType(
    {
        Pattern.DOTS: Qt.BrushStyle.Dense6Pattern,
        Pattern.DIAGONAL: Qt.BrushStyle.BDiagPattern,
        Pattern.CROSS: Qt.BrushStyle.DiagCrossPattern,
        Pattern.LINES: Qt.BrushStyle.HorPattern,
    }
)
_SWATCH: Final = 10
SWATCH_SIZE: Final = QSize(_SWATCH, _SWATCH)
_SWATCH_SCALE: Final = 4  # of the picture that is drawn smaller, sharp on every screen


@lru_cache(maxsize=256)  # pictures ask for it with each drag
def type_ink(name: str) -> str:
    """Return the colour of a tensor type."""
    return type_colour(name)


def fill_type(painter: QPainter, area: QRectF, name: str) -> QColor:
    """Fill an area with the colour and the pattern of a tensor type; return the colour."""
    colour = QColor(type_ink(name))
    painter.fillRect(area, colour)
    pattern = type_pattern(name)
    if pattern is not Pattern.PLAIN:
        line = text_on(colour)
        line.setAlpha(_PATTERN_ALPHA)
        painter.fillRect(area, QBrush(line, _PATTERNS[pattern]))
    return colour


@lru_cache(maxsize=256)  # a table asks for it in each row that it paints
def type_swatch(name: str) -> QPixmap:
    """Return a small square in the colour and the pattern of a tensor type."""
    picture = QPixmap(_SWATCH * _SWATCH_SCALE, _SWATCH * _SWATCH_SCALE)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.scale(_SWATCH_SCALE, _SWATCH_SCALE)
    outline = QPainterPath()
    outline.addRoundedRect(QRectF(0, 0, _SWATCH, _SWATCH), 2.5, 2.5)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setClipPath(outline)
    fill_type(painter, QRectF(0, 0, _SWATCH, _SWATCH), name)
    painter.end()
    picture.setDevicePixelRatio(_SWATCH_SCALE)
    return picture


@lru_cache(maxsize=256)
def swatch_icon(name: str) -> QIcon:
    """Return the swatch of a type as an icon for lists: Qt would tint it where it is selected."""
    icon = QIcon(type_swatch(name))
    icon.addPixmap(type_swatch(name), QIcon.Mode.Selected)
    return icon


def fill_over(painter: QPainter, area: QRectF, warning: QColor) -> None:
    """Paint over what does not fit: a cross-hatch in the warning colour, with an outline."""
    painter.save()
    veil = text_on(warning)
    veil.setAlpha(130)  # the hatch is to be seen on every colour below
    painter.fillRect(area, veil)
    painter.fillRect(area, QBrush(warning, Qt.BrushStyle.DiagCrossPattern))
    painter.setPen(QPen(warning, 2))
    painter.drawRect(area.adjusted(1, 1, -1, -1))
    painter.restore()


def inks_of(palette: QPalette, *, selected: bool) -> tuple[QColor, QColor]:
    """Return the colours of texts, and of quieter ones, on what the row stands on."""
    role = QPalette.ColorRole
    if not selected:
        return palette.color(role.Text), palette.color(role.PlaceholderText)
    ink, muted = palette.color(role.HighlightedText), palette.color(role.PlaceholderText)
    # where the tint has the text's own colour, muted reads on it too; not on a loud one
    return ink, muted if ink == palette.color(role.Text) else ink


def stand_on_page(view: QAbstractScrollArea) -> None:
    """Let a list have no box: it stands on what is behind it."""
    view.setFrameShape(QFrame.Shape.NoFrame)
    view.viewport().setAutoFillBackground(False)


def outline_current(view: QAbstractItemView, painter: QPainter, area: QRect) -> None:
    """Outline what the keys act on while a view has the focus: Fusion would fill it, shaded."""
    if not view.hasFocus() or area.isEmpty():
        return
    palette, accent = view.palette(), QColor(ink_of(view.palette()).accent)
    selected = view.selectionModel().isSelected(view.currentIndex())
    if selected and palette.color(QPalette.ColorRole.Highlight) == accent:  # high contrast
        painter.setPen(palette.color(QPalette.ColorRole.HighlightedText))
        painter.drawRect(area.adjusted(2, 2, -3, -4))  # at the edge it would be taken for the page
    else:
        painter.setPen(accent)
        painter.drawRect(area.adjusted(0, 0, -1, -2))


_BRANCH: Final = 12  # pixels of the sign of a branch


def paint_branch(
    view: QTreeView, painter: QPainter, area: QRect, index: QModelIndex | QPersistentModelIndex
) -> None:
    """Paint the sign of a branch, open or closed, in a colour that is seen on the selection too."""
    if not view.model().hasChildren(index):
        return
    ink, place = ink_of(view.palette()), QRectF(0, 0, _BRANCH, _BRANCH)
    x = area.right() + 1 - view.indentation() / 2
    place.moveCenter(QPointF(x, area.center().y()))
    chosen = view.selectionModel().isSelected(index)
    name = "unfolded" if view.isExpanded(index) else "folded"
    paint_icon(painter, place, name, ink.on_tint if chosen else ink.muted)


def draw_caption(painter: QPainter, area: QRectF, text: str, colour: QColor) -> bool:
    """Write a text on a patch of its ground in the middle of an area, if it has room there."""
    metrics = painter.fontMetrics()
    width = metrics.horizontalAdvance(text) + 8
    if width > area.width():
        return False
    patch = QRectF(area.center().x() - width / 2, area.y() + 2, width, area.height() - 4)
    painter.fillRect(patch, colour)
    painter.setPen(text_on(colour))
    painter.drawText(patch, Qt.AlignmentFlag.AlignCenter, text)
    return True


def in_lines(
    widths: Iterable[float], room: float, height: float, gap: float = 0
) -> Iterator[QRectF]:
    """Yield a place for each width, side by side like words, in as many lines as the room needs.

    Args:
        widths: Of what stands there, in pixels, as are all of these.
        room: Width of a line.
        height: Height of a line.
        gap: Between two places of a line.
    """
    x = y = 0.0
    for width in widths:
        if x and x + width > room:
            x, y = 0.0, y + height
        yield QRectF(x, y, width, height)
        x += width + gap


def plain_tip(text: str) -> str:
    """Return text as a tool tip that shows it as it is: else Qt guesses whether it is markup."""
    return f"<qt>{html.escape(text).replace(chr(10), '<br>')}</qt>" if text else ""


_HATCHED: Final = {
    FieldKind.PADDING: Qt.BrushStyle.BDiagPattern,
    FieldKind.UNUSED: Qt.BrushStyle.DiagCrossPattern,
}


_KIND_NAMES: Final = {
    FieldKind.NAME: "Tensor name",
    FieldKind.DIMS: "Dimensions",
    FieldKind.TENSOR_DATA: "Weights",
}


def field_tint(kind: FieldKind, palette: QPalette) -> QColor:
    """Return the colour behind bytes of a kind."""
    if kind not in FIELD_TINTS:
        return palette.color(QPalette.ColorRole.Base)
    return QColor(FIELD_TINTS[kind][is_dark(palette)])


def field_hatching(kind: FieldKind, palette: QPalette) -> QBrush | None:
    """Return the lines that are drawn over the tint, or None."""
    if kind not in _HATCHED:
        return None
    return QBrush(QColor(128, 128, 128, 70 if is_dark(palette) else 60), _HATCHED[kind])


def field_line(kind: FieldKind, palette: QPalette) -> QColor:
    """Return the colour of the line where a field begins."""
    tint = field_tint(kind, palette)
    return tint.lighter(220) if is_dark(palette) else tint.darker(150)


def kind_name(kind: FieldKind) -> str:
    return _KIND_NAMES.get(kind, kind.replace("_", " ").capitalize())


# Icons: one set of lines, in the colour of the text that they stand beside. Outlines in a square of
# 24, drawn for this program: fewer bytes than the smallest icon font, and no disk is read.

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
    "done": "M4 12.5 9.5 18 20 7",
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
