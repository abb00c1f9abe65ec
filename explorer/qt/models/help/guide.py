"""The user guide: pages of Markdown that the program ships in `resources/guide`.

Pages of panels have the panels' object names. The texts are the program's own; nothing of a model
ever gets into one, so they may be shown as rich text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from explorer.paths import resource

ORDER: Final = (
    "start",
    "library",
    "overview",
    "metadata",
    "tensors",
    "weights",
    "errors",
    "survey",
    "vocabulary",
    "planner",
    "raw",
    "commands",
    "formats",
    "words",
    "never",
)
"""The pages, in the order of reading."""

KEYS_PAGE: Final = "keys"
"""Name of the page that lists all keys; it is made from the commands."""

_LINK: Final = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)]*)\)")
_TITLE: Final = re.compile(r"# (.+)")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the guide.

    Attributes:
        name: Stable name: the file's without its ending.
        title: What it is about: its first line.
        text: The whole page, Markdown.
    """

    name: str
    title: str
    text: str

    def links(self) -> list[str]:
        """Return where its links lead to."""
        return _LINK.findall(self.text)

    def holds(self, words: Iterable[str]) -> bool:
        """Tell whether every word occurs in it, whatever its case."""
        text = self.text.casefold()
        return all(word.casefold() in text for word in words)


@dataclass(frozen=True, slots=True)
class Place:
    """What a link leads to.

    Attributes:
        page: The page.
        anchor: The heading there, as GitHub writes it in links; "" for the page's start.
    """

    page: str
    anchor: str = ""

    @classmethod
    def of_link(cls, link: str, current: str) -> Place | None:
        """Return what a link of a page means; None if it leads out of the guide."""
        file, _, anchor = link.partition("#")
        if not file:
            return cls(current, anchor)
        name = file.removesuffix(".md")
        return cls(name, anchor) if name in (*ORDER, KEYS_PAGE) and file.endswith(".md") else None


def page_of(name: str, text: str) -> Page:
    """Return a page of a text.

    Raises:
        ValueError: The text does not begin with a title.
    """
    found = _TITLE.match(text)
    if found is None:
        raise ValueError(f"the page {name!r} of the guide has no title")
    return Page(name, found[1], text)


def load_guide() -> tuple[Page, ...]:
    """Read the pages, in the order of reading; some 30 KB.

    Raises:
        FileNotFoundError: The installation lacks one.
    """
    return tuple(
        page_of(name, resource(f"guide/{name}.md").read_text(encoding="utf-8")) for name in ORDER
    )


def pages_with(pages: Sequence[Page], text: str) -> list[Page]:
    """Return the pages in which every word of a text occurs."""
    return [page for page in pages if page.holds(text.split())]


def anchor_of(heading: str) -> str:
    """Return how links name a heading: as GitHub does, in small letters and with hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
