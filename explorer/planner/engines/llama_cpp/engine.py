"""llama.cpp: what its server allocates with the settings that are asked for, and its defaults.

docs/planner.md, section 13. Ollama starts the same server with other arguments, by `allocated`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final

from explorer.errors import PlanError
from explorer.parallel import Check
from explorer.planner import settings as known
from explorer.planner.attachments import check_together
from explorer.planner.devices import Device, quoted
from explorer.planner.engines.llama_cpp.allocation import MAX_SEQUENCES, allocate, as_built
from explorer.planner.engines.llama_cpp.allocation import Settings as ServerSettings
from explorer.planner.engines.llama_cpp.builds import NEWEST, changes_since, knows_graph, revision
from explorer.planner.engines.llama_cpp.fitting import DEFAULT_MARGIN, Decision, fit
from explorer.planner.engines.llama_cpp.header import Header
from explorer.planner.engines.llama_cpp.kernels import lacks_kernel
from explorer.planner.engines.llama_cpp.outcome import Outcome, compute_most
from explorer.planner.engines.llama_cpp.programs import PROGRAMS, SERVER
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plans import Accuracy, Effective, Engine, Plan, difference_notes
from explorer.planner.request import PlanRequest
from explorer.planner.searching import largest_held
from explorer.planner.settings import Settings
from explorer.text import bytes_text, integer_text

_UBATCH: Final = 512
_DRAFTED: Final = 3  # tokens, where a draft model is given and no number (`common_params`)

_OF_OLLAMA: Final = (known.OVERHEAD, known.SPREAD)
SETTINGS: Final = tuple(one for one in known.SERVER_SETTINGS if one not in _OF_OLLAMA)
"""The settings that llama.cpp knows."""

PLACING: Final = ("num_gpu", "tensor_split", "cpu_moe_layers")
"""Settings that say where layers go."""


class ServerEngine(Engine):
    """A program that loads models with llama.cpp's server."""

    context_step = 256  # it rounds contexts up
    most_parallel = MAX_SEQUENCES
    keeps_layers = True

    def refusal(self, h: Hyperparameters) -> str:
        """Refuse everything but GGUF files."""
        return "llama.cpp reads GGUF files" if h.is_safetensors else ""

    def is_slow(self, h: Hyperparameters) -> bool:
        """Say that experts may be left on the CPU, which takes many trials."""
        return not isinstance(h.llama_cpp, str) and h.llama_cpp.experts_used > 0

    def all_on_gpus(self, request: PlanRequest) -> dict[str, Any]:
        """Ask for all layers: left alone, llama.cpp keeps a margin free, not only the reserve."""
        return {"num_gpu": request.h.total_layers}

    def context_as_placed(self, plan: Plan, check: Check) -> int | None:
        """Return the largest context at which nothing is short; layers stay as planned."""
        return _context_as_placed(plan, check)


class LlamaCpp(ServerEngine):
    """`llama-server`, and what else loads models with libllama."""

    name = "llama.cpp"
    title = "llama.cpp, as of build 11434"
    short_title = "llama.cpp"
    rule = "llama.cpp allocates what its graph needs and lowers what you leave open"
    settings = SETTINGS
    chooses = ("context", *PLACING)
    shares_context = True

    def plan(self, request: PlanRequest) -> Plan:
        """Allocate as `llama-server` does with the settings, and its defaults."""
        asked = request.settings
        origins: dict[str, str] = {}
        context, parallel = asked.context or 0, asked.parallel
        name = asked.program or SERVER
        program = PROGRAMS[name]
        if parallel is None:
            parallel, origins["parallel"] = 1, f"one person chats{program.otherwise}"
        if not context:
            origins["context"] = "left to llama.cpp"
        elif program.more:
            context += program.more
        settings = ServerSettings(
            context=context,
            parallel=parallel,
            kv_unified=bool(asked.kv_unified),
            batch=asked.batch or program.batch,
            ubatch=asked.ubatch or _UBATCH,
            type_k=asked.cache_type_k or asked.kv_cache_type or "f16",
            type_v=asked.cache_type_v or asked.kv_cache_type or "f16",
            flash_attention=asked.flash_attention,
            offload_kv=asked.offload_kv is not False,
            swa_full=bool(asked.swa_full),
            all_logits=bool(asked.all_logits) or program.all_logits,
        )
        weights, compute = request.projectors
        margins = [weights + compute[1]]  # llama-server adds the projector's device
        return allocated(self, request, Wanted(settings, origins, {}, margins, name))


LLAMA_CPP: Final = LlamaCpp()


@dataclass(frozen=True)
class Wanted:
    """What a server is asked for: its arguments, where they came from, and what it changes."""

    settings: ServerSettings
    origins: Mapping[str, str]
    differences: Mapping[str, Effective]
    margins: Sequence[int]  # bytes that are added to those that are left free on each GPU
    program: str = ""  # of `PROGRAMS`; "" where the engine is one itself


def allocated(engine: Engine, request: PlanRequest, wanted: Wanted) -> Plan:
    """Return the plan of a server with these arguments."""
    asked, header = request.settings, _header_of(request.h)
    devices = _devices(request)
    wanted = replace(wanted, settings=_speculating(request, wanted.settings, devices))
    settings, decision = _placed(request, header, wanted, devices)
    check_together(header, request.attached)
    outcome = Outcome(
        request=request,
        header=header,
        settings=settings,
        allocation=allocate(header, settings),
        decision=decision,
        devices=devices,
        context_was_open=not wanted.settings.context,
    )
    effective = _effective(engine, asked, wanted, outcome)
    return outcome.plan(engine, effective, _notes(outcome, effective, asked), _warnings(outcome))


def _speculating(
    request: PlanRequest, settings: ServerSettings, devices: Sequence[Device]
) -> ServerSettings:
    """Return the arguments with what all programs have in common: speculation, build, devices."""
    asked, draft = request.settings, request.draft
    drafting = None if draft is None else _header_of(draft)
    if drafting is not None and asked.mtp:
        raise PlanError("tokens are drafted by the model itself or by a draft model, not by both")
    return as_built(
        replace(
            settings,
            mtp=asked.mtp or 0,
            draft=drafting,
            draft_max=0 if drafting is None else asked.draft_max or _DRAFTED,
            build=asked.build or NEWEST,
            library=devices[0].library if devices else "CPU",
        )
    )


def _effective(
    engine: Engine, asked: Settings, wanted: Wanted, outcome: Outcome
) -> dict[str, Effective]:
    """Return what holds of each setting, in the order in which differences are listed."""
    settings, allocation = outcome.settings, outcome.allocation
    origins, differences = dict(wanted.origins), dict(wanted.differences)
    if engine.shares_context and asked.context:
        given, held = asked.context, allocation.n_ctx_seq
        if held < given:
            count = settings.parallel
            reason = f"llama.cpp divides it among {count} requests, unless they share one cache"
            differences["context"] = Effective(held, given, reason)
        elif held > given:
            origins["context"] = "rounded up to what llama.cpp counts in"
    values = {
        "kv_unified": settings.kv_unified,
        "context": allocation.n_ctx_seq,
        "parallel": settings.parallel,
        "batch": settings.batch,
        "kv_cache_type": "/".join(dict.fromkeys((settings.type_k, settings.type_v))),
        "flash_attention": allocation.flash_attention,
        "num_gpu": outcome.gpu_layers,
        "ubatch": settings.ubatch,
        "cache_type_k": settings.type_k,
        "cache_type_v": settings.type_v,
        "tensor_split": tuple(len(held.layers) for held in outcome.gpus),
        "cpu_moe_layers": len(outcome.expert_layers),
        "split_mode": outcome.split_mode,
        "offload_kv": settings.offload_kv,
        "swa_full": settings.swa_full,
        "reserve": outcome.largest_reserve,
        **({"program": wanted.program} if wanted.program else {}),
        "mtp": settings.mtp,
        "draft_max": settings.draft_max,
        "all_logits": settings.all_logits,
        "build": settings.build,
    }
    if settings.flash_attention is None:
        origins["flash_attention"] = _why_flash_attention(outcome)
    effective = {name: Effective(value) for name, value in values.items()}
    for name, origin in origins.items():
        effective[name] = Effective(values[name], origin=origin)
    for name, one in differences.items():
        effective[name] = one._replace(value=values[name])
    return effective


def _why_flash_attention(outcome: Outcome) -> str:
    """Say why flash attention is on or off where it is left to llama.cpp."""
    if outcome.allocation.flash_attention:
        return "on: the device of each layer has a kernel for it"
    lacks = _lacks_kernel(outcome)
    return f"off: {lacks or 'the cache is on the CPU, and attention comes to lie there too'}"


def _lacks_kernel(outcome: Outcome) -> str:
    settings = outcome.settings
    types, build = (settings.type_k, settings.type_v), revision(settings.build)
    return lacks_kernel(outcome.header, settings.library, types, build)


def _cost_without_flash_attention(outcome: Outcome) -> int:
    """Return the bytes that the GPUs compute with beyond those with a kernel for it."""
    header, settings = outcome.header, outcome.settings
    on = allocate(header, replace(settings, flash_attention=True)).buffers
    pairs = ((outcome.allocation.buffers[name], on[name]) for name in on if name[:3] == "GPU")
    return sum(compute_most(held) - compute_most(other) for held, other in pairs)


def _header_of(h: Hyperparameters) -> Header:
    header = h.llama_cpp
    if isinstance(header, str):
        raise PlanError(header)
    return header


def _devices(request: PlanRequest) -> tuple[Device, ...]:
    """Return the GPUs that llama.cpp uses: integrated ones only where there are no others."""
    discrete = tuple(device for device in request.devices if not device.integrated)
    devices = discrete or request.devices
    return devices[:1] if request.settings.split_mode == "none" else devices


def _placed(
    request: PlanRequest, header: Header, wanted: Wanted, devices: tuple[Device, ...]
) -> tuple[ServerSettings, Decision | None]:
    """Return the arguments with a placement, and what llama.cpp decided of it, if anything."""
    asked, count = request.settings, len(devices)
    layers = asked.num_gpu if asked.num_gpu is not None and asked.num_gpu >= 0 else None
    chosen = (layers, asked.tensor_split, asked.cpu_moe_layers) != (None, None, None)
    split = split_over(devices, asked.tensor_split)
    settings = replace(
        wanted.settings,
        devices=count,
        gpu_layers=min(header.blocks + 1 if layers is None else layers, header.blocks + 1),
        tensor_split=split if count > 1 else None,
        cpu_moe_layers=min(asked.cpu_moe_layers or 0, header.blocks),
    )
    if settings.context and (chosen or not count):
        return settings, None
    margin = DEFAULT_MARGIN if asked.margin is None else asked.margin
    pairs = zip_longest(wanted.margins, devices, fillvalue=0)
    margins = [margin + int(extra) for extra, _ in pairs][: count or 1]
    host = None if request.host is None else request.host.total or request.host.free
    free = [device.free for device in devices]
    decision = fit(header, settings, free, margins, host=host, placed=chosen, as_server=True)
    return decision.settings, decision


def split_over(devices: Sequence[Device], shares: Sequence[float] | None) -> tuple[float, ...]:
    """Return the share of each GPU: as asked, else by free memory."""
    if shares is not None:
        padded = (*shares, *[0.0] * len(devices))[: len(devices)]
        if any(padded):
            return padded
    free = tuple(float(device.free) for device in devices)
    return free if any(free) else (1.0,) * len(devices)


def _notes(outcome: Outcome, effective: Mapping[str, Effective], asked: Settings) -> Iterator[str]:
    """Yield notes on a plan by llama.cpp's rules."""
    yield from difference_notes(effective)
    if asked.overhead is not None or asked.spread is not None:
        yield "overhead and spread are settings of Ollama up to 0.13 and change nothing. See margin"
    yield from outcome.reserve_notes()
    trained = outcome.header.trained_context
    if 0 < trained < outcome.allocation.n_ctx_seq:
        tokens = integer_text(trained)
        yield f"the context is longer than the {tokens} tokens that the model was trained for"
    settings = outcome.settings
    if settings.flash_attention is None and not outcome.allocation.flash_attention:
        cost = _cost_without_flash_attention(outcome)
        more = f". That takes {bytes_text(cost)} more on the GPUs" if cost > 0 else ""
        yield f"flash attention is {_why_flash_attention(outcome)}{more}"
    if "program" in effective and (unknown := PROGRAMS[effective["program"].value].unknown):
        yield unknown
    has_mtp = outcome.header.loaded < outcome.header.blocks
    for change in changes_since(settings.build, settings.library, has_mtp=has_mtp):
        yield f"build {settings.build} is older than {change.build}, which {change.what}"
    if not settings.mtp and settings.draft is None and outcome.header.guesses_ahead:
        yield "the model has MTP layers: speculative decoding (--mtp 3) plans with them"
    if outcome.projector and outcome.projector_compute.high:
        low, high = map(bytes_text, outcome.projector_compute)
        yield (
            f"the projector takes {bytes_text(outcome.projector)} of weights and {low} to {high} "
            "for its largest picture, worked out from its widths. The most is counted"
        )
    elif outcome.projector:
        yield (
            f"the projector ({bytes_text(outcome.projector)}) is counted with its weights, but not "
            "with its compute buffer"
        )
    if not outcome.verdict.all_on_gpus:
        yield (
            "weights in main memory are mapped from the file: if other programs need that memory, "
            "they are read from disk again and again"
        )


def _warnings(outcome: Outcome) -> Iterator[str]:
    """Yield what makes the figures of a plan by llama.cpp's rules doubtful."""
    if outcome.accuracy is not Accuracy.EXACT:
        name, library = quoted(outcome.header.architecture), quoted(outcome.settings.library)
        if outcome.header.rules.accuracy == "exact":
            build, architecture = outcome.settings.build, outcome.header.architecture
            where = f"on {library}" if knows_graph(build, architecture) else f"of build {build}"
            yield f"compute buffers {where} are up to 10 % larger or smaller than planned"
        else:
            yield f"the compute buffers of {name} are not known. Those of a similar model are used"
    missing = _lacks_kernel(outcome)
    attends_on_gpu = any(place.startswith("GPU") for place in outcome.allocation.places[:-1])
    if attends_on_gpu and outcome.allocation.flash_attention and missing:
        yield f"{missing}: llama.cpp computes attention on the CPU, which is slow"
    for held in outcome.gpus:
        if held.missing and held.device is not None:
            name, missing = quoted(held.device.label), bytes_text(held.missing)
            yield f"the model needs {missing} more than is free on {name}. Loading may fail"
        elif held.short and held.device is not None and not outcome.verdict.depends_on:
            name, reserve = quoted(held.device.label), held.reserve.high
            left = max(0, reserve - held.short)
            yield (
                f"driver and program may take up to {bytes_text(reserve)} of {name}, where "
                f"{bytes_text(left)} is left for them"
            )
    if outcome.decision is not None and not outcome.decision.fits:
        yield "llama.cpp finds no placement that keeps its margin free, and loads the model anyway"


def server_settings(plan: Plan) -> ServerSettings | None:
    """Return the arguments of llama.cpp's server that a plan holds; None where it starts none."""
    return plan.details.settings if isinstance(plan.details, Outcome) else None


_STEP: Final = ServerEngine.context_step
_MOST_TOKENS: Final = 1 << 30


def _context_as_placed(plan: Plan, check: Check) -> int | None:
    """Return the largest context at which nothing is short; layers stay as planned."""
    placed = plan.details
    assert isinstance(placed, Outcome)  # made here
    held = placed.settings
    layers = {"num_gpu": held.gpu_layers, "tensor_split": held.tensor_split}
    trained = plan.request.h.trained_context
    most = max(1, min(trained or _MOST_TOKENS, _MOST_TOKENS) // _STEP)

    def room(value: int) -> int | None:
        check()
        settings = replace(held, context=value * _STEP)
        try:
            if not plan.engine.shares_context:  # Ollama's batch follows from the context
                asked = plan.engine.plan(plan.request.asking(context=value * _STEP, **layers))
                assert isinstance(asked.details, Outcome)
                settings = replace(asked.details.settings, overrides=held.overrides)
            # compute buffers, most of the work, need not be known where the rest is too much
            least = allocate(placed.header, settings, with_compute=False)
            left = replace(placed, settings=settings, allocation=least).room
            if left < 0 and value < most:
                return left
            allocation = allocate(placed.header, settings)
        except PlanError:
            return None
        return replace(placed, settings=settings, allocation=allocation).room

    value = int(plan.used("context")) // _STEP
    known = (value, placed.room) if value and placed.room >= 0 else None
    return largest_held(room, most, known) * _STEP or None
