"""Stored blocks become float32: any run of a tensor's weights, in bounded memory.

Bytes come by positioned reads into a buffer that is used again, and are decoded in pieces that fit
into the processor's cache, so that whoever walks over the weights finds them there. Reading and
decoding release the GIL. The kernels, and Numba with them, are loaded by the first `WeightReader`:
opening and listing a model never gets here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from explorer.formats.weights_runs import Stored, Values, runs_of
from explorer.in_order import Check, never

if TYPE_CHECKING:
    from explorer.formats.tensors import Tensor

CHUNK_WEIGHTS: Final = 1 << 19
"""Most weights of a chunk: 2 MiB, which stays in a core's share of the last cache.

A chunk costs some 25 µs of Python, during which other threads wait. Of Q4_K statistics on two cores
of 1 MiB second-level cache: with half of this size one thread was 3 % slower, and two were 1.71
instead of 1.75 times as fast; with twice of it, 3 % slower and 1.69 times.
"""

RUN_WEIGHTS: Final = 1 << 21
"""Most weights of a run of blocks that nobody decoded: some 4 ms of work."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A bounded run of decoded weights. Its arrays are overwritten by the chunk after it.

    Attributes:
        start: Flat, row-major index of the first weight in the tensor.
        values: float32 [n].
        stored: The blocks that `values` lie in, for taking them apart.
    """

    start: int
    values: Values
    stored: Stored


class WeightReader:
    """Reads and decodes runs of one tensor's weights. Owns buffers: one thread, one reader.

    Attributes:
        tensor: The tensor.
        unit: Weights that are decoded together: those of a block.

    Raises:
        FormatError: The file is damaged there, or the tensor's type is not known or has no values.
        SourceError: The file changed since it was opened.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._runs = runs_of(tensor)
        self.unit = self._runs.unit
        self._chunk_units = max(1, CHUNK_WEIGHTS // self.unit)
        self._values: Values = np.empty(0, np.float32)

    def block(self, index: int) -> bytes:
        """Return the stored bytes of one block, as they are in the file.

        A weight whose scales are arrays of their own has groups for blocks: codes, scale, bias.

        Raises:
            IndexError: There is no such block.
            SourceError: The file changed since it was opened.
        """
        if not 0 <= index < self.tensor.parameters // self.unit:
            raise IndexError(f"block {index} of {self.tensor.parameters // self.unit}")
        return self._runs.block(index)

    def read_into(self, start: int, out: Values, check: Check = never) -> None:
        """Fill `out` with the weights from flat index `start` on; reads only their blocks.

        Args:
            start: First weight.
            out: float32 [n], C-contiguous. Whole blocks are decoded in their place.
            check: Called before every chunk; raises to stop.

        Raises:
            IndexError: The run leaves the tensor.
            SourceError: The file changed since it was opened.
        """
        position, stop = self._checked(start, start + out.size)
        while position < stop:
            check()
            rest = out[position - start :]
            first, skipped = divmod(position, self.unit)
            count = min(self._chunk_units, rest.size // self.unit)
            if skipped or not count:  # a part of a block
                taken = min(self.unit - skipped, rest.size)
                rest[:taken] = self._decode(first, 1)[0][skipped : skipped + taken]
            else:
                taken = count * self.unit
                self._runs.decode(self._runs.read(first, count), rest[:taken])
            position += taken

    def chunks(self, start: int, stop: int, check: Check = never) -> Iterator[Chunk]:
        """Yield the weights from flat index `start` to `stop` in order; reads only their blocks.

        Chunks begin and end at blocks, except at the two ends of the run.

        Args:
            start: First weight.
            stop: Behind the last weight.
            check: Called before every chunk; raises to stop.

        Raises:
            IndexError: The run leaves the tensor.
            SourceError: The file changed since it was opened.
        """
        position, stop = self._checked(start, stop)
        while position < stop:
            check()
            first, skipped = divmod(position, self.unit)
            count = min(self._chunk_units, -(-stop // self.unit) - first)
            values, stored = self._decode(first, count)
            end = min(stop, (first + count) * self.unit)
            yield Chunk(position, values[skipped : skipped + end - position], stored)
            position = end

    def runs(self, start: int, stop: int, check: Check = never) -> Iterator[Stored]:
        """Yield the blocks of the weights from flat index `start` to `stop` in order, not decoded.

        For kernels that decode by themselves.

        Args:
            start: First weight, the first of a block.
            stop: Behind the last weight, the last of a block.
            check: Called before every run; raises to stop.

        Raises:
            IndexError: The run leaves the tensor, or does not begin and end at blocks.
            SourceError: The file changed since it was opened.
        """
        self._checked(start, stop)
        if start % self.unit or stop % self.unit:
            raise IndexError(f"weights {start} to {stop} are no whole blocks of {self.unit}")
        step = max(1, RUN_WEIGHTS // self.unit)
        end = stop // self.unit
        for first in range(start // self.unit, end, step):
            check()
            yield self._runs.read(first, min(step, end - first))

    def _checked(self, start: int, stop: int) -> tuple[int, int]:
        if not 0 <= start <= stop <= self.tensor.parameters:
            raise IndexError(f"weights {start} to {stop} of {self.tensor.parameters}")
        return start, stop

    def _decode(self, first: int, count: int) -> tuple[Values, Stored]:
        """Decode whole blocks into the reader's own buffer."""
        size = count * self.unit
        if size > self._values.size:
            self._values = np.empty(size, np.float32)
        values = self._values[:size]
        stored = self._runs.read(first, count)
        self._runs.decode(stored, values)
        return values, stored
