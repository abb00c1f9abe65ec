"""GPTQ and AWQ: integer codes in 32-bit words, a scale and a zero point for each group of a row.

GPTQ and AWQ's gemm kind store the matrix transposed, inputs downwards: a line here is a column
there. Words of a few columns are turned over first, which is an eighth of the work for codes of 4
bits, and unpacked then.

Source: `docs/hf_quantization.md`, sections 3.1 and 3.2; gptqmodel,
nn_modules/qlinear/__init__.py (`dequantize_weight`); autoawq, utils/packing_utils.py.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.huggingface.layout import CompanionLayout, LineReader, Lines, Parts
from explorer.quantization.huggingface.lines import (
    Columns,
    order_of_groups,
    rows,
    unpack_dense,
    widened,
)
from explorer.quantization.jit import f32, i32, kernel, u8, u32
from explorer.quantization.registry import read_only

Words = NDArray[np.uint32]

_AT_ONCE: Final = 32  # outputs that fill whole words of every width
_WORD: Final = 4

# What version 1 of the format subtracts from each word of zero points, borrows included
_ONES: Final = {2: 0x55555555, 4: 0x11111111, 8: 0x01010101}


def _words(stored: NDArray[np.uint8]) -> Words:
    """Return bytes, uint8 [n, 4 m], as little-endian words; rows may lie apart in memory.

    They are copied: to turn a matrix whose rows lie far apart costs twice as much.
    """
    return np.ascontiguousarray(stored).view("<u4")


def _turned(stored: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return words, uint8 [n, 4 m], transposed: uint8 [m, 4 n], C-contiguous."""
    return np.ascontiguousarray(_words(stored).T).view(np.uint8)


@kernel
def _unpack_zeros(words: Any, bits: Any, plus_one: Any, skipped: Any, zeros: Any) -> None:
    """Unpack zero points, dense along outputs; `plus_one` adds 1 to each field, without a carry.

    Args:
        words: uint32 [groups, words].
        skipped: Outputs in front of the first one that is wanted.
        zeros: float32 [outputs, groups]; is filled.
    """
    mask = u32((1 << bits) - 1)
    for g in range(words.shape[0]):
        for o in range(zeros.shape[0]):
            place = (skipped + o) * bits
            word, shift = place // 32, place % 32
            field = words[g, word] >> u32(shift)
            if shift + bits > 32:
                field |= words[g, word + 1] << u32(32 - shift)
            zeros[o, g] = f32(i32((field + u32(plus_one)) & mask))


class Gptq(LineReader):
    """GPTQ: `qweight` [in * bits / 32, out], `qzeros` and `scales` [groups, out], `g_idx` [in].

    Options: ``"stored_minus_one"``: 1 where zero points are stored so (version 1).
    """

    def __init__(self, layout: CompanionLayout, parts: Parts) -> None:
        super().__init__(layout, parts)
        self._outputs = parts["scales"].shape[1]
        self._weights = Columns(parts["qweight"])
        self._zeros = Columns(parts["qzeros"])
        self._scales = Columns(parts["scales"])
        self._minus_one = bool(layout.option("stored_minus_one"))
        g_idx = parts.get("g_idx")
        if g_idx is not None:
            groups = g_idx.read(0, g_idx.nbytes).view("<i4").astype(np.int32)
            self.groups = order_of_groups(layout, groups, "g_idx")

    def fill(self, first: int, lines: Lines) -> None:
        count = len(lines.codes)
        bits = self.layout.bits
        packed = _turned(self._weights.read(first, count))
        unpack_dense(read_only(packed), bits, lines.codes)
        skipped = first % _AT_ONCE
        word = (first - skipped) * bits // 32
        stop = -(-(first + count) * bits // 32)
        zeros = _words(self._zeros.read(word, stop - word))
        if self._minus_one and bits in _ONES:
            zeros = zeros + np.uint32(_ONES[bits])  # wraps, as it does in gptqmodel
        plus_one = int(self._minus_one and bits not in _ONES)
        _unpack_zeros(read_only(zeros), bits, plus_one, skipped, lines.zeros)
        _turn_scales(self._scales, first, self.parts["scales"].dtype, lines)

    def places(self, first: int, count: int) -> tuple[tuple[str, int, int], ...]:
        output, column = divmod(first, self.layout.line)
        bits, outputs = self.layout.bits, self._outputs
        start, stop = column * bits // 32, -(-(column + count) * bits // 32)
        found = [("qweight", (w * outputs + output) * _WORD, _WORD) for w in range(start, stop)]
        if self.groups is not None:
            found.append(("g_idx", column * _WORD, count * _WORD))
        groups = self.groups_of(first, count)
        width = self.parts["scales"].nbytes // (outputs * self.layout.scales_of_line)
        found += [("scales", (group * outputs + output) * width, width) for group in groups]
        row = self.parts["qzeros"].shape[1]
        word, stop = output * bits // 32, -(-(output + 1) * bits // 32)
        size = (stop - word) * _WORD
        found += [("qzeros", (group * row + word) * _WORD, size) for group in groups]
        return tuple(found)

    def code_bits(self, first: int, count: int, nbytes: int) -> NDArray[np.int32]:
        return _bits_of_words(self.layout, first, nbytes)


def _bits_of_words(layout: CompanionLayout, first: int, nbytes: int) -> NDArray[np.int32]:
    """Return the weights of a stream of bits that begins at a word; see `code_bits`."""
    skipped = first % layout.line * layout.bits % (8 * _WORD)
    return (np.arange(8 * nbytes, dtype=np.int32) - skipped) // layout.bits


def _turn_scales(scales: Columns, first: int, kind: str, lines: Lines) -> None:
    """Fill the scales of lines from columns of a matrix [groups, out]."""
    count = len(lines.scales)
    stored = scales.read(first, count)
    lines.scales[:] = widened(stored, kind).reshape(-1, count).T


@kernel
def _unpack_awq(words: Any, skipped: Any, codes: Any) -> None:
    """Unpack eight outputs of a word: output k is in nibble 0 4 1 5 2 6 3 7.

    Args:
        words: uint32 [words, n]: a row for each eight outputs.
        skipped: Outputs of the first word that are not wanted.
        codes: uint8 [outputs, n]; is filled.
    """
    for o in range(codes.shape[0]):
        word, k = (skipped + o) // 8, (skipped + o) % 8
        shift = u32(4 * (k // 2 + k % 2 * 4))
        for i in range(codes.shape[1]):
            codes[o, i] = u8((words[word, i] >> shift) & u32(15))


class AwqGemm(LineReader):
    """AWQ's gemm kind: `qweight` [in, out / 8], `qzeros` [groups, out / 8], `scales`."""

    def __init__(self, layout: CompanionLayout, parts: Parts) -> None:
        super().__init__(layout, parts)
        self._outputs = parts["scales"].shape[1]
        self._weights = Columns(parts["qweight"])
        self._zeros = Columns(parts["qzeros"])
        self._scales = Columns(parts["scales"])

    def fill(self, first: int, lines: Lines) -> None:
        count = len(lines.codes)
        word, skipped = divmod(first, 8)
        words = -(-(first + count) // 8) - word
        packed = np.ascontiguousarray(_words(self._weights.read(word, words)).T)
        _unpack_awq(read_only(packed), skipped, lines.codes)
        packed = np.ascontiguousarray(_words(self._zeros.read(word, words)).T)
        codes = np.empty(lines.zeros.shape, np.uint8)
        _unpack_awq(read_only(packed), skipped, codes)
        lines.zeros[:] = codes
        _turn_scales(self._scales, first, self.parts["scales"].dtype, lines)

    def places(self, first: int, count: int) -> tuple[tuple[str, int, int], ...]:
        output, column = divmod(first, self.layout.line)
        words, word = self._outputs // 8, output // 8
        inputs = range(column, column + count)
        found = [("qweight", (i * words + word) * _WORD, _WORD) for i in inputs]
        group = column // self.layout.run
        width = self.parts["scales"].nbytes // (self._outputs * self.layout.scales_of_line)
        found.append(("scales", (group * self._outputs + output) * width, width))
        found.append(("qzeros", (group * words + word) * _WORD, _WORD))
        return tuple(found)

    def code_bits(self, first: int, count: int, nbytes: int) -> NDArray[np.int32]:
        k = first // self.layout.line % 8
        nibble = k // 2 + k % 2 * 4
        own = np.arange(8 * _WORD) // 4 == nibble
        weights = np.arange(nbytes // _WORD, dtype=np.int32)[:, None]
        return np.where(own, weights, -1).astype(np.int32).reshape(-1)


class AwqGemv(LineReader):
    """AWQ's gemv kind: `qweight` [out, in / 8], `qzeros` and `scales` of each output, padded."""

    def fill(self, first: int, lines: Lines) -> None:
        count, groups = lines.scales.shape
        unpack_dense(read_only(rows(self.parts["qweight"], first, count)), 4, lines.codes)
        codes = np.empty(lines.zeros.shape, np.uint8)
        unpack_dense(read_only(rows(self.parts["qzeros"], first, count)), 4, codes)
        lines.zeros[:] = codes
        scales = self.parts["scales"]
        stored = rows(scales, first, count)
        lines.scales[:] = widened(stored, scales.dtype).reshape(count, -1)[:, :groups]

    def places(self, first: int, count: int) -> tuple[tuple[str, int, int], ...]:
        output, column = divmod(first, self.layout.line)
        words, zeros = (self.parts[name].shape[1] for name in ("qweight", "qzeros"))
        start, stop = column // 8, -(-(column + count) // 8)
        group = column // self.layout.run
        width = self.parts["scales"].nbytes // (self.parts["scales"].shape[0] * 8 * zeros)
        return (
            ("qweight", (output * words + start) * _WORD, (stop - start) * _WORD),
            ("scales", (output * 8 * zeros + group) * width, width),
            ("qzeros", (output * zeros + group // 8) * _WORD, _WORD),
        )

    def code_bits(self, first: int, count: int, nbytes: int) -> NDArray[np.int32]:
        return _bits_of_words(self.layout, first, nbytes)
