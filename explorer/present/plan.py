"""What is said of a memory plan: verdict, figures, bars, layers, suggestions and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, Final, NamedTuple

from explorer.errors import PlanError
from explorer.planner import Device, Host
from explorer.planner.advice import Advice, automatic_placement, context_as_placed, solve
from explorer.planner.engines.llama_cpp.outcome import EXACT, Held, Outcome
from explorer.planner.layout import DeviceLayout, Layout
from explorer.planner.profiles import GRAPH_SIZE, PREDICTION, profile_named
from explorer.planner.result import Plan, PlanRequest, Prediction
from explorer.planner.sizes import BYTES_PER_ELEMENT
from explorer.present import Figure
from explorer.text import (
    byte_unit,
    bytes_text,
    float_text,
    integer_text,
    plain_text,
    runs_text,
    sentence,
    shorten,
    written_number,
)

CACHE_TYPES: Final = tuple(BYTES_PER_ELEMENT)
"""Types of the KV cache, the largest first; f32 is a what-if."""

PLAN: Final = {
    "weights": "Weights",
    "kv_cache": "KV cache",
    "graph_each": "Compute on each GPU",
    "graph_total": "Compute on all GPUs",
    "vram_total": "On GPUs",
    "cpu_total": "On the CPU",
    "gpu_layers": "Layers on GPUs",
    "total": "In all",
}
"""Labels of the figures of a plan by name, in order."""

_SHOWN_NAMES: Final = 2
_SHOWN_DEVICES: Final = 3
_LONGEST_NAME: Final = 60
_LEAST_SUGGESTED: Final = 2048  # tokens with which one can do something


def plan_value(plan: Plan, name: str) -> int | None:
    """Return a figure of `PLAN`; None where the profile claims none."""
    layout, prediction, outcome = plan.layout, plan.prediction, plan.llama_cpp
    known = {"weights": plan.weights, "kv_cache": plan.kv_total, "total": plan.total}
    if outcome is not None:
        known |= {"graph_each": max((held.compute for held in outcome.gpus), default=0)}
        known |= {"graph_total": sum(held.compute for held in outcome.gpus)}
        known |= {"cpu_total": outcome.main.total, "gpu_layers": outcome.gpu_layers}
        known |= {"vram_total": sum(held.total for held in outcome.gpus)}
    if prediction is not None:
        known["graph_total"] = prediction.surcharge_bytes
    if layout is not None:
        graphs = [held.graph for held in layout.devices]
        known |= {"graph_each": max(graphs, default=0), "graph_total": sum(graphs)}
        known |= {"vram_total": layout.vram_total, "gpu_layers": layout.placed}
        known["cpu_total"] = layout.cpu_weights + layout.cpu_kv_cache
    return known.get(name)


def plan_figures(plan: Plan) -> list[Figure]:
    """Return the figures of the plan as a whole."""
    return [plan_figure(plan, name) for name in PLAN]


def plan_figure(plan: Plan, name: str) -> Figure:
    """Return one figure of `PLAN`; its text is a dash where the profile claims none."""
    value = plan_value(plan, name)
    if value is None:
        text = "–"
    elif name == "gpu_layers":
        text = f"{value} of {plan.request.h.total_layers}"
    else:
        text = bytes_text(value)
    return Figure(name, PLAN[name], value, text)


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


def device_titles(layout: Layout) -> list[str]:
    """Return the names of a layout's GPUs; numbers distinguish several."""
    return _titles([held.device for held in layout.devices])


def _titles(devices: Sequence[Device]) -> list[str]:
    names = [short_name(device) for device in devices]
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
    """Return the context in full, times the number of sequences: ``"8,192 × 2"``."""
    effective = plan.effective
    if plan.llama_cpp is not None and plan.llama_cpp.settings.kv_unified:
        shared = "" if effective.parallel == 1 else f" shared by {effective.parallel}"
        return f"{integer_text(effective.context)}{shared}"
    times = "" if effective.parallel == 1 else f" × {integer_text(effective.parallel)}"
    return f"{integer_text(effective.context)}{times}"


def attention_text(plan: Plan) -> str:
    """Return whether flash attention is on."""
    return "on" if plan.effective.flash_attention else "off"


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


class Level(StrEnum):
    """How well a model fits."""

    FITS = "fits"
    PARTLY = "partly"
    NOT = "does not fit"


_MARKS: Final = {Level.FITS: "✔", Level.PARTLY: "⚠", Level.NOT: "✘"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a model fits, and a sentence that says so with what it takes."""

    level: Level
    sentence: str
    damaged: bool = False  # whether the model cannot be loaded, however much memory there is

    @property
    def shown(self) -> Level:
        """The level that mark and colour tell: of a damaged model no good one."""
        return Level.PARTLY if self.damaged and self.level is Level.FITS else self.level

    @property
    def mark(self) -> str:
        """The level as one character."""
        return _MARKS[self.shown]


def verdict(plan: Plan | None, refusal: str = "") -> Verdict:
    """Return whether a model fits.

    `refusal` says why there is no plan, or why Ollama would refuse to load the model.
    """
    if plan is None:
        return Verdict(Level.NOT, f"No plan: {plain_text(refusal)}.")
    found = _verdict(plan, refusal)
    if not plan.request.h.damage:
        return found
    return Verdict(found.level, f"Damaged; planned from its header. {found.sentence}", damaged=True)


def _verdict(plan: Plan, refusal: str) -> Verdict:
    if refusal:
        return Verdict(Level.NOT, f"Ollama would refuse to load it: {plain_text(refusal)}.")
    if plan.llama_cpp is not None:
        return _llama_cpp_verdict(plan.llama_cpp)
    if plan.layout is not None:
        return _layout_verdict(plan.layout)
    prediction = plan.prediction
    assert prediction is not None  # a plan has one or the other
    need, have = bytes_text(prediction.total), bytes_text(prediction.available_bytes)
    if prediction.fits:
        words = f"Fits, as predicted: {need} of {have}, within the 80 % that may be used."
        return Verdict(Level.FITS, words)
    words = f"Does not fit, as predicted: {need}, where 80 % of {have} may be used."
    return Verdict(Level.NOT, words)


def _layout_verdict(layout: Layout) -> Verdict:
    total, left = layout.total_layers, layout.total_layers - layout.placed
    if not layout.devices:
        size = bytes_text(layout.cpu_weights + layout.cpu_kv_cache)
        words = f"Runs on the CPU: there is no GPU, and all {total} layers take {size}."
        return Verdict(Level.FITS, words)
    if not left:
        used = [held for held in layout.devices if held.layers is not None]
        free = bytes_text(sum(held.free_left for held in used))
        names = _names([held.device for held in used], _SHOWN_NAMES, " and ")
        return Verdict(Level.FITS, f"Fits: {total} of {total} layers on {names}; {free} free.")
    if not layout.placed:
        return Verdict(Level.NOT, f"Does not fit: all {total} layers stay on the CPU.")
    stay = "layers stays" if left == 1 else "layers stay"
    return Verdict(Level.PARTLY, f"Fits partly: {left} of {total} {stay} on the CPU.")


def _llama_cpp_verdict(outcome: Outcome) -> Verdict:
    total = outcome.total_layers
    about = "" if outcome.accuracy == EXACT else "about "  # a band, of which the end is counted
    if outcome.main.short:
        missing = bytes_text(outcome.main.short)
        return Verdict(Level.NOT, f"Does not fit: main memory is {about}{missing} short.")
    if not outcome.devices:
        size = bytes_text(outcome.main.total)
        words = f"Runs on the CPU: there is no GPU, and the model takes {about}{size}."
        return Verdict(Level.FITS, words)
    short = [held for held in outcome.gpus if held.short]
    if short:
        titles = zip(_titles(outcome.devices), outcome.gpus, strict=True)
        which = [title for title, held in titles if held.short]
        names = " and ".join(which) if len(which) <= _SHOWN_NAMES else f"{len(which)} GPUs"
        missing = bytes_text(sum(held.short for held in short))
        verb = "is" if len(short) == 1 else "are"
        words = f"Does not fit: {names} {verb} {about}{missing} short, the reserve counted."
        return Verdict(Level.NOT, words)
    if not outcome.gpu_layers:
        return Verdict(Level.NOT, f"Does not fit: all {total} layers stay on the CPU.")
    names = _names(outcome.devices, _SHOWN_NAMES, " and ")
    left = sum(max(0, (held.free or 0) - held.total - held.reserve) for held in outcome.gpus)
    free = about + bytes_text(left)
    if outcome.all_on_gpus:
        return Verdict(Level.FITS, f"Fits: {total} of {total} layers on {names}; {free} free.")
    return Verdict(Level.PARTLY, f"Fits partly: {_left_to_cpu(outcome)}; {free} of {names} free.")


def _left_to_cpu(outcome: Outcome) -> str:
    """Return "26 of 33 layers stay on the CPU", or what else stays there."""
    total, experts = outcome.total_layers, len(outcome.expert_layers)
    left = total - outcome.gpu_layers
    parts = [f"{left} of {total} layers"] if left else []
    if experts:
        others = "another" if experts == 1 else f"{experts} others"
        parts.append(f"experts of {others if left else f'{experts} of {total} layers'}")
    if not outcome.settings.offload_kv:
        parts.append("the KV cache")
    is_one = len(parts) == 1 and not experts and left < 2
    return f"{' and '.join(parts)} {'stays' if is_one else 'stay'} on the CPU"


def _names(devices: Sequence[Device], most: int, between: str) -> str:
    """Return names with how often each occurs, or their number where they are many."""
    counts = Counter(map(short_name, devices))
    if len(counts) > most:
        return f"{len(devices)} GPUs"
    return between.join(name if n == 1 else f"{n} × {name}" for name, n in counts.items())


# Changes that would make all layers fit, and answers to questions


class Question(NamedTuple):
    """How a question of `explorer.planner.advice` is worded, and the setting that it is about."""

    setting: str
    title: str
    full_title: str


QUESTIONS: Final = {
    "context": Question("context", "Largest context", "Largest context with all layers on GPUs"),
    "parallel": Question("parallel", "Most parallel", "Most sequences with all layers on GPUs"),
    "kv-cache-type": Question(
        "kv_cache_type", "Least lossy KV type", "Least lossy KV cache with all layers on GPUs"
    ),
    "gpu-layers": Question("num_gpu", "Most layers", "Most layers that the GPUs can hold"),
    "fewest-gpu-layers": Question(
        "num_gpu", "Fewest GPU layers", "Fewest layers that must go to GPUs"
    ),
}


@dataclass(frozen=True)
class Suggestion:
    """A change of settings that makes all layers fit."""

    words: str  # how it continues "It would fit …": ``"at 18,432 tokens"``
    button: str  # text of the button that applies it
    changes: Mapping[str, Any]  # settings to change


def suggestions(
    request: PlanRequest, check: Callable[[], None], profile: str = GRAPH_SIZE.name
) -> tuple[Suggestion, ...]:
    """Return single changes that put all layers on GPUs. For a worker: it may take a second.

    `check` is called before each plan; it raises to stop. A profile that claims no layers has none.
    """
    if _needs_attention(request, profile):
        changes = {"flash_attention": True}
        return (Suggestion("with flash attention", "Turn flash attention on", changes),)
    if profile == PREDICTION.name:
        return ()
    if not request.devices:
        return tuple(_suggestions_without_gpu(profile, request, check))
    search = _suggestions if profile == GRAPH_SIZE.name else partial(_server_suggestions, profile)
    try:
        return tuple(search(request, check))
    except PlanError:  # the inputs cannot be planned at all, which the verdict says
        return ()


def _needs_attention(request: PlanRequest, profile: str) -> bool:
    """Return whether there is a plan only with flash attention, which is turned off."""
    if request.settings.flash_attention is not False:
        return False
    plan = profile_named(profile).plan
    try:
        plan(request)
    except PlanError:
        try:
            plan(replace(request, settings=replace(request.settings, flash_attention=True)))
        except PlanError:
            return False
        return True
    return False


def _suggestions_without_gpu(
    profile: str, request: PlanRequest, check: Callable[[], None]
) -> Iterator[Suggestion]:
    """Yield the longest context that main memory holds, where it is short of the planned one."""
    plan = profile_named(profile).plan(request)
    if plan.llama_cpp is None or not plan.llama_cpp.main.short:
        return
    tokens = context_as_placed(request, plan, check)
    if tokens is not None and tokens >= _LEAST_SUGGESTED:
        text = f"{integer_text(tokens)} tokens"
        yield Suggestion(f"at {text}", f"Use {text}", {"context": tokens})


def _suggestions(request: PlanRequest, check: Callable[[], None]) -> Iterator[Suggestion]:
    settings, fits = request.settings, partial(_fits, request, check)
    if settings.num_gpu is not None and settings.num_gpu >= 0 and fits(num_gpu=None):
        words = "with as many GPU layers as fit"
        yield Suggestion(words, "Place layers automatically", {"num_gpu": None})
    tokens = solve("context", request, check).value
    if isinstance(tokens, int):
        text = f"{integer_text(tokens)} tokens"
        yield Suggestion(f"at {text}", f"Use {text}", {"context": tokens})
    # the least lossy cache type that fits, with flash attention where it needs that
    for name, attention in product(CACHE_TYPES[1:], (settings.flash_attention, True)):
        known = name == settings.kv_cache_type and settings.flash_attention
        changes: dict[str, Any] = {"kv_cache_type": name, "flash_attention": attention}
        if not known and fits(**changes):
            turned_on = attention is True and settings.flash_attention is not True
            words = f"with a {name} cache" + (" and flash attention" if turned_on else "")
            yield Suggestion(words, f"Use a {name} cache", changes)
            break
    count = solve("parallel", request, check).value if (settings.parallel or 1) > 1 else None
    if isinstance(count, int):
        text = "one sequence" if count == 1 else f"{integer_text(count)} sequences"
        yield Suggestion(f"with {text}", f"Use {text}", {"parallel": count})


def _server_suggestions(
    profile: str, request: PlanRequest, check: Callable[[], None]
) -> Iterator[Suggestion]:
    """Yield changes for llama.cpp, each with all layers asked onto GPUs.

    Left alone, llama.cpp keeps 1 GiB of each GPU free; asked, it is enough to keep the reserve.
    """
    settings = request.settings
    placed: dict[str, Any] = {"num_gpu": request.h.total_layers}
    placed |= {"cpu_moe_layers": None} if settings.cpu_moe_layers else {}
    fits = partial(_fits, request, check, profile=profile, **placed)
    if fits():
        yield Suggestion("with all layers asked onto GPUs", "Put all layers on GPUs", placed)
        return
    if freed := automatic_placement(request, profile, check):
        yield Suggestion("with layers placed automatically", "Place layers automatically", freed)
    if settings.flash_attention is False and fits(flash_attention=True):
        changes = {"flash_attention": True, **placed}
        yield Suggestion("with flash attention", "Turn flash attention on", changes)
    kept, words = dict[str, Any](), ""
    for name in CACHE_TYPES[1:]:  # the least lossy cache type that fits
        changes = {"kv_cache_type": name, "cache_type_k": None, "cache_type_v": None}
        if name in ("f16", settings.kv_cache_type) or settings.flash_attention is False:
            continue
        if fits(**changes):
            yield Suggestion(f"with a {name} cache", f"Use a {name} cache", changes | placed)
            break
        kept, words = changes, f" with a {name} cache"
    answer = partial(solve, check=check, profile=profile)
    tokens = answer("context", request).value
    if not tokens and kept:  # not by itself
        changed = replace(request, settings=replace(settings, **kept))
        tokens = answer("context", changed).value
    else:
        kept, words = {}, ""
    if isinstance(tokens, int) and tokens >= _LEAST_SUGGESTED:
        text = f"{integer_text(tokens)} tokens{words}"
        yield Suggestion(f"at {text}", f"Use {text}", {"context": tokens, **kept, **placed})
    count = answer("parallel", request).value if (settings.parallel or 1) > 1 else None
    if isinstance(count, int):
        text = "one sequence" if count == 1 else f"{integer_text(count)} sequences"
        yield Suggestion(f"with {text}", f"Use {text}", {"parallel": count, **placed})


def _fits(
    request: PlanRequest,
    check: Callable[[], None],
    *,
    profile: str = GRAPH_SIZE.name,
    **changes: Any,
) -> bool:
    """Return whether all layers are on GPUs and the cache has the type that is asked for."""
    check()
    asked = replace(request, settings=replace(request.settings, **changes))
    try:
        plan = profile_named(profile).plan(asked)
    except PlanError as error:
        if error.reason is None and profile == GRAPH_SIZE.name:
            raise
        return False
    if plan.llama_cpp is not None:
        return plan.fully_offloaded and plan.llama_cpp.fits
    wanted = changes.get("kv_cache_type", plan.effective.kv_cache_type)
    return plan.fully_offloaded and plan.effective.kv_cache_type == wanted


def suggestions_sentence(found: tuple[Suggestion, ...]) -> str:
    """Return "It would fit at 18,432 tokens, or with a q8_0 cache."; or that nothing helps."""
    if not found:
        return "No other context, cache type or number of sequences alone makes it fit."
    return f"It would fit {', or '.join(one.words for one in found)}."


def advice_text(advice: Advice) -> str:
    """Return an answer with what keeps it from being more."""
    limit, name = shorten(plain_text(advice.limited_by), 400), QUESTIONS[advice.what].title
    if advice.value is None:
        return f"{name}: none. {sentence(limit)}."
    value = integer_text(advice.value) if isinstance(advice.value, int) else advice.value
    return f"{name}: {value}. Limited by {limit}."


def advice_changes(advice: Advice) -> dict[str, Any]:
    """Return the settings that apply an answer; nothing where there is none."""
    return {} if advice.value is None else {QUESTIONS[advice.what].setting: advice.value}


# A plan as bars and layers


class Kind(StrEnum):
    """What memory holds."""

    WEIGHTS = "weights"
    KV_CACHE = "kv_cache"
    GRAPH = "graph"
    PROJECTOR = "projector"
    RESERVED = "reserved"
    FREE = "free"
    SWAP = "free swap"

    @property
    def label(self) -> str:
        """Its name for people."""
        return _KIND_LABELS[self]


_KIND_LABELS: Final = {
    **{Kind.WEIGHTS: "Weights", Kind.KV_CACHE: "KV cache", Kind.GRAPH: "Compute"},
    **{Kind.PROJECTOR: "Projector", Kind.RESERVED: "Reserved"},
    **{Kind.FREE: "Free", Kind.SWAP: "Free swap"},
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
    # bytes at which to draw a line, such as the end of main memory, or None
    mark: int | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes that the model takes."""
        left = (Kind.RESERVED, Kind.FREE, Kind.SWAP)
        return sum(part.nbytes for part in self.parts if part.kind not in left)

    @property
    def over_bytes(self) -> int:
        """Bytes that the model takes beyond the capacity."""
        return 0 if self.capacity is None else max(0, self.held_bytes - self.capacity)

    @property
    def length(self) -> int:
        """Bytes from end to end."""
        return max(self.capacity or 0, self.held_bytes, 1)

    def nbytes(self, kind: Kind) -> int:
        """Return the bytes of a kind."""
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
    return f"{held} of {bytes_text(bar.capacity)}, {free} free"


def memory_bars(plan: Plan, host: Host | None) -> tuple[Bar, ...]:
    """Return a bar for each GPU, and one for the CPU.

    `host` is the memory of the machine; a plan that Ollama would refuse was made without it.
    """
    layout = plan.layout
    if plan.llama_cpp is not None:
        return _llama_cpp_bars(plan.llama_cpp, host)
    if layout is None:
        assert plan.prediction is not None  # a plan has one or the other
        return (_predicted_bar(plan.prediction, bool(plan.request.devices)),)
    titled = zip(device_titles(layout), layout.devices, strict=True)
    bars = [_device_bar(i, title, held) for i, (title, held) in enumerate(titled)]
    return (*bars, _cpu_bar(layout, host))


def _llama_cpp_bars(outcome: Outcome, host: Host | None) -> tuple[Bar, ...]:
    titles = _titles(outcome.devices)
    bars = [_gpu_bar(i, titles[i], held) for i, held in enumerate(outcome.gpus)]
    main = outcome.main
    parts = tuple(_held_parts(main, "cpu", "kv_cache"))
    return (*bars, _main_bar(parts, main.layers, host))


def _gpu_bar(number: int, title: str, held: Held) -> Bar:
    place = f"llama_cpp.buffers.{held.name}"
    left = max(0, (held.free or 0) - held.total)
    reserve = min(held.reserve, left)
    parts = (
        *_held_parts(held, place, "cache"),
        MemoryPart(Kind.RESERVED, reserve, f"{place}.reserve"),
        MemoryPart(Kind.FREE, left - reserve),
    )
    return Bar(title, number, held.free, parts, layers_text(held.layers))


def _held_parts(held: Held, place: str, cache: str) -> Iterator[MemoryPart]:
    yield MemoryPart(Kind.WEIGHTS, held.weights, f"{place}.weights")
    yield MemoryPart(Kind.KV_CACHE, held.cache, f"{place}.{cache}")
    yield MemoryPart(Kind.GRAPH, held.compute, f"{place}.compute")
    if held.projector:
        yield MemoryPart(Kind.PROJECTOR, held.projector, f"{place}.total")


def _device_bar(number: int, title: str, held: DeviceLayout) -> Bar:
    """Return the bar of a GPU."""
    name = f"devices[{number}]"
    parts = [
        MemoryPart(Kind.WEIGHTS, held.weights, f"{name}.weights"),
        MemoryPart(Kind.KV_CACHE, held.kv_cache, f"{name}.kv_cache"),
        MemoryPart(Kind.GRAPH, held.graph, f"{name}.graph"),
        MemoryPart(Kind.PROJECTOR, held.projector, f"{name}.total"),
        MemoryPart(Kind.RESERVED, held.reserve_left, f"{name}.reserved"),
        MemoryPart(Kind.FREE, held.free_left),
    ]
    shown = tuple(part for part in parts if part.nbytes or part.kind is not Kind.PROJECTOR)
    return Bar(title, number, held.device.free, shown, layers_text(held.layers or ()))


def _cpu_bar(layout: Layout, host: Host | None) -> Bar:
    weights, cache = layout.cpu_weights, layout.cpu_kv_cache
    parts = (
        MemoryPart(Kind.WEIGHTS, weights, "cpu.weights"),
        MemoryPart(Kind.KV_CACHE, cache, "cpu.kv_cache"),
    )
    return _main_bar(parts, layout.cpu_layers, host)


def _main_bar(parts: tuple[MemoryPart, ...], layers: Sequence[int], host: Host | None) -> Bar:
    """Return the bar of main memory; swap space is free memory of a second kind."""
    capacity, held = None, sum(part.nbytes for part in parts)
    if host is not None:
        capacity = host.free + host.swap
        parts += (MemoryPart(Kind.FREE, max(0, host.free - held)),)
        if host.swap:
            left = max(0, capacity - held)
            parts += (MemoryPart(Kind.SWAP, min(host.swap, left)),)
    mark = host.free if host is not None and host.swap else None
    return Bar("CPU", None, capacity, parts, layers_text(layers), mark)


def _predicted_bar(prediction: Prediction, on_gpus: bool) -> Bar:
    """Return the one bar of a profile without a layout; it leaves a fifth to other models."""
    parts = (
        MemoryPart(Kind.WEIGHTS, prediction.file_bytes, "weights"),
        MemoryPart(Kind.KV_CACHE, prediction.cache_bytes, "kv_cache.total"),
        MemoryPart(Kind.GRAPH, prediction.surcharge_bytes, "graph.full"),
        MemoryPart(Kind.RESERVED, prediction.reserve_left),
        MemoryPart(Kind.FREE, prediction.free_left),
    )
    title = "All GPUs together" if on_gpus else "Main memory"
    return Bar(title, None, prediction.available_bytes, parts, mark=prediction.usable_bytes)


def boundary_of(plan: Plan) -> int:
    """Return the number of layers left of the GPUs: they take the last ones."""
    layers = plan.layers
    on_gpus = (layer.index for layer in layers if layer.device is not None)
    return min(on_gpus, default=len(layers))


def layers_asked(plan: Plan, boundary: int) -> int:
    """Return the number of GPU layers to ask for so that the GPUs begin at a layer.

    In Ollama's estimate fewer than all leave the output layer to the CPU: docs/planner.md, section
    7, step 5. In llama.cpp the output is the last of them.
    """
    total = plan.request.h.total_layers
    if boundary <= 0:
        return total
    return max(0, total - boundary - (plan.llama_cpp is None))
