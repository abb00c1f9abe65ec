"""What a map can be drawn of, the controls above it, and the read-out below it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, QSignalBlocker, QTimer, Signal
from PySide6.QtWidgets import QComboBox, QSpinBox, QWidget

from explorer.analysis.blocks import is_quantized
from explorer.analysis.errors.pairs import RoundedPair, WeightsPair
from explorer.analysis.tensor_map.draw import (
    ERROR_GROUP,
    Quantity,
    Source,
    pair_source,
    tensor_source,
)
from explorer.analysis.tensor_map.map import (
    Reduction,
    TensorMap,
    WeightFacts,
    Window,
    levels_of,
    pair_facts,
    places_agree,
    weight_facts,
)
from explorer.formats.tensors import Folding, Shape
from explorer.qt.jobs import Job, JobSlot
from explorer.qt.references import References
from explorer.qt.services import Services
from explorer.qt.theme import Space
from explorer.qt.weights.curves import SelectedTensor
from explorer.qt.weights.map.plot import MapPlot
from explorer.qt.weights.values import Place, PlaceField
from explorer.qt.widgets.building import LINE, NOTE, copy_text, row
from explorer.qt.widgets.controls import choice, label_of, picture_buttons
from explorer.qt.widgets.labels import plain_label
from explorer.qt.widgets.pages import Refusal
from explorer.qt.widgets.ranges import RangeChoice
from explorer.quantization import TENSOR_TYPES, TensorType
from explorer.text import float_text, integer_text, plain_text


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

    subject: SelectedTensor
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


def block_weights(drawable: Drawable) -> int:
    """Return how many weights of a row make a block of the matrix; 1 if none do."""
    kind: TensorType | None = drawable.subject.tensor.type
    if isinstance(drawable.pair, RoundedPair):
        kind = TENSOR_TYPES.get(drawable.pair.candidate_type.upper())
    if kind is None or not drawable.in_place or drawable.source.columns % kind.block_weights:
        return 1
    return kind.block_weights


def drawable_of(
    subject: SelectedTensor, quantity: Quantity, references: References
) -> Drawable | Refusal:
    """Return what to draw of a tensor; reads nothing."""
    tensor = subject.tensor
    if not tensor.parameters:
        return Refusal("No weights", "This tensor is empty.")
    if quantity.needs_blocks and not is_quantized(tensor):
        return Refusal(
            "Not quantized",
            f"Weights of type {tensor.type.name} are stored one by one, without scales.",
        )
    if not quantity.needs_reference:
        return Drawable(subject, quantity, tensor_source(tensor, quantity))
    return _reference_text(subject, quantity, references)


def _reference_text(
    subject: SelectedTensor, quantity: Quantity, references: References
) -> Drawable | Refusal:
    partner = references.partner_of(subject.row, subject.tensor)
    if partner.pair is not None:
        source = pair_source(partner.pair, quantity)
        agree = places_agree(partner.pair, subject.tensor)
        return Drawable(subject, quantity, source, partner.pair, agree)
    if partner.waiting:
        return Refusal("Matching the tensors…", partner.reason)
    if partner.reason:
        return Refusal("Not comparable", partner.reason)
    return Refusal(
        "No reference chosen",
        "Errors are measured against another model, or against a type: choose it above.",
    )


def quantity_name(quantity: Quantity) -> str:
    """Return what the user reads for a quantity."""
    return {
        Quantity.VALUE: "Value",
        Quantity.ABSOLUTE_ERROR: "Absolute error",
        Quantity.RELATIVE_ERROR: "Relative error",
        Quantity.SCALE: "Block scale",
        Quantity.MINIMUM: "Block minimum",
    }[quantity]


def place_text(drawable: Drawable, window: Window) -> str:
    """Return where a cell is: its rows and its columns."""
    first, last = map(drawable.folding.row_name, (window.top, window.bottom - 1))
    left, right = window.left, window.right - 1
    rows = f"Row {first}" if window.height == 1 else f"Rows {first} to {last}"
    columns = f"column {left}" if window.width == 1 else f"columns {left} to {right}"
    return f"{rows}, {columns}"


_ROBUST: Final = 0.999
_MOST_SHEETS: Final = (1 << 31) - 2  # of a QSpinBox


class MapControls(QWidget):
    """A line of controls above the map.

    Attributes:
        goto: Where one types a place.
        clipping: Which numbers have the first and the last colour.

    Signals:
        quantity_changed: Something else is to be drawn.
        look_changed: The same is to be drawn otherwise.
        sheet_changed: Another of several matrices is to be drawn, or all.
    """

    quantity_changed = Signal()
    look_changed = Signal()
    sheet_changed = Signal()

    def __init__(self, quantities: Sequence[Quantity], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        relative = (
            f"The error's size divided by the root mean square of the {ERROR_GROUP} "
            "consecutive weights of the reference that it lies among"
        )
        tips = {
            Quantity.VALUE: "The weights",
            Quantity.ABSOLUTE_ERROR: "Size of the difference from the reference",
            Quantity.RELATIVE_ERROR: relative,
            Quantity.SCALE: "What the codes of a block are multiplied by",
            Quantity.MINIMUM: "What is subtracted from the weights of a block",
        }
        self.quantities = choice(
            *(self, "What is shown", ""),
            *((quantity_name(each), each, tips[each]) for each in quantities),
        )
        extreme = "A cell of several weights shows the one farthest from 0, with its sign"
        rms = "A cell of several weights shows the root of their mean square"
        self.reductions = choice(
            *(self, "What a cell of several weights shows", ""),
            ("Largest magnitude", Reduction.EXTREME, extreme),
            ("Root mean square", Reduction.RMS, rms),
        )
        self.reductions.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        robust = "The largest 0.1 % of the cells share the last colour"
        self.clipping = RangeChoice(
            *(self, "Range of the colours", "The values that the colours cover"),
            ("99.9 %", _ROBUST, robust),
            ("All", 1.0, "Each cell has its own colour"),
            typed_tip="The first and the last colour as typed",
        )
        self.sheets = QSpinBox(self)
        self.sheets.setGroupSeparatorShown(True)
        self.sheets.setAccessibleName("Matrix")
        self.sheets.setToolTip(
            "One of the matrices that the tensor is made of, such as those of experts"
        )
        self.sheets.setSpecialValueText("all")
        self.sheets.setKeyboardTracking(False)
        self.goto = PlaceField(self)
        self._sheet_label = label_of(self.sheets, "&Matrix")
        self._lay_out()
        self.quantities.currentIndexChanged.connect(lambda _: self.quantity_changed.emit())
        self.reductions.currentIndexChanged.connect(lambda _: self.look_changed.emit())
        self.clipping.changed.connect(self.look_changed)
        self.sheets.valueChanged.connect(lambda _: self.sheet_changed.emit())
        self.set_shape((0,))

    @property
    def quantity(self) -> Quantity:
        return Quantity(self.quantities.currentData())

    @property
    def reduction(self) -> Reduction:
        """What a cell of several weights shows."""
        return Reduction(self.reductions.currentData())

    def levels(self, image: NDArray[np.float32]) -> tuple[float, float]:
        """Return the numbers with the first and the last colour of a picture."""
        share = _ROBUST if self.clipping.is_typed else float(self.clipping.chosen)
        levels = self.clipping.value() or levels_of(image, share)
        self.clipping.suggest(*levels)
        return levels

    @property
    def sheet(self) -> int:
        """Number of the matrix; -1 for all."""
        return self.sheets.value()

    def set_shape(self, shape: Shape) -> None:
        """Offer the matrices of another tensor, all of them at first."""
        self.goto.folding = Folding(shape)
        count = math.prod(shape[:-2])
        with QSignalBlocker(self.sheets):
            self.sheets.setRange(-1, min(count, _MOST_SHEETS) - 1)
            self.sheets.setValue(-1)
        for widget in (self.sheets, self._sheet_label):
            widget.setVisible(count > 1)

    def _lay_out(self) -> None:
        row(
            *(label_of(self.quantities, "&Show"), self.quantities),
            *(label_of(self.reductions, "&Cells"), self.reductions),
            *(label_of(self.clipping.list, "C&olours"), self.clipping),
            *(self._sheet_label, self.sheets, 1, self.goto),
            of=self,
            margins=LINE,
            spacing=Space.NEAR,
        )


_REST_MS = 80  # the mouse stays that long before a file is read
_DIGITS = 9  # two float32 numbers never look the same


class MapPointer(QObject):
    """Describes the place under the cursor: at once from the map, then exactly from the file.

    Attributes:
        value: The number there, or the range of the cell; what is copied.

    Signals:
        described: A line about the place; plain text.
    """

    described = Signal(str)

    def __init__(self, app: Services, parent: QObject) -> None:
        super().__init__(parent)
        self._slot = JobSlot(app.runner, self)
        self._drawable: Drawable | None = None
        self._place: Place | None = None
        self._text = ""
        self.value = ""
        self._rest = QTimer(self, singleShot=True, interval=_REST_MS)
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
        """Show what is at a place.

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
            self.described.emit(f"Row {place[0]}, column {place[1]}: not read yet")
            return
        if not cells.counts[cell]:
            self.value = "not finite" if cells.complete else "not read yet"
        elif cells.grid.exact:
            self.value = float_text(float(cells.low[cell]), _DIGITS)
        else:
            self.value = self._range_text(cells, cell)
        where = place_text(drawable, cells.grid.window_of(cell))
        self._text = f"{where}: {quantity_name(drawable.quantity).lower()} {self.value}"
        if cells.grid.exact:
            self._rest.start()
        self.described.emit(self._text)

    def _range_text(self, cells: TensorMap, cell: tuple[int, int]) -> str:
        low, high, rms = (float(part[cell]) for part in (cells.low, cells.high, cells.rms))
        odd = int(cells.not_finite[cell])
        text = (
            f"{float_text(low, 5)} to {float_text(high, 5)}, root mean square {float_text(rms, 4)}"
        )
        if odd and cells.complete:
            text += f", {integer_text(odd)} not finite"
        return text

    def _read(self) -> None:
        """Look the weight up in the file."""
        drawable, place = self._drawable, self._place
        if drawable is None or place is None:
            return
        index = drawable.flat(place)
        tensor, pair = drawable.subject.tensor, drawable.pair

        def read(job: Job) -> tuple[WeightFacts | None, tuple[float, float] | None]:
            facts = weight_facts(tensor, index, job.check) if drawable.in_place else None
            return facts, None if pair is None else pair_facts(pair, index, job.check)

        def show(*texts: str) -> None:
            self.described.emit("   ".join((self._text, *texts)))

        self._slot.run(
            "Reading a weight",
            read,
            lambda found: show(*self._facts(drawable, *found)),
            lambda error: show(str(error)),
        )

    def _facts(
        self, drawable: Drawable, facts: WeightFacts | None, both: tuple[float, float] | None
    ) -> list[str]:
        texts = []
        if both is not None:
            reference, candidate = (float_text(each, 6) for each in both)
            texts.append(f"reference {reference}, candidate {candidate}")
        if facts is None:
            return texts
        if drawable.quantity.needs_blocks or not math.isfinite(facts.value):
            texts.append(f"value {float_text(facts.value, 6)}")
        if facts.block is not None:
            texts.append(f"block {integer_text(facts.block)}, weight {facts.place}")
        if facts.code is not None and facts.level is not None and facts.scale is not None:
            texts.append(f"code {facts.code}, level {float_text(facts.level, 5)}")
            texts.append(f"scale {float_text(facts.scale, 5)}")
        if facts.minimum is not None:
            texts.append(f"minimum {float_text(facts.minimum, 5)}")
        return texts


class MapReadout(QWidget):
    """The line below a map: the place under the cursor or else the whole picture, and buttons."""

    def __init__(self, app: Services, plot: MapPlot, parent: QWidget) -> None:
        super().__init__(parent)
        self._plot = plot
        self._resting = ""
        self._drawable: Drawable | None = None
        self.label = plain_label(self)
        self.label.setAccessibleName("Under the pointer")
        self.label.setMinimumWidth(1)  # a long line must not widen the window
        self.pointer = MapPointer(app, self)
        self.pointer.described.connect(self.show_text)
        asked = plot.copy_requested, plot.export_requested
        self.copy_button, self.save_button = saving = picture_buttons(self, *asked, place="map")
        row((self.label, 1), *plot.zoom_buttons(self), *saving, of=self, margins=NOTE)
        plot.value_wanted.connect(self._copy_value)
        plot.position_wanted.connect(self._copy_position)

    def show_drawable(self, drawable: Drawable | None) -> None:
        """Describe another matrix from now on."""
        self.pointer.clear()
        self._drawable = drawable
        self.rest("")

    def describe(self, maps: list[TensorMap]) -> None:
        """Show what is under the cursor.

        Args:
            maps: What is known of the matrix, the finest last.
        """
        place = self._plot.place
        if self._drawable is None or place is None:
            self.pointer.cancel()
            self.label.setText(self._resting)
            return
        shown = [each for each in maps if each.grid.cell_of(*place) is not None]
        self.pointer.describe(self._drawable, place, shown[-1] if shown else None)

    def show_text(self, text: str) -> None:
        """Show a sentence until the cursor moves."""
        self.label.setText(plain_text(text))
        self._plot.speak(plain_text(text))

    def rest(self, text: str) -> None:
        """Show a sentence while the cursor is nowhere."""
        self._resting = plain_text(text)
        if self._plot.place is None:
            self.label.setText(self._resting)

    def _copy_value(self) -> None:
        copy_text(self.pointer.value)

    def _copy_position(self) -> None:
        place: Place | None = self._plot.place
        if place is not None and self._drawable is not None:
            name = self._drawable.folding.row_name(place[0])
            copy_text(plain_text(f"{name}, {place[1]}"))
