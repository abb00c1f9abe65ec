"""Driving the weights panel as a person does."""

from __future__ import annotations

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.qt.document import Document
from explorer.qt.jobs import JobRunner
from explorer.qt.references import References
from explorer.qt.weights.curves import HistogramResult
from explorer.qt.weights.histogram import HistogramPage
from explorer.qt.weights.panel import WeightsView
from explorer.qt.widgets.plot import ThemedPlot
from explorer.qt.widgets.table_model import ItemRole
from tests.helpers.services import RecordingServices

_STEPS = 6  # of a drag


def settle(qtbot: QtBot, runner: JobRunner) -> None:
    """Wait until nothing is read any more."""

    def idle() -> bool:
        QApplication.processEvents()
        return not runner.jobs

    qtbot.waitUntil(idle)


class Panel:
    """A weights panel in a window of its own, and what one does with it."""

    def __init__(self, qtbot: QtBot, app: RecordingServices, document: Document) -> None:
        self.qtbot = qtbot
        self.app, self.runner = app, app.runner
        self.document = document
        self.view = WeightsView(app, References(app))
        self.view.resize(900, 640)
        qtbot.addWidget(self.view)
        self.view.show()
        qtbot.waitExposed(self.view)
        app.selection.show_document(document)
        self.view.show_document(document)

    @property
    def result(self) -> HistogramResult:
        """What the histogram page shows."""
        assert self.view.histogram.result is not None
        return self.view.histogram.result

    def row(self, name: str) -> int:
        """Return the content row of a tensor."""
        row = self.document.model.tensors.row_of(name)
        assert row is not None
        return row

    def select(self, *names: str) -> None:
        """Select tensors, without waiting."""
        self.view.show_tensors([self.row(name) for name in names])

    def begin(self, *names: str) -> HistogramPage:
        """Select tensors and wait until their reading has begun."""
        self.select(*names)
        self.qtbot.waitUntil(lambda: self.view.histogram.busy)
        return self.view.histogram

    def show(self, *names: str) -> None:
        """Select tensors and wait until all is read."""
        self.select(*names)
        self.settle()

    def settle(self) -> None:
        """Wait until nothing is read any more."""
        settle(self.qtbot, self.runner)

    def statistics(self) -> dict[str, object]:
        """Return the table beside the histogram, as it is shown."""
        model = self.view.histogram.statistics
        return {
            model.index(row, 0).data(ItemRole.RAW): model.index(row, 1).data(ItemRole.RAW)
            for row in range(model.rowCount())
        }


def pixel(plot: ThemedPlot, x: float, y: float) -> QPoint:
    """Return the pixel of a place in a plot."""
    return plot.mapFromScene(plot.box.mapViewToScene(QPointF(x, y)))


def drag(plot: ThemedPlot, start: QPoint, stop: QPoint) -> None:
    """Draw a rubber band with the left button; the same place twice is a click.

    Events are sent as they are: `QTest` warns of presses that a scene does not accept, and its
    moves tell of no button.
    """
    left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
    limit = pg.getConfigOption("mouseRateLimit")
    pg.setConfigOption("mouseRateLimit", 0)  # else moves that come so fast are left out
    try:
        _send(plot, QEvent.Type.MouseMove, start, none, none)
        _send(plot, QEvent.Type.MouseButtonPress, start, left, left)
        for step in range(1, _STEPS + 1):
            _send(plot, QEvent.Type.MouseMove, start + (stop - start) * step / _STEPS, none, left)
        _send(plot, QEvent.Type.MouseButtonRelease, stop, left, none)
    finally:
        pg.setConfigOption("mouseRateLimit", limit)
    QApplication.processEvents()


def _send(
    plot: ThemedPlot, kind: QEvent.Type, place: QPoint, button: Qt.MouseButton, held: Qt.MouseButton
) -> None:
    port = plot.viewport()
    there = QPointF(port.mapToGlobal(place))
    modifiers = Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(port, QMouseEvent(kind, QPointF(place), there, button, held, modifiers))
