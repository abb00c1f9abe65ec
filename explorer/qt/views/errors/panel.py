"""The panel of errors: what a tensor lost against a reference, and what another type would cost.

Light to import: what needs pyqtgraph is made when the panel first comes into sight with something
to show.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from explorer.qt.jobs import JobRunner
from explorer.qt.models.document import Document
from explorer.qt.models.references import References
from explorer.qt.views.errors.reference_bar import ReferenceBar
from explorer.qt.views.weights.state_page import StatePage


class ErrorsView(QWidget):
    """Errors of the tensor that is selected.

    Attributes:
        bar: Chooses what it is compared with.
        state: What stands there while there is nothing to show.

    Signals:
        exported: A file was written; its path.
        failed: Something cannot be done; an `ExplorerError`.
        open_requested: A model shall be opened, to compare with.
    """

    exported = Signal(str)
    failed = Signal(object)
    open_requested = Signal()

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._runner = runner
        self._references = references
        self._document: Document | None = None
        self._rows: tuple[int, ...] = ()
        self.bar = ReferenceBar(references, self)
        self.bar.open_requested.connect(self.open_requested)
        self.state = StatePage(self)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.state)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.bar)
        layout.addWidget(self._stack, 1)
        references.changed.connect(self._refresh)
        self._refresh()

    def show_document(self, document: Document | None) -> None:
        """Show a model, of which no tensor is selected yet; None shows nothing."""
        if document is not self._document:
            self._document = document
            self._rows = ()
            self._refresh()

    def show_tensors(self, rows: Sequence[int]) -> None:
        """Show the errors of tensors; content rows, the one that matters most first."""
        if tuple(rows) != self._rows:
            self._rows = tuple(rows)
            self._refresh()

    def focus_search(self) -> None:
        """Put the cursor into the choice of a reference."""
        self.bar.list.setFocus()

    def _refresh(self) -> None:
        if self._document is None:
            self.state.tell(self.tr("Errors"), self.tr("Open a model to see what it lost."))
        elif not self._rows:
            self.state.tell(self.tr("Select a tensor"), self.tr("Choose one in the tree or table."))
        else:
            partner = self._references.partner_of(self._rows[0])
            self.state.tell(self.tr("Nothing to compare with"), partner.reason)
