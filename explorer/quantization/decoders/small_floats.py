"""Floats of eight bits and less, without scales: each code is looked up in its format's table.

::

    F8_*  | code             |    F6_*  | four codes in three bytes, lowest bit first
    F4    | two codes, the low nibble first

Source: `safetensors_and_blobs.md` section 1; the values: `float_formats`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.quantization import float_formats as formats
from explorer.quantization.arrays import Blocks, Weights
from explorer.quantization.jit import kernel, u32


@kernel
def look_up_bytes(table: Any, codes: Any, out: Any) -> None:
    """Look up codes of eight bits; table: float32 [256], codes: uint8 [n], out: float32 [n]."""
    for i in range(out.size):
        out[i] = table[codes[i]]


@kernel
def _look_up_sixes(table: Any, blocks: Any, out: Any) -> None:
    for b in range(len(blocks)):
        codes = u32(blocks[b, 0]) | u32(blocks[b, 1]) << u32(8) | u32(blocks[b, 2]) << u32(16)
        for i in range(4):
            out[b, i] = table[codes >> u32(6 * i) & u32(63)]


@kernel
def _look_up_nibbles(table: Any, blocks: Any, out: Any) -> None:
    for b in range(len(blocks)):
        out[b, 0] = table[blocks[b, 0] & 15]
        out[b, 1] = table[blocks[b, 0] >> 4]


def _bytes(table: NDArray[np.float32]) -> Callable[[Blocks, Weights], None]:
    return lambda blocks, out: look_up_bytes(table, blocks.reshape(-1), out.reshape(-1))


def _sixes(table: NDArray[np.float32]) -> Callable[[Blocks, Weights], None]:
    return lambda blocks, out: _look_up_sixes(table, blocks, out)


def _nibbles(table: NDArray[np.float32]) -> Callable[[Blocks, Weights], None]:
    return lambda blocks, out: _look_up_nibbles(table, blocks, out)


DECODERS = {
    "F8_E4M3": _bytes(formats.E4M3),
    "F8_E5M2": _bytes(formats.E5M2),
    "F8_E8M0": _bytes(formats.E8M0),
    "F8_E4M3FNUZ": _bytes(formats.E4M3_FNUZ),
    "F8_E5M2FNUZ": _bytes(formats.E5M2_FNUZ),
    "F6_E2M3": _sixes(formats.E2M3),
    "F6_E3M2": _sixes(formats.E3M2),
    "F4": _nibbles(formats.E2M1),
}
