"""What an Ollama model carries beside its weights: template, system prompt, licence, parameters.

safetensors_and_blobs.md section 2. All of it becomes metadata: ``ollama.template``,
``ollama.params.temperature``, ``ollama.config.renderer`` and so on. A file of a model of tensor
blobs becomes ``config.…`` (config.json, as in a Hugging Face folder) or a text by its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError, FormatError
from explorer.formats.bounded_json import read_json_file
from explorer.formats.config import CONFIG_NAME, Config, loaded_entry, read_object
from explorer.formats.limits import EAGER_STRING_BYTES, MAX_JSON_FILE_BYTES, MAX_TEXT_BYTES
from explorer.formats.metadata import MetadataEntry, decode_text
from explorer.formats.model import Severity
from explorer.formats.ollama.blobs import find_blob, size_fault
from explorer.formats.ollama.manifest import CONFIG_KIND, Layer, Manifest
from explorer.formats.problems import ProblemLog
from explorer.sources import FileSource

NAME_KEY: Final = "ollama.name"

_TEXTS: Final = {
    "template": "template",
    "prompt": "template",  # its old name
    "system": "system",
    "license": "license",
}
_INDEX_NAME: Final = "model_index.json"  # of models that make images
_PARSED: Final = frozenset({CONFIG_KIND, "params", "messages"})
_PARSED_FILES: Final = frozenset({CONFIG_NAME, _INDEX_NAME})
_WEIGHTS: Final = frozenset({"model", "tensor"})
_BESIDE: Final = ("projector", "adapter", "draft")
_PREFIX: Final = "ollama."


def blob_size(manifest: Manifest, layer: Layer, log: ProblemLog) -> tuple[Path, int] | None:
    """Find a layer's blob; report a fault, and return None if there is nothing to read.

    Returns:
        Its path and its size in bytes.
    """
    try:
        path = find_blob(manifest.models, layer)
        with FileSource(path) as source:
            nbytes = source.size
    except ExplorerError as error:
        log.add(Severity.ERROR, layer.title, blob_fault(layer, error))
        return None
    fault = layer.fault or size_fault(layer, nbytes)
    if fault is not None:
        log.add(Severity.ERROR, layer.title, fault)
    return path, nbytes


def blob_fault(layer: Layer, error: ExplorerError) -> str:
    """Return why a layer's blob cannot be used, as a sentence."""
    if not layer.digest:
        return error.what
    return f"its blob {layer.digest[:19]}… {error.what} {error.where}".rstrip()


def read_texts(manifest: Manifest, log: ProblemLog) -> tuple[Config, list[MetadataEntry]]:
    """Read all layers but the weights.

    Args:
        manifest: The model's manifest.
        log: Where missing and unusable layers go; the model opens without them.

    Returns:
        What ``config.json`` says, and all metadata, that of ``config.json`` included.
    """
    config = Config()
    entries = [loaded_entry(NAME_KEY, "string", str(manifest.name))]
    numbers: dict[str, int] = {}
    room = MAX_JSON_FILE_BYTES  # for all of them: many layers may name one large blob
    for layer in manifest.all_layers:
        if layer.kind in _WEIGHTS:
            continue
        found = blob_size(manifest, layer, log)
        if found is None:
            continue
        path, nbytes = found
        room -= nbytes if layer.kind in _PARSED or layer.name in _PARSED_FILES else 0
        if room < 0:
            what = f"left out: at most {MAX_JSON_FILE_BYTES} bytes of such texts are read"
            log.add(Severity.WARNING, layer.title, what)
            continue
        if layer.kind == "json" and layer.name == CONFIG_NAME:
            config = read_object(path, layer.title, "config.", log)
            entries += config.entries
        elif layer.kind == "json" and layer.name == _INDEX_NAME:
            entries += read_object(path, layer.title, "model_index.", log).entries
        else:
            key = _key_of(layer)
            numbers[key] = numbers.get(key, 0) + 1
            if numbers[key] > 1:  # a model may have several licences
                key = f"{key}.{numbers[key]}"
            entries += _entries_of(layer, key, path, nbytes, log)
    return config, entries


def _key_of(layer: Layer) -> str:
    if layer.kind == "json":
        return f"file.{layer.name}" if layer.name else "file"
    return _PREFIX + _TEXTS.get(layer.kind, layer.kind)


def _entries_of(
    layer: Layer, key: str, path: Path, nbytes: int, log: ProblemLog
) -> Iterator[MetadataEntry]:
    if layer.kind in {CONFIG_KIND, "params"}:
        yield from read_object(path, layer.title, f"{key}.", log).entries
    elif layer.kind == "messages":
        yield from _messages(layer, key, path, log)
    elif layer.kind in _TEXTS or layer.kind == "json":
        yield _text_entry(key, path, nbytes)
    elif layer.kind in _BESIDE:
        yield loaded_entry(key, "string", str(path))


def _text_entry(key: str, path: Path, nbytes: int) -> MetadataEntry:
    """Return a text; a long one (a tokenizer has megabytes) is read when it is looked at."""
    load = _text_loader(path)
    if nbytes > EAGER_STRING_BYTES:
        return MetadataEntry(key, "string", None, load)
    try:
        return loaded_entry(key, "string", load())
    except ExplorerError:  # it went away just now: looking at it will tell
        return MetadataEntry(key, "string", None, load)


def _text_loader(path: Path) -> Callable[[], str]:
    def load() -> str:
        with FileSource(path) as source:
            if source.size > MAX_TEXT_BYTES:
                what = f"has {source.size} bytes; at most {MAX_TEXT_BYTES} of text are shown"
                raise FormatError(what, path)
            return decode_text(source.read(0, source.size))

    return load


def _messages(layer: Layer, key: str, path: Path, log: ProblemLog) -> Iterator[MetadataEntry]:
    """Yield one line for each message: who says what."""
    try:
        value = read_json_file(path)
    except ExplorerError as error:
        log.add(Severity.WARNING, layer.title, f"it {error.what}, and is left out")
        return
    if not isinstance(value, list):
        log.add(Severity.WARNING, layer.title, "it is not a JSON list, and is left out")
        return
    lines = [_message(item) for item in value]
    yield loaded_entry(key, "array[string]", lines)


def _message(item: object) -> str:
    if isinstance(item, dict) and isinstance(item.get("content"), str):
        return f"{item.get('role')}: {item['content']}"
    return json.dumps(item, ensure_ascii=False)
