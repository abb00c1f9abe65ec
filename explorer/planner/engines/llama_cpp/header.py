"""What llama.cpp's rules read of a model: numbers of its header, and its tensors with their places.

Rules of llama.cpp build 11434 (`llama-model.cpp`, `load_hparams` and `load_tensors`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.formats.tensors import Shape
from explorer.planner.devices import MAX_BLOCKS, quoted
from explorer.planner.engines.llama_cpp.architectures import Architecture, architecture
from explorer.planner.engines.llama_cpp.backends import Backend
from explorer.planner.engines.llama_cpp.graph import (
    GPU_ALIGNMENT,
    HOST_ALIGNMENT,
    Extent,
    padded,
    row_padding,
)
from explorer.planner.header_keys import TOKENS, HeaderKeys
from explorer.quantization import TENSOR_TYPES, TensorType

MAX_EXPERTS: Final = 1024
"""Most experts of a block (`LLAMA_MAX_EXPERTS`)."""

_SCALES: Final = ("embedding_scale", "residual_scale", "logit_scale")
_MOST_PATTERNS: Final = 1024
_BLOCK: Final = re.compile(r"(?:enc\.|dec\.)?blk\.(\d{1,4})\.")
_NO_OTHERS: Final[Mapping[int, TensorType]] = MappingProxyType({})
_ANY_BLOCK: Final = re.compile(r"(?=blk\.(\d+)\.)")
_ONE_BLOCK: Final = re.compile(r"blk\\\.(\d+)\\\.(?:[a-z_.*]|\([a-z_|]*\))*\Z")
"""A pattern that finds names of one block only: no alternative to its beginning."""

_INPUT: Final = ("token_embd.", "token_types.", "position_embd.", "per_layer_token_embd.")
_FIRST_BLOCK: Final = ("token_embd_norm.", "per_layer_model_proj.", "per_layer_proj_norm.", "hrm.")
"""Names of what is used between the input and the first block, and lies with that."""
_REPACKED: Final = TENSOR_TYPES["Q4_K"]  # which a CPU with AVX2 keeps in another order
_TABLE: Final = "nextn.embed_tokens.weight"  # whose rows are read, as those of the input

SCANNED: Final = ".ssm_a"
"""End of the names of what a Mamba layer's scan reads."""

_STEP: Final = 16  # of the lengths of heads of Mamba 2 for which there is a kernel
_WIDTH_STEP: Final = 128  # of the width of Mamba 1

_SHARED_INDEXERS: Final = 1 << 20
"""Trained context from which on three of four blocks of glm-dsa have no indexer of their own."""


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
    kind: str = ""  # its type's name

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
    compression: tuple[int, ...] = ()  # of deepseek4: positions that each block keeps as one
    history: tuple[int, ...]  # of qwen4exp: elements of each block's convolution of words
    loaded: int  # blocks but those that only guess tokens ahead (MTP)
    first: int = 0  # the first block that is computed
    is_drafting: bool = False  # whether only the blocks that guess ahead are computed
    caches_all: bool = False  # whether each context caches the blocks of the other, too
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
    tokens: int = 0  # of its vocabulary; 0 where it says nothing of one
    tensors: tuple[Weights, ...] = field(repr=False)
    ahead: tuple[Weights, ...] = field(default=(), repr=False)  # loaded only to guess ahead

    @classmethod
    def from_model(cls, model: Model, others: Mapping[int, TensorType] = _NO_OTHERS) -> Header:
        """Read an opened GGUF model; `others` are types of tensors to use instead, by row.

        Raises:
            PlanError: It is not a GGUF model, a value is of the wrong type or absurdly large, or a
                tensor has no size.
        """
        if model.format != "gguf":
            raise PlanError(
                "llama.cpp reads GGUF files. Convert the model first, or plan it by a program "
                "that loads it: vllm, mlx or transformers"
            )
        keys = HeaderKeys(model.metadata)
        blocks = keys.integer("block_count", most=MAX_BLOCKS)
        embedding = keys.integer("embedding_length")
        heads = keys.per_block("attention.head_count", blocks, 0)
        kv_heads = keys.per_block("attention.head_count_kv", blocks, max(heads, default=0))
        each = _Blocks(keys, heads, kv_heads)
        key_length, value_length = each.lengths(embedding)
        conv, state = each.state_sizes(embedding)
        weights = [*_weights(model, blocks, each.rules, others)]
        ahead = [
            one
            for one in weights
            if each.loaded <= one.layer < blocks
            and not one.name.split(".", 2)[-1].startswith(each.rules.loaded_ahead)
        ]
        names = {one.name for one in ahead}
        vocabulary = model.metadata.entry(TOKENS)
        return cls(
            architecture=keys.architecture,
            blocks=blocks,
            embedding=embedding,
            key_length=key_length,
            value_length=value_length,
            heads=heads,
            kv_heads=kv_heads,
            mla=each.is_latent(),
            window=each.window,
            windowed=each.windowed,
            attention=each.attention,
            recurrent=each.recurrent,
            cached=each.cached(),
            windowed_lengths=(
                keys.integer("attention.key_length_swa", default=key_length),
                keys.integer("attention.value_length_swa", default=value_length),
            ),
            index_lengths=each.index_lengths(),
            loaded=each.loaded,
            compression=each.compression(),
            history=each.history(embedding),
            position_numbers=4 if each.has_sections() else 1,
            causal=each.rules.causal and keys.truth("attention.causal", default=True),
            conv_state=conv,
            ssm_state=state,
            rotated=each.rules.rotated != "file"
            or keys.truth("rope.scaling.finetuned", default=True),
            **_numbers(keys, key_length),
            tokens=0 if vocabulary is None else vocabulary.length or 0,
            tensors=tuple(one for one in weights if one.name not in names),
            ahead=tuple(ahead),
        )

    def on(self, backend: Backend) -> Header:
        """Return the same with the bytes that its weights take on devices of a library."""
        if backend.fills_rows:
            return self
        if backend not in self._on:
            self._on[backend] = replace(
                self,
                tensors=tuple(
                    replace(
                        one,
                        on_gpu=padded(one.stored, backend.alignment),
                        on_host=padded(one.stored, backend.host_alignment),
                        row_padding=0,
                    )
                    for one in self.tensors
                ),
            )
        return self._on[backend]

    @cached_property
    def _on(self) -> dict[Backend, Header]:
        return {}

    @cached_property
    def rules(self) -> Architecture:
        """What is special about its architecture."""
        rules = architecture(self.architecture)
        if self.is_drafting and isinstance(rules.ahead, Mapping):
            return replace(rules, **rules.ahead)
        return rules

    @property
    def guesses_ahead(self) -> bool:
        """Whether it has blocks that guess tokens ahead (MTP), and llama.cpp runs them."""
        return self.loaded < self.blocks and isinstance(self.rules.ahead, Mapping)

    @cached_property
    def with_ahead(self) -> Header:
        """The same with the weights of the blocks that guess ahead."""
        return replace(self, tensors=(*self.tensors, *self.ahead), ahead=())

    @cached_property
    def with_fused(self) -> Header:
        """The same with those of them that some builds load where they are not used."""
        fused = tuple(one for one in self.ahead if one.name.endswith("ffn_gate_up_exps.weight"))
        return replace(self, tensors=(*self.tensors, *fused))

    @cached_property
    def unfiltered(self) -> Header:
        """The same where each context caches all blocks, whichever it runs."""
        every = tuple(i >= self.loaded or one for i, one in enumerate(self.cached))
        return replace(self, cached=every, caches_all=True)

    @cached_property
    def drafting(self) -> Header:
        """What the context that guesses ahead sees: the weights of all, the blocks behind."""
        behind = tuple(i >= self.loaded for i in range(self.blocks))
        nothing = (0,) * self.blocks
        return replace(
            self.with_ahead,
            first=self.loaded,
            loaded=self.loaded + 1,
            is_drafting=True,
            cached=self.cached if self.caches_all else behind,
            attention=behind,
            recurrent=(False,) * self.blocks,
            history=nothing,
            index_lengths=tuple(
                length if own else 0 for length, own in zip(self.index_lengths, behind, strict=True)
            ),
        )

    def scans_on_host(self, backend: Backend) -> bool:
        """Return whether devices of a library have no kernel for the scans of Mamba layers."""
        scanned = next((one for one in self.tensors if one.name.endswith(SCANNED)), None)
        if scanned is None or backend.scans is None:
            return False
        if f"blk.{scanned.layer}.ssm_d" not in self.weights_by_name:
            return False  # of a delta network
        state = scanned.extent[0]
        if state == 1:  # Mamba 2
            length = self.inner_size // max(self.ranks, 1)
            return self.state_size not in backend.scans.states or length % _STEP != 0
        return state != backend.scans.state or self.inner_size % _WIDTH_STEP != 0

    @cached_property
    def has_output(self) -> bool:
        """Whether the output has weights of its own; else those of the input are held twice."""
        return "output.weight" in self.weights_by_name or not self.rules.makes_words

    @property
    def reads_at_once(self) -> bool:
        """Whether attention knows the batch and no cache."""
        return self.rules.cache in ("none", "unread")

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
        """Sizes of compute buffers that were worked out before (`compute`)."""
        return {}

    @cached_property
    def built(self) -> dict[Hashable, tuple[list[int], Hashable]]:
        """For each placement the blocks whose graph is built, and their kinds (`compute`)."""
        return {}

    @cached_property
    def placed(self) -> dict[Hashable, Any]:
        """For each placement where weights lie (`allocation`)."""
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

    @cached_property
    def attention_shapes(self) -> frozenset[tuple[int, int, int]]:
        """Lengths of keys and values, and queries of a key, of the blocks with attention."""
        return frozenset(
            (*self.lengths_of(i), self.heads[i] // self.kv_heads[i])
            for i in range(self.first, self.loaded)
            if self.attention[i] and self.heads[i] and self.kv_heads[i]
        )

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
        return None if self.rules.rope_factors == "unused" else next(found, None)

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
            PlanError: It is not a regular expression.
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
            raise PlanError(f"{quoted(pattern)!r} is not a regular expression: {error}") from error
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
        "scales": frozenset(name for name in _SCALES if keys.number(name)),
        "experts_used": keys.integer("expert_used_count", most=MAX_EXPERTS),
        "expert_groups": keys.integer("expert_group_count"),
        "expert_groups_used": keys.integer("expert_group_used_count"),
        "expert_gating": keys.integer("expert_gating_func"),
        "experts_normed": keys.truth("expert_weights_norm"),
        "experts_scaled": keys.number("expert_weights_scale") not in (0.0, 1.0),
        "trained_context": keys.integer("context_length"),
    }


class _Blocks:
    """What each block keeps of a text: keys and values of all positions or a window, or a state.

    Attributes:
        rules: What is special about the architecture.
        loaded: Blocks but those at the end that only guess tokens ahead.
        window: Positions that a block with a window sees.
        windowed: For each block whether it has a window.
        attention: Whether it has attention.
        recurrent: Whether it has a state.
    """

    def __init__(self, keys: HeaderKeys, heads: tuple[int, ...], kv_heads: tuple[int, ...]) -> None:
        self._keys, self._heads, self._kv_heads = keys, heads, kv_heads
        self.rules = architecture(keys.architecture)
        self._count = len(heads)
        self.loaded = self._count - min(keys.integer("nextn_predict_layers"), self._count)
        self.attention, self.recurrent = self._kinds()
        self.window = self._window()
        self.windowed = tuple(self.window > 0 and one for one in self._windows())

    def _kinds(self) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
        keys, count = self._keys, self._count
        everywhere, nowhere = (True,) * count, (False,) * count
        without_keys = [not one for one in self._kv_heads]
        match self.rules.recurrent:
            case "none":
                return everywhere, nowhere
            case "all":
                return nowhere, everywhere
            case "beside attention":
                return everywhere, everywhere
            case "no keys, no network":
                networks = keys.per_block("feed_forward_length", count, 0)
                both = [*zip(networks, without_keys, strict=True)]
                return (
                    tuple(not network and not keyless for network, keyless in both),
                    tuple(not network and keyless for network, keyless in both),
                )
            case "no keys":
                found: Sequence[bool] = without_keys
            case group:
                found = keys.flags("attention.recurrent_layers", count)
                if not found:
                    interval = keys.integer("full_attention_interval") or group
                    found = [(i + 1) % interval != 0 for i in range(count)]
        recurrent = tuple(one and i < self.loaded for i, one in enumerate(found))
        return tuple(not one for one in recurrent), recurrent

    def _window(self) -> int:
        rules = self.rules
        if rules.windows == "none" or rules.windowed_models not in (0, self.loaded):
            return 0
        window = self._keys.integer("attention.sliding_window", default=rules.window)
        return rules.fixed_window if window and rules.fixed_window else window

    def _windows(self) -> tuple[bool, ...]:
        keys, count, key = self._keys, self._count, "attention.sliding_window_pattern"
        if self.rules.windows == "attention":
            return self.attention
        found = keys.flags(key, count)
        if found:
            return found
        match self.rules.windows:
            case "all":
                return (True,) * count
            case int(size):
                size = keys.integer(key, default=size)
                full = 0 if self.rules.full_first else size - 1
                return tuple(
                    i < self.loaded and (size == 0 or i % size != full) for i in range(count)
                )
        return (False,) * count

    def cached(self) -> tuple[bool, ...]:
        """Return for each block whether it keeps keys and values of its own."""
        match self.rules.cache:
            case "none":
                last = 0
            case "ahead":
                last = self._count
            case "shared":
                shared = self._keys.integer("attention.shared_kv_layers")
                last = min(self.loaded, self._count - shared)
            case int(first):
                last = min(self.loaded, first)
            case _:
                last = self.loaded
        return tuple(i < last and one for i, one in enumerate(self.attention))

    def is_latent(self) -> bool:
        """Return whether keys hold the values (multi-head latent attention)."""
        found = all(self._keys.integer(f"attention.{one}_length_mla") for one in ("key", "value"))
        return found and self.rules.latent

    def index_lengths(self) -> tuple[int, ...]:
        """Return for each block the length of its key by which others are chosen."""
        keys, count, whose = self._keys, self._count, self.rules.indexers
        length = keys.integer("attention.indexer.key_length")
        if whose == "not dense":
            dense = keys.integer("leading_dense_block_count")
            return tuple(length if i >= dense else 0 for i in range(count))
        if whose == "none" or not keys.integer("attention.indexer.top_k"):
            return (0,) * count
        found = keys.flags("attention.indexer.types", count)
        if whose == "all" or (whose == "file or all" and not found):
            found = (True,) * count
        elif whose == "file or some" and not found:
            shared = keys.integer("context_length") >= _SHARED_INDEXERS
            found = tuple(not shared or i < 2 or i % 4 == 2 for i in range(count))
        if keys.integer("attention.indexer.kpool") > 1:
            length *= self.rules.pooled_parts
        both = zip(found or (False,) * count, self.attention, strict=True)
        return tuple(length if all(one) and i < self.loaded else 0 for i, one in enumerate(both))

    def lengths(self, embedding: int) -> tuple[int, int]:
        """Return the lengths of a head's key and of its value."""
        keys, first = self._keys, self._heads[0] if self._heads else 0
        length = embedding // first if first else 0
        if not first and not self.rules.lengths_without_heads:
            return 0, 0
        return (
            keys.integer("attention.key_length", default=length),
            keys.integer("attention.value_length", default=length),
        )

    def state_sizes(self, embedding: int) -> tuple[int, int]:
        """Return the elements of a block's convolution and of its state, of one sequence."""
        keys, first = self._keys, self._heads[0] if self._heads else 0
        if self.rules.state == "rwkv":
            shifts = keys.integer("token_shift_count", default=2)
            return shifts * embedding, embedding * keys.integer("wkv.head_size")
        kernel = keys.integer("shortconv.l_cache")
        if kernel:
            return embedding * (kernel - 1), 0
        length = keys.integer("kda.head_dim")
        if length and self.rules.latent:
            kernel = keys.integer("ssm.conv_kernel") or 4
            return 3 * (kernel - 1) * first * length, first * length**2
        if self.rules.state == "squares":
            return 0, first * self.lengths(embedding)[0] ** 2
        inner, state = keys.integer("ssm.inner_size"), keys.integer("ssm.state_size")
        width = inner + 2 * keys.integer("ssm.group_count") * state
        return max(0, keys.integer("ssm.conv_kernel") - 1) * width, state * inner

    def compression(self) -> tuple[int, ...]:
        """Return how many positions each block keeps as one beside its window; 0: none."""
        if not self.rules.compressed:
            return ()
        return self._keys.per_block("attention.compress_ratios", self._count, 0)

    def history(self, embedding: int) -> tuple[int, ...]:
        """Return the elements that each block remembers of the words before."""
        keys, size = self._keys, embedding
        for name, less in (("ple.conv_kernel", 1), ("ple.ngram_size", 0)):
            size *= max(0, keys.integer(name) - less)
        size *= keys.integer("hyper_connection.count")
        blocks = keys.list("ple.layers") if self.rules.word_history else ()
        return tuple(size if i in blocks else 0 for i in range(self._count))

    def has_sections(self) -> bool:
        """Return whether positions have four numbers, of time, height and width (M-RoPE)."""
        if self.rules.positions != "by sections":
            return self.rules.positions == "four"
        sections = self._keys.list("rope.dimension_sections")[:2]
        return len(sections) > 1 and all(sections)


def _weights(
    model: Model, blocks: int, rules: Architecture, others: Mapping[int, TensorType]
) -> Iterator[Weights]:
    columns, rows = model.tensors.columns, model.tensors.main_rows
    types = (others.get(row, kind) for row, kind in enumerate(columns.types[:rows]))
    known: dict[Hashable, tuple[Any, ...]] = {}  # blocks are alike
    for name, kind, shape in zip(columns.names[:rows], types, columns.shapes[:rows], strict=True):
        layer, of_experts = _layer_of(name, blocks, rules), "exps" in name
        is_table = name.endswith(_TABLE)
        key = kind.name, shape, of_experts, is_table
        if key not in known:
            stored = kind.nbytes_of(shape)
            if stored is None:
                raise PlanError(f"the size of tensor {quoted(name)} is not known")
            padding = row_padding(kind, shape[-1] if shape else 1)
            known[key] = (
                padded(stored + padding, GPU_ALIGNMENT),
                padded(stored, HOST_ALIGNMENT),
                not is_table and _is_repacked(kind, shape, of_experts=of_experts),
                _extent(shape),
                stored,
                padding,
                kind.name,
            )
        yield Weights(name, layer, *known[key])


def _extent(shape: Shape) -> Extent:
    a, b, c, d = (*reversed(shape), 1, 1, 1, 1)[:4]
    return a, b, c, d


def _layer_of(name: str, blocks: int, rules: Architecture) -> int:
    """Return the layer whose device holds a tensor; -1 for the input, `blocks` for the output."""
    match = _BLOCK.match(name)
    if match is not None:
        return min(int(match[1]), blocks)
    if name.startswith("token_embd_norm") and rules.token_norm_last:
        return blocks
    if name.startswith(_FIRST_BLOCK):
        return 0
    return -1 if name.startswith(_INPUT) else blocks


def _is_repacked(kind: TensorType, shape: Shape, *, of_experts: bool) -> bool:
    """Return whether a matrix is kept in another order where no GPU is (ggml-cpu, repack.cpp)."""
    is_matrix = len(shape) > 1 and (math.prod(shape[:-2]) == 1 or of_experts)
    return kind is _REPACKED and is_matrix and shape[-2] % 8 == 0
