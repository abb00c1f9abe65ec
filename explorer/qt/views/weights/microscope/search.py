"""Finds blocks worth looking at: a walk over a whole tensor, in a worker, that can be ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from explorer.analysis.block_search import FoundBlock, Progress
from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor
from explorer.parallel import Check
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.models.recent import Recent
from explorer.qt.views.progress.job_slot import JobSlot
from explorer.qt.views.progress.progress_line import ProgressLine
from explorer.text import float_text, integer_text

Find = Callable[[Check, Progress], FoundBlock | None]


@dataclass(frozen=True, slots=True)
class Search:
    """A search.

    Attributes:
        tensor: What is searched.
        find: Does it; called in a worker.
        kernels: The sets of kernels that are needed.
        key: Under which key what is found is kept.
        title: What is done, for the status bar.
        text: What to say of what was found, with ``{block}`` and ``{figure}``.
    """

    tensor: Tensor
    find: Find
    kernels: Collection[str]
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

    def start(self, search: Search, known: Recent) -> None:
        """Search a tensor.

        Args:
            search: What is searched for.
            known: Where what is found is kept.
        """
        tensor, kernels = search.tensor, search.kernels
        before = known.get(search.key)
        if isinstance(before, FoundBlock):
            self._tell(before, search.text)
            return
        stored = tensor.nbytes / max(1, tensor.parameters)
        self.line.start(self._runner.need_kernels(kernels))
        self.began.emit()

        def work(job: Job) -> FoundBlock | None:
            self._runner.wait_for_kernels(kernels, job)
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
        """Tell of a search that somebody else cancelled, such as the status bar."""
        if self._slot.stopped and job.cancelled and self.line.running:
            self.line.finish()
            self.ended.emit(self.tr("The search was cancelled."))

    def _tell(self, block: FoundBlock, text: str) -> None:
        figure = float_text(block.figure, 6)
        sentence = text.format(block=integer_text(block.index), figure=figure)
        self.found.emit(block.index, sentence)
