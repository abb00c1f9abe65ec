"""What is known of a tensor's rounding as long as nothing is chosen to compare it with."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, Signal
from PySide6.QtGui import QHideEvent, QPalette, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from explorer.analysis.blocks import BlockStatistics
from explorer.analysis.errors.compare import ImpliedError, implied_error
from explorer.errors import ExplorerError
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.models.errors.table import implied_lines
from explorer.qt.models.recent import Recent
from explorer.qt.models.weights.figures import Subject, is_quantized
from explorer.qt.models.weights.gathering import block_figures, load_kernels
from explorer.qt.models.weights.statistics_table import StatisticsTable
from explorer.qt.views.labels import plain_label
from explorer.qt.views.progress.job_slot import JobSlot
from explorer.qt.views.state_page import StatePage
from explorer.qt.views.tables.table_view import TableView
from explorer.text import plain_text


class ImpliedPage(QWidget):
    """A table of what blocks imply, or a sentence. Reads only while it is visible.

    Attributes:
        state: The sentence.
        hint: How to learn more.
        table: The figures.

    Signals:
        exported: The table was written; its path.
        failed: It could not be written; an `ExplorerError`.
        reference_wanted: The user wants to choose what to compare with.
    """

    exported = Signal(str)
    failed = Signal(object)
    reference_wanted = Signal()

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._runner = runner
        self._slot = JobSlot(runner, self)
        self._subject: Subject | None = None
        self._recent = Recent(0)
        self.implied: ImpliedError | None = None
        self.state = StatePage(self)
        self.state.pressed.connect(self._press)
        self.hint = plain_label(
            self,
            self.tr(
                "Nothing is chosen to compare with. This is what the tensor's own blocks tell of "
                "its rounding. For true errors choose above: the unquantized model, or a type "
                "that the weights are rounded to."
            ),
        )
        self.hint.setWordWrap(True)
        self.hint.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.hint.setContentsMargins(8, 8, 8, 8)
        self.model = StatisticsTable(self)
        self.table = TableView(self.model, runner, self)
        self.table.setAccessibleName(self.tr("What the blocks imply"))
        self.table.exported.connect(self.exported)
        self.table.failed.connect(self.failed)
        content = QWidget(self)
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.hint)
        column.addWidget(self.table, 1)
        self._content = content
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.state)
        self._stack.addWidget(content)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._stack)

    @property
    def busy(self) -> bool:
        """Whether blocks are read."""
        return self._slot.busy

    def show_subject(self, subject: Subject | None, recent: Recent) -> None:
        """Show another tensor; None ends all reading.

        Args:
            subject: The tensor.
            recent: What is known of its model.
        """
        self._slot.cancel()
        self._subject = subject
        self._recent = recent
        self.implied = None
        self._tell("", "")
        if subject is not None and self.isVisible():
            self._load()

    def cancel(self) -> None:
        """Stop reading."""
        if self._slot.busy:
            self._slot.cancel()
            self._tell(self.tr("Cancelled"), "", self.tr("Read on"))

    def _press(self) -> None:
        if self._subject is not None and not is_quantized(self._subject.tensor):
            self.reference_wanted.emit()
        else:
            self._load()

    def _load(self) -> None:
        subject, recent = self._subject, self._recent
        if subject is None or self.implied is not None or self._slot.busy:
            return
        if not is_quantized(subject.tensor):
            self._tell(
                self.tr("Not quantized"),
                self.tr(
                    "{name} is stored as {type}, without blocks that would tell of rounding. "
                    "Choose what to compare it with: another model, or a type that its weights "
                    "are rounded to."
                ).format(name=subject.name, type=subject.tensor.type.name),
                self.tr("Choose"),
            )
            return
        self._tell(self.tr("Reading the blocks…"), subject.name)
        types = [subject.tensor.type.name]
        self._runner.need_kernels(types)

        def read(job: Job) -> BlockStatistics | None:
            load_kernels()  # while others are compiled
            self._runner.wait_for_kernels(types, job)
            return block_figures(subject, recent, job.check)

        title = self.tr("Reading the blocks of {name}").format(name=subject.name)
        job = self._slot.run(title, read, self._show, self._fail)
        job.finished.connect(self._look_for_cancelled)

    def _show(self, blocks: BlockStatistics | None) -> None:
        assert blocks is not None  # it is quantized
        self.implied = implied_error(blocks)
        self.model.show_lines(implied_lines(self.implied))
        self.table.show_columns(QByteArray())
        self._stack.setCurrentWidget(self._content)

    def _fail(self, error: ExplorerError) -> None:
        heading = self.tr("The blocks could not be read")
        self._tell(heading, str(error), self.tr("Try again"))

    def _look_for_cancelled(self) -> None:
        if self._slot.stopped:
            self._tell(self.tr("Cancelled"), "", self.tr("Read on"))

    def _tell(self, heading: str, sentence: str, button: str = "") -> None:
        self.state.tell(heading, plain_text(sentence), button)
        self._stack.setCurrentWidget(self.state)

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not event.spontaneous():
            self._load()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if not event.spontaneous():
            self.cancel()
