"""The user guide: pages of Markdown that the program ships in `resources/guide`.

Pages of panels have the panels' object names. The texts are the program's own; nothing of a model
ever gets into one, so they may be shown as rich text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import QAction, QKeySequence

from explorer.paths import resource

ORDER: Final = (
    "start",
    "library",
    "overview",
    "metadata",
    "tensors",
    "weights",
    "errors",
    "survey",
    "vocabulary",
    "planner",
    "raw",
    "commands",
    "formats",
    "words",
    "never",
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
        title: What it is about: its first line.
        text: The whole page, Markdown.
    """

    name: str
    title: str
    text: str

    def links(self) -> list[str]:
        """Return where its links lead to."""
        return _LINK.findall(self.text)

    def holds(self, words: Iterable[str]) -> bool:
        """Tell whether every word occurs in it, whatever its case."""
        text = self.text.casefold()
        return all(word.casefold() in text for word in words)


@dataclass(frozen=True, slots=True)
class Place:
    """What a link leads to.

    Attributes:
        page: The page.
        anchor: The heading there, as GitHub writes it in links; "" for the page's start.
    """

    page: str
    anchor: str = ""

    @classmethod
    def of_link(cls, link: str, current: str) -> Place | None:
        """Return what a link of a page means; None if it leads out of the guide."""
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
    """Return how links name a heading: as GitHub does, in small letters and with hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


# Which key does what: the window's commands, and the keys of each panel.
#
# The window's lines come from its `QAction`s. Those of panels are written down here: most of a
# panel is made when it is first looked at, and many of its keys are no commands but keys that a
# picture hears; a list that grew as one uses the program would be a list that one cannot rely on.
# A test holds every command of every panel against these lists.


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
        "metadata": [
            *_filter(),
            *_table_keys(),
            KeyLine(_tr("Close the search in a text"), "Escape"),
        ],
        "tensors": [
            *_filter(),
            *_table_keys(),
            KeyLine(_tr("Show the bytes of the tensor"), "Enter"),
        ],
        "weights": _weights(),
        "errors": _errors(),
        "survey": _survey(),
        "vocabulary": [*_filter(), *_table_keys()],
        "planner": _planner(),
        "raw": _raw(),
    }


def _filter() -> list[KeyLine]:
    return [
        KeyLine(_tr("Clear the filter"), "Escape"),
        KeyLine(_tr("From the filter into the list"), "Down, Enter"),
    ]


def _table_keys() -> list[KeyLine]:
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
        *_table_keys(),
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
        *_table_keys(),
    ]


def _errors() -> list[KeyLine]:
    return [
        KeyLine(_tr("Stop reading"), "Escape"),
        KeyLine(_tr("Histogram: read bin by bin"), "Left, Right"),
        KeyLine(_tr("Density: go from cell to cell; with Ctrl farther"), "arrow keys"),
        KeyLine(_tr("What if: go from type to type"), "Left, Right"),
        KeyLine(_tr("What if: compare with the marked type"), "Enter"),
        *_plot(),
        *_table_keys(),
    ]


def _survey() -> list[KeyLine]:
    return [
        KeyLine(_tr("Cancel the survey; what is known stays"), "Escape"),
        KeyLine(_tr("Map: go from cell to cell"), "arrow keys, PgUp, PgDown, Home, End"),
        KeyLine(_tr("Map and hot spots: show the tensor"), "Enter"),
        KeyLine(_tr("Map: copy what is known of the cell"), "Ctrl+C"),
        KeyLine(_tr("Map: save picture or data"), "Ctrl+S"),
        *_filter(),
        *_table_keys(),
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
        *_table_keys(),
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


# The keys in the user guide: at the end of each panel's page, and on a page of their own.


_MARKUP: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>()#+-.!|~"})


def with_keys(page: Page, commands: Sequence[KeyLine]) -> str:
    """Return the text of a page; of a panel's page, with its keys and those of the window.

    Args:
        page: The page.
        commands: Keys of the window's commands.
    """
    lines = panel_lines().get(page.name)
    if lines is None:
        return page.text
    parts = [page.text.rstrip()]
    if lines:
        parts += [_heading(_tr("Keys of this panel")), _table(lines)]
    parts += [_heading(_tr("Keys everywhere")), _table(commands)]
    return "\n\n".join(parts) + "\n"


def keys_page(commands: Sequence[KeyLine], titles: Mapping[str, str]) -> Page:
    """Return the page that lists all keys.

    Args:
        commands: Keys of the window's commands.
        titles: What each panel is called, by its object name.
    """
    parts = [
        f"# {_tr('Keyboard shortcuts')}",
        _heading(_tr("Everywhere")),
        _table(commands),
        _heading(_tr("This guide")),
        _table(_guide_lines()),
    ]
    for name, lines in panel_lines().items():
        if lines:
            parts += [_heading(titles[name].translate(_MARKUP)), _table(lines)]
    return page_of(KEYS_PAGE, "\n\n".join(parts) + "\n")


def _guide_lines() -> list[KeyLine]:
    return [
        KeyLine(_tr("Search the guide"), "Ctrl+F"),
        KeyLine(_tr("Next place on the page, previous place"), "F3, Shift+F3"),
        KeyLine(_tr("Page before, page after"), "Alt+Left, Alt+Right"),
        KeyLine(_tr("Larger, smaller, as at first"), "Ctrl++, Ctrl+-, Ctrl+0"),
        KeyLine(_tr("From link to link, follow it"), "Tab, Enter"),
        KeyLine(_tr("Close"), "Escape"),
    ]


def _heading(text: str) -> str:
    return f"## {text}"


def _table(lines: Iterable[KeyLine]) -> str:
    rows = [f"| {_tr('What')} | {_tr('Keys')} |", "| --- | --- |"]
    rows += [f"| {line.what.translate(_MARKUP)} | `{line.keys}` |" for line in lines]
    return "\n".join(rows)


def _tr(text: str) -> str:
    return QCoreApplication.translate("GuideKeys", text)
