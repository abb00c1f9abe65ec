"""The reference that the current model is compared with.

A reference is another open model, or a type that weights are rounded to: "what if this tensor were
Q4_K". Tensors of two models are matched in a job, once for each two. The unquantized original of a
model is looked for among the open models, beside it and in the library.
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
from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import WeakKeyDictionary

from PySide6.QtCore import QObject, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QKeyEvent, QWheelEvent
from PySide6.QtWidgets import QComboBox, QPushButton, QSizePolicy, QWidget

from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor, rows_by_name
from explorer.parallel import Check
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobSlot
from explorer.qt.services import Services
from explorer.qt.widgets.building import LINE, row
from explorer.qt.widgets.labels import plain_label
from explorer.sources import is_address
from explorer.text import plain_text

if TYPE_CHECKING:
    from explorer.analysis.errors.pairs import WeightsPair
    from explorer.analysis.matching.pairing import Match, Matching
    from explorer.stores import Entry


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
    """The current model, all open models, and what the current one is compared with.

    Signals:
        changed: Another model, another reference, or the matching of both is known.
        documents_changed: Models were opened or closed.
    """

    changed = Signal()
    documents_changed = Signal()

    def __init__(self, app: Services, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.app = app
        self.document: Document | None = None
        self.documents: tuple[Document, ...] = ()
        self.chosen: Reference = None
        self._choices: WeakKeyDictionary[Document, Reference] = WeakKeyDictionary()
        self._matched: WeakKeyDictionary[Document, WeakKeyDictionary[Document, MatchedModels]]
        self._matched = WeakKeyDictionary()  # of a model, by reference
        self._job: Job | None = None

    def show_document(self, document: Document | None) -> None:
        """Take another current model; it is compared with what was last chosen for it."""
        if document is self.document:
            return
        self.document = document
        self.chosen = None if document is None else self._choices.get(document)
        self._renew()

    def set_documents(self, documents: Sequence[Document]) -> None:
        """Take the open models; one that was closed is not a reference any more."""
        if tuple(documents) == self.documents:
            return
        self.documents = tuple(documents)
        for document, reference in list(self._choices.items()):
            if isinstance(reference, Document) and reference not in self.documents:
                del self._choices[document]
        closed = isinstance(self.chosen, Document) and self.chosen not in self.documents
        if closed:
            self.chosen = None  # before the lists of references are filled
        self.documents_changed.emit()
        if closed:
            self._renew()

    def choose(self, reference: Reference) -> None:
        """Compare the current model with something else, or with nothing; a closed one is none."""
        document = self.document
        closed = isinstance(reference, Document) and reference not in self.documents
        if document is None or reference is document or closed:
            return
        self._choices[document] = reference
        if reference is not self.chosen:
            self.chosen = reference
            self._renew()

    @property
    def decided(self) -> bool:
        """Whether somebody chose what the current model is compared with, be it nothing."""
        return self.document in self._choices

    def original(self) -> Document | None:
        """Return the open model that the current one was quantized from; None if none is.

        One on the web is left to the user: to compare with it fetches weights.
        """
        from explorer.analysis.matching.pairing import is_original  # noqa: PLC0415 - not for first paint

        document = self.document
        if document is None:
            return None
        found = (
            one
            for one in self.documents
            if one is not document
            and not is_address(one.path)
            and is_original(one.facts, one.base_names, document.facts, document.base_names)
        )
        return next(found, None)

    @property
    def matched(self) -> MatchedModels | None:
        """How both models belong together; None without a model to compare with, or not yet."""
        if self.document is None or not isinstance(self.chosen, Document):
            return None
        return self._matched.get(self.document, WeakKeyDictionary()).get(self.chosen)

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
        if self._job is not None:
            self._job.cancel()
            self._job = None
        document, reference = self.document, self.chosen
        if document is not None and isinstance(reference, Document) and self.matched is None:

            def done(matched: MatchedModels) -> None:
                self._matched.setdefault(document, WeakKeyDictionary())[reference] = matched
                self.changed.emit()

            self._job = self.app.runner.run(
                "Matching the tensors of two models",
                lambda _job: MatchedModels.of(reference, document),
                done,
                self.app.report,
            )
        self.changed.emit()


Find: TypeAlias = Callable[[Check], "Sequence[tuple[Entry, str]]"]
"""Returns the downloaded models, with the program that has each; called in a worker."""

_MOST_NAMES: Final = 4096  # names in a model's folder
_MOST_OPENED: Final = 8  # models that are called alike


def original_of(document: Document, find: Find, check: Check) -> tuple[Path, str] | None:
    """Return path and name of the model that another was quantized from, if it is on this machine.

    It is looked for beside the other one and among what was downloaded. Only models that are called
    alike are opened, the largest first, and their headers read. For a worker.
    """
    from explorer.analysis.matching import pairing  # noqa: PLC0415 - as above
    from explorer.formats.facts import describe  # noqa: PLC0415
    from explorer.formats.open import open_model  # noqa: PLC0415

    if not pairing.is_quantized(document.facts):
        return None
    own = document.base_names | {pairing.base_name(document.facts.name or "")}
    alike: dict[Path, tuple[float, str, set[str]]] = {}
    for path, name, nbytes in (*_in_folder(document.path), *_downloaded(find, check)):
        check()
        names = pairing.base_names(path, name)
        if names & own:
            alike.setdefault(path, (nbytes, name, names))
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
            _, name, names = alike[best]
            if pairing.is_original(describe(model), names, document.facts, document.base_names):
                return best, name
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


class OriginalOffer(QWidget):
    """A line that offers to compare with the original, where it lies on this machine.

    Attributes:
        finder: Returns what finds the downloaded models.
    """

    def __init__(
        self, app: Services, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.app = app
        self._references = references
        self._slot = JobSlot(app.runner, self)
        self._found: WeakKeyDictionary[Document, tuple[Path, str] | None] = WeakKeyDictionary()
        self.finder: Callable[[], Find] = lambda: lambda _check: ()
        self.label = plain_label(self)
        self.label.setWordWrap(True)
        self.button = QPushButton("Compare with &it", self)
        self.button.clicked.connect(self._take)
        row((self.label, 1), self.button, of=self)
        self.setContentsMargins(*LINE)
        self.hide()

    def look(self) -> None:
        """Look for the original of the current model, unless it is compared with something."""
        document = self._wanting
        if document is None or document in self._found:
            self._slot.cancel()
            self._show()
            return

        def keep(found: tuple[Path, str] | None) -> None:
            self._found[document] = found
            self._show()

        title = "Looking for the unquantized model"
        work = partial(original_of, document, self.finder())
        self._slot.run(title, lambda job: work(job.check), keep, self.app.report)
        self._show()

    @property
    def _wanting(self) -> Document | None:
        """The current model, if it is compared with nothing."""
        document = self._references.document
        if document is None or self._references.chosen is not None or is_address(document.path):
            return None
        return document

    @property
    def _original(self) -> tuple[Path, str] | None:
        """Path and name of its original; None where none is known or wanted."""
        document = self._wanting
        return None if document is None else self._found.get(document)

    def _show(self) -> None:
        found = self._original
        self.setVisible(found is not None)
        if found is not None:
            self.label.setText(
                f"{plain_text(found[1])} seems to be what this model was quantized from."
            )

    def _take(self) -> None:
        found = self._original
        if found is not None:
            self.app.compare_with(found[0])


_OPEN = object()  # stands for "another model", which is to be opened first
_LONGEST = 60


class ReferenceBar(QWidget):
    """A list of all references: nothing, the other open models, types, and opening another model.

    Every such bar shows the same choice.
    """

    def __init__(self, references: References, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._references = references
        self._choices: list[Reference | object] = []
        self.label = plain_label(self, "&Compare with")
        self.list = _ReferenceList(self)
        self.list.setAccessibleName("Compare with")
        self.list.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.list.setMinimumContentsLength(24)
        self.list.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.list.setMaxVisibleItems(30)
        self.label.setBuddy(self.list)
        row(self.label, (self.list, 1), of=self)
        self.list.activated.connect(self._take)
        references.changed.connect(self._show_choice)
        references.documents_changed.connect(self._fill)
        self._fill()

    def _fill(self) -> None:
        """List what can be chosen."""
        with QSignalBlocker(self.list):
            self.list.clear()
            self._choices = []
            for text, choice in self._all():
                if text:
                    self.list.addItem(text)
                else:
                    self.list.insertSeparator(self.list.count())
                self._choices.append(choice)
        self._show_choice()

    def _all(self) -> Iterator[tuple[str, Reference | object]]:
        references = self._references
        yield "nothing", None
        yield "", None
        for document in references.documents:
            if document is not references.document:
                yield _shortened(plain_text(document.title)), document
        yield "Another model…", _OPEN
        yield "", None
        from explorer.analysis.rounding import rounding_types  # noqa: PLC0415 - after the first paint

        for name in rounding_types(weighed=False):  # no importance matrix is chosen here
            yield f"Rounded to {name}", Rounding(name)

    def _show_choice(self) -> None:
        references = self._references
        listed = [one for one in self._choices if isinstance(one, Document)]
        others = [one for one in references.documents if one is not references.document]
        if listed != others:  # the current model is another one, which is not its own reference
            self._fill()
            return
        self.list.setCurrentIndex(self._choices.index(references.chosen))
        self.setEnabled(references.document is not None)

    def _take(self, place: int) -> None:
        choice = self._choices[place]
        if choice is _OPEN:
            self._show_choice()
            self._references.app.ask_reference()
        elif choice is None or isinstance(choice, Document | Rounding):
            self._references.choose(choice)


class _ReferenceList(QComboBox):
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


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"
