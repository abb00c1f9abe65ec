"""Dialogs that ask for what exists: each begins where the last of its kind was, or by the model."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget

from explorer.paths import demo_model
from explorer.qt.services import Services
from explorer.sources import is_address


def ask_files(
    app: Services, parent: QWidget, title: str, kind: str, filters: str = ""
) -> list[Path]:
    """Ask for files; return none if the user cancels.

    Args:
        app: Knows where the last file of each kind was, and the model in front.
        parent: Above which the dialog stands.
        title: Its title.
        kind: What is asked for: each kind has a folder where its last file was.
        filters: As Qt takes them; all files without.
    """
    names, _ = QFileDialog.getOpenFileNames(parent, title, _start(app, kind), filters)
    return [_noted(app, kind, name) for name in names]


def ask_file(
    app: Services, parent: QWidget, title: str, kind: str, filters: str = ""
) -> Path | None:
    """Ask for one file, as `ask_files`; return None if the user cancels."""
    name, _ = QFileDialog.getOpenFileName(parent, title, _start(app, kind), filters)
    return _noted(app, kind, name) if name else None


def ask_folder(app: Services, parent: QWidget, title: str, kind: str) -> Path | None:
    """Ask for a folder; its dialog begins where the last one of its kind lies."""
    name = QFileDialog.getExistingDirectory(parent, title, _start(app, kind))
    return _noted(app, kind, name) if name else None


def _noted(app: Services, kind: str, name: str) -> Path:
    app.note_folder(kind, str(Path(name).parent))
    return Path(name)


def _start(app: Services, kind: str) -> str:
    last, document = app.last_folder(kind), app.selection.document
    if last or document is None or is_address(document.path):
        return last
    folder = document.path.parent
    return "" if document.path == demo_model() else str(folder)
