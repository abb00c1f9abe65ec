"""Errors of Q4_K against BF16, from the files, against the `gguf` package and NumPy on one core.

Both begin with open files in the disk cache and end with the same figures. The peer does in NumPy
what one would do there, in float64 where that matters and without needless passes; the program also
counts sign flips, zeroed weights, percentiles and saturated codes. They take turns in one process,
so that both meet one machine, and the best of several runs counts.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from explorer.analysis import TensorErrors, compare_tensors
from explorer.analysis.errors.pairs import MatchedPair
from explorer.analysis.errors.pictures import picture_errors
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.views import TensorView
from explorer.formats import open_model
from explorer.quantization import dequantize
from tests.benchmarks.report import Report, Row, milliseconds
from tests.benchmarks.timing import seconds
from tests.helpers.gguf_writer import GgufFile, TensorSpec
from tests.helpers.tensors import random_blocks

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

_WEIGHTS = 1 << 25
_COLUMNS = 4096
_RUNS = 5
_MEMORY = 64 << 20

_COMPARE_AND_MEASURE = """
import sys
from explorer.analysis import compare_tensors
from explorer.analysis.errors.pictures import picture_errors
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.views import TensorView
from explorer.analysis.errors.pairs import MatchedPair
from explorer.formats import open_model

def compare(one, two, workers=1):
    if sys.argv[3] == "figures":
        return compare_tensors(one, two, workers)
    pair = MatchedPair(Match(TensorView.of(one), TensorView.of(two)))
    return list(picture_errors(pair, workers))[-1]

def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name))

with open_model(sys.argv[1]) as one, open_model(sys.argv[2]) as two:
    small = one.tensors["small"], two.tensors["small"]
    compare(*small)  # kernels are loaded: the idle program
    before = status("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    compare(one.tensors["weights"], two.tensors["weights"], 2)
    print(status("VmHWM") - before)
"""


def _write(folder: Path) -> tuple[Path, Path]:
    """Write the two files: weights as BF16, and their blocks."""
    blocks = random_blocks("Q4_K", _WEIGHTS // 256).tobytes()
    values = dequantize(blocks, "Q4_K")
    values += np.random.default_rng(1).normal(0, 0.02, _WEIGHTS).astype(np.float32)
    halves = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    paths = []
    for name, kind, raw, row in (
        ("reference", 30, halves, 2 * _COLUMNS),
        ("candidate", 12, blocks, _COLUMNS // 256 * 144),
    ):
        shape = (_COLUMNS, _WEIGHTS // _COLUMNS)
        small = TensorSpec("small", (_COLUMNS, 4), kind, raw[: 4 * row])
        file = GgufFile(tensors=[TensorSpec("weights", shape, kind, raw), small])
        paths.append(file.write(folder / f"{name}.gguf"))
    return paths[0], paths[1]


def _peer(gguf: object, stored: list[object]) -> dict[str, float]:
    """Do what one does with the package and NumPy."""
    dequantized = (
        gguf.dequantize(one.data, one.tensor_type)  # type: ignore[attr-defined]
        for one in stored
    )
    r, c = (np.ascontiguousarray(one, np.float32).reshape(-1) for one in dequantized)
    e = c.astype(np.float64) - r
    size = np.abs(e)
    exact = r.astype(np.float64)
    signal = float(np.mean(exact * exact))
    square = float(np.mean(e * e))
    candidate = exact + e
    product = float(np.mean(exact * candidate))
    norm = float(np.mean(candidate * candidate))
    return {
        "rmse": square**0.5,
        "relative_rmse": (square / signal) ** 0.5,
        "max_abs_error": float(size.max()),
        "mean_error": float(e.mean()),
        "mean_abs_error": float(size.mean()),
        "sqnr_db": 10 * float(np.log10(signal / square)),
        "cosine": product / (signal * norm) ** 0.5,
    }


def test_compare_8_times_faster_than_gguf_and_numpy(tmp_path: Path, report: Report) -> None:
    gguf = pytest.importorskip("gguf")
    paths = _write(tmp_path)
    stored = [gguf.GGUFReader(path).tensors[0] for path in paths]
    with open_model(paths[0]) as one, open_model(paths[1]) as two:
        pair = one.tensors["weights"], two.tensors["weights"]
        ours: TensorErrors = compare_tensors(*pair)  # compiles
        peer = _peer(gguf, stored)
        for name, value in peer.items():
            assert getattr(ours, name) == pytest.approx(value, rel=1e-9), name
        mine, theirs = float("inf"), float("inf")
        for _ in range(_RUNS):
            mine = min(mine, seconds(lambda: compare_tensors(*pair)))
            theirs = min(theirs, seconds(lambda: _peer(gguf, stored)))
    ratio = theirs / mine
    report.add(
        Row(
            f"errors of {_WEIGHTS:,} weights, Q4_K against BF16, one core",
            f"{milliseconds(mine)} ({1e9 * mine / _WEIGHTS:.2f} ns a weight)",
            f"gguf and NumPy {milliseconds(theirs)} ({1e9 * theirs / _WEIGHTS:.1f} ns a weight)",
            f"{ratio:.1f}× faster",
            "≥ 8×",
            ratio >= 8,
        )
    )
    assert ratio >= 8


def test_pictures_take_no_longer_than_twice_the_figures(tmp_path: Path, report: Report) -> None:
    paths = _write(tmp_path)
    with open_model(paths[0]) as one, open_model(paths[1]) as two:
        tensors = one.tensors["weights"], two.tensors["weights"]
        pair = MatchedPair(Match(*map(TensorView.of, tensors)))
        *_, pictured = picture_errors(pair)  # compiles
        assert pictured.metrics.rmse == compare_tensors(*tensors).rmse
        drawing, figures = float("inf"), float("inf")
        for _ in range(_RUNS):
            figures = min(figures, seconds(lambda: compare_tensors(*tensors)))
            drawing = min(drawing, seconds(lambda: list(picture_errors(pair))))
    ratio = drawing / figures
    report.add(
        Row(
            f"pictures of the errors of {_WEIGHTS:,} weights, growing, one core",
            f"{milliseconds(drawing)} ({1e9 * drawing / _WEIGHTS:.2f} ns a weight)",
            f"figures alone {milliseconds(figures)}",
            f"{ratio:.2f}× as long",
            "≤ 2×",
            ratio <= 2,
        )
    )
    assert ratio <= 2


@pytest.mark.skipif(sys.platform != "linux", reason="reads the most memory from /proc")
@pytest.mark.parametrize("what", ["figures", "pictures"])
def test_compare_takes_at_most_64_mib(tmp_path: Path, report: Report, what: str) -> None:
    paths = _write(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", _COMPARE_AND_MEASURE, *map(str, paths), what],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    peak = int(done.stdout)
    report.add(
        Row(
            f"memory for {what} of {_WEIGHTS:,} pairs on two threads, over the idle program",
            f"{peak / (1 << 20):.1f} MiB",
            f"both as float32: {8 * _WEIGHTS >> 20} MiB",
            f"{8 * _WEIGHTS / peak:.0f}× less",
            "≤ 64 MiB",
            peak <= _MEMORY,
        )
    )
    assert peak <= _MEMORY
