"""What needs pyqtgraph, or much else: loaded in a worker, for that takes a while."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TypeAlias

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QWidget

from explorer.errors import ExplorerError
from explorer.qt.jobs import Job, JobRunner, consideration
from explorer.qt.views.progress.job_slot import JobSlot

Tell: TypeAlias = Callable[[str, str, str], None]
"""Says something in place of the content: a heading, a sentence, the text of a button or ""."""


class LateBody(QWidget):
    """Loads the module of a content; a part of what shows it, and never shown itself.

    Args:
        runner: Runs the loading.
        module: Full name of the module.
        owner: What shows the content.
        tell: Says how far it is, and why there is nothing; its button is to load again.

    Signals:
        loaded: The module is there.
        due: The content is made, and is to be filled: in a turn of its own, so that other events
            come in between; or its owner came into sight without any.
    """

    loaded = Signal(ModuleType)
    due = Signal()

    def __init__(self, runner: JobRunner, module: str, owner: QWidget, tell: Tell) -> None:
        super().__init__(owner)
        self.hide()
        self._module = module
        self._say = tell
        self._slot = JobSlot(runner, self)
        self._found = False
        self._turn = QTimer(self)
        self._turn.setSingleShot(True)
        self._turn.timeout.connect(self.due)

    @property
    def is_loaded(self) -> bool:
        """Whether the module is there already, whoever loaded it."""
        return self._module in sys.modules and not self._slot.busy

    def announce(self) -> None:
        """Say that it will be loaded."""
        self._say(self.tr("Preparing the view…"), "", "")

    def load(self) -> None:
        """Load it, unless that is under way."""
        if not self._slot.busy:
            title = self.tr("Preparing the view")
            job = self._slot.run(title, self._import, self._take, self._fail)
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

    def _take(self, module: ModuleType) -> None:
        self._found = True
        self.loaded.emit(module)
        self.call_soon()

    def _fail(self, error: ExplorerError) -> None:
        self._say(self.tr("The view could not be prepared"), str(error), self.tr("Try again"))

    def _look_for_cancelled(self) -> None:
        """Tell of a job that somebody else cancelled, such as the status bar."""
        if self._slot.stopped and not self._found:
            sentence = self.tr("It was cancelled.")
            self._say(self.tr("The view could not be prepared"), sentence, self.tr("Try again"))
