"""Bytes of the key-value cache, block by block (planner.md section 4).

Ollama's `GraphSize` (fs/ggml/ggml.go): a default for every block, of which some architectures
replace entries. Integer products are formed first, multiplied by the bytes of an element as a
float, and truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.workload import Workload

FLOAT_BYTES: Final = 4
VISION_TOKENS: Final = 1601  # of one tile, mllama
VISION_TILES: Final = 4
GEMMA3_PERIOD: Final = 6  # of six blocks five slide; the file's own pattern is not consulted
GPTOSS_WINDOW: Final = 4096  # fixed; the file's own window is not consulted

FORMULAS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "attention": "int(C * (Dk + Dv) * Ki * P)",
        "recurrent": "(max(conv - 1, 0) * (inner + 2 * groups * state) + state * inner) * 4",
        "cross attention": "K * (Dk + Dv) * 4 * 1601 * 4",
        "sliding window (gemma3)": "int((Np * window + B) * (Dk + Dv) * K * P)",
        "sliding window (gptoss)": "int((Dk + Dv) * K * P) * (Np * 4096 + B)",
        "full context (gptoss)": "int((Dk + Dv) * K * P) * C",
    }
)
"""Kind of a block → formula of its cache, as Python writes it."""


@dataclass(frozen=True, slots=True)
class KvCache:
    """The cache of a model.

    Attributes:
        per_layer: Bytes of each of the L blocks.
        kinds: Kind of each block, a key of `FORMULAS`.
        default_total: Sum before an architecture's rule replaced entries (KVdefault).
    """

    per_layer: tuple[int, ...]
    kinds: tuple[str, ...]
    default_total: int

    @property
    def total(self) -> int:
        """Sum over the blocks (KVtotal)."""
        return sum(self.per_layer)


def kv_cache(h: Hyperparameters, w: Workload) -> KvCache:
    """Return the cache of each block."""
    sizes, kinds = _default(h, w)
    default_total = sum(sizes)
    replace = _RULES.get(h.architecture)
    if replace is not None:
        replace(h, w, sizes, kinds)
    return KvCache(tuple(sizes), tuple(kinds), default_total)


def attention_bytes(h: Hyperparameters, w: Workload, kv_heads: int) -> int:
    """Return int(C * (Dk + Dv) * K[i] * P)."""
    return int(w.cells * (h.key_length + h.value_length) * kv_heads * w.bytes_per_element)


def recurrent_bytes(h: Hyperparameters) -> int:
    """Return (r + s) * 4: always 32-bit floats, whatever the context and the cache type.

    r = (conv - 1) * (inner + 2 * groups * state) if conv > 0, else 0; s = state * inner.
    """
    inner, state, groups = h.ssm_inner_size, h.ssm_state_size, h.ssm_group_count
    r = max(h.ssm_conv_kernel - 1, 0) * (inner + 2 * groups * state)
    s = state * inner
    return (r + s) * FLOAT_BYTES


def _default(h: Hyperparameters, w: Workload) -> tuple[list[int], list[str]]:
    """Return each block's size and kind; a block without heads of either sort is recurrent."""
    recurrent = recurrent_bytes(h)
    by_heads = {count: attention_bytes(h, w, count) for count in set(h.kv_heads_per_block)}
    sizes: list[int] = []
    kinds: list[str] = []
    for heads, kv_heads in zip(h.heads_per_block, h.kv_heads_per_block, strict=True):
        attends = heads > 0 and kv_heads > 0
        sizes.append(by_heads[kv_heads] if attends else recurrent)
        kinds.append("attention" if attends else "recurrent")
    return sizes, kinds


def _mllama(h: Hyperparameters, w: Workload, sizes: list[int], kinds: list[str]) -> None:
    """Cross blocks: K * (Dk + Dv) * 4 * 1601 * 4, not scaled by C, Np or P."""
    del w
    cross = h.kv_heads * (h.key_length + h.value_length) * FLOAT_BYTES
    cross *= VISION_TOKENS * VISION_TILES
    for i in h.cross_attention_layers:
        if i < len(sizes):
            sizes[i], kinds[i] = cross, "cross attention"


def _gemma3(h: Hyperparameters, w: Workload, sizes: list[int], kinds: list[str]) -> None:
    """Blocks with (i + 1) % 6 != 0: int((Np * window + B) * (Dk + Dv) * K * P)."""
    tokens = w.parallel * h.sliding_window + w.batch
    sliding = int(tokens * (h.key_length + h.value_length) * h.kv_heads * w.bytes_per_element)
    for i in range(len(sizes)):
        if (i + 1) % GEMMA3_PERIOD:
            sizes[i], kinds[i] = sliding, "sliding window (gemma3)"


def _gptoss(h: Hyperparameters, w: Workload, sizes: list[int], kinds: list[str]) -> None:
    """Even blocks: unit * (Np * 4096 + B); odd: unit * C; unit = int((Dk + Dv) * K * P)."""
    unit = int((h.key_length + h.value_length) * h.kv_heads * w.bytes_per_element)
    sliding, full = unit * (w.parallel * GPTOSS_WINDOW + w.batch), unit * w.cells
    for i in range(len(sizes)):
        if i % 2 == 0:
            sizes[i], kinds[i] = sliding, "sliding window (gptoss)"
        else:
            sizes[i], kinds[i] = full, "full context (gptoss)"


_Rule = Callable[[Hyperparameters, Workload, list[int], list[str]], None]
_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {"mllama": _mllama, "gemma3": _gemma3, "gptoss": _gptoss, "gpt-oss": _gptoss}
)
