"""What a row of the tree of downloaded models says. Plain data, made in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, IntEnum, auto
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QCoreApplication

from explorer.formats import Problem, Severity
from explorer.stores import Blob, Details, Entry, Place, Store, StoreKind
from explorer.text import bytes_text, count_text, integer_text, plain_text, shorten

# Which blobs each model of a store uses, so that what several of them share is counted once.


class Usage:
    """The blobs of one store, as arrays: a model of tensor blobs may have 10,000 of them.

    Args:
        blobs: The blobs, each once.
    """

    def __init__(self, blobs: Sequence[Blob]) -> None:
        self._nbytes = np.array([blob.nbytes for blob in blobs], np.int64)
        self._shared = np.array([len(blob.used_by) > 1 for blob in blobs], np.bool_)
        self._digests = {blob.digest: place for place, blob in enumerate(blobs)}
        places: dict[str, list[int]] = {}
        for place, blob in enumerate(blobs):
            for name in blob.used_by:
                places.setdefault(name, []).append(place)
        self._places = {name: np.array(own, np.intp) for name, own in places.items()}

    def shared_bytes(self, name: str) -> int:
        """Return how many of a model's bytes other models use too."""
        places = self._places.get(name)
        if places is None:
            return 0
        return int(self._nbytes[places[self._shared[places]]].sum())

    def total(self, names: Iterable[str], digests: Iterable[str] = ()) -> int:
        """Return the bytes of all blobs that models use, and of further blobs, each once."""
        return int(self._nbytes[self._marks(names, digests)].sum())

    def _marks(self, names: Iterable[str], digests: Iterable[str]) -> NDArray[np.bool_]:
        marks = np.zeros(len(self._nbytes), np.bool_)
        for name in names:
            places = self._places.get(name)
            if places is not None:
                marks[places] = True
        for digest in digests:
            place = self._digests.get(digest)
            if place is not None:
                marks[place] = True
        return marks


_LONGEST_TITLE = 200  # a name may have 60,000 characters; the tool tip shows more
_MARKS = {Severity.ERROR: "✘", Severity.WARNING: "⚠"}  # both are in DejaVu

PROGRAM: Final = {
    StoreKind.OLLAMA: "Ollama",
    StoreKind.HUGGINGFACE: "Hugging Face",
    StoreKind.LMSTUDIO: "LM Studio",
    StoreKind.LLAMA_CPP: "llama.cpp",
    StoreKind.FOLDER: "Folder",
}


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
    """Rows that are made when they are about to be seen: a model may have 100,000 tensors.

    Attributes:
        count: How many there are.
        make: Makes those from one position up to another, from memory.
    """

    count: int
    make: Callable[[int, int], list[Row]]


@dataclass(frozen=True, slots=True)
class Row:
    """One row. What is not known is None or empty.

    Attributes:
        kind: What it stands for.
        key: What it alone is known by among its siblings, also after the next scan.
        title: Its name, safe to show; of a tensor without what the rows above it say.
        name: The whole name as the model has it, of a tensor; else empty.
        architecture: The model's architecture, safe to show.
        parameters: Number of weights.
        quantization: How its weights are stored, safe to show.
        nbytes: Bytes on disk; what is shared is counted once in a sum.
        modified: When it was changed last, seconds since 1970.
        note: What there is to say about it, safe to show, if it has no problems.
        problems: What is wrong with it.
        path: Where it is.
        digest: Of a blob: its name; else empty.
        text: Whether its content can be read as text.
        entry: The model, of an ENTRY.
        place: The store's place, of a STORE.
        store: What the scan found, of a STORE that was read to its end.
        usage: Which blobs its models use, of a STORE that was read to its end.
        order: Key under which the title sorts as people expect, of a model; made in the worker.
        children: The rows below, if they are known.
        pages: The rows below, if they are made when they are looked at.
    """

    kind: RowKind
    key: str
    title: str
    name: str = ""
    architecture: str = ""
    parameters: int | None = None
    quantization: str = ""
    nbytes: int | None = None
    modified: float | None = None
    note: str = ""
    problems: tuple[Problem, ...] = ()
    path: Path | None = None
    digest: str = ""
    text: bool = False
    entry: Entry | None = None
    place: Place | None = None
    store: Store | None = field(default=None, compare=False)
    usage: Usage | None = field(default=None, compare=False)
    order: tuple[tuple[int, int, str], ...] = field(default=(), compare=False)
    children: tuple[Row, ...] = field(default=(), compare=False)
    pages: Pages | None = field(default=None, compare=False)


def title_of(text: str) -> str:
    """Return a name as a row shows it."""
    return shorten(plain_text(text), _LONGEST_TITLE) or translate("(empty name)")


def note_row(text: str, problem: Severity | None = None) -> Row:
    """Return a sentence in place of rows."""
    problems = () if problem is None else (Problem(problem, "", text),)
    return Row(RowKind.NOTE, "note", title_of(text), problems=problems)


def mark(severity: Severity) -> str:
    """Return the sign of a problem; a sentence goes with it, so no colour is needed."""
    return _MARKS[severity]


def gravest(problems: Sequence[Problem]) -> Problem | None:
    """Return the first error, or the first warning if there is no error."""
    errors = (problem for problem in problems if problem.severity is Severity.ERROR)
    return next(errors, problems[0] if problems else None)


def problem_note(problems: Sequence[Problem]) -> str:
    """Return the gravest problem as a line, and how many there are besides."""
    first = gravest(problems)
    if first is None:
        return ""
    text = f"{mark(first.severity)} {title_of(first.what)}"
    if len(problems) > 1:
        more = translate("and {n} more").format(n=len(problems) - 1)
        text = f"{text} ({more})"
    return text


def counted(count: int, one: str, many: str) -> str:
    """Return a number of things: `one`, or `many` with ``{n}`` filled in."""
    return one if count == 1 else many.format(n=integer_text(count))


def translate(text: str) -> str:
    """Return a text of the panel in the user's language."""
    return QCoreApplication.translate("Library", text)


def store_summary(store: Store) -> str:
    """Return how many models a store holds, and what is wrong with it."""
    parts = [counted(len(store.entries), translate("1 model"), translate("{n} models"))]
    orphans = [blob.nbytes for blob in store.blobs if not blob.used_by]
    if orphans:
        text = counted(len(orphans), translate("1 orphaned blob"), translate("{n} orphaned blobs"))
        parts.append(f"⚠ {text} ({bytes_text(sum(orphans))})")
    if store.partials:
        text = translate("{n} unfinished").format(n=integer_text(len(store.partials)))
        nbytes = sum(partial.nbytes for partial in store.partials)
        parts.append(f"⚠ {text} ({bytes_text(nbytes)})")
    return ", ".join(parts)


# A row in the tree: where it stands, what is below it, and the texts of its cells.


PAGE = 256
"""Rows that a branch shows at first, and with each further step of scrolling."""

_LISTED = frozenset({RowKind.STORE, RowKind.FAMILY, RowKind.BRANCH})
_IDS = count(1)
_DATE_LENGTH = len("2026-11-21")  # the time of day is told below the tree


class LibraryColumn(IntEnum):
    """The columns of the tree."""

    NAME = 0
    ARCHITECTURE = 1
    PARAMETERS = 2
    QUANTIZATION = 3
    BYTES = 4
    MODIFIED = 5
    NOTE = 6


class Node:
    """A row of the tree with its place.

    Attributes:
        id: What indexes refer to; an index of a row that is gone finds nothing, and no dead object.
        row: What it says.
        parent: The node above; None for a store.
        place: Its position among the children shown.
        every: All nodes below, in the order shown, those filtered out included.
        children: The nodes below that are shown.
        details: What opening the model told, of an ENTRY.
        expanded: Whether it is open in the view.
        requested: Whether its contents were asked for, of an ENTRY.
        pages: Rows below that are still to be made.
    """

    __slots__ = (
        "_cells",
        "children",
        "details",
        "every",
        "expanded",
        "id",
        "pages",
        "parent",
        "place",
        "requested",
        "row",
    )

    def __init__(self, row: Row, parent: Node | None) -> None:
        self.id = next(_IDS)
        self.row = row
        self.parent = parent
        self.place = 0
        self.every: list[Node] = []
        self.children: list[Node] = []
        self.details: Details | None = None
        self.expanded = False
        self.requested = False
        self.pages: Pages | None = row.pages
        self._cells: tuple[str, ...] | None = None

    @property
    def listed(self) -> bool:
        """Whether the rows below come from the scan, not from opening a model."""
        return self.row.kind in _LISTED

    @property
    def pending(self) -> bool:
        """Whether there are rows below that are not made yet."""
        if self.row.kind is RowKind.ENTRY:
            return not self.requested
        return self.pages is not None and len(self.every) < self.pages.count

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong, as far as it is known."""
        return self.row.problems if self.details is None else self.details.problems

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of its columns."""
        if self._cells is None:
            self._cells = self._make_cells()
        return self._cells

    @property
    def note(self) -> str:
        """What there is to say: of a model, how much of it others use too; of a store, the sum."""
        entry = self.row.entry
        if self.row.store is not None and not self.row.note:
            return store_summary(self.row.store)
        if entry is None:
            return self.row.note
        usage = self.store.row.usage
        shared = 0 if usage is None else usage.shared_bytes(entry.name)
        if not shared:
            return ""
        return translate("{size} shared with other models").format(size=bytes_text(shared))

    @property
    def store(self) -> Node:
        """The store to which it belongs."""
        node = self
        while node.parent is not None and node.row.kind is not RowKind.STORE:
            node = node.parent
        return node

    def changed(self) -> None:
        """Forget the texts: something that they say has changed."""
        self._cells = None
        if self.parent is not None and self.parent.row.kind is RowKind.FAMILY:
            self.parent._cells = None

    @property
    def architecture(self) -> str:
        """The architecture; of a family, if all its members share one."""
        if self.row.kind is RowKind.FAMILY:
            known = {node.architecture for node in self.every}
            return known.pop() if len(known) == 1 else ""
        if self.details is not None:
            return title_of(self.details.architecture) if self.details.architecture else ""
        return self.row.architecture

    @property
    def parameters(self) -> int | None:
        """The number of weights; of a family, if all its members share one."""
        if self.row.kind is RowKind.FAMILY:
            known = {node.parameters for node in self.every}
            return known.pop() if len(known) == 1 else None
        return self.row.parameters if self.details is None else self.details.parameters

    @property
    def quantization(self) -> str:
        """How the weights are stored."""
        if self.details is not None:
            return title_of(self.details.file_type) if self.details.file_type else ""
        return self.row.quantization

    def take(self, row: Row) -> bool:
        """Take what a new scan says; return whether it shows."""
        same = row is self.row or row == self.row
        if not same:
            self.changed()
        if row.usage is not self.row.usage:  # what models share may be something else
            for node in self.below():
                node._cells = None
            same = False
        self.row = row
        return not same

    def retell(self) -> None:
        """Forget the texts of this node and of all below: numbers are written in another way."""
        for node in self.below():
            node._cells = None

    def below(self) -> Iterator[Node]:
        """Yield all nodes below that are made, and this one first."""
        yield self
        for node in self.every:
            yield from node.below()

    def number(self, first: int = 0) -> None:
        """Tell the children shown where they stand."""
        for place, node in enumerate(self.children[first:], first):
            node.place = place

    def _make_cells(self) -> tuple[str, ...]:
        row, parameters = self.row, self.parameters
        problems = self.problems
        if row.kind is RowKind.NOTE:  # spans all columns
            return (problem_note(problems) or row.title, *[""] * LibraryColumn.NOTE)
        return (
            self._marked_title(),
            self.architecture,
            "" if parameters is None else count_text(parameters),
            self.quantization,
            "" if row.nbytes is None else bytes_text(row.nbytes),
            time_text(row.modified)[:_DATE_LENGTH],
            problem_note(problems) if problems else self.note,
        )

    def _marked_title(self) -> str:
        """Return the title with the sign of the gravest problem, which the last column explains.

        That column may be out of sight, and the members of a closed family are.
        """
        problems = list(self.problems)
        if self.row.kind is RowKind.FAMILY:
            problems += [problem for node in self.every for problem in node.problems]
        grave = gravest(problems)
        return self.row.title if grave is None else f"{mark(grave.severity)} {self.row.title}"


def time_text(seconds: float | None) -> str:
    """Return a time of this place; nothing if it is not known or no year has it."""
    try:
        moment = None if seconds is None else datetime.fromtimestamp(seconds).astimezone()
    except (ValueError, OverflowError, OSError):
        return ""
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M")


def ordered(nodes: Sequence[Node], column: int, descending: bool) -> list[Node]:
    """Return models in the order of a column; what has no value there comes last either way."""
    models = [node for node in nodes if node.row.kind in {RowKind.ENTRY, RowKind.FAMILY}]
    others = [node for node in nodes if node.row.kind not in {RowKind.ENTRY, RowKind.FAMILY}]
    if column == LibraryColumn.BYTES:
        others.sort(key=lambda node: node.row.nbytes or 0, reverse=descending)
        others.sort(key=lambda node: node.row.kind is RowKind.BRANCH)
    if not models:
        return others
    models.sort(key=lambda node: node.row.order)
    if column == LibraryColumn.NAME:
        return [*(reversed(models) if descending else models), *others]
    values = [_value(node, column) for node in models]
    known = [place for place, value in enumerate(values) if value not in {None, ""}]
    unknown = [node for node, value in zip(models, values, strict=True) if value in {None, ""}]
    known.sort(key=lambda place: values[place], reverse=descending)  # type: ignore[arg-type,return-value] # of one type, and known
    return [*(models[place] for place in known), *unknown, *others]


def _value(node: Node, column: int) -> str | float | None:
    match column:
        case LibraryColumn.ARCHITECTURE:
            return node.architecture.casefold()
        case LibraryColumn.PARAMETERS:
            return node.parameters
        case LibraryColumn.QUANTIZATION:
            return node.quantization.casefold()
        case LibraryColumn.BYTES:
            return node.row.nbytes
        case LibraryColumn.MODIFIED:
            return node.row.modified
        case _:
            return node.cells[LibraryColumn.NOTE].casefold()
