"""Ollama up to 0.13: its own estimate, and where it then puts layers (docs/planner.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from explorer.errors import PlanError
from explorer.planner import environment as env
from explorer.planner import settings as known
from explorer.planner.devices import quoted
from explorer.planner.engines.ollama_013.layout import Layout, Trace, lay_out
from explorer.planner.engines.ollama_013.settings import EffectiveSettings, effective_settings
from explorer.planner.engines.ollama_013.sizes import FORMULAS, evaluated
from explorer.planner.engines.ollama_013.terms import terms
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plans import (
    Details,
    Effective,
    Engine,
    Holding,
    Layer,
    Plan,
    Range,
    Term,
    Trial,
    difference_notes,
    judge,
)
from explorer.planner.request import PlanRequest
from explorer.planner.settings import AUTOMATIC
from explorer.text import bytes_text, integer_text

_TERMS: Final = {"cache": "kv_cache", "compute": "graph", "reserve": "reserved"}


class Ollama013(Engine):
    """Ollama up to 0.13, by its own engine."""

    name = "ollama-graphsize"
    serve = ()  # its own engine, which no command line starts alike
    title = "Ollama up to 0.13: its own estimate and layout of layers"
    short_title = "Ollama up to 0.13"
    rule = "the old estimate counts a whole attention matrix for each GPU"
    settings = (
        *(known.CONTEXT, known.PARALLEL, known.KV_CACHE_TYPE, known.BATCH, known.FLASH_ATTENTION),
        *(known.NUM_GPU, known.OVERHEAD, known.SPREAD),
    )
    grows = False  # a graph is charged to GPUs that a longer context may leave out

    def refusal(self, h: Hyperparameters) -> str:
        """Refuse what is no GGUF file, and types of tensors that Ollama never loaded."""
        if h.is_safetensors:
            return "Ollama up to 0.13 loads GGUF files"
        kind = quoted(h.tensors.foreign)
        return f"Ollama does not load tensors of type {kind}" if kind else ""

    def plan(self, request: PlanRequest) -> Plan:
        """Apply the formulas of each architecture, and lay the layers out."""
        if refusal := self.refusal(request.h):
            raise PlanError(refusal)
        effective = effective_for(request)
        layout = layout_for(request, effective)
        holdings = tuple(_holdings(layout))
        verdict = judge(holdings, layout.total_layers, counts_reserve=False)
        in_effect = _effective(effective, layout)
        return Plan(
            engine=self,
            request=request,
            effective=in_effect,
            holdings=holdings,
            verdict=verdict,
            cache=layout.sizes.kv_total,
            cells=effective.context * effective.parallel,
            details=_Details(request, effective, layout),
            notes=(*difference_notes(in_effect), *_notes(request, effective, layout)),
            warnings=tuple(_warnings(request, layout)),
        )

    def layers_asked(self, boundary: int, total: int) -> int:
        """Leave out the output layer, which comes with all layers only: section 7, step 5."""
        return total if boundary <= 0 else max(0, total - boundary - 1)

    def trial(self, request: PlanRequest) -> Trial:
        """Return the decisions of the layout.

        If one pass does not place all layers, the layout does not fit: later passes have less
        room, so its decisions end there. (Of gptoss the graph falls where the cache grows from
        nothing to 6 bytes; no context is so small.)
        """
        trace: Trace = []
        try:
            layout = layout_for(request, effective_for(request), trace)
        except PlanError as error:
            trace.append((-1 if error.reason is None else -2,))  # sizes beyond 63 bits; refused
            return Trial(False, trace, _is_hopeless(request))
        return Trial(layout.fully_offloaded, trace, _is_hopeless(request))


OLLAMA_013: Final = Ollama013()


def _is_hopeless(request: PlanRequest) -> bool:
    """Return whether the layers exceed the GPUs of every library, even without any graph.

    Then they do so for every larger context too.
    """
    if request.settings.num_gpu not in (None, AUTOMATIC):
        return False
    alone = replace(request.asking(require_full=False, num_gpu=0), host=None)
    try:
        layout = layout_for(alone, effective_for(alone))
    except PlanError:
        return True
    needed = sum(layout.layer_weights) + sum(layout.layer_kv_cache)
    rooms: dict[str, int] = {}
    for held in layout.devices:
        room = held.device.free - held.projector - held.reserved
        rooms[held.device.library] = rooms.get(held.device.library, 0) + max(0, room)
    return needed > max(rooms.values(), default=0)


def effective_for(request: PlanRequest) -> EffectiveSettings:
    """Return the settings that hold in a server.

    Raises:
        PlanError: A setting cannot be used.
    """
    return effective_settings(
        request.h, request.settings, request.devices, request.environment, server_rules=True
    )


def layout_for(
    request: PlanRequest, effective: EffectiveSettings, trace: Trace | None = None
) -> Layout:
    """Return `lay_out` of a request's model and machine under the settings that hold."""
    asked = request.settings
    return lay_out(
        request.h,
        effective,
        request.devices,
        host=request.host,
        num_gpu=AUTOMATIC if asked.num_gpu is None else asked.num_gpu,
        require_full=asked.require_full,
        overhead=effective.overhead,
        spread=effective.spread,
        projector=asked.projector_bytes,
        trace=trace,
    )


def _holdings(layout: Layout) -> Iterator[Holding]:
    for number, held in enumerate(layout.devices):
        yield Holding(
            device=held.device,
            place=f"devices[{number}]",
            free=held.device.free,
            weights=held.weights,
            cache=held.kv_cache,
            compute=Range.exactly(held.graph),
            projector=held.projector,
            reserve=Range.exactly(held.reserved),
            layers=held.layers or (),
            is_used=held.listed,
            terms=_TERMS,
        )
    yield Holding(
        device=None,
        place="cpu",
        free=None,
        weights=layout.cpu_weights,
        cache=layout.cpu_kv_cache,
        layers=layout.cpu_layers,
        terms=_TERMS,
    )


def _effective(effective: EffectiveSettings, layout: Layout) -> dict[str, Effective]:
    values = {
        "context": effective.context,
        "batch": layout.batch,
        "parallel": effective.parallel,
        "flash_attention": effective.flash_attention,
        "kv_cache_type": effective.kv_cache_type,
        "num_gpu": layout.placed,
        "overhead": effective.overhead,
        "spread": effective.spread,
    }
    origins = effective.origins
    found = {name: Effective(value, origin=origins.get(name, "")) for name, value in values.items()}
    for name, one in effective.differences.items():
        found[name] = one._replace(value=values[name])
    return found


@dataclass(frozen=True)
class _Details(Details):
    """What the estimate tells beside the shape of all plans."""

    request: PlanRequest
    effective: EffectiveSettings
    layout: Layout

    def layers(self) -> Sequence[Layer]:
        return self.layout.layers

    def layer_caches(self) -> Sequence[int]:
        return self.layout.sizes.kv_per_layer

    def terms(self) -> Iterator[Term]:
        return terms(self.request, self.effective, self.layout, self.quick_ratio)

    @cached_property
    def quick_ratio(self) -> float | None:
        """The rule of thumb of `quick_ratio`, unclamped; None without weights."""
        return _quick_ratio(self.request, self.layout)

    def record(self) -> dict[str, Any]:
        layout = self.layout
        charged = any(device.listed for device in layout.devices)
        graph = {
            "partial": layout.partial,
            "full": layout.full,
            "used": layout.graph_used if charged else "none",
        }
        return {"graph": graph, "quick_estimate_ratio": self.quick_ratio}


def _quick_ratio(request: PlanRequest, layout: Layout) -> float | None:
    weights = sum(layout.layer_weights)
    if not weights:
        return None
    vram = sum(device.free for device in request.devices)
    return quick_ratio(vram, layout.sizes.kv_total, layout.partial, layout.buffer, weights)


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


def _notes(request: PlanRequest, effective: EffectiveSettings, layout: Layout) -> Iterator[str]:
    """Yield notes on a plan of the estimator."""
    h = request.h
    if h.architecture in MEASURED:
        yield (
            "this model is measured at load time. The figures are an estimate "
            f"(Ollama 0.13.3 runs {h.architecture} on its other engine)"
        )
    elif env.boolean(request.environment, env.NEW_ENGINE):
        yield f"{env.NEW_ENGINE} is set: models that the other engine supports are measured instead"
    if effective.what_if:
        yield "a KV cache of f32 is a what-if: no server accepts it"
    if layout.batch != effective.batch:
        batch = integer_text(layout.batch)
        yield f"an embedding model computes its whole context at once: batch {batch}"
    if h.sliding_window and h.architecture not in _WINDOW_COUNTS:
        key = h.origins.get("window", "attention.sliding_window")
        yield f"{key} is not consulted: the cache holds the whole context in every block"
    if (projector := request.settings.projector_bytes) and request.devices:
        yield (
            f"the projector ({bytes_text(projector)}) is counted on the GPU that holds it; Ollama "
            "means to, but leaves it out"
        )
    yield "Ollama 0.30 and later let the server place the layers. See profile ollama"


def _warnings(request: PlanRequest, layout: Layout) -> Iterator[str]:
    """Yield what makes the figures of the estimator doubtful."""
    h = request.h
    yield from h.warnings
    yield from _formula_warnings(h, layout)
    for held in layout.devices:
        free, name = held.device.free, held.device.label
        if held.total > free:
            over = bytes_text(held.total - free)
            yield f"{quoted(name)} would hold {over} more than is free. Loading may fail"
        elif held.listed and held.total + held.reserved > free:
            yield f"{quoted(name)} would hold more than Ollama leaves room for. Loading may fail"
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
        yield f"the formula of {sizes.row.name} gives no graph here. The fallback is used"
    if h.heads_min == 0 and None in (h.stored_key_length, h.stored_value_length):
        yield (
            "a block without heads makes the head length 0, and the file states no length of keys "
            "or values: Ollama's estimate leaves out their cache"
        )
    if h.architecture.startswith(_MLP_BLOCKS) and evaluated(FORMULAS["recurrent"], sizes.symbols):
        yield "blocks that are only an MLP count as recurrent, so the cache is too large"
    missing = sum(f"blk.{i}" not in h.tensors.nbytes for i in range(h.block_count))
    if missing:
        yield f"{missing} of {h.block_count} blocks have no tensors and count as 0 bytes"
