"""Bytes read by position from files and memory, files that stay open, and the search for bytes."""

from __future__ import annotations

import errno
import gc
import os
import random
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import ExplorerError, SourceError
from explorer.sources import FileSource, MemorySource
from explorer.sources import files as byte_search
from explorer.sources.files import (
    MOST_OPEN,
    POOL,
    ByteSearch,
    ByteSource,
    DescriptorPool,
    FileDescriptor,
    Found,
)
from tests.helpers.patience import PATIENCE_S

needs_posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")
_CONTENT = bytes(range(256)) * 4096


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"
    path.write_bytes(_CONTENT)
    return path


@pytest.fixture(params=["file", "memory"])
def source(request: pytest.FixtureRequest, file: Path) -> Iterator[ByteSource]:
    with FileSource(file) if request.param == "file" else MemorySource(_CONTENT) as one:
        yield one


def test_reads_any_range(source: ByteSource) -> None:
    assert source.size == len(_CONTENT)
    assert source.read(0, 0) == b""
    assert source.read(250, 12) == _CONTENT[250:262]
    assert source.read(source.size - 3, 3) == _CONTENT[-3:]
    assert source.read(source.size, 0) == b""
    assert source.read(source.size + 1, 0) == b""  # an empty tensor may lie behind a cut
    assert source.read(0, source.size) == _CONTENT


def test_read_into_fills_a_part_of_a_buffer(source: ByteSource) -> None:
    buffer = bytearray(8)
    source.read_into(3, memoryview(buffer)[2:6])
    assert bytes(buffer) == b"\0\0\x03\x04\x05\x06\0\0"


@pytest.mark.parametrize(
    ("offset", "length"),
    [
        (len(_CONTENT), 1),
        (len(_CONTENT) - 1, 2),
        (-1, 1),
        (0, -1),
        (0, 1 << 62),
        (1 << 62, 1),
        (1 << 70, 1 << 70),
    ],
)
def test_a_range_outside_is_refused_before_memory_is_taken(
    source: ByteSource, offset: int, length: int
) -> None:
    with pytest.raises(SourceError) as caught:
        source.read(offset, length)
    assert caught.value.path == source.path
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


def test_no_permission_as_the_system_reports_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_closing_keeps_the_bytes() -> None:
    with MemorySource(b"abc") as source:
        pass
    assert source.read(0, 3) == b"abc"


_COUNT = 12
_LIMIT = 4


@pytest.fixture(scope="module", autouse=True)
def nothing_else_to_collect() -> None:
    """Let the collections below walk over what these tests make, not over all that is loaded."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    found = [tmp_path / f"shard-{number}" for number in range(_COUNT)]
    for number, path in enumerate(found):
        path.write_bytes(bytes([number]) * 100)
    return found


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[DescriptorPool]:
    """A small pool that `FileSource` uses too, and in which nothing stays open."""
    pool = DescriptorPool(_LIMIT)
    monkeypatch.setattr("explorer.sources.files.POOL", pool)
    yield pool
    gc.collect()
    assert len(pool) == 0


def read(descriptor: FileDescriptor) -> bytes:
    number = descriptor.borrow()
    try:
        return os.read(number, 1)
    finally:
        descriptor.give_back()


def test_few_files_stay_open_and_all_can_be_read(pool: DescriptorPool, paths: list[Path]) -> None:
    sources = [FileSource(path) for path in paths]
    assert len(pool) == _LIMIT
    for _ in range(2):
        for number, source in enumerate(sources):
            assert source.read(10, 2) == bytes([number]) * 2
            assert len(pool) == _LIMIT
    for source in sources:
        for _ in range(2):
            source.close()
        with pytest.raises(SourceError, match="closed"):
            source.read(0, 1)


def test_the_system_agrees_about_what_is_open(pool: DescriptorPool, paths: list[Path]) -> None:
    folder = "/proc/self/fd"
    if not os.path.isdir(folder):
        pytest.skip("needs /proc")
    before = len(os.listdir(folder))
    sources = [FileSource(path) for path in paths]
    assert len(os.listdir(folder)) == before + _LIMIT
    for source in sources:
        source.close()
    assert len(os.listdir(folder)) == before


def test_the_file_that_was_not_used_for_longest_is_closed(
    pool: DescriptorPool, paths: list[Path]
) -> None:
    files = [FileDescriptor(path, pool) for path in paths[:_LIMIT]]
    read(files[0])
    more = FileDescriptor(paths[_LIMIT], pool)
    assert [pool.number(file) is None for file in files] == [False, True, False, False]
    for file in (*files, more):
        file.close()


def test_a_file_stays_open_while_it_is_read(pool: DescriptorPool, paths: list[Path]) -> None:
    files = [FileDescriptor(path, pool) for path in paths]
    numbers = [file.borrow() for file in files]  # more at once than may stay open
    assert len(pool) == _COUNT
    assert [os.read(number, 1) for number in numbers] == [bytes([i]) for i in range(_COUNT)]
    for file in files:
        file.give_back()
    late = FileDescriptor(paths[0], pool)
    assert len(pool) == _LIMIT
    for file in (*files, late):
        file.close()


def closed_between(path: Path, pool: DescriptorPool) -> FileSource:
    source = FileSource(path)
    pool.close_idle(0)
    return source


def _replace_by_a_copy(path: Path) -> None:
    status, other = path.stat(), path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


def _change_to(size: int) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_bytes(bytes(size))
        os.utime(path, ns=(1, 1))

    return change


def _make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Path.unlink, "does not exist"),
        (_replace_by_a_copy, "replaced or changed"),  # even if it looks the same
        *((_change_to(size), "replaced or changed") for size in (99, 100, 101)),
        (_make_a_folder, "folder"),
    ],
)
def test_another_file_in_its_place_is_an_error(
    pool: DescriptorPool, paths: list[Path], change: Callable[[Path], None], said: str
) -> None:
    with closed_between(paths[0], pool) as source:
        change(paths[0])
        for _ in range(2):
            with pytest.raises(SourceError, match=said) as caught:
                source.read(0, 1)
        assert caught.value.path == paths[0]
        assert len(pool) == 0


def test_it_is_found_again_from_another_folder(
    pool: DescriptorPool, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(paths[0].parent)
    source = closed_between(Path(paths[0].name), pool)
    monkeypatch.chdir("/")
    assert source.read(0, 1) == b"\0"
    source.close()


def test_where_the_system_allows_fewer_files_the_idle_ones_make_room(
    pool: DescriptorPool, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [FileSource(path) for path in paths[:3]]
    open_file = os.open

    def open_if_room(*arguments: object) -> int:
        if len(pool):
            raise OSError(errno.EMFILE, "Too many open files")
        return open_file(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("explorer.sources.files.os.open", open_if_room)
    sources.append(FileSource(paths[3]))
    assert [source.read(0, 1) for source in sources] == [b"\0", b"\1", b"\2", b"\3"]
    busy = FileDescriptor(paths[4], pool)
    busy.borrow()  # cannot make room
    with pytest.raises(SourceError, match="too many open files"):
        sources[0].read(0, 1)
    busy.give_back()
    assert sources[0].read(0, 1) == b"\0"
    busy.close()
    for source in sources:
        source.close()


def test_many_threads_read_more_files_than_stay_open(
    pool: DescriptorPool, paths: list[Path]
) -> None:
    sources = [FileSource(path) for path in paths]
    start = threading.Barrier(8)

    def work(seed: int) -> bool:
        start.wait()
        picks = [(seed * 31 + step * 7) % _COUNT for step in range(300)]
        return all(
            sources[pick].read(step % 90, 5) == bytes([pick]) * 5 for step, pick in enumerate(picks)
        )

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))
    assert len(pool) <= _LIMIT + 8
    for source in sources:
        source.close()


def test_closing_under_readers_leaves_nothing_open(pool: DescriptorPool, paths: list[Path]) -> None:
    sources = [FileSource(path) for path in paths]

    def work(step: int) -> bool:
        try:
            return sources[step % _COUNT].read(0, 5) == bytes([step % _COUNT]) * 5
        except SourceError:
            return True

    with ThreadPoolExecutor(8) as threads:
        jobs = [threads.submit(work, step) for step in range(600)]
        for source in sources:
            source.close()
        assert all(job.result() for job in jobs)
    assert len(pool) == 0


def test_a_source_that_nobody_holds_is_closed(pool: DescriptorPool, paths: list[Path]) -> None:
    source = FileSource(paths[0])
    assert len(pool) == 1
    del source
    gc.collect()
    assert len(pool) == 0


def test_a_dropped_source_may_end_while_the_pool_is_busy(
    pool: DescriptorPool, paths: list[Path]
) -> None:
    source = FileSource(paths[0])
    with pool.lock:  # as if the garbage collector ran in there
        del source
        gc.collect()
    assert len(pool) == 0


def test_the_programs_pool_stays_below_what_macos_allows() -> None:
    assert POOL.most_open == MOST_OPEN <= 128


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
