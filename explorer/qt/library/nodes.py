"""Nodes of the tree of downloaded models: order, filter, sums, and the facts about one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeVar

from explorer.formats import Problem
from explorer.formats.tensor_filter import Bounds, TermError, read_bounds
from explorer.planner.plans import Level
from explorer.present.fits import FITS_WORD, ModelFit
from explorer.present.model import gravest, mark, problem_line
from explorer.present.speed import Speed
from explorer.present.stores import removal_of_entry, removal_of_files, run_of_entry
from explorer.present.tables.library import FILES, LIBRARY, digest_text, time_text
from explorer.present.tables.lines import Line, line
from explorer.qt.library.rows import Row, RowKind, problem_note, store_summary, title_of
from explorer.qt.widgets.cells import CellParts
from explorer.qt.widgets.painting import type_swatch
from explorer.stores.entries import Store
from explorer.stores.library import Details
from explorer.text import bytes_text, integer_text, plain_text, shorten

_LISTED: Final = frozenset({RowKind.STORE, RowKind.FAMILY, RowKind.BRANCH})
_MODELS: Final = frozenset({RowKind.FAMILY, RowKind.ENTRY})
_IDS: Final = count(1)
Number = TypeVar("Number", int, float)


class LibraryColumn(IntEnum):
    NAME = 0
    ARCHITECTURE = 1
    PARAMETERS = 2
    QUANTIZATION = 3
    BYTES = 4
    FITS = 5
    CONTEXT = 6
    SPEED = 7
    MODIFIED = 8
    USED = 9
    NOTE = 10


class Node:
    """A row of the tree with its place.

    Attributes:
        id: What indexes refer to; an index of a row that is gone finds no node.
        place: Its position among the children shown.
        every: All nodes below, in the order shown, those filtered out included.
        children: The nodes below that are shown.
        details: Facts of the model's header, of an ENTRY.
        fit: How it fits the machine, of an ENTRY.
        expanded: Whether it is open in the view.
        requested: Whether its contents were asked for, of an ENTRY.
    """

    __slots__ = (
        *("_cells", "children", "details", "every", "expanded", "fit"),
        *("id", "parent", "place", "requested", "row"),
    )

    def __init__(self, row: Row, parent: Node | None) -> None:
        self.id = next(_IDS)
        self.row = row
        self.parent = parent
        self.place = 0
        self.every: list[Node] = []
        self.children: list[Node] = []
        self.details: Details | None = None
        self.fit: ModelFit | None = None
        self.expanded = False
        self.requested = False
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
        return self.row.pages is not None and len(self.every) < self.row.pages.count

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong, as far as it is known."""
        if self.details is None:
            return self.row.problems
        return *self.details.problems, *self.details.refusals

    @property
    def depth(self) -> int:
        """How many levels it is indented by, 1 for a store."""
        return sum(1 for _ in self.upwards()) - 1

    @property
    def store(self) -> Node:
        return next((node for node in self.upwards() if node.row.kind is RowKind.STORE), self)

    @property
    def model(self) -> Node | None:
        """The model to which it belongs, itself included."""
        return next((node for node in self.upwards() if node.row.entry is not None), None)

    def upwards(self) -> Iterator[Node]:
        """Yield the node and all above it."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def below(self) -> Iterator[Node]:
        """Yield the node and all below it that are made."""
        yield self
        for node in self.every:
            yield from node.below()

    def show(self, children: list[Node]) -> None:
        """Show these children, in this order."""
        self.children = children
        for place, node in enumerate(children):
            node.place = place

    @property
    def architecture(self) -> str:
        """The architecture; of a family, if all its members share one."""
        if self.row.kind is RowKind.FAMILY:
            shared = {node.architecture for node in self.every}
            return shared.pop() if len(shared) == 1 else ""
        name = None if self.details is None else self.details.architecture
        return title_of(name) if name else ""

    @property
    def parameters(self) -> int | None:
        """The number of weights; of a family, if all its members share one."""
        if self.row.kind is RowKind.FAMILY:
            shared = {node.parameters for node in self.every}
            return shared.pop() if len(shared) == 1 else None
        return self.row.parameters if self.details is None else self.details.parameters

    @property
    def quantization(self) -> str:
        """How the weights are stored."""
        if self.details is not None:
            name = self.details.file_type or self.details.main_type
            return title_of(name) if name else ""
        return self.row.quantization

    @property
    def fit_texts(self) -> tuple[str, str]:
        """Whether it fits, and the largest context; of a family what all share, or how many fit."""
        if self.row.kind is not RowKind.FAMILY:
            return ("", "") if self.fit is None else (self.fit.state, self.fit.context_text)
        members = [node.fit_texts for node in self._planned]
        states, contexts = {state for state, _ in members}, {context for _, context in members}
        context = contexts.pop() if len(contexts) == 1 else ""
        if len(states) == 1:
            return states.pop(), context
        return ("" if "" in states else self._how_many_fit()), context

    @property
    def file_type(self) -> str | None:
        """The same: a row in the window has no other."""
        return self.quantization

    @property
    def label(self) -> str:
        """The title, after the sign of what is wrong."""
        return f"{self.sign} {self.row.title}" if self.sign else self.row.title

    @property
    def nbytes(self) -> int | None:
        """Bytes on disk."""
        return self.row.nbytes

    @property
    def modified(self) -> float | None:
        """When it was changed, seconds since 1970."""
        return self.row.modified

    @property
    def used(self) -> float | None:
        """When its weights were last read, seconds since 1970."""
        return self.row.used

    @property
    def fit_order(self) -> float | None:
        """A number to sort by; a family goes by the best of its members."""
        return self._best(lambda fit: fit.order)

    @property
    def largest_context(self) -> int | None:
        """The largest context of the model, or of the members of a family."""
        return self._best(lambda fit: fit.largest_context)

    @property
    def speed(self) -> Speed | None:
        """How fast the model can be; of a family each member says it."""
        return None if self.row.kind is RowKind.FAMILY or self.fit is None else self.fit.speed

    @property
    def remark(self) -> str:
        """What is wrong with it; else what there is to say."""
        return problem_note(self.problems) or self.note

    def _best(self, value: Callable[[ModelFit], Number | None]) -> Number | None:
        members = self.every if self.row.kind is RowKind.FAMILY else [self]
        known = [value(node.fit) for node in members if node.fit is not None]
        return max((one for one in known if one is not None), default=None)

    @property
    def _planned(self) -> list[Node]:
        """The members of a family, without projectors and the like beside models."""
        return list(filter(_is_planned, self.every)) or self.every

    def _shared_fit(self) -> ModelFit | None:
        """Return what a pill is coloured by; None for a family whose members have their own."""
        if self.row.kind is not RowKind.FAMILY:
            return self.fit
        column = LibraryColumn.FITS  # asked at each paint: it may be large
        first = next(filter(_is_planned, self.every), self.every[0])
        return first.fit if first.cells[column] == self.cells[column] else None

    def _how_many_fit(self) -> str:
        levels = [node.fit.level if node.fit is not None else None for node in self._planned]
        return f"{levels.count(Level.FITS)} of {len(levels)} fit"

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
        return f"{bytes_text(shared)} shared with other models" if shared else ""

    def parts(self, column: int) -> CellParts | None:
        """Return how a cell is drawn; None for a text alone."""
        match column:
            case LibraryColumn.NAME:
                return self._name_parts()
            case LibraryColumn.QUANTIZATION if self.quantization:
                first = self.quantization.partition(",")[0]
                return CellParts(self.quantization, swatch=type_swatch(first))
            case LibraryColumn.FITS if self.cells[column]:
                return _fit_parts(self.cells[column], self._shared_fit())
            case LibraryColumn.MODIFIED | LibraryColumn.USED if self.cells[column]:
                return CellParts("", self.cells[column])
        return None

    def _name_parts(self) -> CellParts | None:
        row = self.row
        if row.kind is RowKind.NOTE:
            return None
        sign = self.sign
        if row.kind is RowKind.STORE:
            program, _, root = row.title.partition("   ")
            size = "" if row.nbytes is None else bytes_text(row.nbytes)
            muted = "   ·   ".join(filter(None, (root, self.note, size)))
            return CellParts(program, muted, strong=True, mark=sign, heading=True)
        muted = row.publisher
        if row.kind is not RowKind.ENTRY:
            muted = "   ·   ".join(filter(None, (muted, self.note)))
        model = row.kind in _MODELS
        return CellParts(row.short or row.title, muted, strong=model, mark=sign)

    @property
    def sign(self) -> str:
        """The sign of the gravest problem, also of a member of a family; empty for none."""
        # the column of notes may be out of sight, and the members of a closed family are
        members = self.every if self.row.kind is RowKind.FAMILY else []
        grave = gravest([*self.problems, *(each for node in members for each in node.problems)])
        return "" if grave is None else mark(grave.severity)

    def value(self, column: int) -> Any:
        return LIBRARY.columns[column].value(self)

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of its columns."""
        if self._cells is None:
            self._cells = self._make_cells()
        return self._cells

    def changed(self) -> None:
        """Forget the texts: something that they say has changed."""
        self._cells = None
        if self.parent is not None and self.parent.row.kind is RowKind.FAMILY:
            self.parent._cells = None

    def _make_cells(self) -> tuple[str, ...]:
        if self.row.kind is RowKind.NOTE:  # spans all columns
            return (problem_note(self.problems) or self.row.title, *[""] * LibraryColumn.NOTE)
        return tuple(column.cell(self) for column in LIBRARY)

    # What is copied of it

    @property
    def name(self) -> str:
        row = self.row
        return (row.name or row.title) if row.entry is None else row.entry.name

    @property
    def path(self) -> Path | None:
        """Its file or folder."""
        return self.row.path

    @property
    def digest(self) -> str:
        """Of a blob: ``sha256:`` and 64 digits, or the hub's etag; else empty."""
        return digest_text(self.row.digest)

    @property
    def run_command(self) -> str:
        """The command with which Ollama runs it; empty if it cannot."""
        entry, place = self.row.entry, self.store.row.place
        if entry is None or entry.format is None or place is None:
            return ""
        return run_of_entry(place.kind, entry)

    @property
    def removal(self) -> str:
        """The command that removes it; empty where there is none."""
        row, place = self.row, self.store.row.place
        if row.entry is not None and place is not None:
            return removal_of_entry(place.kind, place.root, row.entry)
        unused = row.kind in {RowKind.BLOB, RowKind.PARTIAL} and row.path is not None
        return removal_of_files([row.path]) if unused and row.path is not None else ""


def _is_planned(node: Node) -> bool:
    """Return whether a model has a plan, or may still get one, or is damaged."""
    return node.fit is None or node.fit.level is not None or node.fit.damaged


def _fit_parts(text: str, fit: ModelFit | None) -> CellParts:
    """Return a pill; muted text where only why it cannot be said is known."""
    if fit is None or (fit.level is None and not fit.damaged):
        return CellParts("", text)
    return CellParts(text, level=fit.level or Level.NOT)


def ordered(nodes: Sequence[Node], column: int, descending: bool) -> list[Node]:
    """Return nodes in the order of a column; models without a value come last either way."""
    models = [node for node in nodes if node.row.kind in _MODELS]
    others = [node for node in nodes if node.row.kind not in _MODELS]
    if column == LibraryColumn.BYTES:
        others.sort(key=lambda node: node.row.nbytes or 0, reverse=descending)
        others.sort(key=lambda node: node.row.kind is RowKind.BRANCH)
    models.sort(key=lambda node: node.row.order)
    if column == LibraryColumn.NAME:
        return [*(reversed(models) if descending else models), *others]
    values = {node.id: node.value(column) for node in models}
    values = {key: v.casefold() if isinstance(v, str) else v for key, v in values.items()}
    known = [node for node in models if values[node.id] not in {None, ""}]
    unknown = [node for node in models if values[node.id] in {None, ""}]
    known.sort(key=lambda node: values[node.id], reverse=descending)
    return [*known, *unknown, *others]


# The filter

_DIGEST: Final = re.compile(r"(?:sha256[:-])?([0-9a-f]{6,64})")
_SEARCHED: Final = (LibraryColumn.ARCHITECTURE, LibraryColumn.QUANTIZATION, LibraryColumn.NOTE)
_MATCHED: Final = frozenset({RowKind.ENTRY, RowKind.BLOB, RowKind.PARTIAL})


class Filter:
    """Keeps rows whose name, architecture, type, format or state holds every word.

    The word ``fits:yes`` (``partly``, ``no``) keeps the models that fit so; ``size<10G``,
    ``context>32k`` and ``params>=7B`` those whose numbers are so. What is not known is not kept.

    A word of hexadecimal digits also finds the models that use a blob of such a digest: so a user
    learns what a nameless file of 40 GB is.

    Attributes:
        text: What was typed.
        problems: A sentence for each word that is left out, since its value is missing or wrong.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.problems: list[str] = []
        self._words: list[str] = []
        self._compared: dict[str, tuple[int, Bounds] | None] = {}
        for word in dict.fromkeys(text.casefold().split()):
            try:
                self._compared[word] = _comparison(word)
                self._words.append(word)
            except TermError as error:
                self.problems.append(f"'{shorten(plain_text(word), 40)}' {error}")
        self._users: dict[tuple[int, str], frozenset[str]] = {}  # store, digest → names

    def wanted(self, node: Node) -> list[Node]:
        """Return the children of a listed node that are kept."""
        if not self._words or self._accepts(node):
            return list(node.every)
        return [child for child in node.every if self._keeps(child)]

    def _keeps(self, node: Node) -> bool:
        """Return whether a node is shown: for itself, or for one below it."""
        if not (node.listed or node.row.kind in _MATCHED):
            return True
        return self._accepts(node) or (node.listed and any(map(self._keeps, node.every)))

    def _accepts(self, node: Node) -> bool:
        text = _searched_text(node)
        return all(
            _fits_as(node, word)
            if word.startswith(FITS_WORD)
            else _compares(node, *compared)
            if (compared := self._compared[word]) is not None
            else word in text or self._uses(node, word)
            for word in self._words
        )

    def _uses(self, node: Node, word: str) -> bool:
        """Return whether a model uses a blob whose digest holds a word."""
        match = _DIGEST.fullmatch(word)
        entry = node.row.entry
        if match is None or entry is None:
            return False
        store, digits = node.store, match[1]
        key = (store.id, digits)
        if key not in self._users:
            blobs = () if store.row.store is None else store.row.store.blobs
            found = (blob.used_by for blob in blobs if digits in blob.digest)
            self._users[key] = frozenset(name for names in found for name in names)
        return entry.name in self._users[key]


_COMPARED: Final = {  # word → column, unit of `parse_bounds`, example
    "size": (LibraryColumn.BYTES, "bytes", "size<10G"),
    "context": (LibraryColumn.CONTEXT, "count", "context>32k"),
    "params": (LibraryColumn.PARAMETERS, "count", "params>7B"),
    "parameters": (LibraryColumn.PARAMETERS, "count", "parameters>7B"),
}
_COMPARISON: Final = re.compile(rf"({'|'.join(_COMPARED)})(>=|<=|>|<|=)(.*)")


_FITS: Final = tuple(FITS_WORD + level for level in Level)


def _comparison(word: str) -> tuple[int, Bounds] | None:
    """Return the column and the bounds of a word such as ``size<10g``; None if it is none.

    Raises:
        TermError: Its value, or that of ``fits:``, is missing or wrong.
    """
    if word.startswith(FITS_WORD) and not any(one.startswith(word) for one in _FITS):
        raise TermError(f"is left out: it can be {', '.join(_FITS[:-1])} or {_FITS[-1]}.")
    match = _COMPARISON.fullmatch(word)
    if match is None:
        return None
    column, unit, example = _COMPARED[match[1]]
    return column, read_bounds(match[2], match[3], unit, example)


def _compares(node: Node, column: int, bounds: Bounds) -> bool:
    value = node.value(column) if node.row.entry is not None else None
    return isinstance(value, int) and bounds.holds(value)


def _fits_as(node: Node, word: str) -> bool:
    """Return whether a model fits as a word says, also one that is being typed: "fits:part"."""
    level = None if node.fit is None else node.fit.level
    return level is not None and level.startswith(word.removeprefix(FITS_WORD))


def _searched_text(node: Node) -> str:
    # the note of a store is about a few rows in it, and would keep all the others
    searched = () if node.row.kind in {RowKind.STORE, RowKind.FAMILY} else _SEARCHED
    parts = [node.cells[column] for column in searched]
    entry = node.row.entry
    parts += [] if entry is None else [plain_text(entry.name), entry.format or ""]
    parts += [each.row.title for each in node.upwards()]
    return "\n".join(parts).casefold()


# Sums


@dataclass(frozen=True, slots=True)
class Total:
    """The number of models and other rows among selected rows, and their sum.

    Attributes:
        nbytes: Bytes on disk; what is shared counts once.
        apart: Sum of the rows' sizes; more than `nbytes` where blobs are shared.
    """

    models: int
    others: int
    nbytes: int
    apart: int


def total_of(nodes: Iterable[Node]) -> Total:
    """Sum up selected rows; a row below a selected one adds nothing."""
    chosen = {node.id: node for node in nodes if node.row.kind is not RowKind.NOTE}
    tops = [
        node
        for node in chosen.values()
        if not any(above.id in chosen for above in node.upwards() if above is not node)
    ]
    models = nbytes = apart = 0
    for store in {node.store.id: node.store for node in tops}.values():
        own = [node for node in tops if node.store is store]
        rows = [row for node in own for row in _leaves(node)]
        models += sum(row.entry is not None for row in rows)
        apart += sum(row.nbytes or 0 for row in rows)
        nbytes += (store.row.nbytes or 0) if store in own else _shared_total(store, rows)
    others = sum(node.row.kind not in {RowKind.STORE, *_MODELS} for node in tops)
    return Total(models, others, nbytes, max(apart, nbytes))


def _leaves(node: Node) -> Iterator[Row]:
    """Yield the models, files, blobs and tensors that a row stands for."""
    if node.listed:
        for child in node.every:
            yield from _leaves(child)
    else:
        yield node.row


def _shared_total(store: Node, rows: Iterable[Row]) -> int:
    """Return the bytes of rows of one store; what they share counts once."""
    entries = [row.entry for row in rows if row.entry is not None]
    digests = [row.digest for row in rows if row.digest]
    files = {}
    for row in rows:
        if row.path is not None and row.entry is None and not row.digest:
            part = row.kind not in {RowKind.PART, RowKind.PARTIAL}  # a tensor: a part of a file
            files[row.path / row.key if part else row.path] = row.nbytes or 0
    usage = store.row.usage
    if usage is None:  # the scan is not finished
        return sum(entry.nbytes for entry in entries) + sum(files.values())
    own = sum(entry.own_bytes for entry in entries) + sum(files.values())
    return own + usage.total((entry.name for entry in entries), digests)


# Facts about one row

_SHOWN: Final = 50
_CELLS: Final = LIBRARY.only("architecture", "parameters", "file_type", "bytes")
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


def facts_of(node: Node) -> list[Line]:
    """Return what is known of a row: whether it fits, what is wrong, where it is, what it shares.

    The table may have no room for its columns: their cells are among the facts.
    """
    row, entry, store = node.row, node.row.entry, node.store.row.store
    kind = "" if entry is None or entry.format is None else entry.format
    problems = [problem_line(problem) for problem in node.problems[:_SHOWN]]
    problems += ["… and more problems"] if len(node.problems) > _SHOWN else []
    facts = [
        (LIBRARY["fits"].head, "" if node.fit is None or node.fit.damaged else node.fit.sentence),
        ("Problems", "\n".join(problems)),
        (FILES["part"].head, ", ".join(filter(None, (_WHAT.get(row.kind, ""), kind)))),
        ("Where", "" if row.path is None else plain_text(str(row.path))),
        *((column.head, column.exact(node)) for column in _CELLS),
        (LIBRARY["modified"].head, time_text(row.modified)),
        (LIBRARY["used"].head, time_text(row.used)),
        ("Digest", plain_text(row.digest)),
        (LIBRARY["note"].head, node.note),
    ]
    if store is not None and entry is not None:
        facts.append(("Shares files with", _sharing_text(store, entry.name)))
    elif store is not None and row.digest:
        users = (blob.used_by for blob in store.blobs if blob.digest == row.digest)
        facts.append(users_fact(next(users, ())))
    return [line(title, text) for title, text in facts if text]


def heading_of(node: Node) -> str:
    """Return the name of a row that stands alone: with its model, if it is a part of one."""
    model = node.model
    own = title_of(node.row.name) if node.row.name else node.row.title
    if model is None or model.row.entry is None:
        return own
    name = title_of(model.row.entry.name)
    return name if model is node else f"{own}   ·   {name}"


def users_fact(names: tuple[str, ...]) -> tuple[str, str]:
    """Return the models that use a blob, with their number."""
    return f"Used by {integer_text(len(names))}", _names_text(names)


def _sharing_text(store: Store, name: str) -> str:
    shared: Counter[str] = Counter()
    for blob in store.blobs:
        if len(blob.used_by) > 1 and name in blob.used_by:
            shared.update(dict.fromkeys(blob.used_by[: 20 * _SHOWN], blob.nbytes))
    shared.pop(name, None)
    order = sorted(shared, key=lambda other: (-shared[other], other))
    return _names_text([f"{other}   ({bytes_text(shared[other])})" for other in order])


def _names_text(names: Sequence[str]) -> str:
    more = [f"and {integer_text(len(names) - _SHOWN)} more"] if len(names) > _SHOWN else []
    return "\n".join([*map(title_of, names[:_SHOWN]), *more])
