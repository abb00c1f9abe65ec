"""What llama.cpp knows of each architecture that the header of a file does not say: one row each.

Read in build 11434, `src/models/NAME.cpp`: `load_arch_hparams` says what a model keeps of a text,
`graph` what it computes. CONTRIBUTING.md says how to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from explorer.planner.engines.llama_cpp.altup import gemma3n_block
from explorer.planner.engines.llama_cpp.block import Block, self_attention
from explorer.planner.engines.llama_cpp.build import (
    bert_block,
    deci_block,
    decoder_block,
    falcon_h1_block,
    gated_attention,
    gemma4_block,
    latent_attention,
    mamba_block,
    nemotron_ahead_block,
    nemotron_block,
)
from explorer.planner.engines.llama_cpp.graph import Tensor
from explorer.planner.engines.llama_cpp.recurrent import (
    delta_network,
    mamba,
    mamba2,
    short_convolution,
)

Part: TypeAlias = Callable[[Block, Tensor], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What is special about an architecture; the defaults are what most have."""

    # How well its compute buffers are known: within 1 % in all cases that were tried, or not
    accuracy: Literal["exact", "band", "unknown architecture"] = "unknown architecture"

    # Blocks, and what they keep of a text (`header`) -------------------------------------------

    # Which have a state, not attention. A number: all but the last of so many, unless the file says
    recurrent: (
        int | Literal["none", "all", "beside attention", "no keys", "no keys, no network"]
    ) = "none"
    state: Literal["ssm", "rwkv", "squares"] = "ssm"  # "squares": one for each head
    # Which see a window only. A number: all but one of so many, unless the file says which
    windows: int | Literal["none", "all", "file", "attention"] = "none"
    full_first: bool = False  # the one that sees everything is the first of so many
    window: int = 0  # positions, where the file does not say
    fixed_window: int = 0  # positions whatever the file says, but 0
    windowed_models: int = 0  # only models of so many blocks have windows
    # Which keep keys and values. "ahead": also those that guess ahead; "shared": the last ones do
    # not, and the file says how many; "unread": attention sees the batch only. A number: the first
    cache: int | Literal["all", "ahead", "shared", "unread", "none"] = "all"
    latent: bool = False  # keys may hold the values, compressed (MLA)
    lengths_without_heads: bool = False  # though the first block has no heads, others have
    # Which keep a small key of each position, by which others are chosen
    indexers: Literal["none", "all", "file", "file or all", "file or some", "not dense"] = "none"
    index_values: bool = False  # values lie beside these keys, though none are used
    pooled_parts: int = 3  # of a small key that is pooled: the raw one, its gate, the pooled one
    compressed: bool = False  # several positions are kept as one
    word_history: bool = False  # a convolution of the words before
    loaded_ahead: tuple[str, ...] = ()  # weights of blocks that guess ahead, which are not used
    positions: Literal["one", "four", "by sections"] = "one"  # numbers of a position (M-RoPE)
    # "full": only in blocks without window; "full, held by all": though others hold them, too
    rope_factors: Literal["all", "full", "full, held by all", "unused"] = "all"
    causal: bool = True
    makes_words: bool = True
    tied_twice: bool = False  # a tied output is held again even where the input lies
    token_norm_last: bool = False  # the norm of the tokens is that before the output
    flash_attention: bool = True

    # What is computed (`build`) ----------------------------------------------------------------

    block: Callable[[Block, Tensor, bool], Tensor] = decoder_block
    attention: Part = self_attention
    recurrence: Part = mamba2
    state_first: bool = True  # a recurrent block reads its state before all else
    repeated_heads: bool = False  # of keys of a delta network
    norm: Literal["rms_norm", "norm"] = "rms_norm"
    last_norm: Literal["as others", "norm"] = "as others"  # before the output
    always_normed: bool = False  # though norms have no weights
    pinned_last_norm: bool = False  # in a pipeline the norm behind a network has a device, too
    # The network reads what attention reads; what its result is added to first
    parallel: Literal["no", "residual", "residual if set", "attention", "attention first"] = "no"
    network_without_norm: bool = False  # where it has none, it reads what attention reads
    residual_first: Literal["no", "network", "both"] = "no"  # in sums
    scaled_input: Literal["no", "all", "if set", "rows"] = "no"
    scaled_query: bool = False
    scaled_residual: bool = False  # if the file has the factor
    sparse_blocks: int = 0  # the first so many leave most of the network out
    scaled_last_norm: bool = False  # what the logits are made of
    scaled_logits: int = 0  # operations
    softcap: bool = False  # of scores
    normed_before_heads: bool = False  # queries and keys
    normed_when_rotated: bool = False  # queries and keys
    norm_without_weights: bool = False  # of rotated queries and keys
    # Blocks whose queries and keys are rotated; "32 blocks": all, of a model with so many
    rotated: Literal[
        "all",
        "file",
        "windowed",
        "windowed or dense",
        "3 of 4",
        "3 of 4 if windowed",
        "32 blocks",
        "none",
    ] = "all"
    qkv_bias: bool = True  # the biases of queries, keys and values are added, if there are any
    output_bias: bool = True  # that of attention's last matrix, too
    biased: bool = False  # the network adds its biases
    gate: Literal["soft_max", "sigmoid", "late"] = "soft_max"  # of experts; "late": once chosen
    summed_experts: bool = True  # weights of experts are made to sum up to one
    weighted_first: bool = False  # experts' weights are applied to what they read
    divided_gate: bool = False  # of the shared expert, by its logits
    halved_experts: bool = False  # with the shared expert
    wide_experts: bool = False  # what their last matrix reads does not fit into f16
    # Where the rows are chosen whose logits are asked for
    outputs: Literal["last block", "before norm", "rows before norm", "behind norm"] = "last block"
    has_logits: bool = True  # else the graph ends with the last norm
    # What differs in the graph of the block that guesses ahead (MTP); None: llama.cpp runs none
    ahead: Mapping[str, Any] | Literal["not known"] | None = None
    rolls_back: bool = False  # states of tokens that may be refused are kept
    mixed: bool = True  # a batch may mix tokens and embeddings
    # The first build that drafts for it: it chooses rows as `outputs` says, and runs MTP layers
    drafted_since: int = 0
    filtered_ahead: bool = True  # since then no cache is kept for MTP layers that are not used


def _alike(names: str, row: Architecture) -> dict[str, Architecture]:
    return dict.fromkeys(names.split(), row)


def _ahead(outputs: str, **others: Any) -> Mapping[str, Any]:
    return MappingProxyType({"outputs": outputs, **others})


UNKNOWN: Final = Architecture()
"""Any other architecture: planned as the graph of llama with the tensors that the file has."""

_EXACT: Final = Architecture(accuracy="exact")
_BIASED: Final = replace(_EXACT, biased=True)
_EXPERTS: Final = replace(_EXACT, summed_experts=False)
_BAND: Final = Architecture(accuracy="band")
_COHERE: Final = replace(_EXACT, norm="norm", parallel="residual", scaled_logits=1)
_GPT2: Final = replace(_EXACT, norm="norm", biased=True, rotated="none")
_DIFFUSION: Final = replace(_EXACT, cache="none", causal=False)
_GEMMA: Final = replace(_EXACT, scaled_input="all", scaled_query=True)
_GRANITE: Final = replace(_EXACT, scaled_input="if set", scaled_residual=True, scaled_logits=1)
_MROPE: Final = replace(_EXACT, positions="four")
_QWEN3NEXT: Final = replace(
    _EXACT,
    recurrent=4,
    attention=gated_attention,
    recurrence=delta_network,
    state_first=False,
    outputs="behind norm",
    ahead=_ahead("behind norm"),
    drafted_since=9222,
    rolls_back=True,
)
_LFM2: Final = replace(
    _EXACT,
    recurrent="no keys",
    cache="ahead",
    recurrence=short_convolution,
    residual_first="both",
    token_norm_last=True,
)
_MAMBA: Final = replace(_EXACT, recurrent="all", block=mamba_block)
_NEMOTRON_H: Final = replace(
    _BIASED,
    recurrent="no keys, no network",
    block=nemotron_block,
    rotated="none",
    summed_experts=False,
    outputs="behind norm",
    drafted_since=10355,
    rolls_back=True,
)
_ENCODER: Final = Architecture(cache="none", makes_words=False)
_BERT: Final = replace(_ENCODER, accuracy="band", block=bert_block, norm="norm")
_RWKV: Final = Architecture(recurrent="all", state="rwkv")
_KIMI: Final = Architecture(recurrent="no keys", cache="ahead", latent=True)
_AHEAD: Final = ("nextn.embed_tokens", "nextn.shared_head")
_CHOSEN: Final = Architecture(
    latent=True,
    loaded_ahead=("exp_probs_b",),
    summed_experts=False,
    attention=latent_attention,
    ahead=_ahead("behind norm", accuracy="exact"),
    drafted_since=10240,
)

ARCHITECTURES: Final[dict[str, Architecture]] = {
    # Within 1 % of what llama.cpp allocates, of golden models or of small ones (docs/planner.md)
    **_alike("arcee chatglm ernie4_5 exaone grovemoe internlm2 minicpm", _EXACT),
    **_alike("qwen qwen2 qwen3 qwen3moe seed_oss xverse", _EXACT),
    "bailingmoe2": replace(_EXACT, summed_experts=False),
    "exaone-moe": replace(_EXACT, windows=4, rotated="windowed", summed_experts=False),
    "mellum": replace(_EXACT, windows=4),
    "plamo3": replace(_EXACT, windows=8, pinned_last_norm=True),
    "laguna": replace(_EXACT, windows=4, full_first=True, summed_experts=False),
    "spark2_5": replace(_EXACT, windows="file"),
    "maple": replace(_EXACT, windows="file", rotated="windowed"),
    "afmoe": replace(
        _EXACT,
        windows=4,
        rotated="3 of 4",
        summed_experts=False,
        pinned_last_norm=True,
        scaled_input="all",
    ),
    "exaone4": replace(_EXACT, windows=4, window=4096, windowed_models=64, rotated="windowed"),
    "minimax-m2": replace(_EXACT, normed_before_heads=True),
    "olmo2": replace(_EXACT, windows=4, normed_before_heads=True),
    "baichuan": replace(_EXACT, rotated="32 blocks"),
    **_alike("hunyuan-dense hunyuan-moe maincoder", replace(_EXACT, normed_when_rotated=True)),
    "hunyuan_vl": replace(_EXACT, normed_when_rotated=True, positions="by sections"),
    "glm4": replace(_EXACT, positions="by sections", pinned_last_norm=True),
    **_alike("paddleocr qwen2vl qwen3tts qwen3vl qwen3vlmoe", _MROPE),
    **_alike("phi3 phimoe", replace(_EXACT, scaled_query=True, residual_first="network")),
    # networks with biases
    **_alike("llama mistral3 nanbeige", _BIASED),
    "pangu-embedded": replace(_BIASED, rope_factors="unused"),
    "granite_swa": replace(_BIASED, windows="file"),
    "smollm3": replace(_BIASED, rotated="3 of 4"),
    "deci": replace(_BIASED, block=deci_block),
    "hy_v3": replace(
        _BIASED,
        loaded_ahead=(*_AHEAD, "ffn_gate", "ffn_up", "ffn_down", "exp_probs_b"),
        outputs="behind norm",
        ahead=_ahead("behind norm"),
        drafted_since=9993,
        summed_experts=False,
    ),
    "gpt-oss": replace(
        _BIASED,
        windows=2,
        gate="late",
        summed_experts=False,
        outputs="before norm",
        drafted_since=10159,
    ),
    # experts whose weights are as they are
    **_alike("bailingmoe deepseek dots1", _EXPERTS),
    "qwen2moe": replace(_EXPERTS, divided_gate=True),
    "glm4moe": replace(
        _EXPERTS,
        positions="by sections",
        ahead=_ahead("behind norm"),
        drafted_since=10603,
        filtered_ahead=False,
    ),
    "olmoe": replace(_EXPERTS, normed_before_heads=True),
    "step35": replace(
        _EXPERTS,
        windows="file",
        rope_factors="full, held by all",
        loaded_ahead=(
            *_AHEAD,
            "attn_q_norm",
            "attn_k_norm",
            "attn_gate",
            "ffn_gate",
            "ffn_up",
            "ffn_down",
            "exp_probs_b",
        ),
        biased=True,
        gate="sigmoid",
        outputs="before norm",
        ahead=_ahead("rows before norm"),
        drafted_since=9484,
    ),
    "deepseek2": replace(
        _EXPERTS,
        latent=True,
        attention=latent_attention,
        ahead=_ahead("behind norm"),
        drafted_since=10261,
        filtered_ahead=False,
    ),
    "minicpm3": replace(
        _EXACT,
        attention=latent_attention,
        scaled_input="all",
        scaled_residual=True,
        scaled_last_norm=True,
    ),
    "mistral4": replace(_EXPERTS, latent=True, attention=latent_attention, wide_experts=True),
    "llama4": replace(
        _EXPERTS,
        windows=4,
        window=8192,
        fixed_window=8192,
        rotated="3 of 4 if windowed",
        norm_without_weights=True,
        gate="sigmoid",
        weighted_first=True,
    ),
    # norms with a mean
    **_alike("dbrx orion pockettts", replace(_EXACT, norm="norm")),
    "stablelm": replace(_EXACT, norm="norm", network_without_norm=True),
    "olmo": replace(_EXACT, norm="norm", always_normed=True),
    "falcon": replace(_EXACT, norm="norm", parallel="attention"),
    **_alike("codeshell jais2 nemotron starcoder2", replace(_BIASED, norm="norm")),
    "gptneox": replace(_BIASED, norm="norm", parallel="residual if set"),
    "phi2": replace(_BIASED, norm="norm", parallel="attention first", scaled_query=True),
    "command-r": _COHERE,
    "cohere2": replace(_COHERE, windows=4, rotated="windowed"),
    **_alike("bloom gpt2 jais mpt starcoder", _GPT2),
    # scaled
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, windows=2, window=4096, scaled_logits=3, softcap=True),
    "gemma3": replace(_GEMMA, windows=6, scaled_input="rows"),
    "gemma-embedding": replace(
        _GEMMA, windows=6, scaled_input="rows", cache="none", causal=False, has_logits=False
    ),
    "gemma3n": replace(
        _EXACT,
        windows=5,
        cache=20,
        tied_twice=True,
        block=gemma3n_block,
        scaled_input="rows",
        scaled_logits=3,
        sparse_blocks=10,
    ),
    "gemma4": replace(
        _EXACT,
        windows="file",
        cache="shared",
        rope_factors="full",
        tied_twice=True,
        block=gemma4_block,
        scaled_input="rows",
        scaled_logits=3,
        outputs="behind norm",
        drafted_since=9553,
    ),
    "granite": replace(_GRANITE, biased=True, rotated="file"),
    "granitemoe": replace(_GRANITE, biased=True),
    "granitehybrid": replace(
        _GRANITE, recurrent="no keys", cache="ahead", biased=True, rotated="file"
    ),
    # texts that are not made from left to right
    **_alike("dream rnd1", _DIFFUSION),
    "llada-moe": replace(_DIFFUSION, summed_experts=False),
    "llada": replace(_DIFFUSION, rope_factors="unused"),
    # with states
    "mamba": replace(_MAMBA, recurrence=mamba),
    "mamba2": _MAMBA,
    "jamba": replace(
        _EXPERTS,
        recurrent="no keys",
        cache="ahead",
        recurrence=mamba,
        rotated="none",
        residual_first="both",
    ),
    "falcon-h1": replace(
        _BIASED,
        recurrent="beside attention",
        rope_factors="unused",
        block=falcon_h1_block,
        state_first=False,
        output_bias=False,
    ),
    **_alike("lfm2moe", _LFM2),
    "lfm2": replace(_LFM2, windows="attention"),
    "nemotron_h": _NEMOTRON_H,
    "nemotron_h_moe": replace(
        _NEMOTRON_H, ahead=_ahead("last block", block=nemotron_ahead_block, last_norm="norm")
    ),
    "qwen3next": replace(
        _QWEN3NEXT,
        repeated_heads=True,
        ahead=_ahead("last block"),
        drafted_since=10240,
        rolls_back=False,
    ),
    **_alike("qwen35 qwen35moe", replace(_QWEN3NEXT, positions="four")),
    # The same, but not within 1 % in every circumstance
    **_alike("ernie4_5-moe openelm", _BAND),
    "grok": replace(_BAND, flash_attention=False, pinned_last_norm=True),
    "llama-embed": replace(_BAND, cache="unread"),
    "muse-glimmer": replace(_BAND, windows=4),
    "mimo2": replace(
        _EXACT,
        windows="file",
        qkv_bias=False,
        biased=True,
        ahead=_ahead("rows before norm"),
        drafted_since=10189,
    ),
    "cohere2moe": replace(
        _EXACT,
        windows=4,
        full_first=True,
        loaded_ahead=_AHEAD,
        parallel="residual",
        rotated="windowed or dense",
        summed_experts=False,
        halved_experts=True,
        outputs="behind norm",
        ahead=_ahead("behind norm", rotated="all"),
        drafted_since=9628,
        filtered_ahead=False,
    ),
    "eurobert": replace(_ENCODER, accuracy="band"),
    "bert": replace(_BERT, rotated="none", biased=True),
    "jina-bert-v2": replace(_BERT, rotated="none", biased=True, normed_before_heads=True),
    "jina-bert-v3": replace(_BERT, biased=True),
    "nomic-bert": _BERT,
    "nomic-bert-moe": replace(_BERT, biased=True, summed_experts=False),
    # Whose graphs are not known: weights, caches and states only
    **_alike("arwkv7 rwkv6 rwkv6qwen2 rwkv7", _RWKV),
    **_alike("cogvlm refact", replace(UNKNOWN, rope_factors="unused")),
    "deepseek2-ocr": replace(UNKNOWN, latent=True),
    "kimi-linear": _KIMI,
    "kimi-k3": replace(_KIMI, rolls_back=True),
    "bailingmoe3": replace(
        _KIMI,
        positions="by sections",
        summed_experts=False,
        attention=latent_attention,
        ahead=_ahead("behind norm", accuracy="exact"),
        drafted_since=10472,
        rolls_back=True,
    ),
    "glm5-next": replace(_KIMI, cache="all", indexers="file or all"),
    "deepseek32": replace(_CHOSEN, indexers="all"),
    "glm-dsa": replace(_CHOSEN, indexers="file or some", drafted_since=10178),
    "hy_v4": replace(UNKNOWN, latent=True, indexers="file"),
    "dots3note": replace(UNKNOWN, latent=True, indexers="file", windows="file"),
    "deepseek4": replace(
        UNKNOWN, compressed=True, indexers="all", windows="all", ahead="not known", rolls_back=True
    ),
    "minimax-m3": replace(UNKNOWN, indexers="not dense", index_values=True),
    "minimax-01": replace(UNKNOWN, recurrent=8, state="squares"),
    "qwen4exp": replace(
        UNKNOWN,
        recurrent=4,
        positions="four",
        indexers="all",
        pooled_parts=2,
        word_history=True,
        ahead="not known",
        rolls_back=True,
    ),
    "plamo2": replace(UNKNOWN, recurrent="no keys", cache="ahead", lengths_without_heads=True),
    "smallthinker": replace(UNKNOWN, windows=4, full_first=True, fixed_window=4096),
    "graniteswitch": replace(UNKNOWN, rotated="file"),
    "neo-bert": _ENCODER,
    "modern-bert": replace(_ENCODER, windows=3, full_first=True),
    "clef": replace(_ENCODER, positions="four"),
    "wavtokenizer-dec": replace(UNKNOWN, cache="none"),
}
"""Name in `general.architecture` → what is special about it."""


def architecture(name: str) -> Architecture:
    """Return the row of an architecture, that of llama's graph if there is none."""
    return ARCHITECTURES.get(name, UNKNOWN)
