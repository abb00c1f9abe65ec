"""What the figures of a memory plan mean; their formulas are in the plan itself."""

from __future__ import annotations

import re
from typing import Final

from PySide6.QtCore import QCoreApplication

_NUMBER: Final = re.compile(r"\[\d+\]")


def _tr(text: str) -> str:
    return QCoreApplication.translate("FigureTexts", text)


def plan_text(term: str) -> str:
    """Return what a figure of a plan is.

    Args:
        term: Its place in the plan's JSON: ``"devices[0].graph"``; see `planner.terms`.
    """
    return {
        "weights": _tr("Bytes of all weights that are loaded."),
        "kv_cache.total": _tr("Bytes of the KV cache of all layers: keys and values of the text."),
        "kv_cache.per_layer[]": _tr("Bytes of the KV cache of this layer."),
        "graph.full": _tr(
            "Working memory of a GPU while all layers are on GPUs: the compute graph of a batch."
        ),
        "graph.partial": _tr(
            "Working memory of a GPU while some layers are on the CPU: the compute graph of a "
            "batch."
        ),
        "layers[].weights": _tr("Bytes of the weights of this layer."),
        "layers[].kv_cache": _tr("Bytes of the KV cache that goes where this layer goes."),
        "devices[].weights": _tr("Bytes of weights on this GPU."),
        "devices[].kv_cache": _tr("Bytes of the KV cache on this GPU."),
        "devices[].graph": _tr("Bytes of the compute graph on this GPU."),
        "devices[].reserved": _tr("Bytes of this GPU that are withheld while layers are placed."),
        "devices[].total": _tr("Bytes that the model takes on this GPU."),
        "cpu.weights": _tr("Bytes of weights that stay in main memory."),
        "cpu.kv_cache": _tr("Bytes of the KV cache that stays in main memory."),
        "vram_total": _tr("Bytes that the model takes on all GPUs together."),
        "total": _tr("Bytes that the model takes on GPUs and in main memory together."),
        "gpu_ratio": _tr("Part of the layers that are on GPUs: 1 is all."),
        "quick_estimate_ratio": _tr(
            "The room that GPUs have for weights by the weights' size: about how much of the "
            "model fits, before layers are counted."
        ),
    }[_NUMBER.sub("[]", term)]


def part_texts() -> dict[str, str]:
    """Return the texts of what memory is spent on, by `planner.figures.Kind`."""
    return {
        "weights": _tr("Bytes of the model's weights here."),
        "kv_cache": _tr("Bytes of keys and values of the text here; they grow with the context."),
        "graph": _tr("Bytes of working memory here, for computing a batch of tokens."),
        "projector": _tr("Bytes of the part here that turns pictures into tokens."),
        "reserved": _tr("Bytes that are withheld while layers are placed, so that none runs out."),
        "free": _tr("Bytes that are left."),
        "free swap": _tr("Bytes of swap that are left; a model that needs them is slow."),
    }


def bar_texts() -> dict[str, str]:
    """Return the texts of the table of devices, beside what memory is spent on."""
    return {
        "device": _tr("A GPU, or the CPU with its main memory."),
        "layers": _tr("The layers that are computed there."),
        "over": _tr("Bytes that the model takes and that are not there"),
        "capacity": _tr("Free before the model is loaded"),
    }


def layer_texts() -> dict[str, str]:
    """Return the texts of the table of layers."""
    return {
        "index": _tr("Number of the layer, from 0 up; the output layer is the last."),
        "name": _tr("The group of tensors that it is made of."),
        "device": _tr("Where it is computed."),
        "weights": plan_text("layers[0].weights"),
        "kv_cache": plan_text("layers[0].kv_cache"),
        "bytes": _tr("Weights and KV cache of the layer together."),
    }


def curve_texts() -> dict[str, str]:
    """Return the texts of the table of curves."""
    return {
        "context": _tr("Tokens of each sequence."),
        "total": _tr("Bytes in all"),
        "fits": _tr("Whether all layers are on GPUs with this context and KV cache type."),
    }


def why_texts() -> dict[str, str]:
    """Return the texts of the tables of figures and of a formula's symbols."""
    return {
        "figure": _tr("The figure, by its place in the plan's JSON."),
        "value": _tr("The figure, rounded: bytes, or a ratio."),
        "exact": _tr("The figure to the byte."),
        "symbol": _tr("A symbol of the formula above."),
        "symbol_value": _tr("What the symbol stands for here."),
        "from": _tr("The metadata key, setting or figure that it comes from."),
    }


def gpu_texts() -> dict[str, str]:
    """Return the texts of the catalogue of GPUs, and of the list of GPUs to plan for."""
    return {
        "name": _tr("The GPU, as its maker calls it."),
        "memory": _tr("Memory of the board, as it is sold."),
        "usable": _tr("The most that a program can have of it."),
        "library": _tr("What Ollama drives it with: CUDA, ROCm, Metal, Vulkan."),
        "bandwidth": _tr("How many gigabytes its memory moves in a second."),
        "year": _tr("When it came out."),
        "free": _tr("Free memory to plan with; double-click to change it."),
    }


def comparison_texts() -> dict[str, str]:
    """Return the texts of plans side by side."""
    return {
        "name": _tr("The scenario or the model; the first line is the plan of now."),
        "context": _tr("Tokens of each sequence, times the sequences at a time."),
        "kv_cache_type": _tr("How keys and values are stored."),
        "weights": plan_text("weights"),
        "kv_cache": plan_text("kv_cache.total"),
        "graph_each": _tr("Working memory of one GPU, for computing a batch of tokens."),
        "graph": _tr("Working memory of all GPUs together."),
        "vram_total": plan_text("vram_total"),
        "cpu_total": _tr("Weights and KV cache that stay in main memory."),
        "total": plan_text("total"),
        "gpu_layers": _tr("How many layers are on GPUs, of all with the output layer."),
        "devices": _tr("The GPUs that the plan may use."),
        "batch": _tr("Tokens computed at a time."),
        "flash_attention": _tr("Whether attention is computed without storing its table."),
        "profile": _tr("The release of Ollama whose rules the plan follows."),
        "answer": _tr("Whether the model fits, in one sentence."),
    }
