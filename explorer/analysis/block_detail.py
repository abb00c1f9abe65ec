"""One block of a quantized tensor, taken apart: its bytes, fields, scales, codes and weights.

For looking at, so everything is exact, and every figure comes from where decoding takes it: the
layout of the type and its decoder. A weight whose scales lie in a tensor of their own has groups
for blocks, whose bytes come from several places.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.block_search import Beside
from explorer.analysis.blocks import BlockUnpacker, is_quantized
from explorer.errors import ExplorerError
from explorer.formats.tensors import Extent, Folding, Tensor
from explorer.formats.weights import Chunk, WeightReader
from explorer.parallel import Check, never
from explorer.quantization.block_bits import (
    BlockBits,
    SubScales,
    bits_of_layout,
    bits_of_type,
    sub_scales,
)
from explorer.quantization.convert import swap_byte_order
from explorer.quantization.grouped import unpack_group_scales
from explorer.quantization.grouped.layout import group_fields, stored_groups
from explorer.quantization.iq_layout import GridRows, grid_rows
from explorer.quantization.registry import BlockField, block_layout

_FACTOR_BYTES: Final = 4
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
        tensor: The tensor.
        index: Number of the block in it.
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
        """Return the number of the field that a byte is in."""
        ends = [field.offset + field.nbytes for field in self.fields]
        return int(np.searchsorted(ends, byte, side="right"))

    def extent_of(self, first: int, nbytes: int) -> Extent:
        """Return where some bytes of the block lie, up to the end of the part they begin in."""
        part = [part for part in self.parts if part.first <= first][-1]
        inside = first - part.first
        return Extent(
            part.extent.source,
            part.extent.offset + inside,
            min(nbytes, part.extent.nbytes - inside),
        )

    def values_of_levels(self, sub: int) -> NDArray[np.float64]:
        """Return what a weight of a sub-block can be, float64 [codes], in the order of codes."""
        with np.errstate(invalid="ignore"):  # of an infinite scale
            found: NDArray[np.float64] = float(self.scales[sub]) * self.levels.astype(np.float64)
            if self.minima is not None:
                found -= float(self.minima[sub])
        return found


class BlockReader:
    """Takes blocks of one tensor apart. Owns buffers: one thread, one reader.

    Attributes:
        count: Number of blocks.

    Raises:
        ExplorerError: The tensor is not quantized, cannot be decoded, or its file is damaged there.
    """

    def __init__(self, tensor: Tensor) -> None:
        if not is_quantized(tensor):
            raise ExplorerError(f"tensor {tensor.name!r} is not quantized: it has no blocks")
        self._tensor = tensor
        self._reader = WeightReader(tensor)
        self._unpacker = BlockUnpacker(tensor)
        self.count = tensor.parameters // self._reader.unit

    def read(self, index: int, check: Check = never) -> BlockDetail:
        """Take a block apart.

        Raises:
            IndexError: There is no such block.
            SourceError: The file changed since it was opened.
        """
        tensor, unit = self._tensor, self._reader.unit
        stored = self._reader.block(index)
        chunk = next(self._reader.chunks(index * unit, (index + 1) * unit, check))
        codes = self._unpacker.codes(chunk.stored)[0].copy()
        found = self._unpacker.scales(chunk.stored)
        scales, minima = found.scales[0].copy(), found.minima[0].copy()
        detail = BlockDetail(
            tensor=tensor,
            index=index,
            parts=_parts(tensor, index),
            stored=stored,
            fields=(),
            numbers=(),
            levels=self._unpacker.levels,
            weights_per_scale=self._unpacker.weights_per_scale,
            codes=codes,
            scales=scales,
            minima=minima if self._unpacker.has_minimum else None,
            sub_scales=None,
            rows=None,
            values=chunk.values.copy(),
            bits=_NO_BITS,
        )
        return _of_group(detail) if tensor.grouped is not None else _of_block(detail, chunk)


def _none(columns: int = 0) -> NDArray[np.uint8]:
    return np.empty((0, columns), np.uint8)


_NO_BITS: Final = BlockBits(_none(), _none(), _none())


def _of_block(detail: BlockDetail, chunk: Chunk) -> BlockDetail:
    """Describe a block whose bytes lie together."""
    name = detail.tensor.type.name
    raw = np.asarray(chunk.stored).reshape(-1).copy()
    fields = block_layout(name).fields
    bits = bits_of_type(name)
    if detail.tensor.byte_order == "big":
        order = np.arange(raw.size)
        swap_byte_order(name, order[None])  # type: ignore[arg-type] # places, not bytes
        bits = BlockBits(bits.codes[order], bits.scales[order], bits.minima[order])
    numbers = tuple(_numbers(field, raw, detail.scales) for field in fields)
    return replace(
        detail,
        fields=fields,
        numbers=numbers,
        sub_scales=sub_scales(name, raw),
        rows=grid_rows(name, detail.codes),
        bits=bits,
    )


def _of_group(detail: BlockDetail) -> BlockDetail:
    """Describe a group, whose bytes come from several arrays."""
    grouped = detail.tensor.grouped
    assert grouped is not None
    layout, fields = grouped.layout, group_fields(grouped.layout)
    raw = np.frombuffer(detail.stored, np.uint8)
    scale, minimum = np.empty((2, 1, 1), np.float32)
    unpack_group_scales(layout, stored_groups(layout, raw[None]), scale, minimum)
    numbers = tuple(_numbers(field, raw, scale[0]) for field in fields)
    described = replace(detail, fields=fields, numbers=numbers, bits=bits_of_layout(layout))
    return described if grouped.global_scale is None else _with_factor(described)


def _with_factor(detail: BlockDetail) -> BlockDetail:
    """Add the factor that a group shares with others, as one more field."""
    part = detail.parts[-1]
    raw = part.extent.source.read(part.extent.offset, part.extent.nbytes)
    shared = BlockField(part.name, part.first, len(raw), "f32", "factor that groups share")
    bits, more = detail.bits, len(raw)
    return replace(
        detail,
        stored=detail.stored + raw,
        fields=(*detail.fields, shared),
        numbers=(*detail.numbers, (float(np.frombuffer(raw, "<f4")[0]),)),
        bits=BlockBits(
            np.pad(bits.codes, ((0, more), (0, 0))),
            np.pad(bits.scales, ((0, more), (0, 0)), constant_values=255),
            np.pad(bits.minima, ((0, more), (0, 0))),
        ),
    )


def _parts(tensor: Tensor, index: int) -> tuple[BlockPart, ...]:
    """Return where the bytes of a block lie."""
    grouped = tensor.grouped
    if grouped is None:
        size = tensor.type.block_bytes
        extent = tensor.extents[0]
        place = Extent(extent.source, extent.offset + index * size, size)
        return (BlockPart("block", 0, place),)
    runs: list[tuple[str, Extent, int, int]] = [
        (field.name, getattr(grouped, field.name).extent, field.nbytes, index)
        for field in group_fields(grouped.layout)
    ]
    if grouped.global_scale is not None:
        factors = grouped.global_scale.extent
        several = factors.nbytes > _FACTOR_BYTES
        shared = index // grouped.groups_per_global_scale if several else 0
        runs.append(("global_scale", factors, _FACTOR_BYTES, shared))
    parts, first = [], 0
    for name, whole, size, number in runs:
        extent = Extent(whole.source, whole.offset + number * size, size)
        parts.append(BlockPart(name, first, extent))
        first += size
    return tuple(parts)


def _numbers(
    field: BlockField, raw: NDArray[np.uint8], scales: NDArray[np.float32]
) -> tuple[float, ...]:
    """Return the numbers that a field stores; none if it stores codes.

    Args:
        raw: uint8 [bytes], little-endian.
        scales: float32 [scales]: what small floats are worth.
    """
    if field.dtype in _SMALL_FLOATS:
        return tuple(scales.tolist())
    stored = raw[field.offset : field.offset + field.nbytes].tobytes()
    if field.dtype == "bf16":
        return (float((np.frombuffer(stored, "<u2").astype("<u4") << 16).view("<f4")[0]),)
    if field.dtype not in _NUMBERS:
        return ()
    numbers = np.frombuffer(stored, _NUMBERS[field.dtype])
    return tuple(numbers.tolist()) if numbers.size <= _MOST_NUMBERS else ()


def block_record(detail: BlockDetail, beside: Beside | None = None) -> dict[str, Any]:
    """Return a block as a record for JSON; numbers are exact, and None where not finite.

    Args:
        detail: The block.
        beside: What it is compared with.
    """
    row, column = place_of(detail)
    record: dict[str, Any] = {
        "tensor": detail.tensor.name,
        "type": detail.tensor.type.name,
        "block": detail.index,
        "row": row,
        "columns": [column, column + detail.values.size - 1],
        "parts": [
            {"name": part.name, "offset": part.extent.offset, "bytes": part.extent.nbytes}
            for part in detail.parts
        ],
        "bytes": detail.stored.hex(),
        "fields": [
            {
                "name": field.name,
                "offset": field.offset,
                "bytes": field.nbytes,
                "type": field.dtype,
                "meaning": field.meaning,
                "numbers": [_finite(number) for number in numbers],
            }
            for field, numbers in zip(detail.fields, detail.numbers, strict=True)
        ],
        "sub_blocks": [_sub_block(detail, sub) for sub in range(detail.scales.size)],
        "weights": [_weight(detail, weight, beside) for weight in range(detail.values.size)],
    }
    if beside is not None:
        record["reference"] = {
            "name": beside.pair.reference_name,
            "type": beside.pair.reference_type,
        }
        record["candidate"] = {
            "name": beside.pair.candidate_name,
            "type": beside.pair.candidate_type,
        }
    return record


def place_of(detail: BlockDetail) -> tuple[int, int]:
    """Return row and column of a block's first weight; rows are counted through all dimensions."""
    return divmod(detail.start, Folding(detail.tensor.shape).columns)


def _sub_block(detail: BlockDetail, sub: int) -> dict[str, Any]:
    first = sub * detail.weights_per_scale
    record: dict[str, Any] = {
        "weights": [first, first + detail.weights_per_scale - 1],
        "scale": _finite(float(detail.scales[sub])),
    }
    if detail.minima is not None:
        record["minimum"] = _finite(float(detail.minima[sub]))
    stored = detail.sub_scales
    if stored is not None:
        record["scale_factor"] = float(stored.scales[sub])
        if stored.minima is not None:
            record["minimum_factor"] = float(stored.minima[sub])
    return record


def _weight(detail: BlockDetail, weight: int, beside: Beside | None) -> dict[str, Any]:
    code = int(detail.codes[weight])
    record: dict[str, Any] = {"code": code, "level": _finite(float(detail.levels[code]))}
    if detail.rows is not None:
        record["row"] = int(detail.rows.indices[weight // detail.rows.group_weights])
    record["value"] = _finite(float(detail.values[weight]))
    if beside is not None:
        reference, candidate = float(beside.reference[weight]), float(beside.candidate[weight])
        record["reference"] = _finite(reference)
        record["candidate"] = _finite(candidate)
        record["error"] = _finite(candidate - reference)
    return record


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
