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
from explorer.planner.hyperparameters import HeaderKeys
from explorer.planner.llama_cpp.graph import Extent
from explorer.quantization import TENSOR_TYPES, TensorType

GPU_ALIGNMENT: Final = 128
MAX_EXPERTS: Final = 1024
"""Most experts of a block (`LLAMA_MAX_EXPERTS`)."""

_SCALES: Final = ("embedding_scale", "residual_scale", "logit_scale")
_HOST_ALIGNMENT: Final = 32
_MOST_PATTERNS: Final = 1024
_ROW_WEIGHTS: Final = 512  # rows of quantized weights on a GPU are padded to a multiple
_BLOCK: Final = re.compile(r"blk\.(\d{1,4})\.")
_NO_OTHERS: Final[Mapping[int, TensorType]] = MappingProxyType({})
_ANY_BLOCK: Final = re.compile(r"(?=blk\.(\d+)\.)")
_ONE_BLOCK: Final = re.compile(r"blk\\\.(\d+)\\\.(?:[a-z_.*]|\([a-z_|]*\))*\Z")
"""A pattern that finds names of one block only: no alternative to its beginning."""

_INPUT: Final = ("token_embd", "token_types", "position_embd")
_REPACKED: Final = TENSOR_TYPES["Q4_K"]  # which a CPU with AVX2 keeps in another order

_WINDOW_PATTERNS: Final = {
    **{"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2},
    **{"llama4": 4, "cohere2": 4, "exaone4": 4, "olmo2": 4},
}
"""Architecture → blocks in a group, the last of which sees everything. Others have no window."""


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
        most_heads = max(heads, default=0)
        head_length = embedding // most_heads if most_heads else 0
        kv_heads = keys.per_block("attention.head_count_kv", blocks, most_heads)
        window = keys.integer("attention.sliding_window") or keys.integer("attention.chunk_size")
        pattern = _WINDOW_PATTERNS.get(keys.architecture, 0) if window else 0
        attention, recurrent = _kinds_of_blocks(keys, kv_heads)
        conv, state = _state_sizes(keys, embedding)
        return cls(
            architecture=keys.architecture,
            blocks=blocks,
            embedding=embedding,
            key_length=keys.integer("attention.key_length", default=head_length),
            value_length=keys.integer("attention.value_length", default=head_length),
            heads=heads,
            kv_heads=kv_heads,
            mla=keys.integer("attention.key_length_mla") > 0,
            window=window,
            windowed=tuple(bool(pattern and (i + 1) % pattern) for i in range(blocks)),
            attention=attention,
            recurrent=recurrent,
            conv_state=conv,
            ssm_state=state,
            inner_size=keys.integer("ssm.inner_size"),
            state_size=keys.integer("ssm.state_size"),
            groups=keys.integer("ssm.group_count"),
            ranks=keys.integer("ssm.time_step_rank"),
            rope_size=keys.integer("rope.dimension_count", default=head_length),
            parallel_residual=keys.truth("use_parallel_residual"),
            rotated=keys.truth("rope.scaling.finetuned", default=True),
            scales=frozenset(name for name in _SCALES if keys.number(name)),
            experts_used=keys.integer("expert_used_count", most=MAX_EXPERTS),
            expert_groups=keys.integer("expert_group_count"),
            expert_groups_used=keys.integer("expert_group_used_count"),
            expert_gating=keys.integer("expert_gating_func"),
            experts_normed=keys.truth("expert_weights_norm"),
            experts_scaled=keys.number("expert_weights_scale") not in (0.0, 1.0),
            trained_context=keys.integer("context_length"),
            tensors=tuple(_weights(model, blocks, keys.architecture, others)),
        )

    @cached_property
    def has_output(self) -> bool:
        """Whether the output has weights of its own; else those of the input are held twice."""
        return "output.weight" in self.weights_by_name

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
        kinds = zip(self.recurrent, self.attention, self.windowed, self.kv_heads, strict=True)
        return [known.setdefault(kind, block) for block, kind in enumerate(kinds)]

    @cached_property
    def kinds(self) -> list[int]:
        """A number for each block, the same for blocks that hold the same."""
        known: dict[Hashable, int] = {}
        return [
            known.setdefault(
                (
                    *(self.windowed[i], self.recurrent[i], self.heads[i], self.kv_heads[i]),
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

    @cached_property
    def rope_factors(self) -> str | None:
        """The name of the factors that rotations are multiplied with, if there are any."""
        names = ("rope_freqs.weight", "rope_factors_long.weight")
        return next((name for name in names if name in self.weights_by_name), None)

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


def _kinds_of_blocks(
    keys: HeaderKeys, kv_heads: tuple[int, ...]
) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Return which blocks have attention, and which a recurrent state."""
    count = len(kv_heads)
    match keys.architecture:
        case "mamba" | "mamba2":
            attention = [False] * count
        case "jamba" | "lfm2" | "lfm2moe" | "granitehybrid":
            attention = [heads > 0 for heads in kv_heads]
        case "qwen3next":
            interval = keys.integer("full_attention_interval", default=4) or 4
            attention = [(i + 1) % interval == 0 for i in range(count)]
        case "falcon-h1":
            return (True,) * count, (True,) * count
        case _:
            return (True,) * count, (False,) * count
    return tuple(attention), tuple(not one for one in attention)


def _state_sizes(keys: HeaderKeys, embedding: int) -> tuple[int, int]:
    """Return the elements of a recurrent block's convolution and of its state, of one sequence."""
    kernel = keys.integer("shortconv.l_cache")
    if kernel:
        return embedding * (kernel - 1), 0
    inner, state = keys.integer("ssm.inner_size"), keys.integer("ssm.state_size")
    width = inner + 2 * keys.integer("ssm.group_count") * state
    return max(0, keys.integer("ssm.conv_kernel") - 1) * width, state * inner


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
                padded(stored, _HOST_ALIGNMENT),
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
