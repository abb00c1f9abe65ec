"""`export`: the file is whole or absent, and never a model's."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.cli import weights as weights_command
from explorer.cli.main import main
from explorer.errors import SourceError
from explorer.formats import open_model
from explorer.sources import FileSource
from tests.helpers.gguf_writer import GgufFile, TensorSpec
from tests.helpers.tensors import random_blocks

Capture = pytest.CaptureFixture[str]

_BLOCKS = 6000  # 1,536,000 weights: several chunks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    specs = [
        TensorSpec("none", (0, 5), 0, b""),
        TensorSpec("w", (768, 2000), 12, random_blocks("Q4_K", _BLOCKS).tobytes()),
        TensorSpec("one", (), 0, np.array(2.5, "<f4").tobytes()),
        TensorSpec("newer", (4,), 999, b""),
    ]
    return GgufFile(tensors=specs).write(folder / "model.gguf")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder / "w.npy"


@pytest.mark.parametrize("name", ["w", "one", "none"])
def test_numpy_reads_the_weights(path: Path, target: Path, name: str, capsys: Capture) -> None:
    target.write_bytes(b"what was there before")
    assert main(["export", str(path), name, "--to", str(target)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(f"{target}: ")
    with open_model(path) as model:
        expected = model.tensors[name].dequantize()
    found = np.load(target, allow_pickle=False)
    assert (found.dtype, found.shape) == (np.float32, expected.shape)
    np.testing.assert_array_equal(found, expected)
    assert list(target.parent.iterdir()) == [target]


def _refused(path: Path, name: str, target: Path, capsys: Capture, code: int = 1) -> str:
    assert main(["export", str(path), name, "--to", str(target)]) == code
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_a_model_file_is_never_overwritten(path: Path, target: Path, capsys: Capture) -> None:
    before = path.read_bytes()
    assert "must end with .npy" in _refused(path, "w", path, capsys, 2)
    target.symlink_to(path)
    assert "is a file of the model itself" in _refused(path, "w", target, capsys)
    target.unlink()
    target.hardlink_to(path)
    assert "is a file of the model itself" in _refused(path, "w", target, capsys)
    assert path.read_bytes() == before


def test_what_cannot_be_decoded_leaves_no_file(path: Path, target: Path, capsys: Capture) -> None:
    assert "cannot be decoded" in _refused(path, "newer", target, capsys)
    assert "has no tensor 'x'" in _refused(path, "x", target, capsys)
    assert list(target.parent.iterdir()) == []


def test_a_folder_that_is_missing(path: Path, target: Path, capsys: Capture) -> None:
    target = target.parent / "no" / "w.npy"
    assert f"error: {target}: cannot be written: no such file" in _refused(
        path, "w", target, capsys
    )


def test_a_disk_that_is_too_small_is_reported_before(
    path: Path, target: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1 << 20))
    err = _refused(path, "w", target, capsys)
    assert err == f"error: {target}: needs 5.86 MiB, and 1.00 MiB are free on its disk\n"
    assert list(target.parent.iterdir()) == []


def test_a_disk_that_fills_up_leaves_no_file(
    path: Path, target: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    target.write_bytes(b"before")
    monkeypatch.setattr(weights_command, "write_npy", fail)
    err = _refused(path, "w", target, capsys)
    assert err == f"error: {target}: cannot be written: no space left on device\n"
    assert target.read_bytes() == b"before"
    assert list(target.parent.iterdir()) == [target]


def test_a_file_that_is_cut_meanwhile(
    path: Path, target: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    whole = FileSource.read_into

    def read_into(self: FileSource, offset: int, buffer: bytearray | memoryview) -> None:
        reads.append(offset)
        if len(buffer) > 10_000 and sum(place >= reads[0] for place in reads) > 1:
            raise SourceError("became shorter while it was open. Open it again", self.path, offset)
        whole(self, offset, buffer)

    monkeypatch.setattr(FileSource, "read_into", read_into)
    err = _refused(path, "w", target, capsys)
    assert err.startswith(f"error: {path}: became shorter")
    assert list(target.parent.iterdir()) == []
