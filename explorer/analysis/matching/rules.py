"""How a tensor is made of another model's: the converters' transforms, and where they apply.

A transform is a view that undoes what a converter did. Rules are listed by role, which is a name
without layer and suffix. A rule whose sources are not all there is passed over for the next one; so
one table serves all families, where names do not mean two things. Names of Hugging Face are without
the prefix that a wrapper adds.

Sources: llama.cpp, gguf-py/gguf/tensor_mapping.py and convert_hf_to_gguf.py (`LlamaModel.permute`,
`GemmaModel.modify_tensors` and its siblings', `GPT2Model.modify_tensors`,
`DeepseekV2Model.modify_tensors`, `GptOssModel.repack_mxfp4`, `Qwen3MoeModel`); transformers,
modeling_gpt_oss.py; the names of Meta's and Mistral's own files; mlx-lm's for stacked experts
(``switch_mlp``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from explorer.analysis.matching.views import TensorPart
from explorer.formats.tensors import CompanionWeights, Shape, StoredArray, Tensor
from explorer.quantization.grouped.layout import GroupedLayout, Mode


class NotComparable(Exception):
    """Two tensors belong together, but their difference would say nothing; with the reason."""


@dataclass(frozen=True, slots=True)
class TargetTensor:
    """What is to be made.

    Attributes:
        tensor: The tensor whose weights are wanted, in its order.
        permuted: Whether the architecture's converter permutes the rows of q and k.
        shifted: Whether it adds 1 to the weights of norms.
        heads: Heads of the layer; None if unknown.
        kv_heads: Heads of keys and values; None if unknown.
    """

    tensor: Tensor
    permuted: bool = False
    shifted: bool = False
    heads: int | None = None
    kv_heads: int | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """What a rule makes.

    Attributes:
        parts: Whose weights are the target's, one behind the other.
        notes: What was done, in words.
        shape: Of all parts together; None for that of the only one.
    """

    parts: tuple[TensorPart, ...]
    notes: tuple[str, ...] = ()
    shape: Shape | None = None


Maker: TypeAlias = Callable[[TargetTensor, Sequence[Tensor]], Made]
"""make(target, sources); raises `NotComparable`, or `ValueError` for shapes that do not fit."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to make a tensor.

    Attributes:
        make: Makes it of the sources.
        sources: Names, with ``{i}`` for the layer, ``{s}`` for ``weight`` or ``bias``, and ``{e}``
            for the number of an expert, of which there are as many as there are names.
        suffixes: The suffixes of targets that it makes.
    """

    make: Maker
    sources: tuple[str, ...]
    suffixes: tuple[str, ...] = ("weight", "bias")


def same(_target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take a tensor as it is; gpt-oss's MXFP4 codes and scales, two tensors, as one."""
    return Made((_whole(sources),))


def joined(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Put tensors one behind the other: q, k and v, or the experts of a layer.

    Experts make a dimension of their own; of each there may be several tensors.

    Raises:
        NotComparable: Their rows differ in length, or they are not those of as many experts.
    """
    inner = sources[0].shape[1:]
    if any(source.shape[1:] != inner for source in sources):
        raise NotComparable("the tensors to be joined have rows of different lengths")
    rows = sum(source.shape[0] for source in sources)
    shape: Shape = (rows, *inner)
    if len(target.tensor.shape) == len(shape) + 1:
        experts = target.tensor.shape[0]
        if len(sources) % experts or len({source.shape for source in sources}) > 1:
            raise NotComparable(f"{len(sources)} tensors are not those of {experts} experts")
        shape = (experts, rows // experts, *inner)
    parts = tuple(map(TensorPart.whole, sources))
    return Made(parts, (f"{len(sources)} tensors are joined",), shape)


def norm(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take a norm; Gemma's weights are stored less 1 by Hugging Face."""
    part = TensorPart.whole(sources[0])
    if not target.shifted or not target.tensor.name.endswith("norm.weight"):
        return Made((part,))
    return Made((part.added(1.0),), ("1 is added to the weights of the norm",))


def vocabulary(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take a matrix of a row for each token; converters leave out rows without a token."""
    part = TensorPart.whole(sources[0])
    rows = target.tensor.shape[0] if target.tensor.shape else 0
    if len(part.shape) != 2 or rows >= part.shape[0]:
        return Made((part,))
    note = f"only its first {rows:,} rows of {part.shape[0]:,} are there on both sides"
    return Made((part.sliced(0, 0, rows),), (note,))


TIED: Final = "the token embedding is the output too"


def tied(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take the token embedding for the output, where a model has one matrix for both."""
    made = vocabulary(target, sources)
    return Made(made.parts, (TIED, *made.notes))


def query(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take queries; see `_permuted`."""
    return _permuted(target, sources[0], target.heads)


def key(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take keys; see `_permuted`."""
    return _permuted(target, sources[0], target.kv_heads)


def _permuted(target: TargetTensor, source: Tensor, heads: int | None) -> Made:
    """Put the rows of each head into the order in which llama.cpp rotates pairs of them.

    Hugging Face pairs row j of a head with row j + half; llama.cpp row 2 j with row 2 j + 1.
    """
    part = TensorPart.whole(source)
    if not target.permuted:
        return Made((part,))
    if heads is None:
        raise NotComparable("rows of heads are permuted, and the number of heads is not known")
    rows, *rest = part.shape
    if heads < 1 or rows % (2 * heads):
        raise NotComparable(f"{rows} rows are not those of {heads} heads")
    order = (0, 2, 1, *range(3, 3 + len(rest)))
    view = part.reshaped(heads, 2, rows // heads // 2, *rest).transposed(*order)
    note = "the rows of each head are permuted as llama.cpp keeps them"
    return Made((view,), (note,), part.shape)


def transposed(_target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Exchange rows and columns, as for weights of GPT-2's Conv1D and of gpt-oss's experts.

    Not those of a bias, and of weights with companions, which are in the order of a Linear layer.
    """
    part = TensorPart.whole(sources[0])
    if len(part.shape) < 2 or sources[0].scheme:
        return Made((part,))
    *outer, rows, columns = range(len(part.shape))
    return Made((part.transposed(*outer, columns, rows),), ("rows and columns are exchanged",))


def rows_of(position: int) -> Maker:
    """Return what takes queries (0), keys (1) or values (2) out of a fused tensor.

    Keys and values have as many rows as the target; queries have the rest.
    """

    def make(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
        part = TensorPart.whole(sources[0])
        rows, total = target.tensor.shape[0], part.shape[0]
        start = 0 if position == 0 else total - (3 - position) * rows
        return Made((part.sliced(0, start, start + rows),), ("it is a part of a fused tensor",))

    return make


def half(position: int, of: int = 0) -> Maker:
    """Return what takes the first (0) or second (1) half of a fused tensor's dimension."""

    def make(_target: TargetTensor, sources: Sequence[Tensor]) -> Made:
        part = TensorPart.whole(sources[0])
        count = part.shape[of] // 2
        view = part.sliced(of, position * count, (position + 1) * count)
        return Made((view,), ("it is a half of a fused tensor",))

    return make


def fused_up(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take gate and up in one tensor, as Phi-3's `ffn_up` has them, or only up's half."""
    if target.tensor.shape == sources[0].shape:
        return same(target, sources)
    return half(1)(target, sources)


def key_up(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take the keys' part of DeepSeek's kv_b, each head transposed: [heads, rank, size]."""
    part = TensorPart.whole(sources[0])
    heads, _rank, size = target.tensor.shape
    rows, rank = part.shape
    view = part.reshaped(heads, rows // heads, rank).sliced(1, 0, size).transposed(0, 2, 1)
    return Made((view,), ("it is a part of a fused tensor, each head transposed",))


def value_up(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take the values' part of DeepSeek's kv_b: [heads, size, rank]."""
    part = TensorPart.whole(sources[0])
    heads, size, _rank = target.tensor.shape
    rows, rank = part.shape
    each = rows // heads
    view = part.reshaped(heads, each, rank).sliced(1, each - size, each)
    return Made((view,), ("it is a part of a fused tensor",))


def either_way(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take experts in one tensor, whose rows and columns some releases exchange.

    Raises:
        NotComparable: Rows and columns are as many, so that both ways fit.
    """
    part = TensorPart.whole(sources[0])
    _experts, rows, columns = target.tensor.shape
    if part.shape[1:] == (rows, columns) == (columns, rows):
        raise NotComparable("the experts' matrices are square: their layout is ambiguous")
    if part.shape[1:] != (columns, rows):
        return Made((part,))
    return Made((part.transposed(0, 2, 1),), ("rows and columns are exchanged",))


def expert_half(position: int) -> Maker:
    """Return what takes gates (0) or ups (1) out of experts' fused tensor, either way round.

    Newer models keep [experts, 2 * rows, columns]; some keep [experts, columns, 2 * rows]. What is
    returned raises `NotComparable` where both would fit.
    """

    def make(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
        part = TensorPart.whole(sources[0])
        _experts, rows, columns = target.tensor.shape
        plain, turned = (2 * rows, columns), (columns, 2 * rows)
        if part.shape[1:] == plain == turned:
            raise NotComparable("the fused tensor is square: its layout is ambiguous")
        if part.shape[1:] == turned:
            part = part.transposed(0, 2, 1)
        view = part.sliced(1, position * rows, (position + 1) * rows)
        return Made((view,), ("it is a half of a fused tensor",))

    return make


def interleaved(position: int) -> Maker:
    """Return what takes every second row of gpt-oss's fused gates (0) and ups (1).

    Weights are [experts, columns, 2 * rows], biases [experts, 2 * rows]; MXFP4 ones, joined or as
    codes and scales in two tensors, are [experts, 2 * rows, columns].
    """

    def make(_target: TargetTensor, sources: Sequence[Tensor]) -> Made:
        part = _whole(sources)
        if _is_turned(part, sources):
            part = part.transposed(0, 2, 1)
        view = part.sliced(1, position, part.shape[1], 2)
        return Made((view,), ("it is every second row of a fused tensor",))

    return make


def in_turn(_target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Put gpt-oss's gates in front of the ups: what was in turn before."""
    part = _whole(sources)
    if _is_turned(part, sources):
        experts, columns, rows = part.shape
        view = part.reshaped(experts, columns, rows // 2, 2).transposed(0, 3, 2, 1)
        shape: Shape = (experts, rows, columns)
    else:
        experts, rows, *rest = shape = part.shape
        order = (0, 2, 1, 3)[: 3 + len(rest)]
        view = part.reshaped(experts, rows // 2, 2, *rest).transposed(*order)
    return Made((view,), ("every second row is put behind the others",), shape)


def _is_turned(part: TensorPart, sources: Sequence[Tensor]) -> bool:
    """Return whether rows and columns are exchanged, as in plain weights: MXFP4 ones are not."""
    return len(part.shape) == 3 and len(sources) == 1 and not sources[0].scheme


def _whole(sources: Sequence[Tensor]) -> TensorPart:
    return TensorPart.whole(sources[0] if len(sources) == 1 else _grouped(sources))


def _grouped(sources: Sequence[Tensor]) -> Tensor:
    """Return codes, U8 [experts, rows, groups, 16], and scales, U8 [.., groups], as one tensor."""
    blocks, scales = sources
    layout = GroupedLayout(Mode.MXFP4, 4, 32, "U8")
    shape = blocks.shape
    if (
        {blocks.type.name, scales.type.name} != {"U8"}
        or len(shape) != 4
        or shape[3] != layout.group_size // 2
        or scales.shape != shape[:3]
    ):
        raise NotComparable(f"{blocks.name!r} and {scales.name!r} are not MXFP4 blocks and scales")
    logical = (shape[0], shape[1], shape[2] * layout.group_size)
    roles = {"weight": blocks, "scales": scales}
    return Tensor(
        name=blocks.name,
        shape=logical,
        type=layout.type,
        extents=tuple(part.extents[0] for part in sources),
        parameters=scales.parameters * layout.group_size,
        damage=blocks.damage or scales.damage,
        companions=CompanionWeights(
            layout=layout.companions(logical),
            parts={
                role: StoredArray(part.extents[0], part.type, part.shape)
                for role, part in roles.items()
            },
            keys={role: part.name for role, part in roles.items()},
            attached={},
        ),
    )


Rules: TypeAlias = Mapping[str, tuple[Rule, ...]]

PERMUTED: Final = frozenset(
    {"llama", "granite", "granitemoe", "arcee", "smollm3", "deci", "olmo", "minicpm", "deepseek"}
)
"""Architectures of GGUF whose converter permutes the rows of q and k (`LlamaModel.permute`)."""

SHIFTED: Final = frozenset({"gemma", "gemma2", "gemma3", "gemma-embedding"})
"""Architectures whose norms have 1 added."""

INTERLEAVED: Final = frozenset({"gpt-oss", "gptoss"})
"""Architectures whose fused experts alternate between gate and up."""

COMPUTED: Final = frozenset({"rope_freqs", "rope_factors_long", "rope_factors_short"})
"""Roles that a converter computes from the configuration."""

BUFFERS: Final = ("rotary_emb.inv_freq", "attn.bias", "attn.masked_bias")
"""Endings of Hugging Face's tensors that hold no weights: frequencies and masks."""

SCALES: Final = ("_scale_inv", "_scale")
"""What is put behind a weight's name for scales that the format says nothing of (FP8)."""

_LAYER = "layers.{i}."
_FUSED = f"{_LAYER}mlp.experts.gate_up_proj"


def _each(maker: Maker, *names: str) -> tuple[Rule, ...]:
    """Return a rule for each of several alternative names."""
    return tuple(Rule(maker, (name,)) for name in names)


def _layer(maker: Maker, *names: str) -> tuple[Rule, ...]:
    return _each(maker, *(f"{_LAYER}{name}.{{s}}" for name in names))


def _joined(*names: str) -> Rule:
    return Rule(joined, names)


def _experts(projection: str, letter: str, position: int | None) -> tuple[Rule, ...]:
    """Return how experts are stacked; `position` is the projection's in a fused tensor."""
    mlp, mixtral = f"{_LAYER}mlp.", f"{_LAYER}block_sparse_moe."
    rules = [
        *_layer(same, f"mlp.switch_mlp.{projection}", f"mlp.experts.{projection}"),
        *_layer(same, f"block_sparse_moe.switch_mlp.{projection}"),
        _joined(f"{mlp}experts.{{e}}.{projection}.{{s}}"),
        _joined(f"{mixtral}experts.{{e}}.{letter}.{{s}}"),
    ]
    if position is None:
        rules += _each(either_way, f"{mlp}experts.{projection}")
    else:
        rules += _each(expert_half(position), _FUSED, _FUSED + ".{s}")
    return tuple(rules)


def _gpt_oss(projection: str, position: int | None) -> tuple[Rule, ...]:
    name = f"{_LAYER}mlp.experts.{projection}"
    makers: tuple[Maker, ...] = (same, transposed, same)
    if position is not None:
        makers = (interleaved(position),) * 3
    blocks, weights, bias = makers
    return (
        Rule(blocks, (name + "_blocks", name + "_scales"), ("weight",)),
        Rule(weights, (name,), ("weight",)),
        Rule(bias, (name + "_bias",), ("bias",)),
    )


HUGGING_FACE: Final[Rules] = MappingProxyType(
    {
        "token_embd": _each(vocabulary, "embed_tokens.{s}", "tok_embeddings.{s}", "wte.{s}"),
        "position_embd": _each(same, "wpe.{s}"),
        "output_norm": _each(norm, "norm.{s}", "final_layernorm.{s}", "ln_f.{s}"),
        "output": (
            *_each(vocabulary, "lm_head.{s}", "output.{s}"),
            *_each(tied, "embed_tokens.{s}", "tok_embeddings.{s}", "wte.{s}"),
        ),
        "attn_norm": (
            *_layer(norm, "input_layernorm", "attention_norm"),
            *_each(same, "h.{i}.ln_1.{s}"),
        ),
        "attn_q": (
            *_layer(query, "self_attn.q_proj"),
            *_layer(same, "attention.wq"),
            *_layer(rows_of(0), "self_attn.qkv_proj"),
        ),
        "attn_k": (
            *_layer(key, "self_attn.k_proj"),
            *_layer(same, "attention.wk"),
            *_layer(rows_of(1), "self_attn.qkv_proj"),
        ),
        "attn_v": (
            *_layer(same, "self_attn.v_proj", "attention.wv"),
            *_layer(rows_of(2), "self_attn.qkv_proj"),
        ),
        "attn_qkv": (
            *_layer(same, "self_attn.qkv_proj"),
            *_each(transposed, "h.{i}.attn.c_attn.{s}"),
            _joined(*(f"{_LAYER}self_attn.{one}_proj.{{s}}" for one in "qkv")),
        ),
        "attn_output": (
            *_layer(same, "self_attn.o_proj", "self_attn.dense", "attention.wo"),
            *_each(transposed, "h.{i}.attn.c_proj.{s}"),
        ),
        "attn_q_norm": _layer(norm, "self_attn.q_norm"),
        "attn_k_norm": _layer(norm, "self_attn.k_norm"),
        "attn_sinks": _each(same, f"{_LAYER}self_attn.sinks"),
        "attn_q_a": _layer(same, "self_attn.q_a_proj"),
        "attn_q_a_norm": _layer(same, "self_attn.q_a_layernorm"),
        "attn_q_b": _layer(same, "self_attn.q_b_proj"),
        "attn_kv_a_mqa": _layer(same, "self_attn.kv_a_proj_with_mqa"),
        "attn_kv_a_norm": _layer(same, "self_attn.kv_a_layernorm"),
        "attn_kv_b": _layer(same, "self_attn.kv_b_proj"),
        "attn_k_b": _layer(key_up, "self_attn.kv_b_proj"),
        "attn_v_b": _layer(value_up, "self_attn.kv_b_proj"),
        "post_attention_norm": _layer(norm, "post_attention_layernorm"),
        "ffn_norm": (
            *_layer(norm, "pre_feedforward_layernorm", "post_attention_layernorm"),
            *_layer(same, "ffn_norm"),
            *_each(same, "h.{i}.ln_2.{s}"),
        ),
        "post_ffw_norm": _layer(norm, "post_feedforward_layernorm"),
        "ffn_gate": (
            *_layer(same, "mlp.gate_proj", "feed_forward.w1"),
            *_layer(half(0), "mlp.gate_up_proj"),
        ),
        "ffn_up": (
            *_layer(same, "mlp.up_proj", "feed_forward.w3", "mlp.fc1"),
            *_layer(fused_up, "mlp.gate_up_proj"),
            *_each(transposed, "h.{i}.mlp.c_fc.{s}"),
        ),
        "ffn_down": (
            *_layer(same, "mlp.down_proj", "feed_forward.w2", "mlp.fc2"),
            *_each(transposed, "h.{i}.mlp.c_proj.{s}"),
        ),
        "ffn_gate_inp": _layer(same, "mlp.gate", "block_sparse_moe.gate", "mlp.router"),
        "ffn_gate_inp_shexp": _layer(same, "mlp.shared_expert_gate"),
        "exp_probs_b": _each(
            same,
            f"{_LAYER}mlp.gate.e_score_correction_bias",
            f"{_LAYER}mlp.gate.e_score_correction",
        ),
        "ffn_gate_exps": _experts("gate_proj", "w1", 0),
        "ffn_up_exps": _experts("up_proj", "w3", 1),
        "ffn_down_exps": _experts("down_proj", "w2", None),
        "ffn_gate_up_exps": (
            *_each(either_way, _FUSED),
            _joined(*(f"{_LAYER}mlp.experts.{{e}}.{one}_proj.{{s}}" for one in ("gate", "up"))),
        ),
        **{
            f"ffn_{one}_shexp": _layer(
                same, f"mlp.shared_expert.{one}_proj", f"mlp.shared_experts.{one}_proj"
            )
            for one in ("gate", "up", "down")
        },
    }
)
"""Roles of GGUF, made of Hugging Face's tensors."""

INTERLEAVED_EXPERTS: Final[Rules] = MappingProxyType(
    {
        "ffn_gate_exps": _gpt_oss("gate_up_proj", 0),
        "ffn_up_exps": _gpt_oss("gate_up_proj", 1),
        "ffn_down_exps": _gpt_oss("down_proj", None),
        "ffn_gate_up_exps": (
            Rule(in_turn, (f"{_FUSED}_blocks", f"{_FUSED}_scales"), ("weight",)),
            Rule(in_turn, (_FUSED,), ("weight",)),
            Rule(in_turn, (f"{_FUSED}_bias",), ("bias",)),
        ),
    }
)
"""What differs from `HUGGING_FACE` for gpt-oss."""

_BLOCK = "blk.{i}."

BETWEEN_GGUF: Final[Rules] = MappingProxyType(
    {
        "output": _each(tied, "token_embd.{s}"),
        "attn_qkv": (_joined(*(f"{_BLOCK}attn_{one}.{{s}}" for one in "qkv")),),
        **{
            f"attn_{one}": _each(rows_of(place), f"{_BLOCK}attn_qkv.{{s}}")
            for place, one in enumerate("qkv")
        },
        "attn_k_b": _each(key_up, f"{_BLOCK}attn_kv_b.{{s}}"),
        "attn_v_b": _each(value_up, f"{_BLOCK}attn_kv_b.{{s}}"),
        "ffn_gate_exps": (
            _joined(f"{_BLOCK}ffn_gate.{{e}}.{{s}}"),
            *_each(half(0, 1), f"{_BLOCK}ffn_gate_up_exps.{{s}}"),
        ),
        "ffn_up_exps": (
            _joined(f"{_BLOCK}ffn_up.{{e}}.{{s}}"),
            *_each(half(1, 1), f"{_BLOCK}ffn_gate_up_exps.{{s}}"),
        ),
        "ffn_down_exps": (_joined(f"{_BLOCK}ffn_down.{{e}}.{{s}}"),),
    }
)
"""Roles of GGUF, made of an older or a newer file's tensors."""

_ATTENTION = f"{_LAYER}self_attn."
_MLP = f"{_LAYER}mlp."

BETWEEN_HUGGING_FACE: Final[Rules] = MappingProxyType(
    {
        "lm_head": _each(tied, "embed_tokens.{s}"),
        "self_attn.qkv_proj": (_joined(*(f"{_ATTENTION}{one}_proj.{{s}}" for one in "qkv")),),
        **{
            f"self_attn.{one}_proj": _each(rows_of(place), f"{_ATTENTION}qkv_proj.{{s}}")
            for place, one in enumerate("qkv")
        },
        "mlp.gate_up_proj": (_joined(*(f"{_MLP}{one}_proj.{{s}}" for one in ("gate", "up"))),),
        "mlp.gate_proj": _each(half(0), f"{_MLP}gate_up_proj.{{s}}"),
        "mlp.up_proj": _each(half(1), f"{_MLP}gate_up_proj.{{s}}"),
        **{
            f"mlp.{stack}.{one}_proj": (
                *_each(same, f"{_MLP}{other}.{one}_proj.{{s}}", f"{_MLP}{other}.{one}_proj"),
                _joined(f"{_MLP}experts.{{e}}.{one}_proj.{{s}}"),
                *(_each(expert_half(place), f"{_MLP}experts.gate_up_proj") if place < 2 else ()),
            )
            for stack, other in (("switch_mlp", "experts"), ("experts", "switch_mlp"))
            for place, one in enumerate(("gate", "up", "down"))
        },
        "mlp.experts.gate_up_proj": (
            _joined(*(f"{_MLP}experts.{{e}}.{one}_proj.weight" for one in ("gate", "up"))),
        ),
    }
)
"""Roles of Hugging Face, made of tensors that another release of the model has."""
