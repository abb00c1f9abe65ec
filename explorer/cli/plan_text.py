"""Plans as text for people and as CSV: what fits, what each GPU holds, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from explorer.cli.output import line_width, name_cell, on_terminal, style, table
from explorer.planner.advice import Advice
from explorer.planner.result import Plan, Term
from explorer.present import plan as plans
from explorer.present.plan import Kind
from explorer.tabular import Cell
from explorer.text import bytes_text, exact_text, integer_text, plain_text

_INDENT: Final = "  "
_WIDEST_BAR: Final = 96
_NARROWEST_BAR: Final = 20
_LONGEST_NAME: Final = 120
_SHOWN_INPUTS: Final = 8
_COLOURS: Final = {
    plans.Level.FITS: "green",
    plans.Level.PARTLY: "yellow",
    plans.Level.NOT: "red",
}


_ANSWERS: Final = {
    "context": "Largest context with all layers on GPUs",
    "parallel": "Most sequences with all layers on GPUs",
    "kv-cache-type": "Least lossy KV cache with all layers on GPUs",
    "gpu-layers": "Most layers that the GPUs can hold",
    "fewest-gpu-layers": "Fewest layers that must go to GPUs",
}


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """One model by one profile.

    Attributes:
        path: The model as it was named.
        profile: Name of the profile.
        plan: The plan, or None if there is none.
        advice: The answer to --solve, or None.
        failure: Why there is no plan.
        reason: ``"requires full"`` or ``"system memory"`` where Ollama would refuse.
        notes: Notes on the machine.
    """

    path: str
    profile: str
    plan: Plan | None = None
    advice: Advice | None = None
    failure: str = ""
    reason: str | None = None
    notes: tuple[str, ...] = ()


class _Look(NamedTuple):
    """How a part of a bar is drawn: parts differ by the character, not only by colour.

    Attributes:
        block: A block character.
        ascii: For a terminal without block characters.
        colour: A colour of `click.style`.
    """

    block: str
    ascii: str
    colour: str


_LOOKS: Final = {
    Kind.WEIGHTS: _Look("█", "#", "blue"),
    Kind.KV_CACHE: _Look("▓", "=", "green"),
    Kind.GRAPH: _Look("▒", "+", "yellow"),
    Kind.PROJECTOR: _Look("◆", "@", "cyan"),
    Kind.RESERVED: _Look("░", "-", "magenta"),
    Kind.FREE: _Look("·", ".", "bright_black"),
}


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


def _mark(kind: Kind, length: int = 1) -> str:
    """Return the character that stands for a part, some times."""
    look = _LOOKS[kind]
    return style((look.block if _has_blocks() else look.ascii) * length, fg=look.colour)


def _has_blocks() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        "█▓▒░·◆".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def plan_text(
    plan: Plan, path: str, advice: Advice | None = None, notes: Sequence[str] = ()
) -> str:
    """Return everything about one plan.

    Args:
        plan: The plan.
        path: The model as it was named.
        advice: The answer to --solve, or None.
        notes: Notes on the machine.
    """
    title = style(_safe(path), bold=True)
    blocks = [f"{title}: {_verdict(plan)}\n"]
    if advice is not None:
        blocks.append(_advice(advice))
    blocks.append(table(_facts(plan)))
    bars = plans.memory_bars(plan, None)
    shown = [bar for bar in bars if bar.device is not None or bar.held_bytes]
    blocks += [_bar_block(plan, bar) for bar in shown]
    blocks.append(_sentences("Warnings", plan.warnings, "yellow"))
    blocks.append(_sentences("Notes", (*plan.notes, *notes), None))
    return "".join(blocks)


def terms_text(terms: Sequence[Term]) -> str:
    """Return each figure with its formula and the values in it."""
    lines = [f"\n{style('Figures', bold=True)}\n"]
    for term in terms:
        value = plans.value_text(term.value)
        lines.append(f"{_INDENT}{_safe(term.name)} = {value} = {_safe(term.formula)}\n")
        for symbol, given in list(term.inputs.items())[:_SHOWN_INPUTS]:
            lines.append(f"{_INDENT * 3}{symbol} = {_number(given.value)}, {_safe(given.origin)}\n")
    return "".join(lines)


def _number(value: int | float | tuple[int, ...]) -> str:
    if isinstance(value, tuple):
        return f"{integer_text(len(value))} values, together {integer_text(sum(value))}"
    return integer_text(value) if isinstance(value, int) else f"{value:g}"


def _advice(advice: Advice) -> str:
    """Return an answer and what limits it."""
    value = advice.value
    text = integer_text(value) if isinstance(value, int) else value or "nothing fits"
    answer = style(f"{_ANSWERS[advice.what]}: {text}", bold=True)
    return f"{_INDENT}{answer}\n{_INDENT}limited by: {plain_text(advice.limited_by)}\n\n"


def _verdict(plan: Plan) -> str:
    found = plans.verdict(plan)
    return style(found.sentence, fg=_COLOURS[found.level])


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what holds for the model as a whole."""
    effective, layout = plan.effective, plan.layout
    yield "Architecture", _safe(plan.request.h.architecture)
    yield "Profile", plan.profile
    sequences = " sequences" if effective.parallel > 1 else " tokens"
    yield "Context", plans.sequences_text(plan) + sequences
    yield "Batch", plans.batch_text(plan)
    attention = plans.attention_text(plan)
    yield "KV cache type", f"{_safe(effective.kv_cache_type)}, flash attention {attention}"
    for figure in plans.plan_figures(plan):
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


def _bar_block(plan: Plan, bar: plans.Bar) -> str:
    """Return a device: its name, a bar, and its parts, which add up to what was free on it."""
    title, details = bar.title, [] if bar.capacity is None else [f"{bytes_text(bar.capacity)} free"]
    if bar.device is not None and plan.layout is not None:
        device = plan.layout.devices[bar.device].device
        title += f" ({_safe(device.key)})" if device.name else ""
    if bar.layers:
        details.append(bar.layers)
    if bar.device is None and plan.layout is not None:
        left = plans.cpu_layers(plan.layout)
        details += ["with the output layer"] if plan.layout.total_layers - 1 in left else []
    parts = [(part.kind, part.nbytes) for part in bar.parts]
    return f"\n{', '.join([style(title, bold=True), *details])}\n{_parts(parts)}"


def _parts(parts: Sequence[tuple[Kind, int]]) -> str:
    """Return a bar, on a terminal, and the size of each part."""
    names = [plans.kind_name(kind) for kind, _ in parts]
    if not on_terminal():
        sizes = (bytes_text(nbytes) for _, nbytes in parts)
        return table(zip(names, sizes, strict=True), right=(1,))
    width = max(_NARROWEST_BAR, min(_WIDEST_BAR, line_width() - len(_INDENT) - 1))
    lengths = bar_lengths([nbytes for _, nbytes in parts], width)
    bar = "".join(
        _mark(kind, length) for (kind, _), length in zip(parts, lengths, strict=True) if length
    )
    lines, used = [_INDENT], 0
    for name, (kind, nbytes) in zip(names, parts, strict=True):
        text = f"{name} {bytes_text(nbytes)}"
        if used and used + len(text) + 4 > width:
            lines.append(_INDENT)
            used = 0
        lines[-1] += f"{_mark(kind)} {text}  "
        used += len(text) + 4
    return "".join(f"{line.rstrip()}\n" for line in (_INDENT + bar, *lines))


def _sentences(title: str, sentences: Sequence[str], colour: str | None) -> str:
    if not sentences:
        return ""
    heading = style(title, bold=True, **({} if colour is None else {"fg": colour}))
    safe = map(plain_text, sentences)
    lines = "".join(f"{_INDENT}{text[:1].upper()}{text[1:]}\n" for text in safe)
    return f"\n{heading}\n{lines}"


def _safe(text: str) -> str:
    return name_cell(text, _LONGEST_NAME)


# Several plans side by side: a table for people, the same in full as CSV for programs.

_HEAD: Final = (
    *("Model", "Profile", "Context", "KV cache type"),
    *plans.PLAN.values(),
    "Result",
)
_NUMBERS: Final = range(4, 4 + len(plans.PLAN))
_LONGEST_ROW_NAME: Final = 60

CSV_HEADER: Final = (
    *("model", "profile", "architecture", "context", "parallel", "batch", "kv_cache_type"),
    *("flash_attention", "weights", "kv_cache", "graph", "gpu_layers", "total_layers"),
    *("fully_offloaded", "gpu_ratio", "quick_estimate_ratio", "vram_total", "cpu_total", "total"),
    *("solved_what", "solved_value", "solved_limited_by", "error"),
)


def plans_table(answers: Sequence[PlannedModel]) -> str:
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
    return (
        _name(path),
        plan.profile,
        plans.sequences_text(plan),
        plain_text(plan.effective.kv_cache_type),
        *(figure.text for figure in plans.plan_figures(plan)),
        plans.verdict(plan).level.value,
    )


def _name(path: str) -> str:
    """Return the end of a path, which distinguishes models."""
    text = plain_text(path)
    return text if len(text) <= _LONGEST_ROW_NAME else "…" + text[1 - _LONGEST_ROW_NAME :]


def _graph_bytes(plan: Plan) -> int:
    """Return the bytes of the compute graph on each GPU that has one."""
    if plan.layout is not None:
        layout = plan.layout
        return layout.full if layout.fully_offloaded else layout.partial
    return 0 if plan.prediction is None else plan.prediction.surcharge_bytes


def csv_rows(answers: Sequence[PlannedModel]) -> Iterator[Sequence[Cell]]:
    """Yield a row for each answer under `CSV_HEADER`; figures without a claim are empty."""
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


def _solved(answer: PlannedModel) -> Sequence[Cell]:
    advice = answer.advice
    return (None,) * 3 if advice is None else (advice.what, advice.value, advice.limited_by)
