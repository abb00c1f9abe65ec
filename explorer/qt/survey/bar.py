"""Controls of a survey, the notice above a view that lacks data, and pages that need no survey.

They are the type mix, and what an adapter changes or an importance matrix knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from pathlib import Path
from typing import TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from PySide6.QtCore import QByteArray, QEvent, QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QProgressBar, QPushButton, QSplitter, QWidget

from explorer.analysis.columns import Source
from explorer.analysis.importance import SUMS, EntryStatistics
from explorer.analysis.recipes.fits import (
    Deviation,
    MixRow,
    RecipeFit,
    compare_with_recipes,
    type_mix,
)
from explorer.analysis.recipes.rules import RULES_SOURCE
from explorer.formats.model import Model
from explorer.present import attachments
from explorer.present.explanations import FACT_TEXTS, MIX_TEXTS, RECIPE_TEXTS, picture_text
from explorer.present.recipes import layer_runs, verdict
from explorer.present.survey import METRICS, Metric
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.references import ReferenceBar
from explorer.qt.survey.map_paint import Scale
from explorer.qt.survey.session import SurveySession, SurveyState
from explorer.qt.theme import Space, TextSize, style_text
from explorer.qt.widgets.building import LINE, NOTE, column, row
from explorer.qt.widgets.labels import SELECTABLE, ElidedLabel, plain_label
from explorer.qt.widgets.pages import ReadingPage, Request
from explorer.qt.widgets.plot_panel import RangeFields
from explorer.qt.widgets.progress import Pace, ProgressLine
from explorer.qt.widgets.table_model import Column, RowColumns, TableModel
from explorer.qt.widgets.table_view import TableView
from explorer.text import (
    bits_text,
    bytes_text,
    count_text,
    integer_text,
    part_text,
    plain_text,
    shape_text,
    signed_text,
)

Found = TypeVar("Found")
Rows: TypeAlias = "list[attachments.UpdateRow] | list[attachments.EntryRow]"
"""What an adapter changes, or an importance matrix knows."""


@dataclass(frozen=True, slots=True)
class TypeMix:
    """Types of a file by role, the recipes that fit, best first, and the result in a sentence."""

    verdict: str
    rows: Sequence[MixRow]
    fits: Sequence[RecipeFit]
    nbytes: int

    @classmethod
    def of(cls, model: Model) -> TypeMix:
        """Compare a model with known recipes; for a worker.

        Raises:
            ExplorerError: The file changed since it was opened.
        """
        fits = compare_with_recipes(model)
        return cls(verdict(model, fits), type_mix(model), fits, model.nbytes)


def mix_columns(rows: Sequence[MixRow]) -> list[Column]:
    """Return the columns of the types by role."""
    table = RowColumns(rows, MIX_TEXTS)
    kind = table.words("type", "Type", lambda row: row.type)
    columns = [
        table.words("role", "Role", lambda row: row.role),
        replace(kind, type_name=lambda row: rows[row].type),
        table.number("tensors", "Tensors", lambda row: row.tensors, integer_text),
        table.number("parameters", "Parameters", lambda row: row.parameters, count_text),
        table.number("bytes", "Size", lambda row: row.nbytes, bytes_text),
        table.number("bits_per_weight", "Bits/weight", lambda row: row.bits_per_weight, bits_text),
    ]
    spare = {"bits_per_weight": 2, "parameters": 1}  # bits follow from the type
    return [replace(one, spare=spare.get(one.name, 0)) for one in columns]


def fit_columns(fits: Sequence[RecipeFit], nbytes: int) -> list[Column]:
    """Return the columns of recipes, compared with the bytes of the file's tensors."""
    table = RowColumns(fits, RECIPE_TEXTS)
    return [
        table.words("recipe", "Recipe", _recipe_name),
        table.number("agreeing", "Agreeing", lambda fit: fit.share, part_text),
        table.number("groups", "Deviations", lambda fit: len(fit.deviations), integer_text),
        replace(table.number("bytes", "Size by it", lambda fit: fit.nbytes, bytes_text), spare=1),
        table.number("difference", "Difference", lambda fit: nbytes - fit.nbytes, _signed_bytes),
    ]


def deviation_columns(deviations: Sequence[Deviation]) -> list[Column]:
    """Return the columns of what differs from a recipe."""
    table = RowColumns(deviations, MIX_TEXTS)
    present = table.words("present", "Type", lambda one: one.present, meaning="type")
    expected = table.words("expected", "Expected", lambda one: one.expected or "left unquantized")
    return [
        table.words("role", "Role", lambda one: one.role),
        table.words("layers", "Layers", lambda one: layer_runs(one.layers or ())),
        replace(present, type_name=lambda row: deviations[row].present, spare=-1),
        replace(expected, type_name=lambda row: deviations[row].expected or None, spare=-1),
        table.number("tensors", "Tensors", lambda one: one.tensors, integer_text),
        table.number("parameters", "Parameters", lambda one: one.parameters, count_text),
    ]


def _recipe_name(fit: RecipeFit) -> str:
    text = "{recipe} (as the file says)" if fit.declared else "{recipe}"
    return text.format(recipe=fit.recipe)


def _signed_bytes(nbytes: int) -> str:
    return signed_text(nbytes, bytes_text)


class _ModelPage(ReadingPage[Found]):
    """A page of what is read of the survey's model; it lets go of a model when another is shown.

    Attributes:
        about: Says what is in the file.

    Signals:
        exported: A file was written; its path.
        failed: A file could not be written; an `ExplorerError`.
    """

    exported = Signal(str)
    failed = Signal(object)

    def __init__(
        self, session: SurveySession, name: str, meaning: str, parent: QWidget | None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._document: Document | None = None
        self.about = plain_label(self)
        self.about.setWordWrap(True)
        self.about.setContentsMargins(*LINE)
        self.about.setTextInteractionFlags(SELECTABLE)
        self.about.setAccessibleName(name)
        self.about.setWhatsThis(meaning)
        session.replaced.connect(self.refresh)

    def _table(self, runner: JobRunner, name: str) -> TableView:
        table = TableView(TableModel(self), runner, self)
        table.setAccessibleName(name)
        table.exported.connect(self.exported)
        table.failed.connect(self.failed)
        return table

    def refresh(self) -> None:
        """Show the current model once the page is visible; drop any other one now."""
        if self._session.document is self._document:
            self.load()
        else:
            self._document = self._session.document
            self.restart()


class TypeMixPage(_ModelPage[TypeMix]):
    """Types by role, the recipes that fit best, and how the file differs from the selected one."""

    def __init__(
        self, session: SurveySession, runner: JobRunner, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, "What is in the file", picture_text("verdict"), parent)
        self._mix: TypeMix | None = None
        self._known: WeakKeyDictionary[Document, TypeMix] = WeakKeyDictionary()
        self.roles = self._table(runner, "Types by role")
        self.recipes = self._table(runner, "Recipes, the best first")
        self.deviations = self._table(runner, "Deviations from the recipe")
        self.caption = plain_label(self)
        self.caption.setWhatsThis(picture_text("deviations"))
        self.caption.setContentsMargins(*LINE)
        self.recipes.row_selected.connect(self._show_deviations)
        self._lay_out()
        self.begin_life(runner, (self,))

    def _lay_out(self) -> None:
        right = QWidget(self)
        column((self.recipes, 3), self.caption, (self.deviations, 2), of=right)
        splitter = QSplitter(self)
        splitter.addWidget(self.roles)
        splitter.addWidget(right)
        splitter.setSizes([4, 5])
        splitter.setChildrenCollapsible(False)
        policy = self.deviations.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # the recipes must not jump while one looks at each
        self.deviations.setSizePolicy(policy)
        source = plain_label(self, RULES_SOURCE)
        source.setWhatsThis(picture_text("rules"))
        source.setWordWrap(True)
        source.setContentsMargins(*NOTE)
        style_text(source, TextSize.CAPTION)
        column(self.about, (splitter, 1), source, of=self.content)

    def clear(self) -> None:
        self._mix = None

    def request(self) -> Request[TypeMix] | None:
        document = self._document
        if document is None:
            return None
        return Request(
            key=document,
            title="Comparing with known recipes",
            heading="Comparing with known recipes…",
            failure="The types could not be compared",
            work=lambda _job: TypeMix.of(document.model),
            known=lambda: self._known.get(document),
        )

    def show_result(self, result: TypeMix) -> None:
        assert self._document is not None
        self._mix = self._known[self._document] = result
        self.about.setText(result.verdict)
        self._fill(self.roles, mix_columns(result.rows), len(result.rows))
        self._fill(self.recipes, fit_columns(result.fits, result.nbytes), len(result.fits))
        if result.fits:
            declared = next((row for row, fit in enumerate(result.fits) if fit.declared), 0)
            self.recipes.select_row(declared)
        else:
            self._fill(self.deviations, [], 0)
            self.caption.clear()
        self.show_content()

    def _show_deviations(self, row: int) -> None:
        if self._mix is None:
            return
        fit = self._mix.fits[row]
        words = "Different from {recipe}:"
        if not fit.deviations:
            words = "Nothing is different from {recipe}."
        self.caption.setText(words.format(recipe=fit.recipe))
        self._fill(self.deviations, deviation_columns(fit.deviations), len(fit.deviations))
        self.deviations.setVisible(bool(fit.deviations))

    @staticmethod
    def _fill(table: TableView, columns: list[Column], count: int) -> None:
        table.table.set_content(columns, count)
        table.show_columns(QByteArray())


class AttachedPage(_ModelPage[Rows]):
    """What an adapter changes and how much, or which columns an importance matrix knows.

    Signals:
        tensor_opened: A line was opened; the content row of the tensor that holds its numbers.
    """

    tensor_opened = Signal(int)

    def __init__(
        self, session: SurveySession, runner: JobRunner, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, "What the file is", FACT_TEXTS["kind"], parent)
        self._references = session.references
        self._known: WeakKeyDictionary[Document, dict[Path | None, Rows]] = WeakKeyDictionary()
        self.table = self._table(runner, "")
        self.table.row_opened.connect(self._open)
        column(self.about, (self.table, 1), of=self.content)
        self.progress = ProgressLine(self)
        self.frame.addWidget(self.progress)
        self.begin_life(runner, (self,), self.progress)
        self._references.changed.connect(self.load)

    def clear(self) -> None:
        self.table.table.set_content((), 0)

    @property
    def _base(self) -> Document | None:
        chosen = self._references.chosen
        own = self._references.document is self._document
        return chosen if own and isinstance(chosen, Document) else None

    def request(self) -> Request[Rows] | None:
        document, base = self._document, self._base
        if document is None or not document.kind:
            return None
        path = None if base is None else base.path

        def read(job: Job) -> Rows:
            def progress(done: int, total: int) -> None:
                job.report(done, total)
                job.publish(lambda: (done, total))

            if document.is_importance_matrix:
                return list(attachments.measure_matrix(document.model, job.check, progress))
            other = None if base is None else base.model
            return list(attachments.measure_updates(document.model, other, job.check, progress))

        return Request(
            key=(document, path),
            title=f"Measuring {plain_text(document.title)}",
            heading="Reading the numbers…",
            failure="The numbers could not be read",
            work=read,
            known=lambda: self._known.get(document, {}).get(path),
        )

    def show_part(self, part: tuple[int, int]) -> None:
        self.progress.show_progress(*part)

    def show_result(self, result: Rows) -> None:
        document, base = self._document, self._base
        assert document is not None
        self._known.setdefault(document, {})[None if base is None else base.path] = result
        caption = document.kind
        updates = [row for row in result if isinstance(row, attachments.UpdateRow)]
        entries = [row for row in result if isinstance(row, attachments.EntryRow)]
        if updates and base is None:
            caption += "\n" + "Choose above the model that it changes: then its norms stand beside."
        self.about.setText(caption)
        columns = update_columns(updates) if updates else entry_columns(entries)
        self.table.setAccessibleName(
            "What the adapter changes" if updates else "Importance of columns"
        )
        self.table.table.set_content(columns, len(result))
        hidden = {"problem"} if not any(row.problem for row in result) else set()
        if all(row.found is None or row.found.entry.matrices == 1 for row in entries):
            hidden |= {"matrices", "unused"}
        self.table.show_columns(QByteArray(), hidden)
        self.show_content()

    def _open(self, place: int) -> None:
        """Open what a line was measured from: a factor of an update, sums of importance."""
        document, base = self._document, self._base
        assert document is not None
        lines = self._known[document].get(None if base is None else base.path)
        if lines is None:  # another base has just been chosen
            return
        line = lines[place]
        if isinstance(line, attachments.EntryRow):
            name = f"{line.name}{SUMS}"
        else:
            factor = line.update.b or line.update.a
            assert factor is not None  # an update has one at least
            name = factor.name
        self.tensor_opened.emit(document.model.tensors.columns.names.index(name))


def update_columns(rows: Sequence[attachments.UpdateRow]) -> list[Column]:
    """Return the columns of what an adapter changes."""
    of = RowColumns(rows, attachments.TEXTS)
    number, norm = of.number, attachments.norm_text
    return [
        of.words("tensor", "Tensor", lambda row: row.update.name),
        number("rank", "Rank", lambda row: row.update.rank, integer_text),
        of.words("shape", "Shape", lambda row: shape_text(row.update.shape)),
        number("scale", "Scale", lambda row: row.update.scale, norm),
        number("norm", "Norm of the update", lambda row: row.norm, norm),
        number("base_norm", "Norm of the base", lambda row: row.base_norm, norm),
        number("relative", "Relative", lambda row: row.relative, attachments.share_text),
        number("bytes", "Size", lambda row: row.update.nbytes, bytes_text),
        of.words("problem", "Problem", lambda row: row.problem),
    ]


def entry_columns(rows: Sequence[attachments.EntryRow]) -> list[Column]:
    """Return the columns of what an importance matrix knows of tensors."""
    of = RowColumns(rows, attachments.TEXTS)

    def figure(
        name: str, title: str, value: Callable[[EntryStatistics], float], text: Callable[..., str]
    ) -> Column:
        return of.number(
            name, title, lambda row: nan if row.found is None else value(row.found), text
        )

    def words(name: str, title: str, text: Callable[[EntryStatistics], str]) -> Column:
        return of.words(name, title, lambda row: "" if row.found is None else text(row.found))

    def count(value: float) -> str:
        return integer_text(int(value)) if isfinite(value) else ""

    norm, share = attachments.norm_text, attachments.share_text
    return [
        of.words("tensor", "Tensor", lambda row: row.name),
        figure("columns", "Columns", lambda found: found.entry.columns, count),
        figure("matrices", "Matrices", lambda found: found.entry.matrices, count),
        figure("unused", "Not used", lambda found: found.unused, count),
        words("uses", "Uses", attachments.uses_text),
        words("top_columns", "Columns that matter most", attachments.columns_text),
        figure("top_share", "Share of the top 1 %", lambda found: found.top_share, share),
        figure("evenness", "Evenness", lambda found: found.evenness, share),
        figure("minimum", "Minimum", lambda found: found.minimum, norm),
        figure("mean", "Mean", lambda found: found.mean, norm),
        figure("std", "Standard deviation", lambda found: found.std, norm),
        figure("maximum", "Maximum", lambda found: found.maximum, norm),
        figure("peak", "Maximum / mean", attachments.peak, norm),
        of.words("problem", "Problem", lambda row: row.problem),
    ]


_STEPS = 1000


class SurveyBar(QWidget):
    """Controls of a survey, and how far it is.

    Signals:
        open_requested: The user wants to open a model to compare with.
    """

    open_requested = Signal()

    def __init__(self, session: SurveySession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._pace = Pace()
        self.reference = ReferenceBar(session.references, self)
        self.reference.open_requested.connect(self.open_requested)
        self.start = QPushButton(self)
        self.start.clicked.connect(session.start)
        self.pause = QPushButton(self)
        self.pause.clicked.connect(self._pause_or_resume)
        self.cancel = QPushButton("Cancel", self)
        self.cancel.setToolTip("Escape; what is known stays known")
        self.cancel.clicked.connect(session.cancel)
        self.bar = QProgressBar(self)
        self.bar.setTextVisible(False)
        self.bar.setFixedWidth(160)
        self.bar.setRange(0, _STEPS)
        self.bar.setAccessibleName("Progress of the survey")
        self.label = ElidedLabel(self)
        self.label.setWhatsThis(picture_text("known"))
        self.label.setFixedHeight(self.bar.sizeHint().height())  # the pages must not jump
        controls = row(self.reference, 1, self.start, self.pause, self.cancel)
        column(controls, row(self.bar, (self.label, 1)), of=self, margins=LINE, spacing=Space.TIGHT)
        session.state_changed.connect(self.follow)
        session.grown.connect(self._show_progress)
        self.follow()

    def follow(self) -> None:
        """Show what the survey does now."""
        session = self._session
        state, missing = session.state, any(session.missing)
        under_way = state in (SurveyState.RUNNING, SurveyState.PAUSED)
        self.start.setVisible(not under_way)
        self.start.setEnabled(state is SurveyState.READY and missing)
        self.start.setText(start_text(session) if missing else "All is known")
        self.pause.setVisible(under_way)
        paused = state is SurveyState.PAUSED
        self.pause.setText("&Resume" if paused else "&Pause")
        self.cancel.setVisible(under_way)
        self.bar.setVisible(under_way)
        self._pace.forget()
        self._show_progress()

    def _pause_or_resume(self) -> None:
        if self._session.state is SurveyState.PAUSED:
            self._session.resume()
        else:
            self._session.pause()

    def _show_progress(self) -> None:
        session = self._session
        progress, state = session.progress, session.state
        if progress is None:
            self.label.setText(self._known_text())
            return
        share = progress.done / progress.total if progress.total else 1.0
        self.bar.setValue(round(_STEPS * share))
        text = self._pace.text(progress.done, progress.total, progress.nbytes, left=True)
        if state is SurveyState.PAUSED:
            text = f"Paused at {100 * share:.0f} %"
        self.label.setText(text)

    def _known_text(self) -> str:
        """Return what is known while nothing is under way."""
        session = self._session
        if session.document is None:
            return ""
        if session.content is None:
            return "Reading what is known of the model…"
        text = (
            f"Statistics of {integer_text(int(session.content.statistics.known.sum()))} of "
            f"{integer_text(len(session.document.arrays))} tensors are known"
        )
        if session.comparison is not None:
            text += f", errors of {integer_text(int(session.comparison.errors.known.sum()))}"
            without = int((~session.comparison.comparable).sum())
            if without:
                text += f"; {integer_text(without)} not comparable"
        problems = len(session.content.statistics.problems)
        if problems:
            text += f"; {integer_text(problems)} cannot be read (see Problem in Hot spots)"
        return text + "."

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.LocaleChange:
            self.follow()


class Notice(QWidget):
    """Shows what has to be read before a figure is known; hidden if nothing has to be."""

    pressed = Signal()

    def __init__(self, session: SurveySession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.label = plain_label(self)
        self.label.setWhatsThis(picture_text("progress"))
        self.label.setWordWrap(True)
        self.button = QPushButton(self)
        self.button.clicked.connect(self.pressed)
        row((self.label, 1), self.button, of=self, margins=NOTE)
        self.hide()

    def show_missing(self, source: Source) -> None:
        """Say what keeps figures of a source from being known."""
        session = self._session
        tensors, pairs = session.missing
        missing = pairs if source is Source.ERRORS else tensors
        words = "{n} tensor" if missing == 1 else "{n} tensors"
        count = words.format(n=integer_text(missing))
        text = ""
        if source is Source.ERRORS and session.references.chosen is None:
            text = "Choose above what to compare with: errors need a reference."
        elif source is Source.ERRORS and session.comparison is None:
            text = "The tensors of both models are being matched."
        elif source is Source.ERRORS and pairs:
            text = f"Errors of {count} are not known yet."
        elif source is Source.STATISTICS and tensors:
            text = f"Statistics of {count} are not known yet."
        self.label.setText(text)
        self.button.setVisible(bool(missing) and session.state is SurveyState.READY)
        self.button.setText(start_text(session))
        self.setVisible(bool(text) and session.content is not None)


def list_metrics(choice: QComboBox) -> None:
    """Add all metrics to a list of choices."""
    for metric in METRICS:
        choice.addItem(metric.title, metric.name)
        choice.setItemData(choice.count() - 1, metric.tip, Qt.ItemDataRole.ToolTipRole)


def start_text(session: SurveySession) -> str:
    """Return the text of the button that starts a survey."""
    tensors, pairs = session.missing
    text = "Survey all tensors ({size})"
    if pairs:
        text = "Compare all tensors ({size})"
        if tensors:
            text = "Survey and compare all tensors ({size})"
    return text.format(size=bytes_text(session.missing_bytes))


class TypedRange(QWidget):
    """A range that the user may type, in the unit in which a metric is shown.

    Attributes:
        wanted: Whether it is to be used.
        edges: From and to.

    Signals:
        changed: Another range is to be used, or none.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._metric: Metric | None = None
        self._found: Scale | None = None
        self.wanted = QCheckBox("&Typed range", self)
        self.wanted.setToolTip("Type the figures that have the first and the last colour")
        self.edges = RangeFields(self)
        self.edges.hide()
        row(self.wanted, self.edges, of=self, spacing=Space.NEAR)
        self.wanted.toggled.connect(self._begin)
        self.edges.changed.connect(self.changed)

    @property
    def problem(self) -> str:
        """Why the range is impossible, as a sentence; "" if it is not, or not wanted."""
        return self.edges.problem() if self.wanted.isChecked() else ""

    def value(self, metric: Metric, found: Scale | None) -> tuple[float, float] | None:
        """Return the range of a metric; None if it has its own, as every other metric at first.

        Args:
            metric: The metric.
            found: Its own scale, from which typing begins; None if it has none.
        """
        if metric is not self._metric:
            with QSignalBlocker(self.wanted):
                self.wanted.setChecked(False)
            self.edges.hide()
        self._metric, self._found = metric, found
        typed = self.edges.value() if self.wanted.isChecked() else None
        return None if typed is None else (typed[0] / metric.unit, typed[1] / metric.unit)

    def _begin(self, on: bool) -> None:
        self.edges.setVisible(on)
        if on and self._metric is not None and self._found is not None:
            unit, found = self._metric.unit, self._found
            if isfinite(found.low):
                self.edges.suggest(unit * found.low, unit * found.high)
            self.edges.begin()
        self.changed.emit()
