"""Split files: any shard opens the whole, what is wrong is named (gguf.md section 4)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from explorer.errors import FormatError
from explorer.formats import Model, Severity
from explorer.formats.gguf import open_gguf
from tests.helpers.gguf_writer import (
    I32,
    STRING,
    U16,
    U32,
    GgufFile,
    TensorSpec,
    small_model,
)


def _name(number: int, count: int = 3) -> str:
    return f"model-{number:05d}-of-{count:05d}.gguf"


def _shard(number: int, count: int = 3, tensors: int = 2, total: int = 6) -> GgufFile:
    """Return shard `number`, counted from 1, with tensors ``blk.<number - 1>.<i>``."""
    keys = [("split.no", U16, number - 1), ("split.count", U16, count)]
    keys += [("split.tensors.count", I32, total)]
    if number == 1:
        keys = [("general.architecture", STRING, "llama"), ("llama.block_count", U32, 3), *keys]
    return GgufFile(
        keys=keys,
        tensors=[
            TensorSpec(f"blk.{number - 1}.{i}", (4,), 0, bytes([16 * number + i]) * 16)
            for i in range(tensors)
        ],
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in (1, 2, 3):
        _shard(number).write(tmp_path / _name(number))
    return tmp_path


def _problems(model: Model) -> list[tuple[str, str]]:
    return [(p.where, p.what) for p in model.problems]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_any_shard_opens_the_whole(folder: Path, number: int) -> None:
    with open_gguf(folder / _name(number)) as model:
        assert model.problems == ()
        assert [file.path.name for file in model.files] == [_name(1), _name(2), _name(3)]
        assert [file.first_tensor for file in model.files] == [0, 2, 4]
        assert list(model.tensors) == [f"blk.{n}.{i}" for n in range(3) for i in range(2)]
        assert model.architecture == "llama"
        for row, tensor in enumerate(model.tensors.rows):
            assert tensor.file.name == _name(row // 2 + 1)
            assert tensor.read() == bytes([16 * (row // 2 + 1) + row % 2]) * 16


def test_a_relative_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with open_gguf(Path(_name(2))) as model:
        assert len(model.files) == 3


def test_the_first_shard_may_hold_no_tensors(tmp_path: Path) -> None:
    _shard(1, 2, tensors=0, total=2).write(tmp_path / _name(1, 2))
    _shard(2, 2, total=2).write(tmp_path / _name(2, 2))
    with open_gguf(tmp_path / _name(1, 2)) as model:
        assert model.problems == ()
        assert list(model.tensors) == ["blk.1.0", "blk.1.1"]
        assert model.tensors["blk.1.1"].read() == b"\x21" * 16


@pytest.mark.parametrize("missing", [1, 2, 3])
@pytest.mark.parametrize("opened", [1, 2, 3])
def test_a_shard_is_missing(folder: Path, missing: int, opened: int) -> None:
    if missing == opened:
        pytest.skip("it cannot be opened")
    (folder / _name(missing)).unlink()
    with open_gguf(folder / _name(opened)) as model:
        assert len(model.files) == 2
        assert len(model.tensors) == 4
        ((where, what),) = _problems(model)
        assert where == _name(opened)
        assert "1 of 3" in what
        assert _name(missing) in what
        assert model.problems[0].severity is Severity.ERROR


def test_many_shards_are_missing(folder: Path) -> None:
    path = (folder / _name(2)).rename(folder / "big-00002-of-99999.gguf")
    with open_gguf(path) as model:
        told = dict(_problems(model))
        assert any("99998 of 99999" in what for _, what in _problems(model))
        assert all(len(what) < 500 for what in told.values())


@pytest.mark.parametrize(
    "content", [b"", b"GGUF", b"<html>", None], ids=["empty", "cut", "web page", "folder"]
)
def test_another_shard_is_damaged(folder: Path, content: bytes | None) -> None:
    path = folder / _name(2)
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with open_gguf(folder / _name(1)) as model:
        assert len(model.tensors) == 4
        assert _name(2) in [where for where, _ in _problems(model)]
    if content is not None:
        with pytest.raises(FormatError):
            open_gguf(path)


@pytest.mark.skipif(os.name != "posix", reason="needs a FIFO")
@pytest.mark.timeout(10)
def test_another_shard_is_a_fifo(folder: Path) -> None:
    (folder / _name(3)).unlink()
    os.mkfifo(folder / _name(3))
    with open_gguf(folder / _name(1)) as model:
        assert len(model.tensors) == 4
        assert any("pipe" in what for _, what in _problems(model))


def test_another_shard_is_cut_in_its_data(folder: Path) -> None:
    path = folder / _name(2)
    path.write_bytes(path.read_bytes()[:-10])
    with open_gguf(folder / _name(1)) as model:
        assert [t.damage is not None for t in model.tensors.rows] == [False] * 3 + [True] + [
            False
        ] * 2
        ((where, what),) = _problems(model)
        assert where == _name(2)
        assert "10 bytes are missing" in what


def test_the_keys_contradict_the_names(folder: Path) -> None:
    _shard(3, count=4).write(folder / _name(2))
    with open_gguf(folder / _name(1)) as model:
        told = [what for where, what in _problems(model) if where == _name(2)]
        assert any("split.no is 2" in what for what in told)
        assert any("split.count is 4" in what for what in told)


@pytest.mark.parametrize("value", [("split.count", STRING, "3"), ("split.no", U32, 1 << 31)])
def test_keys_of_other_types(folder: Path, value: tuple[str, int, object]) -> None:
    file = _shard(2)
    file.keys = [value, *(key for key in file.keys if key[0] != value[0])]
    file.write(folder / _name(2))
    with open_gguf(folder / _name(1)) as model:
        assert [where for where, _ in _problems(model)] == [_name(2)]


def test_the_total_contradicts_the_shards(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        _shard(number, total=7).write(tmp_path / _name(number))
    with open_gguf(tmp_path / _name(1)) as model:
        ((_, what),) = _problems(model)
        assert "7" in what
        assert "6" in what


def test_the_same_tensor_in_two_shards(folder: Path) -> None:
    file = _shard(3)
    file.tensors[0] = TensorSpec("blk.0.0", (4,), 0, b"3" * 16)
    file.write(folder / _name(3))
    with open_gguf(folder / _name(1)) as model:
        assert [t.name for t in model.tensors.rows].count("blk.0.0") == 2
        assert _problems(model) == [("blk.0.0", "the tensor name occurs more than once")]


def test_tensors_of_two_shards_never_overlap(folder: Path) -> None:
    """The same offsets in two files are different bytes."""
    with open_gguf(folder / _name(1)) as model:
        assert {t.offset - f.header_bytes for f in model.files[:1] for t in model.tensors.rows[:2]}
        assert model.problems == ()


def test_overlap_within_the_second_shard(folder: Path) -> None:
    file = _shard(2)
    file.tensors[1] = TensorSpec("blk.1.1", (4,), 0, b"x" * 16, offset=0)
    file.write(folder / _name(2))
    with open_gguf(folder / _name(1)) as model:
        assert _problems(model) == [("blk.1.1", "shares bytes with tensor 'blk.1.0'")]


@pytest.mark.parametrize("number", [0, 4])
def test_a_number_out_of_range(folder: Path, number: int) -> None:
    path = _shard(1).write(folder / _name(number))
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
    with open_gguf(_shard(1).write(tmp_path / "renamed.gguf")) as model:
        assert len(model.tensors) == 2
        ((where, what),) = _problems(model)
        assert where == "renamed.gguf"
        assert "1 of 3" in what


def test_a_split_of_one_file(tmp_path: Path) -> None:
    path = _shard(1, count=1, total=2).write(tmp_path / _name(1, 1))
    with open_gguf(path) as model:
        assert model.problems == ()
    with open_gguf(path.rename(tmp_path / "renamed.gguf")) as model:
        assert model.problems == ()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_all_files_are_closed(folder: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    open_gguf(folder / _name(1)).close()
    (folder / _name(1)).write_bytes(b"GGUF")
    with pytest.raises(FormatError):
        open_gguf(folder / _name(1))
    assert len(os.listdir("/proc/self/fd")) == before
