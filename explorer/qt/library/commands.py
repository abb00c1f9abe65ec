"""The commands on selected rows, by key and by menu, and those that free space."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QPoint, QProcess, Qt, QUrl, Signal, SignalInstance
from PySide6.QtGui import QAction, QDesktopServices, QKeySequence, QPalette
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QMenu,
    QMessageBox,
    QWidget,
)

from explorer.errors import ExplorerError
from explorer.present.tables.library import StoredFile
from explorer.qt.jobs import Job
from explorer.qt.library.blobs import BlobsPage
from explorer.qt.library.nodes import Node
from explorer.qt.library.rows import RowKind
from explorer.qt.library.tree import LibraryTree
from explorer.qt.services import Services
from explorer.qt.settings import Settings
from explorer.qt.theme import Space, warning_colour
from explorer.qt.widgets.asking import ask_folder
from explorer.qt.widgets.building import add_action, column, copy_text
from explorer.qt.widgets.labels import plain_label
from explorer.qt.widgets.text_view import TextView
from explorer.text import bytes_text, counted, plain_text

_UNOPENED: Final = frozenset({RowKind.STORE, RowKind.FAMILY, RowKind.BRANCH, RowKind.PARTIAL})
_DIALOG_WIDTH, _DIALOG_HEIGHT = 760, 380
_MOST_UNASKED: Final = 10
"""Most models that are opened at once without a question."""


def show_in_folder(app: Services, path: Path) -> None:
    """Show a file in the file manager; whether its folder is there is looked at in a worker."""

    def show(folder: Path) -> None:
        if not reveal(path, folder):
            app.report(ExplorerError("no file manager could be started", path))

    def folder_of(_job: Job) -> Path:
        return path if os.path.isdir(path) else path.parent

    app.runner.run("Looking for the folder", folder_of, show, app.report)


def reveal(path: Path, folder: Path) -> bool:
    """Open the file manager at a file, or in its folder; return whether one was started."""
    if sys.platform == "darwin":
        return bool(QProcess.startDetached("open", ["-R", str(path)])[0])
    if sys.platform == "win32":
        return bool(QProcess.startDetached("explorer", ["/select,", str(path)])[0])
    return QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))


class FreeDialog(QDialog):
    """The commands that remove files, to be read before they are copied; nothing is removed here.

    Attributes:
        lost: The contents that have no copy left.
        text: The commands, one a line.
        copy: Copies them.
    """

    def __init__(self, removals: Mapping[str, int], lost: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Free space")
        what = counted(len(removals), "command")
        words = f"{what} to run in a terminal, freeing {bytes_text(sum(removals.values()))}. "
        about = plain_label(self, f"{words}This program removes nothing itself.", wraps=True)
        self.lost = plain_label(self, lost, wraps=True)
        self.lost.setVisible(bool(lost))
        palette = self.lost.palette()
        palette.setColor(QPalette.ColorRole.WindowText, warning_colour(palette))
        self.lost.setPalette(palette)
        self.text = TextView(self)
        self.text.show_text("\n".join(removals))
        self.text.setAccessibleName("Commands that free space")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        self.copy = buttons.addButton("&Copy", QDialogButtonBox.ButtonRole.ActionRole)
        self.copy.clicked.connect(self._copy)
        buttons.rejected.connect(self.reject)
        around = (Space.GROUP,) * 4
        parts = (about, self.lost, (self.text, 1), buttons)
        column(*parts, of=self, margins=around, spacing=Space.WIDE)
        self.resize(_DIALOG_WIDTH, _DIALOG_HEIGHT)
        self._lines = "\n".join(removals)

    def _copy(self) -> None:
        copy_text(self._lines)
        self.copy.setText("Copied")


class Commands(QObject):
    """The commands of the panel of downloaded models; their keys work everywhere in it.

    Signals:
        model_chosen: A model to select in the tree; its `Node`.
        rescan_requested: The user wants to read the stores again.
    """

    model_chosen = Signal(object)
    rescan_requested = Signal()

    def __init__(
        self, panel: QWidget, tree: LibraryTree, blobs: BlobsPage, app: Services, settings: Settings
    ) -> None:
        super().__init__(panel)
        self.app = app
        self._panel, self._tree, self._blobs = panel, tree, blobs
        self._settings = settings
        self.pages: Mapping[str, str] = {}  # that a model can be opened in: titles by their names
        self.open = self._action("&Open", self.open_selected)
        self.quants = self._action("Which &quant should I take?", self._choose_quant)
        self.reveal = self._action("Show in &file manager", self._show_in_folder, "Ctrl+Shift+E")
        self.remove = self._action("Remo&ve folder from this list", self._remove_folders)
        self.rescan = self._action("Re&scan", self.rescan_requested, "F5")
        # of the tree alone: the table of blobs copies whole rows
        copy_name, key = self._copy_of("name"), QKeySequence.StandardKey.Copy
        self.copy_name = add_action(tree, "Copy &name", copy_name, key)
        self.copy_path = self._action("Copy &path", self._copy_of("path"), "Ctrl+Shift+P")
        self.copy_digest = self._action("Copy &digest", self._copy_of("digest"), "Ctrl+Shift+D")
        self.copy_run = self._action(
            "Copy “ollama &run …”", self._copy_of("run_command"), "Ctrl+Shift+R"
        )
        self.copy_remove = self._action(
            "Copy the co&mmand that removes it", self._copy_of("removal")
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
            values = filter(None, (getattr(row, what, "") for row in self.selected()))
            # escaped, for a terminal runs what is pasted up to a line end
            lines = [plain_text(str(value)) for value in values]
            copy_text("\n".join(lines))

        return copy

    def selected(self) -> Sequence[Node | StoredFile]:
        """Return what is selected in the list that is shown."""
        if self._blobs.isVisibleTo(self._panel):
            return self._blobs.selected_files()
        return self._tree.selected_nodes()

    def _own_folders(self) -> list[Path]:
        """Return the folders that the user added among what is selected in the tree."""
        places = (node.row.place for node in self._tree.selected_nodes())
        roots = {place.root for place in places if place is not None}
        return [folder for folder in self._settings.library_folders if folder in roots]

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
            if not in_blobs:
                self._offer_pages(menu)
        if any(each.path for each in rows):
            menu.addAction(self.reveal)
        menu.addSeparator()
        for action, what in (
            (self.copy_name, "" if in_blobs else "name"),
            (self.copy_path, "path"),
            (self.copy_digest, "digest"),
            (self.copy_run, "run_command"),
            (self.copy_remove, "removal"),
        ):
            if what and any(getattr(each, what, "") for each in rows):
                menu.addAction(action)
        if in_blobs:
            menu.addActions(self._blobs.table.actions())
        menu.addSeparator()
        if not in_blobs and self._own_folders():
            menu.addAction(self.remove)
        if not in_blobs:
            self._tree.add_sorting(menu)
        return menu

    def _offer_pages(self, menu: QMenu) -> None:
        """Add the pages in which one model can be opened."""
        models = self.models()
        if len(models) == 1:
            menu.addAction(self.quants)
        if len(models) == 1 and self.pages:
            below = menu.addMenu("Open &in")
            for name, title in self.pages.items():
                below.addAction(title, partial(self.app.open, models[0], name))

    def models(self) -> list[Path]:
        """Return the models to which the selected rows of the tree belong, that can be opened."""
        nodes = (node.model for node in self._tree.selected_nodes())
        found = {node.id: node.row.entry for node in nodes if node is not None}
        return [one.path for one in found.values() if one is not None and one.format is not None]

    def _choose_quant(self) -> None:
        models = self.models()
        if len(models) == 1:
            self.app.choose_quant(models[0])

    def compare(self) -> None:
        """Compare the two selected models."""
        models = self.models()
        if len(models) == 2:
            self.app.compare(models)

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
        question = f"Open {count} models?"
        answer = QMessageBox.question(self._panel, "Open", question)
        return answer is QMessageBox.StandardButton.Yes

    def open_node(self, node: Node) -> None:
        """Open the model to which a row belongs, or a blob that belongs to none."""
        if node.row.kind is RowKind.BLOB and node.row.path is not None:
            self.app.open(node.row.path)
            return
        model = node.model
        entry = None if model is None else model.row.entry
        if entry is None:
            return
        if entry.format is not None:
            self.app.open(entry.path)
            return
        reasons = [problem.what for problem in entry.problems]
        what = reasons[-1] if reasons else "there is nothing to open"
        self.app.report(ExplorerError(what, entry.path))

    def open_file(self, file: StoredFile) -> None:
        """Show the model that uses a blob; open one that none uses."""
        for node in self._tree.library.entries() if file.blob.used_by else ():
            if node.row.entry is not None and node.row.entry.name in file.blob.used_by:
                self.model_chosen.emit(node)
                return
        if file.finished:
            self.app.open(file.blob.path)
        else:
            what = "is not complete. Download the model again to complete it"
            self.app.report(ExplorerError(what, file.blob.path))

    def _show_in_folder(self) -> None:
        path = next((each.path for each in self.selected() if each.path is not None), None)
        if path is not None:
            show_in_folder(self.app, path)

    # Folders of the user's own

    def ask_folder(self) -> None:
        """Ask for a folder of models and list it from now on."""
        folder = ask_folder(self.app, self._panel, "Add a folder of models", "library")
        if folder is not None:
            self.add_folder(folder)

    def add_folder(self, folder: Path) -> None:
        """List the models of a folder from now on."""
        folders = self._settings.library_folders
        if folder not in folders:
            self._settings.library_folders = [*folders, folder]
        self.rescan_requested.emit()

    def _remove_folders(self) -> None:
        gone = self._own_folders()
        kept = [folder for folder in self._settings.library_folders if folder not in gone]
        self._settings.library_folders = kept
        self.rescan_requested.emit()
