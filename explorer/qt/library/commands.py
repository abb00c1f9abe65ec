"""What one can do with the selected rows, by key and by menu."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QProcess, Qt, QUrl, Signal
from PySide6.QtGui import QAction, QDesktopServices, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QFileDialog, QMenu

from explorer.errors import ExplorerError
from explorer.formats.ollama.manifest import OllamaName
from explorer.qt.jobs import JobRunner, JobSlot
from explorer.qt.library.blobs import StoredFile
from explorer.qt.library.layout import PanelLayout
from explorer.qt.library.rows import Node, RowKind
from explorer.qt.settings import Settings
from explorer.stores import StoreKind
from explorer.text import plain_text

# Shows a file where the system's file manager has it.


def folder_of(path: Path) -> Path:
    """Return the folder in which a path is to be shown. For a worker: it looks at the disk."""
    return path if os.path.isdir(path) else path.parent


def reveal(path: Path, folder: Path) -> bool:
    """Open the file manager at a file, selected where the system can do that.

    Args:
        path: The file.
        folder: What `folder_of` said about it.

    Returns:
        Whether a file manager was started.
    """
    if sys.platform == "darwin":
        return bool(QProcess.startDetached("open", ["-R", str(path)])[0])
    if sys.platform == "win32":
        return bool(QProcess.startDetached("explorer", ["/select,", str(path)])[0])
    return QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))


# A selected row as the commands see it, whichever list it is in.


_NAME_PARTS: Final = 4  # of the path of a manifest


@dataclass(frozen=True, slots=True)
class Subject:
    """A selected row.

    Attributes:
        name: What to call it.
        path: Where it is, if anywhere.
        digest: Of a blob: ``sha256:`` and 64 digits, or the hub's etag; else empty.
        run_command: What makes Ollama run it; empty if it cannot.
        own_folder: The folder, if it is one that the user added.
    """

    name: str
    path: Path | None = None
    digest: str = ""
    run_command: str = ""
    own_folder: Path | None = None


def subject_of(node: Node, own_folders: Sequence[Path]) -> Subject:
    """Return a row of the tree as a subject.

    Args:
        node: The row.
        own_folders: Folders that the user added.
    """
    row = node.row
    root = None if row.place is None else row.place.root
    return Subject(
        (row.name or row.title) if row.entry is None else row.entry.name,
        row.path,
        _digest_text(row.digest),
        _run_command(node),
        root if root in own_folders else None,
    )


def subject_of_file(file: StoredFile) -> Subject:
    """Return a blob as a subject."""
    return Subject(file.digest, file.path, _digest_text(file.digest) if file.finished else "")


def _digest_text(name: str) -> str:
    return name.replace("sha256-", "sha256:", 1)


def _run_command(node: Node) -> str:
    """Return the command that runs a model; only a valid name may come near a shell."""
    entry = node.row.entry
    if entry is None or entry.format is None:
        return ""
    place = node.store.row.place
    if place is None or place.kind is not StoreKind.OLLAMA:
        return ""
    parts = entry.path.parts[-_NAME_PARTS:]
    name = OllamaName(*parts) if len(parts) == _NAME_PARTS else None
    return f"ollama run {name}" if name is not None and name.valid else ""


_UNOPENED = frozenset({RowKind.STORE, RowKind.FAMILY, RowKind.BRANCH, RowKind.PARTIAL})


class Commands(QObject):
    """The commands of the panel of downloaded models.

    Args:
        panel: The panel; the commands' keys work wherever in it the focus is.
        runner: Background work.
        settings: Where folders of the user's own are remembered.

    Signals:
        open_requested: A model shall be opened; its path.
        rescan_requested: The stores shall be read again.
        failed: What was asked for cannot be done; an `ExplorerError`.
    """

    open_requested = Signal(Path)
    rescan_requested = Signal()
    failed = Signal(object)

    def __init__(self, panel: PanelLayout, runner: JobRunner, settings: Settings) -> None:
        super().__init__(panel)
        self._panel = panel
        self._settings = settings
        self._jobs = JobSlot(runner, self)
        self.open = self._action(self.tr("&Open"), self.open_current)
        self.reveal = self._action(self.tr("Show in &file manager"), self._reveal, "Ctrl+Shift+E")
        self.remove = self._action(self.tr("Re&move folder from this list"), self._remove_folders)
        self.rescan = self._action(self.tr("Read &again"), self._ask_rescan, "F5")
        self.copy_name = self._copying(self.tr("Copy &name"), "", lambda each: each.name)
        self.copy_path = self._copying(
            self.tr("Copy &path"), "Ctrl+Shift+P", lambda each: str(each.path or "")
        )
        self.copy_digest = self._copying(
            self.tr("Copy &digest"), "Ctrl+Shift+D", lambda each: each.digest
        )
        self.copy_run = self._copying(
            self.tr("Copy “ollama &run …”"), "Ctrl+Shift+R", lambda each: each.run_command
        )
        self.copy_name.setShortcut(QKeySequence(QKeySequence.StandardKey.Copy))
        self.copy_name.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        panel.removeAction(self.copy_name)
        panel.tree.addAction(self.copy_name)  # the table of blobs copies whole rows

    def _action(self, text: str, slot: Callable[[], object], keys: str = "") -> QAction:
        action = QAction(text, self)
        if keys:
            action.setShortcut(QKeySequence(keys))
            action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        action.triggered.connect(slot)
        self._panel.addAction(action)
        return action

    def _copying(self, text: str, keys: str, line: Callable[[Subject], str]) -> QAction:
        def copy() -> None:
            # escaped, for a terminal runs what is pasted up to a line end
            lines = [plain_text(line(each)) for each in self.subjects()]
            if any(lines):
                QGuiApplication.clipboard().setText("\n".join(filter(None, lines)))

        return self._action(text, copy, keys)

    def subjects(self) -> list[Subject]:
        """Return what is selected in the list that is shown."""
        panel = self._panel
        if panel.lists.currentWidget() is panel.blobs:
            return [subject_of_file(file) for file in panel.blobs.selected_files()]
        folders = self._settings.library_folders
        return [subject_of(node, folders) for node in panel.tree.selected_nodes()]

    def menu(self) -> QMenu:
        """Return the menu of the selected rows, to be shown; closing it deletes it."""
        panel, subjects = self._panel, self.subjects()
        menu = QMenu(panel)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        in_blobs = panel.lists.currentWidget() is panel.blobs
        node = panel.tree.current_node()
        if in_blobs or (node is not None and node.row.kind not in _UNOPENED):
            menu.addAction(self.open)
        if any(each.path for each in subjects):
            menu.addAction(self.reveal)
        menu.addSeparator()
        for action, useful in (
            (self.copy_name, bool(subjects) and not in_blobs),
            (self.copy_path, any(each.path for each in subjects)),
            (self.copy_digest, any(each.digest for each in subjects)),
            (self.copy_run, any(each.run_command for each in subjects)),
        ):
            if useful:
                menu.addAction(action)
        if in_blobs:
            menu.addActions(panel.blobs.table.actions())
        menu.addSeparator()
        if any(each.own_folder for each in subjects):
            menu.addAction(self.remove)
        menu.addAction(self.rescan)
        if not in_blobs:
            panel.tree.add_sorting(menu)
        return menu

    # Opening

    def open_current(self) -> None:
        """Open what the current row of the list shown belongs to."""
        panel = self._panel
        node, file = panel.tree.current_node(), panel.blobs.current_file()
        if panel.lists.currentWidget() is panel.blobs:
            if file is not None:
                self.open_file(file)
        elif node is not None:
            self.open_node(node)

    def open_node(self, node: Node) -> None:
        """Open the model to which a row belongs, or a blob that belongs to none."""
        if node.row.kind is RowKind.BLOB and node.row.path is not None:
            self.open_requested.emit(node.row.path)
            return
        model: Node | None = node
        while model is not None and model.row.entry is None:
            model = model.parent
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
        for node in self._panel.model.entries() if file.used_by else ():
            if node.row.entry is not None and node.row.entry.name in file.used_by:
                self._panel.show_model(node)
                return
        if file.finished:
            self.open_requested.emit(file.path)
        else:
            what = self.tr("is not complete; download the model again to go on with it")
            self.failed.emit(ExplorerError(what, file.path))

    def _reveal(self) -> None:
        path = next((each.path for each in self.subjects() if each.path is not None), None)
        if path is None:
            return

        def show(folder: Path) -> None:
            if not reveal(path, folder):
                self.failed.emit(ExplorerError(self.tr("no file manager could be started"), path))

        title = self.tr("Looking for the folder")
        self._jobs.run(title, lambda _job: folder_of(path), show, self.failed.emit)

    def _ask_rescan(self) -> None:
        self.rescan_requested.emit()

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
        gone = {each.own_folder for each in self.subjects()}
        kept = [folder for folder in self._settings.library_folders if folder not in gone]
        self._settings.library_folders = kept
        self.rescan_requested.emit()
