"""A plan as bars and layers: what the picture draws and its table lists. Knows no widgets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from PySide6.QtCore import QCoreApplication

from explorer.planner import Host
from explorer.planner.layout import DeviceLayout, Layout
from explorer.planner.profiles import Prediction
from explorer.planner.result import Plan
from explorer.present.plan import cpu_layers, layers_text, part_label
from explorer.qt.models.figure_texts import translated
from explorer.text import plain_text, shorten

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


def _tr(text: str) -> str:
    return QCoreApplication.translate("PlannerFigures", text)


def kind_name(kind: Kind) -> str:
    """Return what a kind is called."""
    return part_label(kind.value, translated)


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
        layers=layers_text(layers, translated),
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
        title=_tr("CPU"),
        device=None,
        capacity=capacity,
        parts=tuple(parts),
        layers=layers_text(cpu_layers(layout), translated),
        mark=host.free if host is not None and host.swap else None,
    )


def _predicted_bar(prediction: Prediction, on_gpus: bool) -> Bar:
    """Return the one bar of a profile without a layout; it leaves a fifth to other models."""
    return Bar(
        title=_tr("All GPUs together") if on_gpus else _tr("Main memory"),
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
