"""`gguf-explorer plan`: how much memory models need, and where their layers go."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import click

from explorer.cli import machine, measured, options, output
from explorer.cli.output import line_width, name_cell, on_terminal, style, table
from explorer.errors import ExplorerError, PlanError
from explorer.formats import open_model
from explorer.planner import Device, Hyperparameters, Settings
from explorer.planner.advice import QUESTIONS, Advice, solve
from explorer.planner.devices import MAX_BLOCKS, parse_context, parse_shares, parse_size, quoted
from explorer.planner.engines.llama_cpp import CACHE_TYPES
from explorer.planner.engines.llama_cpp import Settings as LlamaCppSettings
from explorer.planner.inputs import header_to_plan, plan_record
from explorer.planner.profiles import (
    PREDICTION,
    PROFILES,
    default_profile,
    profile_named,
    profiles_for,
)
from explorer.planner.result import Plan, PlanRequest, Term
from explorer.planner.settings import AUTOMATIC
from explorer.present import llama_cpp
from explorer.present import plan as plans
from explorer.present.plan import Kind
from explorer.tabular import Cell
from explorer.text import bytes_text, exact_text, integer_text, plain_text

_ALL: Final = "all"
_CACHE_TYPES: Final = ("f16", "q8_0", "q4_0", "f32")
_UNCHECKED: Final = (
    "whether main memory holds what is left to the CPU was not checked: the GPUs are named, so "
    "they may be another machine's; say --memory SIZE to check it"
)


def _layers(text: str) -> int:
    """Return a number of GPU layers; -1 is "auto"."""
    known = {"auto": AUTOMATIC, "-1": AUTOMATIC, "all": MAX_BLOCKS + 1}
    if text in known:
        return known[text]
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    raise PlanError(f"{quoted(text)!r} is no number of layers; write a number, all or auto")


def _blocks(text: str) -> int:
    """Return a number of blocks whose experts stay on the CPU."""
    if text == "auto":
        raise PlanError("write a number of blocks, or all")
    return max(0, _layers(text))


_LLAMA_CPP_OPTIONS: Final = (
    click.option("--ubatch", type=click.IntRange(min=1), metavar="N", help="Tokens of one step."),
    click.option("--kv-unified/--no-kv-unified", default=None, help="One cache for all sequences."),
    click.option("--cache-type-k", type=click.Choice(CACHE_TYPES), help="Type of the cached keys."),
    click.option("--cache-type-v", type=click.Choice(CACHE_TYPES), help="Type of cached values."),
    click.option(
        "--tensor-split",
        metavar="A,B",
        type=options.parsed_by(parse_shares),
        help="Shares of the GPUs. Default: by free memory.",
    ),
    click.option(
        "cpu_moe_layers",
        "--cpu-moe",
        metavar="N|all",
        type=options.parsed_by(_blocks),
        help="Keep the experts of the first N blocks on the CPU.",
    ),
    click.option("--split-mode", metavar="layer|none", help="none: the first GPU alone."),
    click.option("offload_kv", "--kv-offload/--no-kv-offload", default=None, help="Cache on GPUs."),
    click.option("--swa-full", is_flag=True, default=None, help="Whole cache for sliding windows."),
    click.option(
        "--reserve",
        metavar="SIZE",
        type=options.parsed_by(parse_size),
        help="Memory of each GPU for the driver and what a plan cannot see. Default: 512MiB.",
    ),
    click.option(
        "--margin",
        metavar="SIZE",
        type=options.parsed_by(parse_size),
        help="Memory that llama.cpp leaves free on each GPU when it decides. Default: 1GiB.",
    ),
)
"""What only llama.cpp's own profiles read."""


def _llama_cpp_options(command: Callable[..., int]) -> Callable[..., int]:
    for option in reversed(_LLAMA_CPP_OPTIONS):
        command = option(command)
    return command


@click.command("plan")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, callback=options.not_empty)
@options.root_option
@options.offline_option
@click.option(
    "--context",
    metavar="N",
    type=options.parsed_by(parse_context),
    help="Tokens, such as 32768 or 32k: of each sequence; of llama.cpp in all, 0 leaves it open.",
)
@click.option("--parallel", type=click.IntRange(min=1), metavar="N", help="Sequences at a time.")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Tokens computed at a time.")
@click.option(
    "--kv-cache-type",
    type=click.Choice(_CACHE_TYPES),
    help="Type of the KV cache; f32 is a what-if.",
)
@click.option("--flash-attention/--no-flash-attention", default=None, help="Ask for it or not.")
@machine.gpu_option(
    "A GPU: its free memory, its name, or KEY=VALUE,… Once for each. Default: this machine's."
)
@click.option(
    "num_gpu",
    "--num-gpu",
    "--gpu-layers",
    metavar="N|all|auto",
    type=options.parsed_by(_layers),
    help="Layers to put on GPUs; auto leaves it to the program.",
)
@click.option(
    "--overhead",
    metavar="SIZE",
    type=options.parsed_by(parse_size),
    help="Memory to hold back on each GPU.",
)
@click.option("--spread", is_flag=True, default=None, help="Use all GPUs, not as few as possible.")
@click.option(
    "--memory",
    metavar="SIZE",
    type=options.parsed_by(parse_size),
    help="Free main memory, for layers that stay on the CPU.",
)
@click.option(
    "--projector", type=click.Path(), metavar="FILE", help="A separate file with the projector."
)
@click.option(
    "--profile",
    type=click.Choice([*PROFILES, _ALL]),
    help="Whose rules to follow; all: side by side. Default: llama.cpp, in Ollama's store ollama.",
)
@_llama_cpp_options
@click.option(
    "question", "--solve", type=click.Choice(list(QUESTIONS)), help="Also find the most that fits."
)
@click.option("--explain", is_flag=True, help="Print each figure with its formula.")
@click.option(
    "csv_path",
    "--csv",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Save a table as CSV.",
)
@measured.log_option
@measured.bandwidth_option
@options.json_option
def plan_command(  # noqa: PLR0913, PLR0917 - one for each option; click passes them by name
    paths: Sequence[str],
    root: str | None,
    gpus: Sequence[Device],
    memory: int | None,
    projector: str | None,
    profile: str | None,
    question: str | None,
    explain: bool,
    csv_path: Path | None,
    log_path: str | None,
    bandwidths: Sequence[tuple[str, int]],
    as_json: bool,
    **settings: Any,
) -> int:
    """Show how much memory each model at PATH needs, and which layers each GPU gets.

    Follows llama.cpp's own rules, or the arithmetic of Ollama 0.13.3 to the byte. Reads headers
    only, never the weights. What is left out is what llama-server or Ollama would take; of Ollama's
    profiles its environment variables count.

    A SPEC is 24GiB (free memory), "RTX 3090" (a name of the catalogue), or
    "name=NVIDIA L4,free=22.5GiB,total=24GiB,library=CUDA,integrated=no".

    \b
    Examples:
      gguf-explorer plan model.gguf --gpu 12GiB
      gguf-explorer plan model.gguf --context 32k --gpu 24GiB --gpu "RTX 3060 12GB"
      gguf-explorer plan model.gguf --gpu "M3 Max 64GB" --solve context
      gguf-explorer plan *.gguf --context 16k --parallel 4 --csv plans.csv
      gguf-explorer plan ollama:llama3 --context 8k --profile all --json
      gguf-explorer plan model.gguf --log server.log
    """
    if question is not None and profile == PREDICTION.name:
        raise click.UsageError(f"--solve needs a layout of layers; {profile} predicts none")
    chosen = _chosen(settings)
    devices, host, notes = machine.find_machine(gpus, memory)
    log_file, given = measured.read_log_option(log_path), dict(bandwidths)
    base = _llama_cpp_settings(chosen, len(devices))
    found: list[PlannedModel] = []
    for path in paths:  # a model that cannot be planned does not stop the others
        try:
            h, nbytes = _read(path, root, projector)
            compared = None if log_file is None else _compared(path, root, log_file, base, given)
        except ExplorerError as error:
            found.append(PlannedModel(path, profile or "", failure=_failure(path, error)))
        else:
            names = _profiles_for(h, profile)
            asked = measured.with_log(chosen, compared, names, len(devices))
            request = PlanRequest(
                h, replace(asked, projector_bytes=nbytes), devices, host, os.environ
            )
            plans_made = [_planned(path, name, request, question, notes) for name in names]
            found += [replace(one, compared=compared, bandwidths=given) for one in plans_made]
    output.save_csv(csv_path, CSV_HEADER, map(csv_row, found))
    _print(found, as_json=as_json, explain=explain)
    for failure in dict.fromkeys(one.failure for one in found if one.failure):
        output.write_error(failure)
    return 1 if any(one.plan is None for one in found) else 0


def _chosen(settings: Mapping[str, Any]) -> Settings:
    """Return the settings that options gave; a number that no computer has is wrong usage."""
    try:
        return Settings(**settings)
    except PlanError as error:
        raise click.UsageError(str(error)) from error


def _profiles_for(h: Hyperparameters, profile: str | None) -> list[str]:
    """Return the profiles to plan a model by; all are those that can read its format."""
    if profile != _ALL:
        return [default_profile(h) if profile is None else profile]
    return profiles_for(h)


def _print(found: Sequence[PlannedModel], *, as_json: bool, explain: bool) -> None:
    one = found[0]
    if len(found) > 1 and as_json:
        output.write_json({"plans": [{"path": one.path} | _record(one) for one in found]})
    elif len(found) > 1 and _is_one_model(found):
        output.write(side_by_side_text(found))
    elif len(found) > 1:
        output.write(plans_table(found))
    elif one.plan is not None and as_json:
        output.write_json(_record(one))
    elif one.plan is not None:
        more = (
            ""
            if one.plan.llama_cpp is None
            else measured.Speed.of(one.plan.llama_cpp, one.bandwidths).text()
        )
        more += "" if one.compared is None else one.compared.text()
        explained = terms_text(one.plan.terms) if explain else ""
        output.write(plan_text(one, one.plan) + explained + more)


def _is_one_model(found: Sequence[PlannedModel]) -> bool:
    """Return whether they are profiles of one model, not several models."""
    profiles = {one.profile for one in found}
    return len(profiles) == len(found) and len({one.path for one in found}) == 1


def _record(found: PlannedModel) -> dict[str, Any]:
    """Return the JSON object of a plan; without a plan, what went wrong."""
    if found.plan is None:
        failure = {"what": found.failure, "reason": found.reason}
        return {"path": found.path, "profile": found.profile, "error": failure}
    record = plan_record(found.plan, found.advice)
    record["notes"] = [*record["notes"], *found.notes]
    if found.compared is not None or found.plan.llama_cpp is not None:
        record["measured"] = None if found.compared is None else found.compared.record()
    if found.plan.llama_cpp is not None:
        record["speed_bound"] = measured.Speed.of(found.plan.llama_cpp, found.bandwidths).record()
    return record


def _read(path: str, root: str | None, projector: str | None) -> tuple[Hyperparameters, int]:
    """Return what the formulas need of a model's header, and the bytes of a separate projector."""
    with open_model(options.model_path(path, root)) as model:
        h = header_to_plan(model)
        projector_path = projector or model.projector
    if projector_path is None:
        return h, 0
    with open_model(projector_path) as separate:
        return h, separate.nbytes


def _llama_cpp_settings(chosen: Settings, devices: int) -> LlamaCppSettings:
    """Return what a log that does not tell it is taken to mean."""
    asked = {"context": chosen.context, "parallel": chosen.parallel, "ubatch": chosen.batch}
    told: dict[str, Any] = {name: value for name, value in asked.items() if value}
    return replace(LlamaCppSettings(devices=devices), **told)


def _compared(
    path: str,
    root: str | None,
    log_file: measured.LogFile,
    base: LlamaCppSettings,
    given: Mapping[str, int],
) -> measured.Compared:
    """Return a log beside the plan of a model with its settings."""
    with open_model(options.model_path(path, root)) as model:
        return measured.compare_log(model, log_file, base, given)


def _planned(
    path: str, profile: str, request: PlanRequest, question: str | None, notes: tuple[str, ...]
) -> PlannedModel:
    try:
        advice = None
        if question is not None and profile != PREDICTION.name:
            advice = solve(question, request, profile=profile)
        plan = _plan(profile, request, advice)
    except PlanError as error:
        return PlannedModel(path, profile, failure=_failure(path, error), reason=error.reason)
    if request.host is None and plan.layers and not plan.fully_offloaded:
        notes += (_UNCHECKED,)
    return PlannedModel(path, profile, plan, advice, notes=notes)


def _failure(path: str, error: ExplorerError) -> str:
    """Return an error as text; the planner knows no files, so its message has no path yet."""
    return str(error) if error.path is not None else f"{path}: {error}"


def _plan(profile: str, request: PlanRequest, advice: Advice | None) -> Plan:
    """Return the plan of what was asked for; where Ollama would refuse that, of the answer."""
    try:
        return profile_named(profile).plan(request)
    except PlanError as error:
        if error.reason is None or advice is None or advice.value is None:
            raise
    settings = replace(request.settings, **plans.advice_changes(advice))
    return profile_named(profile).plan(replace(request, settings=settings))


_INDENT: Final = "  "
_WIDEST_BAR: Final = 96
_NARROWEST_BAR: Final = 20
_LONGEST_NAME: Final = 120
_SHOWN_INPUTS: Final = 8
_COLOURS: Final = {plans.Level.FITS: "green", plans.Level.PARTLY: "yellow", plans.Level.NOT: "red"}


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """One model by one profile."""

    path: str  # the model as it was named
    profile: str
    plan: Plan | None = None
    advice: Advice | None = None  # the answer to --solve, or None
    failure: str = ""  # why there is no plan
    reason: str | None = None  # "requires full" or "system memory" where Ollama would refuse
    notes: tuple[str, ...] = ()  # notes on the machine
    compared: measured.Compared | None = None  # the log of --log beside the plan
    bandwidths: Mapping[str, int] = field(default_factory=dict)  # those that the user gave


# A block character, one for terminals without them, and a colour of `click.style`: parts differ by
# the character, not only by colour.
_LOOKS: Final = {
    Kind.WEIGHTS: ("█", "#", "blue"),
    Kind.KV_CACHE: ("▓", "=", "green"),
    Kind.GRAPH: ("▒", "+", "yellow"),
    Kind.PROJECTOR: ("◆", "@", "cyan"),
    Kind.RESERVED: ("░", "-", "magenta"),
    Kind.FREE: ("·", ".", "bright_black"),
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
    block, plain, colour = _LOOKS[kind]
    return style((block if _has_blocks() else plain) * length, fg=colour)


def _has_blocks() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        "█▓▒░·◆".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def plan_text(found: PlannedModel, plan: Plan) -> str:
    """Return everything about the plan that was found."""
    verdict = plans.verdict(plan)
    sentence = style(verdict.sentence, fg=_COLOURS[verdict.level])
    blocks = [f"{style(_safe(found.path), bold=True)}: {sentence}\n"]
    if found.advice is not None:
        blocks.append(_advice(found.advice))
    blocks.append(table(_facts(plan)))
    bars = plans.memory_bars(plan, None)
    shown = [bar for bar in bars if bar.device is not None or bar.held_bytes]
    blocks += [_bar_block(plan, bar) for bar in shown]
    if plan.llama_cpp is not None:
        rows = [llama_cpp.BUFFERS, *llama_cpp.buffer_rows(plan.llama_cpp)]
        blocks.append(f"\n{table(rows, right=(1, 2, 3, 4))}")
        words = shlex.join(plan.llama_cpp.arguments())
        blocks.append(f"\n{style('Arguments of llama-server', bold=True)}\n{_INDENT}{words}\n")
    blocks.append(_sentences("Warnings", plan.warnings, "yellow"))
    blocks.append(_sentences("Notes", (*plan.notes, *found.notes), None))
    return "".join(blocks)


def side_by_side_text(found: Sequence[PlannedModel]) -> str:
    """Return the profiles of one model as a table, and a sentence on why they differ."""
    rows = [llama_cpp.ProfileRow(one.profile, one.plan, "refused") for one in found]
    cells = [tuple(map(plain_text, row.cells())) for row in rows]
    shown = table([llama_cpp.SIDE_BY_SIDE, *cells], right=range(2, 7))
    why = llama_cpp.why_profiles_differ(rows)
    return f"{style(_safe(found[0].path), bold=True)}\n{shown}\n{_INDENT}{why}\n"


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
    answer = style(f"{plans.QUESTIONS[advice.what].full_title}: {text}", bold=True)
    return f"{_INDENT}{answer}\n{_INDENT}limited by: {plain_text(advice.limited_by)}\n\n"


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what holds for the model as a whole."""
    effective, layout = plan.effective, plan.layout
    yield "Architecture", _safe(plan.request.h.architecture)
    yield "Profile", f"{plan.profile}: {profile_named(plan.profile).title}"
    if plan.llama_cpp is not None:
        yield "Decided", llama_cpp.decision_sentence(plan.llama_cpp)
        yield "Accuracy", llama_cpp.accuracy_sentence(plan.llama_cpp)
    sequences = " sequences" if effective.parallel > 1 else " tokens"
    yield "Context", plans.sequences_text(plan) + sequences
    yield "Batch", integer_text(plan.batch)
    attention = plans.attention_text(plan)
    yield "KV cache type", f"{_safe(effective.kv_cache_type)}, flash attention {attention}"
    for figure in plans.plan_figures(plan):
        if figure.name == "gpu_layers" and layout is not None:
            graphs = f"{bytes_text(layout.full)} full, {bytes_text(layout.partial)} partial"
            yield "Graph by offload", graphs
            yield figure.label, f"{figure.text} ({_ratio(plan)})"
        elif figure.name == "gpu_layers" and figure.value is not None:
            yield figure.label, figure.text
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
        left = plan.layout.cpu_layers
        details += ["with the output layer"] if plan.layout.total_layers - 1 in left else []
    parts = [(part.kind, part.nbytes) for part in bar.parts]
    return f"\n{', '.join([style(title, bold=True), *details])}\n{_parts(parts)}"


def _parts(parts: Sequence[tuple[Kind, int]]) -> str:
    """Return a bar, on a terminal, and the size of each part."""
    names = [kind.label for kind, _ in parts]
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

_HEAD: Final = (*("Model", "Profile", "Context", "KV cache type"), *plans.PLAN.values(), "Result")
_NUMBERS: Final = range(4, 4 + len(plans.PLAN))
_LONGEST_ROW_NAME: Final = 60

CSV_HEADER: Final = (
    *("model", "profile", "architecture", "context", "parallel", "batch", "kv_cache_type"),
    *("flash_attention", "weights", "kv_cache", "graph", "gpu_layers", "total_layers"),
    *("fully_offloaded", "gpu_ratio", "quick_estimate_ratio", "vram_total", "cpu_total", "total"),
    *("solved_what", "solved_value", "solved_limited_by", "error"),
)


def plans_table(found: Sequence[PlannedModel]) -> str:
    """Return a line for each plan, and for each warning."""
    made = [(_name(one.path), one.plan) for one in found if one.plan is not None]
    rows = [_HEAD, *(_row(name, plan) for name, plan in made)]
    text = table(rows, right=(2, *_NUMBERS), indent="") if made else ""
    warnings = dict.fromkeys(
        f"{name}: {plain_text(warning)}\n" for name, plan in made for warning in plan.warnings
    )
    return text + ("\n" + "".join(warnings) if warnings else "")


def _row(name: str, plan: Plan) -> Sequence[str]:
    return (
        name,
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


def csv_row(found: PlannedModel) -> dict[str, Cell]:
    """Return the cells of a plan by `CSV_HEADER`; figures without a claim are empty."""
    row: dict[str, Cell] = {"model": found.path, "profile": found.profile}
    plan, advice = found.plan, found.advice
    if plan is None:
        return row | {"error": found.failure}
    effective, layout = plan.effective, plan.layout
    row |= {
        "architecture": plan.request.h.architecture,
        "context": effective.context,
        "parallel": effective.parallel,
        "batch": effective.batch if layout is None else layout.batch,
        "kv_cache_type": effective.kv_cache_type,
        "flash_attention": effective.flash_attention,
        "weights": plan.weights,
        "kv_cache": plan.kv_total,
        "graph": _graph_bytes(plan),
        "gpu_layers": plan.gpu_layers,
        "total_layers": plan.request.h.total_layers,
        "fully_offloaded": plan.fully_offloaded,
        "gpu_ratio": plan.gpu_ratio,
        "quick_estimate_ratio": plan.quick_estimate_ratio,
        "vram_total": plan.vram_total,
        "cpu_total": None if layout is None else layout.cpu_weights + layout.cpu_kv_cache,
        "total": plan.total,
    }
    if advice is not None:
        row |= {
            "solved_what": advice.what,
            "solved_value": advice.value,
            "solved_limited_by": advice.limited_by,
        }
    return row
