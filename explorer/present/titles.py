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
    "compare": "Compare",
    "weights": "Weights",
    "errors": "Errors",
    "survey": "All tensors",
    "planner": GROUP_TITLES["planner"],
}
"""The panels, by object name."""

WORST_TENSORS: Final = "Worst tensors"
TYPES: Final = "Types"
