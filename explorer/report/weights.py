"""Figures of every tensor: of the header alone, or with what reading its weights gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from explorer.analysis import ErrorFigures, Histogram, TensorStatistics
from explorer.analysis.errors.pairs import MatchedPair
from explorer.analysis.matching import match_models
from explorer.analysis.survey_cache import KeptErrors, KeptSurvey, SurveyCache
from explorer.analysis.surveys import PairRow, run_errors, run_survey
from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.formats.tensors import Shape, Tensor
from explorer.present.statistics import outlier_ratio, relative_step_error
from explorer.present.survey import ErrorColumns, PairPlace, TensorError
from explorer.quantization.registry import has_decoder
from explorer.report.privacy import message


@dataclass(frozen=True, slots=True)
class TensorFigures:
    """What a report knows of one tensor.

    Attributes:
        name: Its name.
        stack: Prefix of its stack of layers (``"blk"``), or nothing.
        layer: Its layer in that stack, or None.
        role: What it does there.
        type: Its type's name.
        shape: Row-major, outermost first.
        parameters: Number of weights.
        nbytes: Stored bytes.
        statistics: Of its weights; None if they were not or cannot be read.
        errors: Against the reference; None if it was not compared.
        failure: Why it has none of them though it should.
    """

    name: str
    stack: str
    layer: int | None
    role: str
    type: str
    shape: Shape
    parameters: int
    nbytes: int
    statistics: TensorStatistics | None = None
    errors: TensorError | None = None
    failure: str = ""

    @property
    def is_matrix(self) -> bool:
        """Whether it has rows and columns; norms and biases have not."""
        return _is_matrix(self.shape)

    @property
    def bits_per_weight(self) -> float:
        """Stored bits for each weight; NaN without weights."""
        return 8 * self.nbytes / self.parameters if self.parameters else math.nan

    @property
    def relative_rmse(self) -> float:
        """RMS error against the reference, divided by the reference's RMS; NaN if not known."""
        return math.nan if self.errors is None else self.errors.relative_rmse

    @property
    def relative_step(self) -> float:
        """RMS rounding error that the block scales imply, divided by the RMS; NaN if not known."""
        return math.nan if self.statistics is None else relative_step_error(self.statistics)

    @property
    def outlier_ratio(self) -> float:
        """The greatest |weight| by the root mean square; NaN if not known."""
        return math.nan if self.statistics is None else outlier_ratio(self.statistics)

    @property
    def std(self) -> float:
        """Standard deviation of the weights; NaN if not known."""
        return math.nan if self.statistics is None else self.statistics.std

    @property
    def histogram(self) -> Histogram | None:
        """Of the weights; None if not known."""
        return None if self.statistics is None else self.statistics.histogram


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """What the comparison with a reference gave.

    Attributes:
        compared: Number of pairs that were compared.
        relative_rmse: RMS error of the weights of all matrices among them, divided by the RMS of
            the reference's; NaN if there are none. Norms are few and large and would hide them.
        not_comparable: What the matching could not compare: names, then the reason.
        only_in_reference: Names of tensors that only the reference has.
        only_in_model: Names of tensors that only the model has.
    """

    compared: int
    relative_rmse: float
    not_comparable: Sequence[tuple[str, str]]
    only_in_reference: Sequence[str]
    only_in_model: Sequence[str]


@dataclass(frozen=True)
class Measured:
    """What reading the weights gave.

    Attributes:
        tensors: Figures of every tensor, in the order of the model.
        comparison: What the comparison gave; None without a reference.
        damaged: Why weights that should be there cannot be read: the first such error, or None.
    """

    tensors: Sequence[TensorFigures]
    comparison: ComparedModel | None = None
    damaged: ExplorerError | None = None


def _is_matrix(shape: Shape) -> bool:
    return sum(length > 1 for length in shape) > 1


def work(model: Model, reference: Model | None) -> int:
    """Return about how many weights are read for a report, those read twice counted twice."""
    return 2 * model.parameters + (0 if reference is None else model.parameters)


def figures_of_header(model: Model) -> list[TensorFigures]:
    """Return what the header tells of every tensor."""
    found = []
    for tensor in model.tensors.rows:
        name = tensor.parsed_name
        found.append(
            TensorFigures(
                tensor.name,
                name.stack,
                name.layer,
                name.role,
                tensor.type.name,
                tensor.shape,
                tensor.parameters,
                tensor.nbytes,
            )
        )
    return found


def measure(
    model: Model,
    reference: Model | None,
    workers: int,
    progress: Callable[[int], object] | None,
) -> Measured:
    """Read all weights. What the survey finds is kept in the user's cache, and taken from there.

    Args:
        model: The model.
        reference: What to compare it with, or None.
        workers: Threads.
        progress: Called now and then with the weights read so far, of `work`.
    """
    cache = SurveyCache.of_user()
    tensors, damaged = _surveyed(model, cache, workers, progress)
    if reference is None:
        return Measured(tensors, damaged=damaged)
    matching = match_models(reference, model)
    pairs = [MatchedPair(match) for match in matching.matches]
    before = 2 * model.parameters

    def tell(count: int) -> None:
        if progress is not None:
            progress(before + count)

    opened = (
        KeptErrors(None, pairs) if cache is None else cache.open_errors(model, reference, pairs)
    )
    with opened as kept:
        rows = list(run_errors(pairs, kept, workers, progress=tell))
    found = [(row.pair.shape, row.figures) for row in rows if row.figures is not None]
    return Measured(
        tensors=_with_errors(tensors, pairs, rows),
        comparison=ComparedModel(
            compared=len(found),
            relative_rmse=_relative_rmse([one for shape, one in found if _is_matrix(shape)]),
            not_comparable=[
                (
                    " and ".join(filter(None, (pair.reference_name, pair.candidate_name))),
                    pair.reason,
                )
                for pair in matching.not_comparable
            ],
            only_in_reference=matching.unmatched_reference,
            only_in_model=matching.unmatched_candidate,
        ),
        damaged=damaged or next((row.error for row in rows if row.error is not None), None),
    )


def _relative_rmse(found: Sequence[ErrorFigures]) -> float:
    """Return the relative RMS error of all weights together."""
    some = [one for one in found if one.compared]
    error = math.fsum(one.compared * one.rmse**2 for one in some)
    signal = math.fsum(one.compared * one.reference_rms**2 for one in some)
    return math.sqrt(error / signal) if signal else math.nan


def _surveyed(
    model: Model,
    cache: SurveyCache | None,
    workers: int,
    progress: Callable[[int], object] | None,
) -> tuple[list[TensorFigures], ExplorerError | None]:
    damaged = None
    found = figures_of_header(model)
    with KeptSurvey(None, model) if cache is None else cache.open(model) as kept:
        for number, row in enumerate(run_survey(model, kept, workers, progress=progress)):
            failure = "" if row.error is None else message(row.error)
            found[number] = replace(found[number], statistics=row.statistics, failure=failure)
            if row.error is not None and damaged is None and _should_be_there(row.tensor):
                damaged = row.error
    return found, damaged


def _should_be_there(tensor: Tensor) -> bool:
    """Tell whether a tensor's weights can be decoded; those of a newer type cannot (yet)."""
    return tensor.grouped is not None or has_decoder(tensor.type.name)


def _with_errors(
    tensors: Sequence[TensorFigures], pairs: Sequence[MatchedPair], rows: Sequence[PairRow]
) -> list[TensorFigures]:
    """Return the tensors with their errors: of all pairs that each has a part in."""
    places = {one.name: place for place, one in enumerate(tensors)}
    columns = ErrorColumns(len(tensors))
    failures: dict[str, str] = {}
    for row in rows:
        parts = pairs[row.number].match.candidate.tensors
        if row.error is not None:
            failures |= dict.fromkeys((part.name for part in parts), message(row.error))
        if row.figures is not None:
            columns.put(PairPlace.of([places[part.name] for part in parts], parts), row.figures)
    return [
        replace(one, errors=errors, failure=one.failure or failures.get(one.name, ""))
        for one, errors in zip(tensors, columns.by_tensor(), strict=True)
    ]
