"""Tensors in memory, without a file around them, and blocks of every type to fill them with."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from explorer.formats import Extent, Tensor
from explorer.formats.tensors import Folding
from explorer.formats.weights import WeightReader
from explorer.quantization import TENSOR_TYPES
from explorer.quantization.types import OF_LLAMA_CPP
from explorer.sources import ByteSource, MemorySource

QUANTIZED = [n for n, kind in TENSOR_TYPES.items() if kind.quantized and kind in OF_LLAMA_CPP]
"""ggml's types; of ik_llama.cpp's there are tests in `quantization/test_ik.py`."""

# Bytes of a block where half floats lie: random ones there are often NaN or huge.
HALVES = {
    "F16": (0,),
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "TQ2_0": (64,),
}


def tensor_of(
    type_name: str,
    content: bytes | ByteSource,
    shape: tuple[int, ...],
    byte_order: Literal["little", "big"] = "little",
    damage: str | None = None,
) -> Tensor:
    """Return a tensor whose bytes are all of a source, or a bytes object."""
    source = content if isinstance(content, ByteSource) else MemorySource(content, "made.gguf")
    extent = Extent(source, 0, source.size)
    count = int(np.prod(shape, dtype=np.int64))
    kind = TENSOR_TYPES[type_name]
    return Tensor("made.weight", shape, kind, (extent,), count, None, damage, byte_order)


def float_tensor(values: Any, shape: tuple[int, ...] | None = None) -> Tensor:
    """Return an F32 tensor of these weights."""
    array = np.ascontiguousarray(values, "<f4")
    return tensor_of("F32", array.tobytes(), array.shape if shape is None else shape)


def random_blocks(type_name: str, count: int, seed: int = 0) -> NDArray[np.uint8]:
    """Return blocks of random bytes whose scales are of usual size: uint8 [count, block_bytes]."""
    random = np.random.default_rng(seed)
    kind = TENSOR_TYPES[type_name]
    blocks = random.integers(0, 256, (count, kind.block_bytes), np.uint8)
    for offset in HALVES.get(type_name, ()):
        scales = random.uniform(0.001, 0.1, count).astype("<f2")
        blocks[:, offset : offset + 2] = scales.view(np.uint8).reshape(count, 2)
    return blocks


def same_bits(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Compare weights bit for bit; NaN is NaN: its sign and payload are the processor's choice."""
    assert ours.dtype == theirs.dtype == np.float32
    ours, theirs = ours.reshape(-1), theirs.reshape(-1)
    same: NDArray[np.bool_] = ours.view(np.uint32) == theirs.view(np.uint32)
    return same | (np.isnan(ours) & np.isnan(theirs))


def assert_same_bits(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> None:
    """Check that weights are equal as `same_bits` compares them."""
    same = same_bits(ours, theirs)
    assert same.all(), f"{np.count_nonzero(~same)} weights differ, the first at {np.argmin(same)}"


class CountingSource(MemorySource):
    """Notes each run of bytes that is read."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content, "counted.gguf")
        self.runs: list[tuple[int, int]] = []

    def read(self, offset: int, length: int) -> bytes:
        self.runs.append((offset, length))
        return super().read(offset, length)

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        self.runs.append((offset, len(buffer)))
        super().read_into(offset, buffer)


def read_rows(tensor: Tensor, start: int, stop: int) -> NDArray[np.float32]:
    """Return some rows of a tensor, float32 [stop - start, columns]."""
    columns = Folding(tensor.shape).columns
    weights = np.empty((stop - start) * columns, np.float32)
    WeightReader(tensor).read_into(start * columns, weights)
    return weights.reshape(stop - start, columns)
