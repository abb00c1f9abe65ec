"""Packed integers of compressed-tensors, and of MLX and Ollama: codes of 1 to 8 bits along a row.

Source: `docs/hf_quantization.md`, section 3.5; compressed-tensors, compressors/pack_quantized
(`pack_to_int32`, `unpack_from_int32`), quantization/lifecycle/forward.py (`dequantize`). Of MLX:
`docs/safetensors_and_blobs.md`, section 4; mlx/backend/metal/kernels/quantized.h, `dequantize`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.huggingface.layout import CompanionLayout, LineReader, Lines, Parts
from explorer.quantization.huggingface.lines import (
    Ahead,
    order_of_groups,
    rows,
    unpack_dense,
    unpack_padded,
)
from explorer.quantization.registry import QuantizationError, read_only
from explorer.quantization.types import TENSOR_TYPES

Codes = NDArray[np.uint8]

_WORD: int = 4
_WORD_BITS: int = 32


class Packed(LineReader):
    """`weight_packed` I32 [out, words], `weight_scale` [out, groups].

    With zero points `weight_zero_point` I32, packed down the rows, [words, groups]; with columns in
    another order `weight_g_idx` I32 [in]. Option ``"padded"``: 1 where no code straddles words.
    """

    def __init__(self, layout: CompanionLayout, parts: Parts) -> None:
        super().__init__(layout, parts)
        self._padded = bool(layout.option("padded"))
        self._each = _WORD_BITS // layout.bits  # codes of a padded word
        self._scales = Ahead.of(parts["weight_scale"])
        self.groups = _groups(layout, parts)

    def _unpack(self, words: Codes, codes: Codes) -> None:
        """Unpack lines of words, uint8 [lines, 4 n], C-contiguous."""
        if self._padded:
            unpack_padded(read_only(words.view("<u4")), self.layout.bits, codes)
        else:
            unpack_dense(read_only(words), self.layout.bits, codes)

    def fill(self, first: int, lines: Lines) -> None:
        count, each = lines.scales.shape
        self._unpack(rows(self.parts["weight_packed"], first, count), lines.codes)
        scales = self._scales.read(first * each, count * each)
        lines.scales[:] = scales.reshape(count, each)
        if lines.zeros.shape[1]:
            codes = self._zero_codes(first, count)
            lines.zeros[:] = codes.astype(np.float32) - np.float32(1 << self.layout.bits >> 1)

    def _zero_words(self, first: int, count: int) -> tuple[int, int, int]:
        """Return the first row and the number of words of zero points, and codes to skip."""
        if self._padded:
            word, skipped = divmod(first, self._each)
            return word, -(-(first + count) // self._each) - word, skipped
        bits, skipped = self.layout.bits, first % _WORD_BITS  # codes that fill whole words
        word = (first - skipped) * bits // _WORD_BITS
        return word, -(-(first + count) * bits // _WORD_BITS) - word, skipped

    def _zero_codes(self, first: int, count: int) -> Codes:
        """Return the stored zero points of lines, uint8 [count, groups]."""
        word, words, skipped = self._zero_words(first, count)
        stored = rows(self.parts["weight_zero_point"], word, words)
        turned = np.ascontiguousarray(stored.view("<u4").T).view(np.uint8)
        codes = np.empty((len(turned), skipped + count), np.uint8)
        self._unpack(turned, codes)
        return codes[:, skipped:].T

    def places(self, first: int, count: int) -> tuple[tuple[str, int, int], ...]:
        line, column = divmod(first, self.layout.line)
        row = self.parts["weight_packed"].shape[1] * _WORD
        start, stop = self._words_of(column), self._words_of(column + count - 1) + 1
        found = [("weight_packed", line * row + start * _WORD, (stop - start) * _WORD)]
        each = self.layout.scales_of_line
        if self.groups is not None:
            found.append(("weight_g_idx", column * _WORD, count * _WORD))
        groups = self.groups_of(first, count)
        width = TENSOR_TYPES[self.parts["weight_scale"].dtype].block_bytes
        found += [("weight_scale", (line * each + group) * width, width) for group in groups]
        if "weight_zero_point" in self.parts:
            word, words, _ = self._zero_words(line, 1)
            last = range(word + words - 1, word + words)
            used = range(word, word + words) if not self._padded else last
            found += [
                ("weight_zero_point", (one * each + group) * _WORD, _WORD)
                for group in groups
                for one in used
            ]
        return tuple(found)

    def _words_of(self, column: int) -> int:
        """Return in which word of a row a code begins or ends."""
        if self._padded:
            return column // self._each
        return column * self.layout.bits // _WORD_BITS

    def code_bits(self, first: int, count: int, nbytes: int) -> NDArray[np.int32]:
        column, bits = first % self.layout.line, self.layout.bits
        place = np.arange(8 * nbytes, dtype=np.int32)
        if not self._padded:
            return (place - column * bits % _WORD_BITS) // bits
        in_word = place % _WORD_BITS // bits
        weights = place // _WORD_BITS * self._each + in_word - column % self._each
        return np.where(in_word < self._each, weights, -1).astype(np.int32)


class Affine(LineReader):
    """MLX's integers: codes in `weight`, and for each group one of `scales` and of `biases`."""

    def __init__(self, layout: CompanionLayout, parts: Parts) -> None:
        super().__init__(layout, parts)
        self._scales, self._biases = Ahead.of(parts["scales"]), Ahead.of(parts["biases"])

    def fill(self, first: int, lines: Lines) -> None:
        count, each = lines.scales.shape
        size = self.layout.line * self.layout.bits // 8
        packed = self.parts["weight"].read(first * size, count * size).reshape(count, size)
        unpack_dense(read_only(packed), self.layout.bits, lines.codes)
        lines.scales.reshape(-1)[:] = self._scales.read(first * each, count * each)
        np.negative(self._biases.read(first * each, count * each), out=lines.zeros.reshape(-1))

    def places(self, first: int, count: int) -> tuple[tuple[str, int, int], ...]:
        bits, group = self.layout.bits, first // self.layout.run
        found = [("weight", first * bits // 8, count * bits // 8)]
        for role in ("scales", "biases"):
            width = TENSOR_TYPES[self.parts[role].dtype].block_bytes
            found.append((role, group * width, width))
        return tuple(found)


def _groups(layout: CompanionLayout, parts: Parts) -> NDArray[np.int32] | None:
    """Return the group of each column where columns are in another order.

    Raises:
        QuantizationError: A number is not a group, or groups differ in size.
    """
    part = parts.get("weight_g_idx")
    if part is None:
        return None
    groups = part.read(0, part.nbytes).view("<i4").astype(np.int32)
    if not groups.size or groups.min() == -1:
        return None
    found = order_of_groups(layout, groups, "weight_g_idx")
    sizes = np.bincount(groups, minlength=layout.scales_of_line)
    if (sizes != layout.run).any():
        what = f"groups of weight_g_idx have {sizes.min()} to {sizes.max()} columns"
        raise QuantizationError(f"{what}, and should have {layout.run}")
    return found
