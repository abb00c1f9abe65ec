"""The keys in the user guide: at the end of each panel's page, and on a page of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from PySide6.QtCore import QCoreApplication

from explorer.qt.models.help.guide import KEYS_PAGE, Page, page_of
from explorer.qt.models.help.key_lists import KeyLine, panel_lines

_MARKUP: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>()#+-.!|~"})


def with_keys(page: Page, commands: Sequence[KeyLine]) -> str:
    """Return the text of a page; of a panel's page, with its keys and those of the window.

    Args:
        page: The page.
        commands: Keys of the window's commands.
    """
    lines = panel_lines().get(page.name)
    if lines is None:
        return page.text
    parts = [page.text.rstrip()]
    if lines:
        parts += [_heading(_tr("Keys of this panel")), _table(lines)]
    parts += [_heading(_tr("Keys everywhere")), _table(commands)]
    return "\n\n".join(parts) + "\n"


def keys_page(commands: Sequence[KeyLine], titles: Mapping[str, str]) -> Page:
    """Return the page that lists all keys.

    Args:
        commands: Keys of the window's commands.
        titles: What each panel is called, by its object name.
    """
    parts = [
        f"# {_tr('Keyboard shortcuts')}",
        _heading(_tr("Everywhere")),
        _table(commands),
        _heading(_tr("This guide")),
        _table(_guide_lines()),
    ]
    for name, lines in panel_lines().items():
        if lines:
            parts += [_heading(titles[name].translate(_MARKUP)), _table(lines)]
    return page_of(KEYS_PAGE, "\n\n".join(parts) + "\n")


def _guide_lines() -> list[KeyLine]:
    return [
        KeyLine(_tr("Search the guide"), "Ctrl+F"),
        KeyLine(_tr("Next place on the page, previous place"), "F3, Shift+F3"),
        KeyLine(_tr("Page before, page after"), "Alt+Left, Alt+Right"),
        KeyLine(_tr("Larger, smaller, as at first"), "Ctrl++, Ctrl+-, Ctrl+0"),
        KeyLine(_tr("From link to link, follow it"), "Tab, Enter"),
        KeyLine(_tr("Close"), "Escape"),
    ]


def _heading(text: str) -> str:
    return f"## {text}"


def _table(lines: Iterable[KeyLine]) -> str:
    rows = [f"| {_tr('What')} | {_tr('Keys')} |", "| --- | --- |"]
    rows += [f"| {line.what.translate(_MARKUP)} | `{line.keys}` |" for line in lines]
    return "\n".join(rows)


def _tr(text: str) -> str:
    return QCoreApplication.translate("GuideKeys", text)
