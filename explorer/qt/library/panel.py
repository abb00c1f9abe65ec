"""The library: every store of this machine, its models and its blobs.

Scans, opened branches and facts about models come from workers. Nothing is read before the panel
is shown for the first time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PySide6 import QtWidgets
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible, QPalette, QResizeEvent, QShowEvent

from explorer.errors import ExplorerError
from explorer.formats import Severity
from explorer.present.fits import ModelFit, Target, known_fits
from explorer.present.model import mark
from explorer.present.stores import reclaimable, reclaimable_text
from explorer.present.tables.library import StoredFile, lost_text
from explorer.present.tables.lines import Line, line
from explorer.qt.jobs import JobSlot
from explorer.qt.library import readers
from explorer.qt.library.blobs import BlobsPage, blob_facts
from explorer.qt.library.commands import Commands, FreeDialog
from explorer.qt.library.contents import read_text
from explorer.qt.library.model import LibraryModel
from explorer.qt.library.nodes import LibraryColumn, Node, facts_of, heading_of, total_of
from explorer.qt.library.rows import Listing, Row, title_of
from explorer.qt.library.tree import LibraryTree
from explorer.qt.services import Services
from explorer.qt.settings import Settings
from explorer.qt.theme import Space, TextSize, style_text
from explorer.qt.widgets.building import LINE, NOTE, column, row
from explorer.qt.widgets.controls import button
from explorer.qt.widgets.labels import ElidedLabel, facts_form
from explorer.qt.widgets.pages import ContentPage
from explorer.qt.widgets.segments import SegmentBar
from explorer.qt.widgets.table_view import FilterBar
from explorer.qt.widgets.text_view import TextView
from explorer.stores.entries import Entry
from explorer.stores.known import known_headers
from explorer.stores.library import Details
from explorer.text import bytes_text, counted, integer_text, plain_text

_NO_MODELS: Final = (
    "No downloaded models yet",
    "The models that Ollama, Hugging Face, LM Studio and llama.cpp download are listed here as "
    "soon as there are any. Do you keep models elsewhere? Add that folder. Or look around in a "
    "small demo model of random weights.",
    "Open the &demo model",
)
_WIDE: Final = 1300  # pixels of the panel in a window of 1,400, beside the rail
_SCANNED: Final = {
    *(LibraryColumn.NAME, LibraryColumn.BYTES, LibraryColumn.MODIFIED, LibraryColumn.USED)
}
"""Columns that a scan fills; the others need models' headers."""


class _Facts(QtWidgets.QScrollArea):
    """Scrolls a long text by keys."""

    accessible_role = QAccessible.Role.Pane


class DetailPane(QtWidgets.QWidget):
    """Facts and problems of the current row; of a template, a licence and the like its text."""

    def __init__(self, app: Services, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self._jobs = JobSlot(app.runner, self)
        self.heading = ElidedLabel(self)
        style_text(self.heading, TextSize.SECTION)
        self.heading.setContentsMargins(*LINE)
        self._scroll = _Facts(self)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QtWidgets.QFrame.Shape.NoFrame)
        self._scroll.setAccessibleName("About the selected row")
        self.text = TextView(self)
        self._stack = QtWidgets.QStackedWidget(self)
        self._stack.addWidget(self._scroll)
        self._stack.addWidget(self.text)
        column(self.heading, (self._stack, 1), of=self)
        self.show_node(None)

    @property
    def shows_text(self) -> bool:
        """Whether a text is shown, which can be searched."""
        return self._stack.currentWidget() is self.text

    @property
    def about(self) -> str:
        """The facts in lines, as a screen reader has them."""
        return self._scroll.accessibleDescription()

    def show_node(self, node: Node | None) -> None:
        """Show a row of the tree; a text is read in the background."""
        self._jobs.cancel()
        if node is None:
            self._say("Select a row to read about it.")
        elif node.row.text and node.row.path is not None:
            self._read(node, node.row.path)
        else:
            self._say(heading_of(node), facts_of(node))

    def show_file(self, file: StoredFile | None) -> None:
        self._jobs.cancel()
        if file is None:
            self._say("Select files to see what removing them frees.")
        else:
            self._say(title_of(file.blob.digest), blob_facts(file))

    def _read(self, node: Node, path: Path) -> None:
        title, facts = heading_of(node), facts_of(node)
        if not self.shows_text or self.heading.text() != title:
            self._say(title, facts)

        def show(text: str) -> None:
            self.heading.setText(title)
            self.text.show_text(text)
            self._stack.setCurrentWidget(self.text)

        def fail(error: ExplorerError) -> None:
            self._say(title, [line("Problems", f"{mark(Severity.ERROR)}  {error}"), *facts])

        job_title = f"Reading {title}"
        self._jobs.run(job_title, lambda _job: read_text(path), show, fail)

    def _say(self, heading: str, facts: Sequence[Line] = ()) -> None:
        self.heading.setText(heading)
        role = QPalette.ColorRole
        self.heading.setForegroundRole(role.WindowText if facts else role.PlaceholderText)
        page = QtWidgets.QWidget(self)
        column(facts_form(facts, page), 1, of=page, margins=NOTE)
        self._scroll.setWidget(page)
        text = "\n".join(f"{fact.title}: {fact.text}" for fact in facts)
        self._scroll.setAccessibleDescription(plain_text(text, lines=True))
        self._stack.setCurrentWidget(self._scroll)
        self.text.clear()


class LibraryView(QtWidgets.QWidget):
    """Every store of this machine, its models and its blobs.

    A filter above two lists, the details of the current row below them, and a sum.

    Args:
        app: Runs scans and readings.
        settings: Where folders of the user's own are remembered, and the panel's layout.
        parent: The window.
        places: Returns the stores to read; called in a worker.

    Signals:
        scanned: A scan has finished; how many models there are.
    """

    scanned = Signal(int)

    def __init__(
        self,
        app: Services,
        settings: Settings,
        parent: QtWidgets.QWidget | None = None,
        *,
        places: readers.Places = readers.machine_places,
    ) -> None:
        super().__init__(parent)
        self.app = app
        self._make_widgets(app)
        self._settings = settings
        self._rows: tuple[Row, ...] | None = None
        self._entry_count = 0
        self._asked = False  # for a scan
        self._changed = False  # on disk, while a scan ran
        self.scanner = readers.Scanner(app.runner, places, self)
        title = "Reading what the models are"
        self.details = readers.EntryReader(app.runner, title, known_headers, self)
        self.target: Target | None = None
        title = "Working out which models fit"
        self.fits = readers.EntryReader(
            app.runner, title, lambda: known_fits(self.target or readers.this_target()), self
        )
        self.contents = readers.ContentsReader(app.runner, self)
        self.watch = readers.FolderWatch(self)
        self.commands = Commands(self, self.tree, self.blobs, app, settings)
        self._connect()
        self.restore_layout(settings)
        self._show_state()

    def _make_widgets(self, app: Services) -> None:
        self.bar = FilterBar("", "", self)
        self.add_button = button(self, "Add folder…", "List models of a folder")
        self.scan_button = button(self, "", "")
        self.choice = SegmentBar("What is listed", self)
        buttons = self.add_button, self.scan_button
        self.setTabOrder(self.choice, self.add_button)
        self.setTabOrder(self.add_button, self.scan_button)
        top = row((self.bar, 1), self.choice, *buttons, margins=(0, 0, 0, 0), spacing=Space.TIGHT)
        self.model = LibraryModel(self)
        self.tree = LibraryTree(self.model, self)
        self.blobs = BlobsPage(app, self)
        self.lists = QtWidgets.QStackedWidget(self)
        for listed, title in ((self.tree, "Models"), (self.blobs, "Files")):
            self.lists.addWidget(listed)
            self.choice.addTab(title)
        self.choice.currentChanged.connect(self.lists.setCurrentIndex)
        self.lists.currentChanged.connect(self.choice.setCurrentIndex)
        self.pane = DetailPane(app, self)
        self.lists.currentChanged.connect(self._show_hint)
        self._show_hint()
        self.splitter = QtWidgets.QSplitter(Qt.Orientation.Vertical, self)
        self.splitter.addWidget(self.lists)
        self.splitter.addWidget(self.pane)
        self.splitter.setStretchFactor(0, 3)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setChildrenCollapsible(False)
        self.page = ContentPage(self, self.splitter)
        self.total = ElidedLabel(self)
        self.free_button = QtWidgets.QPushButton(self)
        self.free_button.setToolTip("Show the command that removes it. Nothing is removed here")
        self.compare_button = QtWidgets.QPushButton("Co&mpare", self)
        self.compare_button.setToolTip("Show what the two selected models differ in")
        self.open_button = QtWidgets.QPushButton("&Open", self)
        self.open_button.setToolTip("Open the selected models")
        self.open_button.setDefault(True)
        acting = self.free_button, self.compare_button, self.open_button
        below = row((self.total, 1), *acting, margins=LINE)
        column(top, (self.page, 1), below, of=self)

    def _connect(self) -> None:
        self.bar.changed.connect(self._filter)
        self.bar.left_down.connect(self.enter_list)
        self.add_button.clicked.connect(self.commands.ask_folder)
        self.commands.model_chosen.connect(self.show_model)
        self.commands.rescan_requested.connect(self.rescan)
        self.scan_button.clicked.connect(self._toggle_scan)
        self.scanner.listed.connect(self._show_listing)
        self.scanner.finished.connect(self._end_scan)
        self.scanner.failed.connect(self._fail_scan)
        self.scanner.stopped.connect(self._show_state)
        self.model.contents_wanted.connect(self.contents.read)
        self.contents.found.connect(self._show_contents)
        self.contents.stopped.connect(self._forget_contents)
        self.details.found.connect(self._show_details)
        self.details.finished.connect(self._end_details)
        self.fits.found.connect(self._show_fits)
        self.fits.finished.connect(self._order_again)
        self.watch.changed.connect(self._rescan_changed)
        self.tree.opened.connect(self.commands.open_node)
        self.tree.sight_changed.connect(self._prefer_visible)
        self.tree.current_moved.connect(self.pane.show_node)
        self.tree.selection_moved.connect(self._show_total)
        self.blobs.file_chosen.connect(self.pane.show_file)
        self.open_button.clicked.connect(self.commands.open_selected)
        self.compare_button.clicked.connect(self.commands.compare)
        self.free_button.clicked.connect(self.free_space)
        self.blobs.opened.connect(self.commands.open_file)
        self.blobs.table.selection_moved.connect(self._show_total)
        self.lists.currentChanged.connect(self.refresh_pane)
        self.lists.currentChanged.connect(self._show_state)

    @property
    def listed(self) -> list[tuple[Entry, str]]:
        """All models that the last scan found, with the program of each."""
        stores = (row.store for row in self._rows or () if row.store is not None)
        return [(entry, store.kind.program) for store in stores for entry in store.entries]

    # Scanning

    def rescan(self) -> None:
        """Read all stores anew; what is selected and open stays so."""
        self._asked = True
        self._changed = False
        self.watch.stop()
        self.scanner.scan(self._settings.library_folders)
        self._show_state()

    def _rescan_changed(self) -> None:
        if self.scanner.busy:
            self._changed = True  # the scan may have passed there already
        else:
            self.rescan()

    def _toggle_scan(self) -> None:
        if self.scanner.busy:
            self.scanner.stop()
        else:
            self.rescan()

    def _show_listing(self, listing: Listing) -> None:
        self.model.set_rows(listing.rows)
        self._rows, self._entry_count = listing.rows, listing.entry_count
        self._show_state()

    def _end_scan(self, listing: Listing, blobs: list[StoredFile]) -> None:
        self.blobs.show_blobs(blobs)
        self._show_listing(listing)  # after them: the line below both counts what is nobody's
        self.watch.set_pace(self.scanner.took_seconds)
        self.watch.watch(listing.watched)
        entries = [entry for node in self.model.entries() if (entry := node.row.entry) is not None]
        known = self.model.details
        self.model.details = {entry: known[entry] for entry in entries if entry in known}
        fits = self.model.fits
        self.model.fits = {entry: fits[entry] for entry in entries if entry in fits}
        self.details.read(entry for entry in entries if entry not in known)
        if not self.details.busy:
            self._read_fits()
        self._prefer_visible()
        self.refresh_pane()
        self.scanned.emit(listing.entry_count)
        if self._changed:
            self.watch.remind()

    def _fail_scan(self, error: ExplorerError) -> None:
        self._show_state()
        self.app.report(error)

    # Facts about models, and what is in them

    def _prefer_visible(self) -> None:
        entries = [node.row.entry for node in self.tree.visible_nodes()]
        for reader in (self.details, self.fits):
            reader.prefer([entry for entry in entries if entry is not None])

    def plan_for(self, target: Target) -> None:
        """Show which models fit another machine."""
        if target == self.target:
            return
        self.target = target
        self.fits.cancel()
        known = list(self.model.fits)
        self.model.fits.clear()
        self.model.notify_learned(known)
        if self._rows is not None and not self.scanner.busy and not self.details.busy:
            self._read_fits()

    def _read_fits(self) -> None:
        entries = [entry for node in self.model.entries() if (entry := node.row.entry) is not None]
        self.fits.read(entry for entry in entries if entry not in self.model.fits)

    def _show_details(self, found: list[tuple[Entry, Details]]) -> None:
        self.model.set_details(found)
        self.tree.widen_columns()
        self._refresh_current(found)

    def _show_fits(self, found: list[tuple[Entry, ModelFit]]) -> None:
        self.model.fits.update(found)
        self.model.notify_learned(entry for entry, _ in found)
        self.tree.widen_columns()
        self._refresh_current(found)

    def _refresh_current(self, found: Sequence[tuple[Entry, object]]) -> None:
        node = self.tree.current_node()
        if node is not None and any(entry == node.row.entry for entry, _ in found):
            self.refresh_pane()

    def _end_details(self) -> None:
        self._order_again()
        self._read_fits()

    def _order_again(self) -> None:
        if self.bar.text or self.tree.header().sortIndicatorSection() not in _SCANNED:
            self.model.refresh_order()
            self._show_state()

    def _show_contents(self, node: Node, rows: tuple[Row, ...]) -> None:
        with self.tree.saved_place():
            self.model.set_contents(node, rows)

    def _forget_contents(self, node: Node) -> None:
        self.model.forget_contents(node)
        self.tree.collapse(self.model.index_of(node))

    # What is shown

    @property
    def shows_blobs(self) -> bool:
        """Whether the list of blobs is shown."""
        return self.lists.currentWidget() is self.blobs

    def _show_hint(self) -> None:
        """Say what can be filtered in the list that is shown."""
        if self.shows_blobs:
            hint = "Filter:  unused  duplicate  license  llama3  sha256:…"
            tip = (
                "Every word must be found: in what it is, its state, the store, the digest, or the "
                "models that use it."
            )
        else:
            hint = "Filter:  qwen  fits:yes  size<10G  context>32k"
            tip = (
                "Every word must be found: in the name, the architecture, the type or a problem. "
                "Digits of a digest find the models that use that blob.\n"
                "fits:yes   fits:partly   fits:no   size<10G   context>32k   params>7B"
            )
        self.bar.show_hint(hint, tip)

    def show_model(self, node: Node) -> None:
        """Select a model in the tree; the filter is cleared if it hides it."""
        self.lists.setCurrentWidget(self.tree)
        if not self.model.is_shown(node):
            self.bar.edit.clear()
        for above in node.upwards():
            if above is not node:
                self.tree.setExpanded(self.model.index_of(above), True)
        self.tree.select_node(node)
        self.tree.setFocus(Qt.FocusReason.OtherFocusReason)

    def focus_search(self) -> None:
        """Search in the text where the focus is in it; else filter."""
        if self.pane.shows_text and self.pane.isAncestorOf(self.focusWidget()):
            self.pane.text.focus_search()
        else:
            self.bar.focus()

    def enter_list(self) -> None:
        """Move the focus from the filter into the list shown."""
        shown = self.blobs.table if self.shows_blobs else self.tree
        shown.setFocus(Qt.FocusReason.OtherFocusReason)
        if shown is self.tree and not self.tree.currentIndex().isValid():
            self.tree.setCurrentIndex(self.model.index(0, 0))

    def refresh_pane(self) -> None:
        """Show the details of the current row."""
        if self.shows_blobs:
            self.pane.show_file(self.blobs.current_file())
        elif not self.pane.shows_text or self.tree.current_node() is None:
            self.pane.show_node(self.tree.current_node())

    def restore_layout(self, settings: Settings) -> None:
        """Restore widths and order of columns, and the splitter."""
        self.tree.column_layout.restore(settings.layout("library"))
        self.blobs.restore(settings.layout("downloads_blobs"))
        self.splitter.restoreState(settings.layout("downloads_splitter"))

    def summary(self, rows: Sequence[Row]) -> str:
        """Return the sum of the selected rows, or else of all, with what no model uses."""
        nodes = self.tree.selected_nodes()
        total = total_of(nodes or self.model.stores)
        size = bytes_text(total.nbytes)
        if not nodes:
            stores = [row.store for row in rows if row.store is not None]
            parts = f"{size} on disk", reclaimable_text(*reclaimable(stores))
            return "   ·   ".join(filter(None, parts))
        chosen = counted(total.models or total.others, "model" if total.models else "row")
        text = f"{chosen} selected: {size} on disk"
        if total.apart > total.nbytes:
            shared = bytes_text(total.apart - total.nbytes)
            text += f" ({shared} that they share counted once)"
        return text

    def offer_removal(self) -> None:
        """Offer to free what is selected, or else what is unused, if there is anything."""
        frees = sum(self.blobs.removals().values())
        self.free_button.setText(f"F&ree {bytes_text(frees)}…" if frees else "F&ree space…")
        self.free_button.setEnabled(bool(frees or (self.blobs.files and not self.shows_blobs)))

    def save_layout(self) -> None:
        """Remember widths and order of columns, and the splitter."""
        if not self.tree.is_narrow:
            self._settings.set_layout("library", self.tree.header().saveState())
        self._settings.set_layout("downloads_splitter", self.splitter.saveState())
        if self.blobs.files:  # widths of an empty list would fit nothing
            self._settings.set_layout("downloads_blobs", self.blobs.table.columns_state())

    def _filter(self, text: str) -> None:
        self.model.set_filter(text)
        if self.tree.currentIndex().isValid():
            self.tree.scrollTo(self.tree.currentIndex())
        self.blobs.filter(text)
        self._show_state()

    def _show_state(self) -> None:
        busy = self.scanner.busy
        self.scan_button.setText("Stop" if busy else "Rescan")
        self.scan_button.setToolTip("Stop reading" if busy else "Read all stores again (F5)")
        listed = self.blobs.model if self.shows_blobs else self.model
        self.bar.say(() if self.shows_blobs else self.model.filter_problems)
        if self._has_rows and (busy or not self.bar.text or listed.rowCount()):
            self.page.show_content()
        elif self._has_rows:
            heading = f"Nothing matches “{self.bar.text}”."
            self.page.show_message(heading, "", "Clear the filter", self._clear_filter)
        elif busy or not self._asked:
            self.page.show_message("Looking for downloaded models…", "")
        elif self._rows is None:
            self.page.show_message("Reading was stopped", "Press F5 to rescan.")
        else:
            self.page.show_message(*_NO_MODELS, self.app.open_demo)
        self._show_total()

    @property
    def _has_rows(self) -> bool:
        """Whether a store has something to list, or could not be read."""
        rows = self._rows or ()
        return any(row.children or row.problems or row.store is None for row in rows)

    def _clear_filter(self) -> None:
        self.bar.edit.clear()
        self.bar.focus()

    def _show_total(self) -> None:
        count = self._entry_count
        if self.scanner.busy:
            text = f"{counted(count, 'model')} so far…"
        elif self.shows_blobs:
            text = self.blobs.count_text()
        elif self.bar.text:
            shown = integer_text(self.model.shown_count())
            text = f"{shown} of {counted(count, 'model')}"
        else:
            text = counted(count, "model")
        self.bar.status.setText(text)
        if self.shows_blobs:
            self.total.setText(self.blobs.summary())
        else:  # sizes of stores are known at their end
            busy = self.scanner.busy and not self.tree.selected_nodes()
            self.total.setText("" if busy else self.summary(self._rows or ()))
        self.offer_removal()
        self.open_button.setEnabled(bool(self.commands.selected()))
        self.compare_button.setVisible(not self.shows_blobs and len(self.commands.models()) == 2)

    def free_space(self) -> None:
        """Show the commands that free space; without any, the list of the largest files."""
        removals = self.blobs.removals()
        self.bar.edit.clear()  # it may hide what they remove
        if removals:
            FreeDialog(removals, lost_text(self.blobs.files, removals), self).open()
        else:
            self.lists.setCurrentWidget(self.blobs)
            self.enter_list()

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self._asked:
            self.rescan()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wide = self.width() >= _WIDE  # the pane stands beside the lists where there is room
        self.splitter.setOrientation(Qt.Orientation.Horizontal if wide else Qt.Orientation.Vertical)
