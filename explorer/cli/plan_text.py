"""A plan as text for people: what fits, what each GPU holds, and why it is as it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from explorer.cli.output import line_width, on_terminal, style, table
from explorer.cli.plan_work import Answer
from explorer.planner.advice import Advice
from explorer.planner.layout import DeviceLayout, Layout
from explorer.planner.result import Plan, Term
from explorer.present.plan import (
    PLAN,
    Level,
    cpu_layers,
    exact_text,
    layers_text,
    part_label,
    plan_figures,
    verdict,
)
from explorer.tabular import Cell
from explorer.text import bytes_text, integer_text, plain_text, shorten

# A GPU's memory as a bar: its parts are told apart by the character, not only by colour.


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of content.

    Attributes:
        name: What it is called.
        block: How it is drawn.
        ascii: How it is drawn on a terminal without block characters.
        colour: Its colour, of `click.style`.
    """

    name: str
    block: str
    ascii: str
    colour: str


WEIGHTS: Final = Part(part_label("weights"), "█", "#", "blue")
KV_CACHE: Final = Part(part_label("kv_cache"), "▓", "=", "green")
GRAPH: Final = Part(part_label("graph"), "▒", "+", "yellow")
PROJECTOR: Final = Part(part_label("projector"), "◆", "@", "cyan")
RESERVED: Final = Part(part_label("reserved"), "░", "-", "magenta")
FREE: Final = Part(part_label("free"), "·", ".", "bright_black")


def draw_bar(parts: Sequence[tuple[Part, int]], width: int) -> str:
    """Return a bar whose parts are as long as their bytes.

    Args:
        parts: What there is, with its bytes, from left to right.
        width: Characters of the whole bar.
    """
    blocks = _has_blocks()
    lengths = bar_lengths([nbytes for _, nbytes in parts], width)
    return "".join(
        style((part.block if blocks else part.ascii) * length, fg=part.colour)
        for (part, _), length in zip(parts, lengths, strict=True)
        if length
    )


def key_mark(part: Part) -> str:
    """Return the character that stands for a part."""
    return style(part.block if _has_blocks() else part.ascii, fg=part.colour)


def bar_lengths(amounts: Sequence[int], width: int) -> list[int]:
    """Divide a width in proportion to amounts, to its last character.

    The characters that rounding down leaves over go to the largest remainders. What is there at all
    gets a character, taken from the longest part, as long as there are enough for all.
    """
    total = sum(amounts)
    if total == 0 or width <= 0:
        return [0] * len(amounts)
    lengths = [amount * width // total for amount in amounts]
    remainders = [amount * width % total for amount in amounts]
    order = sorted(range(len(amounts)), key=lambda i: remainders[i], reverse=True)
    for i in order[: width - sum(lengths)]:
        lengths[i] += 1
    if sum(amount > 0 for amount in amounts) <= width:
        for i, amount in enumerate(amounts):
            if amount > 0 and lengths[i] == 0:
                lengths[max(range(len(lengths)), key=lengths.__getitem__)] -= 1
                lengths[i] = 1
    return lengths


def _has_blocks() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        "█▓▒░·◆".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


_INDENT: Final = "  "
_WIDEST_BAR: Final = 96
_NARROWEST_BAR: Final = 20
_LONGEST_NAME: Final = 120
_SHOWN_INPUTS: Final = 8
_COLOURS: Final = {Level.FITS: "green", Level.PARTLY: "yellow", Level.NOT: "red"}
_ANSWERS: Final = {
    "context": "Largest context with all layers on GPUs",
    "parallel": "Most sequences with all layers on GPUs",
    "kv-cache-type": "Least lossy KV cache with all layers on GPUs",
    "gpu-layers": "Most layers that the GPUs can hold",
    "fewest-gpu-layers": "Fewest layers that must go to GPUs",
}


def plan_text(
    plan: Plan, path: str, advice: Advice | None = None, notes: Sequence[str] = ()
) -> str:
    """Return everything about one plan.

    Args:
        plan: The plan.
        path: What the person called the model.
        advice: What was solved for, or None.
        notes: Notes on the machine.
    """
    title = style(_safe(path), bold=True)
    blocks = [f"{title}: {_verdict(plan)}\n"]
    if advice is not None:
        blocks.append(_advice(advice))
    blocks.append(table(_facts(plan)))
    if plan.layout is None:
        blocks += [_predicted_device(plan)]
    else:
        blocks += [_device_block(held) for held in plan.layout.devices]
        blocks.append(_cpu_block(plan.layout))
    blocks.append(_sentences("Warnings", plan.warnings, "yellow"))
    blocks.append(_sentences("Notes", (*plan.notes, *notes), None))
    return "".join(blocks)


def terms_text(terms: Sequence[Term]) -> str:
    """Return each figure with its formula and the values in it."""
    lines = [f"\n{style('Figures', bold=True)}\n"]
    for term in terms:
        value = bytes_text(term.value) if isinstance(term.value, int) else f"{term.value:.4g}"
        lines.append(f"{_INDENT}{_safe(term.name)} = {value} = {_safe(term.formula)}\n")
        for symbol, given in list(term.inputs.items())[:_SHOWN_INPUTS]:
            lines.append(f"{_INDENT * 3}{symbol} = {_number(given.value)}, {_safe(given.origin)}\n")
    return "".join(lines)


def _number(value: int | float | tuple[int, ...]) -> str:
    if isinstance(value, tuple):
        return f"{integer_text(len(value))} values, together {integer_text(sum(value))}"
    return integer_text(value) if isinstance(value, int) else f"{value:g}"


def _advice(advice: Advice) -> str:
    """Return an answer and what keeps it from being more."""
    value = advice.value
    text = integer_text(value) if isinstance(value, int) else value or "nothing fits"
    answer = style(f"{_ANSWERS.get(advice.what, advice.what)}: {text}", bold=True)
    return f"{_INDENT}{answer}\n{_INDENT}limited by: {plain_text(advice.limited_by)}\n\n"


def _verdict(plan: Plan) -> str:
    found = verdict(plan)
    return style(found.sentence, fg=_COLOURS[found.level])


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what holds for the model as a whole."""
    effective, layout = plan.effective, plan.layout
    yield "Architecture", _safe(plan.request.h.architecture)
    yield "Profile", plan.profile
    batch = effective.batch if layout is None else layout.batch
    sequences = f" × {integer_text(effective.parallel)} sequences" if effective.parallel > 1 else ""
    yield "Context", f"{integer_text(effective.context)} tokens{sequences}"
    yield "Batch", integer_text(batch)
    attention = "on" if effective.flash_attention else "off"
    yield "KV cache type", f"{_safe(effective.kv_cache_type)}, flash attention {attention}"
    for figure in plan_figures(plan):
        if figure.name == "gpu_layers" and layout is not None:
            graphs = f"{bytes_text(layout.full)} full, {bytes_text(layout.partial)} partial"
            yield "Graph by offload", graphs
            yield figure.label, f"{figure.text} ({_ratio(plan)})"
        elif isinstance(figure.value, int):
            yield figure.label, exact_text(figure.value)


def _ratio(plan: Plan) -> str:
    text = f"{plan.gpu_ratio or 0:.0%}"
    quick = plan.quick_estimate_ratio
    if quick is None:
        return text
    cut = "" if 0 <= quick <= 1 else ", clamped"
    return f"{text}; quick estimate by weights {min(max(quick, 0), 1):.0%}{cut}"


def _device_block(held: DeviceLayout) -> str:
    """Return a GPU: its name, its bar, its parts, which add up to what was free on it."""
    device = held.device
    layers = layers_text(held.layers or ())
    name = style(_safe(device.label), bold=True)
    heading = f"\n{name}, {bytes_text(device.free)} free, {layers}\n"
    parts = [
        (WEIGHTS, held.weights),
        (KV_CACHE, held.kv_cache),
        (GRAPH, held.graph),
        (PROJECTOR, held.projector),
        (RESERVED, held.reserve_left),
        (FREE, held.free_left),
    ]
    return heading + _parts([(part, n) for part, n in parts if n or part is not PROJECTOR])


def _parts(parts: Sequence[tuple[Part, int]]) -> str:
    """Return a bar, on a terminal, and the size of each part."""
    if not on_terminal():
        return table([(part.name, bytes_text(n)) for part, n in parts], right=(1,))
    width = max(_NARROWEST_BAR, min(_WIDEST_BAR, line_width() - len(_INDENT) - 1))
    lines, used = [_INDENT], 0
    for part, nbytes in parts:
        text = f"{part.name} {bytes_text(nbytes)}"
        if used and used + len(text) + 4 > width:
            lines.append(_INDENT)
            used = 0
        lines[-1] += f"{key_mark(part)} {text}  "
        used += len(text) + 4
    keys = "".join(f"{line.rstrip()}\n" for line in lines)
    return f"{_INDENT}{draw_bar(parts, width)}\n{keys}"


def _cpu_block(layout: Layout) -> str:
    left = cpu_layers(layout)
    if not left:
        return ""
    parts = [(WEIGHTS, layout.cpu_weights), (KV_CACHE, layout.cpu_kv_cache)]
    last = ", with the output layer" if left[-1] == layout.total_layers - 1 else ""
    return f"\n{style('CPU', bold=True)}, {layers_text(left)}{last}\n{_parts(parts)}"


def _predicted_device(plan: Plan) -> str:
    prediction = plan.prediction
    if prediction is None:
        return ""
    held = prediction.total
    parts = [
        (WEIGHTS, prediction.file_bytes),
        (KV_CACHE, prediction.cache_bytes),
        (GRAPH, prediction.surcharge_bytes),
        (FREE, max(0, prediction.available_bytes - held)),
    ]
    heading = f"\n{style('All GPUs', bold=True)}, {bytes_text(prediction.available_bytes)} free\n"
    return heading + _parts(parts)


def _sentences(title: str, sentences: Sequence[str], colour: str | None) -> str:
    if not sentences:
        return ""
    heading = style(title, bold=True, **({} if colour is None else {"fg": colour}))
    lines = "".join(f"{_INDENT}{_capital(plain_text(text))}\n" for text in sentences)
    return f"\n{heading}\n{lines}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _safe(text: str) -> str:
    return shorten(plain_text(text), _LONGEST_NAME)


# Several plans beside each other: a table for people, the same in full as CSV for programs.


_HEAD: Final = (
    *("Model", "Profile", "Context", "KV cache type"),
    *PLAN.values(),
    "Result",
)
_NUMBERS: Final = range(4, 4 + len(PLAN))
_LONGEST_ROW_NAME: Final = 60

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
    return text if len(text) <= _LONGEST_ROW_NAME else "…" + text[1 - _LONGEST_ROW_NAME :]


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
