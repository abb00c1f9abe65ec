"""Errors of Q4_K against BF16, from the files, against the `gguf` package and NumPy on one core.

Both begin with open files in the disk cache and end with the same figures. The peer does in NumPy
what one would do there, in float64 where that matters and without needless passes; the program also
counts sign flips, zeroed weights, percentiles and saturated codes. They take turns in one process,
so that both meet one machine, and the best of several runs counts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from explorer.analysis.errors.compare import TensorErrors, compare_tensors
from explorer.formats import open_model
from explorer.quantization import dequantize
from tests.benchmarks.report import Report
from tests.benchmarks.timing import best_seconds
from tests.helpers.gguf_writer import GgufFile, TensorSpec
from tests.helpers.tensors import random_blocks

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

_WEIGHTS = 1 << 25
_COLUMNS = 4096


def _write(folder: Path) -> tuple[Path, Path]:
    """Write the two files: weights as BF16, and their blocks."""
    blocks = random_blocks("Q4_K", _WEIGHTS // 256).tobytes()
    values = dequantize(blocks, "Q4_K")
    values += np.random.default_rng(1).normal(0, 0.02, _WEIGHTS).astype(np.float32)
    halves = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    paths = []
    for name, kind, raw in (("reference", 30, halves), ("candidate", 12, blocks)):
        shape = (_COLUMNS, _WEIGHTS // _COLUMNS)
        file = GgufFile(tensors=[TensorSpec("weights", shape, kind, raw)])
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
        mine, theirs = best_seconds(lambda: compare_tensors(*pair), lambda: _peer(gguf, stored))
    what = "errors of Q4_K against BF16, one core"
    report.compare(what, mine, ("`gguf` and NumPy", theirs), most=1 / 8, weights=_WEIGHTS)
