"""The bytes of a file: keys, mouse, scrolling, copying, and what is painted."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage, QKeyEvent, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.formats.structure import FieldKind, Structure
from explorer.qt.raw.hex_view import HexView, build_menu
from explorer.qt.theme import Scheme, apply_scheme
from explorer.qt.widgets.painting import field_tint
from explorer.sources import MemorySource
from tests.helpers.raw_views import press, show_source
from tests.helpers.slow_sources import HugeSource
from tests.helpers.small_gguf import SmallGguf, example, model_from
from tests.helpers.window import copied

KEY = Qt.Key
SHIFT = Qt.KeyboardModifier.ShiftModifier
CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def view(hex_view: HexView) -> HexView:
    return hex_view


def test_keys_move_the_cursor(qtbot: QtBot, view: HexView) -> None:
    show_source(qtbot, view, MemorySource(bytes(5000)))
    assert view.columns == 16
    moved: list[int] = []
    view.cursor_moved.connect(moved.append)
    assert press(qtbot, view, KEY.Key_Left) == 0
    assert moved == []  # there is nothing before the first byte
    assert press(qtbot, view, KEY.Key_Right) == 1
    assert press(qtbot, view, KEY.Key_Down) == 17
    assert press(qtbot, view, KEY.Key_End) == 31
    assert press(qtbot, view, KEY.Key_Home) == 16
    assert press(qtbot, view, KEY.Key_Up) == 0
    assert press(qtbot, view, KEY.Key_Up) == 0
    page = press(qtbot, view, KEY.Key_PageDown)
    assert page > 0
    assert page % 16 == 0
    assert press(qtbot, view, KEY.Key_PageUp) == 0
    assert press(qtbot, view, KEY.Key_End, CONTROL) == 4999
    assert 4999 in view.visible_bytes
    assert press(qtbot, view, KEY.Key_Right) == 4999
    assert press(qtbot, view, KEY.Key_Down) == 4999
    assert press(qtbot, view, KEY.Key_Home, CONTROL) == 0
    assert 0 in view.visible_bytes
    assert moved == [1, 17, 31, 16, 0, page, 0, 4999, 0]


def test_control_moves_from_field_to_field(qtbot: QtBot, view: HexView) -> None:
    model = model_from(example().write())
    show_source(qtbot, view, model.files[0].source)
    view.set_structure(Structure(model))
    stops = [press(qtbot, view, KEY.Key_Right, CONTROL) for _ in range(5)]
    assert stops == [4, 8, 16, 24, 32]
    press(qtbot, view, KEY.Key_Right)
    assert [press(qtbot, view, KEY.Key_Left, CONTROL) for _ in range(3)] == [32, 24, 16]


def test_ignores_keys_of_other_scripts(qtbot: QtBot, view: HexView) -> None:
    show_source(qtbot, view, MemorySource(bytes(100)))
    letter = ord("Ф")  # QTest can only type ASCII
    event = QKeyEvent(QEvent.Type.KeyPress, letter, Qt.KeyboardModifier.NoModifier, "ф")
    QApplication.sendEvent(view, event)
    assert view.cursor_offset == 0


def test_shift_selects(qtbot: QtBot, view: HexView) -> None:
    show_source(qtbot, view, MemorySource(bytes(range(256))))
    for _ in range(3):
        press(qtbot, view, KEY.Key_Right, SHIFT)
    assert view.selection == range(4)
    press(qtbot, view, KEY.Key_Down, SHIFT)
    assert view.selection == range(20)
    press(qtbot, view, KEY.Key_Right)
    assert len(view.selection) == 0
    press(qtbot, view, KEY.Key_Left, SHIFT)
    assert view.selection == range(19, 21)


def test_mouse_selects(qtbot: QtBot, view: HexView) -> None:
    show_source(qtbot, view, MemorySource(bytes(range(256))))
    port = view.viewport()
    left = Qt.MouseButton.LeftButton
    qtbot.mousePress(port, left, pos=view.place_of(18))
    assert view.cursor_offset == 18
    assert len(view.selection) == 0
    qtbot.mouseMove(port, view.place_of(37))
    qtbot.mouseRelease(port, left, pos=view.place_of(37))
    assert view.selection == range(18, 38)
    qtbot.mouseClick(port, left, SHIFT, view.place_of(40))
    assert view.selection == range(18, 41)
    qtbot.mouseClick(port, left, pos=view.place_of(7))
    assert view.cursor_offset == 7
    assert len(view.selection) == 0


def test_every_byte_is_where_it_is_painted(qtbot: QtBot, view: HexView) -> None:
    for width, columns in ((1200, 32), (700, 16), (360, 8)):
        view.resize(width, 400)
        show_source(qtbot, view, MemorySource(bytes(200)))
        assert view.columns == columns
        for offset in range(80):
            assert view.offset_at(QPointF(view.place_of(offset))) == offset


def test_dragging_below_the_rows_scrolls_on(qtbot: QtBot, view: HexView) -> None:
    show_source(qtbot, view, MemorySource(bytes(20_000)))
    port = view.viewport()
    left = Qt.MouseButton.LeftButton
    qtbot.mousePress(port, left, pos=view.place_of(3))
    below = QPoint(view.place_of(3).x(), port.height() + 30)
    qtbot.mouseMove(port, below)
    first = view.visible_bytes.start
    qtbot.waitUntil(lambda: view.visible_bytes.start >= first + 64)
    qtbot.mouseRelease(port, left, pos=below)
    assert view.selection.start == 3
    assert view.cursor_offset in view.visible_bytes
    assert not view._drag_timer.isActive()


def test_copies_in_four_forms(qtbot: QtBot, view: HexView) -> None:
    show_source(qtbot, view, MemorySource(b"GGUF\x03\xff\x1b!" + bytes(40)))
    view.set_cursor(0, 8)
    clip = copied(qtbot, lambda: press(qtbot, view, KEY.Key_C, CONTROL))
    assert clip == "47 47 55 46 03 ff 1b 21"
    menu = build_menu(view)
    actions = {a.text().replace("&", ""): a for a in menu.actions() if a.text()}
    assert copied(qtbot, actions["Copy as text"].trigger) == r"GGUF\x03\xff\x1b!"
    array = copied(qtbot, actions["Copy as C array"].trigger)
    assert array.splitlines()[0] == "const unsigned char data[8] = {"
    assert "0x47, 0x47, 0x55, 0x46, 0x03, 0xff, 0x1b, 0x21," in array
    view.set_cursor(33)
    assert copied(qtbot, actions["Copy offset"].trigger) == "33"
    assert not actions["Reload"].isEnabled()
    menu.close()


def test_refuses_to_copy_too_much(qtbot: QtBot, view: HexView) -> None:
    show_source(qtbot, view, HugeSource(1 << 40))
    sentences: list[str] = []
    view.notified.connect(sentences.append)
    press(qtbot, view, KEY.Key_A, CONTROL)
    assert len(view.selection) == 1 << 40
    press(qtbot, view, KEY.Key_C, CONTROL)
    assert sentences == ["Select at most 4.00 MiB to copy."]


def test_scrolls_through_a_terabyte(qtbot: QtBot, view: HexView) -> None:
    size = 10**12 + 5
    show_source(qtbot, view, HugeSource(size))
    bar = view.verticalScrollBar()
    assert 0 < bar.maximum() < 1 << 31
    bar.setValue(bar.maximum())
    assert view.visible_bytes.stop == size
    bar.setValue(bar.maximum() // 2)
    middle = view.visible_bytes.start
    assert abs(middle - size // 2) < size // 1000
    view.wheelEvent(wheel(-120))
    assert view.visible_bytes.start == middle + 3 * 16  # exact, though the bar cannot show it
    bar.triggerAction(bar.SliderAction.SliderSingleStepAdd)
    assert view.visible_bytes.start == middle + 4 * 16
    bar.triggerAction(bar.SliderAction.SliderPageStepSub)
    assert view.visible_bytes.start < middle
    view.set_cursor(size - 1)
    assert view.cursor_offset in view.visible_bytes
    qtbot.waitUntil(lambda: view.bytes_at(size - 1, 8) is not None)
    assert view.bytes_at(size - 1, 8) == bytes([(size - 1) // 16 % 256])


def wheel(delta: int) -> QWheelEvent:
    return QWheelEvent(
        QPointF(50, 50),
        QPointF(50, 50),
        QPoint(),
        QPoint(0, delta),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )


@pytest.mark.parametrize("size", [0, 1, 7, 16, 17])
def test_shows_tiny_files(qtbot: QtBot, view: HexView, size: int) -> None:
    view.set_source(MemorySource(bytes(size)))
    for key in (KEY.Key_Right, KEY.Key_Down, KEY.Key_PageDown, KEY.Key_PageUp, KEY.Key_End):
        press(qtbot, view, key)
        press(qtbot, view, key, CONTROL, SHIFT)
    press(qtbot, view, KEY.Key_A, CONTROL)
    assert view.selection == range(size)
    view.viewport().repaint()
    assert view.cursor_offset == max(0, size - 1)


def test_tips_hold_no_markup_of_the_file(qtbot: QtBot, view: HexView) -> None:
    key = "<img src='file:///x'>\x1b\u202e" + "x" * 500
    model = model_from(SmallGguf(keys=[(key, 1)]).write())
    show_source(qtbot, view, model.files[0].source)
    view.set_structure(Structure(model))
    tip = view.tip_for(40)
    assert tip.startswith("<qt>Key<br>&lt;img src=&#x27;file")
    assert "<img" not in tip
    assert "\x1b" not in tip
    assert "\u202e" not in tip
    assert len(tip) < 400


def test_paints_fields_in_their_colours(qtbot: QtBot, view: HexView) -> None:
    model = model_from(example().write())
    show_source(qtbot, view, model.files[0].source)
    view.set_structure(Structure(model))
    image = view.viewport().grab().toImage()
    ratio = image.devicePixelRatio()

    def corner(offset: int) -> QColor:
        place = view.place_of(offset) + QPoint(0, -view._geometry.row_height // 2 + 2)
        return image.pixelColor(int(place.x() * ratio), int(place.y() * ratio))

    palette = view.palette()
    assert close(corner(2), field_tint(FieldKind.MAGIC, palette))
    assert close(corner(6), field_tint(FieldKind.VERSION, palette))
    assert close(corner(40), field_tint(FieldKind.KEY, palette))
    assert colours(image) > 20


def close(a: QColor, b: QColor) -> bool:
    pairs = zip(a.getRgb(), b.getRgb(), strict=True)
    return all(abs(x - y) <= 3 for x, y in pairs)


def colours(image: QImage) -> int:
    return len({image.pixel(x, y) for x in range(0, 500, 2) for y in range(0, 300, 2)})


def test_follows_the_scheme(qtbot: QtBot, view: HexView) -> None:
    show_source(qtbot, view, MemorySource(bytes(1000)))

    def empty_place() -> int:
        return view.viewport().grab().toImage().pixelColor(600, 390).lightness()

    try:
        apply_scheme(Scheme.DARK)
        qtbot.waitUntil(lambda: empty_place() < 60)
        apply_scheme(Scheme.LIGHT)
        qtbot.waitUntil(lambda: empty_place() > 200)
    finally:
        apply_scheme(Scheme.SYSTEM)
