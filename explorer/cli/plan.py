"""`gguf-explorer plan`: how much memory models need, and where their layers go."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import click

from explorer.cli import options, output, plan_text
from explorer.errors import ExplorerError, PlanError
from explorer.formats import open_model
from explorer.hardware.catalogue import CatalogueError, load_catalogue
from explorer.hardware.detect import detect
from explorer.planner import Device, Host, Hyperparameters, Settings
from explorer.planner.advice import QUESTIONS, Advice, solve
from explorer.planner.devices import LookUp, parse_context, parse_gpu, parse_size
from explorer.planner.inputs import plan_record
from explorer.planner.profiles import GRAPH_SIZE, PROFILES, profile_named
from explorer.planner.result import Plan, PlanRequest
from explorer.present.plan import SETTING_OF

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
    context: click.Context, parameter: click.Parameter, specs: Sequence[str]
) -> list[Device]:
    """Return the GPUs of all SPECs of an option; a callback of click."""
    try:
        return [named_gpu(spec, position) for position, spec in enumerate(specs)]
    except ExplorerError as error:
        raise click.BadParameter(str(error), context, parameter) from error


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


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What is planned for every model.

    Attributes:
        settings: The chosen settings.
        devices: GPUs of the machine.
        host: Its main memory, or None to check nothing against it.
        notes: Notes on the machine.
        profiles: Names of the profiles to plan by.
        solve: What to maximize, or None.
        root: Ollama store in which names are looked up, or None.
        projector: File of a separate projector, or None.
        environment: Variables of the process.
    """

    settings: Settings
    devices: tuple[Device, ...]
    host: Host | None
    profiles: Sequence[str]
    notes: tuple[str, ...] = ()
    solve: str | None = None
    root: str | None = None
    projector: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@click.command("plan")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, callback=options.not_empty)
@options.root_option
@click.option(
    "--context",
    metavar="N",
    callback=options.parsed_by(parse_context),
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
    callback=options.parsed_by(parse_size),
    help="Memory to hold back on each GPU.",
)
@click.option("--spread", is_flag=True, default=None, help="Use all GPUs, not as few as possible.")
@click.option(
    "--memory",
    metavar="SIZE",
    callback=options.parsed_by(parse_size),
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
    "question",
    "--solve",
    type=click.Choice(list(QUESTIONS)),
    help="Also find the most that fits.",
)
@click.option("--explain", is_flag=True, help="Print each figure with its formula.")
@click.option("csv_file", "--csv", type=click.Path(), metavar="FILE", help="Save a table as CSV.")
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
    csv_file: str | None,
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
    """
    profiles = list(PROFILES) if profile == _ALL else [profile]
    if question is not None and GRAPH_SIZE.name not in profiles:
        raise click.UsageError(f"--solve needs a layout of layers; {profile} predicts none")
    if csv_file is not None and any(_is_same(csv_file, path) for path in paths):
        raise click.UsageError("--csv names a model, which it would overwrite")
    try:
        chosen = Settings(**settings)
    except PlanError as error:  # a number that no computer has
        raise click.UsageError(str(error)) from error
    devices, host, notes = find_machine(gpus, memory)
    asked = PlanOptions(
        chosen, devices, host, profiles, notes, question, root, projector, os.environ
    )
    found = [one for path in paths for one in plan_model(path, asked)]
    csv_path = None if csv_file is None else Path(csv_file)
    output.save_csv(csv_path, plan_text.CSV_HEADER, plan_text.csv_rows(found))
    _print(found, as_json=as_json, explain=explain)
    for failure in dict.fromkeys(one.failure for one in found if one.failure):
        output.write_error(failure)
    return 1 if any(one.plan is None for one in found) else 0


def _print(found: Sequence[plan_text.PlannedModel], *, as_json: bool, explain: bool) -> None:
    if len(found) > 1:
        if as_json:
            output.write_json({"plans": [{"path": one.path} | _record(one) for one in found]})
        else:
            output.write(plan_text.plans_table(found))
        return
    (one,) = found
    if one.plan is None:
        return
    if as_json:
        output.write_json(_record(one))
        return
    output.write(plan_text.plan_text(one.plan, one.path, one.advice, one.notes))
    if explain:
        output.write(plan_text.terms_text(one.plan.terms))


def _is_same(csv_file: str, path: str) -> bool:
    return os.path.exists(csv_file) and os.path.exists(path) and os.path.samefile(csv_file, path)


def _record(found: plan_text.PlannedModel) -> dict[str, Any]:
    """Return the JSON object of a plan; without a plan, what went wrong."""
    if found.plan is None:
        failure = {"what": found.failure, "reason": found.reason}
        return {"path": found.path, "profile": found.profile, "error": failure}
    record = plan_record(found.plan, found.advice)
    record["notes"] = [*record["notes"], *found.notes]
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


def plan_model(path: str, asked: PlanOptions) -> Iterator[plan_text.PlannedModel]:
    """Yield a plan by each profile; a model that cannot be planned does not stop the others."""
    try:
        request = _request(path, asked)
    except ExplorerError as error:
        for profile in asked.profiles:
            yield plan_text.PlannedModel(path, profile, failure=str(error))
        return
    for profile in asked.profiles:
        try:
            advice = None
            if asked.solve is not None and profile == GRAPH_SIZE.name:
                advice = solve(asked.solve, request)
            plan = _plan(profile, request, advice)
        except PlanError as error:
            # the planner knows no files, so its message has no path yet
            failure = str(error) if error.path is not None else f"{path}: {error}"
            yield plan_text.PlannedModel(path, profile, failure=failure, reason=error.reason)
            continue
        notes = asked.notes
        if request.host is None and plan.layout is not None and not plan.layout.fully_offloaded:
            notes += (_UNCHECKED,)
        yield plan_text.PlannedModel(path, profile, plan, advice, notes=notes)


def _request(path: str, asked: PlanOptions) -> PlanRequest:
    """Open a model and read what the formulas need; it is closed again, for that is its header."""
    settings = asked.settings
    with open_model(options.model_path(path, asked.root)) as model:
        h = Hyperparameters.from_model(model)
        projector = asked.projector or model.projector
    if projector is not None:
        with open_model(projector) as separate:
            settings = replace(settings, projector_bytes=separate.nbytes)
    return PlanRequest(h, settings, asked.devices, asked.host, asked.environment)


def _plan(profile: str, request: PlanRequest, advice: Advice | None) -> Plan:
    """Return the plan of what was asked for; where Ollama would refuse that, of the answer."""
    try:
        return profile_named(profile).plan(request)
    except PlanError as error:
        if error.reason is None or advice is None or advice.value is None:
            raise
    answered: dict[str, Any] = {SETTING_OF[advice.what]: advice.value}
    settings = replace(request.settings, **answered)
    return profile_named(profile).plan(replace(request, settings=settings))
