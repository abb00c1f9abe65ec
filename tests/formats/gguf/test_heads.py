"""First elements of arrays, read without the rest."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from explorer.errors import ExplorerError
from explorer.formats import Model, open_model
from explorer.formats.gguf.arrays import first_elements


def text(raw: bytes) -> bytes:
    return struct.pack("<Q", len(raw)) + raw


def file_of(tmp_path: Path, *values: tuple[int, bytes]) -> Path:
    """A file with the keys k0, k1 … of these value types and bytes (docs/gguf.md, section 1)."""
    keys = b"".join(
        text(b"k%d" % i) + struct.pack("<I", kind) + raw for i, (kind, raw) in enumerate(values)
    )
    path = tmp_path / "arrays.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + keys)
    return path


def strings(*items: bytes) -> bytes:
    return struct.pack("<IQ", 8, len(items)) + b"".join(map(text, items))


def heads(model: Model, count: int) -> list[object]:
    return [first_elements(model, entry, count) for entry in model.metadata.entries]


def test_only_as_many_as_asked_for(tmp_path: Path) -> None:
    numbers = struct.pack("<IQ", 4, 1000) + struct.pack("<1000I", *range(1000))
    tokens = strings(*(b"t%d" % i for i in range(500)), b"\xff")
    inner = struct.pack("<IQ3i", 5, 3, -1, 2, 3)
    nested = struct.pack("<IQ", 9, 3) + inner + strings(b"x", b"y", b"z") + inner
    path = file_of(tmp_path, (9, numbers), (9, tokens), (9, nested), (9, strings()))
    with open_model(path) as model:
        assert heads(model, 2) == [[0, 1], ["t0", "t1"], [[-1, 2], ["x", "y"]], []]
        assert not any("value" in vars(entry) for entry in model.metadata.entries)
        full = heads(model, 10_000)
        assert full[1] == list(model.metadata.entries[1].value)  # type: ignore[arg-type]
        assert heads(model, 2)[1] == ["t0", "t1"]  # now from memory


def test_strings_too_long_to_show_are_refused(tmp_path: Path) -> None:
    path = file_of(tmp_path, (9, strings(b"x" * (2 << 20))))
    with open_model(path) as model, pytest.raises(ExplorerError, match="too long"):
        heads(model, 1)


def test_a_closed_file_is_an_error_of_ours(tmp_path: Path) -> None:
    path = file_of(tmp_path, (9, strings(b"x")))
    with open_model(path) as model:
        pass
    with pytest.raises(ExplorerError):
        heads(model, 1)
