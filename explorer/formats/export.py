"""A tensor's weights as a NumPy file or as CSV, however large: written as they are decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from explorer.formats.tensors import Folding
from explorer.formats.weights import Values, WeightReader
from explorer.parallel import Check, never
from explorer.tabular import TextSink

if TYPE_CHECKING:
    from explorer.formats.tensors import Tensor


_ITEM_BYTES: Final = 4
_PIECE: Final = 1 << 13  # most weights that are text at a time: 3 ms of work, 1 MB


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
        stream: Where to write. Nothing is written if the tensor cannot be decoded.
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


def write_csv(
    tensor: Tensor,
    stream: TextSink,
    check: Check = never,
    progress: Callable[[int], object] | None = None,
) -> None:
    """Write a tensor's weights as comma-separated values, without a header.

    A line runs along the last dimension and the lines are counted through all others, so that a
    tensor of two dimensions is lines of columns. `explorer.tabular` writes a row at a time; here
    one row may have more weights than memory holds.

    Takes and raises what `write_npy` does; `check` is called before every 8,192 weights.
    """
    reader = WeightReader(tensor)
    columns = Folding(tensor.shape).columns
    for chunk in reader.chunks(0, tensor.parameters, check):
        for text in _pieces(chunk.values, chunk.start % columns, columns):
            check()
            stream.write(text)
        if progress is not None:
            progress(chunk.start + chunk.values.size)


def _pieces(values: Values, column: int, columns: int) -> Iterator[str]:
    """Yield weights as text, the first of which is in a column; no piece goes past its line."""
    position = 0
    while position < values.size:
        stop = min(values.size, position + min(_PIECE, columns - column))
        column += stop - position
        end = "\n" if column == columns else ","
        # nine digits distinguish every float32 from its neighbours (IEEE 754, 5.12.2)
        yield ",".join([f"{value:.9g}" for value in values[position:stop].tolist()]) + end
        position, column = stop, column % columns
