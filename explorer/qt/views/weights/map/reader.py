"""Reads maps in the background, one at a time, and keeps those that were drawn last."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QObject, Signal

from explorer.analysis.tensor_map.draw import Growing, draw_map, weights_per_scale
from explorer.analysis.tensor_map.map import Grid, TensorMap
from explorer.errors import ExplorerError
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.models.recent import Recent
from explorer.qt.models.weights.gathering import considerate, worker_count
from explorer.qt.views.progress.job_slot import JobSlot
from explorer.qt.views.weights.map.subject import Drawable

_REDRAW_S: Final = 0.2  # a picture is more to paint than what jobs are used to publish
_MOST_KEPT: Final = 2  # maps of whole tensors, up to 10 MiB each


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A map, and how many weights of its tensor share a scale."""

    cells: TensorMap
    group_weights: int


class MapReader(QObject):
    """Draws maps.

    Attributes:
        group_weights: How many weights of the tensor drawn last share a scale; 1 if none do.

    Signals:
        grown: What there is of a map so far.
        finished: A map that is complete.
        failed: It cannot be drawn; an `ExplorerError`.
        stopped: Somebody else, such as the status bar, cancelled the reading.
    """

    grown = Signal(object)
    finished = Signal(object)
    failed = Signal(object)
    stopped = Signal()

    def __init__(self, runner: JobRunner, parent: QObject) -> None:
        super().__init__(parent)
        self._runner = runner
        self._slot = JobSlot(runner, self)
        self._grid: Grid | None = None
        self.group_weights = 1
        self._kept = Recent(_MOST_KEPT)

    @property
    def grid(self) -> Grid | None:
        """What is read at the moment."""
        return self._grid if self._slot.busy else None

    @property
    def busy(self) -> bool:
        """Whether something is read."""
        return self._slot.busy

    def cancel(self) -> None:
        """Stop reading."""
        self._slot.cancel()

    def forget(self) -> None:
        """Forget what was drawn: it was of something else."""
        self._kept = Recent(_MOST_KEPT)

    def known(self, drawable: Drawable, grid: Grid) -> TensorMap | None:
        """Return a map that was drawn lately, or None."""
        found = self._kept.get(_key(drawable, grid))
        if not isinstance(found, _Drawn):
            return None
        self.group_weights = found.group_weights
        return found.cells

    def read(self, drawable: Drawable, grid: Grid, *, keep: bool) -> list[str]:
        """Draw a map; what was read before is no longer wanted.

        Args:
            drawable: What is drawn.
            grid: The window and its cells.
            keep: Whether it is worth keeping.

        Returns:
            Types whose kernels have to be compiled first.
        """
        runner, kept, kernels = self._runner, self._kept, drawable.kernels
        missing = runner.need_kernels(kernels)

        def read(job: Job) -> _Drawn:
            shown = 0.0

            def tell(growing: Growing) -> None:
                nonlocal shown
                now = time.monotonic()
                if not growing.map.complete and now - shown >= _REDRAW_S:
                    shown = now
                    job.publish(growing.snapshot)

            runner.wait_for_kernels(kernels, job)
            with considerate(f"map of {drawable.quantity.value}: {name}" for name in kernels):
                cells = draw_map(
                    drawable.source, grid, workers=worker_count(), check=job.check, watch=tell
                )
                drawn = _Drawn(cells, weights_per_scale(drawable.subject.tensor))
            if keep:
                kept.put(_key(drawable, grid), drawn)
            return drawn

        self._grid = grid
        title = self.tr("Drawing {name}").format(name=drawable.subject.name)
        job = self._slot.run(title, read, self._finish, self._fail)
        job.published.connect(self.grown)
        job.finished.connect(lambda: self._look_for_cancelled(job))
        return missing

    def _finish(self, drawn: _Drawn) -> None:
        self.group_weights = drawn.group_weights
        self.finished.emit(drawn.cells)

    def _fail(self, error: ExplorerError) -> None:
        self.failed.emit(error)

    def _look_for_cancelled(self, job: Job) -> None:
        if self._slot.stopped and job.cancelled:
            self.stopped.emit()


def _key(drawable: Drawable, grid: Grid) -> tuple[object, ...]:
    return drawable.subject.row, drawable.quantity, grid
