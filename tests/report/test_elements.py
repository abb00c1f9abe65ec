"""Elements: all text is escaped, and nothing else gets in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from explorer.report.html import MAX_ROWS, MAX_TEXT, element, table, to_html
from explorer.text import plain_text
from tests.report.parsing import Page


def plain(text: str, lines: bool) -> str:
    return plain_text(text, lines=lines)


def html_of(text: str, tag: str = "p") -> str:
    head = element("head", element("meta", charset="utf-8"), element("title", text))
    return to_html(element("html", head, element("body", element(tag, text))), plain)


@examples(max_examples=60)
@given(st.text())
def test_any_text_comes_back_as_text(text: str) -> None:
    page = Page.of(html_of(text))
    assert page.tags == ["html", "head", "meta", "title", "body", "p"]
    assert page.attributes == [("charset", "utf-8")]
    assert page.faults == page.open == page.comments == []
    assert "".join(page.texts).strip("\n") == (plain_text(text) * 2).strip("\n")


@pytest.mark.parametrize(
    "text", ["</title><script>alert(1)</script>", "</p>", "<!-- x", "]]>", "&lt;b&gt;", "\x00<b>"]
)
def test_markup_stays_text(text: str) -> None:
    page = Page.of(html_of(text))
    assert page.tags == ["html", "head", "meta", "title", "body", "p"]
    assert page.texts.count(plain_text(text)) == 2


def test_children_keep_their_order() -> None:
    made = element("p", "a", element("strong", "b"), "c", None, "d", element("span", "e"), "f")
    body = to_html(element("html", made), plain)
    assert "<p>a<strong>b</strong>cd<span>e</span>f</p>" in body


def test_void_elements_have_no_end_and_others_do() -> None:
    made = element("html", element("meta", charset="utf-8"), element("div"), element("rect", x=1))
    html = to_html(made, plain)
    assert '<meta charset="utf-8"><div></div><rect x="1"></rect>' in html


@pytest.mark.parametrize(
    ("number", "text"), [(3, "3"), (0.1 + 0.2, "0.3"), (100.0, "100"), (0, "0")]
)
def test_numbers_are_short(number: float, text: str) -> None:
    assert element("rect", x=number).get("x") == text


@pytest.mark.parametrize(
    ("tag", "attributes"),
    [
        ("script", {}),
        ("img", {}),
        ("p", {"onclick": "x"}),
        ("p", {"style": "x"}),
        ("p", {"class_": 'x"'}),
        ("p", {"id": "<b>"}),
        ("a", {"href": "javascript:x"}),
        ("a", {"href": "https://host/"}),
    ],
)
def test_what_no_report_has_is_refused(tag: str, attributes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="report"):
        element(tag, **attributes)


def test_text_that_nobody_cut_is_cut() -> None:
    html = html_of("x" * (MAX_TEXT + 5), "pre")
    assert "x" * MAX_TEXT + "… (cut, 100,005 characters)" in html
    assert "x" * (MAX_TEXT + 1) not in html


def test_only_preformatted_text_has_lines() -> None:
    assert "a\\nb" in html_of("a\nb")
    assert "<pre>a\nb</pre>" in html_of("a\nb", "pre")


def test_a_table_has_so_many_rows_at_most() -> None:
    page = Page.of(to_html(element("html", table(("a",), (("x",) for _ in range(5000)))), plain))
    assert page.tags.count("tr") == MAX_ROWS + 1
    rows = (("x",) for _ in range(MAX_ROWS + 7))
    told = Page.of(to_html(element("html", table(("a",), rows, total=MAX_ROWS + 7)), plain))
    assert "7 more rows are left out." in told.texts
