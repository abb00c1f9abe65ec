"""The survey of the current model: what is known of its tensors, and the job under way.

What earlier surveys kept is read when the panel is first shown. Weights are read on request: that
may take minutes. Another model, or another reference, cancels the job; its results are kept.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property, partial
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from explorer.analysis import surveys
from explorer.analysis.columns import (
    ErrorColumns,
    Known,
    StatisticsColumns,
    is_matrix,
    parameter_shares,
)
from explorer.analysis.errors.pairs import MatchedPair, RoundedPair, WeightsPair
from explorer.analysis.importance import weighing
from explorer.analysis.model_grid import ModelGrid, model_grid
from explorer.analysis.survey_cache import CachedErrors, CachedSurvey, SurveyCache
from explorer.errors import ExplorerError
from explorer.formats.attachments import OpenMatrix
from explorer.formats.model import Model
from explorer.formats.tensors import Tensor, is_matrix_shape
from explorer.formats.weights import Values, check_decodable
from explorer.qt.addresses import agrees_to_weights
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobSlot, all_cores
from explorer.qt.references import MatchedModels, Reference, References, Rounding
from explorer.qt.services import Services

_CHECK_EVERY = 256


@dataclass(frozen=True)
class SurveyContent:
    """What is known of a model.

    Attributes:
        document: The model.
        grid: Its tensors by layer and role.
        folded: The same with one column for norms and biases, as the map shows them.
        matrices: Which tensors are something else, bool [n].
        statistics: Their statistics.
    """

    document: Document
    grid: ModelGrid
    folded: ModelGrid
    matrices: NDArray[np.bool_]
    statistics: StatisticsColumns

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Whether statistics of a tensor are not known though they could be, bool [n]."""
        return _missing(self.statistics.known, self.statistics.problems)

    def put(self, number: int, row: surveys.SurveyRow) -> None:
        """Store the statistics of a tensor, or why there are none."""
        if row.statistics is not None:
            self.statistics.put(number, row.statistics)
        elif row.error is not None:
            self.statistics.problems[number] = row.error.what


@dataclass(frozen=True)
class ComparisonContent:
    """What is known of a model's errors.

    Attributes:
        document: The model.
        against: The reference: a model, or a type.
        pairs: The pairs compared.
        shares: Shares of tensors in the weights of each pair, by row.
        measured: Whether those of a pair are known, bool [pairs].
        problems: Why a pair cannot be compared, by its place.
        comparable: Whether a tensor is part of a pair, bool [n].
        errors: The errors by tensor.
        nbytes: Stored bytes of the model's and of the reference's side of each pair, int64
            [pairs, 2].
        keys: Pairs of both models with one key have the same reference, int64 [pairs].
        matrix: What errors are weighted by, too; None if all weights count alike.
        plain: Pairs whose weighted errors alone are not known.
        misfits: Why the matrix does not fit a tensor, by its name.
    """

    document: Document
    against: Model | str
    pairs: Sequence[WeightsPair]
    shares: Sequence[Mapping[int, float]]
    measured: NDArray[np.bool_]
    problems: dict[int, str]
    comparable: NDArray[np.bool_]
    errors: ErrorColumns
    nbytes: NDArray[np.int64]
    keys: NDArray[np.int64]
    matrix: OpenMatrix | None = None
    plain: set[int] = field(default_factory=set)
    misfits: dict[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Whether errors of a pair are not known though they could be, bool [pairs]."""
        return _missing(self.measured, self.problems)

    @cached_property
    def parameters(self) -> NDArray[np.float64]:
        """Weights of each pair, float64 [pairs]."""
        return np.array([pair.parameters for pair in self.pairs], np.float64)

    @property
    def missing_rows(self) -> NDArray[np.bool_]:
        """Whether a tensor is part of such a pair, bool [n]."""
        pairs, rows = self._parts
        missing = np.zeros(len(self.comparable), np.bool_)
        missing[rows[self.missing[pairs]]] = True
        return missing

    @cached_property
    def _parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Place of the pair, and row, of each tensor of each pair."""
        counts = [len(shares) for shares in self.shares]
        rows = [row for shares in self.shares for row in shares]
        return np.repeat(np.arange(len(counts)), counts), np.array(rows, np.int64)

    def partners(self, other: ComparisonContent) -> NDArray[np.int64]:
        """Return the tensor of another model with the same original, by row; -1 for none."""
        rows = {
            pair.reference_name: next(iter(shares))
            for pair, shares in zip(other.pairs, other.shares, strict=True)
            if shares
        }
        found = np.full(len(self.comparable), -1, np.int64)
        for pair, shares in zip(self.pairs, self.shares, strict=True):
            found[list(shares)] = rows.get(pair.reference_name, -1)
        return found

    def put(self, row: surveys.PairRow) -> None:
        """Store the errors of a pair, or why there are none; once."""
        if self.measured[row.number]:
            return
        shares = self.shares[row.number]
        if row.errors is not None:
            self.measured[row.number] = True
            metrics = None if row.number in self.plain else row.errors.metrics
            self.errors.put(shares, metrics, row.errors.weighted)
            self.plain.discard(row.number)
        elif row.error is not None:
            self.problems[row.number] = row.error.what
            for tensor in shares:
                self.errors.problems[tensor] = row.error.what


def _missing(known: NDArray[np.bool_], problems: Iterable[int]) -> NDArray[np.bool_]:
    missing = ~known
    missing[list(problems)] = False
    return missing


def read_content(document: Document, job: Job) -> SurveyContent:
    """Arrange the tensors of a model, and read the statistics kept of them."""
    names = document.model.tensors.columns.names
    grid, matrices = model_grid(names, job.check), is_matrix(document.arrays)
    folded = grid.folded(matrices)
    for each in (grid, folded):  # not in the window's thread
        _ = each.cells, [section.cells for section in each.sections]
    statistics = StatisticsColumns(len(names))
    for row, tensor in enumerate(document.model.tensors.rows):
        if row % _CHECK_EVERY == 0:
            job.check()
        problem = _problem([tensor])
        if problem is not None:
            statistics.problems[row] = problem
    with cached_statistics(document.model) as cached:
        for row, found in cached.rows.items():
            statistics.put(row, found)
    return SurveyContent(document, grid, folded, matrices, statistics)


def read_comparison(
    document: Document,
    reference: MatchedModels | Rounding,
    against: Model | str,
    matrix: OpenMatrix | None,
    job: Job,
) -> ComparisonContent:
    """List the pairs to compare, and read the errors kept of them."""
    if isinstance(reference, Rounding):
        found = _rounded(document, reference.type_name, job.check)
    else:
        found = _matched(document, reference, job.check)
    pairs: list[WeightsPair] = []
    shares: list[Mapping[int, float]] = []
    sizes: list[list[int]] = []
    problems: dict[int, str] = {}
    errors = ErrorColumns(len(document.arrays))
    comparable = np.zeros(len(document.arrays), np.bool_)
    for number, (pair, rows, own, others) in enumerate(found):
        pairs.append(pair)
        shares.append(parameter_shares(rows, own))
        sizes.append([sum(tensor.nbytes for tensor in side) for side in (own, others)])
        comparable[list(rows)] = True
        problem = _problem((*own, *others))
        if problem is not None:
            problems[number] = problem
            errors.problems |= dict.fromkeys(rows, problem)
    measured, nbytes = np.zeros(len(pairs), np.bool_), np.array(sizes, np.int64).reshape(-1, 2)
    keys = np.array([hash(pair.reference_key) for pair in pairs], np.int64)
    known = pairs, shares, measured, problems, comparable, errors
    content = ComparisonContent(document, against, *known, nbytes, keys, matrix)
    with cached_errors(content) as cached:
        for number, figures in cached.rows.items():
            content.put(surveys.PairRow(number, pairs[number], figures))
        for number, figures in cached.plain.items():
            errors.put(shares[number], figures.metrics)
            content.plain.add(number)
    return content


def _importance(content: ComparisonContent, pair: WeightsPair) -> Values | None:
    """Return what the errors of a pair are weighted by; None where the matrix does not fit it."""
    if content.matrix is None:
        return None
    try:
        return weighing(content.matrix.model)(pair)
    except ExplorerError as error:
        content.misfits[pair.candidate_name] = error.what
        return None


_Found = tuple[WeightsPair, Sequence[int], Sequence[Tensor], Sequence[Tensor]]


def _rounded(document: Document, name: str, check: Callable[[], None]) -> Iterator[_Found]:
    for row, tensor in enumerate(document.model.tensors.rows):
        if row % _CHECK_EVERY == 0:
            check()
        if is_left_alone(tensor):
            continue
        try:
            pair = RoundedPair(tensor, name)
        except ExplorerError:  # its rows are not a whole number of blocks
            continue
        yield pair, (row,), (tensor,), ()


def is_left_alone(tensor: Tensor) -> bool:
    """Return whether quantizers leave a tensor as it is: norms and biases, which have no rows.

    They would be the worst of all tensors, and hide those for which a type makes a difference.
    """
    return not is_matrix_shape(tensor.shape)


def _matched(
    document: Document, matched: MatchedModels, check: Callable[[], None]
) -> Iterator[_Found]:
    table = document.model.tensors
    for number, match in enumerate(matched.matching.matches):
        if number % _CHECK_EVERY == 0:
            check()
        own = match.candidate.tensors
        rows = [row for tensor in own if (row := table.row_of(tensor.name)) is not None]
        yield MatchedPair(match), rows, own, match.reference.tensors


def _problem(tensors: Iterable[Tensor]) -> str | None:
    """Return why weights cannot be decoded, before any are read; None if they can."""
    try:
        for tensor in tensors:
            check_decodable(tensor)
    except ExplorerError as error:
        return error.what
    return None


def cached_statistics(model: Model) -> CachedSurvey:
    """Return the statistics kept of a model; a context manager."""
    return SurveyCache().open(model, slim=True)


def cached_errors(content: ComparisonContent) -> CachedErrors:
    """Return the errors kept of a model; a context manager."""
    model, against = content.document.model, content.against
    weigh = None if content.matrix is None else partial(_importance, content)
    return SurveyCache().open_errors(model, against, content.pairs, weigh)


@dataclass(frozen=True, slots=True)
class SurveyProgress:
    """Weights done of those in all, and about how many stored bytes the former are."""

    done: int
    total: int
    nbytes: int


class SurveyWork:
    """Walks over what is not known; made on the GUI thread, runs in a worker.

    Rows are put into a queue as they are found; the GUI thread takes them out with each report of
    progress. So nothing is copied, and no row is lost however rare reports are.

    Args:
        content: The model whose statistics are measured; None for none.
        comparisons: The models whose errors are.
        weights: How many weights there are to read.
        nbytes: Stored bytes of them.
    """

    def __init__(
        self,
        content: SurveyContent | None,
        comparisons: Sequence[ComparisonContent],
        weights: float,
        nbytes: float,
    ) -> None:
        self.content = content
        self.comparisons = [one for one in comparisons if one.missing.any()]
        self._found: deque[Callable[[], None]] = deque()
        self._done, self._weights, self._nbytes = 0.0, weights, nbytes

    def take(self) -> None:
        """Store what was found since; on the GUI thread."""
        while self._found:
            self._found.popleft()()

    def run(self, job: Job) -> None:
        if self.content is not None:
            self._survey(job, self.content)
        self._compare(job)

    def _survey(self, job: Job, content: SurveyContent) -> None:
        model, workers = content.document.model, all_cores()
        rows = np.flatnonzero(content.missing).tolist()

        def report(done: int) -> None:
            self._report(job, done / 2)  # each weight is walked over twice

        with cached_statistics(model) as cached:
            found = surveys.run_survey(model, cached, workers, job.check, report, rows=rows)
            self._found.extend(
                partial(content.put, number, one) for number, one in zip(rows, found, strict=True)
            )

    def _compare(self, job: Job) -> None:
        """Measure pairs; what both models are compared with is read once."""
        with ExitStack() as stack:
            asked = [
                surveys.PairsToMeasure(
                    one.pairs,
                    stack.enter_context(cached_errors(one)),
                    np.flatnonzero(one.missing).tolist(),
                )
                for one in self.comparisons
            ]
            found = surveys.run_errors(
                *(asked, all_cores(), job.check, partial(self._report, job)), pictures=True
            )
            self._found.extend(partial(self.comparisons[place].put, row) for place, row in found)

    def _report(self, job: Job, done: float) -> None:
        def publish() -> SurveyProgress:
            progress = self.progress()
            job.report(progress.done, progress.total)
            return progress

        self._done = done
        job.publish(publish)

    def progress(self) -> SurveyProgress:
        nbytes = self._nbytes * self._done / max(1.0, self._weights)
        return SurveyProgress(round(self._done), round(self._weights), round(nbytes))


# The life of a survey in the window.


class SurveyState(Enum):
    NOTHING = auto()  # there is no model
    LOADING = auto()  # results of earlier surveys are being read
    READY = auto()
    RUNNING = auto()


class SurveySession(QObject):
    """What is known of the current model's tensors: statistics, or errors of it and of B.

    Attributes:
        compares: Whether it measures errors, rather than statistics.
        progress: Progress of the survey; None if none is under way.

    Signals:
        replaced: Other models are compared, or results of earlier surveys were read.
        grown: More is known; at most 20 times a second.
        state_changed: The state is another one.
    """

    replaced = Signal()
    grown = Signal()
    state_changed = Signal()

    def __init__(
        self,
        app: Services,
        references: References,
        parent: QObject | None = None,
        *,
        compares: bool = False,
    ) -> None:
        super().__init__(parent)
        self.app = app
        self.references = references
        self.compares = compares
        self.document: Document | None = None
        self.progress: SurveyProgress | None = None
        self._contents: WeakKeyDictionary[Document, SurveyContent] = WeakKeyDictionary()
        self._compared: dict[Document, ComparisonContent] = {}
        self._subject: _Subject = (None, None, None, None)
        self._watchers: set[QObject] = set()
        self._reading = JobSlot(app.runner, self)
        self._surveying = JobSlot(app.runner, self)
        self._work: SurveyWork | None = None
        self.shows_progress: Callable[[], bool] = lambda: False  # whether a page in sight does
        references.changed.connect(self._follow_reference)
        references.documents_changed.connect(self._forget_closed)

    @property
    def state(self) -> SurveyState:
        if self.document is None:
            return SurveyState.NOTHING
        if self._work is not None:
            return SurveyState.RUNNING
        return SurveyState.LOADING if self._reading.busy else SurveyState.READY

    @property
    def content(self) -> SurveyContent | None:
        """The tensors and their statistics; None until they were read."""
        return None if self.document is None else self._contents.get(self.document)

    @property
    def comparison(self) -> ComparisonContent | None:
        """Their errors against what is chosen; None without that, or not yet."""
        return None if self.document is None else self._compared.get(self.document)

    @property
    def other_comparison(self) -> ComparisonContent | None:
        """Their errors against the original; None without both, or not yet."""
        other = self._subject[2]
        return None if other is None else self._compared.get(other)

    @property
    def known(self) -> Known | None:
        """All columns of the model; None until they were read."""
        if self.content is None:
            return None
        errors = None if self.comparison is None else self.comparison.errors
        return Known(self.content.document.arrays, self.content.statistics, errors)

    @property
    def comparisons(self) -> list[ComparisonContent]:
        """What is known of the errors of both models, as far as they are compared."""
        return [one for one in (self.comparison, self.other_comparison) if one is not None]

    @property
    def missing(self) -> int:
        """Tensors without statistics, or pairs without errors, that a survey would read."""
        if not self.compares:
            return 0 if self.content is None else int(self.content.missing.sum())
        return sum(int(one.missing.sum()) for one in self.comparisons)

    @property
    def missing_weights(self) -> float:
        """Weights that a survey would read; of a pair, those of one side."""
        return self._unread()[0]

    @property
    def missing_bytes(self) -> int:
        """Stored bytes that a survey would read; those of an original that both have, once."""
        return self._unread()[1]

    def _unread(self) -> tuple[float, int]:
        found = [(one, one.missing) for one in self.comparisons] if self.compares else []
        if found:
            weights = sum(float(one.parameters[missing].sum()) for one, missing in found)
            nbytes = np.concatenate([one.nbytes[missing] for one, missing in found])
            keys = np.concatenate([one.keys[missing] for one, missing in found])
            _, first = np.unique(keys, return_index=True)
            return weights, int(nbytes[:, 0].sum() + nbytes[first, 1].sum())
        if self.compares or self.content is None:
            return 0.0, 0
        arrays, missing = self.content.document.arrays, self.content.missing
        return float(arrays.parameters[missing].sum()), int(arrays.nbytes[missing].sum())

    def reason(self, row: int) -> str:
        """Return why something cannot be known of a tensor; "" if all can."""
        content, comparison = self.content, self.comparison
        if content is None:
            return ""
        if row in content.statistics.problems:
            return content.statistics.problems[row]
        if comparison is None:
            return ""
        problem = comparison.errors.problems.get(row, "")
        if problem or comparison.comparable[row]:
            return problem
        tensor = content.document.model.tensors.rows[row]
        return (
            self.references.partner_of(row, tensor).reason
            or "Quantizers leave tensors of one dimension as they are."
        )

    @property
    def has_reasons(self) -> bool:
        """Whether some tensor has such a reason."""
        content, comparison = self.content, self.comparison
        known = content is not None and bool(content.statistics.problems)
        some = comparison is not None and not (
            comparison.comparable.all() and not comparison.errors.problems
        )
        return known or (content is not None and some)

    def show_document(self, document: Document | None) -> None:
        """Take another model; a survey of the one before is cancelled."""
        if document is self.document:
            return
        self.cancel()
        self._reading.cancel()
        self.document = document
        self._drop_errors()
        self._read_next()

    def watch(self, page: QObject, on: bool) -> None:
        """Read what is kept while a page shows it."""
        if not on:
            self._watchers.discard(page)
        elif page not in self._watchers:
            self._watchers.add(page)
            self._read_next()

    def start(self) -> None:
        """Read the weights of what is not known."""
        if self.state is not SurveyState.READY or self.content is None or not self.missing:
            return
        window = next((one for one in self._watchers if isinstance(one, QWidget)), None)
        if not agrees_to_weights(self._models(), window):
            return
        content, compared = (None, self.comparisons) if self.compares else (self.content, [])
        survey = SurveyWork(content, compared, self.missing_weights, self.missing_bytes)
        self._work = survey
        self.progress = survey.progress()
        title = "Comparing all tensors" if self.compares else "Measuring all tensors"
        job = self._surveying.run(title, survey.run, lambda _none: None, self.app.report)
        job.on_page = self.shows_progress
        job.published.connect(self._grow)
        job.finished.connect(lambda: self._finish(survey))
        self.state_changed.emit()

    def _models(self) -> list[Model]:
        """Return the models whose weights a survey reads now."""
        if not self.compares:
            return [] if self.document is None else [self.document.model]
        read = [one for one in self.comparisons if one.missing.any()]
        against = [one.against for one in read if isinstance(one.against, Model)]
        return list(
            {id(one): one for one in (*(r.document.model for r in read), *against)}.values()
        )

    def cancel(self) -> None:
        """Cancel the survey; what was found stays known."""
        if self._work is not None:
            self._surveying.cancel()
            self._finish(self._work)

    def _grow(self, progress: SurveyProgress) -> None:
        if self._work is not None:
            self._work.take()
            self.progress = progress
            self.grown.emit()

    def _finish(self, survey: SurveyWork) -> None:
        """End the survey: it has finished, or was cancelled, here or in the status bar."""
        if survey is self._work:
            self._work = self.progress = None
            survey.take()
            self.grown.emit()
            self._read_next()

    # Reading what is kept

    def _read_next(self) -> None:
        """Read what is kept and not read yet, one thing after the other, while it is wanted."""
        references = self.references
        if self.document is not None and self._watchers and not self._reading.busy:
            wanted: list[tuple[Document, Reference]] = [(self.document, None)]
            if self.compares and references.document is self.document:
                _, chosen, other, _ = self._subject = _subject_of(references)
                wanted = [(self.document, chosen)]
                wanted += [] if other is None else [(other, references.against_original)]
            any(self._reads(*one) for one in wanted)
        self.replaced.emit()
        self.state_changed.emit()

    def _reads(self, document: Document, chosen: Reference) -> bool:
        """Begin to read what is kept of a model, if there is more that is known of it."""
        matrix = self.references.matrix
        if document is self.document and document not in self._contents:
            self._read(lambda job: read_content(document, job))
            return True
        matched = self.references.matched_with(document, chosen)
        against = chosen if isinstance(chosen, Rounding) else matched
        if chosen is None or against is None or document in self._compared:
            return False  # nothing is chosen, or it is being matched
        name = chosen.type_name if isinstance(chosen, Rounding) else chosen.model
        self._read(lambda job: read_comparison(document, against, name, matrix, job))
        return True

    def _read(self, read: Callable[[Job], SurveyContent | ComparisonContent]) -> None:
        def show(found: SurveyContent | ComparisonContent) -> None:
            if isinstance(found, SurveyContent):
                self._contents[found.document] = found
                gc.freeze()  # see `MainWindow._add_document`
            else:
                self._compared[found.document] = found
            self._read_next()

        self._reading.run("Looking up earlier results", read, show, self.app.report)

    def _drop_errors(self) -> None:
        self._compared.clear()  # a closed model is not kept
        self._subject = (None, None, None, None)

    def _forget_closed(self) -> None:
        """Drop models that were closed: what is known of one holds it."""
        for document in set(self._contents) - set(self.references.documents):
            del self._contents[document]

    def _follow_reference(self) -> None:
        """Take other models to compare, or the result of matching two."""
        references = self.references
        if references.document is not self.document or self.document is None:
            return
        if self.compares and _subject_of(references) != self._subject:
            if self._work is not None:
                self.cancel()
            self._drop_errors()
            if self.content is not None:
                self._reading.cancel()
        self._read_next()


_Subject: TypeAlias = tuple[Document | None, Reference, Document | None, OpenMatrix | None]
"""The current model, what its errors are measured against, B, if that is too, and the matrix."""


def _subject_of(references: References) -> _Subject:
    other = None if references.against_original is None else references.other
    return references.document, references.chosen, other, references.matrix
