"""Render the data of a report into one HTML document: the only module that knows Jinja2.

What comes from a model is data and never a template: the one template is the program's own file
resources/report/page.html. Autoescape writes every value as text, and `finalize` cleans it first.
"""

from __future__ import annotations

from datetime import date
from typing import Final

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup, escape

from explorer import __version__
from explorer.paths import resource
from explorer.report.gather import ReportData
from explorer.report.privacy import Privacy, cut, shown_name, without_paths
from explorer.report.sections import sections
from explorer.text import integer_text

MAX_TEXT: Final = 100_000
"""Most characters of one piece of text; what is longer should have been cut before."""


def report_html(data: ReportData, made_on: date) -> str:
    """Return a report as a document that needs no other file and runs no script.

    Args:
        data: Its data; the models are still open.
        made_on: The date in its footer.

    Raises:
        ExplorerError: A file changed since it was opened.
    """
    models = [one for one in (data.model, data.reference) if one is not None]
    page = environment(Privacy.of(*models)).get_template("page.html")
    return page.render(
        title=shown_name(data.model),
        reference=None if data.reference is None else shown_name(data.reference),
        verdict=data.recipe_verdict,
        version=__version__,
        made_on=made_on.isoformat(),
        **sections(data),
    )


def environment(privacy: Privacy) -> Environment:
    """Return what renders the template, and no other.

    Args:
        privacy: Takes folders and control characters out of every text.
    """

    def cleaned(text: str, *, lines: bool = False) -> str:
        if len(text) <= MAX_TEXT:
            return privacy.clean(text, lines)
        return privacy.clean(text[:MAX_TEXT], lines) + f"… (cut, {len(text):,} characters)"

    def finalize(value: object) -> object:
        if isinstance(value, (Markup, int)):  # escaped by a macro or by `lines`
            return value
        if isinstance(value, float):  # a coordinate; hundredths of a pixel are enough
            return f"{value:.2f}".rstrip("0").rstrip(".")
        return cleaned(str(value))

    made = Environment(
        loader=DictLoader({"page.html": resource("report/page.html").read_text("utf-8")}),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        keep_trailing_newline=True,
    )
    made.filters.update(
        cut=cut,
        integer=integer_text,
        lines=lambda text: escape(cleaned(text, lines=True)),
        without_paths=without_paths,
    )
    return made
