"""Tables of downloads: models, and the files of their stores."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from explorer.parallel import Check, never
from explorer.present.stores import part_text, removal_of_entry, removal_of_files
from explorer.present.tables.problems import PROBLEMS
from explorer.present.tables.speed import SPEED
from explorer.present.tables.table import BYTES, COUNT, INTEGER, TEXT, Column, Kind, Table
from explorer.stores.duplicates import duplicates
from explorer.stores.entries import Blob, Entry, Part, Store
from explorer.stores.library import Details, identify
from explorer.text import counted, plain_text, shorten

if TYPE_CHECKING:  # a list of models without fits loads no planner
    from explorer.present.fits import ModelFit
    from explorer.present.speed import Speed

DAY: Final = Kind(str, keys=TEXT.keys)
_DAY_S: Final = 86_400
_MONTHS: Final = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)


def time_text(seconds: float | None) -> str:
    """Return a time in the local zone; "" if it is unknown or out of range."""
    try:
        return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (ValueError, OverflowError, OSError):
        return ""


def day_text(seconds: float | None) -> str:
    """Return a day as people say it: today, yesterday, "Nov 18", "2025-10-11"."""
    if not time_text(seconds) or seconds is None:
        return ""
    then, now = time.localtime(seconds), time.localtime()
    if then[:3] == now[:3]:
        return "today"
    if then[:3] == time.localtime(time.mktime((*now[:3], 12, 0, 0, 0, 0, -1)) - _DAY_S)[:3]:
        return "yesterday"
    if then.tm_year != now.tm_year:
        return time_text(seconds)[: len("2026-11-21")]
    return f"{_MONTHS[then.tm_mon - 1]} {then.tm_mday}"


def _iso(seconds: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC; None if it is not known or no year has it."""
    try:
        return None if seconds is None else datetime.fromtimestamp(int(seconds), UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


_QUANTIZATION: Final = (
    "The file type that the header names, such as Q4_K_M, or the type of most bytes."
)
_FITS: Final = "Whether it fits the machine that plans are for. Filter: fits:yes"
_CONTEXT: Final = "Largest context for one request that keeps these layers on the GPU."
_ARCHITECTURE: Final = (
    "The architecture that the model's header names; the models in a checkpoint of several."
)
_USED: Final = (
    "The day on which a program last read its weights, as the disk notes it. A backup counts too. "
    "What this program reads does not. Empty where the disk notes nothing."
)

LIBRARY: Final = Table[Any](
    Column(
        *("name", "Name", TEXT, "Stores, their models, and the parts of a model."),
        lambda row: row.label,
    ),
    Column("architecture", "Architecture", TEXT, _ARCHITECTURE),
    Column("parameters", "Parameters", COUNT, "Number of weights, according to the header."),
    Column("file_type", "Type", TEXT, _QUANTIZATION, text=lambda row: row.quantization),
    Column(
        "bytes", "Size", BYTES, "Bytes on disk. Sums count shared files once.", lambda r: r.nbytes
    ),
    Column(
        *("fits", "On this machine", TEXT, _FITS),
        lambda row: row.fit_order,
        text=lambda row: row.fit_texts[0],
    ),
    Column(
        *("context", "Largest context", INTEGER, _CONTEXT),
        lambda row: row.largest_context,
        text=lambda row: row.fit_texts[1],
    ),
    SPEED,
    Column(
        *("modified", "Changed", DAY, "When it was written or downloaded."),
        lambda row: _iso(row.modified),
        text=lambda row: day_text(row.modified),
        extra=True,
    ),
    Column(
        *("used", "Last used", DAY, _USED),
        lambda row: _iso(row.used),
        text=lambda row: day_text(row.used),
    ),
    Column(
        *("note", "Notes", TEXT, "What is wrong, missing or shared."),
        lambda row: row.remark,
        extra=True,
    ),
    title="Downloaded models",
)
"""Models with what stands above and below them: of `DownloadedModel`, and of the window's tree."""


@dataclass(frozen=True, slots=True)
class DownloadedModel:
    """A model of a store with what its header says, and how it fits if that was asked for."""

    entry: Entry
    details: Details
    fit: ModelFit | None = None
    remark = ""

    @property
    def label(self) -> str:
        return self.entry.name

    @property
    def architecture(self) -> str | None:
        return self.details.architecture

    @property
    def parameters(self) -> int | None:
        return self.details.parameters

    @property
    def file_type(self) -> str | None:
        return self.details.file_type

    @property
    def quantization(self) -> str:
        return self.details.file_type or self.details.main_type or ""

    @property
    def nbytes(self) -> int:
        return self.entry.nbytes

    @property
    def fit_texts(self) -> tuple[str, str]:
        return ("", "") if self.fit is None else (self.fit.state, self.fit.context_text)

    @property
    def fit_order(self) -> float | None:
        return None if self.fit is None else self.fit.order

    @property
    def largest_context(self) -> int | None:
        return None if self.fit is None else self.fit.largest_context

    @property
    def speed(self) -> Speed | None:
        return None if self.fit is None else self.fit.speed

    @property
    def modified(self) -> float | None:
        return self.entry.modified

    @property
    def used(self) -> float | None:
        return self.entry.used


_RECORD: Final = ("architecture", "parameters", "bytes", "file_type", "modified", "used")


def model_record(model: DownloadedModel) -> dict[str, Any]:
    """Return a model as `library --json` has it."""
    entry = model.entry
    named = {"name": entry.name, "path": str(entry.path), "format": entry.format}
    more: dict[str, Any] = {"problems": list(map(PROBLEMS.record, model.details.problems))}
    if model.fit is not None:
        more["fit"] = model.fit.record()
    return named | LIBRARY.only(*_RECORD).record(model) | more


# Files of stores

_SHOWN_USERS: Final = 20  # an empty licence may be shared by 2,000 models
_LONGEST_CELL: Final = 400
_SHOWN_DIGEST: Final = 20  # whole in files, and when it is copied


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file or folder of a store: a blob, a model that is no blob, or an unfinished download.

    Attributes:
        blob: The file; of what is no blob, its name stands in place of a digest.
        store: The program whose store it is in.
        finished: Whether it is no unfinished download.
        part: What it is, in words.
        removal: The command that removes it, of what no model uses; else empty.
        model_removal: The command that removes the only model that uses it; else empty.
        frees: Bytes that either command frees, of the model's other files too.
        used: When its weights were last read, seconds since 1970; None if nothing says it.
        same_as: Where the same content lies once more; else empty.
        copies: Itself and all files of the same content; without any other, nothing.
        is_blob: Whether its name is the digest of its content.
    """

    blob: Blob
    store: str
    finished: bool
    part: str
    removal: str
    model_removal: str = ""
    frees: int = 0
    used: float | None = None
    same_as: str = ""
    copies: tuple[Path, ...] = ()
    is_blob: bool = True

    @classmethod
    def of(
        cls, blob: Blob, store: Store, *, finished: bool = True, check: Check = never
    ) -> StoredFile:
        """Say what a file of a store is; one that nobody uses is read. For a worker."""
        unused = not blob.used_by
        part = "Part of a download"
        if finished:
            part = part_text(identify(blob.path, check) if unused else blob.part)
        removal = removal_of_files([blob.path]) if unused else ""
        frees = blob.nbytes if removal else 0
        return cls(blob, store.kind.program, finished, part, removal, frees=frees)

    @property
    def command(self) -> str:
        """The command that removes it, or the model that it belongs to; empty if there is none."""
        return self.removal or self.model_removal

    @property
    def name(self) -> str:
        return self.blob.digest

    @property
    def path(self) -> Path:
        return self.blob.path

    @property
    def digest(self) -> str:
        """``sha256:`` and 64 digits, or the hub's etag; of what is no blob empty."""
        return digest_text(self.blob.digest) if self.finished and self.is_blob else ""

    @property
    def state(self) -> str:
        """Whether it is used, in words."""
        if not self.finished:
            return "⚠ unfinished download"
        if not self.blob.used_by:
            return "⚠ unused"
        if self.same_as:
            return "⚠ duplicate"
        return "shared" if len(self.blob.used_by) > 1 else "used"

    @property
    def users(self) -> str:
        """The models that use it, as a cell shows them."""
        names = self.blob.used_by
        text = ", ".join(shorten(plain_text(name), 200) for name in names[:_SHOWN_USERS])
        text = f"{text[:_LONGEST_CELL]}…" if len(text) > _LONGEST_CELL else text
        more = len(names) - _SHOWN_USERS
        return f"{text} and {more} more" if more > 0 else text


def digest_text(name: str) -> str:
    return name.replace("sha256-", "sha256:", 1)


def stored_files(stores: Sequence[Store], check: Check = never) -> list[StoredFile]:
    """Return the files, unused ones first, then the largest. For a worker."""
    found = [file for store in stores for file in _files_of(store, check)]
    known = {file.path: file for file in found if file.finished}
    sizes = ((path, file.blob.nbytes) for path, file in known.items())
    for group in duplicates(sizes, check):
        for path, other in zip(group, [*group[1:], group[0]], strict=True):
            one = known[other]
            name = (one.blob.used_by or (one.name,))[0]
            same_as = f"{one.store}: {plain_text(name)}"
            known[path] = replace(known[path], same_as=same_as, copies=tuple(group))
    every = [known.get(file.path, file) if file.finished else file for file in found]
    return sorted(every, key=lambda file: (bool(file.blob.used_by), -file.blob.nbytes))


def _files_of(store: Store, check: Check) -> Iterator[StoredFile]:
    """Yield the files of a store, with what removing their models frees."""
    for partial in store.partials:
        check()
        blob = Blob(partial.path.name, partial.path, partial.nbytes, ())
        yield StoredFile.of(blob, store, finished=False, check=check)
    entries = {entry.name: entry for entry in store.entries}
    commands = {
        name: removal_of_entry(store.kind, store.root, entry) for name, entry in entries.items()
    }
    alone: dict[str, str] = {}  # blob → the command after which nothing uses it
    frees: Counter[str] = Counter()
    for blob in store.blobs:
        users = {commands.get(name, "") for name in blob.used_by}
        if len(users) == 1:
            alone[blob.digest] = command = users.pop()
            frees[command] += blob.nbytes
    owners = [one for one in store.entries if one.own_bytes and not os.path.islink(one.path)]
    for entry in owners:  # removing a link frees nothing
        frees[commands[entry.name]] += entry.own_bytes
    for blob in store.blobs:
        check()
        file, command = StoredFile.of(blob, store, check=check), alone.get(blob.digest, "")
        used = [entries[name].used for name in blob.used_by if name in entries]
        last = max((one for one in used if one is not None), default=None)
        yield replace(
            file, model_removal=command, frees=frees[command] if command else file.frees, used=last
        )
    for entry in owners:
        check()
        part, what = Part("model"), "Model"
        if "mmproj" in entry.path.name.casefold():  # its header says whether it is one
            part = identify(entry.path, check)
            what = part_text(replace(part, name=""))  # the file itself has the name
        blob = Blob(entry.path.name, entry.path, entry.own_bytes, (entry.name,), part)
        command = commands[entry.name]
        yield StoredFile(
            *(blob, store.kind.program, True, what, "", command),
            *(frees[command] if command else 0, entry.used),
            is_blob=False,
        )


def removals_of(files: Iterable[StoredFile]) -> dict[str, int]:
    """Return the commands that remove files, or their models, and the bytes that each frees."""
    return {file.command: file.frees for file in files if file.command}


def lost_text(files: Sequence[StoredFile], removals: Iterable[str]) -> str:
    """Return a line for each content whose last copy these commands remove."""
    commands = set(removals)
    gone = {file.path: file for file in files if file.command in commands}
    lost: dict[tuple[Path, ...], StoredFile] = {}
    for file in gone.values():
        if file.copies and all(path in gone for path in file.copies):
            lost.setdefault(file.copies, file)
    return "\n".join(
        f"No copy of {shorten(plain_text((file.blob.used_by or (file.name,))[0]), 200)} stays."
        for file in lost.values()
    )


def duplicates_text(files: Sequence[StoredFile]) -> str:
    """Return "2 duplicates"; nothing for none."""
    count = sum(bool(file.same_as) for file in files)
    return counted(count, "duplicate") if count else ""


_PART: Final = "What the file is: weights, a template, a licence …"
_FREES: Final = (
    "Bytes that removing it frees; of a file of one model, with all that only this model uses. "
    "Nothing where several models share it."
)

_FILE_STATE: Final = "Used by models, unused, a duplicate, or unfinished."

FILES: Final = Table[StoredFile](
    Column("part", "What it is", TEXT, _PART),
    Column(
        *("used_by", "Used by", TEXT, "The models and tags that use it."),
        lambda file: list(file.blob.used_by),
        text=lambda file: file.users,
        stretches=True,
    ),
    Column("bytes", "Size", BYTES, "Bytes of the file on disk.", lambda file: file.blob.nbytes),
    Column("frees", "Removal frees", BYTES, _FREES, lambda file: file.frees or None),
    Column(
        *("used", "Last used", DAY, _USED),
        lambda file: _iso(file.used),
        text=lambda file: day_text(file.used),
    ),
    Column(
        *("state", "State", TEXT, _FILE_STATE), row_tip=lambda file: file.same_as or _FILE_STATE
    ),
    Column(
        *("models", "Models", INTEGER, "Number of models and tags that use it."),
        lambda file: len(file.blob.used_by),
        extra=True,
    ),
    Column("store", "Store", TEXT, "The program that keeps it."),
    Column(
        *("digest", "File", TEXT, "The file's name: the digest of its content."),
        lambda file: file.blob.digest,
        text=lambda file: shorten(plain_text(file.blob.digest), _SHOWN_DIGEST),
        extra=True,
    ),
    title="Files",
)


def file_table(files: Sequence[StoredFile]) -> Table[StoredFile]:
    """Return the table of files; of one store alone it does not say which."""
    several = len({file.store for file in files}) > 1
    largest = max((file.blob.nbytes for file in files), default=0) or 1
    return FILES.replacing(
        replace(FILES["store"], extra=not several),
        replace(FILES["bytes"], bar=lambda file: file.blob.nbytes / largest),
    )
