"""Where the kernels keep what in their arrays, and how the kernels are loaded.

Apart from the kernels, so that nothing has to import Numba before the first weight is read.
"""

from __future__ import annotations

import threading
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.formats.tensors import Tensor
from explorer.formats.weights import CHUNK_WEIGHTS, Stored, Values
from explorer.quantization.grouped import StoredGroups
from explorer.quantization.registry import Blocks, decoder, decoder_callback
from explorer.quantization.types import TensorType

# Statistics of finite values, float64 [FIGURES]: their number, how many of them are zeros, …
# M2 to M4 are sums of powers of the distance from the mean. A float64 counts exactly up to 2^53.
FINITE, ZEROS, MIN, MAX, MEAN, M2, M3, M4, FIGURES = range(9)

# Counts of the others, int64 [OTHERS]:
NAN, POSITIVE_INF, NEGATIVE_INF, OTHERS = range(4)

LANES: Final = 64
"""Partial sums side by side."""

PIECE: Final = 4096
"""Values whose statistics are taken together: 16 KiB stay in the first-level cache."""

KEYS: Final = 1 << 16
"""Counters of `count_keys`: one for each upper half of a float32's bits."""


@cache
def kernels() -> Any:
    """Return the module of the loops over weights; the first call takes a fifth of a second."""
    return import_module("explorer.analysis.kernels")


@cache
def kernels_blocks() -> Any:
    """Return the module of the loops over blocks that they decode."""
    return import_module("explorer.analysis.kernels")


# Blocks that are decoded within the loops that take up their weights.


class BlockDecoding:
    """How blocks of one type are decoded within kernels. Owns buffers: one thread, one of these.

    Attributes:
        callback: The decoder, as an argument for a kernel.
        weights: float32 [PIECE / block_weights, block_weights], for the kernel to decode to.
        unit: Weights of a block.
    """

    def __init__(self, kind: TensorType) -> None:
        self.unit = kind.block_weights
        self.callback = decoder_callback(kind.name)
        self.weights = np.empty((PIECE // self.unit, self.unit), np.float32)
        self._decode = decoder(kind.name)
        self._chunk: NDArray[np.float32] = np.empty((0, self.unit), np.float32)

    def decode(self, blocks: Blocks) -> Values:
        """Return up to CHUNK_WEIGHTS weights, float32 [n], overwritten by the next ones."""
        if len(blocks) > len(self._chunk):
            self._chunk = np.empty((CHUNK_WEIGHTS // self.unit, self.unit), np.float32)
        chunk = self._chunk[: len(blocks)]
        self._decode(blocks, chunk)
        return chunk.reshape(-1)


class ThreadDecoding(threading.local):
    """What decodes a tensor's blocks within kernels, for each thread that asks its own.

    Attributes:
        decoding: The thread's own. None where kernels cannot decode: weights are plain numbers,
            which NumPy converts, or scales are arrays of their own, or there is a code book.
    """

    def __init__(self, tensor: Tensor) -> None:  # Python calls it again in each thread
        super().__init__()
        self.decoding = BlockDecoding(tensor.type) if _decodes_in_kernels(tensor) else None

    def taking(self, stored: Stored) -> tuple[Blocks, BlockDecoding]:
        """Return blocks, and what decodes them."""
        assert self.decoding is not None
        assert not isinstance(stored, StoredGroups)
        return stored, self.decoding


def _decodes_in_kernels(tensor: Tensor) -> bool:
    if tensor.grouped is not None or PIECE % tensor.type.block_weights:
        return False
    return decoder_callback(tensor.type.name) is not None
