"""What is kept between two runs: this user's alone, whole, or not used; and nothing left over."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer import private_folder
from explorer.analysis.survey_cache import SurveyCache
from explorer.crash_reports import CrashReports
from explorer.private_folder import ABANDONED_S, PrivateFolder, seal, why_unavailable
from explorer.quantization import kernel_cache
from explorer.sources.remote.addresses import Address
from explorer.sources.remote.source import HeaderCache, KnownHeader

posix = pytest.mark.skipif(os.name != "posix", reason="needs owners and modes of folders")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, which is not there yet; nothing was said so far."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(tmp_path / "above" / "user"))
    monkeypatch.setattr(private_folder, "_warning", "")
    return tmp_path / "above" / "user"


def test_folders_and_files_are_closed_to_others(cache: Path) -> None:
    old = os.umask(0)
    try:
        PrivateFolder("inner").write("sealed", b"content")
        PrivateFolder("inner").create("new").close()
        assert sorted(path.name for path in cache.rglob("*")) == [
            *("inner", "new", "sealed", "unfinished")
        ]
        assert all(keep() for keep in KEPT.values())
    finally:
        os.umask(old)
    made = [cache.parent, cache, *cache.rglob("*")]
    assert os.name != "posix" or {stat.S_IMODE(path.stat().st_mode) for path in made} == {
        *(0o700, 0o600)
    }


# Folders


def _open_to(mode: int) -> Callable[[Path], None]:
    return lambda folder: folder.chmod(mode)


def _behind_a_link(folder: Path) -> None:
    real = folder.rename(folder.with_name("real"))
    folder.symlink_to(real)


def _kernel_name() -> str:
    return kernel_cache.kernel_folder().path.name


def _keep_a_kernel() -> bool:
    folder = kernel_cache.choose_kernel_folder()
    if folder is not None:
        folder.write("a.nbc", b"code")
    return folder is not None


def _keep_results() -> bool:
    try:
        SurveyCache().connect().close()
    except OSError:
        return False
    return True


def _keep_a_header() -> bool:
    address = Address("https://host/a.gguf")
    HeaderCache().store(address, KnownHeader('"1"', 10, b"header"))
    return HeaderCache().load(address) is not None


def _keep_a_report() -> bool:
    return CrashReports().write("a report") is not None


KEPT: dict[str, Callable[[], bool]] = {
    "kernels": _keep_a_kernel,
    "surveys": _keep_results,
    "addresses": _keep_a_header,
    "crashes": _keep_a_report,
}
"""All that the program keeps, by the folder: keeps it and returns whether that could be done."""


@posix
@pytest.mark.parametrize("damage", [_open_to(0o770), _open_to(0o707), _behind_a_link])
@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize("name", KEPT)
def test_nothing_is_kept_where_others_may_write_and_that_is_said_once(
    cache: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    above: bool,
    damage: Callable[[Path], None],
) -> None:
    assert KEPT[name]()
    assert not caplog.messages
    damage(cache if above else cache / (_kernel_name() if name == "kernels" else name))
    before = sorted(path for path in cache.parent.rglob("*") if path.is_file())
    for _ in range(2):
        assert not KEPT[name]()
    assert sorted(path for path in cache.parent.rglob("*") if path.is_file()) == before
    (said,) = caplog.messages
    assert said == why_unavailable()
    assert said.startswith(f"nothing is kept in {cache}")


@posix
@pytest.mark.parametrize("name", KEPT)
def test_another_user_s_folder_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    cache.mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    with pytest.raises(PermissionError, match="it belongs to another user"):
        PrivateFolder(name).make()
    assert not KEPT[name]()
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("name", KEPT)
def test_where_no_folder_can_be_made_all_goes_on(cache: Path, name: str) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where the folder would be")
    assert not KEPT[name]()
    PrivateFolder().remove_leftovers()
    assert cache.is_file()


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(private_folder, "cache_folder", no_home)
    assert not any(keep() for name, keep in KEPT.items() if name != "demo")
    assert CrashReports().take_crash() is None
    assert why_unavailable() == "nothing is kept for the next run: there is no home folder"


# Files


@given(content=st.binary(max_size=300), data=st.data())
def test_any_damage_is_found_and_the_file_removed(content: bytes, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        folder = PrivateFolder("kernels", root=Path(root))
        folder.write("a.nbc", content)
        path = folder.path / "a.nbc"
        assert folder.read("a.nbc", len(content)) == content
        whole = bytearray(path.read_bytes())
        place = data.draw(st.integers(0, len(whole) - 1))
        damaged = data.draw(
            st.sampled_from(
                [
                    bytes(whole[:place]),
                    bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]),
                    bytes(whole[:place]) + bytes(len(whole) - place),
                    bytes(whole) + b"\0",
                ]
            )
        )
        if damaged != whole:
            path.write_bytes(damaged)
            assert folder.read("a.nbc", len(content)) is None
            assert not path.exists()


@pytest.mark.parametrize("place", ["other/a.nbc", "inner/b.nbc"])
def test_a_sound_file_under_another_s_name_is_none(cache: Path, place: str) -> None:
    PrivateFolder("inner").write("a.nbc", b"code")
    other, name = place.split("/")
    PrivateFolder(other).make()
    (cache / "inner" / "a.nbc").rename(cache / place)
    assert PrivateFolder(other).read(name, 100) is None


def _of_a_link(path: Path) -> None:
    path.symlink_to(path.with_name("target"))
    path.with_name("target").write_bytes(b"code" + seal(path, b"code"))


def _of_a_folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("")


def _of_a_closed_file(path: Path) -> None:
    path.touch(0)


def _of_a_huge_file(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@posix
@pytest.mark.parametrize(
    "make", [_of_a_link, _of_a_folder, getattr(os, "mkfifo", None), _of_a_closed_file,
             _of_a_huge_file]
)  # fmt: skip
def test_what_is_no_file_of_this_program_is_removed(make: Callable[[Path], None]) -> None:
    folder = PrivateFolder("inner")
    path = folder.make() / "a.nbc"
    make(path)
    assert folder.read("a.nbc", 100) is None
    assert not os.path.lexists(path)
    assert make is not _of_a_link or path.with_name("target").exists()


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_removed(mode: int) -> None:
    folder = PrivateFolder("inner")
    folder.write("a.nbc", b"code")
    path = folder.path / "a.nbc"
    path.chmod(0o644)
    assert folder.read("a.nbc", 100) == b"code"
    path.chmod(mode)
    assert folder.read("a.nbc", 100) is None
    assert not path.exists()


@posix
def test_a_file_of_another_user_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = PrivateFolder("inner")
    folder.write("a.nbc", b"code")
    find = os.fstat
    monkeypatch.setattr(os, "fstat", lambda file: _of_another(find(file)))
    assert folder.read("a.nbc", 100) is None
    assert not (folder.path / "a.nbc").exists()


def _of_another(found: os.stat_result) -> os.stat_result:
    return os.stat_result([*found[:4], found.st_uid + 1, *found[5:]])


@posix
def test_a_crash_report_and_a_survey_follow_no_link(cache: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("Fatal Python error: a private key")
    for place in ("crashes/running-1-2.txt", "surveys/surveys.sqlite3"):
        PrivateFolder(place.partition("/")[0]).make()
        (cache / place).symlink_to(secret)
    assert CrashReports().take_crash() is None
    SurveyCache().connect().close()
    assert list((cache / "crashes").iterdir()) == []
    assert not (cache / "surveys" / "surveys.sqlite3").is_symlink()
    assert secret.read_text() == "Fatal Python error: a private key"


def test_a_full_disk_leaves_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = PrivateFolder("inner")
    folder.write("a", b"before")

    def fail(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        folder.write("a", b"after")
    assert folder.read("a", 100) == b"before"
    assert list((folder.path.parent / "unfinished").iterdir()) == []


# What a process that was killed leaves


def test_what_is_unfinished_for_an_hour_is_removed(cache: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "a.tmp").write_text("mine")
    inner = PrivateFolder("unfinished").make()
    (inner / "young").write_text("half")
    (inner / "file").write_text(str(mine / "a.tmp"))  # an earlier version took this for a record
    (inner / "folder").mkdir()
    (inner / "folder" / "file").write_text("half")
    (inner / "link").symlink_to(mine)
    long_ago = time.time() - ABANDONED_S - 60
    for name in ("file", "folder", "link"):
        os.utime(inner / name, (long_ago, long_ago), follow_symlinks=False)
    PrivateFolder().remove_leftovers()
    assert [path.name for path in inner.iterdir()] == ["young"]
    assert (mine / "a.tmp").read_text() == "mine"


@posix
def test_nothing_is_removed_where_others_may_write(cache: Path) -> None:
    inner = PrivateFolder("unfinished").make()
    (inner / "file").write_text("half")
    os.utime(inner / "file", (0, 0))
    inner.chmod(0o777)
    PrivateFolder().remove_leftovers()
    assert (inner / "file").exists()
