"""Which of several tensors the pages of one tensor show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QToolButton, QWidget

from explorer.qt.models.weights.figures import Subject
from explorer.qt.views.labels import plain_label
from explorer.text import shorten

_LONGEST: Final = 200  # letters of a name: more do not fit
_LETTERS: Final = 24  # that are seen of a name, at least
_LINES: Final = 20  # of the open list


class TensorPicker(QWidget):
    """A list of tensors, and steps to the one before and the next. Hidden if there is no choice.

    Attributes:
        list: The tensors.
        back_action: Goes to the one before.
        on_action: Goes to the next one.

    Signals:
        picked: The user chose another tensor.
    """

    picked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._subjects: tuple[Subject, ...] = ()
        self.list = QComboBox(self)
        self.list.setAccessibleName(self.tr("Tensor"))
        self.list.setToolTip(self.tr("Which of the tensors the pages of one tensor show"))
        self.list.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.list.setMinimumContentsLength(_LETTERS)
        self.list.setMaxVisibleItems(_LINES)
        self.list.setWhatsThis(
            self.tr(
                "Which of these tensors is shown by Map, Codes, Scales, Minima, Block and Values. "
                "The histogram shows all of them, this one in front."
            )
        )
        self.list.currentIndexChanged.connect(self._tell)
        self.back_action = self._step("◂", self.tr("Tensor before"), "Alt+PgUp", -1)
        self.on_action = self._step("▸", self.tr("Next tensor"), "Alt+PgDown", 1)
        label = plain_label(self, self.tr("Tensor:"))
        label.setBuddy(self.list)
        back, on = map(self._button, (self.back_action, self.on_action))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for widget in (label, back, self.list, on):
            layout.addWidget(widget)
        self.setTabOrder(back, self.list)
        self.hide()

    @property
    def subject(self) -> Subject | None:
        """The tensor that is chosen; None if there is none."""
        place = self.list.currentIndex()
        return self._subjects[place] if 0 <= place < len(self._subjects) else None

    def offer(self, subjects: Sequence[Subject], row: int | None) -> bool:
        """Offer tensors. Emits nothing.

        Args:
            subjects: The tensors.
            row: Content row of the one that is chosen at first; if it is not among them, the first.

        Returns:
            Whether they are those of before; then the choice stays.
        """
        if _same(self._subjects, subjects):
            return True
        self._subjects = tuple(subjects)
        rows = [subject.row for subject in subjects]
        self.list.blockSignals(True)
        self.list.clear()
        self.list.addItems([shorten(subject.name, _LONGEST) for subject in subjects])
        self.list.setCurrentIndex(rows.index(row) if row in rows else min(0, len(rows) - 1))
        self.list.blockSignals(False)
        self.setVisible(len(rows) > 1)
        self._follow()
        return False

    def choose(self, row: int) -> None:
        """Choose a tensor by its content row, as if the user had; nothing if it is not offered."""
        rows = [subject.row for subject in self._subjects]
        if row in rows:
            self.list.setCurrentIndex(rows.index(row))

    def _step(self, text: str, name: str, keys: str, by: int) -> QAction:
        action = QAction(text, self)
        action.setToolTip(f"{name} ({keys})")
        action.setShortcut(QKeySequence(keys))
        action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        action.triggered.connect(
            lambda _=False: self.list.setCurrentIndex(self.list.currentIndex() + by)
        )
        return action

    def _button(self, action: QAction) -> QToolButton:
        button = QToolButton(self)
        button.setDefaultAction(action)
        button.setAccessibleName(action.toolTip())
        return button

    def _tell(self) -> None:
        self._follow()
        self.picked.emit()

    def _follow(self) -> None:
        place, count = self.list.currentIndex(), self.list.count()
        self.back_action.setEnabled(place > 0)
        self.on_action.setEnabled(0 <= place < count - 1)


def _same(before: Sequence[Subject], now: Sequence[Subject]) -> bool:
    return len(before) == len(now) and all(
        one.tensor is other.tensor for one, other in zip(before, now, strict=True)
    )
