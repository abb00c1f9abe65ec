"""What a map shows and how: quantity, reduction, range of the colours, one of several matrices."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QSpinBox, QWidget

from explorer.analysis.tensor_map.draw import ERROR_GROUP, Quantity
from explorer.analysis.tensor_map.map import Reduction
from explorer.formats.tensors import Folding, Shape
from explorer.qt.views.labels import plain_label
from explorer.qt.views.weights.map.subject import quantity_name, sheet_count
from explorer.qt.views.weights.place_field import PlaceField

ROBUST: Final = 0.999
_MOST_SHEETS: Final = (1 << 31) - 2  # of a QSpinBox


class MapControls(QWidget):
    """A line of controls above the map.

    Attributes:
        goto: Where one types a place.

    Signals:
        quantity_changed: Something else is to be drawn.
        look_changed: The same is to be drawn otherwise.
        sheet_changed: Another of several matrices is to be drawn, or all.
    """

    quantity_changed = Signal()
    look_changed = Signal()
    sheet_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.quantities = QComboBox(self)
        self.quantities.setAccessibleName(self.tr("What is shown"))
        relative = self.tr(
            "The error's size divided by the root mean square of the {n} consecutive weights of "
            "the reference that it lies among"
        ).format(n=ERROR_GROUP)
        for quantity, tip in (
            (Quantity.VALUE, self.tr("The weights")),
            (Quantity.ABSOLUTE_ERROR, self.tr("Size of the difference from the reference")),
            (Quantity.RELATIVE_ERROR, relative),
            (Quantity.SCALE, self.tr("What the codes of a block are multiplied by")),
            (Quantity.MINIMUM, self.tr("What is subtracted from the weights of a block")),
        ):
            self._add(self.quantities, quantity_name(quantity), quantity, tip)
        self.reductions = QComboBox(self)
        self.reductions.setAccessibleName(self.tr("What a cell of several weights shows"))
        self._add(
            self.reductions,
            self.tr("Largest magnitude"),
            Reduction.EXTREME,
            self.tr("A cell of several weights shows the one farthest from 0, with its sign"),
        )
        self._add(
            self.reductions,
            self.tr("Root mean square"),
            Reduction.RMS,
            self.tr("A cell of several weights shows the root of their mean square"),
        )
        self.clipping = QComboBox(self)
        self.clipping.setAccessibleName(self.tr("Range of the colours"))
        self._add(
            self.clipping,
            self.tr("99.9 %"),
            ROBUST,
            self.tr("The largest 0.1 % of the cells share the last colour"),
        )
        self._add(self.clipping, self.tr("All"), 1.0, self.tr("Each cell has its own colour"))
        self.sheets = QSpinBox(self)
        self.sheets.setAccessibleName(self.tr("Matrix"))
        self.sheets.setToolTip(
            self.tr("One of the matrices that the tensor is made of, such as those of experts")
        )
        self.sheets.setSpecialValueText(self.tr("all"))
        self.sheets.setKeyboardTracking(False)
        self.goto = PlaceField(self)
        self._sheet_label = self._label(self.tr("&Matrix"), self.sheets)
        self._lay_out()
        self.quantities.currentIndexChanged.connect(lambda _: self.quantity_changed.emit())
        for box in (self.reductions, self.clipping):
            box.currentIndexChanged.connect(lambda _: self.look_changed.emit())
        self.sheets.valueChanged.connect(lambda _: self.sheet_changed.emit())
        self.set_shape((0,))

    @property
    def quantity(self) -> Quantity:
        """What is to be drawn."""
        return Quantity(self.quantities.currentData())

    @property
    def reduction(self) -> Reduction:
        """What a cell of several weights shows."""
        return Reduction(self.reductions.currentData())

    @property
    def share(self) -> float:
        """Of all cells, those that have a colour of their own."""
        return float(self.clipping.currentData())

    @property
    def sheet(self) -> int:
        """Number of the matrix; -1 for all."""
        return self.sheets.value()

    def set_shape(self, shape: Shape) -> None:
        """Offer the matrices of another tensor, all of them at first."""
        self.goto.folding = Folding(shape)
        count = sheet_count(shape) if len(shape) > 2 else 1
        with QSignalBlocker(self.sheets):
            self.sheets.setRange(-1, min(count, _MOST_SHEETS) - 1)
            self.sheets.setValue(-1)
        for widget in (self.sheets, self._sheet_label):
            widget.setVisible(count > 1)

    def _add(self, box: QComboBox, text: str, data: object, tip: str) -> None:
        box.addItem(text, data)
        box.setItemData(box.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)

    def _label(self, text: str, buddy: QWidget) -> QLabel:
        label = plain_label(self, text)
        label.setBuddy(buddy)
        return label

    def _lay_out(self) -> None:
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 4)
        layout.setSpacing(6)
        for text, box in (
            (self.tr("&Show"), self.quantities),
            (self.tr("&Cells"), self.reductions),
            (self.tr("C&olours"), self.clipping),
        ):
            layout.addWidget(self._label(text, box))
            layout.addWidget(box)
        layout.addWidget(self._sheet_label)
        layout.addWidget(self.sheets)
        layout.addStretch(1)
        layout.addWidget(self.goto)
