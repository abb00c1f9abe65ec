"""Reading fields of an IQ block, and writing 8 or 32 weights at a time.

A loop over 8 weights is unrolled into scalar code before LLVM's vectorizer sees it, which costs
three quarters of the speed (IQ2_XS: 1.7 G weights/s, against 7.9). So groups are written as vectors
in LLVM's own terms here. They name no processor: LLVM makes AVX, NEON or scalar code of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from explorer.quantization.jit import inlined, u32

Walk: TypeAlias = Callable[[Any, Any, Any, Any], None]
"""A kernel of an IQ type: walk(blocks, out, scales, book).

`out` is [blocks, weights], float32 for weights or uint8 for levels as the bits of an int8; `scales`
is None or float32 [blocks, scales of a block]; `book` is what `code_book` returns. As in all
kernels, shapes are the caller's promise.
"""

_BYTE = ir.IntType(8)
_INDEX = ir.IntType(32)
_FLOAT = ir.FloatType()


@inlined
def nibble_at(blocks: Any, b: Any, offset: Any, k: Any) -> Any:
    """Return half-byte k, low halves first, of the bytes of block `b` from an offset on."""
    return (u32(blocks[b, offset + (k >> 1)]) >> u32(4 * (k & 1))) & u32(15)


def _vector(element: ir.Type, length: int) -> ir.VectorType:
    return ir.VectorType(element, length)


def _spread(builder: Any, value: Any, length: int) -> Any:
    """Return a vector with the same value everywhere."""
    empty = ir.Constant(_vector(value.type, length), ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(_INDEX, 0))
    nowhere = ir.Constant(_vector(_INDEX, length), [0] * length)
    return builder.shuffle_vector(first, empty, nowhere)


def _address(context: Any, builder: Any, array_type: Any, array: Any, indices: list[Any]) -> Any:
    """Return the address of an element of a contiguous array."""
    if array_type.layout != "C":
        raise TypingError(f"blocks and weights must be C-contiguous, not {array_type}")
    view = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, view, indices)


def _write_levels(builder: Any, levels: Any, scale: Any, target: Any, out: Any) -> None:
    """Store int8 levels as they are into an array of uint8, times the scale into one of float32."""
    element = out.dtype
    if element not in {types.float32, types.uint8} or not out.mutable:
        raise TypingError(f"weights must be writable float32, or uint8 for levels, not {out}")
    length = levels.type.count
    if element == types.float32:
        values = builder.sitofp(levels, _vector(_FLOAT, length))
        levels = builder.fmul(_spread(builder, scale, length), values)
    # An address of one element promises no more than that element's alignment.
    place = builder.bitcast(target, levels.type.as_pointer())
    builder.store(levels, place, align=element.bitwidth // 8)


@intrinsic  # type: ignore[untyped-decorator]
def write_group(_context: Any, out: Any, _b: Any, _first: Any, _row: Any, _scale: Any) -> Any:
    """Write 8 weights of block `b`: write_group(out, b, first, row: uint64, scale: float32)."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        array, block, weight, row, scale = arguments
        target = _address(context, builder, out, array, [block, weight])
        _write_levels(builder, builder.bitcast(row, _vector(_BYTE, 8)), scale, target, out)
        return context.get_dummy_value()

    return types.void(out, types.intp, types.intp, types.uint64, types.float32), generate


@intrinsic  # type: ignore[untyped-decorator]
def with_signs(_context: Any, _row: Any, _signs: Any) -> Any:
    """Negate the levels of a row, uint64, where their bit in `signs`, uint8, is set."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        row, signs = arguments
        levels = builder.bitcast(row, _vector(_BYTE, 8))
        negative = builder.bitcast(signs, _vector(ir.IntType(1), 8))
        negated = builder.sub(ir.Constant(levels.type, [0] * 8), levels)
        levels = builder.select(negative, negated, levels)
        return builder.bitcast(levels, ir.IntType(64))

    return types.uint64(types.uint64, types.uint8), generate


@intrinsic  # type: ignore[untyped-decorator]
def with_shift(_context: Any, _row: Any, _shift: Any) -> Any:
    """Add `shift`, int8, to each level of a row, uint64."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        row, shift = arguments
        levels = builder.bitcast(row, _vector(_BYTE, 8))
        levels = builder.add(levels, _spread(builder, shift, 8))
        return builder.bitcast(levels, ir.IntType(64))

    return types.uint64(types.uint64, types.int8), generate


def _look_up(builder: Any, table: Any, places: Any) -> Any:
    """Return table[place] for each of 16 places; LLVM finds the byte shuffle in these steps."""
    found = ir.Constant(table.type, ir.Undefined)
    for k in range(16):
        lane = ir.Constant(_INDEX, k)
        entry = builder.extract_element(table, builder.extract_element(places, lane))
        found = builder.insert_element(found, entry, lane)
    return found


@intrinsic  # type: ignore[untyped-decorator]
def write_nibbles(
    _context: Any, out: Any, _b: Any, _first: Any, blocks: Any, _at: Any, table: Any, _scale: Any
) -> Any:
    """Write 32 weights, whose levels are table[code], from 16 bytes of two 4-bit codes each.

    write_nibbles(out, b, first, blocks, at, table: int8 [16], scale: float32): the low halves of
    blocks[b, at : at + 16] are the first 16 codes, the high halves the others.
    """

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        array, block, weight, stored, at, levels, scale = arguments
        sixteen = _vector(_BYTE, 16)

        def load(array_type: Any, array: Any, indices: list[Any]) -> Any:
            place = _address(context, builder, array_type, array, indices)
            return builder.load(builder.bitcast(place, sixteen.as_pointer()), align=1)

        packed = load(blocks, stored, [block, at])
        entries = load(table, levels, [context.get_constant(types.intp, 0)])
        low = builder.and_(packed, ir.Constant(sixteen, [15] * 16))
        high = builder.lshr(packed, ir.Constant(sixteen, [4] * 16))
        target = _address(context, builder, out, array, [block, weight])
        for half, codes in enumerate((low, high)):
            place = builder.gep(target, [ir.Constant(_INDEX, 16 * half)])
            _write_levels(builder, _look_up(builder, entries, codes), scale, place, out)
        return context.get_dummy_value()

    index = types.intp
    return types.void(out, index, index, blocks, index, table, types.float32), generate
