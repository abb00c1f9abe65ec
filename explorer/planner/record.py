"""A plan as the JSON object of docs/interface.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from explorer.planner import settings as env
from explorer.planner.layout import DeviceLayout, Layout
from explorer.planner.result import Plan, Term
from explorer.planner.sizes import GraphSize

if TYPE_CHECKING:
    from explorer.planner.advice import Advice


def plan_record(plan: Plan, solved: Advice | None = None) -> dict[str, Any]:
    """Return all that `plan --json` prints.

    What a profile does not claim is null: ``ollama-0.30`` predicts no layer split.

    Args:
        plan: The plan.
        solved: The answer to the question asked, or None if none was asked.
    """
    h, layout, effective = plan.request.h, plan.layout, plan.effective
    return {
        "model": h.name,
        "architecture": h.architecture,
        "profile": plan.profile,
        "requested": plan.request.settings.record(),
        "effective": {
            "context": effective.context,
            "parallel": effective.parallel,
            "batch": effective.batch if layout is None else layout.batch,
            "kv_cache_type": effective.kv_cache_type,
            "flash_attention": effective.flash_attention,
        },
        "weights": plan.weights,
        "kv_cache": {"total": plan.kv_total, "per_layer": _per_layer(plan.sizes)},
        "graph": _graph(plan),
        "layers": [] if layout is None else _layers(layout),
        "devices": _devices(plan),
        "cpu": _cpu(layout),
        "gpu_layers": plan.gpu_layers,
        "total_layers": h.total_layers,
        "fully_offloaded": plan.fully_offloaded,
        "gpu_ratio": plan.gpu_ratio,
        "quick_estimate_ratio": plan.quick_estimate_ratio,
        "vram_total": plan.vram_total,
        "total": plan.total,
        "solved": None if solved is None else solved.record(),
        "terms": [_term(term) for term in plan.terms],
        "notes": list(plan.notes),
        "warnings": list(plan.warnings),
        "environment": env.used(plan.request.environment),
    }


def _per_layer(sizes: GraphSize | None) -> list[int]:
    return [] if sizes is None else list(sizes.kv_per_layer)


def _graph(plan: Plan) -> dict[str, Any]:
    """Return the graphs; ``"none"`` is used where no GPU is charged with one."""
    layout = plan.layout
    if layout is None:
        assert plan.prediction is not None  # a plan has one or the other
        return {"partial": None, "full": plan.prediction.surcharge_bytes, "used": "full"}
    charged = any(device.listed for device in layout.devices)
    return {
        "partial": layout.partial,
        "full": layout.full,
        "used": layout.graph_used if charged else "none",
    }


def _layers(layout: Layout) -> list[dict[str, Any]]:
    owners: dict[int, int] = {}
    for position, device in enumerate(layout.devices):
        owners.update(dict.fromkeys(device.layers or (), position))
    last = layout.total_layers - 1
    return [
        {
            "index": i,
            "name": "output" if i == last else f"blk.{i}",
            "weights": layout.layer_weights[i],
            "kv_cache": layout.layer_kv_cache[i],
            "device": owners.get(i, "cpu"),
        }
        for i in range(layout.total_layers)
    ]


def _devices(plan: Plan) -> list[dict[str, Any]]:
    if plan.layout is not None:
        return [_device(device) for device in plan.layout.devices]
    claimed = ("weights", "kv_cache", "graph", "reserved", "total")
    return [
        {"name": device.name or device.key, "library": device.library, "free": device.free}
        | {"layers": None}
        | dict.fromkeys(claimed)
        for device in plan.request.devices
    ]


def _device(held: DeviceLayout) -> dict[str, Any]:
    layers = held.layers
    return {
        "id": held.device.id,
        "name": held.device.name or held.device.key,
        "library": held.device.library,
        "free": held.device.free,
        "layers": None if layers is None else [layers[0], layers[-1]],
        "weights": held.weights,
        "kv_cache": held.kv_cache,
        "graph": held.graph,
        "projector": held.projector,
        "reserved": held.reserved,
        "total": held.total,
        "listed": held.listed,
    }


def _cpu(layout: Layout | None) -> dict[str, Any]:
    if layout is None:
        return {"layers": None, "weights": None, "kv_cache": None}
    return {
        "layers": layout.total_layers - layout.placed,
        "weights": layout.cpu_weights,
        "kv_cache": layout.cpu_kv_cache,
    }


def _term(term: Term) -> dict[str, Any]:
    """Return a term; a ratio has no bytes but a value."""
    return {
        "name": term.name,
        "bytes": term.value if isinstance(term.value, int) else None,
        "value": term.value,
        "formula": term.formula,
        "inputs": {
            symbol: {
                "value": list(given.value) if isinstance(given.value, tuple) else given.value,
                "from": given.origin,
            }
            for symbol, given in term.inputs.items()
        },
    }
