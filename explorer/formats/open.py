"""Open a model of any format: a file, a folder, a manifest, or an address of one of these."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from explorer.errors import Choice, SeveralModelsError
from explorer.formats.gguf.open import SHARD_NAME, open_gguf
from explorer.formats.model import Model
from explorer.formats.ollama.manifest import BLOBS, is_manifest_path, parse_name
from explorer.formats.side_files import CONFIG_NAME, INDEX_SUFFIX
from explorer.formats.tensors import natural_key
from explorer.model_files import GGUF_MAGIC, LEGACY_SUFFIXES
from explorer.parallel import collector_paused
from explorer.sources import Address, FileSource, is_address, parse_address
from explorer.sources.places import tags_of
from explorer.sources.remote.addresses import HUB, REGISTRY, HubPart, check_allowed
from explorer.sources.remote.requests import opening


def open_model(path: Path | str) -> Model:
    """Open a model: a GGUF or safetensors file, an index, a Hugging Face folder, or a manifest.

    A config.json stands for the safetensors beside it. A ``.dat`` or ``.imatrix`` file may be an
    importance matrix of older llama.cpp.

    Reads headers only.

    Args:
        path: Any shard of a split GGUF model opens the whole. An address is read over the network,
            with the extra ``remote``: ``https://…``, ``hf://…``, ``ollama://…``.

    Raises:
        FormatError: The file is not what it claims to be.
        SourceError: It is missing, unreadable or not a regular file.
        ManyRequestsError: An address takes more than 200 requests, and nobody has allowed them.
    """
    if is_address(path):
        return _open_address(parse_address(str(path)))
    with collector_paused():
        return _open(Path(path))


def several_at(address: Address) -> SeveralModelsError | None:
    """Return the tags of a model of a registry, where the address names none; None for one or none.

    `open_model` takes the tag ``latest``, as Ollama does; a window lets its user choose.

    Raises:
        FormatError: The name is not a valid one, or the list is not what the protocol says.
        SourceError: The registry cannot be asked.
    """
    if address.scheme != REGISTRY or ":" in address.name:
        return None
    name = parse_name(address.rest)
    place = Address(f"{REGISTRY}://{name.host}/{name.namespace}/{name.model}")
    with opening(address):
        tags = sorted(tags_of(place), key=natural_key)
    if len(tags) < 2:
        return None
    choices = [Choice(Address(f"{address}:{tag}"), f"{address.name}:{tag}", 0) for tag in tags]
    return SeveralModelsError(f"has {len(tags)} tags. Choose one", address, choices)


def _open(path: Path) -> Model:
    if os.path.isdir(path):  # unlike Path.is_dir, it never raises
        return _read("huggingface.open_folder", path)
    if is_manifest_path(path):  # before any ending: a tag may have one
        return _read("ollama.open.open_manifest", path)
    if path.suffix == ".json":
        kind = "index" if path.name.endswith(INDEX_SUFFIX) else "config"
        return _read(f"huggingface.open_{kind}", path)
    if path.suffix == ".safetensors" or _is_safetensors_blob(path):
        return _read("safetensors.open.open_safetensors", path)
    if path.suffix.lower() in LEGACY_SUFFIXES and not _is_gguf(path):
        return _read("imatrix.open_legacy_imatrix", path)
    return open_gguf(path)


def _read(name: str, path: Path | Address) -> Model:
    """Open a file of a format whose code is loaded with its first file: all take long to load."""
    module, _, function = name.rpartition(".")
    read: Callable[[Path | Address], Model]
    read = getattr(import_module(f"explorer.formats.{module}"), function)
    return read(path)


def _is_gguf(path: Path) -> bool:
    with FileSource(path) as source:
        return source.read(0, min(source.size, len(GGUF_MAGIC))) == GGUF_MAGIC


def _open_address(address: Address) -> Model:
    """Open what lies at an address; all files of a repository are of one commit."""
    check_allowed(address)
    with opening(address):
        return _open_counted(address)


def _open_counted(address: Address) -> Model:
    if address.scheme == REGISTRY:
        model = _read("ollama.open.open_registry", address)
    elif address.scheme == HUB and not _is_alone(address):
        from explorer.sources.remote.hub import pin  # noqa: PLC0415 - it loads the network's code

        model = _open_at(pin(address))
    else:
        model = _open_at(address)
    for file in model.files:
        file.source.end_header()
    return model


def _open_at(address: Address) -> Model:
    name = address.name
    is_file = address.scheme != HUB or HubPart.of(address).file
    if is_file and name.endswith(INDEX_SUFFIX):
        return _read("huggingface.open_index", address)
    if is_file and name == CONFIG_NAME:
        return _read("huggingface.open_config", address)
    if is_file and address.suffix == ".safetensors":
        return _read("safetensors.open.open_safetensors", address)
    if address.scheme == HUB and (not is_file or address.suffix != ".gguf"):
        return _read("huggingface.open_folder", address)
    return open_gguf(address)


def _is_alone(address: Address) -> bool:
    """Return whether an address of the hub names a whole model, for which no list is needed."""
    name = HubPart.of(address).file
    return name.endswith(".gguf") and SHARD_NAME.fullmatch(address.name) is None


def _is_safetensors_blob(path: Path) -> bool:
    """Return whether a file of a store, named by a digest, holds safetensors rather than GGUF."""
    if path.suffix or path.parent.name != BLOBS:
        return False
    with FileSource(path) as source:
        start = source.read(0, min(source.size, 9))
    return start[8:] == b"{" and not start.startswith(GGUF_MAGIC)  # of 123 tensors
