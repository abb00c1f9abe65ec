"""Files that are cut, lie about lengths and counts, or are no GGUF: refused with one clear error.

Rows of docs/gguf.md, section 11, on the header's structure, and more of their kind. Each costs at
most a second and 100 MB, and leaves the next file alone.
"""

from __future__ import annotations

import struct
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from explorer.errors import FormatError
from explorer.formats.gguf.open import open_gguf
from tests.helpers.gguf_files import Accept, Refuse, problem_texts
from tests.helpers.gguf_writer import (
    ARRAY,
    F32,
    STRING,
    U8,
    U64,
    Array,
    GgufFile,
    Order,
    Raw,
    TensorSpec,
    Text,
    small_model,
)
from tests.helpers.limits import bounded

_needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


# Row 1


@pytest.mark.parametrize("content", [b"", b"G", b"GG", b"GGU", b"GGUF"])
def test_too_short(refuse: Refuse, content: bytes) -> None:
    assert "short" in refuse(content).what or "empty" in str(refuse(content)) or content == b"GGUF"


# Row 2


@pytest.mark.parametrize(
    ("start", "word"),
    [
        (b"lmgg", "GGML"),
        (b"tjgg", "GGJT"),
        (b"fmgg", "GGMF"),
        (b"PK\x03\x04", "zip"),
        (b"\x7fELF\x02", "ELF"),
        (b"\x89HDF\r\n", "HDF5"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"\n  <html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab", "LFS"),
        (b'{"error": "not found"}', "JSON"),
        (b"FUGG", "swapped"),
        (b"\x00\x01\x02\x03", "00 01 02 03"),
        (b"gguf", "67 67 75 66"),
    ],
)
def test_something_else(refuse: Refuse, start: bytes, word: str) -> None:
    assert word in refuse(start + bytes(100)).what


# Row 3


@pytest.mark.parametrize("version", [0, 4, 5, 1000, 0xFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize("order", ["little", "big"])
def test_other_versions(refuse: Refuse, version: int, order: Order) -> None:
    error = refuse(GgufFile(version=version, order=order, keys=[("a", U8, 1)]))
    assert str(version) in error.what
    assert error.offset == 4


# Rows 4 and 5 are in test_gguf.py. Row 6: what is cut is named.


def _cut_file(kind: str) -> tuple[bytes, str]:
    long = "v" * 500
    keys: dict[str, tuple[str, int, object]] = {
        "key": ("k" * 500, U8, 1),
        "value": ("some.key", STRING, long),
        "number": ("some.key", U64, 1),
        "array": ("some.key", ARRAY, Array(F32, [0.0] * 100)),
        "token": ("some.key", ARRAY, Array(STRING, ["a", "b", long])),
        "nested": ("some.key", ARRAY, Array(ARRAY, [Array(F32, [0.0] * 100)])),
    }
    if kind in keys:
        file = GgufFile(keys=[("first", U8, 1), keys[kind]])
        return file.build()[: -3 if kind == "number" else -100], "some.key"
    file = GgufFile(tensors=[TensorSpec("first"), TensorSpec("some.tensor", (4, 4, 4, 4))])
    return file.header()[:-20], "some.tensor"


@pytest.mark.parametrize("kind", ["key", "value", "number", "array", "token", "nested", "record"])
def test_cut_inside(refuse: Refuse, kind: str) -> None:
    content, name = _cut_file(kind)
    error = refuse(content)
    assert error.offset is not None
    assert 24 <= error.offset <= len(content)
    if kind not in ("key", "token"):
        assert name in error.what


# Row 7


def test_cut_inside_the_data(accept: Accept) -> None:
    file = GgufFile(
        keys=[("general.architecture", STRING, "llama")],
        tensors=[
            TensorSpec("whole", (16,), 0, bytes(64)),
            TensorSpec("half", (16,), 0, bytes(64)),
            TensorSpec("gone", (16,), 0, bytes(64)),
        ],
    )
    model = accept(file.build()[:-96])
    assert [t.damage is None for t in model.tensors.rows] == [True, False, False]
    assert model.tensors["whole"].read() == bytes(64)
    with pytest.raises(FormatError, match="half"):
        model.tensors["half"].read()
    reported = problem_texts(model)
    assert "error" in reported
    assert "96 bytes are missing" in reported
    assert "2 of 3" in reported
    assert "half" in reported


# Row 8


@pytest.mark.parametrize("count", [1 << 40, 1 << 32, (1 << 64) - 1, 1 << 63, 250, 5000])
@pytest.mark.parametrize("field", ["key_count", "tensor_count"])
@pytest.mark.parametrize("order", ["little", "big"])
def test_counts_beyond_the_file(refuse: Refuse, count: int, field: str, order: Order) -> None:
    file = small_model(3, order)
    setattr(file, field, count)
    refuse(file)


@pytest.mark.parametrize("field", ["key_count", "tensor_count"])
def test_counts_one_too_many_or_few(tmp_path: Path, field: str) -> None:
    for change in (-1, 1):
        file = small_model()
        setattr(file, field, (19 if field == "key_count" else 4) + change)
        path = file.write(tmp_path / "f.gguf")
        with suppress(FormatError):
            bounded(lambda path=path: open_gguf(path)).close()


# Row 9


_HUGE = [1 << 30, (1 << 30) + 1, 1 << 40, 1 << 60, (1 << 61) + 1, 1 << 63, (1 << 64) - 1]


@pytest.mark.parametrize("length", [500, *_HUGE])
@pytest.mark.parametrize("order", ["little", "big"])
def test_strings_longer_than_the_file(refuse: Refuse, length: int, order: Order) -> None:
    text = Text(b"abc" * 5, length)
    for keys in (
        [("k", STRING, text)],
        [(text, U8, 1)],
        [("k", ARRAY, Array(STRING, [text, "a"]))],
        [("k", ARRAY, Array(STRING, ["a", "b", text, "a"]))],
        [("k", ARRAY, Array(ARRAY, [Array(STRING, ["a", text])]))],
    ):
        error = refuse(GgufFile(order=order, keys=keys))
        assert str(length) in error.what
        assert error.offset is not None
    error = refuse(GgufFile(order=order, tensors=[TensorSpec("first"), TensorSpec(text)]))
    assert error.offset is not None


@pytest.mark.parametrize("bit", [9, 16, 24, 31, 40, 48, 56, 63])
@pytest.mark.parametrize("order", ["little", "big"])
def test_a_lying_length_among_many(refuse: Refuse, bit: int, order: Order) -> None:
    """Its lowest byte alone would lead on to the next record or string."""
    for place in range(100, 104):
        words: list[str | Text] = ["ab" * (i % 3 + 1) for i in range(200)]
        words[place] = Text(b"abc", 3 + (1 << bit))
        refuse(GgufFile(order=order, keys=[("k", ARRAY, Array(STRING, words))]))
        tensors = [TensorSpec(f"blk.{i}.w") for i in range(200)]
        tensors[place] = TensorSpec(Text(b"blk", 3 + (1 << bit)))
        refuse(GgufFile(order=order, tensors=tensors))


@pytest.mark.parametrize("count", [500, *_HUGE])
@pytest.mark.parametrize("kind", [*range(8), STRING, ARRAY, 10, 11, 12])
def test_arrays_longer_than_the_file(refuse: Refuse, kind: int, count: int) -> None:
    for array in (Array(kind, (), count), Array(ARRAY, [Array(kind, (), count)])):
        error = refuse(GgufFile(keys=[("some.key", ARRAY, array)], tail=bytes(64)))
        assert "some.key" in error.what
        assert error.offset is not None


@pytest.mark.parametrize("count", [(1 << 32) - 1, 1 << 31])
def test_version_1_counts(refuse: Refuse, count: int) -> None:
    refuse(GgufFile(version=1, keys=[("k", ARRAY, Array(STRING, ["a"], count))]))
    refuse(GgufFile(version=1, keys=[("k", STRING, Text(b"a", count))]))
    refuse(GgufFile(version=1, tensors=[TensorSpec(Text(b"a", count))]))
    refuse(GgufFile(version=1, tensor_count=count))


# Row 10 is in test_gguf.py. Row 11:


@pytest.mark.parametrize("depth", [17, 1000, 100_000])
@pytest.mark.parametrize("order", ["little", "big"])
def test_arrays_nested_too_deep(refuse: Refuse, depth: int, order: Order) -> None:
    file = GgufFile(order=order)
    level = file.number("I", ARRAY) + file.count(1)
    raw = level * depth + file.number("I", U8) + file.count(1) + b"\x01"
    file.keys = [("some.key", ARRAY, Raw(raw)), ("after", U8, 1)]
    assert "some.key" in refuse(file).what


def test_arrays_nested_as_deep_as_allowed(accept: Accept) -> None:
    array = Array(U8, [7])
    for _ in range(15):
        array = Array(ARRAY, [array])
    value = accept(GgufFile(keys=[("k", ARRAY, array)])).metadata["k"]
    for _ in range(16):
        assert len(value) == 1
        value = value[0]
    assert value == 7


def test_arrays_nested_wide(refuse: Refuse) -> None:
    """Arrays of empty arrays take 12 bytes each."""
    file = GgufFile()
    raw = file.number("I", ARRAY) + file.count(400_000) + (bytes(4) + file.count(0)) * 400_000
    file.keys = [("k", ARRAY, Raw(raw))]
    assert "'k'" in refuse(file).what


# Row 12


@pytest.mark.parametrize("kind", [13, 14, 200, 0xFFFFFFFF])
def test_unknown_value_types(refuse: Refuse, kind: int) -> None:
    for keys in (
        [("some.key", kind, Raw(bytes(40)))],
        [("some.key", ARRAY, Raw(struct.pack("<IQ", kind, 2) + bytes(40)))],
        [("some.key", ARRAY, Raw(struct.pack("<IQIQ", ARRAY, 1, kind, 2) + bytes(40)))],
    ):
        error = refuse(GgufFile(keys=keys))
        assert "some.key" in error.what
        assert str(kind) in error.what
