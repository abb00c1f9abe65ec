"""What is remembered, and what happens to a file that is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QByteArray

from explorer.qt.settings import Settings
from explorer.qt.theme import Scheme


def fill(settings: Settings) -> None:
    settings.scheme = Scheme.DARK
    settings.add_recent(Path("/a, b/1.gguf"))
    settings.session = [Path("/ü/2.gguf"), Path("/3.gguf")]
    settings.set_layout("tensors", QByteArray(b"\0\1\2"))


def test_everything_comes_back(settings_file: Path) -> None:
    first = Settings(settings_file)
    fill(first)
    first._store.sync()
    again = Settings(settings_file)
    assert again.scheme is Scheme.DARK
    assert again.recent == [Path("/a, b/1.gguf")]
    assert again.session == [Path("/ü/2.gguf"), Path("/3.gguf")]
    assert again.layout("tensors") == QByteArray(b"\0\1\2")
    again.reset_layout()
    assert again.layout("tensors").isEmpty()


def test_recent_models_are_few_and_once_each(settings: Settings) -> None:
    for number in range(15):
        settings.add_recent(Path(f"/{number}"))
    settings.add_recent(Path("/9"))
    expected = [9, 14, 13, 12, 11, 10, 8, 7, 6, 5, 4, 3]
    assert settings.recent == [Path(f"/{number}") for number in expected]
    settings.clear_recent()
    assert settings.recent == []


@pytest.mark.parametrize(
    "content",
    [b"\0\xff\xfe rubbish [[[", b"", b"[General]\nversion=x\nscheme=purple\nrecent=@Invalid()\n"],
)
def test_a_broken_file_is_no_settings(settings_file: Path, content: bytes) -> None:
    settings_file.write_bytes(content)
    settings = Settings(settings_file)
    assert settings.scheme is Scheme.SYSTEM
    assert (settings.recent, settings.session) == ([], [])
    assert settings.layout("window").isEmpty()


def test_another_versions_settings_are_left_behind(settings_file: Path) -> None:
    settings_file.write_text("[General]\nversion=99\nscheme=dark\n")
    assert Settings(settings_file).scheme is Scheme.SYSTEM


def test_fresh_reads_and_writes_nothing(settings_file: Path) -> None:
    first = Settings(settings_file)
    fill(first)
    first._store.sync()
    before = settings_file.read_bytes()
    fresh = Settings(settings_file, fresh=True)
    assert (fresh.scheme, fresh.recent, fresh.session) == (Scheme.SYSTEM, [], [])
    fresh.scheme = Scheme.LIGHT
    fresh.reset_layout()
    fresh._store.sync()
    assert settings_file.read_bytes() == before
