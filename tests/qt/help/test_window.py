"""The window of the guide: topics, search, links, going back, larger text, other colours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QPalette, QTextCharFormat, QTextTable, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.qt.help.guide import (
    KEYS_PAGE,
    ORDER,
    PANEL_KEYS,
    HelpWindow,
    Page,
    keys_page,
    load_guide,
    with_keys,
)
from explorer.qt.theme import Scheme, apply_scheme

ALT, CONTROL = Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.ControlModifier
COMMANDS = {"Find | *everything*": "Ctrl+|"}


def pages() -> list[Page]:
    titles = dict.fromkeys(PANEL_KEYS, "Panel")
    return [*load_guide(), keys_page(COMMANDS, titles)]


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


def test_searching_filters_topics_and_marks_what_is_found(qtbot: QtBot, guide: HelpWindow) -> None:
    qtbot.keyClick(guide, Qt.Key.Key_F, CONTROL)
    assert guide.search.edit.hasFocus()
    qtbot.keyClicks(guide.search.edit, "kurtosis")
    assert shown_topics(guide) == ["words"]
    assert guide.page == "words"
    found = {mark.cursor.selectedText().lower() for mark in guide.text.extraSelections()}
    assert found == {"kurtosis"}
    assert guide.text.textCursor().block().text().lower().startswith("kurtosis")
    assert guide.search.status.text() == "1 topic"
    qtbot.keyClick(guide.search.edit, Qt.Key.Key_Escape)
    assert shown_topics(guide) == [*ORDER, KEYS_PAGE]
    assert guide.text.extraSelections() == []
    assert guide.isVisible()  # Escape cleared the search, and only then closes


def test_a_search_without_any_page_leaves_the_text(qtbot: QtBot, guide: HelpWindow) -> None:
    guide.search.edit.setText("xyzzy")
    assert shown_topics(guide) == []
    assert guide.page == "start"


def test_f3_goes_from_place_to_place_and_round(qtbot: QtBot, guide: HelpWindow) -> None:
    guide.open_page("planner")
    guide.search.edit.setText("memory")
    count = len(guide.text.extraSelections())
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


def test_text_is_made_larger_by_keys_and_by_the_wheel(qtbot: QtBot, guide: HelpWindow) -> None:
    size = guide.text.font().pointSizeF()
    qtbot.keyClick(guide, Qt.Key.Key_Plus, CONTROL)
    assert guide.text.font().pointSizeF() > size
    qtbot.keyClick(guide, Qt.Key.Key_0, CONTROL)
    assert guide.text.font().pointSizeF() == pytest.approx(size)
    place = QPointF(20, 20)
    turn = QWheelEvent(
        place, guide.text.viewport().mapToGlobal(place), QPoint(0, 0), QPoint(0, 120),
        Qt.MouseButton.NoButton, CONTROL, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(guide.text.viewport(), turn)
    assert guide.text.font().pointSizeF() > size
    for _ in range(99):
        guide.larger.trigger()
    assert guide.text.zoom == 4.0
    for _ in range(99):
        guide.smaller.trigger()
    assert guide.text.zoom == 0.5


def test_links_and_tables_follow_the_colours(qtbot: QtBot, guide: HelpWindow) -> None:
    before = QApplication.palette()
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
        QApplication.styleHints().setColorScheme(Qt.ColorScheme.Unknown)
        QApplication.setPalette(before)


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


def test_escape_closes_and_tells_so(qtbot: QtBot, guide: HelpWindow) -> None:
    with qtbot.waitSignal(guide.finished):
        qtbot.keyClick(guide.text, Qt.Key.Key_Escape)
    assert not guide.isVisible()
