"""What a model is, in the words of its metadata (GGUF) or its config.json (Hugging Face).

A value of the wrong type is "not known" (None) and never an error. The planner reads some of the
same keys (`planner/hyperparameters.py`): it fills in the reference's defaults, and raises where
this returns None.

Numbers that stand for names are those of docs/gguf.md, sections 6 and 9 (llama.cpp,
include/llama.h: `llama_ftype`, `llama_token_type`, `llama_pooling_type`; src/llama-hparams.h:
`llama_expert_gating_func_type`). One that is not in a table is shown as it is: new ones appear in
files before they appear here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from explorer.errors import ExplorerError
from explorer.formats.components import components
from explorer.formats.model import Metadata, Model
from explorer.formats.tensors import TypeShare

FILE_TYPE_KEY: Final = "general.file_type"
TOKEN_TYPE_KEY: Final = "tokenizer.ggml.token_type"

_GUESSED: Final = 1024  # LLAMA_FTYPE_GUESSED: the loader inferred the type, the file did not say it

FILE_TYPES: Final[Mapping[int, str]] = dict(
    enumerate((
        *("F32", "F16", "Q4_0", "Q4_1", "removed (Q4_1, some F16)", "removed (Q4_2)"),
        *("removed (Q4_3)", "Q8_0", "Q5_0", "Q5_1", "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L"),
        *("Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "IQ2_XXS", "IQ2_XS", "Q2_K_S"),
        *("IQ3_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ3_M", "IQ2_S", "IQ2_M", "IQ4_XS"),
        *("IQ1_M", "BF16", "removed (Q4_0_4_4)", "removed (Q4_0_4_8)", "removed (Q4_0_8_8)"),
        *("TQ1_0", "TQ2_0", "MXFP4_MOE", "NVFP4", "Q1_0", "Q2_0"),
    ))
)  # fmt: skip
"""`general.file_type` as llama.cpp numbers it: what most tensors are. Not the tensor types' ids."""

_FILE_TYPES_OF_IK: Final = {
    **dict(enumerate((
        *("Q6_0", "IQ1_BN", "IQ2_BN", "IQ2_K", "IQ3_K", "IQ4_K", "IQ5_K", "IQ6_K"),
    ), 135)),
    **dict(enumerate((
        *("IQ4_KS", "IQ3_KL", "IQ2_KS", "IQ4_KSS", "Q8_KV", "IQ5_KS", "IQ2_KT", "IQ3_KT"),
        *("IQ4_KT", "IQ3_KS", "IQ2_KL", "IQ1_KT"),
    ), 145)),
    **{202: "Q4_0_R8", 207: "Q8_0_R8", 208: "Q5_0_R4", 210: "Q2_K_R4", 211: "Q3_K_R4"},
    **{214: "Q4_K_R4", 216: "Q5_K_R4", 218: "Q6_K_R4", 219: "IQ2_XXS_R4", 220: "IQ2_XS_R4"},
    **{223: "IQ3_XXS_R4", 224: "IQ1_S_R4", 225: "IQ4_NL_R4", 226: "IQ3_S_R4", 229: "IQ2_M_R4"},
    **{230: "IQ4_XS_R8", 231: "IQ1_M_R4", 232: "BF16_R16", 335: "Q6_0_R4", 337: "IQ2_BN_R4"},
    **{338: "IQ2_K_R4", 339: "IQ3_K_R4", 340: "IQ4_K_R4", 341: "IQ5_K_R4", 345: "IQ4_KS_R4"},
    **{350: "IQ5_KS_R4", 351: "MXFP4_R8", 398: "Q8_KV_R8", 399: "Q8_K_R8"},
}  # fmt: skip
"""The numbers that ik_llama.cpp adds (docs/gguf.md, section 12)."""

_OTHER_FILE_TYPES: Final = {4: "MXFP4 (old)", 38: "TL1", 39: "TL2", 40: "I2_S", 41: "Q1_0"}
"""What numbers mean in files of Ollama 0.11 (4), BitNet and ik_llama.cpp that hold such tensors."""

TOKEN_TYPES: Final[Mapping[int, str]] = dict(
    enumerate(("undefined", "normal", "unknown", "control", "user-defined", "unused", "byte"))
)
"""Elements of `tokenizer.ggml.token_type`."""

POOLING_TYPES: Final[Mapping[int, str]] = dict(enumerate(("none", "mean", "cls", "last", "rank")))
"""`{arch}.pooling_type`."""

GATING_FUNCTIONS: Final[Mapping[int, str]] = {1: "softmax", 2: "sigmoid"}
"""`{arch}.expert_gating_func`."""


def enum_name(key: str, value: object) -> str | None:
    """Return the name of an enumerated value.

    Args:
        key: The metadata key, with its architecture's prefix.
        value: The key's value, or an element of it where it is an array.

    Returns:
        The name; the number as text where it has none; None where the key is not an enumeration,
        or the value not an integer.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    if key == FILE_TYPE_KEY:
        return _file_type_name(value)
    if key == TOKEN_TYPE_KEY:
        table = TOKEN_TYPES
    elif key.endswith(".pooling_type"):
        table = POOLING_TYPES
    elif key.endswith(".expert_gating_func"):
        table = GATING_FUNCTIONS
    else:
        return None
    return table.get(value) or str(value)


def _file_type_name(value: int) -> str:
    guessed = value >= 0 and value & _GUESSED
    base = value & ~_GUESSED if guessed else value
    name = FILE_TYPES.get(base) or _FILE_TYPES_OF_IK.get(base) or str(base)
    return f"{name} (guessed)" if guessed else name


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
    components: tuple[TypeShare, ...] = ()  # of a checkpoint of several models
    types: tuple[TypeShare, ...] = ()  # what is stored as which tensor type, most bytes first

    @property
    def main_type(self) -> str:
        """The file type, or else the tensor type of most bytes; "" without tensors."""
        return self.file_type or (self.types[0].name if self.types else "")


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
        bits_per_weight=model.bits_per_weight if model.bits_per_weight > 0 else None,
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
        components=components(model),
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
        other = _OTHER_FILE_TYPES.get(value & ~_GUESSED)
        name, types = enum_name(FILE_TYPE_KEY, value), model.tensors.totals_by_type
        return other if other in types and name not in types else name
    text = model.metadata.text(FILE_TYPE_KEY)  # of programs that make audio models
    if text:
        return text
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
