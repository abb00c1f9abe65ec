"""The line below a map: what is under the cursor, and buttons for the picture."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from explorer.analysis.tensor_map.map import TensorMap
from explorer.present.explanations import picture_text
from explorer.qt.jobs import JobRunner
from explorer.qt.models.weights.values_table import Place
from explorer.qt.views.labels import plain_label
from explorer.qt.views.weights.map.plot import MapPlot
from explorer.qt.views.weights.map.pointer import MapPointer
from explorer.qt.views.weights.map.subject import Drawable
from explorer.text import plain_text


class MapReadout(QWidget):
    """Tells of the place under the cursor; while there is none, of the picture as a whole.

    Attributes:
        label: The line.
        pointer: What looks places up.

    Signals:
        save_wanted: The picture shall be saved.
    """

    save_wanted = Signal()

    def __init__(self, runner: JobRunner, plot: MapPlot, parent: QWidget) -> None:
        super().__init__(parent)
        self._plot = plot
        self._resting = ""
        self._drawable: Drawable | None = None
        self.label = plain_label(self)
        self.label.setAccessibleName(self.tr("Under the cursor"))
        self.label.setWhatsThis(picture_text("readout"))
        self.label.setMinimumWidth(1)  # a long line must not widen the window
        self.pointer = MapPointer(runner, self)
        self.pointer.told.connect(self.say)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 2, 8, 2)
        layout.addWidget(self.label, 1)
        for action in (plot.back_action, plot.reset_action):
            button = QToolButton(self)
            button.setDefaultAction(action)
            layout.addWidget(button)
        self.save_button = QToolButton(self)
        self.save_button.setText(self.tr("Save…"))
        self.save_button.setToolTip(self.tr("Save the picture or its numbers (Ctrl+S in the map)"))
        self.save_button.clicked.connect(self.save_wanted)
        layout.addWidget(self.save_button)
        plot.value_wanted.connect(self._copy_value)
        plot.position_wanted.connect(self._copy_position)

    def show_drawable(self, drawable: Drawable | None) -> None:
        """Tell of another matrix from now on."""
        self.pointer.clear()
        self._drawable = drawable
        self.rest("")

    def describe(self, maps: list[TensorMap]) -> None:
        """Tell what is under the cursor.

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

    def say(self, text: str) -> None:
        """Say something until the cursor moves."""
        self.label.setText(plain_text(text))
        self._plot.speak(plain_text(text))

    def rest(self, text: str) -> None:
        """Say something while the cursor is nowhere."""
        self._resting = plain_text(text)
        if self._plot.place is None:
            self.label.setText(self._resting)

    def _copy_value(self) -> None:
        if self.pointer.value:
            QGuiApplication.clipboard().setText(self.pointer.value)

    def _copy_position(self) -> None:
        place: Place | None = self._plot.place
        if place is not None and self._drawable is not None:
            name = self._drawable.folding.row_name(place[0])
            QGuiApplication.clipboard().setText(plain_text(f"{name}, {place[1]}"))
