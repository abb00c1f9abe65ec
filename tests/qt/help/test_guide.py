"""The guide: its pages are true and linked; its window has topics, search, links."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QPalette, QTextCharFormat, QTextTable
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.cli.main import program
from explorer.formats import limits, open_model
from explorer.formats.columns import tensor_arrays
from explorer.formats.tensor_filter import parse_filter
from explorer.formats.vocabulary import read_vocabulary
from explorer.paths import resource
from explorer.present.panels import PANELS, guide_page
from explorer.qt.help.guide import (
    KEYS_PAGE,
    ORDER,
    HelpWindow,
    Page,
    Place,
    anchor_of,
    keys_page,
    load_guide,
    page_of,
    pages_with,
    with_keys,
)
from explorer.qt.theme import Scheme, apply_scheme

PAGES = {page.name: page for page in load_guide()}
_CODE = re.compile(r"`([^`]+)`")
_CELL = re.compile(r"^\| (`.+?`(?:, `.+?`)*) \|", re.MULTILINE)
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def headings(page: Page) -> set[str]:
    return {anchor_of(line.lstrip("# ")) for line in page.text.split("\n") if line.startswith("#")}


def first_cells(page: Page) -> list[str]:
    """Return what stands as code in the first column of a page's tables."""
    return [code for cell in _CELL.findall(page.text) for code in _CODE.findall(cell)]


def fenced(page: Page, language: str) -> list[str]:
    blocks = [text for kind, text in _FENCED.findall(page.text) if kind == language]
    return [line for text in blocks for line in text.splitlines()]


def test_every_file_of_the_guide_is_a_page() -> None:
    files = {file.name for file in resource("guide").iterdir()}
    assert files == {f"{name}.md" for name in ORDER}
    assert len({page.title for page in PAGES.values()}) == len(ORDER)


def test_the_guide_is_shipped() -> None:
    project = Path(__file__).parents[3] / "pyproject.toml"
    wheel = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    shipped = wheel["wheel"]["force-include"]  # PyInstaller's recipe takes its files from here too
    assert shipped["resources/guide"] == "explorer/_resources/guide"


def test_every_panel_has_a_page() -> None:
    assert {*map(guide_page, PANELS)} <= set(PAGES)


@pytest.mark.parametrize("name", ORDER)
def test_every_link_leads_to_a_page_and_a_heading_of_it(name: str) -> None:
    for link in PAGES[name].links():
        place = Place.of_link(link, name)
        assert place is not None, link
        if place.page != KEYS_PAGE:
            assert place.anchor in {"", *headings(PAGES[place.page])}, link


@pytest.mark.parametrize("name", ORDER)
def test_pages_are_markdown_without_html_pictures_and_addresses(name: str) -> None:
    text = PAGES[name].text
    assert "![" not in text
    assert not re.search(r"https?:|<[a-z/]", re.sub(r"`[^`]*`", "", text))
    assert text.count("```") % 2 == 0
    assert max(len(word) for word in text.split()) < 60


def test_every_filter_term_works(demo_path: Path) -> None:
    terms = [*first_cells(PAGES["tensors"]), *fenced(PAGES["tensors"], "filter"), "size>1K"]
    assert len(terms) > 20
    with open_model(demo_path) as model:
        arrays = tensor_arrays(model.tensors)
        found = {term: int(parse_filter(term).mask(arrays).sum()) for term in terms}
    for term in terms:
        assert parse_filter(term).problems == (), term
    for term in ("ffn", "layer:none", "is:quantized", "-norm", "dims:2", "size>1K", "layer<4"):
        assert 0 < found[term] <= len(arrays), term


def test_every_kind_of_filter_term_is_listed() -> None:
    from explorer.formats.tensor_filter import _EXAMPLES

    listed = " ".join(first_cells(PAGES["tensors"]))
    assert [key for key in _EXAMPLES if not re.search(rf"\b{key}[:<>=]", listed)] == []


def test_every_vocabulary_term_works(demo_path: Path) -> None:
    terms = first_cells(PAGES["vocabulary"])
    assert len(terms) > 5
    with open_model(demo_path) as model:
        vocabulary = read_vocabulary(model)
        assert vocabulary is not None
        columns = vocabulary.display_columns(lambda: None)
    for term in terms:
        found = len(columns.search(term))
        assert found < len(columns), term  # a term that is none would find all, or what it says
        assert found > 0 or term == "len>20", term  # the demo has no token of that length


def test_every_command_and_option_exists() -> None:
    context = click.Context(program)
    commands = {name: program.get_command(context, name) for name in program.list_commands(context)}
    called = set()
    for line in (*first_cells(PAGES["commands"]), *fenced(PAGES["commands"], "sh")):
        _, *words = shlex.split(line)
        command = commands.get(words[0], program)
        assert command is not None
        assert command is not program or words == ["model.gguf"], line
        options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
        assert {word for word in words if word.startswith("-")} <= options, line
        called.add(words[0])
    assert set(commands) <= called
    everything = " ".join(page.text for page in PAGES.values())
    assert set(re.findall(r"gguf-explorer ([a-z]+)\b(?!\.)", everything)) <= set(commands)


def test_the_limits_are_those_of_the_program() -> None:
    rows = dict(re.findall(r"^\| ([^|`]+) \| ([\d,]+)(?: bytes)? \|$", PAGES["formats"].text, re.M))
    assert {name: int(number.replace(",", "")) for name, number in rows.items()} == {
        "Tensors of a GGUF file": limits.MAX_TENSORS,
        "Tensors of a safetensors file": limits.SAFETENSORS_MAX_TENSORS,
        "Metadata keys": limits.MAX_KEYS,
        "Dimensions of a GGUF tensor": limits.MAX_DIMENSIONS,
        "Strings of an array": limits.MAX_STRING_ELEMENTS,
        "Header of a safetensors file": limits.SAFETENSORS_MAX_HEADER_BYTES,
        "Files of one model": limits.MAX_SHARDS,
    }


def test_words_are_in_order_and_listed_once() -> None:
    words = re.findall(r"^\*\*(.+?)\*\*:", PAGES["words"].text, re.MULTILINE)
    assert words == sorted(words, key=str.casefold)
    assert len(words) == len(set(words)) > 40
    wanted = {"Tensor", "Block", "Scale", "Zero point", "Group size", "KV cache", "Offload", "SQNR"}
    assert wanted <= set(words)


def test_searching_finds_pages_with_every_word() -> None:
    pages = list(PAGES.values())
    assert [page.name for page in pages_with(pages, "BACKSPACE zoom")] == ["weights"]
    assert pages_with(pages, "Backspace xyzzy") == []
    assert pages_with(pages, "  ") == pages


def test_a_page_needs_a_title() -> None:
    with pytest.raises(ValueError, match="no title"):
        page_of("x", "no title")


@pytest.mark.parametrize(
    ("link", "place"),
    [
        ("raw.md", Place("raw")),
        ("tensors.md#filter-terms", Place("tensors", "filter-terms")),
        ("#block", Place("weights", "block")),
        ("keys.md", Place("keys")),
        ("https://example.org/", None),
        ("../secret.md", None),
        ("raw", None),
        ("file:///etc/passwd", None),
    ],
)
def test_links_lead_nowhere_but_into_the_guide(link: str, place: Place | None) -> None:
    assert Place.of_link(link, "weights") == place


ALT, CONTROL = Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.ControlModifier
COMMANDS = {"Find | *everything*": "Ctrl+|"}


def pages() -> list[Page]:
    return [*load_guide(), keys_page(COMMANDS)]


@pytest.fixture
def guide(qtbot: QtBot) -> HelpWindow:
    window = HelpWindow(pages(), lambda page: with_keys(page, COMMANDS))
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(window)
    window.open_page("start")
    window.show()
    qtbot.waitExposed(window)
    window.activateWindow()
    return window


def shown_topics(guide: HelpWindow) -> list[str]:
    names = [page.name for page in pages()]
    return [name for place, name in enumerate(names) if not guide.topics.isRowHidden(place)]


def links(guide: HelpWindow) -> Iterator[tuple[str, QTextCharFormat]]:
    block = guide.text.document().begin()
    while block.isValid():
        parts = block.begin()
        while not parts.atEnd():
            style = parts.fragment().charFormat()
            if style.isAnchor():
                yield style.anchorHref(), style
            parts += 1
        block = block.next()


def test_all_pages_are_topics_in_the_order_of_reading(guide: HelpWindow) -> None:
    assert shown_topics(guide) == [*ORDER, KEYS_PAGE]
    for name in shown_topics(guide):
        guide.open_page(name)
        assert guide.page == name
        assert guide.topics.currentItem().text() in guide.windowTitle()
        assert guide.text.toPlainText().startswith(guide.topics.currentItem().text())
        assert guide.text.verticalScrollBar().value() == 0


def test_marks_of_markdown_in_keys_are_shown_as_they_are(guide: HelpWindow) -> None:
    guide.open_page(KEYS_PAGE)
    text = guide.text.toPlainText()
    assert "Find | *everything*" in text
    assert "Ctrl+|" in text


def test_every_link_can_be_followed_and_taken_back(guide: HelpWindow) -> None:
    for name in ORDER:
        guide.open_page(name)
        for href, _ in list(links(guide)):
            guide.text.anchorClicked.emit(QUrl(href))
            assert guide.page in shown_topics(guide)
            guide.back.trigger()
            assert guide.page == name


def test_a_link_to_a_heading_scrolls_there(qtbot: QtBot, guide: HelpWindow) -> None:
    guide.text.anchorClicked.emit(QUrl("weights.md#block"))
    assert guide.page == "weights"
    assert guide.text.textCursor().block().text() == "Block"
    top = guide.text.cursorRect().top()
    assert 0 <= top < guide.text.viewport().height()
    assert guide.text.verticalScrollBar().value() > 0


def test_links_out_of_the_guide_lead_nowhere(guide: HelpWindow) -> None:
    before = guide.text.toPlainText()
    for address in ("https://example.org/", "file:///etc/passwd", "start", "qrc:/x.md"):
        guide.text.anchorClicked.emit(QUrl(address))
        assert guide.page == "start"
    guide.text.document().setMarkdown("# Start\n\n![picture](file:///etc/passwd)\n")
    assert "root:" not in guide.text.toPlainText()
    assert guide.text.loadResource(0, QUrl("file:///etc/passwd")) is None
    guide.open_page("raw")
    guide.open_page("start")
    assert guide.text.toPlainText() == before


def test_back_and_forward_by_keys(qtbot: QtBot, guide: HelpWindow) -> None:
    assert not guide.back.isEnabled()
    for name in ("raw", "planner", "planner", "words"):
        guide.open_page(name)
    qtbot.keyClick(guide, Qt.Key.Key_Left, ALT)
    assert guide.page == "planner"
    qtbot.keyClick(guide, Qt.Key.Key_Left, ALT)
    assert guide.page == "raw"
    qtbot.keyClick(guide, Qt.Key.Key_Right, ALT)
    assert guide.page == "planner"
    guide.open_page("never")
    assert not guide.forward.isEnabled()  # another way was taken
    qtbot.keyClick(guide, Qt.Key.Key_Left, ALT)
    assert guide.page == "planner"


def test_searching_filters_topics_and_selects_a_word(qtbot: QtBot, guide: HelpWindow) -> None:
    qtbot.keyClick(guide, Qt.Key.Key_F, CONTROL)
    assert guide.search.edit.hasFocus()
    qtbot.keyClicks(guide.search.edit, "shard")
    assert shown_topics(guide) == ["words"]
    assert guide.page == "words"
    assert guide.text.textCursor().selectedText().lower() == "shard"
    assert guide.text.textCursor().block().text().lower().startswith("shard")
    assert guide.search.status.text() == "1 topic"
    qtbot.keyClick(guide.search.edit, Qt.Key.Key_Escape)
    assert shown_topics(guide) == [*ORDER, KEYS_PAGE]
    assert not guide.text.textCursor().hasSelection()
    assert guide.isVisible()  # Escape cleared the search, and only then closes


def test_a_search_without_any_page_leaves_the_text(qtbot: QtBot, guide: HelpWindow) -> None:
    guide.search.edit.setText("xyzzy")
    assert shown_topics(guide) == []
    assert guide.page == "start"


def test_f3_goes_from_place_to_place_and_round(qtbot: QtBot, guide: HelpWindow) -> None:
    guide.open_page("planner")
    guide.search.edit.setText("memory")
    count = guide.text.toPlainText().lower().count("memory")
    assert count > 2
    places = []
    for _ in range(count):
        places.append(guide.text.textCursor().position())
        qtbot.keyClick(guide, Qt.Key.Key_F3)
    assert len(set(places)) == count
    assert guide.text.textCursor().position() == places[0]
    qtbot.keyClick(guide, Qt.Key.Key_F3, Qt.KeyboardModifier.ShiftModifier)
    assert guide.text.textCursor().position() == places[-1]


def test_topics_are_chosen_by_keys_from_the_search(qtbot: QtBot, guide: HelpWindow) -> None:
    guide.search.focus()
    qtbot.keyClick(guide.search.edit, Qt.Key.Key_Down)
    assert guide.topics.hasFocus()
    qtbot.keyClick(guide.topics, Qt.Key.Key_Down)
    assert guide.page == ORDER[1]


def test_links_and_tables_follow_the_colours(qtbot: QtBot, guide: HelpWindow) -> None:
    try:
        seen = set()
        for scheme in (Scheme.LIGHT, Scheme.DARK, Scheme.CONTRAST):
            apply_scheme(scheme)
            QApplication.processEvents()
            colour = QApplication.palette().color(QPalette.ColorRole.Link)
            assert {style.foreground().color().name() for _, style in links(guide)} == {
                colour.name()
            }
            seen.add(colour.name())
        assert len(seen) == 3
    finally:
        apply_scheme(Scheme.SYSTEM)


def test_tables_have_visible_cells(guide: HelpWindow) -> None:
    guide.open_page("tensors")
    tables = [
        child
        for child in guide.text.document().rootFrame().childFrames()
        if isinstance(child, QTextTable)
    ]
    assert len(tables) == 1 + 2  # terms; the panel's keys; the window's
    for table in tables:
        assert table.columns() == 2
        assert table.cellAt(0, 0).firstCursorPosition().charFormat().fontWeight() > 400


def test_escape_closes_the_window(qtbot: QtBot, guide: HelpWindow) -> None:
    with qtbot.waitSignal(guide.finished):
        qtbot.keyClick(guide.text, Qt.Key.Key_Escape)
    assert not guide.isVisible()
