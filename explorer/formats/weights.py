"""Stored blocks become float32: any run of a tensor's weights, in bounded memory.

Bytes come by positioned reads into a buffer that is used again, and are decoded in pieces that fit
into the processor's cache. Reading and decoding release the GIL. The kernels, and Numba with them,
are loaded by the first `WeightReader`: opening and listing a model never gets here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.errors import FormatError
from explorer.parallel import Check, PerThread, never
from explorer.quantization.convert import swap_byte_order
from explorer.quantization.huggingface.layout import (
    LineReader,
    Lines,
    StoredLines,
    line_kernels,
    line_reader,
)
from explorer.quantization.registry import (
    PIECE,
    WITHOUT_DECODER,
    Blocks,
    QuantizationError,
    decoder,
    decoder_address,
    gather_rows,
    has_decoder,
    read_only,
)

if TYPE_CHECKING:
    from explorer.formats.tensors import CompanionWeights, StoredArray, Tensor


Values: TypeAlias = NDArray[np.float32]
"""Decoded weights: float32 [n], C-contiguous."""

Stored: TypeAlias = Blocks | StoredLines
"""Stored blocks, little-endian, uint8 [n, block_bytes]; or n units of lines, with their codes and
scales unpacked."""


def check_decodable(tensor: Tensor) -> None:
    """Raise if a tensor's weights cannot be decoded, before anything is read or allocated.

    Raises:
        FormatError: The file is damaged there, or the tensor's type is not known or has no values.
    """
    kind = tensor.type
    needed, found = kind.nbytes_of(tensor.shape), tensor.nbytes
    if kind.known and tensor.damage is not None:
        what = tensor.damage
    elif tensor.companions is not None and not tensor.companions.layout.reader:
        what = f"weights of type {kind.name} are not read: how they are packed was not verified"
    elif tensor.companions is not None:
        return  # what the parts hold was checked when they were joined
    elif not has_decoder(kind.name):
        reason = WITHOUT_DECODER.get(kind.name, "this program does not know the type")
        what = f"weights of type {kind.name} cannot be decoded: {reason}"
    elif needed != found:
        what = (
            f"{tensor.parameters} weights of type {kind.name} do not take "
            f"the {found} bytes that the file has for them"
        )
    else:
        return
    raise FormatError(f"tensor {tensor.name!r}: {what}", tensor.file, tensor.offset)


class _BlockRuns:
    """Reads and decodes blocks one behind the other, as GGUF stores them, or plain numbers.

    Attributes:
        unit: Weights of a block.
        stride: Weights that are best read together: a multiple of `unit`.
        address: See `registry.decoder_address`.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.unit = self.stride = tensor.type.block_weights
        self._name = tensor.type.name
        self._extent = extent = tensor.extents[0]
        extent.source.expect(extent.offset, extent.nbytes)
        self._raw: Blocks = np.empty((0, tensor.type.block_bytes), np.uint8)
        self._swapped = tensor.byte_order == "big"
        self._decode, self.address = decoder(self._name), decoder_address(self._name)

    def read(self, first: int, count: int) -> Blocks:
        """Return `count` blocks from block `first` on, overwritten by the next call."""
        size = self._raw.shape[1]
        if count > len(self._raw):
            self._raw = np.empty((count, size), np.uint8)
        raw = self._raw[:count]
        self._extent.source.read_into(self._extent.offset + first * size, raw.data.cast("B"))
        if self._swapped:
            swap_byte_order(self._name, raw)
        return raw

    def decode(self, stored: Stored, out: Values) -> None:
        """Decode what `read` returned into `out`, float32 [blocks * unit]."""
        assert isinstance(stored, np.ndarray)
        self._decode(stored, out.reshape(len(stored), self.unit))

    def block(self, index: int) -> bytes:
        """Return one block's bytes as stored; does not touch what `read` returned."""
        size = self._raw.shape[1]
        return self._extent.source.read(self._extent.offset + index * size, size)


class _RowRuns(_BlockRuns):
    """Reads and decodes blocks that are not stored whole, and makes them whole.

    They share a header of their row or a trailer of the tensor, or several rows are interleaved.
    """

    def __init__(self, tensor: Tensor) -> None:
        kind = self._type = tensor.type
        self.unit = kind.block_weights
        columns = tensor.shape[-1] if tensor.shape else 1
        together = kind.rows * columns
        self.stride = together if 0 < together <= CHUNK_WEIGHTS else self.unit
        self._row_blocks = columns // self.unit
        self._rows_bytes = kind.rows * (kind.row_header + self._row_blocks * kind.block_bytes)
        self._extent = extent = tensor.extents[0]
        extent.source.expect(extent.offset, extent.nbytes)
        self._trailer = np.empty(kind.trailer, np.uint8)
        self._read_into(extent.nbytes - kind.trailer, self._trailer)
        self._decode, self.address = decoder(kind.name), decoder_address(kind.name)
        self._swapped = tensor.byte_order == "big"
        self._raw = self._out = np.empty(0, np.uint8)

    def read(self, first: int, count: int) -> Blocks:
        size = count * self._type.whole_bytes
        if size > self._out.size:
            self._out = np.empty(size, np.uint8)
        out = self._out[:size].reshape(count, self._type.whole_bytes)
        together, done = self._row_blocks * self._type.rows, 0
        while done < count:
            number, place = divmod(first + done, together)
            rows = 0 if place else (count - done) // together
            if rows:
                taken = rows * together
                self._fill_rows(number, rows, out[done : done + taken])
            else:
                row, block = divmod(place, self._row_blocks)
                taken = min(self._row_blocks - block, count - done)
                out[done : done + taken] = self._part(number, block, taken)[row]
            done += taken
        if self._swapped:
            swap_byte_order(self._type.name, out)
        return out

    def _take(self, first: int, size: int) -> Blocks:
        if size > self._raw.size:
            self._raw = np.empty(size, np.uint8)
        raw = self._raw[:size]
        self._read_into(first, raw)
        return raw

    def _read_into(self, first: int, out: Blocks) -> None:
        self._extent.source.read_into(self._extent.offset + first, out.data)

    def _fill_rows(self, first: int, count: int, out: Blocks) -> None:
        """Fill `out` with the blocks of so many times the rows that lie together."""
        raw = self._take(first * self._rows_bytes, count * self._rows_bytes)
        out = out.reshape(count, self._type.rows, self._row_blocks, -1)
        for own, target in zip(raw.reshape(count, -1), out, strict=True):
            self._join(own, target)

    def _part(self, number: int, block: int, count: int) -> Blocks:
        """Return blocks of all rows that lie together, uint8 [rows, count, whole bytes]."""
        kind = self._type
        start, headers = number * self._rows_bytes, kind.rows * kind.row_header
        size = kind.rows * kind.block_bytes
        raw = np.empty(headers + count * size, np.uint8)
        self._read_into(start, raw[:headers])
        self._read_into(start + headers + block * size, raw[headers:])
        out = np.empty((kind.rows, count, kind.whole_bytes), np.uint8)
        self._join(raw, out)
        return out

    def _join(self, raw: Blocks, out: Blocks) -> None:
        kind = self._type
        if kind.rows > 1:
            gather_rows(kind.name, raw, out)
            return
        shared = raw[: kind.row_header] if kind.row_header else self._trailer
        out[0, :, : shared.size] = shared
        out[0, :, shared.size :] = raw[kind.row_header :].reshape(out.shape[1], -1)

    def block(self, index: int) -> bytes:
        return self.read(index, 1).tobytes()


class PartBytes:
    """The bytes of one part of a weight with companions, as a `LineReader` reads them."""

    def __init__(self, array: StoredArray) -> None:
        self.dtype = array.type.name
        self.shape = array.shape
        self.nbytes = array.extent.nbytes
        self._extent = array.extent
        self._extent.source.expect(self._extent.offset, self.nbytes)

    def read(self, first: int, count: int) -> NDArray[np.uint8]:
        """Return bytes, uint8 [count].

        Raises:
            IndexError: They leave the part.
            SourceError: The file changed since it was opened.
        """
        raw = np.empty(self._checked(first, count), np.uint8)
        self.read_into(first, raw)
        return raw

    def read_into(self, first: int, out: NDArray[np.uint8]) -> None:
        """Fill an array, uint8 [n], C-contiguous; raises as `read` does."""
        self._checked(first, out.size)
        self._extent.source.read_into(self._extent.offset + first, out.data)

    def _checked(self, first: int, count: int) -> int:
        if not 0 <= first <= first + count <= self.nbytes:
            raise IndexError(f"bytes {first} to {first + count} of {self.nbytes}")
        return count


def reader_of_lines(companions: CompanionWeights) -> LineReader:
    """Return what reads the lines of a weight with companions; it loads Numba.

    Raises:
        QuantizationError: What is stored contradicts itself.
        SourceError: The file changed since it was opened.
    """
    parts = {role: PartBytes(array) for role, array in companions.parts.items()}
    return line_reader(companions.layout, parts)


class _LineRuns:
    """Reads and decodes lines of a weight with companions. Methods as of `_BlockRuns`."""

    address = None

    def __init__(self, companions: CompanionWeights) -> None:
        self._layout = companions.layout
        self._reader = reader_of_lines(companions)
        self.unit = self._layout.unit
        self.stride = self._layout.line
        self._lines = self._layout.lines(0)
        self._cached = range(0)  # lines that are in `_lines`

    def read(self, first: int, count: int) -> StoredLines:
        unit, line = self.unit, self._layout.line
        start = first * unit // line
        stop = -(-(first + count) * unit // line)
        lines = self._fill(start, stop)
        return StoredLines(lines, self._reader.groups, first * unit - start * line, count * unit)

    def _fill(self, start: int, stop: int) -> Lines:
        if len(self._cached) == stop - start and self._cached.start == start:
            return self._lines
        self._cached = range(0)
        if len(self._lines.codes) != stop - start:
            self._lines = self._layout.lines(stop - start)
        self._reader.fill(start, self._lines)
        self._cached = range(start, stop)
        return self._lines

    def decode(self, stored: Stored, out: Values) -> None:
        assert isinstance(stored, StoredLines)
        shape = stored.lines.codes.shape
        if out.size == shape[0] * shape[1]:
            line_kernels().combine(self._reader, stored.lines, out.reshape(shape))
            return
        whole = np.empty(shape, np.float32)
        line_kernels().combine(self._reader, stored.lines, whole)
        out.reshape(-1)[:] = whole.reshape(-1)[stored.skipped :][: stored.weights]

    def block(self, index: int) -> bytes:
        places = self._reader.places(index * self.unit, self.unit)
        return b"".join(
            self._reader.parts[role].read(at, size).tobytes() for role, at, size in places
        )


CHUNK_WEIGHTS: Final = 1 << 18
"""Most weights of a chunk: 1 MiB, which stays in a core's second-level cache."""

_BATCH_BYTES: Final = 5 << 18
"""Most bytes of a batch, some chunks together. It costs some 40 µs of Python, during which other
threads wait, and has to leave the second-level cache with what is counted there."""

RUN_WEIGHTS: Final = 1 << 21
"""Most weights of a run of undecoded blocks: some 4 ms of work."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A bounded run of decoded weights. Its arrays are overwritten by the chunk after it.

    Attributes:
        start: Flat, row-major index of the first weight in the tensor.
        values: float32 [n].
        stored: The blocks that hold `values`.
    """

    start: int
    values: Values
    stored: Stored


class Coded(NamedTuple):
    """A run of weights that kernels decode themselves, by `jit.decode_piece`.

    Attributes:
        decode: See `registry.decoder_address`.
        unit: Weights of a block.
        blocks: uint8 [n, bytes of a block], read-only.
    """

    decode: int
    unit: int
    blocks: Blocks

    @classmethod
    def of_values(cls, values: Values) -> Coded:
        """Return weights that need no decoding."""
        return cls(0, 1, read_only(values.view(np.uint8).reshape(-1, 4)))

    @property
    def size(self) -> int:
        """Number of weights."""
        return len(self.blocks) * self.unit

    def part(self, start: int, stop: int) -> Coded:
        """Return a run within this one, of whole blocks."""
        return self._replace(blocks=self.blocks[start // self.unit : stop // self.unit])


@dataclass(frozen=True, slots=True)
class Batch:
    """A run of weights that are still to be decoded. Its arrays are overwritten by the next one.

    Attributes:
        coded: The weights.
        stored: The blocks that hold them.
        chunk: Weights that are added up together; the last may be fewer.
        decode: Returns some of them, from one number to another: float32 [n].
    """

    coded: Coded
    stored: Stored
    chunk: int
    decode: Callable[[int, int], Values]

    @classmethod
    def of_values(cls, values: Values, stored: Stored | None = None) -> Batch:
        """Return a batch of weights that are decoded."""
        coded = Coded.of_values(values)
        stored = coded.blocks if stored is None else stored
        return cls(coded, stored, max(1, values.size), lambda *run: values[slice(*run)])


def _runs_of(tensor: Tensor) -> _BlockRuns | _LineRuns:
    """Return what reads a tensor's blocks, whichever way they are stored."""
    if tensor.companions is not None:
        try:
            return _LineRuns(tensor.companions)
        except QuantizationError as error:
            what = f"tensor {tensor.name!r}: {error.what}"
            raise FormatError(what, tensor.file, tensor.offset) from error
    return _BlockRuns(tensor) if tensor.type.lone else _RowRuns(tensor)


class WeightReader:
    """Reads and decodes runs of one tensor's weights. Owns buffers: one thread, one reader.

    Weights are numbered by their flat, row-major index, and `stop` is behind the last one. Only the
    blocks that hold them are read. `check` is called before every chunk, and raises to stop.

    Attributes:
        unit: Weights that are decoded together: those of a block.
        stride: Weights that are best read together, a multiple of `unit`: those of a line.

    Args:
        seen: Called with whole blocks that `read_into` decodes.

    Raises:
        FormatError: The file is damaged there, or the tensor's type is not known or has no values.
        IndexError: By all methods: what is asked for leaves the tensor.
        SourceError: The file changed since it was opened.
    """

    def __init__(self, tensor: Tensor, seen: Callable[[Stored], object] | None = None) -> None:
        self.tensor = tensor
        check_decodable(tensor)
        self._seen = seen
        self._runs = _runs_of(tensor)
        self.unit, self.stride = self._runs.unit, self._runs.stride
        self._chunk_units = max(1, CHUNK_WEIGHTS // self.stride) * (self.stride // self.unit)
        self._values: Values = np.empty(0, np.float32)

    def block(self, index: int) -> bytes:
        """Return the stored bytes of one block, as they are in the file.

        A weight whose scales are arrays of their own has groups for blocks: codes, scale, bias.
        """
        if not 0 <= index < self.tensor.parameters // self.unit:
            raise IndexError(f"block {index} of {self.tensor.parameters // self.unit}")
        return self._runs.block(index)

    def read_into(self, start: int, out: Values, check: Check = never) -> None:
        """Fill `out`, float32 [n], C-contiguous, with the weights from `start` on."""
        position, stop = start, start + out.size
        self._check_run(position, stop)
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
                stored = self._runs.read(first, count)
                self._runs.decode(stored, rest[:taken])
                if self._seen is not None:
                    self._seen(stored)
            position += taken

    def chunks(self, start: int, stop: int, check: Check = never) -> Iterator[Chunk]:
        """Yield weights in order, in chunks that begin and end at blocks or at the run's ends."""
        self._check_run(start, stop)
        position = start
        while position < stop:
            check()
            first, skipped = divmod(position, self.unit)
            count = min(self._chunk_units, -(-stop // self.unit) - first)
            values, stored = self._decode(first, count)
            end = min(stop, (first + count) * self.unit)
            yield Chunk(position, values[skipped : skipped + end - position], stored)
            position = end

    def batches(self, start: int, stop: int, check: Check = never) -> Iterator[Batch]:
        """Yield weights in order, for kernels that decode them: some chunks at a time."""
        runs = self._runs
        address = runs.address
        if address is None or start % self.unit or stop % self.unit:
            for chunk in self.chunks(start, stop, check):
                yield Batch.of_values(chunk.values, chunk.stored)
            return
        self._check_run(start, stop)
        step, weights = self._chunk_units, self._chunk_units * self.unit
        if weights % PIECE == 0:  # a batch is cut into pieces where each of its chunks would be
            chunk_bytes = step * self.tensor.type.whole_bytes
            most = max(1, min(_BATCH_BYTES // chunk_bytes, SPAN_WEIGHTS // weights))
            step <<= most.bit_length() - 1  # spans are powers of two as well
        for first in range(start // self.unit, stop // self.unit, step):
            check()
            stored = runs.read(first, min(step, stop // self.unit - first))
            assert isinstance(stored, np.ndarray)

            def decode(start: int, stop: int, blocks: Blocks = stored) -> Values:
                out = np.empty(stop - start, np.float32)
                runs.decode(blocks[start // self.unit : stop // self.unit], out)
                return out

            coded = Coded(address, self.unit, read_only(stored))
            yield Batch(coded, stored, weights, decode)

    def runs(self, start: int, stop: int, check: Check = never) -> Iterator[Stored]:
        """Yield blocks in order, not decoded; the weights must begin and end at blocks."""
        self._check_run(start, stop)
        if start % self.unit or stop % self.unit:
            raise IndexError(f"weights {start} to {stop} are not whole blocks of {self.unit}")
        step, end = max(1, RUN_WEIGHTS // self.stride), stop // self.unit
        step *= self.stride // self.unit
        for first in range(start // self.unit, end, step):
            check()
            yield self._runs.read(first, min(step, end - first))

    def _check_run(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= self.tensor.parameters:
            raise IndexError(f"weights {start} to {stop} of {self.tensor.parameters}")

    def _decode(self, first: int, count: int) -> tuple[Values, Stored]:
        """Decode whole blocks into the reader's own buffer."""
        size = count * self.unit
        if size > self._values.size:
            self._values = np.empty(size, np.float32)
        values = self._values[:size]
        stored = self._runs.read(first, count)
        self._runs.decode(stored, values)
        return values, stored


# All weights of a tensor, on one thread or several.
#
# A tensor is cut into spans whose size depends on nothing but its type. Each is walked over by one
# thread, and the results are combined in the order of the spans (`parallel.map_in_order`): so they
# are the same, to the bit, on any number of threads.


SPAN_WEIGHTS: Final = 1 << 21
"""Most weights of a span: some milliseconds of work, which threads may end apart by."""


@dataclass(frozen=True, slots=True)
class Span:
    """A run of whole blocks, for one thread.

    Attributes:
        start: Flat index of its first weight.
        stop: Behind its last weight.
    """

    start: int
    stop: int
    _readers: PerThread[WeightReader]

    def chunks(self, check: Check) -> Iterator[Chunk]:
        """Yield its weights; see `WeightReader.chunks`."""
        return self._readers.own.chunks(self.start, self.stop, check)

    def batches(self, check: Check) -> Iterator[Batch]:
        """Yield its weights for kernels that decode them; see `WeightReader.batches`."""
        return self._readers.own.batches(self.start, self.stop, check)

    def runs(self, check: Check) -> Iterator[Stored]:
        """Yield its blocks, not decoded; see `WeightReader.runs`."""
        return self._readers.own.runs(self.start, self.stop, check)


def spans_of(tensor: Tensor) -> Iterator[Span]:
    """Yield the spans of a tensor in order.

    Raises:
        FormatError: The tensor cannot be decoded.
        SourceError: The file changed since it was opened.
    """
    readers = PerThread(lambda: WeightReader(tensor))
    stride = readers.own.stride
    step = max(1, SPAN_WEIGHTS // stride) * stride
    for start in range(0, tensor.parameters, step):
        yield Span(start, min(start + step, tensor.parameters), readers)
