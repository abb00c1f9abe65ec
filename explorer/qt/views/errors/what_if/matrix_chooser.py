"""Chooses an importance matrix, which says how much each column of a tensor counts."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QMenu, QPushButton, QWidget

from explorer.errors import ExplorerError
from explorer.qt.jobs import JobRunner
from explorer.qt.models.what_if.imatrix import ImportanceMatrix
from explorer.qt.views.progress.job_slot import JobSlot
from explorer.text import plain_text, shorten

_LONGEST = 24


class MatrixChooser(QPushButton):
    """A button with a menu: open a matrix, or do without.

    Attributes:
        matrix: What was opened, or None.

    Signals:
        changed: Another matrix, or none.
        failed: A file cannot be opened or is something else; an `ExplorerError`.
    """

    changed = Signal()
    failed = Signal(object)

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.matrix: ImportanceMatrix | None = None
        self._opening = JobSlot(runner, self)
        menu = QMenu(self)
        menu.addAction(self.tr("&Open an importance matrix…")).triggered.connect(self.ask)
        self.clear_action = menu.addAction(self.tr("&None: all weights count alike"))
        self.clear_action.triggered.connect(self.clear)
        self.setMenu(menu)
        self.setAccessibleName(self.tr("Importance matrix"))
        self.setToolTip(
            self.tr(
                "A file of llama-imatrix in GGUF: where a type is searched for, errors in columns "
                "that are used more count more."
            )
        )
        self._show_name()

    def ask(self) -> None:
        """Ask for a file and open it."""
        kinds = self.tr("Importance matrices (*.gguf *.imatrix *.dat);;All files (*)")
        title = self.tr("Open an importance matrix")
        name, _ = QFileDialog.getOpenFileName(self, title, "", kinds)
        if name:
            self.open(Path(name))

    def open(self, path: Path) -> None:
        """Open a file in the background."""
        self._opening.run(
            self.tr("Opening {name}").format(name=plain_text(path.name)),
            lambda _job: ImportanceMatrix.load(path),
            self._take,
            self._fail,
        )

    def clear(self) -> None:
        """Do without a matrix."""
        self._opening.cancel()
        if self.matrix is not None:
            self._take(None)

    def _take(self, matrix: ImportanceMatrix | None) -> None:
        # the one before is not closed here: a job may still read it for a moment; its file closes
        # with the last one who knows it
        self.matrix = matrix
        self._show_name()
        self.changed.emit()

    def _fail(self, error: ExplorerError) -> None:
        self.failed.emit(error)

    def _show_name(self) -> None:
        self.clear_action.setEnabled(self.matrix is not None)
        name = self.tr("none")
        if self.matrix is not None:
            name = shorten(plain_text(self.matrix.model.path.name), _LONGEST)
        self.setText(self.tr("Importance: {name}").format(name=name.replace("&", "&&")))
