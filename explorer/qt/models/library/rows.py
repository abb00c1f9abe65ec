"""What a row of the tree of downloaded models says. Plain data, made in a worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final

from PySide6.QtCore import QCoreApplication

from explorer.formats import Problem, Severity
from explorer.qt.models.library.usage import Usage
from explorer.stores import Entry, Place, Store, StoreKind
from explorer.text import bytes_text, integer_text, plain_text, shorten

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
