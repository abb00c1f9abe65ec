"""What an adapter changes and how much, or which columns an importance matrix knows."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

from PySide6.QtWidgets import QWidget

from explorer.formats.attachments import SUMS
from explorer.present.attachments import EntryRow
from explorer.present.tables.attachments import UPDATES, AttachedTable, attached_table
from explorer.qt.document import Document
from explorer.qt.jobs import Job, Work
from explorer.qt.references import ReferenceBar, References
from explorer.qt.services import Services
from explorer.qt.widgets.building import Part
from explorer.qt.widgets.model_page import ModelPage, below, report_steps
from explorer.qt.widgets.pages import Request


class AttachedPage(ModelPage[AttachedTable]):
    """A line for each tensor of an adapter or of an importance matrix."""

    doing = "Measuring"
    long = True

    def __init__(
        self, app: Services, references: References, parent: QWidget | None = None
    ) -> None:
        self._references = references
        super().__init__(app, parent)
        references.changed.connect(self.load)

    def build(self) -> Part:
        self.about.setAccessibleName("What the file is")
        self.base = ReferenceBar(self._references, self)
        self.rows = self.table()
        self.rows.row_opened.connect(self._open)
        return below(self.base, (self.rows, 1))

    @property
    def _base(self) -> Document | None:
        chosen = self._references.chosen
        own = self._references.document is self.document
        return chosen if own and isinstance(chosen, Document) else None

    def depends_on(self) -> Hashable:
        return None if self._base is None else self._base.path

    def request(self) -> Request[AttachedTable] | None:
        return None if self.document is None or not self.document.kind else super().request()

    def work(self, document: Document) -> Work[AttachedTable]:
        base = None if self._base is None else self._base.model

        def read(job: Job) -> AttachedTable:
            found = attached_table(document.model, base, job.check, partial(report_steps, job))
            assert found is not None  # a file of another kind is not asked for
            return found

        return read

    def show_result(self, result: AttachedTable) -> None:
        self.base.setVisible(result.table is UPDATES)
        hint = "\nChoose the model that it changes above to see the norms of its tensors, too."
        self.say(result.kind + (hint if result.table is UPDATES and self._base is None else ""))
        self.rows.show_rows(result.table, result.rows)
        self.show_content()

    def _open(self, place: int) -> None:
        """Open what a line was measured from: a factor of an update, sums of importance."""
        if self.document is None or self.result is None:  # another base has just been chosen
            return
        line = self.result.rows[place]
        if isinstance(line, EntryRow):
            name = f"{line.entry.name}{SUMS}"
        else:
            name = line.update.factors[0].name
        self.app.open_tensors(self.document.model.tensors.columns.names.index(name))
