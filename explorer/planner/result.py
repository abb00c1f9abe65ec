"""A plan: every figure, and on demand the formula and the inputs that it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final, TypeAlias

from explorer.planner import settings as env
from explorer.planner.devices import Device, Host, check_devices, quoted
from explorer.planner.engines.llama_cpp.allocation import cache_parts
from explorer.planner.engines.llama_cpp.outcome import (
    EXACT,
    HOST_BUFFERS,
    RESERVE_ORIGIN,
    Held,
    Outcome,
    compute_most,
)
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.layout import DeviceLayout, Layer, Layout
from explorer.planner.settings import EffectiveSettings, Settings
from explorer.planner.sizes import FALLBACK, FORMULAS, TENSOR_ORIGINS, GraphSize, recurrent_bytes
from explorer.text import bytes_text, fixed_text, integer_text

Number: TypeAlias = int | float

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_NOT_SYMBOLS: Final = frozenset({"max", "min", "sum", "int", "or"})


@dataclass(frozen=True, slots=True)
class Input:
    """The value of a symbol (several are summed), and the key, setting or figure it came from."""

    value: Number | tuple[int, ...]
    origin: str


@dataclass(frozen=True, slots=True)
class Term:
    """One figure of a plan."""

    name: str  # where it stands in the plan's JSON: ``"devices[0].graph"``
    value: Number  # the figure; bytes, but for ratios
    formula: str  # how it is worked out, as Python writes it
    inputs: Mapping[str, Input]  # symbol of the formula → its value


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What to plan: model, settings and machine; without a host nothing is checked against it."""

    h: Hyperparameters
    settings: Settings = field(default_factory=Settings)
    devices: tuple[Device, ...] = ()
    host: Host | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        check_devices(self.devices)


CACHE_FORMULA: Final = "2 * L * max(Kmin, 1) * head * C * 2"
"""Bytes of the cache, as Python writes it; head is E // H with the largest H, or 0."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the server expects before it loads a model."""

    file_bytes: int  # bytes of the model's files
    cache_bytes: int  # bytes of the cache
    surcharge_bytes: int  # what a large batch adds; stands in for the compute graph
    available_bytes: int  # free memory of the GPUs, or of the machine if there is none
    cells: int  # context × parallel
    head_length: int  # E // H
    automatic_context: bool  # whether the context was not requested

    @property
    def total(self) -> int:
        """File, cache and surcharge."""
        return self.file_bytes + self.cache_bytes + self.surcharge_bytes

    @property
    def fits(self) -> bool:
        """Whether it fits beside other loaded models, within 80 % of the available memory."""
        return self.total <= self.usable_bytes

    @property
    def usable_bytes(self) -> int:
        """What one model may take; the rest is left to others."""
        return self.available_bytes * 80 // 100

    @property
    def reserve_left(self) -> int:
        """Bytes left to other models, as far as this one does not take of them."""
        left = max(0, self.available_bytes - self.total)
        return min(self.available_bytes - self.usable_bytes, left)

    @property
    def free_left(self) -> int:
        """Bytes that are neither taken nor left to other models."""
        return max(0, self.available_bytes - self.total) - self.reserve_left


@dataclass(frozen=True)
class Plan:
    """The memory that a model needs, under one profile.

    A profile that claims no layer split has a `prediction` in place of `sizes` and `layout`; one of
    llama.cpp's has `llama_cpp`.
    """

    profile: str  # name of the profile
    request: PlanRequest  # what was asked for
    effective: EffectiveSettings  # the settings that hold
    weights: int  # bytes of the weights that the profile counts
    kv_total: int  # bytes of the KV cache
    sizes: GraphSize | None = None  # cache of each block and graph, or None
    layout: Layout | None = None  # where each layer goes, or None
    prediction: Prediction | None = None  # what newer releases predict, or None
    llama_cpp: Outcome | None = None  # what llama.cpp allocates, or None
    notes: tuple[str, ...] = ()  # what a reader should know
    warnings: tuple[str, ...] = ()  # what makes the figures doubtful

    @property
    def fully_offloaded(self) -> bool:
        """Whether everything is on GPUs; without a layout, whether it is predicted to fit there."""
        if self.llama_cpp is not None:
            return self.llama_cpp.all_on_gpus
        if self.layout is not None:
            return self.layout.fully_offloaded
        fits = self.prediction is not None and self.prediction.fits
        return fits and bool(self.request.devices)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Every layer with its place, the output layer last; none where no split is claimed."""
        if self.llama_cpp is not None:
            return tuple(_llama_cpp_layers(self.llama_cpp))
        return () if self.layout is None else self.layout.layers

    @property
    def gpu_layers(self) -> int | None:
        """Number of layers on GPUs, or None where no split is claimed."""
        if self.llama_cpp is not None:
            return self.llama_cpp.gpu_layers
        return None if self.layout is None else self.layout.placed

    @property
    def gpu_ratio(self) -> float | None:
        """Part of the layers that is on GPUs, 0 to 1, or None where no split is claimed."""
        if self.llama_cpp is not None:
            return self.llama_cpp.gpu_layers / self.llama_cpp.total_layers
        return None if self.layout is None else self.layout.placed / self.layout.total_layers

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
        if self.llama_cpp is not None:
            return sum(held.total for held in self.llama_cpp.gpus)
        return None if self.layout is None else self.layout.vram_total

    @property
    def total(self) -> int:
        """Bytes needed in all."""
        if self.llama_cpp is not None:
            return self.llama_cpp.total
        if self.layout is not None:
            return self.layout.total
        assert self.prediction is not None  # a plan has one or the other
        return self.prediction.total

    @property
    def batch(self) -> int:
        """The batch that is used: an embedding model's holds its whole context."""
        return self.effective.batch if self.layout is None else self.layout.batch

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Every figure with its formula, named by its place in the plan's JSON.

        The formulas are texts that Python can evaluate with their inputs; a test does so. They are
        made on first use, so that a plan stays fast.
        """
        if self.llama_cpp is not None:
            return tuple(_llama_cpp_terms(self.llama_cpp))
        if self.layout is not None:
            return tuple(_layout_terms(self, self.layout))
        assert self.prediction is not None  # a plan has one or the other
        return tuple(_prediction_terms(self, self.prediction))


def quick_ratio(vram: int, kv_total: int, partial: int, buffer: int, weights: int) -> float:
    """Return (VRAM - KV cache - partial graph - buffer) / weights, a rule of thumb for one GPU.

    It charges the cache of all blocks to the GPU and leaves out the minimum, the overhead and the
    output layer (docs/planner.md section 8): an estimate to show beside the layout, not an answer.
    It may be below 0 or above 1.
    """
    return (vram - kv_total - partial - buffer) / weights


# Notes and warnings (docs/planner.md, section 10)


MEASURED: Final = frozenset((
    "gemma3", "gemma3n", "gptoss", "gpt-oss", "llama4", "mistral3", "mllama", "qwen25vl", "qwen3",
    "qwen3moe", "qwen3vl", "qwen3vlmoe", "deepseekocr", "deepseek2", "nomic-bert",
))  # fmt: skip
"""Architectures that Ollama 0.13.3 runs on its other engine, which measures while loading."""

_WINDOW_COUNTS: Final = frozenset({"gemma3", "gptoss", "gpt-oss"})
_MLP_BLOCKS: Final = ("nemotron_h",)


def settings_notes(effective: EffectiveSettings) -> Iterator[str]:
    """Yield where the settings are not as asked for."""
    for difference in effective.differences:
        yield (
            f"{difference.name} is {difference.effective} instead of "
            f"{quoted(str(difference.requested))}: {difference.reason}"
        )


def graphsize_notes(
    request: PlanRequest, effective: EffectiveSettings, layout: Layout
) -> Iterator[str]:
    """Yield notes on a plan of the estimator."""
    h = request.h
    yield from settings_notes(effective)
    if h.methods:
        yield (
            f"the model is no GGUF file, and its weights ({', '.join(h.methods)}) cannot be "
            "converted as they are: weights and KV cache are those of vLLM or transformers, which "
            "load them, compute and reserves are those of Ollama"
        )
    elif h.after_conversion:
        yield (
            "the model is no GGUF file: the figures are what it would need after conversion, "
            "with its tensors at their present size"
        )
    if h.architecture in MEASURED:
        yield (
            "this model is measured at load time; the figures are an estimate "
            f"(Ollama 0.13.3 runs {h.architecture} on its other engine)"
        )
    elif env.boolean(request.environment, env.NEW_ENGINE):
        yield f"{env.NEW_ENGINE} is set: models that the other engine supports are measured instead"
    if effective.what_if:
        yield "a KV cache of f32 is a what-if: a running server does not accept it"
    if layout.batch != effective.batch:
        batch = integer_text(layout.batch)
        yield f"an embedding model computes its whole context at once: batch {batch}"
    if h.sliding_window and h.architecture not in _WINDOW_COUNTS:
        key = h.origins.get("window", "attention.sliding_window")
        yield f"{key} is not consulted: the cache holds the whole context in every block"
    if effective.projector_bytes and request.devices:
        yield (
            f"the projector ({bytes_text(effective.projector_bytes)}) is counted on the GPU that "
            "holds it; Ollama means to, but leaves it out"
        )
    yield from _quick_estimate_note(request, layout)
    yield "Ollama from 0.30 on lets the server place the layers; see profile ollama-0.30"


def graphsize_warnings(request: PlanRequest, layout: Layout) -> Iterator[str]:
    """Yield what makes the figures of the estimator doubtful."""
    h = request.h
    yield from h.warnings
    yield from _formula_warnings(h, layout)
    for held in layout.devices:
        free, name = held.device.free, held.device.label
        if held.total > free:
            over = bytes_text(held.total - free)
            yield f"{quoted(name)} would hold {over} more than is free; loading may fail"
        elif held.listed and held.total + held.reserved > free:
            yield f"{quoted(name)} would hold more than Ollama leaves room for; loading may fail"
        elif held.listed and held.layers is None:
            yield f"{quoted(name)} holds no layer, but a compute graph is charged to it"


def _formula_warnings(h: Hyperparameters, layout: Layout) -> Iterator[str]:
    sizes = layout.sizes
    if sizes.row is None:
        yield (
            f"there is no formula for the architecture {quoted(h.architecture)}: the compute "
            "graph is the fallback, a share of the KV cache"
        )
        if h.kv_heads_min == 0 and h.kv_heads:
            yield "some blocks have no key and value heads, which makes the fallback's graph large"
    elif sizes.partial == 0:
        yield f"the formula of {sizes.row.name} gives no graph here; the fallback is used"
    if h.heads_min == 0 and None in (h.stored_key_length, h.stored_value_length):
        yield (
            "a block without heads makes the head length 0, and the file states no length of keys "
            "or values: Ollama's estimate leaves out their cache"
        )
    if h.architecture.startswith(_MLP_BLOCKS) and recurrent_bytes(h):
        yield "blocks that are only an MLP count as recurrent, so the cache is too large"
    missing = sum(f"blk.{i}" not in h.tensors.nbytes for i in range(h.block_count))
    if missing:
        yield f"{missing} of {h.block_count} blocks have no tensors and count as 0 bytes"


def _quick_estimate_note(request: PlanRequest, layout: Layout) -> Iterator[str]:
    weights = sum(layout.layer_weights)
    if not weights:
        return
    vram = sum(device.free for device in request.devices)
    ratio = quick_ratio(vram, layout.sizes.kv_total, layout.partial, layout.buffer, weights)
    if not 0 <= ratio <= 1:
        shown = "0 %" if ratio < 0 else "100 %"
        yield f"the quick estimate is {fixed_text(100 * ratio, 1)}%, which stands for {shown}"


def llama_cpp_notes(outcome: Outcome, effective: EffectiveSettings) -> Iterator[str]:
    """Yield notes on a plan by llama.cpp's rules."""
    yield from settings_notes(effective)
    asked = effective.requested
    if asked.overhead is not None or asked.spread is not None:
        yield "overhead and spread belong to Ollama's old estimate and change nothing; see margin"
    if outcome.reserves:
        sizes = dict.fromkeys(map(bytes_text, outcome.reserves))
        yield f"reserve {RESERVE_ORIGIN}, {' and '.join(sizes)}, is kept on each GPU; in no total"
    trained = outcome.header.trained_context
    if 0 < trained < outcome.allocation.n_ctx_seq:
        tokens = integer_text(trained)
        yield f"the context is longer than the {tokens} tokens that the model was trained for"
    if outcome.projector:
        yield (
            f"the projector ({bytes_text(outcome.projector)}) is counted with its weights; what it "
            "computes with is not"
        )
    if not outcome.all_on_gpus:
        yield (
            "weights that stay in main memory are mapped from the file: where other programs need "
            "that memory, they are read again and again"
        )


def llama_cpp_warnings(outcome: Outcome) -> Iterator[str]:
    """Yield what makes the figures of a plan by llama.cpp's rules doubtful."""
    if outcome.accuracy != EXACT:
        name = quoted(outcome.header.architecture)
        yield f"compute buffers of {name} are not known; they are those of a similar graph"
    for device, held in zip(outcome.devices, outcome.gpus, strict=True):
        if held.short:
            name, missing = quoted(device.label), bytes_text(held.short)
            yield f"{name} is {missing} short, its reserve counted; loading may fail"
    if outcome.decision is not None and not outcome.decision.fits:
        yield "llama.cpp finds nothing that keeps its margin free, and loads the model all the same"


# Every figure with its formula, the value of each symbol, and where that came from


def _layout_terms(plan: Plan, layout: Layout) -> Iterator[Term]:
    symbols = _Symbols(plan, layout)
    caches = layout.sizes.kv_per_layer
    yield _sum("weights", layout.layer_weights, "layers[*].weights")
    yield _sum("kv_cache.total", caches, "kv_cache.per_layer[*]")
    for i, (kind, nbytes) in enumerate(zip(layout.sizes.kv_kinds, caches, strict=True)):
        yield symbols.term(f"kv_cache.per_layer[{i}]", nbytes, FORMULAS[kind], block=i)
    yield from _graph_terms(layout, symbols)
    yield from _layer_terms(plan.request.h, layout)
    for i, device in enumerate(layout.devices):
        yield from _device_terms(f"devices[{i}]", device, layout, plan.effective)
    cpu, origin = layout.cpu_layers, "layers left to the CPU"
    yield _sum("cpu.weights", [layout.layer_weights[i] for i in cpu], origin)
    yield _sum("cpu.kv_cache", [layout.layer_kv_cache[i] for i in cpu], origin)
    yield _sum("vram_total", [device.total for device in layout.devices], "devices[*].total")
    parts = {
        "vram": (layout.vram_total, "vram_total"),
        "weights": (layout.cpu_weights, "cpu.weights"),
        "kv_cache": (layout.cpu_kv_cache, "cpu.kv_cache"),
    }
    yield _term("total", layout.total, "vram + weights + kv_cache", **parts)
    placed = layout.placed, "gpu_layers"
    layers = layout.total_layers, "total_layers: the blocks and the output layer"
    ratio = layout.placed / layout.total_layers
    yield _term("gpu_ratio", ratio, "placed / layers", placed=placed, layers=layers)
    quick = plan.quick_estimate_ratio
    if quick is not None:
        yield _term(
            "quick_estimate_ratio",
            quick,
            "(free - kv_cache - partial - buffer) / weights",
            free=(sum(one.free for one in plan.request.devices), "free memory of the GPUs"),
            kv_cache=(plan.kv_total, "kv_cache.total"),
            partial=(layout.partial, "graph.partial"),
            buffer=(layout.buffer, "weights and cache of blk.0"),
            weights=(plan.weights, "weights"),
        )


def _graph_terms(layout: Layout, symbols: _Symbols) -> Iterator[Term]:
    """Yield the graphs as they are charged: from a row, the fallback, or Metal's rule."""
    sizes = layout.sizes
    if sizes.row is not None and sizes.full > 0:
        yield symbols.term("graph.full", layout.full, sizes.row.full)
    else:
        origin = "graph of a partial offload: the formula gives none for a full one"
        partial = sizes.partial_resolved, origin
        yield _term("graph.full", layout.full, "partial", partial=partial)
    devices = [held.device for held in layout.devices]
    if devices and devices[0].library == "Metal":
        full = layout.full, "graph.full: on Metal there is no other"
        yield _term("graph.partial", layout.partial, "full", full=full)
    elif sizes.row is not None and sizes.partial > 0:
        yield symbols.term("graph.partial", layout.partial, sizes.row.partial)
    else:
        yield symbols.term("graph.partial", layout.partial, FALLBACK)


def _layer_terms(h: Hyperparameters, layout: Layout) -> Iterator[Term]:
    groups, weights, caches = h.tensors.nbytes, layout.layer_weights, layout.layer_kv_cache
    for i in range(h.block_count):
        name = f"blk.{i}"
        origin = f"tensors of group {name}" if name in groups else f"the file has no {name}"
        yield _term(f"layers[{i}].weights", weights[i], "tensors", tensors=(weights[i], origin))
        cache = caches[i], f"kv_cache.per_layer[{i}]"
        yield _term(f"layers[{i}].kv_cache", caches[i], "cache", cache=cache)
    last = h.block_count
    output = "output" if "output" in groups else "token_embd"
    reason = "" if output == "output" else " (tied embeddings)"
    yield _term(
        f"layers[{last}].weights",
        weights[last],
        "norm + output",
        norm=(groups.get("output_norm", 0), "tensors of group output_norm"),
        output=(groups.get(output, 0), f"tensors of group {output}{reason}"),
    )
    yield _term(f"layers[{last}].kv_cache", 0, "0")


def _device_terms(
    name: str, held: DeviceLayout, layout: Layout, effective: EffectiveSettings
) -> Iterator[Term]:
    layers = held.layers or range(0)
    run = slice(layers.start, layers.stop)
    place = f"layers {layers[0]} to {layers[-1]}" if layers else "no layers"
    yield _sum(f"{name}.weights", layout.layer_weights[run], place)
    yield _sum(f"{name}.kv_cache", layout.layer_kv_cache[run], place)
    yield _device_graph(name, held, layout)
    yield _term(
        f"{name}.reserved",
        held.reserved,
        "min(free, buffer + minimum + overhead)",
        free=(held.device.free, f"free memory of {quoted(held.device.label)}"),
        buffer=(layout.buffer, "weights and cache of blk.0, withheld on every GPU"),
        minimum=(held.device.minimum_bytes, f"Ollama's, for {held.device.library}"),
        overhead=(layout.overhead, effective.origins.get("overhead", "setting")),
    )
    parts = {
        "weights": (held.weights, f"{name}.weights"),
        "kv_cache": (held.kv_cache, f"{name}.kv_cache"),
        "graph": (held.graph, f"{name}.graph"),
    }
    if held.projector:
        parts["projector"] = held.projector, "tensors of the projector's file"
    yield _term(f"{name}.total", held.total, " + ".join(parts), **parts)


def _device_graph(name: str, held: DeviceLayout, layout: Layout) -> Term:
    name, used = f"{name}.graph", layout.graph_used
    if held.listed:
        return _term(name, held.graph, used, **{used: (held.graph, f"graph.{used}")})
    if not held.graph:
        return _term(name, 0, "0")
    full = layout.full, "graph.full; charged in an earlier pass of the search"
    partial = layout.partial, "graph.partial"
    return _term(name, held.graph, "max(partial, full)", partial=partial, full=full)


def _prediction_terms(plan: Plan, prediction: Prediction) -> Iterator[Term]:
    h, origins = plan.request.h, plan.effective.origins
    files = prediction.file_bytes, "size of the model's files"
    yield _term("weights", plan.weights, "files", files=files)
    context = f"context ({origins['context']}) × parallel ({origins['parallel']})"
    yield _term(
        "kv_cache.total",
        plan.kv_total,
        CACHE_FORMULA,
        L=(h.block_count, h.origins.get("L", "block_count")),
        Kmin=(h.kv_heads_min, f"smallest of {h.origins.get('kv heads', 'the model')}"),
        head=(prediction.head_length, "embedding length // largest number of heads"),
        C=(prediction.cells, context),
    )
    surcharge = prediction.surcharge_bytes, f"surcharge of batch {plan.effective.batch}"
    yield _term("graph.full", prediction.surcharge_bytes, "surcharge", surcharge=surcharge)
    yield _term(
        "total",
        prediction.total,
        "weights + kv_cache + graph",
        weights=(plan.weights, "weights"),
        kv_cache=(plan.kv_total, "kv_cache.total"),
        graph=(prediction.surcharge_bytes, "graph.full"),
    )


def _llama_cpp_layers(outcome: Outcome) -> Iterator[Layer]:
    allocation, last = outcome.allocation, outcome.header.blocks
    caches = (*allocation.layer_cache, 0)
    for i, (place, cache) in enumerate(zip(allocation.places, caches, strict=True)):
        name = "output" if i == last else f"blk.{i}"
        device = int(place[3:]) if place.startswith("GPU") else None
        yield Layer(i, name, sum(allocation.layer_weights[i].values()), cache, device)


def _llama_cpp_terms(outcome: Outcome) -> Iterator[Term]:
    """Yield what llama.cpp allocates: each buffer, each layer's part of it, and the sums."""
    allocation = outcome.allocation
    for i, nbytes in enumerate(allocation.layer_cache):
        yield _cache_term(outcome, i, nbytes)
    yield _sum("kv_cache.total", allocation.layer_cache, "kv_cache.per_layer[*]")
    for name, buffer in allocation.buffers.items():
        place = f"llama_cpp.buffers.{name}"
        parts = tuple(held.get(name, 0) for held in allocation.layer_weights)
        origin = f"tensors of each layer and of the input that lie in {name}"
        yield _sum(f"{place}.weights", parts, origin)
        yield _sum(f"{place}.cache", outcome.caches_in(name), f"kv_cache.per_layer[*] in {name}")
        compute = compute_most(buffer), outcome.compute_origin(name)
        yield _term(f"{place}.compute", compute[0], "peak", peak=compute)
    for gpu in outcome.gpus:
        yield from _gpu_terms(f"llama_cpp.buffers.{gpu.name}", gpu)
    yield from _main_terms(outcome)
    totals = [held.total for held in (*outcome.gpus, outcome.main)]
    yield _sum("vram_total", totals[:-1], "llama_cpp.buffers.GPU*.total")
    yield _sum("total", totals, "vram_total and cpu.total")


def _gpu_terms(place: str, held: Held) -> Iterator[Term]:
    """Yield the sum of a GPU, and its reserve."""
    parts = {"weights": held.weights, "cache": held.cache, "compute": held.compute}
    inputs = {name: (nbytes, f"{place}.{name}") for name, nbytes in parts.items()}
    if held.projector:
        inputs["projector"] = held.projector, "tensors of the projector's file"
    yield _term(f"{place}.total", held.total, " + ".join(inputs), **inputs)
    reserve = held.reserve, RESERVE_ORIGIN
    yield _term(f"{place}.reserve", held.reserve, "reserve", reserve=reserve)


def _main_terms(outcome: Outcome) -> Iterator[Term]:
    """Yield what main memory holds, in all its buffers."""
    held, buffers = outcome.main, outcome.allocation.buffers
    names = [name for name in HOST_BUFFERS if name in buffers]
    where = f"llama_cpp.buffers: {', '.join(names)}"
    yield _sum("cpu.weights", [buffers[name].weights for name in names], where)
    yield _sum("cpu.kv_cache", [buffers[name].cache for name in names], where)
    yield _sum("cpu.compute", [compute_most(buffers[name]) for name in names], where)
    parts = {"weights": held.weights, "kv_cache": held.cache, "compute": held.compute}
    inputs = {name: (nbytes, f"cpu.{name}") for name, nbytes in parts.items()}
    if held.projector:
        inputs["projector"] = held.projector, "tensors of the projector's file"
    yield _term("cpu.total", held.total, " + ".join(inputs), **inputs)


def _cache_term(outcome: Outcome, layer: int, nbytes: int) -> Term:
    """Return the cache of a block: its tensors, each rounded up to 128 bytes, on the host to 32."""
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
            pieces.append(f"-(-({symbol} * {symbol}_rows + {symbol}_fill) // 128) * 128")
        else:
            pieces.append(f"-(-({symbol} * {symbol}_rows) // 32) * 32")
    return _term(name, nbytes, " + ".join(pieces) or "0", **inputs)


def _term(name: str, value: Number, formula: str, **inputs: tuple[Number, str]) -> Term:
    """Return a term; each input is a value and where it came from."""
    return Term(name, value, formula, {key: Input(*given) for key, given in inputs.items()})


def _sum(name: str, values: Sequence[int], origin: str) -> Term:
    return Term(name, sum(values), "sum(parts)", {"parts": Input(tuple(values), origin)})


class _Symbols:
    """Values and origins of the symbols of the formulas."""

    def __init__(self, plan: Plan, layout: Layout) -> None:
        h, effective, w = plan.request.h, plan.effective, layout.sizes.workload
        self._h, self._symbols = h, layout.sizes.symbols
        origins = effective.origins
        context = origins.get("context", "setting context")
        parallel = origins.get("parallel", "setting parallel")
        batch = origins.get("batch", "setting batch")
        if w.batch != effective.batch:
            batch = "an embedding model's batch holds its context"
        key = h.origins.get
        heads, kv_heads = key("heads", "head counts"), key("kv heads", "key and value head counts")
        smallest = f"{key('E', 'embedding length')} // smallest of {heads}"
        dk, dv = h.stored_key_length, h.stored_value_length
        cache_type = origins.get("kv_cache_type", "setting kv_cache_type")
        self._origins = {
            "E": key("E", "embedding length"),
            "V": key("V", "vocabulary"),
            "FF": key("FF", "feed-forward length"),
            "H": f"largest of {heads}",
            "K": f"largest of {kv_heads}",
            "Kmin": f"smallest of {kv_heads}",
            "D": smallest,
            "Dk": key("Dk", "") + ("" if dk is not None else f": {smallest}"),
            "B": batch,
            "b": f"4 bytes × batch ({batch})",
            "C": f"context ({context}) × parallel ({parallel})",
            "Np": parallel,
            "KVtotal": "kv_cache.total",
            "KVdefault": "cache of all blocks as if each kept the full context",
            **TENSOR_ORIGINS,
        }
        self._others: dict[str, tuple[Number, str]] = {
            "Dv": (h.value_length, key("Dv", "") + ("" if dv is not None else f": {smallest}")),
            "window": (h.sliding_window, key("window", "sliding window")),
            "conv": (h.ssm_conv_kernel, key("conv", "ssm.conv_kernel")),
            "inner": (h.ssm_inner_size, key("inner", "ssm.inner_size")),
            "state": (h.ssm_state_size, key("state", "ssm.state_size")),
            "groups": (h.ssm_group_count, key("groups", "ssm.group_count")),
            "P": (
                w.bytes_per_element,
                f"bytes of an element of {quoted(w.kv_cache_type)} ({cache_type})",
            ),
        }

    def term(self, name: str, value: int, formula: str, block: int | None = None) -> Term:
        """Return a term of a formula in these symbols."""
        words = (word for word in _WORD.findall(formula) if word not in _NOT_SYMBOLS)
        return Term(name, value, formula, {word: self._input(word, block) for word in words})

    def _input(self, symbol: str, block: int | None) -> Input:
        if symbol == "Ki" and block is not None:
            origin = self._h.origins.get("kv heads", "key and value head counts")
            return Input(self._h.kv_heads_per_block[block], f"{origin}, block {block}")
        if symbol in self._origins:
            return Input(getattr(self._symbols, symbol), self._origins[symbol])
        return Input(*self._others[symbol])
