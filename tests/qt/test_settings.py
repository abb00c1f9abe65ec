"""What is remembered, and what happens to a file that is broken."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QByteArray, QSettings
from shiboken6 import delete

from explorer.crash_reports import CrashReports
from explorer.private_folder import PrivateFolder
from explorer.qt.settings import Settings
from explorer.qt.theme import Scheme
from tests.helpers.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]


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
    assert fresh.scheme is Scheme.LIGHT  # until the program ends
    fresh.set_layout("tensors", QByteArray(b"\1"))
    fresh._store.sync()
    assert settings_file.read_bytes() == before


def test_a_damaged_file_is_told_of(settings_file: Path) -> None:
    settings_file.write_bytes(b"\0\xff\xfe rubbish [[[")
    problem = Settings(settings_file).problem()
    assert problem is not None
    assert f"{settings_file} is damaged" in problem
    assert Settings(settings_file, fresh=True).problem() is None
    settings_file.write_bytes(b"")
    assert Settings(settings_file).problem() is None


def test_a_folder_that_cannot_be_written_is_told_of(tmp_path: Path) -> None:
    nowhere = tmp_path / "file"
    nowhere.write_text("where the folder would be")
    settings = Settings(nowhere / "settings.ini")
    fill(settings)
    assert settings.scheme is Scheme.DARK
    settings._store.sync()
    problem = settings.problem()
    assert problem is not None
    assert "cannot be saved in" in problem


def _a_pipe(path: Path) -> None:
    os.mkfifo(path)


def _a_linked_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to(path.with_name("pipe"))


def _a_linked_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _a_folder(path: Path) -> None:
    path.mkdir()


def _a_file_of_all(path: Path) -> None:
    path.write_text("[General]\nversion=1\nscheme=light\n")
    path.chmod(0o666)


def _in_a_folder_of_all(path: Path) -> None:
    path.parent.chmod(0o777)


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and modes of files")
@pytest.mark.parametrize(
    "make",
    [_a_pipe, _a_linked_pipe, _a_linked_device, _a_folder, _a_file_of_all, _in_a_folder_of_all],
)
def test_what_is_no_file_of_this_user_alone_is_neither_read_nor_replaced(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    file = tmp_path / "settings" / "settings.ini"
    file.parent.mkdir(mode=0o700)
    make(file)
    before = _seen(file.parent)
    settings = Settings(file)
    fill(settings)
    settings.begin_session(anew=True)
    assert settings.write() is None  # it was said
    settings.end_session()
    problem = settings.problem()
    assert problem is not None
    assert f"cannot be saved in {file}: " in problem
    assert settings.scheme is Scheme.DARK  # until the program ends
    delete(settings._store)  # which writes what it has not yet
    assert _seen(file.parent) == before


def _seen(folder: Path) -> list[tuple[str, int, int]]:
    return [(path.name, path.lstat().st_mode, path.lstat().st_ino) for path in folder.iterdir()]


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_settings_that_the_user_has_put_elsewhere_stay_there(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles"
    real.mkdir(mode=0o700)
    (tmp_path / "settings").symlink_to(real)
    (real / "settings.ini").symlink_to(real / "mine.ini")
    settings = Settings(tmp_path / "settings" / "settings.ini")
    settings.scheme = Scheme.DARK
    assert settings.write() is None
    assert (real / "settings.ini").is_symlink()
    assert "scheme=dark" in (real / "mine.ini").read_text()
    assert stat.S_IMODE((real / "mine.ini").stat().st_mode) == 0o600


def test_a_home_that_does_not_exist_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    for name in ("XDG_CONFIG_HOME", "APPDATA", "LOCALAPPDATA", "XDG_CACHE_HOME",
                 "GGUF_EXPLORER_CACHE"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    settings = Settings()
    fill(settings)
    settings.write()
    assert CrashReports().write("a report") is None
    assert "the home folder does not exist" in str(settings.problem())
    assert not home.exists()


def test_a_full_disk_is_said_once(settings_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(settings_file)
    status = [QSettings.Status.AccessError]
    monkeypatch.setattr(QSettings, "status", lambda _: status[0])

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(PrivateFolder, "create", full)
    assert settings.write() == (
        f"Settings cannot be saved in {settings_file}: no space left on device."
    )
    assert settings.write() is None
    status[0] = QSettings.Status.NoError
    assert settings.write() is None
    status[0] = QSettings.Status.AccessError
    assert settings.write() is not None  # it was well meanwhile


def everything(settings: Settings) -> list[object]:
    """Read every value as the window does."""
    found: list[object] = [settings.problem()]
    for name in dir(Settings):
        if isinstance(getattr(Settings, name), property):
            found.append(getattr(settings, name))
    found += [settings.note("planner"), bytes(settings.layout("tensors").data())]
    return found


_VALUES = (
    "",
    "a, b",
    "7",
    "@Invalid()",
    "@ByteArray(\\0\\xff)",
    "@Variant(\\0\\0\\0\\x7f\\0\\0\\0\\x2QT)",
    "@Size(1 2)",
    "@Rect(x)",
    '"\\0\\x1b[31m\\x202e"',
    "[" * 900,
    '"' + "{" * 900 + '"',
    "\\xd800",
    "%00/../..",
)


@pytest.mark.parametrize("value", _VALUES)
@pytest.mark.no_qt_log  # Qt says which of them it cannot read
def test_values_of_any_type_are_survived(settings_file: Path, value: str) -> None:
    names = [name for name in dir(Settings) if isinstance(getattr(Settings, name), property)]
    assert len(names) >= 5
    plain = Settings(settings_file.with_name("none.ini"))
    general = "".join(f"{key}={value}\n" for key in names)
    general += f"[windows]\n1-2\\session={value}\n3={value}\n[recent_models]\nab={value}\n"
    general += f"cd=5 {value}\n[ef]\ng=1\n"
    layouts = f"[layout]\ntensors={value}\nwindow={value}\n[notes]\nplanner={value}\n"
    settings_file.write_text(f"[General]\nversion=1\n{general}{layouts}")
    settings = Settings(settings_file)
    found = everything(settings)
    assert [type(one) for one in found[1:]] == [type(one) for one in everything(plain)[1:]]
    assert found[-1] == b""
    fill(settings)
    assert settings.recent[0] == Path("/a, b/1.gguf")


@given(content=st.binary(max_size=300), after=st.binary(max_size=60))
def test_any_bytes_are_survived(tmp_path: Path, content: bytes, after: bytes) -> None:
    file = tmp_path / f"{uuid4()}.ini"
    file.write_bytes(content + b"\n[General]\nversion=1\nrecent=" + after)
    everything(Settings(file))


@given(data=st.data())
def test_a_layout_that_was_damaged_is_none(tmp_path: Path, data: st.DataObject) -> None:
    """A header's state with wrong bytes in it ended the process (Qt 6.10, QHeaderView)."""
    file = tmp_path / f"{uuid4()}.ini"
    settings = Settings(file)
    state = QByteArray(b"some state of Qt")
    settings.set_layout("tensors", state)
    assert settings.layout("tensors") == state
    kept = bytearray(settings._store.value("layout/tensors").data())
    place = data.draw(st.integers(0, len(kept) - 1))
    kept[place] ^= data.draw(st.integers(1, 255))
    settings._store.setValue("layout/tensors", QByteArray(bytes(kept)))
    assert settings.layout("tensors").isEmpty()


def test_a_session_is_each_program_s_own(settings_file: Path) -> None:
    """A and B run together; C replaces what both have left, D takes over what C has left."""
    a, b = Settings(settings_file), Settings(settings_file)
    a.begin_session(anew=True)
    b.begin_session(anew=True)
    a.session = [Path("/a"), Path("/both")]
    b.session = [Path("/both"), Path("/b")]
    assert a.session == [Path("/a"), Path("/both")]
    assert b.session == [Path("/both"), Path("/b")]
    b.end_session()
    assert a.session == [Path("/a"), Path("/both"), Path("/b")]
    between = Settings(settings_file)
    between.begin_session(anew=True)  # while A runs, with models of its own
    between.session = [Path("/x")]
    between.end_session()
    a.end_session()
    c = Settings(settings_file)
    c.begin_session(anew=True)
    assert c.session == [Path("/a"), Path("/both"), Path("/b"), Path("/x")]
    c.session = [Path("/c")]
    assert c.session == [Path("/c")]
    c.end_session()
    d = Settings(settings_file)
    d.begin_session(anew=False)
    assert d.session == [Path("/c")]
    d.session = [*d.session, Path("/d")]
    d.write()
    assert settings_file.read_text().count("session=") == 1
    d.end_session()
    assert not list(settings_file.parent.glob("window-*"))


def test_a_window_without_models_takes_nothing_of_one_that_runs(settings_file: Path) -> None:
    a, b = Settings(settings_file), Settings(settings_file)
    a.begin_session(anew=True)
    a.session = [Path("/a")]
    b.begin_session(anew=False)
    assert b.session == []
    b.session = []
    b.end_session()
    a.end_session()
    assert Settings(settings_file).session == [Path("/a")]


def test_what_a_program_that_died_has_left_is_not_taken_for_one_that_runs(
    settings_file: Path,
) -> None:
    died = Settings(settings_file)
    died.begin_session(anew=True)
    died.session = [Path("/a")]
    assert died._running is not None
    died._running.close()  # as the system does
    after = Settings(settings_file)
    after.begin_session(anew=False)
    assert after.session == [Path("/a")]
    assert len(list(settings_file.parent.glob("window-*"))) == 1
    after.end_session()


_WRITER = """
import sys
from pathlib import Path
from explorer.qt.settings import Settings

settings = Settings(Path(sys.argv[1]))
for number in range(20):
    settings.add_recent(Path(f"/{sys.argv[2]}/{number % 6}"))
    settings.set_note(sys.argv[2], str(number))
    settings.write()
"""


def test_two_programs_that_write_at_once_leave_a_whole_file(settings_file: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(settings_file), name], cwd=ROOT)
        for name in ("one", "two")
    ]
    assert [writer.wait(PATIENCE_S) for writer in writers] == [0, 0]
    settings = Settings(settings_file)
    assert settings.problem() is None
    assert (settings.note("one"), settings.note("two")) == ("19", "19")
    expected = {Path(f"/{name}/{number}") for name in ("one", "two") for number in range(6)}
    assert set(settings.recent) == expected


def test_a_model_that_two_windows_opened_is_remembered_once(settings_file: Path) -> None:
    one, two = Settings(settings_file), Settings(settings_file)
    for settings in (one, two):
        settings.add_recent(Path("/a, ü/@1.gguf"))
        settings.write()
    two.add_recent(Path("/b.gguf"))
    assert Settings(settings_file).recent == [Path("/b.gguf"), Path("/a, ü/@1.gguf")]
