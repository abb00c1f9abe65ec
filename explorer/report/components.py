"""What sections are made of: headings, tables, details, figures with the data behind them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final

from explorer.report.elements import Child, Element, element
from explorer.text import integer_text, shorten

LONGEST_NAME: Final = 160
"""Characters of a tensor's or a key's name."""

MAX_ROWS: Final = 2000
"""Most rows of a table; what is left out is said."""


def section(identity: str, title: str, *children: Child) -> Element:
    """Return a part of the report.

    Args:
        identity: What the table of contents links to.
        title: Its heading.
        children: What it holds.
    """
    return element("section", element("h2", title), *children, id=identity)


def paragraph(text: str, kind: str = "") -> Element:
    """Return a paragraph; `kind` is one of the classes of `stylesheet`."""
    return element("p", text, class_=kind) if kind else element("p", text)


def table(  # noqa: PLR0913 - all but head and rows have a default
    head: Sequence[str],
    rows: Iterable[Sequence[Child]],
    *,
    total: int | None = None,
    numbers: Collection[int] = (),
    names: Collection[int] = (),
    marked: Collection[int] = (),
) -> Element:
    """Return a table that can be scrolled where the page is narrow.

    Args:
        head: Headings of the columns.
        rows: Cells; taken as far as there is room.
        total: Number of rows, where there may be more than there is room for.
        numbers: Columns that are aligned to the right.
        names: Columns of names, set in type of equal widths.
        marked: Rows that are set off.
    """
    kinds = {**dict.fromkeys(numbers, "number"), **dict.fromkeys(names, "name")}

    def cell(tag: str, column: int, content: Child) -> Element:
        kind = kinds.get(column)
        attributes = {} if kind is None else {"class_": kind}
        if tag == "th":
            attributes["scope"] = "col"
        return element(tag, content, **attributes)

    found = list(islice(rows, MAX_ROWS))
    body = element("tbody")
    for number, row in enumerate(found):
        cells = (cell("td", i, content) for i, content in enumerate(row))
        body.append(element("tr", *cells, class_="marked" if number in marked else "plain"))
    first = element("tr", *(cell("th", i, title) for i, title in enumerate(head)))
    left = 0 if total is None else total - len(found)
    rest = f"{integer_text(left)} more rows are left out." if left > 0 else None
    return element(
        "div",
        element("table", element("thead", first), body),
        None if rest is None else paragraph(rest, "faint"),
        class_="scroll",
        tabindex=0,
    )


def details(summary: str, *children: Child) -> Element:
    """Return a part that is shown when somebody asks for it."""
    return element("details", element("summary", summary), *children)


def figure(drawing: Element, caption: str, *more: Child) -> Element:
    """Return a picture, what it shows, and what is below it: a legend, the data."""
    scroll = element("div", drawing, class_="scroll", tabindex=0)
    return element("figure", element("figcaption", caption), scroll, *more)


def cut(name: str, limit: int = LONGEST_NAME) -> str:
    """Return a name, and how long it is where it is too long to be shown."""
    if len(name) <= limit:
        return name
    return f"{shorten(name, limit)} ({integer_text(len(name))} characters)"
