"""Whether the model fits: memory by machine and context, as the planner works it out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from explorer.planner.layout import Layout
from explorer.planner.result import Plan
from explorer.present.plan import (
    PLAN,
    Level,
    cpu_layers,
    layers_text,
    part_label,
    plan_figures,
    plan_label,
    verdict,
)
from explorer.report.components import cut, details, figure, paragraph, section, table
from explorer.report.elements import Element, element
from explorer.report.gathering import Evidence, PlannedCase
from explorer.report.pictures.bars import Bar, Part, draw_bars
from explorer.report.pictures.drawing import legend
from explorer.report.pictures.palette import SERIES
from explorer.report.privacy import without_paths
from explorer.text import bytes_text, integer_text

_WEIGHTS, _CACHE, _GRAPH, _PROJECTOR = SERIES[0], SERIES[2], SERIES[1], SERIES[3]
_CPU: Final = "#999999"
_LEGEND: Final = (
    (part_label("weights"), _WEIGHTS),
    (part_label("kv_cache"), _CACHE),
    (plan_label("graph_total"), _GRAPH),
    (part_label("projector"), _PROJECTOR),
    (plan_label("cpu_total"), _CPU),
)


_MARKS: Final = {
    Level.FITS: ("✔", "good"),
    Level.PARTLY: ("⚠", "warn"),
    Level.NOT: ("✘", "bad"),
}


def plans(evidence: Evidence) -> Element:
    """Return the plans of each machine."""
    parts: list[Element] = [
        paragraph(
            "Memory by the arithmetic of Ollama 0.13.3, for one sequence, with its default "
            "settings. The dashed mark is the memory that is free on the GPUs; Ollama holds some "
            "of it back."
        )
    ]
    if not evidence.plans:
        parts.append(paragraph("Nothing was planned."))
    else:
        parts.append(legend(list(_LEGEND)))
    for name, cases in groupby(evidence.plans, lambda case: case.target.name):
        parts += _machine(name, list(cases))
    notes = _notes([case.plan for case in evidence.plans if case.plan is not None])
    if notes:
        lines = [element("li", without_paths(cut(note, 600))) for note in notes]
        parts.append(details("Notes of the planner", element("ul", *lines)))
    return section("plan", "Memory plan", *parts)


def _machine(name: str, cases: Sequence[PlannedCase]) -> Iterator[Element]:
    yield element("h3", cut(name))
    free = sum(device.free for device in cases[0].target.devices)
    bars = [
        _bar(case.context, case.plan.layout, free)
        for case in cases
        if case.plan is not None and case.plan.layout is not None
    ]
    head = ("Context", "Fits", *PLAN.values(), "Layers", "Settings")
    rows = [_row(case) for case in cases]
    data = table(head, rows, numbers=(0, *range(2, 2 + len(PLAN))))
    if bars:
        caption = f"Memory by context; {bytes_text(free)} free on the GPUs."
        yield figure(draw_bars(f"Memory on {cut(name)}", bars), caption, data)
    else:
        yield data


def _bar(context: int, layout: Layout, free: int) -> Bar:
    held = layout.devices
    amounts = (
        sum(one.weights for one in held),
        sum(one.kv_cache for one in held),
        sum(one.graph for one in held),
        sum(one.projector for one in held),
        layout.cpu_weights + layout.cpu_kv_cache,
    )
    parts = [
        Part(name, amount, bytes_text(amount), colour)
        for (name, colour), amount in zip(_LEGEND, amounts, strict=True)
    ]
    return Bar(f"{integer_text(context)} tokens", parts, bytes_text(layout.total), limit=free)


def _row(case: PlannedCase) -> tuple[Element | str, ...]:
    made = case.plan
    context = integer_text(case.context)
    if made is None or made.layout is None:
        return (context, _fits(case), *([""] * (len(PLAN) + 2)))
    return (
        context,
        _fits(case),
        *(figure.text for figure in plan_figures(made)),
        _placement(made.layout),
        _settings(made),
    )


def _fits(case: PlannedCase) -> Element:
    found = verdict(case.plan, without_paths(cut(case.failure, 300)))
    mark, kind = _MARKS[found.level]
    return element("span", f"{mark} {found.sentence}", class_=kind)


def _placement(layout: Layout) -> str:
    """Return which layers each GPU has, and which stay on the CPU."""
    places = [
        f"{cut(held.device.label)}, {layers_text(held.layers or ())}" for held in layout.devices
    ]
    left = cpu_layers(layout)
    return "; ".join([*places, f"CPU, {layers_text(left)}"] if left else places)


def _settings(made: Plan) -> str:
    effective = made.effective
    attention = "on" if effective.flash_attention else "off"
    cache = cut(effective.kv_cache_type, 20)
    return (
        f"context {integer_text(effective.context)}, KV cache {cache}, flash attention {attention}"
    )


def _notes(made: Sequence[Plan]) -> list[str]:
    """Return warnings, settings that are not as asked for, and what holds for every plan."""
    found: dict[str, None] = {}
    for plan in made:
        found |= dict.fromkeys(plan.warnings)
        for one in plan.effective.differences:
            what = f"{one.name} is {one.effective} in place of {one.requested}: {one.reason}"
            found[what] = None
    for note in made[0].notes if made else ():
        if all(note in plan.notes for plan in made):
            found[note] = None
    return list(found)
