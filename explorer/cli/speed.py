"""The bound of speed of a plan, for `gguf-explorer plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from explorer.cli import options
from explorer.cli.output import style
from explorer.errors import PlanError
from explorer.hardware.catalogue import find_bandwidths
from explorer.planner.devices import CPU
from explorer.planner.plan import Plan
from explorer.planner.speed import SpeedBound, parse_rate, speed_bounds, speed_record
from explorer.present.speed import Speed as TextOfSpeed
from explorer.present.speed import speed_details, speed_of


def _parse_bandwidth(text: str) -> tuple[str, int]:
    """Return the device and the bytes a second of ``GPU0=504GB`` or ``CPU=60GB``."""
    name, _, rate = text.partition("=")
    name = name.strip().upper()
    if not rate or not (name == CPU or (name.startswith("GPU") and name[3:].isdigit())):
        raise PlanError("write DEVICE=BYTES a second, such as GPU0=504GB or CPU=60GB")
    nbytes = parse_rate(rate)
    if nbytes == 0:
        raise PlanError("a bandwidth is more than nothing")
    return name, nbytes


bandwidth_option = click.option(
    "bandwidths",
    "--bandwidth",
    multiple=True,
    metavar="DEVICE=BYTES",
    type=options.parsed_by(_parse_bandwidth),
    help="Bandwidth a second, such as GPU0=504GB or CPU=60GB. Default: the catalogue's.",
)


def plan_speed(plan: Plan, given: Mapping[str, int]) -> TextOfSpeed | str:
    """Return what is said of a plan's speed; `given` are bandwidths by place."""
    return speed_of(plan, find_bandwidths(plan.devices, given))


@dataclass(frozen=True, slots=True)
class Speed:
    """The bound of speed of a plan: with its context full, and with nothing in the cache."""

    full: SpeedBound
    empty: SpeedBound
    sentence: str  # empty where the plan does not fit

    @classmethod
    def of(cls, plan: Plan, given: Mapping[str, int]) -> Speed | None:
        """Return the bound of a plan, if it is known; `given` are bandwidths of the user."""
        rates = find_bandwidths(plan.devices, given)
        bounds, found = speed_bounds(plan, rates), speed_of(plan, rates)
        sentence = found if isinstance(found, str) else found.sentence
        return None if bounds is None else cls(*bounds, sentence)

    def record(self) -> dict[str, Any]:
        """Return the ``speed_bound`` object of docs/interface.md."""
        return speed_record(self.full, self.empty) | {"sentence": self.sentence}

    def text(self) -> str:
        if not self.sentence:
            return ""
        shown = "".join(f"  {line}\n" for line in (self.sentence, *speed_details(self.full)))
        return f"\n{style('Speed', bold=True)}\n{shown}"
