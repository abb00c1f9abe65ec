"""Whether flash attention is on (planner.md section 3, step 6).

Source: Ollama, llm/server.go, start of `NewLlamaServer`; fs/ggml/ggml.go, `FlashAttention` and
`SupportsFlashAttention`; ml/device.go, `FlashAttentionSupported`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from explorer.planner import environment as env
from explorer.planner.devices import Device
from explorer.planner.hyperparameters import Hyperparameters

_ON_BY_DEFAULT: Final = frozenset(
    {"gemma3", "gptoss", "gpt-oss", "mistral3", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe"}
)
_NEVER: Final = frozenset({"gemma2"})


@dataclass(frozen=True, slots=True)
class FlashAttention:
    """A decision.

    Attributes:
        on: Whether it is on.
        requested: What the settings or the environment ask for, or None.
        reason: What decided.
    """

    on: bool
    requested: bool | None
    reason: str


def choose_flash_attention(
    h: Hyperparameters,
    requested: bool | None,
    devices: Sequence[Device],
    environment: Mapping[str, str],
) -> FlashAttention:
    """Decide: the request, else the architecture's default; then off where it cannot be."""
    reason = "setting flash_attention"
    if requested is None:
        requested = env.boolean(environment, env.FLASH_ATTENTION)
        reason = env.FLASH_ATTENTION
    wanted = requested
    if wanted is None:
        wanted = h.architecture in _ON_BY_DEFAULT
        reason = f"{'on' if wanted else 'off'} by default for this architecture"
    if wanted:
        obstacle = device_obstacle(devices) or model_obstacle(h)
        if obstacle:
            return FlashAttention(False, requested, obstacle)
    return FlashAttention(bool(wanted), requested, reason)


def device_obstacle(devices: Sequence[Device]) -> str:
    """Say which GPU rules flash attention out for the whole machine; empty if none does."""
    for device in devices:
        if not device.supports_flash_attention:
            return f"{device.label} does not support flash attention, which turns it off for all"
    return ""


def model_obstacle(h: Hyperparameters) -> str:
    """Say why the model has no flash attention; empty if it can have it."""
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
