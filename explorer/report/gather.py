"""Collects all that a report tells of a model. This is the part that takes time: it reads weights.

Everything else of the package only puts the evidence gathered here into words and pictures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from explorer.analysis import ErrorFigures, Histogram, TensorStatistics
from explorer.analysis.errors.pairs import MatchedPair
from explorer.analysis.matching import match_models
from explorer.analysis.recipes import MixRow, RecipeFit, compare_with_recipes, type_mix, verdict
from explorer.analysis.survey_cache import KeptErrors, KeptSurvey, SurveyCache
from explorer.analysis.surveys import PairRow, run_errors, run_survey
from explorer.errors import ExplorerError, PlanError
from explorer.formats import open_model
from explorer.formats.facts import Facts, describe
from explorer.formats.model import Model
from explorer.formats.tensors import Shape, Tensor
from explorer.hardware.catalogue import load_catalogue
from explorer.hardware.detect import Machine
from explorer.planner import Device, Host, Hyperparameters, Settings, plan
from explorer.planner.result import Plan
from explorer.present.statistics import outlier_ratio, relative_step_error
from explorer.present.survey import ErrorColumns, PairPlace, TensorError
from explorer.quantization.registry import has_decoder
from explorer.report.privacy import message

# The machines that a report plans for: this one's GPUs, those that were named, or usual ones.


# Common sizes of memory: 12, 24 and 80 GB
_USUAL: Final = (
    "NVIDIA GeForce RTX 3060 12 GB",
    "NVIDIA GeForce RTX 4090",
    "NVIDIA H100 SXM5 80 GB",
)


@dataclass(frozen=True, slots=True)
class Target:
    """A machine to plan for.

    Attributes:
        name: What to call it.
        devices: Its GPUs.
        host: Its main memory, or None to check nothing against it.
    """

    name: str
    devices: tuple[Device, ...]
    host: Host | None = None


def targets(named: Sequence[Device], machine: Machine | None) -> list[Target]:
    """Return what to plan for.

    Args:
        named: GPUs that a person named, which are one machine; they go before all others.
        machine: This machine, or None to leave it out.
    """
    if named:
        return [Target(_called(named), tuple(named))]
    if machine is not None and machine.devices:
        called = f"this machine ({_called(machine.devices)})"
        return [Target(called, machine.devices, machine.host)]
    catalogue = load_catalogue()
    return [Target(name, (catalogue.find(name).device(),)) for name in _USUAL]


def _called(devices: Sequence[Device]) -> str:
    return ", ".join(device.name or device.key for device in devices)


# Figures of every tensor: of the header alone, or with what reading its weights gives.


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


_USUAL_CONTEXTS = (4096, 8192)


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """One plan.

    Attributes:
        target: The machine.
        context: Tokens of context that were asked for.
        plan: The plan; None if there is none.
        failure: Why there is none.
    """

    target: Target
    context: int
    plan: Plan | None
    failure: str = ""


@dataclass(frozen=True)
class Evidence:
    """What a report is made of.

    Attributes:
        model: The model, still open.
        reference: What it was compared with, still open; None without one.
        facts: What it is.
        mix: Its types by role.
        fits: How well each recipe agrees.
        recipe_verdict: The same as a sentence.
        tensors: Figures of every tensor, in the order of the model.
        measured: What reading the weights gave; None if they were not read.
        plans: Its plans.
    """

    model: Model
    reference: Model | None
    facts: Facts
    mix: Sequence[MixRow]
    fits: Sequence[RecipeFit]
    recipe_verdict: str
    tensors: Sequence[TensorFigures]
    measured: Measured | None
    plans: Sequence[PlannedCase]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a report.

    Attributes:
        survey: Whether to read the weights; a report of headers alone is there at once.
        workers: Threads that read them.
        targets: Machines to plan for.
        contexts: Tokens of context to plan for; none for the usual ones and the model's most.
        progress: Called now and then with the weights read so far, of `work`.
    """

    survey: bool = True
    workers: int = 1
    targets: Sequence[Target] = ()
    contexts: Sequence[int] = ()
    progress: Callable[[int], object] | None = None


def gather(model: Model, reference: Model | None, question: Question) -> Evidence:
    """Return all that a report tells of a model.

    Args:
        model: The model; it must stay open while the report is made.
        reference: What its weights are compared with, if the weights are read.
        question: What the report is to tell.

    Raises:
        ExplorerError: A file changed since it was opened. Tensors that cannot be read, and plans
            that cannot be made, are told in the report.
    """
    fits = compare_with_recipes(model)
    measured = None
    if question.survey:
        measured = measure(model, reference, question.workers, question.progress)
    facts = describe(model)
    return Evidence(
        model=model,
        reference=reference if question.survey else None,
        facts=facts,
        mix=type_mix(model),
        fits=fits,
        recipe_verdict=verdict(model, fits),
        tensors=figures_of_header(model) if measured is None else measured.tensors,
        measured=measured,
        plans=_plans(model, facts, question),
    )


def _plans(model: Model, facts: Facts, question: Question) -> list[PlannedCase]:
    contexts = question.contexts or _contexts(facts.context_length)
    cases = [(target, context) for target in question.targets for context in contexts]
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
    """Return two usual contexts and the model's longest; none of them longer than that."""
    most = longest or max(_USUAL_CONTEXTS)
    return sorted({min(context, most) for context in (*_USUAL_CONTEXTS, most)})


def _projector_bytes(model: Model) -> int:
    if model.projector is None:
        return 0
    with open_model(model.projector) as separate:
        return separate.nbytes


# Which tensors stand out: by error against the reference, by rounding step, by outliers.
#
# Error ranks tensors within a role, so every tensor is told against the median of its role too.


@dataclass(frozen=True, slots=True)
class Ranked:
    """A tensor among those of its role.

    Attributes:
        tensor: The tensor.
        value: The figure that it is ranked by.
        place: Its place in its role, 1 for the greatest figure.
        peers: Tensors of its role, itself included.
        to_median: Its figure divided by the role's median; NaN where that is 0.
    """

    tensor: TensorFigures
    value: float
    place: int
    peers: int
    to_median: float


def rank(
    tensors: Iterable[TensorFigures], figure: Callable[[TensorFigures], float]
) -> list[Ranked]:
    """Return the tensors whose figure is known and above 0, the greatest first."""
    roles: dict[str, list[tuple[float, TensorFigures]]] = {}
    for tensor in tensors:
        value = figure(tensor)
        if value > 0:  # NaN is not
            roles.setdefault(tensor.role, []).append((value, tensor))
    found = []
    for peers in roles.values():
        middle = median(value for value, _ in peers)
        peers.sort(key=lambda pair: -pair[0])
        for place, (value, tensor) in enumerate(peers, start=1):
            known = 0 < middle < math.inf and value < math.inf
            to_median = value / middle if known else math.nan
            found.append(Ranked(tensor, value, place, len(peers), to_median))
    return sorted(found, key=lambda one: -one.value)


def most_interesting(orders: Sequence[Sequence[Ranked]], count: int) -> list[TensorFigures]:
    """Return tensors whose histograms are worth a look: the first of each order in turn."""
    found: dict[str, TensorFigures] = {}
    longest = max(map(len, orders), default=0)
    for place in range(min(longest, count)):
        for order in orders:
            if place < len(order) and len(found) < count:
                tensor = order[place].tensor
                found.setdefault(tensor.name, tensor)
    return list(found.values())
