"""What a map can be drawn of: a tensor, or a tensor beside its reference; or why it cannot."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QCoreApplication, QObject, Signal

from explorer.analysis.blocks import is_quantized
from explorer.analysis.errors.pairs import RoundedPair, WeightsPair
from explorer.analysis.tensor_map.draw import (
    MapBuilder,
    Quantity,
    Source,
    draw_map,
    pair_source,
    tensor_source,
    weights_per_scale,
)
from explorer.analysis.tensor_map.map import Grid, TensorMap, Window, places_agree
from explorer.errors import ExplorerError
from explorer.formats.tensors import Folding, Shape
from explorer.qt.document import Recent
from explorer.qt.jobs import Job, JobRunner, JobSlot
from explorer.qt.references import References
from explorer.qt.weights.curves import Subject
from explorer.qt.weights.work import worker_count
from explorer.quantization import TENSOR_TYPES, TensorType


@dataclass(frozen=True, slots=True)
class Drawable:
    """What is drawn.

    Attributes:
        subject: The tensor that was selected.
        quantity: What of it.
        source: The matrix.
        pair: The tensor and its reference; None if the quantity needs none.
        in_place: Whether a row and column of the matrix are those of the tensor.
    """

    subject: Subject
    quantity: Quantity
    source: Source
    pair: WeightsPair | None = None
    in_place: bool = True

    @property
    def folding(self) -> Folding:
        """How the matrix is laid out as rows and columns."""
        return Folding(self.source.shape)

    def sheet(self, number: int) -> Window:
        """Return one of the matrices that lie behind each other, or all of them for -1."""
        source = self.source
        if number < 0:
            return Window(0, 0, source.rows, source.columns)
        height = source.shape[-2]
        return Window(number * height, 0, height, source.columns)

    def flat(self, place: tuple[int, int]) -> int:
        """Return the flat index of a row and column."""
        return place[0] * self.source.columns + place[1]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing is drawn.

    Attributes:
        heading: In a few words.
        sentence: What to do about it.
    """

    heading: str
    sentence: str


def sheet_count(shape: Shape) -> int:
    """Return how many matrices a tensor is made of."""
    return math.prod(shape[:-2])


def block_weights(drawable: Drawable) -> int:
    """Return how many weights of a row make a block of the matrix; 1 if none do."""
    kind: TensorType | None = drawable.subject.tensor.type
    if isinstance(drawable.pair, RoundedPair):
        kind = TENSOR_TYPES.get(drawable.pair.candidate_type.upper())
    if kind is None or not drawable.in_place or drawable.source.columns % kind.block_weights:
        return 1
    return kind.block_weights


def drawable_of(subject: Subject, quantity: Quantity, references: References) -> Drawable | Refusal:
    """Return what to draw of a tensor; reads nothing."""
    tensor = subject.tensor
    if not tensor.parameters:
        return Refusal(_tr("No weights"), _tr("This tensor is empty."))
    if quantity.needs_blocks and not is_quantized(tensor):
        sentence = _tr("Weights of type {type} are stored one by one, without scales.")
        return Refusal(_tr("Not quantized"), sentence.format(type=tensor.type.name))
    if not quantity.needs_reference:
        return Drawable(subject, quantity, tensor_source(tensor, quantity))
    return _beside_reference(subject, quantity, references)


def _beside_reference(
    subject: Subject, quantity: Quantity, references: References
) -> Drawable | Refusal:
    partner = references.partner_of(subject.row, subject.tensor)
    if partner.pair is not None:
        source = pair_source(partner.pair, quantity)
        agree = places_agree(partner.pair, subject.tensor)
        return Drawable(subject, quantity, source, partner.pair, agree)
    if partner.waiting:
        return Refusal(_tr("Matching the tensors…"), partner.reason)
    if partner.reason:
        return Refusal(_tr("Not comparable"), partner.reason)
    return Refusal(
        _tr("No reference chosen"),
        _tr("Errors are told against another model, or against a type: choose it above."),
    )


def quantity_name(quantity: Quantity) -> str:
    """Return what the user reads for a quantity."""
    return {
        Quantity.VALUE: _tr("Value"),
        Quantity.ABSOLUTE_ERROR: _tr("Absolute error"),
        Quantity.RELATIVE_ERROR: _tr("Relative error"),
        Quantity.SCALE: _tr("Block scale"),
        Quantity.MINIMUM: _tr("Block minimum"),
    }[quantity]


def texts_of_place(drawable: Drawable, window: Window) -> Iterator[str]:
    """Yield where a cell is: its rows, and its columns."""
    folding = drawable.folding
    first, last = folding.row_name(window.top), folding.row_name(window.bottom - 1)
    if window.height == 1:
        yield _tr("row {row}").format(row=first)
    else:
        yield _tr("rows {first} to {last}").format(first=first, last=last)
    if window.width == 1:
        yield _tr("column {column}").format(column=window.left)
    else:
        yield _tr("columns {first} to {last}").format(first=window.left, last=window.right - 1)


def _tr(text: str) -> str:
    return QCoreApplication.translate("MapSubject", text)


# Reads maps in the background, one at a time, and keeps those that were drawn last.


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

    def read(self, drawable: Drawable, grid: Grid, *, keep: bool) -> None:
        """Draw a map; what was read before is no longer wanted.

        Args:
            drawable: What is drawn.
            grid: The window and its cells.
            keep: Whether it is worth keeping.
        """
        kept = self._kept

        def read(job: Job) -> _Drawn:
            shown = 0.0

            def tell(growing: MapBuilder) -> None:
                nonlocal shown
                now = time.monotonic()
                if not growing.map.complete and now - shown >= _REDRAW_S:
                    shown = now
                    job.publish(growing.snapshot)

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
