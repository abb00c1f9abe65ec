"""Open a model of Ollama's store by its manifest.

docs/safetensors_and_blobs.md, sections 2 and 3. The weights are a GGUF file, or hundreds of
safetensors blobs with a tensor or a group of tensors in each, which become one model. A blob that
is missing or damaged is a problem of the model, and stays in the list of tensors, as long as one
blob opens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError, FormatError, SourceError
from explorer.formats.gguf.open import open_gguf
from explorer.formats.limits import (
    EAGER_STRING_BYTES,
    MAX_JSON_FILE_BYTES,
    MAX_KEYS,
    MAX_TENSORS,
    MAX_TEXT_BYTES,
    MAX_TEXT_LAYERS,
)
from explorer.formats.model import (
    Metadata,
    MetadataEntry,
    Model,
    ProblemLog,
    decode_text,
    loaded_entry,
)
from explorer.formats.ollama import manifest as manifests
from explorer.formats.safetensors import groups
from explorer.formats.safetensors.open import SafetensorsFile, model_files, open_file
from explorer.formats.side_files import CONFIG_NAME, Config, read_object
from explorer.formats.strict_json import read_json_file
from explorer.formats.tensors import Extent, Spec, natural_key
from explorer.parallel import Check, current_check, never
from explorer.quantization import TensorType
from explorer.sources import Address, MemorySource, open_source
from explorer.sources.places import list_names, opening_ahead

NAME_KEY: Final = "ollama.name"

_TEXTS: Final = {
    "template": "template",
    "prompt": "template",  # its old name
    "system": "system",
    "license": "license",
}
_INDEX_NAME: Final = "model_index.json"  # of models that make images
_PARSED: Final = frozenset({manifests.CONFIG_KIND, "params", "messages"})
_PARSED_FILES: Final = frozenset({CONFIG_NAME, _INDEX_NAME})
_WEIGHTS: Final = frozenset({"model", "tensor"})
_OTHER_MODELS: Final = ("projector", "adapter", "draft")
_PREFIX: Final = "ollama."


def blob_size(
    manifest: manifests.Manifest, layer: manifests.Layer, log: ProblemLog
) -> tuple[Path, int] | None:
    """Return the path and the bytes of a layer's blob; report a fault, None if it is unreadable."""
    try:
        path = manifests.find_blob(manifest.models, layer)
        if isinstance(path, Address) and layer.nbytes is not None:  # nothing is fetched for it
            return path, layer.nbytes
        with open_source(path) as source:
            nbytes = source.size
    except ExplorerError as error:
        log.add_error(layer.title, blob_fault(layer, error))
        return None
    fault = layer.fault or manifests.size_fault(layer, nbytes)
    if fault is not None:
        log.add_error(layer.title, fault)
    return path, nbytes


def blob_fault(layer: manifests.Layer, error: ExplorerError) -> str:
    """Return why a layer's blob cannot be used, as a sentence."""
    if not layer.digest:
        return error.what
    return f"its blob {layer.digest[:19]}… {error.without_path}"


def read_texts(manifest: manifests.Manifest, log: ProblemLog) -> tuple[Config, list[MetadataEntry]]:
    """Read all layers but the weights: template, system prompt, licence, parameters.

    They become metadata: ``ollama.template``, ``ollama.params.temperature`` and so on. A file of a
    model of tensor blobs becomes ``config.…`` (config.json) or a text by its name.

    Args:
        log: Where missing and unusable layers go; the model opens without them.

    Returns:
        What ``config.json`` says, and all metadata, that of ``config.json`` included.
    """
    config = Config()
    entries = [loaded_entry(NAME_KEY, "string", str(manifest.name))]
    numbers: dict[str, int] = {}
    room = MAX_JSON_FILE_BYTES  # for all of them: many layers may name one large blob
    texts = [layer for layer in manifest.all_layers if layer.kind not in _WEIGHTS]
    if len(texts) > MAX_TEXT_LAYERS:
        what = f"only the first {MAX_TEXT_LAYERS} of {len(texts)} layers of text are read"
        log.add_warning(str(manifest.name), what)
    for layer in texts[:MAX_TEXT_LAYERS]:
        found = blob_size(manifest, layer, log)
        if found is None:
            continue
        path, nbytes = found
        room -= nbytes if layer.kind in _PARSED or layer.name in _PARSED_FILES else 0
        if room < 0 or len(entries) > MAX_KEYS:
            what = f"left out: at most {MAX_JSON_FILE_BYTES} bytes of such texts are read"
            log.add_warning(layer.title, what)
            continue
        if layer.kind == "json" and layer.name == CONFIG_NAME:
            config = read_object(path, layer.title, "config.", log)
            entries += config.entries
        elif layer.kind == "json" and layer.name == _INDEX_NAME:
            entries += read_object(path, layer.title, "model_index.", log).entries
        else:
            key = _PREFIX + _TEXTS.get(layer.kind, layer.kind)
            if layer.kind == "json":
                key = f"file.{layer.name}" if layer.name else "file"
            numbers[key] = numbers.get(key, 0) + 1
            if numbers[key] > 1:  # a model may have several licences
                key = f"{key}.{numbers[key]}"
            entries += _entries_of(layer, key, path, nbytes, log)
    return config, entries


def _entries_of(
    layer: manifests.Layer, key: str, path: Path, nbytes: int, log: ProblemLog
) -> Iterator[MetadataEntry]:
    if layer.kind in {manifests.CONFIG_KIND, "params"}:
        yield from read_object(path, layer.title, f"{key}.", log).entries
    elif layer.kind == "messages":
        yield from _messages(layer, key, path, log)
    elif layer.kind in _TEXTS or layer.kind == "json":
        yield _text_entry(key, path, nbytes)
    elif layer.kind in _OTHER_MODELS:
        yield loaded_entry(key, "string", str(path))


def _text_entry(key: str, path: Path, nbytes: int) -> MetadataEntry:
    """Return a text; a long one (a tokenizer has megabytes) is read on first use."""
    if nbytes <= EAGER_STRING_BYTES:
        with suppress(ExplorerError):  # it went away just now: reading it will raise
            return loaded_entry(key, "string", _read_text(path))
    return MetadataEntry(key, "string", None, partial(_read_text, path))


def _read_text(path: Path) -> str:
    with open_source(path, whole=True) as source:
        if source.size > MAX_TEXT_BYTES:
            what = f"has {source.size} bytes. At most {MAX_TEXT_BYTES} of text are shown"
            raise FormatError(what, path)
        return decode_text(source.read(0, source.size))


def _messages(
    layer: manifests.Layer, key: str, path: Path, log: ProblemLog
) -> Iterator[MetadataEntry]:
    """Yield one line for each message: who says what."""
    try:
        value = read_json_file(path)
    except ExplorerError as error:
        log.add_warning(layer.title, f"it {error.what}, and is left out")
        return
    if not isinstance(value, list):
        log.add_warning(layer.title, "it is not a JSON list, and is left out")
        return
    yield loaded_entry(key, "array[string]", list(map(_message, value)))


def _message(item: object) -> str:
    if isinstance(item, dict) and isinstance(item.get("content"), str):
        return f"{item.get('role')}: {item['content']}"
    return json.dumps(item, ensure_ascii=False)


_BLOB_BYTES: Final = 1 << 14  # fetched of a registry's at first: there are hundreds of blobs
_OLD_KEY: Final = "data"  # of every tensor up to 0.15; the layer has the real name
_DRAFT_PREFIX: Final = "draft."
_ABSENT: Final = SourceError("does not exist. It may have been moved or deleted")
_UNKNOWN: Final = Spec(TensorType("unknown", 0, 0), (), 0, 0)


def open_manifest(path: Path, check: Check = never) -> Model:
    """Open the model of a manifest.

    Args:
        path: A file four levels below ``manifests``.
        check: Called before each blob; raises to stop.

    Raises:
        FormatError: It is not a manifest, has no weights, or none of its blobs can be used.
        SourceError: It cannot be read.
    """
    return _open(manifests.read_manifest(path), check)


def open_registry(address: Address) -> Model:
    """Open a model of a registry, such as Ollama's.

    Args:
        address: ``ollama://NAME[:TAG]``.

    Raises:
        FormatError: See `open_manifest`; or the name is not a valid one.
        SourceError: The registry does not have it, or cannot be read.
    """
    name = manifests.parse_name(address.rest)
    place = Address(f"{address.scheme}://{name.host}/{name.namespace}/{name.model}")
    try:
        manifest = manifests.read_manifest(place / manifests.MANIFESTS / name.tag, name)
    except ExplorerError as error:
        error.path = address  # users know no manifest
        raise
    return replace(_open(manifest, current_check()), path=address)


def _open(manifest: manifests.Manifest, check: Check) -> Model:
    if manifest.of_kind("model"):
        return _open_file(manifest)
    if manifest.of_kind("tensor"):
        return _TensorBlobs(manifest, check).open()
    what = "has no weights here: it runs on another machine, or its download did not finish"
    raise FormatError(what, manifest.path)


def _open_file(manifest: manifests.Manifest) -> Model:
    log = ProblemLog()
    layer, *others = {part.digest: part for part in manifest.of_kind("model")}.values()
    found = [blob_size(manifest, part, log) for part in others]  # shards, of a split model
    try:
        path = manifests.find_blob(manifest.models, layer)
        model = open_gguf(path, [place[0] for place in found if place is not None])
    except ExplorerError as error:
        raise FormatError(f"{layer.title}: {blob_fault(layer, error)}", manifest.path) from error
    try:
        log.extend(model.problems)
        blob_size(manifest, layer, log)
        _, entries = read_texts(manifest, log)
        return replace(
            model,
            path=manifest.path,
            metadata=Metadata([*model.metadata.entries, *entries]),
            problems=log.problems(),
            projector=_projector(manifest),
        )
    except ExplorerError:
        model.close()
        raise


def _projector(manifest: manifests.Manifest) -> Path | None:
    """Return the first projector's blob; a fault of it is among the problems already."""
    for layer in manifest.of_kind("projector"):
        with suppress(ExplorerError):
            return manifests.find_blob(manifest.models, layer)
    return None


class _NoBlob(MemorySource):
    """A blob that cannot be used. Thousands may be missing, so its path is made when it is told."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(b"", folder)
        self._name = name

    @property
    def path(self) -> Path:
        return self._folder / self._name

    @path.setter
    def path(self, folder: Path) -> None:
        self._folder = folder


class _TensorBlobs:
    """Opens a model whose weights are safetensors blobs."""

    def __init__(self, manifest: manifests.Manifest, check: Check) -> None:
        self._manifest = manifest
        self._check = check
        self._log = ProblemLog()
        self._blobs: dict[str, SafetensorsFile | str] = {}  # or why one cannot be used
        self._rows: dict[int, tuple[list[groups.Stored], str | None]] = {}  # by the blob's id
        self._folder = manifest.models / manifests.BLOBS
        self._present: set[str] | None = None  # names of all blobs, if the folder can be listed
        with suppress(OSError, SourceError):
            self._present = set(list_names(self._folder))

    @property
    def _files(self) -> list[SafetensorsFile]:
        return [blob for blob in self._blobs.values() if not isinstance(blob, str)]

    def open(self) -> Model:
        """Read the header of every blob and make one model of them."""
        try:
            return self._open()
        except BaseException:  # whatever `check` raises, too
            for file in self._files:
                file.source.close()
            raise

    def _open(self) -> Model:
        manifest, log = self._manifest, self._log
        config, entries = read_texts(manifest, log)
        stored: dict[str, groups.Stored] = {}
        found = 0
        with opening_ahead(self._addresses(), _BLOB_BYTES):
            for scope, layer in enumerate(manifest.of_kind("tensor")):
                self._check()
                for tensor in self._stored(layer, scope):
                    found += 1
                    if stored.setdefault(tensor.name, tensor) is not tensor:
                        what = "is in more than one layer. The first one counts"
                        log.add_error(tensor.name, what)
                if found > MAX_TENSORS:  # many layers may name one blob
                    what = f"has more than {MAX_TENSORS} tensors. It is damaged"
                    raise FormatError(what, manifest.path)
        if not self._files:
            title = manifest.of_kind("tensor")[0].title
            fault = next(iter(self._blobs.values()))
            raise FormatError(f"none of its blobs can be used. {title}: {fault}", manifest.path)
        namings = (groups.OLLAMA_NAMING, groups.OLD_OLLAMA_NAMING)
        metadata = Metadata(entries)
        prefix = metadata.text("ollama.config.draft.tensor_prefix") or _DRAFT_PREFIX
        tensors = groups.StoredTensors.of(list(stored.values()))
        assembly = groups.assemble(tensors, namings, config.fields, log, prefix)
        return Model(
            format="ollama",
            path=manifest.path,
            files=model_files(self._files),
            metadata=metadata,
            tensors=assembly.table,
            groups=assembly,
            problems=log.problems(),
            config=config.fields,
            projector=_projector(manifest),
            stored=(tensors.names, tensors.specs),
            layer_bytes=sum(layer.nbytes or 0 for layer in manifest.of_kind("tensor")),
        )

    def _addresses(self) -> Iterator[Path]:
        """Yield where the blobs of a registry are; nothing of a store's."""
        if isinstance(self._manifest.models, Address):
            for layer in self._manifest.of_kind("tensor"):
                with suppress(ExplorerError):  # opening it tells
                    yield manifests.find_blob(self._manifest.models, layer)

    def _stored(self, layer: manifests.Layer, scope: int) -> Iterator[groups.Stored]:
        """Yield the tensors of a layer under their names in the model."""
        file = self._blob(layer)
        if isinstance(file, str):  # nothing but the name is known
            path = self._folder if layer.digest else self._manifest.path
            extent = Extent(_NoBlob(path, layer.digest), 0, 0)
            name = layer.title
            yield groups.Stored(name, _UNKNOWN, extent, damage=file, key=name, metadata={})
            return
        rows, key = self._rows_of(file)
        if (
            key is not None
            and layer.name
            and (key == _OLD_KEY or not groups.is_group_name(layer.name))
        ):
            # A key may be any text; the layer's name is the tensor's.
            if key == _OLD_KEY:  # scales, if any, are in layers of their own
                scope = -1
            for row in rows:
                name = layer.name + row.key.removeprefix(key)
                yield row._replace(name=name, scope=scope)
            return
        for row in rows:
            yield row._replace(scope=scope, packed_in=layer.name or None)

    def _rows_of(self, file: SafetensorsFile) -> tuple[list[groups.Stored], str | None]:
        """Return a blob's tensors; and, if it holds one weight alone, the weight's key.

        They are made once, however many layers share the blob, and sorted by their names: the order
        of the data means nothing.
        """
        known = self._rows.get(id(file))
        if known is None:
            rows = sorted(file.all_stored(), key=lambda row: natural_key(row.name))
            places = {row.name: place for place, row in enumerate(rows)}
            tensors = groups.StoredTensors.of(rows)
            weights = groups.find_weights(tensors, places, (groups.OLLAMA_NAMING,))
            companions = {part for weight in weights for part in weight.stored[1:]}
            main = [row.key for place, row in enumerate(rows) if place not in companions]
            # of a file that `_blobs` keeps
            known = self._rows[id(file)] = rows, main[0] if len(main) == 1 else None
        return known

    def _blob(self, layer: manifests.Layer) -> SafetensorsFile | str:
        """Return a layer's blob, read once however many layers share it, or what is wrong."""
        key = layer.digest or layer.title
        blob = self._blobs.get(key)
        if blob is None:
            blob = self._blobs[key] = self._read_blob(layer)
        if isinstance(blob, str):
            fault: str | None = blob
        else:
            fault = layer.fault or manifests.size_fault(layer, blob.source.size)
        if fault is not None:
            self._log.add_error(layer.title, fault)
        return blob

    def _read_blob(self, layer: manifests.Layer) -> SafetensorsFile | str:
        if layer.digest and self._present and self._present.isdisjoint(layer.file_names):
            return blob_fault(layer, _ABSENT)  # without a look at the disk, which 65,000 would need
        try:
            path = manifests.find_blob(self._manifest.models, layer)
            file = open_file(path, self._log, _BLOB_BYTES)
        except ExplorerError as error:
            return blob_fault(layer, error)
        if file.names:
            return file
        file.source.close()
        return "its blob holds no tensor"
