"""Titles of the window's groups of pages, panels and pages that more than one place names.

Tabs, rail, menus, messages, keys and the report take them from here. A tab that nothing else names
has its title where it is added.
"""

from __future__ import annotations

from typing import Final

GROUP_TITLES: Final = {
    "library": "Library",
    "model": "Model",
    "weights": "Weights",
    "compare": "Compare",
    "planner": "Planner",
}
"""The groups of the rail, by name."""

PANEL_TITLES: Final = {
    "library": GROUP_TITLES["library"],
    "overview": "Overview",
    "metadata": "Metadata",
    "tensors": "Tensors",
    "vocabulary": "Vocabulary",
    "raw": "Raw",
    "weights": "Weights",
    "survey": "All tensors",
    "compare": "Summary",
    "error_map": "Map",
    "error_layers": "By layer",
    "error_tensors": "Tensors",
    "errors": "One tensor",
    "what_if": "What if?",
    "planner": GROUP_TITLES["planner"],
}
"""The panels, by object name; beside others of their group."""

FULL_TITLES: Final = PANEL_TITLES | {
    "compare": "Compare two models",
    "error_map": "Errors on a map",
    "error_layers": "Errors by layer",
    "error_tensors": "Errors of all tensors",
    "errors": "Errors of a tensor",
}
"""The panels where the group is not seen."""

WORST_TENSORS: Final = "Worst tensors"
TYPES: Final = "Types"

OF_A_ALONE: Final = frozenset({"error_map", "error_layers", "errors", "what_if"})
"""Pages that show errors of A only, where those of A and B against an original are known."""
