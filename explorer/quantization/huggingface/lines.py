"""What the readers of all families share: bits to codes, stored floats to float32, the formula.

Source: `docs/hf_quantization.md`, sections 2 and 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.huggingface.layout import CompanionLayout, Formula, Levels, Lines, Part
from explorer.quantization.jit import (
    f32,
    float32_of_bits,
    float32_of_half,
    i32,
    inlined,
    kernel,
    u8,
    u16,
    u32,
    u64,
)
from explorer.quantization.plain import e4m3, e5m2, twice_e2m1
from explorer.quantization.registry import QuantizationError, decoder, read_only
from explorer.quantization.types import TENSOR_TYPES

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_SLAB_BYTES: Final = 8 << 20
_AHEAD: Final = 1 << 16


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


class Ahead:
    """Numbers that lines need few of at a time: where they are read in order, many at once.

    Args:
        count: How many there are.
        make: Returns some, float32 [count], by the first and their count.
    """

    def __init__(self, count: int, make: Callable[[int, int], Floats]) -> None:
        self._count = count
        self._make = make
        self._start, self._behind = 0, -1  # of what is kept, and of what was read last
        self._cached: Floats = np.empty(0, np.float32)

    @classmethod
    def of(cls, part: Part, as_type: str | None = None) -> Self:
        """Return the elements of a part; see `elements`."""
        count = part.nbytes // TENSOR_TYPES[as_type or part.dtype].block_bytes
        return cls(count, lambda first, count: elements(part, first, count, as_type))

    def read(self, first: int, count: int) -> Floats:
        """Return numbers, float32 [count]; not to be written to."""
        start = first - self._start
        if start < 0 or start + count > self._cached.size:
            more = min(_AHEAD, self._count - first) if first == self._behind else 0
            self._cached = self._make(first, max(count, more))
            self._start, start = first, 0
        self._behind = first + count
        return self._cached[start : start + count]


class Columns:
    """Columns of a stored matrix, read in slabs: what is stored transposed is needed column-wise.

    A slab of some megabytes is kept, so that a row of the file is read in long pieces.
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


def order_of_groups(layout: CompanionLayout, groups: Any, role: str) -> NDArray[np.int32] | None:
    """Return the group of each column; None if they are plainly runs of columns in order.

    Args:
        layout: How the weight is stored.
        groups: int32 [line], as stored.
        role: Of the part, for errors.

    Raises:
        QuantizationError: A number is not a group.
    """
    count = layout.scales_of_line
    if groups.size and not 0 <= groups.min() <= groups.max() < count:
        wrong = groups.min() if groups.min() < 0 else groups.max()
        what = f"{role} names group {wrong}, and there are {count}"
        raise QuantizationError(f"{what}. The file is damaged, download it again")
    plain = np.arange(groups.size, dtype=np.int32) // layout.run
    return None if np.array_equal(groups, plain) else groups


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
    each, mask = 32 // bits, u32((1 << bits) - 1)
    whole = size // each
    for line in range(count):
        for w in range(u64(whole)):
            word = packed[line, w]
            for j in range(u64(each)):
                codes[line, w * u64(each) + j] = u8((word >> u32(j * u64(bits))) & mask)
        for i in range(whole * each, size):
            codes[line, i] = u8((packed[line, whole] >> u32((i - whole * each) * bits)) & mask)


@kernel
def unpack_paired_rows(pairs: Any, skipped: Any, codes: Any) -> None:
    """Unpack codes of 4 bits, of two's complement, whose bytes hold two rows, the first one below.

    Args:
        pairs: uint8 [rows of bytes, line].
        skipped: 1 where the first row that is wanted is the second of its bytes, else 0.
        codes: uint8 [rows, line]; is filled: -8 is code 0.
    """
    for row in range(codes.shape[0]):
        pair = (row + skipped) // 2
        if (row + skipped) % 2:
            for c in range(u64(codes.shape[1])):
                codes[row, c] = (pairs[pair, c] >> u8(4)) ^ u8(8)
        else:
            for c in range(u64(codes.shape[1])):
                codes[row, c] = (pairs[pair, c] & u8(15)) ^ u8(8)


@kernel
def take_fields(words: Any, shift: Any, mask: Any, codes: Any) -> None:
    """Take one code of each word.

    Args:
        words: uint32 [n].
        shift: Bits below the code.
        mask: Its bits, moved down.
        codes: uint8 [n]; is filled.
    """
    for i in range(codes.size):
        codes[i] = u8((words[i] >> u32(shift)) & u32(mask))


@kernel
def cut_fields(words: Any, shift: Any, mask: Any) -> None:
    """Leave one code of each byte, in place, eight bytes at a time: a byte is slow to shift.

    Args:
        words: uint64 [n].
        shift: Bits below the code in its byte.
        mask: Its bits in each byte, moved down.
    """
    for i in range(words.size):
        words[i] = (words[i] >> u64(shift)) & u64(mask)


@kernel
def unpack_nibbles(packed: Any, is_high_first: Any, codes: Any) -> None:
    """Unpack two codes of each byte: the high nibble first, as bitsandbytes stores them, or last.

    Args:
        packed: uint8 [bytes].
        is_high_first: Boolean.
        codes: uint8 [2 * bytes]; is filled.
    """
    first, second = (u8(4), u8(0)) if is_high_first else (u8(0), u8(4))
    for i in range(packed.size):
        codes[2 * i] = (packed[i] >> first) & u8(15)
        codes[2 * i + 1] = (packed[i] >> second) & u8(15)


# The formula: levels of codes, then scales and zeros, line by line, in float32 as it stands.

_ZERO_FIRST: Final = Formula.ZERO_FIRST.value
_ZERO_LAST: Final = Formula.ZERO_LAST.value
_DIVIDED: Final = Formula.DIVIDED.value
_TWICE: Final = Formula.TWICE.value
_E2M1, _E4M3, _E5M2 = range(3)
_SMALL_FLOATS: Final = {Levels.E2M1: _E2M1, Levels.E4M3: _E4M3, Levels.E5M2: _E5M2}
_INTEGERS: Final = frozenset({Levels.UNSIGNED, Levels.SIGNED, Levels.TERNARY})


@kernel
def _combine_integers(codes: Any, scales: Any, zeros: Any, what: Any, out: Any) -> None:
    """Put lines of integers together; weight `c` has scale ``c // run``.

    Args:
        codes: As in `Lines`, and so `scales` and `zeros`.
        what: Three integers: what is subtracted from codes, formula, run.
        out: float32 [lines, line]; is filled.
    """
    low, how, run = f32(what[0]), what[1], what[2]
    count, size = out.shape
    for line in range(count):
        for s in range(scales.shape[1]):
            # unsigned: no test for a negative index, and so vectors
            first, stop = u64(s * run), u64(min(size, (s + 1) * run))
            scale = scales[line, s]
            zero = zeros[line, s] if zeros.shape[1] else f32(0)
            if how == _DIVIDED:
                for c in range(first, stop):
                    out[line, c] = (f32(i32(codes[line, c])) - low) / scale
                continue
            # a formula has the zero in one place; what stands in the others changes nothing
            before = zero if how == _ZERO_FIRST else f32(0)
            factor = zero if how == _TWICE else f32(1)
            after = zero if how == _ZERO_LAST else f32(0)
            for c in range(first, stop):
                level = f32(i32(codes[line, c])) - low - before
                out[line, c] = level * scale * factor - after


@kernel
def _combine_each(given: Any, low: Any, out: Any) -> None:
    """Put lines of integers together whose every weight has a scale and a zero of its own.

    Args:
        given: Codes, scales and zeros, all [lines, line].
        low: What is subtracted from codes.
        out: float32 [lines, line]; is filled.
    """
    codes, scales, zeros = given
    for line in range(out.shape[0]):
        for c in range(u64(out.shape[1])):
            level = f32(i32(codes[line, c])) - low
            out[line, c] = (level - zeros[line, c]) * scales[line, c]


@kernel
def _combine_raw(given: Any, is_brain: Any, low: Any, out: Any) -> None:
    """Do what `_combine_each` does, of numbers of 16 bits: half the memory to go through.

    Args:
        given: Codes, and scales and zeros as uint16.
        is_brain: Whether these are BF16, and not F16.
        low: What is subtracted from codes.
        out: float32 [lines, line]; is filled.
    """
    codes, scales, zeros = given
    for line in range(out.shape[0]):
        if is_brain:
            for c in range(u64(out.shape[1])):
                zero = float32_of_bits(u32(zeros[line, c]) << u32(16))
                scale = float32_of_bits(u32(scales[line, c]) << u32(16))
                out[line, c] = (f32(i32(codes[line, c])) - low - zero) * scale
        else:
            for c in range(u64(out.shape[1])):
                zero, scale = float32_of_half(zeros[line, c]), float32_of_half(scales[line, c])
                out[line, c] = (f32(i32(codes[line, c])) - low - zero) * scale


@kernel
def _combine_gathered(given: Any, low: Any, groups: Any, out: Any) -> None:
    """Put lines of integers together; weight `c` has scale ``groups[c]``, and so its zero.

    Args:
        given: Codes, scales and zeros.
        low: What is subtracted from codes.
        groups: int32 [line].
        out: float32 [lines, line]; is filled.
    """
    codes, scales, zeros = given
    count, size = out.shape
    for line in range(count):
        if zeros.shape[1]:
            for c in range(size):
                g = groups[c]
                level = f32(i32(codes[line, c])) - low
                out[line, c] = (level - zeros[line, g]) * scales[line, g]
        else:
            for c in range(size):
                level = f32(i32(codes[line, c])) - low
                out[line, c] = level * scales[line, groups[c]]


@kernel
def _combine_floats(codes: Any, scales: Any, factors: Any, what: Any, out: Any) -> None:
    """Put lines of codes of small floats together: level * scale * factor.

    Args:
        codes: As in `Lines`, and so `scales`.
        factors: The zeros of `Lines`, where there are any.
        what: Two integers: a number of `_SMALL_FLOATS`, weights of a scale.
        out: float32 [lines, line]; is filled.
    """
    kind, run = what
    count, size = out.shape
    for line in range(count):
        for s in range(scales.shape[1]):
            first, stop = u64(s * run), u64(min(size, (s + 1) * run))
            scale = scales[line, s]
            factor = factors[line, s] if factors.shape[1] else f32(1)
            if kind == _E4M3:
                for c in range(first, stop):
                    out[line, c] = e4m3(codes[line, c]) * scale * factor
            elif kind == _E5M2:
                for c in range(first, stop):
                    out[line, c] = e5m2(codes[line, c]) * scale * factor
            else:
                rest = stop - (stop - first) % u64(16)
                for sixteen in range(first, rest, u64(16)):
                    for c in range(u64(16)):  # of constant length, which short groups need
                        level = twice_e2m1(codes[line, sixteen + c]) * f32(0.5)
                        out[line, sixteen + c] = level * scale * factor
                for c in range(rest, stop):
                    level = twice_e2m1(codes[line, c]) * f32(0.5)
                    out[line, c] = level * scale * factor


@kernel
def _combine_looked_up(codes: Any, scales: Any, table: Any, run: Any, out: Any) -> None:
    """Put lines of codes of a table together, which have scales alone.

    Args:
        codes: As in `Lines`, and so `scales`.
        table: float32 [codes]: the levels.
        run: Weights of a scale.
        out: float32 [lines, line]; is filled.
    """
    count, size = out.shape
    for line in range(count):
        for s in range(scales.shape[1]):
            first, stop = u64(s * run), u64(min(size, (s + 1) * run))
            scale = scales[line, s]
            rest = stop - (stop - first) % u64(8)
            for eight in range(first, rest, u64(8)):
                for c in range(u64(8)):  # of constant length, which is a fifth faster
                    out[line, eight + c] = table[codes[line, eight + c]] * scale
            for c in range(rest, stop):
                out[line, c] = table[codes[line, c]] * scale


_AT_ONCE: Final = 1024  # weights that are looked up before they are scaled; they stay in the cache
_MOST_IN_PAIRS: Final = 1 << 16


@kernel
def _combine_pairs(words: Any, scales: Any, pairs: Any, room: Any, out: Any) -> None:
    """Put lines of 4-bit codes of a table together, two codes at a time: half the look-ups.

    Args:
        words: uint64 [lines * line / 8]: the codes, a byte each, eight to a word.
        scales: As in `Lines`.
        pairs: uint64 [256]: the two levels of two codes.
        room: Weights of a scale; uint64 [at least a line / 2] to work in.
        out: float32 [lines, line]; is filled.
    """
    count, size = out.shape
    run, found = room
    each, levels = 2 * found.shape[0] // size, found.view(np.float32)
    for begin in range(0, count, each):
        lines = min(each, count - begin)
        start = u64(begin * size // 8)
        for w in range(u64(lines * size // 8)):
            word = words[start + w]
            word |= word >> u64(4)  # now bytes 0, 2, 4 and 6 have two codes each
            for c in range(u64(4)):
                found[w * u64(4) + c] = pairs[(word >> (c * u64(16))) & u64(255)]
        for line in range(lines):
            for s in range(scales.shape[1]):
                scale = scales[begin + line, s]
                first, stop = u64(s * run), u64(min(size, (s + 1) * run))
                for c in range(first, stop):
                    out[begin + line, c] = levels[u64(line * size) + c] * scale


class Filler(Protocol):
    """What fills lines, a `LineReader` or what rounds weights; attributes as there."""

    layout: CompanionLayout
    levels: Floats
    groups: NDArray[np.int32] | None
    signed: bool
    raw: str


def combine(reader: Filler, lines: Lines, out: Floats) -> None:
    """Make weights of lines; to the bit as the formula in float32.

    Args:
        reader: What filled the lines.
        out: float32 [lines, line], C-contiguous; is filled.

    Raises:
        QuantizationError: A stored table has fewer levels than there are codes.
    """
    layout, codes, scales, zeros = reader.layout, lines.codes, lines.scales, lines.zeros
    if layout.levels in _INTEGERS:
        low = -int(reader.levels[0])
        if reader.signed:
            codes, low = codes.view(np.int8), 0  # numbers themselves
        if reader.groups is None and layout.run == 1 and layout.formula is Formula.ZERO_FIRST:
            if reader.raw:
                _combine_raw((codes, scales, zeros), reader.raw == "BF16", f32(low), out)
            else:
                _combine_each((codes, scales, zeros), f32(low), out)
            return
        if reader.groups is None:
            what = low, layout.formula.value, layout.run
            _combine_integers(codes, scales, zeros, what, out)
            return
        assert layout.formula in {Formula.SCALED, Formula.ZERO_FIRST}
        _combine_gathered((codes, scales, zeros), f32(low), read_only(reader.groups), out)
        return
    assert layout.formula in {Formula.SCALED, Formula.TWICE}
    assert reader.groups is None
    kind = _SMALL_FLOATS.get(layout.levels)
    if kind is not None:
        _combine_floats(codes, scales, zeros, (kind, layout.run), out)
        return
    assert layout.formula is Formula.SCALED
    if len(reader.levels) < 1 << layout.bits:
        what_is = f"a table of {len(reader.levels)} levels for {layout.bits}-bit codes"
        raise QuantizationError(what_is)
    table = read_only(reader.levels)
    if layout.bits == 4 and codes.shape[1] % 8 == 0 and 0 < codes.shape[1] <= _MOST_IN_PAIRS:
        words = read_only(codes.reshape(-1).view(np.uint64))
        pair, size = np.arange(256), codes.shape[1]
        pairs = np.stack([table[pair & 15], table[pair >> 4]], axis=1).view(np.uint64)[:, 0].copy()
        found = np.empty(max(1, _AT_ONCE // size) * size // 2, np.uint64)
        _combine_pairs(words, scales, pairs, (layout.run, found), out)
        return
    _combine_looked_up(codes, scales, table, layout.run, out)
