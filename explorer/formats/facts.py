"""What a model is, in the words of its metadata (GGUF) or its config.json (Hugging Face).

A value of the wrong type is "not known" (None) and never an error. The planner reads some of the
same keys (`planner/hyperparameters.py`): it fills in the reference's defaults, and raises where
this returns None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.errors import ExplorerError
from explorer.formats.enums import FILE_TYPE_KEY, enum_name
from explorer.formats.model import Metadata, Model
from explorer.formats.tensors import TypeShare

_MAX_LAYERS = 65_536  # a longer array of head counts is not one
_MAX_COUNT = 1 << 62  # a number beyond this counts nothing that exists
_COUNT_TYPES = ("int", "uint", "array[int", "array[uint")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a model is. What is not known, or not said in a usable way, is None."""

    name: str | None = None  # the model's own name
    architecture: str | None = None  # its architecture, as the file names it
    file_type: str | None = None  # what most weights are stored as, as the file labels itself
    parameters: int | None = None  # number of weights
    nbytes: int | None = None  # stored bytes of all tensors
    bits_per_weight: float | None = None  # stored bits for each weight
    context_length: int | None = None  # longest sequence that it was trained for, in tokens
    layers: int | None = None  # number of layers
    embedding_length: int | None = None  # width of the model
    feed_forward_length: str | None = None  # inner width of feed-forward parts; or a range
    heads: str | None = None  # attention heads; a range ("1–8") where layers differ
    kv_heads: str | None = None  # key and value heads; a range where layers differ
    key_length: int | None = None  # length of a head's key
    value_length: int | None = None  # length of a head's value
    vocabulary: int | None = None  # number of tokens
    experts: int | None = None  # experts of a mixture
    experts_used: int | None = None  # experts that each token uses
    tokenizer: str | None = None  # kind of tokenizer
    license: str | None = None  # licence, as the file names it
    types: tuple[TypeShare, ...] = ()  # what is stored as which tensor type, most bytes first


def describe(model: Model) -> Facts:
    """Return what a model is. Reads small values of the header only, and never raises."""
    architecture = _attempt(lambda: model.architecture)
    fields = _Fields(model, architecture or "")
    heads = fields.counts("attention.head_count", "num_attention_heads", "n_head", "num_heads")
    kv_heads = (
        fields.counts("attention.head_count_kv", "num_key_value_heads", "n_head_kv")
        or heads  # without the key there is one for each head
    )
    width = fields.count("embedding_length", "hidden_size", "n_embd", "d_model")
    derived = width // max(heads) if width and heads and max(heads) else None
    inner = fields.counts("feed_forward_length", "intermediate_size", "n_inner", "d_ff")
    positions = ("max_position_embeddings", "n_positions", "seq_length", "n_ctx")
    return Facts(
        name=_attempt(lambda: model.name),
        architecture=architecture,
        file_type=_attempt(lambda: _file_type(model, fields)),
        parameters=model.parameters or None,
        nbytes=model.nbytes or None,
        bits_per_weight=model.bits_per_weight or None,
        context_length=fields.count("context_length", *positions),
        layers=fields.count("block_count", "num_hidden_layers", "n_layer", "num_layers"),
        embedding_length=width,
        feed_forward_length=range_text(inner),
        heads=range_text(heads),
        kv_heads=range_text(kv_heads),
        key_length=fields.count("attention.key_length", "head_dim") or derived,
        value_length=fields.count("attention.value_length", "v_head_dim", "head_dim") or derived,
        vocabulary=_vocabulary(model, fields),
        experts=fields.count(
            "expert_count", "num_local_experts", "num_experts", "n_routed_experts"
        ),
        experts_used=fields.count("expert_used_count", "num_experts_per_tok"),
        tokenizer=_attempt(lambda: _tokenizer(model.metadata)),
        license=_attempt(lambda: model.metadata.text("general.license.name"))
        or _attempt(lambda: model.metadata.text("general.license")),
        types=tuple(model.tensors.totals_by_type.values()),
    )


def range_text(numbers: Sequence[int] | None) -> str | None:
    """Return ``"8"`` for equal numbers, ``"1–8"`` for others, None for none."""
    if not numbers:
        return None
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}–{high}"


def _attempt(read: Callable[[], str | None]) -> str | None:
    """Return a text; None if it is empty, or the file changed, or it is too long to be a name."""
    try:
        return read() or None
    except ExplorerError:
        return None


class _Fields:
    """Values of `{architecture}.…` keys and of config.json, where they have the right type."""

    def __init__(self, model: Model, architecture: str) -> None:
        self._metadata = model.metadata
        self._prefix = f"{architecture}."
        config = model.config
        inner = config.get("text_config")
        self._parts = (config, inner) if isinstance(inner, Mapping) else (config,)

    def config(self, *names: str) -> Iterator[Any]:
        """Yield the values of fields of config.json, also those under `text_config`."""
        return (part[name] for name in names for part in self._parts if name in part)

    def count(self, suffix: str, *names: str) -> int | None:
        """Return the count of a key, else of the first field that is one."""
        found = self._key_counts(suffix, single=True)
        if found:
            return found[0] or None
        return next(filter(None, map(_count, self.config(*names))), None)

    def counts(self, suffix: str, *names: str) -> list[int] | None:
        """Return a count, or those of each layer, not all zero; raises nothing."""
        values = (v if isinstance(v, list) else [v] for v in self.config(*names))
        return self._key_counts(suffix) or next(filter(None, map(_all_counts, values)), None)

    def _key_counts(self, suffix: str, *, single: bool = False) -> list[int] | None:
        entry = self._metadata.entry(self._prefix + suffix)
        if entry is None or (single and entry.length is not None):
            return None
        if not entry.type_name.startswith(_COUNT_TYPES) or (entry.length or 0) > _MAX_LAYERS:
            return None  # without reading it: it may be long
        try:
            value = entry.value
        except ExplorerError:
            return None
        return _all_counts([value] if entry.length is None else value)


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


def _file_type(model: Model, fields: _Fields) -> str | None:
    value = model.metadata.integer(FILE_TYPE_KEY)
    if value is not None:
        return enum_name(FILE_TYPE_KEY, value)
    quantization = next(
        (v for v in fields.config("quantization_config") if isinstance(v, dict)), {}
    )
    labels = (model.metadata.text("ollama.config.file_type"), quantization.get("quant_method"))
    label = next((text for text in labels if isinstance(text, str) and text), None)
    plain = (text for text in fields.config("torch_dtype", "dtype") if isinstance(text, str))
    return label or _usual_quantization(model) or next(filter(None, plain), None)


def _usual_quantization(model: Model) -> str | None:
    """Return the quantization that most bytes are stored in, where weights have scales apart."""
    nbytes: Counter[str] = Counter()
    for group in model.groups:
        if group.kind == "quantized" and group.quant_type is not None:
            nbytes[group.quant_type] += group.nbytes
    return max(nbytes, key=lambda name: (nbytes[name], name), default=None)


def _vocabulary(model: Model, fields: _Fields) -> int | None:
    tokens = model.metadata.entry("tokenizer.ggml.tokens")
    return (
        fields.count("vocab_size")
        or (_count(tokens.length) if tokens is not None else None)
        or next(filter(None, map(_count, fields.config("vocab_size"))), None)
    )


def _tokenizer(metadata: Metadata) -> str | None:
    kind, pre = metadata.text("tokenizer.ggml.model"), metadata.text("tokenizer.ggml.pre")
    if not kind:
        return None
    return f"{kind} ({pre})" if pre and pre != kind else kind
