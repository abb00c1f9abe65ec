"""The page of two models side by side: what they differ in, and how far their weights are apart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QObject, QSignalBlocker
from PySide6.QtGui import QColor, QPalette, QSyntaxHighlighter, QTextCharFormat
from PySide6.QtWidgets import QComboBox, QPlainTextEdit, QPushButton, QSpinBox, QWidget

from explorer.analysis.differences import Differences
from explorer.present import differences as present
from explorer.present.differences import Comparison
from explorer.present.tables.differences import (
    KEYS,
    ROLES,
    SIZES,
    TENSORS,
    KeyRow,
    RoleRow,
    SizeRow,
    searched,
)
from explorer.present.tables.table import Row, Table
from explorer.qt.addresses import agrees_to_weights
from explorer.qt.document import Document
from explorer.qt.jobs import Job, worker_count
from explorer.qt.references import ReferenceBar, References, Rounding
from explorer.qt.services import Services
from explorer.qt.theme import Space, ink_of
from explorer.qt.widgets.building import LINE, NOTE, column, row
from explorer.qt.widgets.controls import check, choice, label_of
from explorer.qt.widgets.labels import SELECTABLE, ElidedLabel, error_caution, plain_label
from explorer.qt.widgets.lazy import TabbedPanel
from explorer.qt.widgets.pages import Phase, Reader, Refusal, Request
from explorer.qt.widgets.progress import ProgressLine
from explorer.qt.widgets.saving import FileSaver, file_name
from explorer.qt.widgets.table_model import TableModel
from explorer.qt.widgets.table_view import ListPanel, TableView
from explorer.qt.widgets.text_view import TextView
from explorer.tabular import json_document, write_atomically
from explorer.text import integer_text, plain_text

_MOST_CONTEXT: Final = 1 << 24
_MOST_CACHED: Final = 4


@dataclass(frozen=True)
class Shown:
    """What the page shows, made in a worker; of keys and tensors also what a filter looks in."""

    comparison: Comparison
    sizes: Sequence[SizeRow]
    roles: Sequence[RoleRow]
    keys: Sequence[KeyRow]
    searched: tuple[list[str], list[str]]

    @classmethod
    def of(cls, found: Comparison) -> Shown:
        """Make the rows of all tables; reads the first elements of arrays."""
        roles, keys = present.role_rows(found), present.key_rows(found)
        words = searched(KEYS, keys), searched(TENSORS, found.found.tensors)
        return cls(found, list(present.size_rows(found)), roles, keys, words)

    @property
    def found(self) -> Differences:
        return self.comparison.found


@dataclass(frozen=True)
class _Subject:
    """What is asked for: A, B, the original, tokens of the plan, and whether weights are read."""

    one: Document
    other: Document
    original: Document | None
    context: int
    measured: bool

    @property
    def documents(self) -> set[Document]:
        return {self.one, self.other} | ({self.original} if self.original is not None else set())


def _read(subject: _Subject, headers: Shown | None, job: Job) -> Shown:
    """Compare two models; called in a worker."""
    models = subject.one.model, subject.other.model
    if headers is None:
        headers = Shown.of(Comparison.of(*models, subject.context, job.check))
    if not subject.measured:
        return headers
    shown, total = headers, 0

    def begin(weights: int) -> None:
        nonlocal total
        total = weights
        report(0)

    def report(done: int) -> None:
        job.report(done, total)
        job.publish(lambda: (shown, done, total))

    errors = present.measure_errors(
        models,
        None if subject.original is None else subject.original.model,
        worker_count(),
        check=job.check,
        begin=begin,
        progress=report,
    )
    return Shown.of(headers.comparison.with_errors(errors))


class _SignColours(QSyntaxHighlighter):
    """Colours the lines of a text diff by the sign that they begin with."""

    def __init__(self, text: QPlainTextEdit) -> None:
        super().__init__(text.document())
        self._text = text
        text.installEventFilter(self)

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.PaletteChange:  # dark has become light
            self.rehighlight()
        return super().eventFilter(watched, event)

    def highlightBlock(self, text: str) -> None:
        style = QTextCharFormat()
        if text.startswith(("-", "+")):
            ink = ink_of(self._text.palette())
            style.setForeground(QColor(ink.warning if text[0] == "-" else ink.good))
        elif text.startswith("@@"):
            style.setForeground(self._text.palette().placeholderText())
        self.setFormat(0, len(text), style)


class _RowList(ListPanel):
    """A table with a filter that looks for words in all cells of a row."""

    def __init__(self, app: Services, parent: QWidget) -> None:
        super().__init__(app, "Filter by any word", "", parent)
        self._searched: list[str] = []
        self._hidden: NDArray[np.bool_] | None = None
        self._nothing = ""
        self.bar.changed.connect(lambda _: self._filter())

    def show_rows(
        self,
        described: Table[Row],
        rows: Sequence[Row],
        words: list[str],
        nothing: str,
        first: Collection[str],
    ) -> None:
        """Show other rows, with what is searched, and at first only some columns."""
        self._searched, self._nothing, self._hidden = words, nothing, None
        self.table.show_rows(described, rows, first=first)
        self._filter()

    def hide_rows(self, hidden: NDArray[np.bool_] | None) -> None:
        self._hidden = hidden
        self._filter()

    def _filter(self) -> None:
        words = self.bar.text.casefold().split()
        mask = np.array([all(word in text for word in words) for text in self._searched], np.bool_)
        if self._hidden is not None:
            mask &= ~self._hidden
        no_match = "Nothing matches. Press Escape in the filter to see all."
        self.show_matches(mask, no_match if words else self._nothing)


class DifferencePages(QObject):
    """The pages of two models, and what they show."""

    def __init__(self, app: Services, parent: QWidget) -> None:
        super().__init__(parent)
        self._shown: Shown | None = None
        self._parent = parent
        self.summary = plain_label(parent)
        self.summary.setWordWrap(True)
        self.summary.setTextInteractionFlags(SELECTABLE)
        self.summary.setAccessibleName("What the models differ in")
        self.sizes = TableView(TableModel(self), app, parent)
        self.plan = plain_label(parent)
        self.plan.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.plan.setWordWrap(True)
        self.plan.setContentsMargins(*NOTE)
        first = QWidget(parent)
        # a label whose text can be selected has no margins of its own (Qt 6.10)
        above = row((self.summary, 1), margins=LINE)
        column(above, (self.sizes, 1), self.plan, of=first)
        self.roles = TableView(TableModel(self), app, parent)
        second = QWidget(parent)
        self.meaning = error_caution(second)
        column((self.roles, 1), self.meaning, of=second)
        self.keys, self.tensors = _RowList(app, parent), _RowList(app, parent)
        self.only_differing = check(parent, "Only &what differs", on=True)
        self.only_differing.toggled.connect(lambda _: self._hide_equal())
        third = QWidget(parent)
        column(row(self.only_differing, 1, margins=LINE), (self.tensors, 1), of=third)
        self.text_list = choice(parent, "Texts that differ", "Texts that differ")
        self.text_list.activated.connect(self._show_text)
        self.text_note = ElidedLabel(parent)
        self.text = TextView(parent)
        self.text.text.setAccessibleName("Differences of the text")
        self._colours = _SignColours(self.text.text)
        self._texts = QWidget(parent)
        line = row(self.text_list, (self.text_note, 1), margins=LINE)
        column(line, (self.text, 1), of=self._texts)
        self.titles = {
            "Summary": first,
            "Types by role": second,
            "Metadata": self.keys,
            "Tensors": third,
            "Texts": self._texts,
        }
        self.tables = (self.sizes, self.roles, self.keys.table, self.tensors.table)

    def focus_search(self, page: QWidget | None) -> bool:
        """Put the cursor into the search of a page; return whether it has one."""
        if page is self._texts:
            self.text.focus_search()
        elif page is not None and (page is self.keys or page.isAncestorOf(self.tensors)):
            (self.keys if page is self.keys else self.tensors).focus_search()
        else:
            return False
        return True

    def clear(self) -> None:
        self._shown = None
        for table in self.tables:
            table.table.clear()
        self.text.clear()

    def show(self, shown: Shown) -> None:
        self._shown = shown
        comparison = shown.comparison
        lines = present.summary(comparison)
        self.summary.setText("\n".join(plain_text(line) for line in lines))
        self.plan.setText(f"Memory: {comparison.plan}")
        self.plan.setVisible(comparison.is_planned)
        self.sizes.show_rows(SIZES, shown.sizes)
        self.roles.show_rows(ROLES, shown.roles)
        keys, tensors = shown.searched
        same = "All keys are the same in both models."
        self.keys.show_rows(KEYS, shown.keys, keys, same, ("key", "change", "a", "b"))
        nothing = "All tensors have the same types and shapes."
        found = shown.found.tensors
        first = "tensor", "change", "type_a", "type_b", "bytes_a", "bytes_b", "reason"
        self.tensors.show_rows(TENSORS, found, tensors, nothing, first)
        self.tensors.hide_rows(self._equal_tensors())
        self._fill_texts()

    def _equal_tensors(self) -> NDArray[np.bool_] | None:
        if self._shown is None or not self.only_differing.isChecked():
            return None
        return np.array([tensor.kind == "same" for tensor in self._shown.found.tensors], np.bool_)

    def _hide_equal(self) -> None:
        if self._shown is not None:
            self.tensors.hide_rows(self._equal_tensors())

    def _fill_texts(self) -> None:
        assert self._shown is not None
        found = self._shown.found
        names = [plain_text(text.key) for text in found.texts]
        if found.vocabulary is not None:
            names.append("Vocabulary")
        self.text_list.clear()
        self.text_list.addItems(names)
        self.text_list.setVisible(bool(names))
        self._show_text(0)

    def _show_text(self, place: int) -> None:
        if self._shown is None:
            return
        found = self._shown.found
        if place < len(found.texts):
            text = found.texts[place]
            self.text_note.setText(
                f"Lines only in A: {integer_text(text.removed)}, only in B: "
                f"{integer_text(text.added)}"
            )
            self.text.show_text("\n".join(present.text_lines(text)))
        elif found.vocabulary is not None:
            self.text_note.setText(present.vocabulary_sentence(found.vocabulary))
            self.text.show_text("\n".join(present.vocabulary_lines(found.vocabulary)))
        else:
            self.text_note.setText("No chat template, vocabulary or long text differs.")
            self.text.clear()


class CompareView(TabbedPanel, Reader[Shown]):
    """The current model (B) beside the one that it is compared with (A).

    The headers are compared at once, the weights on request.
    """

    def __init__(
        self, app: Services, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(app, parent)
        self._references = references
        self._document: Document | None = None
        self._measured = False
        self._shown: Shown | None = None
        self._known: dict[_Subject, Shown] = {}
        self._saver = FileSaver(app, self)
        self._make_bar()
        self.sides = ElidedLabel(self.content)
        self.sides.setAccessibleName("The two models")
        self.sides.setContentsMargins(0, 0, 0, 0)
        above = QWidget(self.content)
        line = ((self.sides, 1), self.context, self.measure, self.save)
        row(*line, of=above, margins=NOTE, spacing=Space.NEAR)
        self.begin_tabs("Views of the differences", above)
        self.pages = DifferencePages(app, self)
        self.pages.tensors.table.row_opened.connect(self._open_tensor)
        for title, page in self.pages.titles.items():
            self.tabs.addTab(page, title)
        self.progress = ProgressLine(self.content)
        self.column.addWidget(self.progress)
        self.state.pressed.disconnect()  # what the panel does with its button: the reader's life
        self.begin_life(app, (self,), self.progress)
        references.changed.connect(self._follow_reference)
        references.documents_changed.connect(self._follow_documents)
        self._fill_originals()

    def _make_bar(self) -> None:
        self.bar = ReferenceBar(self._references, self)
        self.original = choice(self, "Original", present.ORIGINAL)
        self.original.setMinimumContentsLength(8)
        self.original.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.original.activated.connect(lambda _: self._choose_original())
        label = label_of(self.original, "&Original")
        self.context = QSpinBox(self)
        self.context.setGroupSeparatorShown(True)
        self.context.setRange(256, _MOST_CONTEXT)
        self.context.setSingleStep(1024)
        self.context.setValue(present.CONTEXT)
        self.context.setKeyboardTracking(False)
        self.context.setAccessibleName("Tokens of the plan")
        self.context.setToolTip(present.MEMORY)
        self.context.setSuffix(" tokens")
        self.context.valueChanged.connect(lambda _: self.load())
        self.measure = QPushButton("Compare &weights", self)
        self.measure.setToolTip(present.MEASURE)
        self.measure.clicked.connect(self._measure_weights)
        self.save = QPushButton("Save…", self)
        self.save.setToolTip("All differences as JSON")
        self.save.clicked.connect(self._ask_save)
        line = row((self.bar, 2), label, (self.original, 1))
        line.setContentsMargins(*LINE)
        line.setSpacing(Space.NEAR)
        self.frame.insertLayout(0, line)

    # What is compared

    def show_document(self, document: Document | None) -> None:
        """Show a model beside what it is compared with; None shows nothing."""
        if document is not self._document:
            self._document = document
            self._measured = False
            self._fill_originals()
            self.restart()

    def refresh(self) -> None:
        self.load()

    def focus_search(self) -> None:
        """Put the cursor into the filter in front; else into the choice of the other model."""
        if not (self.has_content and self.pages.focus_search(self.tabs.currentWidget())):
            self.bar.list.setFocus()

    def cancel(self) -> None:
        Reader.cancel(self)

    def _subject(self) -> _Subject | None:
        chosen = self._references.chosen
        if self._document is None or not isinstance(chosen, Document):
            return None
        if self._references.document is not self._document:
            return None
        original = self.original.currentData()
        if not isinstance(original, Document) or not self._measured:
            original = None
        context = self.context.value()
        return _Subject(chosen, self._document, original, context, self._measured)

    def request(self) -> Request[Shown] | Refusal | None:
        title = "Compare two models"
        if self._document is None:
            return Refusal(title, "Open a model to compare it with another one.")
        subject = self._subject()
        if subject is None:
            name = plain_text(self._document.title)
            sentence = f"Choose another model above to compare {name} with."
            if isinstance(self._references.chosen, Rounding):
                sentence = (
                    f"{name} is compared with its own weights in another type, which has no "
                    "header. Choose another model above."
                )
            return Refusal(title, sentence, "Open another model…")
        headers = self._known.get(_without_errors(subject))
        return Request(
            key=subject,
            title="Comparing two models",
            heading="Comparing the headers…",
            failure="The models could not be compared",
            work=partial(_read, subject, headers),
            known=lambda: self._known.get(subject),
        )

    def press(self) -> None:
        if self.phase is Phase.UNSUPPORTED and self._document is not None:
            self.app.ask_reference()
        else:
            self.load()

    def _follow_reference(self) -> None:
        subject = self._subject()
        if subject != self.request_key:
            self._measured = False
            self._fill_originals()
            if self._shown is not None and (subject is None or subject.one is not self._one):
                self.restart()
            else:
                self.load()

    @property
    def _one(self) -> Document | None:
        key = self.request_key
        return key.one if isinstance(key, _Subject) else None

    def _follow_documents(self) -> None:
        opened = set(self._references.documents)
        self._known = {key: one for key, one in self._known.items() if key.documents <= opened}
        key = self.request_key
        if isinstance(key, _Subject) and not key.documents <= opened:
            self._measured = False
            self.restart()
        self._fill_originals()

    def _fill_originals(self) -> None:
        """List the open models that both may be made of."""
        chosen = self.original.currentData()
        used = self._document, self._references.chosen
        others = [one for one in self._references.documents if one not in used]
        with QSignalBlocker(self.original):
            self.original.clear()
            self.original.addItem("none", None)
            for document in others:
                self.original.addItem(plain_text(document.title), document)
            self.original.setCurrentIndex(max(0, self.original.findData(chosen)))
        self.original.setEnabled(bool(others))

    def _choose_original(self) -> None:
        if self._measured:
            self.load()

    def _measure_weights(self) -> None:
        key = self.request_key
        read = key.documents if isinstance(key, _Subject) else set()
        if agrees_to_weights([each.model for each in read], self):
            self._measured = True
            self.load()

    # What is shown

    def show_begun(self) -> None:
        if self._measured:
            self.progress.start()

    def show_part(self, part: tuple[Shown, int, int]) -> None:
        shown, done, total = part
        self._show(shown)
        self.progress.show_progress(done, total)

    def show_result(self, result: Shown) -> None:
        key = self.request_key
        assert isinstance(key, _Subject)
        self._known.pop(key, None)
        self._known[key] = result
        for old in list(self._known)[:-_MOST_CACHED]:
            del self._known[old]
        self._show(result)

    def clear(self) -> None:
        self._shown = None
        self.pages.clear()
        self._follow_state()

    def show_ended(self) -> None:
        super().show_ended()
        self._follow_state()

    def _follow_state(self) -> None:
        self.save.setEnabled(self._shown is not None)
        self.measure.setEnabled(self._shown is not None and not self.progress.running)

    def _show(self, shown: Shown) -> None:
        if shown is self._shown:
            return
        self._shown = shown
        one, other = (plain_text(model.path.name) for model in shown.found.models)
        self.sides.setText(f"A  {one}     B  {other}")
        self.pages.show(shown)
        self.show_content()
        self._follow_state()

    def _open_tensor(self, place: int) -> None:
        if self._shown is None or self._document is None:
            return
        tensor = self._shown.found.tensors[place].after
        names = self._document.model.tensors.columns.names
        if tensor is not None and tensor.name in names:
            self.app.open_tensors(list(names).index(tensor.name))

    # Saving

    def _ask_save(self) -> None:
        if self._shown is None:
            return
        name = file_name(f"diff-{self._shown.found.models[1].path.stem}", "diff")
        path = self._saver.ask_path("Save the differences", name, {"JSON": ".json"})
        if path is not None:
            self.save_as(path)

    def save_as(self, path: Path) -> Job | None:
        """Write what `gguf-explorer diff --json` would print, in the background."""
        shown = self._shown
        if shown is None:
            return None
        one, other = shown.found.models

        def write(_job: Job) -> None:
            record = present.document(shown.comparison, (str(one.path), str(other.path)))
            with write_atomically(path) as stream:
                stream.write(json_document(record))

        return self._saver.write(f"Saving {path.name}", path, write)


def _without_errors(subject: _Subject) -> _Subject:
    return _Subject(subject.one, subject.other, None, subject.context, measured=False)
