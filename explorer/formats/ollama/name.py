"""Names of Ollama's models: ``registry.ollama.ai/library/llama3:8b``, shown as ``llama3:8b``.

safetensors_and_blobs.md section 2; ollama/types/model/name.go. A name is four path components below
``manifests``, so a valid one can never lead out of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from explorer.errors import FormatError
from explorer.formats.bounded_json import shorten

SCHEME: Final = "ollama:"
"""Begins a name where a path may stand too."""

DEFAULT_HOST: Final = "registry.ollama.ai"
DEFAULT_NAMESPACE: Final = "library"
DEFAULT_TAG: Final = "latest"

_HOST: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,349}")
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,79}")
_PART: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")


@dataclass(frozen=True, slots=True)
class OllamaName:
    """The name of one model.

    Attributes:
        host: Registry that it comes from.
        namespace: Its owner there.
        model: The model.
        tag: Which version of it.
    """

    host: str
    namespace: str
    model: str
    tag: str

    @property
    def valid(self) -> bool:
        """Whether Ollama would accept it."""
        return bool(
            _HOST.fullmatch(self.host)
            and _NAMESPACE.fullmatch(self.namespace)
            and _PART.fullmatch(self.model)
            and _PART.fullmatch(self.tag)
        )

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """The path components below ``manifests``."""
        return self.host, self.namespace, self.model, self.tag

    def __str__(self) -> str:
        """The name as Ollama shows it, without host and namespace where they are the default."""
        name = f"{self.model}:{self.tag}"
        if self.host != DEFAULT_HOST:
            return f"{self.host}/{self.namespace}/{name}"
        return name if self.namespace == DEFAULT_NAMESPACE else f"{self.namespace}/{name}"


def is_name(text: str) -> bool:
    """Tell whether a text names a model, as ``ollama:NAME[:TAG]``, rather than a path."""
    return text.startswith(SCHEME)


def parse_name(text: str) -> OllamaName:
    """Understand a name as people type it: ``[HOST/][NAMESPACE/]MODEL[:TAG]``.

    Raises:
        FormatError: It is no valid name.
    """
    *before, last = text.split("/")
    model, colon, tag = last.partition(":")
    if len(before) <= 2 and (tag or not colon):
        host = before[0] if len(before) == 2 else DEFAULT_HOST
        namespace = before[-1] if before else DEFAULT_NAMESPACE
        name = OllamaName(host, namespace, model, tag or DEFAULT_TAG)
        if name.valid:
            return name
    what = "is not a model's name; names look like llama3, llama3:8b or hf.co/org/repository:Q4_0"
    raise FormatError(f"{shorten(text)} {what}")
