"""A scan of all stores, told as rows while it goes on. For a worker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from explorer.formats.ollama.manifest import BLOBS, MANIFESTS
from explorer.formats.side_files import HUB_REPOSITORY
from explorer.qt.models.library.blob_table import BlobList
from explorer.qt.models.library.listing import rows_of_models, store_row, waiting_row
from explorer.qt.models.library.rows import Row
from explorer.stores import (
    Entry,
    EntryFound,
    Place,
    Store,
    StoreFinished,
    StoreKind,
    StoreStarted,
    scan,
)
from explorer.stores.huggingface import is_hub_cache
from explorer.stores.ollama import is_ollama_store, models_folder

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
