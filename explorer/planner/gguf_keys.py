"""Reads hyperparameters from GGUF metadata, with Ollama's fallbacks (planner.md section 2).

Ollama reads a scalar only if it is stored as uint32, and a list as uint32 or int32; any integer
type is accepted here. A list where a scalar belongs counts as absent, as it does there. Text, a
Boolean or a float where an integer belongs is an error: such a file is damaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from explorer.errors import PlanError
from explorer.formats.config import loaded_entry
from explorer.formats.metadata import Metadata, MetadataEntry
from explorer.planner.checks import MAX_BLOCKS, MAX_COUNT, quoted, whole
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.tensor_groups import TensorGroups

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
