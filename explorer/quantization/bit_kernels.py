"""The kernels of types that are told as bits of a block: a `Program` says what a type gives them.

One block at a time goes from its bytes to codes, scales and weights, in the processor's nearest
cache. Codes are written eight at once, as the bytes of one number. Kernels check nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from explorer.quantization.jit import (
    f32,
    float32_of_bits,
    float32_of_half,
    half_at,
    i32,
    inlined,
    kernel,
    u8,
    u16,
    u16_at,
    u32,
    u32_at,
    u64,
    u64_at,
)

EACH_OF_8: Final = 0x0101010101010101
MOST: Final = 256
"""Numbers of a block at most. Places are cut to it, so that the compiler knows them as positive."""

# What codes are made of
BITS, ROWS, TRELLIS = range(3)
# What the scale of a block or row is; QUARTERS: the highest four bits of each of four u16
HALF, SINGLE, POWER, QUARTERS = range(4)
# What levels are
WHOLE_16, WHOLE_32, WHOLE_64, EVEN, ANY = range(5)


class Program(NamedTuple):
    """How blocks make weights: see `bits.BitType`, of which it is made.

    Attributes:
        kinds: int64 [6]: what codes are made of (bits, rows of a table, what a generator gives),
            what the scale and what levels are; where the scale of the minima is; 2 to the power of
            what are the sixteens of codes of a scale; where the scale is.
        code_at: int64 [parts, n]: the byte where the bits of eight codes begin, or of four; of the
            generator's codes, their signs.
        code_down: uint64 [parts, n]: after how many bits.
        code_mask: uint64 [parts, codes / 8]: which of them count.
        code_up: uint64 [parts]: which bits of the codes they change.
        code_start: uint64 [1]: what eight codes are before.
        groups: int64 [5, 6]: of the numbers that stand below as SELECTS …: how many parts, windows
            and numbers; where `at`, `mask` (and `up`) and `start` begin. A window is 64 bits, for
            as many numbers as lie there.
        at: int64: the byte where a window begins.
        down: uint64 [len(at), 8]: where in it each number begins.
        mask, up: As for codes.
        start: uint64: what numbers are before.
        table: uint64 [rows]: the codes of a row, one a byte.
        mirror: uint64 [257]: of eight signs, all bits of the bytes whose sign is set; then what a
            code and its mirrored one are together, in each byte.
        factors: float32: the scale of a sub-block is that of its block or row times this.
        min_factors: As `factors`, for minima.
        levels: float32 [codes].
        whole: int8 [64]: levels that are whole numbers.
    """

    kinds: NDArray[np.int64]
    code_at: NDArray[np.int64]
    code_down: NDArray[np.uint64]
    code_mask: NDArray[np.uint64]
    code_up: NDArray[np.uint64]
    code_start: NDArray[np.uint64]
    groups: NDArray[np.int64]
    at: NDArray[np.int64]
    down: NDArray[np.uint64]
    mask: NDArray[np.uint64]
    up: NDArray[np.uint64]
    start: NDArray[np.uint64]
    table: NDArray[np.uint64]
    mirror: NDArray[np.uint64]
    factors: NDArray[np.float32]
    min_factors: NDArray[np.float32]
    levels: NDArray[np.float32]
    whole: NDArray[np.int8]


SELECTS, TABLE_ROWS, SIGNS, SCALES, MINIMA = range(5)
"""Numbers of a block: bits of codes that sub-blocks share, rows of the table or where the generator
starts, eight signs each, what scales and minima are multiplied by."""


class Room(NamedTuple):
    """Arrays that a kernel works in: numbers of a block, its scales and minima."""

    numbers: NDArray[np.uint64]
    scales: NDArray[np.float32]
    minima: NDArray[np.float32]


_FACTOR: Final = 0xCBAC1FED
_POWERS: Final = np.array([pow(_FACTOR, n, 1 << 32) for n in range(1, 9)], np.uint32)


@inlined
def _read(blocks: Any, b: Any, which: Any, program: Any, numbers: Any) -> None:
    parts, windows, count, first, part_0, start_0 = program.groups[which]
    # slices rather than sums of places, which could be negative for all that the compiler knows
    start = program.start[start_0 : start_0 + count]
    for s in range(count):
        numbers[s] = start[s]
    each = count // windows
    for part in range(part_0, part_0 + parts):
        mask, up = program.mask[part], program.up[part]
        for window in range(windows):
            bits, down = u64_at(blocks, b, program.at[first]), program.down[first]
            own = numbers[window * each : window * each + each]
            if each == 8:
                for i in range(8):
                    own[i] ^= ((bits >> down[i]) & mask) << up
            else:
                for i in range(each):
                    own[i] ^= ((bits >> down[i]) & mask) << up
            first += 1


@inlined
def _look_up(blocks: Any, b: Any, program: Any, room: Any, words: Any) -> None:
    """Write the codes of groups of weights, which are rows of a table."""
    count = words.shape[0]
    _read(blocks, b, TABLE_ROWS, program, room.numbers)
    each = program.groups[TABLE_ROWS, 2] // count
    for w in range(count):
        words[w] = u64(0)
    for k in range(each):
        up = u64(64 // each * k)
        for w in range(count):
            words[w] |= program.table[room.numbers[(w * each + k) & (MOST - 1)]] << up
    if program.groups[SIGNS, 2]:
        _read(blocks, b, SIGNS, program, room.numbers)
        both = program.mirror[256]
        for w in range(count):
            turned = program.mirror[room.numbers[w]]
            words[w] = (words[w] & ~turned) | ((both - words[w]) & turned)


@inlined
def _generate(blocks: Any, b: Any, program: Any, room: Any, words: Any) -> None:
    """Write codes 126 + v, where v is what the generator gives one weight after the other.

    With signs, which are the codes so far, v is what it gives without its own sign and with this
    one; code 253 is -0.
    """
    count = words.shape[0]
    _read(blocks, b, TABLE_ROWS, program, room.numbers)
    starts = program.groups[TABLE_ROWS, 2] // count  # of eight codes
    each = 8 // starts
    signed = program.code_at.shape[0] > 0
    seeds = room.numbers[MOST // 2 : MOST // 2 + count]
    for i in range(8):
        power, at, part = _POWERS[i % each], u64(8 * i), i // each
        if i % each == 0:
            for w in range(count):
                seeds[w] = room.numbers[(w * starts + part) & (MOST // 2 - 1)] + u64(4096)
        for w in range(count):
            four = u32(u32(u32(seeds[w]) * power) & u32(0x3F3F3F3F))
            # the sum of four bytes below 64 comes into the highest byte
            code = u32(u32(four * u32(0x01010101)) >> u32(24))
            if signed:
                other = u32(u32(252) - code)
                low = code if code < other else other
                minus = low if low != u32(126) else u32(253)
                code = minus if (words[w] >> at) & u64(1) else u32(u32(252) - low)
            words[w] = (words[w] & ~(u64(255) << at)) | (u64(code) << at)


@inlined
def _add_bits(blocks: Any, b: Any, program: Any, words: Any) -> None:
    """Write eight codes at once, of bits that lie in as many bytes in a row, or twice in four."""
    for w in range(words.shape[0]):
        words[w] = program.code_start[0]
    for part in range(program.code_at.shape[0]):
        at, down, mask = program.code_at[part], program.code_down[part], program.code_mask[part]
        up = program.code_up[part]
        if at.shape[0] > words.shape[0]:
            for w in range(words.shape[0]):
                low = u64(u32_at(blocks, b, at[2 * w])) >> down[2 * w]
                high = u64(u32_at(blocks, b, at[2 * w + 1])) >> down[2 * w + 1]
                words[w] ^= (((low & u64(0xFFFFFFFF)) | (high << u64(32))) & mask[w]) << up
        else:
            for w in range(words.shape[0]):
                words[w] ^= ((u64_at(blocks, b, at[w]) >> down[w]) & mask[w]) << up


@inlined
def _make_codes(blocks: Any, b: Any, program: Any, room: Any, words: Any) -> None:
    """Write the codes of a block by eights, uint64 [weights / 8]."""
    mode = program.kinds[0]
    if mode == ROWS:
        _look_up(blocks, b, program, room, words)
        return
    _add_bits(blocks, b, program, words)
    if mode == TRELLIS:
        _generate(blocks, b, program, room, words)
    elif program.groups[SELECTS, 2]:
        _read(blocks, b, SELECTS, program, room.numbers)
        for w in range(words.shape[0]):
            words[w] |= room.numbers[w] * u64(EACH_OF_8)


@inlined
def _scale_at(blocks: Any, b: Any, kind: Any, at: Any) -> Any:
    if kind == SINGLE:
        return float32_of_bits(u32_at(blocks, b, at))
    if kind == POWER:  # half of an E8M0 scale, 2^(e - 128)
        e = u32(blocks[b, at])
        return float32_of_bits(u32(u32(0x200000) << e) if e < 2 else u32((e - u32(1)) << u32(23)))
    if kind == QUARTERS:
        bits = u32(0)
        for part in range(4):
            bits |= u32((u16_at(blocks, b, at + 2 * part) >> u32(12)) << u32(4 * part))
        return float32_of_half(u16(bits))
    return half_at(blocks, b, at)


@inlined
def _make_scales(blocks: Any, b: Any, program: Any, room: Any) -> None:
    d = _scale_at(blocks, b, program.kinds[1], program.kinds[5])
    _read(blocks, b, SCALES, program, room.numbers)
    for s in range(room.scales.shape[0]):
        room.scales[s] = d * program.factors[room.numbers[s]]
    if program.groups[MINIMA, 2]:
        d = _scale_at(blocks, b, program.kinds[1], program.kinds[3])
        _read(blocks, b, MINIMA, program, room.numbers)
        for s in range(room.minima.shape[0]):
            room.minima[s] = d * program.min_factors[room.numbers[s]]


@kernel
def unpack_codes(blocks: Any, program: Any, room: Any, codes: Any) -> None:
    """Fill codes by eights, uint64 [blocks, codes of a block / 8]."""
    for b in range(blocks.shape[0]):
        _make_codes(blocks, b, program, room, codes[b])


@kernel
def unpack_scales(blocks: Any, program: Any, room: Any, scales: Any, minima: Any) -> None:
    """Fill scales and, where the type has them, minima: float32 [blocks, scales of a block]."""
    for b in range(blocks.shape[0]):
        _make_scales(blocks, b, program, room)
        for s in range(scales.shape[1]):
            scales[b, s] = room.scales[s]
        if program.groups[MINIMA, 2]:
            for s in range(minima.shape[1]):
                minima[b, s] = room.minima[s]


# Loops in LLVM's own terms, because one that looks into a table does not become a byte shuffle:
# IQ4_NL decodes at 2.6 G weights/s by a plain loop and at 16 by these. No processor is named: LLVM
# makes AVX, NEON or scalar code of them.

SIXTEEN_BYTES: Final = ir.VectorType(ir.IntType(8), 16)
_SIXTEEN_FLOATS: Final = ir.VectorType(ir.FloatType(), 16)
_INDEX: Final = ir.IntType(32)
_EVERYWHERE: Final = ir.Constant(ir.VectorType(_INDEX, 16), [0] * 16)


def place_of(context: Any, builder: Any, array_type: Any, array: Any, *indices: Any) -> Any:
    """Return the address of an array's entry."""
    view = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, view, indices)


def load_sixteen(builder: Any, address: Any) -> Any:
    """Return the 16 bytes from an address on."""
    return builder.load(builder.bitcast(address, SIXTEEN_BYTES.as_pointer()), align=1)


def _levels_at(builder: Any, table: Any, places: Any) -> Any:
    """Return table[place] for each of 16 places; LLVM finds the byte shuffle in these steps."""
    found = ir.Constant(table.type, ir.Undefined)
    for k in range(16):
        lane = ir.Constant(_INDEX, k)
        entry = builder.extract_element(table, builder.extract_element(places, lane))
        found = builder.insert_element(found, entry, lane)
    return found


def write_sixteen(builder: Any, codes: Any, tables: Sequence[Any], scale: Any, target: Any) -> None:
    """Write scale * level of 16 codes as floats; each of the tables has the next 16 levels."""
    places = builder.and_(codes, ir.Constant(SIXTEEN_BYTES, [15] * 16))
    parts = builder.lshr(codes, ir.Constant(SIXTEEN_BYTES, [4] * 16))
    found = _levels_at(builder, tables[0], places)
    for part, table in enumerate(tables[1:], 1):
        here = builder.icmp_unsigned("==", parts, ir.Constant(SIXTEEN_BYTES, [part] * 16))
        found = builder.select(here, _levels_at(builder, table, places), found)
    one = builder.insert_element(
        ir.Constant(_SIXTEEN_FLOATS, ir.Undefined), scale, ir.Constant(_INDEX, 0)
    )
    same = builder.shuffle_vector(one, one, _EVERYWHERE)
    values = builder.fmul(same, builder.sitofp(found, _SIXTEEN_FLOATS))
    # An address of one float promises no more than a float's alignment.
    builder.store(values, builder.bitcast(target, values.type.as_pointer()), align=4)


def _writer(count: int) -> Any:
    """Return what writes 16 weights of so many levels.

    It is called with out, b, first, words, w, table: int8 [64], scale: float32. The weights are
    out[b, first : first + 16], the codes the bytes of words[w] and the next.
    """

    def write(
        _context: Any, out: Any, _b: Any, _first: Any, words: Any, _w: Any, table: Any, _scale: Any
    ) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            array, b, first, own, w, levels, scale = arguments
            codes = load_sixteen(builder, place_of(context, builder, words, own, w))
            tables = [
                load_sixteen(builder, place_of(context, builder, table, levels, start))
                for start in (context.get_constant(types.intp, k) for k in range(0, count, 16))
            ]
            target = place_of(context, builder, out, array, b, first)
            write_sixteen(builder, codes, tables, scale, target)
            return context.get_dummy_value()

        index = types.intp
        return types.void(out, index, index, words, index, table, types.float32), generate

    return intrinsic(write)


LEVELS: Final = 64
"""Levels of the longest table that is looked into so."""
_write_of_16, _write_of_32, _write_of_64 = map(_writer, (16, 32, LEVELS))


@kernel
def decode(blocks: Any, program: Any, room: Any, words: Any, out: Any) -> None:
    """Write the weights: scale * level of each code, rounded, less the minimum of its sub-block.

    Codes go by eights to `words`, uint64 [weights / 8].
    """
    levels, least = program.levels, program.levels[0]
    kind, up = program.kinds[2], program.kinds[4]
    for b in range(blocks.shape[0]):
        _make_codes(blocks, b, program, room, words)
        _make_scales(blocks, b, program, room)
        for pair in range(words.shape[0] >> 1):
            scale, minimum = room.scales[pair >> up], room.minima[pair >> up]
            if kind == WHOLE_16:
                _write_of_16(out, b, 16 * pair, words, 2 * pair, program.whole, scale)
                continue
            if kind == WHOLE_32:
                _write_of_32(out, b, 16 * pair, words, 2 * pair, program.whole, scale)
                continue
            if kind == WHOLE_64:
                _write_of_64(out, b, 16 * pair, words, 2 * pair, program.whole, scale)
                continue
            for w in range(2 * pair, 2 * pair + 2):
                for i in range(8):
                    code = u8(words[w] >> u64(8 * i))
                    if kind == EVEN:
                        out[b, 8 * w + i] = scale * (f32(i32(code)) + least) - minimum
                    else:
                        out[b, 8 * w + i] = scale * levels[code]


@kernel
def gather_rows(stored: Any, places: Any, sizes: Any, out: Any) -> None:
    """Take apart blocks that are stored together; out: uint8 [rows, blocks, whole bytes].

    Args:
        stored: uint8 [bytes]: all headers, then the blocks of all rows by turns.
        places: int64 [rows, whole bytes]: where each byte of a row's block is among the headers, or
            among the blocks that lie together.
        sizes: int64 [3]: bytes of all headers, of blocks that lie together, of one header.
    """
    headers, step, own = sizes
    for row in range(out.shape[0]):
        for block in range(out.shape[1]):
            for i in range(own):
                out[row, block, i] = stored[places[row, i]]
            base = headers + block * step
            for i in range(own, out.shape[2]):
                out[row, block, i] = stored[base + places[row, i]]
