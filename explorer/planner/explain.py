"""Every figure of a plan with its formula, the value of each symbol, and where that came from.

The formulas are texts that Python can evaluate with their inputs. A test does so for every figure,
so what is shown is what was computed.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.planner.compute_graph import TENSOR_ORIGINS
from explorer.planner.devices import quoted
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.kv_cache import FORMULAS, Workload, kv_cache
from explorer.planner.layout import DeviceLayout, Layout
from explorer.planner.profiles import CACHE_FORMULA, Prediction
from explorer.planner.result import Input, Number, Plan, Term, symbols_in
from explorer.planner.settings import EffectiveSettings
from explorer.planner.sizes import FALLBACK


def explain(plan: Plan) -> tuple[Term, ...]:
    """Return the terms of a plan, named by the place of their figure in the plan's JSON."""
    if plan.layout is not None:
        return tuple(_layout_terms(plan, plan.layout))
    assert plan.prediction is not None  # a plan has one or the other
    return tuple(_prediction_terms(plan, plan.prediction))


def _layout_terms(plan: Plan, layout: Layout) -> Iterator[Term]:
    symbols = _Symbols(plan.request.h, plan.effective, layout.sizes.workload)
    caches = layout.sizes.kv_per_layer
    yield _sum("weights", layout.layer_weights, "layers[*].weights")
    yield _sum("kv_cache.total", caches, "kv_cache.per_layer[*]")
    for i, (kind, nbytes) in enumerate(zip(layout.sizes.kv_kinds, caches, strict=True)):
        yield symbols.term(f"kv_cache.per_layer[{i}]", nbytes, FORMULAS[kind], block=i)
    yield from _graph_terms(layout, symbols)
    yield from _layer_terms(plan.request.h, layout)
    for i, device in enumerate(layout.devices):
        yield from _device_terms(f"devices[{i}]", device, layout, plan.effective)
    cpu = [i for i in range(layout.total_layers) if not _on_device(layout, i)]
    yield _sum("cpu.weights", [layout.layer_weights[i] for i in cpu], "layers left to the CPU")
    yield _sum("cpu.kv_cache", [layout.layer_kv_cache[i] for i in cpu], "layers left to the CPU")
    yield _sum("vram_total", [device.total for device in layout.devices], "devices[*].total")
    yield Term(
        "total",
        layout.total,
        "vram + weights + kv_cache",
        {
            "vram": Input(layout.vram_total, "vram_total"),
            "weights": Input(layout.cpu_weights, "cpu.weights"),
            "kv_cache": Input(layout.cpu_kv_cache, "cpu.kv_cache"),
        },
    )
    yield from _ratio_terms(plan, layout)


def _graph_terms(layout: Layout, symbols: _Symbols) -> Iterator[Term]:
    """Yield the graphs as they are charged: from a row, the fallback, or Metal's rule."""
    sizes = layout.sizes
    by_row = sizes.row is not None and sizes.full > 0
    if sizes.row is not None and by_row:
        yield symbols.term("graph.full", layout.full, sizes.row.full)
    else:
        origin = "graph of a partial offload: the formula gives none for a full one"
        value = Input(sizes.partial_resolved, origin)
        yield Term("graph.full", layout.full, "partial", {"partial": value})
    devices = [held.device for held in layout.devices]
    if devices and devices[0].library == "Metal":
        value = Input(layout.full, "graph.full: on Metal there is no other")
        yield Term("graph.partial", layout.partial, "full", {"full": value})
    elif sizes.row is not None and sizes.partial > 0:
        yield symbols.term("graph.partial", layout.partial, sizes.row.partial)
    else:
        yield symbols.term("graph.partial", layout.partial, FALLBACK)


def _layer_terms(h: Hyperparameters, layout: Layout) -> Iterator[Term]:
    groups = h.tensors.nbytes
    for i in range(h.block_count):
        name = f"blk.{i}"
        origin = f"tensors of group {name}" if name in groups else f"the file has no {name}"
        weights = {"tensors": Input(layout.layer_weights[i], origin)}
        yield Term(f"layers[{i}].weights", layout.layer_weights[i], "tensors", weights)
        cache = Input(layout.layer_kv_cache[i], f"kv_cache.per_layer[{i}]")
        yield Term(f"layers[{i}].kv_cache", layout.layer_kv_cache[i], "cache", {"cache": cache})
    last = h.block_count
    output = "output" if "output" in groups else "token_embd"
    reason = "" if output == "output" else " (tied embeddings)"
    yield Term(
        f"layers[{last}].weights",
        layout.layer_weights[last],
        "norm + output",
        {
            "norm": Input(groups.get("output_norm", 0), "tensors of group output_norm"),
            "output": Input(groups.get(output, 0), f"tensors of group {output}{reason}"),
        },
    )
    yield Term(f"layers[{last}].kv_cache", 0, "0", {})


def _device_terms(
    name: str, held: DeviceLayout, layout: Layout, effective: EffectiveSettings
) -> Iterator[Term]:
    layers = held.layers or range(0)
    run = slice(layers.start, layers.stop)
    place = f"layers {layers[0]} to {layers[-1]}" if layers else "no layers"
    yield _sum(f"{name}.weights", layout.layer_weights[run], place)
    yield _sum(f"{name}.kv_cache", layout.layer_kv_cache[run], place)
    yield _device_graph(name, held, layout)
    yield Term(
        f"{name}.reserved",
        held.reserved,
        "min(free, buffer + minimum + overhead)",
        {
            "free": Input(held.device.free, f"free memory of {quoted(held.device.label)}"),
            "buffer": Input(layout.buffer, "weights and cache of blk.0, withheld on every GPU"),
            "minimum": Input(held.device.minimum_bytes, f"Ollama's, for {held.device.library}"),
            "overhead": Input(layout.overhead, effective.origins.get("overhead", "setting")),
        },
    )
    parts = {
        "weights": Input(held.weights, f"{name}.weights"),
        "kv_cache": Input(held.kv_cache, f"{name}.kv_cache"),
        "graph": Input(held.graph, f"{name}.graph"),
    }
    if held.projector:
        parts["projector"] = Input(held.projector, "tensors of the projector's file")
    yield Term(f"{name}.total", held.total, " + ".join(parts), parts)


def _device_graph(name: str, held: DeviceLayout, layout: Layout) -> Term:
    if held.listed:
        used = layout.graph_used
        graph = Input(held.graph, f"graph.{used}")
        return Term(f"{name}.graph", held.graph, used, {used: graph})
    if held.graph:
        both = {
            "partial": Input(layout.partial, "graph.partial"),
            "full": Input(layout.full, "graph.full; charged in an earlier pass of the search"),
        }
        return Term(f"{name}.graph", held.graph, "max(partial, full)", both)
    return Term(f"{name}.graph", 0, "0", {})


def _ratio_terms(plan: Plan, layout: Layout) -> Iterator[Term]:
    yield Term(
        "gpu_ratio",
        layout.placed / layout.total_layers,
        "placed / layers",
        {
            "placed": Input(layout.placed, "gpu_layers"),
            "layers": Input(layout.total_layers, "total_layers: the blocks and the output layer"),
        },
    )
    ratio = plan.quick_estimate_ratio
    if ratio is None:
        return
    yield Term(
        "quick_estimate_ratio",
        ratio,
        "(free - kv_cache - partial - buffer) / weights",
        {
            "free": Input(
                sum(device.free for device in plan.request.devices), "free memory of the GPUs"
            ),
            "kv_cache": Input(plan.kv_total, "kv_cache.total"),
            "partial": Input(layout.partial, "graph.partial"),
            "buffer": Input(layout.buffer, "weights and cache of blk.0"),
            "weights": Input(plan.weights, "weights"),
        },
    )


def _prediction_terms(plan: Plan, prediction: Prediction) -> Iterator[Term]:
    h = plan.request.h
    weights = Input(prediction.file_bytes, "size of the model's files")
    yield Term("weights", plan.weights, "files", {"files": weights})
    origins = plan.effective.origins
    context = f"context ({origins['context']}) × parallel ({origins['parallel']})"
    yield Term(
        "kv_cache.total",
        plan.kv_total,
        CACHE_FORMULA,
        {
            "L": Input(h.block_count, h.origins.get("L", "block_count")),
            "Kmin": Input(h.kv_heads_min, f"smallest of {h.origins.get('kv heads', 'the model')}"),
            "head": Input(prediction.head_length, "embedding length // largest number of heads"),
            "C": Input(prediction.cells, context),
        },
    )
    batch = Input(prediction.surcharge_bytes, f"surcharge of batch {plan.effective.batch}")
    yield Term("graph.full", prediction.surcharge_bytes, "surcharge", {"surcharge": batch})
    yield Term(
        "total",
        prediction.total,
        "weights + kv_cache + graph",
        {
            "weights": Input(plan.weights, "weights"),
            "kv_cache": Input(plan.kv_total, "kv_cache.total"),
            "graph": Input(prediction.surcharge_bytes, "graph.full"),
        },
    )


def _on_device(layout: Layout, layer: int) -> bool:
    return any(held.layers is not None and layer in held.layers for held in layout.devices)


def _sum(name: str, values: tuple[int, ...] | list[int], origin: str) -> Term:
    return Term(name, sum(values), "sum(parts)", {"parts": Input(tuple(values), origin)})


class _Symbols:
    """Values and origins of the symbols of the formulas."""

    def __init__(self, h: Hyperparameters, effective: EffectiveSettings, w: Workload) -> None:
        self._h = h
        self._workload = w
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
        self._all: dict[str, tuple[Number, str]] = {
            "E": (h.embedding_length, key("E", "embedding length")),
            "V": (h.vocabulary, key("V", "vocabulary")),
            "FF": (h.feed_forward_length, key("FF", "feed-forward length")),
            "H": (h.heads, f"largest of {heads}"),
            "K": (h.kv_heads, f"largest of {kv_heads}"),
            "Kmin": (h.kv_heads_min, f"smallest of {kv_heads}"),
            "D": (h.head_length, smallest),
            "Dk": (h.key_length, key("Dk", "") + ("" if dk is not None else f": {smallest}")),
            "Dv": (h.value_length, key("Dv", "") + ("" if dv is not None else f": {smallest}")),
            "window": (h.sliding_window, key("window", "sliding window")),
            "conv": (h.ssm_conv_kernel, key("conv", "ssm.conv_kernel")),
            "inner": (h.ssm_inner_size, key("inner", "ssm.inner_size")),
            "state": (h.ssm_state_size, key("state", "ssm.state_size")),
            "groups": (h.ssm_group_count, key("groups", "ssm.group_count")),
            "B": (w.batch, batch),
            "b": (4 * w.batch, f"4 bytes × batch ({batch})"),
            "C": (w.cells, f"context ({context}) × parallel ({parallel})"),
            "Np": (w.parallel, parallel),
            "P": (
                w.bytes_per_element,
                f"bytes of an element of {quoted(w.kv_cache_type)}"
                f" ({origins.get('kv_cache_type', 'setting kv_cache_type')})",
            ),
        }

    def term(self, name: str, value: int, formula: str, block: int | None = None) -> Term:
        """Return a term of a formula in these symbols."""
        inputs = {symbol: self._input(symbol, block) for symbol in symbols_in(formula)}
        return Term(name, value, formula, inputs)

    def _input(self, symbol: str, block: int | None) -> Input:
        if symbol == "Ki" and block is not None:
            origin = self._h.origins.get("kv heads", "key and value head counts")
            return Input(self._h.kv_heads_per_block[block], f"{origin}, block {block}")
        if symbol in TENSOR_ORIGINS:
            tensors = self._h.tensors
            values = {
                "G": tensors.gate_experts_bytes,
                "W": tensors.expert_width,
                "S": tensors.fused_bias_length,
                "R": tensors.rope_weights,
            }
            return Input(values[symbol] or 0, TENSOR_ORIGINS[symbol])
        if symbol in ("KVdefault", "KVtotal"):
            return self._cache_sum(symbol)
        number, origin = self._all[symbol]
        return Input(number, origin)

    def _cache_sum(self, symbol: str) -> Input:
        cache = kv_cache(self._h, self._workload)
        if symbol == "KVtotal":
            return Input(cache.total, "kv_cache.total")
        return Input(cache.default_total, "cache of all blocks as if each kept the full context")
