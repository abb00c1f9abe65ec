"""Broken and odd files: the rows of malformed_gguf.md, and more of their kind.

Each costs at most a second and 100 MB, gives one clear error or opens with its problems named, and
leaves the next file alone.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from explorer.errors import ExplorerError, FormatError
from explorer.formats import Model, Severity
from explorer.formats.gguf import open_gguf
from tests.helpers.gguf_writer import (
    ARRAY,
    F32,
    STRING,
    U8,
    U16,
    U32,
    U64,
    Array,
    GgufFile,
    Order,
    Raw,
    TensorSpec,
    Text,
    small_model,
)
from tests.helpers.limits import MAX_BYTES, MAX_SECONDS, bounded, open_in_a_process

_needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def refuse(tmp_path: Path) -> Callable[..., FormatError]:
    """Open bytes that must be refused, within the limits; then a good file, which must open."""

    def check(content: bytes | GgufFile) -> FormatError:
        path = tmp_path / "hostile.gguf"
        path.write_bytes(content if isinstance(content, bytes) else content.build())
        with pytest.raises(FormatError) as caught:
            bounded(lambda: open_gguf(path))
        error = caught.value
        assert error.path == path
        assert "\n" not in error.what
        assert len(error.what) < 400
        assert error.what.isprintable(), "what a file says must be escaped in a message"
        open_gguf(small_model().write(tmp_path / "next.gguf")).close()
        return error

    return check


@pytest.fixture
def accept(tmp_path: Path) -> Iterator[Callable[..., Model]]:
    """Open bytes that must open within the limits; closed at the end of the test."""
    opened: list[Model] = []

    def check(content: bytes | GgufFile, name: str = "odd.gguf") -> Model:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.build())

        def action() -> Model:
            model = open_gguf(path)
            opened.append(model)
            return model

        return bounded(action)

    yield check
    for model in opened:
        model.close()


def _told(model: Model) -> str:
    return "\n".join(f"{p.severity} {p.where}: {p.what}" for p in model.problems)


# Row 1


@pytest.mark.parametrize("content", [b"", b"G", b"GG", b"GGU", b"GGUF"])
def test_too_short(refuse: Callable[..., FormatError], content: bytes) -> None:
    assert "short" in refuse(content).what or "empty" in str(refuse(content)) or content == b"GGUF"


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("order", ["little", "big"])
def test_cut_in_the_fixed_part(
    refuse: Callable[..., FormatError], version: int, order: Order
) -> None:
    whole = small_model(version, order).build()
    for size in range(16 if version == 1 else 24):
        error = refuse(whole[:size])
        assert error.offset is None or error.offset <= size


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
def test_something_else(refuse: Callable[..., FormatError], start: bytes, word: str) -> None:
    assert word in refuse(start + bytes(100)).what


# Row 3


@pytest.mark.parametrize("version", [0, 4, 5, 1000, 0xFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize("order", ["little", "big"])
def test_other_versions(refuse: Callable[..., FormatError], version: int, order: Order) -> None:
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
def test_cut_inside(refuse: Callable[..., FormatError], kind: str) -> None:
    content, name = _cut_file(kind)
    error = refuse(content)
    assert error.offset is not None
    assert 24 <= error.offset <= len(content)
    if kind not in ("key", "token"):
        assert name in error.what


# Row 7


def test_cut_inside_the_data(accept: Callable[..., Model]) -> None:
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
    told = _told(model)
    assert "error" in told
    assert "96 bytes are missing" in told
    assert "2 of 3" in told
    assert "half" in told


# Row 8


@pytest.mark.parametrize("count", [1 << 40, 1 << 32, (1 << 64) - 1, 1 << 63, 250, 5000])
@pytest.mark.parametrize("field", ["key_count", "tensor_count"])
@pytest.mark.parametrize("order", ["little", "big"])
def test_counts_beyond_the_file(
    refuse: Callable[..., FormatError], count: int, field: str, order: Order
) -> None:
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
def test_strings_longer_than_the_file(
    refuse: Callable[..., FormatError], length: int, order: Order
) -> None:
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


@pytest.mark.parametrize("count", [500, *_HUGE])
@pytest.mark.parametrize("kind", [*range(8), STRING, ARRAY, 10, 11, 12])
def test_arrays_longer_than_the_file(
    refuse: Callable[..., FormatError], kind: int, count: int
) -> None:
    for array in (Array(kind, (), count), Array(ARRAY, [Array(kind, (), count)])):
        error = refuse(GgufFile(keys=[("some.key", ARRAY, array)], tail=bytes(64)))
        assert "some.key" in error.what
        assert error.offset is not None


@pytest.mark.parametrize("count", [(1 << 32) - 1, 1 << 31])
def test_version_1_counts(refuse: Callable[..., FormatError], count: int) -> None:
    refuse(GgufFile(version=1, keys=[("k", ARRAY, Array(STRING, ["a"], count))]))
    refuse(GgufFile(version=1, keys=[("k", STRING, Text(b"a", count))]))
    refuse(GgufFile(version=1, tensors=[TensorSpec(Text(b"a", count))]))
    refuse(GgufFile(version=1, tensor_count=count))


# Row 10 is in test_gguf.py. Row 11:


@pytest.mark.parametrize("depth", [17, 1000, 100_000])
@pytest.mark.parametrize("order", ["little", "big"])
def test_arrays_nested_too_deep(
    refuse: Callable[..., FormatError], depth: int, order: Order
) -> None:
    file = GgufFile(order=order)
    level = file.number("I", ARRAY) + file.count(1)
    raw = level * depth + file.number("I", U8) + file.count(1) + b"\x01"
    file.keys = [("some.key", ARRAY, Raw(raw)), ("after", U8, 1)]
    assert "some.key" in refuse(file).what


def test_arrays_nested_as_deep_as_allowed(accept: Callable[..., Model]) -> None:
    array = Array(U8, [7])
    for _ in range(15):
        array = Array(ARRAY, [array])
    value = accept(GgufFile(keys=[("k", ARRAY, array)])).metadata["k"]
    for _ in range(16):
        assert len(value) == 1
        value = value[0]
    assert value == 7


def test_arrays_nested_wide(refuse: Callable[..., FormatError]) -> None:
    """Arrays of empty arrays take 12 bytes each."""
    file = GgufFile()
    raw = file.number("I", ARRAY) + file.count(400_000) + (bytes(4) + file.count(0)) * 400_000
    file.keys = [("k", ARRAY, Raw(raw))]
    assert "'k'" in refuse(file).what


# Row 12


@pytest.mark.parametrize("kind", [13, 14, 200, 0xFFFFFFFF])
def test_unknown_value_types(refuse: Callable[..., FormatError], kind: int) -> None:
    for keys in (
        [("some.key", kind, Raw(bytes(40)))],
        [("some.key", ARRAY, Raw(struct.pack("<IQ", kind, 2) + bytes(40)))],
        [("some.key", ARRAY, Raw(struct.pack("<IQIQ", ARRAY, 1, kind, 2) + bytes(40)))],
    ):
        error = refuse(GgufFile(keys=keys))
        assert "some.key" in error.what
        assert str(kind) in error.what


# Row 13


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (5, "removed (Q4_3)"),
        (33, "removed (Q4_0_8_8)"),
        (43, "unknown (43)"),
        (77, "unknown (77)"),
        (0xFFFFFFFF, "unknown (4294967295)"),
    ],
)
def test_types_without_a_size(accept: Callable[..., Model], kind: int, name: str) -> None:
    file = GgufFile(tensors=[TensorSpec("odd", (32,), kind, bytes(32)), TensorSpec("good")])
    model = accept(file)
    tensor = model.tensors["odd"]
    assert (tensor.type.name, tensor.shape, tensor.nbytes) == (name, (32,), 0)
    assert tensor.damage is not None
    assert name in _told(model)
    assert "odd" in _told(model)
    with pytest.raises(FormatError, match="odd"):
        tensor.read()
    assert model.tensors["good"].read() == bytes(16)


# Row 14


@pytest.mark.parametrize(
    ("dims", "kind"),
    [
        ((1 << 33, 1 << 33), 0),
        ((1 << 63,), 24),
        (((1 << 64) - 1,), 0),
        ((1 << 62, 2), 24),
        ((1 << 31, 1 << 31, 4), 0),
        (((1 << 64) - 32, 2, 0), 2),
        ((1 << 60, 2), 28),
        ((300, 2), 14),
        ((16,), 2),
        ((1, 256), 12),
        ((), 2),
    ],
)
def test_impossible_dimensions(
    accept: Callable[..., Model], dims: tuple[int, ...], kind: int
) -> None:
    model = accept(GgufFile(tensors=[TensorSpec("odd", dims, kind), TensorSpec("good")]))
    assert model.tensors["odd"].shape == dims[::-1]
    assert model.tensors["odd"].nbytes == 0
    assert model.tensors["odd"].damage
    assert [p.where for p in model.problems if p.severity is Severity.ERROR] == ["odd"]
    with pytest.raises(FormatError, match="odd"):
        model.tensors["odd"].read()
    assert model.tensors["good"].damage is None


@pytest.mark.parametrize("count", [5, 9, 1 << 20, 0xFFFFFFFF])
def test_too_many_dimensions(refuse: Callable[..., FormatError], count: int) -> None:
    odd = TensorSpec("some.tensor", (1,) * min(count, 9), 0, dims_count=count)
    error = refuse(GgufFile(tensors=[TensorSpec("first"), odd], tail=bytes(200)))
    assert "some.tensor" in error.what
    assert str(count) in error.what


# Row 15


def test_misaligned(accept: Callable[..., Model]) -> None:
    model = accept(GgufFile(tensors=[TensorSpec("crooked", offset=12), TensorSpec("straight")]))
    assert "crooked" in _told(model)
    assert "12" in _told(model)
    assert "straight" not in _told(model)


@pytest.mark.parametrize("offset", [1 << 12, 1 << 40, 1 << 61, 1 << 63, (1 << 64) - 32])
def test_offset_beyond_the_file(accept: Callable[..., Model], offset: int) -> None:
    tensors = [TensorSpec("good"), TensorSpec("lost", data=b"", offset=offset)]
    model = accept(GgufFile(tensors=tensors, tail=bytes(32)))
    assert "lost" in _told(model)
    assert model.tensors["lost"].damage
    assert model.tensors["good"].damage is None
    with pytest.raises(ExplorerError):
        model.tensors["lost"].read()


def test_overlap(accept: Callable[..., Model]) -> None:
    tensors = [
        TensorSpec("one", (16,), 0, bytes(64), offset=0),
        TensorSpec("two", (16,), 0, bytes(64), offset=32),
        TensorSpec("far", (16,), 0, bytes(64), offset=96),
        TensorSpec("same", (16,), 0, bytes(64), offset=96),
        TensorSpec("empty", (0,), 0, b"", offset=32),
    ]
    model = accept(GgufFile(tensors=tensors))
    assert [(p.where, p.what) for p in model.problems] == [
        ("two", "shares bytes with tensor 'one'"),
        ("same", "shares bytes with tensor 'far'"),
    ]


# Row 16


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (U32, 0),
        (U32, 7),
        (U32, 1 << 31),
        (U32, (1 << 32) - 1),
        (U64, 64),
        (F32, 32.0),
        (U8, 32),
        (STRING, "32"),
        (STRING, "x" * 10_000),
        (ARRAY, Array(U32, [32])),
    ],
)
def test_alignment(accept: Callable[..., Model], kind: int, value: object) -> None:
    used = 7 if value == 7 else 32
    file = GgufFile(
        alignment=used,
        keys=[("general.alignment", kind, value)],
        tensors=[TensorSpec("t", (4,), 0, b"t" * 16)],
    )
    model = accept(file)
    assert [p.where for p in model.problems] == ["general.alignment"]
    assert model.alignment == used
    assert model.tensors["t"].read() == b"t" * 16


# Row 17


def test_the_same_key_twice(accept: Callable[..., Model]) -> None:
    model = accept(GgufFile(keys=[("k", U8, 1), ("other", U8, 2), ("k", STRING, "two")]))
    assert [(e.key, e.value) for e in model.metadata.entries] == [
        ("k", 1),
        ("other", 2),
        ("k", "two"),
    ]
    assert model.metadata["k"] == 1
    assert [p.where for p in model.problems] == ["k"]


def test_the_same_tensor_twice(accept: Callable[..., Model]) -> None:
    tensors = [TensorSpec("t", data=b"1" * 16), TensorSpec("t", data=b"2" * 16)]
    model = accept(GgufFile(tensors=tensors))
    assert [t.read()[:1] for t in model.tensors.rows] == [b"1", b"2"]
    assert model.tensors["t"].read() == b"1" * 16
    assert [p.where for p in model.problems] == ["t"]


# Rows 18 and 19

_ODD_NAMES = [
    b"new\nline",
    b"\x1b[31mred\x1b[0m",
    "a\u202eevil".encode(),
    b"\xff\xfe\xed\xa0\x80",
    b"nul\0inside",
    "\u2028\u200b".encode(),
    b"=cmd|'/c calc'!A0",
    b"<b>bold</b>",
    b"../../etc/passwd",
    b" ",
]


@pytest.mark.parametrize("name", _ODD_NAMES)
def test_odd_names_stay_as_they_are(accept: Callable[..., Model], name: bytes) -> None:
    file = GgufFile(
        keys=[(name, STRING, name), (b"t." + name, ARRAY, Array(STRING, [name]))],
        tensors=[TensorSpec(name)],
    )
    model = accept(file)
    text = name.decode("utf-8", "surrogateescape")
    entry = model.metadata.entries[0]
    assert entry.key == entry.value == model.metadata["t." + text][0] == text
    assert model.tensors.rows[0].name == text
    assert text.encode("utf-8", "surrogateescape") == name
    assert model.problems == ()


@pytest.mark.parametrize("name", _ODD_NAMES)
def test_odd_names_are_escaped_in_messages(refuse: Callable[..., FormatError], name: bytes) -> None:
    refuse(GgufFile(keys=[(name, 99, Raw(bytes(40)))]))
    refuse(GgufFile(keys=[(name, STRING, Text(b"", 1 << 40))]))
    refuse(GgufFile(keys=[(name, ARRAY, Array(STRING, [Text(b"", 1 << 40)]))]))
    refuse(GgufFile(tensors=[TensorSpec(name, (1,) * 9)]))
    refuse(GgufFile(tensors=[TensorSpec(name, (1, 2, 3))]).header()[:-30])


def test_long_names_make_short_messages(refuse: Callable[..., FormatError]) -> None:
    name = b"n" * 60_000
    refuse(GgufFile(keys=[(name, 99, Raw(bytes(40)))]))
    refuse(GgufFile(keys=[(name, ARRAY, Array(F32, (), 1 << 50))]))
    refuse(GgufFile(tensors=[TensorSpec(name, (1,) * 9)]))


@pytest.mark.parametrize("size", [65_536, 100_000])
def test_names_longer_than_allowed(refuse: Callable[..., FormatError], size: int) -> None:
    assert str(size) in refuse(GgufFile(keys=[(b"n" * size, U8, 1)])).what
    assert str(size) in refuse(GgufFile(tensors=[TensorSpec(b"n" * size)])).what


def test_longest_names_allowed(accept: Callable[..., Model]) -> None:
    model = accept(GgufFile(keys=[(b"n" * 65_535, U8, 1)], tensors=[TensorSpec(b"t" * 65_535)]))
    assert len(model.metadata.entries[0].key) == len(model.tensors.rows[0].name) == 65_535


def test_an_empty_key(refuse: Callable[..., FormatError]) -> None:
    assert "empty" in refuse(GgufFile(keys=[("a", U8, 1), ("", U8, 1)], tail=bytes(9))).what


def test_an_empty_tensor_name(accept: Callable[..., Model]) -> None:
    """ggml allows it."""
    assert accept(GgufFile(tensors=[TensorSpec("")])).tensors[""].read() == bytes(16)


# Row 20 is in test_gguf.py, row 21 concerns statistics. Row 22:


def test_keys_of_unexpected_types(accept: Callable[..., Model]) -> None:
    file = GgufFile(
        keys=[
            ("general.file_type", U32, 9999),
            ("general.architecture", U32, 5),
            ("general.name", ARRAY, Array(STRING, ["a"])),
            ("split.count", STRING, "three"),
            ("split.no", ARRAY, Array(U16, [0])),
        ]
    )
    model = accept(file)
    assert model.metadata["general.file_type"] == 9999
    assert model.architecture is None
    assert model.name is None


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


# Row 25 is in test_gguf_split.py. Files as large as the limits allow, in a process of their own:


def _many_keys() -> GgufFile:
    return GgufFile(keys=[(f"key.number.{i}", U8, 1) for i in range(65_000)])


def _many_strings() -> GgufFile:
    return GgufFile(keys=[(f"key.number.{i}", STRING, "some text") for i in range(65_000)])


def _one_key_many_times() -> GgufFile:
    return GgufFile(keys=[("same", U8, 1)] * 65_000)


def _many_tensors() -> GgufFile:
    kinds = (0, 1, 24)
    return GgufFile(
        tensors=[
            TensorSpec(f"blk.{i}.weight", (i + 1, i % 7 + 1), kinds[i % 3], b"", i * 32)
            for i in range(131_000)
        ],
        tail=bytes(32),
    )


def _one_tensor_many_times() -> GgufFile:
    return GgufFile(tensors=[TensorSpec("same", (8,), 0, b"", 0)] * 131_000, tail=bytes(64))


def _crooked_tensors_of_unknown_types() -> GgufFile:
    return GgufFile(
        tensors=[TensorSpec(f"t{i}", (8,), i + 43, b"", i) for i in range(131_000)], tail=bytes(64)
    )


def _many_arrays() -> GgufFile:
    return GgufFile(keys=[(f"k{i}", ARRAY, Array(STRING, ["a", "", "b"])) for i in range(65_000)])


def _long_keys() -> GgufFile:
    return GgufFile(keys=[(b"%d" % i + b"k" * 65_000, U8, 1) for i in range(1000)])


def _wide_nested() -> GgufFile:
    file = GgufFile()
    inner = (file.number("I", STRING) + file.count(1) + file.string("")) * 90_000
    return GgufFile(keys=[("k", ARRAY, Raw(file.number("I", ARRAY) + file.count(90_000) + inner))])


def _every_second_string_empty() -> GgufFile:
    file = GgufFile()
    text = (file.string("") + file.string("a")) * 1_000_000
    return GgufFile(
        keys=[("k", ARRAY, Raw(file.number("I", STRING) + file.count(2_000_000) + text))]
    )


@pytest.mark.slow
@_needs_linux
@pytest.mark.parametrize(
    "build",
    [
        _many_keys,
        _many_strings,
        _one_key_many_times,
        _many_tensors,
        _one_tensor_many_times,
        _crooked_tensors_of_unknown_types,
        _many_arrays,
        _long_keys,
        _wide_nested,
        _every_second_string_empty,
    ],
    ids=lambda build: build.__name__.strip("_"),
)
def test_at_the_limits(tmp_path: Path, build: Callable[[], GgufFile]) -> None:
    harmless = small_model().write(tmp_path / "small.gguf")
    path = build().write(tmp_path / "limit.gguf")
    seconds, peak, error = open_in_a_process(path, harmless)
    print(f"{build.__name__}: {seconds:.2f} s, {peak >> 20} MiB, {error}")  # noqa: T201 - shown with -rP
    assert seconds <= 2 * MAX_SECONDS, "a loaded machine is allowed twice the time"
    assert peak <= MAX_BYTES


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
    seconds, peak, _ = open_in_a_process(path, harmless)
    assert seconds <= 2 * MAX_SECONDS
    assert peak <= MAX_BYTES
