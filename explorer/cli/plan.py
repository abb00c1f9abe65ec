"""`gguf-explorer plan`: how much memory models need, and where their layers go."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from explorer.cli import machine, options, output
from explorer.cli.output import line_width, name_cell, on_terminal, style, table, table_of
from explorer.cli.speed import bandwidth_option, plan_speed, speed_record_of, speed_text
from explorer.errors import ExplorerError, PlanError
from explorer.formats import open_model
from explorer.formats.model import Model
from explorer.planner import Device, Host, Hyperparameters, Settings
from explorer.planner.advice import QUESTIONS, Advice, solve
from explorer.planner.attachments import (
    KINDS,
    Attachment,
    check_together,
    projector_bytes,
    read_attachment,
)
from explorer.planner.devices import parse_context, parse_memory, parse_shares, quoted
from explorer.planner.engines.registry import ENGINES, default_engine, engine_named, engines_for
from explorer.planner.inputs import header_to_plan, plan_record
from explorer.planner.plans import Engine, Holding, Level, Plan, Term
from explorer.planner.request import PlanRequest
from explorer.planner.settings import (
    AUTOMATIC,
    BUILD,
    MOST_LAYERS,
    SETTINGS,
    Bytes,
    Count,
    OneOf,
    Ratio,
    Shares,
    Switch,
    Tokens,
)
from explorer.planner.together import Loaded, load_first, usual_inputs
from explorer.present import engines, suggestions
from explorer.present import plan as plans
from explorer.present.engines import PlanRow
from explorer.present.plan import Kind, rules_text
from explorer.present.tables.plans import BUFFERS, INPUTS, PLAN_FILE, PLANS
from explorer.present.tables.plans import ENGINES as SIDE_BY_SIDE
from explorer.text import bytes_text, exact_text, integer_text, plain_text, sentence

if TYPE_CHECKING:
    from explorer.cli.measured import Compared

_ALL: Final = "all"
_OWN: Final = "own"
_MOST_CHOICES: Final = 9  # that help lists
_UNCHECKED: Final = (
    "whether main memory holds what is left to the CPU was not checked: the GPUs are named, so "
    "they may be another machine's. Say --memory SIZE to check it"
)


def _layers(text: str) -> int:
    """Return a number of GPU layers; -1 is "auto"."""
    known = {"auto": AUTOMATIC, "-1": AUTOMATIC, "all": MOST_LAYERS}
    if text in known:
        return known[text]
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    raise PlanError(f"{quoted(text)!r} is not a number of layers. Write a number, all or auto")


def _blocks(text: str) -> int:
    """Return a number of blocks whose experts stay on the CPU."""
    if text == "auto":
        raise PlanError("write a number of blocks, or all")
    return max(0, _layers(text))


def _build(text: str) -> int | str:
    """Return the number of a build; ``"own"`` is the build of the user's own llama.cpp."""
    if re.fullmatch(f"[1-9][0-9]{{0,5}}|{_OWN}", text) is None:
        raise PlanError(f"{quoted(text)!r} is not a build. Write its number, such as 9849, or own")
    return text if text == _OWN else int(text)


_OTHERWISE: Final = {BUILD.name: {"metavar": "N|own", "type": options.parsed_by(_build)}}


def _own_build() -> int:
    """Ask the user's own llama.cpp which build it is."""
    from explorer.hardware import own_build  # noqa: PLC0415 - few plans ask

    program = own_build.find_program()
    found = own_build.build_of(program)
    if found is None:
        raise own_build.OwnBuildError("it does not say its build. Write --build N", program)
    return found


def _setting_options(command: Callable[..., int]) -> Callable[..., int]:
    for setting in reversed(SETTINGS):
        keywords: dict[str, Any] = {"default": None}
        keywords["help"] = f"{setting.tip}. {setting.more}".rstrip()
        match setting.kind:
            case Tokens():
                keywords |= {"metavar": "N", "type": options.parsed_by(parse_context)}
            case Count(layers=True, auto=auto):
                words = "N|all" if auto == 0 else "N|all|auto"
                parse = _blocks if auto == 0 else _layers
                keywords |= {"metavar": words, "type": options.parsed_by(parse)}
            case Count():
                keywords |= {"metavar": "N", "type": click.IntRange(min=1)}
            case Bytes():
                keywords |= {"metavar": "SIZE", "type": options.parsed_by(parse_memory)}
            case Ratio():
                keywords |= {"metavar": "F", "type": click.FloatRange(0, 1, min_open=True)}
            case Shares():
                keywords |= {"metavar": "A,B", "type": options.parsed_by(parse_shares)}
            case OneOf(choices=choices, advice=""):
                keywords |= {"type": click.Choice(choices)}
                if len(choices) > _MOST_CHOICES:
                    keywords["metavar"] = "TYPE"
            case OneOf(choices=choices):  # another text is explained
                keywords |= {"metavar": "|".join(choices)}
            case Switch(only_on=only_on):
                keywords |= {"is_flag": True} if only_on else {}
        keywords |= _OTHERWISE.get(setting.name, {})
        command = click.option(setting.name, *setting.options, **keywords)(command)
    return command


@click.command("plan")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, callback=options.not_empty)
@options.root_option
@options.offline_option
@_setting_options
@machine.gpu_option(
    "A GPU: its free memory, its name, or KEY=VALUE,… Once for each. Default: this machine's."
)
@machine.memory_option("Free main memory, for layers that stay on the CPU.")
@options.path_option("--projector", "A separate file with the projector.")
@options.path_option(
    "--lora",
    "A LoRA adapter that llama.cpp loads with it. Once for each.",
    name="loras",
    multiple=True,
)
@options.path_option(
    "--draft", "A draft model that llama.cpp loads beside it (speculative decoding)."
)
@options.path_option(
    "--also",
    "A model that is loaded already, with 8,192 tokens: its memory is taken off. Repeatable.",
    multiple=True,
)
@click.option(
    "--profile",
    type=click.Choice([*ENGINES, _ALL]),
    help="Rules to follow. `all` compares them. Default: by where the model lies.",
)
@click.option(
    "question", "--solve", type=click.Choice(list(QUESTIONS)), help="Also find the most that fits."
)
@click.option("--explain", is_flag=True, help="Print each figure with its formula.")
@options.path_option("--csv", "Save a table as CSV.", name="csv_path", kind=options.PATH)
@options.path_option(
    "--log",
    "Plan with the settings of a log and show what it measured; - reads standard input.",
    name="log_path",
)
@bandwidth_option
@options.json_option
def plan_command(  # noqa: PLR0913, PLR0917 - one for each option; click passes them by name
    paths: Sequence[str],
    root: str | None,
    gpus: Sequence[Device],
    memory: int | None,
    projector: str | None,
    loras: Sequence[str],
    draft: str | None,
    also: Sequence[str],
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

    Follows llama.cpp's own rules, vLLM's, or the arithmetic of Ollama 0.13.3 to the byte. Reads
    headers only, never the weights. What is left out is what the program would take; of Ollama's
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
      gguf-explorer plan Llama-3.1-8B --gpu "RTX 4090" --gpu "RTX 4090" --tensor-parallel 2
    """
    if settings["build"] == _OWN:
        settings["build"] = _own_build()
    chosen = _chosen(settings)
    devices, host, notes = machine.find_machine(gpus, memory)
    given, compare = dict(bandwidths), None
    if log_path is not None:
        from explorer.cli import measured  # noqa: PLC0415 - few plans have a log
        from explorer.planner.logs.measured import assumed_settings  # noqa: PLC0415 - as above

        compare = partial(
            measured.compare_log,
            file=measured.read_log_option(log_path),
            base=assumed_settings(chosen, len(devices)),
            given=given,
            machine=devices,
        )
    attached = [_attached(one, root, "lora") for one in loras]
    if draft is not None:
        attached.append(_attached(draft, root, "draft"))
    devices, host, loaded = _load_first(also, root, devices, host)
    notes += tuple(_also_note(one) for one in loaded)
    found: list[Planned] = []
    for path in paths:  # a model that cannot be planned does not stop the others
        try:
            h, beside = _read(path, root, projector)
            compared = None if compare is None else _compared(path, root, compare)
        except ExplorerError as error:
            found.append(Planned(path, refusal=_failure(path, error), profile=profile or ""))
        else:
            chosen_engines = _engines_for(h, profile, devices)
            asked = chosen
            if compared is not None:
                asked = compared.with_log(chosen, chosen_engines, len(devices))
            together = (*beside, *attached)
            asked = replace(asked, projector_bytes=projector_bytes(together))
            request = PlanRequest(h, asked, devices, host, os.environ, together)
            plans_made = [_planned(path, one, request, question, notes) for one in chosen_engines]
            found += [
                replace(one, compared=compared, bandwidths=given, also=loaded) for one in plans_made
            ]
    output.TableFiles(csv_path, None).save(PLAN_FILE.names, map(PLAN_FILE.flat, found))
    _print(found, as_json=as_json, explain=explain)
    for failure in dict.fromkeys(one.refusal for one in found if one.refusal):
        output.write_error(failure)
    return 1 if any(one.plan is None for one in found) else 0


def _chosen(settings: Mapping[str, Any]) -> Settings:
    """Return the settings that options gave; a number that no computer has is wrong usage."""
    try:
        return Settings(**settings)
    except PlanError as error:
        raise click.UsageError(str(error)) from error


def _engines_for(
    h: Hyperparameters, profile: str | None, devices: Sequence[Device]
) -> list[Engine]:
    """Return the engines to plan a model by; all are those that can load it on these GPUs."""
    if profile != _ALL:
        return [default_engine(h, devices) if profile is None else engine_named(profile)]
    return engines_for(h, devices)


def _print(found: Sequence[Planned], *, as_json: bool, explain: bool) -> None:
    one = found[0]
    if len(found) > 1 and as_json:
        output.write_json({"plans": [{"path": one.name} | _record(one) for one in found]})
    elif len(found) > 1 and _is_one_model(found):
        output.write(side_by_side_text(found))
    elif len(found) > 1:
        output.write(plans_table(found))
    elif one.plan is not None and as_json:
        output.write_json(_record(one))
    elif one.refused and as_json:
        output.write_json({"refused": one.refused})
    elif one.plan is not None:
        more = speed_text(one.plan, one.bandwidths)
        more += "" if one.compared is None else one.compared.text()
        explained = terms_text(one.plan.terms) if explain else ""
        output.write(plan_text(one, one.plan) + explained + more)


def _is_one_model(found: Sequence[Planned]) -> bool:
    """Return whether they are profiles of one model, not several models."""
    profiles = {one.profile for one in found}
    return len(profiles) == len(found) and len({one.name for one in found}) == 1


def _record(found: Planned) -> dict[str, Any]:
    """Return the JSON object of a plan; without a plan, what went wrong."""
    if found.plan is None:
        failure = {"what": found.refusal, "reason": found.reason}
        refused = {"refused": found.refused} if found.refused else {}
        return {"path": found.name, "profile": found.profile, "error": failure} | refused
    record = plan_record(found.plan, found.advice)
    if found.also:
        record["also"] = [one.record() for one in found.also]
    record["notes"] = [*record["notes"], *found.notes]
    speed = speed_record_of(found.plan, found.bandwidths)
    if found.compared is not None or speed is not None:
        record["measured"] = None if found.compared is None else found.compared.record()
    if speed is not None:
        record["speed_bound"] = speed
    return record


def _read(
    path: str, root: str | None, projector: str | None
) -> tuple[Hyperparameters, list[Attachment]]:
    """Return what the formulas need of a model's header, and its separate projector."""
    with open_model(options.model_path(path, root)) as model:
        h = header_to_plan(model)
        projector_path = projector or model.projector
    if projector_path is None:
        return h, []
    found = [_attached(str(projector_path), root, "projector")]
    if not isinstance(h.llama_cpp, str):
        check_together(h.llama_cpp, found)
    return h, found


def _attached(path: str, root: str | None, kind: str) -> Attachment:
    """Read a file that is loaded beside a model; raise `PlanError` if it is of another kind."""
    found = read_attachment(Path(options.model_path(path, root)))
    if found.kind != kind:
        raise PlanError(f"{path}: it is a {KINDS[found.kind]}, not a {KINDS[kind]}")
    return found


def _load_first(
    also: Sequence[str], root: str | None, devices: tuple[Device, ...], host: Host | None
) -> tuple[tuple[Device, ...], Host | None, tuple[Loaded, ...]]:
    """Return what models that are loaded already leave of the machine, and what each takes."""
    models = []
    for path in also:
        h, beside = _read(path, root, None)
        inputs = usual_inputs(h).with_settings(projector_bytes=projector_bytes(beside))
        models.append((plain_text(Path(path).name), h, inputs))
    return load_first(models, tuple(devices), host, os.environ)


def _also_note(loaded: Loaded) -> str:
    """Say what a model takes that is loaded already."""
    taken = f"{bytes_text(sum(loaded.on_gpus))} on GPUs" if loaded.on_gpus else ""
    main = f"{bytes_text(loaded.in_memory)} of main memory"
    return f"also loaded: {loaded.title} takes {' and '.join(filter(None, (taken, main)))}"


def _compared(path: str, root: str | None, compare: Callable[[Model], Compared]) -> Compared:
    with open_model(options.model_path(path, root)) as model:
        return compare(model)


def _planned(
    path: str, engine: Engine, request: PlanRequest, question: str | None, notes: tuple[str, ...]
) -> Planned:
    name, advice = engine.name, None
    try:
        if question is not None:
            advice = solve(question, request, engine)
        plan = _plan(engine, request, advice)
    except PlanError as error:
        refused = error.what if error.what == request.h.llama_cpp else ""
        failure = _failure(path, error)
        return Planned(path, None, failure, name, refused=refused, reason=error.reason)
    if request.host is None and not plan.fully_offloaded:
        notes += (_UNCHECKED,)
    return Planned(path, plan, profile=name, advice=advice, notes=notes)


def _failure(path: str, error: ExplorerError) -> str:
    """Return an error as text; the planner knows no files, so its message has no path yet."""
    return str(error) if error.path is not None else f"{path}: {error}"


def _plan(engine: Engine, request: PlanRequest, advice: Advice | None) -> Plan:
    """Return the plan of what was asked for; where Ollama would refuse that, of the answer."""
    try:
        return engine.plan(request)
    except PlanError as error:
        if error.reason is None or advice is None or advice.value is None:
            raise
    return engine.plan(request.asking(**suggestions.advice_changes(advice)))


_INDENT: Final = "  "
_WIDEST_BAR: Final = 96
_NARROWEST_BAR: Final = 20
_LONGEST_NAME: Final = 120
_SHOWN_INPUTS: Final = 8
_COLOURS: Final = {Level.FITS: "green", Level.PARTLY: "yellow", Level.NOT: "red"}


@dataclass(frozen=True, slots=True)
class Planned(PlanRow):
    """One model, by the name that it was given, by one profile."""

    refused: str = ""  # why the program does not load the model, whatever the settings
    reason: str | None = None  # "requires full" or "system memory" where Ollama would refuse
    notes: tuple[str, ...] = ()  # notes on the machine
    compared: Compared | None = None  # the log of --log beside the plan
    bandwidths: Mapping[str, int] = field(default_factory=dict)  # those that the user gave
    also: tuple[Loaded, ...] = ()  # models that are loaded already


# A block character, one for terminals without them, and a colour of `click.style`: parts differ by
# the character, not only by colour.
_LOOKS: Final = {
    Kind.WEIGHTS: ("█", "#", "blue"),
    Kind.KV_CACHE: ("▓", "=", "green"),
    Kind.GRAPH: ("▒", "+", "yellow"),
    Kind.PROJECTOR: ("◆", "@", "cyan"),
    Kind.DRAFT: ("◇", "%", "bright_cyan"),
    Kind.ADAPTERS: ("▲", "^", "bright_green"),
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
        "█▓▒░·◆◇▲".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def plan_text(found: Planned, plan: Plan) -> str:
    """Return everything about the plan that was found."""
    answer = plans.answer(plan)
    verdict = style(answer.sentence, fg=_COLOURS[answer.shown])
    blocks = [f"{style(_safe(found.name), bold=True)}: {verdict}\n"]
    if found.advice is not None:
        blocks.append(_advice(found.advice))
    blocks.append(table(_facts(plan)))
    bars = plans.memory_bars(plan, None)
    blocks += [
        _bar_block(plan, held, bar)
        for held, bar in zip(plan.holdings, bars, strict=True)
        if held.device is not None or bar.held_bytes
    ]
    if buffers := plan.details.buffers():
        blocks.append(f"\n{table_of(BUFFERS, buffers)}")
    if arguments := plan.details.arguments():
        words = shlex.join(arguments)
        title = style(f"Arguments of {' '.join(plan.engine.command(plan))}", bold=True)
        blocks.append(f"\n{title}\n{_INDENT}{words}\n")
    blocks.append(_sentences("Warnings", plan.warnings, "yellow"))
    blocks.append(_sentences("Notes", (*plan.notes, *found.notes), None))
    return "".join(blocks)


def side_by_side_text(found: Sequence[Planned]) -> str:
    """Return the engines of one model as a table, and a sentence on why they differ."""
    rows = [
        replace(one, speed="" if one.plan is None else plan_speed(one.plan, one.bandwidths))
        for one in found
    ]
    shown = table_of(SIDE_BY_SIDE, rows)
    why = engines.why_engines_differ(rows)
    return f"{style(_safe(found[0].name), bold=True)}\n{shown}\n{_INDENT}{why}\n"


def terms_text(terms: Sequence[Term]) -> str:
    """Return each figure with its formula and the values in it."""
    lines = [f"\n{style('Figures', bold=True)}\n"]
    for term in terms:
        value = plans.value_text(term.value)
        lines.append(f"{_INDENT}{_safe(term.name)} = {value} = {_safe(term.formula)}\n")
        for given in list(term.inputs.items())[:_SHOWN_INPUTS]:
            symbol, value, origin = (INPUTS[name].cell(given) for name in INPUTS.names)
            lines.append(f"{_INDENT * 3}{symbol} = {value}, {_safe(origin)}\n")
    return "".join(lines)


def _advice(advice: Advice) -> str:
    text = suggestions.advice_value(advice) or "nothing fits"
    answer = style(f"{suggestions.QUESTION_TEXTS[advice.what].full_title}: {text}", bold=True)
    return f"{_INDENT}{answer}\n{_INDENT}{sentence(plain_text(advice.limited_by))}.\n\n"


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what holds for the model as a whole."""
    details = plan.details.record()
    yield "Architecture", _safe(plan.request.h.architecture)
    yield "Profile", f"{plan.engine.name}: {rules_text(plan)}"
    if decided := engines.decision_sentence(plan):
        yield "Decided", decided
    if accuracy := engines.accuracy_sentence(plan):
        yield "Accuracy", accuracy
    sequences = " requests" if plan.used("parallel", 1) > 1 else " tokens"
    yield "Context", plans.sequences_text(plan) + sequences
    if (batch := plan.used("batch")) is not None:
        yield "Batch", integer_text(batch)
    known = plan.used("flash_attention") is not None
    attention = f", flash attention {plans.attention_text(plan)}" if known else ""
    yield "KV cache type", f"{_safe(plan.used('kv_cache_type'))}{attention}"
    for name, figure in plans.PLAN.items():
        if name != "gpu_layers":
            yield figure.label, exact_text(figure.of(plan))
            continue
        graph, ratio = details["graph"], details.get("quick_estimate_ratio")
        if graph["partial"] is not None:
            full, partial = bytes_text(graph["full"]), bytes_text(graph["partial"])
            yield "Graph by offload", f"{full} full, {partial} partial"
        share = f" ({_ratio(plan, ratio)})" if graph["partial"] is not None else ""
        yield figure.label, plans.gpu_layers_text(plan) + share


def _ratio(plan: Plan, quick: float | None) -> str:
    text = f"{plan.gpu_layers / plan.verdict.total_layers:.0%}"
    if quick is None:
        return text
    cut = "" if 0 <= quick <= 1 else ", clamped"
    return f"{text}, quick estimate by weights {min(max(quick, 0), 1):.0%}{cut}"


def _bar_block(plan: Plan, held: Holding, bar: plans.Bar) -> str:
    """Return a device: its name, a bar, and its parts, which add up to what was free on it."""
    title, details = bar.title, [] if bar.capacity is None else [f"{bytes_text(bar.capacity)} free"]
    if held.device is not None and held.device.name:
        title += f" ({_safe(held.device.key)})"
    details += [bar.layers]
    if held.device is None and plan.verdict.total_layers - 1 in held.layers:
        details += ["with the output layer"]
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
    lines = "".join(f"{_INDENT}{sentence(text)}\n" for text in safe)
    return f"\n{heading}\n{lines}"


def _safe(text: str) -> str:
    return name_cell(text, _LONGEST_NAME)


# Several plans side by side: a table for people, the same in full as CSV for programs.

_LEFT_OUT: Final = ("devices", "batch", "flash_attention", "answer")
_SHOWN: Final = PLANS.only(*(name for name in PLANS.names if name not in _LEFT_OUT))
_LONGEST_ROW_NAME: Final = 60


def plans_table(found: Sequence[Planned]) -> str:
    """Return a line for each plan, and for each warning."""
    rows = [replace(one, name=_name(one.name)) for one in found if one.plan is not None]
    text = table_of(_SHOWN, rows, _LONGEST_ROW_NAME) if rows else ""
    said = [(one.name, warning) for one in rows if one.plan for warning in one.plan.warnings]
    warnings = dict.fromkeys(f"{name}: {plain_text(warning)}\n" for name, warning in said)
    return text + ("\n" + "".join(warnings) if warnings else "")


def _name(path: str) -> str:
    """Return the end of a path, which distinguishes models."""
    text = plain_text(path)
    return text if len(text) <= _LONGEST_ROW_NAME else "…" + text[1 - _LONGEST_ROW_NAME :]
