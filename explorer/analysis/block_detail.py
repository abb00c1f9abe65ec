"""One block of a quantized tensor: bytes, fields, scales, codes, weights, and what each bit does.

Everything is exact and comes from where decoding takes it: the layout of the type and its decoder.
A weight whose scales lie in a tensor of their own has groups for blocks, whose bytes come from
several places.

Which bits act on which weights is found by turning them: a block is unpacked, one of its bits is
turned, and it is unpacked again. What differs is what the bit acts on, so no layout is written down
a second time. A bit may act for some contents only (the lowest bit of a base-3 byte, a bit of a
grid's row), so this is done for many contents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.blocks import BlockUnpacker, is_quantized
from explorer.errors import ExplorerError
from explorer.formats.tensors import Extent, Folding, Tensor
from explorer.formats.weights import WeightReader, reader_of_lines
from explorer.parallel import Check, never
from explorer.quantization.convert import swap_byte_order
from explorer.quantization.huggingface.layout import POWER, Formula, LineReader
from explorer.quantization.iq import GridRows, grid_rows, group_weights
from explorer.quantization.registry import BlockField, block_layout, decoder, row_places
from explorer.quantization.types import TENSOR_TYPES

Masks: TypeAlias = NDArray[np.uint8]
"""For each byte of a block and each of some things, the bits of the byte that act on it."""


_CONTENTS: Final = 256  # so that every byte takes every value
_SEED: Final = 5


@dataclass(frozen=True, slots=True)
class BlockBits:
    """What the bits of a block act on; a bit that acts on nothing is not read for decoding.

    Attributes:
        codes: uint8 [bytes, weights]: bits that the code of a weight depends on; of a weight
            without a code of its own the bits of its group and of its sign.
        scales: uint8 [bytes, scales]: bits that an effective scale depends on.
        minima: uint8 [bytes, scales]; [bytes, 0] if the type has no minima.
    """

    codes: Masks
    scales: Masks
    minima: Masks

    def acts_on(self, byte: int, weights_per_scale: int) -> NDArray[np.bool_]:
        """Return a mask of the weights whose codes, scales or minima a byte acts on, bool [n]."""
        shared = self.scales[byte] != 0
        if self.minima.shape[1]:
            shared = shared | (self.minima[byte] != 0)
        acting: NDArray[np.bool_] = self.codes[byte] != 0
        acting |= np.repeat(shared, weights_per_scale)
        return acting


@cache
def bits_of_type(type_name: str) -> BlockBits:
    """Return the bits of a tensor type's blocks; worked out when first asked for.

    Raises:
        KeyError: The type is not quantized.
    """
    parts, kind = block_layout(type_name), TENSOR_TYPES[type_name]
    # Weights that a row of a grid is for, a power of 2. What acts on the size of one of them acts
    # on the row, and so on all of them, though two rows may agree in some.
    group = group_weights(type_name)
    sizes = np.unique(np.abs(parts.levels), return_inverse=True)[1].astype(np.uint8)
    nbytes, scale_count = kind.whole_bytes, kind.block_weights // parts.weights_per_scale
    bits = np.uint8(1) << np.arange(8, dtype=np.uint8)
    places = np.arange(8 * nbytes)
    blocks = np.empty((1 + 8 * nbytes, nbytes), np.uint8)
    codes = np.empty((len(blocks), kind.block_weights), np.uint8)
    scales = np.empty((len(blocks), scale_count), np.float32)
    minima = np.empty((len(blocks), scale_count if parts.has_minimum else 0), np.float32)
    # of floats the bits: a NaN differs from itself, and 0 does not from -0
    results: tuple[NDArray[Any], ...] = codes, scales.view(np.uint32), minima.view(np.uint32)
    acting = [np.zeros((8 * nbytes, result.shape[1]), np.bool_) for result in results]
    # in the contents each byte takes each value once, in its own order
    contents = np.random.default_rng(_SEED).random((_CONTENTS, nbytes)).argsort(axis=0)
    for content in contents.astype(np.uint8):
        blocks[:] = content
        blocks[1 + places, places // 8] ^= bits[places % 8]
        parts.unpack(blocks, codes, scales, minima)
        for number, result in enumerate(results):
            acting[number] |= result[1:] != result[0]
        if group > 1:
            other = sizes[codes]
            rows = (other[1:] != other[0]).view(f"u{group}") != 0  # a group's bytes as one number
            acting[0] |= rows.repeat(group, axis=1)
    return BlockBits(*(_masks(found, nbytes) for found in acting))


def _masks(acting: NDArray[np.bool_], nbytes: int) -> Masks:
    """Put the eight bits of each byte together: bool [8 bytes, n] becomes uint8 [bytes, n]."""
    by_bit = acting.reshape(nbytes, 8, acting.shape[1])
    masks: Masks = np.packbits(by_bit, axis=1, bitorder="little")[:, 0]
    masks.flags.writeable = False
    return masks


# A block of several scales holds a float, d, and for each scale a small factor of it, and so for
# minima. A block whose d is 1 has these very factors for effective scales: so d is set to 1, and
# the scales are unpacked.

_ONE: Final = {
    "f16": np.array([1], "<f2").view(np.uint8),
    "f32": np.array([1], "<f4").view(np.uint8),
}
_OF_BLOCK: Final = frozenset({"d", "dmin"})

# IQ1_M has no field d: bits 12 to 15 of each of these four u16 are a quarter of it, lowest first
_IQ1_M_TOPS: Final = (49, 51, 53, 55)


@dataclass(frozen=True, slots=True)
class SubScales:
    """What a block's sub-blocks store; an effective scale is the block's own times a factor.

    Attributes:
        d: The block's own scale.
        dmin: Its scale of the minima; None if the type has none.
        scales: float32 [scales]: the factor of each scale.
        minima: float32 [scales]: the factor of each minimum; None if the type has none.
    """

    d: float
    dmin: float | None
    scales: NDArray[np.float32]
    minima: NDArray[np.float32] | None


def sub_scales(type_name: str, block: NDArray[np.uint8]) -> SubScales | None:
    """Return what the sub-blocks of a block store; None for a type whose scales are stored whole.

    Args:
        type_name: A quantized tensor type.
        block: uint8 [bytes of a whole block], little-endian.
    """
    parts, kind = block_layout(type_name), TENSOR_TYPES[type_name]
    count = kind.block_weights // parts.weights_per_scale
    own = [field for field in parts.fields if field.name in _OF_BLOCK and field.dtype in _ONE]
    split_d = type_name == "IQ1_M"
    if count == 1 or not (own or split_d):
        return None
    ones = block[None].copy()
    for field in own:
        ones[0, field.offset : field.offset + field.nbytes] = _ONE[field.dtype]
    numbers = {field.name: _numbers(field, block)[0] for field in own}
    if split_d:
        numbers["d"] = _unite(ones[0])
    scales = np.empty((1, count), np.float32)
    minima = np.empty((1, count), np.float32)
    parts.unpack_scales(ones, scales, minima)
    return SubScales(
        numbers["d"], numbers.get("dmin"), scales[0], minima[0] if parts.has_minimum else None
    )


def _unite(block: NDArray[np.uint8]) -> float:
    """Return the scale of an IQ1_M block, and set it to 1."""
    bits, one = 0, int(np.float16(1).view(np.uint16))
    for part, place in enumerate(_IQ1_M_TOPS):
        bits |= int(block[place] >> 4) << 4 * part
        block[place] = int(block[place]) & 15 | (one >> 4 * part & 15) << 4
    return float(np.uint16(bits).view(np.float16))


_MOST_NUMBERS: Final = 16  # of a field: more are codes
_NUMBERS: Final = {"f16": "<f2", "f32": "<f4", "u16": "<u2", "i16": "<i2", "i8": "i1"}
_SMALL_FLOATS: Final = frozenset({"E8M0", "UE4M3", "E4M3"})


@dataclass(frozen=True, slots=True)
class BlockPart:
    """A run of a block's bytes that lie together in a file.

    Attributes:
        name: What holds it: ``"block"``, or the array of a weight that is made of several.
        first: Its first byte in the block.
        extent: Where it lies.
    """

    name: str
    first: int
    extent: Extent


@dataclass(frozen=True, slots=True)
class BlockDetail:
    """What a block is made of; a weight is scale * level - minimum, as `BlockLayout` says.

    Attributes:
        index: Number of the block in the tensor.
        parts: Where its bytes lie.
        stored: All its bytes, as they are in the file.
        fields: What they are; they cover `stored` without gap or overlap.
        numbers: The numbers that each field stores; none of a field of codes.
        levels: float32 [codes]: the value of each code before scaling.
        weights_per_scale: Consecutive weights that share a scale.
        codes: uint8 [weights].
        scales: float32 [scales]: effective scales.
        minima: float32 [scales]: effective minima; None if the type has none.
        sub_scales: What the sub-blocks store for them; None if scales are stored whole.
        rows: Rows of the grid; None for a type without rows.
        values: float32 [weights]: the decoded weights.
        bits: What each bit of `stored` acts on.
    """

    tensor: Tensor
    index: int
    parts: tuple[BlockPart, ...]
    stored: bytes
    fields: tuple[BlockField, ...]
    numbers: tuple[tuple[float, ...], ...]
    levels: NDArray[np.float32]
    weights_per_scale: int
    codes: NDArray[np.uint8]
    scales: NDArray[np.float32]
    minima: NDArray[np.float32] | None
    sub_scales: SubScales | None
    rows: GridRows | None
    values: NDArray[np.float32]
    bits: BlockBits

    @property
    def start(self) -> int:
        """Flat index of the first weight in the tensor."""
        return self.index * self.values.size

    @property
    def weight_levels(self) -> NDArray[np.float32]:
        """The level of each weight, float32 [weights]."""
        return self.levels[self.codes]

    def field_at(self, byte: int) -> int:
        ends = [field.offset + field.nbytes for field in self.fields]
        return int(np.searchsorted(ends, byte, side="right"))

    def extent_of(self, first: int, nbytes: int) -> Extent:
        """Return where some bytes of the block lie, up to the end of the part they begin in."""
        part = [part for part in self.parts if part.first <= first][-1]
        extent, inside = part.extent, first - part.first
        return Extent(extent.source, extent.offset + inside, min(nbytes, extent.nbytes - inside))

    def values_of_levels(self, sub: int) -> NDArray[np.float64]:
        """Return what a weight of a sub-block can be, float64 [codes], in the order of codes."""
        with np.errstate(invalid="ignore"):  # of an infinite scale
            found: NDArray[np.float64] = float(self.scales[sub]) * self.levels.astype(np.float64)
            if self.minima is not None:
                found -= float(self.minima[sub])
        return found


class BlockReader:
    """Unpacks blocks of one tensor. Owns buffers: one thread, one reader.

    Raises:
        ExplorerError: The tensor is not quantized, cannot be decoded, or its file is damaged there.
    """

    def __init__(self, tensor: Tensor) -> None:
        if not is_quantized(tensor):
            raise ExplorerError(f"tensor {tensor.name!r} is not quantized: it has no blocks")
        self._tensor = tensor
        self._reader = WeightReader(tensor)
        self._unpacker = BlockUnpacker(tensor)
        companions = tensor.companions
        self._lines = None if companions is None else reader_of_lines(companions)
        self.count = tensor.parameters // self._reader.unit

    def read(self, index: int, check: Check = never) -> BlockDetail:
        """Read and unpack a block.

        Raises:
            IndexError: There is no such block.
            SourceError: The file changed since it was opened.
        """
        tensor, unit, unpacker = self._tensor, self._reader.unit, self._unpacker
        stored = self._reader.block(index)
        chunk = next(self._reader.chunks(index * unit, (index + 1) * unit, check))
        codes = unpacker.codes(chunk.stored)[0].copy()
        found = unpacker.scales(chunk.stored)
        scales, minima = found.scales[0].copy(), found.minima[0].copy()
        sub, rows = None, None
        if self._lines is not None:
            parts, fields, numbers = _line_fields(tensor, self._lines, index)
            bits = _line_bits(self._lines, index, fields, scales.size)
        else:
            name = tensor.type.name
            parts = tuple(_block_parts(tensor, index))
            fields, bits = block_layout(name).fields, bits_of_type(name)
            raw = np.asarray(chunk.stored).reshape(-1).copy()
            numbers = tuple(_numbers(field, raw, scales) for field in fields)
            sub, rows = sub_scales(name, raw), grid_rows(name, codes)
            if tensor.byte_order == "big":
                order = np.arange(raw.size)
                swap_byte_order(name, order[None])  # type: ignore[arg-type] # places, not bytes
                bits = BlockBits(bits.codes[order], bits.scales[order], bits.minima[order])
        return BlockDetail(
            tensor=tensor,
            index=index,
            parts=parts,
            stored=stored,
            fields=fields,
            numbers=numbers,
            levels=unpacker.levels,
            weights_per_scale=unpacker.weights_per_scale,
            codes=codes,
            scales=scales,
            minima=minima if unpacker.has_minimum else None,
            sub_scales=sub,
            rows=rows,
            values=chunk.values.copy(),
            bits=bits,
        )


def _block_parts(tensor: Tensor, index: int) -> Iterator[BlockPart]:
    """Yield the runs of a block's bytes, and of what it shares with others of its row or tensor."""
    kind, extent = tensor.type, tensor.extents[0]
    shared = kind.row_header + kind.trailer
    if kind.lone or kind.trailer:
        if kind.trailer:
            end = extent.offset + extent.nbytes - kind.trailer
            yield BlockPart("trailer", 0, Extent(extent.source, end, kind.trailer))
        start = extent.offset + index * kind.block_bytes
        yield BlockPart("block", shared, Extent(extent.source, start, kind.block_bytes))
        return
    row_blocks = tensor.shape[-1] // kind.block_weights
    row, block = divmod(index, row_blocks)
    number, row = divmod(row, kind.rows)
    first = extent.offset + number * kind.rows * (shared + row_blocks * kind.block_bytes)
    if kind.rows == 1:
        places = np.r_[: kind.row_header, : kind.block_bytes]
    else:
        places = row_places(kind.name)[row].copy()
    places[shared:] += kind.rows * (shared + block * kind.block_bytes)
    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    for begin, end in pairwise((0, *breaks.tolist(), kind.whole_bytes)):
        name = "row" if begin < shared else "block"
        yield BlockPart(name, begin, Extent(extent.source, first + int(places[begin]), end - begin))


# A weight with companions: its bytes come from several places in each of several stored tensors,
# which its reader names, and so does it say which bit belongs to which code.

_ORDER: Final = "g_idx"
_FIELD_TYPES: Final = {
    **{"F16": "f16", "BF16": "bf16", "F32": "f32", "I32": "u32", "U8": "u8", "I8": "i8"},
    **{"F8_E4M3": "E4M3", "F8_E8M0": "E8M0"},
}


def _line_fields(
    tensor: Tensor, reader: LineReader, index: int
) -> tuple[tuple[BlockPart, ...], tuple[BlockField, ...], tuple[tuple[float, ...], ...]]:
    """Return where the bytes of a block lie, its fields, and their numbers."""
    assert tensor.companions is not None
    unit = reader.layout.unit
    parts: list[BlockPart] = []
    fields: list[BlockField] = []
    raw: list[bytes] = []
    first = 0
    for role, at, nbytes in reader.places(index * unit, unit):
        stored = tensor.companions.parts[role]
        extent = stored.extent
        parts.append(BlockPart(role, first, Extent(extent.source, extent.offset + at, nbytes)))
        own = extent.source.read(extent.offset + at, nbytes)
        if fields and fields[-1].name == role:
            fields[-1] = replace(fields[-1], nbytes=fields[-1].nbytes + nbytes)
            raw[-1] += own
        else:
            is_codes = not fields
            kind = _kind(reader, role, stored.type.name)
            named = f"{reader.layout.bits}-bit codes" if is_codes else _FIELD_TYPES.get(kind, kind)
            fields.append(BlockField(role, first, nbytes, named, _meaning(role, is_codes)))
            raw.append(own)
        first += nbytes
    numbers: list[tuple[float, ...]] = [()]  # codes have none
    for number, own in enumerate(raw[1:], 1):
        field = fields[number]
        kind = _kind(reader, field.name, tensor.companions.parts[field.name].type.name)
        if field.name.endswith(_ORDER):
            numbers.append(tuple(np.frombuffer(own, "<i4").tolist()))
        elif _is_zero(field):
            numbers.append(_zero_points(reader, index * unit, unit))
            if reader.layout.option("stored_minus_one") and _wraps(own, reader.layout.bits):
                fields[number] = replace(field, meaning=_WRAPS)
        else:
            numbers.append(() if kind == "I32" else _floats(own, kind))
    return tuple(parts), tuple(fields), tuple(numbers)


def _kind(reader: LineReader, role: str, stored: str) -> str:
    """Return the true type of a part: small floats are stored in U8, too."""
    layout = reader.layout
    kind = str(layout.option("scale_type", "")) if role == layout.option("scales") else ""
    return "F8_E8M0" if kind == POWER else kind or stored


def _is_zero(field: BlockField) -> bool:
    """Return whether a part is words that hold the zero points of several rows."""
    return "zero" in field.name and field.dtype == "u32"


def _zero_points(reader: LineReader, first: int, count: int) -> tuple[float, ...]:
    """Return the zero points of some weights' groups, which words hold with those of others."""
    lines = reader.layout.lines(1)
    reader.fill(first // reader.layout.line, lines)
    return tuple(float(lines.zeros[0, group]) for group in reader.groups_of(first, count))


_WRAPS: Final = "zero point; its word has a field of all ones: AutoGPTQ, exllama, Marlin differ"


def _wraps(words: bytes, bits: int) -> bool:
    """Return whether a zero point of 0 was stored less 1, which programs undo in several ways."""
    ones = (1 << bits) - 1
    shifts = range(0, 8, bits) if 8 % bits == 0 else ()  # of 3 bits all undo it alike
    return any(byte >> shift & ones == ones for byte in words for shift in shifts)


def _floats(raw: bytes, type_name: str) -> tuple[float, ...]:
    kind = TENSOR_TYPES[type_name]
    out = np.empty((len(raw) // kind.block_bytes, 1), np.float32)
    decoder(type_name)(np.frombuffer(raw, np.uint8).reshape(len(out), -1), out)
    return tuple(out.reshape(-1).tolist())


def _meaning(role: str, is_codes: bool) -> str:
    if is_codes:
        return "codes; some bits may belong to weights of other rows"
    if role.endswith(_ORDER):
        return "group of each column, whose scale and zero point it takes"
    if role == "biases":
        return "value of code 0"
    if "zero" in role or "shift" in role:
        return "zero point, maybe among those of other rows"
    return "scale of these weights"


def _line_bits(
    reader: LineReader, index: int, fields: tuple[BlockField, ...], scale_count: int
) -> BlockBits:
    """Return what each bit acts on; a word of zero points acts as a whole."""
    layout = reader.layout
    unit, nbytes = layout.unit, sum(field.nbytes for field in fields)
    has_minimum = layout.formula in {Formula.ZERO_FIRST, Formula.ZERO_LAST}
    codes = np.zeros((nbytes, unit), np.uint8)
    scales = np.zeros((nbytes, scale_count), np.uint8)
    minima = np.zeros((nbytes, scale_count if has_minimum else 0), np.uint8)
    for number, field in enumerate(fields):
        run = slice(field.offset, field.offset + field.nbytes)
        if number == 0:
            weights = reader.code_bits(index * unit, unit, field.nbytes)
            bits = np.flatnonzero((weights >= 0) & (weights < unit))
            np.bitwise_or.at(codes, (bits // 8, weights[bits]), np.uint8(1) << (bits % 8))
        elif field.name.endswith(_ORDER):
            of_weights = np.arange(field.nbytes) // (field.nbytes // unit)
            scales[np.arange(run.start, run.stop), of_weights] = 255
        else:
            is_zero = has_minimum and any(word in field.name for word in ("zero", "shift", "bias"))
            acting = _of_groups(reader, index * unit, field.nbytes, scale_count)
            if not is_zero:
                scales[run] |= acting
            if is_zero or layout.formula is Formula.ZERO_FIRST:
                minima[run] |= acting
    return BlockBits(codes, scales, minima)


def _of_groups(reader: LineReader, first: int, nbytes: int, scale_count: int) -> Masks:
    """Return which scales the bytes of what a block's groups have act on, group by group.

    Returns:
        uint8 [nbytes, scale_count]: 255 or 0. Where columns are in another order, there is a scale
        for each weight.
    """
    if reader.groups is None:
        return np.full((nbytes, scale_count), 255, np.uint8)
    column = first % reader.layout.line
    groups = np.array(reader.groups_of(first, scale_count))
    own = reader.groups[column : column + scale_count] == groups[:, None]
    return np.where(own.repeat(nbytes // len(groups), axis=0), 255, 0).astype(np.uint8)


def _numbers(
    field: BlockField, raw: NDArray[np.uint8], scales: NDArray[np.float32] | None = None
) -> tuple[float, ...]:
    """Return the numbers that a field stores; none if it stores codes.

    Args:
        raw: uint8 [bytes], little-endian.
        scales: float32 [any shape]: the values of small floats.
    """
    if scales is not None and field.dtype in _SMALL_FLOATS:
        return tuple(scales.reshape(-1).tolist())
    stored = raw[field.offset : field.offset + field.nbytes].tobytes()
    if field.dtype == "bf16":
        return (float((np.frombuffer(stored, "<u2").astype("<u4") << 16).view("<f4")[0]),)
    if field.dtype not in _NUMBERS:
        return ()
    numbers = np.frombuffer(stored, _NUMBERS[field.dtype])
    return tuple(numbers.tolist()) if numbers.size <= _MOST_NUMBERS else ()


def place_of(detail: BlockDetail) -> tuple[int, int]:
    """Return row and column of a block's first weight; rows are counted through all dimensions."""
    return divmod(detail.start, Folding(detail.tensor.shape).columns)
