"""A file as a source of bytes, and everything that is not a file."""

from __future__ import annotations

import hashlib
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from explorer.errors import ExplorerError, SourceError
from explorer.sources import FileSource
from tests.helpers.patience import PATIENCE_S

needs_posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")
_CONTENT = bytes(range(256)) * 4096


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"
    path.write_bytes(_CONTENT)
    return path


def test_reads_any_range(file: Path) -> None:
    with FileSource(file) as source:
        assert source.size == len(_CONTENT)
        assert source.read(0, 0) == b""
        assert source.read(250, 12) == _CONTENT[250:262]
        assert source.read(source.size - 3, 3) == _CONTENT[-3:]
        assert source.read(source.size, 0) == b""
        assert source.read(0, source.size) == _CONTENT


def test_read_into_fills_a_part_of_a_buffer(file: Path) -> None:
    buffer = bytearray(8)
    with FileSource(file) as source:
        source.read_into(3, memoryview(buffer)[2:6])
    assert bytes(buffer) == b"\0\0\x03\x04\x05\x06\0\0"


@pytest.mark.parametrize(
    ("offset", "length"),
    [
        (len(_CONTENT), 1),
        (len(_CONTENT) + 1, 0),
        (len(_CONTENT) - 1, 2),
        (-1, 1),
        (0, -1),
        (0, 1 << 62),
        (1 << 62, 1),
        (1 << 70, 1 << 70),
    ],
)
def test_a_range_outside_is_refused_before_memory_is_taken(
    file: Path, offset: int, length: int
) -> None:
    with FileSource(file) as source, pytest.raises(SourceError) as caught:
        source.read(offset, length)
    assert caught.value.path == file
    assert caught.value.offset == offset


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist") as caught:
        FileSource(tmp_path / "none.gguf")
    assert str(tmp_path / "none.gguf") in str(caught.value)


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "file/inside"])
def test_names_that_no_file_can_have(file: Path, name: str) -> None:
    file.with_name("file").write_bytes(b"")
    with pytest.raises(SourceError):
        FileSource(file.with_name("file").parent / name)


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="folder"):
        FileSource(tmp_path)


@needs_posix
@pytest.mark.timeout(PATIENCE_S)
def test_fifo_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(SourceError, match="pipe"):
        FileSource(tmp_path / "pipe.gguf")


@needs_posix
@pytest.mark.timeout(PATIENCE_S)
def test_fifo_swapped_in_after_the_check(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    regular = os.stat(file)
    monkeypatch.setattr("explorer.sources.files.os.stat", lambda _: regular)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with pytest.raises(SourceError, match="pipe"):
        FileSource(pipe)
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


@needs_posix
@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_device(device: str) -> None:
    if not os.path.exists(device):
        pytest.skip(f"no {device}")
    with pytest.raises(SourceError, match="device"):
        FileSource(device)


@needs_posix
def test_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(SourceError, match="socket"):
            FileSource("s")


@needs_posix
def test_link_loop(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(SourceError):
        FileSource(tmp_path / "a")


@needs_posix
def test_link_to_a_file_is_followed(tmp_path: Path, file: Path) -> None:
    link = tmp_path / "blob"
    link.symlink_to(file)
    with FileSource(link) as source:
        assert source.read(1, 2) == b"\x01\x02"


@needs_posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_no_permission(file: Path) -> None:
    file.chmod(0)
    with pytest.raises(SourceError, match="permission denied"):
        FileSource(file)


def test_no_permission_as_the_system_tells_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("explorer.sources.files.os.open", refuse)
    with pytest.raises(SourceError, match="permission denied"):
        FileSource(file)


@pytest.mark.skipif(not hasattr(os, "preadv"), reason="no preadv")
def test_a_disk_error_is_a_source_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(5, "Input/output error")

    with FileSource(file) as source:
        monkeypatch.setattr("explorer.sources.files.os.preadv", fail)
        with pytest.raises(SourceError, match="input/output error") as caught:
            source.read(5, 5)
    assert caught.value.offset == 5


@needs_posix
def test_shrinks_while_open(file: Path) -> None:
    with FileSource(file) as source:
        os.truncate(file, 1000)
        assert source.read(0, 1000) == _CONTENT[:1000]
        for offset, length in ((0, 1001), (990, 20), (5000, 1)):
            with pytest.raises(SourceError, match="shorter while it was open"):
                source.read(offset, length)


def test_grows_while_open(file: Path) -> None:
    with FileSource(file) as source:
        with file.open("ab") as more:
            more.write(b"more")
        assert source.read(source.size - 2, 2) == _CONTENT[-2:]
        with pytest.raises(SourceError):
            source.read(source.size, 4)


@needs_posix
def test_deleted_while_open_is_still_readable(file: Path) -> None:
    with FileSource(file) as source:
        file.unlink()
        assert source.read(10, 10) == _CONTENT[10:20]


@needs_posix
def test_replaced_while_open_reads_the_old_file(file: Path) -> None:
    with FileSource(file) as source:
        other = file.with_suffix(".new")
        other.write_bytes(b"\xff" * len(_CONTENT))
        other.replace(file)
        assert source.read(10, 10) == _CONTENT[10:20]


def test_closed(file: Path) -> None:
    source = FileSource(file)
    source.close()
    source.close()
    with pytest.raises(SourceError, match="closed"):
        source.read(0, 1)


def test_reads_from_many_threads(file: Path) -> None:
    def digest(offset: int) -> bytes:
        return hashlib.sha256(source.read(offset, 70_001)).digest()

    offsets = [(i * 7919) % (len(_CONTENT) - 70_001) for i in range(400)]
    with FileSource(file) as source, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(digest, offsets))
    assert found == [hashlib.sha256(_CONTENT[i : i + 70_001]).digest() for i in offsets]


def test_closing_under_readers_gives_errors_only(file: Path) -> None:
    def read(offset: int) -> bool:
        try:
            return source.read(offset, 1000) == _CONTENT[offset : offset + 1000]
        except SourceError:
            return True

    source = FileSource(file)
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(read, i * 100) for i in range(500)]
        source.close()
        assert all(job.result() for job in jobs)


def test_without_positioned_reads(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where `os` has no `preadv`."""
    monkeypatch.delattr("explorer.sources.files.os.preadv", raising=False)
    with FileSource(file) as source:
        assert source.read(300, 5) == _CONTENT[300:305]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda i: source.read(i, 100), range(0, 10_000, 37)))
        assert found == [_CONTENT[i : i + 100] for i in range(0, 10_000, 37)]
        os.truncate(file, 100)
        with pytest.raises(SourceError, match="shorter while it was open"):
            source.read(50, 100)
    with pytest.raises(SourceError, match="closed"):
        source.read(0, 1)


def test_sparse_file_of_20_gib(tmp_path: Path) -> None:
    path = tmp_path / "sparse.bin"
    with path.open("wb") as target:
        try:
            target.truncate(20 << 30)
        except OSError:
            pytest.skip("the file system has no sparse files")
    with FileSource(path) as source:
        assert source.read((20 << 30) - 4, 4) == bytes(4)


def test_errors_are_the_programs_own() -> None:
    assert issubclass(SourceError, ExplorerError)
    error = SourceError("is gone", Path("a.gguf"), 12)
    assert str(error) == "a.gguf: is gone (at byte 12)"
    assert str(SourceError("is gone")) == "is gone"


def test_a_close_waits_for_the_reads_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"right bytes")
    other = tmp_path / "other"
    other.write_bytes(b"WRONG BYTES")
    source = FileSource(path)
    plain_preadv = os.preadv

    def closed_meanwhile(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        source.close()
        with other.open("rb"):  # takes the number, if it is free
            return plain_preadv(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", closed_meanwhile)
    assert source.read(0, 11) == b"right bytes"
    monkeypatch.undo()
    with pytest.raises(SourceError, match="closed"):
        source.read(0, 1)
