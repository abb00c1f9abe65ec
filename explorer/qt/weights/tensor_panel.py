"""What the panels of the selected tensors share: header, choice of one tensor, and their states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from PySide6 import QtWidgets
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QFont, QKeySequence, QPalette, QResizeEvent

from explorer.present.explanations import picture_text
from explorer.qt.document import Document, LruCache
from explorer.qt.jobs import JobRunner
from explorer.qt.weights.curves import Scope, SelectedTensor, unsupported_reason
from explorer.qt.widgets.labels import ElidedLabel, plain_label
from explorer.qt.widgets.lazy import TabbedPanel
from explorer.text import plain_text, shorten


class TensorPanel(TabbedPanel):
    """A panel of the tensors that are selected in the tensor table.

    Args:
        runner: Runs the reading.
        results: Results of a model that are kept.
        parent: Owner of the panel.
    """

    def __init__(
        self, runner: JobRunner, results: int, parent: QtWidgets.QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._runner = runner
        self._most_results = results
        self._document: Document | None = None
        self._rows: tuple[int, ...] = ()
        self._results: WeakKeyDictionary[Document, LruCache] = WeakKeyDictionary()

    def show_document(self, document: Document | None) -> None:
        """Show a model, of which no tensor is selected yet; None shows nothing."""
        if document is not self._document:
            self._document = document
            self._rows = ()
            self.refresh()

    def show_tensors(self, rows: Sequence[int]) -> None:
        """Show tensors of the model, given by content row, the current one first."""
        if tuple(rows) != self._rows:
            self._rows = tuple(rows)
            self.refresh()

    def refresh(self) -> None:
        document = self._document
        if document is None or not self._rows:
            self._explain_empty(document is not None)
            return
        rows = self._shown(document)
        first = document.model.tensors.rows[rows[0]]
        reason = unsupported_reason(first) if len(rows) == 1 else None
        if reason is None:
            self._fill(document, rows)
        else:
            heading = self.tr("Type {type}").format(type=first.type.name)
            self.show_state(heading, f"{plain_text(first.name)}: {reason}")

    def show_state(self, heading: str, sentence: str, button: str = "") -> None:
        self._clear()
        super().show_state(heading, sentence, button)

    def _explain_empty(self, opened: bool) -> None:
        """Show what to do to see something: open a model, or select a tensor of it."""
        raise NotImplementedError

    def _shown(self, document: Document) -> Sequence[int]:
        """Return the content rows of what is to be shown; at least one."""
        raise NotImplementedError

    def _fill(self, document: Document, rows: Sequence[int]) -> None:
        """Show tensors."""
        raise NotImplementedError

    def _clear(self) -> None:
        """Show nothing and stop reading."""
        raise NotImplementedError

    def _results_of(self, document: Document) -> LruCache:
        return self._results.setdefault(document, LruCache(self._most_results))


class Header(QtWidgets.QWidget):
    """Name and facts of a tensor, and the choice of others.

    Signals:
        scope_chosen: The user chose which tensors are shown.
    """

    scope_chosen = Signal()

    def __init__(self, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = ""
        self.name = QtWidgets.QLabel(self)
        font = QFont(self.name.font())
        font.setPointSizeF(font.pointSizeF() * 1.2)
        font.setWeight(QFont.Weight.DemiBold)
        self.name.setFont(font)
        self.name.setSizePolicy(
            QtWidgets.QSizePolicy.Policy.Ignored, QtWidgets.QSizePolicy.Policy.Preferred
        )
        self.facts = ElidedLabel(self)
        self.name.setWhatsThis(picture_text("name"))
        self.facts.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.facts.setWhatsThis(picture_text("tensor_facts"))
        self.note = QtWidgets.QLabel(self)
        self.note.setWordWrap(True)
        self.note.setAccessibleName(self.tr("Note about the values"))
        for label in (self.name, self.note):
            label.setTextFormat(Qt.TextFormat.PlainText)
        self.scope = QtWidgets.QComboBox(self)
        self.scope.setAccessibleName(self.tr("Which tensors"))
        self.scope.setToolTip(self.tr("Which tensors are shown"))
        self.scope.setSizeAdjustPolicy(QtWidgets.QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.scope.addItems(
            [
                self.tr("This tensor"),
                self.tr("Same role in every layer"),
                self.tr("Selected tensors"),
            ]
        )
        self.scope.activated.connect(lambda _: self.scope_chosen.emit())
        top = QtWidgets.QHBoxLayout()
        top.addWidget(self.name, 1)
        top.addWidget(self.scope)
        layout = QtWidgets.QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 4)
        layout.setSpacing(3)
        layout.addLayout(top)
        self._second = QtWidgets.QHBoxLayout()
        self._second.addWidget(self.facts, 1)
        layout.addLayout(self._second)
        layout.addWidget(self.note)

    def add_beside_facts(self, widget: QtWidgets.QWidget) -> None:
        """Put something at the end of the line of facts."""
        self._second.addWidget(widget)

    @property
    def chosen(self) -> Scope:
        """Return which tensors are to be shown."""
        return Scope(self.scope.currentIndex())

    def choose(self, scope: Scope) -> None:
        """Choose which tensors are to be shown."""
        self.scope.setCurrentIndex(scope)

    def show_texts(self, name: str, facts: str, note: str) -> None:
        """Say what is shown; texts may come from a file."""
        self._name = plain_text(name)
        self.name.setToolTip("")
        self.name.setAccessibleName(self._name[:400])
        self.facts.setText(plain_text(facts))
        self.note.setText(plain_text(note))
        self.note.setVisible(bool(note))
        self._elide()

    def _elide(self) -> None:
        width = self.name.width()
        # of a name of any length only what could fit is measured
        text = self._name[:1000]
        self.name.setText(
            self.name.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, width)
        )

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()


_LONGEST: Final = 200  # letters of a name: more do not fit
_LETTERS: Final = 24  # that are seen of a name, at least
_LINES: Final = 20  # of the open list


def step_button(
    owner: QtWidgets.QWidget, text: str, name: str, keys: str, step: Callable[[], None]
) -> QtWidgets.QToolButton:
    """Return a button of `owner` that goes to a neighbour; its default action has the keys."""
    action = QAction(text, owner)
    action.setToolTip(f"{name} ({keys})")
    action.setShortcut(QKeySequence(keys))
    action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    action.triggered.connect(step)
    button = QtWidgets.QToolButton(owner)
    button.setDefaultAction(action)
    button.setAccessibleName(action.toolTip())
    return button


class TensorPicker(QtWidgets.QWidget):
    """A list of tensors, and steps to the one before and the next. Hidden if there is no choice.

    Attributes:
        list: The tensors.
        back_action: Goes to the one before.
        on_action: Goes to the next one.

    Signals:
        picked: The user chose another tensor.
    """

    picked = Signal()

    def __init__(self, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self._subjects: tuple[SelectedTensor, ...] = ()
        self.list = QtWidgets.QComboBox(self)
        self.list.setAccessibleName(self.tr("Tensor"))
        self.list.setToolTip(self.tr("Which of the tensors the pages of one tensor show"))
        self.list.setSizeAdjustPolicy(
            QtWidgets.QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.list.setMinimumContentsLength(_LETTERS)
        self.list.setMaxVisibleItems(_LINES)
        self.list.setWhatsThis(
            self.tr(
                "Which of these tensors is shown by Map, Codes, Scales, Minima, Block and Values. "
                "The histogram shows all of them, this one in front."
            )
        )
        self.list.currentIndexChanged.connect(self._follow_list)
        before, following = self.tr("Tensor before"), self.tr("Next tensor")
        back = step_button(self, "◂", before, "Alt+PgUp", lambda: self._step(-1))
        on = step_button(self, "▸", following, "Alt+PgDown", lambda: self._step(1))
        self.back_action, self.on_action = back.defaultAction(), on.defaultAction()
        label = plain_label(self, self.tr("Tensor:"))
        label.setBuddy(self.list)
        layout = QtWidgets.QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for widget in (label, back, self.list, on):
            layout.addWidget(widget)
        self.setTabOrder(back, self.list)
        self.hide()

    @property
    def subject(self) -> SelectedTensor | None:
        """The tensor that is chosen; None if there is none."""
        place = self.list.currentIndex()
        return self._subjects[place] if 0 <= place < len(self._subjects) else None

    def offer(self, subjects: Sequence[SelectedTensor], row: int | None) -> bool:
        """Offer tensors. Emits nothing.

        Args:
            subjects: The tensors.
            row: Content row of the one that is chosen at first; if it is not among them, the first.

        Returns:
            Whether they are those of before; then the choice stays.
        """
        if _same(self._subjects, subjects):
            return True
        self._subjects = tuple(subjects)
        rows = [subject.row for subject in subjects]
        self.list.blockSignals(True)
        self.list.clear()
        self.list.addItems([shorten(subject.name, _LONGEST) for subject in subjects])
        self.list.setCurrentIndex(rows.index(row) if row in rows else min(0, len(rows) - 1))
        self.list.blockSignals(False)
        self.setVisible(len(rows) > 1)
        self._follow()
        return False

    def choose(self, row: int) -> None:
        """Choose a tensor by its content row, as if the user had; nothing if it is not offered."""
        rows = [subject.row for subject in self._subjects]
        if row in rows:
            self.list.setCurrentIndex(rows.index(row))

    def _step(self, by: int) -> None:
        self.list.setCurrentIndex(self.list.currentIndex() + by)

    def _follow_list(self) -> None:
        self._follow()
        self.picked.emit()

    def _follow(self) -> None:
        place, count = self.list.currentIndex(), self.list.count()
        self.back_action.setEnabled(place > 0)
        self.on_action.setEnabled(0 <= place < count - 1)


def _same(before: Sequence[SelectedTensor], now: Sequence[SelectedTensor]) -> bool:
    return len(before) == len(now) and all(
        one.tensor is other.tensor for one, other in zip(before, now, strict=True)
    )
