"""The summary of what is compared: what A and B differ in, and how far they are apart."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import (
    QColor,
    QDragEnterEvent,
    QDropEvent,
    QHideEvent,
    QPalette,
    QShowEvent,
    QSyntaxHighlighter,
    QTextCharFormat,
)
from PySide6.QtWidgets import QPlainTextEdit, QPushButton, QTabWidget, QWidget

from explorer.analysis.differences import Differences, TensorDifference
from explorer.analysis.what_if import pareto_front
from explorer.errors import ExplorerError
from explorer.formats.facts import describe
from explorer.planner.logs.perplexity import Quality, read_quality
from explorer.present import differences as present
from explorer.present.differences import Comparison
from explorer.present.explanations import picture_text
from explorer.present.panels import PANELS
from explorer.present.tables.differences import (
    KEYS,
    ROLES,
    SIZES,
    TENSORS,
    KeyRow,
    RoleRow,
    SizeRow,
    searched,
    with_b_called,
)
from explorer.present.tables.table import Row, Table
from explorer.present.tables.what_if import Trial
from explorer.qt.addresses import dropped_logs
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobSlot
from explorer.qt.references import Rounding
from explorer.qt.services import Services
from explorer.qt.survey.session import ComparisonContent, SurveySession, SurveyState
from explorer.qt.theme import Space, TextSize, ink_of, style_text
from explorer.qt.what_if.chart import Measure, WhatIfChart, mebibytes_of
from explorer.qt.widgets.asking import ask_files
from explorer.qt.widgets.building import LINE, NOTE, column, row
from explorer.qt.widgets.controls import choice, picture_buttons, split
from explorer.qt.widgets.figures import PlotExport
from explorer.qt.widgets.labels import ElidedLabel, error_caution, plain_label, text_label
from explorer.qt.widgets.lazy import TabbedPanel
from explorer.qt.widgets.pages import Reader, Refusal, Request, no_model_open
from explorer.qt.widgets.segments import segmented
from explorer.qt.widgets.table_model import TableModel
from explorer.qt.widgets.table_view import ListPanel, TableView
from explorer.qt.widgets.text_view import TextView
from explorer.text import integer_text, plain_text

_SHOWN_NAMES: Final = 3
_MOST_CACHED: Final = 4


@dataclass(frozen=True)
class Shown:
    """What the page shows, made in a worker; of keys and tensors also what a filter looks in.

    Attributes:
        tensors: Those that differ.
    """

    comparison: Comparison
    headline: str
    points: Sequence[Trial]
    sizes: Sequence[SizeRow]
    roles: Sequence[RoleRow]
    keys: Sequence[KeyRow]
    tensors: Sequence[TensorDifference]
    searched: tuple[list[str], list[str]]

    @classmethod
    def of(cls, found: Comparison) -> Shown:
        """Make the rows of all tables; reads the first elements of arrays."""
        roles, keys = present.role_rows(found), present.key_rows(found)
        tensors = [tensor for tensor in found.found.tensors if tensor.kind != "same"]
        words = searched(KEYS, keys), searched(TENSORS, tensors)
        points, sizes = present.chart_lines(found), list(present.size_rows(found))
        return cls(found, found.headline, points, sizes, roles, keys, tensors, words)

    def of_errors(self, comparison: Comparison) -> Shown:
        """Return the same with what another comparison of the two knows of errors."""
        return replace(
            self,
            comparison=comparison,
            headline=comparison.headline,
            points=present.chart_lines(comparison),
            sizes=list(present.size_rows(comparison)),
            roles=present.role_rows(comparison),
        )

    @property
    def found(self) -> Differences:
        return self.comparison.found


@dataclass(frozen=True)
class _Subject:
    """What is asked for: A, and B, or the original in its place."""

    one: Document
    other: Document
    original: bool


def _read(subject: _Subject, job: Job) -> Shown:
    """Compare the headers of two models; called in a worker."""
    models = subject.one.model, subject.other.model
    found = Comparison.of(*models, check=job.check)
    return Shown.of(replace(found, other="the original") if subject.original else found)


def _with_errors(
    shown: Shown,
    sides: Sequence[ComparisonContent],
    original: str | None,
    measured: Sequence[Quality],
) -> Shown:
    """Add what is known of errors, of A and B by role, and what others measured; in a worker."""
    comparison, found = shown.comparison.with_measured(measured), shown.found
    if not sides:
        return shown.of_errors(comparison)
    roles = {
        side.name: tensor.role
        for tensor in found.tensors
        for side in (tensor.before, tensor.after)
        if side is not None
    }
    one, other, *_ = [
        *(
            None
            if side.missing.any()  # of some tensors figures would mislead
            else side.errors.by_role(side.document.model.tensors.columns, roles)
            for side in sides
        ),
        None,
    ]
    problems = {
        f"{letter}, {side.pairs[place].candidate_name}": what
        for letter, side in zip("AB", sides, strict=False)
        for place, what in side.problems.items()
    }
    errors = present.Errors(original, (one, other), problems)
    return shown.of_errors(comparison.with_errors(errors))


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
        self._searched, self._nothing = words, nothing
        self.table.show_rows(described, rows, first=first)
        self._filter()

    def _filter(self) -> None:
        words = self.bar.text.casefold().split()
        mask = np.array([all(word in text for word in words) for text in self._searched], np.bool_)
        no_match = "Nothing matches. Press Escape in the filter to see all."
        self.show_matches(mask, no_match if words else self._nothing)


class DifferencePages(QObject):
    """The pages of two models, and what they show."""

    def __init__(self, app: Services, parent: QWidget) -> None:
        super().__init__(parent)
        self._shown: Shown | None = None
        self.summary = text_label("", parent)
        self.summary.setAccessibleName("What the models differ in")
        self.sizes = TableView(TableModel(self), app, parent)
        self.plan = plain_label(parent, wraps=True)
        self.plan.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.plan.setToolTip(present.MEMORY)
        self.plan.setContentsMargins(*NOTE)
        first = QWidget(parent)
        # a label whose text can be selected has no margins of its own (Qt 6.10)
        below = row((self.summary, 1), margins=NOTE)
        column((self.sizes, 1), self.plan, below, of=first)
        self.roles = TableView(TableModel(self), app, parent)
        second = QWidget(parent)
        self.meaning = error_caution(second)
        column((self.roles, 1), self.meaning, of=second)
        self.keys, self.tensors = _RowList(app, parent), _RowList(app, parent)
        self.text_list = choice(parent, "Texts that differ", "Texts that differ")
        self.text_list.activated.connect(self._show_text)
        self.text_note = ElidedLabel(parent)
        self.text = TextView(parent)
        self.text.text.setAccessibleName("Differences of the text")
        self._colours = _SignColours(self.text.text)
        self._texts = QWidget(parent)
        line = row(self.text_list, (self.text_note, 1), margins=LINE)
        column(line, (self.text, 1), of=self._texts)
        pages = first, second, self.keys, self.tensors, self._texts
        self.titles = dict(zip(PANELS["compare"].tabs, pages, strict=True))
        self.tables = (self.sizes, self.roles, self.keys.table, self.tensors.table)

    def focus_search(self, page: QWidget | None) -> bool:
        """Put the cursor into the search of a page; return whether it has one."""
        if page is self._texts:
            self.text.focus_search()
        elif isinstance(page, ListPanel):
            page.focus_search()
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
        self.summary.setText("\n".join(map(plain_text, present.notes(comparison))))
        self.plan.setText(f"Memory: {comparison.plan}")
        self.plan.setVisible(comparison.is_planned)
        named = partial(with_b_called, other=comparison.other)
        self.sizes.show_rows(named(SIZES), shown.sizes)
        self.roles.show_rows(named(ROLES), shown.roles)
        keys, tensors = shown.searched
        same = "All keys are the same in both models."
        self.keys.show_rows(named(KEYS), shown.keys, keys, same, ("key", "change", "a", "b"))
        nothing = "All tensors have the same types and shapes."
        first = "tensor", "change", "type_a", "type_b", "bytes_a", "bytes_b", "reason"
        self.tensors.show_rows(named(TENSORS), shown.tensors, tensors, nothing, first)
        self._fill_texts()

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
                f"Lines only in A: {integer_text(text.removed)}, only in "
                f"{self._shown.comparison.other}: {integer_text(text.added)}"
            )
            self.text.show_text("\n".join(present.text_lines(text)))
        elif found.vocabulary is not None:
            other = self._shown.comparison.other
            self.text_note.setText(present.vocabulary_sentence(found.vocabulary, other))
            self.text.show_text("\n".join(present.vocabulary_lines(found.vocabulary)))
        else:
            self.text_note.setText("No chat template, vocabulary or long text differs.")
            self.text.clear()


class CompareView(TabbedPanel, Reader[Shown]):
    """A beside B, or beside the original where there is no B.

    The headers are compared at once. Errors are those that the session knows.
    """

    def __init__(self, app: Services, session: SurveySession) -> None:
        super().__init__(app)
        self.session = session
        self._references = session.references
        self._document: Document | None = None
        self._headers: Shown | None = None
        self._shown: Shown | None = None
        self._known: dict[_Subject, Shown] = {}
        self._adding = JobSlot(app.runner, self)
        self._measuring = JobSlot(app.runner, self)
        self._make_controls()
        self._above = QWidget(self.content)
        line = row((self.headline, 1), self.add_measured, margins=NOTE, spacing=Space.NEAR)
        below = row(self.measure, 1, *self.picture_buttons, margins=NOTE, spacing=Space.NEAR)
        column((self.chart, 1), below, of=self._above)
        self.tabs = segmented(QTabWidget(self.content), "What changed")
        parts = (self._above, 260), (self.tabs, 260)
        self.splitter = split(self.content, *parts, vertical=True)
        column(line, (self.splitter, 1), of=self.content)
        self.pages = DifferencePages(app, self)
        self.pages.tensors.table.row_opened.connect(self._open_tensor)
        for title, page in self.pages.titles.items():
            self.tabs.addTab(page, title)
        self.begin_life(app, (self,))
        self._references.changed.connect(self._follow_references)
        self._references.documents_changed.connect(self._follow_documents)
        session.state_changed.connect(self._add_errors)

    def _make_controls(self) -> None:
        self.headline = text_label("", self.content)
        self.headline.setAccessibleName("What B takes and loses")
        style_text(self.headline, TextSize.SECTION, strong=True)
        self.chart = WhatIfChart(self.content, by_size=True)
        self.chart.setWhatsThis(picture_text("compare_chart"))
        self.export = PlotExport(self.app, self)
        self.chart.export_requested.connect(self.ask_picture)
        self.chart.copy_requested.connect(lambda: self.export.copy(self.chart))
        self.measure = choice(self.content, "Drawn upwards", "What the chart draws upwards")
        self.measure.activated.connect(lambda _: self._choose_measure())
        self.add_measured = QPushButton("Add &perplexity…", self)
        self.add_measured.setToolTip(
            "Output of llama-perplexity, or a CSV: model, ppl, kld. Files can be dropped here, too"
        )
        self.add_measured.clicked.connect(self._ask_measured)
        self.setAcceptDrops(True)
        self.picture_buttons = picture_buttons(
            self, lambda: self.export.copy(self.chart), self.ask_picture, place="chart"
        )

    # What is compared

    def show_document(self, document: Document | None) -> None:
        """Show a model beside what it is compared with; None shows nothing."""
        self.session.show_document(document)
        if document is not self._document:
            self._document = document
            self.restart()

    def focus_search(self) -> None:
        """Put the cursor into the filter in front; else go to the views."""
        if not (self.has_content and self.pages.focus_search(self.tabs.currentWidget())):
            self.tabs.tabBar().setFocus()

    def cancel(self) -> None:
        self.session.cancel()
        Reader.cancel(self)

    def _subject(self) -> _Subject | None:
        references = self._references
        beside = references.other or references.chosen
        if self._document is None or references.document is not self._document:
            return None
        if not isinstance(beside, Document):
            return None
        return _Subject(self._document, beside, references.other is None)

    def request(self) -> Request[Shown] | Refusal | None:
        title = "Compare two models"
        if self._document is None:
            sentence = "Open a model to compare it with another one."
            return no_model_open(self.app, title, sentence)
        subject = self._subject()
        if subject is None:
            name = plain_text(self._document.title)
            sentence = f"Choose B or the original above to compare {name} with."
            if isinstance(self._references.chosen, Rounding):
                sentence = (
                    f"{name} is compared with its own weights in another type, which has no "
                    "header. Choose B or the original above."
                )
            return Refusal(title, sentence, "Open another model…", self.app.ask_reference)
        return Request(
            key=subject,
            title="Comparing two models",
            heading="Comparing the headers…",
            failure="The models could not be compared",
            work=partial(_read, subject),
            known=lambda: self._known.get(subject),
        )

    def _follow_references(self) -> None:
        if self._subject() != self.request_key:
            self._headers = None
            self.restart()
        elif self._references.measured:
            self._add_errors()

    def _follow_documents(self) -> None:
        opened = set(self._references.documents)
        self._known = {k: one for k, one in self._known.items() if {k.one, k.other} <= opened}
        key = self.request_key
        if isinstance(key, _Subject) and not {key.one, key.other} <= opened:
            self.restart()

    # What is shown

    def show_result(self, result: Shown) -> None:
        key = self.request_key
        assert isinstance(key, _Subject)
        self._known.pop(key, None)
        self._known[key] = result
        for old in list(self._known)[:-_MOST_CACHED]:
            del self._known[old]
        self._headers = result
        self._show(result)
        self._add_errors()

    def _add_errors(self) -> None:
        """Add the errors of each model whose tensors were all compared."""
        session, headers = self.session, self._headers
        rounded = isinstance(self._references.chosen, Rounding)  # an error of neither model
        compared = () if rounded else session.comparisons
        if all(one.missing.any() for one in compared):
            compared = ()
        measured = self._references.measured
        if headers is None or session.state is not SurveyState.READY:
            return
        if not compared and not measured:
            self._adding.cancel()
            self._show(headers)  # what was shown may be of another original
            return
        original = self._references.original
        path = str(original.path) if isinstance(original, Document) else None
        self._adding.run(
            "Adding up errors",
            lambda _job: _with_errors(headers, compared, path, measured),
            self._show_errors,
            self.app.report,
        )

    def _show_errors(self, shown: Shown) -> None:
        if self._headers is not None and shown.found is self._headers.found:
            self._show(shown)

    def clear(self) -> None:
        self._shown = self._headers = None
        self._adding.cancel()
        self.pages.clear()

    def _show(self, shown: Shown) -> None:
        if shown is self._shown:
            return
        self._shown = shown
        self.headline.setText(shown.headline)
        lines = self._draw(shown)
        # what is not known is not offered, and without any figure there is nothing to draw
        known = {name for line in lines for name in line.given}
        offered = [measure for measure in Measure if measure.axis.figure in known]
        before = self.chart.measure if self.chart.measure in offered else [*offered, None][0]
        self.measure.clear()
        for measure in offered:
            self.measure.addItem(measure.axis.title, measure)
        if before is not None:
            self.measure.setCurrentIndex(offered.index(before))
            self._choose_measure()
        self._above.setVisible(bool(offered))
        self.pages.show(shown)
        self.show_content()

    def _draw(self, shown: Shown) -> list[Trial]:
        """Draw both models, and recipes as far as *What if?* has measured them."""
        lines = [*shown.points, *self._references.recipes]
        axis = self.chart.measure.axis
        sign = -1 if axis.best > 0 else 1  # the front is of what is small
        heights = [one.figure(axis.figure) for one in lines]
        points = [
            (mebibytes_of(one), math.nan if height is None else sign * height)
            for one, height in zip(lines, heights, strict=True)
        ]
        front = zip(lines, pareto_front(points), strict=True)
        self.chart.show_lines([replace(one, front=on or not one.given) for one, on in front])
        return lines

    def _choose_measure(self) -> None:
        self.chart.set_measure(self.measure.currentData())
        if self._shown is not None:
            self._draw(self._shown)  # other points are the best trade-offs

    def _open_tensor(self, place: int) -> None:
        if self._shown is None or self._document is None:
            return
        tensor = self._shown.tensors[place].before
        names = self._document.model.tensors.columns.names
        if tensor is not None and tensor.name in names:
            self.app.open_tensors(list(names).index(tensor.name))

    # What others measured

    def _ask_measured(self) -> None:
        kinds = "Logs and tables (*.txt *.log *.csv *.tsv);;All files (*)"
        title = "Perplexity or KL divergence"
        paths = ask_files(self.app, self, title, "measured", kinds)
        if paths:
            self.add_measured_of(paths)

    def add_measured_of(self, paths: Sequence[Path]) -> None:
        """Read what others measured, and show it beside the errors."""

        def show(found: Mapping[Path, Sequence[Quality]]) -> None:
            shown = self._shown
            models = () if shown is None else shown.found.models
            kinds = [(model.path, describe(model).file_type) for model in models]
            for path, measured in found.items():
                if any(one.is_of(*kind) for one in measured for kind in kinds):
                    self._references.add_measured(measured)
                    continue
                names = ", ".join(plain_text(one.model) for one in measured[:_SHOWN_NAMES])
                what = (
                    f"It is of {names}: neither A nor B. Call the file after the model, as in "
                    "model-Q4_K_M.txt"
                )
                self.app.report(ExplorerError(what, path))

        title = f"Reading {', '.join(plain_text(path.name) for path in paths[:_SHOWN_NAMES])}"
        work = lambda _job: {path: read_quality(path) for path in paths}  # noqa: E731 - of one expression
        self._measuring.run(title, work, show, self.app.report)

    def ask_picture(self) -> None:
        """Ask for a file, and save the chart or its data into it."""
        if self._document is not None:
            self.export.ask(self.chart, f"{self._document.title} error against size")

    # Qt

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_logs(event.mimeData()):
            event.acceptProposedAction()
        else:
            event.ignore()  # a model, which the window opens

    def dropEvent(self, event: QDropEvent) -> None:
        paths = dropped_logs(event.mimeData())
        if paths:
            event.acceptProposedAction()
            self.add_measured_of(paths)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.session.watch(self, True)
        if self._shown is not None:
            self._draw(self._shown)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.session.watch(self, False)
