"""Reads and decodes whole blocks of a tensor, however its file lays them out.

Two ways exist: blocks one behind the other, each with its scales; and groups whose codes, scales
and biases are arrays of their own. `WeightReader` makes runs of any weights of either.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.errors import FormatError
from explorer.quantization.convert import swap_byte_order
from explorer.quantization.grouped import StoredGroups, decode_groups
from explorer.quantization.registry import WITHOUT_DECODER, Blocks, decoder, has_decoder

if TYPE_CHECKING:
    from explorer.formats.tensors import Extent, GroupedWeights, Tensor

Values: TypeAlias = NDArray[np.float32]
"""Decoded weights: float32 [n], C-contiguous."""

Stored: TypeAlias = Blocks | StoredGroups
"""Stored blocks, little-endian, uint8 [n, block_bytes]; or the bytes of n groups by array."""

_LET_GO: Final = 8 << 20
"""Bytes that are allocated and freed once; see `_keep_freed_memory`."""


class Runs(Protocol):
    """Runs of whole blocks. Owns buffers: for one thread.

    Attributes:
        unit: Weights of a block.
    """

    unit: int

    def read(self, first: int, count: int) -> Stored:
        """Return `count` blocks from block `first` on, overwritten by the next call.

        Raises:
            SourceError: The file changed since it was opened.
        """

    def decode(self, stored: Stored, out: Values) -> None:
        """Decode what `read` returned into `out`, float32 [blocks * unit]."""

    def block(self, index: int) -> bytes:
        """Return one block's bytes as stored, its arrays' parts one behind the other."""


def check_decodable(tensor: Tensor) -> None:
    """Raise if a tensor's weights cannot be told, before anything is read or allocated.

    Raises:
        FormatError: The file is damaged there, or the tensor's type is not known or has no values.
    """
    what = _fault(tensor)
    if what is not None:
        raise FormatError(f"tensor {tensor.name!r}: {what}", tensor.file, tensor.offset)


def _fault(tensor: Tensor) -> str | None:
    kind = tensor.type
    if kind.known and tensor.damage is not None:
        return tensor.damage
    if tensor.grouped is None and not has_decoder(kind.name):
        reason = WITHOUT_DECODER.get(kind.name, "this program does not know the type")
        return f"weights of type {kind.name} cannot be decoded: {reason}"
    needed = kind.nbytes(tensor.parameters)
    found = tensor.nbytes
    if tensor.grouped is not None and tensor.grouped.global_scale is not None:
        found -= tensor.grouped.global_scale.extent.nbytes
    if needed != found:
        return (
            f"{tensor.parameters} weights of type {kind.name} do not take "
            f"the {found} bytes that the file has for them"
        )
    return None


def runs_of(tensor: Tensor) -> Runs:
    """Return the reader of a tensor's blocks, and load the kernels of its type.

    Raises:
        FormatError: See `check_decodable`.
        SourceError: The file changed since it was opened.
    """
    check_decodable(tensor)
    _keep_freed_memory()
    return BlockRuns(tensor) if tensor.grouped is None else GroupRuns(tensor.grouped)


@cache
def _keep_freed_memory() -> None:
    """Have glibc keep memory that buffers gave back, up to 16 MiB, for the buffers to come.

    It returns free memory above 128 KiB to the system, which hands it out again page by page: that
    took a fifth of the time in a walk over a model of many tensors. Freeing a large piece raises
    that mark to twice its size; see `M_MMAP_THRESHOLD` in mallopt(3). Elsewhere nothing happens.
    """
    np.empty(_LET_GO, np.uint8)


class BlockRuns:
    """Blocks one behind the other, as GGUF stores them, or plain numbers; see `Runs`."""

    def __init__(self, tensor: Tensor) -> None:
        self.unit = tensor.type.block_weights
        self._name = tensor.type.name
        self._blocks = _Items(tensor.extents[0], tensor.type.block_bytes)
        self._swapped = tensor.byte_order == "big"
        self._decode = decoder(self._name)

    def read(self, first: int, count: int) -> Blocks:
        """Read, and bring into little-endian order; see `Runs.read`."""
        raw = self._blocks.read(first, count)
        if self._swapped:
            raw = raw if raw.flags.writeable else raw.copy()
            swap_byte_order(self._name, raw)
        return raw

    def decode(self, stored: Stored, out: Values) -> None:
        """See `Runs.decode`."""
        assert not isinstance(stored, StoredGroups)
        self._decode(stored, out.reshape(len(stored), self.unit))

    def block(self, index: int) -> bytes:
        """Return a block's bytes; see `Runs.block`."""
        return self._blocks.item(index)


class GroupRuns:
    """Groups of codes with scales and biases in arrays of their own; see `Runs`."""

    def __init__(self, grouped: GroupedWeights) -> None:
        layout = grouped.layout
        self.unit = layout.group_size
        self._layout = layout
        self._parts = [_Items(grouped.weight.extent, layout.packed_bytes)]
        self._parts.append(_Items(grouped.scales.extent, layout.scale_bytes))
        if grouped.biases is not None:
            self._parts.append(_Items(grouped.biases.extent, layout.bias_bytes))
        self._factors = _factors_of(grouped)
        self._per_factor = grouped.groups_per_global_scale

    def read(self, first: int, count: int) -> StoredGroups:
        """Read the run from each array; see `Runs.read`."""
        packed, scales, *biases = (part.read(first, count) for part in self._parts)
        factors = self._factors
        if factors is not None and len(factors) > 1:
            factors = factors[np.arange(first, first + count) // self._per_factor]
        return StoredGroups(packed, scales, biases[0] if biases else None, factors)

    def decode(self, stored: Stored, out: Values) -> None:
        """See `Runs.decode`."""
        assert isinstance(stored, StoredGroups)
        decode_groups(self._layout, stored, out)

    def block(self, index: int) -> bytes:
        """Return a group's bytes: codes, scale, bias; see `Runs.block`."""
        return b"".join(part.item(index) for part in self._parts)


class _Items:
    """Items of so many bytes each, one behind the other: blocks, or a part of each group."""

    def __init__(self, extent: Extent, item_bytes: int) -> None:
        self._extent = extent
        self._raw = np.empty((0, item_bytes), np.uint8)

    def read(self, first: int, count: int) -> NDArray[np.uint8]:
        """Return items, uint8 [count, item_bytes]: kept ones, or what the next call overwrites."""
        size = self._raw.shape[1]
        start = self._extent.offset + first * size
        kept = self._extent.source.view(start, count * size)
        if kept is not None:
            return np.frombuffer(kept, np.uint8).reshape(count, size)
        if count > len(self._raw):
            self._raw = np.empty((count, size), np.uint8)
        raw = self._raw[:count]
        self._extent.source.read_into(start, raw.data.cast("B"))
        return raw

    def item(self, index: int) -> bytes:
        """Return one item's bytes; leaves alone what `read` returned."""
        size = self._raw.shape[1]
        return self._extent.source.read(self._extent.offset + index * size, size)


def _factors_of(grouped: GroupedWeights) -> Values | None:
    """Read the global scales."""
    array = grouped.global_scale
    if array is None:
        return None
    extent = array.extent
    return np.frombuffer(extent.source.read(extent.offset, extent.nbytes), "<f4")
