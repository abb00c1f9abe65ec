"""HTML as elements: what comes from a model can only ever be text.

Built upon `xml.etree.ElementTree`, whose HTML writer knows void elements and escapes all text. Tags
and attributes come from the lists below, and the value of an attribute is never a model's string:
an attempt fails here, while the report is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import Final, TypeAlias
from xml.etree import ElementTree as ET

from explorer.text import integer_text, shorten

Element: TypeAlias = ET.Element
Child: TypeAlias = "Element | str | None"

_TAGS: Final = """
html head meta title style body header main footer nav section h1 h2 h3 p a ul li dl dt dd div span
strong pre table thead tbody tr th td details summary figure figcaption svg g rect path line text
"""
_ATTRIBUTES: Final = """
lang charset name content http-equiv class id href scope role tabindex aria-label viewBox width
height x y x1 x2 y1 y2 d fill stroke-width stroke-dasharray text-anchor font-size
"""
TAGS: Final = frozenset(_TAGS.split())
ATTRIBUTES: Final = frozenset(_ATTRIBUTES.split())
MAX_TEXT: Final = 100_000
"""Most characters of one piece of text; what is longer was not cut where it should have been."""

_VALUE: Final = re.compile(r"[A-Za-z0-9 #%'(),./:;=_|–-]*")
_LINK: Final = re.compile(r"#[a-z-]+")  # within the page


def element(tag: str, *children: Child, **attributes: str | float) -> Element:
    """Return an element.

    Args:
        tag: Its name.
        children: Elements and texts; None is left out.
        attributes: Constants and numbers; ``text_anchor`` and ``class_`` stand for the names that
            Python does not allow.

    Raises:
        ValueError: A tag, an attribute or a value that no report has.
    """
    if tag not in TAGS:
        raise ValueError(f"<{tag}> is no element of a report")
    made = ET.Element(tag)
    for key, value in attributes.items():
        name = key.rstrip("_").replace("_", "-")
        text = _number(value) if isinstance(value, (int, float)) else value
        if name not in ATTRIBUTES or _VALUE.fullmatch(text) is None:
            raise ValueError(f"{name}={text[:80]!r} is no attribute of a report")
        if name == "href" and _LINK.fullmatch(text) is None:
            raise ValueError(f"a report has no link to {text[:80]!r}")
        made.set(name, text)
    append(made, *children)
    return made


def append(parent: Element, *children: Child) -> None:
    """Add elements and texts to what an element holds."""
    for child in children:
        if child is None:
            continue
        if not isinstance(child, str):
            parent.append(child)
        elif len(parent) > 0:
            parent[-1].tail = (parent[-1].tail or "") + child
        else:
            parent.text = (parent.text or "") + child


def _number(value: float) -> str:
    """Return a coordinate; hundredths of a pixel are enough."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def to_html(page: Element, clean: Callable[[str, bool], str]) -> str:
    """Return a page as an HTML5 document; its texts are cleaned in place.

    Args:
        page: The element ``html``.
        clean: Makes a text safe to show; whether it may have several lines is the second argument.
    """
    for part in page.iter():
        if part.tag == "style":  # our own; browsers read it as it is, without entities
            continue
        part.text = _cleaned(part.text, clean, lines=part.tag == "pre")
        part.tail = _cleaned(part.tail, clean, lines=False)
    return "<!DOCTYPE html>\n" + ET.tostring(page, encoding="unicode", method="html") + "\n"


def _cleaned(text: str | None, clean: Callable[[str, bool], str], *, lines: bool) -> str | None:
    if not text:
        return text
    if len(text) > MAX_TEXT:
        return clean(text[:MAX_TEXT], lines) + f"… (cut, {len(text):,} characters)"
    return clean(text, lines)


# What sections are made of: headings, tables, details, figures with the data behind them.


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


# How a report looks: light and dark as the reader's system is, on paper light.


STYLE: Final = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --card: #f6f7f9; --ink: #1c1e21; --faint: #5a6068; --line: #d5d8dd;
  --accent: #1f5fbf; --good: #00694c; --bad: #b03a00; --warn: #7a5200;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #1d1f22; --card: #26292d; --ink: #e2e4e8; --faint: #a3a9b3; --line: #3d4148;
    --accent: #86b4ff; --good: #4fd0a5; --bad: #ff9a66; --warn: #f0c465;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 78rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif;
  overflow-wrap: anywhere;
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.02rem; margin: 1.4rem 0 .4rem; }
p { margin: .5rem 0; max-width: 68rem; }
a { color: var(--accent); }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; list-style: none; padding: 0; }
.faint, figcaption { color: var(--faint); }
p.faint, figcaption { font-size: .9rem; }
figcaption { margin-bottom: .4rem; }
.verdict { border-left: 4px solid var(--accent); padding: .4rem .8rem; background: var(--card); }
.caution { border-left: 4px solid var(--warn); padding: .4rem .8rem; background: var(--card); }
.good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: .5rem;
  margin: .8rem 0; }
.facts div { background: var(--card); border: 1px solid var(--line); border-radius: .4rem;
  padding: .35rem .6rem; }
.facts dt { color: var(--faint); font-size: .82rem; }
.facts dd { margin: 0; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums;
  font-size: .9rem; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .7rem .2rem 0; text-align: left;
  overflow-wrap: normal;
  vertical-align: top; }
th { font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.name { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .85rem;
  min-width: 14rem; overflow-wrap: anywhere; }
tr.marked td { background: var(--card); font-weight: 600; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: .4rem; padding: .6rem;
  max-height: 28rem; overflow: auto; white-space: pre-wrap; font-size: .82rem; }
details { margin: .5rem 0; }
summary { cursor: pointer; color: var(--accent); }
figure { margin: 1rem 0; }
svg { display: block; max-width: none; height: auto; }
svg.bars { width: 100%; min-width: 34rem; max-width: 56rem; }
svg text { fill: var(--ink); font-family: inherit; }
svg text.faint { fill: var(--faint); }
svg text.on-light { fill: #10131a; } svg text.on-dark { fill: #ffffff; }
svg .axis { stroke: var(--faint); } svg .frame { stroke: var(--line); fill: none; }
svg .empty { fill: var(--card); stroke: var(--line); } svg .curve { fill: var(--accent); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; list-style: none; padding: 0;
  font-size: .9rem; }
.legend li { display: flex; align-items: center; gap: .4rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(22rem, 100%), 1fr));
  gap: 1rem; }
.plots svg { width: 100%; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); }
@media (max-width: 40rem) { body { padding: .6rem; font-size: 14px; } }
@media print {
  :root { --page: #fff; --card: #f6f7f9; --ink: #000; --faint: #444; --line: #bbb;
    --accent: #1f5fbf; --good: #00694c; --bad: #b03a00; --warn: #7a5200; }
  body { max-width: none; font-size: 10pt; }
  .scroll { overflow: visible; } svg { max-width: 100%; }
  pre { max-height: none; } nav { display: none; }
  figure, tr { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
