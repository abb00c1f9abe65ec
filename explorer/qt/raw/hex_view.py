"""The bytes of a file in rows: offset, hex digits, characters, tinted by what they are.

Virtual: only visible rows are read and painted. A `QTableView` over a model was rejected: it cannot
have 2^36 rows, and a cell for each byte costs milliseconds where a run of text costs microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6 import QtCore, QtGui
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QMenu, QToolTip, QWidget

from explorer.formats.structure import Field, Structure
from explorer.qt.jobs import JobSlot
from explorer.qt.raw import hex_paint
from explorer.qt.raw.hex_pages import PageCache
from explorer.qt.services import Services
from explorer.qt.theme import monospace_font
from explorer.qt.widgets.building import add_navigation, copy_text
from explorer.qt.widgets.painting import kind_name, plain_tip
from explorer.sources import ByteSource
from explorer.text import bytes_text, plain_text, shorten

MOST_BYTES: Final = 4 << 20
"""Most bytes that are copied; as a C array they are 26 MB of text."""


def key_target(view: HexView, key: int, modifiers: Qt.KeyboardModifier) -> int | None:
    """Return the byte that a key moves the cursor to, or None if it is not a key for moving."""
    if modifiers & Qt.KeyboardModifier.ControlModifier:
        return _far_target(view, key)
    at, columns, page = view.cursor_offset, view.columns, view.page_bytes
    row_start = at - at % columns
    steps = {
        Qt.Key.Key_Left: at - 1,
        Qt.Key.Key_Right: at + 1,
        Qt.Key.Key_Up: at - columns if at >= columns else at,
        Qt.Key.Key_Down: at + columns if at + columns < view.size_bytes else at,
        Qt.Key.Key_PageUp: at - page if at >= page else at % columns,
        Qt.Key.Key_PageDown: at + page,
        Qt.Key.Key_Home: row_start,
        Qt.Key.Key_End: row_start + columns - 1,
    }
    # by number: a letter of another script is a key that the enum does not have
    return {int(known): step for known, step in steps.items()}.get(key)


def _far_target(view: HexView, key: int) -> int | None:
    """Return where a key goes with Ctrl: the ends of the file, the edges of fields."""
    at = view.cursor_offset
    field = view.field_at(at)
    if key == Qt.Key.Key_Left:
        if field is None:
            return at - 1
        before = view.field_at(field.offset - 1) if at == field.offset else field
        return 0 if before is None else before.offset
    steps = {
        Qt.Key.Key_Home: 0,
        Qt.Key.Key_End: view.size_bytes - 1,
        Qt.Key.Key_Right: at + 1 if field is None else field.end,
    }
    return {int(known): step for known, step in steps.items()}.get(key)


def build_menu(view: HexView) -> QMenu:
    """Return the menu; the caller shows it, closing it deletes it."""
    menu = QMenu(view)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    keys = QtGui.QKeySequence.StandardKey
    menu.addAction("&Copy as hex", keys.Copy, view.copy)
    menu.addAction("Copy as &text", lambda: view.copy(hex_paint.readable_text))
    menu.addAction("Copy as C &array", lambda: view.copy(hex_paint.c_array_text))
    menu.addAction("Copy &offset", view.copy_offset)
    menu.addSeparator()
    menu.addAction("&Select all", keys.SelectAll, view.select_all)
    for action in menu.actions():
        action.setEnabled(view.size_bytes > 0)
    again = menu.addAction("&Reload", view.retry)
    again.setEnabled(view.has_failures)
    add_navigation(view, menu)
    return menu


FETCH_DELAY_MS: Final = 25  # while scrolling, only the place where it stops is read
_DRAG_SCROLL_MS: Final = 50
_WHEEL_ROWS: Final = 3
_WHEEL_NOTCH: Final = 120  # QWheelEvent.angleDelta of one notch
_LONGEST_LABEL: Final = 120


class HexView(QAbstractScrollArea):
    """Shows bytes; the user moves a cursor over them and selects.

    Signals:
        cursor_changed: The cursor is at another byte (its offset).
        cursor_moved: The user moved the cursor (its offset).
        bytes_arrived: Bytes were read, or could not be.
        read_failed: Bytes could not be read; one sentence.
        notified: Another sentence for the user.
    """

    accessible_role = QtGui.QAccessible.Role.Document

    cursor_changed = Signal(object)  # offsets go beyond 32 bits
    cursor_moved = Signal(object)
    bytes_arrived = Signal()
    read_failed = Signal(str)
    notified = Signal(str)

    def __init__(self, app: Services, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.cursor_offset = 0
        self._anchor: int | None = None
        self._source: ByteSource | None = None
        self._structure: Structure | None = None
        self._pages = PageCache(app.runner, self, self._pages_arrived, self.read_failed.emit)
        self._copying = JobSlot(app.runner, self)
        self._fetch_timer = QtCore.QTimer(self, singleShot=True, interval=FETCH_DELAY_MS)
        self._fetch_timer.timeout.connect(self._pages.fetch)
        self._drag_timer = QtCore.QTimer(self, interval=_DRAG_SCROLL_MS)
        self._drag_timer.timeout.connect(self._drag_on)
        self._drag_place: QtCore.QPointF | None = None
        self._wheel_rest = 0.0
        self._scroller = hex_paint.RowScroller(self.verticalScrollBar())
        self._geometry = hex_paint.fitting(8.0, 16, 0, 0)
        self.setFont(monospace_font())
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setCursor(Qt.CursorShape.IBeamCursor)
        self.setAccessibleName("Bytes of the file")

    @property
    def size_bytes(self) -> int:
        """Size of the file; 0 without one."""
        return 0 if self._source is None else self._source.size

    @property
    def selection(self) -> range:
        """Offsets of the selected bytes; empty if none is."""
        if self._anchor is None or not self.size_bytes:
            return range(0)
        low, high = sorted((self._anchor, self.cursor_offset))
        return range(low, high + 1)

    @property
    def columns(self) -> int:
        """Bytes in a row."""
        return self._geometry.columns

    @property
    def page_bytes(self) -> int:
        """Bytes of the rows that are wholly visible."""
        return self._scroller.visible * self.columns

    @property
    def visible_bytes(self) -> range:
        """Offsets of the bytes that are in sight, those of a row that is cut included."""
        start = self._scroller.top * self.columns
        return range(start, min(start + self._row_count() * self.columns, self.size_bytes))

    @property
    def has_failures(self) -> bool:
        """Whether bytes that were looked at could not be read."""
        return self._pages.failed

    def set_source(self, source: ByteSource | None) -> None:
        """Show a file from its start, without structure; None shows nothing."""
        self._source = source
        self._structure = None
        self._pages.set_source(source)
        self._copying.cancel()
        self._anchor = None
        self._scroller.top = 0
        self.cursor_offset = 0
        self._lay_out()
        self.cursor_changed.emit(0)

    def set_structure(self, structure: Structure | None) -> None:
        """Show what the bytes are; called when it is known."""
        self._structure = structure
        self.viewport().update()

    def set_cursor(self, offset: int, selected: int = 0) -> None:
        """Move the cursor for the program.

        Args:
            offset: The byte; the nearest one if the file has none there.
            selected: Bytes to select from it on.
        """
        self._place(offset, None)
        last = min(self.cursor_offset + selected, self.size_bytes) - 1
        self._anchor = last if last >= self.cursor_offset else None
        self.ensure_visible()

    def move_cursor(self, offset: int, selected: int = 0) -> None:
        """Move the cursor because the user wants it there; see `set_cursor`."""
        self.set_cursor(offset, selected)
        self.cursor_moved.emit(self.cursor_offset)

    def ensure_visible(self) -> None:
        """Scroll to the cursor if it is out of sight."""
        row = self.cursor_offset // self.columns
        self._scroller.show_row(row, margin=self._scroller.visible // 3)
        self.viewport().update()

    def field_at(self, offset: int) -> Field | None:
        """Return what a byte is, if the structure is known."""
        return None if self._structure is None else self._structure.field_at(offset)

    def bytes_at(self, offset: int, nbytes: int) -> bytes | None:
        """Return bytes that are in memory, at most up to the end of the file, else None."""
        return self._pages.get(offset, max(0, min(nbytes, self.size_bytes - offset)))

    def place_of(self, offset: int) -> QtCore.QPoint:
        """Return the middle of a byte's digits in the viewport."""
        row, column = divmod(offset, self.columns)
        left, right = self._geometry.hex_span(column, column + 1)
        top = (row - self._scroller.top + 1.5) * self._geometry.row_height
        return QtCore.QPoint(int((left + right) / 2) - self.horizontalScrollBar().value(), int(top))

    def offset_at(self, place: QtCore.QPointF) -> int:
        """Return the byte nearest to a place in the viewport."""
        row = self._scroller.top + int(place.y() // self._geometry.row_height) - 1
        column = self._geometry.column_at(place.x() + self.horizontalScrollBar().value())
        return self._clamped(max(0, row) * self.columns + column)

    def copy(self, form: Callable[[bytes], str] = hex_paint.hex_text) -> None:
        """Copy the selected bytes, or the one under the cursor; a job reads them.

        Args:
            form: Makes text of them; called in the worker.
        """
        source = self._source
        run = self.selection or range(self.cursor_offset, self.cursor_offset + 1)
        if source is None or not self.size_bytes:
            return
        if len(run) > MOST_BYTES:
            self.notified.emit(f"Select at most {bytes_text(MOST_BYTES)} to copy.")
            return
        self._copying.run(
            "Copying bytes",
            lambda _: form(source.read(run.start, len(run))),
            copy_text,
            lambda error: self.notified.emit(f"Nothing was copied: {error}"),
        )

    def copy_offset(self) -> None:
        """Copy the cursor's offset as a decimal number."""
        copy_text(str(self.cursor_offset))

    def select_all(self) -> None:
        self._place(self.size_bytes - 1, 0)

    def retry(self) -> None:
        """Read again what could not be read."""
        self._pages.retry()
        self.viewport().update()

    def tip_for(self, offset: int) -> str:
        """Return the tool tip of a byte."""
        field = self.field_at(offset)
        lines = [hex_paint.offset_text(offset)]
        if field is not None:
            label = shorten(plain_text(field.label[: 2 * _LONGEST_LABEL]), _LONGEST_LABEL)
            lines = [kind_name(field.kind), label, *lines]
        return plain_tip("\n".join(lines))

    def _clamped(self, offset: int) -> int:
        return min(max(0, offset), max(0, self.size_bytes - 1))

    def _place(self, offset: int, anchor: int | None) -> None:
        old = self.cursor_offset
        self.cursor_offset = self._clamped(offset)
        self._anchor = anchor
        self.viewport().update()
        if self.cursor_offset != old:
            self.cursor_changed.emit(self.cursor_offset)

    def _user_to(self, offset: int, *, extend: bool) -> None:
        """Move the cursor for a key or the mouse; what is selected ends there, or nothing is."""
        old, anchor = self.cursor_offset, self._anchor
        if extend:
            anchor = old if anchor is None else anchor
        self._place(offset, anchor if extend else None)
        self._scroller.show_row(self.cursor_offset // self.columns)
        if self.cursor_offset != old:
            self.cursor_moved.emit(self.cursor_offset)
        elif anchor != self._anchor or extend:
            self.cursor_changed.emit(self.cursor_offset)  # the selection changed

    def _row_count(self) -> int:
        """Return the visible rows, the last one perhaps cut; one line is the header's."""
        height = self.viewport().height() - self._geometry.row_height
        return max(1, -(-height // self._geometry.row_height))

    def _lay_out(self) -> None:
        """Work out columns, rows and scroll bars for the viewport's size; keep the first byte."""
        top_byte = self._scroller.top * self.columns
        metrics = QtGui.QFontMetricsF(self.font())
        row_height = int(metrics.height()) + 4
        viewport = self.viewport().size()
        width = metrics.horizontalAdvance("0")
        self._geometry = hex_paint.fitting(width, row_height, self.size_bytes, viewport.width())
        rows = -(-self.size_bytes // self.columns)
        self._scroller.top = top_byte // self.columns
        self._scroller.set_rows(rows, (viewport.height() - row_height) // row_height)
        bar = self.horizontalScrollBar()
        bar.setPageStep(viewport.width())
        bar.setSingleStep(int(3 * width))
        bar.setRange(0, max(0, self._geometry.content_width - viewport.width()))
        self.viewport().update()

    def _pages_arrived(self) -> None:
        self.viewport().update()
        self.bytes_arrived.emit()

    def _drag_on(self) -> None:
        """Scroll on while the mouse is held above or below the rows."""
        if self._drag_place is None:
            self._drag_timer.stop()
            return
        top = self._geometry.row_height
        above = self._drag_place.y() < top
        edge = top if above else self.viewport().height() - 1
        step = -1 if above else 1
        self._scroller.move_to(self._scroller.top + step)
        self._user_to(self.offset_at(QtCore.QPointF(self._drag_place.x(), edge)), extend=True)

    # Qt

    def paintEvent(self, event: QtGui.QPaintEvent) -> None:
        visible = self.visible_bytes
        if visible and self._pages.want(visible.start, visible.stop):
            self._fetch_timer.start()
        structure, shift = self._structure, self.horizontalScrollBar().value()
        painter = QtGui.QPainter(self.viewport())
        painter.setFont(self.font())
        painter.translate(-shift, 0)
        hex_paint.HexPainter(
            painter,
            self._pages,
            geometry=self._geometry,
            palette=self.palette(),
            size_bytes=self.size_bytes,
            top_row=self._scroller.top,
            row_count=self._row_count(),
            fields=structure.fields(visible.start, visible.stop) if structure else [],
            current=self.field_at(self.cursor_offset),
            cursor=self.cursor_offset,
            selection=self.selection,
            focused=self.hasFocus(),
            header="Offset",
        ).paint(self.viewport().width() + shift, self.viewport().height())
        painter.end()

    def resizeEvent(self, event: QtGui.QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_out()

    def changeEvent(self, event: QtCore.QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QtCore.QEvent.Type.FontChange, QtCore.QEvent.Type.StyleChange):
            self._lay_out()

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        self._scroller.follow_bar()
        self.viewport().update()

    def wheelEvent(self, event: QtGui.QWheelEvent) -> None:
        delta = event.angleDelta()
        if abs(delta.x()) > abs(delta.y()) or event.modifiers():
            super().wheelEvent(event)
            return
        self._wheel_rest -= delta.y() * _WHEEL_ROWS / _WHEEL_NOTCH
        rows = int(self._wheel_rest)
        self._wheel_rest -= rows
        self._scroller.move_to(self._scroller.top + rows)
        self.viewport().update()
        event.accept()

    def event(self, event: QtCore.QEvent) -> bool:
        # The window's own Copy must not take the key from the view that has the focus.
        if event.type() == QtCore.QEvent.Type.ShortcutOverride and isinstance(
            event, QtGui.QKeyEvent
        ):
            keys = QtGui.QKeySequence.StandardKey
            if event.matches(keys.Copy) or event.matches(keys.SelectAll):
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QtGui.QKeyEvent) -> None:
        if event.matches(QtGui.QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.matches(QtGui.QKeySequence.StandardKey.SelectAll):
            self.select_all()
        else:
            target = key_target(self, event.key(), event.modifiers()) if self.size_bytes else None
            if target is None:
                super().keyPressEvent(event)
            else:
                shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
                self._user_to(target, extend=shift)

    def mousePressEvent(self, event: QtGui.QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.size_bytes:
            shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self._user_to(self.offset_at(event.position()), extend=shift)
            self._drag_place = event.position()

    def mouseMoveEvent(self, event: QtGui.QMouseEvent) -> None:
        if self._drag_place is None:
            return
        self._drag_place = event.position()
        inside = self._geometry.row_height <= event.position().y() < self.viewport().height()
        if not inside:
            if not self._drag_timer.isActive():
                self._drag_timer.start()
            return
        self._drag_timer.stop()
        offset = self.offset_at(event.position())
        if offset != self.cursor_offset:
            self._user_to(offset, extend=True)

    def mouseReleaseEvent(self, event: QtGui.QMouseEvent) -> None:
        self._drag_place = None
        self._drag_timer.stop()

    def contextMenuEvent(self, event: QtGui.QContextMenuEvent) -> None:
        place = event.globalPos()
        if event.reason() == QtGui.QContextMenuEvent.Reason.Keyboard:
            place = self.viewport().mapToGlobal(self.place_of(self.cursor_offset))
        build_menu(self).popup(place)

    def viewportEvent(self, event: QtCore.QEvent) -> bool:
        if event.type() == QtCore.QEvent.Type.ToolTip and isinstance(event, QtGui.QHelpEvent):
            if self.size_bytes and event.pos().y() >= self._geometry.row_height:
                offset = self.offset_at(QtCore.QPointF(event.pos()))
                place = self.place_of(offset)
                area = QtCore.QRect(place.x() - 8, place.y() - 8, 16, 16)
                QToolTip.showText(event.globalPos(), self.tip_for(offset), self.viewport(), area)
            else:
                QToolTip.hideText()
            return True
        return super().viewportEvent(event)
