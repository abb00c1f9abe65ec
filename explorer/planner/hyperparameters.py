"""What the formulas read of a model: numbers of its header, and where each of them came from.

planner.md section 2. The symbols of the formulas (L, E, H, …) are the property names' short forms;
`origins` tells for each of them the metadata key, or the rule that stood in for an absent one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.planner.checks import MAX_BLOCKS, MAX_COUNT, MAX_MEMORY, whole, whole_or_none
from explorer.planner.tensor_groups import TensorGroups, group_list, group_table


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
            from explorer.planner.gguf_keys import read_metadata  # noqa: PLC0415 - it imports us

            file_bytes = sum(file.source.size for file in model.files)
            tensors = group_table(model.tensors)
            return read_metadata(model.metadata, tensors, file_bytes, str(model.path))
        from explorer.planner.config_keys import read_config  # noqa: PLC0415 - it imports us

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
        from explorer.planner.gguf_keys import plain_metadata, read_metadata  # noqa: PLC0415

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
