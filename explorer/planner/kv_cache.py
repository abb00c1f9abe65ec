"""Bytes of the key-value cache, block by block (docs/planner.md, section 4).

Ollama's `GraphSize` (fs/ggml/ggml.go): a default for every block, of which some architectures
replace entries. Integer products are formed first, multiplied by the bytes of an element as a
float, and truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from explorer.errors import PlanError
from explorer.planner.devices import MAX_COUNT, whole
from explorer.planner.hyperparameters import Hyperparameters

# What the formulas take besides the model: the effective settings that change sizes.


DEFAULT_CONTEXT: Final = 4096
DEFAULT_BATCH: Final = 512
MAX_PARALLEL: Final = 1 << 20

BYTES_PER_ELEMENT: Final[Mapping[str, float]] = MappingProxyType(
    {"f32": 4, "f16": 2, "q8_0": 1, "q4_0": 0.5}
)
"""P, as Ollama counts; the scales of quantized types (34/32, 18/32 bytes) are left out there."""

_OTHER_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class Workload:
    """Effective settings.

    Attributes:
        context: Tokens of each sequence.
        parallel: Sequences at a time (Np).
        batch: Tokens computed at a time (B).
        kv_cache_type: Type of the cache's elements; an unknown one counts 2 bytes.
        flash_attention: Whether it is on.
    """

    context: int = DEFAULT_CONTEXT
    parallel: int = 1
    batch: int = DEFAULT_BATCH
    kv_cache_type: str = "f16"
    flash_attention: bool = False

    def __post_init__(self) -> None:
        whole(self.context, "context", MAX_COUNT)
        whole(self.parallel, "parallel", MAX_PARALLEL)
        whole(self.batch, "batch", MAX_COUNT)
        if not isinstance(self.kv_cache_type, str):
            raise PlanError("the KV cache type is no text; use f16, q8_0 or q4_0")

    @classmethod
    def of(cls, settings: Any) -> Workload:
        """Take the settings as they are; of those left open (None), Ollama's defaults.

        Args:
            settings: `Settings`, `EffectiveSettings`, or anything with their attributes.
        """
        given = {
            name: value
            for name in cls.__dataclass_fields__
            if (value := getattr(settings, name, None)) is not None
        }
        return cls(**given)

    @property
    def cells(self) -> int:
        """C, the cache's tokens: context × parallel."""
        return self.context * self.parallel

    @property
    def bytes_per_element(self) -> float:
        """P, bytes of one element of the cache."""
        return BYTES_PER_ELEMENT.get(self.kv_cache_type, _OTHER_BYTES)

    def for_loading(self, *, embedding_model: bool) -> Workload:
        """Apply the one rule of loading: an embedding model's batch holds the whole context."""
        if not embedding_model or self.batch >= self.context:
            return self
        return Workload(
            self.context, self.parallel, self.context, self.kv_cache_type, self.flash_attention
        )


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
