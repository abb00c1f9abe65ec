"""A memory plan: whether the model fits, and its figures: names, order, how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from explorer.present import Figure, Translate, english
from explorer.text import bytes_text, integer_text, plain_text, runs_text, shorten

if TYPE_CHECKING:
    from explorer.planner.layout import DeviceLayout, Layout
    from explorer.planner.result import Plan

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


def plan_label(name: str, tr: Translate = english) -> str:
    """Return what a figure of `PLAN` is called."""
    return tr(PLAN[name])


def part_label(name: str, tr: Translate = english) -> str:
    """Return what a part of one device's memory is called."""
    return tr(_PARTS[name])


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


def plan_figures(plan: Plan, tr: Translate = english) -> list[Figure]:
    """Return the figures of the plan as a whole."""
    return [plan_figure(plan, name, tr) for name in PLAN]


def plan_figure(plan: Plan, name: str, tr: Translate = english) -> Figure:
    """Return one figure of `PLAN`; its text is a dash where the profile claims none."""
    value = plan_value(plan, name)
    if value is None:
        text = "–"
    elif name == "gpu_layers":
        text = tr("{placed} of {total}").format(placed=value, total=plan.request.h.total_layers)
    else:
        text = bytes_text(value)
    return Figure(name, plan_label(name, tr), value, text)


def layers_text(layers: Sequence[int], tr: Translate = english) -> str:
    """Return runs of layers: ``"13 layers: 0–11, 20"``."""
    if not layers:
        return tr("no layers")
    if len(layers) == 1:
        return tr("layer {layer}").format(layer=layers[0])
    return tr("{count} layers: {runs}").format(count=len(layers), runs=runs_text(layers))


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


def verdict(plan: Plan | None, refusal: str = "", tr: Translate = english) -> Verdict:
    """Return whether a model fits.

    Args:
        plan: The plan; None if there is none.
        refusal: Why there is none, or why Ollama would refuse to load the model.
        tr: Language of the sentence.
    """
    if plan is None:
        return Verdict(Level.NOT, tr("No plan: {why}.").format(why=plain_text(refusal)))
    if refusal:
        words = tr("Ollama would refuse to load it: {why}.")
        return Verdict(Level.NOT, words.format(why=plain_text(refusal)))
    if plan.layout is not None:
        return _layout_verdict(plan.layout, tr)
    prediction = plan.prediction
    assert prediction is not None  # a plan has one or the other
    sizes = {
        "need": bytes_text(prediction.total),
        "have": bytes_text(prediction.available_bytes),
    }
    if prediction.fits:
        words = tr("Fits, as predicted: {need} of {have}, within the 80 % that may be used.")
        return Verdict(Level.FITS, words.format(**sizes))
    words = tr("Does not fit, as predicted: {need}, where 80 % of {have} may be used.")
    return Verdict(Level.NOT, words.format(**sizes))


def _layout_verdict(layout: Layout, tr: Translate) -> Verdict:
    total, placed = layout.total_layers, layout.placed
    if not layout.devices:
        words = tr("Runs on the CPU: there is no GPU, and all {total} layers take {size}.")
        size = bytes_text(layout.cpu_weights + layout.cpu_kv_cache)
        return Verdict(Level.PARTLY, words.format(total=total, size=size))
    if layout.fully_offloaded:
        words = tr("Fits: {total} of {total} layers on {devices}; {free} free.")
        used = [held for held in layout.devices if held.layers is not None]
        free = bytes_text(sum(held.free_left for held in used))
        text = words.format(total=total, devices=_names(used, tr), free=free)
        return Verdict(Level.FITS, text)
    if not placed:
        words = tr("Does not fit: all {total} layers stay on the CPU.")
        return Verdict(Level.NOT, words.format(total=total))
    words = (
        tr("Fits partly: 1 of {total} layers stays on the CPU.")
        if total - placed == 1
        else tr("Fits partly: {left} of {total} layers stay on the CPU.")
    )
    return Verdict(Level.PARTLY, words.format(left=total - placed, total=total))


def _names(used: Sequence[DeviceLayout], tr: Translate) -> str:
    names = [shorten(plain_text(held.device.name or held.device.key), 60) for held in used]
    texts = [
        name if names.count(name) == 1 else f"{names.count(name)} × {name}"
        for name in dict.fromkeys(names)
    ]
    if len(texts) > _SHOWN_NAMES:
        return tr("{n} GPUs").format(n=len(used))
    return tr(" and ").join(texts)


def exact_text(nbytes: int, tr: Translate = english) -> str:
    """Return a size rounded and in full: ``"4.37 GiB (4,692,251,770 bytes)"``."""
    if nbytes < 1024:
        return bytes_text(nbytes)
    return f"{bytes_text(nbytes)} ({tr('{n} bytes').format(n=integer_text(nbytes))})"
