"""Driving the pages of all tensors as a person does: their statistics, or their errors."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtWidgets import QApplication, QTabWidget, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from explorer.qt.document import Document
from explorer.qt.references import Reference, References
from explorer.qt.survey.bar import SurveyBar
from explorer.qt.survey.by_layer import ByLayerPage
from explorer.qt.survey.map_page import ModelMapPage
from explorer.qt.survey.panel import PartPanel, SurveyView
from explorer.qt.survey.session import SurveySession
from explorer.qt.survey.worst_tensors import WorstTensorsPage
from explorer.qt.widgets.table_model import ItemRole
from tests.helpers.services import RecordingServices


class ErrorPages(QWidget):
    """The pages of errors of all tensors below their bar, as the window has them."""

    def __init__(self, app: RecordingServices, references: References) -> None:
        super().__init__()
        self.session = SurveySession(app, references, self, compares=True)
        self.bar = SurveyBar(self.session, self)
        self.tabs = QTabWidget(self)
        names = ("error_map", "error_layers", "error_tensors")
        self.panels = [PartPanel(app, self.session, name) for name in names]
        for name, panel in zip(names, self.panels, strict=True):
            self.tabs.addTab(panel, name)
        layout = QVBoxLayout(self)
        layout.addWidget(self.bar)
        layout.addWidget(self.tabs)
        self.map, self.by_layer, self.worst_tensors = (panel.part for panel in self.panels)

    map: ModelMapPage
    by_layer: ByLayerPage
    worst_tensors: WorstTensorsPage

    def show_document(self, document: Document | None) -> None:
        for panel in self.panels:
            panel.show_document(document)

    def select_tensor(self, row: int, *, layer: bool = False) -> None:
        for panel in self.panels:
            panel.select_tensor(row, layer=layer)

    def show_page(self, page: QWidget) -> None:
        parts = [panel.part for panel in self.panels]
        self.tabs.setCurrentIndex(parts.index(page))


class SurveyPanel:
    """The pages in a window of their own, and what one does with them.

    Args:
        compares: Whether they are those of errors, rather than of statistics.
    """

    def __init__(
        self, qtbot: QtBot, app: RecordingServices, *documents: Document, compares: bool = False
    ) -> None:
        self.qtbot = qtbot
        self.app, self.runner = app, app.runner
        self.references = References(app)
        self.references.set_documents(documents)
        view = ErrorPages(app, self.references) if compares else SurveyView(app, self.references)
        self.view: Any = view
        self.view.resize(1000, 640)
        qtbot.addWidget(self.view)
        self.view.show()
        qtbot.waitExposed(self.view)
        self.chosen: list[int] = []
        app.selection.changed.connect(self._follow)
        if documents:
            self.show(documents[-1])

    def show(self, document: Document | None) -> None:
        """Show a model, and wait until what is known of it was read."""
        self.app.selection.show_document(document)
        self.references.show_document(document)
        self.view.show_document(document)
        self.settle()

    def _follow(self) -> None:
        """Mark what is selected, as the window has the panel do."""
        for row in self.app.selection.rows[:1]:
            self.chosen.append(row)
            self.view.select_tensor(row, layer=self.app.selection.whole_layer)

    def choose(self, reference: Reference) -> None:
        """Choose what to compare with, and wait until what is known was read."""
        self.references.choose(reference)
        self.settle()

    def survey(self) -> None:
        """Read everything."""
        self.view.session.start()
        self.settle()

    def settle(self) -> None:
        """Wait until nothing is under way any more, and all of it is shown where it stays."""

        def idle() -> bool:
            QApplication.processEvents()
            delayed = any(one.isActive() for one in self.view.findChildren(QTimer))
            return not (self.runner.jobs or delayed)

        self.qtbot.waitUntil(idle)
        QApplication.processEvents()  # lines that came or went move what is below them

    def begin(self) -> None:
        """Start a survey, and wait until it has read some weights."""
        self.view.session.start()
        self.read_on()

    def read_on(self) -> None:
        """Wait until the survey has read more weights."""
        before = self.done
        self.qtbot.waitUntil(lambda: self.done > before)

    @property
    def done(self) -> int:
        """Weights that the survey under way has read."""
        progress = self.view.session.progress
        return 0 if progress is None else progress.done

    # The map

    def cell_of(self, row: int) -> int:
        """Return the cell of a tensor."""
        content = self.view.session.content
        assert content is not None
        return int(content.folded.cell_of[row])

    def click(self, row: int) -> None:
        """Click on the cell of a tensor."""
        port = self.view.map.map.viewport()
        self.qtbot.mouseClick(port, Qt.MouseButton.LeftButton, pos=self.place(row))

    def place(self, row: int) -> QPoint:
        """Return where the cell of a tensor is."""
        return self.view.map.map.cell_place(self.cell_of(row)).center().toPoint()

    # The table

    def column(self, name: str) -> int:
        """Return the number of a column of the worst tensors."""
        names = [column.name for column in self.view.worst_tensors.model.columns]
        return names.index(name)

    def ranked(self, column: str = "tensor") -> list[object]:
        """Return a column of the worst tensors as it is shown, from top to bottom."""
        model = self.view.worst_tensors.model
        number = self.column(column)
        return [model.index(row, number).data(ItemRole.RAW) for row in range(model.rowCount())]
