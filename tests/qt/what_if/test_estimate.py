"""What is known of other types before weights are read, and its wording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication

from explorer.analysis.errors.metrics import RunningErrors
from explorer.analysis.rounding import rounding_types
from explorer.analysis.what_if import PRESENT, SizeAfter, TypeErrors
from explorer.hardware.detect import Machine
from explorer.parallel import LruCache
from explorer.planner import Host
from explorer.planner.inputs import PlannedMemory
from explorer.present.tables.what_if import Line, change_text, note_text, what_if_table
from explorer.qt.document import Document
from explorer.qt.what_if.controls import USUAL_TYPES, type_groups
from explorer.qt.what_if.estimate import (
    ImportanceMatrix,
    WhatIfCache,
    WhatIfEstimate,
    WhatIfRequest,
    WhatIfState,
    estimate_of,
    lines_of,
    measure,
)
from explorer.qt.widgets.table_model import TableModel
from tests.helpers.model_pairs import write_gguf

Load = Callable[[Path], Document]
MACHINE = Machine((), Host(1 << 34))
SIZE = SizeAfter(100, 50, 500, 600)


def _known(rmse: float, done: int = 100) -> TypeErrors:
    """Return errors whose relative RMSE is that."""
    errors = RunningErrors()
    figures = errors.metrics()
    values = {name: getattr(figures, name) for name in figures.__dataclass_fields__}
    values |= {"relative_rmse": rmse, "compared": 100}
    return TypeErrors(type(figures)(**values), None, done, 100)


@pytest.fixture
def document(load: Load, tmp_path: Path) -> Document:
    random = np.random.default_rng(2)
    arrays = {
        f"blk.{layer}.{name}.weight": random.normal(0, 1, shape).astype(np.float32)
        for layer in range(3)
        for name, shape in (("attn_q", (8, 256)), ("ffn_down", (8, 96)), ("attn_norm", (256,)))
    }
    return load(write_gguf(tmp_path / "m.gguf", "llama", arrays, block_count=3))


def test_every_type_is_offered_once_and_the_usual_ones_are_quick() -> None:
    offered = [name for _, names in type_groups() for name in names]
    assert sorted(offered) == sorted(rounding_types())
    assert set(USUAL_TYPES) <= set(offered)
    assert all(title for title, _ in type_groups())
    (missing,) = (title for title, names in type_groups() if not names)
    assert missing == "Not IQ2_KS, IQ4_KSS, IQ2_KL, …"


def test_impossible_types_are_not_measured(document: Document) -> None:
    odd = estimate_of(WhatIfRequest(document, (1,), ("Q4_K", "Q8_0")), MACHINE, lambda: None)
    assert list(odd.tasks) == ["Q8_0"]
    assert odd.sizes["Q4_K"].problem is not None
    assert "Q4_K" not in odd.plans
    assert odd.missing(WhatIfCache()) == list(odd.tasks["Q8_0"])
    assert odd.known(WhatIfCache()) == {}


def test_some_types_need_an_importance_matrix_that_knows_the_tensor(document: Document) -> None:
    rows, kinds = (0, 3), ("IQ2_XXS", "Q8_0")
    names = document.model.tensors.columns.names
    without = estimate_of(WhatIfRequest(document, rows, kinds), MACHINE, lambda: None)
    assert without.sizes["IQ2_XXS"].problem == "ggml makes it only with an importance matrix"
    assert list(without.tasks) == ["Q8_0"]
    matrix = ImportanceMatrix(document.model, frozenset({names[0]}))
    request = WhatIfRequest(document, rows, kinds, matrix=matrix)
    estimate = estimate_of(request, MACHINE, lambda: None)
    assert estimate.importance_count == 1
    assert (estimate.sizes["IQ2_XXS"].problem, estimate.sizes["IQ2_XXS"].kept) == (None, 1)
    assert [task.type_name for task in estimate.tasks["IQ2_XXS"]] == ["IQ2_XXS", PRESENT]


def test_the_whole_model_is_all_tensors_but_only_matrices_change(document: Document) -> None:
    estimate = estimate_of(WhatIfRequest(document, None, ("Q8_0",)), MACHINE, lambda: None)
    assert len(estimate.sets) == 6
    assert estimate.present.nbytes == document.model.nbytes
    assert estimate.present.parameters == document.model.parameters


def test_cancelled_before_it_is_read(document: Document) -> None:
    def check() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        estimate_of(WhatIfRequest(document, None, ("Q8_0",)), MACHINE, check)


def test_of_equal_size_the_tensors_as_they_are_may_be_the_best(document: Document) -> None:
    request = WhatIfRequest(document, (0,), ("F32",))
    estimate = replace(estimate_of(request, MACHINE, lambda: None), against_source=True)
    for present, fronts in ((0.1, [True, False]), (0.3, [False, True]), (0.2, [True, True])):
        lines = lines_of(estimate, {PRESENT: _known(present), "F32": _known(0.2)})
        assert lines[0].size.bits_per_weight == lines[1].size.bits_per_weight
        assert [line.front for line in lines] == fronts


def test_the_front_is_of_types_that_were_measured_to_the_end(document: Document) -> None:
    request = WhatIfRequest(document, (0,), ("Q4_0", "Q4_1", "Q8_0"))
    estimate = estimate_of(request, MACHINE, lambda: None)
    lines = lines_of(
        estimate, {"Q4_0": _known(0.1), "Q4_1": _known(0.2), "Q8_0": _known(0.3, done=10)}
    )
    assert [line.front for line in lines] == [False, True, False, False]
    assert lines[0].title == "F32 (as it is)"
    assert lines[3].figure("relative_rmse") == 0.3  # of the weights so far
    growing = lines_of(estimate, {"Q4_0": _known(0.3, done=10), "Q8_0": _known(0.1)})
    assert [line.front for line in growing] == [False] * 4  # Q4_0 may come out better than both
    assert note_text(lines[3]) == "10 % measured"
    assert note_text(lines[1]) == "best trade-off"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (Line("Q8_0", "Q8_0", SIZE, SIZE), "not measured"),
        (
            Line(PRESENT, "Q4_K (as it is)", SIZE, SIZE, measurable=False),
            "its own error is not known without the original",
        ),
        (
            Line("Q4_K", "Q4_K", SizeAfter(1, 1, 1, 1, {}, 2, {"Q5_0": 3}), SIZE),
            "not measured, 3 too narrow: Q5_0 there, as llama-quantize does, "
            "2 tensors cannot have it and stay as they are",
        ),
        (
            Line(
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
def test_notes(line: Line, text: str) -> None:
    assert note_text(line) == text


def test_texts() -> None:
    assert change_text(0) == "±0 B"
    assert change_text(2048) == "+2.00 KiB"
    assert change_text(-2048) == "-2.00 KiB"


def test_the_table_is_sorted_again_when_more_is_known(
    qapp: QApplication, document: Document
) -> None:
    table, model = what_if_table(), TableModel()
    estimate = estimate_of(WhatIfRequest(document, (0,), ("Q4_0", "Q8_0")), MACHINE, lambda: None)
    model.set_content(table, lines_of(estimate, {}))
    names = [column.name for column in model.columns]
    model.sort(names.index("relative_rmse"))
    known = {"Q8_0": _known(0.01), "Q4_0": _known(0.2)}
    model.renew(table, lines_of(estimate, known))
    assert model.index(0, 0).data() == "Q8_0"
    assert model.index(0, names.index("relative_rmse")).data() == "1.000 %"


class _Job:
    """A job without a window."""

    def check(self) -> None:
        pass

    def publish(self, make: Callable[[], object]) -> None:
        make()


def _run(estimate: WhatIfEstimate, kept: WhatIfCache) -> WhatIfState:
    return measure(estimate, kept, _Job())  # type: ignore[arg-type]


def test_more_results_than_are_kept_are_not_measured_again(document: Document) -> None:
    request = WhatIfRequest(document, None, ("Q8_0", "Q4_0"))
    estimate = estimate_of(request, MACHINE, lambda: None)
    kept = WhatIfCache(LruCache(3))
    first = _run(estimate, kept)
    assert first.done == first.total
    assert estimate.unknown(kept) == {}
    assert estimate.missing(kept) == []
    again = _run(estimate_of(request, MACHINE, lambda: None), kept)
    assert again.total == 0
    assert again.errors == first.errors
    # what was found of one tensor is not all of the model's
    one = estimate_of(WhatIfRequest(document, (0,), ("Q8_0",)), MACHINE, lambda: None)
    assert one.total("Q8_0", kept) is None


def test_the_state_of_a_run_ends_with_every_type(document: Document) -> None:
    estimate = estimate_of(WhatIfRequest(document, (0,), ("Q8_0", "Q4_0")), MACHINE, lambda: None)
    state = _run(estimate, WhatIfCache())
    assert set(state.errors) == {"Q8_0", "Q4_0"}
    assert all(errors.complete for errors in state.errors.values())
    assert state.failures == ()
