"""Which block is shown, and the ways to another one."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from PySide6 import QtWidgets
from PySide6.QtCore import QObject, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence

from explorer.analysis.block_search import FoundBlock, Progress
from explorer.errors import ExplorerError
from explorer.formats.tensors import Folding, Shape, Tensor
from explorer.parallel import Check
from explorer.present.explanations import picture_text
from explorer.qt.document import LruCache
from explorer.qt.jobs import Job, JobRunner, JobSlot
from explorer.qt.references import ReferenceBar, References
from explorer.qt.weights.values import Place
from explorer.qt.widgets.labels import ElidedLabel, plain_label
from explorer.qt.widgets.progress import ProgressLine
from explorer.text import float_text, integer_text, plain_text

_NUMBERS: Final = re.compile(r"\d{1,18}")
_MOST_STEPS: Final = 100_000  # of the slider: more than there are pixels


class BlockBar(QtWidgets.QWidget):
    """Chooses a block by its number, by a place in the tensor, or by what is special about it.

    Attributes:
        number: The number of the block.
        goto: Where one types a row and a column.
        place: Where the block is.
        note: What is to be said of the comparison.

    Signals:
        block_chosen: Another block is wanted; its number.
        refused: What was typed is no place; a sentence.
        largest_requested: The block with the largest scale is wanted.
        worst_requested: The block with the greatest error is wanted.
        bytes_requested: The block's bytes are to be shown in the file.
        copy_requested: Everything that is known of the block is to be copied.
        save_requested: The picture or its data is to be saved.
        open_requested: The user wants to open a model to compare with.
    """

    block_chosen = Signal(object)  # beyond 32 bits, perhaps
    refused = Signal(str)
    largest_requested = Signal()
    worst_requested = Signal()
    bytes_requested = Signal()
    copy_requested = Signal()
    save_requested = Signal()
    open_requested = Signal()

    def __init__(self, references: References, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self._count = 0
        self._block_weights = 1
        self._folding = Folding((0,))
        self.number = QtWidgets.QDoubleSpinBox(self)  # of whole numbers: a `QSpinBox` ends at 2^31
        self.number.setDecimals(0)
        self.number.setGroupSeparatorShown(True)
        self.number.setKeyboardTracking(False)
        self.number.setMinimumWidth(100)
        self.number.setAccessibleName(self.tr("Block"))
        self.number.valueChanged.connect(lambda value: self.block_chosen.emit(int(value)))
        self.total = plain_label(self)
        self.total.setWhatsThis(picture_text("block_total"))
        self.slider = QtWidgets.QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setAccessibleName(self.tr("Place in the tensor"))
        self.slider.setMinimumWidth(80)
        self.slider.valueChanged.connect(lambda step: self.block_chosen.emit(self._at(step)))
        self.goto = QtWidgets.QLineEdit(self)
        self.goto.setPlaceholderText(self.tr("Go to row, column"))
        self.goto.setAccessibleName(self.tr("Go to the block at row, column"))
        self.goto.setFixedWidth(150)
        self.goto.returnPressed.connect(self._go)
        self.reference = ReferenceBar(references, self)
        self.reference.open_requested.connect(self.open_requested)
        self.place = ElidedLabel(self)
        self.place.setAccessibleName(self.tr("Where the block is"))
        self.place.setWhatsThis(picture_text("block_place"))
        self.note = plain_label(self)
        self.note.setWordWrap(True)
        self.note.setAccessibleName(self.tr("Note about the comparison"))
        self.note.hide()
        self._make_buttons()
        self._lay_out()

    def set_tensor(self, shape: Shape, block_weights: int, count: int) -> None:
        """Take another tensor; its first block is shown.

        Args:
            shape: Its shape.
            block_weights: Weights of a block.
            count: Number of blocks.
        """
        self._folding, self._block_weights, self._count = Folding(shape), block_weights, count
        last = max(0, count - 1)
        with QSignalBlocker(self.number), QSignalBlocker(self.slider):
            self.number.setRange(0, float(last))
            self.slider.setRange(0, min(last, _MOST_STEPS))
            self.slider.setPageStep(max(1, min(last, _MOST_STEPS) // 20))
        self.total.setText(self.tr("of {n}").format(n=integer_text(count)))
        self.goto.clear()
        self.show_note("")
        self.set_block(0)

    def set_block(self, index: int) -> None:
        """Show which block is shown."""
        last = max(0, self._count - 1)
        with QSignalBlocker(self.number), QSignalBlocker(self.slider):
            self.number.setValue(float(index))
            steps = self.slider.maximum()
            self.slider.setValue(index if steps == last else index * steps // last)
        self.back_action.setEnabled(index > 0)
        self.on_action.setEnabled(index < last)
        row, column = divmod(index * self._block_weights, max(1, self._folding.columns))
        text = self.tr("Row {row}, columns {first} to {last}").format(
            row=self._folding.row_name(row),
            first=integer_text(column),
            last=integer_text(column + self._block_weights - 1),
        )
        self.place.setText(text)

    def show_bytes(self, text: str) -> None:
        """Say where the bytes are, behind the place of the weights."""
        self.place.setText(f"{self.place.text()}   ·   {plain_text(text)}")

    def show_note(self, text: str) -> None:
        """Say something of the comparison; nothing takes the last one back."""
        self.note.setText(plain_text(text))
        self.note.setVisible(bool(text))

    def set_comparing(self, on: bool) -> None:
        """Offer what needs something to compare with, or not."""
        self.worst.setEnabled(on)

    def block_of(self, place: Place) -> int | None:
        """Return the block that holds a folded row and column; None if there is none."""
        if self._folding.place_of(place) is None:
            return None
        return (place[0] * self._folding.columns + place[1]) // self._block_weights

    def step(self, by: int) -> None:
        """Go to a block before or behind."""
        wanted = int(self.number.value()) + by
        if 0 <= wanted < self._count:
            self.block_chosen.emit(wanted)

    def _at(self, step: int) -> int:
        last, steps = max(0, self._count - 1), self.slider.maximum()
        return step if steps == last else step * last // max(1, steps)

    def _make_buttons(self) -> None:
        self.back_action = self._step_action("◂", self.tr("Previous block"), -1, "Ctrl+PgUp")
        self.on_action = self._step_action("▸", self.tr("Next block"), 1, "Ctrl+PgDown")
        self.largest = self._button(
            self.tr("Largest scale"), self.tr("Go to the block with the largest absolute scale")
        )
        self.largest.clicked.connect(self.largest_requested)
        self.worst = self._button(
            self.tr("Worst block"),
            self.tr("Go to the block with the largest RMS error against the reference"),
        )
        self.worst.clicked.connect(self.worst_requested)
        self.raw = self._button(
            self.tr("Open in Raw"), self.tr("Show the bytes of this block in their file")
        )
        self.raw.clicked.connect(self.bytes_requested)
        self.copy = self._button(
            self.tr("Copy block"), self.tr("Copy everything about this block as JSON")
        )
        self.copy.clicked.connect(self.copy_requested)
        self.save = self._button(
            self.tr("Save…"), self.tr("Save the picture or its data (Ctrl+S in the plot)")
        )
        self.save.clicked.connect(self.save_requested)

    def _step_action(self, text: str, name: str, by: int, keys: str) -> QAction:
        action = QAction(text, self)
        action.setToolTip(f"{name} ({keys})")
        action.setShortcut(QKeySequence(keys))
        action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        action.triggered.connect(lambda _=False: self.step(by))
        return action

    def _button(self, text: str, tip: str) -> QtWidgets.QToolButton:
        button = QtWidgets.QToolButton(self)
        button.setText(text)
        button.setToolTip(tip)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button

    def _lay_out(self) -> None:
        first, second = QtWidgets.QHBoxLayout(), QtWidgets.QHBoxLayout()
        label = plain_label(self, self.tr("&Block"))
        label.setBuddy(self.number)
        first.addWidget(label)
        for action in (self.back_action, self.on_action):
            button = QtWidgets.QToolButton(self)
            button.setDefaultAction(action)
            button.setAccessibleName(action.toolTip())
            if action is self.on_action:
                first.addWidget(self.number)
            first.addWidget(button)
        first.addWidget(self.total)
        first.addWidget(self.slider, 1)
        first.addWidget(self.goto)
        first.addWidget(self.reference)
        second.addWidget(self.place, 1)
        for tool in (self.largest, self.worst, self.raw, self.copy, self.save):
            second.addWidget(tool)
        layout = QtWidgets.QVBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 4)
        layout.setSpacing(4)
        layout.addLayout(first)
        layout.addLayout(second)
        layout.addWidget(self.note)

    def _go(self) -> None:
        numbers = tuple(map(int, _NUMBERS.findall(self.goto.text())))
        place = self._folding.place_of(numbers) if numbers else None
        block = None if place is None else self.block_of(place)
        if block is None:
            sentence = self.tr("Type a row below {rows}, a comma, and a column below {columns}.")
            rows, columns = self._folding.rows, self._folding.columns
            self.refused.emit(
                sentence.format(rows=integer_text(rows), columns=integer_text(columns))
            )
            return
        self.block_chosen.emit(block)


# Finds blocks worth looking at: a walk over a whole tensor, in a worker, that can be ended.


Find = Callable[[Check, Progress], FoundBlock | None]


@dataclass(frozen=True, slots=True)
class Search:
    """A search.

    Attributes:
        tensor: What is searched.
        find: Does it; called in a worker.
        key: Under which key what is found is kept.
        title: What is done, for the status bar.
        text: What to say of what was found, with ``{block}`` and ``{figure}``.
    """

    tensor: Tensor
    find: Find
    key: Hashable
    title: str
    text: str


class BlockSearch(QObject):
    """Runs one search at a time; what was found once is found at once.

    Attributes:
        line: How far it is.

    Signals:
        began: A search is under way.
        found: A block was found; its number, and a sentence.
        ended: A search ended without; a sentence, or "".
    """

    began = Signal()
    found = Signal(object, str)
    ended = Signal(str)

    def __init__(self, runner: JobRunner, line: ProgressLine, parent: QObject) -> None:
        super().__init__(parent)
        self._runner = runner
        self._slot = JobSlot(runner, self)
        self.line = line
        line.cancel_requested.connect(self.cancel)

    @property
    def busy(self) -> bool:
        """Whether something is searched for."""
        return self._slot.busy

    def start(self, search: Search, known: LruCache) -> None:
        """Search a tensor.

        Args:
            search: What is searched for.
            known: Where what is found is kept.
        """
        tensor = search.tensor
        before = known.get(search.key)
        if isinstance(before, FoundBlock):
            self._tell(before, search.text)
            return
        stored = tensor.nbytes / max(1, tensor.parameters)
        self.line.start()
        self.began.emit()

        def work(job: Job) -> FoundBlock | None:
            block = search.find(job.check, lambda done: job.publish(lambda: done))
            if block is not None:
                known.put(search.key, block)
            return block

        def take(block: FoundBlock | None) -> None:
            self.line.finish()
            if block is None:
                self.ended.emit(self.tr("Nothing was found."))
            else:
                self._tell(block, search.text)

        def fail(error: ExplorerError) -> None:
            self.line.finish()
            self.ended.emit(str(error))

        def grow(done: int) -> None:
            self.line.show_progress(done, tensor.parameters, round(done * stored))

        job = self._slot.run(search.title, work, take, fail)
        job.published.connect(grow)
        job.finished.connect(lambda: self._look_for_cancelled(job))

    def cancel(self) -> None:
        """End the search, if one is under way, and say so."""
        if self.busy:
            self.stop()
            self.ended.emit(self.tr("The search was cancelled."))

    def stop(self) -> None:
        """End the search, because something else is looked at."""
        busy = self.busy
        self._slot.cancel()
        self.line.finish()
        if busy:
            self.ended.emit("")

    def _look_for_cancelled(self, job: Job) -> None:
        """Show a search that was cancelled elsewhere, such as the status bar."""
        if self._slot.stopped and job.cancelled and self.line.running:
            self.line.finish()
            self.ended.emit(self.tr("The search was cancelled."))

    def _tell(self, block: FoundBlock, text: str) -> None:
        figure = float_text(block.figure, 6)
        sentence = text.format(block=integer_text(block.index), figure=figure)
        self.found.emit(block.index, sentence)
