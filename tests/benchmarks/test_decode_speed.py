"""Decoding, against the `gguf` package's NumPy code on the same bytes; one core, one thread."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from explorer.quantization import TENSOR_TYPES, dequantize
from explorer.quantization.registry import block_layout, has_block_layout
from tests.benchmarks.report import Report, Row
from tests.benchmarks.timing import best_seconds

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

_WEIGHTS = 4 << 20
_ROW = 4096
# How many times faster at least; types that are not named: four times
_FLOORS = {
    "Q4_K": 12,
    "Q5_K": 12,
    "Q4_0": 7,
    "Q6_K": 7,
    "Q2_K": 7,
    "Q3_K": 7,
    "Q8_0": 6,
    "MXFP4": 6,
}
_TYPES = [
    name
    for name, kind in TENSOR_TYPES.items()
    if (kind.quantized or name in ("F16", "BF16")) and name not in ("Q8_1", "Q8_K", "Q1_0", "Q2_0")
]


def _rows(name: str) -> NDArray[np.uint8]:
    """Return rows of random codes whose half-float scales are of usual size."""
    kind = TENSOR_TYPES[name]
    count = _WEIGHTS // kind.block_weights
    blocks = np.random.default_rng(0).integers(0, 256, (count, kind.block_bytes), np.uint8)
    for field in block_layout(name).fields if has_block_layout(name) else ():
        if field.dtype == "f16":
            blocks[:, field.offset : field.offset + 2] = [0x00, 0x20]  # 2^-7
    return blocks.reshape(_WEIGHTS // _ROW, -1)


@pytest.mark.parametrize("name", _TYPES)
def test_decoding_is_several_times_faster_than_the_gguf_package(name: str, report: Report) -> None:
    gguf = pytest.importorskip("gguf")
    kind = getattr(gguf.GGMLQuantizationType, name, None)
    if kind is None:
        pytest.skip(f"this gguf package does not know {name}")
    rows = _rows(name)
    out = np.empty(_WEIGHTS, np.float32)
    with np.errstate(all="ignore"):
        wanted = gguf.quants.dequantize(rows, kind)
        peer = best_seconds(lambda: gguf.quants.dequantize(rows, kind))
    dequantize(rows, name, out)  # compiles
    np.testing.assert_array_equal(out, wanted.reshape(-1))
    ours = best_seconds(lambda: dequantize(rows, name, out))
    ratio, floor = peer / ours, _FLOORS.get(name, 4)
    report.add(
        Row(
            f"decode {name}, 4 Mi weights",
            f"{_WEIGHTS / ours / 1e9:.2f} G weights/s",
            f"gguf package {_WEIGHTS / peer / 1e9:.2f} G weights/s",
            f"{ratio:.1f}× faster",
            f"≥ {floor}×",
            ratio >= floor,
        )
    )
    assert ratio >= floor
