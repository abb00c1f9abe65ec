"""KV cache and compute graph of a model in bytes (docs/planner.md, sections 4 and 5).

Source: Ollama, fs/ggml/ggml.go, `GraphSize`. Integers are multiplied first, then by the bytes of an
element as a float, and truncated; all divisions are integer, from left to right. The texts of the
formulas are what a plan shows beside its figures; a test evaluates each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from explorer.errors import PlanError
from explorer.planner.devices import MAX_COUNT, MIB, sized, whole
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.settings import MAX_PARALLEL

# Effective settings that change sizes

DEFAULT_CONTEXT: Final = 4096
DEFAULT_BATCH: Final = 512

BYTES_PER_ELEMENT: Final[Mapping[str, float]] = MappingProxyType(
    {"f32": 4, "f16": 2, "q8_0": 1, "q4_0": 0.5}
)
"""P, as Ollama counts; the scales of quantized types (34/32, 18/32 bytes) are left out there."""

_OTHER_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class Workload:
    """Effective settings, see `Settings`; an unknown type of the cache counts 2 bytes."""

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
            raise PlanError("the KV cache type is not text. Use f16, q8_0 or q4_0")

    @classmethod
    def of(cls, settings: Any) -> Workload:
        """Take `Settings` or anything with their attributes; for None, Ollama's defaults."""
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
        holds = not embedding_model or self.batch >= self.context
        return self if holds else replace(self, batch=self.context)


# The key-value cache, block by block: a default, of which some architectures replace entries

_FLOAT_BYTES: Final = 4
_VISION_TOKENS: Final = 1601  # of one tile, mllama
_VISION_TILES: Final = 4
_GEMMA3_PERIOD: Final = 6  # of six blocks five slide; the file's own pattern is not consulted
_GPTOSS_WINDOW: Final = 4096  # fixed; the file's own window is not consulted

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


def recurrent_bytes(h: Hyperparameters) -> int:
    """Return (r + s) * 4: always 32-bit floats, whatever the context and the cache type."""
    inner, state, groups = h.ssm_inner_size, h.ssm_state_size, h.ssm_group_count
    r = max(h.ssm_conv_kernel - 1, 0) * (inner + 2 * groups * state)
    s = state * inner
    return (r + s) * _FLOAT_BYTES


def _default(h: Hyperparameters, w: Workload) -> tuple[list[int], list[str]]:
    """Return each block's size and kind; a block without heads of either sort is recurrent."""
    recurrent = recurrent_bytes(h)
    each = w.cells * (h.key_length + h.value_length)
    by_heads = {k: int(each * k * w.bytes_per_element) for k in set(h.kv_heads_per_block)}
    counts = zip(h.heads_per_block, h.kv_heads_per_block, strict=True)
    attending = [(heads > 0 and kv_heads > 0, kv_heads) for heads, kv_heads in counts]
    sizes = [by_heads[kv_heads] if attends else recurrent for attends, kv_heads in attending]
    return sizes, ["attention" if attends else "recurrent" for attends, _ in attending]


def _mllama(h: Hyperparameters, w: Workload, sizes: list[int], kinds: list[str]) -> None:
    """Cross blocks: K * (Dk + Dv) * 4 * 1601 * 4, not scaled by C, Np or P."""
    del w
    cross = h.kv_heads * (h.key_length + h.value_length) * _FLOAT_BYTES
    cross *= _VISION_TOKENS * _VISION_TILES
    for i in h.cross_attention_layers:
        if i < len(sizes):
            sizes[i], kinds[i] = cross, "cross attention"


def _gemma3(h: Hyperparameters, w: Workload, sizes: list[int], kinds: list[str]) -> None:
    """Blocks with (i + 1) % 6 != 0: int((Np * window + B) * (Dk + Dv) * K * P)."""
    tokens = w.parallel * h.sliding_window + w.batch
    sliding = int(tokens * (h.key_length + h.value_length) * h.kv_heads * w.bytes_per_element)
    for i in range(len(sizes)):
        if (i + 1) % _GEMMA3_PERIOD:
            sizes[i], kinds[i] = sliding, "sliding window (gemma3)"


def _gptoss(h: Hyperparameters, w: Workload, sizes: list[int], kinds: list[str]) -> None:
    """Even blocks: unit * (Np * 4096 + B); odd: unit * C; unit = int((Dk + Dv) * K * P)."""
    unit = int((h.key_length + h.value_length) * h.kv_heads * w.bytes_per_element)
    sliding, full = unit * (w.parallel * _GPTOSS_WINDOW + w.batch), unit * w.cells
    for i in range(len(sizes)):
        if i % 2 == 0:
            sizes[i], kinds[i] = sliding, "sliding window (gptoss)"
        else:
            sizes[i], kinds[i] = full, "full context (gptoss)"


_Rule = Callable[[Hyperparameters, Workload, list[int], list[str]], None]
_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {"mllama": _mllama, "gemma3": _gemma3, "gptoss": _gptoss, "gpt-oss": _gptoss}
)


# The compute graph: one row of formulas for each family of architectures


@dataclass(frozen=True, slots=True)
class Symbols:
    """What a row of the table may read."""

    E: int  # embedding length
    V: int  # number of tokens of the vocabulary
    H: int  # largest number of heads of a block
    K: int  # largest number of key and value heads of a block
    Kmin: int  # smallest number of key and value heads of a block
    D: int  # head length, E // smallest number of heads
    Dk: int  # length of a head's key
    FF: int  # feed-forward length
    B: int  # batch
    C: int  # context × parallel
    Np: int  # parallel
    G: int  # bytes of block 0's stacked gate experts; 0 without
    W: int  # width of block 0's first split gate expert; 0 without
    S: int  # length of block 0's fused attention bias; 0 without
    R: int  # elements of ``rope_freqs.weights``
    KVdefault: int  # bytes of the cache before an architecture's rule replaced entries
    KVtotal: int  # bytes of the cache

    @property
    def b(self) -> int:
        """Bytes of one float for each token of the batch, 4 * B."""
        return 4 * self.B


def _symbols(h: Hyperparameters, w: Workload, kv_default: int, kv_total: int) -> Symbols:
    tensors = h.tensors
    return Symbols(
        E=h.embedding_length,
        V=h.vocabulary,
        H=h.heads,
        K=h.kv_heads,
        Kmin=h.kv_heads_min,
        D=h.head_length,
        Dk=h.key_length,
        FF=h.feed_forward_length,
        B=w.batch,
        C=w.cells,
        Np=w.parallel,
        G=tensors.gate_experts_bytes or 0,
        W=tensors.expert_width or 0,
        S=tensors.fused_bias_length or 0,
        R=tensors.rope_weights,
        KVdefault=kv_default,
        KVtotal=kv_total,
    )


TENSOR_ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "G": "bytes of tensor blk.0.ffn_gate_exps.weight",
        "W": "second dimension of tensor blk.0.ffn_gate.0.weight",
        "S": "length of tensor blk.0.attn_qkv.bias",
        "R": "elements of tensor rope_freqs.weights, which real files do not have",
    }
)
"""Where the symbols that are read from tensors come from."""

Compute: TypeAlias = Callable[[Symbols], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Row:
    """One family's formulas: (Full, Partial) in bytes, and both as Python writes them."""

    name: str
    compute: Compute
    full: str
    partial: str


def row(name: str, full: str, partial: str) -> Callable[[Compute], Row]:
    return lambda compute: Row(name, compute, full, partial)


@row(
    "llama",
    full="max(b * (1 + 4 * E + C * (1 + H)), b * (E + V))",
    partial="b * E + max(b * (1 + E + max(C, E)) + E * E * 9 // 16 + 4 * C * (B * H + D * K),"
    " b * (E + V) + E * V * 105 // 128)",
)
def llama(s: Symbols) -> tuple[int, int]:
    b, B, C, D, E, H, K, V = s.b, s.B, s.C, s.D, s.E, s.H, s.K, s.V
    full = max(b * (1 + 4 * E + C * (1 + H)), b * (E + V))
    partial = b * E + max(
        b * (1 + E + max(C, E)) + E * E * 9 // 16 + 4 * C * (B * H + D * K),
        b * (E + V) + E * V * 105 // 128,
    )
    return full, partial


@row(
    "llama, stacked experts",
    full="max(b * (1 + 4 * E + C * (1 + H)), b * (E + V))",
    partial="max(3 * G + b * (2 * FF + K + E + C + D * K),"
    " 4 * (C * B * H + C * D * K + B * 1024 + D * K * B))",
)
def stacked_experts(s: Symbols) -> tuple[int, int]:
    b, B, C, D, E, FF, G, H, K = s.b, s.B, s.C, s.D, s.E, s.FF, s.G, s.H, s.K
    full = max(b * (1 + 4 * E + C * (1 + H)), b * (E + s.V))
    partial = max(
        3 * G + b * (2 * FF + K + E + C + D * K), 4 * (C * B * H + C * D * K + B * 1024 + D * K * B)
    )
    return full, partial


@row(
    "llama, split experts",
    full="b * (2 + 3 * E + C * (1 + H) + 2 * K + W)",
    partial="max(b * (3 + D * K + E + C * (1 + H) + W) + (E * E + 3 * E * K * W) * 9 // 16,"
    " b * (1 + 2 * E + C * (1 + H)) + E * (6 * C * K // H + E * 9 // 16))",
)
def split_experts(s: Symbols) -> tuple[int, int]:
    b, C, D, E, H, K, W = s.b, s.C, s.D, s.E, s.H, s.K, s.W
    if H == 0:
        raise PlanError("attention.head_count is 0, and the formula of split experts divides by it")
    full = b * (2 + 3 * E + C * (1 + H) + 2 * K + W)
    partial = max(
        b * (3 + D * K + E + C * (1 + H) + W) + (E * E + 3 * E * K * W) * 9 // 16,
        b * (1 + 2 * E + C * (1 + H)) + E * (6 * C * K // H + E * 9 // 16),
    )
    return full, partial


@row(
    "mllama",
    full="max(b * (2 + 3 * E + Dk * H + C * (1 + H)), b * (E + V))",
    partial="max(4 * (B * (2 * E + 1 + C * (1 + H) + Dk * H) + R + Dk * C * K),"
    " b * (E + V) + E * V * 105 // 128)",
)
def mllama(s: Symbols) -> tuple[int, int]:
    b, B, C, Dk, E, H, K, R, V = s.b, s.B, s.C, s.Dk, s.E, s.H, s.K, s.R, s.V
    full = max(b * (2 + 3 * E + Dk * H + C * (1 + H)), b * (E + V))
    partial = max(
        4 * (B * (2 * E + 1 + C * (1 + H) + Dk * H) + R + Dk * C * K),
        b * (E + V) + E * V * 105 // 128,
    )
    return full, partial


@row(
    "command-r",
    full="max(b * (E + V), b * (2 + 4 * E + C * (1 + H)))",
    partial="max(b * (E + V) + E * V * 105 // 128,"
    " b * (1 + 2 * E + C * (1 + H)) + 4 * E * C + E * E * 9 // 16)",
)
def command_r(s: Symbols) -> tuple[int, int]:
    b, C, E, H, V = s.b, s.C, s.E, s.H, s.V
    full = max(b * (E + V), b * (2 + 4 * E + C * (1 + H)))
    partial = max(
        b * (E + V) + E * V * 105 // 128,
        b * (1 + 2 * E + C * (1 + H)) + 4 * E * C + E * E * 9 // 16,
    )
    return full, partial


@row(
    "qwen2",
    full="max(b * (E + V), b * (1 + 2 * E + C + C * H))",
    partial="max(b * (E + V) + E * V * 105 // 128,"
    " 4 * (B * (1 + 2 * E + C * (1 + H)) + E * (1 + C)))",
)
def qwen2(s: Symbols) -> tuple[int, int]:
    b, B, C, E, H, V = s.b, s.B, s.C, s.E, s.H, s.V
    full = max(b * (E + V), b * (1 + 2 * E + C + C * H))
    partial = max(
        b * (E + V) + E * V * 105 // 128, 4 * (B * (1 + 2 * E + C * (1 + H)) + E * (1 + C))
    )
    return full, partial


@row(
    "phi2",
    full="max(b * (E + V), b * (1 + 4 * E + C + C * H))",
    partial="max(b * (2 * E + V) + E * V * 105 // 128, b * (2 + 3 * E + C + C * H))",
)
def phi2(s: Symbols) -> tuple[int, int]:
    b, C, E, H, V = s.b, s.C, s.E, s.H, s.V
    full = max(b * (E + V), b * (1 + 4 * E + C + C * H))
    partial = max(b * (2 * E + V) + E * V * 105 // 128, b * (2 + 3 * E + C + C * H))
    return full, partial


@row(
    "stablelm",
    full="b * (C * (1 + H) + 3 * E + 2)",
    partial="max(b * (V + 2 * E), b * (C * (1 + H) + 3 * E + 2))",
)
def stablelm(s: Symbols) -> tuple[int, int]:
    b, C, E, H, V = s.b, s.C, s.E, s.H, s.V
    full = b * (C * (1 + H) + 3 * E + 2)
    partial = max(b * (V + 2 * E), full)
    return full, partial


@row(
    "deepseek2",
    full="max(b * (3 * E + V), b * (3 * E + 2 + C * (1 + K) + 2 * Dk * K))",
    partial="max(b * (3 * E + V) + E * V * 105 // 128,"
    " b * (2 * E + 1 + 2 * Dk * K + C + C * K) + 4 * Dk * C * K + E * Dk * K * 9 // 16)",
)
def deepseek2(s: Symbols) -> tuple[int, int]:
    b, C, Dk, E, K, V = s.b, s.C, s.Dk, s.E, s.K, s.V
    full = max(b * (3 * E + V), b * (3 * E + 2 + C * (1 + K) + 2 * Dk * K))
    partial = max(
        b * (3 * E + V) + E * V * 105 // 128,
        b * (2 * E + 1 + 2 * Dk * K + C + C * K) + 4 * Dk * C * K + E * Dk * K * 9 // 16,
    )
    return full, partial


@row("chatglm", full="b * (E + V)", partial="b * (E + V) + E * V * 105 // 128")
def chatglm(s: Symbols) -> tuple[int, int]:
    full = s.b * (s.E + s.V)
    return full, full + s.E * s.V * 105 // 128


@row(
    "chatglm, fused bias",
    full="max(b * (E + V), b * (2 + 2 * E + C + C * H + Dk * H + S))",
    partial="max(b * (E + V) + E * V * 105 // 128,"
    " b * (1 + 2 * E + Dk * H + C + C * H) + 4 * Dk * C + 4 * C * Dk + 4 * S)",
)
def chatglm_fused_bias(s: Symbols) -> tuple[int, int]:
    b, C, Dk, E, H, S, V = s.b, s.C, s.Dk, s.E, s.H, s.S, s.V
    full = max(b * (E + V), b * (2 + 2 * E + C + C * H + Dk * H + S))
    partial = max(
        b * (E + V) + E * V * 105 // 128,
        b * (1 + 2 * E + Dk * H + C + C * H) + 4 * Dk * C + 4 * C * Dk + 4 * S,
    )
    return full, partial


_FULL: Final = "max(b * (E + V), b * (2 + C + C * H + 2 * E + 2 * Dk * H))"
_PARTIAL: Final = (
    "max(b * E + E * V * 105 // 128 + b * V,"
    " b * (2 * E + 1 + 2 * Dk * H + C + C * H) + 4 * Dk * C * 8 + E * Dk * H * 9 // 16)"
)


@row("gemma", full=_FULL, partial=_PARTIAL)
def gemma(s: Symbols) -> tuple[int, int]:
    return _gemma(s)


@row("gemma3n", full=f"4 * {_FULL}", partial=f"4 * {_PARTIAL}")
def gemma3n(s: Symbols) -> tuple[int, int]:
    full, partial = _gemma(s)
    return 4 * full, 4 * partial  # for its per-layer inputs


def _gemma(s: Symbols) -> tuple[int, int]:
    b, C, Dk, E, H, V = s.b, s.C, s.Dk, s.E, s.H, s.V
    full = max(b * (E + V), b * (2 + C + C * H + 2 * E + 2 * Dk * H))
    partial = max(
        b * E + E * V * 105 // 128 + b * V,
        b * (2 * E + 1 + 2 * Dk * H + C + C * H) + 4 * Dk * C * 8 + E * Dk * H * 9 // 16,
    )  # the 8 is a literal of the source, not K
    return full, partial


@row("gptoss", full="0", partial="2 * H // (Kmin or 1) * KVdefault // 6")
def gptoss(s: Symbols) -> tuple[int, int]:
    # full is 0, so the fallback copies partial; KVdefault is the cache at full context
    return 0, 2 * s.H // (s.Kmin or 1) * s.KVdefault // 6


@row("gptoss, flash attention", full="0", partial="(4 * Np + C // 1024 + 110) * 1048576")
def gptoss_flash_attention(s: Symbols) -> tuple[int, int]:
    return 0, (4 * s.Np + s.C // 1024 + 110) * MIB


_ROWS: Final[Mapping[str, Row]] = MappingProxyType(
    {
        "llama": llama,
        "llama4": llama,
        "mllama": mllama,
        "gemma": gemma,
        "gemma2": gemma,
        "gemma3": gemma,
        "gemma3n": gemma3n,
        "command-r": command_r,
        "qwen2": qwen2,
        "phi2": phi2,
        "stablelm": stablelm,
        "deepseek2": deepseek2,
        "chatglm": chatglm,
        "gptoss": gptoss,
        "gpt-oss": gptoss,
    }
)


def row_for(h: Hyperparameters, *, flash_attention: bool) -> Row | None:
    """Return the row of a model, or None: then only the fallback is left.

    Experts are looked for in block 0 alone, stacked ones first.
    """
    row = _ROWS.get(h.architecture)
    if row is llama:
        if h.tensors.gate_experts_bytes is not None:
            return stacked_experts
        if h.tensors.expert_width is not None:
            return split_experts
    if row is chatglm and h.tensors.fused_bias_length is not None:
        return chatglm_fused_bias
    if row is gptoss and flash_attention:
        return gptoss_flash_attention
    return row


# Both together

FALLBACK: Final = "H // (Kmin or 1) * KVtotal // 6"
"""Partial of a model whose row gives 0 or which has no row, as Python writes it."""


@dataclass(frozen=True, slots=True)
class GraphSize:
    """What Ollama's `GraphSize` returns, and what its loader makes of that."""

    kv_per_layer: tuple[int, ...]  # bytes of the cache of each block
    kv_kinds: tuple[str, ...]  # kind of each block's cache
    kv_total: int  # bytes of the whole cache
    partial: int  # graph of a partial offload by the formula; 0 where there is none
    full: int  # graph of a full offload by the formula; 0 where there is none
    partial_resolved: int  # `partial` after the fallback
    full_resolved: int  # `full` after the fallback
    row: Row | None  # the formulas used, or None
    symbols: Symbols  # values of the formulas' symbols
    workload: Workload  # the settings


def graph_size(  # noqa: PLR0913 - the settings by name are docs/interface.md's promise
    h: Hyperparameters,
    *,
    context: int,
    parallel: int = 1,
    batch: int = 512,
    kv_cache_type: str = "f16",
    flash_attention: bool = False,
) -> GraphSize:
    """Return the sizes for settings that are effective already (see `Settings`).

    Raises:
        PlanError: A number is negative or absurd, or a size does not fit 63 bits.
    """
    return size_workload(h, Workload(context, parallel, batch, kv_cache_type, flash_attention))


def size_workload(h: Hyperparameters, workload: Workload) -> GraphSize:
    """Return `graph_size` for settings in one piece."""
    caches, kinds = _default(h, workload)
    kv_default = sum(caches)
    if h.architecture in _RULES:
        _RULES[h.architecture](h, workload, caches, kinds)
    kv_total = sized(sum(caches), "the KV cache")
    symbols = _symbols(h, workload, kv_default, kv_total)
    row = row_for(h, flash_attention=workload.flash_attention)
    full, partial = (0, 0) if row is None else row.compute(symbols)
    partial_resolved = sized(partial or fallback(symbols), "the compute graph")
    return GraphSize(
        kv_per_layer=tuple(caches),
        kv_kinds=tuple(kinds),
        kv_total=kv_total,
        partial=partial,
        full=full,
        partial_resolved=partial_resolved,
        full_resolved=sized(full or partial_resolved, "the compute graph"),
        row=row,
        symbols=symbols,
        workload=workload,
    )


def fallback(s: Symbols) -> int:
    """Return (H // (Kmin or 1)) * KVtotal // 6; source: Ollama, llm/server.go, `Load`.

    Kmin counts as 1 where a block has no key and value heads: for hybrids the estimate is large.
    """
    return s.H // (s.Kmin or 1) * s.KVtotal // 6
