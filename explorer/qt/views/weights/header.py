"""Which tensor is shown, what it is, and which others are shown with it."""

from __future__ import annotations

from enum import IntEnum

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QPalette, QResizeEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from explorer.present.explanations import picture_text
from explorer.qt.views.elided_label import ElidedLabel
from explorer.text import plain_text


class Scope(IntEnum):
    """Which tensors are shown; the places in the list."""

    ONE = 0
    SAME_ROLE = 1
    SELECTED = 2


class Header(QWidget):
    """Name and facts of a tensor, and the choice of others.

    Signals:
        scope_chosen: The user chose which tensors are shown.
    """

    scope_chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = ""
        self.name = QLabel(self)
        font = QFont(self.name.font())
        font.setPointSizeF(font.pointSizeF() * 1.2)
        font.setWeight(QFont.Weight.DemiBold)
        self.name.setFont(font)
        self.name.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.facts = ElidedLabel(self)
        self.name.setWhatsThis(picture_text("name"))
        self.facts.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.facts.setWhatsThis(picture_text("tensor_facts"))
        self.note = QLabel(self)
        self.note.setWordWrap(True)
        self.note.setAccessibleName(self.tr("Note about the values"))
        for label in (self.name, self.note):
            label.setTextFormat(Qt.TextFormat.PlainText)
        self.scope = QComboBox(self)
        self.scope.setAccessibleName(self.tr("Which tensors"))
        self.scope.setToolTip(self.tr("Which tensors are shown"))
        self.scope.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.scope.addItems(
            [
                self.tr("This tensor"),
                self.tr("Same role in every layer"),
                self.tr("Selected tensors"),
            ]
        )
        self.scope.activated.connect(lambda _: self.scope_chosen.emit())
        top = QHBoxLayout()
        top.addWidget(self.name, 1)
        top.addWidget(self.scope)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 4)
        layout.setSpacing(3)
        layout.addLayout(top)
        self._second = QHBoxLayout()
        self._second.addWidget(self.facts, 1)
        layout.addLayout(self._second)
        layout.addWidget(self.note)

    def add_beside_facts(self, widget: QWidget) -> None:
        """Put something at the end of the line of facts."""
        self._second.addWidget(widget)

    @property
    def chosen(self) -> Scope:
        """Return which tensors are to be shown."""
        return Scope(self.scope.currentIndex())

    def choose(self, scope: Scope) -> None:
        """Choose which tensors are to be shown."""
        self.scope.setCurrentIndex(scope)

    def show_texts(self, name: str, facts: str, note: str) -> None:
        """Say what is shown; texts may come from a file."""
        self._name = plain_text(name)
        self.name.setToolTip("")
        self.name.setAccessibleName(self._name[:400])
        self.facts.setText(plain_text(facts))
        self.note.setText(plain_text(note))
        self.note.setVisible(bool(note))
        self._elide()

    def _elide(self) -> None:
        width = self.name.width()
        # of a name of any length only what could fit is measured
        text = self._name[:1000]
        self.name.setText(
            self.name.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, width)
        )

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()
