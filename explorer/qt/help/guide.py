"""The user guide: pages of Markdown in `resources/guide`, and the lists of keys.

Pages of panels have the panels' object names. No text of a model is ever part of a page, so pages
may be shown as rich text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from PySide6.QtGui import QAction, QKeySequence

from explorer.paths import resource

ORDER: Final = (
    *("start", "library", "overview", "metadata", "tensors", "weights", "errors", "survey"),
    *("vocabulary", "planner", "raw", "commands", "formats", "words", "never"),
)
"""The pages, in the order of reading."""

KEYS_PAGE: Final = "keys"
"""Name of the page that lists all keys; it is made from the commands."""

_LINK: Final = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)]*)\)")
_TITLE: Final = re.compile(r"# (.+)")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the guide.

    Attributes:
        name: Stable name: the file's without its ending.
        title: Its first line.
        text: The whole page, Markdown.
    """

    name: str
    title: str
    text: str

    def links(self) -> list[str]:
        """Return the targets of its links."""
        return _LINK.findall(self.text)

    def holds(self, words: Iterable[str]) -> bool:
        """Return whether every word occurs in it, in any case."""
        text = self.text.casefold()
        return all(word.casefold() in text for word in words)


@dataclass(frozen=True, slots=True)
class Place:
    """The target of a link.

    Attributes:
        page: The page.
        anchor: The heading there, as GitHub writes it in links; "" for the page's start.
    """

    page: str
    anchor: str = ""

    @classmethod
    def of_link(cls, link: str, current: str) -> Place | None:
        """Return the target of a link on the current page; None if it is not in the guide."""
        file, _, anchor = link.partition("#")
        if not file:
            return cls(current, anchor)
        name = file.removesuffix(".md")
        return cls(name, anchor) if name in (*ORDER, KEYS_PAGE) and file.endswith(".md") else None


def page_of(name: str, text: str) -> Page:
    """Return a page of a text.

    Raises:
        ValueError: The text does not begin with a title.
    """
    found = _TITLE.match(text)
    if found is None:
        raise ValueError(f"the page {name!r} of the guide has no title")
    return Page(name, found[1], text)


def load_guide() -> tuple[Page, ...]:
    """Read the pages, in the order of reading; some 30 KB.

    Raises:
        FileNotFoundError: The installation lacks one.
    """
    return tuple(
        page_of(name, resource(f"guide/{name}.md").read_text(encoding="utf-8")) for name in ORDER
    )


def pages_with(pages: Sequence[Page], text: str) -> list[Page]:
    """Return the pages in which every word of a text occurs."""
    return [page for page in pages if page.holds(text.split())]


def anchor_of(heading: str) -> str:
    """Return the name of a heading in links: as on GitHub, in small letters and with hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


# Keys: the window's lines come from its actions. Those of panels are written down here, for a
# panel is built when it is first shown, and many of its keys are no actions. A test compares every
# command of every panel with these lists.


class KeyLine(NamedTuple):
    """One line of a list of keys.

    Attributes:
        what: What the keys do, plain text.
        keys: The keys, several with commas between.
    """

    what: str
    keys: str


_FILTER: Final = {"Clear the filter": "Escape", "From the filter into the list": "Down, Enter"}
_TABLE: Final = {
    "Copy the selected rows": "Ctrl+C",
    "Copy the cell": "Ctrl+Shift+C",
    "Sort by the column of the cursor": "Ctrl+Shift+S",
    "Choose columns": "Ctrl+Shift+L",
}
_PLOT: Final = {
    "Plot: zoom in, zoom out": "+, -",
    "Plot: move": "Shift+Left, Shift+Right",
    "Plot: undo the last zoom": "Backspace",
    "Plot: see all of it": "Home",
    "Plot: save picture or data": "Ctrl+S",
}
_PANELS: Final[Mapping[str, Mapping[str, str]]] = {
    "library": {
        **_FILTER,
        "Open the model": "Enter",
        "Read all stores again": "F5",
        "Models: copy the name": "Ctrl+C",
        "Copy the path": "Ctrl+Shift+P",
        "Copy the digest": "Ctrl+Shift+D",
        "Copy “ollama run …”": "Ctrl+Shift+R",
        "Show in the file manager": "Ctrl+Shift+E",
        "Close the search in a text": "Escape",
        **_TABLE,
    },
    "overview": {},
    "metadata": {**_FILTER, **_TABLE, "Close the search in a text": "Escape"},
    "tensors": {**_FILTER, **_TABLE, "Show the bytes of the tensor": "Enter"},
    "weights": {
        "Stop reading": "Escape",
        "Of several tensors: show the previous, the next": "Alt+PgUp, Alt+PgDown",
        "Histogram: read bin by bin": "Left, Right",
        **_PLOT,
        "Histograms side by side: choose, open": "arrow keys, Enter",
        "Map: move while zoomed": "arrow keys",
        "Map: choose a weight": "Ctrl+arrow keys",
        "Map: copy the value": "Ctrl+C",
        "Map: copy the position": "Ctrl+Shift+C",
        "Block: previous, next": "Ctrl+PgUp, Ctrl+PgDown",
        "Block: go from byte to byte": "arrow keys, Home, End",
        "Block: go from weight to weight": "Left, Right",
        **_TABLE,
    },
    "errors": {
        "Stop reading": "Escape",
        "Histogram: read bin by bin": "Left, Right",
        "Density: go from cell to cell; with Ctrl farther": "arrow keys",
        "What if: go from type to type": "Left, Right",
        "What if: compare with the marked type": "Enter",
        **_PLOT,
        **_TABLE,
    },
    "survey": {
        "Cancel the survey; its results so far stay": "Escape",
        "Map: go from cell to cell": "arrow keys, PgUp, PgDown, Home, End",
        "Map and hot spots: show the tensor": "Enter",
        "Map: copy the figures of the cell": "Ctrl+C",
        "Map: save picture or data": "Ctrl+S",
        **_FILTER,
        **_TABLE,
    },
    "vocabulary": {**_FILTER, **_TABLE},
    "planner": {
        "Undo a setting": "Ctrl+Z",
        "Redo it": "Ctrl+Shift+Z, Ctrl+Y",
        "Devices: remove": "Delete",
        "Devices: move up, move down": "Alt+Up, Alt+Down",
        "Bars: go from part to part": "arrow keys",
        "Bars: why is it so much?": "Enter, Space",
        "Layers: choose one": "Left, Right",
        "Layers: move the edge": "Ctrl+Left, Ctrl+Right",
        "Curves: choose the context": "Left, Right",
        "Scenarios: use the selected one": "Enter",
        **_PLOT,
        **_TABLE,
    },
    "raw": {
        "Go from byte to byte": "arrow keys, PgUp, PgDown, Home, End",
        "Go to the previous or next field": "Ctrl+Left, Ctrl+Right",
        "Go to the start or end of the file": "Ctrl+Home, Ctrl+End",
        "Select bytes": "Shift+arrow keys",
        "Select all": "Ctrl+A",
        "Copy as hex": "Ctrl+C",
        "Find next": "F3, Ctrl+G",
        "Find previous": "Shift+F3, Ctrl+Shift+G",
        "Stop searching": "Escape",
    },
}
_GUIDE: Final = {
    "Search the guide": "Ctrl+F",
    "Next place on the page, previous place": "F3, Shift+F3",
    "Back, forward": "Alt+Left, Alt+Right",
    "Larger, smaller, normal text": "Ctrl++, Ctrl+-, Ctrl+0",
    "From link to link, follow it": "Tab, Enter",
    "Close": "Escape",
}
_MARKUP: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>()#+-.!|~"})


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
    return {name: _lines(keys) for name, keys in _PANELS.items()}


def _lines(keys: Mapping[str, str]) -> list[KeyLine]:
    return [KeyLine(*line) for line in keys.items()]


def with_keys(page: Page, commands: Sequence[KeyLine]) -> str:
    """Return the text of a page; of a panel's page, with its keys and those of the window.

    Args:
        page: The page.
        commands: Keys of the window's commands.
    """
    if page.name not in _PANELS:
        return page.text
    parts = {"Keys of this panel": panel_lines()[page.name], "Keys everywhere": commands}
    return f"{page.text.rstrip()}\n\n{_tables(parts)}"


def keys_page(commands: Sequence[KeyLine], titles: Mapping[str, str]) -> Page:
    """Return the page that lists all keys.

    Args:
        commands: Keys of the window's commands.
        titles: Titles of the panels, by their object names.
    """
    parts = {"Everywhere": commands, "This guide": _lines(_GUIDE)}
    parts |= {titles[name].translate(_MARKUP): lines for name, lines in panel_lines().items()}
    return page_of(KEYS_PAGE, f"# Keyboard shortcuts\n\n{_tables(parts)}")


def _tables(parts: Mapping[str, Sequence[KeyLine]]) -> str:
    """Return a heading and a table for each part that has keys."""
    blocks = []
    for heading, lines in parts.items():
        if lines:
            rows = [f"| {line.what.translate(_MARKUP)} | `{line.keys}` |" for line in lines]
            blocks.append("\n".join([f"## {heading}\n", "| What | Keys |", "| --- | --- |", *rows]))
    return "\n\n".join(blocks) + "\n"
