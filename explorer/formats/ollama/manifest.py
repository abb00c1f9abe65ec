"""Ollama's manifests: which blobs a model is made of, and what each of them is.

docs/safetensors_and_blobs.md, section 2. A manifest comes from a registry, so nothing in it is
trusted: a digest becomes a file name only if it is one, and a fault of a layer stays with it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import Any, Final, NamedTuple

from explorer.errors import FormatError
from explorer.formats.side_files import escapes
from explorer.formats.strict_json import read_json_file
from explorer.model_files import MODEL_SUFFIXES
from explorer.sources import Address, is_address
from explorer.text import plain_text, quoted

SCHEME: Final = "ollama:"
"""Begins a name where a path may stand too."""

DEFAULT_HOST: Final = "registry.ollama.ai"
DEFAULT_NAMESPACE: Final = "library"
DEFAULT_TAG: Final = "latest"

_OWNER: Final = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,79}"
_PART: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}"
_NAME: Final = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.:-]{{0,349}}/{_OWNER}/{_PART}/{_PART}")


class OllamaName(NamedTuple):
    """The name of one model: ``registry.ollama.ai/library/llama3:8b``, shown as ``llama3:8b``.

    Four path components below ``manifests``, so a valid one never leads out of it
    (ollama/types/model/name.go): the registry, the owner there, the model, and its version.
    """

    host: str
    namespace: str
    model: str
    tag: str

    @property
    def valid(self) -> bool:
        """Whether Ollama would accept it."""
        return _NAME.fullmatch("/".join(self)) is not None

    def __str__(self) -> str:
        """The name as Ollama shows it, without host and namespace where they are the default."""
        name = f"{self.model}:{self.tag}"
        if self.host != DEFAULT_HOST:
            return f"{self.host}/{self.namespace}/{name}"
        return name if self.namespace == DEFAULT_NAMESPACE else f"{self.namespace}/{name}"


def is_name(text: str) -> bool:
    """Return whether a text names a model, as ``ollama:NAME[:TAG]``, rather than a path."""
    return text.startswith(SCHEME) and not is_address(text)


def parse_name(text: str) -> OllamaName:
    """Parse a name as people type it: ``[HOST/][NAMESPACE/]MODEL[:TAG]``.

    Raises:
        FormatError: It is not a valid name.
    """
    *before, last = text.split("/")
    model, colon, tag = last.partition(":")
    if len(before) <= 2 and (tag or not colon):
        host = before[0] if len(before) == 2 else DEFAULT_HOST
        namespace = before[-1] if before else DEFAULT_NAMESPACE
        name = OllamaName(host, namespace, model, tag or DEFAULT_TAG)
        if name.valid:
            return name
    what = "is not a model's name. Names look like llama3, llama3:8b or hf.co/org/repository:Q4_0"
    raise FormatError(f"{quoted(text)} {what}")


MANIFESTS: Final = "manifests"
BLOBS: Final = "blobs"
CONFIG_KIND: Final = "config"

_MEDIA_TYPE: Final = "application/vnd.ollama.image."
_DIGEST: Final = re.compile(r"sha256[:-](?P<hex>[0-9a-fA-F]{64})")
_MAX_LAYERS: Final = 65_536
_DEPTH: Final = 4  # host, namespace, model, tag


class Layer(NamedTuple):
    """One blob of a model."""

    kind: str  # "model", "tensor", "config" …; the whole media type if it is not Ollama's
    digest: str  # sha256- and 64 hexadecimal digits, as the file is named; "" if there is none
    nbytes: int | None  # its size as the manifest says, or None if it does not say it
    name: str = ""  # name of the tensor or file; "" for other kinds
    fault: str | None = None  # what is wrong with the manifest's entry, or None

    @property
    def title(self) -> str:
        """What to call the layer in a message."""
        return plain_text(self.name or f"{self.kind} layer")

    @property
    def file_names(self) -> tuple[str, str]:
        """Names that its blob may have: today's, and that of very old stores."""
        return self.digest, self.digest.replace("sha256-", "sha256:", 1)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest."""

    path: Path  # its file
    models: Path  # the folder that holds manifests and blobs
    name: OllamaName  # the model's name, which is the manifest's place
    config: Layer | None  # the blob that describes the model, or None
    layers: tuple[Layer, ...]  # all other blobs, in order

    @property
    def all_layers(self) -> tuple[Layer, ...]:
        """Every layer, the config last."""
        return self.layers if self.config is None else (*self.layers, self.config)

    def of_kind(self, *kinds: str) -> tuple[Layer, ...]:
        return tuple(layer for layer in self.layers if layer.kind in kinds)


def is_manifest_path(path: Path) -> bool:
    """Return whether a path lies where a manifest does: four levels below ``manifests``.

    A tag may end as the file of a model does; then there must be blobs beside the manifests.
    """
    place = _absolute(path)
    if place.parts[-_DEPTH - 1 : -_DEPTH] != (MANIFESTS,):
        return False
    return place.suffix not in MODEL_SUFFIXES or os.path.isdir(place.parents[_DEPTH] / BLOBS)


def name_of(path: Path) -> OllamaName:
    """Return the name that a manifest has by its place; see `is_manifest_path`."""
    return OllamaName(*_absolute(path).parts[-_DEPTH:])


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # unlike Path.absolute, it takes ".." out


def read_manifest(path: Path, name: OllamaName | None = None) -> Manifest:
    """Read a manifest that lies where `is_manifest_path` says, or at an address of a registry.

    Raises:
        FormatError: It is not a manifest.
        SourceError: It cannot be read.
    """
    value = read_json_file(path)
    if not isinstance(value, dict):
        what = "is not a manifest: its JSON is not an object. Pull the model again"
        raise FormatError(what, path)
    layers = value.get("layers")
    config = value.get("config")
    if layers is None and config is None:
        what = "is not a manifest: it names neither layers nor a config. Pull the model again"
        raise FormatError(what, path)
    if not isinstance(layers, list | None):
        raise FormatError("is a manifest whose layers are not a list. Pull the model again", path)
    layers = layers or []
    if len(layers) > _MAX_LAYERS:
        what = f"is a manifest of {len(layers)} layers, more than {_MAX_LAYERS}. It is damaged"
        raise FormatError(what, path)
    is_remote = isinstance(path, Address)
    return Manifest(
        path=path,
        models=path.parents[1] if is_remote else _absolute(path).parents[_DEPTH],
        name=name if name is not None else name_of(path),
        config=None if config is None else _read_layer(config, CONFIG_KIND),
        layers=tuple(_read_layers(layers)),
    )


def _read_layers(values: list[Any]) -> Iterable[Layer]:
    """Yield the layers, and let go of their entries: JSON and layers of 65,000 are 40 MB more."""
    for number, value in enumerate(values):
        values[number] = None
        kind = value.get("mediaType") if isinstance(value, dict) else None
        if not isinstance(kind, str):
            yield Layer(f"layer {number}", "", None, fault="its entry names no media type")
        else:
            yield _read_layer(value, intern(kind.removeprefix(_MEDIA_TYPE)))


def _read_layer(value: Any, kind: str) -> Layer:
    if not isinstance(value, dict):
        return Layer(kind, "", None, fault="its entry is not an object")
    name, nbytes, digest = value.get("name"), value.get("size"), value.get("digest")
    name = name if isinstance(name, str) else ""
    if type(nbytes) is not int or nbytes < 0:
        nbytes = None
    match = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if match is None:
        shown = quoted(digest) if isinstance(digest, str) else "(not a text)"
        fault = f"its digest {shown} is not a SHA-256, so no blob is opened for it"
        return Layer(kind, "", nbytes, name, fault)
    unknown = None if nbytes is not None else "the manifest does not say its size"
    return Layer(kind, f"sha256-{match['hex']}", nbytes, name, unknown)


def find_blob(models: Path, layer: Layer) -> Path:
    """Return where a layer's blob lies, below the folder that holds ``blobs``.

    It need not be there.

    Raises:
        FormatError: The layer has no usable digest, or its blob is a link out of the store.
    """
    if not layer.digest:
        raise FormatError(layer.fault or "it has no digest")
    folder = models / BLOBS
    if isinstance(models, Address):
        return folder / layer.digest
    path, old = (folder / name for name in layer.file_names)
    if not os.path.lexists(path) and os.path.lexists(old):
        path = old
    if os.path.islink(path) and escapes(path, folder, models):
        raise FormatError("is a link out of the store. It is not opened", path)
    return path


def size_fault(layer: Layer, found_bytes: int) -> str | None:
    """Return what is wrong with a blob's size, or None."""
    if layer.nbytes is None or layer.nbytes == found_bytes:
        return None
    what = f"its blob has {found_bytes} bytes, the manifest says {layer.nbytes}"
    return f"{what}. Pull the model again"
