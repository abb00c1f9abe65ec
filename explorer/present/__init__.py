"""What is said about models, weights, errors and plans: labels, order, wording, units. Knows no Qt.

The window, the command line and the report render what is said here; none words or computes a
figure by itself. Texts are English.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One labelled figure or fact."""

    name: str  # stable name, as in the JSON of the command line where it is there
    label: str  # what it is called
    value: int | float | None  # the figure; None if it is not known, or is a text
    text: str  # the figure for people
