"""Every figure of a plan by Ollama 0.13's estimate, with its formula and the values in it.

docs/planner.md, sections 4 to 8.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.planner.devices import quoted
from explorer.planner.engines.ollama_013.layout import DeviceLayout, Layout
from explorer.planner.engines.ollama_013.settings import EffectiveSettings
from explorer.planner.engines.ollama_013.sizes import FALLBACK, FORMULAS, symbols_in
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plans import Input, Term, sum_term, term
from explorer.planner.request import PlanRequest


def terms(
    request: PlanRequest, effective: EffectiveSettings, layout: Layout, quick: float | None
) -> Iterator[Term]:
    """Yield every figure; `quick` is the quick estimate, where there is one."""
    symbols = _Symbols(request.h, effective, layout)
    caches = layout.sizes.kv_per_layer
    yield sum_term("weights", layout.layer_weights, "layers[*].weights")
    yield sum_term("kv_cache.total", caches, "kv_cache.per_layer[*]")
    for i, (kind, nbytes) in enumerate(zip(layout.sizes.kv_kinds, caches, strict=True)):
        yield symbols.term(f"kv_cache.per_layer[{i}]", nbytes, FORMULAS[kind], block=i)
    yield from _graph_terms(layout, symbols)
    yield from _layer_terms(request.h, layout)
    for i, device in enumerate(layout.devices):
        yield from _device_terms(f"devices[{i}]", device, layout, effective)
    cpu, origin = layout.cpu_layers, "layers left to the CPU"
    yield sum_term("cpu.weights", [layout.layer_weights[i] for i in cpu], origin)
    yield sum_term("cpu.kv_cache", [layout.layer_kv_cache[i] for i in cpu], origin)
    yield sum_term("vram_total", [device.total for device in layout.devices], "devices[*].total")
    parts = {
        "vram": (layout.vram_total, "vram_total"),
        "weights": (layout.cpu_weights, "cpu.weights"),
        "kv_cache": (layout.cpu_kv_cache, "cpu.kv_cache"),
    }
    yield term("total", layout.total, "vram + weights + kv_cache", **parts)
    placed = layout.placed, "gpu_layers"
    layers = layout.total_layers, "total_layers: the blocks and the output layer"
    ratio = layout.placed / layout.total_layers
    yield term("gpu_ratio", ratio, "placed / layers", placed=placed, layers=layers)
    if quick is not None:
        yield term(
            "quick_estimate_ratio",
            quick,
            "(free - kv_cache - partial - buffer) / weights",
            free=(sum(one.free for one in request.devices), "free memory of the GPUs"),
            kv_cache=(layout.sizes.kv_total, "kv_cache.total"),
            partial=(layout.partial, "graph.partial"),
            buffer=(layout.buffer, "weights and cache of blk.0"),
            weights=(sum(layout.layer_weights), "weights"),
        )


def _graph_terms(layout: Layout, symbols: _Symbols) -> Iterator[Term]:
    """Yield the graphs as they are charged: from a row, the fallback, or Metal's rule."""
    sizes = layout.sizes
    if sizes.row is not None and sizes.full > 0:
        yield symbols.term("graph.full", layout.full, sizes.row.full)
    else:
        origin = "graph of a partial offload: the formula gives none for a full one"
        partial = sizes.partial_resolved, origin
        yield term("graph.full", layout.full, "partial", partial=partial)
    devices = [held.device for held in layout.devices]
    if devices and devices[0].library == "Metal":
        full = layout.full, "graph.full: on Metal there is no other"
        yield term("graph.partial", layout.partial, "full", full=full)
    elif sizes.row is not None and sizes.partial > 0:
        yield symbols.term("graph.partial", layout.partial, sizes.row.partial)
    else:
        yield symbols.term("graph.partial", layout.partial, FALLBACK)


def _layer_terms(h: Hyperparameters, layout: Layout) -> Iterator[Term]:
    groups, weights, caches = h.tensors.nbytes, layout.layer_weights, layout.layer_kv_cache
    for i in range(h.block_count):
        name = f"blk.{i}"
        origin = f"tensors of group {name}" if name in groups else f"the file has no {name}"
        yield term(f"layers[{i}].weights", weights[i], "tensors", tensors=(weights[i], origin))
        cache = caches[i], f"kv_cache.per_layer[{i}]"
        yield term(f"layers[{i}].kv_cache", caches[i], "cache", cache=cache)
    last = h.block_count
    output = "output" if "output" in groups else "token_embd"
    reason = "" if output == "output" else " (tied embeddings)"
    yield term(
        f"layers[{last}].weights",
        weights[last],
        "norm + output",
        norm=(groups.get("output_norm", 0), "tensors of group output_norm"),
        output=(groups.get(output, 0), f"tensors of group {output}{reason}"),
    )
    yield term(f"layers[{last}].kv_cache", 0, "0")


def _device_terms(
    name: str, held: DeviceLayout, layout: Layout, effective: EffectiveSettings
) -> Iterator[Term]:
    layers = held.layers or range(0)
    run = slice(layers.start, layers.stop)
    place = f"layers {layers[0]} to {layers[-1]}" if layers else "no layers"
    yield sum_term(f"{name}.weights", layout.layer_weights[run], place)
    yield sum_term(f"{name}.kv_cache", layout.layer_kv_cache[run], place)
    yield _device_graph(name, held, layout)
    yield term(
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
    yield term(f"{name}.total", held.total, " + ".join(parts), **parts)


def _device_graph(name: str, held: DeviceLayout, layout: Layout) -> Term:
    name, used = f"{name}.graph", layout.graph_used
    if held.listed:
        return term(name, held.graph, used, **{used: (held.graph, f"graph.{used}")})
    if not held.graph:
        return term(name, 0, "0")
    full = layout.full, "graph.full, charged in an earlier pass of the search"
    partial = layout.partial, "graph.partial"
    return term(name, held.graph, "max(partial, full)", partial=partial, full=full)


class _Symbols:
    """Values and origins of the symbols of the formulas."""

    def __init__(self, h: Hyperparameters, effective: EffectiveSettings, layout: Layout) -> None:
        w = layout.sizes.workload
        self._h, self._values = h, layout.sizes.symbols
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
            "Dv": key("Dv", "") + ("" if dv is not None else f": {smallest}"),
            "window": key("window", "sliding window"),
            "conv": key("conv", "ssm.conv_kernel"),
            "inner": key("inner", "ssm.inner_size"),
            "state": key("state", "ssm.state_size"),
            "groups": key("groups", "ssm.group_count"),
            "G": "bytes of tensor blk.0.ffn_gate_exps.weight",
            "W": "second dimension of tensor blk.0.ffn_gate.0.weight",
            "S": "length of tensor blk.0.attn_qkv.bias",
            "R": "elements of tensor rope_freqs.weights, which real files do not have",
            "B": batch,
            "b": f"4 bytes × batch ({batch})",
            "C": f"context ({context}) × parallel ({parallel})",
            "Np": parallel,
            "P": f"bytes of an element of {quoted(w.kv_cache_type)} ({cache_type})",
            "KVtotal": "kv_cache.total",
            "KVdefault": "cache of all blocks as if each kept the full context",
        }

    def term(self, name: str, value: int, formula: str, block: int | None = None) -> Term:
        inputs = {symbol: self._input(symbol, block) for symbol in symbols_in(formula)}
        return Term(name, value, formula, inputs)

    def _input(self, symbol: str, block: int | None) -> Input:
        if symbol == "Ki" and block is not None:
            origin = self._h.origins.get("kv heads", "key and value head counts")
            return Input(self._h.kv_heads_per_block[block], f"{origin}, block {block}")
        return Input(self._values[symbol], self._origins[symbol])
