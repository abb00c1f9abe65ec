"""What panels of tensors share: their header, the choice of one, and tables of statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

from PySide6 import QtWidgets
from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtGui import QPalette

from explorer.analysis.moments import Moments
from explorer.analysis.statistics import TensorStatistics
from explorer.analysis.surveys import SurveyRow
from explorer.parallel import LruCache
from explorer.present.panels import PANELS
from explorer.present.tables.lines import LINES, Line, lines_of
from explorer.present.tables.statistics import MOMENTS, PERCENTILES, STATISTICS, SURVEYED
from explorer.present.tables.table import Table
from explorer.qt.document import Document
from explorer.qt.references import References
from explorer.qt.services import Services
from explorer.qt.theme import Space, TextSize, style_text
from explorer.qt.weights.curves import SelectedTensor, SubjectStatistics, unsupported_reason
from explorer.qt.widgets.building import add_action, column, row
from explorer.qt.widgets.controls import choice, label_of
from explorer.qt.widgets.labels import ElidedLabel, NoteLabel
from explorer.qt.widgets.lazy import TabbedPanel
from explorer.qt.widgets.pages import Refusal, no_model_open
from explorer.qt.widgets.table_model import TableModel
from explorer.text import plain_text, shorten

_LONGEST_NAME: Final = 1000  # letters that are measured: more do not fit


class Scope(IntEnum):
    """Which tensors are shown; the places in the list."""

    ONE = 0
    SAME_ROLE = 1
    SELECTED = 2


class Header(QtWidgets.QWidget):
    """Facts of a tensor, and the choice of others; of several, the names of the first and the last.

    The name of one tensor stands in the head of the window.

    Signals:
        scope_chosen: The user chose which tensors are shown.
    """

    scope_chosen = Signal()

    def __init__(self, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self.name = ElidedLabel(self)
        style_text(self.name, TextSize.SECTION)
        self.facts = ElidedLabel(self)
        self.facts.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.note = NoteLabel("Note about the values", self)
        self.scope = choice(
            *(self, "Which tensors", "Which tensors are shown"),
            *("This tensor", "Same role in every layer", "Selected tensors"),
        )
        self.scope.setSizeAdjustPolicy(QtWidgets.QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.scope.activated.connect(lambda _: self.scope_chosen.emit())
        self._second = row()
        top = row((self.facts, 1), self.scope)
        margins = (0, Space.TIGHT, 0, Space.NEAR)
        column(
            self.name, top, self._second, self.note, of=self, margins=margins, spacing=Space.TIGHT
        )

    def add_to_facts(self, widget: QtWidgets.QWidget) -> None:
        """Put something below the choice of others."""
        self._second.addStretch(1)
        self._second.addWidget(widget)

    @property
    def chosen(self) -> Scope:
        return Scope(self.scope.currentIndex())

    def choose(self, scope: Scope) -> None:
        self.scope.setCurrentIndex(scope)

    def show_texts(self, name: str, facts: str, note: str, *, several: bool = False) -> None:
        """Show texts, which may come from a file; the name where it is of several tensors."""
        self.name.setText(shorten(plain_text(name), _LONGEST_NAME))
        self.name.setVisible(several)
        self.facts.setText(plain_text(facts))
        self.note.say(note)


class TensorsPanel(TabbedPanel):
    """Pages of the tensors that are selected in the current model, or why there is nothing.

    A subclass makes its pages, then calls `refresh`.
    """

    noun: ClassVar[str]  # also the panel's name
    noun_of_one: ClassVar[str]

    def __init__(
        self, app: Services, references: References, parent: QtWidgets.QWidget | None = None
    ) -> None:
        super().__init__(app, parent)
        self._references = references
        self._document: Document | None = None
        self._rows: tuple[int, ...] = ()
        self._caches: WeakKeyDictionary[Document, LruCache] = WeakKeyDictionary()
        self.header = Header(self)

    def show_document(self, document: Document | None) -> None:
        """Show a model, of which no tensor is selected yet; None shows nothing."""
        if document is not self._document:
            self._document, self._rows = document, ()
            self.refresh()

    def show_tensors(self, rows: Sequence[int]) -> None:
        """Show tensors of the model, given by content row, the current one first."""
        if tuple(rows) != self._rows:
            self._rows = tuple(rows)
            self.refresh()

    def refresh(self) -> None:
        """Show the selected tensors, or a sentence that says why there are none."""
        document = self._document
        if document is None:
            sentence = f"Open a model to see its {self.noun}."
            refusal = no_model_open(self.app, PANELS[self.noun].title, sentence)
        elif not self._rows:
            sentence = (
                f"Choose one in the tree or in the tensor table to see its {self.noun_of_one}."
            )
            refusal = Refusal("Select a tensor", sentence)
        else:
            wanted = self._wanted(document)
            first = document.model.tensors.rows[wanted[0]]
            reason = unsupported_reason(first) if len(wanted) == 1 else None
            if reason is None:
                self._fill(document, wanted)
                return
            refusal = Refusal(f"Type {first.type.name}", f"{plain_text(first.name)}: {reason}")
        self.clear()
        self.show_message(*refusal)

    def _wanted(self, document: Document) -> Sequence[int]:
        """Return the content rows of what is shown of the selected tensors; one at least."""
        return self._rows[:1]

    def _fill(self, document: Document, wanted: Sequence[int]) -> None:
        """Show tensors whose weights can be read."""
        raise NotImplementedError

    def clear(self) -> None:
        """Show no tensor."""
        raise NotImplementedError


_LONGEST: Final = 200  # letters of a name: more do not fit
_LETTERS: Final = 24  # that are seen of a name, at least
_LINES: Final = 20  # of the open list


def step_button(
    owner: QtWidgets.QWidget, text: str, name: str, keys: str, step: Callable[[], None]
) -> QtWidgets.QToolButton:
    """Return a button of `owner` that goes to a neighbour; its default action has the keys."""
    action = add_action(owner, text, step, keys, children=True)
    action.setToolTip(f"{name} ({keys})")
    button = QtWidgets.QToolButton(owner)
    button.setDefaultAction(action)
    button.setAccessibleName(action.toolTip())
    return button


class TensorPicker(QtWidgets.QWidget):
    """A list of tensors, and steps to the one before and the next. Hidden if there is no choice.

    Signals:
        picked: The user chose another tensor.
    """

    picked = Signal()

    def __init__(self, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self._subjects: tuple[SelectedTensor, ...] = ()
        self.list = choice(self, "Tensor", "Which of the tensors the pages of one tensor show")
        sizes = QtWidgets.QComboBox.SizeAdjustPolicy
        self.list.setSizeAdjustPolicy(sizes.AdjustToMinimumContentsLengthWithIcon)
        self.list.setMinimumContentsLength(_LETTERS)
        self.list.setMaxVisibleItems(_LINES)
        self.list.setWhatsThis(
            "Which of these tensors is shown by Map, Codes, Scales, Minima, Block and Values. "
            "The histogram shows all of them, this one in front."
        )
        self.list.currentIndexChanged.connect(self._follow_list)
        before, following = "Tensor before", "Next tensor"
        back = step_button(self, "◂", before, "Alt+PgUp", lambda: self._step(-1))
        on = step_button(self, "▸", following, "Alt+PgDown", lambda: self._step(1))
        self.back_action, self.on_action = back.defaultAction(), on.defaultAction()
        row(label_of(self.list, "Tensor:"), back, self.list, on, of=self)
        self.setTabOrder(back, self.list)
        self.hide()

    @property
    def subject(self) -> SelectedTensor | None:
        """The tensor that is chosen; None if there is none."""
        place = self.list.currentIndex()
        return self._subjects[place] if 0 <= place < len(self._subjects) else None

    def offer(self, subjects: Sequence[SelectedTensor], first: int | None) -> bool:
        """Offer tensors. Emits nothing.

        Args:
            subjects: The tensors.
            first: Content row of the one that is chosen at first; if it is not among them, the
                first one.

        Returns:
            Whether they are those of before; then the choice stays.
        """
        if [id(one.tensor) for one in self._subjects] == [id(one.tensor) for one in subjects]:
            return True
        self._subjects = tuple(subjects)
        rows = [subject.row for subject in subjects]
        with QSignalBlocker(self.list):
            self.list.clear()
            self.list.addItems([shorten(subject.name, _LONGEST) for subject in subjects])
            self.list.setCurrentIndex(rows.index(first) if first in rows else min(0, len(rows) - 1))
        self.setVisible(len(rows) > 1)
        self._follow()
        return False

    def choose(self, chosen: int) -> None:
        """Choose a tensor by its content row, as if the user had; nothing if it is not offered."""
        rows = [subject.row for subject in self._subjects]
        if chosen in rows:
            self.list.setCurrentIndex(rows.index(chosen))

    def _step(self, by: int) -> None:
        self.list.setCurrentIndex(self.list.currentIndex() + by)

    def _follow_list(self) -> None:
        self._follow()
        self.picked.emit()

    def _follow(self) -> None:
        place, count = self.list.currentIndex(), self.list.count()
        self.back_action.setEnabled(place > 0)
        self.on_action.setEnabled(0 <= place < count - 1)


def _moments(found: SubjectStatistics) -> Moments:
    return found.moments


def _complete(found: SubjectStatistics) -> TensorStatistics | None:
    return found.complete


_LISTED: Final = Table[SubjectStatistics](
    *MOMENTS.at(_moments), *STATISTICS.at(_complete, "step_error_rms"), *PERCENTILES.at(_complete)
)
_SEVERAL: Final = Table[SubjectStatistics](
    SURVEYED["tensor"].at(lambda found: SurveyRow(found.subject.tensor, None)), *_LISTED
)


def statistic_lines(statistics: SubjectStatistics) -> list[Line]:
    """Return the lines of a tensor, some without a value while it streams."""
    return lines_of(_LISTED, statistics, "…")


class StatisticsTable(TableModel):
    """Lines of statistics; new ones of the same kind keep selection and scroll position."""

    def show_lines(self, lines: Sequence[Line]) -> None:
        self.update(LINES, lines, [line.name for line in lines])

    def show_several(self, several: Sequence[SubjectStatistics]) -> None:
        self.update(Table(*_SEVERAL.shown(several)), several)
