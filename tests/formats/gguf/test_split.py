"""Split files: any shard opens the whole, what is wrong is named (docs/gguf.md, section 4)."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest

from explorer.errors import FormatError
from explorer.formats import Severity
from explorer.formats.gguf.open import open_gguf
from explorer.sources.files import MOST_OPEN
from tests.helpers.gguf_files import problems, shard, shard_name, write_shards
from tests.helpers.gguf_writer import STRING, U32, TensorSpec, small_model
from tests.helpers.patience import PATIENCE_S


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_shards(tmp_path)
    return tmp_path


@pytest.mark.parametrize("number", [1, 2, 3])
def test_any_shard_opens_the_whole(folder: Path, number: int) -> None:
    with open_gguf(folder / shard_name(number)) as model:
        assert model.problems == ()
        assert [file.path.name for file in model.files] == [
            shard_name(1),
            shard_name(2),
            shard_name(3),
        ]
        assert [file.first_tensor for file in model.files] == [0, 2, 4]
        assert list(model.tensors) == [f"blk.{n}.{i}" for n in range(3) for i in range(2)]
        assert model.architecture == "llama"
        for row, tensor in enumerate(model.tensors.rows):
            assert tensor.file.name == shard_name(row // 2 + 1)
            assert tensor.read() == bytes([16 * (row // 2 + 1) + row % 2]) * 16


def test_a_relative_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with open_gguf(Path(shard_name(2))) as model:
        assert len(model.files) == 3


def test_the_first_shard_may_hold_no_tensors(tmp_path: Path) -> None:
    shard(1, 2, tensors=0, total=2).write(tmp_path / shard_name(1, 2))
    shard(2, 2, total=2).write(tmp_path / shard_name(2, 2))
    with open_gguf(tmp_path / shard_name(1, 2)) as model:
        assert model.problems == ()
        assert list(model.tensors) == ["blk.1.0", "blk.1.1"]
        assert model.tensors["blk.1.1"].read() == b"\x21" * 16


@pytest.mark.parametrize("missing", [1, 2, 3])
@pytest.mark.parametrize("opened", [1, 2, 3])
def test_a_shard_is_missing(folder: Path, missing: int, opened: int) -> None:
    if missing == opened:
        pytest.skip("it cannot be opened")
    (folder / shard_name(missing)).unlink()
    with open_gguf(folder / shard_name(opened)) as model:
        assert len(model.files) == 2
        assert len(model.tensors) == 4
        ((where, what),) = problems(model)
        assert where == shard_name(opened)
        assert "1 of 3" in what
        assert shard_name(missing) in what
        assert model.problems[0].severity is Severity.ERROR


def test_many_shards_are_missing(folder: Path) -> None:
    path = (folder / shard_name(2)).rename(folder / "big-00002-of-99999.gguf")
    with open_gguf(path) as model:
        reported = dict(problems(model))
        assert any("99998 of 99999" in what for _, what in problems(model))
        assert all(len(what) < 500 for what in reported.values())


@pytest.mark.parametrize(
    "content", [b"", b"GGUF", b"<html>", None], ids=["empty", "cut", "web page", "folder"]
)
def test_another_shard_is_damaged(folder: Path, content: bytes | None) -> None:
    path = folder / shard_name(2)
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with open_gguf(folder / shard_name(1)) as model:
        assert len(model.tensors) == 4
        assert shard_name(2) in [where for where, _ in problems(model)]
    if content is not None:
        with pytest.raises(FormatError):
            open_gguf(path)


@pytest.mark.skipif(os.name != "posix", reason="needs a FIFO")
@pytest.mark.timeout(PATIENCE_S)
def test_another_shard_is_a_fifo(folder: Path) -> None:
    (folder / shard_name(3)).unlink()
    os.mkfifo(folder / shard_name(3))
    with open_gguf(folder / shard_name(1)) as model:
        assert len(model.tensors) == 4
        assert any("pipe" in what for _, what in problems(model))


def test_another_shard_is_cut_in_its_data(folder: Path) -> None:
    path = folder / shard_name(2)
    path.write_bytes(path.read_bytes()[:-10])
    with open_gguf(folder / shard_name(1)) as model:
        assert [t.damage is not None for t in model.tensors.rows] == [False] * 3 + [True] + [
            False
        ] * 2
        ((where, what),) = problems(model)
        assert where == shard_name(2)
        assert "10 bytes are missing" in what


def test_the_keys_contradict_the_names(folder: Path) -> None:
    shard(3, count=4).write(folder / shard_name(2))
    with open_gguf(folder / shard_name(1)) as model:
        reported = [what for where, what in problems(model) if where == shard_name(2)]
        assert any("split.no is 2" in what for what in reported)
        assert any("split.count is 4" in what for what in reported)


@pytest.mark.parametrize("value", [("split.count", STRING, "3"), ("split.no", U32, 1 << 31)])
def test_keys_of_other_types(folder: Path, value: tuple[str, int, object]) -> None:
    file = shard(2)
    file.keys = [value, *(key for key in file.keys if key[0] != value[0])]
    file.write(folder / shard_name(2))
    with open_gguf(folder / shard_name(1)) as model:
        assert [where for where, _ in problems(model)] == [shard_name(2)]


def test_the_total_contradicts_the_shards(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        shard(number, total=7).write(tmp_path / shard_name(number))
    with open_gguf(tmp_path / shard_name(1)) as model:
        ((_, what),) = problems(model)
        assert "7" in what
        assert "6" in what


def test_the_same_tensor_in_two_shards(folder: Path) -> None:
    file = shard(3)
    file.tensors[0] = TensorSpec("blk.0.0", (4,), 0, b"3" * 16)
    file.write(folder / shard_name(3))
    with open_gguf(folder / shard_name(1)) as model:
        assert [t.name for t in model.tensors.rows].count("blk.0.0") == 2
        assert problems(model) == [("blk.0.0", "the tensor name occurs more than once")]


def test_tensors_of_two_shards_never_overlap(folder: Path) -> None:
    """The same offsets in two files are different bytes."""
    with open_gguf(folder / shard_name(1)) as model:
        assert {t.offset - f.header_bytes for f in model.files[:1] for t in model.tensors.rows[:2]}
        assert model.problems == ()


def test_overlap_within_the_secondshard(folder: Path) -> None:
    file = shard(2)
    file.tensors[1] = TensorSpec("blk.1.1", (4,), 0, b"x" * 16, offset=0)
    file.write(folder / shard_name(2))
    with open_gguf(folder / shard_name(1)) as model:
        assert problems(model) == [("blk.1.1", "shares bytes with tensor 'blk.1.0'")]


@pytest.mark.parametrize("odd", [1, 2, 3])
def test_shards_that_write_numbers_in_other_ways(folder: Path, odd: int) -> None:
    """Nobody makes such a model, but each shard says for itself how it is written."""
    file = shard(odd)
    file.version, file.order = 1, "big"
    file.write(folder / shard_name(odd))
    with open_gguf(folder / shard_name(1)) as model:
        assert model.problems == ()
        assert list(model.tensors) == [f"blk.{n}.{i}" for n in range(3) for i in range(2)]
        for row, tensor in enumerate(model.tensors.rows):
            assert tensor.shape == (4,)
            assert tensor.byte_order == ("big" if row // 2 + 1 == odd else "little")
            assert tensor.read() == bytes([16 * (row // 2 + 1) + row % 2]) * 16


@pytest.mark.parametrize("number", [0, 4])
def test_a_number_out_of_range(folder: Path, number: int) -> None:
    path = shard(1).write(folder / shard_name(number))
    with open_gguf(path) as model:
        assert path in [file.path for file in model.files]
        assert model.problems


@pytest.mark.parametrize(
    "name", ["model-1-of-3.gguf", "-00001-of-00003.gguf", "model-00001-of-00003.gguf.part"]
)
def test_other_names_are_no_shards(tmp_path: Path, name: str) -> None:
    with open_gguf(small_model().write(tmp_path / name)) as model:
        assert len(model.files) == 1
        assert model.problems == ()


def test_a_renamed_shard_says_that_it_is_one(tmp_path: Path) -> None:
    """Without its number the others cannot be found; that tensors are missing must be seen."""
    with open_gguf(shard(1).write(tmp_path / "renamed.gguf")) as model:
        assert len(model.tensors) == 2
        ((where, what),) = problems(model)
        assert where == "renamed.gguf"
        assert "1 of 3" in what


def test_a_split_of_one_file(tmp_path: Path) -> None:
    path = shard(1, count=1, total=2).write(tmp_path / shard_name(1, 1))
    with open_gguf(path) as model:
        assert model.problems == ()
    with open_gguf(path.rename(tmp_path / "renamed.gguf")) as model:
        assert model.problems == ()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_all_files_are_closed(folder: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    open_gguf(folder / shard_name(1)).close()
    (folder / shard_name(1)).write_bytes(b"GGUF")
    with pytest.raises(FormatError):
        open_gguf(folder / shard_name(1))
    assert len(os.listdir("/proc/self/fd")) == before


def test_each_file_has_its_own_version_byte_order_and_alignment(tmp_path: Path) -> None:
    for number, (version, order, alignment) in enumerate(
        [(3, "big", 64), (1, "little", 32), (2, "little", 128)], start=1
    ):
        file = shard(number)
        file.version, file.order = version, order  # type: ignore[assignment] # of the list
        file.keys = [*file.keys, ("general.alignment", U32, alignment)]
        file.alignment = alignment
        file.write(tmp_path / shard_name(number))
    with open_gguf(tmp_path / shard_name(2)) as model:
        reported = [(file.version, file.byte_order, file.alignment) for file in model.files]
        assert reported == [(3, "big", 64), (1, "little", 32), (2, "little", 128)]
        assert (model.version, model.byte_order) == (3, "big")


@pytest.mark.skipif(sys.platform != "linux", reason="sets a limit and reads /proc")
def test_250_shards_need_fewer_files_than_macos_allows(tmp_path: Path) -> None:
    import resource

    write_shards(tmp_path, 250)
    gc.collect()  # files that other tests left open are not closed in the middle
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + MOST_OPEN + 30, hard))
    try:
        with open_gguf(tmp_path / shard_name(1, 250)) as model:
            assert model.problems == ()
            assert len(model.files) == 250
            for row, tensor in enumerate(model.tensors.rows):
                assert tensor.read() == bytes([(16 * (row // 2 + 1) + row % 2) % 256]) * 16
            assert len(os.listdir("/proc/self/fd")) <= before + MOST_OPEN + 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(os.listdir("/proc/self/fd")) == before
