"""From a store to rows: store → model → tag or revision, then orphans and unfinished downloads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from explorer.formats import Problem, Severity
from explorer.formats.ollama.manifest import BLOBS, MANIFESTS
from explorer.formats.side_files import HUB_REPOSITORY
from explorer.formats.tensors import natural_key
from explorer.qt.library.blobs import BlobList
from explorer.qt.library.rows import PROGRAM, Row, RowKind, Usage, counted, title_of, translate
from explorer.stores import (
    Blob,
    Entry,
    EntryFound,
    PartialDownload,
    Place,
    Store,
    StoreFinished,
    StoreKind,
    StoreStarted,
    scan,
)
from explorer.stores.entries import Check
from explorer.stores.huggingface import is_hub_cache
from explorer.stores.ollama import is_ollama_store, models_folder


def store_row(
    place: Place,
    entries: Sequence[Entry],
    store: Store | None = None,
    made: dict[str, Row] | None = None,
    check: Check = lambda: None,
) -> Row:
    """Return the row of a store with all that is below it.

    Args:
        place: Where it is.
        entries: Its models, or those found so far.
        store: What the scan came to; None while it runs.
        made: Rows of models made before, by their keys; gets those that are made.
        check: Called for every model; raises to give up.
    """
    made = {} if made is None else made
    usage = None if store is None else Usage(store.blobs)
    children = []
    for row in _models(place.kind, entries, usage, made):
        check()
        children.append(row)
    note, nbytes = translate("reading…"), None
    problems: tuple[Problem, ...] = ()
    if store is not None:
        children += _leftovers(store)
        note = ""  # `Node.note` tells what the store holds
        problems = _with_advice(place, store.problems)
        nbytes = store.nbytes + sum(partial.nbytes for partial in store.partials)
    return Row(
        RowKind.STORE,
        f"store {place.kind} {place.root}",
        f"{PROGRAM[place.kind]}   {title_of(str(place.root))}",
        nbytes=nbytes,
        note=note,
        problems=problems,
        path=place.root,
        place=place,
        store=store,
        usage=usage,
        children=tuple(children),
    )


def waiting_row(place: Place) -> Row:
    """Return the row of a store whose turn has not come."""
    row = store_row(place, (), None)
    return Row(row.kind, row.key, row.title, note=translate("waiting…"), path=row.path, place=place)


def family_of(kind: StoreKind, entry: Entry) -> str:
    """Return the model of which an entry is a tag, a revision or a file; "" if it is none."""
    if kind is StoreKind.OLLAMA:
        return entry.name.rpartition(":")[0]
    repository = _hub_repository(entry.path)
    if repository is not None:
        return repository
    return entry.name.rpartition("/")[0]


def _hub_repository(path: Path) -> str | None:
    for part in path.parts:
        if part.startswith(HUB_REPOSITORY):
            return part.removeprefix(HUB_REPOSITORY).replace("--", "/")
    return None


def _models(
    kind: StoreKind, entries: Iterable[Entry], usage: Usage | None, made: dict[str, Row]
) -> Iterator[Row]:
    """Yield a row for each model; those of which there are several get a row above them."""
    families: dict[str, list[Entry]] = {}
    for entry in entries:
        family = family_of(kind, entry)
        # the blank keeps a model without family apart from all that has one
        families.setdefault(family or f" {entry.path}", []).append(entry)
    for family, members in families.items():
        if len(members) == 1:
            yield _entry_row(members[0], members[0].name, made)
        else:
            yield _family_row(kind, family, members, usage, made)


def _family_row(
    kind: StoreKind,
    family: str,
    members: list[Entry],
    usage: Usage | None,
    made: dict[str, Row],
) -> Row:
    nbytes = None
    if usage is not None:
        own = sum(entry.own_bytes for entry in members)
        nbytes = own + usage.total(entry.name for entry in members)
    times = [entry.modified for entry in members if entry.modified is not None]
    flawed = [entry for entry in members if entry.problems]
    versions = kind in {StoreKind.OLLAMA, StoreKind.HUGGINGFACE}
    note = translate("{n} versions") if versions else translate("{n} models in this folder")
    note = note.format(n=len(members))
    if flawed:
        text = translate("⚠ problems in {n} of {all}")
        note = text.format(n=len(flawed), all=len(members))
    return Row(
        RowKind.FAMILY,
        f"family {family}",
        title_of(family),
        nbytes=nbytes,
        modified=max(times, default=None),
        note=note,
        order=natural_key(title_of(family)),
        children=tuple(_entry_row(entry, _version(entry, family), made) for entry in members),
    )


def _version(entry: Entry, family: str) -> str:
    """Return what tells an entry from others of its family."""
    rest = entry.name.removeprefix(family)
    return rest[1:] if rest[:1] in {":", "/", "@"} else rest or "main"


def _entry_row(entry: Entry, title: str, made: dict[str, Row]) -> Row:
    """Return the row of a model; the one made before if nothing has changed."""
    key = str(entry.path)
    row = made.get(key)
    shown = title_of(title)
    if row is None or row.title != shown or row.entry != entry:
        row = made[key] = Row(
            RowKind.ENTRY,
            key,
            shown,
            nbytes=entry.nbytes,
            modified=entry.modified,
            problems=entry.problems,
            path=entry.path,
            entry=entry,
            order=natural_key(shown),
        )
    return row


def rows_of_models(store: Row) -> dict[str, Row]:
    """Return the rows of models below the row of a store, by their keys."""
    found = {}
    for row in store.children:
        members = row.children if row.kind is RowKind.FAMILY else (row,)
        found.update({each.key: each for each in members if each.kind is RowKind.ENTRY})
    return found


def _leftovers(store: Store) -> Iterator[Row]:
    orphans = [blob for blob in store.blobs if not blob.used_by]
    if orphans:
        yield Row(
            RowKind.BRANCH,
            "orphans",
            translate("Blobs that no model uses"),
            nbytes=sum(blob.nbytes for blob in orphans),
            note=counted(len(orphans), translate("1 orphan"), translate("{n} orphans")),
            children=tuple(map(_orphan_row, orphans)),
        )
    if store.partials:
        yield Row(
            RowKind.BRANCH,
            "partials",
            translate("Unfinished downloads"),
            nbytes=sum(partial.nbytes for partial in store.partials),
            note=counted(len(store.partials), translate("1 file"), translate("{n} files")),
            children=tuple(map(_partial_row, store.partials)),
        )


def _orphan_row(blob: Blob) -> Row:
    return Row(
        RowKind.BLOB,
        f"blob {blob.path}",
        title_of(blob.digest),
        nbytes=blob.nbytes,
        note=translate("⚠ used by no model"),
        path=blob.path,
        digest=blob.digest,
    )


def _partial_row(partial: PartialDownload) -> Row:
    return Row(
        RowKind.PARTIAL,
        str(partial.path),
        title_of(partial.path.name),
        nbytes=partial.nbytes,
        note=translate("⚠ unfinished; download the model again to go on with it"),
        path=partial.path,
    )


def _with_advice(place: Place, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Add what one can do where the store of Ollama's service may not be read."""
    refused = any("permission denied" in problem.what for problem in problems)
    if place.kind is not StoreKind.OLLAMA or not refused:
        return problems
    advice = translate(
        "a service's models belong to the user “ollama”: run “sudo usermod -aG ollama $USER” and "
        "“sudo chmod -R g+rX {folder}”, log in again, and press F5"
    )
    what = advice.format(folder=place.root)
    return (*problems, Problem(Severity.WARNING, "", what))


# A scan of all stores, told as rows while it goes on. For a worker.


_FIRST_SECONDS: Final = 0.05  # after which the first models are shown
_MANY: Final = 500  # models that are shown at once: making their rows holds up the window
_PAUSE_SECONDS: Final = 0.3  # between two looks at a scan: each costs more than the one before
MOST_WATCHED: Final = 512
"""Folders that are watched for changes; Linux grants a user some 8,192 to 65,536 in all."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a scan has found.

    Attributes:
        rows: A row for each store, with all that is below it.
        entry_count: Models found.
        watched: Folders in which a change would change the listing; those that matter most first.
        blobs: The blobs of all stores; None while the scan goes on.
    """

    rows: tuple[Row, ...] = ()
    entry_count: int = 0
    watched: tuple[Path, ...] = ()
    blobs: BlobList | None = None


class Worker(Protocol):
    """What a scan needs of its job."""

    def check(self) -> None:
        """Raise if the scan is no longer wanted; may wait for others."""

    def report(self, done: int, total: int) -> None:
        """Tell how far it is."""

    def publish(self, listing: Listing) -> None:
        """Show what there is so far."""


def list_stores(places: Sequence[Place], known: Mapping[Place, Row], worker: Worker) -> Listing:
    """Read all stores.

    A store that is known keeps its rows until it is read to its end, so that nothing disappears
    while one looks at it; a new one shows its models as they are found.

    Args:
        places: The stores.
        known: Rows of an earlier scan.
        worker: Gets a `Listing` of what there is now and then.
    """
    made = {place: rows_of_models(row) for place, row in known.items()}
    rows = {place: known.get(place) or waiting_row(place) for place in places}
    entries: list[Entry] = []
    stores: list[Store] = []
    count = unseen = 0
    due = time.monotonic() + _FIRST_SECONDS
    for event in scan(places, worker.check):
        worker.check()
        match event:
            case StoreStarted(place):
                entries = []
            case EntryFound(place, entry):
                entries.append(entry)
                count += 1
                unseen += 1
            case StoreFinished(place, store):
                rows[place] = store_row(
                    place, store.entries, store, made.setdefault(place, {}), worker.check
                )
                stores.append(store)
                entries = []
        due_now = unseen >= _MANY or time.monotonic() >= due
        if due_now and len(stores) < len(places):  # else the end is near
            if entries and place not in known:
                rows[place] = store_row(place, entries, made=made.setdefault(place, {}))
            so_far = Listing(tuple(rows.values()), count)
            worker.report(count, 0)
            worker.publish(so_far)
            due = time.monotonic() + _PAUSE_SECONDS
            unseen = 0
    watched = tuple(_watched(stores, worker.check))
    return Listing(tuple(rows.values()), count, watched, BlobList(stores, worker.check))


def place_of(folder: Path) -> Place:
    """Return what kind of store a folder is; it is looked at."""
    if is_ollama_store(folder):
        return Place(StoreKind.OLLAMA, folder)
    if is_hub_cache(folder):
        return Place(StoreKind.HUGGINGFACE, folder)
    return Place(StoreKind.FOLDER, folder)


def _watched(stores: Iterable[Store], check: Callable[[], None]) -> list[Path]:
    """Return the folders to watch: each store's own first, then those of single models.

    Whatever a program downloads, it changes one of the former: a new model needs a new blob.
    """
    important: dict[Path, None] = {}
    others: dict[Path, None] = {}
    for store in stores:
        important.update(dict.fromkeys(_own_folders(store)))
        for entry in store.entries:
            check()
            for folder in _folders_above(entry.path, store.root):
                others[folder] = None
    chosen: list[Path] = []
    for folder in (*important, *(path for path in others if path not in important)):
        if len(chosen) == MOST_WATCHED:
            break
        if os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK):
            chosen.append(folder)
        check()
    return chosen


def _own_folders(store: Store) -> Iterator[Path]:
    yield store.root
    if store.kind is StoreKind.OLLAMA:
        try:
            models = models_folder(store.root)
        except OSError:  # it may not be looked at
            return
        yield from (models, models / BLOBS, models / MANIFESTS)
    yield from dict.fromkeys(blob.path.parent for blob in store.blobs)


def _folders_above(path: Path, root: Path) -> Iterator[Path]:
    """Yield the folders from a model up to its store, and where a repository keeps its versions."""
    folder = path if path.suffix == "" and os.path.isdir(path) else path.parent
    while folder != root and folder.is_relative_to(root):
        yield folder
        if folder.name.startswith(HUB_REPOSITORY):
            yield from (folder / "refs", folder / "blobs")
        folder = folder.parent
