"""The sections of a report, and the one HTML document that they are rendered into.

What comes from a model is data and never a template: the one template is the program's own file
resources/report/page.html, which holds all fixed words and their order. Autoescape writes every
value as text, and `finalize` cleans it first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from itertools import groupby, islice, zip_longest
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from explorer import __version__
from explorer.analysis.columns import Source, Summaries, outlier_ratio, relative_step_error
from explorer.analysis.recipes.fits import RecipeFit, rules_source
from explorer.analysis.statistics import TensorStatistics
from explorer.errors import ExplorerError
from explorer.formats.model import MetadataEntry
from explorer.planner.plans import Plan, difference_notes
from explorer.present import plan as plan_texts
from explorer.present import recipes as recipe_texts
from explorer.present import survey as survey_texts
from explorer.present.colours import MEMORY_COLOURS, Pattern, type_colour, type_pattern
from explorer.present.engines import PlanRow
from explorer.present.errors import Side, headline
from explorer.present.explanations import ABOUT_ERRORS
from explorer.present.panels import WORST_TENSORS
from explorer.present.plan import Kind
from explorer.present.quantization import DeclaredQuantization, declared_quantization
from explorer.present.tables import table as tables
from explorer.present.tables.errors import MISMATCHES, WEIGHTED
from explorer.present.tables.facts import FACTS, model_facts
from explorer.present.tables.metadata import keys_of, metadata_table
from explorer.present.tables.plans import BY_CONTEXT
from explorer.present.tables.problems import PROBLEMS
from explorer.present.tables.quantization import declared_table
from explorer.present.tables.recipes import FITS, MIX
from explorer.present.tables.statistics import SURVEYED, bin_table, figures_of_all
from explorer.present.tables.survey import map_table, ranked_table, sums_table
from explorer.report import svg
from explorer.report.gather import ComparedModel, ReportData, ReportTensor
from explorer.report.privacy import (
    LONGEST_NAME,
    Privacy,
    cut,
    environment,
    message,
    shown_name,
    without_paths,
)
from explorer.text import bits_text, bytes_text, digits_text, integer_text

MAX_ROWS: Final = 2000
"""Most rows of a table; what is left out is counted below it."""


class Marked(NamedTuple):
    """A text set off by a class of the style sheet."""

    kind: str
    text: str


Cell: TypeAlias = str | Marked
_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Table:
    """A table."""

    head: Sequence[str]  # headings of the columns
    rows: Sequence[Sequence[Cell]]
    # classes of the columns: "number" (aligned to the right), "name" or nothing
    kinds: Sequence[str]
    marked: Collection[int]  # rows that are set off
    left_out: int  # number of rows that are left out


def table_of(
    described: tables.Table[_Row],
    rows: Sequence[_Row],
    marked: Collection[int] = (),
    *,
    total: int = 0,
    longest: int = LONGEST_NAME,
) -> Table:
    """Return a table of `present.tables`, with at most `MAX_ROWS` rows.

    Args:
        described: Its columns; the first names the row, unless it is a number.
        rows: Its rows.
        marked: Rows that are set off.
        total: How many rows there are, if `rows` are not all.
        longest: Characters of a cell.
    """
    columns = described.shown(rows)

    def cell(column: tables.Column[_Row], row: _Row) -> Cell:
        text, tone = cut(column.cell(row), longest), column.tone and column.tone(row)
        return Marked(tone, text) if tone else text

    cells = [[cell(column, row) for column in columns] for row in rows[:MAX_ROWS]]
    kinds = ["number" if column.kind.numeric else "" for column in columns]
    kinds[0] = kinds[0] or "name"
    titles = [column.head for column in columns]
    return Table(titles, cells, kinds, marked, max(0, (total or len(rows)) - len(cells)))


def sections(data: ReportData) -> dict[str, dict[str, Any]]:
    """Return the variables of each section of the template."""
    return {
        "overview": _overview(data),
        "types": _types(data),
        "checks": _checks(data),
        "weights": _weights(data),
        "plan": _plan(data),
        "metadata": _metadata(data),
    }


# Overview

_SHOWN_FILES: Final = 50


def _overview(data: ReportData) -> dict[str, Any]:
    files = [f"{cut(f.path.name)} ({bytes_text(f.source.size)})" for f in data.model.files]
    declared = declared_quantization(data.model)
    return {
        "facts": model_facts(data.model, data.facts, declared),
        "declared": _declared(declared),
        "attached": _attached(data),
        "problems": len(data.problems),
        "files": files[:_SHOWN_FILES],
        "more_files": max(0, len(files) - _SHOWN_FILES),
    }


def _attached(data: ReportData) -> tuple[str, Table | None] | None:
    """Return what an adapter or an importance matrix is, and its figures if they were read."""
    if data.attached is None:
        return None
    described, rows = data.attached.table, data.attached.rows
    return data.attached.kind, table_of(described, rows) if rows else None


def _declared(declared: DeclaredQuantization | None) -> Table | None:
    """Return what is declared about the quantization beside what the keys say."""
    return None if declared is None else table_of(declared_table(declared), declared.lines)


# Tensor types: the type mix by role, and how the recipes agree with it

_SHOWN_ROLES: Final = 24
_OTHERS: Final = "other types"
_SHOWN_TYPES: Final = 12
_SHOWN_FITS: Final = 10
_SHOWN_DIFFERENCES: Final = 20


def _types(data: ReportData) -> dict[str, Any]:
    totals = data.model.tensors.totals_by_type
    shown = list(totals)[:_SHOWN_TYPES]
    by_type = [(name, total.nbytes) for name, total in totals.items()]
    whole = svg.Bar("whole model", _type_parts(by_type, shown), bytes_text(data.model.nbytes))
    bars = []
    groups = groupby(data.mix, lambda row: row.role)
    for role, group in islice(groups, _SHOWN_ROLES):
        rows = list(group)
        nbytes, weights = sum(row.nbytes for row in rows), sum(row.parameters for row in rows)
        bits = f", {bits_text(8 * nbytes / weights)} bits" if weights else ""
        parts = _type_parts([(row.type, row.nbytes) for row in rows], shown)
        bars.append(svg.Bar(cut(role, 60), parts, f"{bytes_text(nbytes)}{bits}"))
    legend = [(cut(name, 40), *_type_fill(name)) for name in shown]
    if len(totals) > len(shown):
        legend.append((_OTHERS, *_type_fill(_OTHERS)))
    return {
        "legend": legend,
        "whole": svg.draw_bars("Bytes by type", [whole]),
        "roles": svg.draw_bars("Bytes by role and type", bars),
        "more_roles": sum(1 for _ in groups),
        "mix": table_of(MIX, data.mix),
        **_recipes(data.fits, rules_source(data.model)),
    }


def _type_parts(by_type: Sequence[tuple[str, int]], shown: Sequence[str]) -> list[svg.Part]:
    """Return the parts of a bar in the order of the types shown; all others are together."""
    amounts: dict[str, int] = dict.fromkeys(shown, 0)
    for name, nbytes in by_type:
        known = name if name in shown else _OTHERS
        amounts[known] = amounts.get(known, 0) + nbytes
    return [
        svg.Part(cut(name, 40), amount, bytes_text(amount), *_type_fill(name))
        for name, amount in amounts.items()
        if amount
    ]


def _type_fill(name: str) -> tuple[str, str]:
    if name == _OTHERS:
        return svg.OTHER, ""
    pattern = type_pattern(name)
    return type_colour(name), "" if pattern is Pattern.PLAIN else pattern


def _recipes(fits: Sequence[RecipeFit], source: str) -> dict[str, Any]:
    if not fits:
        return {"fits": None}
    shown = recipe_texts.shown_fits(fits, _SHOWN_FITS)
    marked = [number for number, fit in enumerate(shown) if fit.declared]
    return {
        "fits": table_of(FITS, shown, marked),
        "differences": recipe_texts.differences(fits, _SHOWN_DIFFERENCES),
        "rules": source,
    }


# Checks: what is wrong in the header, and weights that cannot be read

_LONGEST: Final = 500


def _checks(data: ReportData) -> dict[str, Any]:
    failed = [one for one in data.tensors if one.problem]
    problems = [
        replace(one, where=without_paths(cut(one.where)), what=without_paths(one.what))
        for one in data.problems
    ]
    unread = SURVEYED.only("tensor", "problem")
    return {
        "problems": table_of(PROBLEMS, problems, longest=_LONGEST),
        "failed": (count := len(failed) + data.undecodable),
        "unread": table_of(unread, failed, total=count, longest=_LONGEST),
    }


# Weights: the worst tensors, maps of the model, histograms, and all figures as a table

_MAX_STACKS: Final = 2
_MAX_LAYERS: Final = 128
_MAX_ROLES: Final = 24
_SHOWN_SPOTS: Final = 20
_SHOWN_NAMES: Final = 40
_HISTOGRAMS: Final = 6


@dataclass(frozen=True, slots=True)
class Ranked:
    """A tensor among those of its role."""

    found: ReportTensor
    value: float  # the figure that it is ranked by
    place: int  # its place in its role, 1 for the maximum
    peers: int  # tensors of its role, itself included
    to_median: float  # its figure divided by the role's median; NaN where that is 0


def rank(tensors: Iterable[ReportTensor], figure: Callable[[ReportTensor], float]) -> list[Ranked]:
    """Return the tensors whose figure is known and above 0, the largest first.

    Errors are comparable within a role only, so each tensor has its place there.
    """
    roles: dict[str, list[tuple[float, ReportTensor]]] = {}
    for one in tensors:
        value = figure(one)
        if value > 0:  # NaN is not
            roles.setdefault(one.tensor.parsed_name.role, []).append((value, one))
    found = []
    for peers in roles.values():
        middle = median(value for value, _ in peers)
        peers.sort(key=lambda pair: -pair[0])
        for place, (value, one) in enumerate(peers, start=1):
            known = 0 < middle < math.inf and value < math.inf
            to_median = value / middle if known else math.nan
            found.append(Ranked(one, value, place, len(peers), to_median))
    return sorted(found, key=lambda one: -one.value)


def most_interesting(orders: Sequence[Sequence[Ranked]], count: int) -> list[ReportTensor]:
    """Return tensors whose histograms are worth a look: the first of each order in turn."""
    turns = (one.found for turn in zip_longest(*orders) for one in turn if one is not None)
    found = {one.tensor.name: one for one in turns}
    return list(found.values())[:count]


def _of_weights(figure: Callable[[TensorStatistics], float]) -> Callable[[ReportTensor], float]:
    """Return a figure of a tensor's statistics; NaN without them."""
    return lambda one: math.nan if one.statistics is None else figure(one.statistics)


def _bits_per_weight(one: ReportTensor) -> float:
    return one.tensor.bits_per_weight or math.nan


def _error(name: str) -> Callable[[ReportTensor], float]:
    """Return an error of a tensor; NaN where it was not compared."""
    return lambda one: one.errors.get(name, math.nan)


relative_step = _of_weights(relative_step_error)


def _weights(data: ReportData) -> dict[str, Any]:
    if not data.read:
        return {"read": False, "maps": list(_maps(data))}
    compared = data.comparison is not None
    matrices = [one for one in data.tensors if one.is_matrix]
    if compared:
        title, name = f"{WORST_TENSORS}: largest error against the reference", "relative_rmse"
        hot = rank(matrices, _error(name))
    else:
        title = f"{WORST_TENSORS}: coarsest rounding, estimated from the block scales"
        hot, name = rank(matrices, relative_step), "step_error"
    # empty without an importance matrix
    weighted = rank(matrices, _error("weighted_relative_rmse"))
    outliers = rank(matrices, _of_weights(outlier_ratio))
    return {
        "read": True,
        "caution": ABOUT_ERRORS,
        "comparison": _comparison(data),
        "spots": [
            (heading, table_of(ranked_table(figure), ranked[:_SHOWN_SPOTS]))
            for heading, ranked, figure in (
                (title, hot, name),
                ("Largest error, weighted by importance", weighted, "weighted_relative_rmse"),
                ("Largest outliers", outliers, "outlier_ratio"),
            )
            if ranked
        ],
        "about_sums": survey_texts.ABOUT_SUMS,
        "sums": [] if data.sums is None else list(_sums(data.sums, data.comparison)),
        "maps": list(_maps(data)),
        "histograms": list(_histograms(most_interesting([hot, outliers], _HISTOGRAMS))),
        "tensors": (count := len(data.model.tensors.columns)),
        "figures": table_of(figures_of_all(compared=compared), data.tensors, total=count),
    }


def _sums(found: Summaries, comparison: ComparedModel | None) -> Iterator[tuple[str, Table]]:
    """Yield headings and tables of sums and means."""
    sources = [Source.ERRORS] if comparison is not None else []
    more = WEIGHTED.names if comparison is not None and comparison.matrix is not None else ()
    for by_layer, what in ((False, "role"), (True, "layer")):
        lines = survey_texts.summary_lines(found, by_layer=by_layer, most=MAX_ROWS)
        total = survey_texts.summary_count(found, by_layer=by_layer)
        for source in (*sources, Source.STATISTICS):
            kind = "Errors" if source is Source.ERRORS else "Statistics"
            names = more if source is Source.ERRORS else ()
            yield f"{kind} by {what}", table_of(sums_table(source, *names), lines, total=total)


def _comparison(data: ReportData) -> dict[str, Any] | None:
    found = data.comparison
    if found is None:
        return None
    matching = found.matching
    sides = {
        "the reference": matching.unmatched_reference,
        "this model": matching.unmatched_candidate,
    }
    told = ""
    if data.reference is not None and data.sums is not None:
        one, other = Side.of("the reference", data.reference), data.model
        told = headline(one, Side.summed("This model", other, data.sums))
    return {
        "headline": told,
        "compared": found.compared,
        "weighted": ""
        if math.isnan(found.weighted)
        else WEIGHTED["weighted_relative_rmse"].write(found.weighted),
        "matrix": "" if found.matrix is None else shown_name(found.matrix),
        "not_comparable": len(matching.not_comparable),
        "reasons": table_of(MISMATCHES, matching.not_comparable, longest=_LONGEST),
        "unmatched": [
            (where, len(names), ", ".join(map(cut, names[:_SHOWN_NAMES])), names[_SHOWN_NAMES:])
            for where, names in sides.items()
            if names
        ],
    }


class _Metric(NamedTuple):
    """What a map shows."""

    title: str
    of: Callable[[ReportTensor], float]
    text_of: Callable[[float], str]
    logarithmic: bool = False


def _maps(data: ReportData) -> Iterator[tuple[svg.Picture, str, Table]]:
    """Yield picture, caption and data of a map of each known metric, of each stack of layers."""
    metrics = [_Metric(FACTS["bits_per_weight"].title, _bits_per_weight, bits_text)]
    if data.read:
        std = "Standard deviation of the weights"
        metrics.append(_Metric(std, _of_weights(lambda found: found.std), _short, True))
        if data.comparison is not None:
            error = "Relative RMS error against the reference, in per cent"
            metrics.append(_Metric(error, _error("relative_rmse"), _per_cent, True))
        else:
            step = "Rounding error that the block scales imply, in per cent of the RMS"
            metrics.append(_Metric(step, relative_step, _per_cent, True))
    matrices = [one for one in data.tensors if one.is_matrix]
    stacks = Counter[str]()
    for one in matrices:
        if one.tensor.parsed_name.layer is not None:
            stacks[one.tensor.parsed_name.stack] += one.tensor.parameters
    for stack, _ in stacks.most_common(_MAX_STACKS):
        tensors = [one for one in matrices if one.tensor.parsed_name.stack == stack]
        for metric in metrics:
            yield from _map(stack if len(stacks) > 1 else "", tensors, metric)


_short: Final = partial(digits_text, digits=2)


def _per_cent(ratio: float) -> str:
    """Return a ratio in as few characters as a cell holds; the title has the unit."""
    return _short(100 * ratio)


def _map(
    stack: str, tensors: Sequence[ReportTensor], metric: _Metric
) -> Iterator[tuple[svg.Picture, str, Table]]:
    values: dict[tuple[str, int], float] = {}
    weights: dict[tuple[str, int], int] = {}
    for one in tensors:
        value, name = metric.of(one), one.tensor.parsed_name
        if name.layer is None or math.isnan(value):
            continue
        place, size = (name.role, name.layer), one.tensor.parameters
        if size > weights.get(place, -1):  # of two of one role, the larger one
            values[place], weights[place] = value, size
    if not values:
        return
    all_roles = list(dict.fromkeys(role for role, _ in values))
    all_layers = sorted({layer for _, layer in values})
    roles, layers = all_roles[:_MAX_ROLES], all_layers[:_MAX_LAYERS]
    names = {role: cut(role, 60) for role in roles}
    shown = {(names[r], layer): v for (r, layer), v in values.items() if r in names}
    picture = svg.HeatMap(
        title=metric.title,
        roles=[names[role] for role in roles],
        layers=layers,
        values=shown,
        text_of=metric.text_of,
        logarithmic=metric.logarithmic,
    ).draw()
    caption = f"{metric.title}, by role and layer. Norms and biases are left out."
    if stack:
        caption += f" Stack {cut(stack, 60)}."
    more_roles, more_layers = len(all_roles) - len(roles), len(all_layers) - len(layers)
    if more_roles or more_layers:
        left = f"{integer_text(more_roles)} roles and {integer_text(more_layers)} layers"
        caption += f" Left out: {left}."
    data = map_table(layers, shown, metric.text_of)
    yield picture, caption, table_of(data, list(names.values()))


def _histograms(tensors: Sequence[ReportTensor]) -> Iterator[tuple[str, svg.Picture, Table]]:
    for one in tensors:
        if one.statistics is None:
            continue
        histogram = one.statistics.histogram
        name = cut(one.tensor.name)
        picture = svg.draw_histogram(f"Weights of {name}", histogram)
        data = table_of(bin_table(histogram), range(histogram.counts.size))
        yield f"{name}, {cut(one.tensor.type.name)}", picture, data


# Memory plan: memory by machine and context

_ON_GPUS: Final = (
    *(Kind.WEIGHTS, Kind.KV_CACHE, Kind.GRAPH),
    *(Kind.PROJECTOR, Kind.DRAFT, Kind.ADAPTERS),
)
_LEGEND: Final = (
    *((kind.label, MEMORY_COLOURS[kind], "") for kind in _ON_GPUS),
    (plan_texts.PLAN["cpu_total"].label, svg.OTHER, ""),
)


def _plan(data: ReportData) -> dict[str, Any]:
    machines = []
    for planned in data.plans:
        name, free = planned.target.name, sum(one.free for one in planned.target.devices)
        bars = list(_memory_bars(planned.rows, free))
        machines.append(
            {
                "name": name,
                "free": bytes_text(free),
                "picture": svg.draw_bars(f"Memory on {cut(name)}", bars) if bars else None,
                "data": table_of(BY_CONTEXT, planned.rows, longest=_LONGEST),
            }
        )
    made = [row.plan for planned in data.plans for row in planned.rows if row.plan is not None]
    rules = plan_texts.rules_text(made[0]) if made else ""
    return {
        "machines": machines,
        "legend": _LEGEND,
        "rules": rules,
        "notes": _plan_notes(made),
        "attached": data.attached is not None,
        "weightless": not len(data.model.tensors),
    }


def _memory_bars(rows: Sequence[PlanRow], free: int) -> Iterator[svg.Bar]:
    for row in rows:
        if row.plan is None:
            continue
        bars = plan_texts.memory_bars(row.plan, None)
        gpus = [bar for bar in bars if bar.device is not None]
        amounts = [sum(bar.nbytes(kind) for bar in gpus) for kind in _ON_GPUS]
        amounts.append(sum(bar.held_bytes for bar in bars if bar.device is None))
        parts = [
            svg.Part(name, amount, bytes_text(amount), colour)
            for (name, colour, _), amount in zip(_LEGEND, amounts, strict=True)
        ]
        label = f"{integer_text(int(row.name))} tokens"
        yield svg.Bar(label, parts, bytes_text(row.plan.total), limit=free)


def _plan_notes(made: Sequence[Plan]) -> list[str]:
    """Return warnings, settings that are not as asked for, and the notes that all plans share."""
    found: dict[str, None] = {}
    for plan in made:
        found |= dict.fromkeys((*plan.warnings, *difference_notes(plan.effective)))
    for note in made[0].notes if made else ():
        if all(note in plan.notes for plan in made):
            found[note] = None
    return [without_paths(cut(note, 600)) for note in found]


# Metadata: every key with its value, and chat templates as text

_LONGEST_VALUE: Final = 400
_LONGEST_CELL: Final = 500  # of an array with its length
_LONGEST_TEMPLATE: Final = 60_000
_TEMPLATES: Final = "tokenizer.chat_template"
_MAX_TEMPLATES: Final = 4


def _metadata(data: ReportData) -> dict[str, Any]:
    entries = data.model.metadata.entries
    templates = [entry for entry in entries if entry.key.startswith(_TEMPLATES)]
    below = {entry.key for entry in templates if entry.length is None}
    keys = islice(keys_of(data.model, _LONGEST_VALUE), MAX_ROWS)
    rows = [
        replace(row, value="shown below" if row.key in below else without_paths(row.value))
        for row in keys
    ]
    return {
        "key_count": len(entries),
        "entries": table_of(metadata_table(), rows, longest=_LONGEST_CELL, total=len(entries)),
        "templates": [_template(entry) for entry in templates[:_MAX_TEMPLATES]],
    }


def _template(entry: MetadataEntry) -> tuple[str, str, str]:
    """Return the key of a chat template, its text, and why it cannot be shown; it is never run."""
    try:
        text = entry.value
    except ExplorerError as error:
        return cut(entry.key), "", message(error)
    if not isinstance(text, str):
        return cut(entry.key), "", ""
    shown = text[:_LONGEST_TEMPLATE]
    if len(shown) < len(text):
        shown += f"\n… (cut, {integer_text(len(text))} characters)"
    return cut(entry.key, 60), shown, ""


def report_html(data: ReportData, made_on: date) -> str:
    """Return a report as a document that needs no other file and runs no script.

    The models of its data are still open.

    Raises:
        ExplorerError: A file changed since it was opened.
    """
    models = [one for one in (data.model, data.reference) if one is not None]
    page = environment(Privacy.of(*models)).get_template("page.html")
    return page.render(
        title=shown_name(data.model),
        reference=None if data.reference is None else shown_name(data.reference),
        verdict=recipe_texts.verdict(data.model, data.fits),
        version=__version__,
        made_on=made_on.isoformat(),
        **sections(data),
    )
