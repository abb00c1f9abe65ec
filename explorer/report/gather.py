"""Collect the data of a report: the slow part, for it may read all weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from explorer.analysis.columns import ErrorColumns, StatisticsColumns, Summaries, model_summaries
from explorer.analysis.errors.compare import Comparison
from explorer.analysis.errors.models import error_columns
from explorer.analysis.matching.pairing import Matching, match_models
from explorer.analysis.recipes.fits import MixRow, RecipeFit, compare_with_recipes, type_mix
from explorer.analysis.statistics import TensorStatistics
from explorer.analysis.survey_cache import SurveyCache
from explorer.analysis.surveys import run_survey, telling_rows
from explorer.errors import ExplorerError, PlanError
from explorer.formats.facts import Facts, describe
from explorer.formats.model import Model, Problem
from explorer.formats.tensors import Tensor, is_matrix_shape
from explorer.hardware.catalogue import load_catalogue
from explorer.hardware.detect import Machine
from explorer.planner import Device, Host, Settings
from explorer.planner.engines.registry import default_engine
from explorer.planner.inputs import header_to_plan, separate_projector_bytes
from explorer.planner.request import PlanRequest
from explorer.present.engines import PlanRow
from explorer.present.problems import problems_of
from explorer.present.speed import speed_here
from explorer.present.tables.attachments import AttachedTable, attached_table
from explorer.present.tables.errors import WEIGHTED
from explorer.present.tables.statistics import REPORT_ERRORS
from explorer.quantization.registry import has_decoder
from explorer.report.privacy import cut, message, without_paths

# Common sizes of memory: 12, 24 and 80 GB
_USUAL_GPUS: Final = (
    "NVIDIA GeForce RTX 3060 12 GB",
    "NVIDIA GeForce RTX 4090",
    "NVIDIA H100 SXM5 80 GB",
)
_USUAL_CONTEXTS: Final = (4096, 8192)
_LONGEST_FAILURE: Final = 300


@dataclass(frozen=True, slots=True)
class PlanTarget:
    """A machine to plan for."""

    name: str  # its heading in the report
    devices: tuple[Device, ...]  # its GPUs
    host: Host | None = None  # its main memory, or None to check nothing against it


def plan_targets(named: Sequence[Device], machine: Machine | None) -> list[PlanTarget]:
    """Return the machines to plan for: one of the named GPUs, else this one, else usual ones."""
    if named:
        return [PlanTarget(_names(named), tuple(named))]
    if machine is not None and machine.devices:
        name = f"this machine ({_names(machine.devices)})"
        return [PlanTarget(name, machine.devices, machine.host)]
    catalogue = load_catalogue()
    return [PlanTarget(name, (catalogue.find(name).device(),)) for name in _USUAL_GPUS]


def _names(devices: Sequence[Device]) -> str:
    return ", ".join(device.name or device.key for device in devices)


@dataclass(frozen=True, slots=True)
class ReportTensor:
    """One tensor and what reading its weights gave."""

    tensor: Tensor
    row: int  # its place in the model's table
    # of its weights; None if they were not or cannot be read
    statistics: TensorStatistics | None = None
    # `REPORT_ERRORS` against the reference by name; empty if it was not compared
    errors: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""  # why its weights or errors are missing though they should be there

    @property
    def is_matrix(self) -> bool:
        return is_matrix_shape(self.tensor.shape)


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """Result of comparing all weights with a reference."""

    matching: Matching  # the pairs, and tensors without one
    compared: int  # number of pairs that were compared
    columns: ErrorColumns  # the errors of each tensor
    matrix: Model | None = None  # what they were weighted by, too

    @property
    def weighted(self) -> float:
        """The same relative RMSE by importance; NaN without a matrix."""
        signal = float(self.columns.weighted_signal.sum())
        return math.sqrt(self.columns.weighted_squares.sum() / signal) if signal else math.nan


@dataclass(frozen=True, slots=True)
class PlannedTarget:
    """Plans of one machine, by the contexts that are asked for: the names of the rows."""

    target: PlanTarget
    rows: Sequence[PlanRow]


@dataclass(frozen=True)
class ReportData:
    """All that a report says about a model."""

    model: Model  # the model, still open
    reference: Model | None  # what it was compared with, still open; None without one
    facts: Facts
    problems: Sequence[Problem]  # what is wrong with it, as `check` says it
    attached: AttachedTable | None  # of an adapter or an importance matrix
    mix: Sequence[MixRow]  # its types by role
    fits: Sequence[RecipeFit]  # how well each recipe agrees
    plans: Sequence[PlannedTarget]
    read: bool  # whether the weights were read
    tensors: Sequence[ReportTensor]  # in the order of the model; those of `telling_rows`, or all
    undecodable: int  # how many of a type that no decoder reads are not among them
    comparison: ComparedModel | None = None  # None without a reference
    sums: Summaries | None = None  # by role, by layer and of the model; None if nothing was read
    # the first error of weights that should be there and cannot be read, or None
    damaged: ExplorerError | None = None


def weights_to_read(model: Model, reference: Model | None) -> int:
    """Return about how many weights `gather` reads; those read twice are counted twice."""
    return 2 * model.parameters + (0 if reference is None else model.parameters)


def gather(  # noqa: PLR0913 - all but the model have a default
    model: Model,
    reference: Model | None = None,
    matrix: Model | None = None,
    *,
    survey: bool = True,
    every: bool = False,
    workers: int = 1,
    targets: Sequence[PlanTarget] = (),
    contexts: Sequence[int] = (),
    progress: Callable[[int], object] = lambda _read: None,
) -> ReportData:
    """Return the data of a report.

    Results of reading weights are kept in the user's cache and taken from it.

    Args:
        model: The model; it must stay open while the report is made.
        reference: What its weights are compared with, if the weights are read.
        matrix: By whose importance the errors are weighted, too.
        survey: Whether to read the weights; without them a report takes no time.
        every: Whether statistics of every tensor are wanted, and not only of `telling_rows`, for
            tables beside the report.
        workers: Threads that read them.
        targets: Machines to plan for.
        contexts: Tokens of context to plan for; none for the usual ones and the model's maximum.
        progress: Called now and then with the weights read so far, of `weights_to_read`.

    Raises:
        ExplorerError: A file changed since it was opened, or the matrix does not fit. Tensors that
            cannot be read and plans that cannot be made are named in the report instead.
    """
    facts = describe(model)
    attached = attached_table(model, reference, measured=survey)
    kinds = model.tensors.columns.types
    rows = range(len(kinds)) if every else telling_rows(model)
    left_out = sorted(set(range(len(kinds))).difference(rows))
    data = ReportData(
        model=model,
        reference=reference if survey else None,
        facts=facts,
        problems=problems_of(model),
        attached=attached,
        mix=type_mix(model),
        fits=compare_with_recipes(model),
        plans=[],
        read=survey,
        tensors=[] if survey else [ReportTensor(model.tensors.rows[row], row) for row in rows],
        undecodable=sum(not has_decoder(kinds[row].name) for row in left_out),
    )
    if survey:
        data = _with_statistics(data, rows, workers, progress)
    if data.reference is not None:
        data = _with_errors(data, data.reference, matrix, workers, progress)
    if survey:
        data = replace(data, sums=_sums(data))
    planned_for = targets if attached is None and len(model.tensors) else ()
    return replace(data, plans=_plans(model, facts.context_length, planned_for, contexts))


def _sums(data: ReportData) -> Summaries:
    columns = StatisticsColumns(len(data.model.tensors.columns))
    for one in data.tensors:
        if one.statistics is not None:
            columns.put(one.row, one.statistics)
    errors = None if data.comparison is None else data.comparison.columns
    return model_summaries(data.model, columns, errors)


def _with_statistics(
    data: ReportData, rows: Sequence[int], workers: int, progress: Callable[[int], object]
) -> ReportData:
    tensors, damaged = [], None
    with SurveyCache().open(data.model) as kept:
        found = run_survey(data.model, kept, workers, progress=progress, rows=rows)
        for place, row in zip(rows, found, strict=True):
            failure = "" if row.error is None else message(row.error)
            tensors.append(ReportTensor(row.tensor, place, row.statistics, problem=failure))
            damaged = damaged or row.damage
    return replace(data, tensors=tensors, damaged=damaged)


def _with_errors(
    data: ReportData,
    reference: Model,
    matrix: Model | None,
    workers: int,
    progress: Callable[[int], object],
) -> ReportData:
    model, damaged = data.model, data.damaged
    matching = match_models(reference, model)
    comparison, before = (
        Comparison(matching.matches, matrix, (reference, model)),
        2 * model.parameters,
    )
    rows = list(comparison.rows(workers, progress=lambda count: progress(before + count)))
    columns = error_columns(model, rows)
    compared = sum(row.errors is not None for row in rows)
    damaged = damaged or next((row.error for row in rows if row.error is not None), None)
    names = [name for name in REPORT_ERRORS if matrix is not None or name not in WEIGHTED.names]
    figures = {name: getattr(columns, name) for name in names}
    tensors = [
        replace(
            one,
            errors={name: float(values[one.row]) for name, values in figures.items()}
            if columns.known[one.row]
            else {},
            problem=one.problem or without_paths(columns.problems.get(one.row, "")),
        )
        for one in data.tensors
    ]
    found = ComparedModel(matching, compared, columns, matrix)
    return replace(data, tensors=tensors, comparison=found, damaged=damaged)


def _plans(
    model: Model, longest: int | None, targets: Sequence[PlanTarget], contexts: Sequence[int]
) -> list[PlannedTarget]:
    contexts = contexts or _contexts(longest)
    try:
        h = header_to_plan(model)
        settings = Settings(projector_bytes=separate_projector_bytes(model))
    except ExplorerError as error:
        row = _refused(contexts[0], error)
        return [PlannedTarget(target, [row]) for target in targets[:1]]

    def row_of(target: PlanTarget, context: int) -> PlanRow:
        asked = replace(settings, context=context)
        request = PlanRequest(h, asked, tuple(target.devices), target.host)
        try:
            plan = default_engine(h, target.devices).plan(request)
        except PlanError as error:
            return _refused(context, error)
        return PlanRow(str(context), plan, speed=speed_here(plan, {}))

    return [PlannedTarget(one, [row_of(one, context) for context in contexts]) for one in targets]


def _refused(context: int, error: ExplorerError) -> PlanRow:
    return PlanRow(str(context), refusal=without_paths(cut(error.what, _LONGEST_FAILURE)))


def _contexts(longest: int | None) -> list[int]:
    """Return the usual contexts and the model's maximum; none above that."""
    most = longest or max(_USUAL_CONTEXTS)
    return sorted({min(context, most) for context in (*_USUAL_CONTEXTS, most)})
