"""Ollama's environment variables, from a mapping; read as Ollama does (envconfig/config.go)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from explorer.planner.devices import GIB, Device

CONTEXT_LENGTH: Final = "OLLAMA_CONTEXT_LENGTH"
NUM_PARALLEL: Final = "OLLAMA_NUM_PARALLEL"
FLASH_ATTENTION: Final = "OLLAMA_FLASH_ATTENTION"
KV_CACHE_TYPE: Final = "OLLAMA_KV_CACHE_TYPE"
GPU_OVERHEAD: Final = "OLLAMA_GPU_OVERHEAD"
SCHED_SPREAD: Final = "OLLAMA_SCHED_SPREAD"
NEW_ENGINE: Final = "OLLAMA_NEW_ENGINE"

VARIABLES: Final = (
    *(NUM_PARALLEL, CONTEXT_LENGTH, FLASH_ATTENTION, KV_CACHE_TYPE),
    *(GPU_OVERHEAD, SCHED_SPREAD, NEW_ENGINE),
)
"""The variables that a plan depends on (docs/planner.md, section 9)."""

_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})  # Go's strconv.ParseBool
_MOST: Final = 1 << 40


def text(environment: Mapping[str, str], name: str) -> str:
    """Return a variable without the spaces and quotes around it; empty if it is not set."""
    return environment.get(name, "").strip().strip("\"'")


def boolean(environment: Mapping[str, str], name: str) -> bool | None:
    """Return a switch, or None if it is not set or empty. Any other text counts as true."""
    value = text(environment, name)
    return value not in _FALSE if value else None


def integer(environment: Mapping[str, str], name: str) -> int | None:
    """Return a number, or None if it is not set or not a number, which Ollama ignores too."""
    value = text(environment, name)
    if not (value.isascii() and value.isdigit()) or len(value) > 20:
        return None
    return min(int(value), _MOST)


_CONTEXTS: Final = ((47 * GIB, 262_144), (23 * GIB, 32_768), (0, 4_096))


def default_context(devices: Sequence[Device]) -> int:
    """Return the tokens that Ollama since 0.30 takes by itself, by the memory of the GPUs."""
    vram = sum(device.capacity_bytes for device in devices)
    return next(tokens for least, tokens in _CONTEXTS if vram >= least)


def used(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a plan depends on, as far as they are set."""
    return {name: environment[name] for name in VARIABLES if name in environment}
