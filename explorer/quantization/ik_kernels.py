"""The few kernels that all types of ik_llama.cpp share; `ik` says what each type gives them.

A type's weights are made in two steps, codes and scales first and then both together. So there is
one kernel for each way to store codes, not one for each type, and codes and scales are at hand for
whoever asks. Kernels write whole arrays and check nothing. Codes are written eight or four at once,
as the bytes of one number: `words` is a view of them, uint64 or uint32 [blocks, codes / 8 or 4].
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from explorer.quantization.jit import f32, i32, kernel, u8, u32, u32_at, u64


@kernel
def add_bits(blocks: Any, places: Any, downs: Any, bits: Any, words: Any) -> None:
    """Add some bits of each code, of four codes at once, moved up by `up`.

    Args:
        blocks: uint8 [blocks, bytes].
        places: int64 [codes / 4]: the byte of the first of four codes; the others follow.
        downs: uint32 [codes / 4]: how far down their bits are moved.
        bits: The bits, in each of the four bytes; and how far up they are moved then.
        words: uint32.
    """
    mask, up = bits
    for b in range(words.shape[0]):
        for w in range(words.shape[1]):
            four = (u32_at(blocks, b, places[w]) >> downs[w]) & u32(mask)
            words[b, w] |= u32(four << u32(up))


@kernel
def add_selects(selects: Any, words: Any) -> None:
    """Add bits to all codes of sub-blocks, uint8 [sub-blocks]; words: uint64 [sub-blocks, n]."""
    for sub in range(words.shape[0]):
        eight = u64(u64(selects[sub]) * u64(0x0101010101010101))
        for i in range(words.shape[1]):
            words[sub, i] |= eight


@kernel
def put_rows(rows: Any, table: Any, signs: Any, mirror: Any, words: Any) -> None:
    """Write the codes of groups of weights, which are rows of a table.

    Args:
        rows: uint16 [blocks, groups].
        table: uint64 [rows]: the codes of a row, 8 or fewer, one a byte.
        signs: uint8 [blocks, codes / 8], one a bit, or None. A set one mirrors a code.
        mirror: uint64 [257]: of eight signs, all bits of the bytes whose sign is set; then what a
            code and its mirrored one are together, in each byte.
        words: uint64.
    """
    each = rows.shape[1] // words.shape[1]
    for b in range(words.shape[0]):
        for w in range(words.shape[1]):
            eight = u64(0)
            for k in range(each):
                eight |= u64(table[rows[b, w * each + k]] << u64(64 // each * k))
            if signs is not None:
                mask = mirror[signs[b, w]]
                eight = (eight & ~mask) | ((mirror[256] - eight) & mask)
            words[b, w] = eight


_FACTOR: Final = 0xCBAC1FED
_POWERS: Final = np.array([pow(_FACTOR, n, 1 << 32) for n in (1, 2, 3, 4)], np.uint32)


@kernel
def put_trellis(seeds: Any, signs: Any, codes: Any) -> None:
    """Write codes 126 + v, where v is what the generator gives one weight after the other.

    Args:
        seeds: uint32 [groups]: where it starts for each group of weights.
        signs: uint8 [groups, weights], 0 or 1, or None. With signs v is what it gives without its
            own sign and with this one; code 253 is -0.
        codes: uint8 [groups, weights].
    """
    for g in range(codes.shape[0]):
        seed = u32(seeds[g])
        for part in range(codes.shape[1] // 4):
            for i in range(4):
                four = u32(u32(seed * _POWERS[i]) & u32(0x3F3F3F3F))
                # the sum of four bytes below 64 comes into the highest byte
                code = u32(u32(four * u32(0x01010101)) >> u32(24))
                if signs is not None:
                    other = u32(u32(252) - code)
                    low, high = min(code, other), max(code, other)
                    minus = low if low < high else u32(253)
                    code = minus if signs[g, 4 * part + i] else high
                codes[g, 4 * part + i] = u8(code)
            seed = u32(seed * _POWERS[3])


# Codes and scales together.

_SIXTEEN_BYTES: Final = ir.VectorType(ir.IntType(8), 16)
_SIXTEEN_FLOATS: Final = ir.VectorType(ir.FloatType(), 16)
_INDEX: Final = ir.IntType(32)
TABLE: Final = 64
"""Levels of the table that `combine_levels` looks into."""


@intrinsic  # type: ignore[untyped-decorator]
def _sixteen_levels(
    _context: Any, out: Any, _b: Any, _first: Any, codes: Any, table: Any, _scale: Any
) -> Any:
    """Write 16 weights: scale * table[code].

    _sixteen_levels(out, b, first, codes, table: int8 [64], scale: float32). In LLVM's own terms,
    as `iq4._write_nibbles` is and for its reason: it makes byte shuffles of it.
    """

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        array, b, first, own, levels, scale = arguments

        def load(array_type: Any, array: Any, *indices: Any) -> Any:
            view = context.make_array(array_type)(context, builder, array)
            place = cgutils.get_item_pointer(context, builder, array_type, view, indices)
            return builder.load(builder.bitcast(place, _SIXTEEN_BYTES.as_pointer()), align=1)

        def same(value: Any, vector: Any) -> Any:
            one = builder.insert_element(
                ir.Constant(vector, ir.Undefined), value, ir.Constant(_INDEX, 0)
            )
            where = ir.Constant(ir.VectorType(_INDEX, 16), [0] * 16)
            return builder.shuffle_vector(one, one, where)

        sixteen = load(codes, own, b, first)
        places = builder.and_(sixteen, ir.Constant(_SIXTEEN_BYTES, [15] * 16))
        parts = builder.lshr(sixteen, ir.Constant(_SIXTEEN_BYTES, [4] * 16))
        found = None
        for part in range(TABLE // 16):
            entries = load(table, levels, context.get_constant(types.intp, 16 * part))
            own_levels = ir.Constant(_SIXTEEN_BYTES, ir.Undefined)
            for k in range(16):
                lane = ir.Constant(_INDEX, k)
                entry = builder.extract_element(entries, builder.extract_element(places, lane))
                own_levels = builder.insert_element(own_levels, entry, lane)
            if found is None:
                found = own_levels
            else:
                here = builder.icmp_unsigned("==", parts, ir.Constant(_SIXTEEN_BYTES, [part] * 16))
                found = builder.select(here, own_levels, found)
        values = builder.sitofp(found, _SIXTEEN_FLOATS)
        values = builder.fmul(same(scale, _SIXTEEN_FLOATS), values)
        view = context.make_array(out)(context, builder, array)
        target = cgutils.get_item_pointer(context, builder, out, view, [b, first])
        # An address of one float promises no more than a float's alignment.
        builder.store(values, builder.bitcast(target, values.type.as_pointer()), align=4)
        return context.get_dummy_value()

    index = types.intp
    return types.void(out, index, index, codes, table, types.float32), generate


# codes: uint8 [sub-blocks, weights], scales and minima: float32 [sub-blocks]. Rows of sub-blocks
# rather than of blocks, because a place that is no number times the innermost index, plus that,
# may be below zero for all that the compiler knows, and then no loop becomes vector instructions.


@kernel
def combine_levels(codes: Any, table: Any, scales: Any, out: Any) -> None:
    """Write the weights: scale * table[code], of whole numbers, int8 [TABLE]."""
    for sub in range(codes.shape[0]):
        for part in range(codes.shape[1] // 16):
            _sixteen_levels(out, sub, 16 * part, codes, table, scales[sub])


@kernel
def combine_numbers(codes: Any, least: Any, scales: Any, minima: Any, out: Any) -> None:
    """Write the weights: scale * (code + least), rounded, less the minimum where there are any."""
    for sub in range(codes.shape[0]):
        scale = scales[sub]
        minimum = f32(0) if minima is None else minima[sub]
        for part in range(codes.shape[1] // 16):
            for i in range(16):
                value = scale * (f32(i32(codes[sub, 16 * part + i])) + f32(least))
                out[sub, 16 * part + i] = value if minima is None else value - minimum


@kernel
def combine_any(codes: Any, levels: Any, scales: Any, out: Any) -> None:
    """Write the weights: scale * levels[code], of any numbers, float32."""
    for sub in range(codes.shape[0]):
        scale = scales[sub]
        for part in range(codes.shape[1] // 8):
            for i in range(8):
                out[sub, 8 * part + i] = scale * levels[codes[sub, 8 * part + i]]


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
