"""What pieces of a model would lose in other types, against NumPy and against requantizing each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.analysis.errors.compare import compare_tensors
from explorer.analysis.errors.pairs import PairErrors
from explorer.analysis.matching.pairing import match_models
from explorer.analysis.matching.views import ViewReader
from explorer.analysis.requantization import requantize
from explorer.analysis.what_if import (
    PRESENT,
    RunningTotal,
    Task,
    TaskErrors,
    TensorSet,
    distinct,
    matrix_rows,
    original_sets,
    own_sets,
    pareto_front,
    present_size,
    size_after,
    tasks_of,
)
from explorer.errors import ExplorerError, FormatError
from explorer.formats import Model, open_model
from explorer.parallel import Check
from explorer.quantization import dequantize, quantize
from tests.helpers.model_pairs import write_gguf, write_safetensors

RANDOM = np.random.default_rng(3)
ARRAYS = {
    "token_embd.weight": RANDOM.normal(0, 0.05, (40, 256)).astype(np.float32),
    "blk.0.attn_q.weight": RANDOM.normal(0, 0.05, (256, 256)).astype(np.float32),
    "blk.0.attn_norm.weight": np.ones(256, np.float32),
    "blk.0.ffn_down.weight": RANDOM.normal(0, 0.05, (256, 96)).astype(np.float32),
    "blk.0.ffn_down_exps.weight": RANDOM.normal(0, 0.05, (3, 8, 256)).astype(np.float32),
    "blk.0.ffn_gate_inp.weight": RANDOM.normal(0, 0.05, (3, 256)).astype(np.float32),
}
MATRICES = [name for name in ARRAYS if "norm" not in name and "inp" not in name]


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return open_model(write_gguf(tmp_path / "a.gguf", "llama", ARRAYS, block_count=1))


def _loss(values: NDArray[np.float32], kind: str) -> tuple[float, float]:
    """Return the sums of squares of the errors and of the values."""
    reference = values.reshape(-1).astype(np.float64)
    e = dequantize(quantize(values, kind), kind).astype(np.float64) - reference
    return float(e @ e), float(reference @ reference)


def measure_set(
    piece: TensorSet, kind: str, importance: NDArray[np.float32] | None = None
) -> PairErrors:
    """Return the errors of a set in a type; raise why there are none."""
    ((_, row),) = TaskErrors(importance=lambda _: importance).measure([Task(piece, kind)])
    if row.errors is None:
        assert row.error is not None
        raise row.error
    return row.errors


def _total(pieces: list[TensorSet], kind: str) -> RunningTotal:
    total = RunningTotal(sum(piece.parameters for piece in pieces))
    for task in tasks_of(pieces, kind):
        total.add(task.tensor_set, measure_set(task.tensor_set, task.type_name))
    return total


def test_norms_and_routers_stay_as_they_are(model: Model) -> None:
    names = model.tensors.columns.names
    assert [names[row] for row in matrix_rows(model)] == MATRICES


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "BF16", "MXFP4"])
def test_the_total_is_that_of_all_weights_together(model: Model, kind: str) -> None:
    pieces = own_sets(model, matrix_rows(model))
    found = _total(pieces, kind).errors()
    assert found.complete
    losses = [_loss(ARRAYS[name], kind) for name in MATRICES]
    error, signal = (sum(sides) for sides in zip(*losses, strict=True))
    count = sum(ARRAYS[name].size for name in MATRICES)
    assert found.metrics.compared == count == found.total
    assert found.metrics.rmse == pytest.approx(np.sqrt(error / count), rel=1e-12)
    assert found.metrics.relative_rmse == pytest.approx(np.sqrt(error / signal), rel=1e-12)
    assert (found.saturated is None) == (kind == "BF16")


@pytest.mark.parametrize(("kind", "other"), [("Q4_K", "Q5_0"), ("Q6_K", "Q8_0"), ("int4", "")])
def test_what_cannot_have_a_type_has_its_substitute_or_stays(
    model: Model, kind: str, other: str
) -> None:
    pieces = own_sets(model, matrix_rows(model))
    found = _total(pieces, kind).errors()
    fits = [name for name in MATRICES if ARRAYS[name].shape[-1] == 256]
    parts = [next(iter(requantize(model.tensors[name], [kind]))).errors for name in fits]
    error = sum(part.rmse**2 * part.compared for part in parts if part)
    if other:
        error += _loss(ARRAYS["blk.0.ffn_down.weight"], other)[0]
    signal = sum(_loss(ARRAYS[name], "BF16")[1] for name in MATRICES)
    assert found.metrics.relative_rmse == pytest.approx(np.sqrt(error / signal), rel=1e-12)
    only = [piece for piece in pieces if piece.original.shape[-1] == 96]
    assert tasks_of(only, "Q4_K") == []
    assert "not a whole number of blocks of 256" in (only[0].problem("Q4_K") or "")


def test_types_that_are_made_with_importance_only(model: Model) -> None:
    """Without it tensors stay as they are; none has a substitute."""
    pieces = own_sets(model, matrix_rows(model))
    assert tasks_of(pieces, "IQ2_XXS") == []
    wide = next(piece for piece in pieces if piece.original.shape[-1] == 256)
    assert wide.problem("IQ2_XXS") == "ggml makes it only with an importance matrix"
    assert (wide.fitting("IQ2_XXS"), wide.fitting("IQ3_XXS")) == (PRESENT, "IQ3_XXS")
    known = replace(wide, weighed=True)
    assert (known.problem("IQ2_XXS"), known.fitting("IQ2_XXS")) == (None, "IQ2_XXS")
    importance = np.ones((1, 256), np.float32)
    assert measure_set(known, "IQ2_XXS", importance).metrics.relative_rmse < 0.7
    present = present_size(model, wide.rows)
    assert size_after(model, present, [wide], "IQ1_S").problem is not None
    assert size_after(model, present, [known], "IQ1_S").bits_per_weight == 1.5625


def test_against_the_original(tmp_path: Path) -> None:
    """The original is rounded, and what the file has lost already is shown beside it."""
    name = "blk.0.attn_q.weight"
    write_gguf(tmp_path / "one.gguf", "llama", ARRAYS)
    write_gguf(tmp_path / "two.gguf", "llama", ARRAYS, {name: "Q4_0"})
    with open_model(tmp_path / "one.gguf") as one, open_model(tmp_path / "two.gguf") as two:
        row = two.tensors.row_of(name)
        assert row is not None
        (piece,) = original_sets(two, [row], match_models(one, two))
        assert piece.rows == (row,)
        again = _total([piece], "Q4_0").errors()
        now = _total([piece], PRESENT).errors()
        assert again.metrics == now.metrics
        reported = compare_tensors(one.tensors[name], two.tensors[name])
        assert now.metrics.rmse == reported.rmse
        assert now.saturated == reported.saturated_codes
        assert again.saturated == pytest.approx(now.saturated)
        # of the file's own weights, which are on Q4_0's grid already, next to nothing is lost
        assert _total(own_sets(two, [row]), "Q4_0").errors().metrics.rmse < now.metrics.rmse / 10
        assert original_sets(two, [], match_models(one, two)) == []


def test_an_original_in_another_order(tmp_path: Path) -> None:
    """Hugging Face's experts are tensors of their own, which the GGUF file has as one."""
    experts = {
        f"model.layers.0.block_sparse_moe.experts.{i}.w2.weight": ARRAYS[
            "blk.0.ffn_down_exps.weight"
        ][i]
        for i in range(3)
    }
    folder = write_safetensors(
        tmp_path / "hf",
        experts,
        model_type="mixtral",
        num_local_experts=3,
        num_hidden_layers=1,
        architectures=["MixtralForCausalLM"],
    )
    stacked = {"blk.0.ffn_down_exps.weight": ARRAYS["blk.0.ffn_down_exps.weight"]}
    path = write_gguf(
        tmp_path / "m.gguf", "llama", stacked, dict.fromkeys(stacked, "Q8_0"), expert_count=3
    )
    with open_model(folder) as one, open_model(path) as two:
        (piece,) = original_sets(two, [0], match_models(one, two))
        found = _total([piece], "Q4_0").errors()
        error, signal = _loss(ARRAYS["blk.0.ffn_down_exps.weight"], "Q4_0")
        assert found.metrics.relative_rmse == pytest.approx(np.sqrt(error / signal), rel=1e-12)


def test_hostile_weights(tmp_path: Path) -> None:
    odd = np.full((2, 64), np.nan, np.float32)
    odd[1] = 1.0
    arrays = {"odd.weight": odd, "line.weight": np.zeros(7, np.float32)}
    path = write_gguf(tmp_path / "odd.gguf", "llama", arrays)
    with open_model(path) as hostile:
        nan, line = own_sets(hostile, [0, 1])
        figures = _total([nan], "Q8_0").errors().metrics
        assert figures.reference_not_finite == 64
        assert figures.compared == 64
        assert tasks_of([line], "Q8_0") == []
        zeros = _total([line], "F16").errors().metrics
        assert zeros.rmse == 0
        assert matrix_rows(hostile) == [0]
    path.write_bytes(path.read_bytes()[:-40])
    with open_model(path) as cut:
        with pytest.raises(FormatError):
            measure_set(own_sets(cut, [1])[0], "F16")
        with pytest.raises(ExplorerError, match="unknown type"):
            own_sets(cut, [0])[0].problem("Q9_X")


def test_nothing_is_measured_twice(model: Model) -> None:
    pieces = own_sets(model, matrix_rows(model))
    tasks = [task for kind in ("Q4_K", "Q2_K", "Q8_0") for task in tasks_of(pieces, kind)]
    assert distinct(tasks) == tasks
    # what is too narrow for Q6_K has Q8_0 in its place, and that is measured once for both
    narrow = [*tasks_of(pieces, "Q6_K"), *tasks_of(pieces, "Q8_0")]
    assert len(distinct(narrow)) == len(narrow) - 1
    assert all(task.cost >= task.tensor_set.parameters for task in tasks)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_tensor_is_read_once_for_all_types(
    model: Model, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    pieces = own_sets(model, matrix_rows(model))
    kinds = ("Q4_0", "Q8_0", "Q4_K", "IQ4_XS", "MXFP4", "BF16", "int4")
    tasks = distinct(task for kind in kinds for task in tasks_of(pieces, kind))
    alone = {task.key: measure_set(task.tensor_set, task.type_name).metrics for task in tasks}
    read: list[int] = []
    into = ViewReader.read_into

    def counted(reader: ViewReader, start: int, out: NDArray[np.float32], check: Check) -> None:
        read.append(out.size)
        into(reader, start, out, check)

    monkeypatch.setattr(ViewReader, "read_into", counted)
    together = {task.key: row.errors for task, row in TaskErrors().measure(tasks, workers)}
    assert sum(read) == sum(piece.parameters for piece in pieces)
    for key, errors in together.items():
        assert errors is not None
        assert errors.metrics == alone[key]


def test_a_piece_that_is_left_out_leaves_the_rest_complete(model: Model) -> None:
    pieces = own_sets(model, matrix_rows(model))
    total = RunningTotal(sum(piece.parameters for piece in pieces))
    total.leave_out(pieces[0])
    for piece in pieces[1:]:
        assert not total.errors().complete
        total.add(piece, measure_set(piece, "Q8_0"))
    assert total.errors().complete
    assert np.isnan(RunningTotal(1).errors().metrics.rmse)


def test_sizes_are_those_of_the_blocks(model: Model) -> None:
    every = range(len(model.tensors))
    now = present_size(model, every)
    assert now.nbytes == model.nbytes == now.model_nbytes
    pieces = own_sets(model, matrix_rows(model))
    then = size_after(model, now, pieces, "Q8_0")
    wanted = sum(
        array.size // 32 * 34 if name in MATRICES else array.nbytes
        for name, array in ARRAYS.items()
    )
    assert then.nbytes == wanted == then.model_nbytes
    assert then.file_nbytes == now.file_nbytes - model.nbytes + wanted
    assert then.bits_per_weight == 8 * wanted / sum(array.size for array in ARRAYS.values())
    assert (then.kept, then.problem) == (0, None)
    some = size_after(model, now, pieces, "int4")
    assert (some.kept, some.problem, some.substitutes) == (1, None, {})
    assert len(some.types) == len(MATRICES) - 1
    short = size_after(model, now, pieces, "Q4_K")
    assert (short.kept, short.problem, short.substitutes) == (0, None, {"Q5_0": 1})
    row = model.tensors.row_of("blk.0.ffn_down.weight")
    assert row is not None
    assert short.types[row].name == "Q5_0"
    one = [piece for piece in pieces if piece.original.shape[-1] == 96]
    none = size_after(model, present_size(model, one[0].rows), one, "Q4_K")
    assert none.problem == "rows of 96 weights are not a whole number of blocks of 256"
    assert none.nbytes == ARRAYS["blk.0.ffn_down.weight"].nbytes
    assert np.isnan(present_size(model, []).bits_per_weight)


def test_a_pareto_front_by_hand() -> None:
    points = [(4.5, 0.1), (4.5, 0.2), (8.5, 0.01), (5.0, 0.1), (3.0, 0.3), (9.0, float("nan"))]
    assert pareto_front(points) == [True, False, True, False, True, False]
    assert pareto_front([(1.0, 1.0), (1.0, 1.0)]) == [True, True]
    assert pareto_front([]) == []


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_nothing_beats_the_front(points: list[tuple[int, int]]) -> None:
    def beats(one: tuple[int, int], other: tuple[int, int]) -> bool:
        return one != other and one[0] <= other[0] and one[1] <= other[1]

    floats = [(float(x), float(y)) for x, y in points]
    wanted = [not any(beats(one, other) for one in points) for other in points]
    assert pareto_front(floats) == wanted
