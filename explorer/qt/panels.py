"""The panels as tabs, each built when first shown; what they share is the selection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QTabWidget, QWidget

from explorer.formats.tensors import Extent
from explorer.present.explanations import PANEL_TEXTS
from explorer.qt.contents.metadata import MetadataView, OverviewView
from explorer.qt.contents.tables import TensorsView, VocabularyView
from explorer.qt.document import Document
from explorer.qt.jobs import JobRunner
from explorer.qt.references import References
from explorer.qt.selection import Selection
from explorer.qt.settings import Settings
from explorer.qt.widgets.lazy import LazyTab, Writing
from explorer.qt.widgets.table_view import TableView

if TYPE_CHECKING:
    from explorer.planner.inputs import PlanInputs
    from explorer.qt.errors.panel import ErrorsView
    from explorer.qt.library.panel import LibraryView
    from explorer.qt.planner.panel import PlannerView
    from explorer.qt.raw.panel import RawView
    from explorer.qt.survey.panel import SurveyView
    from explorer.qt.weights.panel import WeightsView

View = TypeVar("View", bound=QWidget)

PANEL_MODULES: Final = (
    *("explorer.qt.library.panel", "explorer.qt.weights.panel", "explorer.qt.planner.panel"),
    *("explorer.qt.errors.panel", "explorer.qt.survey.panel", "explorer.qt.raw.panel"),
)
"""What panels import when they are first shown: nothing of it is there at the first paint."""


class Panels(QTabWidget):
    """The library of downloaded models, and one tab for each way to look at the current model.

    Attributes:
        selection: The current model, and what of it is selected.
        references: What the current model is compared with.

    Signals:
        failed: Something that was asked for cannot be done; an `ExplorerError`.
        written: A file was written; its path.
        model_requested: A downloaded model shall be opened; its path.
        demo_requested: The demo model shall be opened.
        open_requested: The user wants to choose a model to compare with.
        library_scanned: The stores of this machine were listed; how many models they hold.
    """

    failed = Signal(object)
    written = Signal(str)
    model_requested = Signal(Path)
    demo_requested = Signal()
    open_requested = Signal()
    library_scanned = Signal(int)

    def __init__(
        self, runner: JobRunner, settings: Settings, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._runner, self._settings = runner, settings
        self._demo_store: Path | None = None
        self._tabs: list[LazyTab[Any]] = []
        self._tables: dict[str, TableView] = {}  # the built ones, by the name of the panel
        self.selection = Selection(self)
        self.references = References(runner, self)
        self.references.failed.connect(self.failed)
        self.selection.changed.connect(  # before any panel
            lambda: self.references.show_document(self.selection.document)
        )
        self.setDocumentMode(True)
        self.setAccessibleName(self.tr("Panels"))
        tab = self._add_tab
        table, tr = self._fill_table, self.tr
        self.library = tab("library", tr("Library"), self._make_library)
        self.overview = tab(
            "overview",
            tr("Overview"),
            OverviewView,
            lambda view: view.show_document(self.selection.document),
        )
        self.metadata = tab(
            "metadata", tr("Metadata"), self._make_metadata, partial(table, "metadata")
        )
        self.tensors = tab("tensors", tr("Tensors"), self._make_tensors, partial(table, "tensors"))
        self.weights = tab("weights", tr("Weights"), self._make_weights, self._fill_selected)
        self.errors = tab("errors", tr("Errors"), self._make_errors, self._fill_selected)
        self.survey = tab("survey", tr("Survey"), self._make_survey, self._fill_survey)
        self.vocabulary = tab(
            "vocabulary", tr("Vocabulary"), self._make_vocabulary, partial(table, "vocabulary")
        )
        self.planner = tab("planner", tr("Planner"), self._make_planner, self._fill_planner)
        self.raw = tab("raw", tr("Raw"), self._make_raw, lambda view: view.follow(self.selection))
        self.setCurrentWidget(self.overview)

    def _add_tab(
        self,
        name: str,
        title: str,
        make: Callable[[], View],
        fill: Callable[[View], object] = lambda _view: None,
    ) -> LazyTab[View]:
        tab = LazyTab(make, fill, self)
        self.selection.changed.connect(tab.refresh)
        meaning = PANEL_TEXTS[name]
        tab.setObjectName(name)
        tab.setWhatsThis(meaning)
        self._tabs.append(tab)
        self.addTab(tab, title)
        self.setTabWhatsThis(self.count() - 1, meaning)
        return tab

    def set_documents(self, documents: Sequence[Document]) -> None:
        """Set the open models; no panel keeps one that was closed."""
        closed = set(self.references.documents).difference(documents)
        self.references.set_documents(documents)
        self.planner.refresh()
        if closed:
            for tab in self._tabs:
                tab.catch_up()

    # What each panel is connected to, and shows

    def _make_library(self) -> LibraryView:
        from explorer.qt.library.panel import LibraryView  # noqa: PLC0415 - see LazyTab
        from explorer.qt.library.readers import library_places  # noqa: PLC0415

        view = LibraryView(
            self._runner, self._settings, self, places=lambda: library_places(self._demo_store)
        )
        view.open_requested.connect(self.model_requested)
        view.demo_requested.connect(self.demo_requested)
        view.failed.connect(self.failed)
        view.written.connect(self.written)
        view.scanned.connect(self.library_scanned)
        self._plan_library(view)
        return view

    def _plan_library(self, view: LibraryView | None = None) -> None:
        """Let the library say which models fit the machine that the planner plans for."""
        from explorer.present.fits import Target  # noqa: PLC0415 - see LazyTab

        planner, view = self.planner.built, view or self.library.built
        if view is not None and planner is not None and planner.state.machine is not None:
            inputs = planner.state.inputs
            view.plan_for(Target(inputs.devices, inputs.host, planner.state.environment))

    def show_demo_store(self, models: Path) -> None:
        """List the demo's store in the library too, for users who have downloaded nothing."""
        self._demo_store = models
        if self.library.built is not None:
            self.library.built.rescan()

    def _make_metadata(self) -> MetadataView:
        view = MetadataView(self._runner)
        self._add_table("metadata", view.list.table)
        view.splitter.restoreState(self._settings.layout("metadata_splitter"))
        view.key_selected.connect(self.selection.select_key)
        return view

    def _make_tensors(self) -> TensorsView:
        view = TensorsView(self._runner)
        self._add_table("tensors", view.table)
        view.rows_selected.connect(self.selection.select_tensors)
        view.table.row_opened.connect(self.show_tensor_bytes)
        return view

    def _make_vocabulary(self) -> VocabularyView:
        view = VocabularyView(self._runner)
        self._add_table("vocabulary", view.table)
        return view

    def _fill_table(self, name: str, view: MetadataView | TensorsView | VocabularyView) -> None:
        """Show the selection in a table, with the columns that were saved."""
        document = self.selection.document
        if document is not view.document:
            self._save_columns(name)
            view.show_document(document, self._settings.layout(name))
        if not isinstance(view, VocabularyView):
            view.follow(self.selection)

    def _add_table(self, name: str, table: TableView) -> None:
        self._tables[name] = table
        self._pass_on(table)

    def _pass_on(self, part: Writing) -> None:
        part.failed.connect(self.failed)
        part.exported.connect(self.written)

    def _make_raw(self) -> RawView:
        from explorer.qt.raw.panel import RawView  # noqa: PLC0415 - see LazyTab

        view = RawView(self._runner)
        view.key_activated.connect(self.selection.select_key_named)
        view.tensor_activated.connect(lambda row: self.selection.select_tensors([row]))
        return view

    def _make_weights(self) -> WeightsView:
        from explorer.qt.weights.curves import HistogramChoices  # noqa: PLC0415 - see LazyTab
        from explorer.qt.weights.panel import WeightsView  # noqa: PLC0415

        view = WeightsView(self._runner, self.references)
        self._connect_panel(view)
        choices = HistogramChoices.of_text(self._settings.histogram)
        view.restore(choices, self._settings.layout("weights_splitter"))
        view.tensor_chosen.connect(lambda row: self.selection.select_tensors([row]))
        view.bytes_requested.connect(self._show_bytes)
        return view

    def _make_errors(self) -> ErrorsView:
        from explorer.qt.errors.panel import ErrorsView  # noqa: PLC0415 - see LazyTab

        view = ErrorsView(self._runner, self.references)
        view.plan_inputs = self._plan_inputs
        self._connect_panel(view)
        return view

    def _make_survey(self) -> SurveyView:
        from explorer.qt.survey.panel import SurveyView  # noqa: PLC0415 - see LazyTab

        view = SurveyView(self._runner, self.references)
        self._connect_panel(view)
        view.tensor_chosen.connect(lambda row: self.selection.select_tensors([row]))
        view.tensor_opened.connect(self._open_tensor)
        return view

    def _connect_panel(self, view: WeightsView | ErrorsView | SurveyView) -> None:
        view.open_requested.connect(self.open_requested)
        self._pass_on(view)

    def _fill_selected(self, view: WeightsView | ErrorsView) -> None:
        view.show_document(self.selection.document)
        view.show_tensors(self.selection.rows)

    def _fill_survey(self, view: SurveyView) -> None:
        view.show_document(self.selection.document)
        view.select_tensor(self.selection.rows[0] if self.selection.rows else -1)

    def _make_planner(self) -> PlannerView:
        from explorer.qt.planner.panel import PlannerView  # noqa: PLC0415 - see LazyTab

        view = PlannerView(self._runner, self._settings)
        view.layer_chosen.connect(self.selection.select_layer)
        view.state.plan_changed.connect(lambda _current: self._plan_library())
        view.demo_wanted.connect(self.demo_requested)
        self._pass_on(view)
        return view

    def ask_log(self) -> None:
        """Ask for a log and show it beside the plan of the current model."""
        self.setCurrentWidget(self.planner)
        self.planner.widget.ask_log()

    def _fill_planner(self, view: PlannerView) -> None:
        view.set_other_documents(self.references.documents)
        view.show_document(self.selection.document)
        view.select_layer(self.selection.layer)

    def _plan_inputs(self, document: Document) -> PlanInputs | None:
        """Return what the planner plans for; None if it was not shown yet."""
        planner = self.planner.built
        if planner is None or planner.state.machine is None:
            return None
        model, inputs = planner.state.model, planner.state.inputs
        own = model is not None and model.path == document.path
        return model.complete(inputs) if model is not None and own else inputs

    # Going from one panel to another

    def show_one_of(self, first: QWidget, *others: QWidget) -> None:
        """Show `first`, unless one of the others is in front, which shows the same thing."""
        if self.currentWidget() not in (first, *others):
            self.setCurrentWidget(first)

    def show_tensor_bytes(self, row: int) -> None:
        """Show the bytes of a tensor."""
        self.selection.select_tensors([row], again=True)
        self.setCurrentWidget(self.raw)

    def _show_bytes(self, row: int, extent: Extent) -> None:
        self.setCurrentWidget(self.raw)
        self.raw.widget.reveal_bytes(row, extent)

    def _open_tensor(self, row: int) -> None:
        """Show a tensor's errors if it is compared with something, else its weights."""
        self.selection.select_tensors([row])
        compared = self.references.chosen is not None
        self.setCurrentWidget(self.errors if compared else self.weights)

    def focus_search(self) -> bool:
        """Put the cursor into the search of the panel in front; return whether it has one."""
        tab = self.currentWidget()
        if not isinstance(tab, LazyTab) or tab is self.overview:
            return False
        tab.widget.focus_search()
        return True

    # Layout

    def save_layout(self) -> None:
        """Save columns, splitters and the choices for histograms."""
        library, metadata, weights = self.library.built, self.metadata.built, self.weights.built
        for name in self._tables:
            self._save_columns(name)
        if library is not None:
            library.save_layout()
        if metadata is not None:
            self._settings.set_layout("metadata_splitter", metadata.splitter.saveState())
        if weights is not None:
            self._settings.set_layout("weights_splitter", weights.histogram.splitter_state())
            self._settings.histogram = weights.choices.to_text()

    def reset_layout(self) -> None:
        """Reset columns and splitters to their default sizes."""
        library, metadata, weights = self.library.built, self.metadata.built, self.weights.built
        if metadata is not None:
            metadata.splitter.restoreState(self._settings.layout("metadata_splitter"))
        if weights is not None:
            weights.restore(weights.choices, self._settings.layout("weights_splitter"))
        if library is not None:
            library.reset_layout()
        for table in self._tables.values():
            table.fit_columns()

    def _save_columns(self, name: str) -> None:
        table = self._tables[name]
        if table.table.columns:
            self._settings.set_layout(name, table.horizontalHeader().saveState())
