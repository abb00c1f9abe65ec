"""Reads a report back as a browser would, and notes what is in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Page(HTMLParser):
    """A parsed document.

    Attributes:
        tags: Names of all elements.
        attributes: (name, value) of all attributes.
        texts: Texts between the elements; style left out.
        declarations: What stands in ``<!…>``.
        comments: Comments; a report has none.
        open: Elements that are not closed yet, from the outermost.
        faults: End tags that close something else.
    """

    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str | None]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    declarations: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        HTMLParser.__init__(self, convert_charrefs=True)

    @classmethod
    def of(cls, html: str) -> Page:
        page = cls()
        page.feed(html)
        page.close()
        return page

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    def values(self, attribute: str) -> list[str | None]:
        return [value for name, value in self.attributes if name == attribute]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.texts.append(data)

    def handle_decl(self, decl: str) -> None:
        self.declarations.append(decl)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def check_html(html: str) -> Page:
    """Return the parsed page after checking that it is well-formed, self-contained and inert."""
    page = Page.of(html)
    assert html.startswith("<!DOCTYPE html>\n<html")
    assert page.declarations == ["DOCTYPE html"]
    assert page.comments == page.faults == page.open == []
    names = {name for name, _ in page.attributes}
    assert not {"script", "iframe", "object", "embed", "link", "base", "form", "img"} & {*page.tags}
    assert not {name for name in names if name.startswith("on")} | (names & {"src", "style"})
    assert all((link or "").startswith("#") for link in page.values("href"))
    identities = page.values("id")
    assert len(identities) == len(set(identities))
    assert {(link or "")[1:] for link in page.values("href")} <= set(identities)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page.values("content")
    return page
