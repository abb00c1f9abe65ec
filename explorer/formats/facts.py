"""What a model is, in the words of its metadata (GGUF) or its config.json (Hugging Face).

Files say such things in many ways and hostile ones say them wrongly, so a fact is read only if it
has the type that it should have; everything else is "not known" (None) and never an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.errors import ExplorerError
from explorer.formats.enums import FILE_TYPE_KEY, enum_name
from explorer.formats.model import Metadata, Model

_MAX_LAYERS = 65_536  # a longer array of head counts is not one
_MAX_COUNT = 1 << 62  # a number beyond this counts nothing that exists


@dataclass(frozen=True, slots=True)
class TypeShare:
    """How much of a model one tensor type takes.

    Attributes:
        name: The tensor type.
        tensors: Number of tensors.
        parameters: Number of weights.
        nbytes: Stored bytes.
        share: Part of the model's stored bytes, 0 to 1.
    """

    name: str
    tensors: int
    parameters: int
    nbytes: int
    share: float


@dataclass(frozen=True, slots=True)
class Facts:
    """What a model is. What is not known, or not told in a usable way, is None.

    Attributes:
        name: The model's own name.
        architecture: Its architecture, as the file names it.
        file_type: What most weights are stored as, as the file labels itself.
        parameters: Number of weights.
        nbytes: Stored bytes of all tensors.
        bits_per_weight: Stored bits for each weight.
        context_length: Longest sequence that it was trained for, in tokens.
        layers: Number of layers.
        embedding_length: Width of the model.
        feed_forward_length: Inner width of the feed-forward parts; a range where layers differ.
        heads: Attention heads; a range (``"1–8"``) where layers differ.
        kv_heads: Key and value heads; a range where layers differ.
        key_length: Length of a head's key.
        value_length: Length of a head's value.
        vocabulary: Number of tokens.
        experts: Experts of a mixture.
        experts_used: Experts that each token uses.
        tokenizer: Kind of tokenizer.
        license: Licence, as the file names it.
        types: What is stored as which tensor type, most bytes first.
    """

    name: str | None = None
    architecture: str | None = None
    file_type: str | None = None
    parameters: int | None = None
    nbytes: int | None = None
    bits_per_weight: float | None = None
    context_length: int | None = None
    layers: int | None = None
    embedding_length: int | None = None
    feed_forward_length: str | None = None
    heads: str | None = None
    kv_heads: str | None = None
    key_length: int | None = None
    value_length: int | None = None
    vocabulary: int | None = None
    experts: int | None = None
    experts_used: int | None = None
    tokenizer: str | None = None
    license: str | None = None
    types: tuple[TypeShare, ...] = ()


def describe(model: Model) -> Facts:
    """Return what a model is. Reads small values of the header only, and never raises."""
    architecture = _attempt_text(model, "architecture")
    keys = _GgufKeys(model.metadata, architecture or "")
    config = _Config(model.config)
    layers = keys.count("block_count") or config.count("num_hidden_layers", "n_layer", "num_layers")
    width = keys.count("embedding_length") or config.count("hidden_size", "n_embd", "d_model")
    heads = keys.counts("attention.head_count") or config.counts(
        "num_attention_heads", "n_head", "num_heads"
    )
    kv_heads = (
        keys.counts("attention.head_count_kv")
        or config.counts("num_key_value_heads", "n_head_kv")
        or heads  # without the key there is one for each head
    )
    derived = width // max(heads) if width and heads and max(heads) else None
    key_length = keys.count("attention.key_length") or config.count("head_dim") or derived
    return Facts(
        name=_attempt_text(model, "name"),
        architecture=architecture,
        file_type=_file_type(model, config),
        parameters=model.parameters or None,
        nbytes=model.nbytes or None,
        bits_per_weight=model.bits_per_weight or None,
        context_length=keys.count("context_length")
        or config.count("max_position_embeddings", "n_positions", "seq_length", "n_ctx"),
        layers=layers,
        embedding_length=width,
        feed_forward_length=range_text(
            keys.counts("feed_forward_length")
            or config.counts("intermediate_size", "n_inner", "d_ff")
        ),
        heads=range_text(heads),
        kv_heads=range_text(kv_heads),
        key_length=key_length,
        value_length=keys.count("attention.value_length")
        or config.count("v_head_dim", "head_dim")
        or derived,
        vocabulary=_vocabulary(model, keys, config),
        experts=keys.count("expert_count")
        or config.count("num_local_experts", "num_experts", "n_routed_experts"),
        experts_used=keys.count("expert_used_count") or config.count("num_experts_per_tok"),
        tokenizer=_tokenizer(model.metadata),
        license=keys.text("general.license.name") or keys.text("general.license"),
        types=_type_shares(model),
    )


def range_text(numbers: Sequence[int] | None) -> str | None:
    """Return ``"8"`` for equal numbers, ``"1–8"`` for others, None for none."""
    if not numbers:
        return None
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}–{high}"


class _GgufKeys:
    """Values of `{architecture}.…` keys, where they have the right type."""

    def __init__(self, metadata: Metadata, architecture: str) -> None:
        self._metadata = metadata
        self._prefix = f"{architecture}."

    def text(self, key: str) -> str | None:
        try:
            return self._metadata.text(key) or None
        except ExplorerError:  # the file changed, or the text is too long to be a name
            return None

    def count(self, suffix: str) -> int | None:
        try:
            return _count(self._metadata.integer(self._prefix + suffix))
        except ExplorerError:
            return None

    def counts(self, suffix: str) -> list[int] | None:
        """Return the value, or the values of each layer, that are counts; zeros are kept."""
        entry = self._metadata.entry(self._prefix + suffix)
        if entry is None:
            return None
        if entry.length is None:
            single = self.count(suffix)
            return None if single is None else [single]
        if entry.length > _MAX_LAYERS or not entry.type_name.startswith(
            ("array[int", "array[uint")
        ):
            return None
        try:
            values = entry.value
        except ExplorerError:
            return None
        return _all_counts(values)


class _Config:
    """Values of config.json, where they have the right type; also those under `text_config`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        inner = config.get("text_config")
        self._parts = (config, inner) if isinstance(inner, Mapping) else (config,)

    def _values(self, names: Iterable[str]) -> Iterable[Any]:
        return (part[name] for name in names for part in self._parts if name in part)

    def count(self, *names: str) -> int | None:
        return next(filter(None, map(_count, self._values(names))), None)

    def counts(self, *names: str) -> list[int] | None:
        for value in self._values(names):
            found = _all_counts(value if isinstance(value, list) else [value])
            if found:
                return found
        return None

    def text(self, *names: str) -> str | None:
        return next((v for v in self._values(names) if isinstance(v, str) and v), None)

    def mapping(self, name: str) -> Mapping[str, Any]:
        return next((v for v in self._values((name,)) if isinstance(v, Mapping)), {})


def _count(value: object) -> int | None:
    """Return a value if it is a number of things: an integer above 0 and not absurd."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value < _MAX_COUNT else None


def _all_counts(values: object) -> list[int] | None:
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) > _MAX_LAYERS:
        return None
    numbers = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
    good = len(numbers) == len(values) and all(0 <= v < _MAX_COUNT for v in numbers)
    return numbers if good and any(numbers) else None


def _attempt_text(model: Model, attribute: str) -> str | None:
    try:
        value = getattr(model, attribute)
    except ExplorerError:
        return None
    return value if isinstance(value, str) and value else None


def _file_type(model: Model, config: _Config) -> str | None:
    try:
        value = model.metadata.integer(FILE_TYPE_KEY)
    except ExplorerError:
        return None
    if value is not None:
        return enum_name(FILE_TYPE_KEY, value)
    label = model.metadata.text("ollama.config.file_type")
    method = config.mapping("quantization_config").get("quant_method")
    for text in (label, method):
        if isinstance(text, str) and text:
            return text
    return _usual_quantization(model) or config.text("torch_dtype", "dtype")


def _usual_quantization(model: Model) -> str | None:
    """Return the quantization that most bytes are stored in, where weights have scales apart."""
    nbytes: Counter[str] = Counter()
    for group in model.groups:
        if group.kind == "quantized" and group.quant_type is not None:
            nbytes[group.quant_type] += group.nbytes
    return max(nbytes, key=lambda name: (nbytes[name], name), default=None)


def _vocabulary(model: Model, keys: _GgufKeys, config: _Config) -> int | None:
    tokens = model.metadata.entry("tokenizer.ggml.tokens")
    return (
        keys.count("vocab_size")
        or (_count(tokens.length) if tokens is not None else None)
        or config.count("vocab_size")
    )


def _tokenizer(metadata: Metadata) -> str | None:
    try:
        kind, pre = metadata.text("tokenizer.ggml.model"), metadata.text("tokenizer.ggml.pre")
    except ExplorerError:
        return None
    if not kind:
        return None
    return f"{kind} ({pre})" if pre and pre != kind else kind


def _type_shares(model: Model) -> tuple[TypeShare, ...]:
    whole = model.nbytes or 1
    return tuple(
        TypeShare(name, total.tensors, total.parameters, total.nbytes, total.nbytes / whole)
        for name, total in model.tensors.totals_by_type.items()
    )
