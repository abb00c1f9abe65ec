"""What is compared: the current model (A), another one (B), their original, an importance matrix.

Errors are measured against the original: a model, or a type that weights are rounded to ("what if
this tensor were Q4_K"). Where none is chosen, those of A are measured against B. Tensors of two
models are matched in a job, once for each two. The unquantized original of a model is looked for
among the open models, beside it and in the library.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

from PySide6.QtCore import QObject, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QKeyEvent, QWheelEvent
from PySide6.QtWidgets import QComboBox, QSizePolicy, QWidget

from explorer.errors import ExplorerError
from explorer.formats.attachments import OpenMatrix
from explorer.formats.tensors import Tensor, rows_by_name
from explorer.parallel import Check
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobSlot
from explorer.qt.services import Services
from explorer.qt.widgets.building import row
from explorer.qt.widgets.controls import MOST_VISIBLE
from explorer.qt.widgets.labels import plain_label
from explorer.sources import is_address
from explorer.text import plain_text

if TYPE_CHECKING:
    from explorer.analysis.errors.pairs import WeightsPair
    from explorer.analysis.matching.pairing import Match, Matching
    from explorer.planner.logs.perplexity import Quality
    from explorer.present.tables.what_if import Trial
    from explorer.stores.entries import Entry


@dataclass(frozen=True, slots=True)
class Rounding:
    """Weights are compared with themselves, rounded to a type; see `analysis.rounding.rounder`."""

    type_name: str


Reference: TypeAlias = Document | Rounding | None
"""An open model, a type, or nothing."""


@dataclass(frozen=True, slots=True)
class MatchedModels:
    """How the tensors of a reference and of a model belong together.

    Attributes:
        matching: All pairs, and what has none.
        by_row: Pairs by row of the model's tensor table; a tensor that is joined with others in
            the reference has the pair of all of them.
        reasons: Why a tensor of the model is not comparable, by its name.
    """

    matching: Matching
    by_row: dict[int, Match]
    reasons: dict[str, str]

    @classmethod
    def of(cls, reference: Document, document: Document) -> MatchedModels:
        """Match two models; for a worker."""
        from explorer.analysis.matching.pairing import match_models  # noqa: PLC0415 - not for first paint

        matching = match_models(reference.model, document.model)
        rows = rows_by_name(document.model.tensors.columns.names)
        by_row: dict[int, Match] = {}
        for match in matching.matches:
            for tensor in match.candidate.tensors:
                by_row.setdefault(rows[tensor.name], match)
        reasons = {
            one.candidate_name: one.reason
            for one in matching.not_comparable
            if one.candidate_name is not None
        }
        return cls(matching, by_row, reasons)


@dataclass(frozen=True, slots=True)
class Partner:
    """What a tensor is compared with.

    Attributes:
        pair: Both; None if there is nothing to compare with.
        reason: Why not, as a sentence; "" if no reference was chosen.
        waiting: Whether the tensors are being matched: `References.changed` will follow.
    """

    pair: WeightsPair | None
    reason: str = ""
    waiting: bool = False


class References(QObject):
    """All open models, and what is compared: the choices of one place, for all pages.

    Attributes:
        document: The current model: A.
        documents: The open models.
        other: Another model that is compared with the same original: B; None for none.
        original: What was chosen to measure errors against.
        matrix: What errors are weighted by, too, and how *What if?* searches for scales; or None.
        measured: Perplexities and KL divergences that others measured, as the user gave them.

    Signals:
        changed: Something else is compared, or the matching of two models is known.
        documents_changed: Models were opened or closed.
    """

    changed = Signal()
    documents_changed = Signal()

    def __init__(self, app: Services, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.app = app
        self.document: Document | None = None
        self.documents: tuple[Document, ...] = ()
        self.other: Document | None = None
        self.original: Reference = None
        self.matrix: OpenMatrix | None = None
        self.measured: tuple[Quality, ...] = ()
        self._recipes: WeakKeyDictionary[Document, tuple[Reference, Sequence[Trial]]]
        self._recipes = WeakKeyDictionary()
        self._originals: WeakKeyDictionary[Document, Reference] = WeakKeyDictionary()
        self._others: WeakKeyDictionary[Document, Document] = WeakKeyDictionary()
        self._matched: WeakKeyDictionary[Document, WeakKeyDictionary[Document, MatchedModels]]
        self._matched = WeakKeyDictionary()  # of a model, by reference
        self._jobs: list[Job] = []

    @property
    def chosen(self) -> Reference:
        """What errors of the current model are measured against: the original, else B."""
        return self.other if self.original is None else self.original

    @property
    def against_original(self) -> Document | None:
        """The original, if errors of B are measured against it too."""
        if isinstance(self.original, Document) and self.other not in (None, self.original):
            return self.original
        return None

    def show_document(self, document: Document | None) -> None:
        """Take another current model; it is compared with what was last chosen for it."""
        if document is self.document:
            return
        self.document = document
        self.original = None if document is None else self._originals.get(document)
        self.other = None if document is None else self._others.get(document)
        self._renew()

    def set_documents(self, documents: Sequence[Document]) -> None:
        """Take the open models; one that was closed is not compared with any more."""
        if tuple(documents) == self.documents:
            return
        self.documents = tuple(documents)
        for choices in (self._originals, self._others):
            for document, reference in list(choices.items()):
                if isinstance(reference, Document) and reference not in self.documents:
                    del choices[document]
        before = self.original, self.other
        if isinstance(self.original, Document) and self.original not in self.documents:
            self.original = None  # before the lists of references are filled
        if self.other not in self.documents:
            self.other = None
        self.documents_changed.emit()
        if before != (self.original, self.other):
            self._renew()

    def choose(self, reference: Reference) -> None:
        """Measure errors of the current model against something, or nothing; no closed model."""
        if self.document is None or not self._is_possible(reference):
            return
        self._originals[self.document] = reference
        if reference is not self.original:
            self.original = reference
            self._renew()

    def choose_other(self, other: Document | None) -> None:
        """Show another model beside the current one, or none."""
        if self.document is None or not self._is_possible(other):
            return
        if other is None:
            self._others.pop(self.document, None)
        else:
            self._others[self.document] = other
        if other is not self.other:
            self.other = other
            self._renew()

    def choose_matrix(self, matrix: OpenMatrix | None) -> None:
        """Weight errors, and the search for scales, by importance, or count all weights alike."""
        # the one before is not closed here: a job may still read it for a moment
        if matrix is not self.matrix:
            self.matrix = matrix
            self.changed.emit()

    def note_recipes(self, lines: Sequence[Trial]) -> None:
        """Know what recipes of the whole current model would lose against the original."""
        if self.document is not None:
            self._recipes[self.document] = self.original, lines

    @property
    def recipes(self) -> Sequence[Trial]:
        """What is known of recipes for the current model, against the same original."""
        original, lines = (
            self._recipes.get(self.document, (None, ())) if self.document else (None, ())
        )
        return lines if original is self.original else ()

    def add_measured(self, found: Sequence[Quality]) -> None:
        """Know of what others measured, of whatever models."""
        self.measured = (*self.measured, *found)[-_MOST_MEASURED:]
        self.changed.emit()

    def compare_with(self, document: Document) -> None:
        """Compare the current model with another one: with its original, or as B."""
        if self._is_original(document):
            self.choose(document)
        else:
            self.choose_other(document)

    def swap(self, page: str) -> None:
        """Show B as the current model, compared with the same, and A beside it."""
        one, other = self.document, self.other
        if one is not None and other is not None:
            self._others[other] = one
            if self.decided and self.original is not other:
                self._originals[other] = self.original
            self.app.open(other.path, page)

    def _is_possible(self, reference: Reference) -> bool:
        closed = isinstance(reference, Document) and reference not in self.documents
        return not closed and (reference is None or reference is not self.document)

    def _is_original(self, one: Document) -> bool:
        from explorer.analysis.matching.pairing import is_original  # noqa: PLC0415 - not for first paint

        document = self.document
        if document is None or one is document:
            return False
        return is_original(one.facts, one.base_names, document.facts, document.base_names)

    @property
    def decided(self) -> bool:
        """Whether somebody chose what errors of the current model are against, be it nothing."""
        return self.document in self._originals

    def open_original(self) -> Document | None:
        """Return the open model that the current one was quantized from; None if none is.

        One on the web is left to the user: to compare with it fetches weights.
        """
        local = (one for one in self.documents if not is_address(one.path))
        return next(filter(self._is_original, local), None)

    @property
    def matched(self) -> MatchedModels | None:
        """How both models belong together; None without a model to compare with, or not yet."""
        return self.matched_with(self.document, self.chosen)

    def matched_with(self, document: Document | None, reference: Reference) -> MatchedModels | None:
        """Return how a model and its reference belong together; None of others, or not yet."""
        if document is None or not isinstance(reference, Document):
            return None
        return self._matched.get(document, WeakKeyDictionary()).get(reference)

    def partner_of(self, row: int, tensor: Tensor) -> Partner:
        """Return what a tensor of the current model is compared with, by its row.

        A tensor of another model has no partner: a panel that follows the selection after this
        object still shows one of the previous model.
        """
        document, chosen = self.document, self.chosen
        rows = () if document is None else document.model.tensors.rows
        if chosen is None or row >= len(rows) or rows[row] is not tensor:
            return Partner(None)
        from explorer.analysis.errors.pairs import MatchedPair, RoundedPair  # noqa: PLC0415 - not for the first paint

        if isinstance(chosen, Rounding):
            try:
                return Partner(RoundedPair(tensor, chosen.type_name))
            except ExplorerError as error:
                return Partner(None, str(error))
        if self.matched is None:
            return Partner(None, "The tensors of both models are being matched.", waiting=True)
        match = self.matched.by_row.get(row)
        if match is not None:
            return Partner(MatchedPair(match))
        reason = self.matched.reasons.get(tensor.name)
        text = "The reference has no tensor that matches this one."
        if reason is not None:
            text = f"Not comparable: {reason}"
        return Partner(None, text)

    def _renew(self) -> None:
        for job in self._jobs:
            job.cancel()
        self._jobs = []
        for document, reference in (
            (self.document, self.chosen),
            (self.other, self.against_original),
        ):
            if document is not None and isinstance(reference, Document):
                self._match(document, reference)
        self.changed.emit()

    def _match(self, document: Document, reference: Document) -> None:
        if self.matched_with(document, reference) is not None:
            return

        def done(matched: MatchedModels) -> None:
            self._matched.setdefault(document, WeakKeyDictionary())[reference] = matched
            self.changed.emit()

        job = self.app.runner.run(
            "Matching the tensors of two models",
            lambda _job: MatchedModels.of(reference, document),
            done,
            self.app.report,
        )
        self._jobs.append(job)


Find: TypeAlias = Callable[[Check], "Sequence[tuple[Entry, str]]"]
"""Returns the downloaded models, with the program that has each; called in a worker."""

_MOST_NAMES: Final = 4096  # names in a model's folder
_MOST_OPENED: Final = 8  # models that are called alike


def original_of(document: Document, find: Find, check: Check) -> Path | None:
    """Return the path of the model that another was quantized from, if it is on this machine.

    It is looked for beside the other one and among what was downloaded. Only models that are called
    alike are opened, the largest first, and their headers read. For a worker.
    """
    from explorer.analysis.matching import pairing  # noqa: PLC0415 - as above
    from explorer.formats.facts import describe  # noqa: PLC0415
    from explorer.formats.open import open_model  # noqa: PLC0415

    if not pairing.is_quantized(document.facts):
        return None
    own = document.base_names | {pairing.base_name(document.facts.name or "")}
    alike: dict[Path, tuple[float, set[str]]] = {}
    for path, name, nbytes in (*_in_folder(document.path), *_downloaded(find, check)):
        check()
        names = pairing.base_names(path, name)
        if names & own:
            alike.setdefault(path, (nbytes, names))
    ranked = sorted(alike, key=lambda path: (-alike[path][0], path))
    seen = {document.path, *(file.path for file in document.model.files)}
    for _ in range(_MOST_OPENED):
        best = next((path for path in ranked if path not in seen), None)
        if best is None:
            break
        check()
        seen.add(best)
        with suppress(ExplorerError), open_model(best) as model:  # what cannot be opened is none
            seen.update(file.path for file in model.files)
            if pairing.is_original(
                describe(model), alike[best][1], document.facts, document.base_names
            ):
                return best
    return None


def _in_folder(path: Path) -> Iterator[tuple[Path, str, float]]:
    """Yield path, name and size of what may be a model in a model's folder.

    What several files make together is as large as can be.
    """
    from explorer.formats.gguf.open import SHARD_NAME  # noqa: PLC0415 - not for first paint
    from explorer.model_files import MODEL_SUFFIXES  # noqa: PLC0415

    with suppress(OSError), os.scandir(path.parent) as entries:  # the folder is gone
        for entry in islice(entries, _MOST_NAMES):
            shard, size = SHARD_NAME.fullmatch(entry.name), math.inf
            if shard is not None and int(shard["number"]) != 1:
                continue
            with suppress(OSError):  # a link to itself, or one that is gone
                if not entry.is_dir():
                    if not entry.name.endswith(MODEL_SUFFIXES):
                        continue
                    size = size if shard is not None else float(entry.stat().st_size)
                yield Path(entry.path), entry.name, size


def _downloaded(find: Find, check: Check) -> Iterator[tuple[Path, str, float]]:
    for entry, _ in find(check):
        yield entry.path, entry.name, float(entry.nbytes)


class OriginalFinder(QObject):
    """Finds the original of the current model and fills it in: open, beside it or in the library.

    Attributes:
        finder: Returns what finds the downloaded models.
        is_wanted: Returns whether a model's original is to be filled in.
    """

    def __init__(self, references: References) -> None:
        super().__init__(references)
        self._references = references
        self._slot = JobSlot(references.app.runner, self)
        self._looked: WeakSet[Document] = WeakSet()
        self.finder: Callable[[], Find] = lambda: lambda _check: ()
        self.is_wanted: Callable[[Document], bool] = lambda _document: True

    def look(self) -> None:
        """Look for the original, unless somebody chose what to compare with, be it nothing."""
        references = self._references
        document, app = references.document, references.app
        if document is None or references.decided or not self.is_wanted(document):
            return
        original = references.open_original()
        if original is not None:
            references.choose(original)
            one, other = plain_text(document.title), plain_text(original.title)
            app.say(f"{one} is compared with {other}, which seems to be its original.")
            return
        if document in self._looked or is_address(document.path):
            return
        self._looked.add(document)

        def take(path: Path | None) -> None:
            if path is not None and references.document is document and not references.decided:
                app.say(f"{plain_text(path.name)} seems to be the original of this model.")
                app.compare_with(path)

        work = partial(original_of, document, self.finder())
        title = "Looking for the unquantized model"
        self._slot.run(title, lambda job: work(job.check), take, app.report)


_MOST_MEASURED: Final = 10_000
OPEN: Final = object()
"""Stands for what is to be opened first."""
Choice: TypeAlias = Reference | OpenMatrix

_LINE: Final = object()  # stands for a line between groups
_LONGEST = 60


class ModelChoice(QWidget):
    """A list of what one side of the comparison can be; every such list shows the same choice."""

    title: ClassVar[str]
    tip: ClassVar[str] = ""
    least_letters: ClassVar[int] = 24

    def __init__(self, references: References, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._references = references
        self._choices: list[Choice | object] = []
        self.label = plain_label(self, self.title)
        self.list = _ChoiceList(self)
        self.list.setAccessibleName(self.title.replace("&", ""))
        self.list.setToolTip(self.tip)
        self.list.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.list.setMinimumContentsLength(self.least_letters)
        self.list.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.list.setMaxVisibleItems(MOST_VISIBLE)
        self.label.setBuddy(self.list)
        row(self.label, (self.list, 1), of=self)
        self.list.activated.connect(self._take)
        references.changed.connect(self._show_choice)
        references.documents_changed.connect(self._fill)
        self._fill()

    # What a list defines

    def choices(self) -> Iterator[tuple[str, Choice | object]]:
        """Yield texts with what they stand for; a line between groups has no text."""
        raise NotImplementedError

    @property
    def current(self) -> Choice:
        """What is chosen."""
        raise NotImplementedError

    def take(self, choice: Choice) -> None:
        """Compare with what was chosen."""
        raise NotImplementedError

    def ask(self) -> None:
        """Ask for another model."""
        self._references.app.ask_reference()

    # What all do

    def others(self) -> Iterator[tuple[str, Document]]:
        """Yield the open models but for the current one."""
        for document in self._references.documents:
            if document is not self._references.document:
                yield shortened(plain_text(document.title)), document

    def _fill(self) -> None:
        """List what can be chosen."""
        with QSignalBlocker(self.list):
            self.list.clear()
            self._choices = []
            for text, choice in self.choices():
                if text:
                    self.list.addItem(text)
                else:
                    self.list.insertSeparator(self.list.count())
                self._choices.append(choice)
        self._show_current()

    def _show_choice(self) -> None:
        if [choice for _, choice in self.choices()] != self._choices:
            self._fill()  # the current model is another one, which is not compared with itself
        else:
            self._show_current()

    def _show_current(self) -> None:
        self.list.setCurrentIndex(
            self._choices.index(self.current) if self.current in self._choices else -1
        )
        self.setEnabled(self._references.document is not None)

    def _take(self, place: int) -> None:
        choice = self._choices[place]
        if choice is OPEN:
            self._show_current()
            self.ask()
        elif choice is None or isinstance(choice, Document | Rounding | OpenMatrix):
            self.take(choice)


class ReferenceBar(ModelChoice):
    """What errors are measured against: nothing, another model, or a type to round to."""

    title = "&Compare with"

    def choices(self) -> Iterator[tuple[str, Choice | object]]:
        from explorer.analysis.rounding import rounding_types  # noqa: PLC0415 - after the first paint

        yield "none", None
        yield "", _LINE
        yield from self.others()
        yield "Another model…", OPEN
        yield "", _LINE
        for name in rounding_types(weighed=False):
            yield f"Rounded to {name}", Rounding(name)

    @property
    def current(self) -> Choice:
        return self._references.chosen

    def take(self, choice: Choice) -> None:
        if not isinstance(choice, OpenMatrix):
            self._references.choose(choice)


class _ChoiceList(QComboBox):
    """A list that arrow keys open: else each step would start a comparison, or ask for a file."""

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = Qt.Key
        moves = {keys.Key_Up, keys.Key_Down, keys.Key_PageUp, keys.Key_PageDown}
        if event.key() in moves | {keys.Key_Home, keys.Key_End} or event.text().strip():
            self.showPopup()
        else:
            super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"
