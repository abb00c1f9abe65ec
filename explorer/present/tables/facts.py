"""The facts about a model, in their order: what each is called, means, and how it is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from explorer.formats.facts import Facts
from explorer.formats.model import Model
from explorer.present.model import kind_of
from explorer.present.tables.lines import Line, lines_of
from explorer.present.tables.table import BITS, INTEGER, TEXT, Column, Kind, Table
from explorer.text import count_text, exact_text, integer_text

if TYPE_CHECKING:  # most models declare none
    from explorer.present.quantization import DeclaredQuantization


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model, what its metadata says, and how it is quantized in a sentence; None without."""

    model: Model
    facts: Facts
    quantized: str | None = None


_FORMATS: Final = {"gguf": "GGUF", "safetensors": "safetensors", "ollama": "Ollama"} | {
    "imatrix": "importance matrix of older llama.cpp"
}
_COUNT: Final = Kind(lambda count: f"{count_text(count)} ({integer_text(count)})")
_EXACT: Final = Kind(exact_text)
_TOKENS: Final = Kind(lambda count: f"{integer_text(count)} tokens")
_BYTES: Final = Kind(lambda count: f"{integer_text(count)} bytes")
_RANGE: Final = Kind(
    lambda text: re.sub(r"\d+", lambda digits: integer_text(int(digits[0])), text), numeric=False
)
"""\"8\", or \"1–8\" where layers differ."""


def _of(name: str) -> Callable[[ModelFacts], Any]:
    return lambda one: getattr(one.model, name)


def _kind(one: ModelFacts) -> str | None:
    return kind_of(one.model)


def _quantized(one: ModelFacts) -> str | None:
    return one.quantized


def _tensors(one: ModelFacts) -> int:
    return len(one.model.tensors.columns)  # two of one name are two


def _keys(one: ModelFacts) -> int:
    return len(one.model.metadata.entries)


def _format(one: ModelFacts) -> str:
    text = _FORMATS[one.model.format]
    if one.model.version is not None:
        text = f"{text} version {one.model.version}"
    return f"{text}, big-endian" if one.model.byte_order == "big" else text


def _fact(
    name: str,
    title: str,
    tip: str,
    kind: Kind = INTEGER,
    of: Callable[[ModelFacts], Any] | None = None,
) -> Column[ModelFacts]:
    """Return a fact of the metadata, or another one; none that is not known or empty."""
    found = of or (lambda one: getattr(one.facts, name))

    def value(one: ModelFacts) -> Any:
        known = found(one)
        return None if known == "" else known

    return Column(name, title, kind, tip, value, sparse=True)


FACTS: Final = Table[ModelFacts](
    _fact("name", "Name", "What the file calls itself.", TEXT),
    _fact("kind", "What it is", "A file that belongs to a model.", TEXT, _kind),
    _fact("format", "Format", "With its version, and its byte order if big-endian.", TEXT, _format),
    _fact("architecture", "Architecture", "It defines layers and how they are computed.", TEXT),
    _fact("parameters", "Parameters", "Number of weights of all tensors together.", _COUNT),
    _fact("file_type", "File type", "The mix of tensor types, as the file declares it.", TEXT),
    _fact("quantization", "Quantization", "As names and shapes of parts say it.", TEXT, _quantized),
    _fact("nbytes", "Size of tensors", "Bytes of all weights, without the header.", _EXACT),
    _fact("bits_per_weight", "Bits per weight", "Stored bits, over all, with scales.", BITS),
    _fact("context_length", "Context length", "The longest text in training.", _TOKENS),
    _fact("layers", "Layers", "Blocks of attention and feed-forward, one after the other."),
    _fact("embedding_length", "Embedding length", "Numbers for one token between two layers."),
    _fact("feed_forward_length", "Feed-forward length", "Width of that part of a layer.", _RANGE),
    _fact("heads", "Attention heads", "Of a layer. A range where layers differ.", _RANGE),
    _fact("kv_heads", "KV heads", "Of keys and values: fewer make a smaller KV cache.", _RANGE),
    _fact("key_length", "Key length", "Numbers in the key of one head for one token."),
    _fact("value_length", "Value length", "Numbers in the value of one head for one token."),
    _fact("experts", "Experts", "Parts of a layer, of which only some process each token."),
    _fact("experts_used", "Experts used per token", "How many of them process each token."),
    _fact("vocabulary", "Vocabulary", "Different tokens that the model reads and writes.", _TOKENS),
    _fact("tokenizer", "Tokenizer", "The method that divides text into tokens.", TEXT),
    _fact("license", "Licence", "The terms of use, as the file declares them.", TEXT),
    _fact("tensors", "Tensors", "Number of named arrays of weights.", INTEGER, _tensors),
    _fact("metadata", "Metadata keys", "Number of named values in the header.", INTEGER, _keys),
    _fact("alignment", "Alignment", "Tensors begin at a multiple of it.", _BYTES, _of("alignment")),
    _fact("data_offset", "Data offset", "Where the weights begin.", _BYTES, _of("data_offset")),
    title="Facts",
)


def model_facts(
    model: Model, facts: Facts, declared: DeclaredQuantization | None = None
) -> list[Line]:
    """Return what is known of a model, safe to show."""
    quantized = None if declared is None else declared.sentence
    return lines_of(FACTS, ModelFacts(model, facts, quantized))
