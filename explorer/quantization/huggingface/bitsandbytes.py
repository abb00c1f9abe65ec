"""bitsandbytes: NF4 and FP4 by a table of 16 values, and LLM.int8 with a scale for each row.

Four-bit codes run through the whole weight, over the ends of rows, in blocks that share a scale;
scales may themselves be codes of a table with scales ("double quantization").

Source: `docs/hf_quantization.md`, section 3.3; bitsandbytes, functional.py (`dequantize_4bit`,
`dequantize_blockwise`), backends/default/ops.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.huggingface.layout import (
    ONE_127TH,
    CompanionLayout,
    LineReader,
    Lines,
    Parts,
)
from explorer.quantization.huggingface.lines import Ahead, elements, unpack_nibbles
from explorer.quantization.registry import read_only


class FourBits(LineReader):
    """NF4 and FP4: `weight` of nibbles, `absmax` of each block, `quant_map` of 16 values.

    Options: ``"block"``, weights of a block; with double quantization also ``"nested_block"``,
    scales of a nested block, and ``"nested_offset"``, a float32 that is added to each scale.
    """

    def __init__(self, layout: CompanionLayout, parts: Parts) -> None:
        super().__init__(layout, parts)
        self._block = int(layout.option("block"))
        self._nested_block = int(layout.option("nested_block", 0))
        self._offset = np.float32(layout.option("nested_offset", 0.0))
        self._nested: tuple[NDArray[np.float32], ...] = ()
        if self._nested_block:
            table = self.parts["weight.nested_quant_map"]
            self._nested = (elements(table, 0, 256),)
        blocks = -(-layout.parameters // self._block)
        self._scales = Ahead(blocks, self._absmax)

    def stored_levels(self) -> NDArray[np.float32]:
        return elements(self.parts["weight.quant_map"], 0, 16)

    def fill(self, first: int, lines: Lines) -> None:
        count, line = lines.codes.shape
        start, stop = first * line, (first + count) * line
        low = start // 2
        packed = self.parts["weight"].read(low, -(-stop // 2) - low)
        if start % 2 or stop % 2:
            codes = np.empty(2 * packed.size, np.uint8)
            unpack_nibbles(read_only(packed), True, codes)
            lines.codes.reshape(-1)[:] = codes[start % 2 :][: stop - start]
        else:
            unpack_nibbles(read_only(packed), True, lines.codes.reshape(-1))
        if line == self._block:
            lines.scales[:, 0] = self._scales.read(first, count)
        elif count:
            blocks = np.arange(start, stop, line) // self._block
            lowest = int(blocks[0])
            absmax = self._scales.read(lowest, int(blocks[-1]) + 1 - lowest)
            lines.scales[:, 0] = absmax[blocks - lowest]

    def _absmax(self, first: int, count: int) -> NDArray[np.float32]:
        """Return scales of blocks, float32 [count]."""
        part = self.parts["weight.absmax"]
        if not self._nested_block:
            return elements(part, first, count)
        if not count:
            return np.empty(0, np.float32)
        lowest = first // self._nested_block
        highest = (first + count - 1) // self._nested_block
        scales = elements(self.parts["weight.nested_absmax"], lowest, highest + 1 - lowest)
        skipped = first - lowest * self._nested_block
        with np.errstate(over="ignore", invalid="ignore"):
            found = self._nested[0][part.read(first, count)]
            found *= scales.repeat(self._nested_block)[skipped : skipped + count]
            found += self._offset
            return found

    def places(self, first: int, count: int) -> tuple[tuple[str, int, int], ...]:
        block = first // self._block
        width = 1 if self._nested_block else 4
        found = [
            ("weight", first // 2, -(-(first + count) // 2) - first // 2),
            ("weight.absmax", block * width, width),
        ]
        if self._nested_block:
            found.append(("weight.nested_absmax", block // self._nested_block * 4, 4))
        return tuple(found)

    def code_bits(self, first: int, count: int, nbytes: int) -> NDArray[np.int32]:
        bits = np.arange(8 * nbytes, dtype=np.int32)
        return bits // 8 * 2 + (bits % 8 < 4) - first % 2  # the high nibble comes first


class Int8(LineReader):
    """LLM.int8: `weight` I8 [out, in], `SCB` the largest magnitude of each row."""

    signed = True

    def __init__(self, layout: CompanionLayout, parts: Parts) -> None:
        super().__init__(layout, parts)
        self._largest = Ahead.of(parts["SCB"])

    def fill(self, first: int, lines: Lines) -> None:
        count, line = lines.codes.shape
        self.parts["weight"].read_into(first * line, lines.codes.reshape(-1))
        lines.scales[:, 0] = self._largest.read(first, count)
        lines.zeros[:, 0] = ONE_127TH

    def places(self, first: int, count: int) -> tuple[tuple[str, int, int], ...]:
        return ("weight", first, count), ("SCB", first // self.layout.line * 4, 4)
