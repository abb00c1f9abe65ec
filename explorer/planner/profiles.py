"""Profiles: what llama.cpp and releases of Ollama make of the same model and machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Final

from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.planner import settings as env
from explorer.planner.devices import GIB, MAX_COUNT, MIB, Device, Host, quoted, sized
from explorer.planner.engines.llama_cpp.allocation import Settings as LlamaCppSettings
from explorer.planner.engines.llama_cpp.allocation import allocate
from explorer.planner.engines.llama_cpp.fitting import DEFAULT_MARGIN, Decision, fit
from explorer.planner.engines.llama_cpp.header import Header
from explorer.planner.engines.llama_cpp.outcome import DEFAULT_RESERVE, Outcome
from explorer.planner.hyperparameters import Hyperparameters, llama_cpp_header
from explorer.planner.layout import Layout, Trace, lay_out
from explorer.planner.result import (
    Plan,
    PlanRequest,
    Prediction,
    graphsize_notes,
    graphsize_warnings,
    llama_cpp_notes,
    llama_cpp_warnings,
    settings_notes,
)
from explorer.planner.settings import (
    AUTOMATIC,
    Difference,
    EffectiveSettings,
    Settings,
    device_obstacle,
    effective_settings,
)
from explorer.planner.sizes import MAX_PARALLEL
from explorer.planner.tensor_groups import group_config, group_table
from explorer.quantization import TensorType
from explorer.text import integer_text


@dataclass(frozen=True)
class Profile:
    """One way to plan: its name in a command, its description, and what makes a plan.

    `plan` raises `PlanError` where the model cannot be planned, or Ollama would refuse to load it.
    """

    name: str
    title: str
    plan: Callable[[PlanRequest], Plan]


def _plan_graph_size(request: PlanRequest) -> Plan:
    """Apply the formulas of each architecture, and lay the layers out."""
    effective = effective_for(request)
    layout = layout_for(request, effective)
    return Plan(
        profile=GRAPH_SIZE.name,
        request=request,
        effective=effective,
        weights=sum(layout.layer_weights),
        kv_total=layout.sizes.kv_total,
        sizes=layout.sizes,
        layout=layout,
        notes=tuple(graphsize_notes(request, effective, layout)),
        warnings=tuple(graphsize_warnings(request, layout)),
    )


def effective_for(request: PlanRequest, **changes: Any) -> EffectiveSettings:
    """Return the settings that hold in a server; `changes` are other values of `Settings`.

    Raises:
        PlanError: A setting cannot be used.
    """
    settings = replace(request.settings, **changes)
    return effective_settings(
        request.h, settings, request.devices, request.environment, server_rules=True
    )


def layout_for(
    request: PlanRequest, effective: EffectiveSettings, trace: Trace | None = None
) -> Layout:
    """Return `lay_out` of a request's model and machine under the settings that hold."""
    return lay_out(
        request.h,
        effective,
        request.devices,
        host=request.host,
        num_gpu=effective.num_gpu,
        require_full=effective.require_full,
        overhead=effective.overhead,
        spread=effective.spread,
        projector=effective.projector_bytes,
        trace=trace,
    )


# Profile `ollama-0.30` (docs/planner.md, section 12). Source: Ollama v0.33.0-rc2. The prediction
# chooses GPUs and a batch, and whether other models must go; a server program of its own then
# places the layers, so no layer split is claimed. No golden data exists: tests hold cases worked by
# hand.


_ONE_SEQUENCE: Final = frozenset((
    "mllama", "qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe", "qwen3next", "lfm2", "lfm2moe",
    "nemotron_h", "nemotron_h_moe", "nemotron_h_omni",
))  # fmt: skip
_CONTEXTS: Final = ((47 * GIB, 262_144), (23 * GIB, 32_768), (0, 4_096))
_STEPS: Final = (32_768, 4_096)  # where a failed load with an automatic context goes on
_LARGE, _MEDIUM, _SMALL, _LEAST = 2048, 1024, 512, 256
_BATCHES: Final = ((32_768, _LARGE), (4_096, _MEDIUM), (-1, _SMALL))  # above so many cells
_SHARES: Final = {_LARGE: 60, _MEDIUM: 75}  # per cent of memory that a batch may meet
_SURCHARGES: Final = ((_LARGE, 2 * GIB), (_MEDIUM, 768 * MIB))
_SMALL_CARD: Final = 8 * GIB
_SMALL_CARD_CELLS: Final = 4096
_AUTOMATIC: Final = "chosen by the memory of the GPUs"
_CACHE_BYTES: Final = 2  # of an element, whatever its type


def _predict(request: PlanRequest) -> Plan:
    """Predict by file size and a plain cache; no layer split."""
    h = request.h
    context = _context(request)
    parallel = _parallel(request)
    cells = context.value * parallel.value
    head = h.embedding_length // h.heads if h.heads else 0
    cache = 2 * h.block_count * max(h.kv_heads_min, 1) * head * cells * _CACHE_BYTES
    predicted = sized(h.file_bytes + cache, "the model with its cache")
    available = _available(request)
    flash_attention = _flash_attention(request)
    batch = request.settings.batch or choose_batch(
        cells, predicted, available, request.devices, flash_attention=flash_attention
    )
    prediction = Prediction(
        file_bytes=h.file_bytes,
        cache_bytes=cache,
        surcharge_bytes=surcharge(batch),
        available_bytes=available,
        cells=cells,
        head_length=head,
        automatic_context=context.origin == _AUTOMATIC,
    )
    effective = EffectiveSettings(
        context=context.value,
        parallel=parallel.value,
        batch=batch,
        kv_cache_type=request.settings.kv_cache_type or "f16",
        flash_attention=flash_attention,
        requested=request.settings,
        differences=(*context.differences, *parallel.differences),
        origins={"context": context.origin, "parallel": parallel.origin},
    )
    return Plan(
        profile=PREDICTION.name,
        request=request,
        effective=effective,
        weights=h.file_bytes,
        kv_total=cache,
        prediction=prediction,
        notes=tuple(_notes(effective, prediction)),
        warnings=h.warnings,
    )


def choose_batch(
    cells: int, predicted: int, available: int, devices: Sequence[Device], *, flash_attention: bool
) -> int:
    """Return the batch that the server chooses if none is requested.

    `cells` are context × parallel, `predicted` the bytes of file and cache, `available` free bytes.
    """
    cuda = [device for device in devices if device.library == "CUDA"]
    if cuda and not flash_attention:
        small = any(min(card.free, card.capacity_bytes) <= _SMALL_CARD for card in cuda)
        return _LEAST if cells > _SMALL_CARD_CELLS and small else _SMALL
    batch = next(size for above, size in _BATCHES if cells > above)
    usable = available * 80 // 100  # what a model may take beside others
    while batch > _SMALL:
        within = predicted <= usable and predicted <= available * _SHARES[batch] // 100
        if within and surcharge(batch) <= usable - predicted:
            break
        batch = {_LARGE: _MEDIUM, _MEDIUM: _SMALL}[batch]
    return batch


def surcharge(batch: int) -> int:
    """Return the bytes that a batch adds to the prediction."""
    return next((nbytes for least, nbytes in _SURCHARGES if batch >= least), 0)


def next_context(context: int) -> int | None:
    """Return the context with which a failed load is tried again, or None to give up.

    Only where the context was chosen automatically.
    """
    return next((step for step in _STEPS if context > step), None)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A setting's value, where it came from, and how it differs from the request."""

    value: int
    origin: str
    differences: tuple[Difference, ...] = ()


def _first(request: PlanRequest, name: str, variable: str) -> _Choice | None:
    """Return what the settings, the model's own parameters or the environment say, or None."""
    settings = request.settings
    asked: int | None = getattr(settings, name)
    if asked is not None:
        return _Choice(asked, f"setting {name}")
    if name == "context" and request.h.own_context is not None:
        return _Choice(request.h.own_context, "the model's own parameter num_ctx")
    number = env.integer(request.environment, variable)
    return _Choice(number, variable) if number else None


def _context(request: PlanRequest) -> _Choice:
    """Return the context: the request, else one by the memory of the GPUs; at most the trained."""
    limit = request.h.trained_context or MAX_COUNT
    asked = _first(request, "context", env.CONTEXT_LENGTH)
    if asked is None:
        vram = sum(device.capacity_bytes for device in request.devices)
        value = next(tokens for least, tokens in _CONTEXTS if vram >= least)
        return _Choice(min(value, limit), _AUTOMATIC)
    if asked.value <= limit:
        return asked
    reason = f"the model was trained for {integer_text(limit)} tokens"
    return _Choice(limit, reason, (Difference("context", asked.value, limit, reason),))


def _parallel(request: PlanRequest) -> _Choice:
    asked = _first(request, "parallel", env.NUM_PARALLEL) or _Choice(1, "default 1")
    value = min(max(asked.value, 1), MAX_PARALLEL)
    architecture = request.h.architecture
    if value == 1 or architecture not in _ONE_SEQUENCE:
        return _Choice(value, asked.origin)
    reason = f"{architecture} runs one sequence at a time"
    return _Choice(1, reason, (Difference("parallel", value, 1, reason),))


def _flash_attention(request: PlanRequest) -> bool:
    """Return whether it is on: newer releases leave it on unless it is turned off or impossible."""
    asked = request.settings.flash_attention
    if asked is None:
        asked = env.boolean(request.environment, env.FLASH_ATTENTION)
    return asked is not False and not device_obstacle(request.devices)


def _available(request: PlanRequest) -> int:
    if request.devices:
        return sum(device.free for device in request.devices)
    return request.host.free if request.host is not None else 0


def _notes(effective: EffectiveSettings, prediction: Prediction) -> Iterator[str]:
    yield from settings_notes(effective)
    yield (
        "a crude prediction, used for scheduling only: the type of the KV cache, lengths of keys "
        "and values, sliding windows, recurrent blocks and the compute buffer are all ignored, so "
        "that the KV cache type changes nothing"
    )
    yield "the server places the layers itself; no layer split is predicted"
    following = next_context(effective.context)
    if prediction.automatic_context and following is not None:
        yield f"if loading fails, it is tried again with a context of {integer_text(following)}"


# Profiles `llama.cpp` and `ollama` (docs/planner.md, section 13): llama.cpp with the arguments that
# a user, or Ollama, gives to its server.


_SERVER_BATCH, _SERVER_UBATCH, _SERVER_SLOTS = 2048, 512, 4
_EMBEDDING_BATCH: Final = 2048


@dataclass(frozen=True)
class _Request:
    """What a server is asked for: its arguments, where they came from, and what it changes."""

    settings: LlamaCppSettings
    origins: Mapping[str, str]
    differences: tuple[Difference, ...] = ()


def _plan_llama_cpp(request: PlanRequest) -> Plan:
    """Allocate as `llama-server` does with the settings, and its defaults."""
    asked = request.settings
    origins: dict[str, str] = {}
    differences: tuple[Difference, ...] = ()
    context, parallel, unified = asked.context or 0, asked.parallel, asked.kv_unified
    if parallel is None:
        parallel, origins["parallel"] = _SERVER_SLOTS, "llama-server's choice, with one cache"
        if unified is False:
            reason = "llama-server unifies the cache where the number of sequences is left to it"
            differences = (Difference("kv_unified", False, True, reason),)
        unified = True
    if not context:
        origins["context"] = "left to llama.cpp"
    flash_attention = asked.flash_attention
    if flash_attention is None:
        flash_attention = not device_obstacle(_llama_cpp_devices(request))
        origins["flash_attention"] = "on where all GPUs support it"
    settings = LlamaCppSettings(
        context=context,
        parallel=parallel,
        kv_unified=bool(unified),
        batch=asked.batch or _SERVER_BATCH,
        ubatch=asked.ubatch or _SERVER_UBATCH,
        type_k=asked.cache_type_k or asked.kv_cache_type or "f16",
        type_v=asked.cache_type_v or asked.kv_cache_type or "f16",
        flash_attention=flash_attention,
        offload_kv=asked.offload_kv is not False,
        swa_full=bool(asked.swa_full),
    )
    margins = [asked.projector_bytes]  # llama-server adds the projector's device
    return _allocated(request, LLAMA_CPP, _Request(settings, origins, differences), margins)


def _plan_ollama(request: PlanRequest) -> Plan:
    """Allocate as the `llama-server` does that Ollama starts. Source: llm/llama_server.go."""
    asked, h = request.settings, request.h
    if asked.context == 0:  # as if it were not given
        request = replace(request, settings=replace(asked, context=None))
    context, parallel = _context(request), _parallel(request)
    cells = context.value * parallel.value
    flash_attention = _flash_attention(request)
    batch = asked.batch
    if h.embedding_model:
        batch = min(batch or min(_EMBEDDING_BATCH, context.value), cells)
    elif batch is None:
        plan = _predict(request)
        batch = plan.effective.batch
    kind = asked.kv_cache_type or env.text(request.environment, env.KV_CACHE_TYPE).lower() or "f16"
    settings = LlamaCppSettings(
        context=cells,
        parallel=parallel.value,
        kv_unified=False,  # Ollama states the number of sequences
        batch=max(batch, 1),
        ubatch=max(batch, 1),
        type_k=asked.cache_type_k or kind,
        type_v=asked.cache_type_v or kind,
        flash_attention=flash_attention,
        offload_kv=asked.offload_kv is not False,
        swa_full=bool(asked.swa_full),
    )
    origins = {"context": context.origin, "parallel": parallel.origin}
    differences = (*context.differences, *parallel.differences)
    margins = [asked.projector_bytes] * len(request.devices)  # Ollama adds it for all of them
    return _allocated(request, OLLAMA, _Request(settings, origins, differences), margins)


def _llama_cpp_devices(request: PlanRequest) -> tuple[Device, ...]:
    """Return the GPUs that llama.cpp uses: integrated ones only where there are no others."""
    discrete = tuple(device for device in request.devices if not device.integrated)
    devices = discrete or request.devices
    return devices[:1] if request.settings.split_mode == "none" else devices


def _allocated(
    request: PlanRequest, profile: Profile, wanted: _Request, more: Sequence[int]
) -> Plan:
    """Return the plan of a server with these arguments; `more` is added to the GPUs' margins."""
    asked, header = request.settings, _header(request)
    devices = _llama_cpp_devices(request)
    settings, decision = _placed(request, header, wanted.settings, devices, more)
    allocation = allocate(header, settings)
    default = DEFAULT_RESERVE if asked.reserve is None else asked.reserve
    host = request.host
    outcome = Outcome(
        header=header,
        settings=settings,
        allocation=allocation,
        decision=decision,
        devices=devices,
        reserves=tuple(default if one.reserve is None else one.reserve for one in devices),
        host_free=None if host is None or host.macos else host.free + host.swap,
        projector=asked.projector_bytes,
        split_mode=asked.split_mode or "layer",
        context_was_open=not wanted.settings.context,
        origins=wanted.origins,
    )
    origins, differences = dict(wanted.origins), wanted.differences
    if profile is LLAMA_CPP and asked.context:  # Ollama's is that of a sequence
        given, held = asked.context, allocation.n_ctx_seq
        if held < given:
            count = settings.parallel
            reason = f"llama.cpp divides it among {count} sequences; a unified cache is shared"
            differences = (*differences, Difference("context", given, held, reason))
        elif held > given:
            origins["context"] = "rounded up to what llama.cpp counts in"
    types = dict.fromkeys((settings.type_k, settings.type_v))
    effective = EffectiveSettings(
        context=allocation.n_ctx_seq,
        parallel=settings.parallel,
        batch=settings.batch,
        kv_cache_type="/".join(types),
        flash_attention=settings.flash_attention,
        num_gpu=AUTOMATIC if asked.num_gpu is None else asked.num_gpu,
        projector_bytes=asked.projector_bytes,
        requested=asked,
        differences=differences,
        origins=origins,
    )
    return Plan(
        profile=profile.name,
        request=request,
        effective=effective,
        weights=outcome.weights,
        kv_total=outcome.cache,
        llama_cpp=outcome,
        notes=tuple(llama_cpp_notes(outcome, effective)),
        warnings=tuple(llama_cpp_warnings(outcome)),
    )


def _header(request: PlanRequest) -> Header:
    header = request.h.llama_cpp
    if isinstance(header, str):
        raise PlanError(header)
    return header


def _placed(
    request: PlanRequest,
    header: Header,
    settings: LlamaCppSettings,
    devices: tuple[Device, ...],
    more: Sequence[int],
) -> tuple[LlamaCppSettings, Decision | None]:
    """Return the arguments with a placement, and what llama.cpp decided of it, if anything."""
    asked, count = request.settings, len(devices)
    layers = asked.num_gpu if asked.num_gpu is not None and asked.num_gpu >= 0 else None
    chosen = (layers, asked.tensor_split, asked.cpu_moe_layers) != (None, None, None)
    split = _split(devices, asked.tensor_split)
    settings = replace(
        settings,
        devices=count,
        gpu_layers=min(header.blocks + 1 if layers is None else layers, header.blocks + 1),
        tensor_split=split if count > 1 else None,
        cpu_moe_layers=min(asked.cpu_moe_layers or 0, header.blocks),
    )
    if settings.context and (chosen or not count):
        return settings, None
    margin = DEFAULT_MARGIN if asked.margin is None else asked.margin
    margins = [margin + extra for extra, _ in zip_longest(more, devices, fillvalue=0)][: count or 1]
    host = None if request.host is None else request.host.total or request.host.free
    free = [device.free for device in devices]
    decision = fit(header, settings, free, margins, host=host, placed=chosen, as_server=True)
    return decision.settings, decision


def _split(devices: Sequence[Device], shares: Sequence[float] | None) -> tuple[float, ...]:
    """Return the share of each GPU: as asked, else by free memory."""
    if shares is not None:
        padded = (*shares, *[0.0] * len(devices))[: len(devices)]
        if any(padded):
            return padded
    free = tuple(float(device.free) for device in devices)
    return free if any(free) else (1.0,) * len(devices)


def left_alone(request: PlanRequest, profile: str) -> Plan:
    """Return what llama.cpp would do if context and placement were left to it.

    Raises:
        PlanError: The profile does not exist, or the model cannot be planned by it.
    """
    open_ones: dict[str, Any] = dict.fromkeys(("num_gpu", "tensor_split", "cpu_moe_layers"))
    context = 0 if profile == LLAMA_CPP.name else request.settings.context
    settings = replace(request.settings, context=context, **open_ones)
    return profile_named(profile).plan(replace(request, settings=settings))


def default_profile(h: Hyperparameters) -> str:
    """Return the name of the profile of what runs a model, by where it was found.

    llama.cpp reads GGUF alone; of other formats the estimate says what they would need.
    """
    if h.after_conversion:
        return GRAPH_SIZE.name
    return OLLAMA.name if h.in_ollama_store else LLAMA_CPP.name


LLAMA_CPP: Final = Profile("llama.cpp", "llama.cpp, as of build 11434", _plan_llama_cpp)
OLLAMA: Final = Profile(
    "ollama", "Ollama 0.30 and later: llama.cpp as Ollama starts it", _plan_ollama
)
GRAPH_SIZE: Final = Profile(
    "ollama-graphsize", "Ollama up to 0.13: its own estimate and layout of layers", _plan_graph_size
)
PREDICTION: Final = Profile(
    "ollama-0.30", "Ollama from 0.30 on: its own prediction, for scheduling only", _predict
)
PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {profile.name: profile for profile in (LLAMA_CPP, OLLAMA, PREDICTION, GRAPH_SIZE)}
)
"""The profiles by name; which is the default: `default_profile`."""


_NO_RULES = "this program has no such setting: choose llama.cpp"
_RESERVE = "llama.cpp has no such setting: a reserve on each GPU stands for it"
_ALL_GPUS = "llama.cpp always uses all GPUs"
_OLD_ONLY = {"overhead": _RESERVE, "spread": _ALL_GPUS}
_NEW = ("ubatch", "kv_unified", "cpu_moe_layers", "tensor_split", "reserve")
_NEW_ONLY = dict.fromkeys(_NEW, _NO_RULES)
_NO_LAYOUT = "this prediction places no layers"
_IGNORED: Final[Mapping[str, Mapping[str, str]]] = {
    LLAMA_CPP.name: _OLD_ONLY,
    OLLAMA.name: _OLD_ONLY
    | {"ubatch": "Ollama gives llama.cpp the batch for both"}
    | {"kv_unified": "Ollama gives each sequence a cache of its own"},
    PREDICTION.name: _NEW_ONLY
    | dict.fromkeys(("num_gpu", "overhead", "spread"), _NO_LAYOUT)
    | {"kv_cache_type": "this prediction counts every cache as f16"},
    GRAPH_SIZE.name: _NEW_ONLY,
}


def ignored_settings(profile: str) -> Mapping[str, str]:
    """Return the names of settings that change nothing under a profile, and why."""
    return _IGNORED.get(profile, {})


def profiles_for(h: Hyperparameters) -> list[str]:
    """Return the names of the profiles that can read the format of a model."""
    readers = (LLAMA_CPP.name, OLLAMA.name)
    return [name for name in PROFILES if not (h.after_conversion and name in readers)]


def profile_named(name: str) -> Profile:
    """Return the profile of a name; raise `PlanError` if there is none."""
    if name not in PROFILES:
        raise PlanError(f"there is no profile {quoted(name)!r}; use one of {', '.join(PROFILES)}")
    return PROFILES[name]


def plan(  # noqa: PLR0913 - the options by name are docs/interface.md's promise
    model: Model | Hyperparameters,
    settings: Settings | None = None,
    devices: Sequence[Device] = (),
    *,
    host: Host | None = None,
    environment: Mapping[str, str] | None = None,
    profile: str = GRAPH_SIZE.name,
) -> Plan:
    """Return the memory that a model needs, and where its layers go.

    Args:
        model: The model, or what was read of it before; reading is the slower part.
        settings: What is asked for; None asks for nothing.
        devices: The GPUs. None are looked for.
        host: Memory of the machine; None checks nothing against it.
        environment: Ollama's environment variables; those of the process are not looked at.
        profile: Name of one profile.

    Raises:
        PlanError: The model cannot be planned, the profile does not exist, or Ollama would refuse
            to load the model (see `PlanError.reason`).
    """
    h = model if isinstance(model, Hyperparameters) else Hyperparameters.from_model(model)
    request = PlanRequest(h, settings or Settings(), tuple(devices), host, environment or {})
    return profile_named(profile).plan(request)


def with_types(
    model: Model, h: Hyperparameters, types: Mapping[int, TensorType]
) -> Hyperparameters:
    """Return hyperparameters of a model with other types of tensors, by row of its table.

    Weights enter a plan by the bytes of each group of tensors, and by those of block 0's stacked
    gate experts (docs/planner.md, sections 2 and 6).
    """
    group = group_table if model.format == "gguf" else group_config
    columns = model.tensors.columns
    more = sum(
        (kind.nbytes(columns.parameters[row]) or 0) - columns.nbytes[row]
        for row, kind in types.items()
    )
    return replace(
        h,
        tensors=group(model.tensors, types),
        file_bytes=max(0, h.file_bytes + more),
        llama_cpp=llama_cpp_header(model, types),
    )
