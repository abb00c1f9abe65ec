"""Collect the data of a report: the slow part, for it may read all weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from explorer.analysis import Histogram, TensorStatistics
from explorer.analysis.errors.pairs import MatchedPair
from explorer.analysis.matching import match_models
from explorer.analysis.recipes.fits import MixRow, RecipeFit, compare_with_recipes, type_mix
from explorer.analysis.survey_cache import KeptErrors, KeptSurvey, SurveyCache
from explorer.analysis.surveys import run_errors, run_survey
from explorer.errors import ExplorerError, PlanError
from explorer.formats import open_model
from explorer.formats.facts import Facts, describe
from explorer.formats.model import Model
from explorer.formats.tensors import Shape
from explorer.hardware.catalogue import load_catalogue
from explorer.hardware.detect import Machine
from explorer.planner import Device, Host, Hyperparameters, Settings, plan
from explorer.planner.result import Plan
from explorer.present.recipes import verdict
from explorer.present.statistics import outlier_ratio, relative_step_error
from explorer.present.survey import ErrorColumns, PairPlace, TensorError
from explorer.quantization.registry import has_decoder
from explorer.report.privacy import message

# Common sizes of memory: 12, 24 and 80 GB
_USUAL_GPUS: Final = (
    "NVIDIA GeForce RTX 3060 12 GB",
    "NVIDIA GeForce RTX 4090",
    "NVIDIA H100 SXM5 80 GB",
)
_USUAL_CONTEXTS: Final = (4096, 8192)


@dataclass(frozen=True, slots=True)
class PlanTarget:
    """A machine to plan for.

    Attributes:
        name: Its heading in the report.
        devices: Its GPUs.
        host: Its main memory, or None to check nothing against it.
    """

    name: str
    devices: tuple[Device, ...]
    host: Host | None = None


def plan_targets(named: Sequence[Device], machine: Machine | None) -> list[PlanTarget]:
    """Return the machines to plan for: named GPUs, else this machine's, else usual ones.

    Args:
        named: GPUs of one machine, as the user named them.
        machine: This machine, or None to leave it out.
    """
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
    """One tensor: what its header says, and what reading its weights gave.

    Attributes:
        name: Its name.
        stack: Prefix of its stack of layers (``"blk"``), or nothing.
        layer: Its layer in that stack, or None.
        role: Its role there.
        type: Its type's name.
        shape: Row-major, outermost first.
        parameters: Number of weights.
        nbytes: Stored bytes.
        statistics: Of its weights; None if they were not or cannot be read.
        errors: Against the reference; None if it was not compared.
        failure: Why its weights or errors are missing though they should be there.
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
        return sum(length > 1 for length in self.shape) > 1

    @property
    def bits_per_weight(self) -> float:
        """Stored bits for each weight; NaN without weights."""
        return 8 * self.nbytes / self.parameters if self.parameters else math.nan

    @property
    def relative_rmse(self) -> float:
        """RMS error against the reference, by the reference's RMS; NaN if not known."""
        return math.nan if self.errors is None else self.errors.relative_rmse

    @property
    def relative_step(self) -> float:
        """RMS rounding error that the block scales imply, by the RMS; NaN if not known."""
        return math.nan if self.statistics is None else relative_step_error(self.statistics)

    @property
    def outlier_ratio(self) -> float:
        """Maximum |weight| by the root mean square; NaN if not known."""
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
    """Result of comparing all weights with a reference.

    Attributes:
        compared: Number of pairs that were compared.
        relative_rmse: Relative RMSE of the weights of all matrices; NaN if there are none. Norms
            and biases are few and large and would hide them, so they are not part of it.
        not_comparable: Names of tensors that could not be compared, and why.
        only_in_reference: Names of tensors that only the reference has.
        only_in_model: Names of tensors that only the model has.
    """

    compared: int
    relative_rmse: float
    not_comparable: Sequence[tuple[str, str]]
    only_in_reference: Sequence[str]
    only_in_model: Sequence[str]


@dataclass(frozen=True)
class MeasuredModel:
    """Result of reading all weights.

    Attributes:
        tensors: Every tensor, in the order of the model.
        comparison: None without a reference.
        damaged: The first error of weights that should be there and cannot be read, or None.
    """

    tensors: Sequence[ReportTensor]
    comparison: ComparedModel | None = None
    damaged: ExplorerError | None = None


def weights_to_read(model: Model, reference: Model | None) -> int:
    """Return about how many weights `measure` reads; those read twice are counted twice."""
    return 2 * model.parameters + (0 if reference is None else model.parameters)


def header_tensors(model: Model) -> list[ReportTensor]:
    """Return every tensor without its weights."""
    return [
        ReportTensor(
            *(tensor.name, name.stack, name.layer, name.role, tensor.type.name),
            *(tensor.shape, tensor.parameters, tensor.nbytes),
        )
        for tensor in model.tensors.rows
        for name in (tensor.parsed_name,)
    ]


def measure(
    model: Model, reference: Model | None, workers: int, progress: Callable[[int], object] | None
) -> MeasuredModel:
    """Read all weights; results of a survey are kept in the user's cache and taken from it.

    Args:
        model: The model.
        reference: What to compare it with, or None.
        workers: Threads.
        progress: Called now and then with the weights read so far, of `weights_to_read`.
    """
    cache = SurveyCache.of_user()
    tensors, damaged = _survey(model, cache, workers, progress)
    if reference is None:
        return MeasuredModel(tensors, damaged=damaged)
    matching = match_models(reference, model)
    pairs = [MatchedPair(match) for match in matching.matches]
    before = 2 * model.parameters

    def report_progress(count: int) -> None:
        if progress is not None:
            progress(before + count)

    opened = (
        KeptErrors(None, pairs) if cache is None else cache.open_errors(model, reference, pairs)
    )
    rows_by_name = {one.name: row for row, one in enumerate(tensors)}
    columns = ErrorColumns(len(tensors))
    failures: dict[str, str] = {}
    compared = 0
    with opened as kept:
        for found in run_errors(pairs, kept, workers, progress=report_progress):
            parts = pairs[found.number].candidate.tensors
            if found.error is not None:
                damaged = damaged or found.error
                failures |= dict.fromkeys((part.name for part in parts), message(found.error))
            if found.figures is not None:
                compared += 1
                rows = [rows_by_name[part.name] for part in parts]
                columns.put(PairPlace.of(rows, parts), found.figures)
    comparison = ComparedModel(
        compared=compared,
        relative_rmse=columns.total_relative_rmse([one.is_matrix for one in tensors]),
        not_comparable=[
            (" and ".join(filter(None, (pair.reference_name, pair.candidate_name))), pair.reason)
            for pair in matching.not_comparable
        ],
        only_in_reference=matching.unmatched_reference,
        only_in_model=matching.unmatched_candidate,
    )
    tensors = [
        replace(one, errors=errors, failure=one.failure or failures.get(one.name, ""))
        for one, errors in zip(tensors, columns.by_tensor(), strict=True)
    ]
    return MeasuredModel(tensors, comparison, damaged)


def _survey(
    model: Model, cache: SurveyCache | None, workers: int, progress: Callable[[int], object] | None
) -> tuple[list[ReportTensor], ExplorerError | None]:
    damaged = None
    found = header_tensors(model)
    with KeptSurvey(None, model) if cache is None else cache.open(model) as kept:
        for number, row in enumerate(run_survey(model, kept, workers, progress=progress)):
            failure = "" if row.error is None else message(row.error)
            found[number] = replace(found[number], statistics=row.statistics, failure=failure)
            decodable = row.tensor.grouped is not None or has_decoder(row.tensor.type.name)
            if row.error is not None and damaged is None and decodable:
                damaged = row.error
    return found, damaged


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """A plan for a requested context, or why there is none."""

    target: PlanTarget
    context: int
    plan: Plan | None
    failure: str = ""


@dataclass(frozen=True)
class ReportData:
    """All that a report says about a model.

    Attributes:
        model: The model, still open.
        reference: What it was compared with, still open; None without one.
        facts: What the model is.
        mix: Its types by role.
        fits: How well each recipe agrees.
        recipe_verdict: The same as a sentence.
        tensors: Every tensor, in the order of the model.
        measured: None if the weights were not read.
        plans: Its plans.
    """

    model: Model
    reference: Model | None
    facts: Facts
    mix: Sequence[MixRow]
    fits: Sequence[RecipeFit]
    recipe_verdict: str
    tensors: Sequence[ReportTensor]
    measured: MeasuredModel | None
    plans: Sequence[PlannedCase]


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """What a report shall hold.

    Attributes:
        survey: Whether to read the weights; without them a report takes no time.
        workers: Threads that read them.
        targets: Machines to plan for.
        contexts: Tokens of context to plan for; none for the usual ones and the model's maximum.
        progress: Called now and then with the weights read so far, of `weights_to_read`.
    """

    survey: bool = True
    workers: int = 1
    targets: Sequence[PlanTarget] = ()
    contexts: Sequence[int] = ()
    progress: Callable[[int], object] | None = None


def gather(model: Model, reference: Model | None, request: ReportRequest) -> ReportData:
    """Return the data of a report.

    Args:
        model: The model; it must stay open while the report is made.
        reference: What its weights are compared with, if the weights are read.
        request: What the report shall hold.

    Raises:
        ExplorerError: A file changed since it was opened. Tensors that cannot be read and plans
            that cannot be made are named in the report instead.
    """
    fits = compare_with_recipes(model)
    measured = None
    if request.survey:
        measured = measure(model, reference, request.workers, request.progress)
    facts = describe(model)
    return ReportData(
        model=model,
        reference=reference if request.survey else None,
        facts=facts,
        mix=type_mix(model),
        fits=fits,
        recipe_verdict=verdict(model, fits),
        tensors=header_tensors(model) if measured is None else measured.tensors,
        measured=measured,
        plans=_plans(model, facts, request),
    )


def _plans(model: Model, facts: Facts, request: ReportRequest) -> list[PlannedCase]:
    contexts = request.contexts or _contexts(facts.context_length)
    cases = [(target, context) for target in request.targets for context in contexts]
    try:
        h = Hyperparameters.from_model(model)
        settings = Settings(projector_bytes=_projector_bytes(model))
    except ExplorerError as error:
        return [PlannedCase(target, context, None, error.what) for target, context in cases[:1]]
    found = []
    for target, context in cases:
        try:
            asked = replace(settings, context=context)
            made = plan(h, asked, target.devices, host=target.host)
            found.append(PlannedCase(target, context, made))
        except PlanError as error:
            found.append(PlannedCase(target, context, None, error.what))
    return found


def _contexts(longest: int | None) -> list[int]:
    """Return the usual contexts and the model's maximum; none above that."""
    most = longest or max(_USUAL_CONTEXTS)
    return sorted({min(context, most) for context in (*_USUAL_CONTEXTS, most)})


def _projector_bytes(model: Model) -> int:
    if model.projector is None:
        return 0
    with open_model(model.projector) as separate:
        return separate.nbytes
