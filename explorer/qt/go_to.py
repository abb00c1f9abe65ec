"""Ctrl+K for the window: collects what one can go to, and goes there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from PySide6.QtCore import QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QWidget

from explorer.qt.jobs import JobRunner
from explorer.qt.models.document import Document
from explorer.qt.models.help.key_lists import plain_title
from explorer.qt.models.quick_open.search import Entry, Target, all_shelves
from explorer.qt.views.quick_open import QuickOpen


class Places(Protocol):
    """What a window lets one go to."""

    documents: list[Document]

    def reveal_model(self, document: Document) -> None:
        """Show a model."""

    def reveal_key(self, document: Document, position: int) -> None:
        """Show a metadata entry."""

    def reveal_tensor(self, document: Document, row: int) -> None:
        """Show a tensor."""


class GoTo:
    """Opens the search over everything for a window.

    Args:
        places: Where one can go: the window.
        window: The same as a widget: its dialogs belong to it.
        runner: Runs the searching.
    """

    def __init__(self, places: Places, window: QWidget, runner: JobRunner) -> None:
        self._places = places
        self._window = window
        self._runner = runner

    def show(self, actions: Sequence[QAction]) -> None:
        """Open the search; the commands of `actions` can be found too."""
        commands = [action for action in actions if action.text()]
        texts = [plain_title(action) for action in commands]
        dialog = QuickOpen(all_shelves(self._places.documents, texts), self._runner, self._window)
        dialog.chosen.connect(lambda entry: self._go(entry, commands))
        dialog.open()

    def _go(self, entry: Entry, commands: Sequence[QAction]) -> None:
        document = entry.document
        if entry.target is Target.ACTION:
            # once the dialog is gone: the command may open another one
            QTimer.singleShot(0, commands[entry.position].trigger)
        elif document is None or document not in self._places.documents:
            return
        elif entry.target is Target.MODEL:
            self._places.reveal_model(document)
        elif entry.target is Target.KEY:
            self._places.reveal_key(document, entry.position)
        else:
            self._places.reveal_tensor(document, entry.position)
