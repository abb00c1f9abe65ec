"""Saving a file: ask where, write in a job, and report how that went.

What the window saves (tables, pictures, weights) differs only in what is written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QFileDialog, QWidget

from explorer.errors import ExplorerError, system_reason
from explorer.qt.jobs import Job, JobRunner, OnDone, OnFailed, Work
from explorer.text import plain_text


class FileSaver:
    """Saves files, and reports the path that was written, or why nothing was."""

    def __init__(
        self, runner: JobRunner, parent: QWidget, on_done: OnDone[str], on_failed: OnFailed
    ) -> None:
        self._runner = runner
        self._parent = parent
        self._on_done = on_done
        self._on_failed = on_failed

    def ask_path(self, title: str, name: str, kinds: Mapping[str, str]) -> Path | None:
        """Ask where to save; return None if the user cancels.

        Args:
            title: Title of the dialog.
            name: The name to suggest, without a suffix.
            kinds: A suffix for each kind of file, the usual one first. A name that ends with none
                of them gets that of the kind that was chosen; where that name is not ours to write,
                that is reported, and nothing is saved.
        """
        filters = {f"{kind} (*{suffix})": suffix for kind, suffix in kinds.items()}
        usual = next(iter(kinds.values()))
        chosen, kind = QFileDialog.getSaveFileName(
            self._parent, title, name + usual, ";;".join(filters)
        )
        if not chosen:
            return None
        path = Path(chosen)
        if path.suffix.lower() in kinds.values():
            return path
        suffix = filters.get(kind, usual)
        if _is_lent(path):
            what = QCoreApplication.translate(
                "FileSaver",
                "not saved: this desktop lets the program write under the chosen name only, and it "
                "needs a suffix; choose a name such as {name}",
            ).format(name=plain_text(path.name + suffix))
            self._on_failed(ExplorerError(what, path))
            return None
        return path.with_name(path.name + suffix)

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

        return self._runner.run(title, run, self._on_done, self._on_failed)


def _is_lent(path: Path) -> bool:
    """Return whether a sandbox was lent that file alone: what it wrote beside it would be lost.

    Source: the document portal of XDG, whose folders are ``$XDG_RUNTIME_DIR/doc/ID``.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return runtime is not None and Path(runtime, "doc") in path.parents


def file_name(name: str, otherwise: str) -> str:
    """Return a name without what a file's name must not hold; `otherwise` if nothing is left."""
    kept = "".join(sign if sign.isalnum() or sign in "._-" else "_" for sign in name)
    return kept.strip(".")[:80] or otherwise
