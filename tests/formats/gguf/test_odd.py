"""Files of sound structure whose contents break rules: they open with their problems named.

Rows of docs/gguf.md, section 11, on tensors, alignment, names and keys, and more of their kind.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from explorer.analysis.columns import model_summaries
from explorer.errors import ExplorerError, FormatError
from explorer.formats import Severity
from explorer.formats.columns import tensor_arrays
from explorer.formats.gguf.llama_cpp import llama_cpp_problems
from explorer.quantization import ggml_type
from explorer.text import bytes_text
from tests.helpers.gguf_files import Accept, Refuse, problem_texts
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
    Raw,
    TensorSpec,
    Text,
)

# Row 13


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (5, "removed (Q4_3)"),
        (43, "unknown (43)"),
        (77, "unknown (77)"),
        (0xFFFFFFFF, "unknown (4294967295)"),
    ],
)
def test_types_without_a_size(accept: Accept, kind: int, name: str) -> None:
    file = GgufFile(tensors=[TensorSpec("odd", (32,), kind, bytes(32)), TensorSpec("good")])
    model = accept(file)
    tensor = model.tensors["odd"]
    assert (tensor.type.name, tensor.shape, tensor.nbytes) == (name, (32,), 32)  # to the next
    assert math.isnan(tensor.bits_per_weight)
    assert math.isnan(model.bits_per_weight)
    assert tensor.damage is not None
    assert name in problem_texts(model)
    assert "odd" in problem_texts(model)
    with pytest.raises(FormatError, match="odd"):
        tensor.read()
    assert model.tensors["good"].read() == bytes(16)


def test_a_type_without_a_size_is_one_warning_however_many_tensors_have_it(accept: Accept) -> None:
    odd = [TensorSpec(f"odd.{i}", (32,), 77, bytes(64)) for i in range(9)]
    model = accept(GgufFile(tensors=[*odd, TensorSpec("good")]))
    (problem,) = model.problems
    assert "and 8 more are of type unknown (77)" in problem.what
    assert "576 bytes" in problem.what
    assert model.nbytes == 9 * 64 + 16
    assert bytes_text(model.nbytes) == "at least 592 B"
    arrays = tensor_arrays(model.tensors)
    assert bytes_text(arrays.total_bytes(np.array([0, 9]))) == "at least 80 B"
    assert bytes_text(arrays.total_bytes(np.array([9]))) == "16 B"
    total = model_summaries(model, None, None).total
    assert bytes_text(total.nbytes) == "at least 592 B"
    assert math.isnan(total.figures["bits_per_weight"])


@pytest.mark.parametrize(
    ("kind", "architecture", "nbytes", "name"),
    [
        (36, "bitnet-b1.58", 256 * 64 // 4 + 32, "I2_S"),
        (36, None, 256 * 64 // 4 + 32, "I2_S"),  # as another shard, which has no architecture
        (36, None, 256 * 64 // 32 * 18, "removed (IQ4_NL_4_4)"),
        (39, "bitnet", 256 * 64 // 32 * 17, "MXFP4"),
        (39, "bitnet", 5088, "TL2"),
        (38, "bitnet", 5088, "TL1"),
        (4, "gptoss", 256 * 64 // 32 * 17, "MXFP4 (old)"),
        (4, None, 256 * 64 // 32 * 17, "MXFP4 (old)"),
        (4, None, 256 * 64 // 16 * 10, "removed (Q4_2)"),
        (42, "qwen3", 256 * 64 // 64 * 18, "Q2_0"),
        (42, "qwen3", 256 * 64 // 128 * 34, "Q2_0 (PrismML)"),
        (142, "qwen3", 256 * 64 // 128 * 34, "PQ2_0"),
        (143, "qwen3", 256 * 64 // 128 * 28, "PTQ1_0"),
        (144, "llama", 64 * (4 + 136), "IQ4_KS"),
    ],
)
def test_an_id_means_what_the_file_s_size_and_architecture_say(
    accept: Accept, kind: int, architecture: str | None, nbytes: int, name: str
) -> None:
    keys = [] if architecture is None else [("general.architecture", STRING, architecture)]
    tensors = [TensorSpec("odd", (256, 64), kind, bytes(nbytes)), TensorSpec("good")]
    model = accept(GgufFile(keys=keys, tensors=tensors))
    assert (model.tensors["odd"].type.name, model.tensors["odd"].nbytes) == (name, nbytes)
    refused = "" if name in {"MXFP4", "Q2_0"} else f"tensor 'odd' is of type {name}"
    assert all(problem.what.endswith(refused) for problem in llama_cpp_problems(model))


def test_rows_that_are_stored_together_must_be_whole(accept: Accept) -> None:
    model = accept(GgufFile(tensors=[TensorSpec("odd", (256, 6), 212, bytes(864))]))
    assert "6 rows are not a whole number of 4, which Q4_K_R4 stores together" in problem_texts(
        model
    )


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
def test_impossible_dimensions(accept: Accept, dims: tuple[int, ...], kind: int) -> None:
    model = accept(GgufFile(tensors=[TensorSpec("odd", dims, kind), TensorSpec("good")]))
    assert model.tensors["odd"].shape == dims[::-1]
    assert model.tensors["odd"].nbytes == 0
    assert model.tensors["odd"].damage
    assert [p.where for p in model.problems if p.severity is Severity.ERROR] == ["odd"]
    with pytest.raises(FormatError, match="odd"):
        model.tensors["odd"].read()
    assert model.tensors["good"].damage is None


def test_five_dimensions_damage_one_tensor(accept: Accept) -> None:
    """llama.cpp refuses the file; the rest of it is as it is."""
    model = accept(GgufFile(tensors=[TensorSpec("odd", (2, 1, 1, 1, 2), 0), TensorSpec("good")]))
    assert "5 dimensions" in problem_texts(model)
    assert model.tensors["odd"].damage is not None
    assert model.tensors["good"].read() == bytes(16)


@pytest.mark.parametrize("count", [9, 1 << 20, 0xFFFFFFFF])
def test_too_many_dimensions(refuse: Refuse, count: int) -> None:
    odd = TensorSpec("some.tensor", (1,) * min(count, 9), 0, dims_count=count)
    error = refuse(GgufFile(tensors=[TensorSpec("first"), odd], tail=bytes(200)))
    assert "some.tensor" in error.what
    assert str(count) in error.what


# Row 15


def test_misaligned(accept: Accept) -> None:
    model = accept(GgufFile(tensors=[TensorSpec("crooked", offset=12), TensorSpec("straight")]))
    assert "crooked" in problem_texts(model)
    assert "12" in problem_texts(model)
    assert "straight" not in problem_texts(model)


@pytest.mark.parametrize("offset", [1 << 12, 1 << 40, 1 << 61, 1 << 63, (1 << 64) - 32])
def test_offset_beyond_the_file(accept: Accept, offset: int) -> None:
    tensors = [TensorSpec("good"), TensorSpec("lost", data=b"", offset=offset)]
    model = accept(GgufFile(tensors=tensors, tail=bytes(32)))
    assert "lost" in problem_texts(model)
    assert model.tensors["lost"].damage
    assert model.tensors["good"].damage is None
    with pytest.raises(ExplorerError):
        model.tensors["lost"].read()


def test_overlap(accept: Accept) -> None:
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


@pytest.mark.parametrize("kind", [144, 146, 157])  # IQ4_KS, IQ4_KSS, IQ2_KL
def test_rows_that_have_lost_their_headers(accept: Accept, kind: int) -> None:
    size = ggml_type(kind).nbytes(8 * 512) or 0
    tensors = [TensorSpec(name, (512, 8), kind, bytes(size)) for name in ("one", "two")]
    model = accept(GgufFile(tensors=[*tensors, TensorSpec("good")]))
    (problem,) = model.problems
    assert problem.where == "one"
    assert "without the headers of its rows" in problem.what
    assert problem.what.endswith("(1 more like it)")
    assert model.tensors["two"].nbytes == size
    assert model.tensors["good"].read() == bytes(16)
    with pytest.raises(FormatError, match="headers of its rows"):
        model.tensors["two"].dequantize()


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
def test_alignment(accept: Accept, kind: int, value: object) -> None:
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


def test_the_same_key_twice(accept: Accept) -> None:
    model = accept(GgufFile(keys=[("k", U8, 1), ("other", U8, 2), ("k", STRING, "two")]))
    assert [(e.key, e.value) for e in model.metadata.entries] == [
        ("k", 1),
        ("other", 2),
        ("k", "two"),
    ]
    assert model.metadata["k"] == 1
    assert [p.where for p in model.problems] == ["k"]


def test_the_same_tensor_twice(accept: Accept) -> None:
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
def test_odd_names_stay_as_they_are(accept: Accept, name: bytes) -> None:
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
def test_odd_names_are_escaped_in_messages(refuse: Refuse, name: bytes) -> None:
    refuse(GgufFile(keys=[(name, 99, Raw(bytes(40)))]))
    refuse(GgufFile(keys=[(name, STRING, Text(b"", 1 << 40))]))
    refuse(GgufFile(keys=[(name, ARRAY, Array(STRING, [Text(b"", 1 << 40)]))]))
    refuse(GgufFile(tensors=[TensorSpec(name, (1,) * 9)]))
    refuse(GgufFile(tensors=[TensorSpec(name, (1, 2, 3))]).header()[:-30])


def test_long_names_make_short_messages(refuse: Refuse) -> None:
    name = b"n" * 60_000
    refuse(GgufFile(keys=[(name, 99, Raw(bytes(40)))]))
    refuse(GgufFile(keys=[(name, ARRAY, Array(F32, (), 1 << 50))]))
    refuse(GgufFile(tensors=[TensorSpec(name, (1,) * 9)]))


@pytest.mark.parametrize("size", [65_536, 100_000])
def test_names_longer_than_allowed(refuse: Refuse, size: int) -> None:
    assert str(size) in refuse(GgufFile(keys=[(b"n" * size, U8, 1)])).what
    assert str(size) in refuse(GgufFile(tensors=[TensorSpec(b"n" * size)])).what


def test_longest_names_allowed(accept: Accept) -> None:
    model = accept(GgufFile(keys=[(b"n" * 65_535, U8, 1)], tensors=[TensorSpec(b"t" * 65_535)]))
    assert len(model.metadata.entries[0].key) == len(model.tensors.rows[0].name) == 65_535


def test_an_empty_key(refuse: Refuse) -> None:
    assert "empty" in refuse(GgufFile(keys=[("a", U8, 1), ("", U8, 1)], tail=bytes(9))).what


def test_an_empty_tensor_name(accept: Accept) -> None:
    """ggml allows it."""
    assert accept(GgufFile(tensors=[TensorSpec("")])).tensors[""].read() == bytes(16)


# Row 20 is in test_gguf.py, row 21 concerns statistics. Row 22:


def test_keys_of_unexpected_types(accept: Accept) -> None:
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
