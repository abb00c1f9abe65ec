"""What llama.cpp refuses of the files that open here.

The verdicts are those of its own reader, `gguf_init_from_file` of build 11434, which was compiled
and run on these files, and on 150,000 others that are not kept: each field at its bounds, each cut,
mutations, and random mixtures. They differ in keys of more than 65,535 bytes, which are not opened
here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.cli.main import main
from explorer.formats import open_model
from explorer.formats.gguf.llama_cpp import WHERE, llama_cpp_problems
from explorer.formats.model import Severity
from tests.helpers.gguf_files import write_shards
from tests.helpers.gguf_writer import (
    ARRAY,
    STRING,
    U8,
    U16,
    U32,
    Array,
    GgufFile,
    TensorSpec,
    small_model,
)

_F32, _Q8_0, _Q4_K, _Q6_K, _REMOVED, _FUTURE = 0, 8, 12, 14, 5, 43


def _with_tensors(*tensors: TensorSpec, alignment: int = 32) -> GgufFile:
    return GgufFile(tensors=list(tensors), alignment=alignment)


def _with_key(key: str, kind: int, value: object) -> GgufFile:
    return GgufFile(keys=[(key, kind, value)], tensors=[TensorSpec("a")])


_TAKEN = {
    "version 2": GgufFile(version=2, tensors=[TensorSpec("a")]),
    "a name of 63 bytes": _with_tensors(TensorSpec("n" * 63)),
    "no tensors": GgufFile(),
    "an empty tensor": _with_tensors(TensorSpec("a", (0,), data=b""), TensorSpec("b")),
    "a number without dimensions": _with_tensors(TensorSpec("a", (), data=bytes(4))),
    "an alignment of 8": GgufFile(
        keys=[("general.alignment", U32, 8)], tensors=[TensorSpec("a")], alignment=8
    ),
    "an empty array": _with_key("a", ARRAY, Array(U8, ())),
    "a row whose bytes it counts modulo 2^64": _with_tensors(
        TensorSpec("a", (1 << 60,), _Q4_K, b"", offset=0), TensorSpec("b", offset=0)
    ),
    "the alignment before a zero byte": GgufFile(
        keys=[("general.alignment\0", U32, 64)],
        tensors=[TensorSpec("a"), TensorSpec("b")],
        alignment=64,
    ),
}
_REFUSED = {
    "version 1": (small_model(version=1), "of version 1"),
    "big-endian": (small_model(order="big"), "big-endian"),
    "a name of 64 bytes": (_with_tensors(TensorSpec("n" * 64)), "name of 64 bytes or more"),
    "64 bytes in 32 letters": (_with_tensors(TensorSpec("é" * 32)), "name of 64 bytes or more"),
    "a gap": (_with_tensors(TensorSpec("a"), TensorSpec("b", offset=64)), "offset 64, not 32"),
    "another order": (
        _with_tensors(TensorSpec("a", offset=32), TensorSpec("b", offset=0)),
        "offset 32, not 0",
    ),
    "a removed type": (_with_tensors(TensorSpec("a", type_id=_REMOVED)), "is of type"),
    "a type to come": (_with_tensors(TensorSpec("a", type_id=_FUTURE)), "is of type"),
    "half a block": (
        _with_tensors(TensorSpec("a", (300,), _Q6_K, bytes(420))),
        "not whole blocks of Q6_K",
    ),
    "a number of blocks": (
        _with_tensors(TensorSpec("a", (), _Q8_0, bytes(34))),
        "not whole blocks of Q8_0",
    ),
    "the same name twice": (_with_tensors(TensorSpec("a"), TensorSpec("a")), "'a' occurs twice"),
    "the same key twice": (GgufFile(keys=[("a", U8, 1), ("a", U8, 2)]), "'a' occurs twice"),
    "arrays of arrays": (small_model(), "array of arrays"),
    "an array in an array": (
        _with_key("a", ARRAY, Array(ARRAY, [Array(U8, [1])])),
        "'a' has an array of arrays",
    ),
    "no power of two": (_with_key("general.alignment", U32, 48), "48 is not a power of two"),
    "an alignment of 16 bits": (
        _with_key("general.alignment", U16, 32),
        "alignment is uint16, not uint32",
    ),
    "an alignment as text": (
        _with_key("general.alignment", STRING, "32"),
        "alignment is string, not uint32",
    ),
    "no power of two before a zero byte": (
        _with_key("general.alignment\0x", U32, 48),
        "48 is not a power of two",
    ),
    "more bytes than 64 bits count": (
        _with_tensors(TensorSpec("a", (1 << 62,), _F32, b"")),
        "'a' has too many bytes",
    ),
    "more bytes than that once padded": (
        _with_tensors(TensorSpec("a", ((1 << 62) - 1,), _F32, b"")),
        "'a' has too many bytes",
    ),
    "more bytes than that in sum": (
        _with_tensors(
            TensorSpec("a", (1 << 61,), _F32, b"", offset=0),
            TensorSpec("b", (1 << 61,), _F32, b"", offset=1 << 63),
        ),
        "the tensors up to 'b' have too many bytes",
    ),
    "no padding before the data": (
        GgufFile(
            keys=[("general.alignment", U32, 1 << 30)], tensors=[TensorSpec("a", (0,), data=b"")]
        ),
        "ends before its tensor data",
    ),
}


@pytest.mark.parametrize("name", _TAKEN)
def test_what_llama_cpp_reads_has_no_such_problem(tmp_path: Path, name: str) -> None:
    with open_model(_TAKEN[name].write(tmp_path / "model.gguf")) as model:
        assert list(llama_cpp_problems(model)) == []


@pytest.mark.parametrize("name", _REFUSED)
def test_what_it_refuses_is_one_warning_with_the_reason(tmp_path: Path, name: str) -> None:
    file, reason = _REFUSED[name]
    with open_model(file.write(tmp_path / "model.gguf")) as model:
        (problem,) = llama_cpp_problems(model)
    assert (problem.severity, problem.where) == (Severity.WARNING, WHERE)
    assert problem.what.startswith("does not read 'model.gguf': ")
    assert reason in problem.what


def test_each_shard_is_looked_at(tmp_path: Path) -> None:
    first, second, _ = write_shards(tmp_path)
    with open_model(first) as model:
        assert list(llama_cpp_problems(model)) == []
    GgufFile(
        keys=[("split.no", U16, 1), ("split.count", U16, 3)],
        tensors=[TensorSpec("blk.1.0"), TensorSpec("blk.1.1", offset=64)],
    ).write(second)
    with open_model(first) as model:
        assert [second.name in problem.what for problem in llama_cpp_problems(model)] == [True]


def test_check_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _REFUSED["a gap"][0].write(tmp_path / "model.gguf")
    assert main(["check", str(path)]) == 1
    assert "llama.cpp: does not read 'model.gguf'" in capsys.readouterr().out
