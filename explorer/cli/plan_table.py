"""Several plans beside each other: a table for people, the same in full as CSV for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from explorer.cli.output import table
from explorer.cli.plan_work import Answer
from explorer.planner.result import Plan
from explorer.present.plan import PLAN, plan_figures, verdict
from explorer.tabular import Cell
from explorer.text import integer_text, plain_text

_HEAD: Final = (
    *("Model", "Profile", "Context", "KV cache type"),
    *PLAN.values(),
    "Result",
)
_NUMBERS: Final = range(4, 4 + len(PLAN))
_LONGEST_NAME: Final = 60

CSV_HEADER: Final = (
    *("model", "profile", "architecture", "context", "parallel", "batch", "kv_cache_type"),
    *("flash_attention", "weights", "kv_cache", "graph", "gpu_layers", "total_layers"),
    *("fully_offloaded", "gpu_ratio", "quick_estimate_ratio", "vram_total", "cpu_total", "total"),
    *("solved_what", "solved_value", "solved_limited_by", "error"),
)


def plans_table(answers: Sequence[Answer]) -> str:
    """Return a line for each plan, and for each warning."""
    plans = [(answer.path, answer.plan) for answer in answers if answer.plan is not None]
    rows = [_row(path, plan) for path, plan in plans]
    text = table([_HEAD, *rows], right=(2, *_NUMBERS), indent="") if rows else ""
    warnings = dict.fromkeys(
        f"{_name(path)}: {plain_text(warning)}\n"
        for path, plan in plans
        for warning in plan.warnings
    )
    return text + ("\n" + "".join(warnings) if warnings else "")


def _row(path: str, plan: Plan) -> Sequence[str]:
    effective = plan.effective
    sequences = f" × {integer_text(effective.parallel)}" if effective.parallel > 1 else ""
    return (
        _name(path),
        plan.profile,
        f"{integer_text(effective.context)}{sequences}",
        plain_text(effective.kv_cache_type),
        *(figure.text for figure in plan_figures(plan)),
        verdict(plan).level.value,
    )


def _name(path: str) -> str:
    """Return the end of a path, which tells models apart."""
    text = plain_text(path)
    return text if len(text) <= _LONGEST_NAME else "…" + text[1 - _LONGEST_NAME :]


def _graph_bytes(plan: Plan) -> int:
    """Return the bytes of the compute graph on each GPU that has one."""
    if plan.layout is not None:
        layout = plan.layout
        return layout.full if layout.fully_offloaded else layout.partial
    return 0 if plan.prediction is None else plan.prediction.surcharge_bytes


def csv_rows(answers: Sequence[Answer]) -> Iterator[Sequence[Cell]]:
    """Yield a row for each answer under `CSV_HEADER`; what a profile does not claim is empty."""
    for answer in answers:
        if answer.plan is None:
            unknown = (None,) * (len(CSV_HEADER) - 3)
            yield (answer.path, answer.profile, *unknown, answer.failure)
        else:
            yield (answer.path, answer.profile, *_figures(answer.plan), *_solved(answer), None)


def _figures(plan: Plan) -> Sequence[Cell]:
    effective, layout = plan.effective, plan.layout
    return (
        plan.request.h.architecture,
        effective.context,
        effective.parallel,
        effective.batch if layout is None else layout.batch,
        effective.kv_cache_type,
        effective.flash_attention,
        plan.weights,
        plan.kv_total,
        _graph_bytes(plan),
        plan.gpu_layers,
        plan.request.h.total_layers,
        plan.fully_offloaded,
        plan.gpu_ratio,
        plan.quick_estimate_ratio,
        plan.vram_total,
        None if layout is None else layout.cpu_weights + layout.cpu_kv_cache,
        plan.total,
    )


def _solved(answer: Answer) -> Sequence[Cell]:
    advice = answer.advice
    return (None,) * 3 if advice is None else (advice.what, advice.value, advice.limited_by)
