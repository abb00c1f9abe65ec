"""How fast a plan is in words: the bound, what real programs reach of it, and what slows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.errors import PlanError
from explorer.planner.devices import CPU
from explorer.planner.plan import Plan
from explorer.planner.speed import REACHED, Bandwidth, SpeedBound, speed_bound, speed_bounds
from explorer.present.plan import short_name
from explorer.text import counted, digits_text, integer_text

_WHOLE = 10  # tokens a second from which on they are told without decimals


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast one sequence can grow with a plan.

    Attributes:
        most: Tokens a second that no program can exceed, with an empty cache.
        least: The same with the whole context in the cache.
        depth: That context.
        reason: What on the CPU slows it, and by how much; else empty.
    """

    most: float
    least: float
    depth: int
    reason: str = ""

    @property
    def brief(self) -> str:
        """ "15–30": what real programs reach, for a column that names the unit."""
        return _reached(self.most, "–")

    @property
    def sentence(self) -> str:
        """ "About 15 to 30 tokens/s, at most 38. 12 layers on the CPU cost 61 of 99." """
        text = f"About {_reached(self.most)} tokens/s, at most {_rate(self.most)}"
        if self.depth and _rate(self.least) != _rate(self.most):
            text += f". With {integer_text(self.depth)} tokens in the cache {_reached(self.least)}"
        return f"{text}. {self.reason}".rstrip()


def speed_of(plan: Plan, rates: Mapping[str, Bandwidth]) -> Speed | str:
    """Return how fast a plan is, or why that is not known; empty where it does not fit.

    `rates` are the bandwidths of ``"GPU0"`` … and ``"CPU"``.
    """
    try:
        bounds = None if plan.verdict.short else speed_bounds(plan, rates)
    except PlanError:  # the program refuses so short a context
        return ""
    if bounds is None:
        return ""
    full, empty = bounds
    least, most = full.tokens_per_second, empty.tokens_per_second
    if least is None or most is None:
        names = [name for name in empty.reads if not _known(rates, name)]
        which = " and ".join(_place(plan, name) for name in names)
        return f"Speed unknown: the bandwidth of {which} is not known."
    return Speed(most, least, full.depth, _reason(plan, empty, rates, most))


def _known(rates: Mapping[str, Bandwidth], name: str) -> int:
    found = rates.get(name)
    return (found.bytes_per_second if found is not None else None) or 0


def _place(plan: Plan, name: str) -> str:
    device = None if name == CPU else plan.gpus[int(name[3:])].device
    return "main memory" if device is None else short_name(device)


def _reason(plan: Plan, bound: SpeedBound, rates: Mapping[str, Bandwidth], most: float) -> str:
    """Say what it costs that the CPU reads a part, and not the slowest of the GPUs."""
    found, on_gpus = plan.verdict, [name for name in bound.reads if name != CPU]
    on_cpu = found.total_layers - found.gpu_layers
    if not on_gpus or CPU not in bound.reads or not (on_cpu or found.expert_layers):
        return ""
    slowest = min(on_gpus, key=lambda name: _known(rates, name))
    moved = {name: nbytes for name, nbytes in bound.reads.items() if name != CPU}
    moved[slowest] += bound.reads[CPU]
    without = speed_bound(moved, rates, bound.depth).tokens_per_second
    if without is None or round(without) <= round(most):
        return ""
    what = (
        counted(on_cpu, "layer")
        if on_cpu
        else f"The experts of {counted(found.expert_layers, 'layer')}"
    )
    verb = "costs" if on_cpu == 1 else "cost"
    cost = integer_text(round(without) - round(most))
    return f"{what} on the CPU {verb} {cost} of {integer_text(round(without))}."


def _reached(bound: float, between: str = " to ") -> str:
    return between.join(_rate(share * bound) for share in REACHED)


def _rate(tokens: float) -> str:
    return integer_text(round(tokens)) if tokens >= _WHOLE else digits_text(tokens, 2)
