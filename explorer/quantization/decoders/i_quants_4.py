"""IQ4_NL and IQ4_XS: a 4-bit code for each weight, of 16 levels that crowd around zero.

::

    IQ4_NL, 18 bytes, 32 weights     IQ4_XS, 136 bytes, 256 weights
    0   d    f16                     0   d         f16
    2   qs   4 bits x 32             2   scales_h  2 bits x 8
                                     4   scales_l  4 bits x 8
                                     8   qs        4 bits x 256

    qs, for 32 weights               | 16 | 0 |  | 17 | 1 |  ...  | 31 | 15 |
                                       high low

    IQ4_NL  value = d * KVALUES[code]
    IQ4_XS  value = (d * ((scales_l | scales_h << 4) - 32)) * KVALUES[code]

Source: `gguf.md` section 8; ggml/src/ggml-quants.c, `dequantize_row_iq4_nl`, `_iq4_xs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from explorer.quantization.decoders.i_quants_books import Book
from explorer.quantization.decoders.i_quants_groups import Walk, nibble_at
from explorer.quantization.jit import f32, half_at, kernel, u16_at, u32

_SIXTEEN_BYTES: Final = ir.VectorType(ir.IntType(8), 16)
_SIXTEEN_FLOATS: Final = ir.VectorType(ir.FloatType(), 16)
_INDEX: Final = ir.IntType(32)


def _look_up(builder: Any, table: Any, places: Any) -> Any:
    """Return table[place] for each of 16 places; LLVM finds the byte shuffle in these steps."""
    found = ir.Constant(table.type, ir.Undefined)
    for k in range(16):
        lane = ir.Constant(_INDEX, k)
        entry = builder.extract_element(table, builder.extract_element(places, lane))
        found = builder.insert_element(found, entry, lane)
    return found


def _sixteen(builder: Any, value: Any) -> Any:
    """Return a vector with the same float everywhere."""
    empty = ir.Constant(_SIXTEEN_FLOATS, ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(_INDEX, 16), [0] * 16))


@intrinsic  # type: ignore[untyped-decorator]
def _write_nibbles(
    _context: Any, out: Any, _b: Any, _first: Any, blocks: Any, _at: Any, table: Any, _scale: Any
) -> Any:
    """Write 32 weights, whose levels are table[code], from 16 bytes of two 4-bit codes each.

    _write_nibbles(out, b, first, blocks, at, table: int8 [16], scale: float32): the low halves of
    blocks[b, at : at + 16] are the first 16 codes, the high halves the others.

    In LLVM's own terms, because a loop that looks into a table does not become a byte shuffle:
    IQ4_NL decodes at 2.6 G weights/s by a plain loop and at 16 by this. No processor is named: LLVM
    makes AVX, NEON or scalar code of it.
    """

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        array, b, first, stored, at, levels, scale = arguments

        def place(array_type: Any, array: Any, *indices: Any) -> Any:
            view = context.make_array(array_type)(context, builder, array)
            return cgutils.get_item_pointer(context, builder, array_type, view, indices)

        def load(address: Any) -> Any:
            pointer = builder.bitcast(address, _SIXTEEN_BYTES.as_pointer())
            return builder.load(pointer, align=1)

        packed = load(place(blocks, stored, b, at))
        entries = load(place(table, levels, context.get_constant(types.intp, 0)))
        low = builder.and_(packed, ir.Constant(_SIXTEEN_BYTES, [15] * 16))
        high = builder.lshr(packed, ir.Constant(_SIXTEEN_BYTES, [4] * 16))
        target = place(out, array, b, first)
        for half, codes in enumerate((low, high)):
            values = builder.sitofp(_look_up(builder, entries, codes), _SIXTEEN_FLOATS)
            values = builder.fmul(_sixteen(builder, scale), values)
            there = builder.gep(target, [ir.Constant(_INDEX, 16 * half)])
            # An address of one float promises no more than a float's alignment.
            builder.store(values, builder.bitcast(there, values.type.as_pointer()), align=4)
        return context.get_dummy_value()

    index = types.intp
    return types.void(out, index, index, blocks, index, table, types.float32), generate


@kernel
def walk_iq4_nl(blocks: Any, out: Any, scales: Any, book: Any) -> None:
    """Walk blocks of IQ4_NL, uint8 [n, 18], with one scale each; see `Walk`."""
    for b in range(blocks.shape[0]):
        scale = half_at(blocks, b, 0)
        if scales is not None:
            scales[b, 0], scale = scale, f32(1)
        _write_nibbles(out, b, 0, blocks, 2, book, scale)


@kernel
def walk_iq4_xs(blocks: Any, out: Any, scales: Any, book: Any) -> None:
    """Walk blocks of IQ4_XS, uint8 [n, 136], with 8 scales each; see `Walk`."""
    for b in range(blocks.shape[0]):
        d = half_at(blocks, b, 0)
        scales_h = u16_at(blocks, b, 2)
        for sub in range(8):
            high = ((scales_h >> u32(2 * sub)) & u32(3)) << u32(4)
            scale = d * (f32(nibble_at(blocks, b, 4, sub) | high) - f32(32))
            if scales is not None:
                scales[b, sub], scale = scale, f32(1)
            _write_nibbles(out, b, 32 * sub, blocks, 8 + 16 * sub, book, scale)


WALKS: Final[Mapping[str, tuple[Walk, Book]]] = {
    "IQ4_NL": (walk_iq4_nl, Book.IQ4),
    "IQ4_XS": (walk_iq4_xs, Book.IQ4),
}
