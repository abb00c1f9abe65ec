"""The raw view: files, going to places, and the signals that the window follows."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from explorer.formats import open_model
from explorer.qt.raw.panel import RawView
from tests.helpers.raw_views import Activations, delete, go_to, settled, show_model
from tests.helpers.services import RecordingServices
from tests.helpers.slow_sources import WaitingSource
from tests.helpers.small_gguf import SmallGguf, example, model_from

KEY = Qt.Key
SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def view(raw_view: RawView) -> RawView:
    return raw_view


def test_says_that_there_is_no_model(qtbot: QtBot, view: RawView) -> None:
    assert not view.hex.isVisible()
    view.find_next()
    view.reveal_key("a")
    view.reveal_tensor(0)
    show_model(qtbot, view, model_from(example().write()))
    assert view.hex.isVisible()
    view.show_model(None)
    assert not view.hex.isVisible()


def test_shows_the_field_under_the_cursor(qtbot: QtBot, view: RawView) -> None:
    show_model(qtbot, view, model_from(example().write()))
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
    show_model(qtbot, view, model_from(example(big=True).write()))
    go_to(qtbot, view, "4")
    assert "u32\u00a03" in view.status.numbers.text()


def test_emits_which_key_and_tensor_the_user_moves_to(qtbot: QtBot, view: RawView) -> None:
    model = show_model(qtbot, view, model_from(example().write()))
    activations = Activations(view)
    key = model.metadata.entries[1]
    go_to(qtbot, view, str(key.offset))
    qtbot.keyClick(view.hex, KEY.Key_Right)  # still the same key
    go_to(qtbot, view, hex(model.tensors["first"].offset))
    record = model.files[0].record_offsets[2]
    go_to(qtbot, view, str(record))
    go_to(qtbot, view, "0")
    go_to(qtbot, view, str(record))
    assert activations.places == ["llama.block_count", 1, 2, 2]


def test_reveals_without_emitting(qtbot: QtBot, view: RawView) -> None:
    model = show_model(qtbot, view, model_from(example().write()))
    activations = Activations(view)
    view.reveal_key("llama.block_count")
    entry = model.metadata.entries[1]
    assert view.hex.cursor_offset == entry.offset
    view.reveal_tensor(0)
    assert view.hex.cursor_offset == model.tensors["second"].offset
    view.reveal_key("no.such.key")
    view.reveal_tensor(99)
    view.reveal_tensor(-1)
    assert view.hex.cursor_offset == model.tensors["second"].offset
    assert activations.places == []
    qtbot.keyClick(view.hex, KEY.Key_Right)  # within what was revealed
    assert activations.places == []


def test_a_window_that_answers_does_not_move_the_cursor(qtbot: QtBot, view: RawView) -> None:
    model = show_model(qtbot, view, model_from(example().write()))
    view.key_activated.connect(view.reveal_key)  # as a table does that selects the key
    view.tensor_activated.connect(view.reveal_tensor)
    activations = Activations(view)
    middle = model.metadata.entries[0].offset + 11
    go_to(qtbot, view, str(middle))
    assert view.hex.cursor_offset == middle
    weights = model.tensors["first"].offset + 5
    go_to(qtbot, view, str(weights))
    assert view.hex.cursor_offset == weights
    record = model.files[0].record_offsets[2] + 9
    go_to(qtbot, view, str(record))
    assert view.hex.cursor_offset == record
    assert activations.places == ["general.architecture", 1, 2]


def test_reveals_the_record_of_a_tensor_without_bytes(qtbot: QtBot, view: RawView) -> None:
    file = SmallGguf(
        tensors=[("odd", (4,), 2, 0), ("far", (4,), 0, 1 << 40), ("x", (4,), 0, 0)], data=bytes(16)
    )
    model = show_model(qtbot, view, model_from(file.write()))
    for row in (0, 1):
        view.reveal_tensor(row)
        assert view.hex.cursor_offset == model.files[0].record_offsets[row]


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("0x10", 16, ""),
        ("1,0", 10, ""),
        ("nonsense", 0, "“nonsense” is not an offset. Type a number such as 1024 or 0x400."),
        ("99999", 0, "The file has 550 bytes."),
    ],
)
def test_goes_to_an_offset(
    qtbot: QtBot, view: RawView, text: str, offset: int, message: str
) -> None:
    model = show_model(qtbot, view, model_from(example().write()))
    go_to(qtbot, view, text)
    assert view.hex.cursor_offset == offset
    expected = message.replace("550", str(model.files[0].source.size))
    assert view.message.text() == expected
    assert view.message.isVisible() == bool(message)


def test_does_nothing_for_a_model_that_nobody_looks_at(
    qtbot: QtBot, view: RawView, app: RecordingServices
) -> None:
    view.hide()
    started: list[object] = []
    app.runner.started.connect(started.append)
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
    model = show_model(qtbot, view, model_from(first.write(), second.write()))
    assert view.files.isVisible()
    activations = Activations(view)
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
    assert activations.places == []
    view.show_model(model_from(first.write()))
    assert not view.files.isVisible()


@pytest.mark.parametrize("busy", ["structure", "bytes", "search"])
def test_can_be_deleted_in_the_middle(qtbot: QtBot, app: RecordingServices, busy: str) -> None:
    source = WaitingSource(example().write())
    source.go_on.set()
    model = model_from(source)
    view = RawView(app)
    view.show()
    if busy == "search":
        show_model(qtbot, view, model)
        source.go_on.clear()
        view.search.edit.setText("00")
        view.find_next()
    else:
        source.go_on.clear()
        source.reading.clear()
        view.show_model(model)
        if busy == "bytes":
            qtbot.waitUntil(source.reading.is_set)
    delete(qtbot, view)
    source.go_on.set()
    qtbot.waitUntil(lambda: not app.runner.jobs)


def test_another_model_drops_what_was_asked_of_the_old(
    qtbot: QtBot, view: RawView, app: RecordingServices
) -> None:
    old = WaitingSource(example().write())
    old.go_on.set()
    model = model_from(old)
    old.go_on.clear()
    view.show_model(model)
    show_model(qtbot, view, model_from(SmallGguf(keys=[("new", 7)]).write()))
    old.go_on.set()
    qtbot.waitUntil(lambda: not app.runner.jobs)
    go_to(qtbot, view, "30")
    assert "new" in view.status.place.text()


def test_shows_a_real_file(qtbot: QtBot, view: RawView, shared_data: Path) -> None:
    with open_model(shared_data / "ggml-vocab-phi-3.gguf") as model:
        show_model(qtbot, view, model)
        view.reveal_key("tokenizer.ggml.tokens")
        assert "tokenizer.ggml.tokens" in view.status.place.text()
        image = view.grab().toImage()
        assert len({image.pixel(x, y) for x in range(0, 800, 3) for y in range(0, 500, 3)}) > 30
        view.show_model(None)
