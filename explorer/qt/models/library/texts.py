"""Texts that come with a model: template, system prompt, licence, parameters, messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from explorer.errors import ExplorerError
from explorer.formats.model import decode_text
from explorer.formats.ollama.manifest import CONFIG_KIND
from explorer.formats.strict_json import read_json_file
from explorer.qt.models.library.rows import translate
from explorer.sources import FileSource
from explorer.text import integer_text

_TEXT_LAYERS: Final = frozenset(
    {"template", "prompt", "system", "license", "params", "messages", "json", CONFIG_KIND}
)
_TEXT_SUFFIXES: Final = frozenset({".json", ".txt", ".md", ".jinja", ".yaml", ".yml"})
_TEXT_NAMES: Final = frozenset({"license", "licence", "notice", "readme", "modelfile"})
_MOST_BYTES: Final = 128 << 10
"""Bytes of a text that are shown: laying out more holds up the window. Licences have 11 KiB."""


def is_text_layer(kind: str, name: str) -> bool:
    """Tell whether a layer's content is text."""
    return kind in _TEXT_LAYERS or (not kind and is_text_file(Path(name)))


def is_text_file(path: Path) -> bool:
    """Tell by its name whether a file's content is text."""
    return path.suffix.lower() in _TEXT_SUFFIXES or path.stem.lower() in _TEXT_NAMES


def read_text(path: Path) -> str:
    """Return a text as it is to be read; JSON is laid out in lines. For a worker.

    Raises:
        SourceError: It cannot be read.
    """
    with FileSource(path) as source:
        nbytes = source.size
        raw = source.read(0, min(nbytes, _MOST_BYTES))
    if nbytes > len(raw):
        note = translate("… cut here: {shown} of {all} bytes are shown").format(
            shown=integer_text(len(raw)), all=integer_text(nbytes)
        )
        return f"{decode_text(raw)}\n\n{note}"
    if raw.lstrip()[:1] in {b"{", b"["}:
        try:
            text = _laid_out(read_json_file(path))
        except ExplorerError:  # text that only begins like JSON, such as a template
            return decode_text(raw)
        if len(text) <= 2 * _MOST_BYTES:  # indenting what is nested deep makes it 100 times longer
            return text
    return decode_text(raw)


def _laid_out(value: Any) -> str:
    if isinstance(value, list) and value and all(map(_is_message, value)):
        return "\n\n".join(f"{item.get('role')}:\n{item['content']}" for item in value)
    return json.dumps(value, indent=2, ensure_ascii=False)


def _is_message(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("content"), str)
