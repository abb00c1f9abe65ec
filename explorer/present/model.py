"""What a model is: the facts about it, in one order, with one set of labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from explorer.formats.attachments import is_adapter, is_importance_matrix
from explorer.formats.components import IMAGE_ARCHITECTURES
from explorer.formats.facts import Facts, enum_name
from explorer.formats.gguf.arrays import first_elements
from explorer.formats.model import MetadataEntry, Model, Problem, Severity, Value
from explorer.text import fixed_text, float_text, integer_text, listed, plain_text, shorten

_NO_CHAT: Final = {
    "adapter": "An adapter",
    "mmproj": "A projector",
    "imatrix": "An importance matrix",
}
_LARGE: Final = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"))


def model_sentence(model: Model, facts: Facts) -> str:
    """Say in one sentence what a model is.

    "A chat model of 8.03 billion weights with 4.9 bits each, for up to 131,072 tokens."
    """
    parts = [_kind_of_model(model, facts)]
    if facts.parameters:
        unit, word = next((one for one in _LARGE if facts.parameters >= one[0]), (1, ""))
        number = (
            integer_text(facts.parameters) if unit == 1 else float_text(facts.parameters / unit, 3)
        )
        parts.append(f" of {number} {word}".rstrip() + " weights")
        if facts.bits_per_weight:
            parts.append(f" with {fixed_text(facts.bits_per_weight, 1)} bits each")
    if facts.context_length:
        parts.append(f", for up to {integer_text(facts.context_length)} tokens")
    if facts.components:
        names = (plain_text(one.name) for one in facts.components)
        parts.append(f": {listed(names, _SHOWN_ELEMENTS)}")
    return "".join(parts) + "."


def _kind_of_model(model: Model, facts: Facts) -> str:
    made = IMAGE_ARCHITECTURES.get(facts.architecture or "")
    if made:
        return f"A diffusion model for {made}, without text encoder and VAE,"
    if facts.components:
        return "A checkpoint"
    kind = next((e.value for e in model.metadata.entries if e.key == "general.type"), None)
    if isinstance(kind, str) and kind in _NO_CHAT:
        return _NO_CHAT[kind]
    if facts.architecture and "bert" in facts.architecture:
        return "An embedding model"
    keys = (entry.key for entry in model.metadata.entries)
    chats = any(key in {"template", "chat_template", "tokenizer.chat_template"} for key in keys)
    return "A chat model" if chats else "A model"


def kind_of(model: Model) -> str | None:
    """Return what a file is that is not a whole model; None of a model. It is not escaped."""
    if not (is_importance_matrix(model) or is_adapter(model)):
        return None
    from explorer.present.attachments import kind_text  # noqa: PLC0415 - few files need it

    return kind_text(model)


_ARRAY_ELEMENTS: Final = 32  # of an array in JSON (docs/interface.md)


def plain_value(model: Model, entry: MetadataEntry) -> Any:
    """Return a value as JSON has it; of an array the first elements.

    Raises:
        ExplorerError: The file changed since it was opened, or the value is too large to decode.
    """
    return json_value(
        entry.value if entry.length is None else first_elements(model, entry, _ARRAY_ELEMENTS)
    )


def json_value(value: Any) -> Any:
    """Return sequences as lists and paths as texts, for JSON; other values as they are."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_value(item) for item in value]
    return value


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
