"""A panel over stores that a test makes, watched by Qt's own checks of item models."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QTreeView
from pytestqt.qtbot import QtBot

from explorer.qt.library.panel import LibraryView
from explorer.qt.settings import Settings
from explorer.stores.entries import Place, StoreKind
from tests.helpers.gguf_writer import STRING, U32, GgufFile, TensorSpec
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.services import RecordingServices

_QUIET_S = 0.03
_NO_KEYS = Qt.KeyboardModifier.NoModifier


def gguf_bytes(name: str, architecture: str = "llama", layers: int = 2) -> bytes:
    """Return a small GGUF file of Q8_0 norms in some layers."""
    keys = [
        ("general.architecture", STRING, architecture),
        ("general.name", STRING, name),
        ("general.file_type", U32, 7),
    ]
    tensors = [
        TensorSpec(f"blk.{layer}.{role}.weight", (4,), data=bytes(16))
        for layer in range(layers)
        for role in ("attn_norm", "ffn_norm")
    ]
    tensors.append(TensorSpec("output_norm.weight", (4,), data=bytes(16)))
    return GgufFile(keys=keys, tensors=tensors).build()  # type: ignore[arg-type]


class Panel:
    """A panel with what a test does to it, in a person's words."""

    def __init__(self, qtbot: QtBot, view: LibraryView, app: RecordingServices) -> None:
        self.qtbot = qtbot
        self.view = view
        self.app, self.runner = app, app.runner
        self.model = view.model
        self.tree: QTreeView = view.tree
        self.tree.sortByColumn(0, Qt.SortOrder.AscendingOrder)  # times of use may be equal, or not
        self.failures = app.errors
        modes = QAbstractItemModelTester.FailureReportingMode
        self._testers = [
            QAbstractItemModelTester(model, modes.Warning, view)
            for model in (view.model, view.blobs.model)
        ]

    @property
    def opened(self) -> list[Path]:
        """Models that were opened in the usual page."""
        return [path for path, page in self.app.calls("open") if page == "overview"]

    def settle(self) -> None:
        """Wait until nothing runs and nothing waits to be reported."""
        quiet, began = 0, time.monotonic()

        def still() -> bool:
            nonlocal quiet, began
            if self.runner.jobs:
                quiet, began = 0, time.monotonic()
            quiet += 1
            return quiet > 3 and time.monotonic() - began >= _QUIET_S

        self.qtbot.waitUntil(still)

    def titles(self, parent: QModelIndex | None = None) -> list[str]:
        """Return the names of the rows below a row that are shown."""
        parent = QModelIndex() if parent is None else parent
        return [
            self.model.index(row, 0, parent).data() for row in range(self.model.rowCount(parent))
        ]

    def find(self, *titles: str) -> QModelIndex:
        """Open branches on the way to a row, each named by a part of its title; return it."""
        index = QModelIndex()
        for title in titles:
            if index.isValid():
                self.tree.expand(index)
                self.settle()
            names = self.titles(index)
            places = [place for place, name in enumerate(names) if title in name]
            assert places, f"{title!r} is not among {names}"
            index = self.model.index(places[0], 0, index)
        return index

    def cell(self, index: QModelIndex, column: int) -> str:
        """Return the text of a cell."""
        return str(index.siblingAtColumn(column).data())

    def click(self, index: QModelIndex, *, add: bool = False) -> None:
        """Click on a row."""
        self.tree.scrollTo(index)
        keys = Qt.KeyboardModifier.ControlModifier if add else Qt.KeyboardModifier.NoModifier
        place = self.tree.visualRect(index).center()
        self.qtbot.mouseClick(self.tree.viewport(), Qt.MouseButton.LeftButton, keys, place)
        self.settle()

    def press(
        self, key: Qt.Key, keys: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
    ) -> None:
        """Press a key in the list that is shown."""
        current = self.view.lists.currentWidget()
        target = self.tree if current is self.tree else self.view.blobs.table
        target.setFocus()
        self.qtbot.keyClick(target, key, keys)
        self.settle()

    def type(self, text: str) -> None:
        """Type into the filter."""
        self.view.bar.edit.setFocus()
        self.view.bar.edit.clear()
        self.qtbot.keyClicks(self.view.bar.edit, text)
        self.settle()


@pytest.fixture
def store(tmp_path: Path) -> OllamaStore:
    """A store with a family of two tags, another model that shares a blob, and leftovers."""
    store = OllamaStore(tmp_path / "ollama" / "models")
    alpha, beta = gguf_bytes("alpha"), gguf_bytes("beta", "qwen2")
    licence = store.layer("license", "Do what you like.\n")
    texts = [
        store.layer("template", "{{ .Prompt }}"),
        store.layer("system", "You are <b>terse</b>."),
        store.layer("params", '{"temperature": 0.5, "stop": ["a", "b"]}'),
        store.layer("messages", '[{"role": "user", "content": "Hello"}]'),
    ]
    base = "registry.ollama.ai/library"
    store.manifest([store.layer("model", alpha), licence, *texts], f"{base}/alpha/latest")
    store.manifest([store.layer("model", alpha), licence], f"{base}/alpha/small")
    store.manifest([store.layer("model", beta), licence], f"{base}/beta/latest")
    store.blob(b"nobody uses this")
    (store.blobs / f"sha256-{'9' * 64}-partial").write_bytes(bytes(1000))
    return store


@pytest.fixture
def make_panel(
    qtbot: QtBot, app: RecordingServices, settings: Settings
) -> Iterator[Callable[..., Panel]]:
    """Make panels that are shown and have read their stores."""
    views: list[LibraryView] = []

    def make(*places: Place, wait: bool = True) -> Panel:
        view = LibraryView(app, settings, places=lambda: list(places))
        qtbot.addWidget(view)
        views.append(view)
        panel = Panel(qtbot, view, app)
        view.resize(1100, 700)
        view.show()
        qtbot.waitExposed(view)
        view.activateWindow()
        if wait:
            panel.settle()
        return panel

    yield make
    for view in views:
        view.watch.watch(())
        view.watch.stop()


@pytest.fixture
def panel(make_panel: Callable[..., Panel], store: OllamaStore) -> Panel:
    """A panel over the small store."""
    return make_panel(Place(StoreKind.OLLAMA, store.models))
