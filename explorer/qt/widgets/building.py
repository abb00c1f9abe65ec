"""Rows, columns, commands and context menus, as most widgets need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, TypeAlias, TypeVar

from PySide6.QtCore import QPoint, QRect, QSize, Qt, SignalInstance
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import (
    QBoxLayout,
    QHBoxLayout,
    QLayout,
    QLayoutItem,
    QMenu,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import delete

from explorer.qt.theme import Space

Layout = TypeVar("Layout", bound=QBoxLayout)
Part: TypeAlias = QWidget | QLayout | int
"""A widget, a layout, or room with a stretch factor."""

# Left and right there is nothing: the shell gives every page the same margin.
LINE: Final = (0, Space.NEAR, 0, Space.NEAR)
"""Margins of a row of controls above or below what a page shows."""

NOTE: Final = (0, Space.TIGHT, 0, Space.TIGHT)
"""Margins of a line of text there."""


def column(
    *parts: Part | tuple[Part, int],
    of: QWidget | None = None,
    margins: tuple[int, int, int, int] = (0, 0, 0, 0),
    spacing: int = 0,
) -> QVBoxLayout:
    """Return a column of parts; a pair is a part with its stretch factor.

    Args:
        parts: From top to bottom.
        of: The widget that it lays out; None for a layout that is put into another one.
        margins: Left, top, right and bottom, in pixels.
        spacing: Pixels between parts; -1 for those of controls in a row.
    """
    return _filled(QVBoxLayout() if of is None else QVBoxLayout(of), parts, margins, spacing)


def row(
    *parts: Part | tuple[Part, int],
    of: QWidget | None = None,
    margins: tuple[int, int, int, int] = (0, 0, 0, 0),
    spacing: int = -1,
) -> QHBoxLayout:
    """Return a row of parts, from left to right; see `column`."""
    return _filled(QHBoxLayout() if of is None else QHBoxLayout(of), parts, margins, spacing)


def _filled(
    layout: Layout,
    parts: tuple[Part | tuple[Part, int], ...],
    margins: tuple[int, int, int, int],
    spacing: int,
) -> Layout:
    layout.setContentsMargins(*margins)
    layout.setSpacing(Space.NEAR if spacing < 0 else spacing)
    for part in parts:
        item, stretch = part if isinstance(part, tuple) else (part, 0)
        if isinstance(item, QWidget):
            layout.addWidget(item, stretch)
        elif isinstance(item, QLayout):
            layout.addLayout(item, stretch)
        else:
            layout.addStretch(item)
    return layout


class Flow(QLayout):
    """Parts one behind the other, in as many lines as the width needs.

    Args:
        parts: From left to right.
        spacing: Pixels between parts.
        margins: Left, top, right and bottom, in pixels.
        growing: Those of the parts that share what a line has left.
    """

    def __init__(
        self,
        *parts: QWidget,
        spacing: int = Space.NEAR,
        margins: tuple[int, int, int, int] = (0, 0, 0, 0),
        growing: Sequence[QWidget] = (),
    ) -> None:
        super().__init__()
        self._items: list[QLayoutItem] = []
        self._growing = growing
        self.setContentsMargins(*margins)
        self.destroyed.connect(partial(_free, self._items))
        self.setSpacing(spacing)
        for part in parts:
            self.addWidget(part)

    def _arrange(self, area: QRect, *, test: bool) -> int:
        """Put each part into its place, unless it is only a test; return the height of all."""
        margins = self.contentsMargins()
        inside = area.marginsRemoved(margins)
        y = inside.y()
        for line in self._lines(inside.width()):
            x, high = inside.x(), max(hint.height() for _, hint in line)
            growing = [item for item, _ in line if item.widget() in self._growing]
            wide = sum(hint.width() + self.spacing() for _, hint in line) - self.spacing()
            more = (inside.width() - wide) // max(1, len(growing))
            for item, hint in line:
                size = hint + QSize(more, 0) if item in growing else hint
                if not test:
                    item.setGeometry(QRect(QPoint(x, y + (high - size.height()) // 2), size))
                x += size.width() + self.spacing()
            y += high + self.spacing()
        return max(0, y - self.spacing() - inside.y()) + margins.top() + margins.bottom()

    def _lines(self, width: int) -> list[list[tuple[QLayoutItem, QSize]]]:
        lines: list[list[tuple[QLayoutItem, QSize]]] = []
        used = 0
        for item in self._items:
            if item.isEmpty():
                continue
            hint = item.sizeHint()
            if not lines or used + hint.width() > width:
                lines.append([])
                used = 0
            lines[-1].append((item, hint))
            used += hint.width() + self.spacing()
        return lines

    # Qt

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._arrange(QRect(0, 0, width, 0), test=True)

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._arrange(rect, test=False)

    def sizeHint(self) -> QSize:
        margins = self.contentsMargins()
        wide = sum(item.sizeHint().width() + self.spacing() for item in self._items)
        wide += margins.left() + margins.right()
        return QSize(wide, self._arrange(QRect(0, 0, wide, 0), test=True))

    def minimumSize(self) -> QSize:
        hints = [item.minimumSize() for item in self._items]
        widest = max((hint.width() for hint in hints), default=0)
        return QSize(widest, max((hint.height() for hint in hints), default=0)).grownBy(
            self.contentsMargins()
        )


def _free(items: list[QLayoutItem]) -> None:
    """Free the items of a layout that is gone, as Qt's own layouts do."""
    for item in items:
        delete(item)


def tab_through(*parts: QWidget) -> None:
    """Let Tab come through parts as they stand: first all of one, then all of the next."""
    # not by `nextInFocusChain`: PySide takes what it returns for a child, and then for deleted
    stops = [
        one
        for part in parts
        for one in (part, *part.findChildren(QWidget))
        if one.focusPolicy() & Qt.FocusPolicy.TabFocus
        and one.focusProxy() is None
        and one.window() is part.window()  # a list that pops up is a window of its own
    ]
    for before, after in pairwise(stops):
        QWidget.setTabOrder(before, after)


def copy_text(text: str) -> None:
    """Put a text into the clipboard, unless there is none."""
    if text:
        QGuiApplication.clipboard().setText(text)


def add_action(
    owner: QWidget,
    text: str,
    slot: Callable[[], object] | SignalInstance,
    *keys: QKeySequence.StandardKey | str,
    children: bool = False,
) -> QAction:
    """Give a widget a command whose keys work while it, or one of its children, has the focus."""
    action = QAction(text, owner)
    action.setShortcuts([QKeySequence(key) for key in keys])
    context = Qt.ShortcutContext
    action.setShortcutContext(
        context.WidgetWithChildrenShortcut if children else context.WidgetShortcut
    )
    action.triggered.connect(slot)
    owner.addAction(action)
    return action


def add_picture_actions(
    owner: QWidget,
    copy: Callable[[], object] | SignalInstance,
    save: Callable[[], object] | SignalInstance,
    sentence: Callable[[], str],
) -> list[QAction]:
    """Give a picture the commands that copy and save it, with the keys that all pictures have.

    `sentence` returns what it shows, in words.
    """
    return [
        add_action(owner, "&Copy picture", copy, "Ctrl+Shift+C"),
        add_action(owner, "Copy as &text", lambda: copy_text(sentence()), "Ctrl+Shift+T"),
        add_action(owner, "&Save picture or data…", save, "Ctrl+S"),
    ]


def show_menu(owner: QWidget, place: QPoint, *groups: Sequence[QAction]) -> None:
    """Open a menu of groups of commands at a place of the screen; closing it deletes it."""
    menu = QMenu(owner)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    for group in groups:
        menu.addSeparator()  # Qt hides the first
        menu.addActions(group)
    add_navigation(owner, menu)
    menu.popup(place)


def add_navigation(owner: QWidget, menu: QMenu, *, whole: bool = False) -> None:
    """Add where one can go on from what is selected, as the window of a widget knows it.

    Args:
        owner: Where the menu is opened.
        menu: The menu.
        whole: Whether it is of the model, and not of the selected tensor.
    """
    offer = getattr(owner.window(), "add_navigation", None)  # dialogs lead nowhere
    if offer is not None:
        offer(menu, whole=whole)
