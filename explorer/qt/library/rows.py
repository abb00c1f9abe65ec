"""Rows of the tree of downloaded models, made from the stores in a worker: plain, safe data."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.formats import Problem, Severity
from explorer.formats.ollama.manifest import BLOBS, MANIFESTS
from explorer.formats.tensors import natural_key
from explorer.model_files import hub_name
from explorer.parallel import Check
from explorer.present.model import gravest, mark
from explorer.stores.entries import Blob, Entry, PartialDownload, Place, Store, StoreKind
from explorer.stores.huggingface import is_hub_cache
from explorer.stores.library import scan
from explorer.stores.ollama import is_ollama_store, models_folder
from explorer.text import bytes_text, counted, plain_text, shorten

_LONGEST_TITLE = 200  # a name may have 60,000 characters; the tool tip shows more


class Usage:
    """The blobs of one store by the models that use them; a blob counts once in every sum.

    Arrays, for a model of tensor blobs may have 10,000 of them.
    """

    def __init__(self, blobs: Sequence[Blob]) -> None:
        self._nbytes = np.array([blob.nbytes for blob in blobs], np.int64)
        self._shared = np.array([len(blob.used_by) > 1 for blob in blobs], np.bool_)
        self._digests = {blob.digest: place for place, blob in enumerate(blobs)}
        places: dict[str, list[int]] = {}
        for place, blob in enumerate(blobs):
            for name in blob.used_by:
                places.setdefault(name, []).append(place)
        self._places: dict[str, NDArray[np.intp]] = {
            name: np.array(own, np.intp) for name, own in places.items()
        }

    def shared_bytes(self, name: str) -> int:
        """Return how many of a model's bytes other models use too."""
        places = self._places.get(name, np.zeros(0, np.intp))
        return int(self._nbytes[places[self._shared[places]]].sum())

    def total(self, names: Iterable[str], digests: Iterable[str] = ()) -> int:
        """Return the bytes of all blobs of models, and of further blobs."""
        used = np.zeros(len(self._nbytes), np.bool_)
        for name in names:
            used[self._places.get(name, [])] = True
        used[[self._digests[digest] for digest in digests if digest in self._digests]] = True
        return int(self._nbytes[used].sum())


class RowKind(Enum):
    """What a row stands for."""

    STORE = auto()
    FAMILY = auto()  # a model of which there are several tags or revisions
    ENTRY = auto()  # what one opens
    BRANCH = auto()  # orphans, unfinished downloads
    BLOB = auto()
    PARTIAL = auto()
    PART = auto()  # a file or a layer
    GROUP = auto()
    TENSOR = auto()
    NOTE = auto()  # a sentence in place of rows


@dataclass(frozen=True, slots=True)
class Pages:
    """Rows made on demand, from one position up to another: a model may have 100,000 tensors."""

    count: int
    make: Callable[[int, int], list[Row]]


@dataclass(frozen=True, slots=True)
class Row:
    """One row. What is not known is None or empty.

    Attributes:
        key: Identifies it among its siblings, also after the next scan.
        title: Its name, safe to show; of a tensor without what the rows above it say.
        name: The whole name as the model has it, of a tensor; else empty.
        quantization: How its weights are stored, safe to show.
        nbytes: Bytes on disk; what is shared is counted once in a sum.
        modified: Time of the last change, seconds since 1970.
        used: Time when its weights were last read, seconds since 1970; of a model.
        short: Its name without where it comes from, of a model; else empty.
        publisher: Who published it, or the folder that it lies in; of a model.
        note: What there is to say about it, safe to show, if it has no problems.
        problems: What is wrong with it.
        path: Its file or folder.
        digest: Of a blob: its name; else empty.
        text: Whether its content can be read as text.
        entry: The model, of an ENTRY.
        place: The store's place, of a STORE.
        store: The store, of a STORE that was read to its end.
        usage: Which blobs its models use, of a STORE that was read to its end.
        order: Key under which the title sorts naturally, of a model.
        children: The rows below, if they are known.
        pages: The rows below, if they are made on demand.
    """

    kind: RowKind
    key: str
    title: str
    name: str = ""
    parameters: int | None = None
    quantization: str = ""
    nbytes: int | None = None
    modified: float | None = None
    used: float | None = None
    short: str = ""
    publisher: str = ""
    note: str = ""
    problems: tuple[Problem, ...] = ()
    path: Path | None = None
    digest: str = ""
    text: bool = False
    entry: Entry | None = None
    place: Place | None = None
    store: Store | None = None
    usage: Usage | None = field(default=None, compare=False)
    order: tuple[tuple[int, int, str], ...] = ()
    children: tuple[Row, ...] = ()
    pages: Pages | None = field(default=None, compare=False)


def title_of(text: str) -> str:
    """Return a name as a row shows it."""
    return shorten(plain_text(text), _LONGEST_TITLE) or "(empty name)"


def note_row(text: str, problem: Severity | None = None) -> Row:
    """Return a sentence in place of rows."""
    problems = () if problem is None else (Problem(problem, "", text),)
    return Row(RowKind.NOTE, "note", title_of(text), problems=problems)


def problem_note(problems: Sequence[Problem]) -> str:
    """Return the gravest problem as a line, and how many there are besides."""
    first = gravest(problems)
    if first is None:
        return ""
    text = f"{mark(first.severity)} {title_of(first.what)}"
    if len(problems) > 1:
        more = f"and {len(problems) - 1} more"
        text = f"{text} ({more})"
    return text


def store_summary(store: Store) -> str:
    """Return how many models a store holds, and what is wrong with it."""
    parts = [counted(len(store.entries), "model")]
    orphans = [blob.nbytes for blob in store.blobs if not blob.used_by]
    if orphans:
        text = counted(len(orphans), "unused file")
        parts.append(f"⚠ {text} ({bytes_text(sum(orphans))})")
    if store.partials:
        text = counted(len(store.partials), "unfinished download")
        nbytes = sum(partial.nbytes for partial in store.partials)
        parts.append(f"⚠ {text} ({bytes_text(nbytes)})")
    return ", ".join(parts)


# Rows of a store


def store_row(place: Place, entries: Sequence[Entry], store: Store | None = None) -> Row:
    """Return the row of a store with all that is below it.

    Args:
        place: The store.
        entries: Its models, or those found so far.
        store: The result of its scan; None while the scan runs.
    """
    usage = None if store is None else Usage(store.blobs)
    children = list(_models(place.kind, entries, usage))
    note, nbytes = "reading…", None
    problems: tuple[Problem, ...] = ()
    if store is not None:
        children += _leftovers(store)
        note = ""  # `Node.note` sums up the store
        problems = _with_advice(place, store.problems)
        nbytes = store.nbytes + sum(partial.nbytes for partial in store.partials)
    return Row(
        RowKind.STORE,
        f"store {place.kind} {place.root}",
        f"{place.kind.program}   {title_of(str(place.root))}",
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
    """Return the row of a store that is still to be read."""
    row = store_row(place, ())
    return Row(row.kind, row.key, row.title, note="waiting…", path=row.path, place=place)


def family_of(kind: StoreKind, entry: Entry) -> str:
    """Return the model of which an entry is a tag, a revision or a file; "" if it is none."""
    if kind is StoreKind.OLLAMA:
        return entry.name.rpartition(":")[0]
    names = filter(None, map(hub_name, entry.path.parts))
    return next(names, entry.name.rpartition("/")[0])


def _models(kind: StoreKind, entries: Iterable[Entry], usage: Usage | None) -> Iterator[Row]:
    """Yield a row for each model; those of which there are several get a row above them."""
    families: dict[str, list[Entry]] = {}
    for entry in entries:
        family = family_of(kind, entry)
        # the blank keeps a model without family apart from all that has one
        families.setdefault(family or f" {entry.path}", []).append(entry)
    for family, members in families.items():
        if len(members) == 1:
            yield _entry_row(members[0], members[0].name)
        else:
            yield _family_row(kind, family, members, usage)


def _family_row(kind: StoreKind, family: str, members: list[Entry], usage: Usage | None) -> Row:
    nbytes = None
    if usage is not None:
        own = sum(entry.own_bytes for entry in members)
        nbytes = own + usage.total(entry.name for entry in members)
    short, publisher = name_and_publisher(family)
    times = [entry.modified for entry in members if entry.modified is not None]
    uses = [entry.used for entry in members if entry.used is not None]
    flawed = sum(bool(entry.problems) for entry in members)
    versions = kind in {StoreKind.OLLAMA, StoreKind.HUGGINGFACE}
    note = f"{len(members)} {'versions' if versions else 'models'}"
    if flawed:
        note = f"⚠ problems in {flawed} of {len(members)}"
    return Row(
        RowKind.FAMILY,
        f"family {family}",
        title_of(family),
        short=short,
        publisher=publisher,
        nbytes=nbytes,
        modified=max(times, default=None),
        used=max(uses, default=None),
        note=note,
        order=natural_key(short),
        children=tuple(_entry_row(entry, _version(entry, family)) for entry in members),
    )


def _version(entry: Entry, family: str) -> str:
    """Return what distinguishes an entry from others of its family."""
    rest = entry.name.removeprefix(family)
    return rest[1:] if rest[:1] in {":", "/", "@"} else rest or "main"


_SUFFIXES: Final = (".gguf", ".safetensors")


def name_and_publisher(name: str) -> tuple[str, str]:
    """Return what a model is called, and who published it or where it lies; safe to show.

    ``unsloth/Qwen3-14B-GGUF/Qwen3-14B-Q4_K_M.gguf`` is called ``Qwen3-14B-Q4_K_M``, of ``unsloth``:
    a folder that repeats the name of its file says nothing.
    """
    folder, _, file = name.rpartition("/")
    ending = next((suffix for suffix in _SUFFIXES if file.lower().endswith(suffix)), "")
    short = file.removesuffix(file[len(file) - len(ending) :]) if ending else file
    above, _, last = folder.rpartition("/")
    if above and short.casefold().startswith(last.casefold().removesuffix("-gguf")):
        folder = above
    return title_of(short), title_of(folder) if folder else ""


def _entry_row(entry: Entry, title: str) -> Row:
    shown = title_of(title)
    short, publisher = name_and_publisher(title)
    return Row(
        RowKind.ENTRY,
        str(entry.path),
        shown,
        short=short,
        publisher=publisher,
        nbytes=entry.nbytes,
        modified=entry.modified,
        used=entry.used,
        problems=entry.problems,
        path=entry.path,
        entry=entry,
        order=natural_key(short),
    )


def _leftovers(store: Store) -> Iterator[Row]:
    orphans = tuple(_orphan_row(blob) for blob in store.blobs if not blob.used_by)
    partials = tuple(map(_partial_row, store.partials))
    if orphans:
        note = counted(len(orphans), "file")
        yield _branch("orphans", "Unused files", note, orphans)
    if partials:
        note = counted(len(partials), "file")
        yield _branch("partials", "Unfinished downloads", note, partials)


def _branch(key: str, title: str, note: str, rows: tuple[Row, ...]) -> Row:
    nbytes = sum(row.nbytes or 0 for row in rows)
    return Row(RowKind.BRANCH, key, title, nbytes=nbytes, note=note, children=rows)


def _orphan_row(blob: Blob) -> Row:
    return Row(
        RowKind.BLOB,
        f"blob {blob.path}",
        title_of(blob.digest),
        nbytes=blob.nbytes,
        note="⚠ unused",
        path=blob.path,
        digest=blob.digest,
    )


def _partial_row(partial: PartialDownload) -> Row:
    return Row(
        RowKind.PARTIAL,
        str(partial.path),
        title_of(partial.path.name),
        nbytes=partial.nbytes,
        note="⚠ unfinished. Download the model again to complete it",
        path=partial.path,
    )


def _with_advice(place: Place, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Add advice where the store of Ollama's service may not be read."""
    refused = any("permission denied" in problem.what for problem in problems)
    if place.kind is not StoreKind.OLLAMA or not refused:
        return problems
    what = (
        "a service's models belong to the user “ollama”: run “sudo usermod -aG ollama $USER” and "
        f"“sudo chmod -R g+rX {place.root}”, log in again, and press F5"
    )
    return (*problems, Problem(Severity.WARNING, "", what))


# A scan of all stores, in a worker

_FIRST_SECONDS: Final = 0.05  # after which the first models are shown
_PAUSE_SECONDS: Final = 0.3  # between two listings: the tree is reset for each
MOST_WATCHED: Final = 512
"""Folders that are watched for changes; Linux grants a user some 8,192 to 65,536 in all."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a scan has found: a row for each store, with all that is below it.

    Attributes:
        entry_count: Models found.
        stores: All stores; empty while the scan runs.
        watched: Folders in which a change would change the listing; the most important first.
    """

    rows: tuple[Row, ...] = ()
    entry_count: int = 0
    stores: tuple[Store, ...] = ()
    watched: tuple[Path, ...] = ()


def list_stores(
    places: Sequence[Place],
    known: Mapping[Place, Row],
    check: Check,
    publish: Callable[[Listing], None],
) -> Listing:
    """Read all stores.

    A known store keeps its row until it is read to its end, so that nothing disappears meanwhile,
    and after that if nothing has changed. A new one shows its models as they are found.

    Args:
        places: The stores.
        known: Rows of an earlier scan.
        check: Called for every model; raises to give up.
        publish: Called now and then with what was found so far.
    """
    rows = {place: known.get(place) or waiting_row(place) for place in places}
    entries: list[Entry] = []
    found: list[Store] = []
    count = 0
    due = time.monotonic() + _FIRST_SECONDS
    for place, each in scan(places, check):
        check()
        if isinstance(each, Store):
            row = store_row(place, each.entries, each)
            rows[place] = rows[place] if row == rows[place] else row
            found.append(each)
            entries = []
        else:
            entries.append(each)
            count += 1
        if time.monotonic() >= due and len(found) < len(places):
            if entries and place not in known:
                rows[place] = store_row(place, entries)
            publish(Listing(tuple(rows.values()), count))
            due = time.monotonic() + _PAUSE_SECONDS
    return Listing(tuple(rows.values()), count, tuple(found), _watched(found, check))


def place_of(folder: Path) -> Place:
    """Return what kind of store a folder is, from what it holds."""
    kind = StoreKind.HUGGINGFACE if is_hub_cache(folder) else StoreKind.FOLDER
    return Place(StoreKind.OLLAMA if is_ollama_store(folder) else kind, folder)


def _watched(found: Iterable[Store], check: Check) -> tuple[Path, ...]:
    """Return the folders to watch: each store's own first, then those of single models.

    Each download changes one of the former: a new model needs a new blob.
    """
    important: dict[Path, None] = {}
    others: dict[Path, None] = {}
    for store in found:
        important.update(dict.fromkeys(_own_folders(store)))
        for entry in store.entries:
            check()
            others.update(dict.fromkeys(_folders_above(entry.path, store.root)))

    def watchable(folder: Path) -> bool:
        check()
        return os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK)

    return tuple(islice(filter(watchable, important | others), MOST_WATCHED))


def _own_folders(store: Store) -> Iterator[Path]:
    yield store.root
    if store.kind is StoreKind.OLLAMA:
        try:
            models = models_folder(store.root)
        except OSError:  # permission denied
            return
        yield from (models, models / BLOBS, models / MANIFESTS)
    yield from dict.fromkeys(blob.path.parent for blob in store.blobs)


def _folders_above(path: Path, root: Path) -> Iterator[Path]:
    """Yield the folders from a model up to its store, and where a repository keeps its versions."""
    folder = path if path.suffix == "" and os.path.isdir(path) else path.parent
    while folder != root and folder.is_relative_to(root):
        yield folder
        if hub_name(folder.name):
            yield from (folder / "refs", folder / "blobs")
        folder = folder.parent
