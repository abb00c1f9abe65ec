"""The block inspector: one block of a quantized tensor, from its bytes to its weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from PySide6 import QtWidgets
from PySide6.QtCore import QObject, QSignalBlocker, Qt, Signal

from explorer.analysis.block_detail import BlockDetail, BlockReader
from explorer.analysis.block_search import (
    ComparedBlock,
    FoundBlock,
    Progress,
    largest_scale,
    read_compared,
    worst_block,
)
from explorer.analysis.errors.pairs import MatchedPair, WeightsPair
from explorer.errors import ExplorerError
from explorer.formats.tensors import Folding, Shape, Tensor
from explorer.parallel import Check, LruCache
from explorer.present.tables.blocks import block_record
from explorer.qt.addresses import agrees_to_tensors
from explorer.qt.jobs import Job, JobSlot, worker_count
from explorer.qt.references import References
from explorer.qt.services import Services
from explorer.qt.theme import Space
from explorer.qt.weights.block.panes import BlockPanes
from explorer.qt.weights.block.strip import BlockPart, PartKind
from explorer.qt.weights.curves import SelectedTensor
from explorer.qt.weights.tensor_panel import step_button
from explorer.qt.weights.values import Place, PlaceField
from explorer.qt.widgets.building import LINE, NOTE, column, copy_text, row
from explorer.qt.widgets.controls import button, label_of
from explorer.qt.widgets.figures import Picture, PlotExport
from explorer.qt.widgets.labels import ElidedLabel, NoteLabel, plain_label
from explorer.qt.widgets.pages import Phase, ReadingPage, Refusal, Request
from explorer.qt.widgets.progress import ProgressLine
from explorer.text import float_text, integer_text, plain_text

_MOST_STEPS: Final = 100_000  # of the slider: more than there are pixels
_BUTTONS: Final = (
    ("Largest scale", "Go to the block with the largest absolute scale"),
    ("Worst block", "Go to the block with the largest RMS error against what is chosen in Compare"),
    ("Open in Raw", "Show the bytes of this block in their file"),
    ("Copy block", "Copy everything about this block as JSON"),
    ("Save…", "Save the picture or its data (Ctrl+S in the plot)"),
)


class BlockBar(QtWidgets.QWidget):
    """Chooses a block by its number, by a place in the tensor, or by what is special about it.

    Signals:
        block_chosen: Another block is wanted; its number.
    """

    block_chosen = Signal(object)  # beyond 32 bits, perhaps

    def __init__(self, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self._count = 0
        self._block_weights = 1
        self.number = QtWidgets.QDoubleSpinBox(self)  # of whole numbers: a `QSpinBox` ends at 2^31
        self.number.setDecimals(0)
        self.number.setGroupSeparatorShown(True)
        self.number.setKeyboardTracking(False)
        self.number.setMinimumWidth(100)
        self.number.setAccessibleName("Block")
        self.number.valueChanged.connect(lambda value: self.block_chosen.emit(int(value)))
        self.total = plain_label(self)
        self.slider = QtWidgets.QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setAccessibleName("Place in the tensor")
        self.slider.setMinimumWidth(80)
        self.slider.valueChanged.connect(lambda step: self.block_chosen.emit(self._at(step)))
        self.goto = PlaceField(self)
        self.goto.setAccessibleName("Go to the block at row, column")
        self.goto.place_typed.connect(lambda place: self.block_chosen.emit(self.block_of(place)))
        self.place = ElidedLabel(self)
        self.place.setAccessibleName("Where the block is")
        self.note = NoteLabel("Note about the comparison", self)
        self._make_buttons()
        self._lay_out()

    def set_tensor(self, shape: Shape, block_weights: int, count: int) -> None:
        """Take another tensor; its first block is shown."""
        self._block_weights, self._count = block_weights, count
        self.goto.folding = Folding(shape)
        self.goto.clear()
        last = max(0, count - 1)
        with QSignalBlocker(self.number), QSignalBlocker(self.slider):
            self.number.setRange(0, float(last))
            self.slider.setRange(0, min(last, _MOST_STEPS))
            self.slider.setPageStep(max(1, min(last, _MOST_STEPS) // 20))
        self.total.setText(f"of {integer_text(count)}")
        self.note.say("")
        self.set_block(0)

    def set_block(self, index: int) -> None:
        """Show the number and the place of a block. Emits nothing."""
        last = max(0, self._count - 1)
        with QSignalBlocker(self.number), QSignalBlocker(self.slider):
            self.number.setValue(float(index))
            steps = self.slider.maximum()
            self.slider.setValue(index if steps == last else index * steps // last)
        self.back_action.setEnabled(index > 0)
        self.on_action.setEnabled(index < last)
        folding = self.goto.folding
        row, column = divmod(index * self._block_weights, max(1, folding.columns))
        text = (
            f"Row {folding.row_name(row)}, columns {integer_text(column)} to "
            f"{integer_text(column + self._block_weights - 1)}"
        )
        self.place.setText(text)

    def show_bytes(self, text: str) -> None:
        """Show where the bytes are, behind the place of the weights."""
        self.place.setText(f"{self.place.text()}   ·   {plain_text(text)}")

    def block_of(self, place: Place) -> int | None:
        """Return the block that holds a folded row and column; None if there is none."""
        folding = self.goto.folding
        if folding.place_of(place) is None:
            return None
        return (place[0] * folding.columns + place[1]) // self._block_weights

    def _step(self, by: int) -> None:
        wanted = int(self.number.value()) + by
        if 0 <= wanted < self._count:
            self.block_chosen.emit(wanted)

    def _at(self, step: int) -> int:
        last, steps = max(0, self._count - 1), self.slider.maximum()
        return step if steps == last else step * last // max(1, steps)

    def _make_buttons(self) -> None:
        previous, following = "Previous block", "Next block"
        self._back = step_button(self, "◂", previous, "Ctrl+PgUp", lambda: self._step(-1))
        self._on = step_button(self, "▸", following, "Ctrl+PgDown", lambda: self._step(1))
        self.back_action, self.on_action = self._back.defaultAction(), self._on.defaultAction()
        self.largest, self.worst, self.raw, self.copy, self.save = (
            button(self, text, tip) for text, tip in _BUTTONS
        )

    def _lay_out(self) -> None:
        label = label_of(self.number, "&Block")
        chosen = (label, self._back, self.number, self._on, self.total, (self.slider, 1))
        buttons = (self.largest, self.worst, self.raw, self.copy, self.save)
        lines = row(*chosen, self.goto), row((self.place, 1), *buttons)
        column(*lines, self.note, of=self, margins=LINE, spacing=Space.TIGHT)


@dataclass(frozen=True, slots=True)
class Search:
    """A search for a block of a tensor, which walks over all of its weights.

    Attributes:
        tensor: What is searched.
        find: Does it; called in a worker.
        key: Under which the block that is found is cached.
        title: What is done, for the status bar.
        found: What the block has; its number stands before, its figure behind.
    """

    tensor: Tensor
    find: Callable[[Check, Progress], FoundBlock | None]
    key: Hashable
    title: str
    found: str


class BlockSearch(QObject):
    """Runs one search at a time; a block that was found before is cached.

    Signals:
        found: A block was found; its number, and a sentence.
        ended: A search ended without; a sentence, or "".
    """

    found = Signal(object, str)
    ended = Signal(str)

    def __init__(self, app: Services, line: ProgressLine, parent: QObject) -> None:
        super().__init__(parent)
        self._slot = JobSlot(app.runner, self)
        self._line = line
        line.cancel_requested.connect(self.cancel)

    @property
    def busy(self) -> bool:
        """Whether a search is under way."""
        return self._slot.busy

    def start(self, search: Search, cache: LruCache) -> None:
        """Search a tensor, unless the cache has what is searched for."""
        known = cache.find(search.key, FoundBlock)
        if known is not None:
            self._report(search.found, known)
            return
        tensor = search.tensor
        stored = tensor.nbytes / max(1, tensor.parameters)

        def work(job: Job) -> FoundBlock | None:
            block = search.find(job.check, lambda done: job.publish(lambda: done))
            if block is not None:
                cache.put(search.key, block)
            return block

        def grow(done: int) -> None:
            self._line.show_progress(done, tensor.parameters, round(done * stored))

        job = self._slot.run(
            search.title, work, partial(self._report, search.found), lambda e: self._end(str(e))
        )
        job.published.connect(grow)
        job.finished.connect(lambda: self._look_for_cancelled(job))
        self._line.start()

    def cancel(self) -> None:
        """Cancel the search, if one is under way, and report that."""
        if self.busy:
            self._slot.cancel()
            self._end("The search was cancelled.")

    def stop(self) -> None:
        """End the search without a word: something else is looked at."""
        self._slot.cancel()
        self._end("")

    def _end(self, sentence: str) -> None:
        self._line.finish()
        self.ended.emit(sentence)

    def _look_for_cancelled(self, job: Job) -> None:
        """Show a search that was cancelled elsewhere, such as the status bar."""
        if self._slot.stopped and job.cancelled and self._line.running:
            self._end("The search was cancelled.")

    def _report(self, what: str, block: FoundBlock | None) -> None:
        if block is None:
            self._end("Nothing was found.")
            return
        self._line.finish()
        sentence = f"Block {integer_text(block.index)} has {what}: {float_text(block.figure, 6)}"
        self.found.emit(block.index, sentence)


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """A block, and what it is compared with."""

    detail: BlockDetail
    compared: ComparedBlock | None
    note: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the blocks of a tensor are compared with.

    Attributes:
        pairs: Pairs that hold its weights: several of a tensor that is fused of others.
        note: Why there are none, or what was done to make both comparable.
    """

    pairs: tuple[WeightsPair, ...]
    note: str

    @classmethod
    def of(cls, references: References, row: int, tensor: Tensor) -> Comparison:
        """Return what a tensor of the current model is compared with."""
        partner = references.partner_of(row, tensor)
        pair = partner.pair
        if not isinstance(pair, MatchedPair):
            return cls((), partner.reason) if pair is None else cls((pair,), "")
        matched = references.matched
        assert matched is not None
        pairs = tuple(
            MatchedPair(match)
            for match in matched.matching.matches
            if any(one is tensor for one in match.candidate.tensors)
        )
        return cls(pairs, "; ".join(pair.notes))


def read_block(
    tensor: Tensor, index: int, pairs: Sequence[WeightsPair], note: str, check: Check
) -> ShownBlock:
    """Read a block; a reference that cannot be read is reported, and does not hide the block.

    Raises:
        ExplorerError: The block cannot be read.
    """
    detail = BlockReader(tensor).read(index, check)
    if not pairs:
        return ShownBlock(detail, None, note)
    try:
        run = detail.start, detail.values.size
        return ShownBlock(detail, read_compared(pairs, tensor, run, check), note)
    except ExplorerError as error:
        return ShownBlock(detail, None, f"Not compared: {error}")


_MOST_BLOCKS = 64  # that are kept: 20 KiB each


class BlockPage(ReadingPage[ShownBlock]):
    """The block inspector: shows a block, and the ways to others."""

    def __init__(
        self, app: Services, references: References, parent: QtWidgets.QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._references = references
        self._subject: SelectedTensor | None = None
        self._cache = LruCache(0)
        self._blocks = LruCache(_MOST_BLOCKS)
        self._comparison: Comparison | None = None
        self._index = 0
        self._name = ""
        self._sentence = ""  # shown with the block once it is read
        self._looked_for: tuple[int, int] | None = None  # a place to mark once it is read
        self.block: ShownBlock | None = None
        self.bar = BlockBar(self)
        self.panes = BlockPanes(app, self)
        self.progress = ProgressLine(self)
        self._search = BlockSearch(app, self.progress, self)
        self._export = PlotExport(app, self)
        self._bottom = QtWidgets.QStackedWidget(self)
        self._bottom.addWidget(self.panes.readout)
        self._bottom.addWidget(self.progress)
        self._bottom.setFixedHeight(max(self.progress.height(), self.panes.readout.height()) + 2)
        self._lay_out()
        self._connect()
        self.begin_life(app, (self,))

    def show_subject(
        self, subject: SelectedTensor | None, cache: LruCache, *, named: bool = False
    ) -> None:
        """Show the first block of a quantized tensor, with its name if it is one of several.

        It is read when the page is visible. What searches find is kept in `cache`.
        """
        self._subject, self._cache = subject, cache
        self._index, self._name = 0, subject.name if named and subject is not None else ""
        self._looked_for, self._sentence = None, ""
        self.panes.looked_at = None
        if subject is not None:
            kind = subject.tensor.type
            count = subject.tensor.parameters // max(1, kind.block_weights)
            self.bar.set_tensor(subject.tensor.shape, kind.block_weights, count)
        self.restart()

    def clear(self) -> None:
        self._search.stop()
        self._blocks, self._comparison = LruCache(_MOST_BLOCKS), None
        self.block = None

    def show_block(self, index: int) -> None:
        """Show another block of the tensor."""
        self._looked_for = None
        self._go(index)

    def show_place(self, row: int, column: int) -> None:
        """Show the block that holds a weight, at a row and column of the folded tensor; mark it."""
        index = self.bar.block_of((row, column))
        if self._subject is None or index is None:
            return
        tensor = self._subject.tensor
        columns = tensor.shape[-1] if tensor.shape else 1
        self._looked_for = index, (row * columns + column) % tensor.type.block_weights
        self._go(index)

    def cancel(self) -> None:
        self._search.cancel()
        super().cancel()

    def _lay_out(self) -> None:
        column(self.bar, (self.panes, 1), self._bottom, of=self.content)
        self.panes.readout.setContentsMargins(*NOTE)
        self.addActions([self.bar.back_action, self.bar.on_action])

    def _connect(self) -> None:
        bar = self.bar
        bar.block_chosen.connect(self.show_block)
        bar.goto.refused.connect(self.panes.readout.setText)
        bar.largest.clicked.connect(self._find_largest)
        bar.worst.clicked.connect(self._find_worst)
        bar.raw.clicked.connect(self._request_bytes)
        bar.copy.clicked.connect(self.copy_block)
        bar.save.clicked.connect(self.panes.plot.export_requested)
        plot, strip = self.panes.plot, self.panes.strip
        plot.export_requested.connect(self.ask_export)
        plot.copy_requested.connect(lambda: self._export.copy(plot))
        strip.save_requested.connect(lambda: self.ask_export(strip))
        strip.copy_requested.connect(lambda: self._export.copy(strip))
        self._search.found.connect(self._show_found)
        self._search.ended.connect(self._end_search)
        self.hidden.connect(self._search.stop)
        self._references.changed.connect(self._compare_anew)

    # Reading

    def _go(self, index: int) -> None:
        self._index = index
        self.bar.set_block(index)
        if self.phase is Phase.COMPLETE and self._has(index):
            self.refill()
        else:
            self.load()

    def refill(self) -> None:
        if self.block is not None:
            self.show_result(self.block)

    def _compare_anew(self) -> None:
        """Read again: the reference is another one."""
        self._blocks, self._comparison = LruCache(_MOST_BLOCKS), None
        self._search.stop()
        self.stop()
        self.load()

    def _compared(self) -> Comparison:
        subject = self._subject
        if self._comparison is None and subject is not None:
            self._comparison = Comparison.of(self._references, subject.row, subject.tensor)
        return self._comparison or Comparison((), "")

    def request(self) -> Request[ShownBlock] | Refusal | None:
        subject, index, blocks = self._subject, self._index, self._blocks
        if subject is None:
            return Refusal("No blocks", "This tensor is not quantized.")
        if not subject.tensor.parameters // max(1, subject.tensor.type.block_weights):
            return Refusal("No blocks", "This tensor has no weights.")
        compared = self._compared()
        self.bar.worst.setEnabled(bool(compared.pairs))

        def read(job: Job) -> ShownBlock:
            return read_block(subject.tensor, index, compared.pairs, compared.note, job.check)

        return Request(
            key=index,
            title=f"Reading a block of {subject.name}",
            heading="Reading the block…",
            failure="The block could not be read",
            work=blocks.keeping(index, read),
            name=subject.name,
            known=lambda: blocks.find(index, ShownBlock),
        )

    def show_result(self, result: ShownBlock) -> None:
        self.block = shown = result
        detail = shown.detail
        self.bar.set_block(detail.index)
        extent = detail.parts[0].extent
        places = f"0x{extent.offset:X} to 0x{extent.offset + extent.nbytes - 1:X}"
        if len(detail.parts) > 1:
            places = ", ".join(f"{part.name} 0x{part.extent.offset:X}" for part in detail.parts)
        prefix = f"{self._name}   ·   " if self._name else ""
        self.bar.show_bytes(prefix + f"bytes {places}")
        self.bar.note.say(shown.note)
        self.panes.show_block(detail, shown.compared)
        if self._looked_for is not None and self._looked_for[0] == detail.index:
            self.panes.look_at(BlockPart(PartKind.WEIGHT, self._looked_for[1]))
            self._looked_for = None
        if self._sentence:
            self.panes.readout.setText(self._sentence)
            self._sentence = ""
        self.show_content()

    def show_cancelled(self) -> None:
        if self.block is not None and self.block.detail.index != self._index:
            self.show_message("", "")  # another block than the one that was chosen
        super().show_cancelled()

    def show_failed(self, heading: str, error: ExplorerError) -> None:
        self.block = None
        super().show_failed(heading, error)

    # Searching

    def _find_largest(self) -> None:
        subject = self._subject
        if subject is not None:
            search = Search(
                subject.tensor,
                partial(largest_scale, subject.tensor, worker_count()),
                ("largest scale", subject.row),
                "Searching for the largest scale",
                "the largest scale",
            )
            self._start_search(search, self._cache)

    def _find_worst(self) -> None:
        subject, compared = self._subject, self._compared()
        if subject is not None and compared.pairs:
            search = Search(
                subject.tensor,
                partial(worst_block, compared.pairs, subject.tensor, worker_count()),
                "worst block",
                "Searching for the worst block",
                "the largest RMS error",
            )
            pairs = [pair for pair in compared.pairs if isinstance(pair, MatchedPair)]
            others = [one for pair in pairs for one in pair.reference.tensors]
            self._start_search(search, self._blocks, others)

    def _start_search(self, search: Search, cache: LruCache, others: Sequence[Tensor] = ()) -> None:
        known = cache.get(search.key) is not None
        if not known and not agrees_to_tensors([search.tensor, *others], self):
            return
        self._search.start(search, cache)
        if self._search.busy:
            self._bottom.setCurrentWidget(self.progress)

    def _show_found(self, index: int, sentence: str) -> None:
        self._bottom.setCurrentWidget(self.panes.readout)
        self._sentence = sentence
        self.show_block(index)

    def _end_search(self, sentence: str) -> None:
        self._bottom.setCurrentWidget(self.panes.readout)
        if sentence:
            self.panes.readout.setText(plain_text(sentence))

    def copy_block(self) -> None:
        """Copy everything that is known of the block as JSON."""
        if self.block is not None:
            record = block_record(self.block.detail, self.block.compared)
            copy_text(json.dumps(record, indent=1))

    def ask_export(self, picture: Picture | None = None) -> None:
        """Ask for a file and save the plot, or another picture of the block, or its data."""
        if self._subject is not None and self.block is not None:
            name = f"{self._subject.name}-block-{self.block.detail.index}"
            self._export.ask(picture or self.panes.plot, name)

    def _request_bytes(self) -> None:
        """Show the bytes that are looked at, or the whole block."""
        subject, shown = self._subject, self.block
        if subject is None or shown is None:
            return
        look, detail = self.panes.looked_at, shown.detail
        first, nbytes = 0, len(detail.stored)
        if look is not None and look.part is PartKind.BYTE:
            first, nbytes = look.number, 1
        elif look is not None and look.part is PartKind.FIELD:
            field = detail.fields[look.number]
            first, nbytes = field.offset, field.nbytes
        self.app.open_bytes(subject.row, detail.extent_of(first, nbytes))
