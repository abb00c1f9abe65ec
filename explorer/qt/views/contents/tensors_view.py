"""The tensor panel: every tensor of a model, filtered by terms, with totals."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QCoreApplication, QEvent
from PySide6.QtWidgets import QLabel, QWidget

from explorer.formats.tensor_filter import parse_filter
from explorer.present.explanations import picture_text
from explorer.qt.jobs import JobRunner
from explorer.qt.models.contents.tensor_table import tensor_columns, tensor_totals
from explorer.qt.models.document import Document
from explorer.qt.views.tables.filter_bar import FilterBar
from explorer.qt.views.tables.list_panel import ListPanel
from explorer.text import bytes_text, count_text, integer_text

_HIDDEN_AT_FIRST = ("role", "offset", "file", "problem")


class TensorsView(ListPanel):
    """The tensors of the current model.

    Signals of `table` tell which tensor is selected: content rows are rows of `TensorTable`.
    """

    def __init__(self, runner: JobRunner, parent: QWidget | None = None) -> None:
        super().__init__(runner, "", "", parent)
        describe_filter(self.bar)
        self.table.setAccessibleName(self.tr("Tensors"))
        self._document: Document | None = None
        self._totals = QLabel(self)
        self._totals.setContentsMargins(8, 3, 8, 4)
        self._totals.setWhatsThis(picture_text("totals"))
        layout = self.layout()
        assert layout is not None
        layout.addWidget(self._totals)
        self.bar.changed.connect(self._filter)
        self.table.selection_moved.connect(self._show_totals)

    def show_document(self, document: Document | None, header: QByteArray) -> None:
        """Show a model's tensors; the filter stays."""
        self._document = document
        if document is None:
            self.model.set_content((), 0)
        else:
            self.model.set_content(tensor_columns(document), len(document.arrays))
            self.table.show_columns(header, _rare_columns(document))
        self._filter(self.bar.text)

    def reveal(self, row: int) -> None:
        """Select a tensor; the filter is cleared if it hides it."""
        if not self.table.select_row(row):
            self.bar.edit.clear()
            self.table.select_row(row)

    def _filter(self, text: str) -> None:
        document = self._document
        if document is None or not len(document.arrays):
            self.show_empty(
                self.tr("Open a model to see its tensors.")
                if document is None
                else self.tr("This file holds no tensors.")
            )
            self.bar.status.clear()
            self._totals.clear()
            return
        parsed = parse_filter(text)
        self.model.set_filter(None if parsed.is_empty else parsed.mask(document.arrays))
        self.bar.edit.setStatusTip("; ".join(parsed.problems))
        problem = parsed.problems[0] if parsed.problems else ""
        if self.model.rowCount():
            self.show_table()
        else:
            self.show_empty(self.tr("No tensor matches. Press Escape in the filter to see all."))
        counts = self.tr("{shown} of {all}").format(
            shown=integer_text(self.model.rowCount()), all=integer_text(self.model.content_count)
        )
        self.bar.status.setText(f"{problem}   {counts}" if problem else counts)
        self._show_totals()

    def _show_totals(self) -> None:
        document = self._document
        if document is None:
            return
        parameters, nbytes = tensor_totals(document.arrays, self.model.rows)
        text = self.tr("Shown: {count}, {parameters} parameters, {size}").format(
            count=self._count(self.model.rowCount()),
            parameters=count_text(parameters),
            size=bytes_text(nbytes),
        )
        selected = self.table.selected_content_rows()
        if len(selected):
            parameters, nbytes = tensor_totals(document.arrays, selected)
            text += self.tr("   ·   Selected: {count}, {parameters} parameters, {size}").format(
                count=self._count(len(selected)),
                parameters=count_text(parameters),
                size=bytes_text(nbytes),
            )
        self._totals.setText(text)

    def _count(self, count: int) -> str:
        words = self.tr("{count} tensor") if count == 1 else self.tr("{count} tensors")
        return words.format(count=integer_text(count))

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.LocaleChange:
            self._show_totals()


def describe_filter(bar: FilterBar) -> None:
    """Say in a filter of tensors what can be typed there."""

    def tr(text: str) -> str:
        return QCoreApplication.translate("TensorsView", text)

    bar.edit.setPlaceholderText(tr("Filter tensors:  ffn  type:q6_k  size>100M  layer:3-7  -norm"))
    bar.edit.setToolTip(
        tr(
            "Words must occur in the name; a minus in front excludes.\n"
            "type:q4_k,q6_k   layer:3-7   role:attn   shape:4096   is:damaged\n"
            "size>100M   params>1M   bpw<5"
        )
    )


def _rare_columns(document: Document) -> set[str]:
    """Return the names of columns that tell nothing, or little, of this model."""
    shown = set()
    if len(document.model.files) > 1:
        shown.add("file")
    if document.arrays.damaged.any():
        shown.add("problem")
    return set(_HIDDEN_AT_FIRST) - shown
