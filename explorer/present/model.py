"""What a model is: the facts about it, in one order, with one set of labels."""

from __future__ import annotations

from typing import Final

from explorer.formats.facts import Facts
from explorer.formats.model import Model
from explorer.present import Figure, Translate, english
from explorer.present.plan import exact_text
from explorer.text import count_text, float_text, integer_text

FACTS: Final = {
    "name": "Name",
    "format": "Format",
    "architecture": "Architecture",
    "parameters": "Parameters",
    "file_type": "File type",
    "nbytes": "Size of tensors",
    "bits_per_weight": "Bits per weight",
    "context_length": "Context length",
    "layers": "Layers",
    "embedding_length": "Embedding length",
    "feed_forward_length": "Feed-forward length",
    "heads": "Attention heads",
    "kv_heads": "KV heads",
    "key_length": "Key length",
    "value_length": "Value length",
    "experts": "Experts",
    "experts_used": "Experts used per token",
    "vocabulary": "Vocabulary",
    "tokenizer": "Tokenizer",
    "license": "Licence",
    "tensors": "Tensors",
    "metadata": "Metadata keys",
    "alignment": "Alignment",
    "data_offset": "Data offset",
}
"""Labels by name, in order."""

_FORMATS: Final = {"gguf": "GGUF", "safetensors": "safetensors", "ollama": "Ollama"}
_TOKENS: Final = frozenset({"context_length", "vocabulary"})
_BYTES: Final = frozenset({"alignment", "data_offset"})


def model_facts(model: Model, facts: Facts, tr: Translate = english) -> list[Figure]:
    """Return what is known of a model. Texts come from the file: they are not escaped."""
    found = []
    for name, label in FACTS.items():
        value = _value(model, facts, name)
        if value is None or value == "":
            continue
        number = None if isinstance(value, str) else value
        text = value if isinstance(value, str) else _number_text(name, value, tr)
        if name == "format" and model.version is not None:
            text = tr("{format} version {version}").format(format=text, version=model.version)
        if name == "format" and model.byte_order == "big":
            text = tr("{format}, big-endian").format(format=text)
        found.append(Figure(name, tr(label), number, text))
    return found


def _value(model: Model, facts: Facts, name: str) -> str | int | float | None:
    match name:
        case "format":
            return _FORMATS[model.format]
        case "tensors":
            return len(model.tensors)
        case "metadata":
            return len(model.metadata.entries)
        case "alignment":
            return model.alignment
        case "data_offset":
            return model.data_offset
    found: str | int | float | None = getattr(facts, name)
    return found


def _number_text(name: str, value: float, tr: Translate) -> str:
    if not isinstance(value, int):
        return float_text(value, 4)
    if name == "nbytes":
        return exact_text(value, tr)
    text = integer_text(value)
    if name == "parameters":
        return f"{count_text(value)} ({text})"
    if name in _TOKENS:
        return tr("{count} tokens").format(count=text)
    return tr("{n} bytes").format(n=text) if name in _BYTES else text
