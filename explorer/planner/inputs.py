"""What goes into a plan and what comes out, as values to compare, keep and save as JSON.

All inputs of a plan are one frozen value, so that undo, scenarios and caches need only compare and
keep it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, TypeVar

from explorer.errors import PlanError
from explorer.formats import open_model
from explorer.formats.components import components
from explorer.formats.model import Model
from explorer.parallel import Check, never
from explorer.planner.advice import Advice
from explorer.planner.attachments import Attachment
from explorer.planner.devices import MAX_MEMORY, Device, Host, check_devices, whole
from explorer.planner.engines.llama_cpp.refusals import headers_of
from explorer.planner.engines.registry import OLLAMA_013, default_engine, engine_named, saved_engine
from explorer.planner.environment import used
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plans import Engine, Holding, Plan, Term, Verdict
from explorer.planner.request import PlanRequest
from explorer.planner.settings import Settings
from explorer.planner.tensor_groups import group_table
from explorer.quantization import TensorType
from explorer.text import AtLeast, plain_text, shorten

_LONGEST_TEXT: Final = 200
_LONGEST_SAVED: Final = 1 << 20

Saved = TypeVar("Saved", Settings, Host, Device)


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """Settings and machine of a plan."""

    settings: Settings = field(default_factory=Settings)  # what is asked for
    devices: tuple[Device, ...] = ()  # the GPUs, in the chosen order
    host: Host | None = None  # memory of the machine, or None to check nothing against it
    profile: str | None = None  # name of the engine; None: by where the model comes from
    attached: tuple[Attachment, ...] = ()  # files that are loaded beside the model

    def with_settings(self, **changes: Any) -> PlanInputs:
        """Return the same with other settings.

        Raises:
            PlanError: A setting is out of its limits.
        """
        return replace(self, settings=replace(self.settings, **changes))

    def engine_for(self, h: Hyperparameters) -> Engine:
        """Return the engine that a model is planned by: the chosen one if it can load it here.

        Raises:
            PlanError: There is none of that name.
        """
        chosen = None if self.profile is None else engine_named(self.profile)
        if chosen is None or chosen.refusal(h) or not chosen.runs_on(self.devices):
            return default_engine(h, self.devices)
        return chosen

    def left_open(self, engine: Engine) -> PlanInputs:
        """Return the same without what does not change `advice.left_alone`."""
        return self.with_settings(**dict.fromkeys(engine.chooses))

    def request(self, h: Hyperparameters, environment: Mapping[str, str]) -> PlanRequest:
        """Return what the planner takes; raise `PlanError` if two devices are the same one."""
        return PlanRequest(h, self.settings, self.devices, self.host, environment, self.attached)

    def record(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "settings": asdict(self.settings),
            "devices": device_records(self.devices),
            "host": host_record(self.host),
            "profile": self.profile,
        }

    @classmethod
    def from_record(cls, record: object) -> PlanInputs:
        """Return what `record` gave; a saved file is untrusted input.

        Raises:
            PlanError: It is not such a record.
        """
        parts = _object(record)
        profile = parts.get("profile")
        if profile is not None:
            profile = saved_engine(str(profile)).name
        return cls(
            settings=_saved(Settings, parts.get("settings")),
            devices=devices_of(parts.get("devices")),
            host=host_of(parts.get("host")),
            profile=profile,
        )


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Result of planning: a `Plan`, or the reason there is none."""

    # The plan; where Ollama would refuse it, the one that it would have made otherwise, which shows
    # how much memory is missing. None if the inputs cannot be planned at all.
    plan: Plan | None
    refusal: str = ""  # why Ollama would refuse, or why there is no plan; empty if all is well


def plan(  # noqa: PLR0913 - the options by name are docs/interface.md's promise
    model: Model | Hyperparameters,
    settings: Settings | None = None,
    devices: Sequence[Device] = (),
    *,
    host: Host | None = None,
    environment: Mapping[str, str] | None = None,
    profile: str = OLLAMA_013,
) -> Plan:
    """Return the memory that a model needs, and where its layers go.

    Args:
        model: The model, or what was read of it before; reading is the slower part.
        settings: What is asked for; None asks for nothing.
        devices: The GPUs. None are looked for.
        host: Memory of the machine; None checks nothing against it.
        environment: Ollama's environment variables; those of the process are not looked at.
        profile: Name of the engine.

    Raises:
        PlanError: The model cannot be planned, the engine does not exist, or Ollama would refuse
            to load the model (see `PlanError.reason`).
    """
    h = model if isinstance(model, Hyperparameters) else Hyperparameters.from_model(model)
    request = PlanRequest(h, settings or Settings(), tuple(devices), host, environment or {})
    return engine_named(profile).plan(request)


def separate_projector_bytes(model: Model) -> int:
    """Return the bytes of the tensors of a model's separate projector; reads its header.

    Raises:
        ExplorerError: The projector cannot be read.
    """
    if model.projector is None:
        return 0
    with open_model(model.projector) as projector:
        return projector.nbytes


def completed(inputs: PlanInputs, model: Model) -> PlanInputs:
    """Return inputs with the bytes of a model's separate projector; raises as that does."""
    nbytes = separate_projector_bytes(model)
    return inputs.with_settings(projector_bytes=nbytes) if nbytes else inputs


def plan_result(
    h: Hyperparameters, inputs: PlanInputs, environment: Mapping[str, str]
) -> PlanResult:
    """Plan; takes about a millisecond."""
    try:
        engine = inputs.engine_for(h)
        return PlanResult(engine.plan(inputs.request(h, environment)))
    except PlanError as error:
        if error.reason is None:
            return PlanResult(None, str(error))
        refused = str(error)
    lenient = replace(inputs.with_settings(require_full=False), host=None)
    try:
        plan = engine.plan(lenient.request(h, environment))
    except PlanError as error:
        return PlanResult(None, str(error))
    return PlanResult(plan, refused)


# The memory plan of a model whose tensors have other types.


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """What a plan comes to.

    Attributes:
        total: Bytes needed in all.
        vram: Bytes on GPUs; None without GPUs.
        verdict: Whether and how it fits.
        refusal: Why Ollama would refuse to load it; "" if it would not.
        context: Tokens of each sequence.
    """

    total: int
    vram: int | None
    verdict: Verdict
    refusal: str = ""
    context: int = 0


NO_LANGUAGE: Final = "it is a checkpoint for images or video, not a language model"
"""Why a checkpoint of several models is not planned."""

NO_WEIGHTS: Final = "it holds no weights, so there is no memory to plan"
"""Why a vocabulary alone is not planned."""

NO_LAYERS: Final = "the model does not state its number of layers (block_count)"
"""Why a model is not planned, whatever its weights are."""


def header_to_plan(model: Model) -> Hyperparameters:
    """Return what the formulas read of a model; a damaged one is planned with a warning.

    Raises:
        PlanError: It holds no weights, or what `Hyperparameters.from_model` raises.
        ExplorerError: The file changed since it was opened.
    """
    if not len(model.tensors):  # figures of a cache would say nothing
        raise PlanError(NO_WEIGHTS)
    if components(model):
        raise PlanError(NO_LANGUAGE)
    h = Hyperparameters.from_model(model)
    if model.damage is None:
        return h
    damage = plain_text(f"{model.damage.where}: {model.damage.what}")
    return replace(h, damage=damage, warnings=(*h.warnings, f"the model is damaged: {damage}"))


def memory_plans(
    model: Model,
    inputs: PlanInputs,
    types: Mapping[str, Mapping[int, TensorType]],
    check: Check = never,
) -> tuple[dict[str, PlannedMemory], str]:
    """Return the plans of a model with other types of tensors.

    A context that is left to the engine is the one that it chooses for the first of them.

    Args:
        model: What to plan.
        inputs: The settings and devices to plan for.
        types: The types of tensors by row, for each plan by its name.
        check: Called for each plan; raises to stop.

    Returns:
        The plans by name, without those that cannot be made; and why there are none, or "".
    """
    try:
        h = Hyperparameters.from_model(model)
    except PlanError as error:
        return {}, error.what
    if not h.block_count:
        return {}, NO_LAYERS
    if h.is_safetensors:
        return (
            {},
            "the model is no GGUF file, and what llama.cpp takes of one made of it is unknown",
        )
    environment, on_gpus = used(os.environ), bool(inputs.devices)
    found: dict[str, PlannedMemory] = {}
    why = ""
    for name, changed in types.items():
        check()
        outcome = plan_result(with_types(model, h, changed), inputs, environment)
        if (plan := outcome.plan) is not None:
            vram, context = plan.vram_total if on_gpus else None, int(plan.used("context"))
            found[name] = PlannedMemory(plan.total, vram, plan.verdict, outcome.refusal, context)
            if plan.details.choice is not None and plan.details.choice.context:
                inputs = inputs.with_settings(context=plan.context_asked)
        else:
            why = why or outcome.refusal
    return found, "" if found else why


def with_types(
    model: Model, h: Hyperparameters, types: Mapping[int, TensorType]
) -> Hyperparameters:
    """Return hyperparameters of a model with other types of tensors, by row of its table.

    Weights enter a plan by the bytes of each group of tensors, and by those of block 0's stacked
    gate experts (docs/planner.md, sections 2 and 6).
    """
    columns = model.tensors.columns
    more = sum(
        (kind.nbytes_of(columns.shapes[row]) or 0) - columns.nbytes[row]
        for row, kind in types.items()
    )
    llama_cpp, ik_llama_cpp = headers_of(model, types)
    return replace(
        h,
        tensors=group_table(model.tensors, types),
        file_bytes=max(0, h.file_bytes + more),
        llama_cpp=llama_cpp,
        ik_llama_cpp=ik_llama_cpp,
    )


# Saved scenarios and sets of devices


def device_records(devices: tuple[Device, ...]) -> list[dict[str, Any]]:
    """Return devices as JSON can hold them."""
    return [asdict(device) for device in devices]


def devices_of(records: object) -> tuple[Device, ...]:
    """Return what `device_records` gave; raise `PlanError` if it is not such a list."""
    if not isinstance(records, list):
        raise PlanError("the saved devices are no list")
    return check_devices([_saved_device(_object(record)) for record in records])


def host_record(host: Host | None) -> dict[str, Any] | None:
    """Return main memory as JSON can hold it."""
    return None if host is None else asdict(host)


def host_of(record: object) -> Host | None:
    """Return what `host_record` gave; raise `PlanError` if it is not such a record."""
    return None if record is None else _saved(Host, {"free": 0} | _object(record))


def sizes_of(record: object, most: int) -> dict[str, int]:
    """Return saved bytes by name; raise `PlanError` if they are none, or too many."""
    sizes = _object(record)
    if len(sizes) > most:
        raise PlanError(f"{len(sizes)} saved sizes are more than {most}")
    return {saved_text(name): whole(size, "saved size", MAX_MEMORY) for name, size in sizes.items()}


def saved_object(text: str) -> dict[str, Any]:
    """Return the JSON object of a saved text; raise `PlanError` if it is none, or too long."""
    if len(text) > _LONGEST_SAVED:
        raise PlanError("a saved file is longer than any that this program saves")
    try:
        return _object(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise PlanError(f"a saved file is not JSON: {error}") from error


def saved_text(value: object) -> str:
    """Return a text of a saved file, safe to show; raise `PlanError` if it is not text."""
    if not isinstance(value, str):
        raise PlanError("a saved text is none")
    return shorten(plain_text(value), _LONGEST_TEXT)


def _object(record: object) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise PlanError("a saved record is not a JSON object")
    return record


def _saved_device(record: dict[str, Any]) -> Device:
    texts = {name: saved_text(record.get(name)) for name in ("id", "library")}
    return _saved(
        Device, {"free": 0} | record | texts | {"name": saved_text(record.get("name", ""))}
    )


def _saved(kind: type[Saved], record: object) -> Saved:
    """Return a dataclass, which checks its numbers; what is not a Boolean leaves a switch alone."""
    record = _object(record)
    known = [part for part in fields(kind) if part.name in record]
    switches = {part.name for part in known if "bool" in str(part.type)}
    values = {part.name: record[part.name] for part in known}
    wrong = [name for name in switches if not isinstance(values[name], bool)]
    return kind(**{name: value for name, value in values.items() if name not in wrong})


# A plan as the JSON object of docs/interface.md


def plan_record(plan: Plan, solved: Advice | None = None) -> dict[str, Any]:
    """Return all that `plan --json` prints; `solved` is the answer to a question, if one was asked.

    What only one engine knows is null of the others, or absent.
    """
    h, details = plan.request.h, plan.details.record()
    effective = ("context", "parallel", "batch", "kv_cache_type", "flash_attention")
    cache: dict[str, Any] = {"total": None, "per_layer": None}
    if not isinstance(plan.cache, AtLeast):
        cache = {"total": plan.cache, "per_layer": list(plan.details.layer_caches())}
    return {
        "model": h.name,
        "architecture": h.architecture,
        "profile": plan.engine.name,
        "requested": plan.request.settings.record(),
        "effective": {name: plan.used(name) for name in effective},
        "weights": plan.weights,
        "kv_cache": cache,
        "graph": details.pop("graph"),
        "layers": [
            asdict(layer) | {"device": "cpu" if layer.device is None else layer.device}
            for layer in plan.layers
        ],
        "devices": [_held(held) for held in plan.gpus],
        "cpu": {
            "layers": len(plan.main.layers),
            "weights": plan.main.weights,
            "kv_cache": plan.main.cache,
        },
        "gpu_layers": plan.gpu_layers,
        "total_layers": h.total_layers,
        "fully_offloaded": plan.fully_offloaded,
        "gpu_ratio": plan.gpu_layers / plan.verdict.total_layers,
        "quick_estimate_ratio": details.pop("quick_estimate_ratio", None),
        "vram_total": plan.vram_total,
        "total": plan.total,
        "solved": None if solved is None else solved.record(),
        "terms": [_term(term) for term in plan.terms],
        "notes": list(plan.notes),
        "warnings": list(plan.warnings),
        "environment": used(plan.request.environment),
    } | details


def _held(held: Holding) -> dict[str, Any]:
    device = held.device
    assert device is not None  # main memory is told apart
    return {
        "id": device.id,
        "name": device.name or device.key,
        "library": device.library,
        "free": device.free,
        "layers": [held.layers[0], held.layers[-1]] if held.layers else None,
        "weights": held.weights,
        "kv_cache": held.cache,
        "graph": held.compute.high,
        "projector": held.projector,
        "reserved": held.reserve.high,
        "total": held.total,
        "listed": held.is_used,
    } | {name: size for name in ("draft", "adapters") if (size := getattr(held, name))}


def _term(term: Term) -> dict[str, Any]:
    """Return a term; a ratio has no bytes but a value."""
    return {
        "name": term.name,
        "bytes": term.value if isinstance(term.value, int) else None,
        "value": term.value,
        "formula": term.formula,
        "inputs": {
            symbol: {
                "value": list(given.value) if isinstance(given.value, tuple) else given.value,
                "from": given.origin,
            }
            for symbol, given in term.inputs.items()
        },
    }
