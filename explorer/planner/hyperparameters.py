"""What the formulas read of a model: numbers of its header, and where each of them came from.

docs/planner.md, section 2. The symbols of the formulas (L, E, H, …) are short for the properties;
`origins` holds for each of them the metadata key, or the rule that stood in for an absent one.

Ollama reads a scalar only if it is stored as uint32, and a list as uint32 or int32; any integer
type is accepted here. A list where a scalar belongs counts as absent, as it does there. Text, a
Boolean or a float where an integer belongs is an error: such a file is damaged. (`formats.facts`
reads the same keys to show them; it never fails and keeps ranges, which no formula can use.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from explorer.errors import PlanError
from explorer.formats.attachments import is_adapter
from explorer.formats.model import Metadata, Model
from explorer.planner.devices import MAX_BLOCKS, MAX_COUNT, MAX_MEMORY, whole, whole_or_none
from explorer.planner.engines.llama_cpp.header import Header
from explorer.planner.engines.llama_cpp.refusals import NO_MODELS, headers_of
from explorer.planner.folder import Folder
from explorer.planner.header_keys import HeaderKeys
from explorer.planner.tensor_groups import TensorGroups, group_table


@dataclass(frozen=True)
class Hyperparameters:
    """Everything about a model that a plan depends on.

    Lists of head counts are kept as stored: one entry holds for all blocks, in a longer list blocks
    past its end have 1 head, and entries beyond the blocks count in the extremes only.

    Raises:
        PlanError: A number is not an integer, negative, or absurdly large.
    """

    architecture: str = "unknown"  # general.architecture
    block_count: int = 0  # L
    embedding_length: int = 0  # E
    head_counts: tuple[int, ...] = (1,)  # attention heads as stored
    kv_head_counts: tuple[int, ...] = (1,)  # key and value heads as stored
    stored_key_length: int | None = None  # of a head's key; None where the file does not say
    stored_value_length: int | None = None  # of a head's value; None where the file does not say
    vocabulary: int = 0  # V, the number of tokens
    feed_forward_length: int = 0  # FF
    sliding_window: int = 0  # tokens that a sliding block sees; 0 for none
    trained_context: int = 0  # longest context that it was trained for; 0 for no limit
    cross_attention_layers: frozenset[int] = frozenset()  # blocks with cross attention (mllama)
    ssm_conv_kernel: int = 0  # conv of the recurrent formula
    ssm_state_size: int = 0  # state of it
    ssm_inner_size: int = 0  # inner of it
    ssm_group_count: int = 0  # groups of it
    embedding_model: bool = False  # whether it makes embeddings and no text (key pooling_type)
    vision: bool = False  # whether it sees images
    tensors: TensorGroups = field(default_factory=TensorGroups)  # sizes of its tensors by group
    file_bytes: int = 0  # bytes of its files; of parts without a file, of the tensors
    name: str = ""
    origins: Mapping[str, str] = field(default_factory=dict)  # symbol → where its value came from
    warnings: tuple[str, ...] = ()  # what is odd about the header
    damage: str = ""  # what is lost or wrong in its files, so that they cannot be loaded
    own_context: int | None = None  # the context among the model's own parameters
    in_ollama_store: bool = False  # whether it was opened where Ollama keeps its models
    # what llama.cpp's rules read of it, or why they cannot
    llama_cpp: Header | str = field(default="llama.cpp reads files only", compare=False)
    # the same of ik_llama.cpp, which has types of its own
    ik_llama_cpp: Header | str = field(default="ik_llama.cpp reads files only", compare=False)
    layer_bytes: int = 0  # bytes of the tensor layers of an Ollama manifest
    # the same as `folder`, of tensor layers of Ollama's store; None of another model
    blobs: Folder | None = field(default=None, compare=False)
    # a folder of safetensors with a config.json as it is; None of another model
    folder: Folder | None = field(default=None, compare=False)

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
                most = MAX_MEMORY if part.name.endswith("_bytes") else MAX_COUNT
                whole(value, part.name, MAX_BLOCKS if part.name == "block_count" else most)
            elif part.type == "int | None":
                whole_or_none(value, part.name)

    @classmethod
    def from_model(cls, model: Model) -> Hyperparameters:
        """Read an opened model's header.

        Of a GGUF file that is its metadata; of safetensors its config.json.

        Raises:
            PlanError: A value has the wrong type, is negative or absurdly large; it is not a model.
            ExplorerError: The file changed since it was opened.
        """
        kind = model.metadata.text("general.type")
        if kind in NO_MODELS:
            raise PlanError(
                f"it is {NO_MODELS[kind]}, not a whole model. Plan the model that it belongs to"
            )
        folder = blobs = None
        if model.format == "gguf":
            file_bytes = sum(file.source.size for file in model.files)
            tensors = group_table(model.tensors)
            h = read_metadata(model.metadata, tensors, file_bytes, str(model.path))
        else:
            read = _folder(model)
            h = read_config(model, read)
            folder, blobs = (read, None) if model.format == "safetensors" else (None, read)
        llama_cpp, ik_llama_cpp = headers_of(model)
        return replace(
            h,
            in_ollama_store=_is_in_ollama_store(model),
            llama_cpp=llama_cpp,
            ik_llama_cpp=ik_llama_cpp,
            folder=folder,
            blobs=blobs,
            layer_bytes=model.layer_bytes,
        )

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
    def is_safetensors(self) -> bool:
        """Whether its weights are safetensors, of a folder or of Ollama's store."""
        return self.folder is not None or self.blobs is not None

    @property
    def total_layers(self) -> int:
        """T = L + 1."""
        return self.block_count + 1

    @property
    def weights(self) -> int:
        """Bytes of all layers' weights. The input embedding of an untied model is not in it."""
        return sum(self.layer_weights)


def _is_in_ollama_store(model: Model) -> bool:
    """Return whether a manifest was opened, or a blob of the store."""
    is_blob = model.path.parent.name == "blobs" and model.path.name.startswith("sha256-")
    return is_blob or "ollama.name" in model.metadata


def _per_block(stored: tuple[int, ...], count: int) -> tuple[int, ...]:
    if len(stored) == 1:
        return stored * count
    return stored[:count] + (1,) * (count - len(stored))


# A GGUF file, from its metadata


def read_metadata(
    metadata: Metadata, tensors: TensorGroups, file_bytes: int, name: str = ""
) -> Hyperparameters:
    """Return what the metadata of a GGUF model says; its tokens stay undecoded.

    Raises:
        PlanError: A value is of the wrong type, negative, or absurdly large.
    """
    keys = HeaderKeys(metadata)
    return Hyperparameters(
        architecture=keys.architecture,
        block_count=keys.integer("block_count", "L", most=MAX_BLOCKS),
        embedding_length=keys.integer("embedding_length", "E"),
        head_counts=keys.integers("attention.head_count", "heads"),
        kv_head_counts=keys.integers("attention.head_count_kv", "kv heads"),
        stored_key_length=keys.optional("attention.key_length", "Dk"),
        stored_value_length=keys.optional("attention.value_length", "Dv"),
        vocabulary=keys.vocabulary(),
        feed_forward_length=keys.integer("feed_forward_length", "FF"),
        sliding_window=keys.integer("attention.sliding_window", "window"),
        trained_context=keys.integer("context_length", "trained context"),
        cross_attention_layers=frozenset(keys.list("attention.cross_attention_layers", "cross")),
        ssm_conv_kernel=keys.integer("ssm.conv_kernel", "conv"),
        ssm_state_size=keys.integer("ssm.state_size", "state"),
        ssm_inner_size=keys.integer("ssm.inner_size", "inner"),
        ssm_group_count=keys.integer("ssm.group_count", "groups"),
        embedding_model=keys.has("pooling_type"),
        vision=keys.has("vision.block_count"),
        tensors=tensors,
        file_bytes=file_bytes,
        name=name,
        origins=keys.origins,
        warnings=(*keys.warnings, *tensors.warnings),
        own_context=_own_context(metadata),
    )


def _own_context(metadata: Metadata) -> int | None:
    """Return the context among the parameters that Ollama's store keeps for a model, or None."""
    value = metadata.integer("ollama.params.num_ctx")
    return value if value is not None and 0 < value <= MAX_COUNT else None


# A model that is no GGUF file, from its config.json: what its programs work out of it is in
# `explorer.planner.folder`.


def _folder(model: Model) -> Folder:
    """Return a model's headers; raise `PlanError` if there is no config.json among them."""
    if not model.config:
        if is_adapter(model):
            raise PlanError("it is an adapter: a plan needs the model that it changes")
        raise PlanError(
            "there is no config.json, so its sizes cannot be worked out. A text encoder of an "
            "image program has none; of a language model open the folder, or the repository "
            "of the hub, that holds both"
        )
    return Folder(model.config, *(model.stored or ((), ())))


def read_config(model: Model, folder: Folder) -> Hyperparameters:
    """Return what a model's config.json says; of several keys for a number the usual one is first.

    Raises:
        PlanError: A value is of the wrong type or absurd.
    """
    kind, _ = _found(folder, "model_type")
    if not isinstance(kind, str) or not kind or len(kind) > 100:
        raise PlanError("config.json names no model_type. The file is damaged")
    blocks = _number(folder, "num_hidden_layers", "n_layer", "num_layers", most=MAX_BLOCKS)
    heads = _counts(folder, "num_attention_heads", "n_head") or (1,)
    of_keys = ("num_key_value_heads", "multi_query_group_num", "num_kv_heads", "n_head_kv")
    key_length, value_length = _lengths(folder)
    return Hyperparameters(
        architecture=kind,
        block_count=blocks,
        embedding_length=_number(folder, "hidden_size", "n_embd", "d_model"),
        head_counts=heads,
        kv_head_counts=_counts(folder, *of_keys) or heads,
        stored_key_length=key_length,
        stored_value_length=value_length,
        vocabulary=_number(folder, "vocab_size", "padded_vocab_size"),
        feed_forward_length=_number(folder, "intermediate_size", "ffn_hidden_size", "n_inner"),
        sliding_window=_number(folder, "sliding_window"),
        trained_context=_number(
            folder, "max_position_embeddings", "seq_length", "n_positions", "n_ctx"
        ),
        file_bytes=sum(file.source.size for file in model.files),
        name=str(model.path),
        warnings=tuple(_warnings(blocks, folder)),
        own_context=_own_context(model.metadata),
    )


def _found(folder: Folder, *keys: str) -> tuple[Any, str]:
    """Return the first value that is there and not null, with its key; `text_config` is first."""
    for key in keys:
        for part in (folder.text, folder.config):
            if part.get(key) is not None:
                return part[key], f"config.json {key}"
    return None, f"config.json {keys[0]}"


def _number(folder: Folder, *keys: str, most: int = MAX_COUNT) -> int:
    """Return a number, or 0 if there is none or a list of them."""
    value, key = _found(folder, *keys)
    return 0 if value is None or isinstance(value, list) else whole(value, key, most)


def _counts(folder: Folder, *keys: str) -> tuple[int, ...]:
    """Return a number as a list of one, or a list; empty if there is none."""
    value, key = _found(folder, *keys)
    values = value if isinstance(value, list) else [] if value is None else [value]
    if len(values) > MAX_BLOCKS:
        raise PlanError(f"{key} has {len(values):,} entries, more than {MAX_BLOCKS:,}")
    return tuple(whole(one, key) for one in values)


def _lengths(folder: Folder) -> tuple[int | None, int | None]:
    """Return the lengths of keys and values, None where they follow from the width."""
    plain, rotated, value = (
        whole_or_none(*_found(folder, *keys))
        for keys in (["qk_nope_head_dim"], ["qk_rope_head_dim"], ["v_head_dim", "head_dim"])
    )
    if plain is not None and rotated is not None:  # latent attention: two parts make a key
        return plain + rotated, value
    head = whole_or_none(*_found(folder, "head_dim", "kv_channels"))
    return head, head


def _warnings(blocks: int, folder: Folder) -> Iterator[str]:
    found = len({kind.layer for kind in folder.kinds if kind.layer is not None})
    if found < blocks:
        yield (
            f"config.json states {blocks} layers, and the files have tensors of {found}: what is "
            "missing is not counted"
        )
