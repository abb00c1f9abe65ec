"""A page with one plot on it, or a sentence in its place."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Generic, TypeVar

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from explorer.present.explanations import picture_text
from explorer.qt.widgets.labels import ElidedLabel, StatePage
from explorer.qt.widgets.plot_panel import PicturePanel

Panel = TypeVar("Panel", bound=PicturePanel)


class PlotPage(QWidget, Generic[Panel]):
    """One picture, or a sentence in its place. Its plot is made soon after it is first looked at.

    Args:
        make_panel: Makes plot and table.

    Attributes:
        state: The sentence.
        bar: The line above the plot.
        title: What the line says.
        logarithmic: Whether counts are shown logarithmically.

    Signals:
        shown: The page came into sight.
        hidden: It went out of sight.
    """

    shown = Signal()
    hidden = Signal()

    def __init__(self, make_panel: Callable[[], Panel]) -> None:
        super().__init__()
        self._make_panel = make_panel
        self.state = StatePage(self)
        self.title = ElidedLabel(self)
        self.title.setWhatsThis(picture_text("caption"))
        self.logarithmic = QCheckBox(self.tr("&Logarithmic"), self)
        self.bar = QHBoxLayout()
        self.bar.setContentsMargins(8, 6, 8, 4)
        self.bar.addWidget(self.title, 1)
        self.bar.addWidget(self.logarithmic)
        self._content = QWidget(self)
        self._column = QVBoxLayout(self._content)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._column.addLayout(self.bar)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.state)
        self._stack.addWidget(self._content)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._stack)

    @cached_property
    def panel(self) -> Panel:
        """The plot and its table."""
        panel = self._make_panel()
        panel.set_logarithmic(self.logarithmic.isChecked())
        self.logarithmic.toggled.connect(panel.set_logarithmic)
        self._column.addWidget(panel, 1)
        return panel

    def _prepare(self) -> None:
        """Make the plot, if the page is still looked at."""
        if self.isVisible():
            _ = self.panel

    def show_content(self, title: str) -> None:
        """Show the plot."""
        self.title.setText(title)
        self._stack.setCurrentWidget(self._content)

    def tell(self, heading: str, sentence: str, button: str = "") -> None:
        """Say something in place of the plot."""
        self.state.tell(heading, sentence, button)
        self._stack.setCurrentWidget(self.state)

    @property
    def has_content(self) -> bool:
        """Whether the plot is shown."""
        return self._stack.currentWidget() is self._content

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not event.spontaneous():
            self.shown.emit()
            # in a turn of its own, while weights are read: it takes as long as to fill it
            QTimer.singleShot(0, self, self._prepare)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if not event.spontaneous():
            self.hidden.emit()
