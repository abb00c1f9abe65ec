"""Which key does what: the window's commands, and the keys of each panel.

The window's lines come from its `QAction`s. Those of panels are written down here: most of a panel
is made when it is first looked at, and many of its keys are no commands but keys that a picture
hears; a list that grew as one uses the program would be a list that one cannot rely on. A test
holds every command of every panel against these lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import QAction, QKeySequence


@dataclass(frozen=True, slots=True)
class KeyLine:
    """What a key does.

    Attributes:
        what: What it does, plain text.
        keys: The keys, several with commas between.
    """

    what: str
    keys: str


def plain_title(action: QAction) -> str:
    """Return the name of a command without the marks of menus."""
    return action.text().replace("&", "").removesuffix("…")


def command_lines(actions: Iterable[QAction]) -> list[KeyLine]:
    """Return a line for each command that has keys."""
    native = QKeySequence.SequenceFormat.NativeText
    return [
        KeyLine(plain_title(action), action.shortcut().toString(native))
        for action in actions
        if not action.shortcut().isEmpty()
    ]


def panel_lines() -> dict[str, list[KeyLine]]:
    """Return the keys of each panel, by its object name."""
    return {
        "library": _library(),
        "overview": [],
        "metadata": [*_filter(), *_table(), KeyLine(_tr("Close the search in a text"), "Escape")],
        "tensors": [*_filter(), *_table(), KeyLine(_tr("Show the bytes of the tensor"), "Enter")],
        "weights": _weights(),
        "errors": _errors(),
        "survey": _survey(),
        "vocabulary": [*_filter(), *_table()],
        "planner": _planner(),
        "raw": _raw(),
    }


def _filter() -> list[KeyLine]:
    return [
        KeyLine(_tr("Clear the filter"), "Escape"),
        KeyLine(_tr("From the filter into the list"), "Down, Enter"),
    ]


def _table() -> list[KeyLine]:
    return [
        KeyLine(_tr("Copy the selected rows"), "Ctrl+C"),
        KeyLine(_tr("Copy the cell"), "Ctrl+Shift+C"),
        KeyLine(_tr("Sort by the column of the cursor"), "Ctrl+Shift+S"),
        KeyLine(_tr("Choose columns"), "Ctrl+Shift+L"),
    ]


def _plot() -> list[KeyLine]:
    return [
        KeyLine(_tr("Plot: zoom in, zoom out"), "+, -"),
        KeyLine(_tr("Plot: move"), "Shift+Left, Shift+Right"),
        KeyLine(_tr("Plot: undo the last zoom"), "Backspace"),
        KeyLine(_tr("Plot: see all of it"), "Home"),
        KeyLine(_tr("Plot: save picture or data"), "Ctrl+S"),
    ]


def _library() -> list[KeyLine]:
    return [
        *_filter(),
        KeyLine(_tr("Open the model"), "Enter"),
        KeyLine(_tr("Read all stores again"), "F5"),
        KeyLine(_tr("Models: copy the name"), "Ctrl+C"),
        KeyLine(_tr("Copy the path"), "Ctrl+Shift+P"),
        KeyLine(_tr("Copy the digest"), "Ctrl+Shift+D"),
        KeyLine(_tr("Copy “ollama run …”"), "Ctrl+Shift+R"),
        KeyLine(_tr("Show in the file manager"), "Ctrl+Shift+E"),
        KeyLine(_tr("Close the search in a text"), "Escape"),
        *_table(),
    ]


def _weights() -> list[KeyLine]:
    return [
        KeyLine(_tr("Stop reading"), "Escape"),
        KeyLine(_tr("Of several tensors: show the one before, the next"), "Alt+PgUp, Alt+PgDown"),
        KeyLine(_tr("Histogram: read bin by bin"), "Left, Right"),
        *_plot(),
        KeyLine(_tr("Histograms side by side: choose, open"), "arrow keys, Enter"),
        KeyLine(_tr("Map: move while zoomed"), "arrow keys"),
        KeyLine(_tr("Map: choose a weight"), "Ctrl+arrow keys"),
        KeyLine(_tr("Map: copy the value"), "Ctrl+C"),
        KeyLine(_tr("Map: copy the position"), "Ctrl+Shift+C"),
        KeyLine(_tr("Block: previous, next"), "Ctrl+PgUp, Ctrl+PgDown"),
        KeyLine(_tr("Block: go from byte to byte"), "arrow keys, Home, End"),
        KeyLine(_tr("Block: go from weight to weight"), "Left, Right"),
        *_table(),
    ]


def _errors() -> list[KeyLine]:
    return [
        KeyLine(_tr("Stop reading"), "Escape"),
        KeyLine(_tr("Histogram: read bin by bin"), "Left, Right"),
        KeyLine(_tr("Density: go from cell to cell; with Ctrl farther"), "arrow keys"),
        KeyLine(_tr("What if: go from type to type"), "Left, Right"),
        KeyLine(_tr("What if: compare with the marked type"), "Enter"),
        *_plot(),
        *_table(),
    ]


def _survey() -> list[KeyLine]:
    return [
        KeyLine(_tr("Cancel the survey; what is known stays"), "Escape"),
        KeyLine(_tr("Map: go from cell to cell"), "arrow keys, PgUp, PgDown, Home, End"),
        KeyLine(_tr("Map and hot spots: show the tensor"), "Enter"),
        KeyLine(_tr("Map: copy what is known of the cell"), "Ctrl+C"),
        KeyLine(_tr("Map: save picture or data"), "Ctrl+S"),
        *_filter(),
        *_table(),
    ]


def _planner() -> list[KeyLine]:
    return [
        KeyLine(_tr("Undo a setting"), "Ctrl+Z"),
        KeyLine(_tr("Redo it"), "Ctrl+Shift+Z, Ctrl+Y"),
        KeyLine(_tr("Devices: remove"), "Delete"),
        KeyLine(_tr("Devices: move up, move down"), "Alt+Up, Alt+Down"),
        KeyLine(_tr("Bars: go from part to part"), "arrow keys"),
        KeyLine(_tr("Bars: why is it so much?"), "Enter, Space"),
        KeyLine(_tr("Layers: choose one"), "Left, Right"),
        KeyLine(_tr("Layers: move the edge"), "Ctrl+Left, Ctrl+Right"),
        KeyLine(_tr("Curves: choose the context"), "Left, Right"),
        KeyLine(_tr("Scenarios: use the selected one"), "Enter"),
        *_plot(),
        *_table(),
    ]


def _raw() -> list[KeyLine]:
    return [
        KeyLine(_tr("Go from byte to byte"), "arrow keys, PgUp, PgDown, Home, End"),
        KeyLine(_tr("Go to the previous or next field"), "Ctrl+Left, Ctrl+Right"),
        KeyLine(_tr("Go to the start or end of the file"), "Ctrl+Home, Ctrl+End"),
        KeyLine(_tr("Select bytes"), "Shift+arrow keys"),
        KeyLine(_tr("Select all"), "Ctrl+A"),
        KeyLine(_tr("Copy as hex"), "Ctrl+C"),
        KeyLine(_tr("Find next"), "F3, Ctrl+G"),
        KeyLine(_tr("Find previous"), "Shift+F3, Ctrl+Shift+G"),
        KeyLine(_tr("Stop searching"), "Escape"),
    ]


def _tr(text: str) -> str:
    return QCoreApplication.translate("KeyLists", text)
