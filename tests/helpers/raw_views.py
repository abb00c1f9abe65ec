"""What the tests of the hex view and of the raw view share: showing, waiting, typing."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from explorer.formats.model import Model
from explorer.qt.raw.hex_view import HexView
from explorer.qt.raw.panel import RawView
from explorer.sources import ByteSource


def show_source(qtbot: QtBot, view: HexView, source: ByteSource) -> None:
    """Show a file and wait for its first bytes."""
    view.set_source(source)
    qtbot.waitUntil(lambda: view.bytes_at(view.cursor_offset, 1) is not None)


def show_model(qtbot: QtBot, view: RawView, model: Model) -> Model:
    """Show a model and wait for its structure and its first bytes."""
    view.show_model(model)
    settled(qtbot, view)
    return model


def settled(qtbot: QtBot, view: RawView) -> None:
    """Wait until the structure and the bytes are there."""
    qtbot.waitUntil(lambda: view.hex.field_at(0) is not None)
    qtbot.waitUntil(lambda: view.hex.bytes_at(view.hex.cursor_offset, 1) is not None)


def press(qtbot: QtBot, view: HexView, key: Qt.Key, *modifiers: Qt.KeyboardModifier) -> int:
    """Press a key; return where the cursor is then."""
    wanted = Qt.KeyboardModifier.NoModifier
    for modifier in modifiers:
        wanted |= modifier
    qtbot.keyClick(view, key, wanted)
    return view.cursor_offset


def go_to(qtbot: QtBot, view: RawView, text: str) -> None:
    """Type an offset and Enter."""
    view.goto.clear()
    qtbot.keyClicks(view.goto, text)
    qtbot.keyClick(view.goto, Qt.Key.Key_Return)


def find(qtbot: QtBot, view: RawView, text: str, mode: str = "hex") -> None:
    """Search for bytes and wait for the end of it."""
    view.search.mode.setCurrentIndex(view.search.mode.findData(mode))
    view.search.edit.clear()
    qtbot.keyClicks(view.search.edit, text)
    qtbot.keyClick(view.search.edit, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not view.search.busy)


def delete(qtbot: QtBot, view: QWidget) -> None:
    """Delete a view and wait until it is gone."""
    gone: list[bool] = []
    view.destroyed.connect(lambda: gone.append(True))
    view.deleteLater()
    qtbot.waitUntil(lambda: gone == [True])


class Activations:
    """Metadata keys and tensor rows that the user moved to in a raw view, in order."""

    def __init__(self, view: RawView) -> None:
        self.places: list[str | int] = []
        view.key_activated.connect(self.places.append)
        view.tensor_activated.connect(self.places.append)
