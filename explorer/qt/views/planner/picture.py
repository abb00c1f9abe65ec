"""Bars and strip as one picture, which can be saved."""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from explorer.present.plan import boundary_of, layers_asked, layers_of, memory_bars
from explorer.qt.models.planner.session import PlannerSession
from explorer.qt.views.planner.layer_strip import LayerStrip
from explorer.qt.views.planner.memory_bars import Ink, MemoryBars

_SHOWN_BARS: Final = 5
_PICTURE_WIDTH: Final = 900


class PlannerPicture(QWidget):
    """What the current plan looks like.

    Attributes:
        bars: A bar for each device.
        strip: All layers.
    """

    def __init__(self, session: PlannerSession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.bars = MemoryBars(self.formula_of, self)
        self.strip = LayerStrip(self)
        self._scroll = QScrollArea(self)
        self._scroll.setWidget(self.bars)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setAccessibleName(self.tr("Memory of each device"))
        self._scroll.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._scroll)
        layout.addWidget(self.strip)
        self.strip.boundary_moved.connect(self._ask_layers)
        self.strip.held.connect(session.hold)
        session.planned.connect(self._follow)
        self._follow()

    def formula_of(self, name: str) -> str:
        """Return how a figure is worked out, in one line; empty if it has no formula."""
        outcome = self._session.outcome
        if outcome is None or outcome.plan is None:
            return ""
        term = next((term for term in outcome.plan.terms if term.name == name), None)
        return "" if term is None else f"{term.name} = {term.formula}"

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the data behind the picture."""
        return [*self.bars.data_columns(), *self.strip.data_columns()]

    def paint_on_paper(self, painter: QPainter, area: QRectF) -> None:
        """Draw all bars, also those that are scrolled out of sight, and the strip."""
        size = self.picture_size()
        painter.save()
        painter.translate(area.topLeft())
        painter.scale(area.width() / size.width(), area.height() / size.height())
        ink = Ink.on_paper()
        self.bars.paint(painter, size.width(), ink)
        painter.translate(0, self.bars.sizeHint().height())
        self.strip.paint(painter, size.width(), ink.colours)
        painter.restore()

    def picture_size(self) -> QSize:
        """Return the size of the saved picture."""
        height = self.bars.sizeHint().height() + self.strip.sizeHint().height()
        return QSize(_PICTURE_WIDTH, height)

    def _ask_layers(self, boundary: int) -> None:
        outcome = self._session.outcome
        if outcome is not None and outcome.plan is not None and outcome.plan.layout is not None:
            self._session.set(num_gpu=layers_asked(outcome.plan.layout, boundary))

    def _follow(self) -> None:
        outcome = self._session.outcome
        plan = None if outcome is None else outcome.plan
        if plan is None:
            self.bars.show_bars(())
            self.strip.show_layers((), (), 0)
            return
        bars = memory_bars(plan, self._session.inputs.host)
        before = len(self.bars.bars)
        self.bars.show_bars(bars)
        if before != len(bars):
            shown = min(len(bars), _SHOWN_BARS)
            one = self.bars.row_height()
            self._scroll.setFixedHeight(self.bars.sizeHint().height() - (len(bars) - shown) * one)
        if plan.layout is None:
            self.strip.show_layers((), (), 0)
        else:
            names = tuple(bar.title for bar in bars if bar.device is not None)
            self.strip.show_layers(layers_of(plan.layout), names, boundary_of(plan.layout))


class SavedPicture:
    """The picture as `PlotExport` takes it: as large as it must be, not as it is on the screen."""

    def __init__(self, picture: PlannerPicture) -> None:
        self._picture = picture

    def size(self) -> QSize:
        """Return its size."""
        return self._picture.picture_size()

    def paint_on_paper(self, painter: QPainter, area: QRectF) -> None:
        """Draw it in the colours of paper."""
        self._picture.paint_on_paper(painter, area)

    def data_columns(self) -> list[tuple[str, list[Any]]]:
        """Return the data behind it."""
        return self._picture.data_columns()
