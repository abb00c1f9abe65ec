"""What is under the cursor of a map, in words: at once from the map, then exactly from the file."""

from __future__ import annotations

import math

from PySide6.QtCore import QObject, QTimer, Signal

from explorer.analysis.tensor_map.map import TensorMap, WeightFacts, pair_facts, weight_facts
from explorer.errors import ExplorerError
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.models.weights.values_table import Place
from explorer.qt.views.progress.job_slot import JobSlot
from explorer.qt.views.weights.map.subject import Drawable, quantity_name, texts_of_place
from explorer.text import float_text, integer_text

_REST_MS = 80  # the mouse stays that long before a file is read
_DIGITS = 9  # a float32 is told apart by them


class MapPointer(QObject):
    """Describes places, the last one that was asked for.

    Attributes:
        value: The number there, or the range of the cell; what is copied.

    Signals:
        told: A line about the place; plain text.
    """

    told = Signal(str)

    def __init__(self, runner: JobRunner, parent: QObject) -> None:
        super().__init__(parent)
        self._runner = runner
        self._slot = JobSlot(runner, self)
        self._drawable: Drawable | None = None
        self._place: Place | None = None
        self._text = ""
        self.value = ""
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(_REST_MS)
        self._rest.timeout.connect(self._read)

    def cancel(self) -> None:
        """Read nothing more."""
        self._rest.stop()
        self._slot.cancel()

    def clear(self) -> None:
        """Forget the place: another matrix is drawn."""
        self.cancel()
        self._drawable = self._place = None
        self.value = ""

    def describe(self, drawable: Drawable, place: Place, cells: TensorMap | None) -> None:
        """Tell what is at a place.

        Args:
            drawable: What is drawn.
            place: A row and column.
            cells: The finest map that shows it; None while nothing does.
        """
        self.cancel()
        self._drawable, self._place = drawable, place
        cell = None if cells is None else cells.grid.cell_of(*place)
        self.value = ""
        if cells is None or cell is None:
            where = (str(place[0]), str(place[1]))
            self.told.emit(self.tr("Row {0}, column {1}: not read yet").format(*where))
            return
        where_text = ", ".join(texts_of_place(drawable, cells.grid.window_of(cell)))
        where_text = where_text[0].upper() + where_text[1:]
        known = bool(cells.counts[cell])
        if not known:
            self.value = self.tr("not finite") if cells.complete else self.tr("not read yet")
        elif cells.grid.exact:
            self.value = float_text(float(cells.low[cell]), _DIGITS)
        else:
            self.value = self._range_text(cells, cell)
        name = quantity_name(drawable.quantity).lower()
        self._text = f"{where_text}: {name} {self.value}"
        if cells.grid.exact:
            self._rest.start()
        self.told.emit(self._text)

    def _range_text(self, cells: TensorMap, cell: tuple[int, int]) -> str:
        low, high, rms = (float(part[cell]) for part in (cells.low, cells.high, cells.rms))
        odd = int(cells.not_finite[cell])
        text = self.tr("{low} to {high}, root mean square {rms}").format(
            low=float_text(low, 5), high=float_text(high, 5), rms=float_text(rms, 4)
        )
        if odd and cells.complete:
            text += self.tr(", {n} not finite").format(n=integer_text(odd))
        return text

    def _read(self) -> None:
        """Look the weight up in the file."""
        drawable, place = self._drawable, self._place
        if drawable is None or place is None:
            return
        index, kernels = drawable.flat(place), drawable.kernels
        tensor, pair = drawable.subject.tensor, drawable.pair
        self._runner.need_kernels(kernels)

        def read(job: Job) -> tuple[WeightFacts | None, tuple[float, float] | None]:
            self._runner.wait_for_kernels(kernels, job)
            facts = weight_facts(tensor, index, job.check) if drawable.in_place else None
            return facts, None if pair is None else pair_facts(pair, index, job.check)

        def take(found: tuple[WeightFacts | None, tuple[float, float] | None]) -> None:
            self.told.emit("   ".join((self._text, *self._facts(drawable, *found))))

        self._slot.run(self.tr("Reading a weight"), read, take, self._fail)

    def _facts(
        self, drawable: Drawable, facts: WeightFacts | None, both: tuple[float, float] | None
    ) -> list[str]:
        texts = []
        if both is not None:
            reference, candidate = (float_text(each, 6) for each in both)
            texts.append(self.tr("reference {a}, candidate {b}").format(a=reference, b=candidate))
        if facts is None:
            return texts
        if drawable.quantity.needs_blocks or not math.isfinite(facts.value):
            texts.append(self.tr("value {value}").format(value=float_text(facts.value, 6)))
        if facts.block is not None:
            texts.append(
                self.tr("block {block}, weight {n}").format(
                    block=integer_text(facts.block), n=facts.place
                )
            )
        if facts.code is not None and facts.level is not None and facts.scale is not None:
            texts.append(
                self.tr("code {code}, level {level}").format(
                    code=facts.code, level=float_text(facts.level, 5)
                )
            )
            texts.append(self.tr("scale {scale}").format(scale=float_text(facts.scale, 5)))
        if facts.minimum is not None:
            texts.append(self.tr("minimum {m}").format(m=float_text(facts.minimum, 5)))
        return texts

    def _fail(self, error: ExplorerError) -> None:
        self.told.emit(f"{self._text}   {error}")
