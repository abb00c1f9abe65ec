"""Open a model of Ollama's store by its manifest.

safetensors_and_blobs.md sections 2 and 3. The weights are a GGUF file, and then the model is a GGUF
model with what the manifest adds; or they are hundreds of safetensors blobs, a tensor or a group of
tensors in each, and then they become one model. A blob that is missing or damaged is a problem of
the model, and stays in the list of tensors, as long as one opens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError, FormatError
from explorer.formats.gguf.opening import open_gguf
from explorer.formats.limits import MAX_TENSORS
from explorer.formats.metadata import Metadata
from explorer.formats.model import Model, Severity
from explorer.formats.naming import natural_key
from explorer.formats.ollama.blobs import find_blob, size_fault
from explorer.formats.ollama.manifest import BLOBS, Layer, Manifest, read_manifest
from explorer.formats.ollama.texts import blob_fault, blob_size, read_texts
from explorer.formats.problems import ProblemLog
from explorer.formats.safetensors.entry import Spec
from explorer.formats.safetensors.groups import (
    OLD_OLLAMA_NAMING,
    OLLAMA_NAMING,
    Stored,
    assemble,
    find_weights,
    is_group_name,
)
from explorer.formats.safetensors.opening import SafetensorsFile, model_files, open_file
from explorer.formats.tensors import Extent
from explorer.quantization import TensorType
from explorer.sources import MemorySource

_OLD_KEY: Final = "data"  # of every tensor up to 0.15; the layer has the real name
_DRAFT_PREFIX: Final = "draft."
_UNKNOWN: Final = Spec(TensorType("unknown", 0, 0), (), 0, 0)


def open_manifest(path: Path, check: Callable[[], None] = lambda: None) -> Model:
    """Open the model of a manifest.

    Args:
        path: A file four levels below ``manifests``.
        check: Called before each blob; raises to give up.

    Raises:
        FormatError: It is no manifest, has no weights, or none of its blobs can be used.
        SourceError: It cannot be read.
    """
    manifest = read_manifest(path)
    if manifest.of_kind("model"):
        return _open_file(manifest)
    if manifest.of_kind("tensor"):
        return _TensorBlobs(manifest, check).open()
    what = "has no weights here: it runs on another machine, or its download did not finish"
    raise FormatError(what, path)


def _open_file(manifest: Manifest) -> Model:
    log = ProblemLog()
    layer, *others = {part.digest: part for part in manifest.of_kind("model")}.values()
    found = [blob_size(manifest, part, log) for part in others]  # shards, of a split model
    try:
        path = find_blob(manifest.models, layer)
        model = open_gguf(path, [place[0] for place in found if place is not None])
    except ExplorerError as error:
        raise FormatError(f"{layer.title}: {blob_fault(layer, error)}", manifest.path) from error
    try:
        for problem in model.problems:
            log.add(problem.severity, problem.where, problem.what)
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


def _projector(manifest: Manifest) -> Path | None:
    """Return the first projector's blob; a fault of it is among the problems already."""
    for layer in manifest.of_kind("projector"):
        try:
            return find_blob(manifest.models, layer)
        except ExplorerError:
            continue
    return None


class _TensorBlobs:
    """Opens a model whose weights are safetensors blobs."""

    def __init__(self, manifest: Manifest, check: Callable[[], None]) -> None:
        self._manifest = manifest
        self._check = check
        self._log = ProblemLog()
        self._blobs: dict[str, SafetensorsFile | str] = {}  # or why one cannot be used

    @property
    def _files(self) -> list[SafetensorsFile]:
        return [blob for blob in self._blobs.values() if not isinstance(blob, str)]

    def open(self) -> Model:
        """Read the header of every blob and make one model of them."""
        try:
            return self._open()
        except BaseException:  # whatever `check` raises to give up, too
            for file in self._files:
                file.source.close()
            raise

    def _open(self) -> Model:
        manifest, log = self._manifest, self._log
        config, entries = read_texts(manifest, log)
        stored: dict[str, Stored] = {}
        found = 0
        for scope, layer in enumerate(manifest.of_kind("tensor")):
            self._check()
            for tensor in self._stored(layer, scope):
                found += 1
                if stored.setdefault(tensor.name, tensor) is not tensor:
                    what = "is in more than one layer; the first one counts"
                    log.add(Severity.ERROR, tensor.name, what)
            if found > MAX_TENSORS:  # many layers may name one blob
                what = f"has more than {MAX_TENSORS} tensors; it is damaged"
                raise FormatError(what, manifest.path)
        if not self._files:
            title = manifest.of_kind("tensor")[0].title
            fault = next(iter(self._blobs.values()))
            raise FormatError(f"none of its blobs can be used; {title}: {fault}", manifest.path)
        assembly = assemble(
            list(stored.values()), (OLLAMA_NAMING, OLD_OLLAMA_NAMING), config.fields, log
        )
        metadata = Metadata(entries)
        prefix = metadata.text("ollama.config.draft.tensor_prefix") or _DRAFT_PREFIX
        table = assembly.table(prefix)  # which sorts the tensors
        return Model(
            format="ollama",
            path=manifest.path,
            files=model_files(self._files, assembly.tensors),
            metadata=metadata,
            tensors=table,
            groups=tuple(assembly.groups),
            problems=log.problems(),
            config=config.fields,
            projector=_projector(manifest),
        )

    def _stored(self, layer: Layer, scope: int) -> Iterator[Stored]:
        """Yield the tensors of a layer under their names in the model."""
        file = self._blob(layer)
        if isinstance(file, str):
            yield self._placeholder(layer, file)
            return
        rows = [file.stored(row)._replace(scope=scope) for row in range(len(file.header.names))]
        weights = find_weights(rows, (OLLAMA_NAMING,))
        companions = {id(part) for weight in weights for part in weight.stored[1:]}
        main = [row for row in rows if id(row) not in companions]
        key = main[0].key
        if len(main) == 1 and layer.name and (key == _OLD_KEY or not is_group_name(layer.name)):
            # A key may be any text; the layer's name is the tensor's.
            if key == _OLD_KEY:  # scales, if any, are in layers of their own
                scope = -1
            for row in rows:
                name = layer.name + row.key.removeprefix(key)
                yield row._replace(name=name, scope=scope)
            return
        rows.sort(key=lambda row: natural_key(row.name))  # the order of the data means nothing
        for row in rows:
            yield row._replace(packed_in=layer.name or None)

    def _blob(self, layer: Layer) -> SafetensorsFile | str:
        """Return a layer's blob, read once however many layers share it, or what is wrong."""
        key = layer.digest or layer.title
        blob = self._blobs.get(key)
        if blob is None:
            try:
                blob = open_file(find_blob(self._manifest.models, layer), self._log)
                if not blob.header.names:
                    blob.source.close()
                    blob = "its blob holds no tensor"
            except ExplorerError as error:
                blob = blob_fault(layer, error)
            self._blobs[key] = blob
        if isinstance(blob, str):
            fault: str | None = blob
        else:
            fault = layer.fault or size_fault(layer, blob.source.size)
        if fault is not None:
            self._log.add(Severity.ERROR, layer.title, fault)
        return blob

    def _placeholder(self, layer: Layer, fault: str) -> Stored:
        """Return a tensor of which nothing but the name is known."""
        folder = self._manifest.models / BLOBS
        path = folder / layer.digest if layer.digest else self._manifest.path
        extent = Extent(MemorySource(b"", path), 0, 0)
        return Stored(layer.title, _UNKNOWN, extent, fault, layer.title, {})
