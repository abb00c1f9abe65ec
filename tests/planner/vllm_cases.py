"""The golden cases of vLLM: a part of them that lies here, and all where ../shared is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from explorer.formats.tensors import Spec
from explorer.planner.engines.vllm.cache import Run
from explorer.planner.folder import Folder
from explorer.quantization import TENSOR_TYPES
from tests.planner.models import DATA, packed

Case = dict[str, Any]

_BYTES = {
    **{"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2},
    **{"F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1},
}


@cache
def golden() -> dict[str, Any]:
    """Return the cases that lie here."""
    return packed(DATA / "vllm.json.gz")


def cases(*, built: bool) -> list[Case]:
    """Return the cases whose models vLLM builds, or those that it refuses."""
    return [case for case in golden()["cases"] if ("bytes_per_block" in case) is built]


def name_of(case: Case) -> str:
    """Return what distinguishes a case."""
    return "-".join(str(value) for value in case["job"].values() if not isinstance(value, list))


def key_of(case: Case) -> str:
    return f"{case['job']['model']}|{case['job']['quant']}"


@cache
def folder_of(key: str) -> Folder:
    """Return the headers of a model."""
    names, specs = [], []
    for name, shape, kind in _tensors(key):
        size = _BYTES[kind]
        for length in shape:
            size *= length
        names.append(name)
        specs.append(Spec(TENSOR_TYPES[kind], tuple(shape), 0, size))
    return Folder(golden()["configs"][key], names, specs)


def _tensors(key: str) -> Iterator[tuple[str, list[int], str]]:
    for pattern, shape, kind, layers, experts in golden()["files"][key]:
        for layer in layers or [0]:
            placed = pattern.replace("*", str(layer), 1)
            for expert in range(experts or 1):
                yield placed.replace("*", str(expert), 1), shape, kind


def run_of(case: Case, gpus: dict[str, Any]) -> Run:
    """Return what a case starts vLLM with."""
    job, arguments = case["job"], case["job"].get("args", {})
    return Run(
        tensor_parallel=job["tp"],
        pipeline_parallel=job["pp"],
        cache_type=job["kv"],
        compute=tuple(gpus[job["gpu"]][0]),
        batched_tokens=case.get("resolved", {}).get("max_num_batched_tokens", 2048),
        block_size=job.get("block_size"),
        prefix_caching=arguments.get("enable_prefix_caching", True),
        async_scheduling=arguments.get("async_scheduling", True),
        hybrid=not arguments.get("disable_hybrid_kv_cache_manager", False),
    )


def differences(case: Case, folder: Folder, run: Run) -> list[str]:
    """Return which figures of a case's cache are not vLLM's."""
    from explorer.planner.engines.vllm.cache import plan_cache

    made, found = plan_cache(folder, run), []
    figures = [
        ("bytes per block", list(made.bytes_per_block), case["bytes_per_block"]),
        ("block", made.block, case["block_size_config"]),
        ("in flight", made.in_flight, case["resolved"]["max_in_flight_tokens"]),
    ]
    for plan in case["plans"]:
        length, available = plan["max_model_len"], [plan["available"]] * run.pipeline_parallel
        figures += [
            ("need", list(made.needed(length)), plan["need_one"]),
            ("starts", made.starts(length, available), "refused" not in plan),
            ("largest", made.largest_context(length, available), plan["estimate"]),
        ]
        if "num_blocks" in plan:
            figures += [
                ("blocks", made.blocks(available), plan["num_blocks"]),
                ("tokens", made.tokens(length, available), plan["tokens"]),
                ("concurrency", made.concurrency(length, available), plan["concurrency"]),
            ]
    found += [f"{what}: {mine}, not {theirs}" for what, mine, theirs in figures if mine != theirs]
    return found
