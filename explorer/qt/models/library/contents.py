"""What is inside one downloaded model: files or layers → groups → tensors. For a worker.

A model that cannot be opened still lists its files, so that one sees what is missing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError, system_reason
from explorer.formats import Problem, Severity, open_model
from explorer.formats.ollama.manifest import Layer, Manifest, find_blob, read_manifest, size_fault
from explorer.formats.ollama.open import open_manifest
from explorer.formats.side_files import hub_cache, leads_out
from explorer.formats.tensors import natural_key
from explorer.qt.models.library.rows import Row, RowKind, note_row, title_of, translate
from explorer.qt.models.library.tensor_rows import TensorRows
from explorer.qt.models.library.texts import is_text_file, is_text_layer
from explorer.stores import Entry, StoreKind
from explorer.stores.entries import Check

_CHECK_EVERY: Final = 512
_MOST_FILES: Final = 2000  # of a folder; a model's folder has some dozens


def read_contents(kind: StoreKind, entry: Entry, check: Check = lambda: None) -> tuple[Row, ...]:
    """Return the rows below a model.

    Args:
        kind: Whose store it is in.
        entry: The model.
        check: Called now and then; raises to give up.
    """
    if entry.format is None:  # listing told why nothing may be opened
        return tuple(_problem_rows(entry)) or (note_row(translate("nothing is here")),)
    if kind is StoreKind.OLLAMA:
        return tuple(_manifest_rows(entry.path, check))
    try:
        model = open_model(entry.path)
    except ExplorerError as error:
        rows = [note_row(_sentence(error), Severity.ERROR), *_side_files(entry.path, set())]
        return tuple(rows)
    with model:
        tensors = TensorRows(model, check)
        files = [_file_row(file.path, entry.path, tensors) for file in model.files]
    others = _side_files(entry.path, {file.path for file in model.files})
    return (*files, *others)


def _problem_rows(entry: Entry) -> Iterator[Row]:
    for problem in entry.problems:
        yield note_row(problem.what, problem.severity)


def _sentence(error: ExplorerError) -> str:
    return f"{error.what} {error.where}".rstrip()


# Ollama: layers


def _manifest_rows(path: Path, check: Check) -> Iterator[Row]:
    try:
        manifest = read_manifest(path)
    except ExplorerError as error:
        yield note_row(_sentence(error), Severity.ERROR)
        return
    tensors: TensorRows | None = None
    try:
        with open_manifest(path, check) as model:
            tensors = TensorRows(model, check)
    except ExplorerError as error:
        yield note_row(_sentence(error), Severity.ERROR)
    for number, layer in enumerate(manifest.all_layers):
        if number % _CHECK_EVERY == 0:
            check()
        yield _layer_row(manifest, number, layer, tensors)


def _layer_row(manifest: Manifest, number: int, layer: Layer, tensors: TensorRows | None) -> Row:
    path, nbytes, fault = None, layer.nbytes, layer.fault
    try:
        path = find_blob(manifest.models, layer)
        nbytes = _file_bytes(path)
        fault = fault or size_fault(layer, nbytes)
    except ExplorerError as error:
        path, fault = None, fault or error.what
    except FileNotFoundError:
        path, fault = None, translate("its blob is missing; pull the model again")
    except OSError as error:
        path, fault = None, system_reason(error)
    problems = () if fault is None else (Problem(Severity.ERROR, layer.title, fault),)
    row = Row(
        RowKind.PART,
        f"{number}",
        title_of(layer.name or _kind_title(layer.kind)),
        nbytes=nbytes,
        note=_kind_title(layer.kind) if layer.name else "",
        problems=problems,
        path=path,
        digest=layer.digest,
        text=path is not None and is_text_layer(layer.kind, layer.name),
    )
    return row if path is None or tensors is None else tensors.fill(row, path)


def _kind_title(kind: str) -> str:
    known = {
        "model": translate("Model (GGUF)"),
        "projector": translate("Projector (GGUF)"),
        "adapter": translate("Adapter (GGUF)"),
        "draft": translate("Draft model (GGUF)"),
        "tensor": translate("tensor layer"),
        "json": translate("file of the model"),
        "template": translate("Template"),
        "prompt": translate("Template"),
        "system": translate("System prompt"),
        "license": translate("License"),
        "params": translate("Parameters"),
        "messages": translate("Messages"),
        "config": translate("Configuration"),
    }
    return known.get(kind) or title_of(kind)


def _file_bytes(path: Path) -> int:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(translate("is a folder, a pipe or a device, not a file; it is not opened"))
    return status.st_size


# Everything else: files


def _file_row(path: Path, opened: Path, tensors: TensorRows | None) -> Row:
    nbytes: int | None = None
    problems: tuple[Problem, ...] = ()
    try:
        nbytes = _file_bytes(path)
    except OSError as error:
        what = system_reason(error)
        problems = (Problem(Severity.ERROR, path.name, what),)
    name = path.relative_to(opened).as_posix() if path.is_relative_to(opened) else ""
    row = Row(
        RowKind.PART,
        str(path),
        title_of(name if name not in {"", "."} else path.name),
        nbytes=nbytes,
        problems=problems,
        path=path,
        digest=_digest(path),
        text=tensors is None and not problems and is_text_file(path),
    )
    return row if tensors is None else tensors.fill(row, path)


def _digest(path: Path) -> str:
    """Return the name of the blob that a snapshot's file is a link to, or nothing."""
    if hub_cache(path.parent) is None:
        return ""
    try:
        return os.path.basename(os.readlink(path))
    except OSError:  # a file, where the system forbids links
        return ""


def _side_files(opened: Path, taken: set[Path]) -> Iterator[Row]:
    """Yield the files beside the weights, of a model that is a folder."""
    try:
        with os.scandir(opened) as children:
            found = sorted(islice(children, _MOST_FILES), key=lambda child: natural_key(child.name))
    except NotADirectoryError:
        return
    except OSError as error:
        yield note_row(system_reason(error), Severity.ERROR)
        return
    root = hub_cache(opened) or opened
    for child in found:
        path = opened / child.name
        if path in taken or child.name.startswith("."):
            continue
        if child.is_symlink() and leads_out(path, root):
            what = translate("is a link out of the store; it is not opened")
            problem = Problem(Severity.ERROR, child.name, what)
            yield Row(RowKind.PART, str(path), title_of(child.name), problems=(problem,))
        elif not path.is_dir():
            yield _file_row(path, opened, None)
