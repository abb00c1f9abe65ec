"""The content of a panel that needs pyqtgraph: loaded in a worker, for that takes a while."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QWidget

from explorer.qt.jobs import Job, JobRunner, consideration
from explorer.qt.views.progress.job_slot import JobSlot


class LateBody(QWidget):
    """Loads the module of a panel's content; a part of the panel, and never shown itself.

    Args:
        runner: Runs the loading.
        module: Full name of the module.
        panel: The panel.

    Signals:
        loaded: The module is there.
        due: The content is made, and is to be filled: in a turn of its own, so that other events
            come in between; or the panel came into sight without any.
        failed: It cannot be loaded; an `ExplorerError`.
        cancelled: Somebody else, such as the status bar, cancelled the loading.
    """

    loaded = Signal(ModuleType)
    due = Signal()
    failed = Signal(object)
    cancelled = Signal()

    def __init__(self, runner: JobRunner, module: str, panel: QWidget) -> None:
        super().__init__(panel)
        self.hide()
        self._module = module
        self._slot = JobSlot(runner, self)
        self._found = False
        self._turn = QTimer(self)
        self._turn.setSingleShot(True)
        self._turn.timeout.connect(self.due)

    @property
    def busy(self) -> bool:
        """Whether the module is being loaded."""
        return self._slot.busy

    def load(self) -> None:
        """Load it, unless that is under way."""
        if self.busy:
            return
        job = self._slot.run(
            self.tr("Preparing the plots"), self._import, self._tell, self.failed.emit
        )
        job.finished.connect(self._look_for_cancelled)

    def call_soon(self) -> None:
        """Have `due` emitted in the next turn."""
        self._turn.start()

    def forget(self) -> None:
        """Have `due` not emitted after all."""
        self._turn.stop()

    def _import(self, _job: Job) -> ModuleType:
        with consideration(lasting=True):
            return import_module(self._module)

    def _tell(self, module: ModuleType) -> None:
        self._found = True
        self.loaded.emit(module)
        self.call_soon()

    def _look_for_cancelled(self) -> None:
        if self._slot.stopped and not self._found:
            self.cancelled.emit()
