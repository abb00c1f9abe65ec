"""The settings that hold in Ollama 0.13, and the reason wherever they are not as asked for.

docs/planner.md, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from explorer.planner import environment as env
from explorer.planner.devices import (
    GIB,
    MAX_MEMORY,
    Device,
    check_devices,
    flash_attention_obstacle,
)
from explorer.planner.engines.ollama_013.sizes import DEFAULT_BATCH, DEFAULT_CONTEXT, Workload
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plans import Effective
from explorer.planner.settings import MAX_PARALLEL, Settings
from explorer.text import integer_text

# Flash attention (docs/planner.md, section 3, step 6). Source: Ollama, llm/server.go, start of
# `NewLlamaServer`; fs/ggml/ggml.go, `FlashAttention` and `SupportsFlashAttention`; ml/device.go,
# `FlashAttentionSupported`.

_ON_BY_DEFAULT: Final = frozenset(
    {"gemma3", "gptoss", "gpt-oss", "mistral3", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe"}
)
_NEVER: Final = frozenset({"gemma2"})


def _model_obstacle(h: Hyperparameters) -> str:
    """Return why the model has no flash attention; empty if it can have it."""
    if h.embedding_model:
        return "an embedding model has no flash attention"
    if h.architecture in _NEVER:
        return f"{h.architecture} has no flash attention"
    if h.key_length == 0 or h.value_length == 0:
        return "without the length of a head's key and value there is no flash attention"
    if h.key_length != h.value_length:
        return (
            f"keys of length {h.key_length} and values of length {h.value_length} differ, "
            "which rules flash attention out"
        )
    return ""


_LEAST_CONTEXT: Final = 4
_LEAST_VISION_CONTEXT: Final = 2048
_LARGE_CONTEXT: Final = 8192
_LARGE_CONTEXT_VRAM: Final = 20 * GIB
_LARGE_CONTEXT_FAMILIES: Final = frozenset({"gptoss", "gpt-oss", "qwen3vl", "qwen3vlmoe"})
_ONE_SEQUENCE_FAMILIES: Final = frozenset({"mllama", "qwen3vl", "qwen3vlmoe"})
_CACHE_TYPES: Final = frozenset({"f16", "q8_0", "q4_0"})
_WHAT_IF_TYPE: Final = "f32"


@dataclass(frozen=True, slots=True)
class EffectiveSettings(Workload):
    """The settings that hold; the batch is that before the rule of loading an embedding model.

    Attributes:
        differences: Settings that hold another value than was asked for, and why.
        origins: Setting → where its value came from.
    """

    overhead: int = 0
    spread: bool = False
    differences: Mapping[str, Effective] = field(default_factory=lambda: MappingProxyType({}))
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def what_if(self) -> bool:
        """Whether the cache type is one that a running server does not accept."""
        return self.kv_cache_type == _WHAT_IF_TYPE


def effective_settings(
    h: Hyperparameters,
    settings: Settings,
    devices: Sequence[Device] = (),
    environment: Mapping[str, str] | None = None,
    *,
    server_rules: bool = False,
) -> EffectiveSettings:
    """Return the settings that hold when Ollama loads a model.

    Args:
        h: The model.
        settings: What was asked for.
        devices: The GPUs of the machine.
        environment: Ollama's environment variables; the process's own is not looked at.
        server_rules: Whether what was asked for also obeys the server's rules before loading:
            least contexts (step 1) and one sequence for some models (step 4), as in `plan`.
            Without, an explicit context or number of sequences goes to the loader as it is, as in
            the golden settings cases; defaults always obey the server.

    Raises:
        PlanError: The devices contradict each other.
    """
    devices = check_devices(devices)
    log = _Log({} if environment is None else environment)
    context = _context(h, settings, devices, log, server_rules)
    batch = _batch(settings, context, log)
    parallel = _parallel(h, settings, log, server_rules)
    flash_attention = _flash_attention(h, settings, devices, log)
    return EffectiveSettings(
        context=context,
        parallel=parallel,
        batch=batch,
        kv_cache_type=_cache_type(settings, flash_attention, log),
        flash_attention=flash_attention,
        overhead=_overhead(settings, log),
        spread=_spread(settings, log),
        differences=MappingProxyType(log.differences),
        origins=MappingProxyType(log.origins),
    )


class _Log:
    """Collects where values came from and where they differ from the request."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.origins: dict[str, str] = {}
        self.differences: dict[str, Effective] = {}

    def differ(self, name: str, requested: int | str, effective: int | str, reason: str) -> None:
        self.differences[name] = Effective(effective, requested, reason, reason)
        self.origins[name] = reason

    def first(self, name: str, *choices: tuple[int | None, str]) -> int:
        """Return the first value that is there, and note where it came from."""
        for value, origin in choices:
            if value is not None:
                self.origins[name] = origin
                return value
        raise AssertionError(name)  # the last choice is a default


def _context(
    h: Hyperparameters, settings: Settings, devices: Sequence[Device], log: _Log, server_rules: bool
) -> int:
    """Steps 1 and 2: the request, raised to what the model needs, lowered to what it learned."""
    variable = env.integer(log.environment, env.CONTEXT_LENGTH)
    asked = value = log.first(
        "context",
        (settings.context, "setting context"),
        (h.own_context, "the model's own parameter num_ctx"),
        (variable, env.CONTEXT_LENGTH),
        (DEFAULT_CONTEXT, f"default {DEFAULT_CONTEXT}"),
    )
    if server_rules or settings.context is None:
        for least, reason in _least_contexts(h, settings, devices):
            if value < least:
                value = least
                log.differ("context", asked, value, reason)
    if 0 < h.trained_context < value:
        value = h.trained_context
        key = h.origins.get("trained context", "context_length")
        reason = f"the model was trained for {integer_text(value)} tokens ({key})"
        log.differ("context", asked, value, reason)
    return value


def _least_contexts(
    h: Hyperparameters, settings: Settings, devices: Sequence[Device]
) -> list[tuple[int, str]]:
    least = [(_LEAST_CONTEXT, f"Ollama uses at least {_LEAST_CONTEXT} tokens")]
    if h.architecture in _LARGE_CONTEXT_FAMILIES:
        vram = sum(device.capacity_bytes for device in devices)
        if vram >= _LARGE_CONTEXT_VRAM:
            reason = f"Ollama gives {h.architecture} at least {integer_text(_LARGE_CONTEXT)} tokens"
            least.append((_LARGE_CONTEXT, f"{reason} where the GPUs have 20 GiB or more"))
    if h.vision or settings.projector_bytes:
        tokens = integer_text(_LEAST_VISION_CONTEXT)
        reason = f"Ollama gives a model with vision at least {tokens} tokens"
        least.append((_LEAST_VISION_CONTEXT, reason))
    return least


def _batch(settings: Settings, context: int, log: _Log) -> int:
    """Step 3: min(requested or 512, context)."""
    asked = settings.batch or DEFAULT_BATCH
    log.origins["batch"] = "setting batch" if settings.batch else f"default {DEFAULT_BATCH}"
    if asked <= context:
        return asked
    reason = f"a batch is no longer than the context of {integer_text(context)} tokens"
    if settings.batch:
        log.differ("batch", asked, context, reason)
    log.origins["batch"] = reason
    return context


def _parallel(h: Hyperparameters, settings: Settings, log: _Log, server_rules: bool) -> int:
    """Step 4: at least one sequence, and for some models only one."""
    asked = log.first(
        "parallel",
        (settings.parallel, "setting parallel"),
        (env.integer(log.environment, env.NUM_PARALLEL), env.NUM_PARALLEL),
        (1, "default 1"),
    )
    value = min(max(asked, 1), MAX_PARALLEL)
    if value != asked:
        reason = f"Ollama runs 1 to {integer_text(MAX_PARALLEL)} requests"
        log.differ("parallel", asked, value, reason)
    if value == 1 or not (server_rules or settings.parallel is None):
        return value
    if not h.embedding_model and h.architecture not in _ONE_SEQUENCE_FAMILIES:
        return value
    which = "an embedding model" if h.embedding_model else h.architecture
    log.differ("parallel", asked, 1, f"{which} runs one request at a time")
    return 1


def _flash_attention(
    h: Hyperparameters, settings: Settings, devices: Sequence[Device], log: _Log
) -> bool:
    """Step 6: the request, else the architecture's default; off where it cannot be."""
    variable = env.boolean(log.environment, env.FLASH_ATTENTION)
    default = h.architecture in _ON_BY_DEFAULT
    wanted = log.first(
        "flash_attention",
        (settings.flash_attention, "setting flash_attention"),
        (variable, env.FLASH_ATTENTION),
        (default, f"{'on' if default else 'off'} by default for this architecture"),
    )
    obstacle = (flash_attention_obstacle(devices) or _model_obstacle(h)) if wanted else ""
    if obstacle and settings.flash_attention is variable is None:
        log.origins["flash_attention"] = obstacle
    elif obstacle:
        log.differ("flash_attention", True, False, obstacle)
    return bool(wanted) and not obstacle


def _cache_type(settings: Settings, flash_attention: bool, log: _Log) -> str:
    """Step 7: q8_0 and q4_0 take effect with flash attention only; f32 is a what-if."""
    origin, asked = "setting kv_cache_type", (settings.kv_cache_type or "").strip().lower()
    if not asked:
        origin, asked = env.KV_CACHE_TYPE, env.text(log.environment, env.KV_CACHE_TYPE).lower()
    elif asked == _WHAT_IF_TYPE:
        log.origins["kv_cache_type"] = f"{origin}, a what-if: no server accepts it"
        return asked
    log.origins["kv_cache_type"] = origin if asked else "default f16"
    if asked in ("", "f16"):
        return "f16"
    if asked not in _CACHE_TYPES:
        log.differ("kv_cache_type", asked, "f16", "Ollama accepts only f16, q8_0 and q4_0")
        return "f16"
    if not flash_attention:
        reason = "a quantized KV cache needs flash attention, which is off"
        log.differ("kv_cache_type", asked, "f16", reason)
        return "f16"
    return asked


def _overhead(settings: Settings, log: _Log) -> int:
    variable = env.integer(log.environment, env.GPU_OVERHEAD)
    return log.first(
        "overhead",
        (settings.overhead, "setting overhead"),
        (None if variable is None else min(variable, MAX_MEMORY), env.GPU_OVERHEAD),
        (0, "default 0"),
    )


def _spread(settings: Settings, log: _Log) -> bool:
    return bool(
        log.first(
            "spread",
            (settings.spread, "setting spread"),
            (env.boolean(log.environment, env.SCHED_SPREAD), env.SCHED_SPREAD),
            (False, "default off"),
        )
    )
