"""The page: all text is escaped and cleaned, and the template holds nothing that could run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import TemplateNotFound, UndefinedError

from explorer.paths import resource
from explorer.planner import Device, Settings
from explorer.planner.engines.registry import engine_named
from explorer.planner.request import PlanRequest
from explorer.present.tables.table import Column, Table
from explorer.report.privacy import MAX_TEXT, Privacy, environment
from explorer.report.sections import MAX_ROWS, _plan_notes, table_of
from explorer.text import plain_text
from tests.planner.models import tiny
from tests.report.parsing import Page

PAGE = environment(Privacy([Path("/nowhere/x.gguf")]))
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "nav"),
    *("section", "h1", "h2", "h3", "p", "a", "ul", "li", "dl", "dt", "dd", "div", "span"),
    *("strong", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"),
    *("figure", "figcaption", "svg", "g", "rect", "path", "line", "text"),
    *("defs", "pattern", "circle"),
}


def html_of(text: object, tag: str = "p", filters: str = "") -> str:
    source = f"<html><title>{{{{ text }}}}</title><{tag}>{{{{ text{filters} }}}}</{tag}></html>"
    return PAGE.from_string(source).render(text=text)


@given(st.text())
def test_any_text_comes_back_as_text(text: str) -> None:
    page = Page.of(html_of(text))
    assert page.tags == ["html", "title", "p"]
    assert page.attributes == []
    assert page.faults == page.open == page.comments == []
    assert "".join(page.texts) == plain_text(text) * 2


@pytest.mark.parametrize(
    "text", ["</title><script>alert(1)</script>", "</p>", "<!-- x", "]]>", "&lt;b&gt;", "\x00<b>"]
)
def test_markup_stays_text(text: str) -> None:
    page = Page.of(html_of(text))
    assert page.tags == ["html", "title", "p"]
    assert page.texts.count(plain_text(text)) == 2


def test_a_setting_that_is_not_as_asked_for_is_noted_once() -> None:
    device = Device("0", "CUDA", 8 << 30, name="NVIDIA L4")
    request = PlanRequest(tiny(), Settings(context=8192), (device,))
    notes = _plan_notes([engine_named("ollama").plan(request)])
    said = "context is 4096 instead of 8192: the model was trained for 4,096 tokens"
    assert [note for note in notes if note.startswith("context is")] == [said]


@pytest.mark.parametrize("text", ["{{ 7 * 7 }}", "{% include 'page.html' %}", "{# x #}"])
def test_a_text_is_no_template(text: str) -> None:
    assert Page.of(html_of(text)).texts == [text, text]


@pytest.mark.parametrize(
    ("number", "text"), [(3, "3"), (0.1 + 0.2, "0.3"), (100.0, "100"), (0, "0")]
)
def test_numbers_are_short(number: float, text: str) -> None:
    assert f"<p>{text}</p>" in html_of(number)


def test_a_text_that_was_not_cut_is_cut() -> None:
    html = html_of("x" * (MAX_TEXT + 5), "pre", "|lines")
    assert "x" * MAX_TEXT + "… (cut, 100,005 characters)" in html
    assert "x" * (MAX_TEXT + 1) not in html


def test_only_preformatted_text_has_lines() -> None:
    assert "a\\nb" in html_of("a\nb")
    assert "<pre>a\n&lt;b</pre>" in html_of("a\n<b", "pre", "|lines")


def test_a_table_has_a_maximum_of_rows() -> None:
    numbers = Table(Column("a", "A", of=str))
    found = table_of(numbers, range(MAX_ROWS + 7))
    assert len(found.rows) == MAX_ROWS
    assert found.left_out == 7


def test_there_is_one_template_and_it_names_what_is_there() -> None:
    assert PAGE.autoescape is True
    for name in ("/etc/passwd", "../report/page.html", "no.html"):
        with pytest.raises(TemplateNotFound):
            PAGE.get_template(name)
    with pytest.raises(UndefinedError):
        PAGE.from_string("{{ unknown }}").render()


def test_things_are_counted_in_the_singular_or_the_plural() -> None:
    assert PAGE.from_string("{{ 1|counted('tensor') }}, {{ 2|counted('tensor') }}").render() == (
        "1 tensor, 2 tensors"
    )
    source = resource("report/page.html").read_text("utf-8")
    assert not re.findall(r"\|integer }} (?:more )?[a-z]+s\b", source)


def test_the_template_holds_nothing_that_could_run_or_load() -> None:
    source = resource("report/page.html").read_text("utf-8")
    assert not re.search(r"\|\s*safe|autoescape|Markup|<script|@import|url\((?!#)", source)
    html = re.sub(r"{#.*?#}|{%.*?%}|{{.*?}}", "", source, flags=re.DOTALL)
    page = Page.of(re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL))
    assert {*page.tags} <= TAGS
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on")} | (names & {"src", "style"})
    assert all((link or "").startswith("#") for link in page.values("href"))
    written = re.findall(r'\b([a-z-]+)="{{ ([^}]*) }}"', source)
    assert {name for name, _ in written} <= {
        *("class", "fill", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "d"),
        *("text-anchor", "font-size"),
    }
