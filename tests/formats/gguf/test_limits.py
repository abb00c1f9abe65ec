"""Files as large as the limits allow, sparse or dense: time and memory stay bounded."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from explorer.errors import FormatError
from explorer.formats import open as opening
from explorer.formats import open_model
from explorer.formats.gguf.open import open_gguf
from explorer.formats.limits import MAX_STRING_ELEMENTS
from tests.helpers.gguf_writer import (
    ARRAY,
    F32,
    STRING,
    U8,
    Array,
    GgufFile,
    Raw,
    TensorSpec,
    small_model,
)
from tests.helpers.limits import MAX_BYTES, MAX_SECONDS, bounded
from tests.helpers.stopwatch import in_time
from tests.soak.worst import measure

_needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# Row 23 is in test_gguf.py. Row 24:


def test_sparse_file_of_20_gib(tmp_path: Path) -> None:
    file = GgufFile(tensors=[TensorSpec("big", (5 << 30,), 0, b"", 0)])
    path = tmp_path / "sparse.gguf"
    with path.open("wb") as target:
        target.write(file.header())
        try:
            target.truncate((20 << 30) + 4096)
        except OSError:
            pytest.skip("the file system has no sparse files")
    with bounded(lambda: open_gguf(path)) as model:
        assert model.problems == ()
        tensor = model.tensors["big"]
        assert tensor.nbytes == 20 << 30
        assert tensor.extents[0].source.read(tensor.offset + tensor.nbytes - 8, 8) == bytes(8)


# Row 25 is in test_gguf_split.py.


def test_arrays_in_arrays_are_counted_over_the_whole_file(tmp_path: Path) -> None:
    """40 keys of 90,000 empty arrays each took 45 s."""
    file = GgufFile()
    inner = (file.number("I", U8) + file.count(0)) * 30_000
    value = Raw(file.number("I", ARRAY) + file.count(30_000) + inner)
    path = GgufFile(keys=[(f"k{i}", ARRAY, value) for i in range(2)]).write(tmp_path / "m.gguf")
    with pytest.raises(FormatError, match="the keys up to 'k1' have more than 50000 arrays in"):
        open_model(path)


def test_strings_are_counted_over_the_whole_file(tmp_path: Path) -> None:
    file = GgufFile()
    count = MAX_STRING_ELEMENTS // 3 + 1
    inner = file.number("I", STRING) + file.count(count) + bytes(8 * count)
    path = GgufFile(keys=[(f"k{i}", ARRAY, Raw(inner)) for i in range(3)]).write(
        tmp_path / "m.gguf"
    )
    with pytest.raises(FormatError, match="the keys up to 'k2' have more than 3000000 strings"):
        open_model(path)


@pytest.mark.slow
@_needs_linux
@pytest.mark.parametrize("kind", [STRING, ARRAY, U8, F32])
def test_a_sparse_file_backs_a_large_array(tmp_path: Path, kind: int) -> None:
    """Zeros that take no room on the disk are an array of empty strings, or of empty arrays."""
    harmless = small_model().write(tmp_path / "small.gguf")
    path = tmp_path / "sparse.gguf"
    with path.open("wb") as target:
        target.write(GgufFile(keys=[("k", ARRAY, Array(kind, (), (1 << 24) - 1))]).build())
        target.truncate(8 << 30)
    cost = measure("open", path, harmless, tmp_path, best_of=1)
    assert in_time(cost.seconds, 2 * MAX_SECONDS)
    assert cost.nbytes <= MAX_BYTES


def test_the_collector_rests_while_files_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small_model().write(tmp_path / "small.gguf")
    seen: list[bool] = []

    def look(opened: Path) -> object:
        seen.append(gc.isenabled())
        if len(seen) == 1:  # another file is opened, and done, while this one opens
            open_model(opened)
            seen.append(gc.isenabled())
            raise FormatError("is damaged", opened)
        return None

    monkeypatch.setattr(opening, "_open", look)
    with pytest.raises(FormatError):
        open_model(path)
    assert seen == [False, False, False]
    assert gc.isenabled()
    gc.disable()
    try:
        open_model(path)
        assert not gc.isenabled()  # somebody else wants it off
    finally:
        gc.enable()
