"""Files that are closed while nobody reads them, and must be the same when they are read again."""

from __future__ import annotations

import errno
import gc
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from explorer.errors import SourceError
from explorer.sources import FileSource
from explorer.sources.files import MOST_OPEN, POOL, DescriptorPool, FileDescriptor

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


def test_a_file_that_vanished_is_told(pool: DescriptorPool, paths: list[Path]) -> None:
    source = closed_between(paths[0], pool)
    paths[0].unlink()
    for _ in range(2):
        with pytest.raises(SourceError, match="does not exist") as caught:
            source.read(0, 1)
    assert caught.value.path == paths[0]
    source.close()


def test_a_replaced_file_is_told_even_if_it_looks_the_same(
    pool: DescriptorPool, paths: list[Path]
) -> None:
    source = closed_between(paths[0], pool)
    status = paths[0].stat()
    other = paths[0].with_suffix(".new")
    other.write_bytes(paths[0].read_bytes())
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(paths[0])
    with pytest.raises(SourceError, match="replaced or changed"):
        source.read(0, 1)
    assert len(pool) == 0
    source.close()


@pytest.mark.parametrize("size", [99, 101, 100])
def test_a_changed_file_is_told(pool: DescriptorPool, paths: list[Path], size: int) -> None:
    source = closed_between(paths[0], pool)
    paths[0].write_bytes(bytes(size))
    os.utime(paths[0], ns=(1, 1))
    with pytest.raises(SourceError, match="replaced or changed"):
        source.read(0, 1)
    source.close()


def test_something_else_in_its_place_is_told(pool: DescriptorPool, paths: list[Path]) -> None:
    source = closed_between(paths[0], pool)
    paths[0].unlink()
    paths[0].mkdir()
    with pytest.raises(SourceError, match="folder"):
        source.read(0, 1)
    source.close()


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
