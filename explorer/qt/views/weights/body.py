"""The panel's content while there is something to show. Made late: pyqtgraph is slow to load."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget

from explorer.qt.jobs import JobRunner
from explorer.qt.models.errors.references import References
from explorer.qt.models.recent import Recent
from explorer.qt.models.weights.figures import Subject
from explorer.qt.views.weights.block_pages import BlockPages
from explorer.qt.views.weights.header import Header
from explorer.qt.views.weights.histogram_page import HistogramPage
from explorer.qt.views.weights.map.page import MapPage
from explorer.qt.views.weights.microscope.page import MicroscopePage
from explorer.qt.views.weights.values_page import ValuesPage


class WeightsBody(QWidget):
    """Header and pages.

    Attributes:
        header: What is shown.
        tabs: The pages.
        histogram: The page of the histogram.
        map: The page of the map.
        blocks: The pages of codes, scales and minima.
        microscope: The page of one block.
        values: The page of values.

    Signals:
        exported: A file was written; its path.
        failed: A file could not be written; an `ExplorerError`.
        open_requested: A model shall be opened, to compare with.
        place_chosen: A weight was chosen on the map; its `Place`. Block and values follow.
        bytes_requested: Bytes shall be shown in their file; row of the tensor, and an `Extent`.
    """

    exported = Signal(str)
    failed = Signal(object)
    open_requested = Signal()
    place_chosen = Signal(object)
    bytes_requested = Signal(int, object)

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._references = references
        self.header = Header(self)
        self.histogram = HistogramPage(runner, self)
        self.map = MapPage(runner, references, self)
        self.blocks = BlockPages(runner, self)
        self.microscope = MicroscopePage(runner, references, self)
        self.values = ValuesPage(runner, self)
        self.tabs = QTabWidget(self)
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName(self.tr("Views of the tensor"))
        self.tabs.tabBar().setAccessibleName(self.tr("Views of the tensor"))
        codes, scales, minima = self.blocks.pages
        for page, title in (
            (self.histogram, self.tr("Histogram")),
            (self.map, self.tr("Map")),
            (codes, self.tr("Codes")),
            (scales, self.tr("Scales")),
            (minima, self.tr("Minima")),
            (self.microscope, self.tr("Block")),
            (self.values, self.tr("Values")),
        ):
            self.tabs.addTab(page, title)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.header)
        layout.addWidget(self.tabs, 1)
        cancel = QShortcut(QKeySequence(Qt.Key.Key_Escape), self)
        cancel.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        cancel.activated.connect(self.cancel)
        self.blocks.minima_known.connect(lambda on: self._set_shown(minima, on))
        self.map.open_requested.connect(self.open_requested)
        self.map.place_chosen.connect(self.place_chosen)
        self.place_chosen.connect(self.values.go_to)
        self.place_chosen.connect(lambda place: self.microscope.show_place(*place))
        self.microscope.open_requested.connect(self.open_requested)
        self.microscope.bytes_requested.connect(self.bytes_requested)
        for part in (self.blocks, self.histogram.panel, self.map, self.microscope, self.values):
            part.exported.connect(self.exported)
            part.failed.connect(self.failed)

    def show_subjects(
        self, subjects: Sequence[Subject], recent: Recent, *, quantized: bool
    ) -> None:
        """Show tensors; codes, scales and values are those of the first.

        Args:
            subjects: The tensors; none ends all reading.
            recent: What is known of their model.
            quantized: Whether the first one has codes.
        """
        first = subjects[0] if subjects else None
        codes, scales, minima = self.blocks.pages
        self._set_shown(codes, quantized)
        self._set_shown(scales, quantized)
        self._set_shown(self.microscope, quantized)
        self._set_shown(minima, False)
        self.histogram.show_subjects(subjects, recent)
        named = len(subjects) > 1
        self.blocks.show_subject(first if quantized else None, recent, named=named)
        self.map.show_subject(first, recent, named=named)
        self.microscope.show_subject(first if quantized else None, recent, named=named)
        self.values.show_subject(first, named=named)

    def cancel(self) -> None:
        """Stop reading; what is known stays."""
        self.histogram.cancel()
        self.blocks.cancel()
        self.map.cancel()
        self.microscope.cancel()

    def focus_search(self) -> None:
        """Go to the values, and into the line for a row and column."""
        self.tabs.setCurrentWidget(self.values)
        self.values.focus_search()

    def _set_shown(self, page: QWidget, on: bool) -> None:
        self.tabs.setTabVisible(self.tabs.indexOf(page), on)
