"""Collects all that a report tells of a model. This is the part that takes time: it reads weights.

Everything else of the package only puts the evidence gathered here into words and pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from explorer.analysis.recipes import MixRow, RecipeFit, compare_with_recipes, type_mix, verdict
from explorer.errors import ExplorerError, PlanError
from explorer.formats import open_model
from explorer.formats.facts import Facts, describe
from explorer.formats.model import Model
from explorer.planner import Hyperparameters, Settings, plan
from explorer.planner.result import Plan
from explorer.report.machines import Target
from explorer.report.weights import Measured, TensorFigures, figures_of_header, measure

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
