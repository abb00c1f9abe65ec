"""Chooses the types of a what-if: a button, and below it a list to tick."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QEvent, QPoint, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QHideEvent, QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from explorer.qt.models.what_if.types import USUAL_TYPES, type_groups

_ROLE = Qt.ItemDataRole.UserRole
_SHOWN_ROWS = 22


class TypeList(QFrame):
    """The list, in a window that closes when one clicks elsewhere.

    Attributes:
        list: The types, with a heading above each group.

    Signals:
        closed: The window was closed.
    """

    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.list = QListWidget(self)
        self.list.setAccessibleName(self.tr("Types to try"))
        for title, names in type_groups():
            heading = QListWidgetItem(title, self.list)
            heading.setFlags(Qt.ItemFlag.NoItemFlags)
            for name in names:
                item = QListWidgetItem(name, self.list)
                item.setData(_ROLE, name)
                item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsUserCheckable)
        self.set_types(USUAL_TYPES)
        buttons = QHBoxLayout()
        for text, types in (
            (self.tr("&All"), self._names()),
            (self.tr("&None"), ()),
            (self.tr("&Usual"), USUAL_TYPES),
        ):
            button = QPushButton(text, self)
            button.clicked.connect(lambda _=False, types=types: self.set_types(types))
            buttons.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(4, 4, 4, 4)
        layout.addWidget(self.list)
        layout.addLayout(buttons)
        row = self.list.sizeHintForRow(0)
        self.list.setFixedHeight(row * _SHOWN_ROWS + 2 * self.list.frameWidth())

    @property
    def types(self) -> tuple[str, ...]:
        """The types that are ticked, in the order of the list."""
        on = Qt.CheckState.Checked
        return tuple(
            item.data(_ROLE)
            for item in self._items()
            if item.data(_ROLE) is not None and item.checkState() == on
        )

    def set_types(self, types: Iterable[str]) -> None:
        """Tick these types and no others."""
        wanted = frozenset(types)
        with QSignalBlocker(self.list):
            for item in self._items():
                name = item.data(_ROLE)
                if name is not None:
                    on = Qt.CheckState.Checked if name in wanted else Qt.CheckState.Unchecked
                    item.setCheckState(on)

    def _items(self) -> list[QListWidgetItem]:
        return [self.list.item(row) for row in range(self.list.count())]

    def _names(self) -> tuple[str, ...]:
        return tuple(name for item in self._items() if (name := item.data(_ROLE)) is not None)

    # Qt

    def event(self, event: QEvent) -> bool:
        # else Escape would end the reading of weights, which is a shortcut of the panel around
        key = event.key() if isinstance(event, QKeyEvent) else None
        if event.type() == QEvent.Type.ShortcutOverride and key == Qt.Key.Key_Escape:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Escape):
            self.hide()
            return
        super().keyPressEvent(event)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.closed.emit()


class TypeChooser(QPushButton):
    """A button that says how many types are chosen, and opens the list.

    Attributes:
        popup: The list.
        types: What is chosen.

    Signals:
        changed: Other types were chosen; told once, when the list is closed.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.popup = TypeList(self)
        self.types = self.popup.types
        self.setToolTip(self.tr("Choose the types to try"))
        self.clicked.connect(self.open_list)
        self.popup.closed.connect(self._take)
        self._show_count()

    def set_types(self, types: Iterable[str]) -> None:
        """Choose types, as if they were ticked one by one."""
        self.popup.set_types(types)
        self._take()

    def open_list(self) -> None:
        """Show the list below the button."""
        self.popup.move(self.mapToGlobal(QPoint(0, self.height())))
        self.popup.show()
        self.popup.list.setFocus()
        if self.popup.list.currentRow() < 0:
            self.popup.list.setCurrentRow(1)  # below the first heading

    def _take(self) -> None:
        if self.popup.types != self.types:
            self.types = self.popup.types
            self._show_count()
            self.changed.emit()

    def _show_count(self) -> None:
        text = self.tr("1 type…") if len(self.types) == 1 else self.tr("{n} types…")
        self.setText(text.format(n=len(self.types)))
