"""Decoding weights with companions, against NumPy in blocks of 256 rows on the same bytes.

Both sides decode 32 Mi weights block by block into one buffer that is used again, which is how the
program reads a tensor. NumPy's side is written with care: table look-ups through `np.take`, all
operations into buffers that are there.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from explorer.quantization.grouped.kernels import decode_groups
from explorer.quantization.grouped.layout import GroupedLayout, Mode, StoredGroups
from explorer.quantization.types import E2M1, E4M3, E8M0_OF_MLX
from tests.benchmarks.report import Report, Row, milliseconds
from tests.benchmarks.timing import best_seconds

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

_ROWS, _COLUMNS, _BLOCK = 8192, 4096, 256
_LAYOUTS = {
    "int4": GroupedLayout(Mode.AFFINE, 4, 64, "BF16", "BF16"),
    "int8": GroupedLayout(Mode.AFFINE, 8, 64, "BF16", "BF16"),
    "nvfp4": GroupedLayout(Mode.NVFP4, 4, 16, "U8"),
    "mxfp4": GroupedLayout(Mode.MXFP4, 4, 32, "U8"),
    "mxfp8": GroupedLayout(Mode.MXFP8, 8, 32, "U8"),
}


def _stored(layout: GroupedLayout) -> StoredGroups:
    """Return codes of every value and scales as models have them: finite, near 2^-6."""
    draw = np.random.default_rng(5)
    groups = _ROWS * _COLUMNS // layout.group_size
    packed = draw.integers(0, 256, groups * layout.packed_bytes, dtype=np.uint8)
    if layout.mode is Mode.AFFINE:
        floats = draw.normal(0, 2**-6, (2, groups)).astype(np.float32)
        scales, biases = (floats.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        return StoredGroups(packed, scales, biases)
    low = 1 if layout.mode is Mode.NVFP4 else 110
    return StoredGroups(packed, draw.integers(low, low + 30, groups, dtype=np.uint8))


def _blocks(layout: GroupedLayout, stored: StoredGroups) -> list[StoredGroups]:
    groups = _BLOCK * _COLUMNS // layout.group_size
    count = _ROWS // _BLOCK

    def cut(raw: NDArray[np.uint8] | None, width: int) -> list[NDArray[np.uint8] | None]:
        return [None] * count if raw is None else list(raw.reshape(count, groups * width))

    parts = zip(
        cut(stored.packed, layout.packed_bytes),
        cut(stored.scales, layout.scale_bytes),
        cut(stored.biases, layout.bias_bytes),
        strict=True,
    )
    return [StoredGroups(packed, scales, biases) for packed, scales, biases in parts]


class _NumpyDecoder:
    """The same in NumPy, with every buffer made once."""

    def __init__(self, layout: GroupedLayout) -> None:
        self._layout = layout
        weights = _BLOCK * _COLUMNS
        self._codes = np.empty((weights // layout.group_size, layout.group_size), np.uint8)

    def __call__(self, stored: StoredGroups, out: NDArray[np.float32]) -> None:
        layout, codes = self._layout, self._codes
        if layout.bits == 8:
            codes = stored.packed.reshape(codes.shape)
        else:
            packed = stored.packed.reshape(len(codes), -1)
            np.bitwise_and(packed, 15, out=codes[:, ::2])
            np.right_shift(packed, 4, out=codes[:, 1::2])
        if layout.mode is Mode.AFFINE:
            assert stored.biases is not None
            np.multiply(codes, self._widened(stored.scales), out=out, dtype=np.float32)
            np.add(out, self._widened(stored.biases), out=out)
            return
        np.take(E4M3 if layout.bits == 8 else E2M1, codes, out=out, mode="clip")
        table = E4M3 if layout.mode is Mode.NVFP4 else E8M0_OF_MLX
        np.multiply(out, table[stored.scales][:, None], out=out)

    @staticmethod
    def _widened(halves: NDArray[np.uint8]) -> NDArray[np.float32]:
        widened = halves.view(np.uint16).astype(np.uint32)
        widened <<= 16
        return widened.view(np.float32)[:, None]


@pytest.mark.parametrize("name", _LAYOUTS)
def test_decode_3_times_faster_than_numpy(name: str, report: Report) -> None:
    layout = _LAYOUTS[name]
    blocks = _blocks(layout, _stored(layout))
    out = np.empty((_BLOCK * _COLUMNS // layout.group_size, layout.group_size), np.float32)
    wanted = np.empty_like(out)
    by_numpy = _NumpyDecoder(layout)
    by_numpy(blocks[0], wanted)
    decode_groups(layout, blocks[0], out)  # compiles
    assert out.tobytes() == wanted.tobytes()

    ours = best_seconds(lambda: [decode_groups(layout, block, out) for block in blocks])
    peer = best_seconds(lambda: [by_numpy(block, wanted) for block in blocks])
    ratio, speed = peer / ours, _ROWS * _COLUMNS / ours / 1e9
    report.add(
        Row(
            f"decode 32 Mi weights of {name}",
            f"{milliseconds(ours)} ({speed:.1f} G/s)",
            f"NumPy {milliseconds(peer)}",
            f"{ratio:.1f}× faster",
            "≥ 3×",
            ratio >= 3,
        )
    )
    assert ratio >= 3
