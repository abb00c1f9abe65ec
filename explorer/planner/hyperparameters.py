"""What the formulas read of a model: numbers of its header, and where each of them came from.

planner.md section 2. The symbols of the formulas (L, E, H, …) are the property names' short forms;
`origins` tells for each of them the metadata key, or the rule that stood in for an absent one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.formats.tensors import TensorTable
from explorer.planner.devices import MAX_BLOCKS, MAX_COUNT, MAX_MEMORY, quoted, whole, whole_or_none
from explorer.quantization import GGML_TYPES, TENSOR_TYPES, TensorType

# Sizes of a model's tensors, summed over the groups in which Ollama places them.
#
# planner.md section 2, "Tensors and groups"; Ollama's `Tensors.GroupLayers` and `Tensor.Size` in
# fs/ggml/ggml.go. A block goes to a device as a whole, so its tensors are one figure.


_JOINED: Final = frozenset({"blk", "mm"})
_OLD_SLOT: Final = 4  # Ollama reads this type id as MXFP4
_UPSTREAM: Final = frozenset((
    "F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
    "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "IQ1_M", "MXFP4",
))  # fmt: skip
_NO_OTHERS: Final[Mapping[int, TensorType]] = MappingProxyType({})

STACKED_EXPERTS: Final = ("blk.0", "ffn_gate_exps.weight")
SPLIT_EXPERT: Final = ("blk.0", "ffn_gate.0.weight")
FUSED_BIAS: Final = ("blk.0", "attn_qkv.bias")
ROPE_WEIGHTS: Final = ("rope_freqs", "weights")  # as the source spells it; files say "weight"


@dataclass(frozen=True, slots=True)
class TensorGroups:
    """What the formulas read of a model's tensors.

    Attributes:
        nbytes: Bytes of each group.
        gate_experts_bytes: Bytes of block 0's stacked gate experts (G), or None without them.
        expert_width: Width of block 0's first split gate expert (W), or None without it.
        fused_bias_length: Length of block 0's fused attention bias (S), or None without it.
        rope_weights: Elements of the tensor ``rope_freqs.weights`` (R); 0 without it.
        warnings: What is not as Ollama would count it.
    """

    nbytes: Mapping[str, int] = field(default_factory=dict)
    gate_experts_bytes: int | None = None
    expert_width: int | None = None
    fused_bias_length: int | None = None
    rope_weights: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def total_bytes(self) -> int:
        """Bytes of all groups."""
        return sum(self.nbytes.values())


def split_group(name: str) -> tuple[str, str]:
    """Return the group of a tensor and the rest of its name.

    ``blk.7.attn_q.weight`` is ``attn_q.weight`` of ``blk.7``; ``output.weight`` is ``weight`` of
    ``output``.
    """
    parts = name.split(".")
    for place, part in enumerate(parts):
        if part in _JOINED:
            if len(parts) > place + 2:
                return ".".join(parts[: place + 2]), ".".join(parts[place + 2 :])
            break
    return parts[0], ".".join(parts[1:])


def group_table(table: TensorTable, others: Mapping[int, TensorType] = _NO_OTHERS) -> TensorGroups:
    """Group the tensors of an opened model, from its header alone.

    Args:
        table: The tensors.
        others: Types that some of them are to have instead of their own, by row.
    """
    columns, rows = table.columns, table.main_rows
    types = columns.types[:rows]
    if others:
        types = [others.get(row, kind) for row, kind in enumerate(types)]
    return _group(
        columns.names[:rows],
        types,
        columns.parameters[:rows],
        lambda row: columns.shapes[row][::-1],
    )


def group_list(tensors: Iterable[tuple[str, str, Sequence[int]]]) -> TensorGroups:
    """Group tensors that are given as (name, name of the type, dimensions in GGUF's order).

    Raises:
        KeyError: No such type.
    """
    rows = list(tensors)
    counts = []
    for _name, _kind, shape in rows:
        count = 1
        for extent in shape:
            count *= extent
        counts.append(count)
    types = [TENSOR_TYPES[kind] for _, kind, _ in rows]
    return _group([row[0] for row in rows], types, counts, lambda row: tuple(rows[row][2]))


def _group(
    names: Sequence[str],
    types: Sequence[TensorType],
    counts: Sequence[int],
    dims: Callable[[int], tuple[int, ...]],
) -> TensorGroups:
    """Sum the tensors up; of two with one name the last counts, as in Ollama's map."""
    rows = {split_group(name): row for row, name in enumerate(names)}
    nbytes: dict[str, int] = {}
    for (group, _), row in rows.items():
        size = _tensor_bytes(types[row], counts[row])
        nbytes[group] = nbytes.get(group, 0) + size
    stacked, split = rows.get(STACKED_EXPERTS), rows.get(SPLIT_EXPERT)
    bias, rope = rows.get(FUSED_BIAS), rows.get(ROPE_WEIGHTS)
    return TensorGroups(
        nbytes=MappingProxyType(nbytes),
        gate_experts_bytes=None
        if stacked is None
        else _tensor_bytes(types[stacked], counts[stacked]),
        expert_width=None if split is None else _extent(dims(split), 1),
        fused_bias_length=None if bias is None else _extent(dims(bias), 0),
        rope_weights=0 if rope is None else counts[rope],
        warnings=tuple(_type_warnings(types)),
    )


def _extent(dims: tuple[int, ...], axis: int) -> int:
    """Return one dimension; those that are not stored are 1, as in ggml."""
    return dims[axis] if axis < len(dims) else 1


def _tensor_bytes(kind: TensorType, count: int) -> int:
    """Return the size as Ollama works it out, over the whole tensor and rounded down."""
    kind = TENSOR_TYPES["MXFP4"] if kind is GGML_TYPES[_OLD_SLOT] else kind
    return count * kind.block_bytes // kind.block_weights if kind.known else 0


def _type_warnings(types: Sequence[TensorType]) -> Iterable[str]:
    for name, kind in sorted({kind.name: kind for kind in types}.items()):
        if kind is GGML_TYPES[_OLD_SLOT]:
            yield "tensor type 4 is counted as MXFP4, as Ollama reads it"
        elif not kind.known:
            yield f"tensor type {quoted(name)} has no known size and is counted as 0 bytes"
        elif kind.id is not None and name not in _UPSTREAM:
            yield (
                f"Ollama's estimator counts tensors of type {quoted(name)} as 0 bytes; "
                "here they have their true size"
            )


@dataclass(frozen=True)
class Hyperparameters:
    """Everything about a model that a plan depends on.

    Lists of head counts are kept as stored: one entry holds for all blocks, in a longer list blocks
    past its end have 1 head, and entries beyond the blocks count in the extremes only.

    Attributes:
        architecture: ``general.architecture``; ``"unknown"`` if absent.
        block_count: L.
        embedding_length: E.
        head_counts: Attention heads as stored.
        kv_head_counts: Key and value heads as stored.
        stored_key_length: Length of a head's key, or None where the file does not say.
        stored_value_length: Length of a head's value, or None where the file does not say.
        vocabulary: V, the number of tokens.
        feed_forward_length: FF.
        sliding_window: Tokens that a sliding block sees; 0 for none.
        trained_context: Longest context that it was trained for; 0 for no limit.
        cross_attention_layers: Blocks with cross attention (mllama).
        ssm_conv_kernel: conv of the recurrent formula.
        ssm_state_size: state of the recurrent formula.
        ssm_inner_size: inner of the recurrent formula.
        ssm_group_count: groups of the recurrent formula.
        embedding_model: Whether it makes embeddings and no text (the key ``pooling_type``).
        vision: Whether it sees images.
        tensors: Sizes of its tensors by group.
        file_bytes: Bytes of its files; of parts without a file, the bytes of the tensors.
        name: What to call it.
        after_conversion: Whether the figures are those it would have after conversion to GGUF.
        origins: Symbol → where its value came from.
        warnings: What is odd about the header.
        own_context: The context among the model's own parameters, or None.

    Raises:
        PlanError: A number is no integer, negative, or absurdly large.
    """

    architecture: str = "unknown"
    block_count: int = 0
    embedding_length: int = 0
    head_counts: tuple[int, ...] = (1,)
    kv_head_counts: tuple[int, ...] = (1,)
    stored_key_length: int | None = None
    stored_value_length: int | None = None
    vocabulary: int = 0
    feed_forward_length: int = 0
    sliding_window: int = 0
    trained_context: int = 0
    cross_attention_layers: frozenset[int] = frozenset()
    ssm_conv_kernel: int = 0
    ssm_state_size: int = 0
    ssm_inner_size: int = 0
    ssm_group_count: int = 0
    embedding_model: bool = False
    vision: bool = False
    tensors: TensorGroups = field(default_factory=TensorGroups)
    file_bytes: int = 0
    name: str = ""
    after_conversion: bool = False
    origins: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    own_context: int | None = None

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            if part.name in ("head_counts", "kv_head_counts"):
                if not 0 < len(value) <= MAX_BLOCKS:
                    raise PlanError(
                        f"{part.name} has {len(value):,} entries, not 1 to {MAX_BLOCKS}"
                    )
                for count in value:
                    whole(count, part.name)
            elif part.type == "int":
                most = MAX_MEMORY if part.name == "file_bytes" else MAX_COUNT
                whole(value, part.name, MAX_BLOCKS if part.name == "block_count" else most)
            elif part.type == "int | None":
                whole_or_none(value, part.name)

    @classmethod
    def from_model(cls, model: Model) -> Hyperparameters:
        """Read an opened model's header.

        Of a GGUF file that is its metadata; of safetensors its config.json, and the result says
        that it is what the model would need after conversion.

        Raises:
            PlanError: A value is of the wrong type, negative, or absurdly large.
            ExplorerError: The file changed since it was opened.
        """
        if model.format == "gguf":
            from explorer.planner.header_keys import (  # noqa: PLC0415 - it imports us
                read_metadata,
            )

            file_bytes = sum(file.source.size for file in model.files)
            tensors = group_table(model.tensors)
            return read_metadata(model.metadata, tensors, file_bytes, str(model.path))
        from explorer.planner.header_keys import read_config  # noqa: PLC0415 - it imports us

        return read_config(model)

    @classmethod
    def from_parts(
        cls,
        metadata: Mapping[str, Any],
        tensors: Iterable[tuple[str, str, Sequence[int]]],
        name: str = "",
    ) -> Hyperparameters:
        """Read a model that is described in plain Python values.

        Args:
            metadata: GGUF keys → values; of ``tokenizer.ggml.tokens`` only the length is asked.
            tensors: (name, name of the type, dimensions in GGUF's order, fastest first).
            name: What to call it.

        Raises:
            PlanError: A value is of the wrong type, negative, or absurdly large.
        """
        from explorer.planner.header_keys import plain_metadata, read_metadata  # noqa: PLC0415

        groups = group_list(tensors)
        return read_metadata(plain_metadata(metadata), groups, groups.total_bytes, name)

    @cached_property
    def heads(self) -> int:
        """H, the largest number of heads of a block."""
        return max(self.head_counts)

    @cached_property
    def heads_min(self) -> int:
        """Hmin, the smallest number of heads of a block."""
        return min(self.head_counts)

    @cached_property
    def kv_heads(self) -> int:
        """K, the largest number of key and value heads of a block."""
        return max(self.kv_head_counts)

    @cached_property
    def kv_heads_min(self) -> int:
        """Kmin, the smallest number of key and value heads of a block."""
        return min(self.kv_head_counts)

    @cached_property
    def head_length(self) -> int:
        """D = E // Hmin, or 0 when Hmin is 0."""
        return self.embedding_length // self.heads_min if self.heads_min else 0

    @cached_property
    def key_length(self) -> int:
        """Dk, which is D where the file does not say."""
        return self.head_length if self.stored_key_length is None else self.stored_key_length

    @cached_property
    def value_length(self) -> int:
        """Dv, which is D where the file does not say."""
        return self.head_length if self.stored_value_length is None else self.stored_value_length

    @cached_property
    def heads_per_block(self) -> tuple[int, ...]:
        """H[i] for each of the L blocks."""
        return _per_block(self.head_counts, self.block_count)

    @cached_property
    def kv_heads_per_block(self) -> tuple[int, ...]:
        """K[i] for each of the L blocks."""
        return _per_block(self.kv_head_counts, self.block_count)

    @cached_property
    def layer_weights(self) -> tuple[int, ...]:
        """Bytes of the T = L + 1 layers' weights, the output layer last."""
        nbytes = self.tensors.nbytes
        blocks = [nbytes.get(f"blk.{i}", 0) for i in range(self.block_count)]
        embedding = nbytes.get("token_embd", 0)  # tied: it is the output too
        output = nbytes.get("output_norm", 0) + nbytes.get("output", embedding)
        return (*blocks, output)

    @property
    def total_layers(self) -> int:
        """T = L + 1."""
        return self.block_count + 1

    @property
    def weights(self) -> int:
        """Bytes of all layers' weights. The input embedding of an untied model is not in it."""
        return sum(self.layer_weights)


def _per_block(stored: tuple[int, ...], count: int) -> tuple[int, ...]:
    if len(stored) == 1:
        return stored * count
    return stored[:count] + (1,) * (count - len(stored))
