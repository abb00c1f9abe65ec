"""What a model is: the facts about it, in one order, with one set of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from explorer.formats.facts import Facts, enum_name
from explorer.formats.gguf.arrays import first_elements
from explorer.formats.model import MetadataEntry, Model, Problem, Severity, Value
from explorer.formats.tensors import Tensor
from explorer.present import Figure
from explorer.quantization.huggingface.layout import Levels
from explorer.text import count_text, exact_text, float_text, integer_text, plain_text, shorten

FACTS: Final = {
    "name": "Name",
    "format": "Format",
    "architecture": "Architecture",
    "parameters": "Parameters",
    "file_type": "File type",
    "quantization": "Quantization",
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


def model_facts(model: Model, facts: Facts) -> list[Figure]:
    """Return what is known of a model. Texts come from the file: they are not escaped."""
    found = []
    for name, label in FACTS.items():
        value = _value(model, facts, name)
        if value is None or value == "":
            continue
        number = None if isinstance(value, str) else value
        text = value if isinstance(value, str) else _number_text(name, value)
        if name == "format" and model.version is not None:
            text = f"{text} version {model.version}"
        if name == "format" and model.byte_order == "big":
            text = f"{text}, big-endian"
        found.append(Figure(name, label, number, text))
    return found


_METHODS: Final = {
    **{"gptq": "GPTQ", "awq": "AWQ", "fp8": "FP8", "modelopt": "ModelOpt", "mxfp4": "MXFP4"},
    **{"hqq": "HQQ", "bitnet": "BitNet"},
}
_FLOATS: Final = frozenset({Levels.E2M1, Levels.E4M3, Levels.E5M2, Levels.STORED})
_SHOWN_KINDS: Final = 2
_SHOWN_MODULES: Final = 3


def quantization_text(model: Model) -> str | None:
    """Say how the weights of a Hugging Face model are quantized; None where no method is known.

    "AWQ, 4 bits, groups of 128; lm_head left alone". It is what the keys say; where something
    else is declared, a problem of the model says so. Names come from the file, not escaped.
    """
    if model.declared is None:
        return None
    method = model.declared.method
    if not any(kind.quantized for kind in model.tensors.columns.types):
        declared = _METHODS.get(method, method)
        return f"{declared} is declared; tensors are listed as they are stored" if method else None
    kinds: Counter[tuple[str, str]] = Counter()  # bytes by method and kind of codes
    groups: dict[tuple[str, str], set[int]] = {}
    left_alone: dict[str, None] = {}
    for tensor in model.tensors.rows:
        if tensor.companions is not None:
            layout = tensor.companions.layout
            codes = f"{layout.bits} bits" if layout.name[-1].isdigit() else ""
            codes = layout.name.upper() if layout.levels in _FLOATS else codes
            kind = _METHODS.get(layout.scheme, layout.scheme), codes
            kinds[kind] += tensor.nbytes
            sizes = groups.setdefault(kind, set())
            if layout.group_size not in {None, layout.shape[-1]}:  # else a scale for each row
                sizes.add(layout.group_size or 0)
        elif len(tensor.shape) > 1 and tensor.name.endswith(".weight"):
            left_alone[tensor.parsed_name.role] = None
    if not kinds:  # MLX has its own words for it
        return None
    parts = [_kind_text(kind, groups[kind]) for kind, _ in kinds.most_common(_SHOWN_KINDS)]
    if len(kinds) > _SHOWN_KINDS:
        parts.append("other kinds")
    return " and ".join(parts) + _left_alone([one for one in left_alone if "embed" not in one])


def _kind_text(kind: tuple[str, str], groups: set[int]) -> str:
    method, codes = kind
    parts = [method] if codes in {"", method} else [method, codes]
    if groups:
        parts.append("groups of " + ", ".join(map(str, sorted(groups)[:_SHOWN_MODULES])))
    return ", ".join(parts)


def _left_alone(modules: list[str]) -> str:
    if not modules:
        return ""
    more = len(modules) - _SHOWN_MODULES
    shown = ", ".join(shorten(one, 40) for one in modules[:_SHOWN_MODULES])
    return f"; {shown}{f' and {more} more' if more > 0 else ''} left alone"


def companions_record(tensor: Tensor) -> dict[str, Any]:
    """Return what JSON says of a weight with companions, by stored name; nothing of another one."""
    companions = tensor.companions
    if companions is None:
        return {}
    layout = companions.layout
    return {
        "scheme": layout.scheme,
        "bits": layout.bits,
        "group_size": layout.group_size,
        "companions": dict(companions.keys),
        "attached": list(companions.attached),
    }


_OF_MODELS: Final[dict[str, Callable[[Model], str | int | None]]] = {
    "format": lambda model: _FORMATS[model.format],
    "quantization": quantization_text,
    "tensors": lambda model: len(model.tensors),
    "metadata": lambda model: len(model.metadata.entries),
    "alignment": lambda model: model.alignment,
    "data_offset": lambda model: model.data_offset,
}


def _value(model: Model, facts: Facts, name: str) -> str | int | float | None:
    if name in _OF_MODELS:
        return _OF_MODELS[name](model)
    found: str | int | float | None = getattr(facts, name)
    return found


def _number_text(name: str, value: float) -> str:
    if not isinstance(value, int):
        return float_text(value, 4)
    if name == "nbytes":
        return exact_text(value)
    text = integer_text(value)
    if name == "parameters":
        return f"{count_text(value)} ({text})"
    if name in _TOKENS:
        return f"{text} tokens"
    return f"{text} bytes" if name in _BYTES else text


DEFAULT_LIMIT: Final = 80
"""Characters of a value's summary."""

_SHOWN_ELEMENTS: Final = 8


def type_text(entry: MetadataEntry) -> str:
    """Return the type of an entry: ``"uint32"``, ``"string[262,144]"``."""
    name = plain_text(entry.type_name)
    if entry.length is None:
        return name
    inner = name.removeprefix("array[").removesuffix("]") if name.startswith("array[") else name
    return f"{inner}[{integer_text(entry.length)}]"


def value_text(entry: MetadataEntry, limit: int = DEFAULT_LIMIT, model: Model | None = None) -> str:
    """Return a line about a value: a scalar, or an array's first elements and its length.

    May read the file; of the array of an open model, only the first elements.

    Args:
        limit: Most characters of the line, the length of an array aside.

    Raises:
        ExplorerError: The file changed since it was opened, or the value is too large to decode.
    """
    if entry.length is None:
        return scalar_text(entry.value, limit, entry.key)
    if model is not None:
        head: Sequence[Value] = first_elements(model, entry, _SHOWN_ELEMENTS)
    else:
        value = entry.value
        head = value[:_SHOWN_ELEMENTS] if isinstance(value, Sequence) else [value]
    return _array_text(entry, head, limit)


def scalar_text(value: Value, limit: int = DEFAULT_LIMIT, key: str = "") -> str:
    """Return one value as a line; with its key, an enumerated one by its name."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        name = enum_name(key, value)
        return str(value) if name in (None, str(value)) else f"{name} ({value})"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, str):
        return shorten(plain_text(value[: limit + 1]), limit)
    return _elements_text(value, len(value), limit, lambda item: scalar_text(item, limit))


def _array_text(entry: MetadataEntry, head: Sequence[Value], limit: int) -> str:
    total = entry.length or 0

    def element(item: Value) -> str:
        name = enum_name(entry.key, item)
        if name is not None:
            return name
        text = scalar_text(item, limit, entry.key)
        return f'"{text}"' if isinstance(item, str) else text

    text = _elements_text(head, total, limit, element)
    return f"{text} ({integer_text(total)})" if total > len(head) else text


def _elements_text(
    head: Sequence[Value], total: int, limit: int, element: Callable[[Value], str]
) -> str:
    """Return ``[a, b, …]``, with as many elements as fit."""
    shown: list[str] = []
    room = limit - 4
    for item in head[:_SHOWN_ELEMENTS]:
        text = element(item)
        room -= len(text) + 2
        if room < 0 and shown:
            break
        shown.append(shorten(text, limit))
    if len(shown) < total:
        shown.append("…")
    return f"[{', '.join(shown)}]"


_MARKS: Final = {Severity.ERROR: "✘", Severity.WARNING: "⚠"}  # both are in DejaVu


def mark(severity: Severity) -> str:
    """Return the sign of a problem; a sentence goes with it, so no colour is needed."""
    return _MARKS[severity]


def gravest(problems: Sequence[Problem]) -> Problem | None:
    """Return the first error, or the first warning if there is no error."""
    errors = (problem for problem in problems if problem.severity is Severity.ERROR)
    return next(errors, problems[0] if problems else None)


_LONGEST_PROBLEM: Final = 1000
_LONGEST_WHERE: Final = 200


def problem_line(problem: Problem) -> str:
    """Return a problem as a line, safe to show: its sign, where it is, what is wrong."""
    where = f"{shorten(plain_text(problem.where), _LONGEST_WHERE)}: " if problem.where else ""
    what = shorten(plain_text(problem.what), _LONGEST_PROBLEM)
    return f"{mark(problem.severity)}  {where}{what}"


def spoken_problems(title: str, problems: Sequence[Problem]) -> str:
    """Return what a screen reader says of something with problems, safe to show."""
    first = gravest(problems)
    if first is None:
        return title
    more = f", and {integer_text(len(problems) - 1)} more" if len(problems) > 1 else ""
    what = shorten(plain_text(first.what), _LONGEST_PROBLEM)
    return f"{title}, {first.severity}: {what}{more}"
