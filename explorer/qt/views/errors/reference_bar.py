"""Chooses what the current model is compared with."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QKeyEvent, QWheelEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QSizePolicy, QWidget

from explorer.analysis.rounding import rounding_types
from explorer.qt.models.document import Document
from explorer.qt.models.errors.references import Reference, References, Rounding
from explorer.qt.views.labels import plain_label
from explorer.text import plain_text

_OPEN = object()  # stands for "another model", which is to be opened first
_LONGEST = 60


class ReferenceBar(QWidget):
    """A list of all references: nothing, the other open models, types, and opening another model.

    Every such bar shows the same choice.

    Signals:
        open_requested: The user wants to open a model to compare with.
    """

    open_requested = Signal()

    def __init__(self, references: References, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._references = references
        self._choices: list[Reference | object] = []
        self.label = plain_label(self, self.tr("&Compare with"))
        self.list = _ReferenceList(self)
        self.list.setAccessibleName(self.tr("Compare with"))
        self.list.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.list.setMinimumContentsLength(24)
        self.list.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.list.setMaxVisibleItems(30)
        self.label.setBuddy(self.list)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.label)
        layout.addWidget(self.list, 1)
        self.list.activated.connect(self._take)
        references.changed.connect(self._show_choice)
        references.documents_changed.connect(self._fill)
        self._fill()

    def _fill(self) -> None:
        """List what can be chosen."""
        with QSignalBlocker(self.list):
            self.list.clear()
            self._choices = []
            for text, choice in self._all():
                if text:
                    self.list.addItem(text)
                else:
                    self.list.insertSeparator(self.list.count())
                self._choices.append(choice)
        self._show_choice()

    def _all(self) -> Iterator[tuple[str, Reference | object]]:
        references = self._references
        yield self.tr("nothing"), None
        yield "", None
        for document in references.documents:
            if document is not references.document:
                yield _shortened(plain_text(document.title)), document
        yield self.tr("Another model…"), _OPEN
        yield "", None
        for name in rounding_types():
            yield self.tr("Rounded to {type}").format(type=name), Rounding(name)

    def _show_choice(self) -> None:
        references = self._references
        listed = [one for one in self._choices if isinstance(one, Document)]
        others = [one for one in references.documents if one is not references.document]
        if listed != others:  # the current model is another one, which is not its own reference
            self._fill()
            return
        self.list.setCurrentIndex(self._choices.index(references.chosen))
        self.setEnabled(references.document is not None)

    def _take(self, place: int) -> None:
        choice = self._choices[place]
        if choice is _OPEN:
            self._show_choice()
            self.open_requested.emit()
        elif choice is None or isinstance(choice, Document | Rounding):
            self._references.choose(choice)


class _ReferenceList(QComboBox):
    """A list that arrow keys open: else each step would start a comparison, or ask for a file."""

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = Qt.Key
        moves = (keys.Key_Up, keys.Key_Down, keys.Key_PageUp, keys.Key_PageDown)
        if event.key() in (*moves, keys.Key_Home, keys.Key_End) or event.text().strip():
            self.showPopup()
        else:
            super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"
