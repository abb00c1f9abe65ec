"""One switch for the units of sizes: remembered, and heard of in every panel."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from explorer.qt.references import Rounding
from explorer.qt.settings import Settings
from explorer.text import PLAIN, ByteUnits, notation, set_notation
from tests.helpers.everywhere import dialogs, everywhere, named, settle, visible
from tests.helpers.overview import shown_facts
from tests.helpers.seen_texts import texts_of

_BINARY = re.compile(r"\d\s?(Ki|Mi|Gi|Ti)B")
_ANY_UNIT = re.compile(r"\d\s?[KMGTkmgt]i?B\b")


@pytest.fixture(autouse=True)
def plain_notation() -> Iterator[None]:
    """Give the process its notation back."""
    yield
    set_notation(PLAIN)


def _trigger(window: MainWindow, units: ByteUnits) -> None:
    window.actions_.units[units].trigger()


def _sizes(window: MainWindow, qtbot: QtBot, pattern: re.Pattern[str]) -> list[str]:
    found = []
    for name, page in everywhere(qtbot, window):
        for widget in (*visible(page), *visible(window.open_models)):
            for seen in texts_of(widget):
                if seen.kind != "document" and pattern.search(seen.text):
                    found.append(f"{name}: {named(seen.widget)} {seen.kind}: {seen.text[:120]}")
    return found


def test_the_switch_is_in_the_menu_view_and_remembered(
    window: MainWindow, settings: Settings
) -> None:
    sizes = next(menu for menu in window.findChildren(QMenu) if menu.title() == "&Sizes in")
    texts = [action.text().replace("&", "") for action in sizes.actions()]
    assert texts == ["KiB, MiB, GiB (powers of 1024)", "kB, MB, GB (powers of 1000)"]
    assert settings.byte_units is ByteUnits.BINARY
    _trigger(window, ByteUnits.DECIMAL)
    assert settings.byte_units is ByteUnits.DECIMAL
    assert notation().units is ByteUnits.DECIMAL


def test_a_damaged_setting_is_binary(settings: Settings) -> None:
    settings._store.setValue("byte_units", "nonsense")
    assert settings.byte_units is ByteUnits.BINARY


@pytest.mark.slow
def test_every_panel_that_is_open_tells_sizes_anew(
    qtbot: QtBot, make_window: Callable[..., MainWindow], demo_path: Path
) -> None:
    window = make_window(demo_path)
    window.reveal_tensor(window.documents[0], 3)
    window.panels.references.choose(Rounding("Q4_0"))
    before = _sizes(window, qtbot, _BINARY)
    assert len(before) > 60  # the walk sees sizes, and all panels are made now
    _trigger(window, ByteUnits.DECIMAL)
    settle(qtbot, window)
    told = _sizes(window, qtbot, _ANY_UNIT)
    assert len(told) >= len(before)
    left = [text for text in told if _BINARY.search(text)]
    # what one may type is told in both, whatever is shown
    left = [text for text in left if " tip: " not in text and " hint: " not in text]
    assert left == []
    for name, dialog in dialogs(qtbot, window):
        for widget in visible(dialog):
            texts = [seen.text for seen in texts_of(widget) if seen.kind in {"cell", "label"}]
            assert not any(map(_BINARY.search, texts)), name
    _trigger(window, ByteUnits.BINARY)
    assert _BINARY.search(shown_facts(window.panels.overview.widget)["Size of tensors"])
