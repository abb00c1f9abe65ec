"""What becomes of inputs: a plan, or why there is none, as a picture needs it. Knows no Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from explorer.errors import PlanError
from explorer.planner import Hyperparameters
from explorer.planner.profiles import profile_named
from explorer.planner.result import Plan
from explorer.qt.models.planner.inputs import PlanInputs


@dataclass(frozen=True, slots=True)
class Outcome:
    """A plan, a refusal, or both.

    Attributes:
        plan: The plan; where Ollama would refuse it, the one it would have made otherwise, so that
            one sees by how much memory is short. None if the inputs cannot be planned at all.
        refusal: Why Ollama would refuse, or why there is no plan; empty if all is well.
        reason: ``"requires full"`` or ``"system memory"`` where Ollama would refuse, or None.
    """

    plan: Plan | None
    refusal: str = ""
    reason: str | None = None


def make_outcome(h: Hyperparameters, inputs: PlanInputs, environment: Mapping[str, str]) -> Outcome:
    """Plan; takes about a millisecond."""
    profile = profile_named(inputs.profile)
    try:
        return Outcome(profile.plan(inputs.request(h, environment)))
    except PlanError as error:
        if error.reason is None:
            return Outcome(None, str(error))
        refused = error
    lenient = replace(inputs.with_settings(require_full=False), host=None)
    try:
        plan = profile.plan(lenient.request(h, environment))
    except PlanError as error:
        return Outcome(None, str(error))
    return Outcome(plan, str(refused), refused.reason)
