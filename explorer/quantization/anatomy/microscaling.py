"""FP4 blocks, taken apart; their layouts are drawn in `decoders/microscaling.py`.

Levels are E2M1's own values and scales the stored ones. The decoders double the former and halve
the latter, as ggml does, which gives the same products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.quantization.anatomy.contract import Anatomy, BlockField
from explorer.quantization.anatomy.legacy import copy_nibbles
from explorer.quantization.decoders.microscaling import mxfp4_scale, nvfp4_scale
from explorer.quantization.jit import f32, kernel

_MAGNITUDES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
# ggml reads the code of -0 as 0.
_LEVELS = np.array(_MAGNITUDES + [0.0 - magnitude for magnitude in _MAGNITUDES], np.float32)


@kernel
def codes_of_mxfp4(blocks: Any, codes: Any) -> None:
    """Tell the codes of MXFP4; blocks: uint8 [n, 17], codes: [n, 32]."""
    for b in range(blocks.shape[0]):
        copy_nibbles(blocks, b, 1, codes)


@kernel
def scales_of_mxfp4(blocks: Any, scales: Any, _minima: Any) -> None:
    """Tell the scales of MXFP4; blocks: uint8 [n, 17], scales: [n, 1]."""
    for b in range(blocks.shape[0]):
        scales[b, 0] = mxfp4_scale(blocks, b) * f32(2.0)


@kernel
def codes_of_nvfp4(blocks: Any, codes: Any) -> None:
    """Tell the codes of NVFP4; blocks: uint8 [n, 36], codes: [n, 64]."""
    for b in range(blocks.shape[0]):
        for k in range(4):
            for i in range(8):
                codes[b, 16 * k + i] = blocks[b, 4 + 8 * k + i] & 15
                codes[b, 16 * k + 8 + i] = blocks[b, 4 + 8 * k + i] >> 4


@kernel
def scales_of_nvfp4(blocks: Any, scales: Any, _minima: Any) -> None:
    """Tell the scales of NVFP4; blocks: uint8 [n, 36], scales: [n, 4]."""
    for b in range(blocks.shape[0]):
        for k in range(4):
            scales[b, k] = nvfp4_scale(blocks, b, k) * f32(2.0)


ANATOMIES = {
    "MXFP4": Anatomy(
        levels=_LEVELS,
        weights_per_scale=32,
        has_minimum=False,
        uniform=False,
        fields=(
            BlockField("e", 0, 1, "E8M0", "scale of all weights, a power of two"),
            BlockField("qs", 1, 16, "4-bit codes", "weights 0-15 in the low halves, 16-31 in high"),
        ),
        take_codes=codes_of_mxfp4,
        take_scales=scales_of_mxfp4,
    ),
    "NVFP4": Anatomy(
        levels=_LEVELS,
        weights_per_scale=16,
        has_minimum=False,
        uniform=False,
        fields=(
            BlockField("d", 0, 4, "UE4M3", "one scale for each 16 weights"),
            BlockField("qs", 4, 32, "4-bit codes", "of each 16 weights: 0-7 low halves, 8-15 high"),
        ),
        take_codes=codes_of_nvfp4,
        take_scales=scales_of_nvfp4,
    ),
}
