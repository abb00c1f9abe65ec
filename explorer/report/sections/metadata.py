"""Every key with its value; long arrays by their first elements, the chat template as text."""

from __future__ import annotations

from typing import Final

from explorer.display import type_text, value_text
from explorer.errors import ExplorerError
from explorer.formats.model import MetadataEntry, Model
from explorer.report.components import cut, details, section, table
from explorer.report.elements import Element, element
from explorer.report.gathering import Evidence
from explorer.report.privacy import message, without_paths
from explorer.text import integer_text

_LONGEST_VALUE: Final = 400
_LONGEST_TEMPLATE: Final = 60_000
_TEMPLATES: Final = ("tokenizer.chat_template",)
_MAX_TEMPLATES: Final = 4


def metadata(evidence: Evidence) -> Element:
    """Return the table of metadata, and the chat templates."""
    model = evidence.model
    entries = model.metadata.entries
    rows = (
        (cut(entry.key), cut(type_text(entry)), without_paths(_value(model, entry)))
        for entry in entries
    )
    templates = [entry for entry in entries if entry.key.startswith(_TEMPLATES)]
    return section(
        "metadata",
        "Metadata",
        details(
            f"{integer_text(len(entries))} keys",
            table(("key", "type", "value"), rows, total=len(entries), names=(0,)),
        ),
        *(_template(entry) for entry in templates[:_MAX_TEMPLATES]),
    )


def _value(model: Model, entry: MetadataEntry) -> str:
    if entry.key.startswith(_TEMPLATES) and entry.length is None:
        return "shown below"
    try:
        return value_text(entry, _LONGEST_VALUE, model)
    except ExplorerError as error:
        return f"(cannot be shown: {message(error)})"


def _template(entry: MetadataEntry) -> Element | None:
    """Return a chat template: it is a program, shown as plain text and run by nobody."""
    try:
        text = entry.value
    except ExplorerError as error:
        return element("p", f"{cut(entry.key)} cannot be shown: {message(error)}")
    if not isinstance(text, str):
        return None
    shown = text[:_LONGEST_TEMPLATE]
    if len(shown) < len(text):
        shown += f"\n… (cut, {integer_text(len(text))} characters)"
    return details(f"Chat template ({cut(entry.key, 60)})", element("pre", shown))
