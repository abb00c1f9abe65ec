"""The weights panel while kernels are compiled and weights are read: a 5 ms timer comes in time.

Each measurement is a process of its own. The budget of a pause is 50 ms, and 150 ms while
kernels are compiled; the table that is printed shows it. What is asserted is that the first
histogram of a fresh install holds up the window for less than the same statistics in a plain
thread do, and a large tensor no longer than a few times what NumPy does in a thread, whose chunks
are the least that Python can do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.report import Report, Row, milliseconds
from tests.helpers.gguf_writer import STRING, GgufFile, TensorSpec

_PROGRAM = Path(__file__).with_name("weights_heartbeat.py")
_BUDGET_S = 0.05  # while weights stream
_COMPILING_BUDGET_S = 0.15  # once per type and machine
_FIRST_S = 4.0
_FIRST_TIMES = 3
_RUNS = 3
_Q4_K, _Q4_K_BYTES = 12, 144
_SMALL, _LARGE = "small.weight", "large.weight"
_NUMPY_TIMES = 3  # pauses of NumPy that ours may take: its plot is a bare one, without a table


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


def _measure(who: str, model: Path, tensor: str, cache: Path) -> dict[str, float]:
    cache.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), who, str(model), tensor],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _best(runs: list[dict[str, float]], key: str) -> float:
    return min(run[key] for run in runs)


def _add(
    report: Report,
    what: str,
    ours: float,
    peer: tuple[str, float],
    *,
    most: float,
    budget: float = _BUDGET_S,
) -> None:
    name, other = peer
    report.add(
        Row(
            f"weights panel: {what}",
            milliseconds(ours),
            f"{milliseconds(other)} ({name})",
            f"{ours / other:.2f}×",
            f"<= {1000 * budget:.0f} ms",
            ours <= budget,
        )
    )
    assert ours <= most * other, what


@pytest.mark.benchmark
@pytest.mark.timeout(600)
def test_the_first_histogram_of_a_fresh_install_never_holds_up_the_window_for_150_ms(
    model: Path, report: Report, tmp_path: Path
) -> None:
    ours, peer = [], []
    for run in range(_RUNS):  # taken in turn, so that a busy machine is busy for both
        ours.append(_measure("ours", model, _SMALL, tmp_path / f"ours{run}"))
        peer.append(_measure("thread", model, _SMALL, tmp_path / f"peer{run}"))
    pauses = ("opening_pause", "first_pause", "rest_pause")
    longest = min(max(run[key] for key in pauses) for run in ours)
    plain = "plain thread", _best(peer, "first_pause")
    first, slow = min(run["opening"] + run["first"] for run in ours), _best(peer, "first")
    report.add(
        Row(
            "weights panel: its first histogram, nothing compiled",
            milliseconds(first),
            f"{milliseconds(slow)} (statistics in a plain thread)",
            f"{first / slow:.2f}×",
            f"<= {1000 * _FIRST_S:.0f} ms",
            first <= _FIRST_S,
        )
    )
    assert first <= _FIRST_TIMES * slow
    _add(
        report,
        "longest pause, nothing compiled",
        longest,
        plain,
        most=0.75,
        budget=_COMPILING_BUDGET_S,
    )
    print("pauses in ms:", [{k: round(1000 * run[k], 1) for k in pauses} for run in ours])


@pytest.mark.benchmark
@pytest.mark.timeout(600)
def test_a_large_tensor_never_holds_up_the_window_for_50_ms(
    model: Path, report: Report, tmp_path: Path
) -> None:
    cache = tmp_path / "kernels"
    _measure("ours", model, _SMALL, cache)  # compiles
    ours = [_measure("ours", model, _LARGE, cache) for _ in range(_RUNS)]
    peer = [_measure("numpy", model, _LARGE, cache) for _ in range(_RUNS)]
    longest = _best(ours, "rest_pause")
    _add(
        report,
        "longest pause, 128 Mi weights streaming",
        longest,
        ("numpy.histogram in a thread", _best(peer, "rest_pause")),
        most=_NUMPY_TIMES,
    )
    for run in ours:
        assert run["updates"] <= 20 * (run["first"] + run["rest"]) + 2
    print(f"\n128 Mi weights, three walks: {_best(ours, 'first') + _best(ours, 'rest'):.2f} s,")
    print(f"{max(run['updates'] for run in ours):.0f} updates")
