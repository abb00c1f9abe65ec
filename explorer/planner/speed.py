"""How fast a model can generate at most: what a token reads, by the bandwidth it is read with.

No program can be faster, since every generated token reads the weights that take part in it and the
cache of all tokens before it, and devices that hold different layers work one after the other. With
speculation one such pass may give all drafted tokens and one more.
Real programs reach a part of it (`REACHED`). It is a bound, never a promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from explorer.planner.devices import MOST_GIGABYTES, parse_size
from explorer.planner.plans import Plan


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """How fast one device reads its memory, and who says so."""

    device: str  # "GPU0" …, or `CPU`
    bytes_per_second: int | None  # None where it is not known
    origin: str  # "catalogue: NVIDIA GeForce RTX 4070", "you", …


REACHED: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {"dense": (0.4, 0.95), "hybrid": (0.4, 0.7), "experts": (0.25, 0.6)}
)
"""The part of the bound that published runs reached, by kind of model (docs/planner.md, 15)."""


def kind_of(plan: Plan, bytes_per_token: int) -> str:
    """Return the kind of a planned model, of `REACHED`, of which a token reads so many bytes."""
    header = plan.request.h.llama_cpp
    used = 0 if isinstance(header, str) else header.experts_used
    if used or (isinstance(header, str) and 2 * bytes_per_token < plan.weights):
        return "experts"
    return "hybrid" if plan.request.h.ssm_inner_size else "dense"


def parse_rate(text: str) -> int:
    """Return the bytes a second of ``504``, ``504 GB`` or ``504 GB/s``.

    A number alone means GB, of 1000^3 as makers write it, above 65,536 bytes.

    Raises:
        PlanError: The text is none.
    """
    typed = text.strip().lower().removesuffix("/s")
    nbytes = parse_size(typed)
    return nbytes if typed[-1:].isalpha() or nbytes > MOST_GIGABYTES else parse_size(f"{typed}GB")


@dataclass(frozen=True, slots=True)
class SpeedBound:
    """The most tokens a second at one depth."""

    depth: int  # tokens in the cache
    reads: Mapping[str, int]  # device → bytes that a token reads there
    bandwidths: tuple[Bandwidth, ...]  # of those devices
    drafted: int = 0  # tokens that are drafted for each one, all of which may be accepted
    kind: str = "dense"  # of `REACHED`; empty where no published run says what is reached

    @property
    def bytes_per_token(self) -> int:
        """Return what a token reads on all devices."""
        return sum(self.reads.values())

    @property
    def tokens_per_second(self) -> float | None:
        """Return the bound; None where the bandwidth of a device that is read is not known."""
        seconds = 0.0
        for one in self.bandwidths:
            if not one.bytes_per_second:
                return None
            seconds += self.reads[one.device] / one.bytes_per_second
        return (1 + self.drafted) / seconds if seconds else None

    @property
    def likely(self) -> tuple[float, float] | None:
        """Return what real programs reach, from no drafted token accepted to all; None: unknown."""
        most, reached = self.tokens_per_second, REACHED.get(self.kind)
        if most is None or reached is None:
            return None
        return reached[0] * most / (1 + self.drafted), reached[1] * most


def speed_bound(
    reads: Mapping[str, int], bandwidths: Mapping[str, Bandwidth], depth: int
) -> SpeedBound:
    """Return how fast one sequence can grow at most.

    Args:
        reads: Bytes that a token reads on each device ``"GPU0"`` …, and on `CPU`.
        bandwidths: Of these devices.
        depth: Tokens in the cache.
    """
    unknown = Bandwidth("", None, "bandwidth unknown")
    held = {name: nbytes for name, nbytes in reads.items() if nbytes}
    rates = (replace(bandwidths.get(name, unknown), device=name) for name in held)
    return SpeedBound(depth, held, tuple(rates))


def speed_bounds(
    plan: Plan, bandwidths: Mapping[str, Bandwidth]
) -> tuple[SpeedBound, SpeedBound] | None:
    """Return the bound of a plan with its whole context, and with none; None where it is unknown.

    Raises:
        PlanError: The program would refuse so short a context.
    """
    depth, drafted = int(plan.used("context")), plan.drafted
    full, empty = plan.details.reads(depth), plan.details.reads(0)
    if full is None or empty is None:
        return None
    kind = kind_of(plan, sum(empty.values())) if plan.engine.is_timed else ""
    return (
        replace(speed_bound(full, bandwidths, depth), drafted=drafted, kind=kind),
        replace(speed_bound(empty, bandwidths, 0), drafted=drafted, kind=kind),
    )


def speed_record(bound: SpeedBound, empty: SpeedBound) -> dict[str, Any]:
    """Return the ``speed_bound`` object of docs/interface.md.

    Args:
        bound: At the depth of the plan's context.
        empty: With nothing in the cache.
    """
    return {
        "tokens_per_second": bound.tokens_per_second,
        "bytes_per_token": bound.bytes_per_token,
        "bandwidth": [
            {
                "device": one.device,
                "bytes_per_second": one.bytes_per_second,
                "from": one.origin,
                "bytes_per_token": bound.reads[one.device],
            }
            for one in bound.bandwidths
        ],
        "depth": bound.depth,
        "drafted": bound.drafted,
        "kind": bound.kind,
        "likely": None if empty.likely is None else list(empty.likely),
        "empty": {
            "tokens_per_second": empty.tokens_per_second,
            "bytes_per_token": empty.bytes_per_token,
        },
    }
