"""What the model is, at a glance."""

from __future__ import annotations

from explorer.present.model import model_facts
from explorer.report.components import cut, paragraph, section
from explorer.report.elements import Element, element
from explorer.report.gathering import Evidence
from explorer.report.privacy import without_paths
from explorer.text import bytes_text, integer_text

_SHOWN_FILES = 50


def overview(evidence: Evidence) -> Element:
    """Return the facts, and the sentences that one would look for first."""
    facts = [
        element("div", element("dt", one.label), element("dd", without_paths(cut(one.text))))
        for one in model_facts(evidence.model, evidence.facts)
    ]
    return section(
        "overview",
        "Overview",
        element("dl", *facts, class_="facts"),
        paragraph(evidence.recipe_verdict, "verdict"),
        _problems_line(evidence),
        _files(evidence),
    )


def _problems_line(evidence: Evidence) -> Element:
    count = len(evidence.model.problems)
    if not count:
        return element("p", element("strong", "✓ No problems"), " were found in its header.")
    noun = "problem was" if count == 1 else "problems were"
    link = element("a", "see the checks", href="#checks")
    return element(
        "p",
        element("strong", f"⚠ {integer_text(count)} {noun} found", class_="warn"),
        "; ",
        link,
        ".",
    )


def _files(evidence: Evidence) -> Element | None:
    files = evidence.model.files
    if not files:
        return None
    names = [f"{cut(f.path.name)} ({bytes_text(f.source.size)})" for f in files[:_SHOWN_FILES]]
    left = len(files) - len(names)
    more = f", and {integer_text(left)} more" if left else ""
    noun = "File" if len(files) == 1 else "Files"
    return paragraph(f"{noun}: {', '.join(names)}{more}.", "faint")
