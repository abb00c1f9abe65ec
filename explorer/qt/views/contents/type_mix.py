"""What a model's bytes are spent on: a bar for each tensor type (pyqtgraph)."""

from __future__ import annotations

from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtGui import QAccessible, QColor, QPalette
from PySide6.QtWidgets import QVBoxLayout, QWidget

from explorer.formats.facts import TypeShare
from explorer.present.explanations import picture_text
from explorer.qt.theme import series_colour
from explorer.text import bytes_text, fixed_text, integer_text

_ROW_PIXELS = 30
_MOST_ROWS = 12


class _Chart(pg.PlotWidget):  # type: ignore[misc] # pyqtgraph has no types
    """The bars."""

    accessible_role = QAccessible.Role.Chart


class TypeMixChart(QWidget):
    """Horizontal bars, the type with most bytes on top; each says its numbers as text.

    Attributes:
        labels: The text beside each bar.
    """

    def __init__(self, types: tuple[TypeShare, ...], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        shown = types[:_MOST_ROWS]
        palette = self.palette()
        text = palette.color(QPalette.ColorRole.WindowText)
        plot = _Chart(self, background=palette.color(QPalette.ColorRole.Window))
        plot.setAccessibleName(self.tr("Bytes by tensor type"))
        plot.setWhatsThis(picture_text("types"))
        plot.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        plot.getPlotItem().setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        plot.setMouseEnabled(x=False, y=False)
        plot.hideButtons()
        plot.setMenuEnabled(False)
        rows = list(range(len(shown)))
        shares = [100 * share.share for share in shown]
        plot.addItem(
            pg.BarGraphItem(
                x0=0,
                y=rows,
                width=shares,
                height=0.66,
                brushes=[series_colour(row) for row in rows],
                pen=None,
            )
        )
        self.labels = [_label(share, row, text) for row, share in zip(rows, shown, strict=True)]
        for label in self.labels:
            plot.addItem(label)
        plot.setAccessibleDescription(
            "; ".join(
                f"{share.name}: {label.toPlainText()}"
                for share, label in zip(shown, self.labels, strict=True)
            )
        )
        self._style_axes(plot, shown, text)
        plot.setXRange(0, max([*shares, 1]) * 1.75, padding=0)
        plot.setYRange(-0.5, max(len(shown), 1) - 0.5, padding=0)
        plot.getViewBox().invertY(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(plot)
        self.setFixedHeight(max(1, len(shown)) * _ROW_PIXELS + 8)

    @staticmethod
    def _style_axes(plot: Any, shown: tuple[TypeShare, ...], text: QColor) -> None:
        item = plot.getPlotItem()
        item.hideAxis("bottom")
        axis = item.getAxis("left")
        axis.setTicks([[(row, share.name) for row, share in enumerate(shown)]])
        axis.setTextPen(text)
        axis.setPen(pg.mkPen(None))
        axis.setStyle(tickLength=0, tickAlpha=0)  # a length of 0 alone leaves a dot


def _label(share: TypeShare, row: int, colour: QColor) -> Any:
    count = integer_text(share.tensors)
    noun = _tr("{n} tensor") if share.tensors == 1 else _tr("{n} tensors")
    parts = f"{fixed_text(100 * share.share, 1)} %", bytes_text(share.nbytes), noun.format(n=count)
    words = "   ".join(parts)
    label = pg.TextItem(words, color=colour, anchor=(0, 0.5))
    label.setPos(100 * share.share, row)
    return label


def _tr(text: str) -> str:
    return QCoreApplication.translate("TypeMixChart", text)
