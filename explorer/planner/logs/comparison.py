"""What a log measured beside what a plan says, whichever program wrote the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from explorer.planner.engines.llama_cpp import allocation as llama_cpp
from explorer.planner.engines.llama_cpp.builds import NEWEST
from explorer.planner.logs.lines import BLOCK, BLOCKS, REQUESTS, TOKENS, Measured
from explorer.planner.settings import Settings

ALL: Final = "all"

_UNITS: Final = MappingProxyType(
    {TOKENS: "tokens", BLOCK: "tokens", BLOCKS: "blocks", REQUESTS: "requests"}
)

Amount: TypeAlias = int | float


@dataclass(frozen=True, slots=True)
class Residual:
    """One term: what was planned and what was measured."""

    device: str  # "GPU0" …, "host", or "all" where the log tells only a sum
    kind: str  # WEIGHTS, CACHE, COMPUTE, OUTPUT, TOKENS … or "total"
    planned: Amount | None  # None where no law and no band is known
    measured: Amount
    within: Amount  # the log rounds: the measured size is at most so far away
    planned_low: Amount | None = None  # where only a band is known; `planned` is its upper end

    @property
    def unit(self) -> str:
        """What is counted."""
        return _UNITS.get(self.kind, "bytes")

    @property
    def nearest(self) -> Amount | None:
        """What is planned; of a band what of it is nearest to what was measured."""
        if self.planned is None or self.planned_low is None:
            return self.planned
        return min(max(self.measured, self.planned_low), self.planned)

    @property
    def difference(self) -> Amount | None:
        """How much more was measured than planned; None without a plan, 0 inside a band."""
        return None if self.nearest is None else self.measured - self.nearest

    @property
    def agrees(self) -> bool:
        """Whether the plan is right as far as the log can tell."""
        return self.difference is not None and abs(self.difference) <= self.within


@dataclass(frozen=True, slots=True)
class Unaccounted:
    """What a GPU holds beyond the plan: the driver's context, pools; for the plan's reserve."""

    device: str  # "GPU0"
    name: str  # what people call the GPU; empty where the log does not tell
    nbytes: int | None  # None where the log does not tell
    others: bool = False  # whether it may include other programs' memory
    blind: bool = False  # whether the device reports as much free memory with the model as without

    @property
    def reserve(self) -> int | None:
        return None if self.nbytes is None else max(0, self.nbytes)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A log beside the plan with its settings."""

    measured: Measured
    settings: llama_cpp.Settings | Settings  # those of the engine that the log is of
    residuals: tuple[Residual, ...]
    unaccounted: tuple[Unaccounted, ...] = ()
    inferred: tuple[str, ...] = ()  # settings that were read off the measured weights
    assumed: tuple[str, ...] = ()  # settings that the log does not tell
    unlike: str = ""  # the model's name, where the log gives another one

    def buffers(self) -> dict[str, dict[str, Amount]]:
        """Return what was measured: place → kind → amount."""
        found: dict[str, dict[str, Amount]] = {}
        for one in self.residuals:
            found.setdefault(one.device, {})[one.kind] = one.measured
        return found

    def asked(self, devices: int) -> Mapping[str, Any]:
        """Return the settings of a plan that the log tells; of a plan for so many GPUs."""
        log = self.settings
        if isinstance(log, Settings):
            return log.record()
        given: dict[str, Any] = {
            "context": log.context,
            "parallel": log.parallel,
            "batch": log.batch,
            "ubatch": log.ubatch,
            "kv_unified": log.kv_unified,
            "cache_type_k": log.type_k,
            "cache_type_v": log.type_v,
            "flash_attention": log.flash_attention,
            "offload_kv": log.offload_kv,
            "swa_full": log.swa_full,
            "mtp": log.mtp or None,
            "all_logits": log.all_logits or None,
            "build": None if log.build == NEWEST else log.build,
        }
        if log.devices == devices:  # where layers lie
            given |= {"num_gpu": log.gpu_layers, "cpu_moe_layers": log.cpu_moe_layers}
            given["tensor_split"] = None if log.tensor_split is None else tuple(log.tensor_split)
        return given


def measured_record(comparison: Comparison, file: str) -> dict[str, Any]:
    """Return the ``measured`` object of docs/interface.md."""
    return {
        "file": file,
        "buffers": comparison.buffers(),
        "residuals": [_residual_record(one) for one in comparison.residuals],
        "tokens_per_second": comparison.measured.tokens_per_second,
        "rests": [
            {"device": one.device, "name": one.name, "bytes": one.nbytes}
            for one in comparison.unaccounted
        ],  # what remains, for --reserve
    }


def _residual_record(one: Residual) -> dict[str, Any]:
    found: dict[str, Any] = {
        "what": f"{one.device} {one.kind}",
        "planned": one.planned,
        "measured": one.measured,
        "difference": one.difference,
    }
    if one.planned_low is not None:
        found["planned_low"] = one.planned_low
    return found if one.unit == "bytes" else found | {"unit": one.unit}
