"""What a selection takes on disk; a blob counts once, however many of its models are selected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from explorer.formats import Problem
from explorer.qt.library.blobs import StoredFile
from explorer.qt.library.rows import Node, RowKind, mark, time_text, title_of, translate
from explorer.stores import Store
from explorer.text import bytes_text, count_text, integer_text, plain_text


@dataclass(frozen=True, slots=True)
class Total:
    """A sum.

    Attributes:
        models: How many models it is of.
        others: How many other rows.
        nbytes: Bytes on disk; what is shared counts once.
        apart: What the rows' sizes come to if one adds them; more, where blobs are shared.
    """

    models: int
    others: int
    nbytes: int
    apart: int


@dataclass
class _Share:
    """What is selected in one store."""

    whole: bool = False
    entries: dict[int, Node] = field(default_factory=dict)
    digests: set[str] = field(default_factory=set)
    files: dict[Path, int] = field(default_factory=dict)


def total_of(nodes: Iterable[Node]) -> Total:
    """Sum up selected rows; a row below a selected one adds nothing."""
    chosen = {node.id: node for node in nodes if node.row.kind is not RowKind.NOTE}
    shares: dict[int, tuple[Node, _Share]] = {}
    others = apart = 0
    for node in chosen.values():
        if _inside(node, chosen):
            continue
        store = node.store
        _, share = shares.setdefault(store.id, (store, _Share()))
        apart += _add(share, node)
        others += node.row.kind not in {RowKind.STORE, RowKind.FAMILY, RowKind.ENTRY}
    nbytes = sum(_nbytes(store, share) for store, share in shares.values())
    models = sum(len(share.entries) for _, share in shares.values())
    return Total(models, others, nbytes, max(apart, nbytes))


def _inside(node: Node, chosen: dict[int, Node]) -> bool:
    above = node.parent
    while above is not None:
        if above.id in chosen:
            return True
        above = above.parent
    return False


def _add(share: _Share, node: Node) -> int:
    """Note a row; return its bytes as if it shared nothing."""
    row = node.row
    if row.kind in {RowKind.STORE, RowKind.FAMILY, RowKind.ENTRY}:
        share.whole |= row.kind is RowKind.STORE
        entries = list(_entries(node))
        share.entries.update((each.id, each) for each in entries)
        return sum(each.row.nbytes or 0 for each in entries)
    if row.kind is RowKind.BRANCH:
        return sum(_add(share, child) for child in node.every)
    if row.digest:
        share.digests.add(row.digest)
    elif row.path is not None and row.kind in {RowKind.PART, RowKind.PARTIAL}:
        share.files[row.path] = row.nbytes or 0
    elif row.path is not None:  # a tensor: a part of a file
        share.files[row.path / row.key] = row.nbytes or 0
    return row.nbytes or 0


def _entries(node: Node) -> Iterator[Node]:
    if node.row.kind is RowKind.ENTRY:
        yield node
    elif node.listed:
        for child in node.every:
            yield from _entries(child)


def _nbytes(store: Node, share: _Share) -> int:
    if share.whole:
        return store.row.nbytes or 0
    usage = store.row.usage
    entries = [node.row.entry for node in share.entries.values() if node.row.entry is not None]
    if usage is None:  # the scan has not come so far
        return sum(entry.nbytes for entry in entries) + sum(share.files.values())
    own = sum(entry.own_bytes for entry in entries)
    names = [entry.name for entry in entries]
    return own + usage.total(names, share.digests) + sum(share.files.values())


# What there is to say about one row, in lines of plain text.


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
