"""The panels as tabs: what each is given, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QTabWidget, QWidget

from explorer.formats.tensors import Extent, parse_name
from explorer.present.explanations import panel_texts
from explorer.qt.contents.metadata import MetadataView
from explorer.qt.contents.open_models import OpenModelsView
from explorer.qt.contents.overview import OverviewView
from explorer.qt.contents.tensors import TensorsView
from explorer.qt.contents.vocabulary import VocabularyView
from explorer.qt.crashes import all_of_them
from explorer.qt.document import Document
from explorer.qt.jobs import JobRunner, JobSlot
from explorer.qt.raw.panel import RawView
from explorer.qt.references import References
from explorer.qt.settings import Settings
from explorer.qt.widgets.lazy import Deferred, LateView
from explorer.qt.widgets.table_view import TableView

if TYPE_CHECKING:
    from explorer.planner.inputs import PlanInputs
    from explorer.qt.errors.panel import ErrorsView
    from explorer.qt.library.panel import LibraryView
    from explorer.qt.planner.panel import PlannerView
    from explorer.qt.survey.panel import SurveyView
    from explorer.qt.weights.panel import WeightsView


class Panels(QTabWidget):
    """The library of downloaded models, and one tab for each way to look at the current model.

    Attributes:
        references: What the current model is compared with.
        errors: Holds the panel of errors once it was shown.
        library: Holds the library's panel once it was shown.
        planner: Holds the planner once it was shown.
        survey: Holds the panel of the whole model once it was shown.
        weights: Holds the weights panel once a model was opened.

    Signals:
        failed: Something that was asked for cannot be done; an `ExplorerError`.
        written: A file was written; its path.
        model_requested: A downloaded model shall be opened; its path.
        demo_requested: The demo model shall be opened.
        layer_chosen: A layer was chosen in the planner; its number, the output layer the last.
        tensor_chosen: A tensor was chosen in the weights panel or in the survey; its row.
        open_requested: The user wants to choose a model to open.
        library_scanned: The stores of this machine were listed; how many models they hold.
    """

    failed = Signal(object)
    written = Signal(str)
    model_requested = Signal(Path)
    demo_requested = Signal()
    layer_chosen = Signal(int)
    tensor_chosen = Signal(int)
    open_requested = Signal()
    library_scanned = Signal(int)

    def __init__(
        self, runner: JobRunner, settings: Settings, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._settings = settings
        self._runner = runner
        self._document: Document | None = None
        self._documents: Sequence[Document] = ()
        self._demo_store: Path | None = None
        self.references = References(runner, self)
        self.library = LateView(
            runner, "explorer.qt.library.panel", self._make_library, lambda _view: None, self
        )
        self.overview = OverviewView(self)
        self.metadata = MetadataView(runner, self)
        self.tensors = TensorsView(runner, self)
        self.weights = Deferred(self._make_weights, self._fill_weights, self)
        self.errors = Deferred(self._make_errors, self._fill_errors, self)
        self.survey = Deferred(self._make_survey, self._fill_survey, self)
        self._weights_loading = JobSlot(runner, self)
        self._selected: Sequence[int] = ()  # tensors, the current one first
        self.vocabulary = VocabularyView(runner, self)
        self.planner = LateView(
            runner, "explorer.qt.planner.panel", self._make_planner, self._fill_planner, self
        )
        self.raw = RawView(runner, self)
        self.setDocumentMode(True)
        self.setAccessibleName(self.tr("Panels"))
        meanings = panel_texts()
        for view, name, title in (
            (self.library, "library", self.tr("Library")),
            (self.overview, "overview", self.tr("Overview")),
            (self.metadata, "metadata", self.tr("Metadata")),
            (self.tensors, "tensors", self.tr("Tensors")),
            (self.weights, "weights", self.tr("Weights")),
            (self.errors, "errors", self.tr("Errors")),
            (self.survey, "survey", self.tr("Survey")),
            (self.vocabulary, "vocabulary", self.tr("Vocabulary")),
            (self.planner, "planner", self.tr("Planner")),
            (self.raw, "raw", self.tr("Raw")),
        ):
            view.setObjectName(name)
            view.setWhatsThis(meanings[name])
            self.addTab(view, title)
            self.setTabWhatsThis(self.count() - 1, meanings[name])
        self.setCurrentWidget(self.overview)
        self.references.failed.connect(self.failed)
        for table in self._tables().values():
            table.failed.connect(self.failed)
            table.exported.connect(self.written)
        self.tensors.table.selection_moved.connect(self._follow_selection)

    def _make_library(self, parent: QWidget) -> LibraryView:
        # see Deferred
        from explorer.qt.library.panel import LibraryView  # noqa: PLC0415
        from explorer.qt.library.readers import library_places  # noqa: PLC0415

        view = LibraryView(
            self._runner, self._settings, parent, places=lambda: library_places(self._demo_store)
        )
        view.open_requested.connect(self.model_requested)
        view.demo_requested.connect(self.demo_requested)
        view.failed.connect(self.failed)
        view.written.connect(self.written)
        view.scanned.connect(self.library_scanned)
        return view

    def show_demo_store(self, models: Path) -> None:
        """List the demo's store in the library too, for one who has downloaded nothing."""
        self._demo_store = models
        if self.library.existing is not None:
            self.library.existing.rescan()

    def _make_planner(self, parent: QWidget) -> PlannerView:
        from explorer.qt.planner.panel import PlannerView  # noqa: PLC0415 - see Deferred

        view = PlannerView(self._runner, self._settings, parent)
        view.layer_chosen.connect(self.layer_chosen)
        view.demo_wanted.connect(self.demo_requested)
        view.exported.connect(self.written)
        view.failed.connect(self.failed)
        return view

    def _make_weights(self, parent: QWidget) -> WeightsView:
        from explorer.qt.weights.panel import WeightsView  # noqa: PLC0415 - see Deferred

        view = WeightsView(self._runner, self.references, parent)
        view.open_requested.connect(self.open_requested)
        view.bytes_requested.connect(self._show_bytes)
        view.choices = self._settings.histogram
        view.splitter_state = self._settings.layout("weights_splitter")
        view.tensor_chosen.connect(self.tensor_chosen)
        view.failed.connect(self.failed)
        view.exported.connect(self.written)
        return view

    def _fill_weights(self, view: WeightsView) -> None:
        view.show_document(self._document)
        view.show_tensors(self._selected)

    def _show_bytes(self, row: int, extent: Extent) -> None:
        """Show bytes of a tensor in their file."""
        self.raw.reveal_bytes(row, extent)
        self.setCurrentWidget(self.raw)

    def _make_errors(self, parent: QWidget) -> ErrorsView:
        from explorer.qt.errors.panel import ErrorsView  # noqa: PLC0415 - see Deferred

        view = ErrorsView(self._runner, self.references, parent)
        view.plan_inputs = self._plan_inputs
        view.open_requested.connect(self.open_requested)
        view.failed.connect(self.failed)
        view.exported.connect(self.written)
        return view

    def _fill_errors(self, view: ErrorsView) -> None:
        view.show_document(self._document)
        view.show_tensors(self._selected)

    def _plan_inputs(self, document: Document) -> PlanInputs | None:
        """Return what the planner plans for; None as long as nobody has looked at it."""
        planner = self.planner.existing
        if planner is None or planner.state.machine is None:
            return None
        model, inputs = planner.state.model, planner.state.inputs
        own = model is not None and model.path == document.path
        return model.complete(inputs) if model is not None and own else inputs

    def _make_survey(self, parent: QWidget) -> SurveyView:
        from explorer.qt.survey.panel import SurveyView  # noqa: PLC0415 - see Deferred

        view = SurveyView(self._runner, self.references, parent)
        view.tensor_chosen.connect(self.tensor_chosen)
        view.tensor_opened.connect(self._open_tensor)
        view.open_requested.connect(self.open_requested)
        view.failed.connect(self.failed)
        view.exported.connect(self.written)
        return view

    def _open_tensor(self, row: int) -> None:
        """Show what a tensor lost if it is compared with something, else its weights."""
        self.tensor_chosen.emit(row)
        compared = self.references.chosen is not None
        self.setCurrentWidget(self.errors if compared else self.weights)

    def _fill_survey(self, view: SurveyView) -> None:
        view.show_document(self._document)
        view.select_tensor(self._selected[0] if self._selected else -1)

    def _load_weights(self) -> None:
        """Load the weights panel before somebody looks: its kernels are compiled meanwhile."""
        self._weights_loading.run(
            self.tr("Preparing the weights panel"),
            lambda _job: import_module("explorer.qt.weights.panel"),
            lambda _module: self.weights.make(),
            self.failed.emit,
        )

    def _fill_planner(self, view: PlannerView) -> None:
        view.set_other_documents(self._documents)
        view.show_document(self._document)

    def set_documents(self, documents: Sequence[Document]) -> None:
        """Tell which models are open, for panels that compare them."""
        self._documents = tuple(documents)
        self.references.set_documents(self._documents)
        if self.planner.existing is not None:
            self.planner.existing.set_other_documents(self._documents)

    def show_document(self, document: Document | None) -> None:
        """Show a model in every panel; one that fails does not keep it from the others."""
        self._document = document
        self._selected = ()
        model = document.model if document is not None else None
        layout = self._settings.layout
        all_of_them(
            lambda: self.references.show_document(document),
            lambda: self.overview.show_document(document),
            lambda: self.metadata.show_document(document, layout("metadata")),
            lambda: self.tensors.show_document(document, layout("tensors")),
            lambda: self.vocabulary.show_document(document, layout("vocabulary")),
            lambda: self.raw.show_model(model),
            *(
                partial(page.existing.show_document, document)
                for page in (self.errors, self.survey, self.weights, self.planner)
                if page.existing is not None
            ),
        )
        if self.weights.existing is None and document is not None:
            self._load_weights()

    def select_layer(self, layer: int) -> None:
        """Mark a layer in the planner, if it was ever looked at; -1 marks none."""
        if self.planner.existing is not None:
            self.planner.existing.select_layer(layer)

    def show_one_of(self, first: QWidget, *others: QWidget) -> None:
        """Show `first`, unless one of the others is in front, which shows the same thing."""
        if self.currentWidget() not in (first, *others):
            self.setCurrentWidget(first)

    def focus_search(self) -> bool:
        """Put the cursor into the search of the panel in front; return whether it has one."""
        view = self.currentWidget()
        if isinstance(view, Deferred):
            view.view.focus_search()
            return True
        if isinstance(view, MetadataView | TensorsView | VocabularyView | RawView):
            view.focus_search()
            return True
        return False

    def follow_scheme(self, document: Document | None) -> None:
        """Take other colours."""
        self.overview.show_document(document)  # its chart takes its colours when it is made

    def save_headers(self) -> None:
        """Remember the columns of the tables."""
        for name, table in self._tables().items():
            if table.table.columns:
                self._settings.set_layout(name, table.horizontalHeader().saveState())

    def save_layout(self) -> None:
        """Remember columns and splitters."""
        self.save_headers()
        if self.library.existing is not None:
            self.library.existing.save_layout()
        self._settings.set_layout("metadata_splitter", self.metadata.splitter.saveState())
        if self.weights.existing is not None:
            self._settings.set_layout("weights_splitter", self.weights.existing.splitter_state)
            self._settings.histogram = self.weights.existing.choices

    def restore_layout(self) -> None:
        """Put the splitters to where they were."""
        self.metadata.splitter.restoreState(self._settings.layout("metadata_splitter"))
        if self.weights.existing is not None:
            self.weights.existing.splitter_state = self._settings.layout("weights_splitter")

    def reset_layout(self) -> None:
        """Give columns and splitters the places that they had at first."""
        self.restore_layout()
        if self.library.existing is not None:
            self.library.existing.reset_layout()
        for table in self._tables().values():
            table.fit_columns()

    def _tables(self) -> dict[str, TableView]:
        return {
            "metadata": self.metadata.list.table,
            "tensors": self.tensors.table,
            "vocabulary": self.vocabulary.table,
        }

    def _follow_selection(self) -> None:
        """Show the weights of what is selected in the tensor table."""
        rows = self.tensors.table.selected_content_rows()
        if not len(rows):
            return
        current = self.tensors.table.currentIndex()
        first = self.tensors.model.content_row(current) if current.isValid() else int(rows[0])
        others = [row for row in rows.tolist() if row != first]
        self._selected = [first, *others] if first in rows else others
        for page in (self.weights, self.errors):
            if page.existing is not None:
                page.existing.show_tensors(self._selected)
        if self.survey.existing is not None:
            self.survey.existing.select_tensor(self._selected[0])


# One selection, followed by every panel that knows what is selected.


# Stacks of layers beside the language model's: vision, audio, encoder, decoder, projector.
_SIDE_STACKS: Final = ("v.", "a.", "enc.", "dec.", "mm.", "vision", "audio")
_OUTPUT_ROLES: Final = frozenset({"output", "lm_head", "output_norm", "model.norm"})


class SelectionLink(QObject):
    """Makes tree, metadata, tensor table and raw bytes show the same key or tensor.

    A panel that is made to follow answers with a signal of its own; that one is not followed again.
    """

    def __init__(self, open_models: OpenModelsView, panels: Panels, parent: QObject) -> None:
        super().__init__(parent)
        self._open_models = open_models
        self._panels = panels
        self._document: Document | None = None
        self._busy = False
        panels.metadata.key_selected.connect(self.select_key)
        panels.tensors.table.row_selected.connect(self.select_tensor)
        panels.raw.key_activated.connect(self._select_key_by_name)
        panels.raw.tensor_activated.connect(self.select_tensor)
        panels.layer_chosen.connect(self._select_layer)

    def set_document(self, document: Document | None) -> None:
        """Follow selections of this model from now on."""
        self._document = document

    def select_key(self, position: int) -> None:
        """Select a metadata entry everywhere."""

        def follow(document: Document) -> None:
            key = document.model.metadata.entries[position].key
            self._panels.metadata.reveal(position)
            self._open_models.reveal_key(document, key)
            self._panels.raw.reveal_key(key)

        self._once(follow)

    def select_tensor(self, row: int) -> None:
        """Select a tensor everywhere."""

        def follow(document: Document) -> None:
            self._panels.tensors.reveal(row)
            self._open_models.reveal_tensor(document, row)
            self._panels.raw.reveal_tensor(row)
            self._panels.select_layer(_layer_of(document, row))

        self._once(follow)

    def _select_key_by_name(self, key: str) -> None:
        position = key_position(self._document, key)
        if position is not None:
            self.select_key(position)

    def _select_layer(self, layer: int) -> None:
        """Select the first tensor of a layer."""
        if self._document is not None:
            row = _first_of_layer(self._document, layer)
            if row is not None:
                self.select_tensor(row)

    def _once(self, follow: Callable[[Document], None]) -> None:
        if self._busy or self._document is None:
            return
        self._busy = True
        try:
            follow(self._document)
        finally:
            self._busy = False


def key_position(document: Document | None, key: str) -> int | None:
    """Return the position of the first metadata entry with that key, or None."""
    entries = () if document is None else document.model.metadata.entries
    return next((i for i, entry in enumerate(entries) if entry.key == key), None)


def _layer_of(document: Document, row: int) -> int:
    """Return the layer of a tensor as plans count them, the output layer last; -1 for none."""
    name = parse_name(document.model.tensors.columns.names[row])
    if name.layer is not None:
        return -1 if name.stack.startswith(_SIDE_STACKS) else name.layer
    blocks = document.facts.layers
    return blocks if blocks is not None and name.role in _OUTPUT_ROLES else -1


def _first_of_layer(document: Document, layer: int) -> int | None:
    """Return the row of the first tensor of a layer, or None if the model has none."""
    layers = document.arrays.layers
    if layer == document.facts.layers:
        rows = np.flatnonzero((layers == layer) | (layers < 0))  # the output's have no number
    else:
        rows = np.flatnonzero(layers == layer)
    return next((row for row in rows.tolist() if _layer_of(document, row) == layer), None)
