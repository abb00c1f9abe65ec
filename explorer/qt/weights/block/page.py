"""The block inspector: one block of a quantized tensor, from its bytes to its weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from explorer.analysis.block_detail import BlockDetail, BlockReader, block_record
from explorer.analysis.block_search import (
    Beside,
    FoundBlock,
    Progress,
    largest_scale,
    read_beside,
    worst_block,
)
from explorer.analysis.errors.pairs import MatchedPair, WeightsPair
from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor
from explorer.parallel import Check
from explorer.qt.document import LruCache
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.references import References
from explorer.qt.weights.block.bar import BlockBar, BlockSearch, Search
from explorer.qt.weights.block.panes import BlockPanes
from explorer.qt.weights.block.strip import Look, Part
from explorer.qt.weights.curves import SelectedTensor
from explorer.qt.weights.work import worker_count
from explorer.qt.widgets.pages import Phase, ReadingPage, Refusal, Request
from explorer.qt.widgets.plot_panel import PlotExport
from explorer.qt.widgets.progress import ProgressLine
from explorer.text import plain_text

# What a worker reads.


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """A block, and what it is compared with.

    Attributes:
        detail: The block.
        beside: What it is compared with; None for nothing.
        note: What is to be said of the comparison.
    """

    detail: BlockDetail
    beside: Beside | None
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
        return ShownBlock(detail, read_beside(pairs, tensor, run, check), note)
    except ExplorerError as error:
        text = QCoreApplication.translate("BlockReading", "Not compared: {reason}")
        return ShownBlock(detail, None, text.format(reason=error))


_MOST_BLOCKS = 64  # that are kept: 20 KiB each


class BlockPage(ReadingPage[ShownBlock]):
    """The block inspector: shows a block, and the ways to others.

    Attributes:
        bar: Chooses the block.
        panes: Shows it.
        block: The block that is shown; None until it is read.

    Signals:
        exported: A file was written; its path.
        failed: A file could not be written; an `ExplorerError`.
        open_requested: A model shall be opened, to compare with.
        bytes_requested: Bytes shall be shown in their file; row of the tensor, and an `Extent`.
    """

    exported = Signal(str)
    failed = Signal(object)
    open_requested = Signal()
    bytes_requested = Signal(int, object)

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._references = references
        self._subject: SelectedTensor | None = None
        self._recent = LruCache(0)
        self._blocks = LruCache(_MOST_BLOCKS)
        self._comparison: Comparison | None = None
        self._index = 0
        self._name = ""
        self._sentence = ""  # shown with the block once it is read
        self._looked_for: tuple[int, int] | None = None  # a place to mark once it is read
        self.block: ShownBlock | None = None
        self.bar = BlockBar(references, self)
        self.panes = BlockPanes(runner, self)
        self.progress = ProgressLine(self)
        self._search = BlockSearch(runner, self.progress, self)
        self._export = PlotExport(runner, self, self.exported.emit, self.failed.emit)
        self._bottom = QStackedWidget(self)
        self._bottom.addWidget(self.panes.readout)
        self._bottom.addWidget(self.progress)
        self._bottom.setFixedHeight(max(self.progress.height(), self.panes.readout.height()) + 2)
        self._lay_out()
        self._connect()
        self.begin_life(runner, (self,))

    def show_subject(
        self, subject: SelectedTensor | None, recent: LruCache, *, named: bool = False
    ) -> None:
        """Show another tensor's first block; it is read when the page is visible.

        Args:
            subject: A quantized tensor; None for none.
            recent: What is known of its model.
            named: Whether to show its name: it is one of several.
        """
        self._subject, self._recent = subject, recent
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
        """Show the block that holds a weight, and mark the weight.

        Args:
            row: Its row, counted through all dimensions but the last.
            column: Its column.
        """
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
        column = QVBoxLayout(self.content)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.bar)
        column.addWidget(self.panes, 1)
        column.addWidget(self._bottom)
        self.panes.readout.setContentsMargins(8, 2, 8, 0)
        self.addActions([self.bar.back_action, self.bar.on_action])

    def _connect(self) -> None:
        bar = self.bar
        bar.block_chosen.connect(self.show_block)
        bar.refused.connect(self.panes.readout.setText)
        bar.largest_requested.connect(self._find_largest)
        bar.worst_requested.connect(self._find_worst)
        bar.bytes_requested.connect(self._request_bytes)
        bar.copy_requested.connect(self.copy_block)
        bar.save_requested.connect(self.ask_export)
        bar.open_requested.connect(self.open_requested)
        self.panes.plot.export_requested.connect(self.ask_export)
        self.panes.exported.connect(self.exported)
        self.panes.failed.connect(self.failed)
        self._search.began.connect(lambda: self._bottom.setCurrentWidget(self.progress))
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
        """Return what the blocks of the tensor are compared with."""
        subject = self._subject
        if self._comparison is None and subject is not None:
            self._comparison = Comparison.of(self._references, subject.row, subject.tensor)
        return self._comparison or Comparison((), "")

    def request(self) -> Request[ShownBlock] | Refusal | None:
        subject, index, blocks = self._subject, self._index, self._blocks
        if subject is None:
            return Refusal(self.tr("No blocks"), self.tr("This tensor is not quantized."))
        if not subject.tensor.parameters // max(1, subject.tensor.type.block_weights):
            return Refusal(self.tr("No blocks"), self.tr("This tensor has no weights."))
        compared = self._compared()
        self.bar.set_comparing(bool(compared.pairs))

        def read(job: Job) -> ShownBlock:
            shown = read_block(subject.tensor, index, compared.pairs, compared.note, job.check)
            blocks.put(index, shown)
            return shown

        def known() -> ShownBlock | None:
            found = blocks.get(index)
            return found if isinstance(found, ShownBlock) else None

        return Request(
            key=index,
            title=self.tr("Reading a block of {name}").format(name=subject.name),
            heading=self.tr("Reading the block…"),
            failure=self.tr("The block could not be read"),
            work=read,
            name=subject.name,
            known=known,
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
        self.bar.show_bytes(prefix + self.tr("bytes {places}").format(places=places))
        self.bar.show_note(shown.note)
        self.panes.show_block(detail, shown.beside)
        if self._looked_for is not None and self._looked_for[0] == detail.index:
            self.panes.look_at(Look(Part.WEIGHT, self._looked_for[1]))
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
        if subject is None:
            return
        tensor = subject.tensor

        def find(check: Check, progress: Progress) -> FoundBlock | None:
            return largest_scale(tensor, worker_count(), check, progress)

        search = Search(
            tensor,
            find,
            ("largest scale", subject.row),
            self.tr("Searching for the largest scale"),
            self.tr("Block {block} has the largest scale: {figure}"),
        )
        self._search.start(search, self._recent)

    def _find_worst(self) -> None:
        subject, compared = self._subject, self._compared()
        if subject is None or not compared.pairs:
            return
        tensor = subject.tensor

        def find(check: Check, progress: Progress) -> FoundBlock | None:
            return worst_block(compared.pairs, tensor, worker_count(), check, progress)

        search = Search(
            tensor,
            find,
            "worst block",
            self.tr("Searching for the worst block"),
            self.tr("Block {block} has the largest RMS error: {figure}"),
        )
        self._search.start(search, self._blocks)

    def _show_found(self, index: int, sentence: str) -> None:
        self._bottom.setCurrentWidget(self.panes.readout)
        self._sentence = sentence
        self.show_block(index)

    def _end_search(self, sentence: str) -> None:
        self._bottom.setCurrentWidget(self.panes.readout)
        if sentence:
            self.panes.readout.setText(plain_text(sentence))

    # What leaves the page

    def copy_block(self) -> None:
        """Copy everything that is known of the block as JSON."""
        if self.block is not None:
            record = block_record(self.block.detail, self.block.beside)
            QGuiApplication.clipboard().setText(json.dumps(record, indent=1))
            self.panes.readout.setText(self.tr("The block was copied as JSON."))

    def ask_export(self) -> None:
        """Ask for a file and save the picture or its data into it."""
        if self._subject is not None and self.block is not None:
            name = f"{self._subject.name}-block-{self.block.detail.index}"
            self._export.ask(self.panes.plot, name)

    def _request_bytes(self) -> None:
        """Show the bytes that are looked at, or the whole block."""
        subject, shown = self._subject, self.block
        if subject is None or shown is None:
            return
        look, detail = self.panes.looked_at, shown.detail
        first, nbytes = 0, len(detail.stored)
        if look is not None and look.part is Part.BYTE:
            first, nbytes = look.number, 1
        elif look is not None and look.part is Part.FIELD:
            field = detail.fields[look.number]
            first, nbytes = field.offset, field.nbytes
        self.bytes_requested.emit(subject.row, detail.extent_of(first, nbytes))
