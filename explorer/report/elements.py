"""HTML as elements: what comes from a model can only ever be text.

Built upon `xml.etree.ElementTree`, whose HTML writer knows void elements and escapes all text. Tags
and attributes come from the lists below, and the value of an attribute is never a model's string:
an attempt fails here, while the report is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias
from xml.etree import ElementTree as ET

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
