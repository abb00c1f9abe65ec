"""A page as a description: what it reads of a model, and the tables and pictures that show it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, TypeVar
from weakref import WeakKeyDictionary

from PySide6.QtWidgets import QWidget

from explorer.qt.document import Document
from explorer.qt.jobs import Job, Work
from explorer.qt.services import Services
from explorer.qt.widgets.building import LINE, Part, column
from explorer.qt.widgets.labels import text_label
from explorer.qt.widgets.pages import ReadingPage, Request
from explorer.qt.widgets.progress import ProgressLine
from explorer.qt.widgets.table_model import TableModel
from explorer.qt.widgets.table_view import TableView
from explorer.text import plain_text

Result = TypeVar("Result")


class ModelPage(ReadingPage[Result]):
    """A page of what is read of the current model; it keeps no model that was closed.

    A subclass says what it is doing, what it reads, what stands on it and how a result is shown.
    Its life while it reads, Cancel, failures, and what was read before are done here.

    Attributes:
        doing: What it does while it reads, for the status bar and the page.
        document: The current model.
        about: A sentence above the content; see `say`.
        progress: How far the reading is; None on a page that is read at once.
    """

    doing: ClassVar[str]
    long: ClassVar[bool] = False
    """Whether reading takes long enough for a line of progress with Cancel."""

    def __init__(self, app: Services, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.document: Document | None = None
        self.app = app
        self._known: WeakKeyDictionary[Document, dict[Hashable, Result]] = WeakKeyDictionary()
        self.about = text_label("", self)
        self.about.setContentsMargins(*LINE)
        column(self.about, (self.build(), 1), of=self.content)
        self.progress = ProgressLine(self) if self.long else None
        if self.progress is not None:
            self.frame.addWidget(self.progress)
        self.begin_life(app, (self,), self.progress)

    # What a page defines

    def build(self) -> Part:
        """Make what stands on the page."""
        raise NotImplementedError

    def depends_on(self) -> Hashable:
        """Return what else than the model its content depends on."""
        return None

    def work(self, document: Document) -> Work[Result]:
        """Return what reads the content in a worker; it asks nothing of the page."""
        raise NotImplementedError

    # What it is given

    def show_document(self, document: Document | None) -> None:
        """Show a model once the page is visible; drop any other one now."""
        if document is self.document:
            self.load()
        else:
            self.document = document
            self.restart()

    def say(self, sentence: str) -> None:
        """Show a sentence above the content."""
        self.about.setText(sentence)

    def table(self) -> TableView:
        """Return a table of the page; `TableView.show_rows` fills it."""
        return TableView(TableModel(self), self.app, self)

    @property
    def result(self) -> Result | None:
        """What is known of the current model; None if nothing is."""
        if self.document is None:
            return None
        return self._known.get(self.document, {}).get(self.depends_on())

    def request(self) -> Request[Result] | None:
        document, on = self.document, self.depends_on()
        if document is None:
            return None

        work = self.work(document)

        def read(job: Job) -> Result:
            result = work(job)
            self._known.setdefault(document, {})[on] = result
            return result

        return Request(
            key=(document, on),
            title=f"{self.doing}: {plain_text(document.title)}",
            heading=f"{self.doing}…",
            failure=f"{self.doing} failed",
            work=read,
            known=lambda: self._known.get(document, {}).get(on),
        )

    def show_part(self, part: tuple[int, int]) -> None:
        if self.progress is not None:
            self.progress.show_progress(*part)


def report_steps(job: Job, done: int, total: int) -> None:
    """Report how many steps of a page's reading are done, to the status bar and to the page."""
    job.report(done, total)
    job.publish(lambda: (done, total))


def below(*parts: Part | tuple[Part, int]) -> QWidget:
    """Return parts below each other as a widget; a pair is a part with its stretch factor."""
    widget = QWidget()
    column(*parts, of=widget)
    return widget
