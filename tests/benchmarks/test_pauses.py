"""The window while kernels are compiled and weights are read: its timers come in time.

Each measurement is a process of its own (`pauses.py`). The first histogram of a fresh install holds
up the window for less than the same statistics in a plain thread do, and a large tensor no longer
than a few times what NumPy does in a thread, whose chunks are the least that Python can do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.report import Report
from tests.benchmarks.test_survey_speed import write_model
from tests.helpers.gguf_writer import STRING, GgufFile, TensorSpec

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

_PROGRAM = Path(__file__).with_name("pauses.py")
_BUDGET_S, _COMPILING_BUDGET_S = 0.05, 0.15
_RUNS = 3
_Q4_K, _Q4_K_BYTES = 12, 144
_SMALL, _LARGE = "small.weight", "large.weight"
_Phases = dict[str, tuple[float, float]]  # seconds, and the longest pause


def _q4_k(random: np.random.Generator, rows: int) -> bytes:
    """Return rows of 4096 random Q4_K weights of usual size."""
    blocks = random.integers(0, 256, (rows * 16, _Q4_K_BYTES), dtype=np.uint8)
    halves = random.uniform(1e-4, 2e-4, (rows * 16, 2)).astype("<f2")
    blocks[:, :4] = halves.view(np.uint8)
    return blocks.tobytes()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    tensors = [
        TensorSpec(name, (4096, rows), _Q4_K, _q4_k(random, rows))
        for name, rows in ((_SMALL, 256), (_LARGE, 32_768))
    ]
    keys = [("general.architecture", STRING, "llama")]
    return GgufFile(keys=keys, tensors=tensors).write(tmp_path_factory.mktemp("w") / "w.gguf")


def _measure(which: str, cache: Path, *arguments: str) -> _Phases:
    cache.mkdir(exist_ok=True)
    own = {"NUMBA_CACHE_DIR": str(cache), "GGUF_EXPLORER_CACHE": str(cache / "kept")}
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), which, *arguments],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=True,
    )
    found: _Phases = json.loads(done.stdout.splitlines()[-1])
    return found


def _longest(phases: _Phases) -> float:
    return max(pause for _, pause in phases.values())


def test_the_first_histogram_of_a_fresh_install_never_holds_up_the_window_for_150_ms(
    model: Path, report: Report, tmp_path: Path
) -> None:
    ours, peer = [], []
    for run in range(_RUNS):  # taken in turn, so that a busy machine is busy for both
        ours.append(_measure("weights", tmp_path / f"ours{run}", str(model), _SMALL))
        peer.append(_measure("thread", tmp_path / f"peer{run}", str(model), _SMALL))
    report.compare(
        "first histogram, nothing compiled",
        min(run["opening"][0] + run["first"][0] for run in ours),
        ("statistics in a plain thread", min(run["first"][0] for run in peer)),
        most=3,
        budget=4,
    )
    report.compare(
        "… and the longest pause of the window meanwhile",
        min(map(_longest, ours)),
        ("statistics in a plain thread", min(map(_longest, peer))),
        most=0.75,
        budget=_COMPILING_BUDGET_S,
    )


def test_a_large_tensor_never_holds_up_the_window_for_50_ms(
    model: Path, report: Report, tmp_path: Path
) -> None:
    _measure("weights", tmp_path, str(model), _SMALL)  # compiles
    ours = [_measure("weights", tmp_path, str(model), _LARGE) for _ in range(_RUNS)]
    peer = [_measure("numpy", tmp_path, str(model), _LARGE) for _ in range(_RUNS)]
    report.compare(
        "longest pause of the window, 128 Mi weights streaming",
        min(run["rest"][1] for run in ours),
        ("`numpy.histogram` in a thread", min(map(_longest, peer))),
        most=3,  # its plot is a bare one, without a table
        budget=_BUDGET_S,
    )


def test_a_survey_on_all_cores_never_holds_up_the_window_for_50_ms(
    report: Report, tmp_path: Path
) -> None:
    path = str(write_model(tmp_path / "model.gguf"))
    _measure("survey", tmp_path / "compiled", path)
    runs = []
    for _ in range(_RUNS):  # nothing is known of the model
        shutil.rmtree(tmp_path / "compiled" / "kept")
        runs.append(_measure("survey", tmp_path / "compiled", path))
    pauses = {phase: min(run[phase][1] for run in runs) for phase in runs[0]}
    report.compare(
        "longest pause of the window, survey and comparison on all cores",
        max(pauses.values()),
        ("three frames of 60 Hz", _BUDGET_S),
        most=1,
        note=", ".join(f"{phase} {1000 * pause:.0f} ms" for phase, pause in pauses.items()),
    )
