"""Driving the weights panel as a person does."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.qt.jobs import JobRunner
from explorer.qt.models.document import Document
from explorer.qt.models.roles import ItemRole
from explorer.qt.models.weight_figures import Gathered
from explorer.qt.views.plots.histogram_plot import HistogramPlot
from explorer.qt.views.weights import WeightsView
from explorer.qt.views.weights.body import WeightsBody


class Panel:
    """A weights panel in a window of its own, and what one does with it."""

    def __init__(self, qtbot: QtBot, runner: JobRunner, document: Document) -> None:
        self.qtbot = qtbot
        self.runner = runner
        self.document = document
        self.view = WeightsView(runner)
        self.view.resize(900, 640)
        qtbot.addWidget(self.view)
        self.view.show()
        qtbot.waitExposed(self.view)
        self.view.show_document(document)

    @property
    def body(self) -> WeightsBody:
        """The content, which is there once something was shown."""
        assert self.view.body is not None
        return self.view.body

    @property
    def gathered(self) -> Gathered:
        """What the histogram page shows."""
        assert self.body.histogram.gathered is not None
        return self.body.histogram.gathered

    def row(self, name: str) -> int:
        """Return the content row of a tensor."""
        row = self.document.model.tensors.row_of(name)
        assert row is not None
        return row

    def select(self, *names: str) -> None:
        """Select tensors, without waiting."""
        self.view.show_tensors([self.row(name) for name in names])

    def show(self, *names: str) -> None:
        """Select tensors and wait until all is read."""
        self.select(*names)
        self.settle()

    def settle(self) -> None:
        """Wait until nothing is read any more."""
        self.qtbot.waitUntil(lambda: not self.runner.jobs, timeout=20_000)
        QApplication.processEvents()
        self.qtbot.waitUntil(lambda: not self.runner.jobs, timeout=20_000)

    def statistics(self) -> dict[str, object]:
        """Return the table beside the histogram, as it is shown."""
        model = self.body.histogram.statistics
        return {
            model.index(row, 0).data(ItemRole.RAW): model.index(row, 1).data(ItemRole.RAW)
            for row in range(model.rowCount())
        }


def pixel(plot: HistogramPlot, x: float, y: float) -> QPoint:
    """Return the pixel of a place in a plot."""
    return plot.mapFromScene(plot.box.mapViewToScene(QPointF(x, y)))


def drag(qtbot: QtBot, plot: HistogramPlot, start: QPoint, stop: QPoint) -> None:
    """Draw a rubber band with the left button."""
    port = plot.viewport()
    left = Qt.MouseButton.LeftButton
    qtbot.mouseMove(port, start)
    qtbot.mousePress(port, left, pos=start)
    steps = 6
    for step in range(1, steps + 1):
        place = start + (stop - start) * step / steps
        _move_pressed(plot, place)
    qtbot.mouseRelease(port, left, pos=stop)
    QApplication.processEvents()


def _move_pressed(plot: HistogramPlot, place: QPoint) -> None:
    """Move the mouse with the button held; `QTest.mouseMove` tells of no button."""
    from PySide6.QtCore import QEvent
    from PySide6.QtGui import QMouseEvent

    left = Qt.MouseButton.LeftButton
    port = plot.viewport()
    event = QMouseEvent(
        QEvent.Type.MouseMove,
        QPointF(place),
        QPointF(port.mapToGlobal(place)),
        Qt.MouseButton.NoButton,
        left,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(port, event)
