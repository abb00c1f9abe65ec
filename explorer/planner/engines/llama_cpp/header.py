"""What llama.cpp's rules read of a model: numbers of its header, and its tensors with their places.

Rules of llama.cpp build 11434 (`llama-model.cpp`, `load_hparams` and `load_tensors`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.formats.tensors import Shape
from explorer.planner.devices import MAX_BLOCKS, quoted
from explorer.planner.engines.llama_cpp.graph import Extent
from explorer.planner.header_keys import HeaderKeys
from explorer.quantization import TENSOR_TYPES, TensorType

GPU_ALIGNMENT: Final = 128
HOST_ALIGNMENT: Final = 32
MAX_EXPERTS: Final = 1024
"""Most experts of a block (`LLAMA_MAX_EXPERTS`)."""

_BLOCKS_OF_EXAONE_32B: Final = 64  # the only exaone4 with windows
_OWN_CACHES_OF_GEMMA3N: Final = 20  # the blocks behind use those of these
_SCALES: Final = ("embedding_scale", "residual_scale", "logit_scale")
_MOST_PATTERNS: Final = 1024
_ROW_WEIGHTS: Final = 512  # rows of quantized weights on a GPU are padded to a multiple
_BLOCK: Final = re.compile(r"(?:enc\.|dec\.)?blk\.(\d{1,4})\.")
_NO_OTHERS: Final[Mapping[int, TensorType]] = MappingProxyType({})
_ANY_BLOCK: Final = re.compile(r"(?=blk\.(\d+)\.)")
_ONE_BLOCK: Final = re.compile(r"blk\\\.(\d+)\\\.(?:[a-z_.*]|\([a-z_|]*\))*\Z")
"""A pattern that finds names of one block only: no alternative to its beginning."""

_INPUT: Final = ("token_embd.", "token_types.", "position_embd.", "per_layer_token_embd.")
_FIRST_BLOCK: Final = ("token_embd_norm.", "per_layer_model_proj.", "per_layer_proj_norm.", "hrm.")
"""Names of what is used between the input and the first block, and lies with that."""
_REPACKED: Final = TENSOR_TYPES["Q4_K"]  # which a CPU with AVX2 keeps in another order

_WINDOW_PATTERNS: Final = {
    **{"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4, "exaone4": 4},
    **{"exaone-moe": 4, "afmoe": 4, "mellum": 4, "muse-glimmer": 4, "olmo2": 4, "plamo3": 8},
    **{"llama4": 4, "cohere2moe": 4, "laguna": 4, "smallthinker": 4},
    **{"gemma-embedding": 6, "modern-bert": 3},
    # the file says which blocks
    **dict.fromkeys(("gemma4", "granite_swa", "maple", "mimo2", "spark2_5", "step35", "dots3note")),
    "deepseek4": 0,
}
"""Architecture → blocks in a group, one of which sees everything. Others have no window."""
_FULL_FIRST: Final = ("cohere2moe", "laguna", "smallthinker", "modern-bert")
"""Architectures where the first block of a group sees everything, not the last."""
_OWN_WINDOWS: Final = {"gemma2": 4096, "exaone4": 4096, "llama4": 8192, "smallthinker": 4096}
"""Windows that need not stand in the file."""
_FIXED_WINDOWS: Final = ("llama4", "smallthinker")  # whatever the file says, but 0

_RECURRENT: Final = ("mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7")
_BY_KV_HEADS: Final = (
    *("jamba", "lfm2", "lfm2moe", "granitehybrid", "plamo2"),
    *("kimi-linear", "kimi-k3", "bailingmoe3", "glm5-next"),
)
"""Architectures whose blocks without heads of keys are recurrent."""
_BY_INTERVAL: Final = {
    **dict.fromkeys(("qwen3next", "qwen35", "qwen35moe", "qwen4exp"), 4),
    "minimax-01": 8,
}
"""Architecture → blocks in a group of which the last has attention, if the file does not say."""
_LATENT: Final = (
    *("deepseek2", "deepseek2-ocr", "deepseek32", "glm-dsa", "kimi-linear", "kimi-k3"),
    *("bailingmoe3", "glm5-next", "hy_v4", "mistral4", "dots3note"),
)
"""Architectures that may keep keys and values in one compressed form."""
_WITHOUT_CACHE: Final = (
    *("bert", "jina-bert-v2", "jina-bert-v3", "nomic-bert", "nomic-bert-moe", "neo-bert"),
    *("eurobert", "wavtokenizer-dec", "modern-bert", "gemma-embedding", "dream", "llada"),
    *("llada-moe", "rnd1", "clef"),
)
"""Architectures that read a text at once and keep nothing of it."""
_UNUSED_FACTORS: Final = ("falcon-h1", "llada", "pangu-embedded", "refact", "cogvlm")
"""Architectures that load factors of rotations and do not use them."""
_NOT_CAUSAL: Final = ("gemma-embedding", "dream", "llada", "llada-moe", "rnd1")
_WITHOUT_OUTPUT: Final = (
    *("bert", "jina-bert-v2", "jina-bert-v3", "nomic-bert", "nomic-bert-moe", "neo-bert"),
    *("eurobert", "modern-bert", "clef"),
)
"""Architectures that make no words."""
_INDEXED: Final = (
    *("deepseek32", "glm-dsa", "glm5-next", "hy_v4", "dots3note", "qwen4exp", "deepseek4"),
)
"""Architectures that keep a small key of each position, by which others are chosen."""
_AHEAD: Final = ("nextn.embed_tokens", "nextn.shared_head")
_LOADED_AHEAD: Final = {
    "cohere2moe": _AHEAD,
    "hy_v3": (*_AHEAD, "ffn_gate", "ffn_up", "ffn_down", "exp_probs_b"),
    "deepseek32": ("exp_probs_b",),
    "glm-dsa": ("exp_probs_b",),
}
"""Weights of blocks that guess ahead, which are loaded although these blocks are not used."""
_SHARED_INDEXERS: Final = 1 << 20
"""Trained context from which on three of four blocks of glm-dsa have no indexer of their own."""
_MROPE: Final = (
    *("qwen2vl", "paddleocr", "qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe", "qwen4exp"),
    *("qwen3tts", "clef"),
)
"""Architectures whose positions have four numbers."""
_MROPE_BY_SECTIONS: Final = ("glm4", "glm4moe", "hunyuan_vl")
_MAY_BE_UNROTATED: Final = ("granite", "granitehybrid", "graniteswitch")


@dataclass(frozen=True, slots=True)
class Weights:
    """A tensor: where it belongs, and its bytes there."""

    name: str
    layer: int  # -1: the input, `blocks`: the output
    on_gpu: int
    on_host: int
    repacked: bool
    extent: Extent = (1, 1, 1, 1)  # elements, the fastest dimension first
    stored: int = 0  # bytes in the file
    row_padding: int = 0  # bytes that a GPU adds

    @property
    def is_scattered(self) -> bool:
        """Whether it lies elsewhere than with its layer, or in several places."""
        return self.layer < 0 or self.name.startswith("rope_")


class LayerSum(NamedTuple):
    """Bytes of the tensors of a layer."""

    on_gpu: int
    on_host: int  # of those that a CPU keeps as they are
    repacked: int  # of the others, on the host


@dataclass(frozen=True, kw_only=True)
class Header:
    """What the rules read of a model."""

    architecture: str
    blocks: int
    embedding: int
    key_length: int
    value_length: int
    heads: tuple[int, ...]  # of each block
    kv_heads: tuple[int, ...]
    mla: bool  # multi-head latent attention: keys hold the values
    window: int
    windowed: tuple[bool, ...]  # of each block
    attention: tuple[bool, ...]
    recurrent: tuple[bool, ...]
    cached: tuple[bool, ...]  # whether a block keeps keys and values of its own
    windowed_lengths: tuple[int, int]  # of keys and values in blocks with a window
    index_lengths: tuple[int, ...]  # of each block's key by which others are chosen; 0: none
    index_values: bool = False  # whether values lie beside these keys, though none are used
    compression: tuple[int, ...] = ()  # of deepseek4: positions that each block keeps as one
    history: tuple[int, ...]  # of qwen4exp: elements of each block's convolution of words
    loaded: int  # blocks but those that only guess tokens ahead, which are not loaded
    position_numbers: int = 1  # that say where a token stands
    causal: bool = True  # whether no token sees those behind it
    conv_state: int  # elements of a recurrent block's convolution
    ssm_state: int  # elements of its state
    inner_size: int = 0  # channels of a recurrent block
    state_size: int = 0  # of each channel, or of each group's keys
    groups: int = 0
    ranks: int = 0  # heads of a recurrent block
    rope_size: int = 0  # elements of a head that are rotated
    parallel_residual: bool = False  # of gptneox
    rotated: bool = True  # queries and keys by their positions
    scales: frozenset[str] = frozenset()  # the factors that it has
    experts_used: int = 0
    expert_groups: int = 0
    expert_groups_used: int = 0
    expert_gating: int = 0  # 2: a sigmoid
    experts_normed: bool = False  # their weights are made to sum up to one
    experts_scaled: bool = False
    trained_context: int
    tensors: tuple[Weights, ...] = field(repr=False)

    @classmethod
    def from_model(cls, model: Model, others: Mapping[int, TensorType] = _NO_OTHERS) -> Header:
        """Read an opened GGUF model; `others` are types of tensors to use instead, by row.

        Raises:
            PlanError: It is no GGUF model, a value is of the wrong type or absurdly large, or a
                tensor has no size.
        """
        if model.format != "gguf":
            raise PlanError(
                "llama.cpp reads GGUF files; convert the model first, or take the profile "
                "ollama-graphsize, which says what it would need after conversion"
            )
        keys = HeaderKeys(model.metadata)
        blocks = keys.integer("block_count", most=MAX_BLOCKS)
        embedding = keys.integer("embedding_length")
        heads = keys.per_block("attention.head_count", blocks, 0)
        kv_heads = keys.per_block("attention.head_count_kv", blocks, max(heads, default=0))
        kept = _Kept(keys, heads, kv_heads)
        key_length, value_length = kept.lengths(embedding)
        conv, state = kept.state_sizes(embedding)
        return cls(
            architecture=keys.architecture,
            blocks=blocks,
            embedding=embedding,
            key_length=key_length,
            value_length=value_length,
            heads=heads,
            kv_heads=kv_heads,
            mla=kept.is_latent(),
            window=kept.window,
            windowed=kept.windowed,
            attention=kept.attention,
            recurrent=kept.recurrent,
            cached=kept.cached(),
            windowed_lengths=(
                keys.integer("attention.key_length_swa", default=key_length),
                keys.integer("attention.value_length_swa", default=value_length),
            ),
            index_lengths=kept.index_lengths(),
            index_values=keys.architecture == "minimax-m3",
            loaded=kept.loaded,
            compression=kept.compression(),
            history=kept.history(embedding),
            position_numbers=4 if kept.has_sections() else 1,
            causal=keys.architecture not in _NOT_CAUSAL
            and keys.truth("attention.causal", default=True),
            conv_state=conv,
            ssm_state=state,
            **_numbers(keys, key_length),
            tensors=tuple(
                one
                for one in _weights(model, blocks, keys.architecture, others)
                if not kept.loaded <= one.layer < blocks
                or one.name.split(".", 2)[-1].startswith(_LOADED_AHEAD.get(keys.architecture, ()))
            ),
        )

    @cached_property
    def has_output(self) -> bool:
        """Whether the output has weights of its own; else those of the input are held twice."""
        return "output.weight" in self.weights_by_name or not self.makes_words

    @property
    def reads_at_once(self) -> bool:
        """Whether attention knows the batch and no cache."""
        return self.architecture in _WITHOUT_CACHE or self.architecture == "llama-embed"

    @property
    def makes_words(self) -> bool:
        """Whether there is an output, if a tied one; encoders have none."""
        return self.architecture not in _WITHOUT_OUTPUT

    @cached_property
    def widest_row(self) -> int:
        """The longest side of a matrix behind the input; without any the width of the embedding."""
        matrices = (one.extent for one in self.tensors if one.layer >= 0)
        sides = (max(first, second) for first, second, *_ in matrices if min(first, second) > 1)
        return max(sides, default=self.embedding)

    @cached_property
    def weights_by_name(self) -> dict[str, Weights]:
        """All weights."""
        return {tensor.name: tensor for tensor in self.tensors}

    @cached_property
    def block_weights(self) -> list[dict[str, Weights]]:
        """The weights of each block, by the rest of their names."""
        found: list[dict[str, Weights]] = [{} for _ in range(self.blocks)]
        for tensor in self.tensors:
            if 0 <= tensor.layer < self.blocks and tensor.name.startswith("blk."):
                found[tensor.layer][tensor.name.split(".", 2)[2]] = tensor
        return found

    @cached_property
    def computed(self) -> dict[Hashable, list[int]]:
        """What was worked out before: the sizes of compute buffers (`compute`)."""
        return {}

    @cached_property
    def runs(self) -> dict[Hashable, Any]:
        """What parts of a graph do to memory, as far as it was worked out (`compute`)."""
        return {}

    @cached_property
    def first_alike(self) -> list[int]:
        """For each block the first one with a cache and a state of the same sizes."""
        known: dict[Hashable, int] = {}
        kinds = zip(
            *(self.recurrent, self.cached, self.windowed, self.kv_heads, self.index_lengths),
            *(self.history, self.compression or self.heads),
            strict=True,
        )
        return [known.setdefault(kind, block) for block, kind in enumerate(kinds)]

    @cached_property
    def kinds(self) -> list[int]:
        """A number for each block, the same for blocks that hold the same."""
        known: dict[Hashable, int] = {}
        return [
            known.setdefault(
                (
                    *(self.windowed[i], self.recurrent[i], self.heads[i], self.kv_heads[i]),
                    self.cache_block(i) == i,
                    frozenset((name, tensor.extent) for name, tensor in weights.items()),
                ),
                len(known),
            )
            for i, weights in enumerate(self.block_weights)
        ]

    @cached_property
    def sizes(self) -> list[int]:
        """A number for each block, the same for blocks whose weights have the same bytes."""
        known: dict[Hashable, int] = {}
        return [
            known.setdefault(frozenset((n, t.stored) for n, t in weights.items()), len(known))
            for weights in self.block_weights
        ]

    def lengths_of(self, block: int) -> tuple[int, int]:
        """Return the lengths of a head's key and value in a block."""
        if self.windowed[block]:
            return self.windowed_lengths
        return self.key_length, self.value_length

    def cache_block(self, block: int) -> int:
        """Return the block whose keys and values a block reads: its own, if it keeps any."""
        if self.cached[block] or not self.attention[block] or not any(self.cached):
            return block
        # of those that keep them the last one with a window, or the last without
        return sum(self.cached) - (2 if self.windowed[block] else 1)

    @cached_property
    def widest_values(self) -> int:
        """Elements of the values of a position in the block where there are most."""
        return max(
            (
                heads * (self.windowed_lengths[1] if windowed else self.value_length)
                for heads, windowed in zip(self.kv_heads, self.windowed, strict=True)
            ),
            default=0,
        )

    @cached_property
    def rope_factors(self) -> str | None:
        """The name of the factors that rotations are multiplied with, if there are any."""
        names = ("rope_freqs.weight", "rope_factors_long.weight")
        found = (name for name in names if name in self.weights_by_name)
        return None if self.architecture in _UNUSED_FACTORS else next(found, None)

    @cached_property
    def scattered(self) -> tuple[Weights, ...]:
        """The tensors that do not lie with one layer: the input, and tables of rotations."""
        return tuple(one for one in self.tensors if one.is_scattered)

    @cached_property
    def layer_sums(self) -> tuple[LayerSum, ...]:
        """Bytes of each layer's other tensors, the output last."""
        sums = [[0, 0, 0] for _ in range(self.blocks + 1)]
        for tensor in self.tensors:
            if not tensor.is_scattered:
                held = sums[tensor.layer]
                held[0] += tensor.on_gpu
                held[1 + tensor.repacked] += tensor.on_host
        return tuple(LayerSum(*held) for held in sums)

    @cached_property
    def rows_of_block(self) -> dict[str, tuple[int, ...]]:
        """Number of a block, as its tensors' names spell it → the places of these in `tensors`."""
        rows: dict[str, list[int]] = {}
        for row, tensor in enumerate(self.tensors):
            for number in set(_ANY_BLOCK.findall(tensor.name)):
                rows.setdefault(number, []).append(row)
        return {number: tuple(found) for number, found in rows.items()}

    @cached_property
    def matched(self) -> dict[str, list[int]]:
        """What `rows_matching` found before, by pattern."""
        return {}

    def rows_matching(self, pattern: str) -> list[int]:
        """Return the places in `tensors` of those whose names a regular expression finds.

        Raises:
            PlanError: It is no regular expression.
        """
        known = self.matched
        if pattern not in known:  # what `fit` tries has a pattern for each of 60 blocks
            if len(known) >= _MOST_PATTERNS:
                known.clear()
            known[pattern] = self._rows_matching(pattern)
        return known[pattern]

    def _rows_matching(self, pattern: str) -> list[int]:
        try:
            search = re.compile(pattern).search
        except (re.error, OverflowError, RecursionError) as error:
            raise PlanError(f"{quoted(pattern)!r} is no regular expression: {error}") from error
        block = _ONE_BLOCK.match(pattern)
        rows = self.rows_of_block.get(block[1], ()) if block else range(len(self.tensors))
        return [row for row in rows if search(self.tensors[row].name)]


def _numbers(keys: HeaderKeys, key_length: int) -> dict[str, Any]:
    """Return the fields of a header that are one number each, for any architecture."""
    return {
        "inner_size": keys.integer("ssm.inner_size"),
        "state_size": keys.integer("ssm.state_size"),
        "groups": keys.integer("ssm.group_count"),
        "ranks": keys.integer("ssm.time_step_rank"),
        "rope_size": keys.integer("rope.dimension_count", default=key_length),
        "parallel_residual": keys.truth("use_parallel_residual"),
        "rotated": keys.architecture not in _MAY_BE_UNROTATED
        or keys.truth("rope.scaling.finetuned", default=True),
        "scales": frozenset(name for name in _SCALES if keys.number(name)),
        "experts_used": keys.integer("expert_used_count", most=MAX_EXPERTS),
        "expert_groups": keys.integer("expert_group_count"),
        "expert_groups_used": keys.integer("expert_group_used_count"),
        "expert_gating": keys.integer("expert_gating_func"),
        "experts_normed": keys.truth("expert_weights_norm"),
        "experts_scaled": keys.number("expert_weights_scale") not in (0.0, 1.0),
        "trained_context": keys.integer("context_length"),
    }


class _Kept:
    """What blocks keep of a text: keys and values, of all positions or of a window, or a state.

    Attributes:
        loaded: Blocks but those at the end that only guess tokens ahead.
        window: Positions that a block with a window sees.
        windowed: For each block whether it has a window.
        attention: Whether it has attention.
        recurrent: Whether it has a state.
    """

    def __init__(self, keys: HeaderKeys, heads: tuple[int, ...], kv_heads: tuple[int, ...]) -> None:
        self._keys, self._heads, self._kv_heads = keys, heads, kv_heads
        self._count = len(heads)
        self.loaded = self._count - min(keys.integer("nextn_predict_layers"), self._count)
        self.attention, self.recurrent = self._kinds()
        self.window = self._window()
        self.windowed = tuple(
            self.window > 0 and i < self.loaded and one for i, one in enumerate(self._windows())
        )

    def _kinds(self) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
        keys, architecture = self._keys, self._keys.architecture
        everywhere, nowhere = (True,) * self._count, (False,) * self._count
        if architecture in _RECURRENT:
            return nowhere, everywhere
        if architecture == "falcon-h1":
            return everywhere, everywhere
        if architecture in ("nemotron_h", "nemotron_h_moe"):
            networks = keys.per_block("feed_forward_length", self._count, 0)
            plain = [not one for one in networks]
            recurrent = [not one for one in self._kv_heads]
            return (
                tuple(one and not other for one, other in zip(plain, recurrent, strict=True)),
                tuple(one and other for one, other in zip(plain, recurrent, strict=True)),
            )
        if architecture in _BY_KV_HEADS:
            found = [not one for one in self._kv_heads]
        elif architecture in _BY_INTERVAL:
            found = list(keys.flags("attention.recurrent_layers", self._count))
            if not found:
                interval = keys.integer("full_attention_interval") or _BY_INTERVAL[architecture]
                found = [(i + 1) % interval != 0 for i in range(self._count)]
        else:
            return everywhere, nowhere
        recurrent = [one and i < self.loaded for i, one in enumerate(found)]
        return tuple(not one for one in recurrent), tuple(recurrent)

    def _window(self) -> int:
        architecture = self._keys.architecture
        stored = self._keys.optional("attention.sliding_window")
        own = _OWN_WINDOWS.get(architecture, 0)
        if architecture == "lfm2":
            return stored or 0
        if architecture not in _WINDOW_PATTERNS:
            return 0
        if architecture == "exaone4" and self.loaded != _BLOCKS_OF_EXAONE_32B:
            return 0
        if stored is None:
            return 0 if architecture == "smallthinker" else own
        return own if stored and architecture in _FIXED_WINDOWS else stored

    def _windows(self) -> tuple[bool, ...]:
        keys, architecture = self._keys, self._keys.architecture
        if architecture == "lfm2":
            return tuple(not one for one in self.recurrent)
        told = keys.flags("attention.sliding_window_pattern", self._count)
        if told or architecture not in _WINDOW_PATTERNS:
            return told or (False,) * self._count
        pattern = _WINDOW_PATTERNS[architecture]
        if pattern is None:
            return (False,) * self._count
        if architecture != "deepseek4":
            pattern = keys.integer("attention.sliding_window_pattern", default=pattern)
        if pattern == 0:
            return (True,) * self._count
        full = 0 if architecture in _FULL_FIRST else pattern - 1
        return tuple(i % pattern != full for i in range(self._count))

    def cached(self) -> tuple[bool, ...]:
        """Return for each block whether it keeps keys and values of its own."""
        keys, architecture, last = self._keys, self._keys.architecture, self.loaded
        if architecture in _WITHOUT_CACHE:
            last = 0
        elif architecture in _BY_KV_HEADS and architecture != "glm5-next":
            last = self._count
        elif architecture == "gemma3n":
            last = min(last, _OWN_CACHES_OF_GEMMA3N)
        elif architecture == "gemma4":
            last = min(last, self._count - keys.integer("attention.shared_kv_layers"))
        return tuple(i < last and one for i, one in enumerate(self.attention))

    def is_latent(self) -> bool:
        """Return whether keys hold the values (multi-head latent attention)."""
        found = all(self._keys.integer(f"attention.{one}_length_mla") for one in ("key", "value"))
        return found and self._keys.architecture in _LATENT

    def index_lengths(self) -> tuple[int, ...]:
        """Return for each block the length of its key by which others are chosen."""
        keys, architecture = self._keys, self._keys.architecture
        length = keys.integer("attention.indexer.key_length")
        nowhere = (0,) * self._count
        if architecture == "minimax-m3":
            dense = keys.integer("leading_dense_block_count")
            return tuple(length if i >= dense else 0 for i in range(self._count))
        if architecture not in _INDEXED or not keys.integer("attention.indexer.top_k"):
            return nowhere
        whose = keys.flags("attention.indexer.types", self._count)
        if architecture in ("deepseek32", "qwen4exp", "deepseek4"):
            whose = (True,) * self._count
        elif architecture == "glm5-next":
            whose = whose or (True,) * self._count
        elif architecture == "glm-dsa" and not whose:
            shared = keys.integer("context_length") >= _SHARED_INDEXERS
            whose = tuple(not shared or i < 2 or i % 4 == 2 for i in range(self._count))
        if keys.integer("attention.indexer.kpool") > 1:
            length *= 2 if architecture == "qwen4exp" else 3  # the raw key, its gate, the pooled
        found = zip(whose or (False,) * self._count, self.attention, strict=True)
        return tuple(length if all(both) and i < self.loaded else 0 for i, both in enumerate(found))

    def lengths(self, embedding: int) -> tuple[int, int]:
        """Return the lengths of a head's key and of its value."""
        keys, first = self._keys, self._heads[0] if self._heads else 0
        length = embedding // first if first else 0
        if not first and keys.architecture != "plamo2":  # there are none
            return 0, 0
        return (
            keys.integer("attention.key_length", default=length),
            keys.integer("attention.value_length", default=length),
        )

    def state_sizes(self, embedding: int) -> tuple[int, int]:
        """Return the elements of a block's convolution and of its state, of one sequence."""
        keys, first = self._keys, self._heads[0] if self._heads else 0
        architecture = keys.architecture
        if architecture in _RECURRENT and not architecture.startswith("mamba"):
            shifts = keys.integer("token_shift_count", default=2)
            return shifts * embedding, embedding * keys.integer("wkv.head_size")
        kernel = keys.integer("shortconv.l_cache")
        if kernel:
            return embedding * (kernel - 1), 0
        length = keys.integer("kda.head_dim")
        if length and architecture in _LATENT:
            kernel = keys.integer("ssm.conv_kernel") or 4
            return 3 * (kernel - 1) * first * length, first * length**2
        if architecture == "minimax-01":
            return 0, first * self.lengths(embedding)[0] ** 2
        inner, state = keys.integer("ssm.inner_size"), keys.integer("ssm.state_size")
        width = inner + 2 * keys.integer("ssm.group_count") * state
        return max(0, keys.integer("ssm.conv_kernel") - 1) * width, state * inner

    def compression(self) -> tuple[int, ...]:
        """Return how many positions each block keeps as one beside its window; 0: none."""
        if self._keys.architecture != "deepseek4":
            return ()
        return self._keys.per_block("attention.compress_ratios", self._count, 0)

    def history(self, embedding: int) -> tuple[int, ...]:
        """Return the elements that each block remembers of the words before."""
        keys, size = self._keys, embedding
        for name, less in (("ple.conv_kernel", 1), ("ple.ngram_size", 0)):
            size *= max(0, keys.integer(name) - less)
        size *= keys.integer("hyper_connection.count")
        blocks = keys.list("ple.layers") if keys.architecture == "qwen4exp" else ()
        return tuple(size if i in blocks else 0 for i in range(self._count))

    def has_sections(self) -> bool:
        """Return whether positions have four numbers, of time, height and width (M-RoPE)."""
        if self._keys.architecture in _MROPE:
            return True
        sections = self._keys.list("rope.dimension_sections")[:2]
        return self._keys.architecture in _MROPE_BY_SECTIONS and len(sections) > 1 and all(sections)


def _weights(
    model: Model, blocks: int, architecture: str, others: Mapping[int, TensorType]
) -> Iterator[Weights]:
    columns, rows = model.tensors.columns, model.tensors.main_rows
    types = (others.get(row, kind) for row, kind in enumerate(columns.types[:rows]))
    known: dict[Hashable, tuple[Any, ...]] = {}  # blocks are alike
    for name, kind, shape in zip(columns.names[:rows], types, columns.shapes[:rows], strict=True):
        layer, of_experts = _layer_of(name, blocks, architecture), "exps" in name
        key = kind.name, shape, of_experts
        if key not in known:
            stored = kind.nbytes(math.prod(shape))
            if stored is None:
                raise PlanError(f"the size of tensor {quoted(name)} is not known")
            padding = row_padding(kind, shape[-1] if shape else 1)
            known[key] = (
                padded(stored + padding, GPU_ALIGNMENT),
                padded(stored, HOST_ALIGNMENT),
                _is_repacked(kind, shape, of_experts=of_experts),
                _extent(shape),
                stored,
                padding,
            )
        yield Weights(name, layer, *known[key])


def _extent(shape: Shape) -> Extent:
    a, b, c, d = (*reversed(shape), 1, 1, 1, 1)[:4]
    return a, b, c, d


def _layer_of(name: str, blocks: int, architecture: str) -> int:
    """Return the layer whose device holds a tensor; -1 for the input, `blocks` for the output."""
    match = _BLOCK.match(name)
    if match is not None:
        return min(int(match[1]), blocks)
    if name.startswith("token_embd_norm") and architecture.startswith("lfm2"):
        return blocks  # there it is the norm before the output
    if name.startswith(_FIRST_BLOCK):
        return 0
    return -1 if name.startswith(_INPUT) else blocks


def _is_repacked(kind: TensorType, shape: Shape, *, of_experts: bool) -> bool:
    """Return whether a matrix is kept in another order where no GPU is (ggml-cpu, repack.cpp)."""
    is_matrix = len(shape) > 1 and (math.prod(shape[:-2]) == 1 or of_experts)
    return kind is _REPACKED and is_matrix and shape[-2] % 8 == 0


def padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def row_padding(kind: TensorType, row: int) -> int:
    """Return the bytes that fill a row of quantized weights up to a multiple of 512."""
    if not kind.quantized or row % _ROW_WEIGHTS == 0:
        return 0
    return kind.nbytes(_ROW_WEIGHTS - row % _ROW_WEIGHTS) or 0
