"""A plan by llama.cpp: what was decided, what it allocates, and the arguments that say so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from explorer.planner.devices import MIB, Device
from explorer.planner.engines.llama_cpp.allocation import Allocation, Buffer, Settings
from explorer.planner.engines.llama_cpp.fitting import Decision
from explorer.planner.engines.llama_cpp.header import Header

DEFAULT_RESERVE: Final = 512 * MIB
"""Bytes on each GPU for what a plan cannot see: the driver's context, workspaces, pools, graphs."""

RESERVE_ORIGIN: Final = "for the driver and what a plan cannot see"

EXACT: Final = "exact"
BAND: Final = "band"
UNKNOWN: Final = "unknown architecture"
"""How sure compute buffers are: `EXACT` within 1 %, else between their low and their high end."""

HOST_BUFFERS: Final = ("host", "CPU", "CPU_REPACK")
"""Buffers in main memory; the first one is the GPU's own, which it copies from fast."""


@dataclass(frozen=True, slots=True)
class Held:
    """What one GPU holds, or main memory."""

    name: str  # of the buffer: "GPU0"; "CPU" for all of main memory
    weights: int
    cache: int  # with recurrent state
    compute: int
    projector: int  # of a separate projector file
    reserve: int
    free: int | None  # before the model is loaded; None if not known
    layers: tuple[int, ...]  # the output is the last

    @property
    def total(self) -> int:
        """Bytes that llama.cpp allocates."""
        return self.weights + self.cache + self.compute + self.projector

    @property
    def short(self) -> int:
        """Bytes that are missing, the reserve counted."""
        return 0 if self.free is None else max(0, self.total + self.reserve - self.free)


@dataclass(frozen=True)
class Outcome:
    """What llama.cpp allocates under one profile.

    Attributes:
        header: What the rules read of the model.
        settings: The arguments that hold, the decided ones with them.
        allocation: What it allocates with them.
        decision: What llama.cpp decides by itself; None where nothing is left to it.
        devices: The GPUs that it uses, in order.
        reserves: Bytes for what a plan cannot see, of each GPU.
        host_free: Free main memory, or None if not known.
        projector: Bytes of a separate projector file, which the first GPU holds.
        split_mode: ``"layer"`` or ``"none"``.
        context_was_open: Whether the context was left to llama.cpp.
        origins: Setting → where its value came from.
    """

    header: Header
    settings: Settings
    allocation: Allocation
    decision: Decision | None
    devices: tuple[Device, ...]
    reserves: tuple[int, ...]
    host_free: int | None
    projector: int
    split_mode: str
    context_was_open: bool
    origins: Mapping[str, str]

    @property
    def decided_by(self) -> str:
        """``"you"``, or ``"fit"`` where llama.cpp decides."""
        return "you" if self.decision is None else "fit"

    @property
    def total_layers(self) -> int:
        """The blocks and the output."""
        return self.header.blocks + 1

    @cached_property
    def gpu_layers(self) -> int:
        """Layers on GPUs."""
        return sum(place.startswith("GPU") for place in self.allocation.places)

    @cached_property
    def expert_layers(self) -> tuple[int, ...]:
        """Layers on a GPU of which some weights lie elsewhere, such as experts on the CPU."""
        layers = zip(self.allocation.places, self.allocation.layer_weights, strict=False)
        return tuple(
            i
            for i, (place, held) in enumerate(layers)
            if place.startswith("GPU") and any(held[name] for name in held if name != place)
        )

    @cached_property
    def gpus(self) -> tuple[Held, ...]:
        """What each GPU holds."""
        return tuple(
            self._held(f"GPU{i}", (f"GPU{i}",), reserve, device.free)
            for i, (device, reserve) in enumerate(zip(self.devices, self.reserves, strict=True))
        )

    @cached_property
    def main(self) -> Held:
        """What main memory holds."""
        return self._held("CPU", HOST_BUFFERS, 0, self.host_free)

    def _held(self, name: str, names: Sequence[str], reserve: int, free: int | None) -> Held:
        buffers = self.allocation.buffers
        held = [buffers[one] for one in names if one in buffers]
        return Held(
            name=name,
            weights=sum(one.weights for one in held),
            cache=sum(one.cache for one in held),
            compute=sum(map(compute_most, held)),
            projector=self.projector if name == ("GPU0" if self.devices else "CPU") else 0,
            reserve=reserve,
            free=free,
            layers=tuple(i for i, place in enumerate(self.allocation.places) if place in names),
        )

    @property
    def all_on_gpus(self) -> bool:
        """Whether nothing but the input is left to the CPU."""
        on_cpu = self.gpu_layers < self.total_layers or self.expert_layers
        return not on_cpu and self.settings.offload_kv

    @property
    def fits(self) -> bool:
        """Whether no GPU, with its reserve, and no main memory is too small."""
        return not any(held.short for held in (*self.gpus, self.main))

    @property
    def room(self) -> int:
        """Bytes that the tightest memory has left, its reserve counted; negative: missing."""
        return min(
            (
                held.free - held.total - held.reserve
                for held in (*self.gpus, self.main)
                if held.free is not None
            ),
            default=0,
        )

    @property
    def accuracy(self) -> str:
        """How sure the compute buffers are: "exact", or why not; all else is exact."""
        return self.allocation.accuracy

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.main.total + sum(held.total for held in self.gpus)

    @property
    def weights(self) -> int:
        """Bytes of weights in all buffers; a tied output is there twice."""
        return self.main.weights + sum(held.weights for held in self.gpus)

    @property
    def cache(self) -> int:
        """Bytes of cache and recurrent state in all buffers."""
        return self.main.cache + sum(held.cache for held in self.gpus)

    @property
    def compute(self) -> int:
        """Bytes of all compute buffers."""
        return self.main.compute + sum(held.compute for held in self.gpus)

    def caches_in(self, name: str) -> list[int]:
        """Return the bytes of cache of each block that lies in a buffer."""
        if not self.settings.offload_kv:
            return list(self.allocation.layer_cache) if name == "CPU" else []
        held = zip(self.allocation.layer_cache, self.allocation.places, strict=False)
        return [
            nbytes for nbytes, place in held if (place if place[:3] == "GPU" else "CPU") == name
        ]

    def compute_origin(self, name: str) -> str:
        """Say where the figure of a compute buffer comes from."""
        buffer = self.allocation.buffers[name]
        if buffer.compute is None:
            return "not known: the upper end of what any such graph takes"
        unknown = self.accuracy == UNKNOWN
        graph = "the graph of llama, for want of its own" if unknown else "its graph"
        return f"most memory that {graph} of a full batch takes on {name} at once"

    def arguments(self) -> list[str]:
        """Return the arguments of `llama-server` that load the model alike."""
        return [word for words in self._arguments() for word in words]

    def _arguments(self) -> Iterator[tuple[str, ...]]:
        settings = self.settings
        yield "--ctx-size", str(self.allocation.n_ctx)
        yield "--parallel", str(settings.parallel)
        yield ("--kv-unified" if settings.kv_unified else "--no-kv-unified",)
        yield "--batch-size", str(settings.batch)
        yield "--ubatch-size", str(settings.ubatch)
        yield "--cache-type-k", settings.type_k
        yield "--cache-type-v", settings.type_v
        yield "--flash-attn", "on" if settings.flash_attention else "off"
        if self.devices:
            yield from self._placement()
        if not settings.offload_kv:
            yield ("--no-kv-offload",)
        if settings.swa_full:
            yield ("--swa-full",)

    def _placement(self) -> Iterator[tuple[str, ...]]:
        settings = self.settings
        everything = self.gpu_layers == self.total_layers
        yield "--n-gpu-layers", "all" if everything else str(self.gpu_layers)
        if self.split_mode == "none":
            yield "--split-mode", "none"
        elif len(self.devices) > 1 and settings.tensor_split is not None:
            yield "--tensor-split", ",".join(f"{share:g}" for share in self._shares())
        if settings.cpu_moe_layers >= self.header.blocks > 0:
            yield ("--cpu-moe",)
        elif settings.cpu_moe_layers:
            yield "--n-cpu-moe", str(settings.cpu_moe_layers)
        if settings.overrides:
            pairs = (f"{what}={self.buffer_name(where)}" for what, where in settings.overrides)
            yield "--override-tensor", ",".join(pairs)

    def _shares(self) -> Sequence[float]:
        """Return the split as layers: shares by free memory would change with it."""
        return [len(held.layers) for held in self.gpus]

    def buffer_name(self, name: str) -> str:
        """Return what llama.cpp calls a buffer: ``"CUDA1"`` for GPU1."""
        if not name.startswith("GPU"):
            return "CPU" if name in HOST_BUFFERS else name
        device = self.devices[int(name[3:])]
        return f"{device.library}{name[3:]}"

    def record(self) -> dict[str, Any]:
        """Return the object `llama_cpp` of docs/interface.md."""
        decision, settings = self.decision, self.settings
        split = settings.tensor_split if len(self.devices) > 1 else None
        if decision is not None:
            split = decision.tensor_split
        return {
            "n_ctx": self.allocation.n_ctx,
            "n_ctx_seq": self.allocation.n_ctx_seq,
            "decided_by": self.decided_by,
            "gpu_layers": self.gpu_layers if decision is None else decision.gpu_layers,
            "tensor_split": None if split is None else list(split),
            "cpu_moe_layers": min(settings.cpu_moe_layers, self.header.blocks),
            "overrides": [list(override) for override in settings.overrides],
            "buffers": {
                name: {
                    "weights": buffer.weights,
                    "cache": buffer.cache,
                    "compute": buffer.compute,
                    "compute_low": buffer.compute_low,
                    "compute_high": buffer.compute_high,
                    "reserve": self._reserve(name),
                }
                for name, buffer in sorted(self.allocation.buffers.items(), key=_order)
            },
            "accuracy": self.accuracy,
            "arguments": self.arguments(),
        }

    def _reserve(self, name: str) -> int:
        return self.reserves[int(name[3:])] if name.startswith("GPU") else 0


def compute_most(buffer: Buffer) -> int:
    """Return the bytes of a compute buffer; the upper end where there is no figure."""
    return buffer.compute if buffer.compute is not None else buffer.compute_high or 0


def _order(item: tuple[str, Buffer]) -> tuple[bool, int, str]:
    name = item[0]
    is_gpu = name.startswith("GPU")
    return not is_gpu, int(name[3:]) if is_gpu else 0, name
