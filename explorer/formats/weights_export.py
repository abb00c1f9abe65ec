"""A tensor's weights as a NumPy file, however large: written as they are decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from explorer.formats.weights import Check, WeightReader, never

if TYPE_CHECKING:
    from explorer.formats.tensors import Tensor

_ITEM_BYTES = 4


def npy_bytes(tensor: Tensor) -> int:
    """Return about how many bytes `write_npy` will write: a little more than it will."""
    return _ITEM_BYTES * tensor.parameters + 4096


def write_npy(
    tensor: Tensor,
    stream: BinaryIO,
    check: Check = never,
    progress: Callable[[int], object] | None = None,
) -> None:
    """Write a tensor's weights in the .npy format, version 1.0: float32, little-endian, row-major.

    Args:
        tensor: The tensor.
        stream: Where to write. Nothing is written if the tensor cannot be decoded at all.
        check: Called before every chunk; raises to stop.
        progress: Called with the number of weights written so far.

    Raises:
        FormatError: The file is damaged there, or the type's weights cannot be decoded.
        OSError: The stream cannot be written.
        SourceError: The file changed since it was opened.
    """
    reader = WeightReader(tensor)
    header = {"descr": "<f4", "fortran_order": False, "shape": tensor.shape}
    np.lib.format.write_array_header_1_0(stream, header)
    for chunk in reader.chunks(0, tensor.parameters, check):
        stream.write(chunk.values.astype("<f4", copy=False).data)
        if progress is not None:
            progress(chunk.start + chunk.values.size)
