"""The overview panel: what a model is, in plain words."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QAccessible, QFont, QPalette
from PySide6.QtWidgets import (
    QFormLayout,
    QFrame,
    QLabel,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from explorer.formats import Problem
from explorer.formats.facts import TypeShare
from explorer.qt.models.document import Document
from explorer.qt.models.figure_texts.figures import fact_texts
from explorer.qt.models.figure_texts.pictures import picture_text
from explorer.qt.theme import warning_colour
from explorer.qt.views.labels import plain_label
from explorer.text import bytes_text, count_text, float_text, integer_text, plain_text

_MOST_PROBLEMS = 50


class _Fact(NamedTuple):
    """A line of the page.

    Attributes:
        name: Stable name, by which `fact_texts` tells what it means.
        title: What it is called.
        text: The fact, plain text.
    """

    name: str
    title: str
    text: str


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
        lines = [] if self._document is None else _fact_lines(self, self._document)
        return [(line.title, line.text) for line in lines]

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
        for name, title, text in _fact_lines(self, document):
            label = _text(title, page)
            label.setWordWrap(False)
            label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
            value = _text(text, page)
            value.setAccessibleName(f"{title}: {text}")
            for part in (label, value):
                part.setWhatsThis(meanings[name])
            form.addRow(label, value)
        layout.addLayout(form)
        types = document.facts.types
        if types:
            layout.addWidget(_heading(self.tr("What the bytes are spent on"), page, 1.15))
            # pyqtgraph takes 150 ms to import: after the first paint, not before
            QTimer.singleShot(0, page, lambda: self._add_chart(page, layout, types))

    def _add_chart(self, page: QWidget, layout: QVBoxLayout, types: tuple[TypeShare, ...]) -> None:
        from explorer.qt.views.contents.type_mix import TypeMixChart  # noqa: PLC0415 - see above

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
    facts, model = document.facts, document.model
    kind = {"gguf": "GGUF", "safetensors": "safetensors", "ollama": "Ollama"}[model.format]
    parts = [
        view.tr("{format} version {version}").format(format=kind, version=model.version)
        if model.version is not None
        else kind
    ]
    if model.byte_order == "big":
        parts.append(view.tr("big-endian"))
    if len(model.files) > 1:
        parts.append(view.tr("{count} files").format(count=len(model.files)))
    if facts.license:
        parts.append(view.tr("licence: {name}").format(name=plain_text(facts.license)))
    parts.append(plain_text(str(document.path)))
    return "   ·   ".join(parts)


def _fact_lines(view: QWidget, document: Document) -> list[_Fact]:
    facts = document.facts
    head = facts.key_length if facts.key_length == facts.value_length else None
    lines = [
        ("architecture", view.tr("Architecture"), facts.architecture),
        ("parameters", view.tr("Parameters"), _both(facts.parameters, count_text)),
        ("file_type", view.tr("File type"), facts.file_type),
        ("nbytes", view.tr("Size of the weights"), _both(facts.nbytes, bytes_text)),
        (
            "bits_per_weight",
            view.tr("Bits per weight"),
            None if facts.bits_per_weight is None else float_text(facts.bits_per_weight, 4),
        ),
        ("context_length", view.tr("Context length"), _tokens(view, facts.context_length)),
        ("layers", view.tr("Layers"), _number(facts.layers)),
        ("embedding_length", view.tr("Embedding length"), _number(facts.embedding_length)),
        ("feed_forward_length", view.tr("Feed-forward length"), facts.feed_forward_length),
        ("heads", view.tr("Attention heads"), facts.heads),
        ("kv_heads", view.tr("Key/value heads"), facts.kv_heads),
        ("head_length", view.tr("Head length"), _number(head)),
        ("key_length", view.tr("Key length"), None if head else _number(facts.key_length)),
        ("value_length", view.tr("Value length"), None if head else _number(facts.value_length)),
        ("experts", view.tr("Experts"), _number(facts.experts)),
        ("experts_used", view.tr("Experts used per token"), _number(facts.experts_used)),
        ("vocabulary", view.tr("Vocabulary"), _tokens(view, facts.vocabulary)),
        ("tokenizer", view.tr("Tokenizer"), facts.tokenizer),
        ("tensors", view.tr("Tensors"), _number(len(document.arrays))),
        ("metadata", view.tr("Metadata keys"), _number(len(document.model.metadata.entries))),
    ]
    return [_Fact(name, title, plain_text(text)) for name, title, text in lines if text]


def _both(number: int | None, short: Callable[[int], str]) -> str | None:
    if number is None:
        return None
    return f"{short(number)}   ({integer_text(number)})"


def _number(number: int | None) -> str | None:
    return None if number is None else integer_text(number)


def _tokens(view: QWidget, number: int | None) -> str | None:
    return None if number is None else view.tr("{count} tokens").format(count=integer_text(number))


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
