"""The commands on selected rows, by key and by menu."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QPoint, QProcess, Qt, QUrl, Signal, SignalInstance
from PySide6.QtGui import QAction, QDesktopServices, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QFileDialog, QMenu, QMessageBox, QWidget

from explorer.errors import ExplorerError
from explorer.formats.ollama.manifest import OllamaName
from explorer.qt.jobs import JobRunner, JobSlot
from explorer.qt.library.blobs import BlobsPage, StoredFile
from explorer.qt.library.nodes import Node
from explorer.qt.library.rows import RowKind
from explorer.qt.library.tree import LibraryTree
from explorer.qt.settings import Settings
from explorer.qt.widgets.building import add_action
from explorer.stores import StoreKind
from explorer.text import plain_text

_NAME_PARTS: Final = 4  # of the path of a manifest
_UNOPENED: Final = frozenset({RowKind.STORE, RowKind.FAMILY, RowKind.BRANCH, RowKind.PARTIAL})
_MOST_UNASKED: Final = 10
"""Most models that are opened at once without a question."""


def folder_of(path: Path) -> Path:
    """Return the folder in which a path is to be shown. For a worker: it looks at the disk."""
    return path if os.path.isdir(path) else path.parent


def reveal(path: Path, folder: Path) -> bool:
    """Open the file manager at a file, or in its folder; return whether one was started."""
    if sys.platform == "darwin":
        return bool(QProcess.startDetached("open", ["-R", str(path)])[0])
    if sys.platform == "win32":
        return bool(QProcess.startDetached("explorer", ["/select,", str(path)])[0])
    return QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))


@dataclass(frozen=True, slots=True)
class SelectedRow:
    """A selected row of either list.

    Attributes:
        digest: Of a blob: ``sha256:`` and 64 digits, or the hub's etag; else empty.
        run_command: What makes Ollama run it; empty if it cannot.
        own_folder: The folder, if it is one that the user added.
    """

    name: str
    path: Path | None = None
    digest: str = ""
    run_command: str = ""
    own_folder: Path | None = None


def _selected_node(node: Node, own_folders: Sequence[Path]) -> SelectedRow:
    row = node.row
    root = None if row.place is None else row.place.root
    return SelectedRow(
        (row.name or row.title) if row.entry is None else row.entry.name,
        row.path,
        _digest_text(row.digest),
        _run_command(node),
        root if root in own_folders else None,
    )


def _selected_file(file: StoredFile) -> SelectedRow:
    digest = file.blob.digest
    return SelectedRow(digest, file.blob.path, _digest_text(digest) if file.finished else "")


def _digest_text(name: str) -> str:
    return name.replace("sha256-", "sha256:", 1)


def _run_command(node: Node) -> str:
    """Return the command that runs a model; only a valid name may come near a shell."""
    entry, place = node.row.entry, node.store.row.place
    if entry is None or entry.format is None or place is None or place.kind is not StoreKind.OLLAMA:
        return ""
    parts = entry.path.parts[-_NAME_PARTS:]
    name = OllamaName(*parts) if len(parts) == _NAME_PARTS else None
    return f"ollama run {name}" if name is not None and name.valid else ""


class Commands(QObject):
    """The commands of the panel of downloaded models; their keys work everywhere in it.

    Signals:
        open_requested: The path of a model to open.
        model_chosen: A model to select in the tree; its `Node`.
        rescan_requested: The user wants to read the stores again.
        failed: A command failed; an `ExplorerError`.
    """

    open_requested = Signal(Path)
    model_chosen = Signal(object)
    rescan_requested = Signal()
    failed = Signal(object)

    def __init__(
        self,
        panel: QWidget,
        tree: LibraryTree,
        blobs: BlobsPage,
        runner: JobRunner,
        settings: Settings,
    ) -> None:
        super().__init__(panel)
        self._panel, self._tree, self._blobs = panel, tree, blobs
        self._settings = settings
        self._jobs = JobSlot(runner, self)
        self.open = self._action(self.tr("&Open"), self.open_selected)
        self.reveal = self._action(self.tr("Show in &file manager"), self._reveal, "Ctrl+Shift+E")
        self.remove = self._action(self.tr("Re&move folder from this list"), self._remove_folders)
        self.rescan = self._action(self.tr("Read &again"), self.rescan_requested, "F5")
        # of the tree alone: the table of blobs copies whole rows
        copy_name, key = self._copy_of("name"), QKeySequence.StandardKey.Copy
        self.copy_name = add_action(tree, self.tr("Copy &name"), copy_name, key)
        self.copy_path = self._action(self.tr("Copy &path"), self._copy_of("path"), "Ctrl+Shift+P")
        self.copy_digest = self._action(
            self.tr("Copy &digest"), self._copy_of("digest"), "Ctrl+Shift+D"
        )
        self.copy_run = self._action(
            self.tr("Copy “ollama &run …”"), self._copy_of("run_command"), "Ctrl+Shift+R"
        )
        for view in (tree, blobs.table):
            view.customContextMenuRequested.connect(partial(self._show_menu, view))

    def _action(
        self, text: str, slot: Callable[[], object] | SignalInstance, *keys: str
    ) -> QAction:
        return add_action(self._panel, text, slot, *keys, children=True)

    def _copy_of(self, what: str) -> Callable[[], None]:
        """Return what copies an attribute of the selected rows."""

        def copy() -> None:
            values = filter(None, (getattr(row, what) for row in self.selected()))
            # escaped, for a terminal runs what is pasted up to a line end
            lines = [plain_text(str(value)) for value in values]
            if lines:
                QGuiApplication.clipboard().setText("\n".join(lines))

        return copy

    def selected(self) -> list[SelectedRow]:
        """Return what is selected in the list that is shown."""
        if self._blobs.isVisibleTo(self._panel):
            return list(map(_selected_file, self._blobs.selected_files()))
        folders = self._settings.library_folders
        return [_selected_node(node, folders) for node in self._tree.selected_nodes()]

    def _show_menu(self, view: QAbstractItemView, place: QPoint) -> None:
        self.menu().popup(view.viewport().mapToGlobal(place))

    def menu(self) -> QMenu:
        """Return the menu of the selected rows, to be shown; closing it deletes it."""
        rows, in_blobs = self.selected(), self._blobs.isVisibleTo(self._panel)
        menu = QMenu(self._panel)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        node = self._tree.current_node()
        if in_blobs or (node is not None and node.row.kind not in _UNOPENED):
            menu.addAction(self.open)
        if any(each.path for each in rows):
            menu.addAction(self.reveal)
        menu.addSeparator()
        for action, what in (
            (self.copy_name, "" if in_blobs else "name"),
            (self.copy_path, "path"),
            (self.copy_digest, "digest"),
            (self.copy_run, "run_command"),
        ):
            if what and any(getattr(each, what) for each in rows):
                menu.addAction(action)
        if in_blobs:
            menu.addActions(self._blobs.table.actions())
        menu.addSeparator()
        if any(each.own_folder for each in rows):
            menu.addAction(self.remove)
        menu.addAction(self.rescan)
        if not in_blobs:
            self._tree.add_sorting(menu)
        return menu

    # Opening

    def open_selected(self) -> None:
        """Open what the selected rows of the list shown belong to; asks before it opens many."""
        if self._blobs.isVisibleTo(self._panel):
            file = self._blobs.current_file()
            if file is not None:
                self.open_file(file)
            return
        nodes = {id(node.model or node): node for node in self._tree.selected_nodes()}
        if len(nodes) <= _MOST_UNASKED or self._may_open(len(nodes)):
            for node in nodes.values():
                self.open_node(node)

    def _may_open(self, count: int) -> bool:
        question = self.tr("Open {n} models?").format(n=count)
        answer = QMessageBox.question(self._panel, self.tr("Open"), question)
        return answer is QMessageBox.StandardButton.Yes

    def open_node(self, node: Node) -> None:
        """Open the model to which a row belongs, or a blob that belongs to none."""
        if node.row.kind is RowKind.BLOB and node.row.path is not None:
            self.open_requested.emit(node.row.path)
            return
        model = node.model
        entry = None if model is None else model.row.entry
        if entry is None:
            return
        if entry.format is not None:
            self.open_requested.emit(entry.path)
            return
        reasons = [problem.what for problem in entry.problems]
        what = reasons[-1] if reasons else self.tr("there is nothing to open")
        self.failed.emit(ExplorerError(what, entry.path))

    def open_file(self, file: StoredFile) -> None:
        """Show the model that uses a blob; open one that none uses."""
        for node in self._tree.library.entries() if file.blob.used_by else ():
            if node.row.entry is not None and node.row.entry.name in file.blob.used_by:
                self.model_chosen.emit(node)
                return
        if file.finished:
            self.open_requested.emit(file.blob.path)
        else:
            what = self.tr("is not complete; download the model again to complete it")
            self.failed.emit(ExplorerError(what, file.blob.path))

    def _reveal(self) -> None:
        path = next((each.path for each in self.selected() if each.path is not None), None)
        if path is None:
            return

        def show(folder: Path) -> None:
            if not reveal(path, folder):
                self.failed.emit(ExplorerError(self.tr("no file manager could be started"), path))

        title = self.tr("Looking for the folder")
        self._jobs.run(title, lambda _job: folder_of(path), show, self.failed.emit)

    # Folders of the user's own

    def ask_folder(self) -> None:
        """Ask for a folder of models and list it from now on."""
        name = QFileDialog.getExistingDirectory(self._panel, self.tr("Add a folder of models"))
        if name:
            self.add_folder(Path(name))

    def add_folder(self, folder: Path) -> None:
        """List the models of a folder from now on."""
        folders = self._settings.library_folders
        if folder not in folders:
            self._settings.library_folders = [*folders, folder]
        self.rescan_requested.emit()

    def _remove_folders(self) -> None:
        gone = {each.own_folder for each in self.selected()}
        kept = [folder for folder in self._settings.library_folders if folder not in gone]
        self._settings.library_folders = kept
        self.rescan_requested.emit()
