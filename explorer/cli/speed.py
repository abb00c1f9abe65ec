"""The bound of speed of a plan, for `gguf-explorer plan`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from explorer.cli import options
from explorer.cli.output import style
from explorer.errors import PlanError
from explorer.hardware.catalogue import find_bandwidths
from explorer.planner.devices import CPU
from explorer.planner.plans import Plan
from explorer.planner.speed import parse_rate, speed_bounds, speed_record
from explorer.present.speed import Speed, speed_details, speed_of


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


def plan_speed(plan: Plan, given: Mapping[str, int]) -> Speed | str:
    """Return what is said of a plan's speed; `given` are bandwidths by place."""
    return speed_of(plan, find_bandwidths(plan.devices, given))


def speed_record_of(plan: Plan, given: Mapping[str, int]) -> dict[str, Any] | None:
    """Return the ``speed_bound`` object of docs/interface.md; None where a bound is not known."""
    try:
        rates = find_bandwidths(plan.devices, given)
        bounds = speed_bounds(plan, rates)
    except PlanError:  # as `plan_speed` says
        return None
    if bounds is None:
        return None
    found = speed_of(plan, rates)
    sentence = found if isinstance(found, str) else found.sentence
    return speed_record(*bounds) | {"sentence": sentence}


def speed_text(plan: Plan, given: Mapping[str, int]) -> str:
    """Return the bound of a plan's speed, and what a token reads where; or why it is unknown."""
    found = plan_speed(plan, given)
    lines = [found] if isinstance(found, str) else [found.sentence, *speed_details(found.full)]
    shown = "".join(f"  {line}\n" for line in lines)
    return f"\n{style('Speed', bold=True)}\n{shown}"
