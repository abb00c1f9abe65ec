"""Codes of a byte or half a byte: FP8, FP4 and int8, with a scale for each tile or group of a row.

Source: `docs/hf_quantization.md`, sections 3.4 to 3.7 and 3.10; compressed-tensors,
compressors/nvfp4; ModelOpt, quantization/qtensor/nvfp4_tensor.py; transformers,
integrations/mxfp4.py (`convert_moe_packed_tensors`); torchao, quantization/quantize_.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.huggingface.layout import (
    POWER,
    CompanionLayout,
    Formula,
    Levels,
    LineReader,
    Lines,
    Part,
    Parts,
)
from explorer.quantization.huggingface.lines import (
    Ahead,
    elements,
    unpack_nibbles,
    unpack_paired_rows,
)
from explorer.quantization.registry import read_only
from explorer.quantization.types import E2M1, E8M0_OF_MLX, TENSOR_TYPES

Floats = NDArray[np.float32]


def _scales(part: Part, kind: str) -> Ahead:
    """Return the scales of a part; `kind` is their true type, or "" for the stored one."""
    if kind == POWER:
        return Ahead(part.nbytes, lambda first, count: E8M0_OF_MLX[part.read(first, count)])
    return Ahead.of(part, kind or None)


def _width(part: Part) -> int:
    return TENSOR_TYPES[part.dtype].block_bytes


class Tiles(LineReader):
    """A byte for each weight, and a scale for each tile of a matrix.

    Options: ``"codes"``, ``"scales"``, ``"zeros"``: roles of the parts, zeros "" where there are
    none. ``"rows"``: rows of a matrix. ``"tile_rows"``: rows of a tile. ``"scale_type"``: the true
    type of scales, "" for the stored one.
    """

    def __init__(self, layout: CompanionLayout, parts: Parts) -> None:
        super().__init__(layout, parts)
        self._codes = str(layout.option("codes"))
        self._scale_role = str(layout.option("scales"))
        self._zero_role = str(layout.option("zeros", ""))
        self._kind = str(layout.option("scale_type", ""))
        self._rows = int(layout.option("rows"))
        self._tile_rows = int(layout.option("tile_rows"))
        self.signed = self.parts[self._codes].dtype == "I8"
        self._scales = _scales(parts[self._scale_role], self._kind)
        self._zeros = Ahead.of(parts[self._zero_role]) if self._zero_role else None

    def _tile_row(self, lines: Any) -> Any:
        """Return in which row of tiles lines are."""
        matrix, row = np.divmod(lines, self._rows)
        return matrix * -(-self._rows // self._tile_rows) + row // self._tile_rows

    def fill(self, first: int, lines: Lines) -> None:
        count, line = lines.codes.shape
        self.parts[self._codes].read_into(first * line, lines.codes.reshape(-1))
        if not count:
            return
        each = lines.scales.shape[1]
        tiles: Any = slice(None)  # a row of a matrix is one of tiles
        lowest, used = first, count
        if self._tile_rows > 1:
            tiles = self._tile_row(np.arange(first, first + count))
            lowest = int(tiles[0])
            used = int(tiles[-1]) + 1 - lowest
            tiles -= lowest
        for numbers, out in ((self._scales, lines.scales), (self._zeros, lines.zeros)):
            if numbers is not None:
                out[:] = numbers.read(lowest * each, used * each).reshape(used, each)[tiles]

    def places(self, first: int, count: int) -> tuple[tuple[str, int, int], ...]:
        line, column = divmod(first, self.layout.line)
        place = int(self._tile_row(line)) * self.layout.scales_of_line + column // self.layout.run
        found = [(self._codes, first, count)]
        for role in filter(None, (self._scale_role, self._zero_role)):
            width = _width(self.parts[role])
            found.append((role, place * width, width))
        return tuple(found)


class Fp4(LineReader):
    """E2M1 codes, two to a byte, the low one first, and a scale for each group of a row.

    Options: ``"codes"``, ``"scales"``: roles of the parts. ``"scale_type"``: as in `Tiles`.
    ``"factor"`` or ``"divisor"``: role of a number that all scales are multiplied or divided by,
    before anything else; or, of the formula `TWICE`, the part `global_scale` has factors, each for
    ``"per_factor"`` groups. With stored levels, as of ModelOpt, code 8 is 0 rather than -0.
    """

    def __init__(self, layout: CompanionLayout, parts: Parts) -> None:
        super().__init__(layout, parts)
        self._codes = str(layout.option("codes"))
        self._scale_role = str(layout.option("scales"))
        self._kind = str(layout.option("scale_type", ""))
        self._scales = _scales(parts[self._scale_role], self._kind)
        self._factor = self._number("factor")
        self._divisor = self._number("divisor")
        self._per_factor = 0
        if layout.formula is Formula.TWICE:
            self._per_factor = int(layout.option("per_factor"))
            self._factors = Ahead.of(parts["global_scale"])

    def _number(self, option: str) -> np.float32 | None:
        role = self.layout.option(option)
        return None if role is None else elements(self.parts[role], 0, 1)[0]

    def stored_levels(self) -> Floats:
        if self.layout.levels is not Levels.STORED:
            return self.layout.level_values()
        return np.where(E2M1 == 0, np.float32(0), E2M1).astype(np.float32)

    def fill(self, first: int, lines: Lines) -> None:
        count, line = lines.codes.shape
        packed = self.parts[self._codes].read(first * line // 2, count * line // 2)
        unpack_nibbles(read_only(packed), False, lines.codes.reshape(-1))
        each = lines.scales.shape[1]
        scales = self._scales.read(first * each, count * each)
        with np.errstate(all="ignore"):  # stored numbers may be anything
            if self._factor is not None:
                scales = scales * self._factor
            if self._divisor is not None:
                scales = scales / self._divisor
        lines.scales[:] = scales.reshape(count, each)
        if self._per_factor and count:
            groups = np.arange(first * each, (first + count) * each) // self._per_factor
            lowest = int(groups[0])
            factors = self._factors.read(lowest, int(groups[-1]) + 1 - lowest)
            lines.zeros[:] = factors[groups - lowest].reshape(count, each)

    def places(self, first: int, count: int) -> tuple[tuple[str, int, int], ...]:
        line, column = divmod(first, self.layout.line)
        place = line * self.layout.scales_of_line + column // self.layout.run
        width = _width(self.parts[self._scale_role])
        found = [
            (self._codes, first // 2, -(-(first + count) // 2) - first // 2),
            (self._scale_role, place * width, width),
        ]
        for option in ("factor", "divisor"):
            role = self.layout.option(option)
            if role is not None:
                found.append((role, 0, _width(self.parts[role])))
        if self._per_factor:
            found.append(("global_scale", place // self._per_factor * 4, 4))
        return tuple(found)


class PairedRows(LineReader):
    """ModelOpt's W4A16_AWQ: a byte holds the 4-bit codes of two rows, the even row's below.

    `weight` U8 [out / 2, in] of two's complement, `weight_scale` [out, groups].
    """

    def fill(self, first: int, lines: Lines) -> None:
        count, line = lines.codes.shape
        low = first // 2
        packed = self.parts["weight"].read(low * line, (-(-(first + count) // 2) - low) * line)
        unpack_paired_rows(read_only(packed.reshape(-1, line)), first % 2, lines.codes)
        each = lines.scales.shape[1]
        scales = elements(self.parts["weight_scale"], first * each, count * each)
        lines.scales[:] = scales.reshape(count, each)

    def places(self, first: int, count: int) -> tuple[tuple[str, int, int], ...]:
        row, column = divmod(first, self.layout.line)
        place = row * self.layout.scales_of_line + column // self.layout.run
        width = _width(self.parts["weight_scale"])
        return (
            ("weight", row // 2 * self.layout.line + column, count),
            ("weight_scale", place * width, width),
        )

    def code_bits(self, first: int, count: int, nbytes: int) -> NDArray[np.int32]:
        bits = np.arange(8 * nbytes, dtype=np.int32)
        own = bits % 8 // 4 == first // self.layout.line % 2
        return np.where(own, bits // 8, -1).astype(np.int32)
