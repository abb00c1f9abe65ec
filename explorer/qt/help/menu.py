"""The menu Help (guide, keys, "What's this?", tour, about), and the tour of the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from PySide6 import QtCore, QtGui, QtWidgets
from PySide6.QtCore import QObject, QPoint, Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent

from explorer import __version__
from explorer.qt.actions import Actions
from explorer.qt.panels import GROUPS
from explorer.qt.settings import Settings
from explorer.qt.shell import Shell, TopBar
from explorer.qt.theme import Space, TextSize, style_text
from explorer.qt.widgets.building import column, row
from explorer.qt.widgets.labels import plain_label

if TYPE_CHECKING:
    from explorer.qt.help.guide import HelpWindow

_GAP: Final = 6  # pixels between a box and its target
_ARROW: Final = 10
_RADIUS: Final = 6
_WIDTH_IN_LETTERS: Final = 46
_FRAME_PIXELS: Final = 2
_TREE_HEIGHT: Final = 220  # of the tree, only the upper part is framed: the box stands beside it


class Side(Enum):
    """The side of its target on which a box stands, as a direction."""

    BELOW = (0, 1)
    RIGHT = (1, 0)
    LEFT = (-1, 0)
    ABOVE = (0, -1)


class Placement(NamedTuple):
    """Where a box stands; on no side of its target if it points at nothing."""

    area: QtCore.QRect
    side: Side | None


def place_beside(size: QtCore.QSize, target: QtCore.QRect, room: QtCore.QRect) -> Placement:
    """Place a box beside its target, on the first side with room, so that it covers none of it.

    Where no side has room, as in a very small window, it stands in the corner farthest from the
    target and points at nothing; without a target (an empty one) in the middle of the room.
    """
    if target.isEmpty():
        return Placement(_inside(_centred(size, room.center()), room), None)
    for side in (Side.BELOW, Side.RIGHT, Side.LEFT, Side.ABOVE):
        area = _inside(_beside(size, target, side), room)
        if room.contains(area) and not area.intersects(target.adjusted(-1, -1, 1, 1)):
            return Placement(area, side)
    corner = QtCore.QRect(room.topLeft(), size)
    if target.center().x() < room.center().x():
        corner.moveRight(room.right())
    if target.center().y() < room.center().y():
        corner.moveBottom(room.bottom())
    return Placement(_inside(corner, room), None)


def _beside(size: QtCore.QSize, target: QtCore.QRect, side: Side) -> QtCore.QRect:
    """Return a box beside its target, centred on it."""
    across, along = (size + target.size() + QtCore.QSize(1, 1)).toTuple()
    x, y = side.value
    shift = QtCore.QPoint(x * (across // 2 + _GAP), y * (along // 2 + _GAP))
    return _centred(size, target.center() + shift)


def _centred(size: QtCore.QSize, middle: QtCore.QPoint) -> QtCore.QRect:
    area = QtCore.QRect(QtCore.QPoint(0, 0), size)
    area.moveCenter(middle)
    return area


def _inside(area: QtCore.QRect, room: QtCore.QRect) -> QtCore.QRect:
    """Return a box moved into the room, as far as it fits."""
    moved = QtCore.QRect(area)
    moved.moveBottomRight(
        QtCore.QPoint(min(area.right(), room.right()), min(area.bottom(), room.bottom()))
    )
    moved.moveTopLeft(QtCore.QPoint(max(moved.left(), room.left()), max(moved.top(), room.top())))
    return moved


class Callout(QtWidgets.QWidget):
    """A box with a text and buttons; a part of the window, not a window of its own.

    Signals:
        next_wanted: *Next* was chosen.
        back_wanted: *Back* was chosen.
        skipped: *Skip the tour* was chosen.
    """

    next_wanted = Signal()
    back_wanted = Signal()
    skipped = Signal()

    def __init__(self, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self._side: Side | None = None
        self._tip = QtCore.QPoint()
        self.title = plain_label(self)
        style_text(self.title, TextSize.SECTION)
        self.text = plain_label(self)
        self.count = plain_label(self)
        for label in (self.title, self.text, self.count):
            label.setForegroundRole(QtGui.QPalette.ColorRole.ToolTipText)
            label.setWordWrap(label is not self.count)
        self.skip = self._button("&Skip the tour", self.skipped)
        self.back = self._button("&Back", self.back_wanted)
        self.next = self._button("&Next", self.next_wanted)
        line = row(self.count, 1, self.skip, self.back, self.next, margins=(0, Space.NEAR, 0, 0))
        parts = (self.title, (self.text, 1), line)
        edge = _ARROW + 12
        column(*parts, of=self, margins=(edge, edge, edge, edge), spacing=-1)
        for key, slot in (
            (Qt.Key.Key_Escape, self.skipped.emit),
            (Qt.Key.Key_Right, lambda: self._step(True)),
            (Qt.Key.Key_Left, lambda: self._step(False)),
        ):
            # as shortcuts: buttons use arrow keys to move the focus
            shortcut = QtGui.QShortcut(QtGui.QKeySequence(key), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(slot)

    def show_text(self, title: str, text: str, number: int, count: int) -> None:
        """Show box `number`, from 1 up, of `count`."""
        self.title.setText(title)
        self.text.setText(text)
        self.count.setText(f"{number} of {count}")
        self.back.setEnabled(number > 1)
        self.next.setText("&Done" if number == count else "&Next")
        self.skip.setVisible(number < count)
        spoken = f"{title}. {text} ({self.count.text()})"
        self.setAccessibleName("Tour")
        self.setAccessibleDescription(spoken)
        self.next.setAccessibleDescription(spoken)  # a screen reader reads it with the button
        QtGui.QAccessible.updateAccessibility(QtGui.QAccessibleAnnouncementEvent(self, spoken))

    def wanted_size(self) -> QtCore.QSize:
        """Return the size that the text needs, the arrow included."""
        letters = self.fontMetrics().averageCharWidth() * _WIDTH_IN_LETTERS
        width = max(letters, self.minimumSizeHint().width())
        layout = self.layout()
        assert layout is not None
        return QtCore.QSize(width, max(layout.heightForWidth(width), layout.minimumSize().height()))

    def point(self, side: Side | None, target: QtCore.QRect) -> None:
        """Draw the arrow towards the target, in coordinates of the parent."""
        self._side = side
        self._tip = target.center() - self.pos()
        self.update()

    def _step(self, onwards: bool) -> None:
        """Go to the next box, or to the previous one."""
        if onwards:
            self.next_wanted.emit()
        elif self.back.isEnabled():
            self.back_wanted.emit()

    def _button(self, text: str, signal: QtCore.SignalInstance) -> QtWidgets.QPushButton:
        button = QtWidgets.QPushButton(text, self)
        button.clicked.connect(lambda _=False: signal.emit())
        return button

    def _outline(self) -> QtGui.QPainterPath:
        box = QtCore.QRectF(self.rect()).adjusted(_ARROW, _ARROW, -_ARROW, -_ARROW)
        path = QtGui.QPainterPath()
        path.addRoundedRect(box, _RADIUS, _RADIUS)
        if self._side is None:
            return path
        x, y = self._side.value
        reach, inner = _ARROW + _RADIUS, box.adjusted(1, 1, -1, -1)
        foot = QtCore.QPointF(  # inside the box, at the edge that faces the target
            min(max(float(self._tip.x()), box.left() + reach), box.right() - reach),
            min(max(float(self._tip.y()), box.top() + reach), box.bottom() - reach),
        )
        if x:
            foot.setX(inner.left() if x > 0 else inner.right())
        else:
            foot.setY(inner.top() if y > 0 else inner.bottom())
        along, across = QtCore.QPointF(x, y) * _ARROW, QtCore.QPointF(y, x) * _ARROW
        arrow = QtGui.QPainterPath()
        arrow.addPolygon(QtGui.QPolygonF([foot - across, foot - along, foot + across]))
        arrow.closeSubpath()
        return path.united(arrow)

    # Qt

    def paintEvent(self, event: QtGui.QPaintEvent) -> None:
        painter = QtGui.QPainter(self)
        painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing)
        palette = self.palette()
        painter.setPen(QtGui.QPen(palette.color(QtGui.QPalette.ColorRole.Highlight), _FRAME_PIXELS))
        painter.setBrush(palette.color(QtGui.QPalette.ColorRole.ToolTipBase))
        painter.drawPath(self._outline())
        painter.end()


class TargetFrame(QtWidgets.QWidget):
    """A frame around a target; the mouse goes through it."""

    def __init__(self, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def surround(self, target: QtCore.QRect) -> None:
        """Frame a target; hide if it is empty."""
        self.setVisible(not target.isEmpty())
        self.setGeometry(
            target.adjusted(-_FRAME_PIXELS, -_FRAME_PIXELS, _FRAME_PIXELS, _FRAME_PIXELS)
        )

    # Qt

    def paintEvent(self, event: QtGui.QPaintEvent) -> None:
        painter = QtGui.QPainter(self)
        painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing)
        painter.setPen(
            QtGui.QPen(self.palette().color(QtGui.QPalette.ColorRole.Highlight), _FRAME_PIXELS)
        )
        edge = _FRAME_PIXELS / 2
        area = QtCore.QRectF(self.rect()).adjusted(edge, edge, -edge, -edge)
        painter.drawRoundedRect(area, _RADIUS / 2, _RADIUS / 2)
        painter.end()


_MOVES: Final = frozenset(
    {
        QtCore.QEvent.Type.Resize,
        QtCore.QEvent.Type.Move,
        QtCore.QEvent.Type.Show,
        QtCore.QEvent.Type.Hide,
        QtCore.QEvent.Type.LayoutRequest,
        QtCore.QEvent.Type.FontChange,
    }
)


@dataclass(frozen=True)
class Stop:
    """One box of a tour."""

    title: str  # a few words
    text: str  # a sentence or two
    widget: QtWidgets.QWidget  # the widget that holds the target
    part: Callable[[], QtCore.QRect]  # returns the target, in coordinates of the widget
    prepare: Callable[[], object] = lambda: None  # called before, to make the widget visible


class Tour(QtCore.QObject):
    """Shows stops one after another, while the window works as always.

    Signals:
        ended: The tour is over, or was skipped.
    """

    ended = Signal()

    def __init__(self, window: QtWidgets.QWidget, stops: Sequence[Stop]) -> None:
        super().__init__(window)
        self._window = window
        self._stops = tuple(stops)
        self._at = 0
        self._watched: list[QtWidgets.QWidget] = []
        # a move sends many events; one update after them is enough
        self._turn = QtCore.QTimer(self, singleShot=True)
        self._turn.timeout.connect(self._follow)
        self._focus_before: QtWidgets.QWidget | None = None
        self._frame = TargetFrame(window)
        self.callout = Callout(window)
        self._frame.hide()
        self.callout.hide()
        self.callout.next_wanted.connect(lambda: self.go_to(self._at + 1))
        self.callout.back_wanted.connect(lambda: self.go_to(self._at - 1))
        self.callout.skipped.connect(self.end)

    @property
    def stop(self) -> int:
        """Number of the current stop, from 0 up."""
        return self._at

    def target(self) -> QtCore.QRect:
        """Return the target in coordinates of the window; empty if it is not visible."""
        stop = self._stops[self._at]
        if not stop.widget.isVisibleTo(self._window):
            return QtCore.QRect()
        seen = stop.part().intersected(stop.widget.rect())
        place = stop.widget.mapTo(self._window, QtCore.QPoint(0, 0))
        return seen.translated(place).intersected(self._window.rect())

    def start(self) -> None:
        """Show the first stop, and give it the focus."""
        self._focus_before = QtWidgets.QApplication.focusWidget()
        self.go_to(0)
        self.callout.next.setFocus(Qt.FocusReason.OtherFocusReason)

    def go_to(self, number: int) -> None:
        """Show a stop; behind the last one, the tour ends."""
        if number >= len(self._stops):
            self.end()
            return
        self._at = max(0, number)
        stop = self._stops[self._at]
        stop.prepare()
        self._watch(stop.widget)
        skipping = self.callout.skip.hasFocus()  # the last stop has no such button
        self.callout.show_text(stop.title, stop.text, self._at + 1, len(self._stops))
        self.callout.show()
        self._follow()
        if skipping and self.callout.skip.isHidden():
            self.callout.next.setFocus(Qt.FocusReason.OtherFocusReason)

    def end(self) -> None:
        """Remove the tour, and give the focus back."""
        self._turn.stop()
        self._unwatch()
        focused = self.callout.isAncestorOf(QtWidgets.QApplication.focusWidget() or self._window)
        for part in (self.callout, self._frame):
            part.hide()
            part.deleteLater()
        if focused:
            (self._focus_before or self._window).setFocus(Qt.FocusReason.OtherFocusReason)
        self.ended.emit()
        self.deleteLater()

    def _follow(self) -> None:
        """Move box and frame to the current target."""
        target = self.target()
        size = self.callout.wanted_size()
        placement = place_beside(size, target, self._window.rect())
        self.callout.setGeometry(placement.area)
        self.callout.point(placement.side, target)
        self._frame.surround(target)
        self._frame.raise_()
        self.callout.raise_()

    def _watch(self, widget: QtWidgets.QWidget) -> None:
        self._unwatch()
        above: QtWidgets.QWidget | None = widget
        while above is not None and above is not self._window:
            self._watched.append(above)
            above = above.parentWidget()
        self._watched.append(self._window)
        for each in self._watched:
            each.installEventFilter(self)

    def _unwatch(self) -> None:
        for each in self._watched:
            each.removeEventFilter(self)
        self._watched.clear()

    # Qt

    def eventFilter(self, watched: QtCore.QObject, event: QtCore.QEvent) -> bool:
        if event.type() in _MOVES:
            self._turn.start()
        return False


def tour_stops(shell: Shell, top: TopBar, show_model: Callable[[], object]) -> list[Stop]:
    """Return the stops of the tour of a window with these parts; each shows what it speaks of.

    Args:
        shell: What surrounds the pages.
        top: The bar above.
        show_model: Shows the overview of a model; opens one if none is open.
    """
    panels, tree, rail = shell.panels, shell.tree, shell.rail

    def group(name: str) -> partial[QtCore.QRect]:
        return partial(rail.tabRect, list(GROUPS).index(name))

    return [
        Stop(
            "Open a model",
            "Or drop files and folders anywhere in the window. Models are only read, never "
            "changed, and nothing is sent anywhere. The library lists what is downloaded, and "
            "what fits this machine.",
            top.open,
            top.open.rect,
            partial(panels.setCurrentWidget, panels.library),
        ),
        Stop(
            "What is open",
            "Each open model with the values of its metadata and its tensors. Every page shows "
            "what you select here.",
            tree,
            lambda: QtCore.QRect(0, 0, tree.width(), min(tree.height(), _TREE_HEIGHT)),
            show_model,
        ),
        Stop(
            "How good the weights are",
            "Histogram and map of a tensor, down to the bits of one block; the error that "
            "quantization caused; and all tensors on one map.",
            shell.head.pages,
            shell.head.pages.rect,
            partial(panels.setCurrentWidget, panels.weights),
        ),
        Stop(
            "Whether it fits",
            "Drag the context and see which layers fit on your GPUs, with the formula of every "
            "figure.",
            rail,
            group("planner"),
            partial(panels.setCurrentWidget, panels.planner),
        ),
        Stop(
            "Go anywhere",
            "Ctrl+K finds models, tensors, keys and commands by name. F1 opens the guide at the "
            "current page. Shift+F1 explains a figure. The tour is in the menu Help.",
            top.search,
            top.search.rect,
        ),
    ]


_ZOOM_NOTE = "help_zoom"


class Help(QObject):
    """Opens guide and tour, and explains figures.

    Attributes:
        lend_model: Opens a model for the tour; returns what closes it again.
    """

    def __init__(
        self,
        window: QtWidgets.QMainWindow,
        actions: Actions,
        shell: Shell,
        top: TopBar,
        settings: Settings,
    ) -> None:
        super().__init__(window)
        self.lend_model: Callable[[], Callable[[], object]] = lambda: lambda: None
        self._give_back: Callable[[], object] | None = None
        self._window = window
        self._shell, self._top = shell, top
        self._panels = panels = shell.panels
        self._settings = settings
        self.guide: HelpWindow | None = None  # while it is open
        self.tour: Tour | None = None  # while it is running
        for action, slot in (
            (actions.guide, lambda: self.show_guide(panels.page)),
            (actions.shortcuts, self.show_keys),
            (actions.whats_this, QtWidgets.QWhatsThis.enterWhatsThisMode),
            (actions.explain, explain_focus),
            (actions.tour, self.start_tour),
            (actions.about, self.show_about),
        ):
            action.triggered.connect(lambda _=False, slot=slot: slot())

    def show_keys(self) -> None:
        """Show the page of all keys."""
        from explorer.qt.help.guide import KEYS_PAGE  # noqa: PLC0415 - not before the first paint

        self.show_guide(KEYS_PAGE)

    def show_guide(self, name: str) -> None:
        """Show a page of the guide."""
        if self.guide is None:
            self.guide = self._make_guide()
        self.guide.open_page(name)
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

    def start_tour(self) -> None:
        """Show the tour from its start."""
        if self.tour is not None:
            self.tour.end()
        self._settings.tour_done = True
        stops = tour_stops(self._shell, self._top, self._show_model)
        self.tour = Tour(self._window, stops)
        self.tour.ended.connect(partial(self._end_tour, self._panels.page))
        self.tour.start()

    def _show_model(self) -> None:
        """Show the overview of a model: of the demo model, for as long as the tour, if need be."""
        self._panels.setCurrentWidget(self._panels.overview)
        if self._panels.selection.document is None and self._give_back is None:
            self._give_back = self.lend_model()

    def _end_tour(self, page: str) -> None:
        """Go back from the library, or from a model that was lent, to where one was."""
        self.tour = None
        if self._panels.page == "library" or self._give_back is not None:
            self._panels.show_page(page)
        if self._give_back is not None:
            self._give_back()
            self._give_back = None

    def start_tour_once(self) -> None:
        """Show the tour at the very first start of the program."""
        if not self._settings.tour_done and not self._settings.recent:
            self.start_tour()

    def close(self) -> None:
        """Close guide and tour, as the window is closed."""
        if self.tour is not None:
            self.tour.end()
        if self.guide is not None:
            self.guide.reject()

    def _make_guide(self) -> HelpWindow:
        from explorer.qt.help import guide as guides  # noqa: PLC0415 - not before the first paint

        panels, settings = self._panels, self._settings
        titles = {
            page.objectName(): panels.tabText(place)
            for place in range(panels.count())
            if (page := panels.widget(place)) is not None
        }
        commands = guides.command_keys(self._window.actions())
        pages = [*guides.load_guide(), guides.keys_page(commands, titles)]
        made = guides.HelpWindow(pages, lambda page: guides.with_keys(page, commands), self._window)
        made.restoreGeometry(settings.layout("help"))
        made.splitter.restoreState(settings.layout("help_splitter"))
        zoom = settings.note(_ZOOM_NOTE)
        if zoom.isascii() and zoom.isdigit() and len(zoom) < 4:  # else it is damaged
            made.text.set_zoom(int(zoom) / 100)
        made.finished.connect(self._forget_guide)
        return made

    def _forget_guide(self) -> None:
        guide, settings = self.guide, self._settings
        if guide is not None:
            settings.set_layout("help", guide.saveGeometry())
            settings.set_layout("help_splitter", guide.splitter.saveState())
            settings.set_note(_ZOOM_NOTE, str(round(100 * guide.text.zoom)))
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
