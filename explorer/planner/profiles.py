"""Profiles: what different releases of Ollama make of the same model and machine."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from explorer.errors import PlanError
from explorer.planner.checks import quoted
from explorer.planner.graphsize_profile import GraphSizeProfile
from explorer.planner.prediction import PredictionProfile
from explorer.planner.result import Plan, PlanRequest


class Profile(Protocol):
    """One way to plan."""

    @property
    def name(self) -> str:
        """What to call it in a command."""

    @property
    def title(self) -> str:
        """What it is, for people."""

    def plan(self, request: PlanRequest) -> Plan:
        """Make a plan.

        Raises:
            PlanError: The model cannot be planned, or would not be loaded.
        """


GRAPH_SIZE: Final = GraphSizeProfile()
PREDICTION: Final = PredictionProfile()
PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {profile.name: profile for profile in (GRAPH_SIZE, PREDICTION)}
)
"""The profiles by name, the default first."""


def profile_named(name: str) -> Profile:
    """Return the profile of a name.

    Raises:
        PlanError: There is none of that name.
    """
    if name not in PROFILES:
        raise PlanError(f"there is no profile {quoted(name)!r}; use one of {', '.join(PROFILES)}")
    return PROFILES[name]
