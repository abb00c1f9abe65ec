"""Tables of memory plans: devices, layers, figures and their formulas, engines, plans, GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from explorer.hardware.catalogue import Gpu
from explorer.planner.plans import Input, Layer, Level, NamedBuffer, Plan, Term
from explorer.present.curves import Curves
from explorer.present.engines import PlanRow, range_text
from explorer.present.explanations import plan_text
from explorer.present.plan import (
    PLAN,
    Bar,
    Kind,
    answer,
    attention_text,
    devices_text,
    gpu_layers_text,
    kinds_in,
    memory_bars,
    sequences_text,
    value_text,
    verdict_word,
)
from explorer.present.tables.speed import SPEED
from explorer.present.tables.table import (
    BYTES,
    INTEGER,
    PLACE,
    RATIO,
    TEXT,
    YES_NO,
    Column,
    Table,
    digits,
)
from explorer.present.tables.table import Kind as ColumnKind
from explorer.text import (
    UNKNOWN,
    bytes_text,
    float_text,
    integer_text,
    plain_text,
    shorten,
    signed_text,
)

_LONGEST_ORIGIN: Final = 300
_LONGEST_NAME: Final = 80
_SHOWN_VALUES: Final = 6


# What devices hold

_KINDS: Final = {
    Kind.WEIGHTS: "Bytes of the model's weights here.",
    Kind.KV_CACHE: "Bytes of keys and values of the text here. They grow with the context.",
    Kind.GRAPH: "Bytes of working memory here, for computing a batch of tokens.",
    Kind.PROJECTOR: "Bytes of the projector here, which turns pictures into tokens.",
    Kind.DRAFT: "Bytes of what drafts tokens here: its weights, cache and working memory.",
    Kind.ADAPTERS: "Bytes of LoRA adapters here.",
    Kind.RESERVED: "Bytes that are kept free while layers are placed.",
    Kind.FREE: "Free bytes.",
    Kind.SWAP: "Free bytes of swap. A model that needs them is slow.",
}


def bars_table(bars: Sequence[Bar]) -> Table[Bar]:
    """Return the table of bars: a column for each kind of content that one of them has."""

    def part(kind: Kind) -> Column[Bar]:
        return Column(kind.value, kind.label, BYTES, _KINDS[kind], lambda bar: bar.nbytes(kind))

    beyond = "Bytes that are missing, the reserve counted"
    return Table[Bar](
        Column("device", "Device", tip="A GPU, or the CPU with its main memory.", of=_title),
        Column("layers", "Layers", tip="The layers that are computed there."),
        *map(part, kinds_in(bars)),
        Column("over", "Too much", BYTES, beyond, lambda bar: bar.over_bytes),
        Column("capacity", "Available", BYTES, "Free before the model is loaded", blank=UNKNOWN),
        title="Memory of each device",
    )


def _title(bar: Bar) -> str:
    return bar.title


def layers_table(devices: Sequence[str]) -> Table[Layer]:
    """Return the table of layers; `devices` are the names of the GPUs."""

    def device(layer: Layer) -> str:
        return "CPU" if layer.device is None else devices[layer.device]

    both = "Weights and KV cache of the layer together."
    number = "Number of the layer, from 0 up. The output layer is the last."
    return Table[Layer](
        Column("index", "Layer", PLACE, number),
        Column("name", "Group", tip="The group of tensors that it is made of."),
        Column("device", "Device", tip="Where it is computed.", of=device),
        Column("weights", "Weights", BYTES, plan_text("layers[0].weights")),
        Column("kv_cache", "KV cache", BYTES, plan_text("layers[0].kv_cache")),
        Column("bytes", "Both", BYTES, both, lambda layer: layer.nbytes),
        title="Layers and their devices",
    )


def curves_table(curves: Curves) -> Table[int]:
    """Return the table of curves; its rows are the places of their contexts."""
    contexts = curves.curves[0].contexts.tolist()
    axis, is_memory = curves.axis, curves.kind.figure == "total"
    columns: list[Column[int]] = [
        Column(curves.kind.along, axis.title, INTEGER, axis.tip, contexts.__getitem__)
    ]
    for curve in curves.curves:
        name, totals, fits = curve.cache_type, curve.totals.tolist(), curve.fits.tolist()

        def total(row: int, totals: Sequence[int] = totals) -> int | None:
            return None if totals[row] < 0 else totals[row]

        def marked(row: int, totals: Sequence[int] = totals, fits: Sequence[bool] = fits) -> str:
            text = UNKNOWN if totals[row] < 0 else curves.text(totals[row])
            return text if fits[row] else f"✘ {text}"

        def fitting(row: int, fits: Sequence[bool] = fits) -> str:
            return "yes" if fits[row] else "no"

        fit = f"Whether {curves.where[0]}."
        tip = "Total bytes" if is_memory else curves.kind.title
        unit = BYTES if is_memory else INTEGER
        columns.append(Column(name, name, unit, tip, total, text=marked))
        columns.append(Column(f"{name}_fits", f"{name} fits", TEXT, fit, fitting, extra=True))
    return Table(*columns, title=curves.kind.title)


def _exact(value: float) -> str:
    return integer_text(value) if isinstance(value, int) else float_text(value)


_FIGURE: Final = "The figure, by its place in the plan's JSON."
_ROUNDED: Final = "The figure, rounded: bytes, or a ratio."


def _meaning(term: Term) -> str:
    return plan_text(term.name)


_TERM_VALUE: Final = ColumnKind(value_text)

REMARKS: Final = Table[str](
    Column("note", "Note", TEXT, "What to know of the plan, warnings first.", lambda note: note),
    title="Notes",
)
TERMS: Final = Table[Term](
    Column("figure", "Figure", TEXT, _FIGURE, lambda term: term.name, row_tip=_meaning),
    Column("value", "Value", _TERM_VALUE, _ROUNDED, row_tip=_meaning),
    Column(
        *("exact", "Exact", ColumnKind(_exact), "The figure to the byte."),
        of=lambda term: term.value,
        row_tip=_meaning,
        extra=True,  # the title has it
    ),
    title="Figures of the plan",
)

NamedInput = tuple[str, Input]


def _input_value(given: NamedInput) -> int | float:
    value = given[1].value
    return sum(value) if isinstance(value, tuple) else value


def _input_text(given: NamedInput) -> str:
    value = given[1].value
    if not isinstance(value, tuple):
        return _exact(value)
    if len(value) > _SHOWN_VALUES:
        return f"{integer_text(len(value))} values, together {integer_text(sum(value))}"
    return " + ".join(map(integer_text, value)) or "0"


def _origin(given: NamedInput) -> str:
    return shorten(plain_text(given[1].origin), _LONGEST_ORIGIN)


_SOURCE: Final = "The metadata key, setting or figure that is its source."
_VALUE: Final = "The value of the symbol here."

INPUTS: Final = Table[NamedInput](
    Column("symbol", "Symbol", tip="A symbol of the formula above.", of=lambda given: given[0]),
    Column("value", "Value", INTEGER, _VALUE, _input_value, text=_input_text),
    Column("from", "From", tip=_SOURCE, of=_origin, stretches=True),
    title="Symbols of the formula",
)


# Plans side by side


def _of(figure: Callable[[Plan], Any]) -> Callable[[Any], Any]:
    """Return a figure of the plan of a row; None where it has none."""
    return lambda row: None if row.plan is None else figure(row.plan)


def _planned(
    name: str, title: str, tip: str, figure: Callable[[Plan], Any], kind: ColumnKind = TEXT
) -> Column[Any]:
    """Return a column of what is said of the plan of a row."""
    return Column(name, title, kind, tip, _of(figure), blank=UNKNOWN)


def _setting(name: str, title: str, tip: str, kind: ColumnKind = TEXT) -> Column[Any]:
    return _planned(name, title, tip, lambda plan: plan.used(name), kind)


def _figure(name: str) -> Column[Any]:
    """Return the column of a figure; of layers it says of how many."""
    key = "graph" if name == "graph_total" else name  # as exported tables call it
    figure = PLAN[name]
    if name == "gpu_layers":
        return _planned(key, figure.label, figure.tip, gpu_layers_text)
    return _planned(key, figure.label, figure.tip, figure.of, BYTES)


_CONTEXT: Final = "Tokens of each request, times the requests at once, or shared by them."
_NAME: Final = "The scenario or the model. The first line is the current plan."
_FLASH: Final = "Whether attention is computed without storing its table."
_PROGRAM: Final = "The program whose rules the plan follows."
_FIRST: Final = ("gpu_layers", "total")  # what decides: the table is wider than a small window

PLANS: Final = Table[PlanRow](
    Column("name", "Name", tip=_NAME, of=lambda row: shorten(plain_text(row.name), _LONGEST_NAME)),
    Column("fits", "Fits", tip="Whether the model fits, in a word or three.", extra=True),
    *map(_figure, _FIRST),
    _planned("context", "Context", _CONTEXT, sequences_text),
    _setting("kv_cache_type", "KV type", "How keys and values are stored."),
    *(_figure(name) for name in PLAN if name not in _FIRST),
    _planned("devices", "GPUs", "The GPUs that the plan may use.", devices_text),
    _setting("batch", "Batch", "Tokens computed at a time.", INTEGER),
    _planned("flash_attention", "Flash attention", _FLASH, attention_text),
    _planned("profile", "Program", _PROGRAM, lambda plan: plan.engine.name),
    Column("answer", "Answer", tip="Whether the model fits, in one sentence."),
    title="Plans side by side",
)


def comparison(rows: Sequence[PlanRow]) -> Table[PlanRow]:
    """Return `PLANS` with what differs from the first row marked, which colour alone could not."""
    return PLANS.with_columns(_compared(column, rows[0]) for column in PLANS)


def _compared(column: Column[PlanRow], first: PlanRow) -> Column[PlanRow]:
    if column.name in ("name", "fits", "answer"):
        return column
    own, all_there = column.value(first), _all_on_gpus(first)

    def text(row: PlanRow) -> str:
        value, cell = column.value(row), column.cell(row)
        if column.kind is BYTES:
            if value is None or own is None or value == own:
                return cell
            return f"{cell} ({signed_text(value - own, bytes_text)})"
        if column.name == "gpu_layers" and all_there and _all_on_gpus(row):
            return cell  # all of them are as good as all of another model's
        return cell if value == own else f"≠ {cell}"

    return replace(column, text=text)


def _all_on_gpus(row: PlanRow) -> bool:
    return row.plan is not None and row.plan.fully_offloaded


# Plans in a file: figures alone


def _solved(name: str, title: str, tip: str) -> Column[PlanRow]:
    return Column(
        *(f"solved_{name}", title, ColumnKind(str, numeric=False), tip),
        lambda row: None if row.advice is None else row.advice.record()[name],
    )


def _gpu_ratio(plan: Plan) -> float:
    return plan.gpu_layers / plan.verdict.total_layers


def _quick_estimate(plan: Plan) -> float | None:
    return plan.details.record().get("quick_estimate_ratio")


_PARALLEL: Final = "Sequences at a time."
_QUICK: Final = "The part of the layers that Ollama guesses to fit on GPUs, by the weights alone."

PLAN_FILE: Final = Table[PlanRow](
    Column("model", "Model", TEXT, "The model as it was named.", lambda row: row.name),
    Column("profile", "Program", TEXT, _PROGRAM),
    _planned("architecture", "Architecture", "Kind.", lambda plan: plan.request.h.architecture),
    _setting("context", "Context", _CONTEXT, INTEGER),
    _setting("parallel", "Sequences", _PARALLEL, INTEGER),
    PLANS["batch"],
    PLANS["kv_cache_type"],
    _setting("flash_attention", "Flash attention", _FLASH, YES_NO),
    _figure("weights"),
    _figure("kv_cache"),
    replace(_figure("graph_each"), name="graph"),
    replace(_figure("gpu_layers"), of=_of(lambda plan: plan.gpu_layers), kind=INTEGER),
    _planned(
        "total_layers", "Layers", "All layers.", lambda plan: plan.request.h.total_layers, INTEGER
    ),
    _planned(
        "fully_offloaded", "All", "Whether all are on GPUs.", lambda p: p.fully_offloaded, YES_NO
    ),
    _planned("gpu_ratio", "Part on GPUs", "Layers on GPUs, of all layers.", _gpu_ratio, RATIO),
    _planned("quick_estimate_ratio", "Quick estimate", _QUICK, _quick_estimate, RATIO),
    _figure("vram_total"),
    _figure("cpu_total"),
    _figure("total"),
    _solved("what", "Question", "What was asked for."),
    _solved("value", "Solution", "The most that fits."),
    _solved("limited_by", "Limited by", "What keeps it from being more."),
    Column("error", "Error", tip="Why there is no plan.", of=lambda row: row.refusal or None),
    title="Plans",
)


# Plans by context, in the report


_TONES: Final = {Level.FITS: "good", Level.PARTLY: "warn", Level.NOT: "bad"}


def _marked_answer(row: PlanRow) -> str:
    found = answer(row.plan, row.refusal)
    return f"{found.mark} {found.sentence}"


def _places(plan: Plan) -> str:
    bars = memory_bars(plan, None)
    used = (bar for bar in bars if bar.device is not None or bar.held_bytes)
    return "; ".join(f"{bar.title}, {bar.layers}" for bar in used)


def _settings(plan: Plan) -> str:
    context, kind = integer_text(plan.used("context")), plan.used("kv_cache_type")
    return f"context {context}, KV cache {kind}, flash attention {attention_text(plan)}"


_RIGHT: Final = replace(TEXT, numeric=True)


def _why(row: PlanRow) -> str:
    """Say how fast a plan is, or why that is not known."""
    return (row.speed if isinstance(row.speed, str) else row.speed.sentence) or SPEED.tip


_SPEED: Final = replace(SPEED, row_tip=_why)


BY_CONTEXT: Final = Table[PlanRow](
    Column("context", "Context", INTEGER, "Tokens that are asked for.", lambda row: int(row.name)),
    Column(
        *("fits", "Fits", TEXT, "Whether the model fits, in one sentence.", _marked_answer),
        tone=lambda row: _TONES[answer(row.plan, row.refusal).shown],
    ),
    *(
        replace(_figure(name), blank="", kind=_RIGHT if name == "gpu_layers" else BYTES)
        for name in PLAN
    ),
    _SPEED,
    replace(_planned("layers", "Layers", "Where layers are computed.", _places), blank=""),
    replace(_planned("settings", "Settings", "The settings that hold.", _settings), blank=""),
    title="Memory by context",
)


# Engines side by side


def _fits(row: PlanRow) -> str:
    return "Refused" if row.plan is None else verdict_word(row.plan.verdict)


def _full_title(row: PlanRow) -> str:
    return row.engine.title


_WHETHER: Final = "Whether the model fits, or why this program makes no plan of it."

ENGINES: Final = Table[PlanRow](
    Column(
        *("profile", "Program", TEXT, "The program whose rules are followed."),
        of=_full_title,
        text=lambda row: row.engine.short_title,
        row_tip=_full_title,
    ),
    Column(
        *("fits", "Fits", TEXT, _WHETHER, _fits),
        row_tip=lambda row: plain_text(row.refusal) or _WHETHER,
    ),
    *map(_figure, ("total", "weights", "kv_cache")),
    _planned(
        *("compute", "Compute", "Bytes that a batch is computed with, on all devices."),
        lambda plan: sum(held.compute.high for held in plan.holdings),
        BYTES,
    ),
    *map(_figure, ("gpu_layers", "vram_total")),
    _planned("context", "Context", _CONTEXT, sequences_text),
    _SPEED,
    title="Programs side by side",
)

BUFFERS: Final = Table[NamedBuffer](
    Column("name", "Buffer", tip="A buffer, as the program names it."),
    Column("weights", "Weights", BYTES, "Bytes of weights in this buffer."),
    Column("cache", "Cache and state", BYTES, "Bytes of the KV cache and of recurrent state."),
    Column(
        *("compute", "Compute", INTEGER, "Bytes that a batch is computed with."),
        of=lambda one: None if one.compute is None else one.compute.high,
        text=lambda one: range_text(one.compute),
    ),
    Column("reserve", "Reserve", BYTES, "Bytes that are kept free on the GPU."),
    title="Buffers",
)


# The catalogue of GPUs


def _bandwidth(gpu: Gpu) -> float | None:
    rate = gpu.bandwidth_bytes_per_s
    return None if rate is None else rate / 1e9


_USABLE: Final = "The part of it that a program can use."
_LIBRARY: Final = "Ollama's library for it: CUDA, ROCm, Metal, Vulkan."
_RATE: Final = "Gigabytes per second of its memory."

GPUS: Final = Table[Gpu](
    Column("name", "Name", tip="The GPU, by its maker's name."),
    Column(
        "memory", "Memory", BYTES, "Memory of the board, as it is sold.", lambda g: g.memory_bytes
    ),
    Column("usable", "Usable", BYTES, _USABLE, lambda gpu: gpu.usable_bytes, UNKNOWN),
    Column("library", "Library", tip=_LIBRARY),
    Column("bandwidth", "GB/s", digits(4), _RATE, _bandwidth, UNKNOWN),
    Column("year", "Year", PLACE, "The year of its release.", blank=UNKNOWN),
    title="GPUs of the catalogue",
)
