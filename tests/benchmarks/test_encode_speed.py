"""Quantizing, against the `gguf` package's NumPy code on the same weights; one core, one thread."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from explorer.quantization import quantize
from tests.benchmarks.report import Report, Row
from tests.benchmarks.timing import best_seconds

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

_WEIGHTS = 1 << 20
_ROW = 4096
_WITH_PEER = ("BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4")
_FLOORS = {"BF16": 8}  # waits for memory; types that are not named: ten times
_SEARCHED = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS")


def _weights() -> NDArray[np.float32]:
    generator = np.random.default_rng(0)
    return (generator.standard_normal((_WEIGHTS // _ROW, _ROW)) * 0.02).astype(np.float32)


def _row(name: str, ours: float, peer: float, peer_name: str, floor: float) -> Row:
    return Row(
        f"quantize {name}, 1 Mi weights",
        f"{_WEIGHTS / ours / 1e6:,.0f} M weights/s",
        f"{peer_name} {_WEIGHTS / peer / 1e6:,.0f} M weights/s",
        f"{peer / ours:.1f}× faster",
        f"≥ {floor}×",
        peer / ours >= floor,
    )


@pytest.mark.parametrize("name", _WITH_PEER)
def test_quantizing_is_8_to_10_times_faster_than_the_gguf_package(
    name: str, report: Report
) -> None:
    gguf = pytest.importorskip("gguf")
    kind = gguf.GGMLQuantizationType[name]
    values = _weights()
    wanted = gguf.quants.quantize(values, kind)
    assert np.array_equal(quantize(values, name), wanted.view(np.uint8).reshape(-1))  # compiles
    ours = best_seconds(lambda: quantize(values, name))
    peer = best_seconds(lambda: gguf.quants.quantize(values, kind))
    row = _row(name, ours, peer, "gguf package", _FLOORS.get(name, 10))
    report.add(row)
    assert row.met


@pytest.mark.parametrize("name", _SEARCHED)
def test_a_search_takes_at_most_5_times_as_long_as_the_gguf_package_without_one(
    name: str, report: Report
) -> None:
    """No peer in Python has these types: its Q4_0, which searches nothing, is the measure."""
    gguf = pytest.importorskip("gguf")
    values = _weights()
    quantize(values, name)
    ours = best_seconds(lambda: quantize(values, name))
    peer = best_seconds(lambda: gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q4_0))
    row = _row(name, ours, peer, "gguf package, Q4_0", 0.2)
    report.add(row)
    assert row.met
