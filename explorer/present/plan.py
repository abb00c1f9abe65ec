"""A memory plan: whether the model fits, and its figures: names, order, how they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from explorer.errors import PlanError
from explorer.planner import Host
from explorer.planner.advice import Advice, solve
from explorer.planner.inputs import PlanResult
from explorer.planner.layout import DeviceLayout, Layout
from explorer.planner.profiles import GRAPH_SIZE
from explorer.planner.result import Plan, PlanRequest, Prediction
from explorer.planner.sizes import BYTES_PER_ELEMENT
from explorer.present import Figure
from explorer.text import bytes_text, integer_text, plain_text, runs_text, shorten

PLAN: Final = {
    "weights": "Weights",
    "kv_cache": "KV cache",
    "graph_each": "Graph on each GPU",
    "graph_total": "Graphs on all GPUs",
    "vram_total": "On GPUs",
    "cpu_total": "On the CPU",
    "gpu_layers": "Layers on GPUs",
    "total": "In all",
}
"""Labels of the figures of a plan by name, in order."""

_SHOWN_NAMES: Final = 2
_PARTS: Final = {
    "weights": "Weights",
    "kv_cache": "KV cache",
    "graph": "Graph",
    "projector": "Projector",
    "reserved": "Reserved",
    "free": "Free",
    "free swap": "Free swap",
}


def plan_label(name: str) -> str:
    """Return what a figure of `PLAN` is called."""
    return PLAN[name]


def part_label(name: str) -> str:
    """Return what a part of one device's memory is called."""
    return _PARTS[name]


def plan_value(plan: Plan, name: str) -> int | None:
    """Return a figure of `PLAN`; None where the profile claims none."""
    layout, prediction = plan.layout, plan.prediction
    if layout is None:
        surcharge = None if prediction is None else prediction.surcharge_bytes
        known = {"weights": plan.weights, "kv_cache": plan.kv_total, "total": plan.total}
        return {**known, "graph_total": surcharge}.get(name)
    graphs = [held.graph for held in layout.devices]
    return {
        "weights": plan.weights,
        "kv_cache": plan.kv_total,
        "graph_each": max(graphs, default=0),
        "graph_total": sum(graphs),
        "vram_total": layout.vram_total,
        "cpu_total": layout.cpu_weights + layout.cpu_kv_cache,
        "gpu_layers": layout.placed,
        "total": plan.total,
    }[name]


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
    return Figure(name, plan_label(name), value, text)


def layers_text(layers: Sequence[int]) -> str:
    """Return runs of layers: ``"13 layers: 0–11, 20"``."""
    if not layers:
        return "no layers"
    if len(layers) == 1:
        return f"layer {layers[0]}"
    return f"{len(layers)} layers: {runs_text(layers)}"


def cpu_layers(layout: Layout) -> list[int]:
    """Return the layers that stay on the CPU."""
    owned = {layer for held in layout.devices for layer in held.layers or ()}
    return [layer for layer in range(layout.total_layers) if layer not in owned]


class Level(StrEnum):
    """How well a model fits."""

    FITS = "fits"
    PARTLY = "partly"
    NOT = "does not fit"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a model fits.

    Attributes:
        level: How well.
        sentence: The same in words, with what it takes.
    """

    level: Level
    sentence: str


def verdict(plan: Plan | None, refusal: str = "") -> Verdict:
    """Return whether a model fits.

    Args:
        plan: The plan; None if there is none.
        refusal: Why there is none, or why Ollama would refuse to load the model.
    """
    if plan is None:
        return Verdict(Level.NOT, f"No plan: {plain_text(refusal)}.")
    if refusal:
        words = "Ollama would refuse to load it: {why}."
        return Verdict(Level.NOT, words.format(why=plain_text(refusal)))
    if plan.layout is not None:
        return _layout_verdict(plan.layout)
    prediction = plan.prediction
    assert prediction is not None  # a plan has one or the other
    sizes = {
        "need": bytes_text(prediction.total),
        "have": bytes_text(prediction.available_bytes),
    }
    if prediction.fits:
        words = "Fits, as predicted: {need} of {have}, within the 80 % that may be used."
        return Verdict(Level.FITS, words.format(**sizes))
    words = "Does not fit, as predicted: {need}, where 80 % of {have} may be used."
    return Verdict(Level.NOT, words.format(**sizes))


def _layout_verdict(layout: Layout) -> Verdict:
    total, placed = layout.total_layers, layout.placed
    if not layout.devices:
        words = "Runs on the CPU: there is no GPU, and all {total} layers take {size}."
        size = bytes_text(layout.cpu_weights + layout.cpu_kv_cache)
        return Verdict(Level.PARTLY, words.format(total=total, size=size))
    if layout.fully_offloaded:
        words = "Fits: {total} of {total} layers on {devices}; {free} free."
        used = [held for held in layout.devices if held.layers is not None]
        free = bytes_text(sum(held.free_left for held in used))
        text = words.format(total=total, devices=_names(used), free=free)
        return Verdict(Level.FITS, text)
    if not placed:
        words = "Does not fit: all {total} layers stay on the CPU."
        return Verdict(Level.NOT, words.format(total=total))
    words = (
        "Fits partly: 1 of {total} layers stays on the CPU."
        if total - placed == 1
        else "Fits partly: {left} of {total} layers stay on the CPU."
    )
    return Verdict(Level.PARTLY, words.format(left=total - placed, total=total))


def _names(used: Sequence[DeviceLayout]) -> str:
    names = [shorten(plain_text(held.device.name or held.device.key), 60) for held in used]
    texts = [
        name if names.count(name) == 1 else f"{names.count(name)} × {name}"
        for name in dict.fromkeys(names)
    ]
    if len(texts) > _SHOWN_NAMES:
        return f"{len(used)} GPUs"
    return " and ".join(texts)


def exact_text(nbytes: int) -> str:
    """Return a size rounded and in full: ``"4.37 GiB (4,692,251,770 bytes)"``."""
    if nbytes < 1024:
        return bytes_text(nbytes)
    return f"{bytes_text(nbytes)} ({f'{integer_text(nbytes)} bytes'})"


# The answer in plain words, and the changes that would make it a better one. Knows no widgets.


SETTING_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "context": "context",
        "parallel": "parallel",
        "kv-cache-type": "kv_cache_type",
        "gpu-layers": "num_gpu",
        "fewest-gpu-layers": "num_gpu",
    }
)
"""The setting that answers a question of `explorer.planner.advice`."""


@dataclass(frozen=True)
class Suggestion:
    """A change that makes all layers fit.

    Attributes:
        words: How it continues "It would fit …": ``"at 18,432 tokens"``.
        button: What a button says that applies it.
        changes: Settings to change.
    """

    words: str
    button: str
    changes: Mapping[str, Any] = field(default_factory=dict)


def verdict_of(outcome: PlanResult) -> Verdict:
    """Return whether a model fits."""
    return verdict(outcome.plan, outcome.refusal)


def suggestions(
    request: PlanRequest, profile: str, check: Callable[[], None]
) -> tuple[Suggestion, ...]:
    """Return single changes that put all layers on GPUs. For a worker: it may take a second.

    Args:
        request: What does not fit.
        profile: By which profile; only the one with a layout can be asked.
        check: Called between searches; raises to stop.
    """
    if profile != GRAPH_SIZE.name or not request.devices:
        return ()
    found = []
    try:
        for suggest in (_all_layers, _smaller_context, _smaller_cache, _fewer_sequences):
            check()
            found += list(suggest(request))
    except PlanError:  # the inputs cannot be planned at all, which the verdict says
        return ()
    return tuple(found)


def _all_layers(request: PlanRequest) -> Iterator[Suggestion]:
    asked = request.settings.num_gpu
    if asked is not None and asked >= 0 and _fits(request, num_gpu=None):
        words = "with as many GPU layers as fit"
        yield Suggestion(words, "Place layers automatically", {"num_gpu": None})


def _smaller_context(request: PlanRequest) -> Iterator[Suggestion]:
    answer = solve("context", request)
    if isinstance(answer.value, int):
        tokens = integer_text(answer.value)
        words = f"at {tokens} tokens"
        button = f"Use {tokens} tokens"
        yield Suggestion(words, button, {"context": answer.value})


def _smaller_cache(request: PlanRequest) -> Iterator[Suggestion]:
    """Yield the least lossy cache type that fits, with flash attention where it needs that."""
    for name in list(BYTES_PER_ELEMENT)[1:]:  # f32 is a what-if
        if name == request.settings.kv_cache_type and request.settings.flash_attention:
            continue
        for attention in (request.settings.flash_attention, True):
            changes = {"kv_cache_type": name, "flash_attention": attention}
            if not _fits(request, **changes):
                continue
            with_attention = attention is True and request.settings.flash_attention is not True
            words = (
                "with a {name} cache and flash attention"
                if with_attention
                else "with a {name} cache"
            )
            button = f"Use a {name} cache"
            yield Suggestion(words.format(name=name), button, changes)
            return


def _fewer_sequences(request: PlanRequest) -> Iterator[Suggestion]:
    if (request.settings.parallel or 1) < 2:
        return
    answer = solve("parallel", request)
    if isinstance(answer.value, int):
        count = integer_text(answer.value)
        if answer.value == 1:
            words, button = "with one sequence", "Use one sequence"
        else:
            words = f"with {count} sequences"
            button = f"Use {count} sequences"
        yield Suggestion(words, button, {"parallel": answer.value})


def _fits(request: PlanRequest, **changes: Any) -> bool:
    """Tell whether all layers are on GPUs and the cache has the type that is asked for."""
    asked = replace(request, settings=replace(request.settings, **changes))
    try:
        plan = GRAPH_SIZE.plan(asked)
    except PlanError as error:
        if error.reason is None:
            raise
        return False
    wanted = changes.get("kv_cache_type", plan.effective.kv_cache_type)
    return plan.fully_offloaded and plan.effective.kv_cache_type == wanted


def suggestions_sentence(found: tuple[Suggestion, ...]) -> str:
    """Return "It would fit at 18,432 tokens, or with a q8_0 cache."; or that nothing helps."""
    if not found:
        return "No other context, cache type or number of sequences alone makes it fit."
    return "It would fit {ways}.".format(ways=", or ".join(one.words for one in found))


def question_name(what: str) -> str:
    """Return what a button says that asks a question of `explorer.planner.advice`."""
    return {
        "context": "Largest context",
        "parallel": "Most parallel",
        "kv-cache-type": "Least lossy KV type",
        "gpu-layers": "Most GPU layers",
    }[what]


def advice_text(advice: Advice) -> str:
    """Return an answer with what keeps it from being more."""
    limit = shorten(plain_text(advice.limited_by), 400)
    name = question_name(advice.what)
    if advice.value is None:
        return f"{name}: none. {limit}."
    value = integer_text(advice.value) if isinstance(advice.value, int) else advice.value
    words = "{question}: {value}. Limited by {limit}."
    return words.format(question=name, value=value, limit=limit)


def advice_changes(advice: Advice) -> dict[str, Any]:
    """Return the settings that apply an answer; nothing where there is none."""
    return {} if advice.value is None else {SETTING_OF[advice.what]: advice.value}


class CheckedEnvironment(Mapping[str, str]):
    """Ollama's variables, which a search asks for at every trial: there it can be stopped.

    `explorer.planner.advice` knows no jobs. A search of a second would else go on after a person
    has moved on, and take the time of the frames that are wanted instead.

    Args:
        variables: The variables.
        check: Raises to stop.
    """

    def __init__(self, variables: Mapping[str, str], check: Callable[[], None]) -> None:
        self._variables = variables
        self._check = check

    def __getitem__(self, name: str) -> str:
        self._check()
        return self._variables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)


# A plan as bars and layers: what the picture draws and its table lists. Knows no widgets.


_LONGEST_NAME = 60


class Kind(StrEnum):
    """What memory is spent on."""

    WEIGHTS = "weights"
    KV_CACHE = "kv_cache"
    GRAPH = "graph"
    PROJECTOR = "projector"
    RESERVED = "reserved"
    FREE = "free"
    SWAP = "free swap"


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of content of a bar.

    Attributes:
        kind: What it is.
        nbytes: Its bytes.
        term: Name of the figure that explains it, or nothing.
    """

    kind: Kind
    nbytes: int
    term: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """The memory of one device.

    Attributes:
        title: What to call the device.
        device: Its number among the plan's, or None for the CPU and for a sum.
        capacity: Bytes that are free on it before the model comes, or None if not known.
        parts: What they are spent on, from left to right.
        layers: The layers on it, as text.
        mark: Bytes at which to draw a line, such as the end of main memory, or None.
    """

    title: str
    device: int | None
    capacity: int | None
    parts: tuple[Part, ...]
    layers: str = ""
    mark: int | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes that the model takes."""
        left = (Kind.RESERVED, Kind.FREE, Kind.SWAP)
        return sum(part.nbytes for part in self.parts if part.kind not in left)

    @property
    def over_bytes(self) -> int:
        """Bytes that the model takes and that are not there."""
        return 0 if self.capacity is None else max(0, self.held_bytes - self.capacity)

    @property
    def length(self) -> int:
        """Bytes from end to end."""
        return max(self.capacity or 0, self.held_bytes, 1)

    def nbytes(self, kind: Kind) -> int:
        """Return the bytes of a kind."""
        return sum(part.nbytes for part in self.parts if part.kind is kind)


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of a model.

    Attributes:
        index: Its number; the output layer is the last.
        name: ``"blk.7"`` or ``"output"``.
        weights: Bytes of its weights.
        kv_cache: Bytes of its cache.
        device: Number of the device, or None for the CPU.
    """

    index: int
    name: str
    weights: int
    kv_cache: int
    device: int | None

    @property
    def nbytes(self) -> int:
        """Weights and cache."""
        return self.weights + self.kv_cache


def kind_name(kind: Kind) -> str:
    """Return what a kind is called."""
    return part_label(kind.value)


def device_title(number: int, held: DeviceLayout, count: int) -> str:
    """Return what to call a GPU; its number tells it from others of the same name."""
    name = shorten(plain_text(held.device.name or held.device.key), _LONGEST_NAME)
    return f"{number + 1} · {name}" if count > 1 else name


def memory_bars(plan: Plan, host: Host | None) -> tuple[Bar, ...]:
    """Return a bar for each GPU, and one for the CPU.

    Args:
        plan: The plan.
        host: Memory of the machine; a plan that Ollama would refuse was made without it.
    """
    layout = plan.layout
    if layout is None:
        assert plan.prediction is not None  # a plan has one or the other
        return (_predicted_bar(plan.prediction, bool(plan.request.devices)),)
    bars = [_device_bar(i, held, len(layout.devices)) for i, held in enumerate(layout.devices)]
    return (*bars, _cpu_bar(layout, host))


def _device_bar(number: int, held: DeviceLayout, count: int) -> Bar:
    """Return the bar of a GPU."""
    name = f"devices[{number}]"
    parts = [
        Part(Kind.WEIGHTS, held.weights, f"{name}.weights"),
        Part(Kind.KV_CACHE, held.kv_cache, f"{name}.kv_cache"),
        Part(Kind.GRAPH, held.graph, f"{name}.graph"),
        Part(Kind.PROJECTOR, held.projector, f"{name}.total"),
        Part(Kind.RESERVED, held.reserve_left, f"{name}.reserved"),
        Part(Kind.FREE, held.free_left),
    ]
    layers = () if held.layers is None else held.layers
    return Bar(
        title=device_title(number, held, count),
        device=number,
        capacity=held.device.free,
        parts=tuple(part for part in parts if part.nbytes or part.kind is not Kind.PROJECTOR),
        layers=layers_text(layers),
    )


def _cpu_bar(layout: Layout, host: Host | None) -> Bar:
    weights, cache = layout.cpu_weights, layout.cpu_kv_cache
    parts = [
        Part(Kind.WEIGHTS, weights, "cpu.weights"),
        Part(Kind.KV_CACHE, cache, "cpu.kv_cache"),
    ]
    capacity = None
    if host is not None:
        capacity = host.free + host.swap
        parts.append(Part(Kind.FREE, max(0, host.free - weights - cache)))
        if host.swap:
            left = max(0, capacity - weights - cache)
            parts.append(Part(Kind.SWAP, min(host.swap, left)))
    return Bar(
        title="CPU",
        device=None,
        capacity=capacity,
        parts=tuple(parts),
        layers=layers_text(cpu_layers(layout)),
        mark=host.free if host is not None and host.swap else None,
    )


def _predicted_bar(prediction: Prediction, on_gpus: bool) -> Bar:
    """Return the one bar of a profile without a layout; it leaves a fifth to other models."""
    return Bar(
        title="All GPUs together" if on_gpus else "Main memory",
        device=None,
        capacity=prediction.available_bytes,
        parts=(
            Part(Kind.WEIGHTS, prediction.file_bytes, "weights"),
            Part(Kind.KV_CACHE, prediction.cache_bytes, "kv_cache.total"),
            Part(Kind.GRAPH, prediction.surcharge_bytes, "graph.full"),
            Part(Kind.RESERVED, prediction.reserve_left),
            Part(Kind.FREE, prediction.free_left),
        ),
        mark=prediction.usable_bytes,
    )


def layers_of(layout: Layout) -> tuple[Layer, ...]:
    """Return every layer with its place, the output layer last."""
    owners: dict[int, int] = {}
    for number, held in enumerate(layout.devices):
        owners.update(dict.fromkeys(held.layers or (), number))
    last = layout.total_layers - 1
    sizes = zip(layout.layer_weights, layout.layer_kv_cache, strict=True)
    return tuple(
        Layer(i, "output" if i == last else f"blk.{i}", weights, cache, owners.get(i))
        for i, (weights, cache) in enumerate(sizes)
    )


def boundary_of(layout: Layout) -> int:
    """Return the number of layers left of the GPUs: they take the last ones."""
    first = [held.layers.start for held in layout.devices if held.layers is not None]
    return min(first, default=layout.total_layers)


def layers_asked(layout: Layout, boundary: int) -> int:
    """Return the number of GPU layers to ask for so that the GPUs begin at a layer.

    Fewer than all leave the output layer to the CPU: docs/planner.md, section 7, step 5.
    """
    blocks = layout.total_layers - 1
    return layout.total_layers if boundary <= 0 else max(0, blocks - boundary)
