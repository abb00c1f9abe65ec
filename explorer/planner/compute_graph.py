"""Compute graph of llama, its mixtures of experts, and mllama (docs/planner.md, section 5).

Source: Ollama, fs/ggml/ggml.go, `GraphSize`, cases "llama", "llama4" and "mllama". All divisions
are integer, from left to right. The head length of the llama rows is D, not Dk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from explorer.errors import PlanError
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.kv_cache import KvCache, Workload

# The symbols of the formulas, with the spelling of docs/planner.md, section 5.


@dataclass(frozen=True, slots=True)
class Symbols:
    """What a row of the table may read.

    Attributes:
        E: Embedding length.
        V: Number of tokens of the vocabulary.
        H: Largest number of heads of a block.
        K: Largest number of key and value heads of a block.
        Kmin: Smallest number of key and value heads of a block.
        D: Head length, E // smallest number of heads.
        Dk: Length of a head's key.
        FF: Feed-forward length.
        B: Batch.
        C: Context × parallel.
        Np: Parallel.
        G: Bytes of block 0's stacked gate experts; 0 without.
        W: Width of block 0's first split gate expert; 0 without.
        S: Length of block 0's fused attention bias; 0 without.
        R: Elements of ``rope_freqs.weights``.
        KVdefault: Bytes of the cache before an architecture's rule replaced entries.
        KVtotal: Bytes of the cache.
    """

    E: int
    V: int
    H: int
    K: int
    Kmin: int
    D: int
    Dk: int
    FF: int
    B: int
    C: int
    Np: int
    G: int
    W: int
    S: int
    R: int
    KVdefault: int
    KVtotal: int

    @property
    def b(self) -> int:
        """Bytes of one float for each token of the batch, 4 * B."""
        return 4 * self.B


def symbols_of(h: Hyperparameters, w: Workload, cache: KvCache) -> Symbols:
    """Return the values of all symbols."""
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
        KVdefault=cache.default_total,
        KVtotal=cache.total,
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


# A row of the table of docs/planner.md, section 5: what computes it, and how it reads.


Compute: TypeAlias = Callable[[Symbols], tuple[int, int]]
"""Symbols → (Full, Partial) in bytes."""


@dataclass(frozen=True, slots=True)
class Row:
    """One family's formulas.

    Attributes:
        name: What to call the family.
        compute: Symbols → (Full, Partial) in bytes.
        full: Full as Python writes it, in the symbols of `Symbols`.
        partial: Partial as Python writes it.
    """

    name: str
    compute: Compute
    full: str
    partial: str


def row(name: str, full: str, partial: str) -> Callable[[Compute], Row]:
    """Make a row of a function; the texts stand beside the code that they describe.

    That text and code agree is a test: each text is evaluated for every model that has the row.
    """

    def make(compute: Compute) -> Row:
        return Row(name, compute, full, partial)

    return make


@row(
    "llama",
    full="max(b * (1 + 4 * E + C * (1 + H)), b * (E + V))",
    partial="b * E + max(b * (1 + E + max(C, E)) + E * E * 9 // 16 + 4 * C * (B * H + D * K),"
    " b * (E + V) + E * V * 105 // 128)",
)
def llama(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of a block with one feed-forward part.

    Full = max(b(1+4E+C(1+H)), b(E+V));
    Partial = b·E + max(b(1+E+max(C,E)) + E·E·9//16 + 4C(B·H+D·K), b(E+V)+105EV).
    """
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
    """Return Full and Partial where one tensor holds the gates of all experts.

    Full as llama; Partial = max(3·G + b(2FF+K+E+C+D·K), 4(C·B·H + C·D·K + B·1024 + D·K·B)).
    """
    b, B, C, D, E, FF, G, H, K = s.b, s.B, s.C, s.D, s.E, s.FF, s.G, s.H, s.K
    full = max(b * (1 + 4 * E + C * (1 + H)), b * (E + s.V))
    partial = max(
        3 * G + b * (2 * FF + K + E + C + D * K),
        4 * (C * B * H + C * D * K + B * 1024 + D * K * B),
    )
    return full, partial


@row(
    "llama, split experts",
    full="b * (2 + 3 * E + C * (1 + H) + 2 * K + W)",
    partial="max(b * (3 + D * K + E + C * (1 + H) + W) + (E * E + 3 * E * K * W) * 9 // 16,"
    " b * (1 + 2 * E + C * (1 + H)) + E * (6 * C * K // H + E * 9 // 16))",
)
def split_experts(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial where each expert has tensors of its own.

    Full = b(2+3E+C(1+H)+2K+W); Partial = max(b(3+D·K+E+C(1+H)+W) + (E·E+3·E·K·W)·9//16,
    b(1+2E+C(1+H)) + E·(6·C·K//H + E·9//16)).

    Raises:
        PlanError: The model has no heads, by which the formula divides.
    """
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
    """Return Full and Partial of llama with cross attention to images.

    Full = max(b(2+3E+Dk·H+C(1+H)), b(E+V));
    Partial = max(4(B(2E+1+C(1+H)+Dk·H) + R + Dk·C·K), b(E+V)+105EV).
    """
    b, B, C, Dk, E, H, K, R, V = s.b, s.B, s.C, s.Dk, s.E, s.H, s.K, s.R, s.V
    full = max(b * (2 + 3 * E + Dk * H + C * (1 + H)), b * (E + V))
    partial = max(
        4 * (B * (2 * E + 1 + C * (1 + H) + Dk * H) + R + Dk * C * K),
        b * (E + V) + E * V * 105 // 128,
    )
    return full, partial


# Compute graphs of the other families with a row of their own (docs/planner.md, section 5).
#
# Source: Ollama, fs/ggml/ggml.go, `GraphSize`, cases "command-r", "qwen2", "phi2", "stablelm",
# "deepseek2" and "chatglm". All divisions are integer, from left to right.


@row(
    "command-r",
    full="max(b * (E + V), b * (2 + 4 * E + C * (1 + H)))",
    partial="max(b * (E + V) + E * V * 105 // 128,"
    " b * (1 + 2 * E + C * (1 + H)) + 4 * E * C + E * E * 9 // 16)",
)
def command_r(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of Command-R.

    Full = max(b(E+V), b(2+4E+C(1+H)));
    Partial = max(b(E+V)+105EV, b(1+2E+C(1+H)) + 4·E·C + E·E·9//16).
    """
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
    """Return Full and Partial of Qwen 2 and 2.5.

    Full = max(b(E+V), b(1+2E+C+C·H));
    Partial = max(b(E+V)+105EV, 4(B(1+2E+C(1+H)) + E(1+C))).
    """
    b, B, C, E, H, V = s.b, s.B, s.C, s.E, s.H, s.V
    full = max(b * (E + V), b * (1 + 2 * E + C + C * H))
    partial = max(
        b * (E + V) + E * V * 105 // 128,
        4 * (B * (1 + 2 * E + C * (1 + H)) + E * (1 + C)),
    )
    return full, partial


@row(
    "phi2",
    full="max(b * (E + V), b * (1 + 4 * E + C + C * H))",
    partial="max(b * (2 * E + V) + E * V * 105 // 128, b * (2 + 3 * E + C + C * H))",
)
def phi2(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of Phi-2.

    Full = max(b(E+V), b(1+4E+C+C·H)); Partial = max(b(2E+V)+105EV, b(2+3E+C+C·H)).
    """
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
    """Return Full and Partial of StableLM.

    Full = b(C(1+H)+3E+2); Partial = max(b(V+2E), Full).
    """
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
    """Return Full and Partial of DeepSeek V2 and V3.

    Full = max(b(3E+V), b(3E+2+C(1+K)+2·Dk·K));
    Partial = max(b(3E+V)+105EV, b(2E+1+2·Dk·K+C+C·K) + 4·Dk·C·K + E·Dk·K·9//16).
    """
    b, C, Dk, E, K, V = s.b, s.C, s.Dk, s.E, s.K, s.V
    full = max(b * (3 * E + V), b * (3 * E + 2 + C * (1 + K) + 2 * Dk * K))
    partial = max(
        b * (3 * E + V) + E * V * 105 // 128,
        b * (2 * E + 1 + 2 * Dk * K + C + C * K) + 4 * Dk * C * K + E * Dk * K * 9 // 16,
    )
    return full, partial


@row("chatglm", full="b * (E + V)", partial="b * (E + V) + E * V * 105 // 128")
def chatglm(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of ChatGLM without a fused bias: b(E+V), and b(E+V)+105EV."""
    full = s.b * (s.E + s.V)
    return full, full + s.E * s.V * 105 // 128


@row(
    "chatglm, fused bias",
    full="max(b * (E + V), b * (2 + 2 * E + C + C * H + Dk * H + S))",
    partial="max(b * (E + V) + E * V * 105 // 128,"
    " b * (1 + 2 * E + Dk * H + C + C * H) + 4 * Dk * C + 4 * C * Dk + 4 * S)",
)
def chatglm_fused_bias(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of ChatGLM with one bias for query, key and value.

    Full = max(b(E+V), b(2+2E+C+C·H+Dk·H+S));
    Partial = max(b(E+V)+105EV, b(1+2E+Dk·H+C+C·H) + 4·Dk·C + 4·C·Dk + 4·S).
    """
    b, C, Dk, E, H, S, V = s.b, s.C, s.Dk, s.E, s.H, s.S, s.V
    full = max(b * (E + V), b * (2 + 2 * E + C + C * H + Dk * H + S))
    partial = max(
        b * (E + V) + E * V * 105 // 128,
        b * (1 + 2 * E + Dk * H + C + C * H) + 4 * Dk * C + 4 * C * Dk + 4 * S,
    )
    return full, partial


# Compute graph of the gemma family (docs/planner.md, section 5).
#
# Source: Ollama, fs/ggml/ggml.go, `GraphSize`, case "gemma", "gemma2", "gemma3", "gemma3n".


_FULL: Final = "max(b * (E + V), b * (2 + C + C * H + 2 * E + 2 * Dk * H))"
_PARTIAL: Final = (
    "max(b * E + E * V * 105 // 128 + b * V,"
    " b * (2 * E + 1 + 2 * Dk * H + C + C * H) + 4 * Dk * C * 8 + E * Dk * H * 9 // 16)"
)
_GEMMA3N: Final = 4  # for its per-layer inputs


@row("gemma", full=_FULL, partial=_PARTIAL)
def gemma(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of gemma, gemma2 and gemma3.

    Full = max(b(E+V), b(2+C+C·H+2E+2·Dk·H));
    Partial = max(b·E+105EV+b·V, b(2E+1+2·Dk·H+C+C·H) + 4·Dk·C·8 + E·Dk·H·9//16).
    The 8 is a literal of the source, not K.
    """
    return _gemma(s)


@row("gemma3n", full=f"4 * {_FULL}", partial=f"4 * {_PARTIAL}")
def gemma3n(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of gemma3n, four times those of gemma."""
    full, partial = _gemma(s)
    return _GEMMA3N * full, _GEMMA3N * partial


def _gemma(s: Symbols) -> tuple[int, int]:
    b, C, Dk, E, H, V = s.b, s.C, s.Dk, s.E, s.H, s.V
    full = max(b * (E + V), b * (2 + C + C * H + 2 * E + 2 * Dk * H))
    partial = max(
        b * E + E * V * 105 // 128 + b * V,
        b * (2 * E + 1 + 2 * Dk * H + C + C * H) + 4 * Dk * C * 8 + E * Dk * H * 9 // 16,
    )
    return full, partial


# Compute graph of gpt-oss (docs/planner.md, section 5).
#
# Source: Ollama, fs/ggml/ggml.go, `GraphSize`, case "gptoss", "gpt-oss". Full is 0, so that the
# fallback copies Partial.


_MIB: Final = 1 << 20


@row("gptoss", full="0", partial="2 * H // (Kmin or 1) * KVdefault // 6")
def gptoss(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial without flash attention.

    Partial = (2·H // (Kmin or 1)) · KVdefault // 6, where the sum is that of every block at full
    context, not of the replaced list.
    """
    return 0, 2 * s.H // (s.Kmin or 1) * s.KVdefault // 6


@row("gptoss, flash attention", full="0", partial="(4 * Np + C // 1024 + 110) * 1048576")
def gptoss_flash_attention(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial with flash attention; Partial = (4·Np + C // 1024 + 110) MiB."""
    return 0, (4 * s.Np + s.C // 1024 + 110) * _MIB


# Which architecture has which row (docs/planner.md, section 5, the table and its details).


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
