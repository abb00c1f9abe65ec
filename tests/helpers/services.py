"""Services of a window that is not there: they record what pages ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from explorer.errors import ExplorerError
from explorer.formats.tensors import Extent
from explorer.qt.document import Document
from explorer.qt.jobs import JobRunner
from explorer.qt.selection import Selection
from explorer.qt.services import Services


class RecordingServices(Services):
    """Remembers what it was asked for.

    Attributes:
        errors: What was reported.
        written: Files that were written.
        folders: Where the last file of each kind was.
        asked: Everything else: the name of the method, and its arguments.
    """

    def __init__(self, runner: JobRunner) -> None:
        super().__init__(runner, Selection())
        self.errors: list[ExplorerError] = []
        self.written: list[str] = []
        self.folders: dict[str, str] = {}
        self.asked: list[tuple[object, ...]] = []

    def calls(self, name: str) -> list[tuple[object, ...]]:
        """Return the arguments of each call of a method."""
        return [tuple(arguments) for called, *arguments in self.asked if called == name]

    def report(self, error: ExplorerError) -> None:
        self.errors.append(error)

    def saved(self, path: str) -> None:
        self.written.append(path)

    def say(self, sentence: str) -> None:
        self.asked.append(("say", sentence))

    def last_folder(self, kind: str) -> str:
        return self.folders.get(kind, "")

    def note_folder(self, kind: str, folder: str) -> None:
        self.folders[kind] = folder

    def go(self, page: str) -> None:
        self.asked.append(("go", page))

    def open(self, path: Path, page: str = "overview", beside: Path | None = None) -> None:
        self.asked.append(("open", path, page, *([] if beside is None else [beside])))

    def open_demo(self) -> None:
        self.asked.append(("open_demo",))

    def ask_model(self, then: Callable[[Document], None] | None = None) -> None:
        self.asked.append(("ask_model", *([] if then is None else [then])))

    def ask_reference(self, *, as_original: bool = False) -> None:
        self.asked.append(("ask_reference", as_original))

    def compare_with(self, path: Path) -> None:
        self.asked.append(("compare_with", path))

    def compare(self, paths: Sequence[Path]) -> None:
        self.asked.append(("compare", *paths))

    def choose_quant(self, path: Path) -> None:
        self.asked.append(("choose_quant", path))

    def open_layer(self, row: int) -> None:
        self.asked.append(("open_layer", row))

    def open_tensors(self, *rows: int) -> None:
        self.asked.append(("open_tensors", *rows))

    def open_key(self, position: int) -> None:
        self.asked.append(("open_key", position))

    def open_bytes(self, row: int, extent: Extent) -> None:
        self.asked.append(("open_bytes", row, extent))
