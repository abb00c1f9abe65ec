"""The panel of downloaded models: which of these 40 GB blobs is which model.

Scans, opened branches and facts about models come from workers; this panel puts them together and
says what it all comes to. Nothing is read before the panel is shown for the first time.
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from explorer.errors import ExplorerError
from explorer.qt.jobs import JobRunner
from explorer.qt.library.commands import Commands
from explorer.qt.library.layout import PanelLayout
from explorer.qt.library.listing import Listing
from explorer.qt.library.readers import (
    ContentsReader,
    DetailsReader,
    FolderWatch,
    Places,
    Scanner,
    machine_places,
)
from explorer.qt.library.rows import LibraryColumn, Node
from explorer.qt.library.totals import total_of
from explorer.qt.settings import Settings
from explorer.text import bytes_text, integer_text

_DETAILED = frozenset(
    {
        LibraryColumn.ARCHITECTURE,
        LibraryColumn.PARAMETERS,
        LibraryColumn.QUANTIZATION,
        LibraryColumn.NOTE,
    }
)


class LibraryView(PanelLayout):
    """Every store of this machine, its models and its blobs.

    Args:
        runner: Background work.
        settings: Where folders of the user's own are remembered, and the panel's layout.
        parent: The window.
        places: Returns the stores to read; those of this machine if None. Called in a worker.

    Attributes:
        commands: What one can do with the selected rows.

    Signals:
        open_requested: A model shall be opened; its path.
        demo_requested: The demo model shall be opened.
        failed: Something that was asked for cannot be done; an `ExplorerError`.
        written: The list of blobs was exported; the file's path.
        scanned: A scan came to its end; how many models there are.
    """

    open_requested = Signal(Path)
    demo_requested = Signal()
    failed = Signal(object)
    written = Signal(str)
    scanned = Signal(int)

    def __init__(
        self,
        runner: JobRunner,
        settings: Settings,
        parent: QWidget | None = None,
        *,
        places: Places = machine_places,
    ) -> None:
        super().__init__(runner, parent)
        self._settings = settings
        self._seen_stores: set[str] = set()
        self._listing: Listing | None = None
        self._asked = False  # for a scan
        self._changed = False  # on disk, while a scan went on
        self.scanner = Scanner(runner, self.turnstile, places, self)
        self.details = DetailsReader(runner, self.turnstile, self)
        self.contents = ContentsReader(runner, self.turnstile, self)
        self.watch = FolderWatch(self)
        self.commands = Commands(self, runner, settings)
        self._connect()
        self.tree.header().restoreState(settings.layout("downloads"))
        self.blobs.restore(settings.layout("downloads_blobs"))
        self.splitter.restoreState(settings.layout("downloads_splitter"))
        self._show_state()

    def _connect(self) -> None:
        self.bar.changed.connect(self._filter)
        self.bar.left_down.connect(self._enter_list)
        self.add_button.clicked.connect(self.commands.ask_folder)
        self.commands.open_requested.connect(self.open_requested)
        self.commands.rescan_requested.connect(self.rescan)
        self.commands.failed.connect(self.failed)
        self.scan_button.clicked.connect(self._toggle_scan)
        self.empty.demo_requested.connect(self.demo_requested)
        self.empty.add_requested.connect(self.commands.ask_folder)
        self.scanner.listed.connect(self._show_rows)
        self.scanner.finished.connect(self._end_scan)
        self.scanner.failed.connect(self._fail_scan)
        self.scanner.stopped.connect(self._show_state)
        self.model.contents_wanted.connect(self.contents.read)
        self.contents.found.connect(self._show_contents)
        self.contents.stopped.connect(self._forget_contents)
        self.details.found.connect(self._show_details)
        self.details.finished.connect(self._end_details)
        self.watch.changed.connect(self._rescan_changed)
        self.tree.opened.connect(self.commands.open_node)
        self.tree.looked.connect(self._prefer_visible)
        self.tree.current_moved.connect(self.pane.show_node)
        self.tree.selection_moved.connect(self._show_total)
        for view in (self.tree, self.blobs.table):
            view.customContextMenuRequested.connect(
                lambda place, view=view: self.commands.menu().popup(
                    view.viewport().mapToGlobal(place)
                )
            )
        self.blobs.file_chosen.connect(self.pane.show_file)
        self.blobs.table.failed.connect(self.failed)
        self.blobs.table.exported.connect(self.written)
        self.blobs.opened.connect(self.commands.open_file)
        self.blobs.selection_moved.connect(self._show_total)
        self.lists.currentChanged.connect(self._change_list)

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

    def _show_rows(self, listing: Listing) -> None:
        with self.turnstile.taken(), self.tree.place_kept():
            self.model.merge(listing.rows)
        new = [node for node in self.model.stores if node.row.key not in self._seen_stores]
        for node in new:
            self._seen_stores.add(node.row.key)
            node.expanded = True
            index = self.model.index_of(node)
            if index.isValid():
                self.tree.setExpanded(index, True)
        self._listing = listing
        self._show_state()

    def _end_scan(self, listing: Listing) -> None:
        self._show_rows(listing)
        # each in its turn, so that keys and the mouse are heard in between
        for step in (self._show_blobs, self._follow, self._read_details, self._tell_scanned):
            QTimer.singleShot(0, self, step)

    def _show_blobs(self) -> None:
        if self._listing is not None and self._listing.blobs is not None:
            with self.turnstile.taken():
                self.blobs.show_blobs(self._listing.blobs)

    def _follow(self) -> None:
        if self._listing is not None and self._listing.blobs is not None:
            self.watch.set_pace(self.scanner.took_seconds)
            self.watch.watch(self._listing.watched)

    def _read_details(self) -> None:
        entries = [node.row.entry for node in self.model.entries() if node.row.entry is not None]
        known = self.model.details
        self.model.details = {entry: known[entry] for entry in entries if entry in known}
        self.details.read(entry for entry in entries if entry not in known)
        self._prefer_visible()

    def _tell_scanned(self) -> None:
        self._refresh_pane()
        self._show_state()
        if self._listing is not None and not self.scanner.busy:
            self.scanned.emit(self._listing.entry_count)
        if self._changed:
            self.watch.remind()

    def _fail_scan(self, error: ExplorerError) -> None:
        self._show_state()
        self.failed.emit(error)

    # Facts about models, and what is in them

    def _prefer_visible(self) -> None:
        with self.turnstile.taken():
            entries = [node.row.entry for node in self.tree.visible_nodes()]
        self.details.prefer(entry for entry in entries if entry is not None)

    def _show_details(self, found: object) -> None:
        assert isinstance(found, list)
        with self.turnstile.taken():
            self.model.set_details(found)
        node = self.tree.current_node()
        if node is not None and any(entry == node.row.entry for entry, _ in found):
            self._refresh_pane()

    def _end_details(self) -> None:
        if self.bar.text or self.tree.header().sortIndicatorSection() in _DETAILED:
            with self.turnstile.taken(), self.tree.place_kept():
                self.model.refresh_order()
            self._show_state()

    def _show_contents(self, node: Node, rows: object) -> None:
        assert isinstance(rows, tuple)
        with self.tree.place_kept():
            self.model.set_contents(node, rows)

    def _forget_contents(self, node: Node) -> None:
        self.model.forget_contents(node)
        self.tree.collapse(self.model.index_of(node))

    def _refresh_pane(self) -> None:
        if self.lists.currentWidget() is self.tree:
            if not self.pane.shows_text or self.tree.current_node() is None:
                self.pane.show_node(self.tree.current_node())
        else:
            self.pane.show_file(self.blobs.current_file())

    # What is shown

    def focus_search(self) -> None:
        """Search in the text where the focus is in it; else filter."""
        if self.pane.shows_text and self.pane.isAncestorOf(self.focusWidget()):
            self.pane.text.focus_search()
        else:
            self.bar.focus()

    def save_layout(self) -> None:
        """Remember widths and order of columns, and the splitter."""
        self._settings.set_layout("downloads", self.tree.header().saveState())
        self._settings.set_layout("downloads_splitter", self.splitter.saveState())
        if self.blobs.model.columns:
            header = self.blobs.table.horizontalHeader()
            self._settings.set_layout("downloads_blobs", header.saveState())

    def reset_layout(self) -> None:
        """Give columns and the splitter the sizes that they had at first."""
        self.tree.reset_columns()
        self.blobs.table.fit_columns()
        height = self.splitter.height()
        self.splitter.setSizes([3 * height // 4, height // 4])

    def _filter(self, text: str) -> None:
        with self.turnstile.taken():
            self.model.set_filter(text)
        self.blobs.filter(text)
        self._show_state()

    def _enter_list(self) -> None:
        if self.lists.currentWidget() is self.tree:
            self.tree.setFocus(Qt.FocusReason.OtherFocusReason)
            if not self.tree.currentIndex().isValid():
                self.tree.setCurrentIndex(self.model.index(0, 0))
        else:
            self.blobs.table.setFocus(Qt.FocusReason.OtherFocusReason)

    def _change_list(self) -> None:
        self._refresh_pane()
        self._show_total()

    def _show_state(self) -> None:
        busy = self.scanner.busy
        self.scan_button.setText(self.tr("Stop") if busy else self.tr("Read again"))
        self.scan_button.setToolTip(
            self.tr("Stop reading") if busy else self.tr("Read all stores anew (F5)")
        )
        rows = () if self._listing is None else self._listing.rows
        empty = self._listing is not None and not any(
            row.children or row.problems or row.store is None for row in rows
        )
        if empty and not busy:
            self.show_page(self.empty)
        elif self._listing is None or (empty and busy):
            self.say(
                self.tr("Reading was stopped. Press F5 to read again.")
                if self._asked and not busy
                else self.tr("Looking for downloaded models…")
            )
        else:
            self.show_page(self.splitter)
        self._show_total()

    def _show_total(self) -> None:
        count = 0 if self._listing is None else self._listing.entry_count
        blobs = self.lists.currentWidget() is self.blobs
        if self.scanner.busy:
            text = self.tr("{n} models so far…").format(n=integer_text(count))
        elif self.bar.text and not blobs:
            shown = integer_text(self.model.shown_count())
            text = self.tr("{shown} of {all} models").format(shown=shown, all=integer_text(count))
        else:
            text = self.tr("1 model") if count == 1 else self.tr("{n} models")
            text = text.format(n=integer_text(count))
        self.bar.status.setText(text)
        self.total.setText(self.blobs.summary() if blobs else self._tree_summary())

    def _tree_summary(self) -> str:
        nodes = self.tree.selected_nodes()
        if not nodes and self.scanner.busy:
            return ""  # what stores take is known at their end
        total = total_of(nodes or self.model.stores)
        size = bytes_text(total.nbytes)
        if not nodes:
            return self.tr("{size} on disk in all").format(size=size)
        count = total.models or total.others
        if total.models:
            one, many = self.tr("1 model selected"), self.tr("{n} models selected")
        else:
            one, many = self.tr("1 row selected"), self.tr("{n} rows selected")
        chosen = one if count == 1 else many.format(n=integer_text(count))
        text = self.tr("{chosen}: {size} on disk").format(chosen=chosen, size=size)
        if total.apart > total.nbytes:
            more = self.tr("{size} that they share counted once")
            text += f" ({more.format(size=bytes_text(total.apart - total.nbytes))})"
        return text

    def _show_menu(self, place: QPoint) -> None:
        self.commands.menu().popup(place)

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.LocaleChange:
            for store in self.model.stores:
                store.retell()
            self._refresh_pane()
            self._show_total()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self._asked:
            self.rescan()
