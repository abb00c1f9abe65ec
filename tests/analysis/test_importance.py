"""Importance matrices of both forms: counts, distribution, the columns that matter most."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.analysis.importance import (
    checked_importance,
    entry_statistics,
    importance_of,
    read_matrix,
)
from explorer.cli.main import main
from explorer.errors import ExplorerError
from explorer.formats import open_model
from explorer.formats.facts import describe
from explorer.formats.imatrix import read_legacy_imatrix
from explorer.formats.structure import Structure
from explorer.present.tables.facts import model_facts
from explorer.sources import MemorySource
from tests.helpers.gguf_writer import ARRAY, STRING, U32, Array, GgufFile, TensorSpec
from tests.helpers.small_gguf import model_from
from tests.helpers.tensors import float_tensor

Entry = tuple[str, int, NDArray[np.float32]]
Q, UP = "blk.0.attn_q.weight", "blk.0.ffn_up_exps.weight"


def legacy(*entries: Entry, chunks: int | None = None, dataset: str | None = None) -> bytes:
    """Return a file as `save_imatrix_legacy` of llama.cpp writes it."""
    parts = [struct.pack("<i", len(entries))]
    for name, calls, values in entries:
        raw = name.encode()
        parts += [struct.pack("<i", len(raw)), raw, struct.pack("<ii", calls, len(values))]
        parts.append(values.astype("<f4").tobytes())
    if chunks is not None:
        parts.append(struct.pack("<i", chunks))
    if dataset is not None:
        parts += [struct.pack("<i", len(dataset)), dataset.encode()]
    return b"".join(parts)


def gguf(name: str, sums: NDArray[np.float32], counts: NDArray[np.float32]) -> bytes:
    """Return a file as `save_imatrix` of llama.cpp writes it."""
    keys: list[Any] = [
        ("general.type", STRING, "imatrix"),
        ("imatrix.datasets", ARRAY, Array(STRING, ["wiki.train.raw"])),
        ("imatrix.chunk_count", U32, 128),
        ("imatrix.chunk_size", U32, 512),
    ]
    specs = [
        TensorSpec(f"{name}.in_sum2", sums.shape[::-1], 0, sums.tobytes()),
        TensorSpec(f"{name}.counts", counts.shape[::-1], 0, counts.tobytes()),
    ]
    return GgufFile(keys=keys, tensors=specs).build()


def test_figures_are_those_of_the_columns() -> None:
    sums = np.array([[1, 2, 3, 94]], np.float32) * 10
    model = model_from(gguf(Q, sums, np.array([[10]], np.float32)))
    matrix = read_matrix(model)
    assert (matrix.chunks, matrix.chunk_size, matrix.legacy) == (128, 512, False)
    assert matrix.datasets == ("wiki.train.raw",)
    found = entry_statistics(model, matrix.entries[0])
    assert (found.minimum, found.maximum, found.mean) == (1, 94, 25)
    assert found.top_share == pytest.approx(0.94)
    assert [(one.column, one.share) for one in found.columns[:2]] == [
        (3, pytest.approx(0.94)),
        (2, pytest.approx(0.03)),
    ]
    shares = np.array([0.01, 0.02, 0.03, 0.94])
    assert found.evenness == pytest.approx(-(shares * np.log(shares)).sum() / np.log(4))
    assert (found.count_min, found.count_max, found.unused) == (10, 10, 0)


def test_experts_that_were_not_used_are_left_out() -> None:
    sums = np.array([[[2, 4]], [[0, 0]], [[9, 3]]], np.float32).reshape(3, 2)
    model = model_from(gguf(UP, sums, np.array([[2], [0], [3]], np.float32)))
    found = entry_statistics(model, read_matrix(model).entries[0])
    assert (found.unused, found.count_min, found.count_max) == (1, 0, 3)
    assert (found.columns[0].matrix, found.columns[0].column, found.columns[0].value) == (2, 0, 3)
    assert found.mean == pytest.approx((1 + 2 + 3 + 1) / 4)


def test_the_older_form() -> None:
    values = np.arange(1, 9, dtype=np.float32)
    raw = legacy((Q, 4, values), ("b", 1, values[:2]), chunks=7, dataset="text.txt")
    model = read_legacy_imatrix(MemorySource(raw))
    matrix = read_matrix(model)
    assert (matrix.legacy, matrix.chunks, matrix.datasets) == (True, 7, ("text.txt",))
    assert [(one.name, one.columns) for one in matrix.entries] == [(Q, 8), ("b", 2)]
    importance = importance_of(model, Q)
    assert importance is not None
    assert importance.tolist() == [(values / 4).tolist()]
    assert entry_statistics(model, matrix.entries[0]).count_max == 4


def test_importance_is_what_llama_quantize_takes_it_for() -> None:
    """`load_imatrix` of tools/quantize/quantize.cpp, build 11434."""
    values = np.arange(1, 13, dtype=np.float32)
    older = read_legacy_imatrix(MemorySource(legacy((UP, 2, values), (Q, 0, values))))
    never_called, stacked = importance_of(older, Q), importance_of(older, UP)
    assert never_called is not None
    assert never_called.tolist() == [values.tolist()]
    assert stacked is not None  # the columns of all experts in one row
    experts = checked_importance(stacked, float_tensor(np.zeros((3, 5, 4), np.float32)))
    assert experts.tolist() == (values / 2).reshape(3, 4).tolist()
    with pytest.raises(ExplorerError, match="does not fit"):
        checked_importance(stacked, float_tensor(np.zeros((2, 5, 4), np.float32)))
    counts = np.array([[0.4], [2.6]], np.float32)
    newer = importance_of(model_from(gguf(UP, values.reshape(2, 6), counts)), UP)
    assert newer is not None
    assert newer.tolist() == [[1.0] * 6, (values[6:] / 3).tolist()]  # counts are rounded


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bits", [0x7FA00000, 0x7FC00000, 0x7F800000])  # a signalling NaN, first
def test_counts_that_are_not_finite_are_one_error(bits: int) -> None:
    counts = np.array([[bits]], np.uint32).view(np.float32)
    model = model_from(gguf(UP, np.ones((1, 4), np.float32), counts))
    with pytest.raises(ExplorerError, match="not finite, or negative"):
        importance_of(model, UP)


def test_every_byte_of_the_older_form_has_a_meaning() -> None:
    raw = legacy((Q, 4, np.ones(8, np.float32)), ("b", 1, np.ones(2, np.float32)))
    fields = list(Structure(read_legacy_imatrix(MemorySource(raw)), 0).fields(0, len(raw)))
    kinds = [field.kind.value for field in fields]
    assert kinds == ["count", *["length", "name", "tensor_data", "length", "tensor_data"] * 2]
    assert sum(field.nbytes for field in fields) == len(raw)


def test_it_opens_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "imatrix.dat"
    path.write_bytes(legacy((Q, 2, np.ones(64, np.float32)), chunks=3, dataset="a\x1b[0m"))
    with open_model(path) as model:
        facts = {fact.name: fact.text for fact in model_facts(model, describe(model))}
        assert facts["kind"].startswith("Importance matrix of 1 tensor, from 3 chunks")
    assert main(["inspect", str(path), "--measure"]) == 0
    out = capsys.readouterr().out
    assert "Evenness" in out
    assert "100 %" in out
    assert "\x1b" not in out
    assert main(["inspect", str(path), "--json", "--measure"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == "imatrix"
    assert found["imatrix"]["tensors"][0]["top_columns"][0]["value"] == 0.5


@given(cut=st.integers(0, 200), at=st.integers(0, 200), value=st.integers(0, 255))
def test_damaged_files_of_the_older_form_are_one_error(cut: int, at: int, value: int) -> None:
    raw = bytearray(
        legacy((Q, 4, np.ones(8, np.float32)), (UP, 4, np.ones(9, np.float32)), chunks=1)
    )
    raw[at % len(raw)] = value
    try:
        model = read_legacy_imatrix(MemorySource(bytes(raw[: len(raw) - cut])))
        for entry in read_matrix(model).entries:
            entry_statistics(model, entry)
    except ExplorerError:
        return
    assert len(read_matrix(model).entries) == len(model.tensors.rows) // 2


@pytest.mark.parametrize("raw", [b"", b"\0", b"\xff\xff\xff\xff", b"\0\0\0\x7f" * 9, b"\1\0\0\0\1"])
def test_what_is_no_matrix_is_refused(raw: bytes) -> None:
    with pytest.raises(ExplorerError):
        read_legacy_imatrix(MemorySource(raw))
