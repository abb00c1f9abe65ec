"""A log of vLLM beside its plan: weights and peak of each GPU, and what it makes of its cache.

The plan is made with the settings that the log tells. How many tokens a cache holds is compared by
the bytes that the log gives for it, so that this is exact though the peak is a range.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from explorer.errors import PlanError
from explorer.planner.devices import MAX_DEVICES, Device
from explorer.planner.engines.vllm import budget
from explorer.planner.engines.vllm.engine import VLLM
from explorer.planner.logs.comparison import ALL, Comparison, Residual
from explorer.planner.logs.lines import (
    ACTIVATION,
    AVAILABLE,
    BLOCK,
    BLOCKS,
    GRAPHS,
    GRAPHS_ESTIMATE,
    NON_TORCH,
    PROFILE,
    REQUESTS,
    TOKENS,
    WEIGHTS,
    LoggedBuffer,
    Measured,
)
from explorer.planner.plans import Plan, Range
from explorer.planner.request import PlanRequest
from explorer.planner.settings import Settings

_KINDS: Final = (WEIGHTS, ACTIVATION, NON_TORCH, GRAPHS, GRAPHS_ESTIMATE, PROFILE, AVAILABLE)
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_HUNDREDTH: Final = 0.005  # how far a number of requests is rounded


def compare_vllm(asked: PlanRequest, measured: Measured) -> Comparison:
    """Return vLLM's plan for a log's settings beside what the log measured.

    Args:
        asked: The model, and the GPUs to plan for where the log does not tell their memory.
        measured: A load of vLLM.

    Raises:
        PlanError: vLLM does not load such files, or would refuse these settings.
    """
    if refusal := VLLM.refusal(asked.h):
        raise PlanError(f"the log is vLLM's, and this model has no plan of vLLM: {refusal}")
    settings = Settings(**measured.settings)
    copies, stages = settings.tensor_parallel or 1, settings.pipeline_parallel or 1
    devices = _devices(measured, asked.devices, copies * stages)
    assumed: tuple[str, ...] = () if "utilization" in measured.settings else ("utilization",)
    if all(device.total is None for device in devices):
        assumed += ("gpu",)
    elif not any(device.total for device in measured.devices):
        assumed += ("gpu_memory",)
    request = replace(asked, settings=settings, devices=devices)
    held = _held(measured, copies)
    rows = tuple(_rows(request, measured, held))
    return Comparison(measured, settings, rows, assumed=assumed)


def _devices(measured: Measured, machine: tuple[Device, ...], count: int) -> tuple[Device, ...]:
    """Return the GPUs of the log: with its memory, else those of the machine, else unknown ones."""
    if count > MAX_DEVICES:
        raise PlanError(f"the log is of {count} GPUs, and at most {MAX_DEVICES} can be planned for")
    cards = [device for device in machine if device.library == "CUDA"]
    like = cards[0] if cards else Device("0", "CUDA", 0)
    total = min((one.total for one in measured.devices if one.total), default=like.total)
    if total is None:
        return tuple(replace(like, id=str(i), free=0) for i in range(count))
    return tuple(replace(like, id=str(i), free=total, total=total) for i in range(count))


Held = Mapping[int, Mapping[str, LoggedBuffer]]


def _held(measured: Measured, copies: int) -> Held:
    """Return what each GPU of the plan held, by kind."""
    found: dict[int, dict[str, LoggedBuffer]] = {}
    names = sorted({one.device for one in measured.buffers}, key=_ranks)
    for place, name in enumerate(names):
        ranks = _ranks(name)
        number = place
        if "TP" in name:
            number = ranks[-1] + copies * (ranks[0] if len(ranks) > 1 else 0)
        found[number] = {one.kind: one for one in measured.buffers if one.device == name}
    return found


def _ranks(name: str) -> tuple[int, ...]:
    return tuple(map(int, _NUMBER.findall(name)))


def _rows(request: PlanRequest, measured: Measured, held: Held) -> Iterator[Residual]:
    plan = VLLM.plan(request)
    figures = plan.details.record()["vllm"]
    parts = budget.parts(len(request.devices), eager=bool(request.settings.enforce_eager))
    activation = Range(*figures["activation"])
    known: dict[str, Range] = {
        ACTIVATION: activation,
        NON_TORCH: parts[budget.NON_TORCH],
        GRAPHS: parts[budget.GRAPHS],
        GRAPHS_ESTIMATE: parts[budget.GRAPHS],
    }
    has_memory = bool(request.devices[0].total) or request.settings.kv_cache_memory is not None
    if has_memory:
        known[AVAILABLE] = Range(*figures["kv"]["available"])
        known[PROFILE] = Range(*map(sum, zip(activation, figures["other"], strict=True)))
    for number, buffers in sorted(held.items()):
        if number >= len(request.devices):
            raise PlanError("the log is of more GPUs than it says that vLLM was started on")
        planned = known | {WEIGHTS: Range.exactly(figures["weights_per_gpu"][number])}
        measures = {kind: (one.nbytes, one.within) for kind, one in buffers.items()}
        rest = _rest(plan, number, measures) if has_memory else None
        if rest is not None:
            measures[PROFILE] = rest
        for kind in _KINDS:
            if kind in measures:
                ends = planned.get(kind)
                yield _row(f"GPU{number}", kind, ends, *measures[kind])
    yield from _counts(request, measured, held, figures["kv"])


def _row(device: str, kind: str, ends: Range | None, nbytes: int, within: int) -> Residual:
    low, high = (None, None) if ends is None else ends
    return Residual(device, kind, high, nbytes, within, None if low == high else low)


def _rest(
    plan: Plan, number: int, measures: Mapping[str, tuple[int, int]]
) -> tuple[int, int] | None:
    """Return the part of the budget left beside weights and cache; None if a line lists it."""
    if ACTIVATION in measures or not {WEIGHTS, AVAILABLE} <= measures.keys():
        return None
    if plan.request.settings.kv_cache_memory is not None:
        return None
    device = plan.request.devices[number]
    sizes = [measures[kind] for kind in (WEIGHTS, AVAILABLE)]
    wanted = budget.requested(device, plan.used("utilization"))
    return wanted - sum(size for size, _ in sizes), sum(within for _, within in sizes)


def _counts(
    request: PlanRequest, measured: Measured, held: Held, figures: Mapping[str, Any]
) -> Iterator[Residual]:
    """Yield what vLLM makes of the cache, by the bytes that the log gives it."""
    caches = [buffers[AVAILABLE] for buffers in held.values() if AVAILABLE in buffers]
    both = [figures]
    if caches:
        least = min(caches, key=lambda one: one.nbytes)
        sizes = (least.nbytes - least.within, least.nbytes + least.within)
        given = [request.asking(kv_cache_memory=max(0, size)) for size in sizes]
        both = [VLLM.plan(one).details.record()["vllm"]["kv"] for one in given]
    names = {TOKENS: "tokens", BLOCKS: "blocks", REQUESTS: "concurrency", BLOCK: "block_tokens"}
    for kind, name in names.items():
        if kind in measured.counts:
            number = measured.counts[kind]
            ends = [end for one in both for end in _ends(one[name])]
            low = None if min(ends) == max(ends) else min(ends)
            within = _HUNDREDTH if kind == REQUESTS else 0
            amount = number if kind == REQUESTS else int(number)
            yield Residual(ALL, kind, max(ends), amount, within, low)


def _ends(figure: Any) -> list[Any]:
    return figure if isinstance(figure, list) else [figure]
