"""What is wrong with the model: in its header, and in weights that could not be read."""

from __future__ import annotations

from typing import Final

from explorer.formats.model import Severity
from explorer.report.components import cut, paragraph, section, table
from explorer.report.elements import Element, element
from explorer.report.gathering import Evidence
from explorer.report.privacy import without_paths
from explorer.text import integer_text

_LONGEST: Final = 500


def checks(evidence: Evidence) -> Element:
    """Return the problems, or that there are none."""
    problems = evidence.model.problems
    failed = [one for one in evidence.tensors if one.failure]
    parts: list[Element] = []
    if problems:
        rows = [
            (
                _grave(one.severity),
                without_paths(cut(one.where)),
                without_paths(cut(one.what, _LONGEST)),
            )
            for one in problems
        ]
        parts.append(table(("severity", "where", "what"), rows, names=(1,)))
    else:
        parts.append(paragraph("The header keeps every rule of its format that is checked."))
    if failed:
        count = integer_text(len(failed))
        parts.append(paragraph(f"Weights of {count} tensors cannot be told:"))
        unread = ((cut(one.name), cut(one.failure, _LONGEST)) for one in failed)
        parts.append(table(("tensor", "why"), unread, total=len(failed), names=(0,)))
    elif evidence.measured is not None:
        parts.append(paragraph("Every weight of every tensor could be read."))
    else:
        parts.append(paragraph("The weights were not read for this report.", "faint"))
    return section("checks", "Checks", *parts)


def _grave(severity: Severity) -> Element:
    if severity is Severity.ERROR:
        return element("span", "✗ error", class_="bad")
    return element("span", "⚠ warning", class_="warn")
