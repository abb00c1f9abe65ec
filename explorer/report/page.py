"""Joins the sections into one HTML document."""

from __future__ import annotations

from datetime import date
from typing import Final

from explorer import __version__
from explorer.report.gather import Evidence
from explorer.report.html import STYLE, Element, element, to_html
from explorer.report.privacy import Privacy, shown_name
from explorer.report.sections import checks, metadata, overview, plans, types
from explorer.report.weights import weights

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content security policy: nothing is loaded, nothing is run, whatever got into the page."""

_CONTENTS: Final = (
    ("overview", "Overview"),
    ("types", "Tensor types"),
    ("checks", "Checks"),
    ("weights", "Weights"),
    ("plan", "Memory plan"),
    ("metadata", "Metadata"),
)


def report_html(evidence: Evidence, made_on: date) -> str:
    """Return a report as a document that needs nothing else.

    Args:
        evidence: What was gathered; its models are still open.
        made_on: The date that it is to carry.

    Raises:
        ExplorerError: A file changed since it was opened.
    """
    model, reference = evidence.model, evidence.reference
    models = (model,) if reference is None else (model, reference)
    title = shown_name(model)
    return to_html(
        element(
            "html",
            _head(title),
            element(
                "body",
                _header(title, evidence),
                element(
                    "main",
                    overview(evidence),
                    types(evidence),
                    checks(evidence),
                    weights(evidence),
                    plans(evidence),
                    metadata(evidence),
                ),
                _footer(made_on),
            ),
            lang="en",
        ),
        Privacy.of(*models).clean,
    )


def _head(title: str) -> Element:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{title} – GGUF Explorer"),
        element("style", STYLE),
    )


def _header(title: str, evidence: Evidence) -> Element:
    reference = None
    if evidence.reference is not None:
        reference = element("p", f"Compared with {shown_name(evidence.reference)}")
    links = [element("li", element("a", name, href=f"#{identity}")) for identity, name in _CONTENTS]
    return element(
        "header",
        element("h1", title),
        reference,
        element("nav", element("ul", *links), aria_label="Contents"),
    )


def _footer(made_on: date) -> Element:
    text = f"Made by GGUF Explorer {__version__} on {made_on.isoformat()}."
    return element("footer", element("p", text, class_="faint"))
