"""The bar of the group Compare: A, B, original and importance matrix, once for all its pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from PySide6 import QtWidgets
from PySide6.QtGui import QPalette

from explorer.present.titles import OF_A_ALONE
from explorer.qt.document import Document
from explorer.qt.jobs import JobSlot
from explorer.qt.references import (
    OPEN,
    ImportanceMatrix,
    ModelChoice,
    OriginalFinder,
    Reference,
    ReferenceBar,
    References,
)
from explorer.qt.services import Services
from explorer.qt.survey.bar import SurveyBar
from explorer.qt.survey.session import SurveySession
from explorer.qt.widgets.asking import ask_file
from explorer.qt.widgets.building import LINE, NOTE, column, row
from explorer.qt.widgets.labels import plain_label
from explorer.text import plain_text, shorten

_LONGEST: Final = 24  # letters of a file's name on the button
_OWN_READING: Final = frozenset({"errors", "what_if"})
"""Pages that read what they show, and say so themselves."""
_SCOPE: Final = (
    "This page shows A against the original; swap A and B to see the other. Summary and Tensors "
    "show both."
)


class FirstChoice(ModelChoice):
    """The current model: A."""

    title = "&A"
    tip = "The current model"
    least_letters = 12

    def __init__(self, references: References, page: Callable[[], str]) -> None:
        self._page = page
        super().__init__(references)

    def choices(self) -> Iterator[tuple[str, Reference | object]]:
        for document in self._references.documents:
            yield plain_text(document.title), document

    @property
    def current(self) -> Reference:
        return self._references.document

    def take(self, choice: Reference) -> None:
        if isinstance(choice, Document) and choice is not self.current:
            self._references.app.open(choice.path, self._page())


class SecondChoice(ModelChoice):
    """The model beside it: B."""

    title = "&B"
    tip = "Another model, compared with the same original"
    least_letters = 12

    def choices(self) -> Iterator[tuple[str, Reference | object]]:
        yield "none", None
        yield from self.others()
        yield "Another model…", OPEN

    @property
    def current(self) -> Reference:
        return self._references.other

    def take(self, choice: Reference) -> None:
        if choice is None or isinstance(choice, Document):
            self._references.choose_other(choice)


class OriginalChoice(ReferenceBar):
    """What errors of both are measured against."""

    title = "&Original"
    tip = "What both were made of, or a type to round to: errors are measured against it"
    least_letters = 12

    @property
    def current(self) -> Reference:
        return self._references.original

    def ask(self) -> None:
        self._references.app.ask_reference(as_original=True)


class MatrixChooser(QtWidgets.QPushButton):
    """A button with a menu: open an importance matrix, or do without."""

    def __init__(self, references: References, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self._references = references
        self.app = references.app
        self._opening = JobSlot(self.app.runner, self)
        menu = QtWidgets.QMenu(self)
        menu.addAction("&Open an importance matrix…").triggered.connect(self.ask)
        self.clear_action = menu.addAction("&None: all weights count alike")
        self.clear_action.triggered.connect(self.clear)
        self.setMenu(menu)
        self.setAccessibleName("Importance matrix")
        self.setToolTip(
            "A file made by llama-imatrix: errors are also weighted by how much each column "
            "matters, and so is the search for scales of What if?"
        )
        references.changed.connect(self._show_name)
        self._show_name()

    def ask(self) -> None:
        """Ask for a file and open it."""
        kinds = "Importance matrices (*.gguf *.imatrix *.dat);;All files (*)"
        title = "Open an importance matrix"
        path = ask_file(self.app, self, title, "matrix", kinds)
        if path is not None:
            self.open(path)

    def open(self, path: Path) -> None:
        """Open a file in the background."""
        self._opening.run(
            f"Opening {plain_text(path.name)}",
            lambda _job: ImportanceMatrix.load(path),
            self._references.choose_matrix,
            self.app.report,
        )

    def clear(self) -> None:
        """Do without a matrix."""
        self._opening.cancel()
        self._references.choose_matrix(None)

    def _show_name(self) -> None:
        matrix = self._references.matrix
        self.clear_action.setEnabled(matrix is not None)
        name = "none"
        if matrix is not None:
            name = shorten(plain_text(matrix.model.path.name), _LONGEST)
        self.setText(f"Imatrix: {name.replace('&', '&&')}")


class CompareBar(QtWidgets.QWidget):
    """What is compared, and how far the reading is; stands above all pages of the group."""

    def __init__(
        self,
        app: Services,
        session: SurveySession,
        page: Callable[[], str],
        parent: QtWidgets.QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.references = session.references
        self._session = session
        self.first = FirstChoice(self.references, page)
        self.second = SecondChoice(self.references)
        self.original = OriginalChoice(self.references)
        self.matrix = MatrixChooser(self.references, self)
        self.finder = OriginalFinder(self.references)
        self.survey = SurveyBar(session, self)
        self.swap = QtWidgets.QToolButton(self)
        self.swap.setText("⇄")
        self.swap.setToolTip("Swap A and B")
        self.swap.setAccessibleName("Swap A and B")
        self.swap.clicked.connect(lambda: self.references.swap(page()))
        choices = (self.first, 2), self.swap, (self.second, 2), (self.original, 2)
        self.scope = plain_label(self)
        self.scope.setText(_SCOPE)
        self.scope.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        scope = row((self.scope, 1), margins=NOTE)
        column(row(*choices, self.matrix, margins=LINE), scope, self.survey, of=self)
        self.stops = self.first, self.second, self.original, self.matrix, self.survey
        self.setAccessibleName("What is compared")
        self._page = page
        self.references.changed.connect(lambda: self._show_scope(self._page()))

    def show_for(self, page: str) -> None:
        """Show what a page of the group needs; look for the original."""
        self.survey.setVisible(page not in _OWN_READING)
        self._show_scope(page)
        self.finder.look()

    def _show_scope(self, page: str) -> None:
        self.swap.setEnabled(self.references.other is not None)
        both = self.references.against_original is not None
        self.scope.setVisible(both and page in OF_A_ALONE)
