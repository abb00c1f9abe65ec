"""What is said of a memory plan: figures, verdict, bars, layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final, NamedTuple

from explorer.planner import Device, Host
from explorer.planner.plans import Holding, Level, Plan, Verdict
from explorer.planner.settings import Bytes, OneOf, Ratio, Setting, Shares, Switch
from explorer.present.explanations import plan_text
from explorer.text import (
    UNKNOWN,
    byte_unit,
    bytes_text,
    counted,
    float_text,
    integer_text,
    plain_text,
    runs_text,
    sentence,
    shorten,
    written_number,
)

_SHOWN_NAMES: Final = 2
_SHOWN_DEVICES: Final = 3
_LONGEST_NAME: Final = 60


class PlanFigure(NamedTuple):
    """A figure of a plan: what it is called, what it means, and its bytes, or layers."""

    label: str
    tip: str
    of: Callable[[Plan], int]


def _graphs(plan: Plan) -> list[int]:
    return [held.compute.high for held in plan.gpus]


PLAN: Final = {
    "weights": PlanFigure("Weights", plan_text("weights"), lambda plan: plan.weights),
    "kv_cache": PlanFigure("KV cache", plan_text("kv_cache.total"), lambda plan: plan.cache),
    "graph_each": PlanFigure(
        "Compute on each GPU",
        "Working memory of one GPU, for computing a batch of tokens.",
        lambda plan: max(_graphs(plan), default=0),
    ),
    "graph_total": PlanFigure(
        "Compute on all GPUs",
        "Working memory of all GPUs together.",
        lambda plan: sum(_graphs(plan)),
    ),
    "vram_total": PlanFigure("On GPUs", plan_text("vram_total"), lambda plan: plan.vram_total),
    "cpu_total": PlanFigure("On the CPU", plan_text("cpu.total"), lambda plan: plan.main.total),
    "gpu_layers": PlanFigure(
        "Layers on GPUs",
        "Layers on GPUs, of all layers with the output layer.",
        lambda plan: plan.gpu_layers,
    ),
    "total": PlanFigure("In all", plan_text("total"), lambda plan: plan.total),
}
"""Figures of a plan by name, in order."""


def gpu_layers_text(plan: Plan) -> str:
    """Return how many layers are on GPUs, of how many: ``"28 of 49"``."""
    return f"{plan.gpu_layers} of {plan.verdict.total_layers}"


def layers_text(layers: Sequence[int]) -> str:
    """Return runs of layers: ``"13 layers: 0–11, 20"``."""
    if not layers:
        return "no layers"
    if len(layers) == 1:
        return f"layer {layers[0]}"
    return f"{len(layers)} layers: {runs_text(layers)}"


# How a plan's device, context and settings are written


def device_name(device: Device) -> str:
    """Return a GPU's name for people, on one line."""
    return shorten(plain_text(device.name or device.key), _LONGEST_NAME)


def short_name(device: Device) -> str:
    """Return a GPU's name without its maker's: "RTX 4070"."""
    name = device_name(device)
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ").removeprefix("AMD ") or name


def device_titles(plan: Plan) -> list[str]:
    """Return the names of a plan's GPUs; numbers distinguish several."""
    names = [short_name(device) for device in plan.devices]
    return names if len(names) < 2 else [f"{i + 1} · {name}" for i, name in enumerate(names)]


def device_text(device: Device) -> str:
    """Return what is known of a GPU, line by line."""
    lines = [device.label, f"{integer_text(device.free)} bytes free"]
    if device.total is not None:
        lines.append(f"{bytes_text(device.total)} in all")
    if device.integrated:
        lines.append("shares the memory of the machine")
    if device.compute is not None:
        lines.append(f"compute capability {'.'.join(map(str, device.compute))}")
    return "\n".join(map(plain_text, lines))


def devices_text(plan: Plan) -> str:
    """Return the GPUs of a plan: ``"2 × L4"``, ``"5 GPUs"`` or ``"none"``."""
    return _names(plan.request.devices, _SHOWN_DEVICES, ", ") or "none"


def context_text(tokens: int) -> str:
    """Return a context as people write it: ``"32k"``, ``"1M"``, ``"40,960"``."""
    if tokens >= 1 << 20 and tokens % (1 << 20) == 0:
        return f"{tokens >> 20}M"
    if tokens >= 1024 and tokens % 1024 == 0 and (tokens >> 10) & ((tokens >> 10) - 1) == 0:
        return f"{tokens >> 10}k"
    return integer_text(tokens)


def sequences_text(plan: Plan) -> str:
    """Return the context in full, times the number of requests: ``"8,192 × 2"``."""
    context, parallel = integer_text(plan.used("context")), int(plan.used("parallel", 1))
    if parallel == 1:
        return context
    if plan.used("kv_unified"):
        return f"{context} shared by {parallel}"
    return f"{context} × {integer_text(parallel)}"


def attention_text(plan: Plan) -> str:
    """Return whether flash attention is on; a dash where the engine leaves no choice."""
    return {True: "on", False: "off"}.get(plan.used("flash_attention"), UNKNOWN)


def setting_text(setting: Setting, value: Any) -> str:
    match setting.kind:
        case Bytes():
            return bytes_text(value)
        case Switch(only_on=only_on):
            return ("yes" if value else "no") if only_on else ("on" if value else "off")
        case Ratio():
            return f"{value:g}"
        case Shares():
            return ",".join(map(str, value)) or UNKNOWN
        case OneOf():
            return plain_text(str(value))
    return integer_text(value)


def size_text(nbytes: int) -> str:
    """Return a size as one would type it, exact if that is short; else rounded."""
    for power in (3, 2, 1):
        unit, unit_bytes = byte_unit(power)
        if nbytes >= unit_bytes:
            text = f"{nbytes / unit_bytes:.6g}"
            if "e" not in text and Fraction(text) * unit_bytes == nbytes:
                return f"{written_number(text)} {unit}"
    return bytes_text(nbytes)


def value_text(value: int | float) -> str:
    """Return a figure of a plan: bytes, or a ratio."""
    return bytes_text(value) if isinstance(value, int) else float_text(value, 4)


# Whether a model fits: the words of a verdict, here and nowhere else


_MARKS: Final = {Level.FITS: "✔", Level.PARTLY: "⚠", Level.NOT: "✘"}
LEVEL_WORDS: Final = {Level.FITS: "Fits", Level.PARTLY: "Fits partly", Level.NOT: "Does not fit"}
"""How well a model fits, in a word or three."""
SHOULD_FIT: Final = "Should fit"
"""Where it fits at the low end of a range, and not at the high end."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a model fits, and a sentence that says so with what it takes."""

    level: Level
    sentence: str
    damaged: bool = False  # whether the model cannot be loaded, however much memory there is
    is_open: bool = False  # whether it fits at the low end of a range, and not at the high end

    @property
    def shown(self) -> Level:
        """The level that mark and colour tell: of a damaged model no good one."""
        return Level.PARTLY if self.damaged and self.level is Level.FITS else self.level

    @property
    def mark(self) -> str:
        """The level as one character."""
        return _MARKS[self.shown]

    @property
    def word(self) -> str:
        """The level in a word or three."""
        return SHOULD_FIT if self.is_open else LEVEL_WORDS[self.level]


def answer(plan: Plan | None, refusal: str = "") -> Answer:
    """Return whether a model fits.

    `refusal` says why there is no plan, or why the program would refuse to load the model.
    """
    if plan is None:
        return Answer(Level.NOT, f"No plan: {plain_text(refusal)}.")
    level, is_open = plan.verdict.level, bool(plan.verdict.depends_on) and not refusal
    words = _open_sentence(plan) if is_open else _fit_sentence(plan)
    if refusal:
        level, words = Level.NOT, f"Ollama would refuse to load it: {plain_text(refusal)}."
    if not plan.request.h.damage:
        return Answer(level, words, is_open=is_open)
    words = f"Damaged. Planned from its header. {words}"
    if plan.request.h.is_safetensors:  # parts may be missing, and then what they take is unknown
        words = f"Damaged: {plain_text(plan.request.h.damage)}."
    return Answer(level, words, damaged=True, is_open=is_open)


def _open_sentence(plan: Plan) -> str:
    """Say what decides whether a model fits."""
    words = f"{SHOULD_FIT}: it depends on {plan.verdict.depends_on}"
    if plan.engine.unknown(plan.request.h):
        left = f" {bytes_text(plan.room)} are left for it." if plan.room > 0 else ""
        return f"{words}, of unknown size.{left}"
    ranges = ((held.compute, held.reserve) for held in plan.holdings)
    needed = bytes_text(max(sum(one.high - one.low for one in both) for both in ranges))
    return f"{words}, known to within {needed}."


def _fit_sentence(plan: Plan) -> str:
    found, main = plan.verdict, len(plan.holdings) - 1
    total, about = found.total_layers, "" if found.is_exact else "about "
    if main in found.short:
        return f"Does not fit: {about}{bytes_text(found.short[main])} too much for main memory."
    if found.on_cpu:
        size = bytes_text(plan.total)
        return f"Runs on the CPU: there is no GPU. The model takes {about}{size}."
    if found.short:
        titles = device_titles(plan)
        names = " and ".join(titles[i] for i in found.short)
        names = names if len(found.short) <= _SHOWN_NAMES else f"{len(found.short)} GPUs"
        missing = bytes_text(sum(found.short.values()))
        return f"Does not fit: {about}{missing} too much for {names}."
    if not found.gpu_layers:
        return f"Does not fit: all {total} layers stay on the CPU."
    used = [held.device for held in plan.gpus if held.layers and held.device is not None]
    names, free = _names(used, _SHOWN_NAMES, " and "), about + bytes_text(found.free)
    if found.level is Level.FITS:
        return f"Fits: {total} of {total} layers on {names}, {free} free."
    free = f", {free} of {names} free" if found.free else ""
    return f"Fits partly: {_left_to_cpu(found)}{free}."


def _left_to_cpu(found: Verdict) -> str:
    """Return "26 of 33 layers stay on the CPU", or what else stays there."""
    total, experts = found.total_layers, found.expert_layers
    left = total - found.gpu_layers
    parts = [f"{left} of {total} layers"] if left else []
    if experts:
        others = "another" if experts == 1 else f"{experts} others"
        parts.append(f"{found.part} of {others if left else f'{experts} of {total} layers'}")
    if found.cache_on_cpu:
        parts.append("the KV cache")
    is_one = len(parts) == 1 and not experts and left < 2
    return f"{' and '.join(parts)} {'stays' if is_one else 'stay'} on the CPU"


def placed_text(found: Verdict, *, brief: bool = False) -> str:
    """Return what of a model is on GPUs: "28 of 49 layers"; or which experts are not."""
    if found.expert_layers and found.gpu_layers == found.total_layers:
        if brief:
            return f"{found.part.capitalize()} on the CPU"
        return f"{found.part} of {found.expert_layers} of {found.total_layers} layers on the CPU"
    return f"{found.gpu_layers} of {found.total_layers} layers"


def fit_text(found: Verdict) -> str:
    """Return "yes", "partly, 28 of 49 layers", "depends" or "no"."""
    if found.depends_on:
        return "depends"
    if found.level is Level.PARTLY:
        return f"{found.level}, {placed_text(found)}"
    on_cpu = found.level is Level.FITS and found.on_cpu
    return f"{found.level}, on the CPU" if on_cpu else found.level.value


def verdict_word(found: Verdict) -> str:
    """Return "Fits", "Fits partly", "Should fit" or "Does not fit"."""
    return SHOULD_FIT if found.depends_on else LEVEL_WORDS[found.level]


def fit_state(found: Verdict) -> str:
    """Return the same in a narrow column: "Fits", "28 of 49 layers", "Does not fit"."""
    if found.level is Level.PARTLY and not found.depends_on:
        return placed_text(found, brief=True)
    word, on_cpu = verdict_word(found), found.level is Level.FITS and found.on_cpu
    return f"{word}, on the CPU" if on_cpu else word


def _names(devices: Sequence[Device], most: int, between: str) -> str:
    """Return names with how often each occurs, or their number where they are many."""
    counts = Counter(map(short_name, devices))
    if len(counts) > most:
        return f"{len(devices)} GPUs"
    return between.join(name if n == 1 else f"{n} × {name}" for name, n in counts.items())


def rules_text(plan: Plan) -> str:
    """Return the title of a plan's engine, with the build that it follows if that was chosen."""
    asked = plan.request.settings.build
    follows = asked and "build" in plan.effective
    if not follows:
        return plan.engine.title
    return f"{plan.engine.short_title}, by the rules of build {asked}"


def remarks(plan: Plan) -> list[str]:
    """Return what else is to be said of a plan, in sentences, warnings first."""
    return [f"{sentence(plain_text(one))}." for one in (*plan.warnings, *plan.notes)]


# A plan as bars and layers


class Kind(StrEnum):
    """What memory holds."""

    WEIGHTS = "weights"
    KV_CACHE = "kv_cache"
    GRAPH = "graph"
    PROJECTOR = "projector"
    DRAFT = "draft"
    ADAPTERS = "adapters"
    RESERVED = "reserved"
    FREE = "free"
    SWAP = "free swap"

    @property
    def label(self) -> str:
        return _KIND_LABELS[self]


_KIND_LABELS: Final = {
    Kind.WEIGHTS: "Weights",
    Kind.KV_CACHE: "KV cache",
    Kind.GRAPH: "Compute",
    Kind.PROJECTOR: "Projector",
    Kind.DRAFT: "Draft",
    Kind.ADAPTERS: "LoRA",
    Kind.RESERVED: "Reserved",
    Kind.FREE: "Free",
    Kind.SWAP: "Free swap",
}


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One kind of content of a bar; `term` is the name of the figure that explains it, or empty."""

    kind: Kind
    nbytes: int
    term: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """The memory of one device."""

    title: str  # name of the device
    device: int | None  # its number among the plan's, or None for the CPU and for a sum
    # bytes that are free on it before the model is loaded, or None if not known
    capacity: int | None
    parts: tuple[MemoryPart, ...]  # what it holds, from left to right
    layers: str = ""  # the layers on it, as text
    # bytes at which to draw a line: the end of main memory or of a program's budget; or None
    mark: int | None = None
    has_budget: bool = False  # whether the line is the end of what the program takes at most
    over_bytes: int = 0  # bytes that are missing, as the verdict has them
    over_at_most: bool = False  # whether they are missing at the high end of a range alone
    reserve_lacks: int = 0  # bytes of the reserve that are not free

    @property
    def held_bytes(self) -> int:
        """Bytes that the model takes."""
        left = (Kind.RESERVED, Kind.FREE, Kind.SWAP)
        return sum(part.nbytes for part in self.parts if part.kind not in left)

    @property
    def length(self) -> int:
        """Bytes from end to end."""
        return max(self.capacity or 0, self.held_bytes, 1)

    def nbytes(self, kind: Kind) -> int:
        return sum(part.nbytes for part in self.parts if part.kind is kind)


def kinds_in(bars: Iterable[Bar]) -> list[Kind]:
    """Return what bars hold, each kind once."""
    return list(dict.fromkeys(part.kind for bar in bars for part in bar.parts))


def amount_text(bar: Bar) -> str:
    """Return what a device holds, of how much."""
    held = bytes_text(bar.held_bytes)
    if bar.capacity is None:
        return held
    free = bytes_text(bar.nbytes(Kind.FREE) + bar.nbytes(Kind.SWAP))
    whole = f"{bytes_text(bar.capacity)}, {free} free"
    if bar.reserve_lacks:
        whole = f"{bytes_text(bar.capacity)}, reserve lacks {bytes_text(bar.reserve_lacks)}"
    if bar.has_budget and bar.mark is not None:
        whole = f"a budget of {bytes_text(bar.mark)}, {free} of it free"
    return f"{held} of {whole}"


_PARTS: Final[Sequence[tuple[Kind, str, Callable[[Holding], int]]]] = (
    (Kind.WEIGHTS, "weights", lambda held: held.weights),
    (Kind.KV_CACHE, "cache", lambda held: held.cache),
    (Kind.GRAPH, "compute", lambda held: held.compute.high),
    (Kind.PROJECTOR, "total", lambda held: held.projector),
    (Kind.DRAFT, "total", lambda held: held.draft),
    (Kind.ADAPTERS, "total", lambda held: held.adapters),
)
_ALWAYS: Final = (Kind.WEIGHTS, Kind.KV_CACHE)  # other parts without bytes are left out


def memory_bars(plan: Plan, host: Host | None) -> tuple[Bar, ...]:
    """Return a bar for each GPU, and one for the CPU.

    `host` is the memory of the machine; a plan that Ollama would refuse was made without it.
    """
    titled = enumerate(zip(device_titles(plan), plan.gpus, strict=True))
    shared = plan.used("utilization") is not None  # it takes a part of each GPU, whatever is free
    bars = [_gpu_bar(number, title, held, shared) for number, (title, held) in titled]
    bars.append(_main_bar(plan, host))
    return tuple(_with_over(bar, plan.verdict, i) for i, bar in enumerate(bars))


def _with_over(bar: Bar, found: Verdict, place: int) -> Bar:
    """Return a bar with what is missing: by the verdict, else what is held beyond its capacity."""
    beyond = 0 if bar.capacity is None else max(0, bar.held_bytes - bar.capacity)
    over = found.short.get(place, beyond)
    return replace(bar, over_bytes=over, over_at_most=bool(found.depends_on))


def _held_parts(held: Holding) -> Iterator[MemoryPart]:
    for kind, name, nbytes in _PARTS:
        shown = kind in _ALWAYS or (kind is Kind.GRAPH and held.device is not None)
        if (size := nbytes(held)) or shown:
            yield MemoryPart(kind, size, held.term(name))


def _gpu_bar(number: int, title: str, held: Holding, has_budget: bool) -> Bar:
    """Return the bar of a GPU; what is beyond a program's budget is behind what is free of it."""
    left = max(0, (held.free or 0) - held.total)
    reserve = min(held.reserve.high, left)
    reserved = MemoryPart(Kind.RESERVED, reserve, held.term("reserve"))
    free, layers = MemoryPart(Kind.FREE, left - reserve), layers_text(held.layers)
    parts, lacks = (*_held_parts(held), reserved, free), held.reserve.high - reserve
    bar = Bar(title, number, held.free, parts, layers, reserve_lacks=lacks)
    if not (has_budget and held.is_used):
        return bar
    budget, parts = (held.free or 0) - held.reserve.high, (*_held_parts(held), free, reserved)
    return replace(bar, parts=parts, mark=budget, has_budget=True)


def _main_bar(plan: Plan, host: Host | None) -> Bar:
    """Return the bar of main memory; swap space is free memory of a second kind."""
    held, found = plan.main, plan.verdict
    parts, capacity, mark = tuple(_held_parts(held)), None, None
    layers = [layers_text(held.layers)] if held.layers or not found.expert_layers else []
    if found.expert_layers:
        layers.append(f"{found.part} of {counted(found.expert_layers, 'layer')}")
    if host is not None:
        if held.free not in (None, host.free + host.swap):  # a Mac's: what its GPU leaves
            host = replace(host, free=held.free, swap=0)
        capacity = host.free + host.swap
        parts += (MemoryPart(Kind.FREE, max(0, host.free - held.total)),)
        if host.swap:
            left, mark = max(0, capacity - held.total), host.free
            parts += (MemoryPart(Kind.SWAP, min(host.swap, left)),)
    return Bar("CPU", None, capacity, parts, " and ".join(layers), mark)


def places(plan: Plan) -> tuple[str, ...]:
    """Return the names of where the layers of each GPU are: of several that share them, of all."""
    titles, found = device_titles(plan), []
    for held in plan.gpus:
        shared = [titles[i] for i, one in enumerate(plan.gpus) if one.layers == held.layers]
        found.append(" and ".join(shared) if len(shared) <= _SHOWN_NAMES else f"{len(shared)} GPUs")
    return tuple(found)


def boundary_of(plan: Plan) -> int:
    """Return the number of layers left of the GPUs: they take the last ones."""
    layers = plan.layers
    on_gpus = (layer.index for layer in layers if layer.device is not None)
    return min(on_gpus, default=len(layers))
