"""The panels Tensors and Vocabulary: tables to filter, with totals."""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QByteArray
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QLabel

from explorer.formats.columns import TensorArrays
from explorer.present.tables.tensors import tensor_table
from explorer.present.tables.vocabulary import VocabularyContent
from explorer.qt.document import Document
from explorer.qt.jobs import JobSlot
from explorer.qt.selection import Selection
from explorer.qt.services import Services
from explorer.qt.widgets.building import NOTE
from explorer.qt.widgets.table_view import ListPanel
from explorer.qt.widgets.tensor_list import TensorList
from explorer.text import bytes_text, count_text, counted, plain_text


def tensor_totals(arrays: TensorArrays, rows: NDArray[np.intp]) -> tuple[int, int]:
    """Return parameters and bytes of some rows together."""
    return int(arrays.parameters[rows].sum()), arrays.total_bytes(rows)


class TensorsView(TensorList):
    """The tensors of a model."""

    def __init__(self, app: Services) -> None:
        super().__init__(app)
        self.document: Document | None = None
        self._shown_moves = 0
        self._totals = QLabel(self)
        self._totals.setContentsMargins(*NOTE)
        layout = self.layout()
        assert layout is not None
        layout.addWidget(self._totals)
        self.bar.changed.connect(self._filter)
        self.table.selection_moved.connect(self._take_selection)
        self.table.row_opened.connect(app.open_tensors)
        self._filter("")

    def show_document(self, document: Document | None, header: QByteArray) -> None:
        """Show a model's tensors; the filter stays."""
        self.document = document
        if document is None:
            self.model.clear()
        else:
            table = tensor_table(document.model, document.arrays)
            self.table.show_rows(table, range(len(document.arrays)), header)
        self._filter(self.bar.text)

    def follow(self, selection: Selection) -> None:
        """Show the selected tensors; the filter is cleared if it hides them."""
        if selection.key is not None or selection.moves == self._shown_moves:
            return
        self._shown_moves = selection.moves
        rows = selection.rows
        if not rows or set(rows) == set(self.table.selected_content_rows().tolist()):
            return
        if not self.table.select_row(rows[0]):  # several are selected in this table alone
            self.bar.edit.clear()
            self.table.select_row(rows[0])

    def _take_selection(self) -> None:
        self._show_totals()
        if rows := self.chosen_tensors():
            self.app.selection.select_tensors(rows)

    def _filter(self, text: str) -> None:
        document = self.document
        if document is None or not len(document.arrays):
            self.show_empty(
                "Open a model to see its tensors."
                if document is None
                else "This file holds no tensors."
            )
            self.bar.status.clear()
            self.bar.say(())
            self._totals.clear()
            return
        self.filter_tensors(text, document.arrays)
        self._show_totals()

    def _show_totals(self) -> None:
        if self.document is None:
            return
        shown = self._total(self.document, self.model.rows)
        totals = [f"Shown: {shown}"]
        selected = self.table.selected_content_rows()
        if len(selected):
            total = self._total(self.document, selected)
            totals.append(f"Selected: {total}")
        self._totals.setText("   ·   ".join(totals))

    def _total(self, document: Document, rows: NDArray[np.intp]) -> str:
        parameters, nbytes = tensor_totals(document.arrays, rows)
        tensors = counted(len(rows), "tensor")
        return f"{tensors}, {count_text(parameters)} parameters, {bytes_text(nbytes)}"


MOST_TOKENS: Final = 600_000


class RecentVocabularies:
    """The contents of the vocabulary tables shown last, by model, while the models are open.

    A decoded vocabulary of 262,144 tokens takes some 100 MB: the bound counts tokens.

    The one shown last stays in any case.
    """

    def __init__(self, most_tokens: int = MOST_TOKENS) -> None:
        self._most_tokens = most_tokens
        self._contents: WeakKeyDictionary[Document, VocabularyContent | None] = WeakKeyDictionary()

    def __contains__(self, document: Document) -> bool:
        return document in self._contents

    def get(self, document: Document) -> VocabularyContent | None:
        """Return the content of a model that is contained; None if it has no vocabulary."""
        content = self._contents.pop(document)
        self._contents[document] = content  # the last one is the one used last
        return content

    def add(self, document: Document, content: VocabularyContent | None) -> None:
        """Keep a content, and drop the least recently used beyond the bound."""
        self._contents.pop(document, None)
        self._contents[document] = content
        count = sum(map(_token_count, self._contents.values()))
        for other in list(self._contents):
            if count <= self._most_tokens or other is document:
                return
            count -= _token_count(self._contents.pop(other))


def _token_count(content: VocabularyContent | None) -> int:
    return 0 if content is None else len(content.texts)


_NO_MODEL: Final = "Open a model to see its vocabulary."


class VocabularyView(ListPanel):
    """The tokens of a model; they are decoded when they are first shown."""

    def __init__(self, app: Services) -> None:
        hint = "Search tokens:  text  id:100-200  type:control  len>20"
        super().__init__(app, hint)
        self.document: Document | None = None
        self._content: VocabularyContent | None = None
        self._recent = RecentVocabularies()
        self._header = QByteArray()
        self._jobs = JobSlot(app.runner, self)
        self.bar.changed.connect(self._filter)
        self.show_empty(_NO_MODEL)

    def show_document(self, document: Document | None, header: QByteArray) -> None:
        """Show a model's vocabulary, now or when the panel is looked at."""
        self._jobs.cancel()
        self.document = document
        self._header = header
        self._content = None
        self.model.clear()
        self.bar.status.clear()
        self.bar.edit.setEnabled(True)
        self.show_empty(_NO_MODEL if document is None else "")
        if self.isVisible():
            self._load()

    def _load(self) -> None:
        document = self.document
        if document is None or self._content is not None or self._jobs.busy:
            return
        if document in self._recent:
            self._show(self._recent.get(document))
            return
        self.show_empty("Reading the vocabulary…")

        def show(content: VocabularyContent | None) -> None:
            self._recent.add(document, content)
            self._show(content)

        job = self._jobs.run(
            f"Reading the vocabulary of {plain_text(document.title)}",
            lambda job: VocabularyContent.of(document.model, job.check),
            show,
            lambda error: self.show_empty(plain_text(str(error))),
        )
        job.finished.connect(self._show_stopped)

    def _show(self, content: VocabularyContent | None) -> None:
        self._content = content
        self.bar.edit.setEnabled(content is not None)
        if content is None:
            self.show_empty("This model carries no vocabulary.")
            return
        self.table.show_rows(content.table, range(len(content.texts)), self._header)
        self._filter(self.bar.text)

    def _filter(self, text: str) -> None:
        content = self._content
        if content is None:
            return
        mask = None
        if text:
            mask = np.zeros(len(content.texts), dtype=np.bool_)
            mask[content.texts.search(text)] = True
        no_match = "No token matches. Press Escape in the search to see all."
        self.show_matches(mask, no_match)

    def _show_stopped(self) -> None:
        if self._jobs.stopped:
            self.show_empty("Reading was cancelled. Show this panel again to start anew.")

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._load()
