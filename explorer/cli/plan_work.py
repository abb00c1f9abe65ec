"""Plans of many models, one after the other: one that cannot be planned does not stop the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from explorer.cli.arguments import model_path
from explorer.cli.plan_machine import Target
from explorer.errors import ExplorerError, PlanError
from explorer.formats import open_model
from explorer.planner import Hyperparameters, Settings
from explorer.planner.advice import Advice, solve
from explorer.planner.profiles import GRAPH_SIZE, profile_named
from explorer.planner.record import plan_record
from explorer.planner.result import Plan, PlanRequest

_UNCHECKED: Final = (
    "whether main memory holds what is left to the CPU was not checked: the GPUs are named, so "
    "they may be another machine's; say --memory SIZE to check it"
)
_SETTING: Final = {
    "context": "context",
    "parallel": "parallel",
    "kv-cache-type": "kv_cache_type",
    "gpu-layers": "num_gpu",
    "fewest-gpu-layers": "num_gpu",
}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every model.

    Attributes:
        settings: The settings that a person chose.
        target: The machine.
        profiles: Names of the profiles to plan by.
        solve: What to find the most of, or None.
        root: Ollama store in which names are looked up, or None.
        projector: File of a separate projector, or None.
        environment: Variables of the process.
    """

    settings: Settings
    target: Target
    profiles: Sequence[str]
    solve: str | None = None
    root: str | None = None
    projector: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """One model under one profile.

    Attributes:
        path: What the person called the model.
        profile: Name of the profile.
        plan: The plan, or None if there is none.
        advice: What was solved for, or None.
        failure: Why there is no plan.
        reason: ``"requires full"`` or ``"system memory"`` where Ollama would refuse.
        notes: Notes on the machine.
    """

    path: str
    profile: str
    plan: Plan | None = None
    advice: Advice | None = None
    failure: str = ""
    reason: str | None = None
    notes: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the JSON object of a plan; without a plan, what went wrong."""
        if self.plan is None:
            failure = {"what": self.failure, "reason": self.reason}
            return {"path": self.path, "profile": self.profile, "error": failure}
        record = plan_record(self.plan, self.advice)
        record["notes"] = [*record["notes"], *self.notes]
        return record


def answer_all(paths: Sequence[str], question: Question) -> Iterator[Answer]:
    """Yield an answer for each model and profile."""
    for path in paths:
        try:
            request = _request(path, question)
        except ExplorerError as error:
            for profile in question.profiles:
                yield Answer(path, profile, failure=str(error))
            continue
        for profile in question.profiles:
            yield _answer(path, profile, request, question)


def _request(path: str, question: Question) -> PlanRequest:
    """Open a model and read what the formulas need. It is closed again: only headers are read."""
    settings = question.settings
    with open_model(model_path(path, question.root)) as model:
        h = Hyperparameters.from_model(model)
        projector = question.projector or model.projector
    if projector is not None:
        with open_model(projector) as separate:
            settings = replace(settings, projector_bytes=separate.nbytes)
    target = question.target
    return PlanRequest(h, settings, target.devices, target.host, question.environment)


def _answer(path: str, profile: str, request: PlanRequest, question: Question) -> Answer:
    try:
        advice = None
        if question.solve is not None and profile == GRAPH_SIZE.name:
            advice = solve(question.solve, request)
        plan = _plan(profile, request, advice)
    except PlanError as error:
        # the planner knows no files, so its message has no path yet
        failure = str(error) if error.path is not None else f"{path}: {error}"
        return Answer(path, profile, failure=failure, reason=error.reason)
    notes = question.target.notes
    if request.host is None and plan.layout is not None and not plan.layout.fully_offloaded:
        notes += (_UNCHECKED,)
    return Answer(path, profile, plan, advice, notes=notes)


def _plan(profile: str, request: PlanRequest, advice: Advice | None) -> Plan:
    """Return the plan of what was asked for; where Ollama would refuse that, of the answer."""
    try:
        return profile_named(profile).plan(request)
    except PlanError as error:
        if error.reason is None or advice is None or advice.value is None:
            raise
    answered: dict[str, Any] = {_SETTING[advice.what]: advice.value}
    settings = replace(request.settings, **answered)
    return profile_named(profile).plan(replace(request, settings=settings))
