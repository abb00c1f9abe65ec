"""The bytes of a file: keys, mouse, what is painted, and reading that fails, waits or is left."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QGuiApplication, QImage, QKeyEvent, QPalette, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.formats.structure import FieldKind, Structure
from explorer.qt.jobs import JobRunner
from explorer.qt.theme import Scheme, _palette, apply_scheme
from explorer.qt.views.field_style import field_tint, kind_name
from explorer.qt.views.hex_menu import build_menu
from explorer.qt.views.hex_pages import PAGE_BYTES
from explorer.qt.views.hex_text import c_array_text, number_texts, parse_offset, parse_pattern
from explorer.qt.views.hex_view import HexView
from explorer.sources import ByteSource, MemorySource
from tests.helpers.slow_sources import BrokenSource, HugeSource, WaitingSource
from tests.helpers.small_gguf import SmallGguf, example, model_from

KEY = Qt.Key
SHIFT = Qt.KeyboardModifier.ShiftModifier
CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def view(qtbot: QtBot, runner: JobRunner) -> HexView:
    view = HexView(runner)
    qtbot.addWidget(view)
    view.resize(700, 400)
    view.show()
    return view


def show(qtbot: QtBot, view: HexView, source: ByteSource) -> None:
    view.set_source(source)
    qtbot.waitUntil(lambda: view.bytes_at(view.cursor_offset, 1) is not None)


def press(qtbot: QtBot, view: HexView, key: Qt.Key, *modifiers: Qt.KeyboardModifier) -> int:
    wanted = Qt.KeyboardModifier.NoModifier
    for modifier in modifiers:
        wanted |= modifier
    qtbot.keyClick(view, key, wanted)
    return view.cursor_offset


def clipboard_after(qtbot: QtBot, change: object) -> str:
    clipboard = QGuiApplication.clipboard()
    clipboard.clear()
    change()  # type: ignore[operator]
    qtbot.waitUntil(lambda: clipboard.text() != "")
    return clipboard.text()


def test_keys_move_the_cursor(qtbot: QtBot, view: HexView) -> None:
    show(qtbot, view, MemorySource(bytes(5000)))
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
    show(qtbot, view, model.files[0].source)
    view.set_structure(Structure(model))
    stops = [press(qtbot, view, KEY.Key_Right, CONTROL) for _ in range(5)]
    assert stops == [4, 8, 16, 24, 32]
    press(qtbot, view, KEY.Key_Right)
    assert [press(qtbot, view, KEY.Key_Left, CONTROL) for _ in range(3)] == [32, 24, 16]


def test_ignores_keys_of_other_scripts(qtbot: QtBot, view: HexView) -> None:
    show(qtbot, view, MemorySource(bytes(100)))
    letter = ord("Ф")  # QTest can only type ASCII
    event = QKeyEvent(QEvent.Type.KeyPress, letter, Qt.KeyboardModifier.NoModifier, "ф")
    QApplication.sendEvent(view, event)
    assert view.cursor_offset == 0


def test_shift_selects(qtbot: QtBot, view: HexView) -> None:
    show(qtbot, view, MemorySource(bytes(range(256))))
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
    show(qtbot, view, MemorySource(bytes(range(256))))
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
        show(qtbot, view, MemorySource(bytes(200)))
        assert view.columns == columns
        for offset in range(80):
            assert view.offset_at(QPointF(view.place_of(offset))) == offset


def test_dragging_below_the_rows_scrolls_on(qtbot: QtBot, view: HexView) -> None:
    show(qtbot, view, MemorySource(bytes(20_000)))
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
    show(qtbot, view, MemorySource(b"GGUF\x03\xff\x1b!" + bytes(40)))
    view.set_cursor(0, 8)
    clip = clipboard_after(qtbot, lambda: press(qtbot, view, KEY.Key_C, CONTROL))
    assert clip == "47 47 55 46 03 ff 1b 21"
    menu = build_menu(view)
    actions = {a.text().replace("&", ""): a for a in menu.actions() if a.text()}
    assert clipboard_after(qtbot, actions["Copy as text"].trigger) == r"GGUF\x03\xff\x1b!"
    array = clipboard_after(qtbot, actions["Copy as C array"].trigger)
    assert array.splitlines()[0] == "const unsigned char data[8] = {"
    assert "0x47, 0x47, 0x55, 0x46, 0x03, 0xff, 0x1b, 0x21," in array
    view.set_cursor(33)
    assert clipboard_after(qtbot, actions["Copy offset"].trigger) == "33"
    assert not actions["Read again"].isEnabled()
    menu.close()


def test_refuses_to_copy_too_much(qtbot: QtBot, view: HexView) -> None:
    show(qtbot, view, HugeSource(1 << 40))
    told: list[str] = []
    view.notified.connect(told.append)
    press(qtbot, view, KEY.Key_A, CONTROL)
    assert len(view.selection) == 1 << 40
    press(qtbot, view, KEY.Key_C, CONTROL)
    assert told == ["Select at most 4.00 MiB to copy."]


def test_scrolls_through_a_terabyte(qtbot: QtBot, view: HexView) -> None:
    size = 10**12 + 5
    show(qtbot, view, HugeSource(size))
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


def test_keeps_few_pages(qtbot: QtBot, view: HexView) -> None:
    show(qtbot, view, HugeSource(1 << 40))
    for page in range(0, 200, 2):
        view.set_cursor(page * PAGE_BYTES)
        qtbot.waitUntil(lambda: view.bytes_at(view.cursor_offset, 1) is not None)
    assert len(view._pages._pages) <= 64
    assert view.bytes_at(0, 1) is None


def test_reads_only_where_scrolling_stops(qtbot: QtBot, view: HexView) -> None:
    source = HugeSource(1 << 40)
    show(qtbot, view, source)
    for step in range(1, 50):
        view.set_cursor(step << 30)
        view.viewport().repaint()
    qtbot.waitUntil(lambda: view.bytes_at(49 << 30, 1) is not None)
    assert view.bytes_at(20 << 30, 1) is None


def test_paints_placeholders_until_bytes_arrive(qtbot: QtBot, view: HexView) -> None:
    source = WaitingSource(b"\xff" * 4000)
    view.set_source(source)
    qtbot.waitUntil(source.reading.is_set)
    before = view.viewport().grab().toImage()
    assert view.bytes_at(0, 4) is None
    with qtbot.waitSignal(view.bytes_arrived):
        source.go_on.set()
    assert view.bytes_at(0, 4) == b"\xff" * 4
    assert view.viewport().grab().toImage() != before


def test_read_errors_are_told_once_and_not_tried_again(qtbot: QtBot, view: HexView) -> None:
    source = BrokenSource(bytes(PAGE_BYTES * 40), broken_from=PAGE_BYTES)
    failures: list[str] = []
    view.read_failed.connect(failures.append)
    show(qtbot, view, source)
    assert failures == []
    view.set_cursor(PAGE_BYTES * 3)
    qtbot.waitUntil(lambda: len(failures) == 1)
    for page in (3, 4, 3, 4, 3):
        view.set_cursor(PAGE_BYTES * page)
        view.viewport().repaint()
        qtbot.waitUntil(lambda: view._pages.failure_at(view.cursor_offset) is not None)
    assert len(failures) == 1
    assert "gone" in failures[0]
    assert source.attempts == len(view._pages._failures) <= 4
    source.broken_from = source.size
    actions = {a.text(): a for a in build_menu(view).actions()}
    actions["&Read again"].trigger()
    qtbot.waitUntil(lambda: view.bytes_at(view.cursor_offset, 1) == b"\0")


def test_a_new_source_drops_what_was_asked_of_the_old(qtbot: QtBot, view: HexView) -> None:
    old = WaitingSource(b"\x01" * 100)
    view.set_source(old)
    qtbot.waitUntil(old.reading.is_set)
    show(qtbot, view, MemorySource(b"\x02" * 100))
    old.go_on.set()
    runner = view._pages._slot._runner
    qtbot.waitUntil(lambda: not runner.jobs)
    assert view.bytes_at(0, 1) == b"\x02"


def test_reads_again_after_the_job_was_cancelled_elsewhere(
    qtbot: QtBot, view: HexView, runner: JobRunner
) -> None:
    source = WaitingSource(b"\x01" * 100)
    view.set_source(source)
    qtbot.waitUntil(source.reading.is_set)
    runner.cancel_all()
    source.go_on.set()
    qtbot.waitUntil(lambda: not runner.jobs)
    assert view.bytes_at(0, 1) is None
    view.viewport().update()
    qtbot.waitUntil(lambda: view.bytes_at(0, 1) == b"\x01")


def test_can_be_deleted_while_it_reads(qtbot: QtBot, runner: JobRunner) -> None:
    source = WaitingSource(bytes(100))
    view = HexView(runner)
    view.resize(500, 300)
    view.show()
    view.set_source(source)
    qtbot.waitUntil(source.reading.is_set)
    gone: list[bool] = []
    view.destroyed.connect(lambda: gone.append(True))
    view.deleteLater()
    qtbot.waitUntil(lambda: gone == [True])
    source.go_on.set()
    qtbot.waitUntil(lambda: not runner.jobs)


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
    show(qtbot, view, model.files[0].source)
    view.set_structure(Structure(model))
    tip = view.tip_for(40)
    assert tip.startswith("<qt>Key<br>&lt;img src=&#x27;file")
    assert "<img" not in tip
    assert "\x1b" not in tip
    assert "\u202e" not in tip
    assert len(tip) < 400


def test_paints_fields_in_their_colours(qtbot: QtBot, view: HexView) -> None:
    model = model_from(example().write())
    show(qtbot, view, model.files[0].source)
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


def luminance(colour: QColor) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (colour.redF(), colour.greenF(), colour.blueF())
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", list(FieldKind))
def test_text_on_tints_is_readable(kind: FieldKind, dark: bool) -> None:
    palette = _palette(dark)
    text = luminance(palette.color(QPalette.ColorRole.Text))
    tint = luminance(field_tint(kind, palette))
    light, deep = max(text, tint), min(text, tint)
    assert (light + 0.05) / (deep + 0.05) >= 4.5
    assert kind_name(kind)


def test_follows_the_scheme(qtbot: QtBot, view: HexView) -> None:
    show(qtbot, view, MemorySource(bytes(1000)))

    def empty_place() -> int:
        return view.viewport().grab().toImage().pixelColor(600, 390).lightness()

    try:
        apply_scheme(Scheme.DARK)
        qtbot.waitUntil(lambda: empty_place() < 60)
        apply_scheme(Scheme.LIGHT)
        qtbot.waitUntil(lambda: empty_place() > 200)
    finally:
        apply_scheme(Scheme.SYSTEM)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("1024", 1024),
        ("0x400", 1024),
        (" 1,024 ", 1024),
        ("1_024", 1024),
        ("0XfF", 255),
        ("", None),
        ("-1", None),
        ("0x", None),
        ("12ab", None),
        ("1e3", None),
        ("9" * 30, None),
    ],
)
def test_understands_offsets(text: str, offset: int | None) -> None:
    assert parse_offset(text) == offset


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("de ad", b"\xde\xad"),
        ("DEAD", b"\xde\xad"),
        ("0xde, 0xad", b"\xde\xad"),
        ("00", b"\0"),
        ("0x00 10", b"\0\x10"),
        ("d", None),
        ("", None),
        ("xy", None),
        ("ф", None),
    ],
)
def test_understands_hex_patterns(text: str, pattern: bytes | None) -> None:
    assert parse_pattern(text, "hex") == pattern


def test_shows_numbers_in_the_files_byte_order() -> None:
    raw = b"\x00\x00\x80\x3f\x00\x00\x00\x00"
    assert dict(number_texts(raw, "little"))["f32"] == "1"
    assert dict(number_texts(raw, "big"))["u32"] == str(0x803F)
    assert dict(number_texts(b"\xff", "little")) == {"u8": "255", "i8": "-1"}
    assert number_texts(b"", "little") == []
    assert c_array_text(b"") == "const unsigned char data[0] = {\n};"
