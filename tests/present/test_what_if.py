"""What is known of other types before weights are read, and its wording."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from explorer.analysis.errors.metrics import RunningErrors
from explorer.analysis.what_if import PRESENT, SizeAfter, TypeErrors
from explorer.formats import Model, open_model
from explorer.formats.attachments import OpenMatrix
from explorer.parallel import LruCache
from explorer.planner import Host
from explorer.planner.inputs import PlanInputs, PlannedMemory
from explorer.present.tables.what_if import Trial, change_text, note_text
from explorer.present.what_if import WhatIfCache, WhatIfRequest, estimate_of, measure, trials_of
from tests.helpers.model_pairs import write_gguf

USUAL = PlanInputs(host=Host(1 << 34))
SIZE = SizeAfter(100, 50, 500, 600)


def _known(rmse: float, done: int = 100) -> TypeErrors:
    """Return errors whose relative RMSE is that."""
    errors = RunningErrors()
    figures = errors.metrics()
    values = {name: getattr(figures, name) for name in figures.__dataclass_fields__}
    values |= {"relative_rmse": rmse, "compared": 100}
    return TypeErrors(type(figures)(**values), None, done, 100)


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    random = np.random.default_rng(2)
    arrays = {
        f"blk.{layer}.{name}.weight": random.normal(0, 1, shape).astype(np.float32)
        for layer in range(3)
        for name, shape in (("attn_q", (8, 256)), ("ffn_down", (8, 96)), ("attn_norm", (256,)))
    }
    with open_model(write_gguf(tmp_path / "m.gguf", "llama", arrays, block_count=3)) as opened:
        yield opened


def test_impossible_types_are_not_measured(model: Model) -> None:
    odd = estimate_of(WhatIfRequest(model, (1,), ("Q4_K", "Q8_0")), USUAL)
    assert list(odd.tasks) == ["Q8_0"]
    assert odd.sizes["Q4_K"].problem is not None
    assert "Q4_K" not in odd.plans
    assert odd.missing(WhatIfCache()) == list(odd.tasks["Q8_0"])
    assert odd.known(WhatIfCache()) == {}


def test_some_types_need_an_importance_matrix_that_knows_the_tensor(model: Model) -> None:
    rows, kinds = (0, 3), ("IQ2_XXS", "Q8_0")
    names = model.tensors.columns.names
    without = estimate_of(WhatIfRequest(model, rows, kinds), USUAL)
    assert without.sizes["IQ2_XXS"].problem == "ggml makes it only with an importance matrix"
    assert list(without.tasks) == ["Q8_0"]
    matrix = OpenMatrix(model, frozenset({names[0]}))
    request = WhatIfRequest(model, rows, kinds, matrix=matrix)
    estimate = estimate_of(request, USUAL)
    assert estimate.importance_count == 1
    assert (estimate.sizes["IQ2_XXS"].problem, estimate.sizes["IQ2_XXS"].kept) == (None, 1)
    assert [task.type_name for task in estimate.tasks["IQ2_XXS"]] == ["IQ2_XXS", PRESENT]


def test_the_whole_model_is_all_tensors_but_only_matrices_change(model: Model) -> None:
    estimate = estimate_of(WhatIfRequest(model, None, ("Q8_0",)), USUAL)
    assert len(estimate.sets) == 6
    assert estimate.present.nbytes == model.nbytes
    assert estimate.present.parameters == model.parameters


def test_cancelled_before_it_is_read(model: Model) -> None:
    def check() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        estimate_of(WhatIfRequest(model, None, ("Q8_0",)), USUAL, check)


def test_of_equal_size_the_tensors_as_they_are_may_be_the_best(model: Model) -> None:
    request = WhatIfRequest(model, (0,), ("F32",))
    estimate = replace(estimate_of(request, USUAL), against_source=True)
    for present, fronts in ((0.1, [True, False]), (0.3, [False, True]), (0.2, [True, True])):
        lines = trials_of(estimate, {PRESENT: _known(present), "F32": _known(0.2)})
        assert lines[0].size.bits_per_weight == lines[1].size.bits_per_weight
        assert [line.front for line in lines] == fronts


def test_the_front_is_of_types_that_were_measured_to_the_end(model: Model) -> None:
    request = WhatIfRequest(model, (0,), ("Q4_0", "Q4_1", "Q8_0"))
    estimate = estimate_of(request, USUAL)
    lines = trials_of(
        estimate, {"Q4_0": _known(0.1), "Q4_1": _known(0.2), "Q8_0": _known(0.3, done=10)}
    )
    assert [line.front for line in lines] == [False, True, False, False]
    assert lines[0].title == "F32 (as it is)"
    assert lines[3].figure("relative_rmse") == 0.3  # of the weights so far
    growing = trials_of(estimate, {"Q4_0": _known(0.3, done=10), "Q8_0": _known(0.1)})
    assert [line.front for line in growing] == [False] * 4  # Q4_0 may come out better than both
    assert note_text(lines[3]) == "10 % measured"
    assert note_text(lines[1]) == "best trade-off"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (Trial("Q8_0", "Q8_0", SIZE, SIZE), "not measured"),
        (
            Trial(PRESENT, "Q4_K (as it is)", SIZE, SIZE, measurable=False),
            "its own error is not known without the original",
        ),
        (
            Trial("Q4_K", "Q4_K", SizeAfter(1, 1, 1, 1, {}, 2, {"Q5_0": 3}), SIZE),
            "not measured, 3 too narrow: Q5_0 there, as llama-quantize does, "
            "2 tensors cannot have it and stay as they are",
        ),
        (
            Trial(
                "Q4_K",
                "Q4_K",
                SIZE,
                SIZE,
                PlannedMemory(1, None, None, "needs more memory"),
                errors=_known(0.1),
            ),
            "needs more memory",
        ),
    ],
)
def test_notes(line: Trial, text: str) -> None:
    assert note_text(line) == text


def test_texts() -> None:
    assert change_text(0) == "±0 B"
    assert change_text(2048) == "+2.00 KiB"
    assert change_text(-2048) == "-2.00 KiB"


def test_more_results_than_are_kept_are_not_measured_again(model: Model) -> None:
    request = WhatIfRequest(model, None, ("Q8_0", "Q4_0"))
    estimate = estimate_of(request, USUAL)
    kept = WhatIfCache(LruCache(3))
    first = measure(estimate, kept)
    assert first.done == first.total
    assert estimate.unknown(kept) == {}
    assert estimate.missing(kept) == []
    again = measure(estimate_of(request, USUAL), kept)
    assert again.total == 0
    assert again.errors == first.errors
    # what was found of one tensor is not all of the model's
    one = estimate_of(WhatIfRequest(model, (0,), ("Q8_0",)), USUAL)
    assert one.total("Q8_0", kept) is None


def test_the_state_of_a_run_ends_with_every_type(model: Model) -> None:
    estimate = estimate_of(WhatIfRequest(model, (0,), ("Q8_0", "Q4_0")), USUAL)
    state = measure(estimate, WhatIfCache())
    assert set(state.errors) == {"Q8_0", "Q4_0"}
    assert all(errors.complete for errors in state.errors.values())
    assert state.failures == ()
