"""How the histogram is to be: bins, range, axis, and what is drawn in it."""

from __future__ import annotations

from PySide6.QtCore import QLocale, Qt, QTimer, Signal
from PySide6.QtGui import QDoubleValidator, QFontMetrics
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QSpinBox,
    QWidget,
)

from explorer.qt.models.weights.bins import can_divide
from explorer.qt.models.weights.figures import Wish
from explorer.qt.models.weights.histogram_choices import MOST_BINS, HistogramChoices, RangeKind
from explorer.qt.models.weights.histogram_curve import Range
from explorer.text import float_text

_TYPING_MS = 250


class HistogramControls(QWidget):
    """A line of controls above the plot.

    Signals:
        wish_changed: Other bins or another range are wanted.
        refused: A range was typed that cannot be; a sentence, empty when it is right again.
    """

    wish_changed = Signal()
    refused = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.bins = QSpinBox(self)
        self.bins.setRange(1, MOST_BINS)
        self.bins.setValue(256)
        self.bins.setAccessibleName(self.tr("Number of bins"))
        self.range = QComboBox(self)
        self.range.setAccessibleName(self.tr("Range of weights"))
        for kind, text, tip in (
            (RangeKind.ROBUST, self.tr("0.1 to 99.9 %"), self.tr("Leaves outliers out")),
            (RangeKind.FULL, self.tr("All weights"), self.tr("From the least to the greatest")),
            (RangeKind.TYPED, self.tr("From … to …"), self.tr("A range of your own")),
        ):
            self.range.addItem(text, kind)
            self.range.setItemData(self.range.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self.low = self._number(self.tr("First edge"))
        self.high = self._number(self.tr("Last edge"))
        self._to = QLabel(self.tr("to"), self)
        self.logarithmic = QCheckBox(self.tr("&Logarithmic"), self)
        self.normal = QCheckBox(self.tr("&Normal curve"), self)
        self.normal.setToolTip(self.tr("The normal distribution of the same mean and deviation"))
        self.normal.setChecked(True)
        self.marks = QCheckBox(self.tr("&Marks"), self)
        self.marks.setToolTip(self.tr("Mean, standard deviation, least and greatest"))
        self.marks.setChecked(True)
        self.arrangement = QComboBox(self)
        self.arrangement.setAccessibleName(self.tr("Several tensors"))
        self.arrangement.addItem(self.tr("Overlaid"))
        self.arrangement.addItem(self.tr("Side by side"))
        self.arrangement.addItem(self.tr("Side by side, own ranges"))
        self._typing = QTimer(self)
        self._typing.setSingleShot(True)
        self._typing.setInterval(_TYPING_MS)
        self._typing.timeout.connect(self.wish_changed)
        self._lay_out()
        self.bins.valueChanged.connect(lambda _: self._typing.start())
        self.range.currentIndexChanged.connect(self._choose_range)
        for edit in (self.low, self.high):
            edit.textEdited.connect(lambda _: self._typing.start())
            edit.editingFinished.connect(self._typed)
        self._show_typed(False)

    @property
    def side_by_side(self) -> bool:
        """Whether several tensors are shown side by side."""
        return self.arrangement.currentIndex() > 0

    @property
    def own_ranges(self) -> bool:
        """Whether each of several tensors has bins of its own."""
        return self.arrangement.currentIndex() == 2

    def choices(self) -> HistogramChoices:
        """Return what is worth remembering."""
        kind = RangeKind(self.range.currentData())
        return HistogramChoices(
            bins=self.bins.value(),
            range=RangeKind.ROBUST if kind is RangeKind.TYPED else kind,
            logarithmic=self.logarithmic.isChecked(),
            normal=self.normal.isChecked(),
            marks=self.marks.isChecked(),
        )

    def set_choices(self, choices: HistogramChoices) -> None:
        """Take what was remembered; before anything is shown."""
        self.bins.setValue(choices.bins)
        self.range.setCurrentIndex(self.range.findData(choices.range))
        self.logarithmic.setChecked(choices.logarithmic)
        self.normal.setChecked(choices.normal)
        self.marks.setChecked(choices.marks)
        self._typing.stop()

    def wish(self) -> Wish | None:
        """Return what is wanted; None if the typed range cannot be, of which `refused` tells."""
        kind = RangeKind(self.range.currentData())
        bins = self.bins.value()
        if kind is not RangeKind.TYPED:
            self.refused.emit("")
            return Wish(bins, kind, common=not self.own_ranges)
        low, low_right = QLocale.c().toDouble(self.low.text())
        high, high_right = QLocale.c().toDouble(self.high.text())
        if not low_right or not high_right:
            self.refused.emit(self.tr("Type two numbers, such as -0.1 and 0.1."))
        elif not low < high:
            self.refused.emit(self.tr("The first edge must be less than the last one."))
        elif not can_divide(low, high, bins):
            self.refused.emit(self.tr("That range is too narrow for so many bins."))
        else:
            self.refused.emit("")
            return Wish(bins, kind, (low, high))
        return None

    def suggest(self, shown: Range) -> None:
        """Put what is shown into the fields, unless the user types there."""
        if self.range.currentData() != RangeKind.TYPED:
            self.low.setText(float_text(shown[0], 4))
            self.high.setText(float_text(shown[1], 4))

    def set_several(self, on: bool) -> None:
        """Offer what applies to several tensors, or not."""
        self.arrangement.setVisible(on)

    def _number(self, name: str) -> QLineEdit:
        edit = QLineEdit(self)
        validator = QDoubleValidator(edit)
        validator.setLocale(QLocale.c())  # as all numbers of the program
        edit.setValidator(validator)
        edit.setAccessibleName(name)
        edit.setFixedWidth(QFontMetrics(self.font()).horizontalAdvance("-0.00000e-00"))
        return edit

    def _lay_out(self) -> None:
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 4)
        layout.setSpacing(6)
        bins = QLabel(self.tr("&Bins"), self)
        bins.setBuddy(self.bins)
        shown = QLabel(self.tr("&Range"), self)
        shown.setBuddy(self.range)
        for label in (bins, shown, self._to):
            label.setTextFormat(Qt.TextFormat.PlainText)
        for widget in (bins, self.bins, shown, self.range, self.low, self._to, self.high):
            layout.addWidget(widget)
        layout.addSpacing(6)
        for box in (self.logarithmic, self.normal, self.marks):
            layout.addWidget(box)
        layout.addStretch(1)
        layout.addWidget(self.arrangement)

    def _choose_range(self) -> None:
        typed = self.range.currentData() == RangeKind.TYPED
        self._show_typed(typed)
        if typed:
            self.low.setFocus(Qt.FocusReason.OtherFocusReason)
            self.low.selectAll()
        self._typing.stop()
        self.wish_changed.emit()

    def _typed(self) -> None:
        if self._typing.isActive():
            self._typing.stop()
            self.wish_changed.emit()

    def _show_typed(self, on: bool) -> None:
        for widget in (self.low, self._to, self.high):
            widget.setVisible(on)
