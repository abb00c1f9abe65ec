"""Which tensors make which: names of GGUF, of Hugging Face, and of older and newer files of both.

Roles are what a name says without layer and suffix. A rule whose sources are not all there is
passed over for the next one; so one table serves all families, where names do not mean two things.
Names on Hugging Face's side are without what a wrapper puts in front.

Sources: gguf-py/gguf/tensor_mapping.py and convert_hf_to_gguf.py of llama.cpp; the names of Meta's
and Mistral's own files; mlx-lm's for stacked experts (``switch_mlp``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from explorer.analysis.matching import rules as experts
from explorer.analysis.matching import rules as make
from explorer.analysis.matching.rules import Maker, Rule

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
    """Return a rule for each of some names that are alternatives."""
    return tuple(Rule(maker, (name,)) for name in names)


def _layer(maker: Maker, *names: str) -> tuple[Rule, ...]:
    return _each(maker, *(f"{_LAYER}{name}.{{s}}" for name in names))


def _joined(*names: str) -> Rule:
    return Rule(make.joined, names)


def _experts(projection: str, letter: str, half: int | None) -> tuple[Rule, ...]:
    """Return how experts are stacked; `half` is the projection's place in a fused tensor."""
    mlp, mixtral = f"{_LAYER}mlp.", f"{_LAYER}block_sparse_moe."
    rules = [
        *_layer(make.same, f"mlp.switch_mlp.{projection}", f"mlp.experts.{projection}"),
        *_layer(make.same, f"block_sparse_moe.switch_mlp.{projection}"),
        _joined(f"{mlp}experts.{{e}}.{projection}.{{s}}"),
        _joined(f"{mixtral}experts.{{e}}.{letter}.{{s}}"),
    ]
    if half is None:
        rules += _each(experts.either_way, f"{mlp}experts.{projection}")
    else:
        rules += _each(experts.expert_half(half), _FUSED, _FUSED + ".{s}")
    return tuple(rules)


def _gpt_oss(projection: str, half: int | None) -> tuple[Rule, ...]:
    name = f"{_LAYER}mlp.experts.{projection}"
    blocks = (name + "_blocks", name + "_scales")
    makers: tuple[Maker, Maker, Maker]
    if half is None:
        makers = (experts.mxfp4_blocks, experts.turned_experts, make.same)
    else:
        makers = (
            experts.mxfp4_interleaved(half),
            experts.interleaved(half),
            experts.interleaved(half),
        )
    return (
        Rule(makers[0], blocks, ("weight",)),
        Rule(makers[1], (name,), ("weight",)),
        Rule(makers[2], (name + "_bias",), ("bias",)),
    )


HUGGING_FACE: Final[Rules] = MappingProxyType(
    {
        "token_embd": _each(make.vocabulary, "embed_tokens.{s}", "tok_embeddings.{s}", "wte.{s}"),
        "position_embd": _each(make.same, "wpe.{s}"),
        "output_norm": _each(make.norm, "norm.{s}", "final_layernorm.{s}", "ln_f.{s}"),
        "output": (
            *_each(make.vocabulary, "lm_head.{s}", "output.{s}"),
            *_each(make.tied, "embed_tokens.{s}", "tok_embeddings.{s}", "wte.{s}"),
        ),
        "attn_norm": (
            *_layer(make.norm, "input_layernorm", "attention_norm"),
            *_each(make.same, "h.{i}.ln_1.{s}"),
        ),
        "attn_q": (
            *_layer(make.query, "self_attn.q_proj"),
            *_layer(make.same, "attention.wq"),
            *_layer(make.rows_of(0), "self_attn.qkv_proj"),
        ),
        "attn_k": (
            *_layer(make.key, "self_attn.k_proj"),
            *_layer(make.same, "attention.wk"),
            *_layer(make.rows_of(1), "self_attn.qkv_proj"),
        ),
        "attn_v": (
            *_layer(make.same, "self_attn.v_proj", "attention.wv"),
            *_layer(make.rows_of(2), "self_attn.qkv_proj"),
        ),
        "attn_qkv": (
            *_layer(make.same, "self_attn.qkv_proj"),
            *_each(make.transposed, "h.{i}.attn.c_attn.{s}"),
            _joined(*(f"{_LAYER}self_attn.{one}_proj.{{s}}" for one in "qkv")),
        ),
        "attn_output": (
            *_layer(make.same, "self_attn.o_proj", "self_attn.dense", "attention.wo"),
            *_each(make.transposed, "h.{i}.attn.c_proj.{s}"),
        ),
        "attn_q_norm": _layer(make.norm, "self_attn.q_norm"),
        "attn_k_norm": _layer(make.norm, "self_attn.k_norm"),
        "attn_sinks": _each(make.same, f"{_LAYER}self_attn.sinks"),
        "attn_q_a": _layer(make.same, "self_attn.q_a_proj"),
        "attn_q_a_norm": _layer(make.same, "self_attn.q_a_layernorm"),
        "attn_q_b": _layer(make.same, "self_attn.q_b_proj"),
        "attn_kv_a_mqa": _layer(make.same, "self_attn.kv_a_proj_with_mqa"),
        "attn_kv_a_norm": _layer(make.same, "self_attn.kv_a_layernorm"),
        "attn_kv_b": _layer(make.same, "self_attn.kv_b_proj"),
        "attn_k_b": _layer(make.key_up, "self_attn.kv_b_proj"),
        "attn_v_b": _layer(make.value_up, "self_attn.kv_b_proj"),
        "post_attention_norm": _layer(make.norm, "post_attention_layernorm"),
        "ffn_norm": (
            *_layer(make.norm, "pre_feedforward_layernorm", "post_attention_layernorm"),
            *_layer(make.same, "ffn_norm"),
            *_each(make.same, "h.{i}.ln_2.{s}"),
        ),
        "post_ffw_norm": _layer(make.norm, "post_feedforward_layernorm"),
        "ffn_gate": (
            *_layer(make.same, "mlp.gate_proj", "feed_forward.w1"),
            *_layer(make.half(0), "mlp.gate_up_proj"),
        ),
        "ffn_up": (
            *_layer(make.same, "mlp.up_proj", "feed_forward.w3", "mlp.fc1"),
            *_layer(make.fused_up, "mlp.gate_up_proj"),
            *_each(make.transposed, "h.{i}.mlp.c_fc.{s}"),
        ),
        "ffn_down": (
            *_layer(make.same, "mlp.down_proj", "feed_forward.w2", "mlp.fc2"),
            *_each(make.transposed, "h.{i}.mlp.c_proj.{s}"),
        ),
        "ffn_gate_inp": _layer(make.same, "mlp.gate", "block_sparse_moe.gate", "mlp.router"),
        "ffn_gate_inp_shexp": _layer(make.same, "mlp.shared_expert_gate"),
        "exp_probs_b": _each(
            make.same,
            f"{_LAYER}mlp.gate.e_score_correction_bias",
            f"{_LAYER}mlp.gate.e_score_correction",
        ),
        "ffn_gate_exps": _experts("gate_proj", "w1", 0),
        "ffn_up_exps": _experts("up_proj", "w3", 1),
        "ffn_down_exps": _experts("down_proj", "w2", None),
        "ffn_gate_up_exps": (
            *_each(experts.either_way, _FUSED),
            _joined(*(f"{_LAYER}mlp.experts.{{e}}.{one}_proj.{{s}}" for one in ("gate", "up"))),
        ),
        **{
            f"ffn_{one}_shexp": _layer(
                make.same, f"mlp.shared_expert.{one}_proj", f"mlp.shared_experts.{one}_proj"
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
            Rule(experts.in_turn, (f"{_FUSED}_blocks", f"{_FUSED}_scales"), ("weight",)),
            Rule(experts.in_turn, (_FUSED,), ("weight",)),
            Rule(experts.in_turn, (f"{_FUSED}_bias",), ("bias",)),
        ),
    }
)
"""What differs from `HUGGING_FACE` for gpt-oss."""

_BLOCK = "blk.{i}."

BETWEEN_GGUF: Final[Rules] = MappingProxyType(
    {
        "output": _each(make.tied, "token_embd.{s}"),
        "attn_qkv": (_joined(*(f"{_BLOCK}attn_{one}.{{s}}" for one in "qkv")),),
        **{
            f"attn_{one}": _each(make.rows_of(place), f"{_BLOCK}attn_qkv.{{s}}")
            for place, one in enumerate("qkv")
        },
        "attn_k_b": _each(make.key_up, f"{_BLOCK}attn_kv_b.{{s}}"),
        "attn_v_b": _each(make.value_up, f"{_BLOCK}attn_kv_b.{{s}}"),
        "ffn_gate_exps": (
            _joined(f"{_BLOCK}ffn_gate.{{e}}.{{s}}"),
            *_each(make.half(0, 1), f"{_BLOCK}ffn_gate_up_exps.{{s}}"),
        ),
        "ffn_up_exps": (
            _joined(f"{_BLOCK}ffn_up.{{e}}.{{s}}"),
            *_each(make.half(1, 1), f"{_BLOCK}ffn_gate_up_exps.{{s}}"),
        ),
        "ffn_down_exps": (_joined(f"{_BLOCK}ffn_down.{{e}}.{{s}}"),),
    }
)
"""Roles of GGUF, made of an older or a newer file's tensors."""

_ATTENTION = f"{_LAYER}self_attn."
_MLP = f"{_LAYER}mlp."

BETWEEN_HUGGING_FACE: Final[Rules] = MappingProxyType(
    {
        "lm_head": _each(make.tied, "embed_tokens.{s}"),
        "self_attn.qkv_proj": (_joined(*(f"{_ATTENTION}{one}_proj.{{s}}" for one in "qkv")),),
        **{
            f"self_attn.{one}_proj": _each(make.rows_of(place), f"{_ATTENTION}qkv_proj.{{s}}")
            for place, one in enumerate("qkv")
        },
        "mlp.gate_up_proj": (_joined(*(f"{_MLP}{one}_proj.{{s}}" for one in ("gate", "up"))),),
        "mlp.gate_proj": _each(make.half(0), f"{_MLP}gate_up_proj.{{s}}"),
        "mlp.up_proj": _each(make.half(1), f"{_MLP}gate_up_proj.{{s}}"),
        **{
            f"mlp.{stack}.{one}_proj": (
                *_each(make.same, f"{_MLP}{other}.{one}_proj.{{s}}", f"{_MLP}{other}.{one}_proj"),
                _joined(f"{_MLP}experts.{{e}}.{one}_proj.{{s}}"),
                *(
                    _each(experts.expert_half(place), f"{_MLP}experts.gate_up_proj")
                    if place < 2
                    else ()
                ),
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
