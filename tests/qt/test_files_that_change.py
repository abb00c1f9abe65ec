"""A file that goes, is replaced or is cut while it is open: told in the panel, others work on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from explorer.sources.files import POOL
from tests.helpers.gguf_writer import ARRAY, I32, STRING, Array, GgufFile, TensorSpec
from tests.helpers.window import wait_idle

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows keeps open files as they are")


def vanish(path: Path) -> str:
    path.unlink()
    POOL.close_idle(0)  # as after many other files were read
    return "does not exist"


def be_replaced(path: Path) -> str:
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    other.replace(path)
    POOL.close_idle(0)
    return "was replaced or changed"


def be_cut(path: Path) -> str:
    os.truncate(path, 64)
    return "became shorter"


CHANGES = [vanish, be_replaced, be_cut]
Change = Callable[[Path], str]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model with a vocabulary, an array and weights that opening does not read."""
    tokens = [f"token number {number}" for number in range(4_000)]
    keys: list[tuple[str | bytes, int, object]] = [
        ("general.architecture", STRING, "llama"),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.tokens", ARRAY, Array(STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, Array(I32, [1] * len(tokens))),
    ]
    weights = TensorSpec("output.weight", (100_000,), data=bytes(400_000))
    return GgufFile(keys=keys, tensors=[weights]).write(tmp_path / "changing.gguf")


@pytest.fixture
def window(make_window: Callable[..., MainWindow], demo_path: Path, path: Path) -> MainWindow:
    """The demo model and the model whose file changes, which is shown."""
    return make_window(demo_path, path)


def the_other_model_works(qtbot: QtBot, window: MainWindow) -> None:
    demo = window.documents[0]
    window.show_document(demo)
    assert window.panels.tensors.widget.model.rowCount() == 22
    window.panels.setCurrentWidget(window.panels.raw)
    qtbot.waitUntil(lambda: window.panels.raw.widget.hex.bytes_at(0, 4) == b"GGUF")
    assert not window.panels.raw.widget.message.isVisible()
    window.panels.setCurrentWidget(window.panels.vocabulary)
    qtbot.waitUntil(lambda: window.panels.vocabulary.widget.model.rowCount() == 2000)
    wait_idle(qtbot, window)


def label_with(window: MainWindow, text: str) -> Callable[[], bool]:
    return lambda: any(
        text in label.text() for label in window.findChildren(QLabel) if label.isVisible()
    )


def look_at_the_bytes(window: MainWindow) -> None:
    window.panels.setCurrentWidget(window.panels.raw)
    window.panels.raw.widget.reveal_tensor(0)


def look_at_the_vocabulary(window: MainWindow) -> None:
    window.panels.setCurrentWidget(window.panels.vocabulary)


def look_at_a_value(window: MainWindow) -> None:
    assert window.current is not None
    window.reveal_key(window.current, 2)


def search_for_bytes(window: MainWindow) -> None:
    window.panels.setCurrentWidget(window.panels.raw)
    window.panels.raw.widget.search.edit.setText("ff ff ff ff")
    window.panels.raw.widget.find_next()


LOOKS = [look_at_the_bytes, look_at_the_vocabulary, look_at_a_value, search_for_bytes]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("look", LOOKS)
def test_what_reads_tells_it_in_its_place(
    qtbot: QtBot, window: MainWindow, path: Path, look: Callable[[MainWindow], None], change: Change
) -> None:
    told = change(path)
    look(window)
    qtbot.waitUntil(label_with(window, told))
    assert window.panels.tensors.widget.model.rowCount() == 1  # what is in memory stays
    assert window.current is not None
    window.reveal_key(window.current, 0)
    window.panels.setCurrentWidget(window.panels.metadata)
    qtbot.waitUntil(lambda: window.panels.metadata.widget.value.text.text.toPlainText() == "llama")
    the_other_model_works(qtbot, window)


def test_a_deleted_file_can_be_read_while_it_is_still_open(
    qtbot: QtBot, window: MainWindow, path: Path
) -> None:
    path.unlink()
    window.panels.setCurrentWidget(window.panels.vocabulary)
    qtbot.waitUntil(lambda: window.panels.vocabulary.widget.model.rowCount() == 4_000)
    wait_idle(qtbot, window)


def test_opening_what_is_gone_is_told_above_the_panels(
    qtbot: QtBot, window: MainWindow, path: Path
) -> None:
    assert window.current is not None
    window.close_document(window.current)
    path.unlink()
    window.open_paths([path])
    qtbot.waitUntil(window.message_bar.isVisible)
    assert "does not exist" in window.message_bar.messages[-1].label.text()
    assert str(path) in window.message_bar.messages[-1].label.text()
    the_other_model_works(qtbot, window)


def test_closing_and_opening_again_shows_the_new_file(
    qtbot: QtBot, window: MainWindow, path: Path, small_path: Path
) -> None:
    small_path.replace(path)
    assert window.current is not None
    window.close_document(window.current)
    window.open_paths([path])
    qtbot.waitUntil(lambda: window.panels.tensors.widget.model.rowCount() == 12)
    wait_idle(qtbot, window)
