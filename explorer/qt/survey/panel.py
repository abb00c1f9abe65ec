"""The panel of the whole model: a map by layer and role, the worst tensors, the mix of types."""

from __future__ import annotations

from typing import Final, TypeAlias

from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from explorer.present.panels import PANELS
from explorer.qt.document import Document
from explorer.qt.pages.attached import AttachedPage
from explorer.qt.pages.type_mix import TypeMixPage
from explorer.qt.references import References
from explorer.qt.services import Services
from explorer.qt.survey.bar import SurveyBar
from explorer.qt.survey.by_layer import ByLayerPage
from explorer.qt.survey.map_page import ModelMapPage
from explorer.qt.survey.session import SurveySession, SurveyState
from explorer.qt.survey.worst_tensors import WorstTensorsPage
from explorer.qt.widgets.building import column
from explorer.qt.widgets.lazy import LazyTab, TabbedPanel
from explorer.qt.widgets.pages import no_model_open
from explorer.qt.widgets.table_view import ListPanel


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


_Part: TypeAlias = ModelMapPage | ByLayerPage | WorstTensorsPage
_PARTS: Final[dict[str, type[_Part]]] = {
    "error_map": ModelMapPage,
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

    def __init__(self, app: Services, references: References) -> None:
        session = SurveySession(app, references)
        super().__init__(app, session, PANELS["survey"].title)
        session.setParent(self)
        self.bar = SurveyBar(session, self)
        self.begin_tabs("Views of the model", self.bar)
        self.bar.left.connect(self.tabs.setFocus)
        self.map = ModelMapPage(session, self)
        self._worst_tensors = LazyTab(
            lambda: WorstTensorsPage(session, self), self._fill_part, self
        )
        self._by_layer = LazyTab(lambda: ByLayerPage(session, self), self._fill_part, self)
        self._type_mix = LazyTab(lambda: TypeMixPage(app, self), self._fill_page, self)
        self._attached = LazyTab(lambda: AttachedPage(app, references, self), self._fill_page, self)
        parts = self._by_layer, self._worst_tensors, self._type_mix, self._attached
        pages: tuple[QWidget, ...] = self.map, *parts
        for page, title in zip(pages, PANELS["survey"].tabs, strict=True):
            self.tabs.addTab(page, title)
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
