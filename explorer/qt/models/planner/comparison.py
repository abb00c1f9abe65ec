"""Plans beside each other: scenarios of one model, or several models under the same settings.

Each row says its figure and how it differs from the first row, which is what is shown now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import QCoreApplication

from explorer.planner.inputs import Outcome
from explorer.planner.result import Plan
from explorer.present.explanations import comparison_texts
from explorer.present.plan import PLAN, plan_figure, plan_label, plan_value, verdict_of
from explorer.qt.models.planner.tables import number_column, text_column
from explorer.qt.models.table import Column
from explorer.text import bytes_text, integer_text, plain_text, shorten

_SHOWN_DEVICES = 3
_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Candidate:
    """One row.

    Attributes:
        name: What it is called.
        outcome: What becomes of it.
    """

    name: str
    outcome: Outcome


def _tr(text: str) -> str:
    return QCoreApplication.translate("PlannerComparison", text)


def comparison_columns(candidates: Sequence[Candidate]) -> list[Column]:
    """Return the columns of a comparison; the first row is what the others differ from."""
    plans = [candidate.outcome.plan for candidate in candidates]
    names = [shorten(plain_text(candidate.name), _LONGEST_NAME) for candidate in candidates]
    answers = [verdict_of(one.outcome).sentence for one in candidates]
    return [
        text_column("name", _tr("Name"), names, comparison_texts()["name"]),
        _text(plans, "context", _tr("Context"), _context),
        _text(plans, "kv_cache_type", _tr("KV type"), lambda plan: plan.effective.kv_cache_type),
        *(_figure(plans, name) for name in PLAN),
        _text(plans, "devices", _tr("GPUs"), _devices),
        _text(plans, "batch", _tr("Batch"), lambda plan: integer_text(plan.effective.batch)),
        _text(plans, "flash_attention", _tr("Flash attention"), _attention),
        _text(plans, "profile", _tr("Profile"), lambda plan: plan.profile),
        text_column("answer", _tr("Answer"), answers, comparison_texts()["answer"]),
    ]


def _figure(plans: Sequence[Plan | None], name: str) -> Column:
    """Return the column of a figure of the plans."""
    title = plan_label(name)
    key = "graph" if name == "graph_total" else name  # as exported tables call it
    if name == "gpu_layers":
        return _text(plans, key, title, lambda plan: plan_figure(plan, name).text)
    values = [None if plan is None else plan_value(plan, name) for plan in plans]
    first = values[0] if values else None

    def show(row: int) -> str:
        value = values[row]
        if value is None:
            return "–"
        if first is None or value == first:
            return bytes_text(value)
        sign = "+" if value > first else "\N{MINUS SIGN}"
        return f"{bytes_text(value)} ({sign}{bytes_text(abs(value - first))})"

    return replace(number_column(key, title, values, comparison_texts()[key]), text=show)


def _text(
    plans: Sequence[Plan | None], name: str, title: str, figure: Callable[[Plan], str]
) -> Column:
    """Return a column whose differing cells have a mark, which colour alone could not give."""
    values = ["–" if plan is None else plain_text(figure(plan)) for plan in plans]
    shown = [value if value == values[0] else f"≠ {value}" for value in values]
    plain = text_column(name, title, values, comparison_texts()[name])
    return replace(plain, text=shown.__getitem__)


def _context(plan: Plan) -> str:
    effective = plan.effective
    times = "" if effective.parallel == 1 else f" × {integer_text(effective.parallel)}"
    return f"{integer_text(effective.context)}{times}"


def _devices(plan: Plan) -> str:
    names = [device.name or device.key for device in plan.request.devices]
    counted = {name: names.count(name) for name in names}
    texts = [name if n == 1 else f"{n} × {name}" for name, n in counted.items()]
    if len(texts) > _SHOWN_DEVICES:
        return _tr("{n} GPUs").format(n=len(names))
    return ", ".join(texts) or _tr("none")


def _attention(plan: Plan) -> str:
    return _tr("on") if plan.effective.flash_attention else _tr("off")
