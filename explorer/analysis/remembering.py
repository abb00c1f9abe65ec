"""A small tensor's bytes are read once, though they are walked over twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from explorer.formats.tensors import Extent, StoredArray, Tensor
from explorer.sources import ByteSource

REMEMBERED_BYTES: Final = 16 << 20
"""Most stored bytes of a tensor that are kept in memory between two walks."""


class _Remembering(ByteSource):
    """Keeps what was looked at, for the same looks to come. Closing is its owner's business."""

    def __init__(self, source: ByteSource) -> None:
        self.path = source.path
        self.size = source.size
        self._source = source
        self._pieces: dict[tuple[int, int], memoryview] = {}

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        self._source.read_into(offset, buffer)

    def view(self, offset: int, length: int) -> memoryview:
        # handed out as it is: copies would hold the interpreter's lock, and so other threads
        piece = self._pieces.get((offset, length))
        if piece is None:
            content = np.empty(self._checked(offset, length), np.uint8)
            self._source.read_into(offset, content.data)
            piece = self._pieces[offset, length] = content.data.toreadonly()
        return piece

    def close(self) -> None:
        """Do nothing: the model's own source is closed with the model."""


def remembered_bytes(tensor: Tensor) -> int:
    """Return how many stored bytes of a tensor are kept in memory while it is walked over."""
    return tensor.nbytes if tensor.nbytes <= REMEMBERED_BYTES else 0


def remembering(tensor: Tensor) -> Tensor:
    """Return the tensor, reading from memory what was read before, if it is small enough."""
    if not remembered_bytes(tensor):
        return tensor
    extents = tuple(map(_extent, tensor.extents))
    grouped = tensor.grouped
    if grouped is not None:
        grouped = replace(
            grouped,
            weight=_array(grouped.weight),
            scales=_array(grouped.scales),
            biases=None if grouped.biases is None else _array(grouped.biases),
        )
    return replace(tensor, extents=extents, grouped=grouped)


def _extent(extent: Extent) -> Extent:
    return replace(extent, source=_Remembering(extent.source))


def _array(array: StoredArray) -> StoredArray:
    return replace(array, extent=_extent(array.extent))
