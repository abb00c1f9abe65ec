"""What a page uses of the program, and what it asks of the window.

One object goes down to every page and widget, where else signals would come up through all that is
between them and the window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from explorer.errors import ExplorerError
from explorer.formats.tensors import Extent
from explorer.qt.document import Document
from explorer.qt.jobs import JobRunner
from explorer.qt.selection import Selection


class Services(ABC):
    """What every page is given; the window implements it, and tests record what is asked.

    Attributes:
        runner: Runs work in the background.
        selection: The current model, and what of it is selected.
    """

    def __init__(self, runner: JobRunner, selection: Selection) -> None:
        self.runner = runner
        self.selection = selection

    @abstractmethod
    def report(self, error: ExplorerError) -> None:
        """Say why something that the user asked for cannot be done."""

    @abstractmethod
    def saved(self, path: str) -> None:
        """Say that a file was written."""

    @abstractmethod
    def say(self, sentence: str) -> None:
        """Say what was done without being asked for in so many words."""

    @abstractmethod
    def last_folder(self, kind: str) -> str:
        """Return where the last file of a kind was, over restarts; empty if none was."""

    @abstractmethod
    def note_folder(self, kind: str, folder: str) -> None:
        """Know where the last file of a kind was."""

    @abstractmethod
    def go(self, page: str) -> None:
        """Bring a page to the front, by its name in `GROUPS`."""

    @abstractmethod
    def open(self, path: Path, page: str = "overview", beside: Path | None = None) -> None:
        """Open a model in a page, and use a file that belongs to it there."""

    @abstractmethod
    def open_demo(self) -> None:
        """Open the demo model."""

    @abstractmethod
    def ask_model(self, then: Callable[[Document], None] | None = None) -> None:
        """Ask for files, and open them in front; or hand each over, and leave what is in front."""

    @abstractmethod
    def ask_reference(self, *, as_original: bool = False) -> None:
        """Ask for a model to compare the current one with, or for its original, and open it."""

    @abstractmethod
    def compare_with(self, path: Path) -> None:
        """Open a model to compare the current one with."""

    @abstractmethod
    def compare(self, paths: Sequence[Path]) -> None:
        """Open two models, and show what they differ in."""

    @abstractmethod
    def choose_quant(self, path: Path) -> None:
        """Show the quants of a model, and say which to take."""

    @abstractmethod
    def open_tensors(self, *rows: int) -> None:
        """Select tensors and show them: errors of one that is compared with another, or weights."""

    @abstractmethod
    def open_layer(self, row: int) -> None:
        """Select the layer of a tensor as a whole and show it among the others."""

    @abstractmethod
    def open_key(self, position: int) -> None:
        """Select a metadata entry, and show it."""

    @abstractmethod
    def open_bytes(self, row: int, extent: Extent) -> None:
        """Show some bytes of a tensor."""
