"""The pages of the window in five groups, each built when first shown; they share the selection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QStackedWidget, QWidget

from explorer.formats.tensors import Extent
from explorer.parallel import Check
from explorer.present.panels import LOG, PANELS, Panel, panels_of
from explorer.qt.contents.overview import OverviewView
from explorer.qt.document import Document
from explorer.qt.machine import PlannedMachine
from explorer.qt.references import Reference, References, Rounding
from explorer.qt.services import Services
from explorer.qt.settings import Settings
from explorer.qt.widgets.lazy import LazyTab
from explorer.qt.widgets.segments import offered_tabs, show_tab
from explorer.qt.widgets.table_view import TableView
from explorer.sources import is_address

if TYPE_CHECKING:
    from explorer.planner.inputs import PlanInputs
    from explorer.qt.compare.bar import CompareBar
    from explorer.qt.compare.one_tensor import ErrorsView
    from explorer.qt.compare.summary import CompareView
    from explorer.qt.contents.metadata import MetadataView
    from explorer.qt.contents.tables import TensorsView, VocabularyView
    from explorer.qt.library.panel import LibraryView
    from explorer.qt.planner.panel import PlannerView
    from explorer.qt.raw.panel import RawView
    from explorer.qt.survey.panel import PartPanel, SessionPanel, SurveyView
    from explorer.qt.survey.session import SurveySession
    from explorer.qt.weights.panel import WeightsView
    from explorer.qt.what_if.page import WhatIfPage
    from explorer.stores.entries import Entry

View = TypeVar("View", bound=QWidget)

PANEL_MODULES: Final = (
    *("explorer.qt.contents.metadata", "explorer.qt.contents.tables", "explorer.qt.help.guide"),
    *("explorer.qt.library.panel", "explorer.qt.weights.panel", "explorer.qt.planner.panel"),
    *("explorer.qt.compare.summary", "explorer.qt.compare.one_tensor", "explorer.qt.compare.bar"),
    *("explorer.qt.what_if.page", "explorer.qt.survey.panel", "explorer.qt.raw.panel"),
)
"""What is imported when a panel or the guide is first shown, and not before the first paint."""

_MOST_TRIED: Final = 64  # tensors: where these cannot be shown, hardly another can


class Pages(QStackedWidget):
    """Pages in groups; a group comes back with the page that was in front."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._last: dict[str, str] = {}  # the page of each group that was in front last
        self.currentChanged.connect(self._remember_page)

    @property
    def page(self) -> str:
        return str(self.currentWidget().objectName())

    @property
    def panel(self) -> Panel:
        """What the page in front is; of one that is no panel every text is empty."""
        return PANELS.get(self.page, Panel("", "", ""))

    @property
    def group(self) -> str:
        """The group of the page in front; empty for a page of none."""
        return self.panel.group

    def show_page(self, name: str) -> None:
        """Bring a page to the front by its name."""
        page = self.findChild(QWidget, name, Qt.FindChildOption.FindDirectChildrenOnly)
        assert page is not None
        self.setCurrentWidget(page)

    def show_group(self, group: str) -> None:
        """Bring the page of a group to the front that was there last."""
        if group != self.group:
            self.show_page(self._last.get(group, panels_of(group)[0]))

    def show_one_of(self, first: str, *others: str) -> None:
        """Show `first`, unless one of the others is in front, which shows the same thing."""
        if self.page not in (first, *others):
            self.show_page(first)

    def _remember_page(self) -> None:
        if self.group:
            self._last[self.group] = self.page


def largest_readable(document: Document) -> int | None:
    """Return the content row of the tensor with the most bytes whose weights can be shown."""
    from explorer.qt.weights.curves import unsupported_reason  # noqa: PLC0415 - see LazyTab

    order = np.argsort(-document.arrays.nbytes, kind="stable")[:_MOST_TRIED].tolist()
    tensors = document.model.tensors.rows
    return next((row for row in order if unsupported_reason(tensors[row]) is None), None)


class Panels(Pages):
    """The library of downloaded models, and one page for each way to look at the current model.

    Attributes:
        selection: The current model, and what of it is selected.
        references: What the current model is compared with.
        machine: What plans are made for, and what is asked of each model.
        app: Runs work in the background, and does what pages ask of the window.
    """

    def __init__(self, app: Services, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.app, self.runner, self._settings = app, app.runner, settings
        self._documents: frozenset[Document] = frozenset()
        self._tabs: list[LazyTab[Any]] = []
        self.comparing: SurveySession | None = None  # made with the first page that compares
        self.bar: CompareBar | None = None
        self.memory = PanelMemory(self, settings)
        self.selection = app.selection
        self.references = References(app, self)
        self.machine = PlannedMachine(app, settings, self)
        self.selection.changed.connect(  # before any panel
            lambda: self.references.show_document(self.selection.document)
        )
        self.setAccessibleName("Panels")
        tab = self._add_tab
        table = self.memory.show_table
        self.library = tab("library", self._make_library)
        self.overview = tab("overview", self._make_overview, self._fill_document)
        self.metadata = tab("metadata", self._make_metadata, partial(table, "metadata"))
        self.tensors = tab("tensors", self._make_tensors, partial(table, "tensors"))
        make, fill = self._make_vocabulary, partial(table, "vocabulary")
        self.vocabulary = tab("vocabulary", make, fill)
        self.raw = tab("raw", self._make_raw, lambda view: view.follow(self.selection))
        self.weights = tab("weights", self._make_weights, self._fill_selected)
        self.survey = tab("survey", self._make_survey, self._fill_survey)
        self.compare = tab("compare", self._make_compare, self._fill_document)
        names = "error_map", "error_layers", "error_tensors"
        parts = [tab(name, partial(self._make_part, name), self._fill_survey) for name in names]
        self.error_map, self.error_layers, self.error_tensors = parts
        self.errors = tab("errors", self._make_errors, self._fill_selected)
        self.what_if = tab("what_if", self._make_what_if, self._fill_what_if)
        self.planner = tab("planner", self._make_planner, self._fill_planner)
        self.setCurrentWidget(self.overview)
        for change in (self.currentChanged, self.selection.changed):
            change.connect(self._choose)
        self.machine.changed.connect(self._plan_others)
        self.machine.changed.connect(self.overview.refresh)
        self.machine.asked.connect(self._plan_others)
        self.currentChanged.connect(self.machine.settle)

    def _choose(self) -> None:
        self._choose_tensor()
        self._choose_other()

    def _choose_tensor(self) -> None:
        """Have pages of one tensor show the worst, the last or the largest if none is selected."""
        document = self.selection.document
        if document is None or self.selection.rows or not self.panel.of_one_tensor:
            return
        if is_address(document.path):  # what is on the web is fetched when the user chooses it
            return
        known = self._worst_known() if self.page == "errors" else None
        known = self.memory.tensor_of(document) if known is None else known
        chosen = largest_readable(document) if known is None else known
        if chosen is not None:
            self.selection.select_tensors([chosen])

    def _worst_known(self) -> int | None:
        """Return the tensor with the largest relative RMSE that a survey found; None if none is."""
        session = self.comparing
        found = None if session is None else session.comparison
        if session is None or found is None or session.document is not self.selection.document:
            return None
        errors = np.where(found.errors.known, found.errors.relative_rmse, np.nan)
        return None if np.isnan(errors).all() else int(np.nanargmax(errors))

    def _choose_other(self) -> None:
        """Have the pages that compare begin with the only other open model as B.

        What the user chose instead stays. The original is found by the bar.
        """
        references = self.references
        document = self.selection.document
        undecided = references.chosen is None and not references.decided
        if self.group != "compare" or document is None or not undecided:
            return
        alone = len(references.documents) == 2 and references.open_original() is None
        if alone and not self.memory.knows_reference(document):
            other = next(one for one in references.documents if one is not document)
            references.choose_other(other)

    def _add_tab(
        self,
        name: str,
        make: Callable[[], View],
        fill: Callable[[View], object] = lambda _view: None,
    ) -> LazyTab[View]:
        tab = LazyTab(make, fill, self)
        self.selection.changed.connect(tab.refresh)
        tab.setObjectName(name)
        tab.setWhatsThis(PANELS[name].explanation)
        self._tabs.append(tab)
        self.addWidget(tab)
        return tab

    def set_documents(self, documents: Sequence[Document]) -> None:
        """Set the open models; no panel keeps one that was closed."""
        closed = self._documents.difference(documents)
        self._documents = frozenset(documents)
        self.references.set_documents(documents)
        self._choose()
        self.planner.refresh()
        if closed and self.comparing is not None:
            self.comparing.show_document(self.selection.document)
        if closed:
            for tab in self._tabs:
                tab.catch_up()

    # What each panel is connected to, and shows

    def _make_library(self) -> LibraryView:
        from explorer.qt.library.panel import LibraryView  # noqa: PLC0415 - see LazyTab

        view = LibraryView(self.app, self._settings, self)
        view.commands.pages = {
            name: panel.full_title for name, panel in PANELS.items() if panel.group != "library"
        }
        self.memory.add_filter("library", view.bar.edit)
        self.machine.look()
        if self.machine.known:
            view.plan_for(self.machine.target())
        return view

    def _plan_others(self, path: Path | None = None) -> None:
        """Have others than the planner plan anew: all models, or one of which more is asked."""
        self.what_if.refresh()
        if self.library.built is not None and path is None:
            self.library.built.plan_for(self.machine.target())

    def _make_overview(self) -> OverviewView:
        return OverviewView(self.app, self.machine, lambda: self._settings.recent)

    def open_key(self, position: int) -> None:
        """Select a metadata entry, and show it."""
        self.selection.select_key(position, again=True)
        self.setCurrentWidget(self.metadata)

    def _make_metadata(self) -> MetadataView:
        from explorer.qt.contents.metadata import MetadataView  # noqa: PLC0415 - see LazyTab

        view = MetadataView(self.app)
        self.memory.add_table("metadata", view.list.table, view.list.bar.edit)
        view.splitter.restoreState(self._settings.layout("metadata_splitter"))
        return view

    def _make_tensors(self) -> TensorsView:
        from explorer.qt.contents.tables import TensorsView  # noqa: PLC0415 - see LazyTab

        view = TensorsView(self.app)
        self.memory.add_table("tensors", view.table, view.bar.edit)
        return view

    def _make_vocabulary(self) -> VocabularyView:
        from explorer.qt.contents.tables import VocabularyView  # noqa: PLC0415 - see LazyTab

        view = VocabularyView(self.app)
        self.memory.add_table("vocabulary", view.table, view.bar.edit)
        return view

    def _make_raw(self) -> RawView:
        from explorer.qt.raw.panel import RawView  # noqa: PLC0415 - see LazyTab

        view = RawView(self.app)
        view.key_activated.connect(self.selection.select_key_named)
        view.tensor_activated.connect(lambda row: self.selection.select_tensors([row]))
        return view

    def _fill_document(self, view: OverviewView | CompareView) -> None:
        view.show_document(self.selection.document)

    # The pages that compare, with one bar and one session

    def compare_bar(self) -> CompareBar:
        """Return the bar of the pages that compare, made when it is first asked for."""
        if self.bar is None:
            from explorer.qt.compare.bar import CompareBar  # noqa: PLC0415 - see LazyTab

            self.bar = CompareBar(self.app, self._session(), lambda: self.page)
            self.bar.finder.finder = self.downloads
            self.bar.finder.is_wanted = self.memory.lets_look_for_original
        return self.bar

    def _session(self) -> SurveySession:
        if self.comparing is None:
            from explorer.qt.survey.session import SurveySession  # noqa: PLC0415 - see LazyTab

            self.comparing = SurveySession(self.app, self.references, self, compares=True)
        return self.comparing

    def _make_compare(self) -> CompareView:
        from explorer.qt.compare.summary import CompareView  # noqa: PLC0415 - see LazyTab

        return CompareView(self.app, self._session())

    def _make_part(self, name: str) -> PartPanel:
        from explorer.qt.survey.panel import PartPanel  # noqa: PLC0415 - see LazyTab

        return PartPanel(self.app, self._session(), name)

    def _make_errors(self) -> ErrorsView:
        from explorer.qt.compare.one_tensor import ErrorsView  # noqa: PLC0415 - see LazyTab

        return ErrorsView(self.app, self.references)

    def _make_what_if(self) -> WhatIfPage:
        from explorer.qt.what_if.page import WhatIfPage  # noqa: PLC0415 - see LazyTab

        view = WhatIfPage(self.app, self.references)
        view.plan_inputs = self._plan_inputs
        return view

    def _fill_what_if(self, view: WhatIfPage) -> None:
        view.show_subject(self.selection.document, self.selection.rows)

    def _make_weights(self) -> WeightsView:
        from explorer.qt.weights.panel import WeightsView  # noqa: PLC0415 - see LazyTab

        view = WeightsView(self.app, self.references)
        view.histogram.controls.restore(self._settings.note("histogram"))
        view.histogram.restore_splitter(self._settings.layout("weights_splitter"))
        return view

    def _make_survey(self) -> SurveyView:
        from explorer.qt.survey.panel import SurveyView  # noqa: PLC0415 - see LazyTab

        return SurveyView(self.app, self.references)

    def _fill_selected(self, view: WeightsView | ErrorsView) -> None:
        view.show_document(self.selection.document)
        view.show_tensors(self.selection.rows)

    def _fill_survey(self, view: SessionPanel) -> None:
        view.show_document(self.selection.document)
        row = self.selection.rows[0] if self.selection.rows else -1
        view.select_tensor(row, layer=self.selection.whole_layer)

    def _make_planner(self) -> PlannerView:
        from explorer.qt.planner.panel import PlannerView  # noqa: PLC0415 - see LazyTab

        return PlannerView(self.app, self._settings, machine=self.machine)

    def ask_log(self) -> None:
        """Ask for a log and show it beside the plan of the current model."""
        self.setCurrentWidget(self.planner)
        self.planner.widget.ask_log()

    def _fill_planner(self, view: PlannerView) -> None:
        view.set_other_documents(self.references.documents)
        view.show_document(self.selection.document)
        view.select_layer(self.selection.layer)

    def _plan_inputs(self, document: Document) -> PlanInputs | None:
        """Return what a model is planned with; None until the machine is known."""
        self.machine.look()
        trained = document.facts.context_length
        machine = self.machine
        asked = machine.asked_of(document.path)
        return machine.target().inputs(trained, asked) if machine.known else None

    def ask_machine(self) -> None:
        """Ask which machine everything is planned for, on whatever page one is."""
        from explorer.qt.planner.devices import MachineDialog  # noqa: PLC0415 - see LazyTab

        planner = self.planner.widget
        planner.set_other_documents(self.references.documents)  # it may never have been shown
        MachineDialog(planner.state, self.app, self).open()

    def downloads(self) -> Callable[[Check], list[tuple[Entry, str]]]:
        """Return what finds the downloaded models in a worker, with the program of each.

        What the library lists already is not looked for again.
        """
        from explorer.qt.library.readers import downloaded, machine_places  # noqa: PLC0415 - see LazyTab

        library = self.library.built
        if library is not None and library.listed:
            listed = library.listed
            return lambda _check: listed
        own = self._settings.library_folders
        return lambda check: downloaded(machine_places(), own, check)

    # Going from one panel to another

    def show_files(self) -> None:
        """Show the files of the library."""
        self.setCurrentWidget(self.library)
        library = self.library.widget
        library.lists.setCurrentWidget(library.blobs)

    def show_attachments(self) -> None:
        """Show what can be planned with the current model."""
        self.setCurrentWidget(self.planner)
        self.planner.widget.show_attachments()

    def open_bytes(self, row: int, extent: Extent) -> None:
        """Show some bytes of a tensor."""
        self.setCurrentWidget(self.raw)
        self.raw.widget.reveal_bytes(row, extent)

    def open_selected(self) -> None:
        """Show the selected key, or weights or errors of the selected tensor."""
        if self.selection.key is not None:
            self.setCurrentWidget(self.metadata)
        elif self.selection.rows:
            self.open_tensors(self.selection.rows[0])

    def open_tensors(self, *rows: int) -> None:
        """Show the errors of one tensor if it is compared with something, else weights."""
        self.selection.select_tensors(rows)
        compared = self.references.chosen is not None and len(rows) == 1
        self.setCurrentWidget(self.errors if compared else self.weights)

    def open_layer(self, row: int, *, leave_planner: bool = False) -> None:
        """Show the layer of a tensor among the others: its errors, if there are some, or figures.

        The planner, unless it shall be left, and the maps show it, too.
        """
        self.selection.select_tensors([row], again=True, layer=True)
        if self.currentWidget() is self.planner and not leave_planner:
            return
        if self.group == "compare" or self.references.chosen is not None:
            self.show_one_of("error_layers", "error_map")
        else:
            self.setCurrentWidget(self.survey)
            self.survey.widget.show_layers()

    def show_tab(self, name: str, title: str) -> None:
        """Bring a page to the front, and in it the tab of a title, if it is offered now."""
        self.show_page(name)
        if name == "planner":
            self.planner.widget.show_tab(title)  # it may have none yet
        else:
            show_tab(self.currentWidget(), title)

    def offered_tabs(self, name: str) -> list[str]:
        """Return the titles of a panel's own tabs; those that there is nothing for left out."""
        page = self.findChild(QWidget, name, Qt.FindChildOption.FindDirectChildrenOnly)
        offered = {} if page is None else offered_tabs(page)  # none before it is built
        return [one for one in PANELS[name].tabs if one in offered or (one != LOG and not offered)]

    def enter(self) -> None:
        """Have keys go to the page in front: to its search, or else to its first control."""
        page = self.currentWidget()
        is_there = self.window().focusWidget() in page.findChildren(QWidget)
        if not is_there and not self.focus_search():
            page.setFocus()
            page.focusNextChild()

    def focus_search(self) -> bool:
        """Put the cursor into the search of the panel in front; return whether it has one."""
        tab = self.currentWidget()
        if not isinstance(tab, LazyTab) or tab is self.overview:
            return False
        tab.widget.focus_search()
        return True


_LONGEST_FILTER: Final = 200  # letters of a filter


class PanelMemory:
    """What the panels show and how they are laid out, kept over restarts."""

    def __init__(self, panels: Panels, settings: Settings) -> None:
        self._panels, self._settings = panels, settings
        self.tables: dict[str, TableView] = {}
        self._filters: dict[str, QLineEdit] = {}

    def add_table(self, name: str, table: TableView, edit: QLineEdit) -> None:
        """Know a table whose columns are kept, and its filter."""
        self.tables[name] = table
        self.add_filter(name, edit)

    def add_filter(self, name: str, edit: QLineEdit) -> None:
        """Know a filter that is kept, and filter as it was last."""
        self._filters[name] = edit
        edit.setText(self._settings.note(f"{name}_filter"))

    def show_table(self, name: str, view: MetadataView | TensorsView | VocabularyView) -> None:
        """Show the selection in a table, with the columns that were saved."""
        selection = self._panels.selection
        if selection.document is not view.document:
            self.save_columns(name)
            view.show_document(selection.document, self._settings.layout(name))
        if name != "vocabulary":  # none of its rows is a key or a tensor
            cast("MetadataView | TensorsView", view).follow(selection)

    def save(self) -> None:
        """Save the page in front, the selected tensor, columns, splitters, filters, choices."""
        panels, settings = self._panels, self._settings
        library, metadata, weights = self._built()
        for name in self.tables:
            self.save_columns(name)
        for name, edit in self._filters.items():
            settings.set_note(f"{name}_filter", edit.text()[:_LONGEST_FILTER])
        if library is not None:
            library.save_layout()
        if metadata is not None:
            settings.set_layout("metadata_splitter", metadata.splitter.saveState())
        if weights is not None:
            settings.set_layout("weights_splitter", weights.histogram.splitter_state())
            settings.set_note("histogram", weights.histogram.controls.to_text())
        settings.set_note("page", panels.page)
        document, rows = panels.selection.document, panels.selection.rows
        settings.set_note("front", "" if document is None else str(document.path))
        if document is not None:
            name = document.model.tensors.columns.names[rows[0]] if rows else ""
            settings.set_model_note(document.path, "tensor", name)
            if panels.references.decided:  # else what was chosen before may be opened again
                note = _note_of(panels.references.original)
                settings.set_model_note(document.path, "reference", note)
            other = panels.references.other
            settings.set_model_note(document.path, "other", str(other.path) if other else "")

    @property
    def front(self) -> Path | None:
        """The model that was in front at the last end; None if none was."""
        text = self._settings.note("front")
        return Path(text) if text else None

    def show_last_page(self) -> None:
        """Bring the page to the front that was there at the last end."""
        name = self._settings.note("page")
        if name in PANELS:
            self._panels.show_page(name)

    def recall(self, document: Document | None) -> None:
        """Select the tensor of the current model that was selected, and what it was compared with.

        A model to compare with is chosen once it is open.
        """
        panels, settings = self._panels, self._settings
        if document is None or panels.selection.document is not document:
            return
        row = self.tensor_of(document)
        if row is not None and not panels.selection.rows and not is_address(document.path):
            panels.selection.select_tensors([row])
        by_path = {str(one.path): one for one in panels.references.documents}
        if panels.references.other is None:
            panels.references.choose_other(by_path.get(settings.model_note(document.path, "other")))
        kind, _, what = settings.model_note(document.path, "reference").partition(" ")
        if panels.references.decided:
            return
        if kind == _NOTHING:
            panels.references.choose(None)
        if not what:
            return
        from explorer.analysis.rounding import rounding_types  # noqa: PLC0415 - as above

        if kind == "type" and what in rounding_types(weighed=False):
            panels.references.choose(Rounding(what))
        elif kind == "model" and what in by_path:
            panels.references.choose(by_path[what])

    def knows_reference(self, document: Document) -> bool:
        """Return whether it is known what a model was compared with last, be it nothing."""
        return any(
            self._settings.model_note(document.path, name) for name in ("reference", "other")
        )

    def lets_look_for_original(self, document: Document) -> bool:
        """Return whether a model was not compared with nothing, or with a type, on purpose."""
        kind, _, _ = self._settings.model_note(document.path, "reference").partition(" ")
        return kind in ("", "model")

    def _built(self) -> tuple[LibraryView | None, MetadataView | None, WeightsView | None]:
        panels = self._panels
        return panels.library.built, panels.metadata.built, panels.weights.built

    def tensor_of(self, document: Document) -> int | None:
        """Return the content row of the tensor of a model that was selected last, or None."""
        name = self._settings.model_note(document.path, "tensor")
        names = document.model.tensors.columns.names
        return names.index(name) if name and name in names else None

    def save_columns(self, name: str) -> None:
        table = self.tables[name]
        if table.table.content_count:  # widths of an empty list would fit nothing
            self._settings.set_layout(name, table.columns_state())


_NOTHING: Final = "nothing"


def _note_of(reference: Reference) -> str:
    """Return what a model is compared with as a text to keep."""
    if reference is None:
        return _NOTHING
    return (
        f"model {reference.path}"
        if isinstance(reference, Document)
        else f"type {reference.type_name}"
    )
