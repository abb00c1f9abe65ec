"""What the readers of all families share: bits to codes, stored floats to float32, the formula.

Source: `docs/hf_quantization.md`, sections 2 and 5.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.huggingface.layout import Formula, Levels, LineReader, Lines, Part
from explorer.quantization.jit import f32, i32, inlined, kernel, routine, u8, u16, u64
from explorer.quantization.plain import e4m3, twice_e2m1
from explorer.quantization.registry import QuantizationError, decoder, read_only
from explorer.quantization.types import TENSOR_TYPES

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_SLAB_BYTES: Final = 8 << 20


# Stored parts, read in bounded pieces.


def rows(part: Part, first: int, count: int) -> Bytes:
    """Return rows of a part, uint8 [count, bytes of a row]; rows run along its last dimension."""
    width = part.shape[-1] * TENSOR_TYPES[part.dtype].block_bytes
    return part.read(first * width, count * width).reshape(count, width)


def elements(part: Part, first: int, count: int, as_type: str | None = None) -> Floats:
    """Return elements of a part, in row-major order, widened to float32 [count].

    Args:
        as_type: The type that its elements have in truth: ``"F8_E8M0"`` of scales in U8.
    """
    kind = as_type or part.dtype
    width = TENSOR_TYPES[kind].block_bytes
    return widened(part.read(first * width, count * width), kind)


def widened(stored: Bytes, kind: str) -> Floats:
    """Return stored numbers, any shape, as float32 [n]."""
    width = TENSOR_TYPES[kind].block_bytes
    out = np.empty((stored.size // width, 1), np.float32)
    decoder(kind)(np.ascontiguousarray(stored).reshape(-1, width), out)
    return out.reshape(-1)


class Columns:
    """Columns of a stored matrix, read in slabs: what is stored transposed is needed column-wise.

    A slab of some megabytes is kept, so that a row of the file is read in long pieces.

    Args:
        part: A part of two dimensions.
    """

    def __init__(self, part: Part) -> None:
        self._part = part
        self._rows, self._columns = part.shape
        self._item = TENSOR_TYPES[part.dtype].block_bytes
        self._first = 0
        self._slab: Bytes = np.empty((self._rows, 0), np.uint8)

    def read(self, first: int, count: int) -> Bytes:
        """Return columns, uint8 [rows, count * bytes of an item]: a view, rows apart in memory."""
        item = self._item
        kept = self._slab.shape[1] // item
        if not (self._first <= first and first + count <= self._first + kept):
            self._fill(first, count)
        start = (first - self._first) * item
        return self._slab[:, start : start + count * item]

    def _fill(self, first: int, count: int) -> None:
        row_bytes = max(1, self._rows * self._item)
        width = min(self._columns - first, max(count, _SLAB_BYTES // row_bytes))
        if row_bytes * self._columns <= _SLAB_BYTES:
            first, width = 0, self._columns
        self._first = first
        if width == self._columns:
            self._slab = self._part.read(0, row_bytes * width).reshape(self._rows, -1)
            return
        if self._slab.shape[1] != width * self._item:
            self._slab = np.empty((self._rows, width * self._item), np.uint8)
        for row in range(self._rows):
            start = (row * self._columns + first) * self._item
            self._slab[row] = self._part.read(start, width * self._item)


# Streams of bits: `docs/hf_quantization.md`, section 2.


@inlined
def _unpack_rest(packed: Any, line: Any, bits: Any, first: Any, codes: Any) -> None:
    """Unpack the last codes of a line, from number `first` on, one by one."""
    last, mask = packed.shape[1] - 1, u16((1 << bits) - 1)
    for i in range(first, codes.shape[1]):
        place = i * bits
        byte = place >> 3
        pair = u16(packed[line, byte])
        if byte < last:
            pair |= u16(u16(packed[line, byte + 1]) << u16(8))
        codes[line, i] = u8((pair >> u16(place & 7)) & mask)


@inlined
def _unpack_eights(packed: Any, line: Any, bits: Any, codes: Any) -> None:
    """Unpack codes of a line by eight, which fill `bits` bytes."""
    mask = u64((1 << bits) - 1)
    for i in range(codes.shape[1] // 8):
        word = u64(0)
        for j in range(8):  # of constant length, which doubles the speed
            if j < bits:
                word |= u64(packed[line, i * bits + j]) << u64(8 * j)
        for j in range(8):
            codes[line, 8 * i + j] = u8((word >> u64(j * bits)) & mask)


@kernel
def unpack_dense(packed: Any, bits: Any, codes: Any) -> None:
    """Unpack lines of codes of 1 to 8 bits: one stream for each line, lowest bit first.

    Args:
        packed: uint8 [lines, bytes], with at least ``line * bits`` bits.
        bits: Bits of a code.
        codes: uint8 [lines, line]; is filled.
    """
    count, size = codes.shape
    for line in range(count):
        if bits == 8:
            for i in range(size):
                codes[line, i] = packed[line, i]
        elif bits == 4:
            for i in range(size // 2):
                codes[line, 2 * i] = packed[line, i] & u8(15)
                codes[line, 2 * i + 1] = packed[line, i] >> u8(4)
            if size % 2:
                codes[line, size - 1] = packed[line, size // 2] & u8(15)
        elif bits == 2:
            for i in range(size // 4):
                byte = packed[line, i]
                codes[line, 4 * i] = byte & u8(3)
                codes[line, 4 * i + 1] = (byte >> u8(2)) & u8(3)
                codes[line, 4 * i + 2] = (byte >> u8(4)) & u8(3)
                codes[line, 4 * i + 3] = byte >> u8(6)
            _unpack_rest(packed, line, bits, size // 4 * 4, codes)
        else:
            _unpack_eights(packed, line, bits, codes)
            _unpack_rest(packed, line, bits, size // 8 * 8, codes)


@kernel
def unpack_padded(packed: Any, bits: Any, codes: Any) -> None:
    """Unpack lines of codes of 1 to 8 bits: ``32 // bits`` in each word, lowest first.

    Args:
        packed: uint32 [lines, words].
        bits: Bits of a code.
        codes: uint8 [lines, line]; is filled.
    """
    count, size = codes.shape
    each, mask = 32 // bits, (1 << bits) - 1
    for line in range(count):
        for i in range(size):
            codes[line, i] = u8((packed[line, i // each] >> (i % each * bits)) & mask)


@kernel
def unpack_nibbles_high(packed: Any, codes: Any) -> None:
    """Unpack nibbles, the high one first, as bitsandbytes stores them.

    Args:
        packed: uint8 [bytes].
        codes: uint8 [2 * bytes]; is filled.
    """
    for i in range(len(packed)):
        codes[2 * i] = packed[i] >> u8(4)
        codes[2 * i + 1] = packed[i] & u8(15)


# The formula: levels of codes, then scales and zeros, line by line, in float32 as it stands.

_INTEGERS, _E2M1, _E4M3, _TABLE = range(4)
_SCALED, _ZERO_FIRST, _ZERO_LAST, _DIVIDED, _TWICE = range(5)
_KINDS: Final = {
    Levels.UNSIGNED: _INTEGERS,
    Levels.SIGNED: _INTEGERS,
    Levels.TERNARY: _INTEGERS,
    Levels.E2M1: _E2M1,
    Levels.E4M3: _E4M3,
    Levels.E5M2: _TABLE,
    Levels.STORED: _TABLE,
}
_FORMULAS: Final = {
    Formula.SCALED: _SCALED,
    Formula.ZERO_FIRST: _ZERO_FIRST,
    Formula.ZERO_LAST: _ZERO_LAST,
    Formula.DIVIDED: _DIVIDED,
    Formula.TWICE: _TWICE,
}


class _Given(NamedTuple):
    """What weights are made of; arrays as in `Lines`.

    Attributes:
        what: int32 [4]: kind of levels, what is subtracted from integer ones, formula, run.
        table: float32 [codes]: the levels.
    """

    codes: Bytes
    scales: Floats
    zeros: Floats
    what: NDArray[np.int32]
    table: Floats


@routine
def _set_levels(codes: Any, line: Any, what: Any, table: Any, out: Any) -> None:
    """Write the level of each code of a line."""
    size = out.shape[1]
    kind, offset = what[0], f32(what[1])
    if kind == _INTEGERS:
        for c in range(size):
            out[line, c] = f32(i32(codes[line, c])) - offset
    elif kind == _E2M1:
        for c in range(size):
            out[line, c] = twice_e2m1(codes[line, c]) * f32(0.5)
    elif kind == _E4M3:
        for c in range(size):
            out[line, c] = e4m3(codes[line, c])
    else:
        for c in range(size):
            out[line, c] = table[codes[line, c]]


@routine
def _scale_run(out: Any, place: Any, how: Any, scale: Any, zero: Any) -> None:
    """Make weights of the levels of a run, which share a scale."""
    line, first, stop = place
    if how == _SCALED:
        for c in range(first, stop):
            out[line, c] = out[line, c] * scale
    elif how == _ZERO_FIRST:
        for c in range(first, stop):
            out[line, c] = (out[line, c] - zero) * scale
    elif how == _ZERO_LAST:
        for c in range(first, stop):
            out[line, c] = out[line, c] * scale - zero
    elif how == _DIVIDED:
        for c in range(first, stop):
            out[line, c] = out[line, c] / scale
    else:
        for c in range(first, stop):
            out[line, c] = out[line, c] * scale * zero


@routine
def _scale_levels(given: Any, line: Any, out: Any) -> None:
    """Make weights of a line of small floats that have scales alone: levels and product at once."""
    size, run = out.shape[1], given.what[3]
    for s in range(given.scales.shape[1]):
        scale = given.scales[line, s]
        if given.what[0] == _E2M1:
            for c in range(u64(s * run), u64(min(size, (s + 1) * run))):
                out[line, c] = twice_e2m1(given.codes[line, c]) * f32(0.5) * scale
        else:
            for c in range(u64(s * run), u64(min(size, (s + 1) * run))):
                out[line, c] = given.table[given.codes[line, c]] * scale


@kernel
def _combine_runs(given: Any, out: Any) -> None:
    """Put lines together; weight `c` has scale ``c // run``."""
    scales, zeros = given.scales, given.zeros
    how, run = given.what[2], given.what[3]
    count, size = out.shape
    for line in range(count):
        if how == _SCALED and (given.what[0] == _TABLE or given.what[0] == _E2M1):
            _scale_levels(given, line, out)
            continue
        _set_levels(given.codes, line, given.what, given.table, out)
        for s in range(scales.shape[1]):
            zero = zeros[line, s] if zeros.shape[1] else f32(0)
            # unsigned: no test for a negative index, and so vectors
            place = (line, u64(s * run), u64(min(size, (s + 1) * run)))
            _scale_run(out, place, how, scales[line, s], zero)


@kernel
def _combine_gathered(given: Any, groups: Any, out: Any) -> None:
    """Put lines together; weight `c` has scale ``groups[c]``."""
    scales, zeros, how = given.scales, given.zeros, given.what[2]
    count, size = out.shape
    for line in range(count):
        _set_levels(given.codes, line, given.what, given.table, out)
        if how == _ZERO_FIRST:
            for c in range(size):
                g = groups[c]
                out[line, c] = (out[line, c] - zeros[line, g]) * scales[line, g]
        else:
            for c in range(size):
                g = groups[c]
                zero = zeros[line, g] if zeros.shape[1] else f32(0)
                _scale_run(out, (line, u64(c), u64(c + 1)), how, scales[line, g], zero)


def combine(reader: LineReader, lines: Lines, out: Floats) -> None:
    """Make weights of lines that the reader filled; to the bit as the formula in float32.

    Args:
        out: float32 [lines, line], C-contiguous; is filled.

    Raises:
        QuantizationError: A stored table has fewer levels than there are codes.
    """
    layout = reader.layout
    kind = _KINDS[layout.levels]
    if kind == _TABLE and len(reader.levels) < 1 << layout.bits:
        what = f"a table of {len(reader.levels)} levels for {layout.bits}-bit codes"
        raise QuantizationError(what)
    offset = -int(reader.levels[0]) if kind == _INTEGERS else 0
    about = np.array((kind, offset, _FORMULAS[layout.formula], layout.run), np.int32)
    given = _Given(
        read_only(lines.codes),
        read_only(lines.scales),
        read_only(lines.zeros),
        read_only(about),
        read_only(np.ascontiguousarray(reader.levels)),
    )
    if reader.groups is None:
        _combine_runs(given, out)
    else:
        _combine_gathered(given, read_only(reader.groups), out)
