"""`gguf-explorer library`: the models that programs on this machine have downloaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from explorer.cli.inspect import problem_record
from explorer.cli.options import json_option
from explorer.cli.output import Progress, problem_lines, style, table, write, write_json
from explorer.errors import SourceError
from explorer.stores import (
    Blob,
    Details,
    Entry,
    Place,
    Store,
    StoreKind,
    present_places,
    read_details,
    read_library,
    this_machine,
)
from explorer.text import bytes_text, count_text, integer_text, plain_text, shorten

_LONGEST_NAME = 80
_SHOWN_DIGEST = 19  # "sha256-" and twelve digits, as Ollama shows them


def _places(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> list[Place]:
    """Understand each KIND=DIR."""
    places = []
    for value in values:
        kind, _, folder = value.partition("=")
        if not folder or kind not in set(StoreKind):
            kinds = ", ".join(StoreKind)
            what = f"{value!r} is not KIND=DIR, where KIND is one of {kinds}"
            raise click.BadParameter(what, context, parameter)
        places.append(Place(StoreKind(kind), Path(folder).expanduser()))
    return places


@click.command("library")
@click.option(
    "roots",
    "--root",
    callback=_places,
    multiple=True,
    metavar="KIND=DIR",
    help=f"List this store, not those found. KIND: {', '.join(StoreKind)}.",
)
@json_option
@click.option("--blobs", is_flag=True, help="Also list each blob with the models that use it.")
def library_command(roots: Sequence[Place], as_json: bool, blobs: bool) -> int:
    """List downloaded models: of Ollama, Hugging Face, LM Studio, llama.cpp, or in a folder.

    \b
    Examples:
      gguf-explorer library
      gguf-explorer library --root folder=~/models --json
      gguf-explorer library --blobs --root ollama=/usr/share/ollama/.ollama/models
    """
    for place in roots:
        _refuse_missing(place.root)
    library = read_library(roots or present_places(this_machine()))
    with Progress(library.entry_count) as progress:
        details = [[_read(entry, progress) for entry in store.entries] for store in library.stores]
    pairs = list(zip(library.stores, details, strict=True))
    if as_json:
        write_json({"stores": [_store_record(store, known, blobs) for store, known in pairs]})
    elif not pairs:
        write("No store of downloaded models was found; name one with --root KIND=DIR.\n")
    else:
        write("\n".join(_store_text(store, known, blobs) for store, known in pairs))
    return 0


def _refuse_missing(root: Path) -> None:
    try:
        if root.is_dir():
            return
    except OSError:  # it may not be looked at: the store says so
        return
    raise SourceError("there is no such folder; check the path", root)


def _read(entry: Entry, progress: Progress) -> Details:
    progress.add(1, entry.name)
    return read_details(entry)


def _store_record(store: Store, details: Sequence[Details], blobs: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "kind": str(store.kind),
        "root": str(store.root),
        "bytes": store.nbytes,
        "problems": [problem_record(problem) for problem in store.problems],
        "models": [_record(*pair) for pair in zip(store.entries, details, strict=True)],
    }
    if blobs:
        record["blobs"] = [
            {"digest": blob.digest, "bytes": blob.nbytes, "used_by": list(blob.used_by)}
            for blob in store.blobs
        ]
        record["partial_downloads"] = [
            {"path": str(partial.path), "bytes": partial.nbytes} for partial in store.partials
        ]
    return record


def _record(entry: Entry, details: Details) -> dict[str, Any]:
    return {
        "name": entry.name,
        "path": str(entry.path),
        "format": entry.format,
        "architecture": details.architecture,
        "parameters": details.parameters,
        "bytes": entry.nbytes,
        "file_type": details.file_type,
        "modified": _time_text(entry.modified),
        "problems": [problem_record(problem) for problem in details.problems],
    }


def _time_text(seconds: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC; None if it is not known or no year has it."""
    try:
        return None if seconds is None else datetime.fromtimestamp(int(seconds), UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def _store_text(store: Store, details: Sequence[Details], blobs: bool) -> str:
    count = len(store.entries)
    models = f"{integer_text(count)} model{'' if count == 1 else 's'}"
    title = style(f"{store.kind}  {plain_text(str(store.root))}", bold=True)
    lines = [f"{title}  ({models}, {bytes_text(store.nbytes)})\n", problem_lines(store.problems)]
    head = ("name", "architecture", "parameters", "size", "file type", "modified")
    rows = [_row(*pair) for pair in zip(store.entries, details, strict=True)]
    if rows:
        lines.append(table([head, *rows], right=(2, 3)))
    for entry, known in zip(store.entries, details, strict=True):
        if known.problems:
            lines.append(f"{_name(entry)}\n{problem_lines(known.problems)}")
    if blobs:
        lines += _blob_lines(store)
    return "".join(lines)


def _name(entry: Entry) -> str:
    return shorten(plain_text(entry.name), _LONGEST_NAME)


def _row(entry: Entry, details: Details) -> tuple[str, ...]:
    return (
        _name(entry),
        shorten(plain_text(details.architecture or ""), _LONGEST_NAME),
        "" if details.parameters is None else count_text(details.parameters),
        bytes_text(entry.nbytes),
        shorten(plain_text(details.file_type or ""), _LONGEST_NAME),
        (_time_text(entry.modified) or "")[:10],
    )


def _blob_lines(store: Store) -> Iterator[str]:
    if store.blobs:
        rows = [_blob_row(blob) for blob in store.blobs]
        yield "\n" + table([("blob", "size", "used by"), *rows], right=(1,))
        orphans = [blob.nbytes for blob in store.blobs if not blob.used_by]
        if orphans:
            yield f"  {integer_text(len(orphans))} used by nothing: {bytes_text(sum(orphans))}\n"
    if store.partials:
        nbytes = sum(partial.nbytes for partial in store.partials)
        yield f"  {integer_text(len(store.partials))} unfinished: {bytes_text(nbytes)}\n"


def _blob_row(blob: Blob) -> tuple[str, str, str]:
    users = ", ".join(map(plain_text, blob.used_by)) or "nothing"
    return plain_text(blob.digest)[:_SHOWN_DIGEST], bytes_text(blob.nbytes), users
