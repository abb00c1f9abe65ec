"""What is asked of a plan, and the plan: every figure, and on demand why it is what it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from explorer.planner import settings as env
from explorer.planner.devices import Device, Host, check_devices, quoted
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.kv_cache import recurrent_bytes
from explorer.planner.layout import Layout
from explorer.planner.settings import EffectiveSettings, Settings
from explorer.planner.sizes import GraphSize
from explorer.text import bytes_text, fixed_text, integer_text

if TYPE_CHECKING:
    from explorer.planner.profiles import Prediction


# A figure with its reason: the formula, the value of every symbol, and where each came from.


Number: TypeAlias = int | float

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_NOT_SYMBOLS: Final = frozenset({"max", "min", "sum", "int", "or"})


@dataclass(frozen=True, slots=True)
class Input:
    """The value of a symbol.

    Attributes:
        value: The number, or the numbers that are summed.
        origin: The metadata key, setting or figure that it came from.
    """

    value: Number | tuple[int, ...]
    origin: str


@dataclass(frozen=True, slots=True)
class Term:
    """One figure of a plan.

    Attributes:
        name: Where it stands in the plan's JSON: ``"devices[0].graph"``.
        value: The figure; bytes, but for ratios.
        formula: How it is worked out, as Python writes it.
        inputs: Symbol of the formula → its value.
    """

    name: str
    value: Number
    formula: str
    inputs: Mapping[str, Input]


def symbols_in(formula: str) -> list[str]:
    """Return the symbols of a formula, each once, in order of appearance."""
    return [word for word in dict.fromkeys(_WORD.findall(formula)) if word not in _NOT_SYMBOLS]


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


# What a reader of a plan should know, and what makes its figures doubtful (planner.md 10).


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
    if h.after_conversion:
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
