"""A survey of a whole model: how it scales with cores.

One thread and two take turns in one process, so that both meet one machine, and the best of several
runs counts, against what two threads can gain there at all.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from explorer.analysis.survey_cache import CachedSurvey
from explorer.analysis.surveys import run_survey
from explorer.formats import Model, open_model
from tests.benchmarks.report import Report
from tests.benchmarks.timing import best_seconds
from tests.benchmarks.two_cores import work_on_one_and_two
from tests.helpers.gguf_writer import STRING, GgufFile, TensorSpec
from tests.helpers.tensors import random_blocks

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

_LAYERS = 8
_IDS = {"Q4_K": 12, "Q6_K": 14, "Q8_0": 8, "F32": 0}
_BLOCKS = {"Q4_K": 256, "Q6_K": 256, "Q8_0": 32, "F32": 1}
_SHAPES = {  # of each layer: type, rows and columns
    "attn_norm": ("F32", 1, 1024),
    "attn_q": ("Q4_K", 1024, 1024),
    "attn_k": ("Q4_K", 512, 1024),
    "attn_v": ("Q6_K", 512, 1024),
    "attn_output": ("Q4_K", 1024, 1024),
    "ffn_gate": ("Q4_K", 2048, 1024),
    "ffn_up": ("Q4_K", 2048, 1024),
    "ffn_down": ("Q6_K", 1024, 2048),
}


def write_model(path: Path) -> Path:
    """Write a model of 89 Mi weights, shaped as models are: large and small tensors, four types."""
    tensors = [_tensor("token_embd.weight", "Q8_0", 1 << 14, 1024)]
    for layer in range(_LAYERS):
        tensors += [_tensor(f"blk.{layer}.{role}.weight", *what) for role, what in _SHAPES.items()]
    return GgufFile(keys=[("general.architecture", STRING, "llama")], tensors=tensors).write(path)


def _tensor(name: str, kind: str, rows: int, columns: int) -> TensorSpec:
    if kind == "F32":
        raw = np.random.default_rng(0).normal(1, 0.1, rows * columns).astype("<f4").tobytes()
        return TensorSpec(name, (columns,), 0, raw)
    blocks = random_blocks(kind, rows * columns // _BLOCKS[kind])
    return TensorSpec(name, (columns, rows), _IDS[kind], blocks.tobytes())


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("survey") / "model.gguf")


def _survey(model: Model, workers: int) -> None:
    rows = run_survey(model, CachedSurvey(None, model), workers)
    assert all(row.statistics is not None for row in rows)


def test_survey_at_least_1_5_times_faster_on_two_cores(path: Path, report: Report) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("this machine has one core")
    with open_model(path) as model:
        weights = model.parameters
        assert weights >= 1 << 26
        _survey(model, 2)  # loads and compiles
        actions = (lambda: _survey(model, 1), lambda: _survey(model, 2), *work_on_one_and_two())
        one, two, alone, together = best_seconds(*actions, runs=24)
    report.compare(
        "survey of 65 tensors, four types, two threads",
        two,
        ("one thread", one),
        most=1 / 1.5,
        weights=weights,
        note=f"{one / two:.2f} times as fast; the machine itself {2 * alone / together:.2f}",
    )
