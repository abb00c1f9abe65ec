"""The window's panels, a row each, in the groups of the rail: titles, purposes, keys.

Rail, tabs, menus, Ctrl+K, "What's this?", messages and the guide are made of these rows.
"""

from __future__ import annotations

from typing import Final, NamedTuple


def _plain(menu: str) -> str:
    return menu.replace("&", "")


class Group(NamedTuple):
    """A group of panels: a button of the rail."""

    menu: str  # its title, with the letter that chooses it in a menu
    keys: str
    tip: str

    @property
    def title(self) -> str:
        return _plain(self.menu)


GROUPS: Final = {
    "library": Group("&Library", "Alt+1", "Show the downloaded models"),
    "model": Group("&Model", "Alt+2", "Show what the model is"),
    "weights": Group("&Weights", "Alt+3", "Show the weights of the model"),
    "compare": Group("C&ompare", "Alt+4", "Show what quantization lost, and what differs"),
    "planner": Group("&Planner", "Alt+5", "Plan the memory of the model"),
}


class Panel(NamedTuple):
    """A panel.

    Attributes:
        group: Name of its group.
        title: What stands on its tab, beside the others of the group.
        purpose: What it shows.
        menu: Its title where the group is not seen, with the letter that chooses it in a menu; ""
            for a group with one panel, whose command shows it.
        keys: The keys that show it; "" for none.
        guide: The page of the guide; "" for that of its own name.
        of_one_tensor: Whether it shows one tensor, and nothing without one.
        of_a_alone: Whether it shows errors of A only, where those of A and B against an original
            are known.
        reads_itself: Whether it has its own progress, in the group that has one above all panels.
        tabs: Titles of its own tabs, in order.
    """

    group: str
    title: str
    purpose: str
    menu: str = ""
    keys: str = ""
    guide: str = ""
    of_one_tensor: bool = False
    of_a_alone: bool = False
    reads_itself: bool = False
    tabs: tuple[str, ...] = ()

    @property
    def full_title(self) -> str:
        """Its title where the group is not seen."""
        return _plain(self.menu) or self.title

    @property
    def explanation(self) -> str:
        """What "What's this?" says of it where nothing else says more."""
        return f"{self.purpose}. F1 explains more."


WORST_TENSORS: Final = "Worst tensors"
TYPES: Final = "Types"
LOG: Final = "Log"
"""Tabs that more than one place names."""

PANELS: Final = {
    "library": Panel("library", "Library", "The models that other programs have downloaded"),
    "overview": Panel(
        *("model", "Overview", "What the model is, and how its bytes are used"),
        *("&Overview", "Ctrl+1"),
    ),
    "metadata": Panel(
        *("model", "Metadata", "The named values of the header", "Meta&data", "Ctrl+2")
    ),
    "tensors": Panel(
        *("model", "Tensors", "Every tensor of the model, with filters and sorting"),
        *("&Tensors", "Ctrl+3"),
    ),
    "vocabulary": Panel(
        *("model", "Vocabulary", "The tokens that the model reads and writes"),
        *("&Vocabulary", "Ctrl+4"),
    ),
    "raw": Panel(
        *("model", "Raw", "The bytes of the file, and what they mean", "&Raw bytes", "Ctrl+5")
    ),
    "weights": Panel(
        *("weights", "Weights", "The weights of a tensor, and how they are stored"),
        *("&Weights of a tensor", "Ctrl+7"),
        of_one_tensor=True,
        tabs=("Histogram", "Map", "Codes", "Scales", "Minima", "Block", "Values"),
    ),
    "survey": Panel(
        *("weights", "All tensors", "All tensors of the model at once, compared with nothing"),
        *("&All tensors", "Ctrl+9"),
        tabs=("Map", "By layer", WORST_TENSORS, TYPES, "Adapter"),
    ),
    "compare": Panel(
        *("compare", "Summary", "What two models differ in, and how large their errors are"),
        *("&Compare two models", "Ctrl+6"),
        tabs=("Sizes and errors", "Types by role", "Metadata", "Tensors", "Texts"),
    ),
    "error_map": Panel(
        *("compare", "Map", "The error of every tensor, by layer and role"),
        *("Errors on a &map", "", "compare"),
        of_a_alone=True,
    ),
    "error_layers": Panel(
        *("compare", "By layer", "The errors over the layers, and sums of them"),
        *("Errors by &layer", "", "compare"),
        of_a_alone=True,
    ),
    "error_tensors": Panel(
        *("compare", "Tensors", "The error of every tensor, the worst first"),
        *("Errors of all te&nsors", "", "compare"),
    ),
    "errors": Panel(
        *("compare", "One tensor", "The error of a tensor by quantization"),
        *("&Errors of a tensor", "Ctrl+8"),
        tabs=("Rounding", "Weights", "Error", "Density", "Map"),
        of_one_tensor=True,
        of_a_alone=True,
        reads_itself=True,
    ),
    "what_if": Panel(
        *("compare", "What if?", "What other types and recipes would lose", "What &if?"),
        of_a_alone=True,
        reads_itself=True,
    ),
    "planner": Panel(
        *("planner", "Planner", "Whether the model fits into memory, and why"),
        tabs=("Curves", "Details", "Use it", "Compare plans", LOG),
    ),
}
"""The panels by object name, in the order of the groups and of their tabs."""

OF_TENSORS: Final = ("weights", "errors", "what_if", "survey", "error_map", "raw", "tensors")
"""Panels that show something of the selected tensor, the most asked for first."""


def panels_of(group: str) -> tuple[str, ...]:
    """Return the names of a group's panels, in order."""
    return tuple(name for name, panel in PANELS.items() if panel.group == group)


def guide_page(name: str) -> str:
    """Return the name of the guide's page about a panel; of other pages their own."""
    return name if name not in PANELS else PANELS[name].guide or name
