"""Reads what is inside a model when its branch is opened."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from explorer.errors import ExplorerError
from explorer.formats import Severity
from explorer.qt.jobs import Job, JobRunner, consideration
from explorer.qt.models.library.contents import read_contents
from explorer.qt.models.library.node import Node
from explorer.qt.models.library.rows import Row, note_row
from explorer.qt.views.library.turnstile import Turnstile
from explorer.text import plain_text


class ContentsReader(QObject):
    """Opens models, several at a time: one may expand a branch while another one loads.

    Signals:
        found: A node, and the rows below it.
        stopped: A node whose contents somebody did not want to wait for.
    """

    found = Signal(object, object)
    stopped = Signal(object)

    def __init__(self, runner: JobRunner, turnstile: Turnstile, parent: QObject) -> None:
        super().__init__(parent)
        self._runner = runner
        self._turnstile = turnstile
        jobs: dict[int, Job] = {}
        self._jobs = jobs

        def stop() -> None:
            for job in jobs.values():
                job.cancel()

        self.destroyed.connect(stop)

    def read(self, node: Node) -> None:
        """Read what is inside a model."""
        entry, place = node.row.entry, node.store.row.place
        if entry is None or place is None:
            return
        if node.id in self._jobs:
            self._jobs[node.id].cancel()
        turnstile = self._turnstile

        def work(job: Job) -> tuple[Row, ...]:
            def check() -> None:
                job.check()
                turnstile.give_way()

            with consideration(lasting=False):
                return read_contents(place.kind, entry, check)

        job = self._runner.run(
            self.tr("Opening {name}").format(name=plain_text(entry.name)),
            work,
            lambda rows: self.found.emit(node, rows),
            self._failure_of(node),
        )
        self._jobs[node.id] = job
        job.finished.connect(lambda: self._forget(node, job))

    def _failure_of(self, node: Node) -> Callable[[ExplorerError], None]:
        def fail(error: ExplorerError) -> None:
            rows: tuple[Row, ...] = (note_row(str(error), Severity.ERROR),)
            self.found.emit(node, rows)

        return fail

    def _forget(self, node: Node, job: Job) -> None:
        if self._jobs.get(node.id) is job:
            del self._jobs[node.id]
            if job.cancelled:
                self.stopped.emit(node)
