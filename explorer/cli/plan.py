"""`gguf-explorer plan`: how much memory models need, and where their layers go."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from explorer.cli import measured, options, output
from explorer.cli.output import line_width, name_cell, on_terminal, style, table
from explorer.errors import ExplorerError, PlanError
from explorer.formats import open_model
from explorer.hardware.catalogue import CatalogueError, load_catalogue
from explorer.hardware.detect import detect
from explorer.planner import Device, Host, Hyperparameters, Settings, llama_cpp
from explorer.planner.advice import QUESTIONS, Advice, solve
from explorer.planner.devices import LookUp, parse_context, parse_gpu, parse_size
from explorer.planner.inputs import plan_record
from explorer.planner.profiles import GRAPH_SIZE, PROFILES, profile_named
from explorer.planner.result import Plan, PlanRequest, Term
from explorer.present import plan as plans
from explorer.present.plan import Kind
from explorer.tabular import Cell
from explorer.text import bytes_text, exact_text, integer_text, plain_text

_ALL: Final = "all"
_CACHE_TYPES: Final = ("f16", "q8_0", "q4_0", "f32")
_SIZED: Final = re.compile(r"(?:^|,)\s*(?:free|total)\s*=")
_UNIT: Final = re.compile(r"[0-9.]+\s*(?:[kmgtpe]i?b?|b|bytes)", re.IGNORECASE)
_MIN_SIZE: Final = 1 << 20  # "3090" is a card, not a memory of 3,090 bytes
_UNCHECKED: Final = (
    "whether main memory holds what is left to the CPU was not checked: the GPUs are named, so "
    "they may be another machine's; say --memory SIZE to check it"
)


def named_gpus(
    _context: click.Context, _parameter: click.Parameter, specs: Sequence[str]
) -> list[Device]:
    """Return the GPUs of all SPECs of an option; a callback of click."""
    return [
        options.parsed_by(partial(named_gpu, position=position))(spec)
        for position, spec in enumerate(specs)
    ]


def named_gpu(text: str, position: int) -> Device:
    """Return the GPU of a SPEC; names are looked up in the catalogue.

    Args:
        text: ``24GiB``, ``RTX 3090``, or ``name=NVIDIA L4,free=22.5GiB``.
        position: Number of the GPU among those named.

    Raises:
        ExplorerError: It is no SPEC, or the name fits no GPU or several.
    """
    if _is_size(text.strip()):  # no name, though a dozen GPUs have "24 GB" in theirs
        return parse_gpu(text, position)
    return parse_gpu(text, position, _look_up(sized=_SIZED.search(text) is not None))


def _is_size(text: str) -> bool:
    if text.isascii() and text.isdigit() and len(text) < 8:
        return int(text) >= _MIN_SIZE
    return text.isdigit() or _UNIT.fullmatch(text) is not None


def _look_up(*, sized: bool) -> LookUp:
    """Return a function that finds a GPU by its name.

    Args:
        sized: The SPEC has the size of the memory, so that the name need not be known; the GPU gets
            the properties that all GPUs of that name share.
    """

    def find(name: str) -> Device | None:
        catalogue = load_catalogue()
        try:
            return catalogue.find(name).device()
        except CatalogueError as error:
            if not sized:
                raise
            several = [catalogue.find(candidate) for candidate in error.matching]
        alike = {(gpu.library, gpu.compute, gpu.integrated) for gpu in several}
        if len(alike) != 1:
            return None
        return replace(several[0].device(), name=name, total=None)

    return find


@click.command("plan")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, callback=options.not_empty)
@options.root_option
@click.option(
    "--context",
    metavar="N",
    type=options.parsed_by(parse_context),
    help="Tokens of each sequence, such as 32768 or 32k.",
)
@click.option("--parallel", type=click.IntRange(min=1), metavar="N", help="Sequences at a time.")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Tokens computed at a time.")
@click.option(
    "--kv-cache-type",
    type=click.Choice(_CACHE_TYPES),
    help="Type of the KV cache; f32 is a what-if.",
)
@click.option("--flash-attention/--no-flash-attention", default=None, help="Ask for it or not.")
@click.option(
    "gpus",
    "--gpu",
    multiple=True,
    metavar="SPEC",
    callback=named_gpus,
    help="A GPU: its free memory, its name, or KEY=VALUE,… Once for each. Default: this machine's.",
)
@click.option("--num-gpu", type=click.IntRange(min=-1), metavar="N", help="Layers to put on GPUs.")
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
    default=GRAPH_SIZE.name,
    help="Releases of Ollama whose rules to follow.",
)
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
    profile: str,
    question: str | None,
    explain: bool,
    csv_path: Path | None,
    log_path: str | None,
    bandwidths: Sequence[tuple[str, int]],
    as_json: bool,
    **settings: Any,
) -> int:
    """Show how much memory each model at PATH needs, and which layers each GPU gets.

    Follows the arithmetic of Ollama 0.13.3 to the byte. Reads headers only, never the weights.
    Where an option is left out, Ollama's environment variables and defaults count.

    A SPEC is 24GiB (free memory), "RTX 3090" (a name of the catalogue), or
    "name=NVIDIA L4,free=22.5GiB,total=24GiB,library=CUDA,integrated=no".

    \b
    Examples:
      gguf-explorer plan model.gguf --context 32k
      gguf-explorer plan model.gguf --context 8192 --gpu 24GiB --gpu "RTX 3060 12GB"
      gguf-explorer plan model.gguf --gpu "M3 Max 64GB" --solve context
      gguf-explorer plan *.gguf --context 16k --parallel 4 --csv plans.csv
      gguf-explorer plan ollama:llama3 --context 8k --profile all --json
      gguf-explorer plan model.gguf --log server.log
    """
    profiles = list(PROFILES) if profile == _ALL else [profile]
    if question is not None and GRAPH_SIZE.name not in profiles:
        raise click.UsageError(f"--solve needs a layout of layers; {profile} predicts none")
    try:
        chosen = Settings(**settings)
    except PlanError as error:  # a number that no computer has
        raise click.UsageError(str(error)) from error
    devices, host, notes = find_machine(gpus, memory)
    log_file, given = measured.read_log_option(log_path), dict(bandwidths)
    base = _llama_cpp_settings(chosen, len(devices))
    found: list[PlannedModel] = []
    for path in paths:  # a model that cannot be planned does not stop the others
        try:
            h, projector_bytes = _read(path, root, projector)
            compared = None if log_file is None else _compared(path, root, log_file, base, given)
        except ExplorerError as error:
            found += [PlannedModel(path, name, failure=str(error)) for name in profiles]
        else:
            asked = replace(chosen, projector_bytes=projector_bytes)
            request = PlanRequest(h, asked, devices, host, os.environ)
            plans_made = [_planned(path, name, request, question, notes) for name in profiles]
            found += [replace(one, compared=compared) for one in plans_made]
    output.save_csv(csv_path, CSV_HEADER, map(csv_row, found))
    _print(found, as_json=as_json, explain=explain)
    for failure in dict.fromkeys(one.failure for one in found if one.failure):
        output.write_error(failure)
    return 1 if any(one.plan is None for one in found) else 0


def _print(found: Sequence[PlannedModel], *, as_json: bool, explain: bool) -> None:
    one = found[0]
    if len(found) > 1 and as_json:
        output.write_json({"plans": [{"path": one.path} | _record(one) for one in found]})
    elif len(found) > 1:
        output.write(plans_table(found))
    elif one.plan is not None and as_json:
        output.write_json(_record(one))
    elif one.plan is not None:
        more = "" if one.compared is None else one.compared.text()
        explained = terms_text(one.plan.terms) if explain else ""
        output.write(plan_text(one, one.plan) + explained + more)


def _record(found: PlannedModel) -> dict[str, Any]:
    """Return the JSON object of a plan; without a plan, what went wrong."""
    if found.plan is None:
        failure = {"what": found.failure, "reason": found.reason}
        return {"path": found.path, "profile": found.profile, "error": failure}
    record = plan_record(found.plan, found.advice)
    record["notes"] = [*record["notes"], *found.notes]
    if found.compared is not None:
        record["measured"] = found.compared.record()
    return record


def find_machine(
    named: Sequence[Device], memory: int | None
) -> tuple[tuple[Device, ...], Host | None, tuple[str, ...]]:
    """Return GPUs and main memory of the machine to plan for, and notes on the search for them.

    Args:
        named: GPUs that were named; none means this machine's.
        memory: Free bytes of main memory, or None for this machine's where its GPUs are meant.
    """
    if not named:
        machine = detect()
        host = machine.host if memory is None else replace(machine.host, free=memory, swap=0)
        return machine.devices, host, machine.notes
    mac = next((device for device in named if device.library == "Metal"), None)
    if mac is not None:  # its memory is the machine's
        total = mac.capacity_bytes
        free = total - mac.free if memory is None else memory
        return tuple(named), Host(free, total=total, macos=True), ()
    return tuple(named), None if memory is None else Host(memory), ()


def _read(path: str, root: str | None, projector: str | None) -> tuple[Hyperparameters, int]:
    """Return what the formulas need of a model's header, and the bytes of a separate projector."""
    with open_model(options.model_path(path, root)) as model:
        h = Hyperparameters.from_model(model)
        projector_path = projector or model.projector
    if projector_path is None:
        return h, 0
    with open_model(projector_path) as separate:
        return h, separate.nbytes


def _llama_cpp_settings(chosen: Settings, devices: int) -> llama_cpp.Settings:
    """Return what a log that does not tell it is taken to mean."""
    asked = {"context": chosen.context, "parallel": chosen.parallel, "ubatch": chosen.batch}
    told: dict[str, Any] = {name: value for name, value in asked.items() if value}
    return replace(llama_cpp.Settings(devices=devices), **told)


def _compared(
    path: str,
    root: str | None,
    log_file: measured.LogFile,
    base: llama_cpp.Settings,
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
        if question is not None and profile == GRAPH_SIZE.name:
            advice = solve(question, request)
        plan = _plan(profile, request, advice)
    except PlanError as error:
        # the planner knows no files, so its message has no path yet
        failure = str(error) if error.path is not None else f"{path}: {error}"
        return PlannedModel(path, profile, failure=failure, reason=error.reason)
    if request.host is None and plan.layout is not None and not plan.layout.fully_offloaded:
        notes += (_UNCHECKED,)
    return PlannedModel(path, profile, plan, advice, notes=notes)


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
    blocks.append(_sentences("Warnings", plan.warnings, "yellow"))
    blocks.append(_sentences("Notes", (*plan.notes, *found.notes), None))
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
    answer = style(f"{plans.QUESTIONS[advice.what].full_title}: {text}", bold=True)
    return f"{_INDENT}{answer}\n{_INDENT}limited by: {plain_text(advice.limited_by)}\n\n"


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what holds for the model as a whole."""
    effective, layout = plan.effective, plan.layout
    yield "Architecture", _safe(plan.request.h.architecture)
    yield "Profile", plan.profile
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
