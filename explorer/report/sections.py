"""What is wrong with the model: in its header, and in weights that could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from explorer.analysis.recipes import CURRENT, RULES_SOURCE, MixRow, RecipeFit, deviation_text
from explorer.analysis.recipes.fits import percent_text
from explorer.errors import ExplorerError
from explorer.formats.model import MetadataEntry, Model, Severity
from explorer.planner.layout import Layout
from explorer.planner.result import Plan
from explorer.present.model import model_facts, type_text, value_text
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
from explorer.report.gather import Evidence, PlannedCase
from explorer.report.html import Element, cut, details, element, figure, paragraph, section, table
from explorer.report.privacy import message, without_paths
from explorer.report.svg import OTHER, SERIES, Bar, Part, colours_of, draw_bars, legend
from explorer.text import bytes_text, count_text, float_text, integer_text

_LONGEST: Final = 500


def checks(evidence: Evidence) -> Element:
    """Return the problems, or that there are none."""
    problems = evidence.model.problems
    failed = [one for one in evidence.tensors if one.failure]
    parts: list[Element] = []
    if problems:
        rows = [
            (
                _grave(one.severity),
                without_paths(cut(one.where)),
                without_paths(cut(one.what, _LONGEST)),
            )
            for one in problems
        ]
        parts.append(table(("severity", "where", "what"), rows, names=(1,)))
    else:
        parts.append(paragraph("The header keeps every rule of its format that is checked."))
    if failed:
        count = integer_text(len(failed))
        parts.append(paragraph(f"Weights of {count} tensors cannot be told:"))
        unread = ((cut(one.name), cut(one.failure, _LONGEST)) for one in failed)
        parts.append(table(("tensor", "why"), unread, total=len(failed), names=(0,)))
    elif evidence.measured is not None:
        parts.append(paragraph("Every weight of every tensor could be read."))
    else:
        parts.append(paragraph("The weights were not read for this report.", "faint"))
    return section("checks", "Checks", *parts)


def _grave(severity: Severity) -> Element:
    if severity is Severity.ERROR:
        return element("span", "✗ error", class_="bad")
    return element("span", "⚠ warning", class_="warn")


# Every key with its value; long arrays by their first elements, the chat template as text.


_LONGEST_VALUE: Final = 400
_LONGEST_TEMPLATE: Final = 60_000
_TEMPLATES: Final = ("tokenizer.chat_template",)
_MAX_TEMPLATES: Final = 4


def metadata(evidence: Evidence) -> Element:
    """Return the table of metadata, and the chat templates."""
    model = evidence.model
    entries = model.metadata.entries
    rows = (
        (cut(entry.key), cut(type_text(entry)), without_paths(_value(model, entry)))
        for entry in entries
    )
    templates = [entry for entry in entries if entry.key.startswith(_TEMPLATES)]
    return section(
        "metadata",
        "Metadata",
        details(
            f"{integer_text(len(entries))} keys",
            table(("key", "type", "value"), rows, total=len(entries), names=(0,)),
        ),
        *(_template(entry) for entry in templates[:_MAX_TEMPLATES]),
    )


def _value(model: Model, entry: MetadataEntry) -> str:
    if entry.key.startswith(_TEMPLATES) and entry.length is None:
        return "shown below"
    try:
        return value_text(entry, _LONGEST_VALUE, model)
    except ExplorerError as error:
        return f"(cannot be shown: {message(error)})"


def _template(entry: MetadataEntry) -> Element | None:
    """Return a chat template: it is a program, shown as plain text and run by nobody."""
    try:
        text = entry.value
    except ExplorerError as error:
        return element("p", f"{cut(entry.key)} cannot be shown: {message(error)}")
    if not isinstance(text, str):
        return None
    shown = text[:_LONGEST_TEMPLATE]
    if len(shown) < len(text):
        shown += f"\n… (cut, {integer_text(len(text))} characters)"
    return details(f"Chat template ({cut(entry.key, 60)})", element("pre", shown))


# What the model is, at a glance.


_SHOWN_FILES = 50


def overview(evidence: Evidence) -> Element:
    """Return the facts, and the sentences that one would look for first."""
    facts = [
        element("div", element("dt", one.label), element("dd", without_paths(cut(one.text))))
        for one in model_facts(evidence.model, evidence.facts)
    ]
    return section(
        "overview",
        "Overview",
        element("dl", *facts, class_="facts"),
        paragraph(evidence.recipe_verdict, "verdict"),
        _problems_line(evidence),
        _files(evidence),
    )


def _problems_line(evidence: Evidence) -> Element:
    count = len(evidence.model.problems)
    if not count:
        return element("p", element("strong", "✓ No problems"), " were found in its header.")
    noun = "problem was" if count == 1 else "problems were"
    link = element("a", "see the checks", href="#checks")
    return element(
        "p",
        element("strong", f"⚠ {integer_text(count)} {noun} found", class_="warn"),
        "; ",
        link,
        ".",
    )


def _files(evidence: Evidence) -> Element | None:
    files = evidence.model.files
    if not files:
        return None
    names = [f"{cut(f.path.name)} ({bytes_text(f.source.size)})" for f in files[:_SHOWN_FILES]]
    left = len(files) - len(names)
    more = f", and {integer_text(left)} more" if left else ""
    noun = "File" if len(files) == 1 else "Files"
    return paragraph(f"{noun}: {', '.join(names)}{more}.", "faint")


# Whether the model fits: memory by machine and context, as the planner works it out.


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
        _memory_bar(case.context, case.plan.layout, free)
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


def _memory_bar(context: int, layout: Layout, free: int) -> Bar:
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


# What is stored as which type, and which recipe that is.


_SHOWN_ROLES: Final = 24
_OTHERS: Final = "other types"
_SHOWN_FITS: Final = 10
_SHOWN_DEVIATIONS: Final = 20


def types(evidence: Evidence) -> Element:
    """Return the type mix by role, and how the recipes agree with it."""
    return section(
        "types", "Tensor types", _mix(evidence), element("h3", "Recipe"), *_recipes(evidence)
    )


def _mix(evidence: Evidence) -> Element:
    totals = evidence.model.tensors.totals_by_type
    colours = colours_of(list(totals)[: len(SERIES)])
    by_type = [(name, total.nbytes) for name, total in totals.items()]
    whole = Bar("whole model", _parts(by_type, colours), bytes_text(evidence.model.nbytes))
    roles = [(role, list(rows)) for role, rows in groupby(evidence.mix, lambda row: row.role)]
    bars = [_type_bar(role, rows, colours) for role, rows in roles[:_SHOWN_ROLES]]
    left = len(roles) - len(bars)
    more = f" {integer_text(left)} smaller roles are in the table only." if left > 0 else ""
    rows = (
        (
            cut(row.role),
            cut(row.type),
            integer_text(row.tensors),
            count_text(row.parameters),
            bytes_text(row.nbytes),
            float_text(row.bits_per_weight, 4),
        )
        for row in evidence.mix
    )
    head = ("role", "type", "tensors", "parameters", "bytes", "bits per weight")
    data = table(head, rows, total=len(evidence.mix), numbers=(2, 3, 4, 5), names=(0,))
    entries = [(cut(name, 40), colour) for name, colour in colours.items()]
    if len(totals) > len(colours):
        entries.append((_OTHERS, OTHER))
    return element(
        "div",
        legend(entries),
        figure(draw_bars("Bytes by type", [whole]), "Bytes of the whole model by type."),
        figure(
            draw_bars("Bytes by role and type", bars),
            f"Bytes of each role by type.{more}",
            details("Data of both pictures", data),
        ),
    )


def _type_bar(role: str, rows: Sequence[MixRow], colours: Mapping[str, str]) -> Bar:
    nbytes, weights = sum(row.nbytes for row in rows), sum(row.parameters for row in rows)
    bits = f", {float_text(8 * nbytes / weights, 3)} bits" if weights else ""
    parts = _parts([(row.type, row.nbytes) for row in rows], colours)
    return Bar(cut(role, 60), parts, f"{bytes_text(nbytes)}{bits}")


def _parts(by_type: Sequence[tuple[str, int]], colours: Mapping[str, str]) -> list[Part]:
    """Return the parts of a bar in the order of the colours; types without one are together."""
    amounts: dict[str, int] = dict.fromkeys(colours, 0)
    for name, nbytes in by_type:
        known = name if name in colours else _OTHERS
        amounts[known] = amounts.get(known, 0) + nbytes
    return [
        Part(cut(name, 40), amount, bytes_text(amount), colours.get(name, OTHER))
        for name, amount in amounts.items()
        if amount
    ]


def _recipes(evidence: Evidence) -> list[Element]:
    fits = evidence.fits
    found = [paragraph(evidence.recipe_verdict, "verdict")]
    if not fits:
        return found
    declared = next((fit for fit in fits if fit.declared), fits[0])
    shown = [fit for place, fit in enumerate(fits) if place < _SHOWN_FITS or fit.declared]
    rows = [_fit(fit) for fit in shown]
    marked = [number for number, fit in enumerate(shown) if fit.declared]
    head = ("recipe", "weights that agree", "bytes by it", "bits per weight", "remarks")
    found.append(table(head, rows, numbers=(1, 2, 3), marked=marked))
    deviations = declared.deviations
    if deviations:
        lines = [element("li", deviation_text(one)) for one in deviations[:_SHOWN_DEVIATIONS]]
        left = len(deviations) - len(lines)
        if left:
            lines.append(element("li", f"and {integer_text(left)} more groups of tensors"))
        title = f"What is not as {declared.recipe} has it"
        found.append(details(title, element("ul", *lines)))
    found.append(paragraph(f"Rules: {RULES_SOURCE}", "faint"))
    return found


def _fit(fit: RecipeFit) -> tuple[str, ...]:
    remarks = ["what the file says it is"] if fit.declared else []
    if fit.revision is not CURRENT:
        remarks.append(f"by the rules {fit.revision.name}")
    if fit.imatrix is not None:
        remarks.append(f"{'with' if fit.imatrix else 'without'} an importance matrix")
    return (
        fit.recipe,
        percent_text(fit.share),
        bytes_text(fit.nbytes),
        float_text(8 * fit.nbytes / fit.parameters, 4) if fit.parameters else "",
        ", ".join(remarks),
    )
