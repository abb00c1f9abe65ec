"""The panel of the whole model: a map by layer and role, the worst tensors, the mix of types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

import numpy as np
from PySide6.QtCore import QByteArray, QSignalBlocker, Qt, QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QBoxLayout, QPushButton, QWidget

from explorer.analysis.columns import Known, percentiles_within, shares
from explorer.present.panels import PANELS, TYPES, WORST_TENSORS
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
from explorer.qt.pages.attached import AttachedPage
from explorer.qt.pages.type_mix import TypeMixPage
from explorer.qt.references import References
from explorer.qt.services import Services
from explorer.qt.survey.bar import SurveyBar, list_metrics, metrics_of
from explorer.qt.survey.by_layer import ByLayerPage
from explorer.qt.survey.map_page import MapPage
from explorer.qt.survey.session import ComparisonContent, SurveySession, SurveyState
from explorer.qt.theme import Space
from explorer.qt.widgets.building import LINE, column, row
from explorer.qt.widgets.controls import choice, label_of
from explorer.qt.widgets.labels import error_caution
from explorer.qt.widgets.lazy import LazyTab, TabbedPanel
from explorer.qt.widgets.pages import no_model_open
from explorer.qt.widgets.table_view import BarDelegate, ListPanel
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


class SessionPanel(TabbedPanel):
    """Shows what a session knows of the current model, while it is visible.

    Attributes:
        session: What is known; several panels may show one.
    """

    def __init__(
        self, app: Services, session: SurveySession, title: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(app, parent)
        self.title = title
        self._document: Document | None = None
        self._row, self._layer = -1, False
        self.session = session
        session.replaced.connect(self._refresh_if_visible)
        session.grown.connect(self._grow_with_session)
        session.state_changed.connect(self._follow_state)

    def show_document(self, document: Document | None) -> None:
        """Show a model; None shows nothing."""
        self.session.show_document(document)
        if document is not self._document:
            self._document = document
            self.select_tensor(-1)
            self.refresh()

    def refresh(self) -> None:
        document = self._document
        if document is None:
            sentence = "Open a model to see all of its tensors."
            self.show_message(*no_model_open(self.app, self.title, sentence))
        elif not len(document.arrays):
            self.show_message(self.title, "This file holds no tensors.")
        else:
            self.show_content()
        self._refresh_if_visible()

    def cancel(self) -> None:
        self.session.cancel()

    def select_tensor(self, row: int, *, layer: bool = False) -> None:
        """Mark a tensor, or its layer, on all pages; -1 marks none. Emits nothing."""
        self._row, self._layer = row, layer

    def refresh_pages(self) -> None:
        """Show what is known now."""
        raise NotImplementedError

    def grow(self) -> None:
        """Show more of the same."""
        raise NotImplementedError

    @property
    def _is_up_to_date(self) -> bool:
        """Whether the session is of the model shown; else a panel beside this one came first."""
        return self.session.document is self._document

    def _refresh_if_visible(self) -> None:
        if self.isVisible() and self._is_up_to_date:
            self.refresh_pages()
        self._follow_state()

    def _grow_with_session(self) -> None:
        if self._is_up_to_date:
            self.grow()

    def _follow_state(self) -> None:
        running = self.session.state is SurveyState.RUNNING
        self.cancel_shortcut.setEnabled(running)

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.session.watch(self, True)
        self._refresh_if_visible()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.session.watch(self, False)


_Part: TypeAlias = MapPage | ByLayerPage | WorstTensorsPage
_PARTS: Final[dict[str, type[_Part]]] = {
    "error_map": MapPage,
    "error_layers": ByLayerPage,
    "error_tensors": WorstTensorsPage,
}


class PartPanel(SessionPanel):
    """One page of all tensors as a panel: map, figures by layer, or table.

    Attributes:
        part: The page.
    """

    def __init__(self, app: Services, session: SurveySession, name: str) -> None:
        super().__init__(app, session, PANELS[name].title)
        self.part = _PARTS[name](session, self)
        column((self.part, 1), of=self.content)
        self.refresh()

    def select_tensor(self, row: int, *, layer: bool = False) -> None:
        super().select_tensor(row, layer=layer)
        self.part.select_tensor(row, layer=layer)

    def refresh_pages(self) -> None:
        self.part.refresh()

    def grow(self) -> None:
        if self.isVisible():
            self.part.grow()

    def focus_search(self) -> None:
        """Go into the filter of a table; else to the page."""
        if isinstance(self.part, ListPanel):
            self.part.focus_search()
        else:
            self.part.setFocus()


class SurveyView(SessionPanel):
    """All tensors of the current model: what they are made of, compared with nothing."""

    def __init__(
        self, app: Services, references: References, parent: QWidget | None = None
    ) -> None:
        session = SurveySession(app, references)
        super().__init__(app, session, PANELS["survey"].title, parent)
        session.setParent(self)
        self.bar = SurveyBar(session, self)
        self.begin_tabs("Views of the model", self.bar)
        self.bar.left.connect(self.tabs.setFocus)
        self.map = MapPage(session, self)
        self._worst_tensors = LazyTab(
            lambda: WorstTensorsPage(session, self), self._fill_part, self
        )
        self._by_layer = LazyTab(lambda: ByLayerPage(session, self), self._fill_part, self)
        self._type_mix = LazyTab(lambda: TypeMixPage(app, self), self._fill_page, self)
        self.tabs.addTab(self.map, "Map")
        self.tabs.addTab(self._by_layer, "By layer")
        self.tabs.addTab(self._worst_tensors, WORST_TENSORS)
        self.tabs.addTab(self._type_mix, TYPES)
        self._attached = LazyTab(lambda: AttachedPage(app, references, self), self._fill_page, self)
        self.tabs.addTab(self._attached, "Adapter")
        self.tabs.currentChanged.connect(lambda _: self.refresh_pages())
        self.refresh()

    @property
    def by_layer(self) -> ByLayerPage:
        """Figures over the layers, and sums."""
        return self._by_layer.widget

    @property
    def worst_tensors(self) -> WorstTensorsPage:
        """The worst tensors."""
        return self._worst_tensors.widget

    @property
    def type_mix(self) -> TypeMixPage:
        """Types, compared with recipes."""
        return self._type_mix.widget

    @property
    def attached(self) -> AttachedPage:
        """What an adapter changes, or an importance matrix knows."""
        return self._attached.widget

    def show_document(self, document: Document | None) -> None:
        other = document is not self._document
        super().show_document(document)
        if other:
            self._offer_attached()
            for page in (self._type_mix, self._attached):
                page.refresh()
                page.catch_up()  # out of sight, too: they let go of the model before

    def select_tensor(self, row: int, *, layer: bool = False) -> None:
        super().select_tensor(row, layer=layer)
        self.map.select_tensor(row, layer=layer)
        self._by_layer.refresh()
        self._worst_tensors.refresh()

    def show_layers(self) -> None:
        """Show figures by layer, unless the map is in front, which has a line for each layer."""
        if self.has_content and self.tabs.currentWidget() is not self.map:
            self.show_page(self._by_layer)

    def focus_search(self) -> None:
        """Go to the table, and into its filter."""
        if self.has_content:
            self.show_page(self._worst_tensors)
            self.worst_tensors.focus_search()

    def _fill_part(self, page: ByLayerPage | WorstTensorsPage) -> None:
        page.select_tensor(self._row, layer=self._layer)
        page.refresh()

    def _fill_page(self, page: TypeMixPage | AttachedPage) -> None:
        page.show_document(self._document)

    def _offer_attached(self) -> None:
        """Offer the page of adapters and importance matrices where there is one; it comes first."""
        document = self._document
        is_one = document is not None and bool(document.kind)
        self.offer_page(self._attached, is_one)
        if is_one and document is not None:
            matrix = document.is_importance_matrix
            title = "Importance matrix" if matrix else "Adapter"
            self.tabs.setTabText(self.place_of(self._attached), title)
            self.show_page(self._attached)

    def refresh_pages(self) -> None:
        """Show what is known: on the page in front now, on the others when they are shown."""
        if self.tabs.currentWidget() is self.map:
            self.map.refresh()
        for page in (self._by_layer, self._worst_tensors, self._type_mix, self._attached):
            page.refresh()

    def grow(self) -> None:
        pages: list[_Part | None] = [self.map, self._by_layer.built, self._worst_tensors.built]
        for page in pages:
            if page is not None and page.isVisible():
                page.grow()
