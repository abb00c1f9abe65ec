"""What is asked of a plan, and the plan: every figure, and on demand why it is what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from explorer.planner.devices import Device, Host, check_devices
from explorer.planner.graph.size import GraphSize
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.layout import Layout
from explorer.planner.settings import EffectiveSettings, Settings
from explorer.planner.terms import Term

if TYPE_CHECKING:
    from explorer.planner.prediction import Prediction


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a plan is to be made of.

    Attributes:
        h: The model.
        settings: What was asked for.
        devices: The GPUs.
        host: Memory of the machine, or None to check nothing against it.
        environment: Ollama's environment variables.
    """

    h: Hyperparameters
    settings: Settings = field(default_factory=Settings)
    devices: tuple[Device, ...] = ()
    host: Host | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        check_devices(self.devices)


@dataclass(frozen=True)
class Plan:
    """The memory that a model needs, under one profile.

    A profile that claims no layer split has a `prediction` in place of `sizes` and `layout`.

    Attributes:
        profile: Name of the profile.
        request: What was asked for.
        effective: The settings that hold.
        weights: Bytes of the weights that the profile counts.
        kv_total: Bytes of the KV cache.
        sizes: Cache of each block and graph, or None.
        layout: Where each layer goes, or None.
        prediction: What newer releases predict, or None.
        notes: What a reader should know.
        warnings: What makes the figures doubtful.
    """

    profile: str
    request: PlanRequest
    effective: EffectiveSettings
    weights: int
    kv_total: int
    sizes: GraphSize | None = None
    layout: Layout | None = None
    prediction: Prediction | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def fully_offloaded(self) -> bool:
        """Whether everything is on GPUs; without a layout, whether it is predicted to fit there."""
        if self.layout is not None:
            return self.layout.fully_offloaded
        fits = self.prediction is not None and self.prediction.fits
        return fits and bool(self.request.devices)

    @property
    def gpu_layers(self) -> int | None:
        """Number of layers on GPUs, or None where no split is claimed."""
        return None if self.layout is None else self.layout.placed

    @property
    def gpu_ratio(self) -> float | None:
        """Part of the layers that is on GPUs, 0 to 1, or None where no split is claimed."""
        layout = self.layout
        return None if layout is None else layout.placed / layout.total_layers

    @property
    def quick_estimate_ratio(self) -> float | None:
        """The rule of thumb of `quick_ratio`, unclamped; None without weights or layout."""
        layout = self.layout
        if layout is None or not self.weights:
            return None
        vram = sum(device.free for device in self.request.devices)
        return quick_ratio(vram, self.kv_total, layout.partial, layout.buffer, self.weights)

    @property
    def vram_total(self) -> int | None:
        """Bytes on all GPUs, or None where no split is claimed."""
        return None if self.layout is None else self.layout.vram_total

    @property
    def total(self) -> int:
        """Bytes needed in all."""
        if self.layout is not None:
            return self.layout.total
        assert self.prediction is not None  # a plan has one or the other
        return self.prediction.total

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Every figure with its formula; worked out on first use, so that a plan stays fast."""
        from explorer.planner.explain import explain  # noqa: PLC0415 - it imports us

        return explain(self)


def quick_ratio(vram: int, kv_total: int, partial: int, buffer: int, weights: int) -> float:
    """Return (VRAM - KV cache - partial graph - buffer) / weights, a rule of thumb for one GPU.

    It charges the cache of all blocks to the GPU and leaves out the minimum, the overhead and the
    output layer (planner.md section 8): an estimate to show beside the layout, not an answer. It
    may be below 0 or above 1.
    """
    return (vram - kv_total - partial - buffer) / weights
