"""The bar of the group Compare: A, B, original and importance matrix, once for all its pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from PySide6 import QtWidgets
from PySide6.QtGui import QPalette

from explorer.formats.attachments import OpenMatrix
from explorer.present.panels import PANELS
from explorer.qt.document import Document
from explorer.qt.jobs import JobSlot
from explorer.qt.references import (
    OPEN,
    Choice,
    ModelChoice,
    OriginalFinder,
    ReferenceBar,
    References,
    shortened,
)
from explorer.qt.services import Services
from explorer.qt.survey.bar import SurveyBar
from explorer.qt.survey.session import SurveySession
from explorer.qt.widgets.asking import ask_file
from explorer.qt.widgets.building import LINE, NOTE, Flow, column, row
from explorer.qt.widgets.labels import plain_label
from explorer.text import plain_text

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

    def choices(self) -> Iterator[tuple[str, Choice | object]]:
        for document in self._references.documents:
            yield plain_text(document.title), document

    @property
    def current(self) -> Choice:
        return self._references.document

    def take(self, choice: Choice) -> None:
        if isinstance(choice, Document) and choice is not self.current:
            self._references.app.open(choice.path, self._page())


class SecondChoice(ModelChoice):
    """The model beside it: B."""

    title = "&B"
    tip = "Another model, compared with the same original"
    least_letters = 12

    def choices(self) -> Iterator[tuple[str, Choice | object]]:
        yield "none", None
        yield from self.others()
        yield "Another model…", OPEN

    @property
    def current(self) -> Choice:
        return self._references.other

    def take(self, choice: Choice) -> None:
        if choice is None or isinstance(choice, Document):
            self._references.choose_other(choice)


class OriginalChoice(ReferenceBar):
    """What errors of both are measured against."""

    title = "&Original"
    tip = "What both were made of, or a type to round to: errors are measured against it"
    least_letters = 12

    @property
    def current(self) -> Choice:
        return self._references.original

    def ask(self) -> None:
        self._references.app.ask_reference(as_original=True)


class MatrixChoice(ModelChoice):
    """What errors of all are weighted by, too."""

    title = "&Imatrix"
    tip = (
        "A file made by llama-imatrix: errors are also weighted by how much each column matters, "
        "and so is the search for scales of What if?"
    )
    least_letters = 8

    def __init__(self, references: References) -> None:
        super().__init__(references)
        self.list.setAccessibleName("Importance matrix")
        self._opening = JobSlot(references.app.runner, self)

    def choices(self) -> Iterator[tuple[str, Choice | object]]:
        yield "none", None
        if (matrix := self._references.matrix) is not None:
            yield shortened(plain_text(matrix.model.path.name)), matrix
        yield "Open an importance matrix…", OPEN

    @property
    def current(self) -> Choice:
        return self._references.matrix

    def take(self, choice: Choice) -> None:
        if choice is None or isinstance(choice, OpenMatrix):
            self._opening.cancel()
            self._references.choose_matrix(choice)

    def ask(self) -> None:
        kinds = "Importance matrices (*.gguf *.imatrix *.dat);;All files (*)"
        title = "Open an importance matrix"
        path = ask_file(self._references.app, self, title, "matrix", kinds)
        if path is not None:
            self.open(path)

    def open(self, path: Path) -> None:
        """Open a file in the background."""
        self._opening.run(
            f"Opening {plain_text(path.name)}",
            lambda _job: OpenMatrix.load(path),
            self._references.choose_matrix,
            self._references.app.report,
        )


class CompareBar(QtWidgets.QWidget):
    """What is compared, and how far the reading is; stands above all pages of the group."""

    def __init__(self, app: Services, session: SurveySession, page: Callable[[], str]) -> None:
        super().__init__()
        self.references = session.references
        self._session = session
        self.first = FirstChoice(self.references, page)
        self.second = SecondChoice(self.references)
        self.original = OriginalChoice(self.references)
        self.matrix = MatrixChoice(self.references)
        self.finder = OriginalFinder(self.references)
        self.survey = SurveyBar(session, self)
        self.swap = QtWidgets.QToolButton(self)
        self.swap.setText("⇄")
        self.swap.setToolTip("Swap A and B")
        self.swap.setAccessibleName("Swap A and B")
        self.swap.clicked.connect(lambda: self.references.swap(page()))
        choices = self.first, self.second, self.original, self.matrix
        parts = self.first, self.swap, *choices[1:]
        self.scope = plain_label(self, wraps=True)
        self.scope.setText(_SCOPE)
        self.scope.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        scope = row((self.scope, 1), margins=NOTE)
        column(Flow(*parts, margins=LINE, growing=choices), scope, self.survey, of=self)
        self.stops = self.first, self.swap, self.second, self.original, self.matrix, self.survey
        self.setAccessibleName("What is compared")
        self._page = page
        self.references.changed.connect(lambda: self._show_scope(self._page()))

    def show_for(self, page: str) -> None:
        """Show what a page of the group needs; look for the original."""
        self.survey.setVisible(not PANELS[page].reads_itself)
        self._show_scope(page)
        self.finder.look()

    def _show_scope(self, page: str) -> None:
        self.swap.setEnabled(self.references.other is not None)
        both = self.references.against_original is not None
        self.scope.setVisible(both and PANELS[page].of_a_alone)
