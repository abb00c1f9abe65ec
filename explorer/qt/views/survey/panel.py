"""The panel of the whole model: a map by layer and role, the worst tensors, the mix of types.

Light to import: what needs pyqtgraph is made when the panel first comes into sight with something
to show.
"""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from explorer.qt.jobs import JobRunner
from explorer.qt.models.document import Document
from explorer.qt.models.references import References
from explorer.qt.views.weights.state_page import StatePage


class SurveyView(QWidget):
    """All tensors of the current model.

    Attributes:
        state: What stands there while there is nothing to show.

    Signals:
        tensor_chosen: A tensor was chosen; its content row in the tensor table.
        exported: A file was written; its path.
        failed: Something cannot be done; an `ExplorerError`.
        open_requested: A model shall be opened, to compare with.
    """

    tensor_chosen = Signal(int)
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
        self.state = StatePage(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.state)
        self.show_document(None)

    def show_document(self, document: Document | None) -> None:
        """Show a model; None shows nothing."""
        self._document = document
        self.state.tell(self.tr("Survey"), self.tr("Open a model to see all of its tensors."))

    def select_tensor(self, row: int) -> None:
        """Mark a tensor; -1 marks none. Emits nothing."""

    def focus_search(self) -> None:
        """Put the cursor into the search."""
