"""What there is to say about one row, in lines of plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from explorer.formats import Problem
from explorer.qt.models.library.blob_table import StoredFile
from explorer.qt.models.library.node import Node, time_text
from explorer.qt.models.library.rows import RowKind, mark, title_of, translate
from explorer.stores import Store
from explorer.text import bytes_text, count_text, integer_text, plain_text

_SHOWN: Final = 50
_WHAT: Final = {
    RowKind.STORE: "store",
    RowKind.FAMILY: "model of several versions",
    RowKind.ENTRY: "model",
    RowKind.BLOB: "blob",
    RowKind.PARTIAL: "unfinished download",
    RowKind.PART: "file",
    RowKind.GROUP: "group of tensors",
    RowKind.TENSOR: "tensor",
}


def facts_of(node: Node) -> str:
    """Return what is known of a row: what it is, where, what is wrong, what it shares."""
    row = node.row
    parameters, entry = node.parameters, row.entry
    size = translate("{size} ({bytes} bytes) on disk")
    parts = [
        translate(_WHAT[row.kind]) if row.kind in _WHAT else "",
        "" if entry is None or entry.format is None else entry.format,
        node.architecture,
        "" if parameters is None else f"{count_text(parameters)} {translate('parameters')}",
        node.quantization,
        ""
        if row.nbytes is None
        else size.format(size=bytes_text(row.nbytes), bytes=integer_text(row.nbytes)),
        time_text(row.modified),
    ]
    lines = ["   ·   ".join(filter(None, parts))]
    lines += [] if row.path is None else [plain_text(str(row.path))]
    lines += [] if not row.digest else [title_of(row.digest)]
    lines += [] if not node.note else [node.note]
    lines += _problem_lines(node.problems)
    store = node.store.row.store
    if store is not None and entry is not None:
        lines += _sharing_lines(store, entry.name)
    elif store is not None and row.digest:
        lines += _user_lines(_users(store, row.digest))
    return "\n".join(lines)


def heading_of(node: Node) -> str:
    """Return what to call a row that stands alone: with its model, if it is a part of one."""
    model: Node | None = node
    while model is not None and model.row.entry is None:
        model = model.parent
    own = title_of(node.row.name) if node.row.name else node.row.title
    if model is None or model.row.entry is None:
        return own
    name = title_of(model.row.entry.name)
    return name if model is node else f"{own}   ·   {name}"


def blob_facts(file: StoredFile) -> str:
    """Return what is known of a blob."""
    size = translate("{size} ({bytes} bytes) on disk").format(
        size=bytes_text(file.nbytes), bytes=integer_text(file.nbytes)
    )
    lines = [f"{file.store}   ·   {file.state}   ·   {size}", plain_text(str(file.path))]
    if not file.used_by and file.finished:
        lines.append(
            translate(
                "No model in this store uses this blob: a removed model may have left it, or a "
                "manifest cannot be read. Ollama deletes such blobs when it starts."
            )
        )
    elif not file.finished:
        lines.append(translate("Download the model again to go on with it, or delete the file."))
    return "\n".join([*lines, *_user_lines(file.used_by)])


def _problem_lines(problems: Iterable[Problem]) -> Iterator[str]:
    for number, problem in enumerate(problems):
        if number == _SHOWN:
            yield translate("… and more problems")
            return
        where = f"{title_of(problem.where)}: " if problem.where else ""
        yield f"{mark(problem.severity)}  {where}{plain_text(problem.what)}"


def _users(store: Store, digest: str) -> tuple[str, ...]:
    return next((blob.used_by for blob in store.blobs if blob.digest == digest), ())


def _user_lines(names: tuple[str, ...]) -> Iterator[str]:
    if names:
        yield ""
        yield translate("Used by {n}:").format(n=integer_text(len(names)))
        yield from _name_lines(names)


def _sharing_lines(store: Store, name: str) -> Iterator[str]:
    shared: dict[str, int] = {}
    for blob in store.blobs:
        if len(blob.used_by) > 1 and name in blob.used_by:
            for other in blob.used_by[: 20 * _SHOWN]:
                shared[other] = shared.get(other, 0) + blob.nbytes
    shared.pop(name, None)
    if shared:
        yield ""
        yield translate("Shares blobs with:")
        order = sorted(shared, key=lambda other: (-shared[other], other))
        yield from _name_lines([f"{other}   ({bytes_text(shared[other])})" for other in order])


def _name_lines(names: Iterable[str]) -> Iterator[str]:
    names = list(names)
    yield from (f"    {title_of(name)}" for name in names[:_SHOWN])
    if len(names) > _SHOWN:
        yield "    " + translate("and {n} more").format(n=integer_text(len(names) - _SHOWN))
