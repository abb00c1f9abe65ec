"""The overview panel: what a model is, in plain words."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, Qt
from PySide6.QtGui import QAccessible, QFont, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QFormLayout, QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from explorer.formats import Problem
from explorer.formats.tensors import TypeShare
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
        self._build()

    def show_document(self, document: Document | None) -> None:
        """Show a model; None says how to open one."""
        if document is not self._document:
            self._document = document
            self._build()

    def _build(self) -> None:
        document = self._document
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
            layout.addWidget(TypeMixChart(types, page))

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
        if event.type() in (QEvent.Type.LocaleChange, QEvent.Type.PaletteChange):
            self._build()


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


_ROW_PIXELS = 30
_MOST_ROWS = 12
_BAR_PIXELS = 20
_GAP = 8
_TEXT_SHARE = 0.43  # of the width, for the text beside the longest bar


class TypeMixChart(QWidget):
    """Horizontal bars of the bytes of each tensor type, the largest on top, with numbers as text.

    Attributes:
        labels: The text beside each bar.
    """

    accessible_role = QAccessible.Role.Chart

    def __init__(self, types: tuple[TypeShare, ...], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._types = types[:_MOST_ROWS]
        self.labels = [self._label(share) for share in self._types]
        self.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        self.setAccessibleName(self.tr("Bytes by tensor type"))
        rows = zip(self._types, self.labels, strict=True)
        self.setAccessibleDescription("; ".join(f"{share.name}: {text}" for share, text in rows))
        self.setWhatsThis(picture_text("types"))
        self.setFixedHeight(len(self._types) * _ROW_PIXELS + _GAP)

    def _label(self, share: TypeShare) -> str:
        count = self.tr("{n} tensor") if share.tensors == 1 else self.tr("{n} tensors")
        percent = f"{fixed_text(100 * share.share, 1)} %"
        tensors = count.format(n=integer_text(share.tensors))
        return "   ".join((percent, bytes_text(share.nbytes), tensors))

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        metrics = self.fontMetrics()
        left = max(metrics.horizontalAdvance(share.name) for share in self._types) + _GAP
        largest = max(share.share for share in self._types) or 1.0
        scale = max(0.0, self.width() - left) * (1 - _TEXT_SHARE) / largest
        middle = Qt.AlignmentFlag.AlignVCenter
        for row, (share, text) in enumerate(zip(self._types, self.labels, strict=True)):
            line = QRectF(0, row * _ROW_PIXELS, self.width(), _ROW_PIXELS)
            name = QRectF(line.left(), line.top(), left - _GAP, line.height())
            painter.drawText(name, middle | Qt.AlignmentFlag.AlignRight, share.name)
            top = line.center().y() - _BAR_PIXELS / 2
            bar = QRectF(left, top, scale * share.share, _BAR_PIXELS)
            painter.fillRect(bar, series_colour(row))
            painter.drawText(line.adjusted(bar.right() + _GAP, 0, 0, 0), middle, text)
        painter.end()
