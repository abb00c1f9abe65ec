"""How fast a plan is in words: the bound, what real programs reach of it, and what slows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from explorer.errors import PlanError
from explorer.hardware.catalogue import named_bandwidths
from explorer.planner.devices import CPU
from explorer.planner.plans import Plan
from explorer.planner.speed import Bandwidth, SpeedBound, speed_bound, speed_bounds
from explorer.present.plan import short_name
from explorer.text import bytes_text, counted, digits_text, float_text, integer_text, plain_text

_WHOLE = 10  # tokens a second from which on they are told without decimals


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast one sequence can grow with a plan.

    Attributes:
        empty: The bound with nothing in the cache.
        full: The same with the whole context in the cache.
        reason: What makes it slow.
    """

    empty: SpeedBound
    full: SpeedBound
    reason: str = ""

    @property
    def most(self) -> float:
        """Tokens a second that no program can exceed."""
        return self.empty.tokens_per_second or 0

    @property
    def brief(self) -> str:
        """ "15–30": what real programs reach, or "≤ 38" where nobody knows that."""
        return _reached(self.empty, "–") or f"≤ {_rate(self.most)}"

    @property
    def words(self) -> str:
        """The same in a sentence: "about 15–30 tokens/s", or "at most 38 tokens/s"."""
        reached = _reached(self.empty, "–")
        return f"about {reached} tokens/s" if reached else f"at most {_rate(self.most)} tokens/s"

    @property
    def sentence(self) -> str:
        """ "About 15 to 30 tokens/s, at most 38. 12 layers on the CPU cost 61 of at most 99." """
        most = _rate(self.most)
        text = f"At most {most} tokens/s for one request"
        if reached := _reached(self.empty):
            text = f"About {reached} tokens/s"
            if not reached.endswith(f" {most}"):  # rounded, the bound may be what was reached
                text += f", at most {most}"
        if self.empty.drafted:
            text += f" if all {self.empty.drafted} drafted tokens are accepted"
        both = self.empty, self.full
        empty, full = (_reached(one) or _rate(one.tokens_per_second or 0) for one in both)
        if self.full.depth and full != empty:
            text += f". With {integer_text(self.full.depth)} tokens in the cache {full}"
        return f"{text}. {self.reason}".rstrip()


def speed_of(plan: Plan, rates: Mapping[str, Bandwidth]) -> Speed | str:
    """Return how fast a plan is, or why that is not known.

    `rates` are the bandwidths of ``"GPU0"`` … and ``"CPU"``.
    """
    if plan.verdict.short:
        return "No speed: with these settings it does not fit."
    try:
        bounds = speed_bounds(plan, rates)
    except PlanError as error:  # the program refuses so short a context
        return f"Speed unknown: {error}."
    if bounds is None:
        return f"Speed unknown: what a token reads is not known of {plan.engine.short_title}."
    full, empty = bounds
    if full.tokens_per_second is None or empty.tokens_per_second is None:
        names = [name for name in empty.reads if not _known(rates, name)]
        which = " and ".join(_place(plan, name) for name in names)
        return f"Speed unknown: the bandwidth of {which} is not known."
    return Speed(empty, full, _reason(plan, empty, rates))


def speed_here(plan: Plan, given: Mapping[str, int]) -> Speed | str:
    """Return the same; `given` are bandwidths that the user gave, by the names of devices."""
    return speed_of(plan, named_bandwidths(plan.devices, given))


def _known(rates: Mapping[str, Bandwidth], name: str) -> int:
    found = rates.get(name)
    return (found.bytes_per_second if found is not None else None) or 0


def _place(plan: Plan, name: str) -> str:
    device = None if name == CPU else plan.gpus[int(name[3:])].device
    return "main memory" if device is None else short_name(device)


def _reason(plan: Plan, bound: SpeedBound, rates: Mapping[str, Bandwidth]) -> str:
    """Say what makes it slow: what the CPU reads, if that costs much, else the slowest memory."""
    found, on_gpus = plan.verdict, [name for name in bound.reads if name != CPU]
    on_cpu = found.total_layers - found.gpu_layers
    if on_gpus and CPU in bound.reads and (on_cpu or found.expert_layers):
        slowest = min(on_gpus, key=lambda name: _known(rates, name))
        moved = {name: nbytes for name, nbytes in bound.reads.items() if name != CPU}
        moved[slowest] += bound.reads[CPU]
        faster = replace(speed_bound(moved, rates, bound.depth), drafted=bound.drafted)
        without, most = faster.tokens_per_second or 0, bound.tokens_per_second or 0
        if round(without) > round(most):
            what = (
                counted(on_cpu, "layer")
                if on_cpu
                else f"The {found.part} of {counted(found.expert_layers, 'layer')}"
            )
            verb = "costs" if on_cpu == 1 else "cost"
            cost = integer_text(round(without) - round(most))
            whole = f"at most {integer_text(round(without))} tokens/s"
            return f"{what} on the CPU {verb} {cost} of {whole}."
    if not bound.reads:
        return ""
    name = max(bound.reads, key=lambda one: bound.reads[one] / (_known(rates, one) or 1))
    read, rate = bytes_text(bound.reads[name]), rate_text(_known(rates, name))
    return f"Each token reads {read} from {_place(plan, name)} at {rate}."


def speed_details(bound: SpeedBound) -> list[str]:
    """Return what a token reads where, at which bandwidth, and who says so."""
    lines = []
    for one in bound.bandwidths:
        rate = f"{rate_text(one.bytes_per_second)}, " if one.bytes_per_second else ""
        read = bytes_text(bound.reads[one.device])
        place = one.device.replace("GPU", "GPU ")
        lines.append(f"{place}: {read} a token, {rate}{plain_text(one.origin)}")
    return lines


def rate_text(rate: int) -> str:
    """Return a bandwidth: "504 GB/s"."""
    return f"{float_text(rate / 1e9, 4)} GB/s"


def _reached(bound: SpeedBound, between: str = " to ") -> str:
    return between.join(map(_rate, bound.likely or ()))


def _rate(tokens: float) -> str:
    return integer_text(round(tokens)) if tokens >= _WHOLE else digits_text(tokens, 2)
