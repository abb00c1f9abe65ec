"""The raw view: files, going to places, searching, and what it tells the window."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QLineEdit, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from explorer.formats import open_model
from explorer.formats.model import Model
from explorer.qt.jobs import JobRunner
from explorer.qt.views import byte_search
from explorer.qt.views.byte_search import ByteSearch, Found
from explorer.qt.views.raw_view import RawView
from explorer.sources import MemorySource
from tests.helpers.slow_sources import BrokenSource, WaitingSource
from tests.helpers.small_gguf import SmallGguf, example, model_from

# the offscreen platform says so of every window whose layout has a least size
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support propagateSizeHints")

KEY = Qt.Key
NONE = Qt.KeyboardModifier.NoModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier


class Told:
    """What the view has told the window."""

    def __init__(self, view: RawView) -> None:
        self.places: list[str | int] = []
        view.key_activated.connect(self.places.append)
        view.tensor_activated.connect(self.places.append)


@pytest.fixture
def view(qtbot: QtBot, runner: JobRunner) -> RawView:
    view = RawView(runner)
    qtbot.addWidget(view)
    view.resize(900, 600)
    view.show()
    return view


def show(qtbot: QtBot, view: RawView, model: Model) -> Model:
    view.show_model(model)
    settled(qtbot, view)
    return model


def settled(qtbot: QtBot, view: RawView) -> None:
    """Wait until the structure and the bytes are there."""
    qtbot.waitUntil(lambda: view.hex.field_at(0) is not None)
    qtbot.waitUntil(lambda: view.hex.bytes_at(view.hex.cursor_offset, 1) is not None)


def find(qtbot: QtBot, view: RawView, text: str, mode: str = "hex") -> None:
    view.search.mode.setCurrentIndex(view.search.mode.findData(mode))
    view.search.edit.clear()
    qtbot.keyClicks(view.search.edit, text)
    qtbot.keyClick(view.search.edit, KEY.Key_Return)
    qtbot.waitUntil(lambda: not view.search.busy)


def go_to(qtbot: QtBot, view: RawView, text: str) -> None:
    view.goto.clear()
    qtbot.keyClicks(view.goto, text)
    qtbot.keyClick(view.goto, KEY.Key_Return)


def test_says_that_there_is_no_model(qtbot: QtBot, view: RawView) -> None:
    assert not view.hex.isVisible()
    view.find_next()
    view.reveal_key("a")
    view.reveal_tensor(0)
    show(qtbot, view, model_from(example().write()))
    assert view.hex.isVisible()
    view.show_model(None)
    assert not view.hex.isVisible()


def test_shows_the_field_under_the_cursor(qtbot: QtBot, view: RawView) -> None:
    show(qtbot, view, model_from(example().write()))
    assert view.status.place.text().startswith("Magic: “GGUF” · Byte 0x0 (0)")
    assert "u32\u00a01179993927" in view.status.numbers.text()
    for _ in range(4):
        qtbot.keyClick(view.hex, KEY.Key_Right)
    assert view.status.place.text().startswith("Version: GGUF format · Byte 0x4 (4)")
    assert "u32\u00a03" in view.status.numbers.text()
    qtbot.keyClick(view.hex, KEY.Key_Right, SHIFT)
    assert view.status.place.text().endswith("4 bytes · 2 selected")
    assert view.hex.accessibleDescription() == view.status.place.text()
    qtbot.keyClick(view.hex, KEY.Key_End, Qt.KeyboardModifier.ControlModifier)
    assert view.status.numbers.text() == "u8\u00a0100   i8\u00a0100"  # the last byte of "behind"


def test_reads_numbers_of_a_big_endian_file(qtbot: QtBot, view: RawView) -> None:
    show(qtbot, view, model_from(example(big=True).write()))
    go_to(qtbot, view, "4")
    assert "u32\u00a03" in view.status.numbers.text()


def test_tells_which_key_and_tensor_the_user_moves_to(qtbot: QtBot, view: RawView) -> None:
    model = show(qtbot, view, model_from(example().write()))
    told = Told(view)
    key = model.metadata.entries[1]
    go_to(qtbot, view, str(key.offset))
    qtbot.keyClick(view.hex, KEY.Key_Right)  # still the same key
    go_to(qtbot, view, hex(model.tensors["first"].offset))
    record = model.files[0].record_offsets[2]
    go_to(qtbot, view, str(record))
    go_to(qtbot, view, "0")
    go_to(qtbot, view, str(record))
    assert told.places == ["llama.block_count", 1, 2, 2]


def test_reveals_without_telling(qtbot: QtBot, view: RawView) -> None:
    model = show(qtbot, view, model_from(example().write()))
    told = Told(view)
    view.reveal_key("llama.block_count")
    entry = model.metadata.entries[1]
    assert view.hex.cursor_offset == entry.offset
    view.reveal_tensor(0)
    assert view.hex.cursor_offset == model.tensors["second"].offset
    view.reveal_key("no.such.key")
    view.reveal_tensor(99)
    view.reveal_tensor(-1)
    assert view.hex.cursor_offset == model.tensors["second"].offset
    assert told.places == []
    qtbot.keyClick(view.hex, KEY.Key_Right)  # within what was revealed
    assert told.places == []


def test_a_window_that_answers_does_not_move_the_cursor(qtbot: QtBot, view: RawView) -> None:
    model = show(qtbot, view, model_from(example().write()))
    view.key_activated.connect(view.reveal_key)  # as a table does that selects the key
    view.tensor_activated.connect(view.reveal_tensor)
    told = Told(view)
    middle = model.metadata.entries[0].offset + 11
    go_to(qtbot, view, str(middle))
    assert view.hex.cursor_offset == middle
    weights = model.tensors["first"].offset + 5
    go_to(qtbot, view, str(weights))
    assert view.hex.cursor_offset == weights
    record = model.files[0].record_offsets[2] + 9
    go_to(qtbot, view, str(record))
    assert view.hex.cursor_offset == record
    assert told.places == ["general.architecture", 1, 2]


def test_reveals_the_record_of_a_tensor_without_bytes(qtbot: QtBot, view: RawView) -> None:
    file = SmallGguf(
        tensors=[("odd", (4,), 999, 0), ("far", (4,), 0, 1 << 40), ("x", (4,), 0, 0)],
        data=bytes(16),
    )
    model = show(qtbot, view, model_from(file.write()))
    for row in (0, 1):
        view.reveal_tensor(row)
        assert view.hex.cursor_offset == model.files[0].record_offsets[row]


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("0x10", 16, ""),
        ("1,0", 10, ""),
        ("nonsense", 0, "“nonsense” is no offset. Type a number such as 1024 or 0x400."),
        ("99999", 0, "The file has 550 bytes."),
    ],
)
def test_goes_to_an_offset(
    qtbot: QtBot, view: RawView, text: str, offset: int, message: str
) -> None:
    model = show(qtbot, view, model_from(example().write()))
    go_to(qtbot, view, text)
    assert view.hex.cursor_offset == offset
    expected = message.replace("550", str(model.files[0].source.size))
    assert view.message.text() == expected
    assert view.message.isVisible() == bool(message)


def test_does_nothing_for_a_model_that_nobody_looks_at(
    qtbot: QtBot, view: RawView, runner: JobRunner
) -> None:
    view.hide()
    started: list[object] = []
    runner.started.connect(started.append)
    model = model_from(example().write())
    view.show_model(model)
    view.reveal_tensor(1)
    assert started == []
    view.show()
    settled(qtbot, view)
    assert view.hex.cursor_offset == model.tensors["first"].offset
    assert "first (F32)" in view.status.place.text()


def test_chooses_between_shards(qtbot: QtBot, view: RawView) -> None:
    first = SmallGguf(keys=[("a.key", 1)], tensors=[("x", (4,), 0, 0)], data=bytes(16))
    second = SmallGguf(keys=[("split.no", 1)], tensors=[("y", (4,), 0, 0)], data=b"\1" * 16)
    model = show(qtbot, view, model_from(first.write(), second.write()))
    assert view.files.isVisible()
    told = Told(view)
    view.reveal_tensor(1)
    assert view.file_index == 1
    assert view.hex.cursor_offset == model.tensors["y"].offset
    settled(qtbot, view)
    assert "y (F32)" in view.status.place.text()
    view.reveal_key("a.key")
    assert view.file_index == 0
    view.files.setCurrentIndex(1)
    view.files.activated.emit(1)
    assert view.hex.cursor_offset == 0
    settled(qtbot, view)
    go_to(qtbot, view, "30")
    assert "metadata of this shard" in view.status.place.text()
    assert told.places == []
    view.show_model(model_from(first.write()))
    assert not view.files.isVisible()


def test_finds_bytes_forwards_and_backwards(qtbot: QtBot, view: RawView) -> None:
    content = SmallGguf(data=b"\0" * 50 + b"needle" + b"\0" * 50 + b"needle").write()
    show(qtbot, view, model_from(content))
    first, second = content.find(b"needle"), content.rfind(b"needle")
    find(qtbot, view, "needle", "text")
    assert view.hex.cursor_offset == first
    assert view.hex.selection == range(first, first + 6)
    assert view.status.place.text().endswith("6 selected")
    qtbot.keyClick(view.search.edit, KEY.Key_Return)
    qtbot.waitUntil(lambda: view.hex.cursor_offset == second)
    assert view.message.text() == ""
    qtbot.keyClick(view.search.edit, KEY.Key_Return)
    qtbot.waitUntil(lambda: view.hex.cursor_offset == first)
    assert "past the end" in view.message.text()
    buttons = {b.accessibleName(): b for b in view.search.findChildren(QToolButton)}
    backwards = buttons["Find previous (Shift+F3)"]
    qtbot.mouseClick(backwards, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: view.hex.cursor_offset == second)
    find(qtbot, view, "6e 65 65")
    assert view.hex.cursor_offset == first
    find(qtbot, view, "absent", "text")
    assert view.message.text() == "Not found in this file."
    find(qtbot, view, "6e 6")
    assert view.message.text().startswith("Type pairs of hex digits")


def test_a_found_place_tells_its_key(qtbot: QtBot, view: RawView) -> None:
    show(qtbot, view, model_from(example().write()))
    told = Told(view)
    find(qtbot, view, "block_count", "text")
    assert told.places == ["llama.block_count"]


def test_keys_search_and_escape(qtbot: QtBot, view: RawView) -> None:
    content = SmallGguf(data=b"abcabcabc").write()
    show(qtbot, view, model_from(content))
    view.activateWindow()
    qtbot.waitActive(view)
    view.focus_search()
    assert view.search.edit.hasFocus()
    view.search.mode.setCurrentIndex(1)
    qtbot.keyClicks(view.search.edit, "abc")
    start = content.find(b"abc")
    for key, modifier, offset in (
        (KEY.Key_F3, NONE, start),
        (KEY.Key_F3, NONE, start + 3),
        (KEY.Key_F3, NONE, start + 6),
        (KEY.Key_F3, SHIFT, start + 3),
    ):
        qtbot.keyClick(view, key, modifier)
        qtbot.waitUntil(lambda offset=offset: view.hex.cursor_offset == offset)
    qtbot.keyClick(view.search.edit, KEY.Key_Escape)
    assert view.search.edit.text() == ""
    qtbot.keyClick(view.search.edit, KEY.Key_Escape)
    assert view.hex.hasFocus()


def test_a_search_can_be_stopped(qtbot: QtBot, view: RawView, runner: JobRunner) -> None:
    source = WaitingSource(example().write())
    source.go_on.set()
    show(qtbot, view, model_from(source))
    source.go_on.clear()
    source.reading.clear()
    view.search.mode.setCurrentIndex(1)
    view.search.edit.setText("first")
    view.find_next()
    qtbot.waitUntil(source.reading.is_set)
    stop = next(b for b in view.search.findChildren(QToolButton) if b.text() == "Stop")
    assert stop.isVisible()
    qtbot.mouseClick(stop, Qt.MouseButton.LeftButton)
    assert view.message.text() == "The search was stopped."
    assert not stop.isVisible()
    source.go_on.set()
    qtbot.waitUntil(lambda: not runner.jobs)
    assert view.hex.cursor_offset == 0


def test_a_search_cancelled_elsewhere_is_over(
    qtbot: QtBot, view: RawView, runner: JobRunner
) -> None:
    source = WaitingSource(example().write())
    source.go_on.set()
    show(qtbot, view, model_from(source))
    source.go_on.clear()
    view.search.mode.setCurrentIndex(1)
    view.search.edit.setText("first")
    view.find_next()
    runner.cancel_all()
    source.go_on.set()
    qtbot.waitUntil(lambda: not runner.jobs)
    assert not view.search.busy
    assert not any(
        b.isVisible() for b in view.search.findChildren(QToolButton) if b.text() == "Stop"
    )


def test_a_search_that_cannot_read_says_so(qtbot: QtBot, view: RawView) -> None:
    content = SmallGguf(data=bytes(100)).write()
    source = BrokenSource(content, broken_from=len(content))
    show(qtbot, view, model_from(source))
    source.broken_from = 0
    find(qtbot, view, "absent", "text")
    assert view.message.text().startswith("The search failed: broken.gguf: cannot be read")
    assert view.message.textFormat() == Qt.TextFormat.PlainText


def test_unreadable_bytes_are_told(qtbot: QtBot, view: RawView) -> None:
    content = SmallGguf(data=bytes(100)).write()
    source = BrokenSource(content, broken_from=len(content))
    model = model_from(source)
    source.broken_from = 0
    view.show_model(model)
    qtbot.waitUntil(lambda: "gone" in view.message.text())
    assert view.message.isVisible()


@pytest.mark.parametrize("busy", ["structure", "bytes", "search"])
def test_can_be_deleted_in_the_middle(qtbot: QtBot, runner: JobRunner, busy: str) -> None:
    source = WaitingSource(example().write())
    source.go_on.set()
    model = model_from(source)
    view = RawView(runner)
    view.show()
    if busy == "search":
        show(qtbot, view, model)
        source.go_on.clear()
        view.search.edit.setText("00")
        view.find_next()
    else:
        source.go_on.clear()
        source.reading.clear()
        view.show_model(model)
        if busy == "bytes":
            qtbot.waitUntil(source.reading.is_set)
    gone: list[bool] = []
    view.destroyed.connect(lambda: gone.append(True))
    view.deleteLater()
    qtbot.waitUntil(lambda: gone == [True])
    source.go_on.set()
    qtbot.waitUntil(lambda: not runner.jobs)


def test_another_model_drops_what_was_asked_of_the_old(
    qtbot: QtBot, view: RawView, runner: JobRunner
) -> None:
    old = WaitingSource(example().write())
    old.go_on.set()
    model = model_from(old)
    old.go_on.clear()
    view.show_model(model)
    show(qtbot, view, model_from(SmallGguf(keys=[("new", 7)]).write()))
    old.go_on.set()
    qtbot.waitUntil(lambda: not runner.jobs)
    go_to(qtbot, view, "30")
    assert "new" in view.status.place.text()


def test_every_control_has_a_name(view: RawView) -> None:
    controls: list[QWidget] = [*view.findChildren(QLineEdit), *view.findChildren(QComboBox)]
    controls += [b for b in view.findChildren(QToolButton) if b.parent() is view.search]
    controls += [view.hex, view.status.place, view.status.numbers, view.message]
    for control in controls:
        assert control.accessibleName() or getattr(control, "text", str)(), control


def test_shows_a_real_file(qtbot: QtBot, view: RawView, shared_data: Path) -> None:
    with open_model(shared_data / "ggml-vocab-phi-3.gguf") as model:
        show(qtbot, view, model)
        view.reveal_key("tokenizer.ggml.tokens")
        assert "tokenizer.ggml.tokens" in view.status.place.text()
        image = view.grab().toImage()
        assert len({image.pixel(x, y) for x in range(0, 800, 3) for y in range(0, 500, 3)}) > 30
        view.show_model(None)


@given(
    st.binary(max_size=60),
    st.binary(min_size=1, max_size=3),
    st.integers(-2, 70),
    st.booleans(),
    st.integers(1, 9),
)
def test_search_agrees_with_bytes_find(
    content: bytes, pattern: bytes, start: int, forward: bool, chunk: int
) -> None:
    content = bytes(b % 3 for b in content)
    pattern = bytes(b % 3 for b in pattern)
    search = ByteSearch(
        MemorySource(content), pattern, start, forward, lambda: None, lambda *_: None
    )
    old = byte_search._CHUNK_BYTES
    byte_search._CHUNK_BYTES = chunk  # type: ignore[misc]
    try:
        found = search.run()
    finally:
        byte_search._CHUNK_BYTES = old  # type: ignore[misc]
    start = max(0, start)
    if forward:
        at, other = content.find(pattern, start), content.find(pattern)
    else:
        ends = start + len(pattern) - 1
        at, other = content.rfind(pattern, 0, ends), content.rfind(pattern)
    if at < 0:
        expected = None if other < 0 else Found(other, len(pattern), True)
    else:
        expected = Found(at, len(pattern), False)
    assert found == expected


def test_search_reports_and_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_search, "_CHUNK_BYTES", 100)
    monkeypatch.setattr(byte_search, "_REPORT_S", 0.0)
    content = random.Random(1).randbytes(1000).replace(b"zz", b"")
    reports: list[tuple[int, int]] = []
    checks = []

    def run(forward: bool) -> Found | None:
        source = MemorySource(content)
        report = lambda done, total: reports.append((done, total))  # noqa: E731
        return ByteSearch(source, b"zz", 500, forward, lambda: checks.append(1), report).run()

    assert run(True) is None
    assert run(False) is None
    assert len(checks) >= 20
    half = len(reports) // 2
    assert reports[:half] == sorted(reports[:half])
    assert all(0 <= done <= total == len(content) for done, total in reports)
