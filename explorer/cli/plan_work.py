"""Plans of many models, one after the other: one that cannot be planned does not stop the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import click

from explorer.cli.options import model_path
from explorer.errors import ExplorerError, PlanError
from explorer.formats import open_model
from explorer.hardware.catalogue import CatalogueError, load_catalogue
from explorer.hardware.detect import detect
from explorer.planner import Device, Host, Hyperparameters, Settings
from explorer.planner.advice import Advice, solve
from explorer.planner.devices import LookUp, parse_gpu
from explorer.planner.inputs import plan_record
from explorer.planner.profiles import GRAPH_SIZE, profile_named
from explorer.planner.result import Plan, PlanRequest

# What `plan` plans for: GPUs that a person names, or those of this machine.


_SIZED: Final = re.compile(r"(?:^|,)\s*(?:free|total)\s*=")
_UNIT: Final = re.compile(r"[0-9.]+\s*(?:[kmgtpe]i?b?|b|bytes)", re.IGNORECASE)
_LEAST_SIZE: Final = 1 << 20  # "3090" is a card, not a memory of 3,090 bytes


@dataclass(frozen=True, slots=True)
class Target:
    """The machine of a plan.

    Attributes:
        devices: Its GPUs.
        host: Its main memory, or None to check nothing against it.
        notes: Sentences about the search for them.
    """

    devices: tuple[Device, ...]
    host: Host | None
    notes: tuple[str, ...] = ()


def find_target(devices: Sequence[Device], memory: int | None) -> Target:
    """Return the machine to plan for.

    Args:
        devices: GPUs that were named; none means this machine's.
        memory: Free bytes of main memory, or None for this machine's where its GPUs are meant.
    """
    if devices:
        named = tuple(devices)
        return Target(named, _named_host(named, memory))
    machine = detect()
    host = machine.host if memory is None else replace(machine.host, free=memory, swap=0)
    return Target(machine.devices, host, machine.notes)


def _named_host(devices: Sequence[Device], memory: int | None) -> Host | None:
    mac = next((device for device in devices if device.library == "Metal"), None)
    if mac is not None:  # its memory is the machine's
        total = mac.capacity_bytes
        return Host(total - mac.free if memory is None else memory, total=total, macos=True)
    return None if memory is None else Host(memory)


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


def named_gpus(
    context: click.Context, parameter: click.Parameter, specs: Sequence[str]
) -> list[Device]:
    """Return the GPUs of all SPECs of an option; a callback of click's."""
    try:
        return [named_gpu(spec, position) for position, spec in enumerate(specs)]
    except ExplorerError as error:
        raise click.BadParameter(str(error), context, parameter) from error


def _is_size(text: str) -> bool:
    if text.isascii() and text.isdigit() and len(text) < 8:
        return int(text) >= _LEAST_SIZE
    return text.isdigit() or _UNIT.fullmatch(text) is not None


def _look_up(*, sized: bool) -> LookUp:
    """Return how to look a name up.

    Args:
        sized: The SPEC says how much memory there is, so that the name need not be known. What the
            GPUs of that name have in common is taken then.
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


_UNCHECKED: Final = (
    "whether main memory holds what is left to the CPU was not checked: the GPUs are named, so "
    "they may be another machine's; say --memory SIZE to check it"
)
_SETTING: Final = {
    "context": "context",
    "parallel": "parallel",
    "kv-cache-type": "kv_cache_type",
    "gpu-layers": "num_gpu",
    "fewest-gpu-layers": "num_gpu",
}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every model.

    Attributes:
        settings: The settings that a person chose.
        target: The machine.
        profiles: Names of the profiles to plan by.
        solve: What to find the most of, or None.
        root: Ollama store in which names are looked up, or None.
        projector: File of a separate projector, or None.
        environment: Variables of the process.
    """

    settings: Settings
    target: Target
    profiles: Sequence[str]
    solve: str | None = None
    root: str | None = None
    projector: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """One model under one profile.

    Attributes:
        path: What the person called the model.
        profile: Name of the profile.
        plan: The plan, or None if there is none.
        advice: What was solved for, or None.
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

    def record(self) -> dict[str, Any]:
        """Return the JSON object of a plan; without a plan, what went wrong."""
        if self.plan is None:
            failure = {"what": self.failure, "reason": self.reason}
            return {"path": self.path, "profile": self.profile, "error": failure}
        record = plan_record(self.plan, self.advice)
        record["notes"] = [*record["notes"], *self.notes]
        return record


def answer_all(paths: Sequence[str], question: Question) -> Iterator[Answer]:
    """Yield an answer for each model and profile."""
    for path in paths:
        try:
            request = _request(path, question)
        except ExplorerError as error:
            for profile in question.profiles:
                yield Answer(path, profile, failure=str(error))
            continue
        for profile in question.profiles:
            yield _answer(path, profile, request, question)


def _request(path: str, question: Question) -> PlanRequest:
    """Open a model and read what the formulas need. It is closed again: only headers are read."""
    settings = question.settings
    with open_model(model_path(path, question.root)) as model:
        h = Hyperparameters.from_model(model)
        projector = question.projector or model.projector
    if projector is not None:
        with open_model(projector) as separate:
            settings = replace(settings, projector_bytes=separate.nbytes)
    target = question.target
    return PlanRequest(h, settings, target.devices, target.host, question.environment)


def _answer(path: str, profile: str, request: PlanRequest, question: Question) -> Answer:
    try:
        advice = None
        if question.solve is not None and profile == GRAPH_SIZE.name:
            advice = solve(question.solve, request)
        plan = _plan(profile, request, advice)
    except PlanError as error:
        # the planner knows no files, so its message has no path yet
        failure = str(error) if error.path is not None else f"{path}: {error}"
        return Answer(path, profile, failure=failure, reason=error.reason)
    notes = question.target.notes
    if request.host is None and plan.layout is not None and not plan.layout.fully_offloaded:
        notes += (_UNCHECKED,)
    return Answer(path, profile, plan, advice, notes=notes)


def _plan(profile: str, request: PlanRequest, advice: Advice | None) -> Plan:
    """Return the plan of what was asked for; where Ollama would refuse that, of the answer."""
    try:
        return profile_named(profile).plan(request)
    except PlanError as error:
        if error.reason is None or advice is None or advice.value is None:
            raise
    answered: dict[str, Any] = {_SETTING[advice.what]: advice.value}
    settings = replace(request.settings, **answered)
    return profile_named(profile).plan(replace(request, settings=settings))
