"""Ollama 0.30 and later: llama.cpp's server, with the arguments that Ollama gives it.

docs/planner.md, sections 12 and 13. Source: Ollama v0.33.0-rc2, `llm/llama_server.go`. What it
expects of memory before it starts the server chooses the batch, and is shown nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from explorer.planner import environment as env
from explorer.planner.devices import GIB, MAX_COUNT, MIB, Device, flash_attention_obstacle, sized
from explorer.planner.engines.llama_cpp.allocation import Settings as ServerSettings
from explorer.planner.engines.llama_cpp.engine import (
    PLACING,
    SETTINGS,
    ServerEngine,
    Wanted,
    allocated,
)
from explorer.planner.plans import Effective, Plan
from explorer.planner.request import PlanRequest
from explorer.planner.settings import MAX_PARALLEL
from explorer.text import integer_text

_ONE_SEQUENCE: Final = frozenset((
    "mllama", "qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe", "qwen3next", "lfm2", "lfm2moe",
    "nemotron_h", "nemotron_h_moe", "nemotron_h_omni",
))  # fmt: skip
_LARGE, _MEDIUM, _SMALL, _LEAST = 2048, 1024, 512, 256
_BATCHES: Final = ((32_768, _LARGE), (4_096, _MEDIUM), (-1, _SMALL))  # above so many cells
_SHARES: Final = {_LARGE: 60, _MEDIUM: 75}  # per cent of memory that a batch may meet
_SURCHARGES: Final = ((_LARGE, 2 * GIB), (_MEDIUM, 768 * MIB))
_SMALL_CARD: Final = 8 * GIB
_SMALL_CARD_CELLS: Final = 4096
_CACHE_BYTES: Final = 2  # of an element, whatever its type
_EMBEDDING_BATCH: Final = 2048

_DECIDED: Final = ("program", "ubatch", "kv_unified")
"""Settings that Ollama makes itself: the batch is that of both, each request has its own cache."""


class Ollama(ServerEngine):
    """Ollama 0.30 and later."""

    name = "ollama"
    title = "Ollama 0.30 and later: llama.cpp as Ollama starts it"
    short_title = "Ollama 0.30 and later"
    rule = "Ollama starts the same program with its own context, batch and number of requests"
    settings = tuple(one for one in SETTINGS if one.name not in _DECIDED)
    chooses = PLACING  # Ollama always states a context

    def plan(self, request: PlanRequest) -> Plan:
        """Allocate as the `llama-server` does that Ollama starts."""
        asked, h = request.settings, request.h
        context, parallel = _context(request), _parallel(request)
        cells = context.value * parallel.value
        flash_attention = _flash_attention(request)
        batch = asked.batch
        if h.embedding_model:
            batch = min(batch or min(_EMBEDDING_BATCH, context.value), cells)
        elif not batch:
            batch = _batch(request, cells, flash_attention=flash_attention)
        kind = asked.kv_cache_type or env.text(request.environment, env.KV_CACHE_TYPE).lower()
        settings = ServerSettings(
            context=cells,
            parallel=parallel.value,
            kv_unified=False,  # Ollama states the number of sequences
            batch=max(batch, 1),
            ubatch=max(batch, 1),
            type_k=asked.cache_type_k or kind or "f16",
            type_v=asked.cache_type_v or kind or "f16",
            flash_attention=_asked_flash_attention(request) if flash_attention else False,
            offload_kv=asked.offload_kv is not False,
            swa_full=bool(asked.swa_full),
        )
        origins = {"context": context.origin, "parallel": parallel.origin}
        margins = [request.projectors[0]] * len(request.devices)  # Ollama adds it for all of them
        differences = {**context.difference, **parallel.difference}
        return allocated(self, request, Wanted(settings, origins, differences, margins))


OLLAMA: Final = Ollama()


@dataclass(frozen=True, slots=True)
class _Choice:
    """A setting's value, where it came from, and how it differs from the request, by its name."""

    value: int
    origin: str
    difference: dict[str, Effective] = field(default_factory=dict)

    def instead(self, name: str, value: int, reason: str) -> _Choice:
        """Return another value, and why it is not this one."""
        return _Choice(value, reason, {name: Effective(value, self.value, reason)})


def _first(request: PlanRequest, name: str, variable: str) -> _Choice | None:
    """Return what the settings, the model's own parameters or the environment say, or None."""
    asked: int | None = getattr(request.settings, name)
    if asked:  # a context of 0 is as if it were not given
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
        value = env.default_context(request.devices)
        return _Choice(min(value, limit), "chosen by the memory of the GPUs")
    if asked.value <= limit:
        return asked
    reason = f"the model was trained for {integer_text(limit)} tokens"
    return asked.instead("context", limit, reason)


def _parallel(request: PlanRequest) -> _Choice:
    asked = _first(request, "parallel", env.NUM_PARALLEL) or _Choice(1, "default 1")
    value = min(max(asked.value, 1), MAX_PARALLEL)
    architecture = request.h.architecture
    if value == 1 or architecture not in _ONE_SEQUENCE:
        return _Choice(value, asked.origin)
    return asked.instead("parallel", 1, f"{architecture} runs one request at a time")


def _asked_flash_attention(request: PlanRequest) -> bool | None:
    """Return whether it is asked for; None leaves it to llama.cpp."""
    asked = request.settings.flash_attention
    return env.boolean(request.environment, env.FLASH_ATTENTION) if asked is None else asked


def _flash_attention(request: PlanRequest) -> bool:
    """Return whether it is on: newer releases leave it on unless it is turned off or impossible."""
    return _asked_flash_attention(request) is not False and not flash_attention_obstacle(
        request.devices
    )


def _batch(request: PlanRequest, cells: int, *, flash_attention: bool) -> int:
    """Return the batch that Ollama chooses by what it expects of memory: file and a plain cache."""
    h, devices = request.h, request.devices
    head = h.embedding_length // h.heads if h.heads else 0
    cache = 2 * h.block_count * max(h.kv_heads_min, 1) * head * cells * _CACHE_BYTES
    expected = sized(h.file_bytes + cache, "the model with its cache")
    host = 0 if request.host is None else request.host.free
    available = sum(device.free for device in devices) if devices else host
    return choose_batch(cells, expected, available, devices, flash_attention=flash_attention)


def choose_batch(
    cells: int, expected: int, available: int, devices: Sequence[Device], *, flash_attention: bool
) -> int:
    """Return the batch that Ollama chooses if none is requested.

    `cells` are context × parallel, `expected` the bytes of file and cache, `available` free bytes.
    """
    cuda = [device for device in devices if device.library == "CUDA"]
    if cuda and not flash_attention:
        small = any(min(card.free, card.capacity_bytes) <= _SMALL_CARD for card in cuda)
        return _LEAST if cells > _SMALL_CARD_CELLS and small else _SMALL
    batch = next(size for above, size in _BATCHES if cells > above)
    usable = available * 80 // 100  # what a model may take beside others
    while batch > _SMALL:
        within = expected <= usable and expected <= available * _SHARES[batch] // 100
        surcharge = next((nbytes for least, nbytes in _SURCHARGES if batch >= least), 0)
        if within and surcharge <= usable - expected:
            break
        batch = {_LARGE: _MEDIUM, _MEDIUM: _SMALL}[batch]
    return batch
