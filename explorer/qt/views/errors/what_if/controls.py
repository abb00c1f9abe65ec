"""The line above a what-if: which tensors, which types, what is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QPushButton, QWidget

from explorer.qt.jobs import JobRunner
from explorer.qt.models.document import Document
from explorer.qt.models.weights.tensor_scope import same_role
from explorer.qt.views.errors.what_if.matrix_chooser import MatrixChooser
from explorer.qt.views.errors.what_if.points import Measure
from explorer.qt.views.errors.what_if.type_chooser import TypeChooser
from explorer.text import integer_text

_EXPERTS = frozenset({"experts", "shared_experts"})


class Scope(Enum):
    """Which tensors would get another type."""

    ONE = auto()
    SELECTED = auto()
    EXPERTS = auto()
    SAME_ROLE = auto()
    MODEL = auto()


class WhatIfControls(QWidget):
    """The controls.

    Attributes:
        scope: Chooses tensors.
        types: Chooses types.
        matrix: Chooses an importance matrix.
        measure: Chooses what is drawn upwards.
        use: Compares with the marked type in every panel.

    Signals:
        scope_changed: Other tensors were chosen.
    """

    scope_changed = Signal()

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: dict[Scope, tuple[int, ...] | None] = {}
        self.scope = QComboBox(self)
        self.scope.setAccessibleName(self.tr("Which tensors"))
        self.scope.setToolTip(self.tr("Which tensors other types are tried on"))
        self.scope.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.types = TypeChooser(self)
        self.matrix = MatrixChooser(runner, self)
        self.measure = QComboBox(self)
        self.measure.setAccessibleName(self.tr("What is drawn upwards"))
        self.measure.setToolTip(self.tr("What is drawn upwards"))
        self.measure.addItems([self.tr("Relative RMSE"), self.tr("SQNR")])
        self.use = QPushButton(self.tr("Compare with this type"), self)
        self.use.setToolTip(
            self.tr(
                "Show what rounding to the marked type does to the tensor, in all views that "
                "compare (Enter in the table); without an importance matrix"
            )
        )
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 4)
        for widget in (self.scope, self.types, self.matrix, self.measure):
            layout.addWidget(widget)
        layout.addStretch(1)
        layout.addWidget(self.use)
        self.scope.activated.connect(lambda _: self.scope_changed.emit())

    @property
    def chosen_scope(self) -> Scope:
        """Which tensors are chosen."""
        found = self.scope.currentData()
        return found if isinstance(found, Scope) else Scope.ONE

    @property
    def rows(self) -> tuple[int, ...] | None:
        """The chosen tensors, by row; None for the whole model."""
        return self._rows.get(self.chosen_scope, ())

    @property
    def chosen_measure(self) -> Measure:
        """What is drawn upwards."""
        return Measure(self.measure.currentIndex())

    def choose(self, scope: Scope) -> None:
        """Choose tensors, as if that was picked in the list."""
        self.scope.setCurrentIndex(self.scope.findData(scope))
        self.scope_changed.emit()

    def show_subject(self, document: Document | None, rows: Sequence[int]) -> None:
        """List what can be chosen around tensors; what was chosen stays if it is still there.

        Args:
            document: The model, or None.
            rows: Selected tensors, by row, the one that matters most first.
        """
        before = self.chosen_scope
        self._rows = {} if document is None or not rows else _choices(document, rows)
        with QSignalBlocker(self.scope):
            self.scope.clear()
            for scope, some in self._rows.items():
                self.scope.addItem(self._title(scope, some), scope)
            self.scope.setCurrentIndex(max(0, self.scope.findData(before)))

    def _title(self, scope: Scope, rows: tuple[int, ...] | None) -> str:
        titles = {
            Scope.ONE: self.tr("This tensor"),
            Scope.SELECTED: self.tr("Selected tensors ({n})"),
            Scope.EXPERTS: self.tr("Experts of the layer ({n})"),
            Scope.SAME_ROLE: self.tr("Same role in every layer ({n})"),
            Scope.MODEL: self.tr("Whole model"),
        }
        return titles[scope].format(n=integer_text(len(rows or ())))


def _choices(document: Document, rows: Sequence[int]) -> dict[Scope, tuple[int, ...] | None]:
    first = rows[0]
    found: dict[Scope, tuple[int, ...] | None] = {Scope.ONE: (first,)}
    if len(rows) > 1:
        found[Scope.SELECTED] = tuple(sorted(rows))
    experts = _experts(document, first)
    if len(experts) > 1:
        found[Scope.EXPERTS] = experts
    role = tuple(same_role(document, first))
    if len(role) > 1:
        found[Scope.SAME_ROLE] = role
    found[Scope.MODEL] = None
    return found


def _experts(document: Document, row: int) -> tuple[int, ...]:
    """Return the experts that a tensor is one of, where each is a tensor of its own."""
    tensors = document.model.tensors
    name = tensors.rows[row].group
    for group in document.model.groups:
        if group.name == name and group.kind in _EXPERTS:
            rows = (tensors.row_of(one) for one in group.tensors)
            return tuple(sorted(found for found in rows if found is not None))
    return ()
