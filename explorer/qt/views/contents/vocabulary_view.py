"""The vocabulary panel. A vocabulary is decoded when the panel is first looked at."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QByteArray
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from explorer.errors import ExplorerError
from explorer.formats.vocabulary import read_vocabulary
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.models.contents.recent_vocabularies import RecentVocabularies
from explorer.qt.models.contents.vocabulary_table import (
    VocabularyContent,
    plain_ranks,
    vocabulary_columns,
)
from explorer.qt.models.document import Document
from explorer.qt.views.progress.job_slot import JobSlot
from explorer.qt.views.tables.list_panel import ListPanel
from explorer.text import integer_text, plain_text


class VocabularyView(ListPanel):
    """The tokens of the current model."""

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(runner, "", "", parent)
        self.bar.edit.setPlaceholderText(
            self.tr("Search tokens:  text  id:100-200  type:control  len>20")
        )
        self.table.setAccessibleName(self.tr("Vocabulary"))
        self._document: Document | None = None
        self._content: VocabularyContent | None = None
        self._recent = RecentVocabularies()
        self._header = QByteArray()
        self._jobs = JobSlot(runner, self)
        self.bar.changed.connect(self._filter)

    def show_document(self, document: Document | None, header: QByteArray) -> None:
        """Show a model's vocabulary, now or when the panel is looked at."""
        self._jobs.cancel()
        self._document = document
        self._header = header
        self._content = None
        self.model.set_content((), 0)
        self.bar.status.clear()
        self.show_empty(self.tr("Open a model to see its vocabulary.") if document is None else "")
        if self.isVisible():
            self._load()

    def _load(self) -> None:
        document = self._document
        if document is None or self._content is not None or self._jobs.busy:
            return
        if document in self._recent:
            self._show(self._recent.get(document))
            return
        self.show_empty(self.tr("Reading the vocabulary…"))
        job = self._jobs.run(
            self.tr("Reading the vocabulary of {name}").format(name=plain_text(document.title)),
            lambda job: _read(document, job),
            lambda content: self._keep(document, content),
            self._show_failure,
        )
        job.finished.connect(self._show_stopped)

    def _keep(self, document: Document, content: VocabularyContent | None) -> None:
        self._recent.add(document, content)
        self._show(content)

    def _show(self, content: VocabularyContent | None) -> None:
        self._content = content
        if content is None:
            self.show_empty(self.tr("This model carries no vocabulary."))
            return
        self.model.set_content(vocabulary_columns(content), len(content.texts))
        self.table.show_columns(self._header)
        self._filter(self.bar.text)

    def _show_failure(self, error: ExplorerError) -> None:
        self.show_empty(plain_text(str(error)))

    def _filter(self, text: str) -> None:
        content = self._content
        if content is None:
            return
        mask = None
        if text:
            mask = np.zeros(len(content.texts), dtype=np.bool_)
            mask[content.texts.search(text)] = True
        self.model.set_filter(mask)
        shown = self.model.rowCount()
        self.bar.status.setText(
            self.tr("{shown} of {all}").format(
                shown=integer_text(shown), all=integer_text(self.model.content_count)
            )
        )
        if shown:
            self.show_table()
        else:
            self.show_empty(self.tr("No token matches. Press Escape in the search to see all."))

    def _show_stopped(self) -> None:
        if self._jobs.stopped:
            self.show_empty(self.tr("Reading was cancelled. Show this panel again to start anew."))

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._load()


def _read(document: Document, job: Job) -> VocabularyContent | None:
    vocabulary = read_vocabulary(document.model)
    if vocabulary is None:
        return None
    job.check()
    texts = vocabulary.display_columns(job.check)
    job.check()
    token_ranks = plain_ranks(texts.stored)
    job.check()
    return VocabularyContent(vocabulary, texts, token_ranks, plain_ranks(texts.decoded))
