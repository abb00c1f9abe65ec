"""A plan by llama.cpp: what was decided, what it allocates, and the arguments that say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from explorer.planner.devices import Device
from explorer.planner.engines.llama_cpp.allocation import Allocation, Buffer, Settings, cache_parts
from explorer.planner.engines.llama_cpp.fitting import Decision
from explorer.planner.engines.llama_cpp.graph import GPU_ALIGNMENT, HOST_ALIGNMENT, padded
from explorer.planner.engines.llama_cpp.header import Header
from explorer.planner.engines.llama_cpp.reading import read_header, reads
from explorer.planner.engines.llama_cpp.reserves import Reserve, reserve_of
from explorer.planner.plans import (
    NOTHING,
    Accuracy,
    Choice,
    Details,
    Effective,
    Engine,
    Holding,
    Layer,
    NamedBuffer,
    Number,
    Plan,
    Range,
    Term,
    Verdict,
    judge,
    least_room,
    sum_term,
    term,
)
from explorer.planner.request import PlanRequest
from explorer.text import bytes_text

_RESERVE_ORIGIN: Final = "for the driver and other programs"
_OPEN: Final = "how much the driver takes beside the model"

HOST_BUFFERS: Final = ("host", "CPU", "CPU_REPACK")
"""Buffers in main memory; the first one is the GPU's own, which it copies from fast."""

_LEAST_SURE_FIRST: Final = (Accuracy.UNKNOWN, Accuracy.BAND, Accuracy.EXACT)
_GPU_TERMS: Final = {"cache": "cache"}
_MAIN_TERMS: Final = {"cache": "kv_cache"}


@dataclass(frozen=True)
class Outcome(Details):
    """What llama.cpp allocates.

    Attributes:
        request: What was asked for.
        header: What the rules read of the model.
        settings: The arguments that hold, the decided ones with them.
        allocation: What it allocates with them.
        decision: What llama.cpp decides by itself; None where nothing is left to it.
        devices: The GPUs that it uses, in order.
        context_was_open: Whether the context was left to llama.cpp.
    """

    request: PlanRequest
    header: Header
    settings: Settings
    allocation: Allocation
    decision: Decision | None
    devices: tuple[Device, ...]
    context_was_open: bool

    def plan(
        self,
        engine: Engine,
        effective: Mapping[str, Effective],
        notes: Iterable[str],
        warnings: Iterable[str] = (),
    ) -> Plan:
        """Return the plan by an engine."""
        return Plan(
            engine=engine,
            request=self.request,
            effective=effective,
            holdings=self.holdings,
            verdict=self.verdict,
            cache=sum(held.cache for held in self.holdings),
            cells=self.allocation.n_ctx,
            details=self,
            notes=tuple(notes),
            warnings=tuple(warnings),
        )

    # What is there beside the model

    @cached_property
    def reserves(self) -> tuple[int | None, ...]:
        """Bytes of each GPU for what a plan cannot see; None: as logs of others show it."""
        asked = self.request.settings.reserve
        return tuple(asked if one.reserve is None else one.reserve for one in self.devices)

    @property
    def projector(self) -> int:
        """Bytes of a separate projector file, which the first GPU holds."""
        return self.request.projectors[0]

    @property
    def projector_compute(self) -> Range:
        """Bytes of its compute buffer."""
        return Range(*self.request.projectors[1])

    @cached_property
    def adapters(self) -> Mapping[str, int]:
        """Bytes of LoRA adapters by buffer: each part lies with the tensor that it changes.

        Source: `llama-adapter.cpp`.
        """
        found: Counter[str] = Counter()
        for part in (part for one in self.request.attached for part in one.parts):
            layer = self.header.weights_by_name[part.base].layer
            place = self.allocation.places[layer] if layer >= 0 else HOST_BUFFERS[0]
            on_gpu = place.startswith("GPU")
            found[place] += padded(part.nbytes, GPU_ALIGNMENT if on_gpu else HOST_ALIGNMENT)
        return found

    @property
    def split_mode(self) -> str:
        return self.request.settings.split_mode or "layer"

    # The shape of all plans

    @cached_property
    def gpu_layers(self) -> int:
        return sum(place.startswith("GPU") for place in self.allocation.places)

    @cached_property
    def expert_layers(self) -> tuple[int, ...]:
        """Layers on a GPU that keep some weights on the CPU, such as experts."""
        copies = Counter[int]()  # of what turns positions, which lie wherever a block is
        for tensor in self.header.scattered:
            if tensor.name.startswith("rope_"):
                copies[tensor.layer] += tensor.on_host
        layers = zip(self.allocation.places, self.allocation.layer_weights, strict=False)
        on_cpu = (
            (i, sum(held[name] for name in held if not name.startswith("GPU")))
            for i, (place, held) in enumerate(layers)
            if place.startswith("GPU")
        )
        return tuple(i for i, nbytes in on_cpu if nbytes > copies[i])

    @property
    def _has_experts(self) -> bool:
        return any("exps" in name for name in self.header.weights_by_name)

    @cached_property
    def holdings(self) -> tuple[Holding, ...]:
        """What each GPU holds, and last main memory."""
        gpus = [
            self._held(
                device, f"llama_cpp.buffers.GPU{i}", (f"GPU{i}",), self.reserve(i), device.free
            )
            for i, device in enumerate(self.devices)
        ]
        free = self._main_memory(sum(held.total for held in gpus))
        return (*gpus, self._held(None, "cpu", HOST_BUFFERS, NOTHING, free))

    def _main_memory(self, taken: int) -> int | None:
        """Return the free bytes of main memory: of a Mac what its GPU leaves of the one it has."""
        mac = next((one for one in self.devices if one.library == "Metal"), None)
        if mac is not None:
            return max(0, mac.capacity_bytes - taken)
        host = self.request.host
        return None if host is None or host.macos else host.free + host.swap

    def reserve(self, number: int) -> Range:
        """Return the bytes of a GPU that no buffer has: as asked for, else as others saw it."""
        given = self.reserves[number]
        return self.seen_reserve(number).ends if given is None else Range.exactly(given)

    @property
    def largest_reserve(self) -> int:
        """The largest reserve of any GPU, in bytes."""
        return max((held.reserve.high for held in self.gpus), default=0)

    def reserve_notes(self) -> Iterator[str]:
        """Yield what is held back of GPUs, and why."""
        given = [one for one in self.reserves if one is not None]
        if given:
            sizes = " and ".join(dict.fromkeys(map(bytes_text, given)))
            yield f"{sizes} of each GPU is kept {_RESERVE_ORIGIN}. No total includes it"
        if None in self.reserves:
            origin = self.seen_reserve(self.reserves.index(None)).origin
            yield f"the driver and the program need more of each GPU, in no total: {origin}"

    def seen_reserve(self, number: int) -> Reserve:
        """Return what others saw on such a device with such a load."""
        is_heavy = bool(self.expert_layers) or self.allocation.draft is not None
        return reserve_of(self.devices[number].library, is_heavy=is_heavy)

    def _held(
        self,
        device: Device | None,
        place: str,
        names: Sequence[str],
        reserve: Range,
        free: int | None,
    ) -> Holding:
        buffers = self.allocation.buffers
        held = [buffers[one] for one in names if one in buffers]
        draft = sum(self.allocation.drafted(one).total for one in names)
        layers = tuple(i for i, place in enumerate(self.allocation.places) if place in names)
        return Holding(
            device=device,
            place=place,
            free=free,
            weights=sum(one.weights for one in held),
            cache=sum(one.cache for one in held),
            compute=Range(sum(map(compute_least, held)), sum(map(compute_most, held))),
            projector=(self.projector + self.projector_compute.high if self._first in names else 0),
            draft=draft,
            adapters=sum(self.adapters.get(one, 0) for one in names),
            reserve=reserve,
            layers=layers,
            is_used=bool(layers),
            terms=_MAIN_TERMS if device is None else _GPU_TERMS,
        )

    @property
    def _first(self) -> str:
        """The buffer that a projector is in."""
        return "GPU0" if self.devices else "CPU"

    @property
    def gpus(self) -> tuple[Holding, ...]:
        return self.holdings[:-1]

    @property
    def main(self) -> Holding:
        return self.holdings[-1]

    @cached_property
    def verdict(self) -> Verdict:
        """Whether no GPU, with its reserve, and no main memory is too small."""
        return judge(
            self.holdings,
            self.header.blocks + 1,
            expert_layers=len(self.expert_layers),
            part="experts" if self._has_experts else "part",
            cache_on_cpu=not self.settings.offload_kv,
            is_exact=self.accuracy is Accuracy.EXACT,
            open_question=_OPEN,
        )

    @property
    def room(self) -> int:
        """Bytes that the tightest memory has left, its reserve counted; negative: missing.

        With layers on the CPU ranges are at their low end, as in the verdict.
        """
        is_whole = self.verdict.all_on_gpus or self.verdict.on_cpu
        return least_room(held.room if is_whole else held.best_room for held in self.holdings)

    @property
    def compute(self) -> int:
        """Bytes of all compute buffers."""
        return sum(held.compute.high for held in self.holdings)

    # Details

    @cached_property
    def accuracy(self) -> Accuracy:
        """How sure the compute buffers are; all else is exact."""
        draft = self.allocation.draft
        both = (self.allocation.accuracy, "exact" if draft is None else draft.accuracy)
        return next(one for one in _LEAST_SURE_FIRST if one in both)

    @property
    def choice(self) -> Choice:
        """What llama.cpp decides by itself."""
        return Choice("llama.cpp", self.context_was_open, self.decision is not None)

    def layers(self) -> Iterator[Layer]:
        """Yield every layer with its place, the output layer last."""
        allocation, last = self.allocation, self.header.blocks
        caches = (*allocation.layer_cache, 0)
        for i, (place, cache) in enumerate(zip(allocation.places, caches, strict=True)):
            name = "output" if i == last else f"blk.{i}"
            device = int(place[3:]) if place.startswith("GPU") else None
            nbytes = sum(allocation.layer_weights[i].values())
            yield Layer(i, name, nbytes, cache, device, i in self.expert_layers)

    def terms(self) -> Iterator[Term]:
        """Yield what llama.cpp allocates: each buffer, each layer's part of it, and the sums."""
        return _terms(self)

    def layer_caches(self) -> Sequence[int]:
        """Return the bytes of cache and state of each block."""
        return self.allocation.layer_cache

    def reads(self, depth: int) -> Mapping[str, int]:
        """Return what a token reads on each device."""
        return reads(self._read, self.settings, depth)

    @cached_property
    def _read(self) -> Header:
        return read_header(self.header)

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
        unknown = self.accuracy is Accuracy.UNKNOWN
        graph = "the graph of llama, for want of its own" if unknown else "its graph"
        return f"most memory that {graph} of a full batch takes on {name} at once"

    def buffers(self) -> list[NamedBuffer]:
        """Return the buffers, as llama.cpp names them."""
        found = []
        for name, buffer in self.allocation.buffers.items():
            compute = None  # of what computes nothing
            if self.accuracy is Accuracy.EXACT and buffer.compute is not None:
                compute = Range.exactly(buffer.compute)
            elif buffer.compute_high is not None:
                compute = Range(buffer.compute_low or 0, buffer.compute_high)
            title, reserve = {"host": "host (of the GPU)"}.get(name, name), None
            if name.startswith("GPU"):
                title, reserve = f"{self._buffer_name(name)} ({name})", self._reserve(name).high
            found.append(NamedBuffer(title, buffer.weights, buffer.cache, compute, reserve))
        return found

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
        flash = {None: "auto", True: "on", False: "off"}
        yield "--flash-attn", flash[settings.flash_attention]
        if settings.mtp:
            yield "--spec-type", "draft-mtp", "--spec-draft-n-max", str(settings.mtp)
        elif settings.draft is not None:
            yield "--spec-draft-n-max", str(settings.draft_max)
        if self.devices:
            yield from self._placement()
        if not settings.offload_kv:
            yield ("--no-kv-offload",)
        if settings.swa_full:
            yield ("--swa-full",)

    def _placement(self) -> Iterator[tuple[str, ...]]:
        settings = self.settings
        everything = self.gpu_layers == self.header.blocks + 1
        yield "--n-gpu-layers", "all" if everything else str(self.gpu_layers)
        if self.split_mode == "none":
            yield "--split-mode", "none"
        elif len(self.devices) > 1 and settings.tensor_split is not None:
            # layers, not shares by free memory, which would change with it
            yield "--tensor-split", ",".join(str(len(held.layers)) for held in self.gpus)
        if settings.cpu_moe_layers >= self.header.blocks > 0:
            yield ("--cpu-moe",)
        elif settings.cpu_moe_layers:
            yield "--n-cpu-moe", str(settings.cpu_moe_layers)
        if settings.overrides:
            pairs = (f"{what}={self._buffer_name(where)}" for what, where in settings.overrides)
            yield "--override-tensor", ",".join(pairs)

    def _buffer_name(self, name: str) -> str:
        """Return what llama.cpp calls a buffer: ``"CUDA1"`` for GPU1."""
        if not name.startswith("GPU"):
            return "CPU" if name in HOST_BUFFERS else name
        device = self.devices[int(name[3:])]
        return f"{device.library}{name[3:]}"

    def record(self) -> dict[str, Any]:
        """Return the graph of all devices, and the object `llama_cpp` of docs/interface.md."""
        decision, settings = self.decision, self.settings
        split = settings.tensor_split if len(self.devices) > 1 else None
        if decision is not None:
            split = decision.tensor_split
        details = {
            "n_ctx": self.allocation.n_ctx,
            "n_ctx_seq": self.allocation.n_ctx_seq,
            "decided_by": "you" if decision is None else "fit",
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
                    "reserve": self._reserve(name).high,
                    "reserve_low": self._reserve(name).low,
                    "draft": self.allocation.drafted(name).total,
                    "draft_parts": _parts(self.allocation.drafted(name)),
                    "projector": self.projector if name == self._first else 0,
                    "projector_compute": (
                        list(self.projector_compute) if name == self._first else [0, 0]
                    ),
                    "lora": self.adapters.get(name, 0),
                }
                for name, buffer in sorted(self.allocation.buffers.items(), key=_order)
            },
            "accuracy": self.accuracy.value,
            "build": self.settings.build,
            "flash_attention": self.allocation.flash_attention,
            "arguments": self.arguments(),
        }
        graph = {"partial": None, "full": self.compute, "used": "full"}
        return {"graph": graph, "llama_cpp": details}

    def _reserve(self, name: str) -> Range:
        return self.reserve(int(name[3:])) if name.startswith("GPU") else NOTHING


def compute_most(buffer: Buffer) -> int:
    """Return the bytes of a compute buffer; the upper end where there is no figure."""
    return buffer.compute if buffer.compute is not None else buffer.compute_high or 0


def compute_least(buffer: Buffer) -> int:
    """Return the bytes that a compute buffer takes at least."""
    most = compute_most(buffer)
    return most if buffer.compute_low is None else min(buffer.compute_low, most)


def _parts(buffer: Buffer) -> dict[str, int | None]:
    return {"weights": buffer.weights, "cache": buffer.cache, "compute": buffer.compute}


def _order(item: tuple[str, Buffer]) -> tuple[bool, int, str]:
    name = item[0]
    is_gpu = name.startswith("GPU")
    return not is_gpu, int(name[3:]) if is_gpu else 0, name


# Every figure with its formula, the value of each symbol, and where that came from


def _terms(outcome: Outcome) -> Iterator[Term]:
    """Yield what llama.cpp allocates: each buffer, each layer's part of it, and the sums."""
    allocation = outcome.allocation
    for i, nbytes in enumerate(allocation.layer_cache):
        yield _cache_term(outcome, i, nbytes)
    yield sum_term("kv_cache.total", allocation.layer_cache, "kv_cache.per_layer[*]")
    for name, buffer in allocation.buffers.items():
        place = f"llama_cpp.buffers.{name}"
        parts = tuple(held.get(name, 0) for held in allocation.layer_weights)
        origin = f"tensors of each layer and of the input that lie in {name}"
        yield sum_term(f"{place}.weights", parts, origin)
        yield sum_term(
            f"{place}.cache", outcome.caches_in(name), f"kv_cache.per_layer[*] in {name}"
        )
        compute = compute_most(buffer), outcome.compute_origin(name)
        yield term(f"{place}.compute", compute[0], "peak", peak=compute)
        if allocation.draft is not None:
            yield _draft_term(f"{place}.draft", allocation.drafted(name))
    for number in range(len(outcome.gpus)):
        yield from _gpu_terms(outcome, number)
    yield from _main_terms(outcome)
    totals = [held.total for held in (*outcome.gpus, outcome.main)]
    yield sum_term("vram_total", totals[:-1], "llama_cpp.buffers.GPU*.total")
    yield sum_term("total", totals, "vram_total and cpu.total")


def _gpu_terms(outcome: Outcome, number: int) -> Iterator[Term]:
    """Yield the sum of a GPU, and its reserve."""
    held = outcome.gpus[number]
    place = held.place
    parts = {"weights": held.weights, "cache": held.cache, "compute": held.compute.high}
    inputs = {name: (nbytes, f"{place}.{name}") for name, nbytes in parts.items()}
    inputs |= _others(held, f"{place}.draft")
    yield term(f"{place}.total", held.total, " + ".join(inputs), **inputs)
    is_given = outcome.reserves[number] is not None
    origin = _RESERVE_ORIGIN if is_given else outcome.seen_reserve(number).origin
    reserve = held.reserve.high, origin
    yield term(f"{place}.reserve", held.reserve.high, "reserve", reserve=reserve)


def _others(held: Holding, draft: str) -> dict[str, tuple[int, str]]:
    """Return what is there beside the model: a projector, and what drafts tokens."""
    found: dict[str, tuple[int, str]] = {}
    if held.projector:
        found["projector"] = held.projector, "tensors of the projector's file, and its buffer"
    if held.adapters:
        found["adapters"] = held.adapters, "tensors of the LoRA adapters' files"
    if held.draft:
        found["draft"] = held.draft, draft
    return found


def _draft_term(name: str, buffer: Buffer) -> Term:
    """Return the sum of what the context that drafts tokens has in a buffer."""
    parts = {
        "weights": (buffer.weights, "tensors of the draft model"),
        "cache": (buffer.cache, "keys and values of the layers that draft"),
        "compute": (compute_most(buffer), "most memory that its graph takes at once"),
    }
    return term(name, buffer.total, " + ".join(parts), **parts)


def _main_terms(outcome: Outcome) -> Iterator[Term]:
    """Yield what main memory holds, in all its buffers."""
    held, buffers = outcome.main, outcome.allocation.buffers
    names = [name for name in HOST_BUFFERS if name in buffers]
    where = f"llama_cpp.buffers: {', '.join(names)}"
    yield sum_term("cpu.weights", [buffers[name].weights for name in names], where)
    yield sum_term("cpu.kv_cache", [buffers[name].cache for name in names], where)
    yield sum_term("cpu.compute", [compute_most(buffers[name]) for name in names], where)
    parts = {"weights": held.weights, "kv_cache": held.cache, "compute": held.compute.high}
    inputs = {name: (nbytes, f"cpu.{name}") for name, nbytes in parts.items()}
    inputs |= _others(held, "llama_cpp.buffers.*.draft")
    yield term("cpu.total", held.total, " + ".join(inputs), **inputs)


def _cache_term(outcome: Outcome, layer: int, nbytes: int) -> Term:
    """Return the cache of a block: its tensors, each rounded up, such as to 128 bytes."""
    name, settings = f"kv_cache.per_layer[{layer}]", outcome.settings
    on_gpu = settings.offload_kv and outcome.allocation.places[layer].startswith("GPU")
    types = {"keys": settings.type_k, "values": settings.type_v}
    inputs: dict[str, tuple[Number, str]] = {}
    pieces: list[str] = []
    for number, part in enumerate(cache_parts(outcome.header, settings, layer), 1):
        symbol = part.what.replace(" ", "_")
        symbol += str(number) if symbol in inputs else ""
        kind, rows = (
            types.get(part.what.removeprefix("index "), "f32"),
            "positions of all sequences",
        )
        if kind == "f32" and not part.what.endswith(("keys", "values")):
            rows = "sequences"
        elif outcome.header.windowed[layer] and not settings.swa_full:
            rows = "positions that the sliding window needs, with a batch"
        inputs[symbol] = part.row, f"bytes of the block's {part.what} as {kind}: one of its rows"
        inputs[f"{symbol}_rows"] = part.rows, rows
        if on_gpu:
            inputs[f"{symbol}_fill"] = part.fill, "fills a row of quantized values up to 512"
            end, step = f"{symbol} * {symbol}_rows + {symbol}_fill", part.alignment
            pieces.append(f"-(-({end}) // {step}) * {step}")
        else:
            pieces.append(f"-(-({symbol} * {symbol}_rows) // 32) * 32")
    return term(name, nbytes, " + ".join(pieces) or "0", **inputs)
