"""What a good file gives: every value type, version, byte order (docs/gguf.md sections 1 to 3)."""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path

import pytest

from explorer.errors import FormatError, SourceError
from explorer.formats import open_model
from explorer.formats.gguf.open import open_gguf
from tests.helpers.gguf_files import plain_value
from tests.helpers.gguf_writer import (
    ARRAY,
    BOOL,
    F64,
    I8,
    I16,
    I32,
    I64,
    STRING,
    U8,
    U16,
    U32,
    U64,
    Array,
    GgufFile,
    Order,
    TensorSpec,
    small_model,
)

VARIANTS = pytest.mark.parametrize(
    ("version", "order"), [(version, order) for version in (1, 2, 3) for order in ("little", "big")]
)


@VARIANTS
def test_everything_at_once(tmp_path: Path, version: int, order: Order) -> None:
    path = small_model(version, order).write(tmp_path / "small.gguf")
    with open_gguf(path) as model:
        assert model.problems == ()
        assert (model.format, model.version, model.byte_order) == ("gguf", version, order)
        assert (model.architecture, model.name, model.alignment) == (
            "llama",
            "Ein Mädchen 模型",
            32,
        )
        values = {
            entry.key: (entry.type_name, plain_value(entry.value))
            for entry in model.metadata.entries
        }
        tensors = [
            (t.name, t.shape, t.type.name, t.parameters, t.nbytes, t.damage)
            for t in model.tensors.rows
        ]
        contents = [tensor.read() for tensor in model.tensors.rows]
        start = model.data_offset
        offsets = [tensor.offset for tensor in model.tensors.rows]
    assert values == {
        "general.architecture": ("string", "llama"),
        "general.name": ("string", "Ein Mädchen 模型"),
        "t.u8": ("uint8", 200),
        "t.i8": ("int8", -3),
        "t.u16": ("uint16", 60_000),
        "t.i16": ("int16", -30_000),
        "t.u32": ("uint32", 4_000_000_000),
        "t.i32": ("int32", -2_000_000_000),
        "t.f32": ("float32", 0.15625),
        "t.bool": ("bool", True),
        "t.u64": ("uint64", 1 << 63),
        "t.i64": ("int64", -(1 << 62)),
        "t.f64": ("float64", 0.1),
        "a.i32": ("array[int32]", [1, -2, 3]),
        "a.bool": ("array[bool]", [False, True, True]),
        "a.empty": ("array[float32]", []),
        "a.nested": ("array[array[int16]]", [[1, 2], [], [-3]]),
        "tokenizer.ggml.tokens": (
            "array[string]",
            ["<s>", "", "\u2581hello", "\udcff\udcfe", "a\0b", "x" * 300],
        ),
        "tokenizer.ggml.scores": ("array[float32]", [0.0, -1.0, -2.5, 0.5, 1.5, 2.0]),
    }
    assert tensors == [
        ("token_embd.weight", (3, 4), "F32", 12, 48, None),
        ("blk.0.attn_q.weight", (2, 32), "Q8_0", 64, 68, None),
        ("blk.1.attn_q.weight", (2, 1, 32), "Q4_0", 64, 36, None),
        ("scalar", (), "I8", 1, 1, None),
    ]
    prefix = "<" if order == "little" else ">"
    assert struct.unpack(f"{prefix}12f", contents[0]) == tuple(i / 4 for i in range(12))
    assert contents[1:] == [bytes(range(68)), bytes(range(36)), b"\x07"]
    header = len(small_model(version, order).header())
    assert start == -(-header // 32) * 32
    assert offsets == [start, start + 64, start + 160, start + 224]


@VARIANTS
def test_places_of_keys_and_records(tmp_path: Path, version: int, order: Order) -> None:
    """Offsets of entries and of the table, as the hex view and the linked selection use them."""
    file = small_model(version, order)
    path = file.write(tmp_path / "small.gguf")
    content = path.read_bytes()
    with open_gguf(path) as model:
        position = 16 if version == 1 else 24
        for entry, (key, kind, value) in zip(model.metadata.entries, file.keys, strict=True):
            assert entry.offset == position
            assert content[entry.offset : entry.end] == file.entry(key, kind, value)
            assert content[entry.value_offset : entry.end] == file.value(kind, value)
            position = entry.end
        (part,) = model.files
        assert part.table_offset == position
        for start, tensor, offset in zip(
            part.record_offsets, file.tensors, file.places(), strict=True
        ):
            assert start == position
            record = file.record(tensor, offset)
            assert content[start : start + len(record)] == record
            position += len(record)
        assert part.table_end == position == len(file.header())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7e308])
def test_odd_floats(tmp_path: Path, value: float) -> None:
    file = GgufFile(keys=[("x", F64, value), ("y", ARRAY, Array(F64, [value]))])
    with open_gguf(file.write(tmp_path / "f.gguf")) as model:
        for found in (model.metadata["x"], model.metadata["y"][0]):
            assert struct.pack("<d", found) == struct.pack("<d", value)


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        (U8, 0, 255),
        (I8, -128, 127),
        (U16, 0, (1 << 16) - 1),
        (I16, -(1 << 15), (1 << 15) - 1),
        (U32, 0, (1 << 32) - 1),
        (I32, -(1 << 31), (1 << 31) - 1),
        (U64, 0, (1 << 64) - 1),
        (I64, -(1 << 63), (1 << 63) - 1),
    ],
)
@pytest.mark.parametrize("order", ["little", "big"])
def test_ends_of_the_integers(
    tmp_path: Path, kind: int, least: int, most: int, order: Order
) -> None:
    file = GgufFile(
        order=order,
        keys=[("a", kind, least), ("b", kind, most), ("c", ARRAY, Array(kind, [least, most]))],
    )
    with open_gguf(file.write(tmp_path / "i.gguf")) as model:
        assert model.metadata["a"] == least
        assert model.metadata["b"] == most
        assert list(model.metadata["c"]) == [least, most]


@pytest.mark.parametrize("byte", [0, 1, 2, 255])
def test_any_byte_but_zero_is_true(tmp_path: Path, byte: int) -> None:
    file = GgufFile(keys=[("x", BOOL, byte), ("y", ARRAY, Array(BOOL, [byte]))])
    with open_gguf(file.write(tmp_path / "b.gguf")) as model:
        assert model.metadata["x"] is (byte != 0)
        assert model.metadata["y"][0] is (byte != 0)


def test_nothing_at_all(tmp_path: Path) -> None:
    with open_gguf(GgufFile().write(tmp_path / "empty.gguf")) as model:
        assert len(model.metadata) == len(model.tensors) == 0
        assert model.problems == ()
        assert (model.parameters, model.nbytes, model.bits_per_weight) == (0, 0, 0.0)
        assert model.architecture is None


def test_a_vocabulary_without_tensors_needs_no_padding(tmp_path: Path) -> None:
    file = GgufFile(keys=[("x", U8, 1)])
    for pad in (False, True):
        file.pad = pad
        with open_gguf(file.write(tmp_path / "v.gguf")) as model:
            assert model.problems == ()
            assert model.data_offset == len(file.header())


@pytest.mark.parametrize("alignment", [1, 8, 64, 4096, 1 << 20])
def test_alignment(tmp_path: Path, alignment: int) -> None:
    file = GgufFile(
        alignment=alignment,
        keys=[("general.alignment", U32, alignment)],
        tensors=[TensorSpec("a", (3,), 0, b"A" * 12), TensorSpec("b", (3,), 0, b"B" * 12)],
    )
    with open_gguf(file.write(tmp_path / "a.gguf")) as model:
        assert model.problems == ()
        assert model.alignment == alignment
        assert model.data_offset == -(-len(file.header()) // alignment) * alignment
        assert [t.read() for t in model.tensors.rows] == [b"A" * 12, b"B" * 12]


def test_nested_arrays(tmp_path: Path) -> None:
    deep = Array(
        ARRAY,
        [
            Array(ARRAY, [Array(STRING, ["a", ""]), Array(STRING, [])]),
            Array(ARRAY, []),
            Array(ARRAY, [Array(U8, [1, 2])]),  # the specification asks for no common type
        ],
    )
    file = GgufFile(keys=[("deep", ARRAY, deep), ("after", U8, 7)])
    with open_gguf(file.write(tmp_path / "n.gguf")) as model:
        entry = model.metadata.entry("deep")
        assert entry is not None
        assert entry.type_name == "array[array[array[string]]]"
        assert entry.length == 3
        assert plain_value(entry.value) == [[["a", ""], []], [], [[1, 2]]]
        assert model.metadata["after"] == 7


def test_arrays_wait_until_looked_at(tmp_path: Path) -> None:
    file = small_model()
    path = file.write(tmp_path / "lazy.gguf")
    with open_gguf(path) as model:
        model.close()
        assert model.metadata["t.u32"] == 4_000_000_000  # small values are there from the start
        with pytest.raises(SourceError, match="closed"):
            _ = model.metadata["tokenizer.ggml.tokens"]


def test_an_array_that_changed_since_opening_is_an_error(tmp_path: Path) -> None:
    path = small_model().write(tmp_path / "changed.gguf")
    with open_gguf(path) as model:
        with path.open("r+b") as target:
            entry = model.metadata.entry("tokenizer.ggml.tokens")
            assert entry is not None
            target.seek(entry.value_offset + 12)
            target.write(struct.pack("<Q", 9))  # the first token takes a part of the second
        with pytest.raises(FormatError):
            _ = entry.value


@pytest.mark.skipif(os.name != "posix", reason="an open file cannot be cut short elsewhere")
def test_a_model_that_shrinks_keeps_what_is_known(tmp_path: Path) -> None:
    path = small_model().write(tmp_path / "shrinks.gguf")
    with open_gguf(path) as model:
        os.truncate(path, 100)
        assert model.metadata["general.name"] == "Ein Mädchen 模型"
        assert len(model.tensors) == 4
        with pytest.raises(SourceError, match="shorter"):
            model.tensors["token_embd.weight"].read()
        with pytest.raises(SourceError, match="shorter"):
            _ = model.metadata["tokenizer.ggml.scores"]


def test_long_text_waits_too(tmp_path: Path) -> None:
    template = "{% for m in messages %}" * 2000
    file = GgufFile(keys=[("tokenizer.chat_template", STRING, template), ("x", U8, 1)])
    with open_gguf(file.write(tmp_path / "t.gguf")) as model:
        assert model.metadata.text("tokenizer.chat_template") == template
        assert model.metadata["x"] == 1


def test_gaps_order_and_tail(tmp_path: Path) -> None:
    """The specification asks for aligned offsets and nothing else."""
    file = GgufFile(
        tensors=[
            TensorSpec("second", (4,), 0, b"2" * 16, offset=320),
            TensorSpec("first", (4,), 0, b"1" * 16, offset=64),
        ],
        tail=b"something else",
    )
    with open_gguf(file.write(tmp_path / "g.gguf")) as model:
        assert model.problems == ()
        assert [t.read() for t in model.tensors.rows] == [b"2" * 16, b"1" * 16]


def test_the_last_tensor_needs_no_padding_behind_it(tmp_path: Path) -> None:
    file = GgufFile(tensors=[TensorSpec("a", (1,), 24, b"\x05")])
    path = file.write(tmp_path / "p.gguf")
    assert path.stat().st_size % 32 == 1
    with open_gguf(path) as model:
        assert model.problems == ()


@pytest.mark.parametrize("dims", [(0,), (0, 5), (4, 0, 2), (0, 1 << 40)])
def test_tensors_without_elements(tmp_path: Path, dims: tuple[int, ...]) -> None:
    file = GgufFile(tensors=[TensorSpec("none", dims, 0, b""), TensorSpec("some")])
    with open_gguf(file.write(tmp_path / "z.gguf")) as model:
        assert model.problems == ()
        assert model.tensors["none"].parameters == model.tensors["none"].nbytes == 0
        assert model.tensors["none"].shape == dims[::-1]
        assert model.tensors["none"].read() == b""


def test_only_empty_tensors_and_no_padding(tmp_path: Path) -> None:
    path = tmp_path / "z.gguf"
    path.write_bytes(GgufFile(tensors=[TensorSpec("none", (0,), 0, b"")]).header())
    with open_gguf(path) as model:
        assert model.problems == ()


def test_a_tensor_is_found_by_its_parts(tmp_path: Path) -> None:
    with open_gguf(small_model().write(tmp_path / "s.gguf")) as model:
        table = model.tensors
        assert list(table) == table.columns.names
        assert "scalar" in table
        assert "none" not in table
        assert table.row_of("scalar") == 3
        assert table.row_of("none") is None
        assert table.rows[-1] is table["scalar"]
        assert [t.name for t in table.rows[1:3]] == ["blk.0.attn_q.weight", "blk.1.attn_q.weight"]
        assert table["blk.1.attn_q.weight"].parsed_name.layer == 1
        assert model.parameters == 12 + 64 + 64 + 1
        assert model.nbytes == 48 + 68 + 36 + 1
        assert model.bits_per_weight == pytest.approx(8 * 153 / 141)
        assert {name: total.tensors for name, total in table.totals_by_type.items()} == {
            "Q8_0": 1,
            "F32": 1,
            "Q4_0": 1,
            "I8": 1,
        }
        with pytest.raises(KeyError):
            _ = table["none"]
        with pytest.raises(IndexError):
            _ = table.rows[4]


def test_a_record_across_the_reading_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the size of the window, the same model."""
    path = small_model().write(tmp_path / "s.gguf")
    seen = []
    for size in (1, 7, 64, 1 << 17):
        monkeypatch.setattr("explorer.formats.gguf.open._WINDOW_BYTES", size)
        with open_gguf(path) as model:
            seen.append(
                (
                    [
                        (e.key, e.offset, e.end, plain_value(e.value))
                        for e in model.metadata.entries
                    ],
                    [(t.name, t.shape, t.offset) for t in model.tensors.rows],
                )
            )
    assert all(one == seen[0] for one in seen)


def test_open_model_takes_any_name(tmp_path: Path) -> None:
    """Blobs of Ollama's store have no suffix."""
    with open_model(small_model().write(tmp_path / "sha256-0a1b")) as model:
        assert model.format == "gguf"


@pytest.mark.skipif(os.name != "posix", reason="needs /proc/self/fd")
def test_files_are_closed(tmp_path: Path) -> None:
    good = small_model().write(tmp_path / "s.gguf")
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(good.read_bytes()[:300])
    before = os.listdir("/proc/self/fd")
    open_gguf(good).close()
    with pytest.raises(FormatError):
        open_gguf(bad)
    assert len(os.listdir("/proc/self/fd")) == len(before)
