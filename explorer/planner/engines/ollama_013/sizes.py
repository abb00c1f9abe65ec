"""KV cache and compute graph of a model in bytes (docs/planner.md, sections 4 and 5).

Source: Ollama, fs/ggml/ggml.go, `GraphSize`. Integers are multiplied first, then by the bytes of an
element as a float, and truncated; all divisions are integer, from left to right.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from explorer.errors import PlanError
from explorer.planner.devices import MAX_COUNT, sized, whole
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plans import Number
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


# Formulas, as Python writes them: a plan shows what its figures were worked out by. They are parsed
# and never run, as no text is.

_FUNCTIONS: Final[Mapping[str, Callable[..., Number]]] = MappingProxyType({"max": max, "int": int})
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[Number, Number], Number]]] = (
    MappingProxyType(
        {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
        | {ast.FloorDiv: operator.floordiv}
    )
)


@cache
def _parsed(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


def evaluated(formula: str, symbols: Mapping[str, Number]) -> int:
    """Return what one of the formulas below gives."""
    return int(_value(_parsed(formula), symbols))


def _value(node: ast.expr, symbols: Mapping[str, Number]) -> Number:
    match node:
        case ast.Constant(int(number)):
            return number
        case ast.Name(name):
            return symbols[name]
        case ast.BinOp(left, by, right):
            return _OPERATORS[type(by)](_value(left, symbols), _value(right, symbols))
        case ast.BoolOp(ast.Or(), [first, other]):
            return _value(first, symbols) or _value(other, symbols)
        case ast.Call(ast.Name(name), arguments):
            return _FUNCTIONS[name](*(_value(one, symbols) for one in arguments))
    raise ValueError(ast.unparse(node))


def symbols_in(formula: str) -> list[str]:
    """Return the symbols that a formula reads."""
    names = dict.fromkeys(re.findall(r"[A-Za-z]\w*", formula))
    return [name for name in names if name not in _FUNCTIONS and name != "or"]


def _symbols(h: Hyperparameters, w: Workload) -> dict[str, Number]:
    """Return the values of all symbols but those that follow from the cache.

    Of these Ki is the number of key and value heads of the block in question.
    """
    tensors = h.tensors
    return {
        "E": h.embedding_length,
        "V": h.vocabulary,
        "FF": h.feed_forward_length,
        "H": h.heads,
        "K": h.kv_heads,
        "Kmin": h.kv_heads_min,
        "D": h.head_length,
        "Dk": h.key_length,
        "Dv": h.value_length,
        "window": h.sliding_window,
        "conv": h.ssm_conv_kernel,
        "inner": h.ssm_inner_size,
        "state": h.ssm_state_size,
        "groups": h.ssm_group_count,
        "G": tensors.gate_experts_bytes or 0,
        "W": tensors.expert_width or 0,
        "S": tensors.fused_bias_length or 0,
        "R": tensors.rope_weights,
        "B": w.batch,
        "b": 4 * w.batch,  # a float for each token of the batch
        "C": w.cells,
        "Np": w.parallel,
        "P": w.bytes_per_element,
    }


# The key-value cache, block by block: a default, and what some architectures have instead

FORMULAS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "attention": "int(C * (Dk + Dv) * Ki * P)",
        # always 32-bit floats, whatever the context and the cache type
        "recurrent": "(max(conv - 1, 0) * (inner + 2 * groups * state) + state * inner) * 4",
        # four tiles of an image of 1601 tokens, not scaled by C, Np or P
        "cross attention": "K * (Dk + Dv) * 4 * 1601 * 4",
        "sliding window (gemma3)": "int((Np * window + B) * (Dk + Dv) * K * P)",
        # the window is fixed; the file's own is not consulted
        "sliding window (gptoss)": "int((Dk + Dv) * K * P) * (Np * 4096 + B)",
        "full context (gptoss)": "int((Dk + Dv) * K * P) * C",
    }
)
"""Kind of a block → formula of its cache."""


def _of_gptoss(_h: Hyperparameters, block: int) -> str:
    return "full context (gptoss)" if block % 2 else "sliding window (gptoss)"


_REPLACED: Final[Mapping[str, Callable[[Hyperparameters, int], str]]] = MappingProxyType(
    {
        "mllama": lambda h, i: "cross attention" if i in h.cross_attention_layers else "",
        # five of six blocks; the file's own pattern is not consulted
        "gemma3": lambda _, i: "sliding window (gemma3)" if (i + 1) % 6 else "",
        "gptoss": _of_gptoss,
        "gpt-oss": _of_gptoss,
    }
)
"""Architecture → the kind of a block; "" leaves it as it is."""


def _kinds(h: Hyperparameters) -> list[str]:
    """Return the kind of each block; one without heads of either sort is recurrent."""
    counts = zip(h.heads_per_block, h.kv_heads_per_block, strict=True)
    return [
        "attention" if heads > 0 and kv_heads > 0 else "recurrent" for heads, kv_heads in counts
    ]


def _caches(h: Hyperparameters, kinds: list[str], symbols: Mapping[str, Number]) -> list[int]:
    """Return the bytes of each block's cache."""
    alike = list(zip(kinds, h.kv_heads_per_block, strict=True))
    sizes = {
        (kind, heads): evaluated(FORMULAS[kind], {**symbols, "Ki": heads})
        for kind, heads in set(alike)
    }
    return [sizes[one] for one in alike]


# The compute graph: one row of formulas for each family of architectures


class Row(NamedTuple):
    """One family's formulas, in bytes."""

    name: str
    full: str
    partial: str


_LLAMA: Final = Row(
    "llama",
    full="max(b * (1 + 4 * E + C * (1 + H)), b * (E + V))",
    partial="b * E + max(b * (1 + E + max(C, E)) + E * E * 9 // 16 + 4 * C * (B * H + D * K),"
    " b * (E + V) + E * V * 105 // 128)",
)
_STACKED_EXPERTS: Final = Row(
    "llama, stacked experts",
    full="max(b * (1 + 4 * E + C * (1 + H)), b * (E + V))",
    partial="max(3 * G + b * (2 * FF + K + E + C + D * K),"
    " 4 * (C * B * H + C * D * K + B * 1024 + D * K * B))",
)
_SPLIT_EXPERTS: Final = Row(
    "llama, split experts",
    full="b * (2 + 3 * E + C * (1 + H) + 2 * K + W)",
    partial="max(b * (3 + D * K + E + C * (1 + H) + W) + (E * E + 3 * E * K * W) * 9 // 16,"
    " b * (1 + 2 * E + C * (1 + H)) + E * (6 * C * K // H + E * 9 // 16))",
)
_MLLAMA: Final = Row(
    "mllama",
    full="max(b * (2 + 3 * E + Dk * H + C * (1 + H)), b * (E + V))",
    partial="max(4 * (B * (2 * E + 1 + C * (1 + H) + Dk * H) + R + Dk * C * K),"
    " b * (E + V) + E * V * 105 // 128)",
)
_COMMAND_R: Final = Row(
    "command-r",
    full="max(b * (E + V), b * (2 + 4 * E + C * (1 + H)))",
    partial="max(b * (E + V) + E * V * 105 // 128,"
    " b * (1 + 2 * E + C * (1 + H)) + 4 * E * C + E * E * 9 // 16)",
)
_QWEN2: Final = Row(
    "qwen2",
    full="max(b * (E + V), b * (1 + 2 * E + C + C * H))",
    partial="max(b * (E + V) + E * V * 105 // 128,"
    " 4 * (B * (1 + 2 * E + C * (1 + H)) + E * (1 + C)))",
)
_PHI2: Final = Row(
    "phi2",
    full="max(b * (E + V), b * (1 + 4 * E + C + C * H))",
    partial="max(b * (2 * E + V) + E * V * 105 // 128, b * (2 + 3 * E + C + C * H))",
)
_STABLELM: Final = Row(
    "stablelm",
    full="b * (C * (1 + H) + 3 * E + 2)",
    partial="max(b * (V + 2 * E), b * (C * (1 + H) + 3 * E + 2))",
)
_DEEPSEEK2: Final = Row(
    "deepseek2",
    full="max(b * (3 * E + V), b * (3 * E + 2 + C * (1 + K) + 2 * Dk * K))",
    partial="max(b * (3 * E + V) + E * V * 105 // 128,"
    " b * (2 * E + 1 + 2 * Dk * K + C + C * K) + 4 * Dk * C * K + E * Dk * K * 9 // 16)",
)
_CHATGLM: Final = Row("chatglm", full="b * (E + V)", partial="b * (E + V) + E * V * 105 // 128")
_FUSED_BIAS: Final = Row(
    "chatglm, fused bias",
    full="max(b * (E + V), b * (2 + 2 * E + C + C * H + Dk * H + S))",
    partial="max(b * (E + V) + E * V * 105 // 128,"
    " b * (1 + 2 * E + Dk * H + C + C * H) + 4 * Dk * C + 4 * C * Dk + 4 * S)",
)
_GEMMA: Final = Row(
    "gemma",
    full="max(b * (E + V), b * (2 + C + C * H + 2 * E + 2 * Dk * H))",
    # the 8 is a literal of the source, not K
    partial="max(b * E + E * V * 105 // 128 + b * V,"
    " b * (2 * E + 1 + 2 * Dk * H + C + C * H) + 4 * Dk * C * 8 + E * Dk * H * 9 // 16)",
)
# four times as much, for its per-layer inputs
_GEMMA3N: Final = Row("gemma3n", f"4 * {_GEMMA.full}", f"4 * {_GEMMA.partial}")
# full is 0, so the fallback copies partial; KVdefault is the cache at full context
_GPTOSS: Final = Row("gptoss", full="0", partial="2 * H // (Kmin or 1) * KVdefault // 6")
_GPTOSS_FLASH: Final = Row(
    "gptoss, flash attention", full="0", partial="(4 * Np + C // 1024 + 110) * 1048576"
)

_ROWS: Final[Mapping[str, Row]] = MappingProxyType(
    {
        "llama": _LLAMA,
        "llama4": _LLAMA,
        "mllama": _MLLAMA,
        "gemma": _GEMMA,
        "gemma2": _GEMMA,
        "gemma3": _GEMMA,
        "gemma3n": _GEMMA3N,
        "command-r": _COMMAND_R,
        "qwen2": _QWEN2,
        "phi2": _PHI2,
        "stablelm": _STABLELM,
        "deepseek2": _DEEPSEEK2,
        "chatglm": _CHATGLM,
        "gptoss": _GPTOSS,
        "gpt-oss": _GPTOSS,
    }
)


def row_for(h: Hyperparameters, *, flash_attention: bool) -> Row | None:
    """Return the row of a model, or None: then only the fallback is left.

    Experts are looked for in block 0 alone, stacked ones first.
    """
    row = _ROWS.get(h.architecture)
    if row is _LLAMA:
        if h.tensors.gate_experts_bytes is not None:
            return _STACKED_EXPERTS
        if h.tensors.expert_width is not None:
            return _SPLIT_EXPERTS
    if row is _CHATGLM and h.tensors.fused_bias_length is not None:
        return _FUSED_BIAS
    if row is _GPTOSS and flash_attention:
        return _GPTOSS_FLASH
    return row


# Both together

FALLBACK: Final = "H // (Kmin or 1) * KVtotal // 6"
"""Partial of a model whose row gives 0 or which has no row; source: Ollama, llm/server.go, `Load`.

Kmin counts as 1 where a block has no key and value heads: for hybrids the estimate is large.
"""


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
    symbols: Mapping[str, Number]  # values of the formulas' symbols
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
    symbols, kinds = _symbols(h, workload), _kinds(h)
    caches = _caches(h, kinds, symbols)
    symbols["KVdefault"] = sum(caches)
    if replaced := _REPLACED.get(h.architecture):
        kinds = [replaced(h, i) or kind for i, kind in enumerate(kinds)]
        caches = _caches(h, kinds, symbols)
    kv_total = symbols["KVtotal"] = sized(sum(caches), "the KV cache")
    row = row_for(h, flash_attention=workload.flash_attention)
    try:
        full, partial = (0, 0) if row is None else (evaluated(one, symbols) for one in row[1:])
    except ZeroDivisionError as error:
        what = "attention.head_count is 0, and the formula of split experts divides by it"
        raise PlanError(what) from error
    partial_resolved = sized(partial or evaluated(FALLBACK, symbols), "the compute graph")
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
