"""The page of the worst tensors: all of a model, ranked by a figure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from PySide6.QtCore import QByteArray, QSignalBlocker, Qt, QTimer
from PySide6.QtWidgets import QBoxLayout, QPushButton, QWidget

from explorer.analysis.columns import Known, percentiles_within, shares
from explorer.present.tables.differences import SIDES, loss_tone
from explorer.present.tables.survey import (
    EXTREMES,
    PERCENTILE,
    SHARE,
    Metric,
    figure_column,
    metric_named,
    worst_tensors,
)
from explorer.present.tables.table import Column, Table
from explorer.present.tables.tensors import tensor_table
from explorer.qt.document import Document
from explorer.qt.survey.bar import list_metrics, metrics_of
from explorer.qt.survey.session import ComparisonContent, SurveySession
from explorer.qt.theme import Space
from explorer.qt.widgets.building import LINE, row
from explorer.qt.widgets.controls import choice, label_of
from explorer.qt.widgets.labels import error_caution
from explorer.qt.widgets.table_view import BarDelegate
from explorer.qt.widgets.tensor_list import TensorList
from explorer.text import integer_text

_RENEW_MS = 500  # between two sortings while figures come in: rows that jump cannot be read
_SHOWN = ("tensor", "layer", "type", "bytes")
_OF_A = ("parameters", PERCENTILE)  # beside B there is no room for them
_WEIGHTED = ("weighted_relative_rmse", "weighted_relative_rmse_b")  # with an importance matrix
_OF_B = ("bytes_b", "relative_rmse_b", "difference", _WEIGHTED[1])
_SHORT = {"relative_rmse": "Error", "weighted_relative_rmse": "Wtd."}  # beside B
_OF_TENSORS = ("name", "layer", "role", "type", "shape", "parameters")


class RankedTensors:
    """The columns of the table, ranked by a metric; their figures grow with the survey.

    Beside B they are those of A, with types, sizes and errors of B and how these differ.
    """

    def __init__(self, document: Document, session: SurveySession, metric: Metric) -> None:
        self.metric = metric
        self._session = session
        self._metrics = metrics_of(session)
        self._arrays = document.arrays
        names = (SHARE, PERCENTILE, *(one.name for one in self._metrics), *EXTREMES)
        self._values = {name: np.full(len(self._arrays), np.nan) for name in (*names, *_OF_B)}
        self._roles = self._arrays.role_codes.astype(np.int64)
        self._tensors = tensor_table(document.model, self._arrays).only(*_OF_TENSORS)
        own, self._other = session.comparison, session.other_comparison
        if own is not None and self._other is not None:
            self._partners = own.partners(self._other)

    def update(self, known: Known, metric: Metric) -> None:
        """Take the figures known by now."""
        self.metric = metric
        values = self._values
        for each in self._metrics:
            values[each.name] = each.of_tensors(known)
        values[SHARE] = shares(metric.contribution(known))
        values[PERCENTILE] = percentiles_within(
            values[metric.name], self._roles, low_is_worse=metric.low_is_worse
        )
        for name in EXTREMES:
            values[name] = getattr(known.statistics, name)
        if self._other is not None:
            there = self._partners >= 0
            rows, errors = self._partners[there], self._other.errors
            values["bytes_b"][there] = self._other.document.arrays.nbytes[rows]
            values["relative_rmse_b"][there] = errors.relative_rmse[rows]
            values["weighted_relative_rmse_b"][there] = errors.weighted_relative_rmse[rows]
            values["difference"] = values["relative_rmse_b"] - values["relative_rmse"]

    def table(self) -> Table[int]:
        """Return the table; its rows are the numbers of the tensors."""
        found = worst_tensors(
            self._tensors, self.metric, self._metrics, self._values, self._session.reason
        )
        if self._other is None:
            return found
        *columns, reason = (
            replace(one, name=name, title=f"{_SHORT.get(one.name, one.title)} A")
            if (name := self.column_of(one.name)) != one.name
            else one
            for one in found
        )
        others = {name: figure_column(SIDES[name], self._values[name]) for name in _OF_B}
        for name, short in _SHORT.items():
            others[f"{name}_b"] = replace(others[f"{name}_b"], title=f"{short} B")
        loss = others["difference"]
        others["difference"] = replace(loss, tone=lambda row: loss_tone(loss.value(row)))
        kind = cast("Column[int]", replace(SIDES["type_b"], of=self._type_of, keys=None))
        return Table(*columns, kind, *others.values(), reason, title=found.title)

    def column_of(self, name: str) -> str:
        """Return the name of the column of a figure."""
        both = self._other is not None and f"{name}_a" in SIDES.names
        return f"{name}_a" if both else name

    def known_count(self) -> int:
        """Return for how many tensors the metric is known that they are ranked by."""
        return int((~np.isnan(self._values[self.metric.name])).sum())

    def _type_of(self, row: Any) -> str:
        there = int(self._partners[row])
        if there < 0 or self._other is None:
            return ""
        arrays = self._other.document.arrays
        return str(arrays.types[arrays.type_codes[there]].name)


class WorstTensorsPage(TensorList):
    """The tensors of the current model, the worst first, by any metric."""

    def __init__(self, session: SurveySession, parent: QWidget | None = None) -> None:
        app = session.app
        super().__init__(app, parent)
        self.table.setAccessibleName("Tensors and their weights")
        self._session = session
        self._document: Document | None = None
        self._ranked: RankedTensors | None = None
        self._beside: ComparisonContent | None = None  # what is known of B
        self._shown: object = None  # model, B and importance matrix
        self._row = -1
        self._fitted: object = None  # what was known when the columns were last made wide enough
        self.rank_by = choice(self, "Rank by", "")
        list_metrics(self.rank_by, metrics_of(session))
        first = "relative_rmse" if session.compares else "outlier_ratio"
        self.rank_by.setCurrentIndex(self.rank_by.findData(first))
        self.overlay = QPushButton("&Histograms of the selected", self)
        self.overlay.setToolTip(
            "Lay the histograms of all selected tensors over each other, in the same bins"
        )
        self.overlay.clicked.connect(self._open_selected)
        self.table.setItemDelegate(BarDelegate(self.table))
        self.table.selection_moved.connect(self._follow_selection)
        self.model.modelReset.connect(self._follow_selection)  # which no selection outlives
        self._follow_selection()
        self._lay_out()
        self._renewing = QTimer(self, singleShot=True, interval=_RENEW_MS)
        self._renewing.timeout.connect(self._renew)
        self.rank_by.activated.connect(self._choose_metric)
        self.bar.changed.connect(self._filter)
        self.table.row_selected.connect(self._choose)
        self.table.row_opened.connect(app.open_tensors)
        session.replaced.connect(self._drop_previous)

    def _lay_out(self) -> None:
        label = label_of(self.rank_by, "&Rank by")
        line = row(label, self.rank_by, 1, self.overlay, margins=LINE, spacing=Space.NEAR)
        layout = self.layout()
        assert isinstance(layout, QBoxLayout)
        layout.insertLayout(0, line)
        if self._session.compares:
            layout.addWidget(error_caution(self))

    @property
    def chosen(self) -> Metric:
        """The metric that tensors are ranked by."""
        return metric_named(self.rank_by.currentData())

    def refresh(self) -> None:
        """Show what is known now; the model or the reference may be another one."""
        content, session = self._session.content, self._session
        before = self._document
        if content is None:
            self._clear()
            return
        # the tensors of B may be matched sooner than those of A
        beside = None if session.comparison is None else session.other_comparison
        now = content.document, beside, session.references.matrix
        if now != self._shown:
            self._document, self._beside, _ = self._shown = now
            self._ranked = RankedTensors(content.document, session, self.chosen)
            self.model.set_content(self._ranked.table(), range(len(content.document.arrays)))
            shown = {*_SHOWN, self.chosen.name, *(_OF_A if beside is None else ("type_b", *_OF_B))}
            shown.difference_update(_WEIGHTED)
            if session.references.matrix is not None:
                shown.update(_WEIGHTED)
                shown -= set() if beside is None else {"layer"}  # which the name says, too
            before = None
            hidden = {column.name for column in self.model.columns}
            hidden -= set(map(self._ranked.column_of, shown))
            self.table.show_columns(QByteArray(), hidden)
            self._fitted = None
        self._renew()
        if before is not self._document:
            self._filter(self.bar.text)
            self.select_tensor(self._row)
            self._rank()

    def _follow_selection(self) -> None:
        self.overlay.setEnabled(len(self.table.selected_content_rows()) > 1)

    def _open_selected(self) -> None:
        self.app.open_tensors(*self.chosen_tensors())

    def _drop_previous(self) -> None:
        """Drop a model that is not the current one, also while another page is in front."""
        content = self._session.content
        if content is None or content.document is not self._document:
            self._clear()

    def _clear(self) -> None:
        self._document = self._ranked = self._beside = self._shown = None
        self._renewing.stop()
        self.model.clear()
        self.show_empty("")
        self.bar.status.clear()

    def grow(self) -> None:
        """Show more of the same, not too often."""
        if self._ranked is not None and not self._renewing.isActive():
            self._renewing.start()

    def select_tensor(self, row: int, *, layer: bool = False) -> None:
        """Mark a tensor, also where its layer is meant; -1 marks none. Emits nothing."""
        if row == self._row and row in self.table.selected_content_rows():
            return  # nothing is scrolled
        self._row = row
        with QSignalBlocker(self.table):
            if row < 0 or not self.table.select_row(row):
                self.table.clearSelection()

    def _renew(self) -> None:
        """Show the figures known by now."""
        known = self._session.known
        if self._ranked is None or known is None:
            return
        self._ranked.update(known, self.chosen)
        self.model.renew(self._ranked.table(), self.model.items)
        last = self.model.columnCount() - 1  # where the reasons are
        self.table.setColumnHidden(last, not self._session.has_reasons)
        fits = self.chosen.name, self._ranked.known_count()
        if fits != self._fitted:
            self._fitted = fits
            self.table.widen_numbers()
        self.bar.status.setText(self.counts())

    def _rank(self) -> None:
        """Sort the worst to the top, and show the column they are sorted by."""
        names = [column.name for column in self.model.columns]
        if self._ranked is None:
            return
        chosen = self._ranked.column_of(self.chosen.name)
        orders = Qt.SortOrder
        order = orders.AscendingOrder if self.chosen.low_is_worse else orders.DescendingOrder
        self.table.setColumnHidden(names.index(chosen), False)
        header = self.table.horizontalHeader()
        place = header.visualIndex(names.index(PERCENTILE))  # the figure stands before it
        now = header.visualIndex(names.index(chosen))
        if now != place - 1:
            header.moveSection(now, place if now > place else place - 1)
        self.table.sortByColumn(names.index(chosen), order)
        self.table.scrollToTop()

    def _choose_metric(self) -> None:
        self._renew()
        self._rank()

    def _filter(self, text: str) -> None:
        if self._document is not None:
            self.filter_tensors(text, self._document.arrays)

    def counts(self) -> str:
        known = 0 if self._ranked is None else self._ranked.known_count()
        return f"{super().counts()}, {integer_text(known)} known"

    def _choose(self, row: int) -> None:
        if row != self._row:
            self._row = row
            self.app.selection.select_tensors([row])
