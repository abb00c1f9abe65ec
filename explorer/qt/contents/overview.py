"""The overview panel: what a model is, in plain words."""

from __future__ import annotations

from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QCoreApplication, QEvent, Qt, QTimer
from PySide6.QtGui import QAccessible, QColor, QFont, QPalette
from PySide6.QtWidgets import QFormLayout, QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from explorer.formats import Problem
from explorer.formats.facts import TypeShare
from explorer.present import Figure
from explorer.present.explanations import fact_texts, picture_text
from explorer.present.model import model_facts
from explorer.qt.document import Document
from explorer.qt.theme import series_colour, warning_colour
from explorer.qt.widgets.labels import plain_label
from explorer.text import bytes_text, fixed_text, integer_text, plain_text

_MOST_PROBLEMS = 50


class OverviewView(QScrollArea):
    """Facts, the mix of tensor types, and problems of the current model."""

    accessible_role = QAccessible.Role.Pane

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName(self.tr("Overview"))
        self._document: Document | None = None
        self.show_document(None)

    def show_document(self, document: Document | None) -> None:
        """Show a model."""
        self._document = document
        page = QWidget(self)
        layout = QVBoxLayout(page)
        layout.setContentsMargins(24, 18, 24, 18)
        layout.setSpacing(14)
        if document is None:
            self._fill_empty(page, layout)
        else:
            self._fill(page, layout, document)
        layout.addStretch(1)
        self.setWidget(page)
        spoken = self.tr("No model is open") if document is None else plain_text(document.title)
        self.setAccessibleDescription(spoken)

    def facts(self) -> list[tuple[str, str]]:
        """Return what is known of the model, as label and text."""
        found = [] if self._document is None else _facts(self._document)
        return [(one.label, plain_text(one.text)) for one in found]

    def _fill_empty(self, page: QWidget, layout: QVBoxLayout) -> None:
        layout.addStretch(1)
        title = _heading(self.tr("No model is open"), page, 1.5)
        hint = _text(
            self.tr(
                "Open a GGUF or safetensors file with Ctrl+O, or drop files and folders here. "
                "Nothing is changed on disk, and nothing is sent anywhere."
            ),
            page,
        )
        for label in (title, hint):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            layout.addWidget(label)

    def _fill(self, page: QWidget, layout: QVBoxLayout, document: Document) -> None:
        name = document.facts.name or document.title
        heading = _heading(plain_text(name), page, 1.6)
        heading.setWhatsThis(picture_text("name"))
        line = _text(_sentence(self, document), page)
        line.setWhatsThis(picture_text("file"))
        layout.addWidget(heading)
        layout.addWidget(line)
        self._add_problems(page, layout, document.model.problems)
        form = QFormLayout()
        form.setHorizontalSpacing(28)
        form.setVerticalSpacing(6)
        form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        meanings = fact_texts()
        for fact in _facts(document):
            text = plain_text(fact.text)
            label = _text(fact.label, page)
            label.setWordWrap(False)
            label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
            value = _text(text, page)
            value.setAccessibleName(f"{fact.label}: {text}")
            for part in (label, value):
                part.setWhatsThis(meanings[fact.name])
            form.addRow(label, value)
        layout.addLayout(form)
        types = document.facts.types
        if types:
            layout.addWidget(_heading(self.tr("What the bytes are spent on"), page, 1.15))
            # pyqtgraph takes 150 ms to import: after the first paint, not before
            QTimer.singleShot(0, page, lambda: self._add_chart(page, layout, types))

    def _add_chart(self, page: QWidget, layout: QVBoxLayout, types: tuple[TypeShare, ...]) -> None:

        layout.insertWidget(layout.count() - 1, TypeMixChart(types, page))

    def _add_problems(
        self, page: QWidget, layout: QVBoxLayout, problems: tuple[Problem, ...]
    ) -> None:
        if not problems:
            return
        heading = _heading(self.tr("Problems: {n}").format(n=len(problems)), page, 1.15)
        heading.setWhatsThis(picture_text("problems"))
        layout.addWidget(heading)
        for problem in problems[:_MOST_PROBLEMS]:
            mark = "✘" if problem.severity == "error" else "⚠"
            where = f"{plain_text(problem.where)}: " if problem.where else ""
            label = _text(f"{mark}  {where}{plain_text(problem.what)}", page)
            palette = label.palette()
            palette.setColor(QPalette.ColorRole.WindowText, warning_colour(self.palette()))
            label.setPalette(palette)
            label.setWhatsThis(heading.whatsThis())
            layout.addWidget(label)

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.LocaleChange:
            self.show_document(self._document)


def _sentence(view: QWidget, document: Document) -> str:
    model, parts = document.model, []
    if len(model.files) > 1:
        parts.append(view.tr("{count} files").format(count=len(model.files)))
    parts.append(plain_text(str(document.path)))
    return "   ·   ".join(parts)


def _facts(document: Document) -> list[Figure]:
    """Return what is known of the model, beside its name, which is the heading."""
    found = model_facts(document.model, document.facts)
    return [one for one in found if one.name != "name"]


def _heading(text: str, parent: QWidget, scale: float) -> QLabel:
    label = _text(text, parent)
    font = QFont(label.font())
    font.setPointSizeF(font.pointSizeF() * scale)
    font.setWeight(QFont.Weight.DemiBold)
    label.setFont(font)
    return label


def _text(text: str, parent: QWidget) -> QLabel:
    label = plain_label(parent, text)
    label.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse
        | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    label.setWordWrap(True)
    return label


# What a model's bytes are spent on: a bar for each tensor type (pyqtgraph).


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
