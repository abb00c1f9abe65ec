"""What a reader of a plan should know, and what makes its figures doubtful (planner.md 10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from explorer.planner import environment as env
from explorer.planner.checks import quoted
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.kv_cache import recurrent_bytes
from explorer.planner.layout import Layout
from explorer.planner.result import PlanRequest, quick_ratio
from explorer.planner.settings import EffectiveSettings
from explorer.text import bytes_text, fixed_text, integer_text

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
