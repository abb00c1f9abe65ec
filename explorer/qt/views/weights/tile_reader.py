"""Fetches the tiles of a value table that are looked at."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor
from explorer.formats.weights import WeightReader
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.models.weights.values_table import Place, Tile, ValuesTable, read_tile
from explorer.qt.views.progress.job_slot import JobSlot

_MOST_AT_ONCE = 64  # of a burst of looks, the last ones: a fast scroll passes thousands


class TileReader(QObject):
    """Reads for a `ValuesTable`, one job at a time.

    Signals:
        failed: Tiles could not be read; a sentence.
    """

    failed = Signal(str)

    def __init__(self, runner: JobRunner, table: ValuesTable, parent: QObject) -> None:
        super().__init__(parent)
        self._table = table
        self._runner = runner
        self._slot = JobSlot(runner, self)
        self._tensor: Tensor | None = None
        self._wanted: dict[Place, None] = {}  # in the order of the looks
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(0)  # all looks of one paint together
        self._timer.timeout.connect(self._fetch)
        table.tile_wanted.connect(self._want)

    def set_tensor(self, tensor: Tensor | None) -> None:
        """Read from another tensor from now on."""
        self.cancel()
        self._tensor = tensor

    def cancel(self) -> None:
        """Stop reading."""
        self._slot.cancel()
        self._timer.stop()
        self._wanted.clear()

    def _want(self, place: Place) -> None:
        self._wanted.pop(place, None)
        self._wanted[place] = None
        if not self._slot.busy and not self._timer.isActive():
            self._timer.start()

    def _fetch(self) -> None:
        tensor = self._tensor
        places = [place for place in self._wanted if not self._table.has_tile(place)]
        self._wanted.clear()
        if tensor is None or not places:
            return
        del places[:-_MOST_AT_ONCE]

        types = [tensor.type.name]
        self._runner.need_kernels(types)

        def read(job: Job) -> dict[Place, Tile]:
            self._runner.wait_for_kernels(types, job)
            reader = WeightReader(tensor)
            return {place: read_tile(reader, place, job.check) for place in places}

        def fail(error: ExplorerError) -> None:
            self._table.set_failed(places)
            self.failed.emit(str(error))
            self._go_on()

        self._slot.run(self.tr("Reading values"), read, self._take, fail)

    def _take(self, tiles: dict[Place, Tile]) -> None:
        for place, tile in tiles.items():
            self._table.set_tile(place, tile)
        self._go_on()

    def _go_on(self) -> None:
        """Fetch what was looked at meanwhile."""
        self._wanted = {p: None for p in self._wanted if not self._table.has_tile(p)}
        if self._wanted:
            self._timer.start()
