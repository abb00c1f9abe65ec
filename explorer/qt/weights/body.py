"""The panel's content while there is something to show. Made late: pyqtgraph is slow to load.

Its first page is made with it, every other one when it is first looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QFont, QKeySequence, QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from explorer.present.explanations import picture_text
from explorer.qt.document import Recent
from explorer.qt.jobs import JobRunner
from explorer.qt.references import References
from explorer.qt.weights.blocks import BlockPages
from explorer.qt.weights.curves import Scope, Subject, is_quantized
from explorer.qt.weights.histogram import HistogramPage
from explorer.qt.weights.values import Place
from explorer.qt.widgets.labels import ElidedLabel, plain_label
from explorer.qt.widgets.lazy import LateView
from explorer.qt.widgets.pages import TabbedBody
from explorer.text import plain_text, shorten

if TYPE_CHECKING:
    from explorer.qt.weights.block.page import MicroscopePage
    from explorer.qt.weights.map.page import MapPage
    from explorer.qt.weights.values import ValuesPage


# Which tensor is shown, what it is, and which others are shown with it.


class Header(QWidget):
    """Name and facts of a tensor, and the choice of others.

    Signals:
        scope_chosen: The user chose which tensors are shown.
    """

    scope_chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = ""
        self.name = QLabel(self)
        font = QFont(self.name.font())
        font.setPointSizeF(font.pointSizeF() * 1.2)
        font.setWeight(QFont.Weight.DemiBold)
        self.name.setFont(font)
        self.name.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.facts = ElidedLabel(self)
        self.name.setWhatsThis(picture_text("name"))
        self.facts.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.facts.setWhatsThis(picture_text("tensor_facts"))
        self.note = QLabel(self)
        self.note.setWordWrap(True)
        self.note.setAccessibleName(self.tr("Note about the values"))
        for label in (self.name, self.note):
            label.setTextFormat(Qt.TextFormat.PlainText)
        self.scope = QComboBox(self)
        self.scope.setAccessibleName(self.tr("Which tensors"))
        self.scope.setToolTip(self.tr("Which tensors are shown"))
        self.scope.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.scope.addItems(
            [
                self.tr("This tensor"),
                self.tr("Same role in every layer"),
                self.tr("Selected tensors"),
            ]
        )
        self.scope.activated.connect(lambda _: self.scope_chosen.emit())
        top = QHBoxLayout()
        top.addWidget(self.name, 1)
        top.addWidget(self.scope)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 4)
        layout.setSpacing(3)
        layout.addLayout(top)
        self._second = QHBoxLayout()
        self._second.addWidget(self.facts, 1)
        layout.addLayout(self._second)
        layout.addWidget(self.note)

    def add_beside_facts(self, widget: QWidget) -> None:
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


# Which of several tensors the pages of one tensor show.


_LONGEST: Final = 200  # letters of a name: more do not fit
_LETTERS: Final = 24  # that are seen of a name, at least
_LINES: Final = 20  # of the open list


class TensorPicker(QWidget):
    """A list of tensors, and steps to the one before and the next. Hidden if there is no choice.

    Attributes:
        list: The tensors.
        back_action: Goes to the one before.
        on_action: Goes to the next one.

    Signals:
        picked: The user chose another tensor.
    """

    picked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._subjects: tuple[Subject, ...] = ()
        self.list = QComboBox(self)
        self.list.setAccessibleName(self.tr("Tensor"))
        self.list.setToolTip(self.tr("Which of the tensors the pages of one tensor show"))
        self.list.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.list.setMinimumContentsLength(_LETTERS)
        self.list.setMaxVisibleItems(_LINES)
        self.list.setWhatsThis(
            self.tr(
                "Which of these tensors is shown by Map, Codes, Scales, Minima, Block and Values. "
                "The histogram shows all of them, this one in front."
            )
        )
        self.list.currentIndexChanged.connect(self._tell)
        self.back_action = self._step("◂", self.tr("Tensor before"), "Alt+PgUp", -1)
        self.on_action = self._step("▸", self.tr("Next tensor"), "Alt+PgDown", 1)
        label = plain_label(self, self.tr("Tensor:"))
        label.setBuddy(self.list)
        back, on = map(self._button, (self.back_action, self.on_action))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for widget in (label, back, self.list, on):
            layout.addWidget(widget)
        self.setTabOrder(back, self.list)
        self.hide()

    @property
    def subject(self) -> Subject | None:
        """The tensor that is chosen; None if there is none."""
        place = self.list.currentIndex()
        return self._subjects[place] if 0 <= place < len(self._subjects) else None

    def offer(self, subjects: Sequence[Subject], row: int | None) -> bool:
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

    def _step(self, text: str, name: str, keys: str, by: int) -> QAction:
        action = QAction(text, self)
        action.setToolTip(f"{name} ({keys})")
        action.setShortcut(QKeySequence(keys))
        action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        action.triggered.connect(
            lambda _=False: self.list.setCurrentIndex(self.list.currentIndex() + by)
        )
        return action

    def _button(self, action: QAction) -> QToolButton:
        button = QToolButton(self)
        button.setDefaultAction(action)
        button.setAccessibleName(action.toolTip())
        return button

    def _tell(self) -> None:
        self._follow()
        self.picked.emit()

    def _follow(self) -> None:
        place, count = self.list.currentIndex(), self.list.count()
        self.back_action.setEnabled(place > 0)
        self.on_action.setEnabled(0 <= place < count - 1)


def _same(before: Sequence[Subject], now: Sequence[Subject]) -> bool:
    return len(before) == len(now) and all(
        one.tensor is other.tensor for one, other in zip(before, now, strict=True)
    )


class WeightsBody(TabbedBody):
    """Header and pages.

    Attributes:
        header: What is shown.
        picker: Which of several tensors the pages of one tensor show.
        histogram: The page of the histogram.
        blocks: The pages of codes, scales and minima.

    Signals:
        place_chosen: A weight of the tensor was chosen on the map; its `Place`. Block and values
            follow.
        bytes_requested: Bytes shall be shown in their file; row of the tensor, and an `Extent`.
    """

    place_chosen = Signal(object)
    bytes_requested = Signal(int, object)

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._runner = runner
        self._references = references
        self._recent = Recent(0)
        self._subject: Subject | None = None  # of the pages of one tensor
        self._place: Place | None = None  # that was chosen in it
        self._named = False
        self.header = Header(self)
        self.picker = TensorPicker(self)
        self.header.add_beside_facts(self.picker)
        self.begin_tabs(self.tr("Views of the tensor"), self.header)
        self.histogram = HistogramPage(runner, self)
        self.blocks = BlockPages(runner, self)
        self._map = LateView(
            runner, "explorer.qt.weights.map.page", self._make_map, self._fill_map, self
        )
        self._microscope = LateView(
            runner, "explorer.qt.weights.block.page", self._make_block, self._fill_block, self
        )
        self._values = LateView(
            runner, "explorer.qt.weights.values", self._make_values, self._fill_values, self
        )
        self._add_pages()
        self.addActions([self.picker.back_action, self.picker.on_action])
        self.picker.picked.connect(self._follow_picker)
        self.place_chosen.connect(self._follow_place)
        self.histogram.row_chosen.connect(self.picker.choose)
        minima = self.blocks.minima
        self.blocks.minima_known.connect(lambda on: self.offer_page(minima, on))
        self.pass_on(self.blocks)
        self.pass_on(self.histogram.panel)

    def _add_pages(self) -> None:
        codes, scales, minima = self.blocks.pages
        for page, title in (
            (self.histogram, self.tr("Histogram")),
            (self._map, self.tr("Map")),
            (codes, self.tr("Codes")),
            (scales, self.tr("Scales")),
            (minima, self.tr("Minima")),
            (self._microscope, self.tr("Block")),
            (self._values, self.tr("Values")),
        ):
            self.tabs.addTab(page, title)

    @property
    def map(self) -> MapPage:
        """The page of the map; it is made if nobody has looked at it."""
        return self._map.view

    @property
    def microscope(self) -> MicroscopePage:
        """The page of one block; it is made if nobody has looked at it."""
        return self._microscope.view

    @property
    def values(self) -> ValuesPage:
        """The page of values; it is made if nobody has looked at it."""
        return self._values.view

    def show_subjects(
        self,
        subjects: Sequence[Subject],
        recent: Recent,
        offered: Sequence[Subject] = (),
        row: int | None = None,
    ) -> None:
        """Show tensors together, and one of them on the pages of one tensor.

        Args:
            subjects: Those that are shown together; none ends all reading.
            recent: What is known of their model.
            offered: Those of which the user chooses the one; if none are given, `subjects`.
            row: Content row of the one that is chosen at first.
        """
        self._recent = recent
        in_front = self.histogram.chosen_row
        kept = self.picker.offer(offered or subjects, row)
        self.histogram.show_subjects(subjects, recent)
        if kept and in_front is not None:
            self.histogram.choose_row(in_front)
        self._named = len(subjects) > 1
        quantized = any(is_quantized(subject.tensor) for subject in offered or subjects)
        for page in (self.blocks.codes, self.blocks.scales, self._microscope):
            self.offer_page(page, quantized)
        self._show_one()

    def cancel(self) -> None:
        self.histogram.cancel()
        self.blocks.cancel()
        for page in (self._map.existing, self._microscope.existing):
            if page is not None:
                page.cancel()

    def focus_search(self) -> None:
        """Go to the values, and into the line for a row and column."""
        self.show_page(self._values)
        self.values.focus_search()

    # The pages of one tensor

    def _follow_picker(self) -> None:
        self._show_one()
        if self._subject is not None:
            self.histogram.choose_row(self._subject.row)

    def _show_one(self) -> None:
        """Show the tensor that is chosen, on the pages that are made already."""
        subject = self.picker.subject
        if subject is None or self._subject is None or subject.tensor is not self._subject.tensor:
            self._place = None
        self._subject = subject
        self.blocks.show_subject(subject, self._recent, named=self._named)
        if self._map.existing is not None:
            self._map.existing.show_subject(subject, self._recent, named=self._named)
        if self._microscope.existing is not None:
            self._show_block(self._microscope.existing)
        if self._values.existing is not None:
            self._values.existing.show_subject(subject, named=self._named)

    def _show_block(self, page: MicroscopePage) -> None:
        subject = self._subject
        quantized = subject is not None and is_quantized(subject.tensor)
        page.show_subject(subject if quantized else None, self._recent, named=self._named)

    def _follow_place(self, place: Place) -> None:
        self._place = place
        if self._values.existing is not None:
            self._values.existing.go_to(place)
        if self._microscope.existing is not None:
            self._microscope.existing.show_place(*place)

    def _make_map(self, parent: QWidget) -> MapPage:
        from explorer.qt.weights.map.page import MapPage  # noqa: PLC0415 - see LateView

        return MapPage(self._runner, self._references, parent)

    def _fill_map(self, page: MapPage) -> None:
        page.open_requested.connect(self.open_requested)
        page.place_chosen.connect(self.place_chosen)
        self.pass_on(page)
        page.show_subject(self._subject, self._recent, named=self._named)

    def _make_block(self, parent: QWidget) -> MicroscopePage:
        from explorer.qt.weights.block.page import MicroscopePage  # noqa: PLC0415 - see LateView

        return MicroscopePage(self._runner, self._references, parent)

    def _fill_block(self, page: MicroscopePage) -> None:
        page.open_requested.connect(self.open_requested)
        page.bytes_requested.connect(self.bytes_requested)
        self.pass_on(page)
        self._show_block(page)
        if self._place is not None:
            page.show_place(*self._place)

    def _make_values(self, parent: QWidget) -> ValuesPage:
        from explorer.qt.weights.values import ValuesPage  # noqa: PLC0415 - see LateView

        return ValuesPage(self._runner, parent)

    def _fill_values(self, page: ValuesPage) -> None:
        self.pass_on(page)
        page.show_subject(self._subject, named=self._named)
        if self._place is not None:
            page.go_to(self._place)
