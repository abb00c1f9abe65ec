"""The contents of one downloaded model: files or layers → groups → tensors. For a worker.

A model that cannot be opened still lists its files, to show what is missing.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from explorer.errors import ExplorerError, system_reason
from explorer.formats import Model, Problem, Severity, open_model
from explorer.formats.model import decode_text
from explorer.formats.ollama import manifest as manifests
from explorer.formats.ollama.open import open_manifest
from explorer.formats.side_files import escapes, hub_cache
from explorer.formats.strict_json import read_json_file
from explorer.formats.tensors import Tensor, natural_key, parse_name
from explorer.parallel import Check
from explorer.present.stores import LAYER_TITLES
from explorer.qt.library.rows import Pages, Row, RowKind, note_row, title_of
from explorer.sources import FileSource
from explorer.stores.entries import Entry, StoreKind
from explorer.text import counted, integer_text, shape_text

_CHECK_EVERY: Final = 512
_SHOWN_TYPES: Final = 3


class TensorRows:
    """Rows of an open model's tensors, by file, then by group or layer; made page by page.

    Usable after the model is closed.
    """

    def __init__(self, model: Model, check: Check) -> None:
        self._rows = model.tensors.rows
        self._columns = model.tensors.columns
        self._groups = {
            name: group
            for group in model.groups
            if group.kind != "quantized"  # such a group is one tensor, whose parts are its rows
            for name in group.tensors
        }
        self._titles = {group.name: group for group in model.groups}
        self._of_file: dict[Path, list[int]] = {}
        for row, name in enumerate(self._columns.names):
            if row % _CHECK_EVERY == 0:
                check()
            parse_name(name)
            tensor = self._rows[row]
            for path in dict.fromkeys(extent.source.path for extent in tensor.extents):
                self._of_file.setdefault(path, []).append(row)

    def fill(self, row: Row, path: Path) -> Row:
        """Return the row of a file with the tensors that it holds below it, if it holds any."""
        rows = self._of_file.get(path)
        if not rows:
            return row
        pages = self._pages(self._items(rows, row.title), f"{row.title}.")
        parameters = sum(self._columns.parameters[number] for number in rows)
        return replace(row, pages=pages, parameters=parameters, quantization=self._types(rows))

    def _types(self, rows: Sequence[int]) -> str:
        """Return the tensor types that occur, the one with most bytes first."""
        nbytes: Counter[str] = Counter()
        for row in rows:
            nbytes[self._columns.types[row].name] += self._columns.nbytes[row]
        names = [name for name, _ in nbytes.most_common(_SHOWN_TYPES + 1)]
        if len(names) > _SHOWN_TYPES:
            names[_SHOWN_TYPES:] = ["…"]
        return title_of(", ".join(names))

    def _items(self, rows: Sequence[int], above: str) -> list[int | tuple[str, list[int]]]:
        """Return the single tensors of a file and groups of them, in the order of names.

        A lone group that has the title of the row above, or one tensor, makes no level of its own.
        """
        names = self._columns.names
        groups: dict[str, list[int]] = {}
        single: list[int] = []
        for row in sorted(rows, key=lambda row: natural_key(names[row])):
            title = self._group_title(names[row])
            if title is None:
                single.append(row)
            else:
                groups.setdefault(title, []).append(row)
        if not single and len(groups) == 1:
            ((title, members),) = groups.items()
            if title_of(title) == above or len(members) == 1:
                return list(members)
        return [*single, *groups.items()]

    def _group_title(self, name: str) -> str | None:
        group = self._groups.get(name)
        if group is not None:
            return group.name
        parsed = parse_name(name)
        if parsed.layer is None:
            return None
        return f"{parsed.stack}, layer {parsed.layer}"

    def _pages(self, items: Sequence[int | tuple[str, list[int]]], prefix: str) -> Pages:
        def make(start: int, stop: int) -> list[Row]:
            return [
                self._tensor_row(item, prefix) if isinstance(item, int) else self._group_row(*item)
                for item in items[start:stop]
            ]

        return Pages(len(items), make)

    def _group_row(self, title: str, rows: list[int]) -> Row:
        columns = self._columns
        group = self._titles.get(title)
        parsed = parse_name(columns.names[rows[0]])
        prefix = f"{parsed.stack}.{parsed.layer}." if group is None else f"{group.name}."
        what = "" if group is None else group.kind.replace("_", " ")
        count = counted(len(rows), "tensor")
        return Row(
            RowKind.GROUP,
            title,
            title_of(title),
            parameters=sum(columns.parameters[row] for row in rows),
            quantization=self._types(rows),
            nbytes=sum(columns.nbytes[row] for row in rows),
            note=", ".join(filter(None, (what, count))),
            pages=self._pages(rows, prefix),
        )

    def _tensor_row(self, row: int, prefix: str) -> Row:
        tensor = self._rows[row]
        problems: tuple[Problem, ...] = ()
        if tensor.damage is not None:
            problems = (Problem(Severity.ERROR, tensor.name, tensor.damage),)
        return Row(
            RowKind.TENSOR,
            f"{row}",
            title_of(tensor.name.removeprefix(prefix)),
            name=tensor.name,
            parameters=tensor.parameters,
            quantization=title_of(tensor.type.name),
            nbytes=tensor.nbytes,
            note=shape_text(tensor.shape),
            problems=problems,
            path=tensor.file,
            children=tuple(_array_rows(tensor)),
        )


def _array_rows(tensor: Tensor) -> Iterator[Row]:
    """Yield what a quantized weight is stored as: its codes, scales and so on."""
    module = tensor.name.rpartition(".")[0] + "."
    for key, array, _ in tensor.stored_parts:
        yield Row(
            RowKind.TENSOR,
            key,
            title_of(key.removeprefix(module)),
            quantization=title_of(array.type.name),
            nbytes=array.extent.nbytes,
            note=shape_text(array.shape),
            path=array.extent.source.path,
        )


_TEXT_LAYERS: Final = frozenset(
    {"template", "prompt", "system", "license", "params", "messages", "json", manifests.CONFIG_KIND}
)
_TEXT_SUFFIXES: Final = frozenset({".json", ".txt", ".md", ".jinja", ".yaml", ".yml"})
_TEXT_NAMES: Final = frozenset({"license", "licence", "notice", "readme", "modelfile"})
_MOST_BYTES: Final = 128 << 10
"""Bytes of a text that are shown: laying out more holds up the window. Licences have 11 KiB."""


def is_text_file(path: Path) -> bool:
    """Return whether a file's content is text, by its name."""
    return path.suffix.lower() in _TEXT_SUFFIXES or path.stem.lower() in _TEXT_NAMES


def read_text(path: Path) -> str:
    """Return a text of a model, such as its template or licence; JSON is indented.

    Raises:
        SourceError: It cannot be read.
    """
    with FileSource(path) as source:
        nbytes = source.size
        raw = source.read(0, min(nbytes, _MOST_BYTES))
    if nbytes > len(raw):
        note = f"… cut here: {integer_text(len(raw))} of {integer_text(nbytes)} bytes are shown"
        return f"{decode_text(raw)}\n\n{note}"
    if raw.lstrip()[:1] in {b"{", b"["}:
        try:
            text = _json_text(read_json_file(path))
        except ExplorerError:  # text that only begins like JSON, such as a template
            return decode_text(raw)
        if len(text) <= 2 * _MOST_BYTES:  # indenting what is nested deep makes it 100 times longer
            return text
    return decode_text(raw)


def _json_text(value: Any) -> str:
    """Return messages of a conversation one after the other, and other JSON indented."""
    if isinstance(value, list) and value and all(map(_is_message, value)):
        return "\n\n".join(f"{item.get('role')}:\n{item['content']}" for item in value)
    return json.dumps(value, indent=2, ensure_ascii=False)


def _is_message(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("content"), str)


_MOST_FILES: Final = 2000  # of a folder; a model's folder has some dozens


def read_contents(kind: StoreKind, entry: Entry, check: Check = lambda: None) -> tuple[Row, ...]:
    """Return the rows below a model of a kind of store; `check` raises to give up."""
    if entry.format is None:  # nothing may be opened, as its problems explain
        rows = [note_row(problem.what, problem.severity) for problem in entry.problems]
        return tuple(rows) or (note_row("nothing is here"),)
    if kind is StoreKind.OLLAMA:
        return tuple(_manifest_rows(entry.path, check))
    try:
        model = open_model(entry.path)
    except ExplorerError as error:
        return (note_row(error.without_path, Severity.ERROR), *_side_files(entry.path, set()))
    with model:
        tensors = TensorRows(model, check)
        files = [_file_row(file.path, entry.path, tensors) for file in model.files]
    others = _side_files(entry.path, {file.path for file in model.files})
    return (*files, *others)


# Ollama: layers


def _manifest_rows(path: Path, check: Check) -> Iterator[Row]:
    try:
        manifest = manifests.read_manifest(path)
    except ExplorerError as error:
        yield note_row(error.without_path, Severity.ERROR)
        return
    tensors: TensorRows | None = None
    try:
        with open_manifest(path, check) as model:
            tensors = TensorRows(model, check)
    except ExplorerError as error:
        yield note_row(error.without_path, Severity.ERROR)
    for number, layer in enumerate(manifest.all_layers):
        if number % _CHECK_EVERY == 0:
            check()
        yield _layer_row(manifest, number, layer, tensors)


def _layer_row(
    manifest: manifests.Manifest, number: int, layer: manifests.Layer, tensors: TensorRows | None
) -> Row:
    path, nbytes, fault = None, layer.nbytes, layer.fault
    try:
        path = manifests.find_blob(manifest.models, layer)
        nbytes = _file_bytes(path)
        fault = fault or manifests.size_fault(layer, nbytes)
    except ExplorerError as error:
        path, fault = None, fault or error.what
    except FileNotFoundError:
        path, fault = None, "its blob is missing. Pull the model again"
    except OSError as error:
        path, fault = None, system_reason(error)
    problems = () if fault is None else (Problem(Severity.ERROR, layer.title, fault),)
    readable = is_text_file(Path(layer.name)) if not layer.kind else layer.kind in _TEXT_LAYERS
    row = Row(
        RowKind.PART,
        f"{number}",
        title_of(layer.name or _kind_title(layer.kind)),
        nbytes=nbytes,
        note=_kind_title(layer.kind) if layer.name else "",
        problems=problems,
        path=path,
        digest=layer.digest,
        text=path is not None and readable,
    )
    return row if path is None or tensors is None else tensors.fill(row, path)


def _kind_title(kind: str) -> str:
    return LAYER_TITLES.get(kind) or title_of(kind)


def _file_bytes(path: Path) -> int:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError("is a folder, a pipe or a device, not a file. It is not opened")
    return status.st_size


# Everything else: files


def _file_row(path: Path, opened: Path, tensors: TensorRows | None) -> Row:
    nbytes: int | None = None
    problems: tuple[Problem, ...] = ()
    try:
        nbytes = _file_bytes(path)
    except OSError as error:
        problems = (Problem(Severity.ERROR, path.name, system_reason(error)),)
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
        if child.is_symlink() and escapes(path, root):
            what = "is a link out of the store. It is not opened"
            problems = (Problem(Severity.ERROR, child.name, what),)
            yield Row(RowKind.PART, str(path), title_of(child.name), problems=problems)
        elif not path.is_dir():
            yield _file_row(path, opened, None)
