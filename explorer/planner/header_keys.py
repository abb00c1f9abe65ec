"""Reads hyperparameters from GGUF metadata, with Ollama's fallbacks (docs/planner.md, section 2).

Ollama reads a scalar only if it is stored as uint32, and a list as uint32 or int32; any integer
type is accepted here. A list where a scalar belongs counts as absent, as it does there. Text, a
Boolean or a float where an integer belongs is an error: such a file is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from explorer.errors import PlanError
from explorer.formats.facts import range_text
from explorer.formats.model import Metadata, MetadataEntry, Model
from explorer.formats.side_files import loaded_entry
from explorer.formats.tensors import TensorTable, parse_name
from explorer.planner.devices import MAX_BLOCKS, MAX_COUNT, quoted, whole
from explorer.planner.hyperparameters import Hyperparameters, TensorGroups
from explorer.quantization import TensorType

_INTEGERS: Final = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_INTEGER_LISTS: Final = frozenset(f"array[{kind}]" for kind in _INTEGERS)
_ARCHITECTURE: Final = "general.architecture"
_MAX_ARCHITECTURE_BYTES: Final = 256
_TOKENS: Final = "tokenizer.ggml.tokens"


def read_metadata(
    metadata: Metadata, tensors: TensorGroups, file_bytes: int, name: str = ""
) -> Hyperparameters:
    """Return what the metadata of a GGUF model says.

    Args:
        metadata: Its keys and values; the tokens stay undecoded.
        tensors: Its tensors, grouped.
        file_bytes: Bytes of its files.
        name: What to call it.

    Raises:
        PlanError: A value is of the wrong type, negative, or absurdly large.
    """
    keys = _Keys(metadata)
    heads = keys.integers("heads", "attention.head_count", 1)
    kv_heads = keys.integers("kv heads", "attention.head_count_kv", 1)
    return Hyperparameters(
        architecture=keys.architecture,
        block_count=keys.integer("L", "block_count", most=MAX_BLOCKS),
        embedding_length=keys.integer("E", "embedding_length"),
        head_counts=heads,
        kv_head_counts=kv_heads,
        stored_key_length=keys.optional("Dk", "attention.key_length"),
        stored_value_length=keys.optional("Dv", "attention.value_length"),
        vocabulary=keys.vocabulary(),
        feed_forward_length=keys.integer("FF", "feed_forward_length"),
        sliding_window=keys.integer("window", "attention.sliding_window"),
        trained_context=keys.integer("trained context", "context_length"),
        cross_attention_layers=frozenset(keys.list("cross", "attention.cross_attention_layers")),
        ssm_conv_kernel=keys.integer("conv", "ssm.conv_kernel"),
        ssm_state_size=keys.integer("state", "ssm.state_size"),
        ssm_inner_size=keys.integer("inner", "ssm.inner_size"),
        ssm_group_count=keys.integer("groups", "ssm.group_count"),
        embedding_model=keys.has("pooling_type"),
        vision=keys.has("vision.block_count"),
        tensors=tensors,
        file_bytes=file_bytes,
        name=name,
        origins=keys.origins,
        warnings=(*keys.warnings, *tensors.warnings),
        own_context=own_context(metadata),
    )


def own_context(metadata: Metadata) -> int | None:
    """Return the context among the parameters that Ollama's store keeps for a model, or None."""
    value = metadata.integer("ollama.params.num_ctx")
    return value if value is not None and 0 < value <= MAX_COUNT else None


def plain_metadata(values: Mapping[str, Any]) -> Metadata:
    """Return plain Python values as metadata, integers as uint32 and lists of them as int32.

    Of ``tokenizer.ggml.tokens`` only the length is kept.
    """
    entries = []
    for key, value in values.items():
        if key == _TOKENS:
            entries.append(MetadataEntry(key, "array[string]", len(value), list))
        elif isinstance(value, list):
            kinds = {type(item) for item in value}
            kind = "int32" if kinds <= {int} else "bool" if kinds == {bool} else "string"
            entries.append(loaded_entry(key, f"array[{kind}]", value))
        else:
            names = {bool: "bool", int: "uint32", float: "float32"}
            entries.append(loaded_entry(key, names.get(type(value), "string"), value))
    return Metadata(entries)


class _Keys:
    """Values of `{architecture}.…` keys; notes where each symbol came from.

    Attributes:
        architecture: The architecture, which is the prefix of the keys.
        origins: Symbol → key, or what stood in for it.
        warnings: What was odd.
    """

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self.origins: dict[str, str] = {}
        self.warnings: list[str] = []
        self.architecture = self._read_architecture()

    def _read_architecture(self) -> str:
        entry = self._metadata.entry(_ARCHITECTURE)
        if entry is None:
            self.warnings.append("the file names no architecture; it is planned as unknown")
            return "unknown"
        short = entry.end - entry.value_offset <= _MAX_ARCHITECTURE_BYTES
        if entry.type_name != "string" or not short or not isinstance(entry.value, str):
            raise PlanError(f"{_ARCHITECTURE} is not a short text; the file is damaged")
        return entry.value or "unknown"

    def _entry(self, suffix: str) -> tuple[str, MetadataEntry | None]:
        key = f"{self.architecture}.{suffix}"
        return key, self._metadata.entry(key)

    def has(self, suffix: str) -> bool:
        """Tell whether a key is there, whatever its value."""
        return self._entry(suffix)[1] is not None

    def optional(self, symbol: str, suffix: str, most: int = MAX_COUNT) -> int | None:
        """Return a scalar, or None if the key is absent or holds a list."""
        key, entry = self._entry(suffix)
        if entry is None:
            self.origins[symbol] = f"{quoted(key)} is absent"
            return None
        if entry.length is not None:
            self.origins[symbol] = f"{quoted(key)} is a list and counts as absent"
            return None
        self.origins[symbol] = quoted(key)
        if entry.type_name not in _INTEGERS:
            kind = quoted(entry.type_name)
            raise PlanError(f"{quoted(key)} is a {kind}, where an integer belongs")
        return whole(entry.value, key, most)

    def integer(self, symbol: str, suffix: str, default: int = 0, most: int = MAX_COUNT) -> int:
        """Return a scalar, or the default if the key is absent or holds a list."""
        value = self.optional(symbol, suffix, most)
        if value is not None:
            return value
        self.origins[symbol] += f": {default}"
        if suffix in ("block_count", "embedding_length"):
            self.warnings.append(f"{self.origins[symbol]}; the figures are not those of a model")
        return default

    def list(self, symbol: str, suffix: str) -> tuple[int, ...]:
        """Return a list of integers; empty if the key is absent or holds a scalar."""
        key, entry = self._entry(suffix)
        self.origins[symbol] = quoted(key)
        if entry is None or entry.length is None:
            return ()
        if entry.type_name not in _INTEGER_LISTS:
            kind = quoted(entry.type_name)
            raise PlanError(f"{quoted(key)} is an {kind}, where a list of integers belongs")
        if entry.length > MAX_BLOCKS:
            raise PlanError(f"{quoted(key)} has {entry.length:,} entries, more than {MAX_BLOCKS:,}")
        values = entry.value
        assert isinstance(values, Sequence)  # its length and type say so
        return tuple(whole(value, key) for value in values)

    def integers(self, symbol: str, suffix: str, default: int) -> tuple[int, ...]:
        """Return a list, or a scalar or the default as a list of one."""
        _, entry = self._entry(suffix)
        if entry is not None and entry.length:
            return self.list(symbol, suffix)
        return (self.integer(symbol, suffix, default),)

    def vocabulary(self) -> int:
        """Return the number of tokens, without decoding any."""
        entry = self._metadata.entry(_TOKENS)
        if entry is None:
            self.origins["V"] = f"{_TOKENS} is absent: 0"
            self.warnings.append(f"{_TOKENS} is absent; Ollama would not load it, V counts as 0")
            return 0
        if entry.length is None:
            raise PlanError(f"{_TOKENS} is no list; the file is damaged")
        self.origins["V"] = f"number of {_TOKENS}"
        return whole(entry.length, _TOKENS)


# Hyperparameters of a model that is no GGUF file, from its config.json (planner.md section 10).
#
# What comes out is what the model would need after conversion, with its tensors at their present
# size. No golden data stands behind it. Values that other files leave out are filled in as the
# conversion scripts do.


ARCHITECTURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "mistral": "llama",
        "mixtral": "llama",
        "gemma3_text": "gemma3",
        "gemma3n_text": "gemma3n",
        "cohere": "command-r",
        "phi": "phi2",
        "deepseek_v2": "deepseek2",
        "deepseek_v3": "deepseek2",
        "gpt_oss": "gptoss",
        "qwen2_moe": "qwen2moe",
        "qwen2_vl": "qwen2vl",
        "qwen2_5_vl": "qwen25vl",
        "qwen3_moe": "qwen3moe",
        "qwen3_vl": "qwen3vl",
        "qwen3_vl_moe": "qwen3vlmoe",
        "llama4_text": "llama4",
        "nomic_bert": "nomic-bert",
        "stablelm_epoch": "stablelm",
    }
)
"""`model_type` → architecture after conversion, where the two are spelled differently."""

_ALTERNATIVES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "L": ("num_hidden_layers", "n_layer", "num_layers"),
        "E": ("hidden_size", "n_embd", "d_model"),
        "heads": ("num_attention_heads", "n_head"),
        "kv heads": ("num_key_value_heads", "multi_query_group_num", "num_kv_heads", "n_head_kv"),
        "head": ("head_dim", "kv_channels"),
        "V": ("vocab_size", "padded_vocab_size"),
        "FF": ("intermediate_size", "ffn_hidden_size", "n_inner"),
        "window": ("sliding_window",),
        "trained context": ("max_position_embeddings", "seq_length", "n_positions", "n_ctx"),
        "conv": ("mamba_d_conv", "conv_kernel"),
        "state": ("mamba_d_state", "ssm_state_size", "state_size"),
        "groups": ("mamba_n_groups", "n_groups"),
    }
)
"""Symbol → keys of config.json, the usual one first."""

_OTHER_STACKS: Final = ("vision", "visual", "audio", "image", "encoder.", "draft", "mtp")
_OUTPUTS: Final = ("lm_head", "output_layer", "embed_out")
_EMBEDDINGS: Final = ("embed_tokens", "wte", "word_embeddings", "tok_embeddings", "embed_in")
_LAST_NORMS: Final = ("norm", "ln_f", "final_layernorm", "final_norm")
_GATES: Final = ("gate_proj", "w1")


def read_config(model: Model) -> Hyperparameters:
    """Return what a model's config.json says.

    Raises:
        PlanError: There is none, or a value is of the wrong type or absurd.
    """
    if not model.config:
        raise PlanError(
            "the model has no config.json, so its sizes cannot be worked out; "
            "open the folder that holds both"
        )
    config = _Config(model.config)
    blocks = config.number("L", most=MAX_BLOCKS)
    heads = config.counts("heads") or (1,)
    kv_heads = config.counts("kv heads")
    if not kv_heads:
        kv_heads = heads
        config.origins["kv heads"] = f"{config.origins['heads']}, one for each head"
    key_length, value_length = _lengths(config)
    tensors = group_config(model.tensors)
    return Hyperparameters(
        architecture=ARCHITECTURES.get(config.model_type, config.model_type),
        block_count=blocks,
        embedding_length=config.number("E"),
        head_counts=heads,
        kv_head_counts=kv_heads,
        stored_key_length=key_length,
        stored_value_length=value_length,
        vocabulary=config.number("V"),
        feed_forward_length=config.number("FF"),
        sliding_window=config.number("window"),
        trained_context=config.number("trained context"),
        cross_attention_layers=frozenset(config.listed("cross_attention_layers")),
        ssm_conv_kernel=config.number("conv"),
        ssm_state_size=config.number("state"),
        ssm_inner_size=_inner_size(config),
        ssm_group_count=config.number("groups"),
        embedding_model=_is_embedding(model.config),
        vision="vision_config" in model.config,
        tensors=tensors,
        file_bytes=sum(file.source.size for file in model.files),
        name=str(model.path),
        after_conversion=True,
        origins=config.origins,
        warnings=tuple(_warnings(blocks, heads, tensors)),
        own_context=own_context(model.metadata),
    )


class _Config:
    """Values of config.json, and of the `text_config` within it, which comes first.

    Attributes:
        origins: Symbol → key, or what stood in for it.
        model_type: The kind of model, of the language part if it has several.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        inner = config.get("text_config")
        self._parts = (inner, config) if isinstance(inner, Mapping) else (config,)
        self._names = ("text_config.", "") if isinstance(inner, Mapping) else ("",)
        self.origins: dict[str, str] = {}
        kind = self.get("model_type")[0]
        if not isinstance(kind, str) or not kind or len(kind) > 100:
            raise PlanError("config.json names no model_type; the file is damaged")
        self.model_type = kind

    def get(self, *keys: str) -> tuple[Any, str]:
        """Return the first value that is there and not null, with its key."""
        for key in keys:
            for part, prefix in zip(self._parts, self._names, strict=True):
                if part.get(key) is not None:
                    return part[key], f"config.json {prefix}{key}"
        return None, f"config.json {keys[0]}"

    def number(self, symbol: str, most: int = MAX_COUNT) -> int:
        """Return a number, or 0 if there is none or a list of them."""
        value, key = self.get(*_ALTERNATIVES[symbol])
        if value is None or isinstance(value, list):
            self.origins[symbol] = f"{key} is absent: 0"
            return 0
        self.origins[symbol] = key
        return whole(value, key, most)

    def counts(self, symbol: str) -> tuple[int, ...]:
        """Return a number as a list of one, or a list; empty if there is none."""
        value, key = self.get(*_ALTERNATIVES[symbol])
        self.origins[symbol] = key
        if value is None:
            return ()
        values = value if isinstance(value, list) else [value]
        return _integers(values, key)

    def listed(self, key: str) -> tuple[int, ...]:
        """Return a list; empty if it is absent."""
        value, origin = self.get(key)
        return _integers(value, origin) if isinstance(value, list) else ()

    def optional(self, *keys: str) -> int | None:
        """Return a number, or None if it is absent."""
        value, key = self.get(*keys)
        return None if value is None else whole(value, key)


def _integers(values: list[Any], key: str) -> tuple[int, ...]:
    if len(values) > MAX_BLOCKS:
        raise PlanError(f"{key} has {len(values):,} entries, more than {MAX_BLOCKS:,}")
    return tuple(whole(value, key) for value in values)


def _lengths(config: _Config) -> tuple[int | None, int | None]:
    """Return the lengths of keys and values, None where they follow from the width."""
    plain, rotated = config.optional("qk_nope_head_dim"), config.optional("qk_rope_head_dim")
    if plain is not None and rotated is not None:  # latent attention: two parts make a key
        config.origins["Dk"] = "config.json qk_nope_head_dim + qk_rope_head_dim"
        config.origins["Dv"] = "config.json v_head_dim"
        return plain + rotated, config.optional("v_head_dim", "head_dim")
    head, key = config.get(*_ALTERNATIVES["head"])
    config.origins["Dk"] = config.origins["Dv"] = key if head is not None else f"{key} is absent"
    return (None, None) if head is None else (whole(head, key), whole(head, key))


def _inner_size(config: _Config) -> int:
    """Return the inner width of recurrent blocks: stated, or heads × their length, or expanded."""
    stated, key = config.get("mamba_d_inner", "intermediate_size_mamba")
    if stated is not None:
        config.origins["inner"] = key
        return whole(stated, key)
    heads = config.optional("mamba_n_heads", "mamba_num_heads")
    length = config.optional("mamba_d_head", "mamba_head_dim")
    if heads is not None and length is not None:
        config.origins["inner"] = "config.json mamba_n_heads × mamba_d_head"
        return whole(heads * length, "mamba_n_heads × mamba_d_head")
    factor, width = config.optional("mamba_expand"), config.optional("hidden_size")
    config.origins["inner"] = "config.json mamba_expand × hidden_size"
    return whole((factor or 0) * (width or 0), "mamba_expand × hidden_size")


def _is_embedding(config: Mapping[str, Any]) -> bool:
    """Tell whether it makes embeddings: an encoder by its class, without a head for text."""
    classes = config.get("architectures")
    names = [name for name in classes if isinstance(name, str)] if isinstance(classes, list) else []
    return any("Bert" in name and "LMHead" not in name for name in names)


def _warnings(blocks: int, heads: Sequence[int], tensors: TensorGroups) -> Iterator[str]:
    if not blocks:
        yield "config.json states no number of blocks; the figures are not those of a model"
    found = sum(name.startswith("blk.") for name in tensors.nbytes)
    if blocks and found != blocks:
        yield f"config.json states {blocks} blocks, the tensors make {found}"
    if len(set(heads)) > 1:
        yield f"blocks differ in their heads ({range_text(heads)})"


def group_config(
    table: TensorTable, others: Mapping[int, TensorType] | None = None
) -> TensorGroups:
    """Map tensor names to the groups they would have after conversion, and sum their bytes.

    Args:
        table: The tensors.
        others: Types that some of them are to have instead of their own, by row.
    """
    columns, rows = table.columns, table.main_rows
    sizes = list(columns.nbytes[:rows])
    for row, kind in (others or {}).items():
        if row < rows:
            sizes[row] = kind.nbytes(columns.parameters[row]) or 0
    nbytes: dict[str, int] = {}
    gates: list[int] = []
    for name, size in zip(columns.names[:rows], sizes, strict=True):
        group = _group_name(name)
        nbytes[group] = nbytes.get(group, 0) + size
        if group == "blk.0" and ".experts" in name and any(gate in name for gate in _GATES):
            gates.append(size)
    # conversion stacks the gates of a layer's experts into one tensor
    return TensorGroups(
        nbytes=MappingProxyType(nbytes), gate_experts_bytes=sum(gates) if gates else None
    )


def _group_name(name: str) -> str:
    """Return ``blk.3`` for a tensor of the language model's block 3, else what it would be in."""
    parsed = parse_name(name)
    if any(word in parsed.stack or name.startswith(word) for word in _OTHER_STACKS):
        return f"other.{quoted(parsed.stack or name)}"
    if parsed.layer is not None:
        return f"blk.{parsed.layer}"
    last = parsed.role.rpartition(".")[2]
    if last in _OUTPUTS:
        return "output"
    if last in _EMBEDDINGS:
        return "token_embd"
    return "output_norm" if last in _LAST_NORMS else quoted(parsed.role)
