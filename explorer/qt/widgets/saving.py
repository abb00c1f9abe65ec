"""Saving a file: ask where, and whether to replace; write in a job, and report how that went.

What the window saves (tables, pictures, weights) differs only in what is written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from explorer.errors import ExplorerError, system_reason
from explorer.qt.jobs import Job, Work
from explorer.qt.services import Services
from explorer.text import plain_text

_SAVED: Final = "saved"  # of the folders where the last file of a kind was


class FileSaver:
    """Saves files, and says what was written, or why nothing was."""

    def __init__(self, app: Services, parent: QWidget) -> None:
        self.app = app
        self.parent = parent

    def ask_path(self, title: str, name: str, kinds: Mapping[str, str]) -> Path | None:
        """Ask where to save; return None if the user cancels.

        Args:
            title: Title of the dialog.
            name: The name to suggest, without a suffix.
            kinds: A suffix for each kind of file, the usual one first. A name that ends with none
                of them gets that of the kind that was chosen; where that name is not ours to write,
                that is reported, and nothing is saved. If that file exists, the user is asked
                whether to replace it, and if not, for another name.
        """
        filters = {f"{kind} (*{suffix})": suffix for kind, suffix in kinds.items()}
        usual = next(iter(kinds.values()))
        suggested = os.path.join(self.app.last_folder(_SAVED), name + usual)
        # the dialog would ask about the name as it was typed, which may not be the one we write
        silent = QFileDialog.Option.DontConfirmOverwrite
        while True:
            chosen, kind = QFileDialog.getSaveFileName(
                self.parent, title, suggested, ";;".join(filters), "", silent
            )
            if not chosen:
                return None
            path = self._completed(Path(chosen), kinds, filters.get(kind, usual))
            if path is None or self._may_write(path, chosen):
                self.app.note_folder(_SAVED, os.path.dirname(chosen))
                return path
            suggested = chosen

    def _completed(self, path: Path, kinds: Mapping[str, str], suffix: str) -> Path | None:
        """Return the path with a suffix; None, and a report, if that file is not ours to write."""
        if path.suffix.lower() in kinds.values():
            return path
        if _is_portal_file(path):
            what = (
                "not saved: this desktop lets the program write under the chosen name only, and it "
                f"needs a suffix. Choose a name such as {plain_text(path.name + suffix)}"
            )
            self.app.report(ExplorerError(what, path))
            return None
        return path.with_name(path.name + suffix)

    def _may_write(self, path: Path, chosen: str) -> bool:
        """Return whether a file is new, or the user lets it be replaced."""
        asked = _is_portal_file(path) or (sys.platform == "darwin" and path == Path(chosen))
        # portals and macOS have asked already, whatever we tell them
        return asked or not os.path.lexists(path) or may_replace(self.parent, path)

    def write(self, title: str, path: Path, work: Work[object]) -> Job:
        """Write a file in the background.

        Args:
            title: What is done, for the status bar.
            path: The file.
            work: Writes it, in a worker. An `OSError` that it raises is reported.
        """

        def run(job: Job) -> str:
            try:
                work(job)
            except OSError as error:
                what = f"cannot be written: {system_reason(error)}"
                raise ExplorerError(what, path) from error
            return str(path)

        return self.app.runner.run(title, run, self.app.saved, self.app.report)


def may_replace(parent: QWidget, path: Path) -> bool:
    """Ask whether a file that exists is to be replaced."""
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Warning)
    box.setWindowTitle("Replace the file?")
    box.setTextFormat(Qt.TextFormat.PlainText)
    name, folder = plain_text(path.name), plain_text(str(path.parent))
    box.setText(f"{name} exists already in {folder}. Replacing it removes what it holds.")
    replace = box.addButton("Replace", QMessageBox.ButtonRole.DestructiveRole)
    box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
    box.exec()
    box.deleteLater()
    return box.clickedButton() is replace


def _is_portal_file(path: Path) -> bool:
    """Return whether a sandbox was lent that file alone: what it wrote beside it would be lost.

    Source: the document portal of XDG, whose folders are ``$XDG_RUNTIME_DIR/doc/ID``.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return runtime is not None and Path(runtime, "doc") in path.parents


def file_name(name: str, otherwise: str) -> str:
    """Return a name without what a file's name must not hold; `otherwise` if nothing is left."""
    kept = "".join(sign if sign.isalnum() or sign in "._-" else "_" for sign in name)
    return kept.strip(".")[:80] or otherwise
