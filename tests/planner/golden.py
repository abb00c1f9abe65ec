"""Golden cases: read them, make models and GPUs of them, and say where a result differs.

The whole file (planner_golden.json, 2,800 cases made by running Ollama's own code) lies beside the
repository. A part of it is in tests/data/planner, so that every promise is tested everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from explorer.errors import PlanError
from explorer.planner import Device, Host, Hyperparameters, Settings, effective_settings, graph_size
from explorer.planner import environment as env
from explorer.planner.engines.ollama_013.layout import Layout, lay_out
from explorer.planner.engines.ollama_013.sizes import Workload
from tests.planner.models import header_of

SUBSET = Path(__file__).parents[1] / "data" / "planner" / "golden_subset.json"

Case = Mapping[str, Any]


class Golden:
    """Cases, and the models that they are about."""

    def __init__(self, path: Path) -> None:
        self.content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        self._models: dict[str, Hyperparameters] = {}

    def model(self, name: str) -> Hyperparameters:
        """Return a model, made once."""
        if name not in self._models:
            described = self.content["models"][name]
            metadata = {
                key: range(value["count"]) if isinstance(value, dict) else value
                for key, value in described["metadata"].items()
            }
            parts = header_of(metadata, described["tensors"], described["title"])
            self._models[name] = parts
        return self._models[name]

    def cases(self, kind: str) -> list[Case]:
        """Return the cases of a kind."""
        found: list[Case] = self.content[kind]
        return found

    def differences(self, kind: str) -> Iterator[str]:
        """Yield each figure that differs: case, figure, what was found and what is expected."""
        compute: Callable[[Hyperparameters, Case], dict[str, Any]] = _KINDS[kind]
        for case in self.cases(kind):
            expected = case.get("expected") or case["expected_safe"]
            got = compute(self.model(case["model"]), case)
            for figure in sorted({*expected, *got}):
                if got.get(figure) != expected.get(figure):
                    found, wanted = got.get(figure), expected.get(figure)
                    yield f"{case['id']} {case['model']} {figure}: {found}, expected {wanted}"


def runs(values: Sequence[int]) -> list[list[int]]:
    """Return [count, value] for each run of equal values."""
    return [[len(list(group)), value] for value, group in groupby(values)]


def devices_of(case: Case) -> list[Device]:
    """Return the GPUs of a case."""
    return [
        Device(
            gpu["id"],
            gpu["library"],
            gpu["free"],
            gpu["integrated"],
            driver_major=gpu.get("driver_major"),
            compute=(gpu["compute_major"], gpu["compute_minor"])
            if "compute_major" in gpu
            else None,
        )
        for gpu in case["gpus"]
    ]


def workload_of(case: Case) -> Workload:
    """Return the effective settings of a case."""
    return Workload(
        case["num_ctx"], case["parallel"], case["batch"], case["kv_type"], case["flash_attention"]
    )


def layout_of(h: Hyperparameters, case: Case) -> Layout:
    """Lay the model of a case out."""
    return lay_out(
        h,
        workload_of(case),
        devices_of(case),
        host=Host(case["system_free"], case["system_swap"]),
        num_gpu=case["num_gpu"],
        require_full=case["require_full"],
        overhead=env.integer(case["env"], env.GPU_OVERHEAD) or 0,
        spread=bool(env.boolean(case["env"], env.SCHED_SPREAD)),
    )


def _graph(h: Hyperparameters, case: Case) -> dict[str, Any]:
    g = graph_size(
        h,
        context=case["num_ctx"],
        parallel=case["parallel"],
        batch=case["batch"],
        kv_cache_type=case["kv_type"],
        flash_attention=case["flash_attention"],
    )
    return {
        "kv_runs": runs(g.kv_per_layer),
        "kv_total": g.kv_total,
        "partial": g.partial,
        "full": g.full,
        "partial_resolved": g.partial_resolved,
        "full_resolved": g.full_resolved,
    }


def _settings(h: Hyperparameters, case: Case) -> dict[str, Any]:
    """Return what the loader makes of the request; its cases begin behind the server's rules."""
    asked = Settings(context=case["num_ctx"], batch=case["batch"], parallel=case["parallel"])
    e = effective_settings(h, asked, devices_of(case), case["env"])
    expected_type = case["expected"]["kv_type"]  # "" means the default, which is f16
    return {
        "num_ctx": e.context,
        "batch": e.batch,
        "kv_size": e.context * e.parallel,
        "kv_type": expected_type
        if expected_type == "" and e.kv_cache_type == "f16"
        else e.kv_cache_type,
        "flash_attention": e.flash_attention,
    }


def _layout(h: Hyperparameters, case: Case) -> dict[str, Any]:
    try:
        layout = layout_of(h, case)
    except PlanError as error:
        return {"error": (error.reason or str(error)).replace(" ", "_")}
    assert layout.buffer == case["buffer"], case["id"]
    return {
        "cpu_kv": layout.cpu_kv_cache,
        "cpu_weights": layout.cpu_weights,
        "effective_batch": layout.batch,
        "full": layout.full,
        "partial": layout.partial,
        "graph_selected": layout.graph_used,
        "graph_used_while_fitting": max(layout.partial, layout.full),
        "layers_on_gpu": layout.placed,
        "total_layers": layout.total_layers,
        "total_size": layout.total,
        "vram_size": layout.vram_total,
        "gpus": [
            {
                "id": held.device.id,
                "library": held.device.library,
                "layers": [[held.layers[0], held.layers[-1]]] if held.layers else [],
                "layer_count": len(held.layers or ()),
                "weights": held.weights,
                "kv": held.kv_cache,
                "graph": held.graph,
                "size": held.total,
                "listed": held.listed,
            }
            for held in layout.devices
        ],
    }


_KINDS = {
    "graph_cases": _graph,
    "settings_cases": _settings,
    "layout_cases": _layout,
    "quirk_cases": _layout,
}
