"""The kernels of types that are told as bits of a block: LLVM code that is made of a `BitType`.

A kernel that reads such a description while it runs takes two to seven times as long as one that is
written for its type: places, shifts and masks come from tables, a number at a time. So each type
gets code of its own, without a loop inside the block, in which all of these are constants. 16
weights are one vector of bytes, then of floats; no processor is named: LLVM makes AVX, NEON or
scalar code of it. Kernels check nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from explorer.quantization.bits import POWER, QUARTERS, SINGLE, Bits, BitType, grid_codes
from explorer.quantization.grids import Grid
from explorer.quantization.jit import (
    float32_of_bits,
    float32_of_half,
    half_at,
    inlined,
    kernel,
    u16,
    u16_at,
    u32,
    u32_at,
)
from explorer.quantization.registry import BlockField, BlockLayout, Blocks, Scales
from explorer.quantization.types import TENSOR_TYPES

_AT_ONCE: Final = 16
"""Weights of a vector; so many bytes are what a table of levels is looked into with (`_shuffled`:
IQ4_NL decodes at 2.6 G weights/s where its table is read a level at a time)."""
_WINDOW: Final = 64
"""The longest run of bytes that is loaded at once; others are loaded byte by byte."""
_SHUFFLED: Final = 64
"""Levels of the longest table that is looked into with vectors of bytes."""

_INDEX: Final = ir.IntType(32)
_FLOAT: Final = ir.FloatType()
_FLOATS: Final = ir.VectorType(_FLOAT, _AT_ONCE)
_BYTES: Final = ir.VectorType(ir.IntType(8), _AT_ONCE)


def _constants(width: int, values: Any) -> Any:
    numbers = [int(value) for value in values]
    return ir.Constant(ir.VectorType(ir.IntType(width), len(numbers)), numbers)


def _all(width: int, value: int, count: int = _AT_ONCE) -> Any:
    return _constants(width, [value] * count)


def _lane(number: int) -> Any:
    return ir.Constant(_INDEX, number)


def _undefined(kind: Any) -> Any:
    return ir.Constant(kind, ir.Undefined)


class _Block(NamedTuple):
    """A block in LLVM's terms: what is built there, the address of its first byte, and its type."""

    builder: Any
    address: Any
    kind: BitType
    weights: int

    def _load(self, at: int, count: int) -> Any:
        place = self.builder.gep(self.address, [_lane(at)])
        kind = ir.VectorType(ir.IntType(8), count)
        return self.builder.load(self.builder.bitcast(place, kind.as_pointer()), align=1)

    def _gathered(self, index: NDArray[np.int64]) -> Any:
        """Return bytes of the block as a vector: of one window, or of single bytes."""
        size = sum(field.nbytes for field in self.kind.fields)
        index = np.minimum(index, size - 1)  # beyond the bits that count
        first, span = int(index.min()), int(np.ptp(index)) + 1
        if span > _WINDOW:
            found = _undefined(ir.VectorType(ir.IntType(8), len(index)))
            for lane, at in enumerate(index):
                one = self.builder.load(self.builder.gep(self.address, [_lane(int(at))]))
                found = self.builder.insert_element(found, one, _lane(lane))
            return found
        count = min(1 << (span - 1).bit_length(), size)
        first = min(first, size - count)
        window = self._load(first, count)
        if np.array_equal(index - first, np.arange(count)):
            return window
        return self.builder.shuffle_vector(
            window, _undefined(window.type), _constants(32, index - first)
        )

    def numbers(self, parts: Sequence[Bits], wanted: NDArray[np.int64], width: int) -> Any:
        """Return the wanted of the numbers that parts make, as a vector of `width` bits each."""
        builder = self.builder
        found = _constants(width, np.zeros(len(wanted)))
        for part in parts:
            masks = np.broadcast_to(part.mask, part.places.shape)[wanted]
            at, down = np.divmod(part.places[wanted], 8)
            most = max(int(d) + int(mask).bit_length() for d, mask in zip(down, masks, strict=True))
            each = 1 << max((most - 1) // 8, 0).bit_length()  # bytes
            stored = self._gathered((at[:, None] + np.arange(each)).reshape(-1))
            own = builder.bitcast(stored, ir.VectorType(ir.IntType(8 * each), len(wanted)))
            if width == 8 and (masks == 1).all():  # a test, where bytes have no shifts of their own
                own = builder.and_(own, _constants(8, 1 << down))
                is_set = builder.icmp_unsigned("!=", own, _all(8, 0, len(wanted)))
                one, none = (_all(8, bit, len(wanted)) for bit in (1 << part.up, 0))
                found = builder.xor(found, builder.select(is_set, one, none))
                continue
            if down.any():
                own = builder.lshr(own, _constants(8 * each, down))
            own = builder.and_(own, _constants(8 * each, masks))
            if 8 * each != width:
                change = builder.zext if 8 * each < width else builder.trunc
                own = change(own, found.type)
            if part.up:
                own = builder.shl(own, _all(width, part.up, len(wanted)))
            found = builder.xor(found, own)
        return found

    def _number(self, parts: Sequence[Bits], k: int) -> Any:
        """Return one number."""
        builder, wide = self.builder, ir.IntType(32)
        found = ir.Constant(wide, self.kind.start)
        for part in parts:
            mask = int(np.broadcast_to(part.mask, part.places.shape)[k])
            at, down = divmod(int(part.places[k]), 8)
            one = ir.IntType(8 if down + mask.bit_length() <= 8 else 16)
            place = builder.gep(self.address, [_lane(at)])
            own = builder.load(builder.bitcast(place, one.as_pointer()), align=1)
            own = builder.zext(own, wide)
            own = builder.and_(builder.lshr(own, ir.Constant(wide, down)), ir.Constant(wide, mask))
            found = builder.xor(found, builder.shl(own, ir.Constant(wide, part.up)))
        return found

    def codes(self) -> list[Any]:
        """Return the codes of the block, 16 a vector of bytes."""
        kind = self.kind
        groups = np.arange(self.weights).reshape(-1, _AT_ONCE)
        codes = [self.numbers(kind.codes, group, 8) for group in groups] if kind.codes else []
        if kind.powers is not None:
            return [self._digits(*both) for both in zip(codes, kind.powers[groups], strict=True)]
        if kind.table is not None:
            return self._looked_up()
        if kind.rows:
            return self._generated(codes)
        builder = self.builder
        if kind.start:
            codes = [builder.xor(one, _all(8, kind.start)) for one in codes]
        if kind.selects:
            of = groups * len(kind.selects[0].places) // self.weights
            selects = (self.numbers(kind.selects, group, 8) for group in of)
            codes = [builder.or_(*both) for both in zip(codes, selects, strict=True)]
        return codes

    def _rows(self, width: int) -> Any:
        return self.numbers(self.kind.rows, np.arange(len(self.kind.rows[0].places)), width)

    def _digits(self, stored: Any, powers: NDArray[np.int64]) -> Any:
        """Return digits in base 3: of the fraction of 256 that a byte is, times a power of 3."""
        builder, wide = self.builder, ir.VectorType(ir.IntType(16), _AT_ONCE)
        fraction = builder.zext(builder.mul(stored, _constants(8, powers)), wide)
        digits = builder.lshr(builder.mul(fraction, _all(16, 3)), _all(16, 8))
        return builder.trunc(digits, _BYTES)

    def _looked_up(self) -> list[Any]:
        """Return the codes of groups of weights, which are rows of a table."""
        kind, builder = self.kind, self.builder
        assert kind.table is not None
        table = grid_codes(kind.table) if isinstance(kind.table, Grid) else kind.table
        columns = table.shape[1]
        if table.size <= _SHUFFLED:
            return self._looked_up_by_bytes(table)
        constant = _global(builder, f"<u{columns}", table)
        each = _AT_ONCE // columns
        most = _all(8, int(table.max()), _AT_ONCE)
        if kind.signs:
            signs = self.numbers(kind.signs, np.arange(self.weights // 8), 8)
            if kind.even_signs:
                odd = signs
                for down in (4, 2, 1):
                    odd = builder.xor(odd, builder.lshr(odd, _all(8, down, odd.type.count)))
                signs = builder.xor(signs, builder.shl(odd, _all(8, 7, odd.type.count)))
            signs = builder.bitcast(
                signs, ir.VectorType(ir.IntType(_AT_ONCE), self.weights // _AT_ONCE)
            )
        codes = []
        for group in range(self.weights // _AT_ONCE):
            own = _undefined(ir.VectorType(ir.IntType(8 * columns), each))
            for k in range(each):
                row = self._number(kind.rows, each * group + k)
                own = builder.insert_element(own, _entry(builder, constant, row), _lane(k))
            own = builder.bitcast(own, _BYTES)
            if kind.signs:
                bits = builder.extract_element(signs, _lane(group))
                turned = builder.bitcast(bits, ir.VectorType(ir.IntType(1), _AT_ONCE))
                own = builder.select(turned, builder.sub(most, own), own)
            codes.append(own)
        return codes

    def _looked_up_by_bytes(self, table: NDArray[np.uint8]) -> list[Any]:
        builder, columns = self.builder, table.shape[1]
        codes = []
        for group in np.arange(self.weights).reshape(-1, _AT_ONCE):
            row = self.numbers(self.kind.rows, group // columns, 8)
            places = builder.mul(row, _all(8, columns))
            places = builder.add(places, _constants(8, group % columns))
            codes.append(self._shuffled(table.reshape(-1), places))
        return codes

    def _generated(self, signs: list[Any]) -> list[Any]:
        """Return codes 126 + v, where v is what the generator gives one weight after the other.

        With signs v is what it gives without its own sign and with this one; code 253 is -0.
        """
        builder = self.builder
        seeds = self._rows(32)
        count = seeds.type.count
        seeds = builder.add(seeds, _all(32, 4096, count))
        each = self.weights // count
        codes = []
        for group in range(self.weights // _AT_ONCE):
            row, place = np.divmod(np.arange(group * _AT_ONCE, (group + 1) * _AT_ONCE), each)
            x = builder.shuffle_vector(seeds, _undefined(seeds.type), _constants(32, row))
            x = builder.mul(x, _constants(32, (pow(_FACTOR, int(k) + 1, 1 << 32) for k in place)))
            x = builder.and_(x, _all(32, 0x3F3F3F3F))
            # the sum of four bytes below 64 comes into the highest byte
            x = builder.mul(x, _all(32, 0x01010101))
            code = builder.trunc(builder.lshr(x, _all(32, 24)), _BYTES)
            if signs:
                other = builder.sub(_all(8, 252), code)
                less = builder.icmp_unsigned("<", code, other)
                low, high = builder.select(less, code, other), builder.select(less, other, code)
                none = builder.icmp_unsigned("==", low, _all(8, 126))
                minus = builder.select(none, _all(8, 253), low)
                plus = builder.icmp_unsigned("==", signs[group], _all(8, 0))
                code = builder.select(plus, high, minus)
            codes.append(code)
        return codes

    def levels(self, codes: Any) -> Any:
        """Return the levels of 16 codes as floats."""
        builder, levels = self.builder, self.kind.levels
        if self.kind.cubic:
            return self._cubic(codes)
        if len(levels) > 1 and levels[-1] == 0 and np.signbit(levels[-1]):  # of the generator
            values = self._whole(codes, levels[:-1])
            last = builder.icmp_unsigned("==", codes, _all(8, len(levels) - 1))
            return builder.select(last, _same(-0.0), values)
        for parts in (1, 8):  # IQ1's levels are eighths
            whole = levels * np.float32(parts)
            if np.array_equal(whole, np.rint(whole)) and (
                (np.diff(whole) == 1).all() or len(levels) <= _SHUFFLED
            ):
                values = self._whole(codes, whole)
                return values if parts == 1 else builder.fmul(values, _same(1 / parts))
        raise NotImplementedError(f"levels that are not made of whole numbers: {levels}")

    def _whole(self, codes: Any, levels: NDArray[np.float32]) -> Any:
        """Return levels that are whole numbers."""
        builder = self.builder
        if (np.diff(levels) == 1).all():
            wide = builder.zext(codes, ir.VectorType(_INDEX, _AT_ONCE))
            wide = builder.add(wide, _all(32, int(levels[0])))
            return builder.sitofp(wide, _FLOATS)
        return builder.sitofp(self._shuffled(levels, codes), _FLOATS)

    def _shuffled(self, table: NDArray[Any], codes: Any) -> Any:
        """Return table[code] of 16 codes: bytes."""
        builder = self.builder
        places, parts = builder.and_(codes, _all(8, 15)), builder.lshr(codes, _all(8, 4))
        padded = np.pad(table, (0, -len(table) % _AT_ONCE)).reshape(-1, _AT_ONCE)
        found = _shuffle(builder, _constants(8, padded[0]), places)
        for part, own in enumerate(padded[1:], 1):
            here = builder.icmp_unsigned("==", parts, _all(8, part))
            found = builder.select(here, _shuffle(builder, _constants(8, own), places), found)
        return found

    def _cubic(self, codes: Any) -> Any:
        """Return a polynomial of the code's low six bits, each step rounded, and one more if 64."""
        builder, first = self.builder, self.kind.cubic
        q = builder.and_(codes, _all(8, 63))
        q = builder.uitofp(q, _FLOATS)
        values = _same(first[-1])
        for constant in reversed(first[:-1]):
            values = builder.fadd(_same(constant), builder.fmul(q, values))
        second = builder.icmp_unsigned(">", codes, _all(8, 63))
        return builder.select(second, builder.fadd(values, _same(1.0)), values)

    def scales(self, parts: Sequence[Bits], factors: NDArray[np.float32], d: Any) -> Any:
        """Return the scales or minima of the sub-blocks: a vector of floats."""
        builder, count = self.builder, self.weights // self.kind.weights_per_scale
        kind = ir.VectorType(_FLOAT, count)
        first = factors[0]
        step = factors[1] - first if len(factors) > 1 else np.float32(0)
        numbers = self.numbers(parts, np.arange(count), 32)
        if np.array_equal(factors, first + step * np.arange(len(factors), dtype=np.float32)):
            values = builder.uitofp(numbers, kind)  # all of it exact
            values = builder.fmul(values, ir.Constant(kind, [float(step)] * count))
            values = builder.fadd(values, ir.Constant(kind, [float(first)] * count))
        else:
            table = _global(builder, "<u4", factors)
            values = _undefined(kind)
            for k in range(count):
                one = _entry(builder, table, builder.extract_element(numbers, _lane(k)))
                values = builder.insert_element(values, builder.bitcast(one, _FLOAT), _lane(k))
        return builder.fmul(_broadcast(builder, d, count), values)


_FACTOR: Final = 0xCBAC1FED


def _same(value: float) -> Any:
    return ir.Constant(_FLOATS, [value] * _AT_ONCE)


def _broadcast(builder: Any, value: Any, count: int) -> Any:
    one = builder.insert_element(_undefined(ir.VectorType(value.type, count)), value, _lane(0))
    return builder.shuffle_vector(one, _undefined(one.type), _all(32, 0, count))


def _shuffle(builder: Any, table: Any, places: Any) -> Any:
    """Return table[place] for each of 16 places; LLVM finds the byte shuffle in these steps."""
    found = _undefined(table.type)
    for k in range(_AT_ONCE):
        entry = builder.extract_element(table, builder.extract_element(places, _lane(k)))
        found = builder.insert_element(found, entry, _lane(k))
    return found


def _global(builder: Any, element: str, table: NDArray[Any]) -> Any:
    """Return a table in the machine code: the address of its first entry."""
    words = np.ascontiguousarray(table).view(element).reshape(-1)
    width = 8 * words.itemsize
    kind = ir.ArrayType(ir.IntType(width), len(words))
    constant = ir.Constant(kind, [int(word) for word in words])
    found = cgutils.global_constant(builder, "table", constant)
    return builder.bitcast(found, ir.IntType(width).as_pointer())


def _entry(builder: Any, table: Any, row: Any) -> Any:
    return builder.load(builder.gep(table, [builder.zext(row, ir.IntType(64))]))


# What a kernel does with each block.


def _store(block: _Block, target: Any, place: int, values: Any) -> None:
    """Store a vector; the address promises no more than an element's alignment."""
    builder = block.builder
    at = builder.bitcast(builder.gep(target, [_lane(place)]), values.type.as_pointer())
    builder.store(values, at, align=1)


def _write_weights(block: _Block, target: Any, d: Any, dmin: Any) -> None:
    builder, kind = block.builder, block.kind
    scales = block.scales(kind.scales, kind.factors, d)
    minima = None
    if kind.minima is not None:
        minima = block.scales(kind.minima, kind.min_factors, dmin)
    for group, codes in enumerate(block.codes()):
        of = _all(32, group * _AT_ONCE // kind.weights_per_scale)
        scale = builder.shuffle_vector(scales, _undefined(scales.type), of)
        values = builder.fmul(scale, block.levels(codes))
        if minima is not None:
            minimum = builder.shuffle_vector(minima, _undefined(minima.type), of)
            values = builder.fsub(values, minimum)
        _store(block, target, group * _AT_ONCE, values)


def _write_codes(block: _Block, target: Any, _d: Any, _dmin: Any) -> None:
    for group, codes in enumerate(block.codes()):
        _store(block, target, group * _AT_ONCE, codes)


def _write_scales(block: _Block, target: Any, d: Any, _dmin: Any) -> None:
    _store(block, target, 0, block.scales(block.kind.scales, block.kind.factors, d))


def _write_minima(block: _Block, target: Any, _d: Any, dmin: Any) -> None:
    _store(block, target, 0, block.scales(block.kind.minima or (), block.kind.min_factors, dmin))


_Build: TypeAlias = Callable[[_Block, Any, Any, Any], None]


def _writer(build: _Build, kind: BitType, weights: int) -> Any:
    """Return what writes out[b] of blocks[b]: write(out, b, blocks, d, dmin)."""

    def write(_context: Any, out: Any, _b: Any, blocks: Any, _d: Any, _dmin: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            array, b, stored, d, dmin = arguments
            address, target = (
                cgutils.get_item_pointer(
                    context, builder, of, context.make_array(of)(context, builder, one), [b, start]
                )
                for of, one, start in (
                    (blocks, stored, context.get_constant(types.intp, 0)),
                    (out, array, context.get_constant(types.intp, 0)),
                )
            )
            build(_Block(builder, address, kind, weights), target, d, dmin)
            return context.get_dummy_value()

        index = types.intp
        return types.void(out, index, blocks, types.float32, types.float32), generate

    return intrinsic(write)


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


def _kernel_of(name: str, kind: BitType, build: _Build) -> Any:
    """Return a kernel, fill(blocks, out); it is compiled when it is first called."""
    write = _writer(build, kind, TENSOR_TYPES[name].block_weights)
    d, d_at, min_at, less = kind.d, kind.d_at, kind.min_at, kind.minima is not None

    def fill(blocks: Any, out: Any) -> None:
        for b in range(blocks.shape[0]):
            scale = _scale_at(blocks, b, d, d_at)
            minimum = _scale_at(blocks, b, d, min_at) if less else scale
            write(out, b, blocks, scale, minimum)

    fill.__qualname__ = f"{name}.{build.__name__}"  # names what is kept on disk
    return kernel(fill)


def decoder_of(name: str, kind: BitType) -> Any:
    """Return the decoder of a type that is told as bits."""
    return _kernel_of(name, kind, _write_weights)


def layout_of(name: str, kind: BitType) -> BlockLayout:
    """Return the block layout of a type that is told as bits."""
    fields, at = [], 0
    for field in kind.fields:
        fields.append(BlockField(field.name, at, field.nbytes, field.dtype, field.meaning))
        at += field.nbytes
    scales, minima = (_kernel_of(name, kind, build) for build in (_write_scales, _write_minima))

    def unpack_scales(blocks: Blocks, out: Scales, minima_out: Scales) -> None:
        scales(blocks, out)
        if kind.minima is not None:
            minima(blocks, minima_out)

    return BlockLayout(
        levels=kind.levels,
        weights_per_scale=kind.weights_per_scale,
        fields=tuple(fields),
        unpack_codes=_kernel_of(name, kind, _write_codes),
        unpack_scales=unpack_scales,
        has_minimum=kind.minima is not None,
    )


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
