"""The guide is complete and true: its links work, and so does what it says to type."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from explorer.cli.main import program
from explorer.formats import limits, open_model
from explorer.formats.columns import tensor_arrays
from explorer.formats.tensor_filter import parse_filter
from explorer.formats.vocabulary import read_vocabulary
from explorer.paths import resource
from explorer.present.explanations import PANEL_TEXTS
from explorer.qt.help.guide import (
    KEYS_PAGE,
    ORDER,
    Page,
    Place,
    anchor_of,
    load_guide,
    page_of,
    pages_with,
)

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
    assert set(PANEL_TEXTS) <= set(PAGES)


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
