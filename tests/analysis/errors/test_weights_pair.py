"""Which kernels a pair of weights needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from explorer.analysis.errors.pairs import MatchedPair, RoundedPair
from explorer.analysis.matching import Match, TensorView
from explorer.formats import open_model
from explorer.quantization.kernel_sets import has_kernels
from tests.helpers.model_pairs import write_gguf

VALUES = np.random.default_rng(0).normal(size=(4, 256)).astype(np.float32)
COMPILE_NOTHING_MORE = """
import gc, sys
from numba.core.dispatcher import Dispatcher
from explorer.analysis.errors.pairs import RoundedPair
from explorer.analysis.warming import warm_up
from explorer.formats import open_model

def count():
    return sum(len(one.overloads) for one in gc.get_objects() if isinstance(one, Dispatcher))

pair = RoundedPair(open_model(sys.argv[1]).tensors.rows[0], sys.argv[2])
for name in pair.kernels:
    warm_up(name)
before = count()
pair.reader().read((0, pair.parameters), lambda: None)
print(before > 0, count() - before)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_gguf(
        tmp_path / "one.gguf", "llama", {"one": VALUES, "two": VALUES}, {"two": "Q8_0"}
    )


def test_of_two_tensors_their_types_are_needed(path: Path) -> None:
    with open_model(path) as model:
        one, two = map(TensorView.of, model.tensors.rows)
        assert MatchedPair(Match(one, two)).kernels == {"F32", "Q8_0"}


@pytest.mark.parametrize(
    ("name", "rounding"),
    [("Q4_1", "Q4_1-rounding"), ("int4/32", "int4-rounding"), ("mxfp8", "mxfp8-rounding")],
)
def test_of_a_rounded_tensor_what_rounds_is_needed(path: Path, name: str, rounding: str) -> None:
    with open_model(path) as model:
        kernels = RoundedPair(model.tensors.rows[1], name).kernels
    assert kernels == {"Q8_0", rounding}
    assert all(map(has_kernels, kernels))


@pytest.mark.parametrize("name", ["Q4_1", "int4"])
def test_a_rounded_tensor_needs_no_other_kernels(path: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPILE_NOTHING_MORE, str(path), name],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True 0\n"
